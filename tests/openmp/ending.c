// Threads of the program open regions and end: their teams go to others.
#include <pthread.h>
#include <stdio.h>

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

int main(void) {
    long total = 0;
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
    return total != 20 * 6 * 505;
}
