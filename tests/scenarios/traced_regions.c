// Regions, barriers and tasks of OpenMP, whose numbers are known. For scenarios.
#include <mpi.h>
#include <omp.h>

static void compute(double milliseconds) {
    double begun = omp_get_wtime();
    while (omp_get_wtime() - begun < milliseconds * 1e-3) {
    }
}

static void sweep(void) {
#pragma omp parallel num_threads(3)
    {
        compute(1 + omp_get_thread_num());
#pragma omp barrier
        compute(1);
    }
}

static void tasks(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 6; i++) {
#pragma omp task
        compute(1);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 3; i++) {
        sweep();
        tasks();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
