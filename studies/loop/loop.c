/* One loop over an array, repeated very often, divided among threads and processes in five ways.
 *
 *     mpicc -O2 -fopenmp loop.c -o loop -lm && mpirun -n 2 ./loop [LENGTH [ITERATIONS [REPETITIONS]]]
 *
 * In each iteration b[i] = b[i] / 2 + 1 for all i, and then all threads of all processes agree whether to go
 * on: by a barrier, and by MPI_Allreduce where there are several processes. The ways:
 *
 *     fine         a parallel region for each iteration
 *     worksharing  one region, with an OpenMP loop in it for each iteration
 *     cyclic       one region; thread t takes the elements t, t + T, t + 2T ...: neighbours share cache lines
 *     blocks       one region; the last thread also takes the remainder of the division
 *     balanced     one region; the lengths of any two blocks differ by at most one */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <omp.h>

enum { FINE, WORKSHARING, CYCLIC, BLOCKS, BALANCED, WAYS };
static const char *const NAMES[] = {"fine", "worksharing", "cyclic", "blocks", "balanced"};

static double *b;
static int first, length; /* of this process's part */
static double communication;

/* The end of an iteration among processes; one thread of each calls it. */
static void agree(int iteration) {
    int go_on = iteration, all;
    if (size == 1) return;
    double started = MPI_Wtime();
    MPI_Allreduce(&go_on, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    communication += MPI_Wtime() - started;
    if (all != iteration) MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline double next(double value) {
    return value / 2 + 1;
}

static void run_fine(int iterations) {
    for (int iteration = 0; iteration < iterations; iteration++) {
#pragma omp parallel for schedule(static)
        for (int i = 0; i < length; i++) b[i] = next(b[i]);
        agree(iteration);
    }
}

static void run_worksharing(int iterations) {
#pragma omp parallel
    for (int iteration = 0; iteration < iterations; iteration++) {
#pragma omp for schedule(static)
        for (int i = 0; i < length; i++) b[i] = next(b[i]);
#pragma omp master
        agree(iteration);
    }
}

static void run_divided(int way, int iterations) {
#pragma omp parallel
    {
        int thread = omp_get_thread_num(), threads = omp_get_num_threads(), step = 1;
        int begin = length / threads * thread, end = thread == threads - 1 ? length : begin + length / threads;
        if (way == BALANCED) {
            begin = (int)((long)length * thread / threads);
            end = (int)((long)length * (thread + 1) / threads);
        } else if (way == CYCLIC) {
            begin = thread;
            end = length;
            step = threads;
        }
        for (int iteration = 0; iteration < iterations; iteration++) {
            for (int i = begin; i < end; i += step) b[i] = next(b[i]);
#pragma omp barrier
#pragma omp master
            agree(iteration);
        }
    }
}

/* How far the array is from what the iterations must give: b[i] = 2 + (start - 2) / 2^iterations, exactly
 * while the start is small enough. */
static double largest_error(int iterations) {
    double largest = 0;
    for (int i = 0; i < length; i++) {
        double value = first + i;
        for (int iteration = 0; iteration < iterations && value != next(value); iteration++) value = next(value);
        double error = fabs(b[i] - value);
        if (!(error <= largest)) largest = error;
    }
    return largest;
}

int main(int argc, char **argv) {
    study_begin("loop", &argc, &argv, MPI_THREAD_FUNNELED);
    int whole = study_number(argc, argv, 1, 1000), iterations = study_number(argc, argv, 2, 10000);
    int repetitions = study_number(argc, argv, 3, 1);
    study_need(whole && whole <= 100000000 && iterations && repetitions,
               "loop [LENGTH [ITERATIONS [REPETITIONS]]]: an array of at most 100000000 numbers");
    first = (int)((long)whole * rank / size);
    length = (int)((long)whole * (rank + 1) / size) - first;
    b = study_allocate((size_t)length, sizeof *b);
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int way = 0; way < WAYS; way++) {
            for (int i = 0; i < length; i++) b[i] = first + i;
            communication = 0;
            MPI_Barrier(MPI_COMM_WORLD);
            double started = MPI_Wtime();
            if (way == FINE)
                run_fine(iterations);
            else if (way == WORKSHARING)
                run_worksharing(iterations);
            else
                run_divided(way, iterations);
            study_case(NAMES[way], MPI_Wtime() - started, communication);
            study_verify(NAMES[way], largest_error(iterations), 0);
        }
    free(b);
    return study_end();
}
