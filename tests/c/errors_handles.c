// Null handles, and handles that were freed: both are errors of the handle's class. A freed handle
// must be found out even after its place was taken by a newer object. Only Combray promises the
// second, so that part runs only there.
// run: 1 2
// checkers: address memory
#include "check.h"

static MPI_Status status;
static int number, flag;
static char name[MPI_MAX_OBJECT_NAME];

static void null_communicators(void) {
    MPI_Comm made;
    MPI_Group group;
    void *attribute;
    EXPECT_ERROR(MPI_Comm_rank(MPI_COMM_NULL, &number), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    EXPECT_ERROR(MPI_Comm_size(MPI_COMM_NULL, &number), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    EXPECT_ERROR(MPI_Comm_dup(MPI_COMM_NULL, &made), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    EXPECT_ERROR(MPI_Comm_split(MPI_COMM_NULL, 0, 0, &made), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Comm_group(MPI_COMM_NULL, &group), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Comm_get_attr(MPI_COMM_NULL, MPI_TAG_UB, &attribute, &flag), MPI_ERR_COMM,
                 "comm");
    EXPECT_ERROR(MPI_Comm_test_inter(MPI_COMM_NULL, &flag), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Comm_compare(MPI_COMM_NULL, MPI_COMM_WORLD, &number), MPI_ERR_COMM, "comm1");
    EXPECT_ERROR(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_NULL, &number), MPI_ERR_COMM, "comm2");
    EXPECT_ERROR(MPI_Send(&number, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &status), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Probe(0, 0, MPI_COMM_NULL, &status), MPI_ERR_COMM, "comm");
    made = MPI_COMM_NULL;
    EXPECT_ERROR(MPI_Comm_free(&made), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    EXPECT_ERROR(MPI_Comm_set_name(MPI_COMM_NULL, "x"), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Comm_set_errhandler(MPI_COMM_NULL, MPI_ERRORS_RETURN), MPI_ERR_COMM, "comm");
    // Predefined communicators cannot be freed.
    made = MPI_COMM_WORLD;
    EXPECT_ERROR(MPI_Comm_free(&made), MPI_ERR_COMM, "comm", "MPI_COMM_WORLD");
}

static void null_others(void) {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Op op = MPI_OP_NULL;
    EXPECT_ERROR(MPI_Group_size(MPI_GROUP_NULL, &number), MPI_ERR_GROUP, "group", "MPI_GROUP_NULL");
    EXPECT_ERROR(MPI_Group_rank(MPI_GROUP_NULL, &number), MPI_ERR_GROUP, "group");
    EXPECT_ERROR(MPI_Group_union(MPI_GROUP_EMPTY, MPI_GROUP_NULL, &group), MPI_ERR_GROUP, "group2");
    group = MPI_GROUP_NULL;
    EXPECT_ERROR(MPI_Group_free(&group), MPI_ERR_GROUP, "group");
    EXPECT_ERROR(MPI_Type_size(MPI_DATATYPE_NULL, &number), MPI_ERR_TYPE, "datatype",
                 "MPI_DATATYPE_NULL");
    EXPECT_ERROR(MPI_Type_free(&type), MPI_ERR_TYPE, "datatype");
    EXPECT_ERROR(MPI_Type_commit(&type), MPI_ERR_TYPE, "datatype");
    EXPECT_ERROR(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE, "oldtype");
    // Null communicators and datatypes have names (MPI 5.0, section 7.8).
    OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &number));
    CHECK(!strcmp(name, "MPI_DATATYPE_NULL"), "name is %s", name);
    OK(MPI_Comm_get_name(MPI_COMM_NULL, name, &number));
    CHECK(!strcmp(name, "MPI_COMM_NULL"), "name is %s", name);
    EXPECT_ERROR(MPI_Info_set(MPI_INFO_NULL, "key", "value"), MPI_ERR_INFO, "info", "MPI_INFO_NULL");
    EXPECT_ERROR(MPI_Info_free(&info), MPI_ERR_INFO, "info");
    EXPECT_ERROR(MPI_Errhandler_free(&handler), MPI_ERR_ERRHANDLER, "errhandler");
    EXPECT_ERROR(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER,
                 "errhandler");
    EXPECT_ERROR(MPI_Op_free(&op), MPI_ERR_OP, "op");
    EXPECT_ERROR(MPI_Op_commutative(MPI_OP_NULL, &flag), MPI_ERR_OP, "op");
    EXPECT_ERROR(MPI_Mrecv(&number, 1, MPI_INT, &message, &status), MPI_ERR_REQUEST, "message");
    EXPECT_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "request", "MPI_REQUEST_NULL");
    EXPECT_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "request");
    EXPECT_ERROR(MPI_Request_free(&request), MPI_ERR_REQUEST, "request");
    // Waiting for nothing is no error: an empty status (MPI 5.0, section 3.7.3).
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(status.MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(&status, MPI_INT, &number));
    CHECK_EQ(number, 0);
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK_EQ(flag, 0);
}

