// Millions of tasks, of which few exist at a time: each creates the next one, or waits for the one
// before. The memory of the process stays small; GNU's library keeps some of the former tasks.
#include <stdio.h>
#include <sys/resource.h>

static long ran;

static void create_successors(long left) {
#pragma omp atomic
    ran++;
    if (left > 0) {
#pragma omp task firstprivate(left)
        create_successors(left - 1);
    }
}

int main(void) {
#pragma omp parallel num_threads(4)
#pragma omp single
    create_successors(1000000);
    printf("successors: %ld\n", ran);
    long sum = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
    for (long i = 0; i < 2000000; i++)
#pragma omp task depend(inout : sum) shared(sum)
        sum++;
    printf("in order: %ld\n", sum);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    int is_small = used.ru_maxrss < 400 * 1024;
    if (is_small)
        printf("small\n");
    else
        printf("%ld KiB\n", used.ru_maxrss);
    return !is_small;
}
