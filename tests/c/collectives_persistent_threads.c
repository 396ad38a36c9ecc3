// Threads that each start a persistent collective of their own, all on one communicator, so that
// the processes start them in whatever order the threads come; while one thread makes more of them
// on another communicator, and frees them.
// run: 2 3
// each: auto never
// timeout: 60
// thread
// hosts
// checkers: threads
#include <pthread.h>
#include "check.h"

enum { THREADS = 4, RUNS = 400, MADE = 60, LONGEST = 5000 };

static int rank, size;
static MPI_Request requests[THREADS];
static int in[THREADS][LONGEST], out[THREADS][LONGEST];
static const int counts[THREADS] = {1, 13, 300, LONGEST};

static void *run(void *argument) {
    int own = *(int *)argument, last = counts[own] - 1;
    for (int i = 0; i < RUNS; i++) {
        in[own][0] = rank + i, in[own][last] = rank + i + own;
        OK(MPI_Start(&requests[own]));
        OK(MPI_Wait(&requests[own], MPI_STATUS_IGNORE));
        int ranks = size * (size - 1) / 2, both = last == 0 ? own : 0;
        CHECK_EQ(out[own][0], ranks + size * (i + both));
        CHECK_EQ(out[own][last], ranks + size * (i + own));
    }
    return NULL;
}

static void *make(void *argument) {
    MPI_Comm comm = *(MPI_Comm *)argument;
    for (int i = 0; i < MADE; i++) {
        int mine = rank + i, sum = -1;
        MPI_Request request;
        OK(MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
        for (int again = 0; again < 3; again++) {
            sum = -1;
            OK(MPI_Start(&request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_EQ(sum, size * (size - 1) / 2 + size * i);
        }
        OK(MPI_Request_free(&request));
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) setenv("COMBRAY_BOARDS", argv[1], 1);
    int level;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    CHECK_EQ(level, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    MPI_Comm other;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    pthread_t threads[THREADS + 1];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        OK(MPI_Allreduce_init(in[i], out[i], counts[i], MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                              MPI_INFO_NULL, &requests[i]));
    }
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run, &numbers[i]);
    pthread_create(&threads[THREADS], NULL, make, &other);
    for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) OK(MPI_Request_free(&requests[i]));
    OK(MPI_Comm_free(&other));
    return check_end();
}
