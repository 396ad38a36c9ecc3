// A program with phases and calls, a part of which SLOWED makes slow: a phase, or the operations of
// one size. For scenarios.
#include <combray.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGE = 4096, STEPS = 6 };

static double large[LARGE], sums[LARGE];

// Outside of MPI, and however many others want the core.
static void compute(long milliseconds) {
    struct timespec time = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *value = getenv("SLOWED"), *slowed = value ? value : "";
    for (int step = 0; step < STEPS; step++) {
        combray_phase("assembly");
        compute(strcmp(slowed, "assembly") == 0 ? 60 : 10);
        combray_phase("solve");
        compute(10);
        MPI_Allreduce(large, sums, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        // The other ranks wait for the last one in this operation.
        if (rank == 1 && strcmp(slowed, "large") == 0)
            compute(50);
        MPI_Allreduce(large, sums, LARGE, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        combray_phase("");
    }
    MPI_Finalize();
    return 0;
}
