/* Collectives with a root, and the barrier. */
#include "collective.h"

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
        MPI_Bcast(root == c->job->rank ? c->send_buffer : c->receive_buffer, c->units, MPI_BYTE,
                  root, MPI_COMM_WORLD);
    }
}

static void run_gather(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Gather(c->send_buffer, c->units, MPI_BYTE, c->receive_buffer, c->units, MPI_BYTE,
                   next_root(c), MPI_COMM_WORLD);
}

static void run_gatherv(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Gatherv(c->send_buffer, c->counts[c->job->rank], MPI_BYTE, c->receive_buffer,
                    c->counts, c->displacements, MPI_BYTE, next_root(c), MPI_COMM_WORLD);
}

static void run_scatter(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Scatter(c->send_buffer, c->units, MPI_BYTE, c->receive_buffer, c->units, MPI_BYTE,
                    next_root(c), MPI_COMM_WORLD);
}

static void run_scatterv(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Scatterv(c->send_buffer, c->counts, c->displacements, MPI_BYTE, c->receive_buffer,
                     c->counts[c->job->rank], MPI_BYTE, next_root(c), MPI_COMM_WORLD);
}

/* ---- checks: each process is root once ---- */

static void check_barrier(void *state)
{
    run_barrier(state, 1);
}

static void check_bcast(void *state)
{
    struct collective *c = state;
    c->turn = 0;
    fill_block(c, 0, (size_t)c->units, 0);
    for (int root = 0; root < c->job->size; root++) {
        spoil_receive_buffer(c);
        run_bcast(c, 1);
        if (root != c->job->rank)
            expect_block(c, 0, (size_t)c->units, root, 0);
    }
}

static void check_gather(void *state)
{
    struct collective *c = state;
    size_t units = (size_t)c->units;
    c->turn = 0;
    fill_block(c, 0, units, 0);
    spoil_receive_buffer(c);
    for (int root = 0; root < c->job->size; root++)
        run_gather(c, 1);
    for (int process = 0; process < c->job->size; process++)
        expect_block(c, (size_t)process * units, units, process, 0);
}

static void check_gatherv(void *state)
{
    struct collective *c = state;
    c->turn = 0;
    fill_block(c, 0, (size_t)c->counts[c->job->rank], 0);
    spoil_receive_buffer(c);
    for (int root = 0; root < c->job->size; root++)
        run_gatherv(c, 1);
    for (int process = 0; process < c->job->size; process++)
        expect_block(c, (size_t)c->displacements[process], (size_t)c->counts[process], process,
                     0);
}

static void check_scatter(void *state)
{
    struct collective *c = state;
    size_t units = (size_t)c->units;
    c->turn = 0;
    for (int block = 0; block < c->job->size; block++)
        fill_block(c, (size_t)block * units, units, block);
    for (int root = 0; root < c->job->size; root++) {
        spoil_receive_buffer(c);
        run_scatter(c, 1);
        expect_block(c, 0, units, root, c->job->rank);
    }
}

static void check_scatterv(void *state)
{
    struct collective *c = state;
    c->turn = 0;
    for (int block = 0; block < c->job->size; block++)
        fill_block(c, (size_t)c->displacements[block], (size_t)c->counts[block], block);
    for (int root = 0; root < c->job->size; root++) {
        spoil_receive_buffer(c);
        run_scatterv(c, 1);
        expect_block(c, 0, (size_t)c->counts[c->job->rank], root, c->job->rank);
    }
}

const struct collective_kind rooted_collectives[] = {
    {"barrier", run_barrier, check_barrier, false, false},
    {"bcast", run_bcast, check_bcast, true, false},
    {"gather", run_gather, check_gather, true, false},
    {"gatherv", run_gatherv, check_gatherv, true, false},
    {"scatter", run_scatter, check_scatter, true, false},
    {"scatterv", run_scatterv, check_scatterv, true, false},
    {.name = NULL},
};
