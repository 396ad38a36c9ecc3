/* A barrier over all threads of all processes, in two ways.
 *
 *     mpicc -O2 -fopenmp hybrid_barrier.c -o hybrid_barrier
 *     OMP_NUM_THREADS=4 mpirun -n 2 ./hybrid_barrier [ROUNDS]
 *
 * Funneled: the threads of a process meet, one of them meets the other processes, and all meet again.
 * It needs MPI_THREAD_FUNNELED. Multiple: each thread meets its counterparts in the other processes, on a
 * communicator of its own, and then the threads of its process; it needs MPI_THREAD_MULTIPLE.
 *
 * After each round every thread sees that all others have come: each process tells in a sum how many of
 * its threads had come before the one that spoke for them, or all of them, left. What the two cost is
 * printed, per barrier. All processes must have the same number of threads. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size, threads;
static MPI_Comm *comms; /* one for each thread */

/* Called by all threads of all processes. */
static void funneled_barrier(void) {
#pragma omp barrier
#pragma omp master
    MPI_Barrier(comms[0]);
#pragma omp barrier
}

/* No thread leaves before its counterparts have come, and none before its companions have heard of
 * theirs. */
static void multiple_barrier(void) {
    MPI_Barrier(comms[omp_get_thread_num()]);
#pragma omp barrier
}

/* How many threads of this process have come to the rounds so far. */
static long come;

/* So many rounds; how often a thread found that another one had not come. */
static long count_violations(void (*barrier)(void), int rounds) {
    long violations = 0;
    come = 0;
#pragma omp parallel num_threads(threads) reduction(+ : violations)
    for (int round = 1; round <= rounds; round++) {
#pragma omp atomic
        come++;
        barrier();
        long here;
#pragma omp atomic read
        here = come;
        /* Companions may be in the next round already, but not in one after that. */
        violations += here < (long)threads * round || here > (long)threads * (round + 1);
#pragma omp master
        {
            long least;
            MPI_Allreduce(&here, &least, 1, MPI_LONG, MPI_MIN, comms[0]);
            violations += least < (long)threads * round;
        }
        /* The counts that were compared belong to this round. */
#pragma omp barrier
    }
    return violations;
}

/* Microseconds of one barrier. */
static double time_barriers(void (*barrier)(void), int rounds) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
#pragma omp parallel num_threads(threads)
    for (int round = 0; round < rounds; round++) barrier();
    return (MPI_Wtime() - start) / rounds * 1e6;
}

static void try_barrier(const char *name, void (*barrier)(void), int rounds) {
    long violations = count_violations(barrier, rounds), all;
    double time = time_barriers(barrier, rounds), slowest;
    MPI_Allreduce(&violations, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) printf("%-8s %8.2f µs a barrier, %ld violations\n", name, slowest, all);
    if (all > 0) MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    threads = omp_get_max_threads();
    MPI_Allreduce(MPI_IN_PLACE, &threads, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    comms = malloc((size_t)threads * sizeof *comms);
    if (rounds < 1 || !comms) {
        fprintf(stderr, "hybrid_barrier: give a number of rounds\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < threads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (rank == 0) printf("%d processes of %d threads, %d rounds\n", size, threads, rounds);
    try_barrier("funneled", funneled_barrier, rounds);
    if (provided == MPI_THREAD_MULTIPLE) try_barrier("multiple", multiple_barrier, rounds);
    for (int i = 0; i < threads; i++) MPI_Comm_free(&comms[i]);
    free(comms);
    MPI_Finalize();
    return 0;
}
