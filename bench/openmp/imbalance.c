// Ranks with unequal work: imbalance ITERATIONS LIGHT HEAVY. In each iteration rank 0 does HEAVY
// units of work in a parallel loop, the others LIGHT, then all meet. Prints the time, and how many
// cores were used on average.
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Loop iterations of a unit, each of some 9 us, so that a unit takes 0.2 ms.
#define PIECES 24
#define STEPS 8000

static double piece(void) {
    double value = 1;
    for (int step = 0; step < STEPS; step++)
        value = value * 1.0000001 + 1e-9;
    return value;
}

static double processor_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void iterate(int iterations, int units) {
    double sum = 0;
    for (int i = 0; i < iterations; i++) {
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (int j = 0; j < units * PIECES; j++)
            sum += piece();
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

int main(int count, char **arguments) {
    int rank, level;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (count != 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int iterations = atoi(arguments[1]), units = atoi(arguments[rank == 0 ? 3 : 2]);
    iterate(3, units);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime(), used = processor_seconds(), all;
    iterate(iterations, units);
    double lasted = MPI_Wtime() - begun;
    used = processor_seconds() - used;
    MPI_Reduce(&used, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.4f s, %.2f cores\n", lasted, all / lasted);
    MPI_Finalize();
    return 0;
}
