// The functions of NVIDIA's driver that Combray uses and that programs of tests call, on a machine
// without a device. A library that is preloaded, under the name of the driver's.
//
// - Memory of a device has addresses that the processor cannot access: a call that takes it for
//   its own memory ends the program at that place. The bytes are mapped elsewhere, too, where only
//   the copies of this library reach them.
// - What is copied on a stream is copied later, by a thread: without waiting for the stream the
//   destination has old bytes.
// - As with the driver, a copy fails without a current context, on a stream of another context,
//   and outside of memory that is allocated.
//
// FAKE_CUDA_DELAY_US: how late copies are (20). FAKE_CUDA_FAIL_AT: the copy with this number,
// counted from 1, fails with an illegal address.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 101,
       INVALID_CONTEXT = 201, INVALID_HANDLE = 400, ILLEGAL_ADDRESS = 700 };
enum { DEVICES = 2, BLOCKS = 4096, STACK = 16, UNIT = 512 };
enum { TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_UNIFIED = 4 };
static const size_t ARENA = (size_t)2 << 30;

typedef struct context {
    int device;
    int is_primary;
    int retained;
} context;

typedef struct {
    uintptr_t address;
    size_t bytes;
    int type, managed, device;
    context *owner;
} block;

typedef struct copy {
    void *to;
    const void *from;
    size_t width, height, to_pitch, from_pitch;
    struct copy *next;
} copy;

typedef struct {
    context *owner;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    copy *first, *last;
    unsigned long queued, done;
} stream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialized;
static context primary[DEVICES];
static block blocks[BLOCKS];
static char *arenas[DEVICES], *aliases[DEVICES];
static size_t used[DEVICES];
static unsigned long copies;
static __thread context *stack[STACK];
static __thread int depth;

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

int cuInit(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    for (int device = 0; device < DEVICES && !initialized; device++) {
        int file = memfd_create("device", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, ARENA)) abort();
        arenas[device] = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        aliases[device] = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (arenas[device] == MAP_FAILED || aliases[device] == MAP_FAILED) abort();
        close(file);
        primary[device] = (context){.device = device, .is_primary = 1};
    }
    initialized = 1;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cuDriverGetVersion(int *version) {
    *version = 12040;
    return SUCCESS;
}

