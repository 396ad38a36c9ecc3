// Threads of the library that keep their state until the program gets a line: for scenarios that
// inspect them.
// combray.h
#include "check.h"
#include <combray_threads.h>

enum { WAITING = 40 };

static combray_semaphore gate;

static void *waits(void *argument) {
    CHECK(combray_semaphore_wait(&gate) == 0);
    return argument;
}

// Waits in MPI, for what the end of the program sends.
static void *receives(void *argument) {
    OK(MPI_Recv(NULL, 0, MPI_BYTE, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return argument;
}

int main(int argc, char **argv) {
    int level;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    check_world();
    CHECK(combray_threads_start(1, 0, "cache") == 0);
    combray_bubble bubble;
    CHECK(combray_bubble_create(&bubble, NULL, COMBRAY_WAITS_TOGETHER) == 0);
    combray_thread threads[WAITING + 1];
    for (int i = 0; i < WAITING; i++)
        CHECK(combray_thread_create(&threads[i], "waits at the gate", bubble, waits, NULL) == 0);
    CHECK(combray_bubble_submit(bubble) == 0);
    CHECK(combray_thread_create(&threads[WAITING], "receives", NULL, receives, NULL) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Send(NULL, 0, MPI_BYTE, check_rank, 1, MPI_COMM_WORLD));
    for (int i = 0; i < WAITING; i++)
        CHECK(combray_semaphore_post(&gate) == 0);
    for (int i = 0; i <= WAITING; i++)
        CHECK(combray_thread_join(threads[i], NULL) == 0);
    CHECK(combray_bubble_free(bubble) == 0);
    CHECK(combray_threads_stop() == 0);
    return check_end();
}
