// Random nested programs: random FIRST COUNT runs the programs of these seeds and prints what each
// computes, which does not depend on the order of threads. Ends with 1 if one of them finds
// something wrong in itself.
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static long total, guarded, faults;

static uint64_t mixed(uint64_t a, uint64_t b) {
    uint64_t value = a * 0x9e3779b97f4a7c15ULL + b + 0x7f4a7c15;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
    return value ^ value >> 31;
}

static void leaf(uint64_t seed) {
#pragma omp atomic
    total += seed & 0xffff;
}

static void fault(int is_wrong) {
    if (is_wrong) {
#pragma omp atomic
        faults++;
    }
}

struct shared {
    long counters[8];
};

static void work(uint64_t seed, int depth, struct shared *shared);
static void inside(uint64_t seed, int depth);

static void chain(uint64_t seed, int depth) {
    int length = 2 + seed % 9, at = 0, readers = 0;
#pragma omp taskgroup
    for (int i = 0; i < length; i++) {
#pragma omp task depend(inout : at) shared(at) firstprivate(i)
        {
            fault(at != i);
            at = i + 1;
            if (i == 1)
                inside(mixed(seed, i), depth - 1);
        }
#pragma omp task depend(in : at) shared(at, readers) firstprivate(i) if (i % 3)
        {
            fault(at != i + 1);
#pragma omp atomic
            readers++;
        }
    }
    fault(at != length || readers != length);
    leaf(seed);
}

static void tree(uint64_t seed, int depth) {
    leaf(seed);
    if (depth <= 0)
        return;
    int done = 0;
    for (int i = 0; i < (int)(seed % 4); i++) {
#pragma omp task shared(done) firstprivate(i) final(seed % 7 == 1)
        {
            tree(mixed(seed, i), depth - 1);
#pragma omp atomic
            done++;
        }
    }
#pragma omp taskwait
    fault(done != (int)(seed % 4));
}

// What one thread executes.
static void inside(uint64_t seed, int depth) {
    leaf(seed);
    if (depth <= 0)
        return;
    switch (seed % 6) {
    case 0:
    case 1: {
        struct shared shared = {{0}};
        int threads = 1 + seed / 8 % 4;
#pragma omp parallel num_threads(threads)
        {
            fault(omp_get_num_threads() != threads || omp_get_thread_num() >= threads);
            work(mixed(seed, 1), depth - 1, &shared);
        }
        break;
    }
    case 2:
        chain(seed / 8, depth - 1);
        break;
    case 3:
        tree(seed / 8, 3);
        break;
    case 4: {
        long sum = 0;
        int count = seed / 8 % 50;
#pragma omp taskloop grainsize(3) reduction(+ : sum)
        for (int i = 0; i < count; i++)
            sum += i;
        fault(sum != (long)count * (count - 1) / 2);
        break;
    }
    default: {
        long sum = 0;
        int threads = 1 + seed / 8 % 5, count = seed / 64 % 100;
#pragma omp parallel for num_threads(threads) schedule(guided) reduction(+ : sum)
        for (int i = 0; i < count; i++)
            sum += i;
        fault(sum != (long)count * (count - 1) / 2);
    }
    }
}

#define LOOP(schedule_)                                 \
    _Pragma(schedule_) for (int i = 0; i < count; i++) { \
        leaf(mixed(seed, i));                           \
        if (i == 2)                                     \
            inside(mixed(seed, i), depth - 1);          \
    }                                                   \
    break;

// What all threads of a team execute.
static void work(uint64_t seed, int depth, struct shared *shared) {
    int threads = omp_get_num_threads();
    for (int step = 0; step < 2 + (int)(seed % 4); step++) {
        uint64_t own = mixed(seed, 100 + step);
        int count = own / 16 % 40;
        switch (own % 14) {
        case 0:
            LOOP("omp for schedule(static)")
        case 1:
            LOOP("omp for schedule(dynamic) nowait")
        case 2:
            LOOP("omp for schedule(guided, 2) nowait")
        case 3:
            LOOP("omp for schedule(runtime)")
        case 4:
            LOOP("omp for schedule(static, 2) nowait")
        case 5: {
#pragma omp barrier
#pragma omp single
            shared->counters[0] = 0;
#pragma omp for ordered schedule(dynamic, 2)
            for (int i = 0; i < count; i++) {
                leaf(own);
#pragma omp ordered
                fault(shared->counters[0]++ != i);
            }
            break;
        }
        case 6: {
#pragma omp sections
            {
                leaf(own);
#pragma omp section
                inside(own, depth - 1);
#pragma omp section
                leaf(own + 1);
            }
            break;
        }
        case 7: {
#pragma omp single
            inside(own, depth - 1);
            break;
        }
        case 8: {
            long value = 0;
#pragma omp single copyprivate(value)
            value = count;
            fault(value != count);
            break;
        }
        case 9: {
#pragma omp barrier
#pragma omp single
            shared->counters[1] = 0;
#pragma omp atomic
            shared->counters[1]++;
#pragma omp barrier
            fault(shared->counters[1] != threads);
            break;
        }
        case 10: {
            for (int i = 0; i < count; i++) {
#pragma omp critical
                guarded += 3;
            }
            break;
        }
        case 11:
            inside(own, depth - 1);
            break;
        case 12: {
            for (int i = 0; i < count; i++) {
#pragma omp task firstprivate(i)
                leaf(mixed(own, i));
            }
            break;
        }
        default: {
#pragma omp master
            inside(own, depth - 1);
        }
        }
    }
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    long first = atol(arguments[1]), programs = atol(arguments[2]);
    omp_set_max_active_levels(6);
    omp_set_dynamic(0);
    for (long seed = first; seed < first + programs; seed++) {
        total = guarded = 0;
        struct shared shared = {{0}};
        omp_set_schedule(1 + seed % 3, seed % 5);
#pragma omp parallel num_threads(1 + seed % 4)
        work(mixed(seed, 0), 3, &shared);
        printf("%ld %ld %ld %ld\n", seed, total, guarded, faults);
        fflush(stdout);
    }
    return faults != 0;
}