static void stale_objects(void) {
    MPI_Comm comm, stale_comm, newer;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    stale_comm = comm;
    OK(MPI_Comm_free(&comm));
    CHECK(comm == MPI_COMM_NULL, "MPI_Comm_free sets the handle to null");
    EXPECT_ERROR(MPI_Comm_rank(stale_comm, &number), MPI_ERR_COMM, "comm", "freed");
    OK(MPI_Comm_dup(MPI_COMM_SELF, &newer));
    EXPECT_ERROR(MPI_Comm_size(stale_comm, &number), MPI_ERR_COMM, "comm", "freed");
    EXPECT_ERROR(MPI_Send(&number, 1, MPI_INT, 0, 0, stale_comm), MPI_ERR_COMM, "comm", "freed");
    EXPECT_ERROR(MPI_Comm_free(&stale_comm), MPI_ERR_COMM, "comm", "freed");
    OK(MPI_Comm_rank(newer, &number));
    OK(MPI_Comm_free(&newer));

    MPI_Datatype type, stale_type, newer_type;
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    stale_type = type;
    OK(MPI_Type_free(&type));
    OK(MPI_Type_contiguous(5, MPI_INT, &newer_type));
    EXPECT_ERROR(MPI_Type_size(stale_type, &number), MPI_ERR_TYPE, "datatype", "freed");
    EXPECT_ERROR(MPI_Send(&number, 1, stale_type, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE, "datatype",
                 "freed");
    EXPECT_ERROR(MPI_Type_free(&stale_type), MPI_ERR_TYPE, "datatype", "freed");
    OK(MPI_Type_free(&newer_type));

    MPI_Group group, stale_group;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    stale_group = group;
    OK(MPI_Group_free(&group));
    EXPECT_ERROR(MPI_Group_size(stale_group, &number), MPI_ERR_GROUP, "group", "freed");

    MPI_Info info, stale_info;
    OK(MPI_Info_create(&info));
    stale_info = info;
    OK(MPI_Info_free(&info));
    EXPECT_ERROR(MPI_Info_set(stale_info, "a", "b"), MPI_ERR_INFO, "info", "freed");
}

static void stale_requests(void) {
    MPI_Request request, stale, newer;
    int out = 4, in = 0;
    OK(MPI_Irecv(&in, 1, MPI_INT, 0, 8, MPI_COMM_SELF, &request));
    stale = request;
    OK(MPI_Send(&out, 1, MPI_INT, 0, 8, MPI_COMM_SELF));
    OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL, "MPI_Wait sets the handle to null");
    CHECK_EQ(in, 4);
    EXPECT_ERROR(MPI_Wait(&stale, &status), MPI_ERR_REQUEST, "request");
    OK(MPI_Irecv(&in, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &newer));
    EXPECT_ERROR(MPI_Test(&stale, &flag, &status), MPI_ERR_REQUEST, "request");
    EXPECT_ERROR(MPI_Cancel(&stale), MPI_ERR_REQUEST, "request");
    OK(MPI_Send(&out, 1, MPI_INT, 0, 9, MPI_COMM_SELF));
    OK(MPI_Wait(&newer, &status));
}

// A handle of one kind given as another, and bits that were never a handle.
static void wrong_kinds(void) {
    EXPECT_ERROR(MPI_Comm_size((MPI_Comm)MPI_INT, &number), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Comm_size((MPI_Comm)(intptr_t)0x7eadbeef, &number), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Comm_size((MPI_Comm)(intptr_t)-1, &number), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Comm_size((MPI_Comm)0, &number), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Type_size((MPI_Datatype)MPI_COMM_WORLD, &number), MPI_ERR_TYPE, "datatype");
    EXPECT_ERROR(MPI_Type_size((MPI_Datatype)(intptr_t)0x7eadbeef0, &number), MPI_ERR_TYPE,
                 "datatype");
    MPI_Request request = (MPI_Request)(intptr_t)0x123456789a;
    EXPECT_ERROR(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "request");
    EXPECT_ERROR(MPI_Group_size((MPI_Group)(intptr_t)0x5555, &number), MPI_ERR_GROUP, "group");
    EXPECT_ERROR(MPI_Allreduce(&number, &flag, 1, MPI_INT, (MPI_Op)MPI_COMM_WORLD, MPI_COMM_SELF),
                 MPI_ERR_OP, "op");
    EXPECT_ERROR(MPI_Info_set((MPI_Info)(intptr_t)0x999, "a", "b"), MPI_ERR_INFO, "info");
}

int main(void) {
    check_begin();
    null_communicators();
    null_others();
    if (check_is_combray) {
        stale_objects();
        stale_requests();
        wrong_kinds();
    }
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &number));
    CHECK(!strcmp(name, "MPI_COMM_WORLD"), "name is %s", name);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_end();
}
