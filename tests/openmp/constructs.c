// Every construct of OpenMP that GCC compiles for the host. Prints what they compute, the same with
// each library, and ends with 1 if something is wrong in itself.
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int faults;
static int count;
#pragma omp threadprivate(count)

static void expect(const char *what, long found, long wanted) {
    printf("%s: %ld\n", what, found);
    if (found != wanted) {
        printf("%s: must be %ld\n", what, wanted);
        faults++;
    }
}

static void regions(void) {
    long sum = 0, threads = 0;
#pragma omp parallel reduction(+ : sum)
    {
        sum += omp_get_thread_num();
#pragma omp master
        threads = omp_get_num_threads();
    }
    expect("numbers of threads", sum, threads * (threads - 1) / 2);
    for (int wanted = 1; wanted < 9; wanted++) {
        int got = 0;
#pragma omp parallel num_threads(wanted)
#pragma omp atomic
        got++;
        expect("num_threads", got, wanted);
    }
#pragma omp parallel if (0)
    expect("if(0)", omp_get_num_threads(), 1);
    omp_set_max_active_levels(3);
    long visits = 0, levels = 0;
#pragma omp parallel num_threads(3) reduction(+ : visits, levels)
    {
        int outer = omp_get_thread_num();
#pragma omp parallel num_threads(4) reduction(+ : visits, levels)
        {
            visits += omp_get_ancestor_thread_num(1) == outer;
            levels += omp_get_level() * 10 + omp_get_active_level() + omp_get_team_size(1);
        }
    }
    expect("nested", visits, 12);
    expect("levels", levels, 12 * (20 + 2 + 3));
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2)
#pragma omp parallel num_threads(2)
#pragma omp critical
    if (omp_get_num_threads() != 1)
        faults++;
    long kept = 0;
#pragma omp parallel num_threads(3)
    count = 10 + omp_get_thread_num();
#pragma omp parallel num_threads(3) reduction(+ : kept)
    kept += count;
    expect("threadprivate", kept, 33);
    count = 5;
    kept = 0;
#pragma omp parallel num_threads(3) copyin(count) reduction(+ : kept)
    kept += count;
    expect("copyin", kept, 15);
}

#define LOOP(schedule_, first, end, step)                             \
    {                                                                 \
        long sum = 0, times = 0, last = -1;                           \
        _Pragma("omp parallel num_threads(4) reduction(+ : sum, times)") \
        _Pragma(schedule_)                                            \
        for (T i = first; i < end; i += step) {                       \
            sum += (long)i * (long)i;                                 \
            times++;                                                  \
            last = (long)i;                                           \
        }                                                             \
        printf("%s: %ld %ld %ld\n", schedule_, sum, times, last);     \
    }

#define LOOPS(first, end, step)                                            \
    LOOP("omp for lastprivate(last) schedule(static)", first, end, step)   \
    LOOP("omp for lastprivate(last) schedule(static, 3)", first, end, step) \
    LOOP("omp for lastprivate(last) schedule(dynamic)", first, end, step)  \
    LOOP("omp for lastprivate(last) schedule(dynamic, 7)", first, end, step) \
    LOOP("omp for lastprivate(last) schedule(guided)", first, end, step)   \
    LOOP("omp for lastprivate(last) schedule(guided, 4)", first, end, step) \
    LOOP("omp for lastprivate(last) schedule(runtime)", first, end, step)  \
    LOOP("omp for lastprivate(last) schedule(auto)", first, end, step)     \
    LOOP("omp for lastprivate(last) schedule(monotonic: dynamic, 2)", first, end, step)

static void loops(void) {
    const omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided, omp_sched_auto};
    for (int kind = 0; kind < 4; kind++) {
        omp_set_schedule(kinds[kind], kind * 2);
        {
            typedef int T;
            LOOPS(0, 100, 1)
            LOOPS(-50, 51, 3)
            LOOPS(7, 8, 1)
        }
        {
            typedef unsigned long long T;
            LOOPS(0, 100, 1)
            LOOPS(~0ULL - 50, ~0ULL - 4, 3)
        }
    }
    long down = 0;
#pragma omp parallel for num_threads(3) schedule(dynamic, 2) reduction(+ : down)
    for (long i = 99; i >= -7; i -= 4)
        down += i;
    expect("down", down, 27L * (99 - 5) / 2);
    long both = 0;
