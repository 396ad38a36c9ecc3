/* Many short batches: the minimum is the machine at rest, the median is the usual day. */
#define _POSIX_C_SOURCE 200112L
#include "bench.h"

#include <stdlib.h>
#include <time.h>

enum { BATCHES_MIN = 3 };

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Seconds that processors have worked for this process, or thread, in its program and in the
 * system. */
static double processor_seconds(clockid_t clock)
{
    struct timespec time = {0};
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double now(const struct operation *operation)
{
    return operation->clock == CLOCK_WORKED ? processor_seconds(CLOCK_THREAD_CPUTIME_ID)
                                            : MPI_Wtime();
}

static double timed_run(const struct operation *operation, long iterations)
{
    if (operation->prepare)
        operation->prepare(operation->state);
    MPI_Barrier(operation->comm);
    double start = now(operation);
    operation->run(operation->state, iterations);
    return now(operation) - start;
}

/* The median of three runs, as one may meet a time slice of another process; of slow ones, one. */
static double usual_run(const struct job *job, const struct operation *operation, long iterations)
{
    double seconds[3];
    for (int i = 0; i < 3; i++) {
        seconds[i] = timed_run(operation, iterations);
        double slow = seconds[0] > job->options.limit_seconds / 3;
        MPI_Bcast(&slow, 1, MPI_DOUBLE, 0, operation->comm);
        if (slow)
            return seconds[i];
    }
    qsort(seconds, 3, sizeof seconds[0], compare_doubles);
    return seconds[1];
}

enum { CALIBRATING, CALIBRATED, TOO_SLOW };

/* Iterations that fill a batch, or 0 if one is too slow; also the warm-up. All processes get the
 * same answer. */
static long calibrate(const struct job *job, const struct operation *operation)
{
    const struct options *options = &job->options;
    /* A batch is at least a thousand ticks, so that the clock's steps stay below 0.1 %. */
    double target = options->batch_seconds;
    if (target < 1000 * job->clock_resolution)
        target = 1000 * job->clock_resolution;
    double warmed = 0;
    double state[2] = {1, CALIBRATING}; /* iterations, finished */
    while (state[1] == CALIBRATING) {
        double seconds = usual_run(job, operation, (long)state[0]);
        warmed += seconds;
        double factor = seconds > 0 ? target / seconds : 10;
        bool long_enough = factor < 1.3;
        if (state[0] <= 1 && seconds > options->slowest_seconds)
            state[1] = TOO_SLOW;
        else if (long_enough && warmed >= options->warm_up_seconds)
            state[1] = CALIBRATED;
        factor = factor > 10 ? 10 : factor;
        double next = state[0] * factor;
        state[0] = next < 1 ? 1 : (double)(long)(next + 0.5);
        MPI_Bcast(state, 2, MPI_DOUBLE, 0, operation->comm);
    }
    if (state[1] == TOO_SLOW)
        return 0;
    return options->iterations > 0 ? options->iterations : (long)state[0];
}

/* As many batches as the time limit allows; an equal number on all processes. */
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

static struct timing summarize(const struct operation *operation, double *seconds, int batches,
                               long iterations)
{
    if (operation->clock != CLOCK_FIRST)
        MPI_Allreduce(MPI_IN_PLACE, seconds, batches, MPI_DOUBLE, MPI_MAX, operation->comm);
    qsort(seconds, (size_t)batches, sizeof *seconds, compare_doubles);
    double scale = operation->share / (double)iterations;
    double median = seconds[batches / 2];
    if (batches % 2 == 0)
        median = (median + seconds[batches / 2 - 1]) / 2;
    return (struct timing){
        .min = seconds[0] * scale,
        .median = median * scale,
        .spread = (seconds[3 * batches / 4] - seconds[batches / 4]) * scale,
        .iterations = iterations,
        .batches = batches,
    };
}

bool measure(const struct job *job, const struct operation *operations, int count,
             struct timing *timings)
{
    long iterations[OPERATIONS_TOGETHER];
    double *seconds[OPERATIONS_TOGETHER];
    for (int i = 0; i < count; i++) {
        iterations[i] = calibrate(job, &operations[i]);
        if (iterations[i] == 0)
            return false;
        operations[i].check(operations[i].state);
    }
    int batches = affordable_batches(job, operations, count, iterations);
    double processor[OPERATIONS_TOGETHER] = {0};
    for (int i = 0; i < count; i++) {
        seconds[i] = malloc((size_t)batches * sizeof *seconds[i]);
        if (!seconds[i])
            job_fail(job, "no memory for the times of %d batches", batches);
    }
    for (int batch = 0; batch < batches; batch++)
        for (int i = 0; i < count; i++) {
            double before = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
            seconds[i][batch] = timed_run(&operations[i], iterations[i]);
            processor[i] += processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
        }
    for (int i = 0; i < count; i++) {
        /* Once more, since a fault may need load to show. */
        operations[i].check(operations[i].state);
        timings[i] = summarize(&operations[i], seconds[i], batches, iterations[i]);
        MPI_Allreduce(&processor[i], &timings[i].processor, 1, MPI_DOUBLE, MPI_SUM,
                      operations[i].comm);
        timings[i].processor *= operations[i].share / ((double)iterations[i] * batches);
        free(seconds[i]);
    }
    return true;
}
