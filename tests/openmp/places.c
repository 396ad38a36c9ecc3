// Where threads are bound: their places and partitions in regions of many sizes, also nested.
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>

static void show(const char *what) {
    int numbers[64], count = omp_get_partition_num_places();
    omp_get_partition_place_nums(numbers);
    printf("%s: bind %d, place %d, partition", what, omp_get_proc_bind(), omp_get_place_num());
    for (int i = 0; i < count; i++)
        printf(" %d", numbers[i]);
    cpu_set_t cores;
    sched_getaffinity(0, sizeof cores, &cores);
    printf(", cores");
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &cores))
            printf(" %d", core);
    printf("\n");
}

#define STRING(text) #text
#define PRAGMA(text) _Pragma(STRING(text))
// With more threads than places, GNU's library does not divide them as the standard says.
#define REGIONS(name, clause)                                                       \
    for (int threads = 1; threads <= places; threads++) {                                \
        PRAGMA(omp parallel num_threads(threads) clause)                            \
        PRAGMA(omp for ordered schedule(static, 1))                                 \
        for (int i = 0; i < threads; i++) {                                         \
            PRAGMA(omp ordered)                                                     \
            show(name);                                                             \
        }                                                                           \
    }

static void nested(void) {
#pragma omp parallel num_threads(2)
#pragma omp for ordered schedule(static, 1)
    for (int i = 0; i < 2; i++) {
#pragma omp ordered
        {
            show("outer");
            int places = omp_get_partition_num_places() > 0 ? omp_get_partition_num_places() : 3;
#pragma omp parallel num_threads(places)
#pragma omp for ordered schedule(static, 1)
            for (int j = 0; j < places; j++) {
#pragma omp ordered
                show("inner");
            }
            show("outer again");
        }
    }
}

int main(void) {
    int ids[1024];
    printf("%d places\n", omp_get_num_places());
    for (int place = -1; place <= omp_get_num_places(); place++) {
        int count = omp_get_place_num_procs(place);
        omp_get_place_proc_ids(place, ids);
        printf("place %d:", place);
        for (int i = 0; i < count; i++)
            printf(" %d", ids[i]);
        printf("\n");
    }
    omp_set_max_active_levels(3);
    show("alone");
    int places = omp_get_num_places() > 0 ? omp_get_num_places() : 3;
    REGIONS("usual", )
    REGIONS("close", proc_bind(close))
    REGIONS("spread", proc_bind(spread))
    nested();
    show("between");
    // Last: threads of GNU's library stay on the cores of such a region, whatever place they have
    // later.
    REGIONS("primary", proc_bind(primary))
    show("at the end");
    return 0;
}
