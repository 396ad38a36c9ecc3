// Memory of the kinds that programs with graphics processors use: on fake_devices.h, or on a
// device, with the driver's own library loaded first (bench/devices). Then nothing is counted.
#ifndef DEVICES_H
#define DEVICES_H

#include "check.h"

#include <dlfcn.h>

enum { HOST, DEVICE, SECOND_DEVICE, POOL, MANAGED, PINNED, MAPPED, SHARED_POOL, KINDS };
static const char *const kind_names[] MAYBE_UNUSED = {
    "host", "device", "second device", "pool", "managed", "pinned", "mapped", "shared pool",
};

#define DRIVER(result, name, ...) static result (*name)(__VA_ARGS__) MAYBE_UNUSED
DRIVER(int, cuInit, unsigned);
DRIVER(int, cuDevicePrimaryCtxRetain, void **, int);
DRIVER(int, cuCtxSetCurrent, void *);
DRIVER(int, cuCtxGetCurrent, void **);
DRIVER(int, cuMemAlloc_v2, uintptr_t *, size_t);
DRIVER(int, cuMemAllocAsync, uintptr_t *, size_t, void *);
DRIVER(int, cuMemAllocManaged, uintptr_t *, size_t, unsigned);
DRIVER(int, cuMemAllocHost_v2, void **, size_t);
DRIVER(int, cuMemFree_v2, uintptr_t);
DRIVER(int, cuMemFreeHost, void *);
DRIVER(int, cuDeviceGetCount, int *);
DRIVER(int, cuStreamSynchronize, void *);
DRIVER(int, cuMemcpyDtoH_v2, void *, uintptr_t, size_t);
DRIVER(int, cuMemcpyHtoD_v2, uintptr_t, const void *, size_t);
DRIVER(int, cuMemCreate, uint64_t *, size_t, const void *, uint64_t);
DRIVER(int, cuMemRelease, uint64_t);
DRIVER(int, cuMemAddressReserve, uintptr_t *, size_t, size_t, uintptr_t, uint64_t);
DRIVER(int, cuMemAddressFree, uintptr_t, size_t);
DRIVER(int, cuMemMap, uintptr_t, size_t, size_t, uint64_t, uint64_t);
DRIVER(int, cuMemUnmap, uintptr_t, size_t);
DRIVER(int, cuMemSetAccess, uintptr_t, size_t, const void *, size_t);
DRIVER(int, cuMemGetAllocationGranularity, size_t *, const void *, int);
DRIVER(int, cuMemGetAddressRange_v2, uintptr_t *, size_t *, uintptr_t);
DRIVER(int, cuMemPoolCreate, void **, const void *);
DRIVER(int, cuMemAllocFromPoolAsync, uintptr_t *, size_t, void *, void *);
DRIVER(void, fake_device_counts, long *);
DRIVER(void, fake_device_fail, const char *);

static void *device_contexts[2], *shared_pool;

// What was done and what exists.
typedef struct {
    long copies, direct, events, imports, registrations, streams;
} device_counts;

static device_counts MAYBE_UNUSED counts_of_devices(void) {
    device_counts counts = {0};
    if (fake_device_counts) fake_device_counts((long *)&counts);
    return counts;
}

// Whether what was done is counted, and functions can be let fail.
static int MAYBE_UNUSED are_counted(void) { return fake_device_counts != NULL; }

#define DRIVER_OK(call) do { int code_ = (call); REQUIRE(code_ == 0, "%s returned %d", #call, code_); } while (0)

static void MAYBE_UNUSED devices_begin(void) {
#define LOOK_FOR(name) (name = (__typeof__(name))dlsym(RTLD_DEFAULT, #name))
#define FIND(name) REQUIRE(LOOK_FOR(name), "no %s", #name)
    FIND(cuInit); FIND(cuDevicePrimaryCtxRetain); FIND(cuCtxSetCurrent); FIND(cuCtxGetCurrent);
    FIND(cuMemAlloc_v2); FIND(cuMemAllocAsync); FIND(cuMemAllocManaged); FIND(cuMemAllocHost_v2);
    FIND(cuMemFree_v2); FIND(cuMemcpyDtoH_v2); FIND(cuMemcpyHtoD_v2); FIND(cuMemCreate);
    FIND(cuMemRelease); FIND(cuMemAddressReserve); FIND(cuMemAddressFree); FIND(cuMemMap); FIND(cuMemUnmap);
    FIND(cuMemGetAddressRange_v2); FIND(cuMemPoolCreate); FIND(cuMemAllocFromPoolAsync); FIND(cuMemFreeHost);
    FIND(cuDeviceGetCount); FIND(cuStreamSynchronize); FIND(cuMemSetAccess); FIND(cuMemGetAllocationGranularity);
    LOOK_FOR(fake_device_counts);
    LOOK_FOR(fake_device_fail);
    DRIVER_OK(cuInit(0));
    // The only device is the second one, too.
    int devices = 0;
    DRIVER_OK(cuDeviceGetCount(&devices));
    for (int device = 0; device < 2; device++)
        DRIVER_OK(cuDevicePrimaryCtxRetain(&device_contexts[device], device % devices));
    DRIVER_OK(cuCtxSetCurrent(device_contexts[0]));
    // CUmemPoolProps: pinned memory of device 0, whose handles are descriptors.
    const int properties[32] = {1, 1, 1, 0};
    DRIVER_OK(cuMemPoolCreate(&shared_pool, properties));
}

