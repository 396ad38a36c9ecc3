// Wrong arguments of point-to-point calls: each gives its error class, and a message that names the
// call, the argument and the value.
// run: 1 2
// checkers: address memory
#include "check.h"

static int value;
static MPI_Status status;
static MPI_Request request;

static void wrong_ranks(void) {
    char beyond[16];
    snprintf(beyond, sizeof beyond, "%d", check_size);
    EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest",
                 beyond);
    EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, -77, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", "-77");
    EXPECT_ERROR(MPI_Ssend(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", "999");
    EXPECT_ERROR(MPI_Bsend(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", "999");
    EXPECT_ERROR(MPI_Rsend(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", "999");
    EXPECT_ERROR(MPI_Isend(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
                 "dest", "999");
    EXPECT_ERROR(MPI_Issend(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
                 "dest", "999");
    EXPECT_ERROR(MPI_Send_init(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
                 "dest", "999");
    EXPECT_ERROR(MPI_Recv(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK,
                 "source", "999");
    EXPECT_ERROR(MPI_Irecv(&value, 1, MPI_INT, -50, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
                 "source", "-50");
    EXPECT_ERROR(MPI_Recv_init(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
                 "source", "999");
    int flag;
    EXPECT_ERROR(MPI_Probe(999, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK, "source", "999");
    EXPECT_ERROR(MPI_Iprobe(999, 0, MPI_COMM_WORLD, &flag, &status), MPI_ERR_RANK, "source", "999");
    MPI_Message message;
    EXPECT_ERROR(MPI_Mprobe(999, 0, MPI_COMM_WORLD, &message, &status), MPI_ERR_RANK, "source",
                 "999");
    // A wildcard is no destination.
    EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK,
                 "dest");
}

static void wrong_tags(void) {
    EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_WORLD), MPI_ERR_TAG, "tag", "-5");
    EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG, "tag");
    EXPECT_ERROR(MPI_Isend(&value, 1, MPI_INT, 0, -9, MPI_COMM_WORLD, &request), MPI_ERR_TAG, "tag",
                 "-9");
    EXPECT_ERROR(MPI_Recv(&value, 1, MPI_INT, 0, -6, MPI_COMM_WORLD, &status), MPI_ERR_TAG, "tag",
                 "-6");
    EXPECT_ERROR(MPI_Irecv(&value, 1, MPI_INT, 0, -6, MPI_COMM_WORLD, &request), MPI_ERR_TAG, "tag",
                 "-6");
    int *upper_bound, found;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper_bound, &found));
    REQUIRE(found, "MPI_TAG_UB is always set");
    CHECK(*upper_bound >= 32767, "%d", *upper_bound);
    if (*upper_bound == INT32_MAX) return;
    EXPECT_ERROR(MPI_Send(&value, 1, MPI_INT, 0, *upper_bound + 1, MPI_COMM_WORLD), MPI_ERR_TAG,
                 "tag");
}

static void wrong_counts(void) {
    EXPECT_ERROR(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "count", "-1");
    EXPECT_ERROR(MPI_Send_c(&value, -3, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "count",
                 "-3");
    EXPECT_ERROR(MPI_Recv(&value, -2, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_COUNT,
                 "count", "-2");
    EXPECT_ERROR(MPI_Isend(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT,
                 "count", "-1");
    EXPECT_ERROR(MPI_Irecv(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT,
                 "count", "-1");
    EXPECT_ERROR(MPI_Recv_init(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT,
                 "count", "-1");
    EXPECT_ERROR(MPI_Sendrecv(&value, -1, MPI_INT, 0, 0, &value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD,
                              &status),
                 MPI_ERR_COUNT, "sendcount", "-1");
    EXPECT_ERROR(MPI_Sendrecv(&value, 1, MPI_INT, 0, 0, &value, -4, MPI_INT, 0, 0, MPI_COMM_WORLD,
                              &status),
                 MPI_ERR_COUNT, "recvcount", "-4");
    EXPECT_ERROR(MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "count", "-1");
}

static void wrong_types(void) {
    MPI_Datatype pair, uncommitted;
    EXPECT_ERROR(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE,
                 "datatype", "MPI_DATATYPE_NULL");
    EXPECT_ERROR(MPI_Recv(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, &status),
                 MPI_ERR_TYPE, "datatype", "MPI_DATATYPE_NULL");
    OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
    EXPECT_ERROR(MPI_Send(&value, 1, uncommitted, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "datatype",
                 "commit");
    EXPECT_ERROR(MPI_Irecv(&value, 1, uncommitted, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_TYPE,
                 "datatype", "commit");
    OK(MPI_Type_dup(uncommitted, &pair));
    EXPECT_ERROR(MPI_Send(&value, 1, pair, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "datatype",
                 "commit");
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&uncommitted));
}

// A null buffer is MPI_BOTTOM: right only for datatypes that hold absolute addresses.
static void wrong_places(void) {
    int flag, index;
    EXPECT_ERROR(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "buf");
    EXPECT_ERROR(MPI_Recv(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_BUFFER, "buf");
    EXPECT_ERROR(MPI_Send(MPI_IN_PLACE, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "buf");
    EXPECT_ERROR(MPI_Isend(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "request");
    EXPECT_ERROR(MPI_Iprobe(0, 0, MPI_COMM_WORLD, NULL, &status), MPI_ERR_ARG, "flag");
    EXPECT_ERROR(MPI_Comm_rank(MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "rank");
    EXPECT_ERROR(MPI_Comm_size(MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "size");
    EXPECT_ERROR(MPI_Wait(NULL, &status), MPI_ERR_ARG, "request");
    EXPECT_ERROR(MPI_Waitany(1, NULL, &index, &status), MPI_ERR_ARG, "requests");
    EXPECT_ERROR(MPI_Test(&request, NULL, &status), MPI_ERR_ARG, "flag");
    (void)flag;
}

// A wrong call must leave the library as it was.
static void still_works(void) {
    int sent = check_rank + 7, received = -1, next = (check_rank + 1) % check_size;
    int before = (check_rank + check_size - 1) % check_size;
    OK(MPI_Sendrecv(&sent, 1, MPI_INT, next, 3, &received, 1, MPI_INT, before, 3, MPI_COMM_WORLD,
                    &status));
    CHECK_EQ(received, before + 7);
    CHECK_EQ(status.MPI_SOURCE, before);
    CHECK_EQ(status.MPI_TAG, 3);
}

int main(void) {
    check_begin();
    request = MPI_REQUEST_NULL;
    wrong_ranks();
    wrong_tags();
    wrong_counts();
    wrong_types();
    request = MPI_REQUEST_NULL;
    if (check_is_combray) wrong_places();
    // Nothing to send to MPI_PROC_NULL, and a count of zero needs no buffer.
    OK(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    still_works();
    return check_end();
}
