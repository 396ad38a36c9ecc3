// What constructs of OpenMP cost, in the way of the EPCC micro-benchmarks: overheads THREADS
// [NAME...] prints for each construct the nanoseconds of one, less those of its work: the median of
// some rounds.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 5
#define ROUND_SECONDS 0.008

static int threads;
static volatile double sink;
static double total;
static omp_lock_t lock;

// Some work that the compiler cannot omit: about 100 ns.
static void work(void) {
    double a = 0;
    for (int i = 0; i < 50; i++)
        a += i;
    if (a < 0)
        sink = a;
    __asm__ volatile("" : : "g"(&a) : "memory");
}

static void nothing(long times) {
    for (long i = 0; i < times; i++)
        work();
}

static void parallel(long times) {
    for (long i = 0; i < times; i++)
#pragma omp parallel num_threads(threads)
        work();
}

static void parallel_reduction(long times) {
    for (long i = 0; i < times; i++) {
        double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
        {
            work();
            sum += 1;
        }
        total += sum;
    }
}

#define INSIDE(name, code)                        \
    static void name(long times) {                \
        _Pragma("omp parallel num_threads(threads)") for (long i = 0; i < times; i++) code \
    }

INSIDE(barrier, { work(); _Pragma("omp barrier") })
INSIDE(loop, { _Pragma("omp for") for (int j = 0; j < threads; j++) work(); })
INSIDE(loop_dynamic, { _Pragma("omp for schedule(dynamic)") for (int j = 0; j < threads * 16; j++) work(); })
INSIDE(loop_guided, { _Pragma("omp for schedule(guided)") for (int j = 0; j < threads * 16; j++) work(); })
INSIDE(loop_static_chunks, { _Pragma("omp for schedule(static, 1)") for (int j = 0; j < threads * 16; j++) work(); })
INSIDE(single, { _Pragma("omp single") work(); })
INSIDE(critical, { _Pragma("omp critical") work(); })
INSIDE(locked, { omp_set_lock(&lock); work(); omp_unset_lock(&lock); })
INSIDE(task, { _Pragma("omp task") work(); })
INSIDE(taskwait, { _Pragma("omp task") work(); _Pragma("omp taskwait") })

static void ordered(long times) {
#pragma omp parallel for ordered schedule(static, 1) num_threads(threads)
    for (long i = 0; i < times; i++) {
#pragma omp ordered
        work();
    }
}

static void task_of_one(long times) {
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (long i = 0; i < times; i++) {
#pragma omp task
        work();
    }
}

static void nested(long times) {
    for (long i = 0; i < times; i++)
#pragma omp parallel num_threads(threads)
#pragma omp parallel num_threads(4)
        work();
}

static const struct {
    const char *name;
    void (*run)(long);
} CONSTRUCTS[] = {
    {"parallel", parallel}, {"parallel-reduction", parallel_reduction}, {"barrier", barrier}, {"for", loop},
    {"for-dynamic", loop_dynamic}, {"for-guided", loop_guided}, {"for-static-1", loop_static_chunks}, {"single", single},
    {"critical", critical}, {"lock", locked}, {"ordered", ordered}, {"task", task}, {"task-of-one", task_of_one},
    {"taskwait", taskwait}, {"nested", nested},
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double seconds(void (*run)(long), long times) {
    double start = omp_get_wtime();
    run(times);
    return omp_get_wtime() - start;
}

static double nanoseconds(void (*run)(long)) {
    long times = 1;
    while (seconds(run, times) < ROUND_SECONDS / 2)
        times *= 2;
    double found[ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        found[round] = seconds(run, times) / times * 1e9;
    qsort(found, ROUNDS, sizeof *found, ascending);
    return found[ROUNDS / 2];
}

int main(int count, char **arguments) {
    threads = count > 1 ? atoi(arguments[1]) : 2;
    omp_init_lock(&lock);
    omp_set_max_active_levels(2);
    double base = nanoseconds(nothing);
    for (unsigned i = 0; i < sizeof CONSTRUCTS / sizeof *CONSTRUCTS; i++) {
        int wanted = count <= 2;
        for (int j = 2; j < count; j++)
            wanted |= strcmp(arguments[j], CONSTRUCTS[i].name) == 0;
        if (!wanted)
            continue;
        printf("%s %.0f\n", CONSTRUCTS[i].name, nanoseconds(CONSTRUCTS[i].run) - base);
        fflush(stdout);
    }
    return 0;
}
