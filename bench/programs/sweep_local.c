/* Collective operations off the main road, datatypes, and calls that stay in the process. */
#include "sweep.h"

#include <string.h>

/* ---- collective operations ---- */

static void close_comm(struct sweep *sweep) { MPI_Comm_free(&sweep->other_comm); }

static void open_ring(struct sweep *sweep)
{
    int size = sweep->size, periodic = 1;
    MPI_Cart_create(sweep->comm, 1, &size, &periodic, 0, &sweep->other_comm);
}

/* Of two processes in a ring each is both neighbours of the other. */
static void run_neighbor_alltoall(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++)
        MPI_Neighbor_alltoall(sweep->out, bytes, MPI_BYTE, sweep->in, bytes, MPI_BYTE,
                              sweep->other_comm);
}

static void run_ineighbor_alltoall(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Ineighbor_alltoall(sweep->out, bytes, MPI_BYTE, sweep->in, bytes, MPI_BYTE,
                               sweep->other_comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void run_neighbor_allgather(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++)
        MPI_Neighbor_allgather(sweep->out, bytes, MPI_BYTE, sweep->in, bytes, MPI_BYTE,
                               sweep->other_comm);
}

static void add_up(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((double *)inout)[i] += ((double *)in)[i];
}

static void open_op(struct sweep *sweep) { MPI_Op_create(add_up, 1, &sweep->op); }
static void close_op(struct sweep *sweep) { MPI_Op_free(&sweep->op); }
static void open_sum(struct sweep *sweep) { sweep->op = MPI_SUM; }

static void run_allreduce(void *state, long iterations)
{
    struct sweep *sweep = state;
    int count = (int)(sweep->call->bytes / sizeof(double));
    for (long i = 0; i < iterations; i++)
        MPI_Allreduce(sweep->out, sweep->in, count, MPI_DOUBLE, sweep->op, sweep->comm);
}

static void run_iallreduce(void *state, long iterations)
{
    struct sweep *sweep = state;
    int count = (int)(sweep->call->bytes / sizeof(double));
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Iallreduce(sweep->out, sweep->in, count, MPI_DOUBLE, sweep->op, sweep->comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void run_ibarrier(void *state, long iterations)
{
    struct sweep *sweep = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Ibarrier(sweep->comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* Even ranks on one side, odd ones on the other. */
static void open_inter(struct sweep *sweep)
{
    MPI_Comm side;
    MPI_Comm_split(sweep->comm, sweep->rank % 2, sweep->rank, &side);
    MPI_Intercomm_create(side, 0, sweep->comm, 1 - sweep->rank % 2, SWEEP_TAG, &sweep->other_comm);
    MPI_Comm_free(&side);
}

static void run_barrier_of_other(void *state, long iterations)
{
    struct sweep *sweep = state;
    for (long i = 0; i < iterations; i++)
        MPI_Barrier(sweep->other_comm);
}

static void run_dup_free(void *state, long iterations)
{
    struct sweep *sweep = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Comm copy;
        MPI_Comm_dup(sweep->comm, &copy);
        MPI_Comm_free(&copy);
    }
}

const struct sweep_call sweep_collectives[] = {
    {"Neighbor_alltoall", 8, open_ring, run_neighbor_alltoall, close_comm, RESULT_OF_NEIGHBORS,
     false},
    {"Neighbor_alltoall", 4096, open_ring, run_neighbor_alltoall, close_comm, RESULT_OF_NEIGHBORS,
     false},
    {"Ineighbor_alltoall", 8, open_ring, run_ineighbor_alltoall, close_comm, RESULT_OF_NEIGHBORS,
     false},
    {"Neighbor_allgather", 8, open_ring, run_neighbor_allgather, close_comm, RESULT_OF_NEIGHBORS,
     false},
    {"Allreduce, operation of the program", 8, open_op, run_allreduce, close_op, RESULT_SUMS, false},
    {"Iallreduce, Wait", 8, open_sum, run_iallreduce, NULL, RESULT_SUMS, false},
    {"Ibarrier, Wait", 0, NULL, run_ibarrier, NULL, RESULT_NONE, false},
    {"Barrier of an intercommunicator", 0, open_inter, run_barrier_of_other, close_comm,
     RESULT_NONE, false},
    {"Comm_dup, Comm_free", 0, NULL, run_dup_free, NULL, RESULT_NONE, false},
    {0},
};

/* ---- datatypes ---- */

enum { BLOCKS = 64, STRIDE = 16 };

static void run_vector(void *state, long iterations)
{
    (void)state;
    for (long i = 0; i < iterations; i++) {
        MPI_Datatype type;
        MPI_Type_vector(BLOCKS, 8, STRIDE, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&type);
    }
}

static void run_struct(void *state, long iterations)
{
    static const int lengths[] = {1, 3, 2};
    static const MPI_Aint places[] = {0, 8, 32};
    const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    (void)state;
    for (long i = 0; i < iterations; i++) {
        MPI_Datatype type;
        MPI_Type_create_struct(3, lengths, places, types, &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&type);
    }
}

static void run_subarray(void *state, long iterations)
{
    static const int sizes[] = {16, 16, 16}, parts[] = {14, 14, 1}, starts[] = {1, 1, 1};
    (void)state;
    for (long i = 0; i < iterations; i++) {
        MPI_Datatype type;
        MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&type);
    }
}

static void open_type(struct sweep *sweep)
{
    MPI_Type_vector(BLOCKS, 8, STRIDE, MPI_BYTE, &sweep->type);
    MPI_Type_commit(&sweep->type);
}

static void close_type(struct sweep *sweep) { MPI_Type_free(&sweep->type); }

/* Out of every second block of a copy of `out` whose blocks have gaps. */
static void run_pack(void *state, long iterations)
{
    struct sweep *sweep = state;
    char *spread = sweep->out + SWEEP_ROOM / 2;
    for (int block = 0; sweep->checking && block < BLOCKS; block++)
        memcpy(spread + block * STRIDE, sweep->out + block * 8, 8);
    for (long i = 0; i < iterations; i++) {
        int position = 0;
        MPI_Pack(spread, 1, sweep->type, sweep->in, BLOCKS * 8, &position, sweep->comm);
    }
}

static void run_unpack(void *state, long iterations)
{
    struct sweep *sweep = state;
    char *spread = sweep->in + SWEEP_ROOM / 2;
    for (long i = 0; i < iterations; i++) {
        int position = 0;
        MPI_Unpack(sweep->out, BLOCKS * 8, &position, spread, 1, sweep->type, sweep->comm);
    }
    for (int block = 0; sweep->checking && block < BLOCKS; block++)
        memcpy(sweep->in + block * 8, spread + block * STRIDE, 8);
}

const struct sweep_call sweep_datatypes[] = {
    {"Type_vector, commit, free", 0, NULL, run_vector, NULL, RESULT_NONE, false},
    {"Type_create_struct, commit, free", 0, NULL, run_struct, NULL, RESULT_NONE, false},
    {"Type_create_subarray, commit, free", 0, NULL, run_subarray, NULL, RESULT_NONE, false},
    {"Pack, 64 blocks of 8 B", BLOCKS * 8, open_type, run_pack, close_type, RESULT_OF_SELF, false},
    {"Unpack, 64 blocks of 8 B", BLOCKS * 8, open_type, run_unpack, close_type, RESULT_OF_SELF,
     false},
    {0},
};

/* ---- calls that stay in the process ---- */

static volatile double sink;

static void run_wtime(void *state, long iterations)
{
    (void)state;
    double sum = 0;
    for (long i = 0; i < iterations; i++)
        sum += MPI_Wtime();
    sink = sum;
}

static void run_comm_rank(void *state, long iterations)
{
    struct sweep *sweep = state;
    int rank = 0;
    for (long i = 0; i < iterations; i++)
        MPI_Comm_rank(sweep->comm, &rank);
    sink = rank;
}

static void run_get_count(void *state, long iterations)
{
    struct sweep *sweep = state;
    MPI_Status status;
    MPI_Sendrecv(sweep->out, 8, MPI_BYTE, sweep->rank, SWEEP_TAG, sweep->in, 8, MPI_BYTE,
                 sweep->rank, SWEEP_TAG, sweep->comm, &status);
    int count = 0;
    for (long i = 0; i < iterations; i++)
        MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != 8)
        job_fail(sweep->job, "MPI_Get_count says %d and not 8", count);
}

static void run_group_incl(void *state, long iterations)
{
    struct sweep *sweep = state;
    MPI_Group all, some;
    MPI_Comm_group(sweep->comm, &all);
    for (long i = 0; i < iterations; i++) {
        MPI_Group_incl(all, 1, &sweep->peer, &some);
        MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
}

static int keyval = MPI_KEYVAL_INVALID;

static void open_attribute(struct sweep *sweep)
{
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(sweep->comm, keyval, sweep);
}

static void close_attribute(struct sweep *sweep)
{
    MPI_Comm_delete_attr(sweep->comm, keyval);
    MPI_Comm_free_keyval(&keyval);
}

static void run_get_attr(void *state, long iterations)
{
    struct sweep *sweep = state;
    void *value = NULL;
    int found = 0;
    for (long i = 0; i < iterations; i++)
        MPI_Comm_get_attr(sweep->comm, keyval, &value, &found);
    if (iterations > 0 && (!found || value != sweep))
        job_fail(sweep->job, "the attribute is not what was set");
}

const struct sweep_call sweep_local[] = {
    {"Wtime", 0, NULL, run_wtime, NULL, RESULT_NONE, false},
    {"Comm_rank", 0, NULL, run_comm_rank, NULL, RESULT_NONE, false},
    {"Get_count", 0, NULL, run_get_count, NULL, RESULT_NONE, false},
    {"Group_incl, Group_free", 0, NULL, run_group_incl, NULL, RESULT_NONE, false},
    {"Comm_get_attr", 0, open_attribute, run_get_attr, close_attribute, RESULT_NONE, false},
    {0},
};
