// In place of libpmix: passes all calls on to the library that REAL_PMIX names, and counts them.
// Rank 1, which does nothing for other ranks, reports the counts in PMIx_Finalize on its standard
// error.
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMESPACE_BYTES = 256 };

struct process {
    char namespace[NAMESPACE_BYTES];
    unsigned rank;
};

static unsigned own_rank;
static int fences, fetching, looked_up;

static void *real(const char *name) {
    static void *library;
    if (!library) library = dlopen(getenv("REAL_PMIX"), RTLD_NOW | RTLD_GLOBAL);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "no %s: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

int PMIx_Init(struct process *own, const void *options, size_t count) {
    int (*call)(struct process *, const void *, size_t) = real("PMIx_Init");
    int status = call(own, options, count);
    own_rank = own->rank;
    return status;
}

int PMIx_Put(unsigned char scope, const char *key, void *value) {
    int (*call)(unsigned char, const char *, void *) = real("PMIx_Put");
    return call(scope, key, value);
}

int PMIx_Commit(void) {
    int (*call)(void) = real("PMIx_Commit");
    return call();
}

// The only option that Combray passes is that the values of all are brought to each machine.
int PMIx_Fence(const struct process *processes, size_t process_count, const void *options, size_t count) {
    int (*call)(const struct process *, size_t, const void *, size_t) = real("PMIx_Fence");
    fences++;
    fetching += count > 0;
    return call(processes, process_count, options, count);
}

int PMIx_Get(const struct process *of, const char *key, const void *options, size_t count, void **value) {
    int (*call)(const struct process *, const char *, const void *, size_t, void **) = real("PMIx_Get");
    looked_up += !strncmp(key, "combray-", strlen("combray-"));
    return call(of, key, options, count, value);
}

int PMIx_Abort(int status, const char *message, const struct process *processes, size_t count) {
    int (*call)(int, const char *, const struct process *, size_t) = real("PMIx_Abort");
    return call(status, message, processes, count);
}

int PMIx_Finalize(const void *options, size_t count) {
    int (*call)(const void *, size_t) = real("PMIx_Finalize");
    if (own_rank == 1) fprintf(stderr, "%d fences, %d fetch values, %d values looked up\n", fences, fetching, looked_up);
    return call(options, count);
}

int PMIx_Register_event_handler(int *codes, size_t code_count, const void *options, size_t count, void *handler, void *done, void *data) {
    int (*call)(int *, size_t, const void *, size_t, void *, void *, void *) = real("PMIx_Register_event_handler");
    return call(codes, code_count, options, count, handler, done, data);
}

const char *PMIx_Error_string(int status) {
    const char *(*call)(int) = real("PMIx_Error_string");
    return call(status);
}

const char *PMIx_Get_version(void) {
    const char *(*call)(void) = real("PMIx_Get_version");
    return call();
}
