// Threads of the library that communicate beside the random programs.
#ifndef BESIDE_H
#define BESIDE_H

#include "../c/check.h"

#if __has_include(<combray_threads.h>)
#include <combray_threads.h>

// A program needs more stack than threads have by default.
enum { BESIDE_MAX = 16, BESIDE_BYTES_MAX = 40000, STACK_BYTES = 4 << 20 };

typedef struct {
    int number;
    MPI_Comm comm;
    // Set once the programs of this process are over.
    const int *over;
} Beside;

static uint64_t beside_word(int number, long round, int from) {
    uint64_t word = (uint64_t)number * 1000003 + (uint64_t)round * 8191 + (uint64_t)from + 1;
    word *= 0x9e3779b97f4a7c15u;
    return word ^ word >> 29;
}

static void fill_beside(unsigned char *bytes, int count, uint64_t word) {
    for (int i = 0; i < count; i++) bytes[i] = (unsigned char)(word >> i % 8 * 8) ^ (unsigned char)(i / 8);
}

// A message to the next process and one from the previous, of one length everywhere, with the
// various ways to wait for them; a collective operation tells whether all have finished.
static void *communicate_beside(void *argument) {
    Beside *self = argument;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    unsigned char *out = malloc(BESIDE_BYTES_MAX), *in = malloc(BESIDE_BYTES_MAX), *expected = malloc(BESIDE_BYTES_MAX);
    REQUIRE(out && in && expected, "no memory");
    for (long round = 0, all_over = 0; !all_over; round++) {
        uint64_t shape = beside_word(self->number, round, -1);
        int count = shape % 4 ? (int)(shape >> 8) % 200 : (int)((shape >> 8) % BESIDE_BYTES_MAX);
        count = count < 0 ? -count : count;
        fill_beside(out, count, beside_word(self->number, round, check_rank));
        fill_beside(expected, count, beside_word(self->number, round, before));
        memset(in, 0, (size_t)count);
        MPI_Request requests[2];
        switch (shape >> 40 & 3) {
        case 0:
            OK(MPI_Sendrecv(out, count, MPI_BYTE, next, 1, in, count, MPI_BYTE, before, 1, self->comm,
                            MPI_STATUS_IGNORE));
            break;
        case 1:
            OK(MPI_Isend(out, count, MPI_BYTE, next, 2, self->comm, &requests[0]));
            OK(MPI_Recv(in, count, MPI_BYTE, before, 2, self->comm, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
            break;
        default:
            OK(MPI_Irecv(in, count, MPI_BYTE, before, 3, self->comm, &requests[0]));
            OK(MPI_Isend(out, count, MPI_BYTE, next, 3, self->comm, &requests[1]));
            OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        }
        CHECK(!memcmp(in, expected, (size_t)count), "thread %d, round %ld: %d bytes differ", self->number, round, count);
        if (shape >> 42 & 1) combray_thread_sleep(1000 * (shape >> 43 & 255));
        int over = __atomic_load_n(self->over, __ATOMIC_ACQUIRE), any_not;
        over = !over;
        OK(MPI_Allreduce(&over, &any_not, 1, MPI_INT, MPI_LOR, self->comm));
        all_over = !any_not;
    }
    free(out);
    free(in);
    free(expected);
    return NULL;
}

static void begin_threads(void) {
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    check_world();
    REQUIRE(level == MPI_THREAD_MULTIPLE, "the library has no threads");
}

// Runs `body` on a thread of the library, and `count` others beside it until it is over in all
// processes.
static void run_beside(void *(*body)(void *), int count) {
    combray_thread program, threads[BESIDE_MAX];
    Beside beside[BESIDE_MAX];
    int over = 0;
    REQUIRE(count <= BESIDE_MAX, "at most %d threads beside", BESIDE_MAX);
    REQUIRE(combray_threads_start(0, STACK_BYTES, NULL) == 0, "no workers");
    for (int i = 0; i < count; i++) {
        beside[i] = (Beside){.number = i, .over = &over};
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &beside[i].comm));
    }
    for (int i = 0; i < count; i++)
        REQUIRE(combray_thread_create(&threads[i], "beside", NULL, communicate_beside, &beside[i]) == 0, "no thread");
    REQUIRE(combray_thread_create(&program, "program", NULL, body, NULL) == 0, "no thread");
    combray_thread_join(program, NULL);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < count; i++) {
        combray_thread_join(threads[i], NULL);
        OK(MPI_Comm_free(&beside[i].comm));
    }
    REQUIRE(combray_threads_stop() == 0, "threads are left");
}

#else

static void begin_threads(void) {
    fprintf(stderr, "this library has no threads of its own\n");
    exit(2);
}

static void run_beside(void *(*body)(void *), int count) {
    (void)body, (void)count;
}

#endif

#endif
