// The processor time of collective operations among the ranks of one machine, which outnumber its
// cores: the sum over all ranks and threads, for each operation. Arguments: how many seconds to
// spend on each operation at most, then names of operations (default: all).
// Prints "NAME MICROSECONDS OPERATIONS" for each.
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// A communicator of Combray with many members gets its shared memory after some hundred calls.
enum { WARM_UP = 200, AT_ONCE = 10, ROUNDS_MAX = 2000, LONG = 1 << 20, MIDDLE = 64 << 10 };

static int rank, size;
static char *out, *in;

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void bcast_8(void) { MPI_Bcast(out, 8, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void bcast_1m(void) { MPI_Bcast(out, LONG, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void reduce_8(void) { MPI_Reduce(out, in, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); }
static void allreduce_8(void) { MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void allreduce_64k(void) { MPI_Allreduce(out, in, MIDDLE / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void allgather_8(void) { MPI_Allgather(out, 8, MPI_CHAR, in, 8, MPI_CHAR, MPI_COMM_WORLD); }
static void gather_8(void) { MPI_Gather(out, 8, MPI_CHAR, in, 8, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void scatter_8(void) { MPI_Scatter(out, 8, MPI_CHAR, in, 8, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void alltoall_8(void) { MPI_Alltoall(out, 8, MPI_CHAR, in, 8, MPI_CHAR, MPI_COMM_WORLD); }
static void scan_8(void) { MPI_Scan(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void reduce_scatter_8(void) { MPI_Reduce_scatter_block(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }

static const struct {
    const char *name;
    void (*call)(void);
} operations[] = {
    {"barrier", barrier}, {"bcast-8", bcast_8}, {"bcast-1M", bcast_1m}, {"reduce-8", reduce_8},
    {"allreduce-8", allreduce_8}, {"allreduce-64K", allreduce_64k}, {"allgather-8", allgather_8}, {"gather-8", gather_8},
    {"scatter-8", scatter_8}, {"alltoall-8", alltoall_8}, {"scan-8", scan_8}, {"reduce_scatter-8", reduce_scatter_8},
};

// The processor time of all ranks so far, on rank 0, in microseconds.
static double used(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double own = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec, all = 0;
    MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

static void measure(const char *name, void (*call)(void), double seconds) {
    int warm_up = 0, rounds = 0, goes_on = 1;
    for (double begun = MPI_Wtime(); warm_up < WARM_UP && goes_on; warm_up += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) call();
        goes_on = MPI_Wtime() - begun < seconds;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    double before = used();
    goes_on = 1;
    for (double begun = MPI_Wtime(); rounds < ROUNDS_MAX && goes_on; rounds += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) call();
        goes_on = MPI_Wtime() - begun < seconds;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    double after = used();
    if (rank == 0) printf("%s %.2f %d\n", name, (after - before) / rounds, rounds);
    fflush(stdout);
}

enum { OPERATIONS = sizeof operations / sizeof *operations };

static void require_operation(const char *name) {
    for (int i = 0; i < OPERATIONS; i++)
        if (!strcmp(name, operations[i].name)) return;
    if (rank == 0) {
        fprintf(stderr, "crowd: there is no operation %s; there are:", name);
        for (int i = 0; i < OPERATIONS; i++) fprintf(stderr, " %s", operations[i].name);
        fprintf(stderr, "\n");
    }
    MPI_Finalize();
    exit(2);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int word = 2; word < argc; word++) require_operation(argv[word]);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t bytes = LONG > size * 8 ? LONG : size * 8;
    out = calloc(1, bytes);
    in = calloc(1, bytes);
    double seconds = argc > 1 ? atof(argv[1]) : 0.5;
    for (int i = 0; i < OPERATIONS; i++) {
        int wanted = argc <= 2;
        for (int word = 2; word < argc; word++) wanted |= !strcmp(argv[word], operations[i].name);
        if (wanted) measure(operations[i].name, operations[i].call, seconds);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
