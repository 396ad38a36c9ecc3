// A vendor's library on a machine without a device, with the functions of NVIDIA's driver that
// Combray uses and that programs of tests call. libcuda.so.1.c and libamdhip64.so.6.c are such
// libraries, which are preloaded under the names of the vendors'.
//
// - Memory of a device has addresses that the processor cannot access: a call that takes it for
//   its own memory ends the program at that place. The bytes are mapped elsewhere, too, where only
//   the copies of this library reach them.
// - What is copied on a stream is copied later, by a thread: without waiting for the stream, or for
//   an event on it, the destination has old bytes.
// - As with the driver, a copy fails without a current context, on a stream of another context,
//   and outside of memory that is allocated.
// - Handles of memory reach other processes: their bytes lie in files without a name.
// - Memory that is freed gets other bytes, and its address goes to the next allocation of its size,
//   which has another number and lies elsewhere in its file: what still uses it gets wrong data.
//
// Variables: FAKE_DEVICE_DELAY_US: how late copies are (20). FAKE_DEVICE_FAIL=FUNCTION,N: the Nth
// call of a function fails (from the Nth on if N is negative); several are separated by semicolons.
// FAKE_DEVICE_PEERS=0: a device does not access another one's memory. FAKE_DEVICE_MODE: the number
// of how many processes may use one.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SUCCESS, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 101, INVALID_CONTEXT = 201,
       NO_PEER_ACCESS = 217, INVALID_HANDLE = 400, NOT_READY = 600, ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801,
       INJECTED = 999 };
enum { DEVICES = 2, BLOCKS = 4096, STACK = 16, UNIT = 4096 };
enum { TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_UNIFIED = 4 };
static const size_t ARENA = (size_t)2 << 30, POOL = (size_t)64 << 20;

typedef struct context {
    int device;
    int is_primary;
    int retained;
} context;

typedef struct {
    int file, device;
    size_t used;
    // How many allocations are not freed. When there are none, the pool begins again at its end.
    int live;
} pool;

// Memory that is mapped by address and file.
typedef struct {
    int file, device, references;
    size_t bytes;
} mapped;

typedef struct {
    uintptr_t address;
    size_t bytes;
    int type, managed, device, is_free, is_imported;
    context *owner;
    pool *pool;
    mapped *mapped;
    // Where the processor reaches the bytes, and the place in the file that has them.
    char *alias;
    int file;
    size_t offset;
    uint64_t number;
} block;

// Work on a stream: a copy, the call of a function, a wait for a word, or time that passes.
typedef struct copy {
    void *to;
    const void *from;
    size_t width, height, to_pitch, from_pitch;
    void (*function)(void *);
    void *argument;
    const uint32_t *word;
    uint32_t value;
    long microseconds;
    struct copy *next;
} copy;

typedef struct stream {
    context *owner;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    copy *first, *last;
    unsigned long queued, done;
    // After an error of its context, it does nothing more.
    int is_broken;
    // What is queued on it goes to a graph.
    int is_captured;
} stream;

typedef struct {
    stream *on;
    unsigned long number;
    int failed;
} event;

// What a process gets from another one.
typedef struct {
    int process, file, device;
    size_t offset, bytes;
} memory_handle;

typedef struct {
    char bytes[64];
} handle_bytes;

_Static_assert(sizeof(memory_handle) <= sizeof(handle_bytes), "it is passed as such");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialized;
static context primary[DEVICES];
static pool default_pools[DEVICES];
static block blocks[BLOCKS];
static int block_count, arena_files[DEVICES];
static char *arenas[DEVICES], *aliases[DEVICES];
static size_t used[DEVICES];
static uint64_t numbers;
static unsigned long copies, direct_copies;
// How many of these exist.
static long live_events, live_imports, live_registrations, live_streams;
static __thread context *stack[STACK];
static __thread int depth;

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

// The function that is to fail, and how many of its calls there were since that was set.
static const char *failing;
static long failing_calls;

void fake_device_fail(const char *wanted) {
    __atomic_store_n(&failing_calls, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&failing, wanted, __ATOMIC_RELEASE);
}

// Whether this call of a function is to fail.
static int fails(const char *function) {
    const char *wanted = __atomic_load_n(&failing, __ATOMIC_ACQUIRE);
    if (!wanted) wanted = getenv("FAKE_DEVICE_FAIL");
    size_t length = strlen(function);
    for (; wanted; wanted = strchr(wanted, ';') ? strchr(wanted, ';') + 1 : NULL) {
        if (strncmp(wanted, function, length) || wanted[length] != ',') continue;
        long number = atol(wanted + length + 1), call = __atomic_add_fetch(&failing_calls, 1, __ATOMIC_RELAXED);
        return number < 0 ? call >= -number : call == number;
    }
    return 0;
}

