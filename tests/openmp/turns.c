// Teams whose threads outnumber the cores, and which wait for each other in other ways than by
// OpenMP: each must go on although others hold its core. With the argument "few", the process must
// have fewer kernel threads than the team has threads.
#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 10, ROUNDS = 3 };

static int kernel_threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) count += entry->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return count;
}

// Each thread waits, looking at a word, until its successor has come; the last one goes first.
static int spin_for_successors(int threads) {
    static atomic_int arrived[THREADS + 1];
    int sum = 0;
    for (int i = 0; i <= threads; i++) atomic_store(&arrived[i], i == threads);
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        int own = omp_get_thread_num();
        while (!atomic_load(&arrived[own + 1])) {
        }
        sum += own;
        atomic_store(&arrived[own], 1);
    }
    return sum;
}

// The first thread looks at a word that the others change only after a barrier of theirs.
static int spin_beside_locks(int threads) {
    static atomic_int count;
    omp_lock_t lock;
    omp_init_lock(&lock);
    atomic_store(&count, 0);
#pragma omp parallel num_threads(threads)
    {
        omp_set_lock(&lock);
        atomic_fetch_add(&count, 1);
        omp_unset_lock(&lock);
        while (atomic_load(&count) < threads) {
        }
    }
    omp_destroy_lock(&lock);
    return atomic_load(&count);
}

// Threads wait in the kernel for each other.
static int wait_in_the_kernel(int threads) {
    int ends[2], sum = 0;
    if (pipe(ends)) return -1;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        char byte = 1;
        if (omp_get_thread_num() == 0) {
            for (int i = 1; i < threads; i++) sum += (int)read(ends[0], &byte, 1);
        } else {
            sum += (int)write(ends[1], &byte, 1);
        }
#pragma omp barrier
        pthread_barrier_wait(&barrier);
    }
    pthread_barrier_destroy(&barrier);
    close(ends[0]);
    close(ends[1]);
    return sum;
}

// A task that one thread runs waits for a later one, which another thread must run.
static int tasks_wait_for_each_other(int threads) {
    static atomic_int second;
    atomic_store(&second, 0);
#pragma omp parallel num_threads(threads)
#pragma omp single nowait
    {
#pragma omp task
        while (!atomic_load(&second)) {
        }
#pragma omp task
        atomic_store(&second, 1);
    }
    return atomic_load(&second);
}

// While 4 threads of a region are there, a nested one has the rest of OMP_THREAD_LIMIT at most.
static int most_threads(void) {
    atomic_int most = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(4)
#pragma omp parallel num_threads(4)
    {
        int seen = 3 + omp_get_num_threads(), before = atomic_load(&most);
        while (seen > before && !atomic_compare_exchange_weak(&most, &before, seen)) {
        }
    }
    return most;
}

static int nested(int outer, int inner) {
    int sum = 0;
    omp_set_max_active_levels(3);
#pragma omp parallel num_threads(outer) reduction(+ : sum)
    {
        atomic_int arrived = 0;
        int own = 0;
#pragma omp parallel num_threads(inner) reduction(+ : own)
        {
            atomic_fetch_add(&arrived, 1);
            while (atomic_load(&arrived) < inner) {
            }
#pragma omp parallel num_threads(2) reduction(+ : own)
            {
#pragma omp barrier
                own += omp_get_level() + omp_get_team_size(2);
            }
#pragma omp barrier
            own += omp_get_ancestor_thread_num(1);
        }
        sum += own;
    }
    return sum;
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "limit")) {
        int most = most_threads();
        printf(most <= omp_get_thread_limit() ? "within the limit\n" : "%d threads\n", most);
        return most > omp_get_thread_limit();
    }
    for (int round = 0; round < ROUNDS; round++) {
        printf("%d", spin_for_successors(THREADS));
        printf(" %d", spin_beside_locks(THREADS));
        printf(" %d", wait_in_the_kernel(THREADS));
        printf(" %d", tasks_wait_for_each_other(THREADS));
        printf(" %d\n", nested(3, 4));
    }
    // Now none of them has had a reason to run elsewhere than in turn.
    int sum = 0;
#pragma omp parallel num_threads(400) reduction(+ : sum)
    for (int i = 0; i < 20; i++) {
#pragma omp barrier
        sum += i;
    }
    printf("%d\n", sum);
    if (count > 1 && !strcmp(arguments[1], "few") && kernel_threads() > 2 * omp_get_num_procs() + 60) {
        printf("%d kernel threads\n", kernel_threads());
        return 1;
    }
    return 0;
}
