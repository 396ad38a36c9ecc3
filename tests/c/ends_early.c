// Jobs that end early: the argument says how. For scenarios, which look at their traces.
#include <combray.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 100 };

static int rank, size;

static void is_killed(void) {
    if (rank == 1)
        raise(SIGKILL);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void aborts(void) {
    if (rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void exits(void) {
    if (rank == 1)
        exit(5);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Each rank waits for a message of the one before.
static void waits(void) {
    MPI_Recv(NULL, 0, MPI_INT, (rank + size - 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void fails_after_the_end(void) {
    MPI_Finalize();
    exit(rank == 1 ? 6 : 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} ENDS[] = {
    {"is_killed", is_killed},
    {"aborts", aborts},
    {"exits", exits},
    {"waits", waits},
    {"fails_after_the_end", fails_after_the_end},
};

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, value = rank, other;
    combray_phase("rounds");
    for (int i = 0; i < ROUNDS; i++)
        MPI_Sendrecv(&value, 1, MPI_INT, next, 3, &other, 1, MPI_INT, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    combray_phase("end");
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (strcmp(ENDS[i].name, argv[1]) == 0)
            ENDS[i].run();
    MPI_Finalize();
    return 2;
}