#pragma omp parallel for num_threads(3) collapse(2) schedule(guided) reduction(+ : both)
    for (int i = 0; i < 13; i++)
        for (int j = 0; j < 11; j++)
            both += i * j;
    expect("collapse", both, 78 * 55);
    // More constructs without barriers than a team has slots.
    long many = 0;
#pragma omp parallel num_threads(4) reduction(+ : many)
    for (int times = 0; times < 100; times++) {
#pragma omp for schedule(dynamic) nowait
        for (int i = 0; i < 5; i++)
            many += i;
    }
    expect("nowait", many, 1000);
    for (int kind = 0; kind < 3; kind++) {
        int next = 0, wrong = 0;
        omp_set_schedule(kinds[kind], 3);
#pragma omp parallel for num_threads(4) ordered schedule(runtime)
        for (int i = 0; i < 60; i++) {
#pragma omp ordered
            wrong += next++ != i;
        }
        expect("ordered", wrong * 100 + next, 60);
    }
    int next = 0, wrong = 0;
#pragma omp parallel for num_threads(4) ordered schedule(dynamic)
    for (int i = 0; i < 60; i++) {
        if (i % 3 == 0) {
#pragma omp ordered
            {
                wrong += next != i;
                next += 3;
            }
        }
    }
    expect("ordered in some", wrong * 100 + next, 60);
    static long grid[30][20];
#pragma omp parallel for num_threads(4) ordered(2) schedule(dynamic)
    for (int i = 0; i < 30; i++)
        for (int j = 0; j < 20; j++) {
#pragma omp ordered depend(sink : i - 1, j) depend(sink : i, j - 1)
            grid[i][j] = 1 + (i ? grid[i - 1][j] : 0) + (j ? grid[i][j - 1] : 0);
            grid[i][j] %= 1000003;
#pragma omp ordered depend(source)
        }
    printf("doacross: %ld\n", grid[29][19]);
    static long line[200];
#pragma omp parallel for num_threads(3) ordered(1) schedule(static)
    for (long i = 2; i < 200; i++) {
#pragma omp ordered depend(sink : i - 1) depend(sink : i - 2)
        line[i] = (i + line[i - 1] + line[i - 2]) % 1000003;
#pragma omp ordered depend(source)
    }
    printf("doacross in a line: %ld\n", line[199]);
    int scanned[50], values = 0, total = 0;
#pragma omp parallel for num_threads(3) reduction(inscan, + : values)
    for (int i = 0; i < 50; i++) {
        values += i;
#pragma omp scan inclusive(values)
        scanned[i] = values;
    }
    for (int i = 0; i < 50; i++)
        total += scanned[i];
    expect("scan", total, 20825);
    int conditional = 0;
#pragma omp parallel for num_threads(3) lastprivate(conditional : conditional) schedule(dynamic)
    for (int i = 0; i < 100; i++)
        if (i % 7 == 3)
            conditional = i;
    expect("conditional lastprivate", conditional, 94);
}

static void shared_work(void) {
    int done[6] = {0}, sum = 0;
#pragma omp parallel num_threads(3)
    {
#pragma omp sections
        {
#pragma omp section
            done[0]++;
#pragma omp section
            done[1]++;
#pragma omp section
            done[2]++;
#pragma omp section
            done[3]++;
        }
#pragma omp sections nowait
        {
            done[4]++;
#pragma omp section
            done[5]++;
        }
    }
#pragma omp parallel sections num_threads(2) reduction(+ : sum)
    {
        sum += 1;
#pragma omp section
        sum += 2;
#pragma omp section
        sum += 4;
    }
    for (int i = 0; i < 6; i++)
        sum += done[i] * 10;
    expect("sections", sum, 67);
    int singles = 0, copies = 0, masters = 0;
#pragma omp parallel num_threads(4)
    for (int i = 0; i < 50; i++) {
        int value = -1;
#pragma omp single
        singles++;
#pragma omp single nowait
#pragma omp atomic
        singles++;
#pragma omp single copyprivate(value)
        value = i * 3;
#pragma omp atomic
        copies += value == i * 3;
#pragma omp master
        masters++;
#pragma omp barrier
    }
    expect("single", singles, 100);
    expect("copyprivate", copies, 200);
    expect("master", masters, 50);
    long critical = 0, named = 0, twice = 0;
    long double wide = 0;
    omp_lock_t lock;
    omp_nest_lock_t nest;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
    int locked = 0;
#pragma omp parallel num_threads(4)
    for (int i = 0; i < 200; i++) {
#pragma omp critical
        critical++;
#pragma omp critical(name)
        named++;
#pragma omp atomic
        wide += 1;
        omp_set_lock(&lock);
        locked++;
        omp_unset_lock(&lock);
        omp_set_nest_lock(&nest);
        twice += omp_test_nest_lock(&nest) == 2;
        omp_unset_nest_lock(&nest);
        omp_unset_nest_lock(&nest);
    }
    expect("critical", critical, 800);
    expect("critical with a name", named, 800);
    expect("atomic", (long)wide, 800);
    expect("lock", locked, 800);
    expect("nestable lock", twice, 800);
    expect("test_lock", omp_test_lock(&lock) * 2 + omp_test_lock(&lock), 2);
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);
    double product = 1;
    int least = 1000, all = -1, any = 0;
