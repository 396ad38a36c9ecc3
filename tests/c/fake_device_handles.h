// Part of fake_devices.h: handles of memory for other processes, mapped memory, pools, and memory
// of the processor that devices access.

static int may_import(int device) {
    return !depth || stack[depth - 1]->device == device || setting("FAKE_DEVICE_PEERS", 1);
}

int cuIpcGetMemHandle(handle_bytes *out, uintptr_t address) {
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    block *found = block_of(address, 1);
    int result = found && found->owner && !found->managed && found->type == TYPE_DEVICE ? SUCCESS : INVALID_VALUE;
    if (!result) {
        memory_handle made = {.process = getpid(), .file = found->file, .device = found->device,
                              .offset = found->offset, .bytes = found->bytes};
        memset(out, 0, sizeof *out);
        memcpy(out, &made, sizeof made);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int cuIpcOpenMemHandle_v2(uintptr_t *address, handle_bytes given, unsigned flags) {
    MAY_FAIL();
    memory_handle of;
    memcpy(&of, &given, sizeof of);
    if (!depth) return INVALID_CONTEXT;
    if (of.process == getpid() || flags != 1) return INVALID_CONTEXT;
    if (!may_import(of.device)) return NO_PEER_ACCESS;
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", of.process, of.file);
    int file = open(name, O_RDWR | O_CLOEXEC);
    if (file < 0) return INVALID_VALUE;
    __atomic_add_fetch(&live_imports, 1, __ATOMIC_RELAXED);
    return enter(address, (block){.bytes = of.bytes, .device = stack[depth - 1]->device, .owner = stack[depth - 1],
                                  .file = file, .offset = of.offset, .is_imported = 1});
}

int cuIpcCloseMemHandle(uintptr_t address) {
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    block *found = block_of(address, 1);
    int is_one = found && found->is_imported && found->address == address;
    if (is_one) leave(found, 0);
    pthread_mutex_unlock(&lock);
    return is_one ? SUCCESS : INVALID_VALUE;
}

// Mapped memory. What describes it and who may access it is not looked at, except that it is given.

int cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
    MAY_FAIL();
    (void)option;
    *bytes = UNIT;
    return properties ? SUCCESS : INVALID_VALUE;
}

int cuMemCreate(mapped **out, size_t bytes, const void *properties, uint64_t flags) {
    (void)flags;
    if (!properties || bytes % UNIT) return INVALID_VALUE;
    *out = malloc(sizeof **out);
    **out = (mapped){.file = new_file(bytes), .device = ((const int *)properties)[3], .references = 1, .bytes = bytes};
    return SUCCESS;
}

int cuMemRelease(mapped *of) {
    MAY_FAIL();
    if (__atomic_sub_fetch(&of->references, 1, __ATOMIC_RELAXED) == 0) {
        close(of->file);
        free(of);
    }
    return SUCCESS;
}

int cuMemAddressReserve(uintptr_t *address, size_t bytes, size_t alignment, uintptr_t at, uint64_t flags) {
    MAY_FAIL();
    (void)alignment, (void)at, (void)flags;
    *address = (uintptr_t)hidden(rounded(bytes));
    return SUCCESS;
}

int cuMemAddressFree(uintptr_t address, size_t bytes) {
    MAY_FAIL();
    if (reached(address, 1)) return INVALID_VALUE;
    return munmap((void *)address, rounded(bytes)) ? INVALID_VALUE : SUCCESS;
}

int cuMemMap(uintptr_t address, size_t bytes, size_t offset, mapped *of, uint64_t flags) {
    MAY_FAIL();
    (void)flags;
    if (offset || bytes > of->bytes) return INVALID_VALUE;
    __atomic_add_fetch(&of->references, 1, __ATOMIC_RELAXED);
    return enter(&address, (block){.address = address, .bytes = bytes, .device = of->device, .mapped = of,
                                   .file = of->file});
}

int cuMemSetAccess(uintptr_t address, size_t bytes, const void *access, size_t count) {
    MAY_FAIL();
    if (!access || !count || !reached(address, bytes)) return INVALID_VALUE;
    return SUCCESS;
}

int cuMemUnmap(uintptr_t address, size_t bytes) {
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    block *found = block_of(address, bytes);
    mapped *of = found ? found->mapped : NULL;
    if (of) leave(found, 1);
    pthread_mutex_unlock(&lock);
    return of ? cuMemRelease(of) : INVALID_VALUE;
}

int cuMemRetainAllocationHandle(mapped **out, void *address) {
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    block *found = block_of((uintptr_t)address, 1);
    *out = found ? found->mapped : NULL;
    if (*out) __atomic_add_fetch(&(*out)->references, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    return *out ? SUCCESS : INVALID_VALUE;
}

int cuMemExportToShareableHandle(int *out, mapped *of, unsigned kind, uint64_t flags) {
    MAY_FAIL();
    (void)flags;
    if (kind != 1) return NOT_SUPPORTED;
    *out = fcntl(of->file, F_DUPFD_CLOEXEC, 0);
    return *out < 0 ? INVALID_VALUE : SUCCESS;
}

int cuMemImportFromShareableHandle(mapped **out, void *descriptor, unsigned kind) {
    MAY_FAIL();
    struct stat found;
    int file = fcntl((int)(intptr_t)descriptor, F_DUPFD_CLOEXEC, 0);
    if (kind != 1 || file < 0 || fstat(file, &found)) return INVALID_VALUE;
    *out = malloc(sizeof **out);
    **out = (mapped){.file = file, .device = 0, .references = 1, .bytes = found.st_size};
    return SUCCESS;
}

// Pools whose memory may be shared.

int cuMemPoolCreate(pool **out, const void *properties) {
    if (!properties) return INVALID_VALUE;
    *out = malloc(sizeof **out);
    **out = (pool){.file = new_file(POOL), .device = 0};
    return SUCCESS;
}

int cuMemPoolDestroy(pool *of) {
    MAY_FAIL();
    close(of->file);
    free(of);
    return SUCCESS;
}

int cuMemAllocFromPoolAsync(uintptr_t *address, size_t bytes, pool *of, stream *on) {
    (void)on;
    if (of->used + rounded(bytes) > POOL && !of->live) of->used = 0;
    if (of->used + rounded(bytes) > POOL) return OUT_OF_MEMORY;
    int result = enter(address, (block){.bytes = bytes, .device = of->device, .pool = of, .file = of->file,
                                        .offset = of->used});
    of->used += rounded(bytes);
    of->live++;
    return result;
}

int cuMemPoolExportToShareableHandle(int *out, pool *of, unsigned kind, uint64_t flags) {
    MAY_FAIL();
    (void)flags;
    if (of->file < 0 || kind != 1) return INVALID_VALUE;
    *out = fcntl(of->file, F_DUPFD_CLOEXEC, 0);
    return SUCCESS;
}

int cuMemPoolExportPointer(handle_bytes *out, uintptr_t address) {
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    block *found = block_of(address, 1);
    int is_one = found && found->pool && found->pool->file >= 0;
    if (is_one) {
        memory_handle made = {.offset = found->offset, .bytes = found->bytes, .device = found->device};
        memset(out, 0, sizeof *out);
        memcpy(out, &made, sizeof made);
    }
    pthread_mutex_unlock(&lock);
    return is_one ? SUCCESS : INVALID_VALUE;
}

int cuMemPoolImportFromShareableHandle(pool **out, void *descriptor, unsigned kind, uint64_t flags) {
    MAY_FAIL();
    (void)flags;
    int file = fcntl((int)(intptr_t)descriptor, F_DUPFD_CLOEXEC, 0);
    if (kind != 1 || file < 0) return INVALID_VALUE;
    *out = malloc(sizeof **out);
    **out = (pool){.file = file, .device = 0};
    return SUCCESS;
}

int cuMemPoolSetAccess(pool *of, const void *access, size_t count) {
    MAY_FAIL();
    return of && access && count ? SUCCESS : INVALID_VALUE;
}

static pool imported_pool = {.file = 0};

int cuMemPoolImportPointer(uintptr_t *address, pool *of, const handle_bytes *given) {
    MAY_FAIL();
    memory_handle data;
    memcpy(&data, given, sizeof data);
    int file = fcntl(of->file, F_DUPFD_CLOEXEC, 0);
    __atomic_add_fetch(&live_imports, 1, __ATOMIC_RELAXED);
    return enter(address, (block){.bytes = data.bytes, .device = data.device, .pool = &imported_pool, .file = file,
                                  .offset = data.offset, .is_imported = 1});
}

// Memory of the processor that devices access. Its addresses are the processor's.
enum { REGISTRATIONS = 256 };
static struct { uintptr_t start, end; } registered[REGISTRATIONS];

static int is_registered(uintptr_t address) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REGISTRATIONS; i++) found |= address >= registered[i].start && address < registered[i].end;
    pthread_mutex_unlock(&lock);
    return found;
}

// Replaces a registration that begins at one address by another one.
static void change_registration(uintptr_t old, uintptr_t start, uintptr_t end) {
    pthread_mutex_lock(&lock);
    int place = 0;
    while (place < REGISTRATIONS && registered[place].start != old) place++;
    if (place < REGISTRATIONS) {
        registered[place].start = start;
        registered[place].end = end;
    }
    pthread_mutex_unlock(&lock);
}

int cuMemHostGetDevicePointer_v2(uintptr_t *found, void *address, unsigned flags) {
    MAY_FAIL();
    if (!depth || flags || !is_registered((uintptr_t)address)) return INVALID_VALUE;
    *found = (uintptr_t)address;
    return SUCCESS;
}

int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    MAY_FAIL();
    if (!depth || !address || !bytes || flags != 1) return INVALID_VALUE;
    change_registration(0, (uintptr_t)address, (uintptr_t)address + bytes);
    __atomic_add_fetch(&live_registrations, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

int cuMemHostUnregister(void *address) {
    MAY_FAIL();
    if (!address) return INVALID_VALUE;
    change_registration((uintptr_t)address, 0, 0);
    __atomic_sub_fetch(&live_registrations, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}
