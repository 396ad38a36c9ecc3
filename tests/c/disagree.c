// Processes whose collective operations do not match, for tests/scenarios/disagreements.py: the
// argument selects the mismatch. Processes whose calls match, though late, print that they are
// done.
// thread
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 100000 };

// Several operations of one thread while the other waits for a process that is late.
static void *beside(void *argument) {
    MPI_Comm comm = *(MPI_Comm *)argument;
    int rank, value = 1, sum = 0;
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < 3; i++) {
        if (rank == i) usleep(1300000);
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    }
    return NULL;
}

int main(int argc, char **argv) {
    static int data[LARGE], result[LARGE];
    const char *how = argc > 1 ? argv[1] : "";
    int rank, size, begun = 0;
    int level;
    MPI_Init_thread(&argc, &argv, strcmp(how, "late-threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
                    &level);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    // So that there is a board where there can be one.
    for (int i = 0; i < 10; i++) MPI_Barrier(world);
    if (!strcmp(how, "small-root")) MPI_Bcast(data, rank == 0 ? 10 : LARGE, MPI_INT, 0, world);
    else if (!strcmp(how, "large-root")) MPI_Bcast(data, rank == 0 ? LARGE : 10, MPI_INT, 0, world);
    else if (!strcmp(how, "nonblocking")) {
        MPI_Ibcast(data, rank == 0 ? 10 : LARGE, MPI_INT, 0, world, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "counts"))
        MPI_Allreduce(data, result, rank == 1 ? 1 : LARGE, MPI_INT, MPI_SUM, world);
    else if (!strcmp(how, "roots")) MPI_Bcast(data, 10, MPI_INT, rank == 1, world);
    else if (!strcmp(how, "functions")) {
        if (rank == 0) MPI_Barrier(world);
        else MPI_Allreduce(data, result, 10, MPI_INT, MPI_SUM, world);
    } else if (!strcmp(how, "absent")) {
        if (rank > 0) MPI_Allgather(data, 100, MPI_INT, result, 100, MPI_INT, world);
    } else if (!strcmp(how, "late")) {
        // One that computes, and one that waits for it in another call.
        if (rank == 0) sleep(3);
        if (rank == 0) MPI_Send(data, 1, MPI_INT, 1, 0, world);
        if (rank == 1) MPI_Recv(data, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
        MPI_Barrier(world);
        MPI_Ibarrier(world, &request);
        if (rank == 0) sleep(2);
        while (!begun) MPI_Test(&request, &begun, MPI_STATUS_IGNORE);
        MPI_Allreduce(data, result, LARGE, MPI_INT, MPI_SUM, world);
        printf("rank %d of %d is done\n", rank, size);
    } else if (!strcmp(how, "late-threads")) {
        MPI_Comm other;
        pthread_t thread;
        MPI_Comm_dup(world, &other);
        pthread_create(&thread, NULL, beside, &other);
        if (rank == 1) usleep(2200000);
        MPI_Bcast(data, LARGE, MPI_INT, 1, world);
        MPI_Barrier(world);
        pthread_join(thread, NULL);
        MPI_Comm_free(&other);
        printf("rank %d of %d is done\n", rank, size);
    }
    MPI_Finalize();
    return 0;
}