#pragma omp parallel for num_threads(3) reduction(* : product) reduction(min : least) reduction(& : all) reduction(|| : any)
    for (int i = 1; i < 15; i++) {
        product *= i;
        least = least < 50 - i ? least : 50 - i;
        all &= ~i;
        any = any || i == 13;
    }
    printf("reductions: %.0f %d %d %d\n", product, least, all, any);
}

static long fibonacci(int n) {
    long a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a) final(n < 4)
    a = fibonacci(n - 1);
#pragma omp task shared(b) if (n > 5)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

struct big {
    char bytes[300];
};

static void tasks(void) {
    long found = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
    found = fibonacci(18);
    expect("fibonacci", found, 2584);
    expect("fibonacci alone", fibonacci(12), 144);
    long sum = 0;
#pragma omp parallel num_threads(4)
    for (int i = 0; i < 100; i++) {
#pragma omp task firstprivate(i)
#pragma omp atomic
        sum += i;
    }
    expect("tasks of all", sum, 4 * 4950);
    struct big big;
    memset(&big, 1, sizeof big);
    long bytes = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 20; i++) {
#pragma omp task firstprivate(big)
        {
            long own = 0;
            for (int j = 0; j < 300; j++)
                own += big.bytes[j];
#pragma omp atomic
            bytes += own;
        }
    }
    expect("large arguments", bytes, 6000);
    int value = 0, wrong = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
    {
        for (int i = 0; i < 50; i++) {
#pragma omp task depend(inout : value) firstprivate(i)
            wrong += value++ != 3 * i;
#pragma omp task depend(in : value) firstprivate(i)
            wrong += value != 3 * i + 1;
#pragma omp task depend(in : value) firstprivate(i)
            wrong += value != 3 * i + 1;
#pragma omp task depend(out : value) firstprivate(i) priority(i)
            value = 3 * i + 3;
        }
#pragma omp task depend(in : value) if (0)
        wrong += value != 150;
#pragma omp taskwait depend(in : value)
        wrong += value != 150;
    }
    expect("dependences", wrong * 1000 + value, 150);
    int exclusive = 0, other = 0;
    omp_depend_t object;
#pragma omp parallel num_threads(4)
#pragma omp single
    {
#pragma omp task depend(out : exclusive)
        exclusive = 1;
        for (int i = 0; i < 30; i++) {
#pragma omp task depend(mutexinoutset : exclusive)
            exclusive++;
        }
#pragma omp depobj(object) depend(inout : exclusive)
#pragma omp task depend(depobj : object) depend(out : other)
        other = exclusive;
#pragma omp depobj(object) update(in)
#pragma omp task depend(depobj : object) depend(inout : other)
        other += exclusive;
#pragma omp depobj(object) destroy
    }
    expect("mutexinoutset and objects", other, 62);
    int grouped = 0, seen = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
    {
#pragma omp taskgroup
        for (int i = 0; i < 10; i++) {
#pragma omp task
            {
#pragma omp task
#pragma omp atomic
                grouped++;
            }
        }
        seen = grouped;
    }
    expect("taskgroup", seen, 10);
    long looped = 0, grains = 0, unsigned_sum = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
    {
#pragma omp taskloop
        for (int i = 0; i < 1000; i++)
#pragma omp atomic
            looped += i;
#pragma omp taskloop grainsize(7)
        for (long i = 100; i > -100; i -= 3)
#pragma omp atomic
            grains += i;
#pragma omp taskloop num_tasks(5) collapse(2)
        for (unsigned long long i = 3; i < 50; i += 4)
            for (int j = 0; j < 3; j++)
#pragma omp atomic
                unsigned_sum += i;
    }
    expect("taskloop", looped, 499500);
    expect("taskloop with grains", grains, 67);
    expect("taskloop with tasks", unsigned_sum, 900);
    long reduced = 0, group = 0, workshared = 0, looped_sum = 0;
