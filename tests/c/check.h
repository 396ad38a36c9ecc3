// What every test program here uses: checks that say file, line and values, a seeded random source,
// and the measures of the process (memory, processor time).
//
// CHECK counts a failure and goes on; REQUIRE ends the job, for where going on could only hang.
// A program starts with check_begin() and ends with `return check_end();`.
//
// Comment lines at the head of a program tell tests/run how to run it:
//   // run: 2 3 5        process counts, one job each
//   // at night: 4         more process counts, for `make test-all` (tests/run --night)
//   // timeout: 30       seconds (default 30)
//   // preload: x.c      a library that is built and set as LD_PRELOAD
//   // each: a b         one run with each word as the argument
//   // thread            links with -pthread
//   // openmp            compiles with -fopenmp
//   // one machine: why  not run on several hosts (tests/cluster/run)
//   // combray.h         skipped where the library has no such header
//   // library: x.so p  skipped where the system does not find this library; p: Debian's package
//   // memory: 12        GiB that must be available, else the test is skipped
#ifndef CHECK_H
#define CHECK_H

#include <malloc.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

// Some programs use only a part of this header.
#define MAYBE_UNUSED __attribute__((unused))

static int check_failures MAYBE_UNUSED;
static int check_rank MAYBE_UNUSED;
static int check_size MAYBE_UNUSED;
// Messages of errors are held to Combray's standard only where the library is Combray.
static int check_is_combray MAYBE_UNUSED;

// After this many the rest would only hide the first.
enum { CHECK_FAILURES_SHOWN = 20 };

// How many of `rounds` of random work a program does: under ThreadSanitizer, which makes it ten
// times slower, a fifth.
#ifdef __SANITIZE_THREAD__
#define CHECK_ROUNDS(rounds) ((rounds) / 5)
#else
#define CHECK_ROUNDS(rounds) (rounds)
#endif

static void MAYBE_UNUSED __attribute__((format(printf, 4, 5)))
check_fail(const char *file, int line, int fatal, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (__atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED) <= CHECK_FAILURES_SHOWN || fatal) {
        fprintf(stderr, "%s:%d: rank %d of %d: %s\n", file, line, check_rank, check_size, text);
        fflush(stderr);
    }
    if (fatal) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        _exit(1);
    }
}

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) check_fail(__FILE__, __LINE__, 0, "`" #condition "` is false: " __VA_ARGS__); \
    } while (0)

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) check_fail(__FILE__, __LINE__, 1, "`" #condition "` is false: " __VA_ARGS__); \
    } while (0)

