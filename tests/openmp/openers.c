// Four threads of the program open regions at the same time, of more threads than there are cores,
// which wait for each other by OpenMP and without it, while a signal interrupts the process.
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { OPENERS = 4, ROUNDS = 100, THREADS = 9, TASKS = 20 };

static atomic_long tasks_run;
static atomic_int wrong, ticks;

static void tick(int number) {
    (void)number;
    ticks++;
}

static void *open_regions(void *argument) {
    long own = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        long sum = 0;
        atomic_int inside = 0;
#pragma omp parallel num_threads(THREADS) reduction(+ : sum)
        {
            inside++;
            while (round % 50 == 0 && inside < THREADS) {
            }
#pragma omp barrier
#pragma omp for ordered schedule(dynamic)
            for (int i = 0; i < 2 * THREADS; i++) {
#pragma omp ordered
                sum += i + own;
            }
#pragma omp critical
            sum++;
#pragma omp single nowait
            for (int i = 0; i < TASKS; i++) {
#pragma omp task
                tasks_run++;
            }
        }
        wrong += sum != THREADS * (2 * THREADS - 1) + 2 * THREADS * own + THREADS;
    }
    return NULL;
}

int main(void) {
    pthread_t openers[OPENERS];
    signal(SIGALRM, tick);
    ualarm(3000, 3000);
    for (long i = 0; i < OPENERS; i++) pthread_create(&openers[i], NULL, open_regions, (void *)i);
    for (int i = 0; i < OPENERS; i++) pthread_join(openers[i], NULL);
    printf("%d wrong, %ld tasks, %s\n", wrong, tasks_run, ticks > 0 ? "interrupted" : "not interrupted");
    return wrong != 0;
}
