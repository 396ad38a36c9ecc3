// Two threads of a process wait in collective operations, one of them for long: the other goes on
// at once when the peer comes.
// run: 2 3
// thread
#include "check.h"
#include <pthread.h>
#include <time.h>

enum { LATE, LATER, COUNT };

static MPI_Comm communicators[COUNT];
static double out[COUNT];

static void nap(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void *waits(void *argument) {
    int which = *(int *)argument;
    // The one that waits longer is asleep when the other one begins.
    if (check_rank == 0) nap(which == LATER ? 0 : 0.05);
    else nap(which == LATER ? 1.0 : 0.25);
    MPI_Barrier(communicators[which]);
    out[which] = MPI_Wtime();
    return NULL;
}

int main(int argc, char **argv) {
    int level, which[COUNT] = {LATE, LATER};
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    check_world();
    for (int i = 0; i < COUNT; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &communicators[i]));
        // They have their places in shared memory then.
        for (int times = 0; times < 10; times++) OK(MPI_Barrier(communicators[i]));
    }
    int in_time = 0;
    for (int round = 0; round < 5; round++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        pthread_t threads[COUNT];
        for (int i = 0; i < COUNT; i++) pthread_create(&threads[i], NULL, waits, &which[i]);
        for (int i = 0; i < COUNT; i++) pthread_join(threads[i], NULL);
        // A loaded machine may be late now and then, but not always.
        in_time += out[LATER] - out[LATE] > 0.55;
    }
    CHECK(in_time >= 1, "of 5 rounds %d in which who waits less is not kept by the other", in_time);
    for (int i = 0; i < COUNT; i++) OK(MPI_Comm_free(&communicators[i]));
    return check_end();
}
