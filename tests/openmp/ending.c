// Threads of the program open regions and end: their teams go to others. Destructors and handlers
// that run at their end, or at that of the process, open regions too.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *open_regions(void *found) {
    long sum = 0;
    for (int round = 0; round < 100; round++) {
#pragma omp parallel num_threads(1 + round % 4) reduction(+ : sum)
        {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 4; i++)
                sum++;
#pragma omp single
            sum++;
        }
    }
    // Outside of regions, a thread is alone.
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 4; i++)
        sum++;
#pragma omp single
    sum++;
#pragma omp barrier
    *(long *)found = sum;
    return NULL;
}

static pthread_key_t key;
static long in_destructors;

static long open_region_with_tasks(void) {
    long sum = 0;
#pragma omp parallel num_threads(3) reduction(task, + : sum)
    {
#pragma omp single
        for (int i = 0; i < 10; i++)
#pragma omp task in_reduction(+ : sum)
            sum++;
    }
    return sum;
}

static void destroy(void *unused) {
    (void)unused;
    __atomic_fetch_add(&in_destructors, open_region_with_tasks(), __ATOMIC_SEQ_CST);
}

static void *end_with_destructor(void *used) {
    pthread_setspecific(key, used);
    open_region_with_tasks();
    return NULL;
}

static void at_exit(void) {
    printf("at exit: %ld\n", open_region_with_tasks());
}

int main(void) {
    long total = 0;
    atexit(at_exit);
    pthread_key_create(&key, destroy);
    for (int round = 0; round < 50; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, end_with_destructor, &total);
        pthread_join(thread, NULL);
    }
    printf("in destructors: %ld\n", in_destructors);
    for (int round = 0; round < 20; round++) {
        pthread_t threads[6];
        long found[6];
        for (int i = 0; i < 6; i++)
            pthread_create(&threads[i], NULL, open_regions, &found[i]);
        for (int i = 0; i < 6; i++) {
            pthread_join(threads[i], NULL);
            total += found[i];
        }
    }
    printf("%ld\n", total);
    return total != 20 * 6 * 505 || in_destructors != 500;
}
