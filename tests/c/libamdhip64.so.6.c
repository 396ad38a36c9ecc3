// The runtime of HIP on a machine without a device: the same devices by other names. Programs of
// tests allocate memory by the names of CUDA.
#include "fake_devices.h"

static __thread int current;

static int on_current(void) {
    cuInit(0);
    depth = 0;
    stack[depth++] = &primary[current];
    return SUCCESS;
}

int hipGetDeviceCount(int *count) {
    MAY_FAIL();
    cuInit(0);
    return cuDeviceGetCount(count);
}

int hipDeviceGetName(char *name, int room, int device) {
    MAY_FAIL();
    return cuDeviceGetName(name, room, device);
}

int hipDeviceGetPCIBusId(char *name, int room, int device) {
    MAY_FAIL();
    return cuDeviceGetPCIBusId(name, room, device);
}

int hipDeviceTotalMem(size_t *bytes, int device) {
    MAY_FAIL();
    return cuDeviceTotalMem_v2(bytes, device);
}

int hipRuntimeGetVersion(int *version) {
    MAY_FAIL();
    *version = 60342134;
    return SUCCESS;
}

int hipDeviceCanAccessPeer(int *can, int device, int other) {
    MAY_FAIL();
    return cuDeviceCanAccessPeer(can, device, other);
}

const char *hipGetErrorName(int error) {
    if (fails(__func__)) return NULL;
    switch (error) {
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case INVALID_HANDLE: return "hipErrorInvalidHandle";
    case NO_PEER_ACCESS: return "hipErrorPeerAccessUnsupported";
    default: return "hipErrorUnknown";
    }
}

int hipDrvPointerGetAttributes(unsigned count, const int *attributes, void **data, void *address) {
    MAY_FAIL();
    cuInit(0);
    return cuPointerGetAttributes(count, attributes, data, (uintptr_t)address);
}

int hipGetDevice(int *device) {
    MAY_FAIL();
    *device = current;
    return SUCCESS;
}

// The current context of a program that calls CUDA's names is left as it was.
static __thread context *outer[STACK];
static __thread int outer_depth, nesting;

int hipSetDevice(int device) {
    must_not_be_in_host_function(__func__);
    int failed = fails(__func__) ? INJECTED : SUCCESS;
    if (!is_device(device)) return NO_DEVICE;
    if (nesting % 2 == 0) {
        if (failed) return failed;
        nesting++;
        memcpy(outer, stack, sizeof stack);
        outer_depth = depth;
        current = device;
        return on_current();
    }
    nesting++;
    memcpy(stack, outer, sizeof stack);
    depth = outer_depth;
    current = device;
    return failed;
}

int hipStreamCreateWithFlags(stream **out, unsigned flags) {
    MAY_FAIL();
    return cuStreamCreate(out, flags);
}

int hipStreamSynchronize(stream *of) {
    cuStreamSynchronize(of);
    MAY_FAIL();
    return SUCCESS;
}

int hipEventCreateWithFlags(event **out, unsigned flags) {
    MAY_FAIL();
    return cuEventCreate(out, flags);
}

int hipEventRecord(event *of, stream *on) {
    MAY_FAIL();
    return cuEventRecord(of, on);
}

int hipEventQuery(event *of) {
    MAY_FAIL();
    return cuEventQuery(of);
}

int hipEventSynchronize(event *of) {
    cuEventSynchronize(of);
    MAY_FAIL();
    return SUCCESS;
}

int hipEventDestroy(event *of) {
    MAY_FAIL();
    return cuEventDestroy_v2(of);
}

// Where a copy finds the bytes: on the device if the address is one of it.
static void *place_of(const void *address, size_t bytes, int *is_device) {
    void *found = reached((uintptr_t)address, bytes);
    *is_device = found != NULL;
    int is_hidden = 0;
    for (int device = 0; device < DEVICES; device++)
        is_hidden |= (char *)address >= arenas[device] && (char *)address < arenas[device] + ARENA;
    return found ? found : is_hidden ? NULL : (void *)address;
}

int hipMemcpyAsync(void *to, const void *from, size_t bytes, int way, stream *on) {
    MAY_FAIL();
    if (way != 4) return INVALID_VALUE;
    int device[2];
    copy wanted = line(place_of(to, bytes, &device[0]), place_of(from, bytes, &device[1]), bytes);
    if (device[0] && device[1]) __atomic_add_fetch(&direct_copies, 1, __ATOMIC_RELAXED);
    return queue(on, wanted);
}

int hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                     int way, stream *on) {
    MAY_FAIL();
    if (way != 4 || to_pitch < width || from_pitch < width) return INVALID_VALUE;
    int device[2];
    size_t rows = height ? height - 1 : 0;
    copy wanted = {
        .to = place_of(to, rows * to_pitch + width, &device[0]),
        .from = place_of(from, rows * from_pitch + width, &device[1]),
        .width = width, .height = height, .to_pitch = to_pitch, .from_pitch = from_pitch,
    };
    if (device[0] && device[1]) __atomic_add_fetch(&direct_copies, 1, __ATOMIC_RELAXED);
    return queue(on, wanted);
}

int hipMemGetAddressRange(void **base, size_t *bytes, void *address) {
    MAY_FAIL();
    return cuMemGetAddressRange_v2((uintptr_t *)base, bytes, (uintptr_t)address);
}

int hipIpcGetMemHandle(handle_bytes *out, void *address) {
    MAY_FAIL();
    return cuIpcGetMemHandle(out, (uintptr_t)address);
}

int hipIpcOpenMemHandle(void **address, handle_bytes given, unsigned flags) {
    MAY_FAIL();
    return cuIpcOpenMemHandle_v2((uintptr_t *)address, given, flags);
}

int hipIpcCloseMemHandle(void *address) {
    MAY_FAIL();
    return cuIpcCloseMemHandle((uintptr_t)address);
}

int hipHostRegister(void *address, size_t bytes, unsigned flags) {
    MAY_FAIL();
    return cuMemHostRegister_v2(address, bytes, flags);
}

int hipHostUnregister(void *address) {
    MAY_FAIL();
    return cuMemHostUnregister(address);
}