#pragma omp parallel num_threads(4) reduction(task, + : reduced)
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task in_reduction(+ : reduced)
        reduced += i;
    }
    expect("reduction(task) of a region", reduced, 4950);
#pragma omp parallel num_threads(4)
    {
#pragma omp single
        {
#pragma omp taskgroup task_reduction(+ : group)
            for (int i = 0; i < 100; i++) {
#pragma omp task in_reduction(+ : group)
                {
                    group += i;
#pragma omp task in_reduction(+ : group)
                    group += 1;
                }
            }
#pragma omp taskloop reduction(+ : looped_sum)
            for (int i = 0; i < 100; i++)
                looped_sum += i;
        }
#pragma omp for reduction(task, + : workshared) schedule(dynamic)
        for (int i = 0; i < 40; i++) {
#pragma omp task in_reduction(+ : workshared)
            workshared += i;
        }
    }
    expect("task_reduction", group, 5050);
    expect("reduction of a taskloop", looped_sum, 4950);
    expect("reduction(task) of a loop", workshared, 780);
    int detached = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        omp_event_handle_t event;
#pragma omp task detach(event) depend(out : detached)
        {
#pragma omp atomic
            detached++;
        }
#pragma omp task firstprivate(event)
        omp_fulfill_event(event);
#pragma omp task depend(in : detached)
        {
#pragma omp atomic
            detached += 10;
        }
#pragma omp taskwait
    }
    expect("detach", detached, 11);
}

// More tasks than wait in a queue: the rest run at once, and are tasks nevertheless.
static void many_tasks(void) {
    long grandchildren = 0, wrong = 0, inside = 0, waited = 0, threads = 0, chained = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        omp_set_num_threads(5);
        for (int i = 0; i < 2000; i++) {
#pragma omp task firstprivate(i) shared(grandchildren, wrong, inside, waited, threads, chained)
            {
                if (i % 3 == 0) {
                    long done = 0;
                    for (int j = 0; j < 3; j++) {
#pragma omp task shared(done, grandchildren)
                        {
#pragma omp atomic
                            done++;
#pragma omp atomic
                            grandchildren++;
                        }
                    }
#pragma omp taskwait
                    if (done != 3) {
#pragma omp atomic
                        wrong++;
                    }
                } else if (i % 3 == 1) {
                    omp_set_num_threads(7);
                    if (omp_in_parallel() && omp_get_max_threads() == 7) {
#pragma omp atomic
                        inside++;
                    }
                    // Nobody waits for this one before the end of the region.
#pragma omp task shared(waited)
#pragma omp atomic
                    waited++;
                } else {
                    int last = 0;
#pragma omp taskgroup
                    for (int j = 1; j <= 4; j++) {
#pragma omp task depend(inout : last) shared(last) firstprivate(j)
                        last = last == j - 1 ? j : -1;
                    }
#pragma omp atomic
                    chained += last == 4;
                }
            }
        }
        threads = omp_get_max_threads();
    }
    expect("many tasks with children", grandchildren, 3 * 667);
    expect("many tasks that do not wait for their own", wrong, 0);
    expect("many tasks with settings", inside, 667);
    expect("many tasks with tasks", waited, 667);
    expect("many tasks with chains", chained, 666);
    expect("settings of the parent of many tasks", threads, 5);
}