int cuGetErrorName(int error, const char **name) {
    static const struct { int error; const char *name; } names[] = {
        {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {NO_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}, {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error) {
            *name = names[i].name;
            return SUCCESS;
        }
    return INVALID_VALUE;
}

int cuDeviceGetCount(int *count) {
    *count = DEVICES;
    return initialized ? SUCCESS : NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < DEVICES ? SUCCESS : NO_DEVICE;
}

int cuDeviceGetName(char *name, int room, int device) {
    snprintf(name, room, "Device %d of no machine", device);
    return SUCCESS;
}

int cuDeviceGetPCIBusId(char *name, int room, int device) {
    snprintf(name, room, "0000:%02x:00.0", 0x17 + device);
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = ARENA;
    return SUCCESS;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    if (device < 0 || device >= DEVICES) return NO_DEVICE;
    *flags = 0;
    *active = primary[device].retained > 0;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(context **out, int device) {
    if (!initialized) return NOT_INITIALIZED;
    if (device < 0 || device >= DEVICES) return NO_DEVICE;
    __atomic_add_fetch(&primary[device].retained, 1, __ATOMIC_RELAXED);
    *out = &primary[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    if (device < 0 || device >= DEVICES || primary[device].retained == 0) return INVALID_CONTEXT;
    __atomic_sub_fetch(&primary[device].retained, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

int cuCtxCreate_v2(context **out, unsigned flags, int device) {
    (void)flags;
    if (!initialized) return NOT_INITIALIZED;
    *out = calloc(1, sizeof **out);
    (*out)->device = device;
    stack[depth++] = *out;
    return SUCCESS;
}

int cuCtxPushCurrent_v2(context *pushed) {
    if (!pushed || depth == STACK) return INVALID_CONTEXT;
    stack[depth++] = pushed;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(context **popped) {
    if (!depth) return INVALID_CONTEXT;
    *popped = stack[--depth];
    return SUCCESS;
}

int cuCtxSetCurrent(context *now) {
    depth = 0;
    return now ? cuCtxPushCurrent_v2(now) : SUCCESS;
}

int cuCtxGetCurrent(context **now) {
    *now = depth ? stack[depth - 1] : NULL;
    return SUCCESS;
}

static int allocate(uintptr_t *address, size_t bytes, int type, int managed, context *owner, int device) {
    if (!initialized) return NOT_INITIALIZED;
    if (!bytes) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    size_t rounded = (bytes + UNIT - 1) / UNIT * UNIT;
    block *place = NULL;
    int result = OUT_OF_MEMORY;
    for (block *each = blocks; each < blocks + BLOCKS && !place; each++)
        if (!each->address) place = each;
    if (place && type == TYPE_DEVICE && !managed) {
        if (used[device] + rounded <= ARENA) {
            *address = (uintptr_t)arenas[device] + used[device];
            used[device] += rounded;
            result = SUCCESS;
        }
    } else if (place) {
        *address = (uintptr_t)aligned_alloc(UNIT, rounded);
        result = *address ? SUCCESS : OUT_OF_MEMORY;
    }
    if (!result) *place = (block){*address, bytes, type, managed, device, owner};
    pthread_mutex_unlock(&lock);
    return result;
}

int cuMemAlloc_v2(uintptr_t *address, size_t bytes) {
    if (!depth) return INVALID_CONTEXT;
    context *owner = stack[depth - 1];
    return allocate(address, bytes, TYPE_DEVICE, 0, owner, owner->device);
}

// Memory of a pool belongs to no context.
int cuMemAllocAsync(uintptr_t *address, size_t bytes, stream *on) {
    (void)on;
    return depth ? allocate(address, bytes, TYPE_DEVICE, 0, NULL, stack[depth - 1]->device) : INVALID_CONTEXT;
}

int cuMemAllocManaged(uintptr_t *address, size_t bytes, unsigned flags) {
    (void)flags;
    if (!depth) return INVALID_CONTEXT;
    context *owner = stack[depth - 1];
    return allocate(address, bytes, TYPE_DEVICE, 1, owner, owner->device);
}

int cuMemAllocHost_v2(void **address, size_t bytes) {
    if (!depth) return INVALID_CONTEXT;
    context *owner = stack[depth - 1];
    return allocate((uintptr_t *)address, bytes, TYPE_HOST, 0, owner, owner->device);
}

int cuMemFree_v2(uintptr_t address) {
    pthread_mutex_lock(&lock);
    int result = INVALID_VALUE;
    for (block *each = blocks; each < blocks + BLOCKS; each++)
        if (each->address && each->address == address) {
            if (each->managed || each->type == TYPE_HOST) free((void *)address);
            each->address = 0;
            result = SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

// The block that has all bytes from an address on.
static block *block_of(uintptr_t address, size_t bytes) {
    for (block *each = blocks; each < blocks + BLOCKS; each++)
        if (each->address && address >= each->address && address + bytes <= each->address + each->bytes)
            return each;
    return NULL;
}

int cuPointerGetAttributes(unsigned count, const int *attributes, void **data, uintptr_t address) {
    if (!initialized) return NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    block *found = block_of(address, 1);
    for (unsigned i = 0; i < count; i++)
        switch (attributes[i]) {
        case 1: *(context **)data[i] = found ? found->owner : NULL; break;
        case 2: *(unsigned *)data[i] = found ? found->type : 0; break;
        case 8: *(unsigned *)data[i] = found ? found->managed : 0; break;
        case 9: *(int *)data[i] = found ? found->device : -2; break;
        default: pthread_mutex_unlock(&lock); return INVALID_VALUE;
        }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

// The place where the bytes of an address are accessible here; null if it is none of a device.
static void *reached(uintptr_t address, size_t bytes) {
    block *found = block_of(address, bytes);
    if (!found) return NULL;
    if (found->managed || found->type == TYPE_HOST) return (void *)address;
    return aliases[found->device] + (address - (uintptr_t)arenas[found->device]);
}

static void perform(const copy *each) {
    for (size_t row = 0; row < each->height; row++)
        memcpy((char *)each->to + row * each->to_pitch, (const char *)each->from + row * each->from_pitch,
               each->width);
}

static void *work(void *argument) {
    stream *of = argument;
    long delay = setting("FAKE_CUDA_DELAY_US", 20);
    pthread_mutex_lock(&of->lock);
    for (;;) {
        while (!of->first) {
            pthread_cond_wait(&of->changed, &of->lock);
            pthread_mutex_unlock(&of->lock);
            if (delay) usleep(delay);
            pthread_mutex_lock(&of->lock);
        }
        copy *each = of->first;
        of->first = each->next;
        if (!of->first) of->last = NULL;
        pthread_mutex_unlock(&of->lock);
        perform(each);
        free(each);
        pthread_mutex_lock(&of->lock);
        of->done++;
        pthread_cond_broadcast(&of->changed);
    }
    return NULL;
}

int cuStreamCreate(stream **out, unsigned flags) {
    (void)flags;
    if (!depth) return INVALID_CONTEXT;
    stream *made = calloc(1, sizeof *made);
    made->owner = stack[depth - 1];
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    pthread_t worker;
    pthread_create(&worker, NULL, work, made);
    pthread_detach(worker);
    *out = made;
    return SUCCESS;
}

int cuStreamSynchronize(stream *of) {
    pthread_mutex_lock(&of->lock);
    while (of->done < of->queued) pthread_cond_wait(&of->changed, &of->lock);
    pthread_mutex_unlock(&of->lock);
    return SUCCESS;
}

static int queue(stream *on, copy wanted) {
    if (!depth) return INVALID_CONTEXT;
    unsigned long number = __atomic_add_fetch(&copies, 1, __ATOMIC_RELAXED);
    if ((long)number == setting("FAKE_CUDA_FAIL_AT", 0)) return ILLEGAL_ADDRESS;
    if (!wanted.to || !wanted.from) return INVALID_VALUE;
    if (!on) {
        perform(&wanted);
        return SUCCESS;
    }
    if (on->owner != stack[depth - 1]) return INVALID_HANDLE;
    copy *each = malloc(sizeof *each);
    *each = wanted;
    each->next = NULL;
    pthread_mutex_lock(&on->lock);
    if (on->last) on->last->next = each;
    else on->first = each;
    on->last = each;
    on->queued++;
    pthread_cond_broadcast(&on->changed);
    pthread_mutex_unlock(&on->lock);
    return SUCCESS;
}

static copy line(void *to, const void *from, size_t bytes) {
    return (copy){.to = to, .from = from, .width = bytes, .height = 1};
}

int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t bytes, stream *on) {
    return queue(on, line(to, reached(from, bytes), bytes));
}

int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t bytes, stream *on) {
    return queue(on, line(reached(to, bytes), from, bytes));
}

int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t bytes) {
    return cuMemcpyDtoHAsync_v2(to, from, bytes, NULL);
}

int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t bytes) {
    return cuMemcpyHtoDAsync_v2(to, from, bytes, NULL);
}

typedef struct {
    size_t source_x, source_y;
    unsigned source_type;
    const void *source_host;
    uintptr_t source_device;
    void *source_array;
    size_t source_pitch, target_x, target_y;
    unsigned target_type;
    void *target_host;
    uintptr_t target_device;
    void *target_array;
    size_t target_pitch, width, height;
} copy_2d;

int cuMemcpy2DAsync_v2(const copy_2d *given, stream *on) {
    size_t rows = given->height ? given->height - 1 : 0;
    if (given->source_pitch < given->width || given->target_pitch < given->width) return INVALID_VALUE;
    size_t reads = rows * given->source_pitch + given->width, writes = rows * given->target_pitch + given->width;
    copy wanted = {
        .to = given->target_type == TYPE_HOST ? given->target_host : reached(given->target_device, writes),
        .from = given->source_type == TYPE_HOST ? given->source_host : reached(given->source_device, reads),
        .width = given->width, .height = given->height,
        .to_pitch = given->target_pitch, .from_pitch = given->source_pitch,
    };
    return queue(on, wanted);
}

// How many copies were made.
unsigned long fake_cuda_copies(void) {
    return __atomic_load_n(&copies, __ATOMIC_RELAXED);
}
