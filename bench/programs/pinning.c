/* Cores: how many this process may use, and binding to one of them. */
#define _GNU_SOURCE
#include "bench.h"

#include <sched.h>

int cores_allowed(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 0;
    return CPU_COUNT(&allowed);
}

int pin_to_core(int local_rank)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return -1;
    int count = CPU_COUNT(&allowed);
    if (count == 0)
        return -1;
    int wanted = local_rank % count;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET((size_t)core, &allowed) || wanted-- > 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)core, &one);
        return sched_setaffinity(0, sizeof one, &one) == 0 ? core : -1;
    }
    return -1;
}