// A host function on a stream must not call the driver.
static __thread int in_host_function;

static void must_not_be_in_host_function(const char *function) {
    if (!in_host_function) return;
    fprintf(stderr, "%s was called by a host function on a stream\n", function);
    abort();
}

#define MAY_FAIL() do { \
        must_not_be_in_host_function(__func__); \
        if (fails(__func__)) return INJECTED; \
    } while (0)

static char *hidden(size_t bytes) {
    char *place = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) abort();
    return place;
}

static char *shown(int file, size_t offset, size_t bytes) {
    char *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);
    if (place == MAP_FAILED) abort();
    return place;
}

static int new_file(size_t bytes) {
    int file = memfd_create("device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, bytes)) abort();
    return file;
}

static size_t rounded(size_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

int cuInit(unsigned flags) {
    MAY_FAIL();
    (void)flags;
    pthread_mutex_lock(&lock);
    for (int device = 0; device < DEVICES && !initialized; device++) {
        arena_files[device] = new_file(2 * ARENA);
        arenas[device] = hidden(ARENA);
        aliases[device] = shown(arena_files[device], 0, 2 * ARENA);
        primary[device] = (context){.device = device, .is_primary = 1};
        default_pools[device] = (pool){.file = -1, .device = device};
    }
    initialized = 1;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

#include "fake_device_questions.h"

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    MAY_FAIL();
    if (!is_device(device)) return NO_DEVICE;
    *flags = 0;
    *active = primary[device].retained > 0;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(context **out, int device) {
    if (!initialized) return NOT_INITIALIZED;
    MAY_FAIL();
    if (!is_device(device)) return NO_DEVICE;
    __atomic_add_fetch(&primary[device].retained, 1, __ATOMIC_RELAXED);
    *out = &primary[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    MAY_FAIL();
    if (!is_device(device) || primary[device].retained == 0) return INVALID_CONTEXT;
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
    MAY_FAIL();
    if (!pushed || depth == STACK) return INVALID_CONTEXT;
    stack[depth++] = pushed;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(context **popped) {
    if (!depth) return INVALID_CONTEXT;
    *popped = stack[--depth];
    MAY_FAIL();
    return SUCCESS;
}

int cuCtxSetCurrent(context *now) {
    depth = 0;
    if (now) stack[depth++] = now;
    return SUCCESS;
}

int cuCtxGetCurrent(context **now) {
    *now = depth ? stack[depth - 1] : NULL;
    return SUCCESS;
}

int cuCtxGetDevice(int *device) {
    MAY_FAIL();
    if (!depth) return INVALID_CONTEXT;
    *device = stack[depth - 1]->device;
    return SUCCESS;
}

// A free entry for a block, with the lock held.
static block *new_block(void) {
    block *place = NULL;
    for (block *each = blocks; each < blocks + block_count && !place; each++)
        if (!each->address) place = each;
    if (!place && block_count < BLOCKS) place = &blocks[block_count++];
    return place;
}

// Memory of a device from its arena, with the lock held: if possible a place that was freed.
static block *from_arena(size_t bytes, int device) {
    for (block *each = blocks; each < blocks + block_count; each++)
        if (each->address && each->is_free && each->device == device && rounded(each->bytes) == rounded(bytes)) {
            each->offset = (each->offset + ARENA) % (2 * ARENA);
            each->alias = aliases[device] + each->offset;
            return each;
        }
    block *place = new_block();
    if (!place || used[device] + rounded(bytes) > ARENA) return NULL;
    *place = (block){.address = (uintptr_t)arenas[device] + used[device], .alias = aliases[device] + used[device],
                     .file = arena_files[device], .offset = used[device]};
    used[device] += rounded(bytes);
    return place;
}

static int allocate(uintptr_t *address, size_t bytes, int type, int managed, context *owner, int device) {
    if (!initialized) return NOT_INITIALIZED;
    if (!bytes) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int is_hidden = type == TYPE_DEVICE && !managed;
    block *place = is_hidden ? from_arena(bytes, device) : new_block();
    if (place) {
        block made = {.address = (uintptr_t)(is_hidden ? 0 : aligned_alloc(UNIT, rounded(bytes))), .file = -1};
        if (is_hidden) made = *place;
        made.bytes = bytes;
        made.type = type;
        made.managed = managed;
        made.device = device;
        made.owner = owner;
        made.is_free = 0;
        made.pool = NULL;
        made.number = ++numbers;
        if (!is_hidden) made.alias = (char *)made.address;
        *place = made;
        *address = made.address;
    }
    pthread_mutex_unlock(&lock);
    return place ? SUCCESS : OUT_OF_MEMORY;
}

int cuMemAlloc_v2(uintptr_t *address, size_t bytes) {
    if (!depth) return INVALID_CONTEXT;
    context *owner = stack[depth - 1];
    return allocate(address, bytes, TYPE_DEVICE, 0, owner, owner->device);
}

static block *block_of(uintptr_t address, size_t bytes);

// Memory of a pool belongs to no context.
int cuMemAllocAsync(uintptr_t *address, size_t bytes, stream *on) {
    (void)on;
    if (!depth) return INVALID_CONTEXT;
    int device = stack[depth - 1]->device;
    int result = allocate(address, bytes, TYPE_DEVICE, 0, NULL, device);
    if (!result) block_of(*address, 1)->pool = &default_pools[device];
    return result;
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

// Enters memory that lies in a file of its own, at an address where nothing else lies.
static int enter(uintptr_t *address, block made) {
    pthread_mutex_lock(&lock);
    block *place = new_block();
    if (place) {
        if (!made.address) made.address = (uintptr_t)hidden(rounded(made.bytes));
        made.alias = shown(made.file, made.offset, rounded(made.bytes));
        made.type = TYPE_DEVICE;
        made.number = ++numbers;
        *place = made;
        *address = made.address;
    }
    pthread_mutex_unlock(&lock);
    return place ? SUCCESS : OUT_OF_MEMORY;
}

// Removes such memory, with the lock held. The addresses stay reserved if they were before.
static void leave(block *each, int is_reserved) {
    munmap(each->alias, rounded(each->bytes));
    if (!is_reserved) munmap((void *)each->address, rounded(each->bytes));
    if (each->is_imported) {
        close(each->file);
        live_imports--;
    }
    each->address = 0;
}

static int give_back(uintptr_t address, int is_host) {
    pthread_mutex_lock(&lock);
    int result = INVALID_VALUE;
    for (block *each = blocks; each < blocks + block_count; each++) {
        if (!each->address || each->address != address || each->is_free || each->mapped) continue;
        if ((each->type == TYPE_HOST) != is_host) continue;
        result = SUCCESS;
        if (each->managed || each->type == TYPE_HOST) {
            free((void *)address);
            each->address = 0;
        } else if (each->pool && each->pool->file >= 0) {
            if (!each->is_imported) each->pool->live--;
            leave(each, 0);
        } else {
            memset(each->alias, 0xee, each->bytes);
            each->is_free = 1;
        }
        break;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int cuMemFree_v2(uintptr_t address) {
    MAY_FAIL();
    return give_back(address, 0);
}

int cuMemFreeHost(void *memory) {
    MAY_FAIL();
    return give_back((uintptr_t)memory, 1);
}

// The block that has all bytes from an address on.
static block *block_of(uintptr_t address, size_t bytes) {
    for (block *each = blocks; each < blocks + block_count; each++)
        if (each->address && !each->is_free && address >= each->address
            && address + bytes <= each->address + each->bytes)
            return each;
    return NULL;
}

int cuPointerGetAttributes(unsigned count, const int *attributes, void **data, uintptr_t address) {
    if (!initialized) return NOT_INITIALIZED;
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    block *found = block_of(address, 1);
    for (unsigned i = 0; i < count; i++)
        switch (attributes[i]) {
        case 1: *(context **)data[i] = found ? found->owner : NULL; break;
        case 2: *(unsigned *)data[i] = found ? found->type : 0; break;
        case 7: *(uint64_t *)data[i] = found ? found->number : 0; break;
        case 8: *(unsigned *)data[i] = found ? found->managed : 0; break;
        case 9: *(int *)data[i] = found ? found->device : -2; break;
        case 17: *(pool **)data[i] = found ? found->pool : NULL; break;
        default: pthread_mutex_unlock(&lock); return INVALID_VALUE;
        }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cuMemGetAddressRange_v2(uintptr_t *base, size_t *bytes, uintptr_t address) {
    MAY_FAIL();
    if (!depth) return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    block *found = block_of(address, 1);
    if (found) {
        *base = found->address;
        *bytes = found->bytes;
    }
    pthread_mutex_unlock(&lock);
    return found ? SUCCESS : INVALID_VALUE;
}

// The place where the bytes of an address are accessible here; null if the address is not in memory
// of a device.
static void *reached(uintptr_t address, size_t bytes) {
    pthread_mutex_lock(&lock);
    block *found = block_of(address, bytes);
    void *place = found ? found->alias + (address - found->address) : NULL;
    pthread_mutex_unlock(&lock);
    return place;
}

#include "fake_device_handles.h"

// Streams, events and copies.

static void perform(const copy *each) {
    if (each->function) {
        in_host_function = 1;
        each->function(each->argument);
        in_host_function = 0;
        return;
    }
    if (each->word) {
        while ((int32_t)(__atomic_load_n(each->word, __ATOMIC_ACQUIRE) - each->value) < 0) usleep(10);
        return;
    }
    if (each->microseconds) {
        usleep(each->microseconds);
        return;
    }
    for (size_t row = 0; row < each->height; row++)
        memcpy((char *)each->to + row * each->to_pitch, (const char *)each->from + row * each->from_pitch,
               each->width);
}

static void *work(void *argument) {
    stream *of = argument;
    long delay = setting("FAKE_DEVICE_DELAY_US", 20);
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
        int is_broken = of->is_broken;
        pthread_mutex_unlock(&of->lock);
        if (!is_broken) perform(each);
        free(each);
        pthread_mutex_lock(&of->lock);
        of->done++;
        pthread_cond_broadcast(&of->changed);
    }
    return NULL;
}

int cuStreamCreate(stream **out, unsigned flags) {
    MAY_FAIL();
    (void)flags;
    if (!depth) return INVALID_CONTEXT;
    stream *made = calloc(1, sizeof *made);
    made->owner = stack[depth - 1];
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    pthread_t worker;
    pthread_create(&worker, NULL, work, made);
    pthread_detach(worker);
    __atomic_add_fetch(&live_streams, 1, __ATOMIC_RELAXED);
    *out = made;
    return SUCCESS;
}

static void wait_until(stream *of, unsigned long number) {
    pthread_mutex_lock(&of->lock);
    while (of->done < number) pthread_cond_wait(&of->changed, &of->lock);
    pthread_mutex_unlock(&of->lock);
}

int cuStreamSynchronize(stream *of) {
    // What is queued on the default stream is done at once.
    if (!of) return SUCCESS;
    pthread_mutex_lock(&of->lock);
    unsigned long queued = of->queued;
    pthread_mutex_unlock(&of->lock);
    wait_until(of, queued);
    MAY_FAIL();
    return SUCCESS;
}

int cuEventCreate(event **out, unsigned flags) {
    MAY_FAIL();
    (void)flags;
    if (!depth) return INVALID_CONTEXT;
    *out = calloc(1, sizeof **out);
    __atomic_add_fetch(&live_events, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

int cuEventRecord(event *of, stream *on) {
    MAY_FAIL();
    if (!depth || on->owner != stack[depth - 1]) return INVALID_HANDLE;
    pthread_mutex_lock(&on->lock);
    *of = (event){.on = on, .number = on->queued};
    pthread_mutex_unlock(&on->lock);
    return SUCCESS;
}

int cuEventQuery(event *of) {
    MAY_FAIL();
    if (!depth || !of->on) return INVALID_HANDLE;
    pthread_mutex_lock(&of->on->lock);
    int is_over = of->on->done >= of->number;
    pthread_mutex_unlock(&of->on->lock);
    return is_over ? SUCCESS : NOT_READY;
}

int cuEventSynchronize(event *of) {
    if (!depth || !of->on) return INVALID_HANDLE;
    wait_until(of->on, of->number);
    MAY_FAIL();
    return SUCCESS;
}

int cuEventDestroy_v2(event *of) {
    MAY_FAIL();
    __atomic_sub_fetch(&live_events, 1, __ATOMIC_RELAXED);
    free(of);
    return SUCCESS;
}

static int queue(stream *on, copy wanted) {
    if (!depth) return INVALID_CONTEXT;
    int is_copy = !wanted.function && !wanted.word && !wanted.microseconds;
    if (is_copy) __atomic_add_fetch(&copies, 1, __ATOMIC_RELAXED);
    if (is_copy && (!wanted.to || !wanted.from)) return INVALID_VALUE;
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

int cuStreamGetCtx(stream *of, context **owner) {
    MAY_FAIL();
    if (!of) return INVALID_HANDLE;
    *owner = of->owner;
    return SUCCESS;
}

int cuStreamQuery(stream *on) {
    MAY_FAIL();
    pthread_mutex_lock(&on->lock);
    int outcome = on->is_broken ? ILLEGAL_ADDRESS : on->done < on->queued ? NOT_READY : SUCCESS;
    pthread_mutex_unlock(&on->lock);
    return outcome;
}

int fake_device_break(stream *on) {
    pthread_mutex_lock(&on->lock);
    on->is_broken = 1;
    pthread_mutex_unlock(&on->lock);
    return SUCCESS;
}

int cuStreamIsCapturing(stream *on, int *status) {
    MAY_FAIL();
    *status = on->is_captured;
    return SUCCESS;
}

int fake_device_capture(stream *on, int whether) {
    on->is_captured = whether;
    return SUCCESS;
}

int cuLaunchHostFunc(stream *on, void (*function)(void *), void *argument) {
    MAY_FAIL();
    return queue(on, (copy){.function = function, .argument = argument});
}

int cuStreamWaitValue32_v2(stream *on, uintptr_t address, uint32_t value, unsigned flags) {
    MAY_FAIL();
    if (flags || !is_registered(address)) return INVALID_VALUE;
    return queue(on, (copy){.word = (const uint32_t *)address, .value = value});
}

// Work of the program that takes time.
int fake_device_work(stream *on, long microseconds) {
    return queue(on, (copy){.microseconds = microseconds});
}

static copy line(void *to, const void *from, size_t bytes) {
    return (copy){.to = to, .from = from, .width = bytes, .height = 1};
}

int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t bytes, stream *on) {
    MAY_FAIL();
    return queue(on, line(to, reached(from, bytes), bytes));
}

int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t bytes, stream *on) {
    MAY_FAIL();
    return queue(on, line(reached(to, bytes), from, bytes));
}

int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, stream *on) {
    MAY_FAIL();
    __atomic_add_fetch(&direct_copies, 1, __ATOMIC_RELAXED);
    return queue(on, line(reached(to, bytes), reached(from, bytes), bytes));
}

int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t bytes) {
    return queue(NULL, line(to, reached(from, bytes), bytes));
}

int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t bytes) {
    return queue(NULL, line(reached(to, bytes), from, bytes));
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
    MAY_FAIL();
    size_t rows = given->height ? given->height - 1 : 0;
    if (given->source_pitch < given->width || given->target_pitch < given->width) return INVALID_VALUE;
    size_t reads = rows * given->source_pitch + given->width, writes = rows * given->target_pitch + given->width;
    int is_direct = given->target_type != TYPE_HOST && given->source_type != TYPE_HOST;
    if (is_direct) __atomic_add_fetch(&direct_copies, 1, __ATOMIC_RELAXED);
    copy wanted = {
        .to = given->target_type == TYPE_HOST ? given->target_host : reached(given->target_device, writes),
        .from = given->source_type == TYPE_HOST ? given->source_host : reached(given->source_device, reads),
        .width = given->width, .height = given->height,
        .to_pitch = given->target_pitch, .from_pitch = given->source_pitch,
    };
    return queue(on, wanted);
}

// Memory of a device that the processor reaches, too, for programs that do not copy. Whatever takes
// it for memory of the processor is not found out.

void *fake_device_visible(size_t bytes) {
    static unsigned count;
    context *owner = &primary[__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) % DEVICES];
    uintptr_t address;
    cuInit(0);
    owner->retained = 1;
    if (allocate(&address, bytes, TYPE_DEVICE, 0, owner, owner->device)) return NULL;
    pthread_mutex_lock(&lock);
    block *made = block_of(address, 1);
    void *shows = mmap((void *)address, rounded(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, made->file,
                       made->offset);
    pthread_mutex_unlock(&lock);
    if (shows == MAP_FAILED) abort();
    memset(shows, 0, bytes);
    return shows;
}

void fake_device_free_visible(void *memory) {
    pthread_mutex_lock(&lock);
    size_t bytes = rounded(block_of((uintptr_t)memory, 1)->bytes);
    void *hides = mmap(memory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    pthread_mutex_unlock(&lock);
    if (hides == MAP_FAILED || cuMemFree_v2((uintptr_t)memory)) abort();
}

// What was done, and what exists: copies, copies between devices, events, imports, registrations,
// streams.
void fake_device_counts(long out[6]) {
    out[0] = __atomic_load_n(&copies, __ATOMIC_RELAXED);
    out[1] = __atomic_load_n(&direct_copies, __ATOMIC_RELAXED);
    out[2] = __atomic_load_n(&live_events, __ATOMIC_RELAXED);
    out[3] = __atomic_load_n(&live_imports, __ATOMIC_RELAXED);
    out[4] = __atomic_load_n(&live_registrations, __ATOMIC_RELAXED);
    out[5] = __atomic_load_n(&live_streams, __ATOMIC_RELAXED);
}
