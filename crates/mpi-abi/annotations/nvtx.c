/* Makes phases (combray_phase) of the ranges that programs, and libraries such as Caliper, name
 * with NVTX (nvtxRangePush and nvtxRangePop, with and without domains). The first call of NVTX loads
 * the library that NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2, which puts
 * functions into NVTX's tables; `combray run --trace` and --profile set that variable. The phase is
 * the innermost range of the process's first thread. Ranges before MPI_Init or after MPI_Finalize,
 * of other threads, those that can overlap (nvtxRangeStart), and those of forked processes are no
 * phases; nor are any ranges at MPI_THREAD_SERIALIZED, where another thread may be in MPI, or if
 * another thread than the first one is MPI's main thread.
 *
 * This library is linked with no MPI library: it finds the one that the program has loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

/* Numbers of NVTX's interface for tools, which are the same in all releases of NVTX 3. */
enum { TABLE_OF_TABLES = 1, TABLE_CORE = 1, TABLE_DOMAINS = 5 };
enum { CORE_PUSH_EX = 8, CORE_PUSH = 9, CORE_PUSH_WIDE = 10, CORE_POP = 11 };
enum { DOMAINS_PUSH_EX = 4, DOMAINS_POP = 5, DOMAINS_REGISTER = 10, DOMAINS_REGISTER_WIDE = 11 };
enum { TEXT = 1, WIDE_TEXT = 2, REGISTERED_TEXT = 3 };

typedef void (*any_function)(void);

struct tables {
    size_t bytes;
    int (*find)(uint32_t table, any_function ***functions, unsigned *count);
};

/* What a range is called, among others. */
struct attributes {
    uint16_t version, bytes;
    uint32_t category;
    int32_t color_kind;
    uint32_t color;
    int32_t payload_kind, reserved;
    uint64_t payload;
    int32_t text_kind;
    const void *text;
};

/* The ranges of a thread; those inside of the innermost one that has a place have no names. */
enum { RANGES_MAX = 64, NAME_MAX_BYTES = 128 };
static _Thread_local char names[RANGES_MAX][NAME_MAX_BYTES];
static _Thread_local int depth;

/* By the standard ABI, that of MPICH and that of Open MPI: a program has loaded one at most. */
static const char *const libraries[] = {"libmpi_abi.so.1", "libmpi.so.12", "libmpi.so.40"};

static any_function function_of_mpi(const char *name, _Atomic(any_function) *known) {
    void *found = (void *)*known;
    if (!found)
        found = dlsym(RTLD_DEFAULT, name);
    for (size_t i = 0; !found && i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
        found = library ? dlsym(library, name) : NULL;
        if (library)
            dlclose(library);
    }
    return *known = (any_function)found;
}

static int answer_of_mpi(const char *name, _Atomic(any_function) *known) {
    int (*function)(int *) = (int (*)(int *))function_of_mpi(name, known);
    int answer = 0;
    return function && function(&answer) == 0 && answer;
}

/* Whether this process was forked by one that had loaded this library: it is none of MPI's. */
static int is_forked;

static void note_fork(void) {
    is_forked = 1;
}

/* Whether the calling thread, the first one, may call MPI at any time: levels of threads are 0 to 3,
 * or multiples of 1024 by the standard ABI. */
static int may_call_mpi(void) {
    static _Atomic(any_function) query, is_main_thread;
    int (*level_of)(int *) = (int (*)(int *))function_of_mpi("MPI_Query_thread", &query), level = 0;
    if (!level_of || level_of(&level) != 0 || level == 2 || level == 2048)
        return 0;
    return level == 3 || level == 4096 || answer_of_mpi("MPI_Is_thread_main", &is_main_thread);
}

/* The innermost range that has a name becomes the phase. */
static void update_phase(void) {
    static _Atomic(any_function) initialized, finalized, phase;
    if (is_forked || gettid() != getpid() || !answer_of_mpi("MPI_Initialized", &initialized) ||
        answer_of_mpi("MPI_Finalized", &finalized) || !may_call_mpi())
        return;
    int (*begin)(const char *) = (int (*)(const char *))function_of_mpi("combray_phase", &phase);
    if (begin)
        begin(depth == 0 ? "" : names[(depth < RANGES_MAX ? depth : RANGES_MAX) - 1]);
}

/* Returns the number of ranges around the new one. */
static int push(const char *name) {
    if (depth < RANGES_MAX)
        snprintf(names[depth], NAME_MAX_BYTES, "%s", name && *name ? name : "range");
    depth++;
    update_phase();
    return depth - 1;
}

/* Characters that are not in ASCII become question marks. */
static const char *narrow(const wchar_t *text, char *buffer) {
    int length = 0;
    for (; text && text[length] && length < NAME_MAX_BYTES - 1; length++)
        buffer[length] = text[length] < 128 ? (char)text[length] : '?';
    buffer[length] = 0;
    return buffer;
}

static int push_wide(const wchar_t *name) {
    char buffer[NAME_MAX_BYTES];
    return push(narrow(name, buffer));
}

static int push_ex(const struct attributes *range) {
    if (!range || range->bytes < sizeof *range || range->text_kind < TEXT || range->text_kind > REGISTERED_TEXT)
        return push(NULL);
    return range->text_kind == WIDE_TEXT ? push_wide(range->text) : push(range->text);
}

/* Returns the number of ranges around the one that ends, or NVTX's value for no range. */
static int pop(void) {
    if (depth == 0)
        return -2;
    depth--;
    update_phase();
    return depth;
}

static int push_in_domain(void *domain, const struct attributes *range) {
    (void)domain;
    return push_ex(range);
}

static int pop_in_domain(void *domain) {
    (void)domain;
    return pop();
}

/* The handle of a text is a copy, which NVTX has no function to free. */
static void *register_text(void *domain, const char *text) {
    (void)domain;
    return strdup(text ? text : "");
}

static void *register_wide_text(void *domain, const wchar_t *text) {
    char buffer[NAME_MAX_BYTES];
    return register_text(domain, narrow(text, buffer));
}

static void set(any_function **functions, unsigned count, unsigned place, any_function function) {
    if (place < count && functions[place])
        *functions[place] = function;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*table)(uint32_t)) {
    const struct tables *tables = table(TABLE_OF_TABLES);
    any_function **functions;
    unsigned count;
    if (!tables || tables->bytes < sizeof *tables || pthread_atfork(NULL, NULL, note_fork) != 0)
        return 0;
    if (tables->find(TABLE_CORE, &functions, &count)) {
        set(functions, count, CORE_PUSH_EX, (any_function)push_ex);
        set(functions, count, CORE_PUSH, (any_function)push);
        set(functions, count, CORE_PUSH_WIDE, (any_function)push_wide);
        set(functions, count, CORE_POP, (any_function)pop);
    }
    if (tables->find(TABLE_DOMAINS, &functions, &count)) {
        set(functions, count, DOMAINS_PUSH_EX, (any_function)push_in_domain);
        set(functions, count, DOMAINS_POP, (any_function)pop_in_domain);
        set(functions, count, DOMAINS_REGISTER, (any_function)register_text);
        set(functions, count, DOMAINS_REGISTER_WIDE, (any_function)register_wide_text);
    }
    return 1;
}
