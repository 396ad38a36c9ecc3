/* All processes: blocking collectives, the root going round. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

struct collective {
    const struct job *job;
    char *send_buffer, *receive_buffer;     /* room for a block of every process in each */
    int bytes;                              /* of one block */
    int turn;                               /* counts the iterations, chooses the root */
};

static int next_root(struct collective *collective)
{
    int root = collective->turn;
    collective->turn = root + 1 == collective->job->size ? 0 : root + 1;
    return root;
}

static void run_barrier(void *state, long iterations)
{
    (void)state;
    for (long i = 0; i < iterations; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void run_bcast(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++) {
        int root = next_root(c);
        MPI_Bcast(root == c->job->rank ? c->send_buffer : c->receive_buffer, c->bytes, MPI_BYTE,
                  root, MPI_COMM_WORLD);
    }
}

static void run_allreduce(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Allreduce(c->send_buffer, c->receive_buffer, c->bytes / (int)sizeof(double),
                      MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void run_reduce(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Reduce(c->send_buffer, c->receive_buffer, c->bytes / (int)sizeof(double), MPI_DOUBLE,
                   MPI_SUM, next_root(c), MPI_COMM_WORLD);
}

static void run_allgather(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Allgather(c->send_buffer, c->bytes, MPI_BYTE, c->receive_buffer, c->bytes, MPI_BYTE,
                      MPI_COMM_WORLD);
}

static void run_alltoall(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Alltoall(c->send_buffer, c->bytes, MPI_BYTE, c->receive_buffer, c->bytes, MPI_BYTE,
                     MPI_COMM_WORLD);
}

static void run_gather(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Gather(c->send_buffer, c->bytes, MPI_BYTE, c->receive_buffer, c->bytes, MPI_BYTE,
                   next_root(c), MPI_COMM_WORLD);
}

static void run_scatter(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Scatter(c->send_buffer, c->bytes, MPI_BYTE, c->receive_buffer, c->bytes, MPI_BYTE,
                    next_root(c), MPI_COMM_WORLD);
}

/* ---- checks: block j of process i holds the pattern i * size + j ---- */

static unsigned block_seed(const struct collective *c, int process, int block)
{
    return (unsigned)(process * c->job->size + block);
}

static void fill_blocks(struct collective *c)
{
    size_t bytes = (size_t)c->bytes;
    for (int block = 0; block < c->job->size; block++)
        pattern_fill(c->send_buffer + (size_t)block * bytes, bytes,
                     block_seed(c, c->job->rank, block));
    memset(c->receive_buffer, 0x5A, bytes * (size_t)c->job->size);
}

/* Expects the given block of every process, in the order of the processes. */
static void expect_blocks(struct collective *c, int block)
{
    size_t bytes = (size_t)c->bytes;
    for (int process = 0; process < c->job->size; process++)
        pattern_expect(c->job, c->receive_buffer + (size_t)process * bytes, bytes,
                       block_seed(c, process, block));
}

static void check_barrier(void *state)
{
    run_barrier(state, 1);
}

/* Each process is root once. */
static void check_bcast(void *state)
{
    struct collective *c = state;
    c->turn = 0;
    for (int root = 0; root < c->job->size; root++) {
        fill_blocks(c);
        run_bcast(c, 1);
        if (root != c->job->rank)
            pattern_expect(c->job, c->receive_buffer, (size_t)c->bytes, block_seed(c, root, 0));
    }
}

static void check_gather(void *state)
{
    struct collective *c = state;
    c->turn = 0;
    for (int root = 0; root < c->job->size; root++) {
        fill_blocks(c);
        run_gather(c, 1);
        if (root == c->job->rank)
            expect_blocks(c, 0);
    }
}

static void check_scatter(void *state)
{
    struct collective *c = state;
    c->turn = 0;
    for (int root = 0; root < c->job->size; root++) {
        fill_blocks(c);
        run_scatter(c, 1);
        pattern_expect(c->job, c->receive_buffer, (size_t)c->bytes,
                       block_seed(c, root, c->job->rank));
    }
}

static void check_allgather(void *state)
{
    fill_blocks(state);
    run_allgather(state, 1);
    expect_blocks(state, 0);
}

static void check_alltoall(void *state)
{
    struct collective *c = state;
    fill_blocks(c);
    run_alltoall(c, 1);
    expect_blocks(c, c->job->rank);
}

/* Small whole numbers, whose sum is exact in any order. */
static void fill_numbers(struct collective *c)
{
    double *numbers = (double *)(void *)c->send_buffer;
    for (int i = 0; i < c->bytes / (int)sizeof(double); i++)
        numbers[i] = (double)((c->job->rank + 1) * (i % 97 + 1));
    memset(c->receive_buffer, 0x5A, (size_t)c->bytes);
}

static void expect_sums(struct collective *c)
{
    const double *numbers = (const double *)(const void *)c->receive_buffer;
    int ranks = c->job->size * (c->job->size + 1) / 2;
    for (int i = 0; i < c->bytes / (int)sizeof(double); i++) {
        double expected = (double)(ranks * (i % 97 + 1));
        if (numbers[i] != expected)
            job_fail(c->job, "wrong sum: element %d is %g, expected %g", i, numbers[i], expected);
    }
}

static void check_allreduce(void *state)
{
    fill_numbers(state);
    run_allreduce(state, 1);
    expect_sums(state);
}

static void check_reduce(void *state)
{
    struct collective *c = state;
    c->turn = 0;
    for (int root = 0; root < c->job->size; root++) {
        fill_numbers(c);
        run_reduce(c, 1);
        if (root == c->job->rank)
            expect_sums(c);
    }
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*run)(void *, long);
    void (*check)(void *);
    bool sized;         /* moves data at all */
    bool numeric;       /* works on doubles */
} table[] = {
    {"barrier", run_barrier, check_barrier, false, false},
    {"bcast", run_bcast, check_bcast, true, false},
    {"allreduce", run_allreduce, check_allreduce, true, true},
    {"allgather", run_allgather, check_allgather, true, false},
    {"alltoall", run_alltoall, check_alltoall, true, false},
    {"reduce", run_reduce, check_reduce, true, true},
    {"gather", run_gather, check_gather, true, false},
    {"scatter", run_scatter, check_scatter, true, false},
};

enum { COLLECTIVES = sizeof table / sizeof table[0] };

const char *const collective_names[] = {"barrier", "bcast",  "allreduce", "allgather", "alltoall",
                                        "reduce",  "gather", "scatter",   NULL};

static void measure_collective(struct job *job, int index, size_t bytes)
{
    job_describe(job, table[index].name, "", bytes);
    size_t room = bytes * (size_t)job->size;
    if (room > (1u << 30))
        job_fail(job, "blocks above 1 GiB in total are not supported by this benchmark");
    struct collective collective = {.job = job, .send_buffer = buffer_new(job, room),
                                    .receive_buffer = buffer_new(job, room),
                                    .bytes = (int)bytes};
    struct operation operation = {.run = table[index].run, .check = table[index].check,
                                  .state = &collective, .comm = MPI_COMM_WORLD,
                                  .clock = CLOCK_SLOWEST, .share = 1.0};
    struct row row = {.benchmark = table[index].name, .processes = job->size, .bytes = bytes};
    measure(job, &operation, 1, &row.timing);
    report_row(job, &row);
    free(collective.send_buffer);
    free(collective.receive_buffer);
}

void bench_collectives(struct job *job)
{
    struct list sizes = list_or_powers(&job->options.sizes, 8, 8, 1L << 20);
    for (int index = 0; index < COLLECTIVES; index++) {
        if (!is_selected(job, "collectives") && !is_selected(job, table[index].name))
            continue;
        report_section(job, table[index].name,
                       table[index].sized ? "time of one call, slowest process; size of one block"
                                          : "time of one call, slowest process",
                       false);
        if (!table[index].sized) {
            measure_collective(job, index, 0);
            continue;
        }
        for (int i = 0; i < sizes.length; i++) {
            size_t bytes = (size_t)sizes.values[i];
            if (table[index].numeric)
                bytes = bytes / sizeof(double) * sizeof(double);
            if (bytes > 0)
                measure_collective(job, index, bytes);
        }
    }
}
