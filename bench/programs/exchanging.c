/* Collectives in which each process gets something from every other. */
#include "collective.h"

static void run_allgather(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Allgather(c->send_buffer, c->units, MPI_BYTE, c->receive_buffer, c->units, MPI_BYTE,
                      MPI_COMM_WORLD);
}

static void run_allgatherv(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Allgatherv(c->send_buffer, c->counts[c->job->rank], MPI_BYTE, c->receive_buffer,
                       c->counts, c->displacements, MPI_BYTE, MPI_COMM_WORLD);
}

static void run_alltoall(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Alltoall(c->send_buffer, c->units, MPI_BYTE, c->receive_buffer, c->units, MPI_BYTE,
                     MPI_COMM_WORLD);
}

static void run_alltoallv(void *state, long iterations)
{
    struct collective *c = state;
    for (long i = 0; i < iterations; i++)
        MPI_Alltoallv(c->send_buffer, c->pair_counts, c->pair_displacements, MPI_BYTE,
                      c->receive_buffer, c->pair_counts, c->pair_displacements, MPI_BYTE,
                      MPI_COMM_WORLD);
}

static void check_allgather(void *state)
{
    struct collective *c = state;
    size_t units = (size_t)c->units;
    fill_block(c, 0, units, 0);
    spoil_receive_buffer(c);
    run_allgather(c, 1);
    for (int process = 0; process < c->job->size; process++)
        expect_block(c, (size_t)process * units, units, process, 0);
}

static void check_allgatherv(void *state)
{
    struct collective *c = state;
    fill_block(c, 0, (size_t)c->counts[c->job->rank], 0);
    spoil_receive_buffer(c);
    run_allgatherv(c, 1);
    for (int process = 0; process < c->job->size; process++)
        expect_block(c, (size_t)c->displacements[process], (size_t)c->counts[process], process,
                     0);
}

static void check_alltoall(void *state)
{
    struct collective *c = state;
    size_t units = (size_t)c->units;
    for (int block = 0; block < c->job->size; block++)
        fill_block(c, (size_t)block * units, units, block);
    spoil_receive_buffer(c);
    run_alltoall(c, 1);
    for (int process = 0; process < c->job->size; process++)
        expect_block(c, (size_t)process * units, units, process, c->job->rank);
}

static void check_alltoallv(void *state)
{
    struct collective *c = state;
    for (int block = 0; block < c->job->size; block++)
        fill_block(c, (size_t)c->pair_displacements[block], (size_t)c->pair_counts[block], block);
    spoil_receive_buffer(c);
    run_alltoallv(c, 1);
    for (int process = 0; process < c->job->size; process++)
        expect_block(c, (size_t)c->pair_displacements[process], (size_t)c->pair_counts[process],
                     process, c->job->rank);
}

const struct collective_kind exchanging_collectives[] = {
    {"allgather", run_allgather, check_allgather, true, false},
    {"allgatherv", run_allgatherv, check_allgatherv, true, false},
    {"alltoall", run_alltoall, check_alltoall, true, false},
    {"alltoallv", run_alltoallv, check_alltoallv, true, false},
    {.name = NULL},
};