static uintptr_t MAYBE_UNUSED map_memory(size_t bytes) {
    // CUmemAllocationProp as above, CUmemAccessDesc: device 0 reads and writes.
    const int properties[8] = {1, 1, 1, 0}, access[3] = {1, 0, 3};
    uint64_t memory;
    uintptr_t address;
    size_t unit;
    DRIVER_OK(cuMemGetAllocationGranularity(&unit, properties, 0));
    bytes = (bytes + unit - 1) / unit * unit;
    DRIVER_OK(cuMemCreate(&memory, bytes, properties, 0));
    DRIVER_OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    DRIVER_OK(cuMemMap(address, bytes, 0, memory, 0));
    DRIVER_OK(cuMemSetAccess(address, bytes, access, 1));
    DRIVER_OK(cuMemRelease(memory));
    return address;
}

static void *MAYBE_UNUSED device_memory(int kind, size_t bytes) {
    uintptr_t address = 0;
    void *host = NULL;
    switch (kind) {
    case HOST: return malloc(bytes);
    case DEVICE: DRIVER_OK(cuMemAlloc_v2(&address, bytes)); break;
    case SECOND_DEVICE:
        DRIVER_OK(cuCtxSetCurrent(device_contexts[1]));
        DRIVER_OK(cuMemAlloc_v2(&address, bytes));
        DRIVER_OK(cuCtxSetCurrent(device_contexts[0]));
        break;
    case POOL: DRIVER_OK(cuMemAllocAsync(&address, bytes, NULL)); break;
    case MAPPED: address = map_memory(bytes); break;
    case SHARED_POOL: DRIVER_OK(cuMemAllocFromPoolAsync(&address, bytes, shared_pool, NULL)); break;
    case MANAGED: DRIVER_OK(cuMemAllocManaged(&address, bytes, 1)); break;
    default: DRIVER_OK(cuMemAllocHost_v2(&host, bytes)); return host;
    }
    // Memory of pools exists when the stream has come to it.
    if (kind == POOL || kind == SHARED_POOL) DRIVER_OK(cuStreamSynchronize(NULL));
    return (void *)address;
}

static int MAYBE_UNUSED is_on_device(int kind) { return kind != HOST && kind != PINNED; }

static void MAYBE_UNUSED device_free(int kind, void *memory) {
    if (kind == HOST) free(memory);
    else if (kind == PINNED) DRIVER_OK(cuMemFreeHost(memory));
    else if (kind == MAPPED) {
        uintptr_t base;
        size_t bytes;
        DRIVER_OK(cuMemGetAddressRange_v2(&base, &bytes, (uintptr_t)memory));
        DRIVER_OK(cuMemUnmap(base, bytes));
        DRIVER_OK(cuMemAddressFree(base, bytes));
    } else DRIVER_OK(cuMemFree_v2((uintptr_t)memory));
}

static void MAYBE_UNUSED device_set(int kind, void *to, const void *from, size_t bytes) {
    if (!is_on_device(kind)) {
        memcpy(to, from, bytes);
        return;
    }
    DRIVER_OK(cuMemcpyHtoD_v2((uintptr_t)to, from, bytes));
    // The copy returns when it has read the data, which may not have arrived yet.
    DRIVER_OK(cuStreamSynchronize(NULL));
}

static void MAYBE_UNUSED device_get(int kind, void *to, const void *from, size_t bytes) {
    if (is_on_device(kind)) DRIVER_OK(cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes));
    else memcpy(to, from, bytes);
}

#endif
