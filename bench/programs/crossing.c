/*
 * How long a cache line takes from one core to the other and back, halved, in nanoseconds:
 * the floor under every message between two processes.  On a virtual machine it changes when
 * the host moves a virtual processor, so bench/compare measures it before and after each run.
 *
 * Usage: crossing [CORE CORE]; prints the best of many short batches.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUND_TRIPS = 2000, BATCHES = 60 };

static _Alignas(128) atomic_int ball;
static int cores[2];

static void bind_to(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        perror("crossing: cannot bind to core");
        exit(1);
    }
}

/* Waits until the ball has the value, yielding now and then where a core is shared. */
static void await(int value)
{
    for (int spins = 1; atomic_load_explicit(&ball, memory_order_acquire) != value; spins++)
        if (spins % 100000 == 0)
            sched_yield();
}

static void *answer(void *unused)
{
    bind_to(cores[1]);
    for (int i = 0; i < ROUND_TRIPS * BATCHES; i++) {
        await(2 * i + 1);
        atomic_store_explicit(&ball, 2 * i + 2, memory_order_release);
    }
    return unused;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    double best = 1;
    cores[0] = argc > 2 ? atoi(argv[1]) : 0;
    cores[1] = argc > 2 ? atoi(argv[2]) : 1;
    bind_to(cores[0]);
    if (pthread_create(&thread, NULL, answer, NULL) != 0)
        return 1;
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = seconds_now();
        for (int i = batch * ROUND_TRIPS; i < (batch + 1) * ROUND_TRIPS; i++) {
            atomic_store_explicit(&ball, 2 * i + 1, memory_order_release);
            await(2 * i + 2);
        }
        double seconds = (seconds_now() - start) / (2 * ROUND_TRIPS);
        if (seconds < best)
            best = seconds;
    }
    pthread_join(thread, NULL);
    printf("%.1f\n", best * 1e9);
    return 0;
}
