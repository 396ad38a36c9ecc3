// Wrong arguments of collective calls: roots, counts, operations, datatypes, MPI_IN_PLACE where it
// is not allowed. Every rank makes one and the same wrong call, so none waits for another.
// run: 1 3
#include "check.h"

static int one[64], other[64], counts[8], displacements[8];

static void wrong_roots(void) {
    char beyond[16];
    MPI_Comm world = MPI_COMM_WORLD;
    snprintf(beyond, sizeof beyond, "%d", check_size);
    EXPECT_ERROR(MPI_Bcast(one, 1, MPI_INT, check_size, world), MPI_ERR_ROOT, "root", beyond);
    EXPECT_ERROR(MPI_Bcast(one, 1, MPI_INT, -1, world), MPI_ERR_ROOT, "root", "-1");
    EXPECT_ERROR(MPI_Bcast(one, 1, MPI_INT, MPI_PROC_NULL, world), MPI_ERR_ROOT, "root");
    EXPECT_ERROR(MPI_Gather(one, 1, MPI_INT, other, 1, MPI_INT, 88, world), MPI_ERR_ROOT, "root",
                 "88");
    EXPECT_ERROR(MPI_Gatherv(one, 1, MPI_INT, other, counts, displacements, MPI_INT, 88, world),
                 MPI_ERR_ROOT, "root", "88");
    EXPECT_ERROR(MPI_Scatter(one, 1, MPI_INT, other, 1, MPI_INT, 88, world), MPI_ERR_ROOT, "root",
                 "88");
    EXPECT_ERROR(MPI_Scatterv(one, counts, displacements, MPI_INT, other, 1, MPI_INT, 88, world),
                 MPI_ERR_ROOT, "root", "88");
    EXPECT_ERROR(MPI_Reduce(one, other, 1, MPI_INT, MPI_SUM, 88, world), MPI_ERR_ROOT, "root",
                 "88");
}

static void wrong_counts(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    EXPECT_ERROR(MPI_Bcast(one, -1, MPI_INT, 0, world), MPI_ERR_COUNT, "count", "-1");
    EXPECT_ERROR(MPI_Gather(one, -1, MPI_INT, other, 1, MPI_INT, 0, world), MPI_ERR_COUNT,
                 "sendcount", "-1");
    EXPECT_ERROR(MPI_Allgather(one, 1, MPI_INT, other, -8, MPI_INT, world), MPI_ERR_COUNT,
                 "recvcount", "-8");
    EXPECT_ERROR(MPI_Alltoall(one, -1, MPI_INT, other, 1, MPI_INT, world), MPI_ERR_COUNT,
                 "sendcount", "-1");
    EXPECT_ERROR(MPI_Reduce(one, other, -1, MPI_INT, MPI_SUM, 0, world), MPI_ERR_COUNT, "count",
                 "-1");
    EXPECT_ERROR(MPI_Allreduce(one, other, -2, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT, "count",
                 "-2");
    EXPECT_ERROR(MPI_Scan(one, other, -2, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT, "count", "-2");
    EXPECT_ERROR(MPI_Exscan(one, other, -2, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT, "count", "-2");
    EXPECT_ERROR(MPI_Reduce_scatter_block(one, other, -2, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT,
                 "recvcount", "-2");
    counts[0] = -6;
    EXPECT_ERROR(MPI_Allgatherv(one, 1, MPI_INT, other, counts, displacements, MPI_INT, world),
                 MPI_ERR_COUNT, "recvcounts", "-6");
    EXPECT_ERROR(MPI_Reduce_scatter(one, other, counts, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT,
                 "recvcounts", "-6");
    EXPECT_ERROR(MPI_Alltoallv(one, counts, displacements, MPI_INT, other, counts, displacements,
                               MPI_INT, world),
                 MPI_ERR_COUNT, "sendcounts", "-6");
    counts[0] = 0;
}

static void sum_ints(void *in, void *inout, int *length, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *length; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void wrong_operations(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Op own, stale;
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP, "op",
                 "MPI_OP_NULL");
    EXPECT_ERROR(MPI_Reduce(one, other, 1, MPI_INT, MPI_OP_NULL, 0, world), MPI_ERR_OP, "op");
    if (!check_is_combray) return;
    // Bits of a floating-point number are no integer (MPI 5.0, section 6.9.2).
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_DOUBLE, MPI_BAND, world), MPI_ERR_OP,
                 "MPI_BAND", "MPI_DOUBLE");
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_FLOAT, MPI_LXOR, world), MPI_ERR_OP,
                 "MPI_LXOR");
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX, world), MPI_ERR_OP,
                 "MPI_MAX");
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_INT, MPI_MAXLOC, world), MPI_ERR_OP,
                 "MPI_MAXLOC");
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_2INT, MPI_SUM, world), MPI_ERR_OP,
                 "MPI_SUM");
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_INT, MPI_REPLACE, world), MPI_ERR_OP,
                 "MPI_REPLACE");
    OK(MPI_Op_create(sum_ints, 1, &own));
    stale = own;
    OK(MPI_Op_free(&own));
    CHECK(own == MPI_OP_NULL, "MPI_Op_free sets the handle to null");
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_INT, stale, world), MPI_ERR_OP, "op", "freed");
    MPI_Op predefined = MPI_SUM;
    EXPECT_ERROR(MPI_Op_free(&predefined), MPI_ERR_OP, "op", "MPI_SUM");
}

static void wrong_places(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype uncommitted;
    EXPECT_ERROR(MPI_Bcast(one, 1, MPI_DATATYPE_NULL, 0, world), MPI_ERR_TYPE, "datatype");
    OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
    EXPECT_ERROR(MPI_Bcast(one, 1, uncommitted, 0, world), MPI_ERR_TYPE, "datatype", "commit");
    EXPECT_ERROR(MPI_Allgather(one, 1, MPI_INT, other, 1, uncommitted, world), MPI_ERR_TYPE,
                 "recvtype", "commit");
    OK(MPI_Type_free(&uncommitted));
    EXPECT_ERROR(MPI_Allreduce(one, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER,
                 "recvbuf");
    if (check_is_combray)
        EXPECT_ERROR(MPI_Bcast(NULL, 1, MPI_INT, 0, world), MPI_ERR_BUFFER, "buffer");
    // The two buffers may not be one (MPI 5.0, section 6.1): use MPI_IN_PLACE.
    EXPECT_ERROR(MPI_Allreduce(one, one, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER, "MPI_IN_PLACE");
    EXPECT_ERROR(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    EXPECT_ERROR(MPI_Allreduce(one, other, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL), MPI_ERR_COMM,
                 "comm", "MPI_COMM_NULL");
}

int main(void) {
    check_begin();
    wrong_roots();
    wrong_counts();
    wrong_operations();
    wrong_places();
    int sum = -1, mine = 1;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, check_size);
    return check_end();
}
