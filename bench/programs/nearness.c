/* Messages of a process that runs on each NUMA node in turn, from and to memory on each node: what
 * distance from the memory, from the other process, or from the interface costs. Rank 1 stays where
 * it is. `combray bench nearness` shows the result. */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES_MAX = 64, TAG = 5, LATENCY_TRIPS = 10, BATCHES_MIN = 3, BIND = 2, NODE_OF_ADDRESS = 3 };

struct near_end {
    const struct job *job;
    int rank;
    char *buffer;
    int bytes;
};

/* Binds the thread to the cores of a node that it might use at the beginning. */
static bool run_on(int node, const cpu_set_t *allowed)
{
    cpu_set_t cores;
    char path[80], text[4096] = "";
    int first, last, length;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    char *read = fgets(text, sizeof text, file);
    fclose(file);
    CPU_ZERO(&cores);
    for (const char *at = text; read && sscanf(at, "%d%n", &first, &length) == 1;) {
        at += length;
        last = first;
        if (sscanf(at, "-%d%n", &last, &length) == 1)
            at += length;
        for (int core = first; core <= last && core < CPU_SETSIZE; core++)
            if (CPU_ISSET((size_t)core, allowed))
                CPU_SET((size_t)core, &cores);
        at += *at == ',';
    }
    return CPU_COUNT(&cores) > 0 && sched_setaffinity(0, sizeof cores, &cores) == 0;
}

static int node_here(void)
{
    unsigned core, node;
    return syscall(SYS_getcpu, &core, &node, NULL) == 0 ? (int)node : -1;
}

/* Memory on a node, all of it touched; NULL if the system refuses. Where the system forbids mbind, as
 * in some containers, memory is on the node of the thread that touches it. */
static char *memory_on(int node, size_t bytes)
{
    unsigned long nodes = 1UL << node;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (syscall(SYS_mbind, memory, bytes, BIND, &nodes, NODES_MAX + 1, 0) != 0 &&
        ((errno != EPERM && errno != ENOSYS) || node != node_here())) {
        munmap(memory, bytes);
        return NULL;
    }
    memset(memory, 1, bytes);
    return memory;
}

/* Made-up costs apply to the node where the kernel says that the memory, or the thread, is. */
static void take_at_least(const struct list *costs, int node, double units, double begun)
{
    double ns = node >= 0 && node < costs->length ? (double)costs->values[node] * units : 0;
    while (ns > 0 && MPI_Wtime() < begun + ns * 1e-9)
        continue;
}

static int node_of(const char *memory)
{
    int node = -1;
    return syscall(SYS_get_mempolicy, &node, NULL, 0UL, memory, NODE_OF_ADDRESS) == 0 ? node : -1;
}

/* The shortest of some round trips, halved. */
static double there_and_back(const struct near_end *end, long trips)
{
    const struct options *options = &end->job->options;
    double least = 1e9;
    for (long trip = 0; trip < trips; trip++) {
        double trip_begun = MPI_Wtime();
        if (end->rank == 0) {
            MPI_Send(end->buffer, 8, MPI_BYTE, 1, TAG, end->job->pair);
            MPI_Recv(end->buffer, 8, MPI_BYTE, 1, TAG, end->job->pair, MPI_STATUS_IGNORE);
            /* Twice, as the time of one way is reported. */
            take_at_least(&options->made_up_latency, node_here(), 2, trip_begun);
        } else {
            MPI_Recv(end->buffer, 8, MPI_BYTE, 0, TAG, end->job->pair, MPI_STATUS_IGNORE);
            MPI_Send(end->buffer, 8, MPI_BYTE, 0, TAG, end->job->pair);
        }
        double time = MPI_Wtime() - trip_begun;
        least = time < least ? time : least;
    }
    return least / 2;
}

/* A message from `sender` to the other process, and an answer. */
static double one_way(const struct near_end *end, int sender)
{
    const struct options *options = &end->job->options;
    int other = 1 - end->rank;
    double begun = MPI_Wtime();
    if (end->rank == sender) {
        MPI_Send(end->buffer, end->bytes, MPI_BYTE, other, TAG, end->job->pair);
        MPI_Recv(NULL, 0, MPI_BYTE, other, TAG, end->job->pair, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(end->buffer, end->bytes, MPI_BYTE, other, TAG, end->job->pair, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, other, TAG, end->job->pair);
    }
    if (end->rank == 0)
        take_at_least(&options->made_up_kib, node_of(end->buffer), end->bytes / 1024.0, begun);
    return MPI_Wtime() - begun;
}

struct near_times {
    double latency, received, sent;
};

static struct near_times least_times(const struct near_end *end)
{
    struct near_times least = {1e9, 1e9, 1e9};
    int batches = end->job->options.batches < BATCHES_MIN ? BATCHES_MIN : end->job->options.batches;
    for (int batch = 0; batch < batches; batch++) {
        struct near_times now = {there_and_back(end, LATENCY_TRIPS), one_way(end, 1), one_way(end, 0)};
        if (now.latency < least.latency) least.latency = now.latency;
        if (now.received < least.received) least.received = now.received;
        if (now.sent < least.sent) least.sent = now.sent;
    }
    return least;
}

static void report_times(const struct job *job, int process, int memory, int bytes, struct near_times times)
{
    double rate = bytes * 1e-9;
    if (job->options.format == FORMAT_JSON)
        printf("{\"record\":\"nearness\",\"process\":%d,\"memory\":%d,\"latency_us\":%.4f,"
               "\"received_gb_per_s\":%.5f,\"sent_gb_per_s\":%.5f}\n",
               process, memory, times.latency * 1e6, rate / times.received, rate / times.sent);
    else
        printf("  process on node %2d, memory on node %2d: %8.2f µs, received at %7.3f GB/s, sent at %7.3f GB/s\n",
               process, memory, times.latency * 1e6, rate / times.received, rate / times.sent);
    fflush(stdout);
}

/* Rank 1 follows what rank 0 measures until that says that there is no more. */
void bench_nearness(struct job *job)
{
    struct list sizes = list_or_powers(&job->options.sizes, 1L << 20, 2, 1L << 20);
    cpu_set_t allowed;
    int goes_on = 1, bytes = (int)sizes.values[0];
    report_section(job, "nearness", "messages by the node of rank 0 and of its memory", false);
    if (job->pair == MPI_COMM_NULL || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    job_describe(job, "nearness", "", (size_t)bytes);
    struct near_end end = {.job = job, .rank = job->rank, .bytes = bytes};
    for (int process = 0; job->rank == 0 && process < NODES_MAX; process++) {
        if (!run_on(process, &allowed))
            continue;
        for (int memory = 0; memory < NODES_MAX; memory++) {
            end.buffer = memory_on(memory, (size_t)bytes);
            if (!end.buffer)
                continue;
            MPI_Bcast(&goes_on, 1, MPI_INT, 0, job->pair);
            report_times(job, process, memory, bytes, least_times(&end));
            munmap(end.buffer, (size_t)bytes);
        }
    }
    goes_on = 0;
    if (job->rank == 0) {
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, job->pair);
        sched_setaffinity(0, sizeof allowed, &allowed);
        return;
    }
    end.buffer = buffer_new(job, (size_t)bytes);
    for (;;) {
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, job->pair);
        if (!goes_on)
            break;
        least_times(&end);
    }
    free(end.buffer);
}
