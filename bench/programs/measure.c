/* Many short batches: the minimum is the machine at rest, the median is the usual day. */
#include "bench.h"

#include <stdlib.h>

enum { BATCHES_MIN = 3 };

static double timed_run(const struct operation *operation, long iterations)
{
    MPI_Barrier(operation->comm);
    double start = MPI_Wtime();
    operation->run(operation->state, iterations);
    return MPI_Wtime() - start;
}

/* Iterations that fill a batch; also the warm-up. All processes get the same answer. */
static long calibrate(const struct job *job, const struct operation *operation)
{
    const struct options *options = &job->options;
    /* A batch is at least a thousand ticks, so that the clock's steps stay below 0.1 %. */
    double target = options->batch_seconds;
    if (target < 1000 * job->clock_resolution)
        target = 1000 * job->clock_resolution;
    double warmed = 0;
    double state[2] = {1, 0}; /* iterations, finished */
    while (!state[1]) {
        double seconds = timed_run(operation, (long)state[0]);
        warmed += seconds;
        double factor = seconds > 0 ? target / seconds : 10;
        bool long_enough = factor < 1.3;
        if (long_enough && warmed >= options->warm_up_seconds)
            state[1] = 1;
        factor = factor > 10 ? 10 : factor;
        double next = state[0] * factor;
        state[0] = next < 1 ? 1 : (double)(long)(next + 0.5);
        MPI_Bcast(state, 2, MPI_DOUBLE, 0, operation->comm);
    }
    return options->iterations > 0 ? options->iterations : (long)state[0];
}

/* As many batches as the limit of time allows; the same number everywhere. */
static int affordable_batches(const struct job *job, const struct operation *operations,
                              int count, const long *iterations)
{
    double seconds = 0;
    for (int i = 0; i < count; i++)
        seconds += timed_run(&operations[i], iterations[i]);
    double batches = job->options.batches;
    if (seconds * batches > job->options.limit_seconds)
        batches = job->options.limit_seconds / seconds;
    if (batches < BATCHES_MIN)
        batches = BATCHES_MIN;
    int agreed = (int)batches;
    MPI_Bcast(&agreed, 1, MPI_INT, 0, operations[0].comm);
    return agreed;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static struct timing summarize(const struct operation *operation, double *seconds, int batches,
                               long iterations)
{
    if (operation->clock == CLOCK_SLOWEST)
        MPI_Allreduce(MPI_IN_PLACE, seconds, batches, MPI_DOUBLE, MPI_MAX, operation->comm);
    qsort(seconds, (size_t)batches, sizeof *seconds, compare_doubles);
    double scale = operation->share / (double)iterations;
    double median = seconds[batches / 2];
    if (batches % 2 == 0)
        median = (median + seconds[batches / 2 - 1]) / 2;
    return (struct timing){
        .min = seconds[0] * scale,
        .median = median * scale,
        .iterations = iterations,
        .batches = batches,
    };
}

void measure(const struct job *job, const struct operation *operations, int count,
             struct timing *timings)
{
    long iterations[OPERATIONS_TOGETHER];
    double *seconds[OPERATIONS_TOGETHER];
    for (int i = 0; i < count; i++) {
        operations[i].check(operations[i].state);
        iterations[i] = calibrate(job, &operations[i]);
    }
    int batches = affordable_batches(job, operations, count, iterations);
    for (int i = 0; i < count; i++) {
        seconds[i] = malloc((size_t)batches * sizeof *seconds[i]);
        if (!seconds[i])
            job_fail(job, "no memory for the times of %d batches", batches);
    }
    for (int batch = 0; batch < batches; batch++)
        for (int i = 0; i < count; i++)
            seconds[i][batch] = timed_run(&operations[i], iterations[i]);
    for (int i = 0; i < count; i++) {
        /* Once more, since a fault may need load to show. */
        operations[i].check(operations[i].state);
        timings[i] = summarize(&operations[i], seconds[i], batches, iterations[i]);
        free(seconds[i]);
    }
}
