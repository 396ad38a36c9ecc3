// Memory of the kinds that programs with graphics processors use, on libcuda.so.1.c.
#ifndef DEVICES_H
#define DEVICES_H

#include "check.h"

#include <dlfcn.h>

enum { HOST, DEVICE, SECOND_DEVICE, POOL, MANAGED, PINNED, KINDS };
static const char *const kind_names[] MAYBE_UNUSED = {
    "host", "device", "second device", "pool", "managed", "pinned",
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
DRIVER(int, cuMemcpyDtoH_v2, void *, uintptr_t, size_t);
DRIVER(int, cuMemcpyHtoD_v2, uintptr_t, const void *, size_t);
DRIVER(unsigned long, fake_cuda_copies, void);

static void *device_contexts[2];

#define DRIVER_OK(call) do { int code_ = (call); REQUIRE(code_ == 0, "%s returned %d", #call, code_); } while (0)

static void MAYBE_UNUSED devices_begin(void) {
#define FIND(name) REQUIRE((name = (__typeof__(name))dlsym(RTLD_DEFAULT, #name)), "no %s", #name)
    FIND(cuInit); FIND(cuDevicePrimaryCtxRetain); FIND(cuCtxSetCurrent); FIND(cuCtxGetCurrent);
    FIND(cuMemAlloc_v2); FIND(cuMemAllocAsync); FIND(cuMemAllocManaged); FIND(cuMemAllocHost_v2);
    FIND(cuMemFree_v2); FIND(cuMemcpyDtoH_v2); FIND(cuMemcpyHtoD_v2); FIND(fake_cuda_copies);
    DRIVER_OK(cuInit(0));
    for (int device = 0; device < 2; device++) DRIVER_OK(cuDevicePrimaryCtxRetain(&device_contexts[device], device));
    DRIVER_OK(cuCtxSetCurrent(device_contexts[0]));
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
    case MANAGED: DRIVER_OK(cuMemAllocManaged(&address, bytes, 1)); break;
    default: DRIVER_OK(cuMemAllocHost_v2(&host, bytes)); return host;
    }
    return (void *)address;
}

static int MAYBE_UNUSED is_on_device(int kind) { return kind != HOST && kind != PINNED; }

static void MAYBE_UNUSED device_free(int kind, void *memory) {
    if (kind == HOST) free(memory);
    else DRIVER_OK(cuMemFree_v2((uintptr_t)memory));
}

static void MAYBE_UNUSED device_set(int kind, void *to, const void *from, size_t bytes) {
    if (is_on_device(kind)) DRIVER_OK(cuMemcpyHtoD_v2((uintptr_t)to, from, bytes));
    else memcpy(to, from, bytes);
}

static void MAYBE_UNUSED device_get(int kind, void *to, const void *from, size_t bytes) {
    if (is_on_device(kind)) DRIVER_OK(cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes));
    else memcpy(to, from, bytes);
}

#endif
