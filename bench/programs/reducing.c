/* Collectives that add up doubles. */
#include "collective.h"

static void run_reduce(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Reduce(c->send_buffer, c->receive_buffer, c->units, MPI_DOUBLE, MPI_SUM,
                   next_root(c), MPI_COMM_WORLD);
}

static void run_allreduce(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Allreduce(c->send_buffer, c->receive_buffer, c->units, MPI_DOUBLE, MPI_SUM,
                      MPI_COMM_WORLD);
}

static void run_reduce_scatter_block(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Reduce_scatter_block(c->send_buffer, c->receive_buffer, c->units, MPI_DOUBLE, MPI_SUM,
                                 MPI_COMM_WORLD);
}

static void run_reduce_scatter(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Reduce_scatter(c->send_buffer, c->receive_buffer, c->counts, MPI_DOUBLE, MPI_SUM,
                           MPI_COMM_WORLD);
}

static void run_scan(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Scan(c->send_buffer, c->receive_buffer, c->units, MPI_DOUBLE, MPI_SUM,
                 MPI_COMM_WORLD);
}

static void run_exscan(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Exscan(c->send_buffer, c->receive_buffer, c->units, MPI_DOUBLE, MPI_SUM,
                   MPI_COMM_WORLD);
}

/* ---- checks: small whole numbers, whose sum is exact in any order ---- */

static int element(size_t index)
{
    return (int)(index % 97) + 1;
}

/* Process i contributes (i + 1) times the element of each index. */
static void fill_numbers(struct collective *c, size_t count)
{
    double *numbers = (double *)(void *)c->send_buffer;
    for (size_t i = 0; i < count; i++)
        numbers[i] = (double)((c->job->rank + 1) * element(i));
    spoil_receive_buffer(c);
}

/* Expects the sums of the first `processes` processes at the indices from `first` on. */
static void expect_sums(struct collective *c, size_t first, size_t count, int processes)
{
    const double *numbers = (const double *)(const void *)c->receive_buffer;
    int factor = processes * (processes + 1) / 2;
    for (size_t i = 0; i < count; i++) {
        double expected = (double)(factor * element(first + i));
        if (numbers[i] != expected)
            job_fail(c->job, "wrong sum: element %zu is %g, expected %g", i, numbers[i], expected);
    }
}

static void check_reduce(void *state)
{
    struct collective *c = state;
    c->turn = 0;
    fill_numbers(c, (size_t)c->units);
    for (int root = 0; root < c->job->size; root++)
        run_reduce(c, 1);
    expect_sums(c, 0, (size_t)c->units, c->job->size);
}

static void check_allreduce(void *state)
{
    struct collective *c = state;
    fill_numbers(c, (size_t)c->units);
    run_allreduce(c, 1);
    expect_sums(c, 0, (size_t)c->units, c->job->size);
}

static void check_reduce_scatter_block(void *state)
{
    struct collective *c = state;
    size_t units = (size_t)c->units;
    fill_numbers(c, units * (size_t)c->job->size);
    run_reduce_scatter_block(c, 1);
    expect_sums(c, units * (size_t)c->job->rank, units, c->job->size);
}

static void check_reduce_scatter(void *state)
{
    struct collective *c = state;
    int last = c->job->size - 1;
    fill_numbers(c, (size_t)(c->displacements[last] + c->counts[last]));
    run_reduce_scatter(c, 1);
    expect_sums(c, (size_t)c->displacements[c->job->rank], (size_t)c->counts[c->job->rank],
                c->job->size);
}

static void check_scan(void *state)
{
    struct collective *c = state;
    fill_numbers(c, (size_t)c->units);
    run_scan(c, 1);
    expect_sums(c, 0, (size_t)c->units, c->job->rank + 1);
}

/* The first process gets nothing. */
static void check_exscan(void *state)
{
    struct collective *c = state;
    fill_numbers(c, (size_t)c->units);
    run_exscan(c, 1);
    if (c->job->rank > 0)
        expect_sums(c, 0, (size_t)c->units, c->job->rank);
}

const struct collective_kind reducing_collectives[] = {
    {"reduce", run_reduce, check_reduce, true, true},
    {"allreduce", run_allreduce, check_allreduce, true, true},
    {"reduce_scatter_block", run_reduce_scatter_block, check_reduce_scatter_block, true, true},
    {"reduce_scatter", run_reduce_scatter, check_reduce_scatter, true, true},
    {"scan", run_scan, check_scan, true, true},
    {"exscan", run_exscan, check_exscan, true, true},
    {.name = NULL},
};