#define CHECK_EQ(actual, expected)                                                                 \
    do {                                                                                           \
        long long actual_ = (long long)(actual), expected_ = (long long)(expected);                \
        if (actual_ != expected_)                                                                  \
            check_fail(__FILE__, __LINE__, 0, "%s is %lld, expected %s = %lld", #actual, actual_,  \
                       #expected, expected_);                                                      \
    } while (0)

static void MAYBE_UNUSED check_success(const char *file, int line, const char *call, int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    check_fail(file, line, 1, "%s returned %d: %s", call, code, text);
}

// The call must succeed; otherwise the job ends here.
#define OK(call) check_success(__FILE__, __LINE__, #call, (call))

// The class of what a call returned.
static int MAYBE_UNUSED class_of(int code) {
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    return class;
}

// The call must return an error of this class, or MPI_SUCCESS if that is wanted.
#define CHECK_CLASS(call, wanted)                                                                  \
    do {                                                                                           \
        int class_ = class_of(call);                                                               \
        CHECK(class_ == (wanted), "rank %d: %s gave class %d", check_rank, #call, class_);         \
    } while (0)

// The class of an error, the name of the call in its message, and further words of the message
// (the argument and the value).
static void MAYBE_UNUSED check_error(const char *file, int line, const char *call, int code,
                                     int expected_class, const char *const *words) {
    int class = -1, length = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    if (code == MPI_SUCCESS) {
        check_fail(file, line, 0, "%s succeeded, expected error class %d", call, expected_class);
        return;
    }
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    if (class != expected_class)
        check_fail(file, line, 0, "%s: error class %d, expected %d (%s)", call, class,
                   expected_class, text);
    if (length != (int)strlen(text))
        check_fail(file, line, 0, "%s: MPI_Error_string says %d characters, wrote %zu", call,
                   length, strlen(text));
    if (!check_is_combray) return;
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
    if (!strstr(text, name))
        check_fail(file, line, 0, "%s: the message does not name the call: %s", call, text);
    for (words++; *words; words++)
        if (!strstr(text, *words))
            check_fail(file, line, 0, "%s: the message does not say \"%s\": %s", call, *words, text);
}

// EXPECT_ERROR(call, class, words...): the call must fail with that class.
#define EXPECT_ERROR(call, expected_class, ...)                                                    \
    check_error(__FILE__, __LINE__, #call, (call), expected_class,                                 \
                (const char *const[]){NULL, ##__VA_ARGS__, NULL})

static void MAYBE_UNUSED check_world(void) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    MPI_Get_library_version(version, &length);
    check_is_combray = strstr(version, "Combray") != NULL;
    // Errors without a communicator go to the handler of MPI_COMM_SELF (MPI 5.0, section 9.3).
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static void MAYBE_UNUSED check_begin(void) {
    MPI_Init(NULL, NULL);
    check_world();
}

static int MAYBE_UNUSED check_end(void) {
    MPI_Finalize();
    if (check_failures > CHECK_FAILURES_SHOWN)
        fprintf(stderr, "rank %d: %d failures in all\n", check_rank, check_failures);
    return check_failures != 0;
}

// Random numbers from a seed: equal on every rank if seeded alike. CHECK_SEED overrides.
typedef struct {
    uint64_t state;
} Random;

static Random MAYBE_UNUSED random_from(uint64_t seed) {
    const char *given = getenv("CHECK_SEED");
    if (given) seed += strtoull(given, NULL, 0) * 1000003;
    return (Random){seed * 0x9e3779b97f4a7c15u + 0x1234567};
}

static uint64_t MAYBE_UNUSED random_next(Random *random) {
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// A number in [0, bound).
static int MAYBE_UNUSED random_below(Random *random, int bound) {
    return (int)(random_next(random) % (uint64_t)bound);
}

// The byte that belongs at one place of a message's pattern.
static inline unsigned char pattern_byte(uint64_t seed, uint64_t at) {
    uint64_t z = (at + seed * 7919) * 0x9e3779b97f4a7c15u;
    return (unsigned char)(z >> 56);
}

static void MAYBE_UNUSED pattern_fill(void *buffer, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)buffer)[i] = pattern_byte(seed, i);
}

// The index of the first wrong byte, or -1.
static long long MAYBE_UNUSED pattern_wrong_at(const void *buffer, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)buffer)[i] != pattern_byte(seed, i)) return (long long)i;
    return -1;
}

#define CHECK_PATTERN(buffer, bytes, seed)                                                         \
    do {                                                                                           \
        long long wrong_ = pattern_wrong_at(buffer, bytes, seed);                                  \
        if (wrong_ >= 0)                                                                           \
            check_fail(__FILE__, __LINE__, 0, "%s: byte %lld of %lld is wrong", #buffer, wrong_,   \
                       (long long)(bytes));                                                        \
    } while (0)

// A field of /proc/self/status in KiB, such as "VmRSS" or "VmHWM".
static long MAYBE_UNUSED memory_kib(const char *field) {
    char line[256];
    long value = -1;
    FILE *status = fopen("/proc/self/status", "r");
    if (!status) return -1;
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, field, strlen(field)) && line[strlen(field)] == ':')
            value = atol(line + strlen(field) + 1);
    fclose(status);
    return value;
}

// From now on threads share the heaps that they have: the C library reserves 64 MiB of addresses
// for a thread that finds none free, at a time of its own choice.
static void MAYBE_UNUSED keep_heaps(void) { mallopt(M_ARENA_MAX, 1); }

// Processor time of the whole process so far, in seconds.
static double MAYBE_UNUSED processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

#endif
