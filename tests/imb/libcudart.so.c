// The runtime library of CUDA on a machine without a device, with the functions that the Intel MPI
// Benchmarks look up in it (tests/imb). As the real one it uses the driver's library, of
// tests/c/libcuda.so.1.c, and the primary context of the device.
#include <stddef.h>
#include <stdint.h>

enum { TYPE_DEVICE = 2, ATTRIBUTE_TYPE = 2, ATTACH_GLOBAL = 1 };

int cuInit(unsigned);
int cuDeviceGetCount(int *);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxGetCurrent(void **);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(uintptr_t *, size_t);
int cuMemAllocHost_v2(void **, size_t);
int cuMemAllocManaged(uintptr_t *, size_t, unsigned);
int cuMemFree_v2(uintptr_t);
int cuMemFreeHost(void *);
int cuPointerGetAttributes(unsigned, const int *, void **, uintptr_t);
int cuStreamCreate(void **, unsigned);
int cuStreamSynchronize(void *);
int cuMemcpyDtoHAsync_v2(void *, uintptr_t, size_t, void *);
int cuMemcpyHtoDAsync_v2(uintptr_t, const void *, size_t, void *);
int cuMemcpyDtoDAsync_v2(uintptr_t, uintptr_t, size_t, void *);

// The primary context, which a thread has from its first call on.
static int begin(void) {
    static void *context;
    void *now = NULL;
    cuInit(0);
    cuCtxGetCurrent(&now);
    if (now) return 0;
    int failed = context ? 0 : cuDevicePrimaryCtxRetain(&context, 0);
    return failed ? failed : cuCtxSetCurrent(context);
}

int cudaGetDeviceCount(int *count) {
    int failed = begin();
    return failed ? failed : cuDeviceGetCount(count);
}

int cudaMalloc(void **memory, size_t bytes) {
    int failed = begin();
    return failed ? failed : cuMemAlloc_v2((uintptr_t *)memory, bytes);
}

int cudaMallocHost(void **memory, size_t bytes) {
    int failed = begin();
    return failed ? failed : cuMemAllocHost_v2(memory, bytes);
}

int cudaMallocManaged(void **memory, size_t bytes, unsigned flags) {
    int failed = begin();
    return failed ? failed : cuMemAllocManaged((uintptr_t *)memory, bytes, flags ? flags : ATTACH_GLOBAL);
}

int cudaFree(void *memory) { return memory ? cuMemFree_v2((uintptr_t)memory) : 0; }

int cudaFreeHost(void *memory) { return memory ? cuMemFreeHost(memory) : 0; }

int cudaStreamCreate(void **stream) {
    int failed = begin();
    return failed ? failed : cuStreamCreate(stream, 0);
}

// The driver of the tests has no end of streams.
int cudaStreamDestroy(void *stream) { return stream ? cuStreamSynchronize(stream) : 0; }

int cudaStreamSynchronize(void *stream) { return stream ? cuStreamSynchronize(stream) : 0; }

static int is_on_device(const void *memory) {
    unsigned type = 0;
    const int attribute = ATTRIBUTE_TYPE;
    void *place = &type;
    return cuPointerGetAttributes(1, &attribute, &place, (uintptr_t)memory) == 0 && type == TYPE_DEVICE;
}

// Whatever the kind says, the addresses tell the direction, as with cudaMemcpyDefault.
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    int failed = begin();
    (void)kind;
    if (failed) return failed;
    uintptr_t target = (uintptr_t)to, source = (uintptr_t)from;
    if (is_on_device(to)) {
        if (is_on_device(from)) return cuMemcpyDtoDAsync_v2(target, source, bytes, stream);
        return cuMemcpyHtoDAsync_v2(target, from, bytes, stream);
    }
    if (is_on_device(from)) return cuMemcpyDtoHAsync_v2(to, source, bytes, stream);
    __builtin_memcpy(to, from, bytes);
    return 0;
}