static void memory(void) {
    omp_alloctrait_t traits[] = {{omp_atk_alignment, 256}, {omp_atk_pool_size, 1000}, {omp_atk_fallback, omp_atv_null_fb}};
    omp_allocator_handle_t own = omp_init_allocator(omp_default_mem_space, 3, traits);
    char *first = omp_alloc(600, own), *second = omp_alloc(600, own);
    expect("alignment", (uintptr_t)first % 256, 0);
    expect("pool", first && !second, 1);
    omp_free(first, own);
    second = omp_alloc(600, own);
    expect("pool again", second != NULL, 1);
    omp_free(second, omp_null_allocator);
    omp_destroy_allocator(own);
    long sum = 0;
    int *cleared = omp_calloc(100, sizeof(int), omp_default_mem_alloc);
    for (int i = 0; i < 100; i++)
        sum += cleared[i];
    cleared[99] = 7;
    cleared = omp_realloc(cleared, 4000, omp_null_allocator, omp_null_allocator);
    expect("realloc", sum + cleared[99], 7);
    omp_free(cleared, omp_null_allocator);
    int value = 3;
#pragma omp parallel num_threads(3) firstprivate(value) allocate(omp_default_mem_alloc : value) reduction(+ : sum)
    sum += value;
    expect("allocate", sum, 9);
    int device = omp_get_initial_device(), from[3][4], to[5][6] = {{0}};
    for (int i = 0; i < 12; i++)
        from[i / 4][i % 4] = i;
    size_t volume[] = {2, 3}, offsets[] = {1, 2}, starts[] = {1, 1}, sizes[] = {5, 6}, own_sizes[] = {3, 4};
    omp_target_memcpy_rect(to, from, sizeof(int), 2, volume, offsets, starts, sizes, own_sizes, device, device);
    expect("rectangle", to[1][2] * 100 + to[2][4] + to[0][0] + to[1][1] + to[3][2], 511);
    int *there = omp_target_alloc(sizeof from, device);
    omp_target_memcpy(there, from, sizeof(int), sizeof(int), 11 * sizeof(int), device, device);
    expect("target memory", there[1], 11);
    omp_target_free(there, device);
    omp_set_num_teams(2);
    int teams = 0;
#pragma omp teams reduction(max : teams)
    teams = omp_get_num_teams();
    expect("teams that were set", teams * 10 + omp_get_max_teams(), 22);
}

static void others(void) {
    int teams = 0, sum = 0;
#pragma omp teams num_teams(3) thread_limit(2) reduction(+ : sum)
    {
        sum += omp_get_team_num() + 100 * omp_get_num_teams();
#pragma omp parallel
#pragma omp atomic
        teams++;
    }
    printf("teams: %d %d\n", sum, teams > 2);
    int there = 1, copied = 5, devices = 0;
#pragma omp target map(tofrom : there, devices) firstprivate(copied)
    {
        there += copied;
        copied = 100;
        devices = omp_is_initial_device();
    }
    expect("target", there * 10 + devices, 61);
    expect("firstprivate of a target", copied, 5);
#pragma omp target data map(to : there)
    {
#pragma omp target update from(there)
#pragma omp target enter data map(to : copied)
#pragma omp target exit data map(from : copied)
    }
    int distributed = 0;
#pragma omp target teams distribute parallel for map(tofrom : distributed) reduction(+ : distributed)
    for (int i = 0; i < 100; i++)
        distributed += i;
    expect("distribute", distributed, 4950);
    expect("devices", omp_get_num_devices(), 0);
    printf("levels %d %d %d, in parallel %d, dynamic %d, nested %d, bind %d, places %d\n", omp_get_level(),
           omp_get_active_level(), omp_get_max_active_levels(), omp_in_parallel(), omp_get_dynamic(), omp_get_nested(),
           (int)omp_get_proc_bind(), omp_get_place_num());
    omp_sched_t kind;
    int chunk;
    omp_set_schedule(omp_sched_guided, 0);
    omp_get_schedule(&kind, &chunk);
    printf("schedule %d %d\n", kind, chunk);
    omp_set_schedule(omp_sched_static, -3);
    omp_get_schedule(&kind, &chunk);
    printf("schedule %d %d\n", kind, chunk);
    omp_set_num_threads(5);
    omp_set_dynamic(1);
    omp_set_nested(1);
    printf("threads %d, limit %d, dynamic %d, nested %d, levels %d %d\n", omp_get_max_threads(), omp_get_thread_limit(),
           omp_get_dynamic(), omp_get_nested(), omp_get_max_active_levels(), omp_get_supported_active_levels());
    omp_set_nested(0);
    omp_set_dynamic(0);
    printf("nested %d, levels %d, ancestor %d %d, size %d %d\n", omp_get_nested(), omp_get_max_active_levels(),
           omp_get_ancestor_thread_num(0), omp_get_ancestor_thread_num(1), omp_get_team_size(0), omp_get_team_size(-1));
    double start = omp_get_wtime();
    expect("time", omp_get_wtime() >= start && omp_get_wtick() > 0, 1);
}

int main(void) {
    regions();
    loops();
    shared_work();
    tasks();
    many_tasks();
    others();
    memory();
    return faults != 0;
}
