// Two ranks that compute, and then rank 1 waits while rank 0 goes on: in phases. For scenarios,
// which count the energy.
#include <combray.h>
#include <mpi.h>
#include <time.h>

// Seconds of processor time.
static const double BOTH = 0.2, ALONE = 0.6;

static double used(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void compute(double seconds) {
    double begun = used();
    while (used() < begun + seconds)
        continue;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    combray_phase("even");
    compute(BOTH);
    MPI_Barrier(MPI_COMM_WORLD);
    combray_phase("uneven");
    if (rank == 0)
        compute(ALONE);
    MPI_Barrier(MPI_COMM_WORLD);
    combray_phase("");
    MPI_Finalize();
    return 0;
}
