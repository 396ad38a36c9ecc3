// Programs whose time with and without a trace bench/tracing compares: messages of 8 bytes there
// and back, sums of 8 bytes over all ranks, and a two-dimensional Jacobi iteration with halos.
// Arguments: the name, the number of turns. Prints "took SECONDS". It is plain MPI, to be compiled
// with any library.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EDGE = 512 };

static int rank, size;
static double table[2][EDGE + 2][EDGE + 2];

static void ping_pong(int turns) {
    char message[8] = {0};
    for (int turn = 0; turn < turns && rank < 2; turn++) {
        if (rank == 0)
            MPI_Send(message, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(message, 8, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(message, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
}

static void allreduce(int turns) {
    double value = rank, sum;
    for (int turn = 0; turn < turns; turn++)
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

// Each rank has EDGE rows of EDGE numbers, and exchanges the first and the last with its
// neighbours.
static void halo(int turns) {
    int below = rank > 0 ? rank - 1 : MPI_PROC_NULL, above = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    for (int turn = 0; turn < turns; turn++) {
        double(*now)[EDGE + 2] = table[turn % 2], (*next)[EDGE + 2] = table[1 - turn % 2];
        MPI_Request requests[4];
        MPI_Irecv(now[0], EDGE, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(now[EDGE + 1], EDGE, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(now[1], EDGE, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(now[EDGE], EDGE, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (int row = 1; row <= EDGE; row++)
            for (int column = 1; column <= EDGE; column++)
                next[row][column] = 0.25 * (now[row - 1][column] + now[row + 1][column] + now[row][column - 1] +
                                            now[row][column + 1]);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *name = argc > 1 ? argv[1] : "";
    int turns = argc > 2 ? atoi(argv[2]) : 1000;
    void (*run)(int) = strcmp(name, "pingpong") == 0    ? ping_pong
                       : strcmp(name, "allreduce") == 0 ? allreduce
                       : strcmp(name, "halo") == 0      ? halo
                                                        : NULL;
    if (!run || size < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    run(turns / 10);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    run(turns);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("took %.6f\n", MPI_Wtime() - begun);
    MPI_Finalize();
    return 0;
}
