// Wrong arguments of calls other than point-to-point and plain blocking collectives: topologies,
// their collectives, intercommunicators, one-sided and partitioned communication, nonblocking and
// persistent collectives. Each returns its class, and a message that names the call and the
// argument.
// run: 1 2
#include "check.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int data[64], got[64], counts[16], displs[16];
static MPI_Request request;
static MPI_Comm made;

// A communicator that was freed, and handles that are of another kind or none.
static void wrong_communicators(void) {
    MPI_Comm stale;
    MPI_Group group;
    MPI_Win win;
    int dims[1] = {1}, periods[1] = {0}, status;
    OK(MPI_Comm_dup(world, &stale));
    MPI_Comm freed = stale;
    OK(MPI_Comm_free(&stale));
    OK(MPI_Comm_group(world, &group));
    MPI_Comm wrong[] = {freed, MPI_COMM_NULL, (MPI_Comm)group, (MPI_Comm)0, (MPI_Comm)0x123456};
    for (int i = 0; i < 5; i++) {
        MPI_Comm c = wrong[i];
        EXPECT_ERROR(MPI_Ibarrier(c, &request), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Ibcast(data, 1, MPI_INT, 0, c, &request), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Iallreduce(data, got, 1, MPI_INT, MPI_SUM, c, &request), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Barrier_init(c, MPI_INFO_NULL, &request), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Alltoall_init(data, 1, MPI_INT, got, 1, MPI_INT, c, MPI_INFO_NULL, &request),
                     MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Cart_create(c, 1, dims, periods, 0, &made), MPI_ERR_COMM, "comm_old");
        EXPECT_ERROR(MPI_Cart_sub(c, periods, &made), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Topo_test(c, &status), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Graph_create(c, 1, dims, periods, 0, &made), MPI_ERR_COMM, "comm_old");
        EXPECT_ERROR(MPI_Neighbor_allgather(data, 1, MPI_INT, got, 1, MPI_INT, c), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Ineighbor_alltoall(data, 1, MPI_INT, got, 1, MPI_INT, c, &request),
                     MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Psend_init(data, 1, 1, MPI_INT, 0, 0, c, MPI_INFO_NULL, &request),
                     MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, c, &win), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Win_create_dynamic(MPI_INFO_NULL, c, &win), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Comm_idup(c, &made, &request), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Comm_split_type(c, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made),
                     MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Intercomm_merge(c, 0, &made), MPI_ERR_COMM, "intercomm");
        EXPECT_ERROR(MPI_Intercomm_create(c, 0, world, 0, 0, &made), MPI_ERR_COMM, "local_comm");
        EXPECT_ERROR(MPI_Comm_remote_size(c, &status), MPI_ERR_COMM, "comm");
        EXPECT_ERROR(MPI_Comm_attach_buffer(c, data, sizeof data), MPI_ERR_COMM, "comm");
    }
    EXPECT_ERROR(MPI_Ibarrier(freed, &request), MPI_ERR_COMM, "freed");
    EXPECT_ERROR(MPI_Intercomm_create(MPI_COMM_SELF, 0, freed, 0, 0, &made), MPI_ERR_COMM, "peer_comm");
    EXPECT_ERROR(MPI_Comm_remote_size(world, &status), MPI_ERR_COMM, "intercommunicator");
    EXPECT_ERROR(MPI_Comm_remote_group(world, &group), MPI_ERR_COMM, "intercommunicator");
    OK(MPI_Group_free(&group));
}

static void null_places(void) {
    int dims[1] = {1}, periods[1] = {0}, number;
    MPI_Win win;
    EXPECT_ERROR(MPI_Ibarrier(world, NULL), MPI_ERR_ARG, "request", "null");
    EXPECT_ERROR(MPI_Ibcast(data, 1, MPI_INT, 0, world, NULL), MPI_ERR_ARG, "request", "null");
    EXPECT_ERROR(MPI_Allgather_init(data, 1, MPI_INT, got, 1, MPI_INT, world, MPI_INFO_NULL, NULL),
                 MPI_ERR_ARG, "request", "null");
    EXPECT_ERROR(MPI_Comm_idup(world, NULL, &request), MPI_ERR_ARG, "newcomm", "null");
    EXPECT_ERROR(MPI_Comm_idup(world, &made, NULL), MPI_ERR_ARG, "request", "null");
    EXPECT_ERROR(MPI_Intercomm_merge(world, 0, NULL), MPI_ERR_ARG, "newintracomm", "null");
    EXPECT_ERROR(MPI_Comm_test_inter(world, NULL), MPI_ERR_ARG, "flag", "null");
    EXPECT_ERROR(MPI_Topo_test(world, NULL), MPI_ERR_ARG, "status", "null");
    EXPECT_ERROR(MPI_Dims_create(1, 1, NULL), MPI_ERR_ARG, "dims", "null");
    EXPECT_ERROR(MPI_Cart_create(world, 1, dims, NULL, 0, &made), MPI_ERR_ARG, "periods", "null");
    EXPECT_ERROR(MPI_Cart_create(world, 1, dims, periods, 0, NULL), MPI_ERR_ARG, "comm_cart", "null");
    EXPECT_ERROR(MPI_Graph_create(world, 1, NULL, dims, 0, &made), MPI_ERR_ARG, "indx", "null");
    EXPECT_ERROR(MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, world, NULL), MPI_ERR_ARG, "win",
                 "null");
    EXPECT_ERROR(MPI_Win_allocate(8, 1, MPI_INFO_NULL, world, NULL, &win), MPI_ERR_ARG, "baseptr",
                 "null");
    EXPECT_ERROR(MPI_Psend_init(data, 1, 1, MPI_INT, 0, 0, world, MPI_INFO_NULL, NULL), MPI_ERR_ARG,
                 "request", "null");
    EXPECT_ERROR(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL), MPI_ERR_ARG, "session",
                 "null");
    EXPECT_ERROR(MPI_Comm_detach_buffer(world, NULL, &number), MPI_ERR_ARG, "buffer_addr", "null");
    EXPECT_ERROR(MPI_Comm_iflush_buffer(world, NULL), MPI_ERR_ARG, "request", "null");
    EXPECT_ERROR(MPI_Get_hw_resource_info(NULL), MPI_ERR_ARG, "hw_info", "null");
    MPI_Info info;
    OK(MPI_Comm_get_info(world, &info));
    EXPECT_ERROR(MPI_Comm_get_info(world, NULL), MPI_ERR_ARG, "info", "null");
    OK(MPI_Info_free(&info));
}

// These checks in all three forms of a collective.
static void wrong_in_all_forms(void) {
    MPI_Datatype raw;
    MPI_Info info = MPI_INFO_NULL;
    OK(MPI_Type_contiguous(2, MPI_INT, &raw));
    EXPECT_ERROR(MPI_Ibcast(data, -1, MPI_INT, 0, world, &request), MPI_ERR_COUNT, "count", "-1");
    EXPECT_ERROR(MPI_Bcast_init(data, -1, MPI_INT, 0, world, info, &request), MPI_ERR_COUNT, "count");
    EXPECT_ERROR(MPI_Ibcast(data, 1, MPI_INT, check_size, world, &request), MPI_ERR_ROOT, "root");
    EXPECT_ERROR(MPI_Bcast_init(data, 1, MPI_INT, -1, world, info, &request), MPI_ERR_ROOT, "root", "-1");
    EXPECT_ERROR(MPI_Ibcast(data, 1, MPI_DATATYPE_NULL, 0, world, &request), MPI_ERR_TYPE, "datatype");
    EXPECT_ERROR(MPI_Ibcast(data, 1, raw, 0, world, &request), MPI_ERR_TYPE, "datatype", "commit");
    EXPECT_ERROR(MPI_Bcast_init(data, 1, raw, 0, world, info, &request), MPI_ERR_TYPE, "datatype");
    EXPECT_ERROR(MPI_Ibcast(NULL, 1, MPI_INT, 0, world, &request), MPI_ERR_BUFFER, "buffer");
    EXPECT_ERROR(MPI_Ibcast(MPI_IN_PLACE, 1, MPI_INT, 0, world, &request), MPI_ERR_BUFFER, "IN_PLACE");
    EXPECT_ERROR(MPI_Iallreduce(data, got, -3, MPI_INT, MPI_SUM, world, &request), MPI_ERR_COUNT,
                 "count", "-3");
    EXPECT_ERROR(MPI_Iallreduce(data, got, 1, MPI_INT, MPI_OP_NULL, world, &request), MPI_ERR_OP, "op");
    EXPECT_ERROR(MPI_Allreduce_init(data, got, 1, MPI_FLOAT, MPI_BAND, world, info, &request),
                 MPI_ERR_OP, "MPI_BAND");
    EXPECT_ERROR(MPI_Iallreduce(data, got, 1, MPI_INT, MPI_REPLACE, world, &request), MPI_ERR_OP, "op");
    EXPECT_ERROR(MPI_Iallreduce(NULL, got, 1, MPI_INT, MPI_SUM, world, &request), MPI_ERR_BUFFER,
                 "sendbuf");
    EXPECT_ERROR(MPI_Ireduce(data, got, 1, MPI_INT, MPI_SUM, check_size, world, &request),
                 MPI_ERR_ROOT, "root");
    EXPECT_ERROR(MPI_Iscan(data, got, 1, MPI_INT, MPI_OP_NULL, world, &request), MPI_ERR_OP, "op");
    EXPECT_ERROR(MPI_Igather(data, -1, MPI_INT, got, 1, MPI_INT, 0, world, &request), MPI_ERR_COUNT,
                 "sendcount");
    EXPECT_ERROR(MPI_Iallgather(data, 1, MPI_INT, got, -1, MPI_INT, world, &request), MPI_ERR_COUNT,
                 "recvcount");
    EXPECT_ERROR(MPI_Iallgather(data, 1, MPI_INT, got, 1, MPI_DATATYPE_NULL, world, &request),
                 MPI_ERR_TYPE, "recvtype");
    EXPECT_ERROR(MPI_Iallgatherv(data, 1, MPI_INT, got, NULL, displs, MPI_INT, world, &request),
                 MPI_ERR_ARG, "recvcounts", "null");
    EXPECT_ERROR(MPI_Allgatherv_init(data, 1, MPI_INT, got, counts, NULL, MPI_INT, world, info,
                                     &request),
                 MPI_ERR_ARG, "displs", "null");
    counts[0] = -2;
    EXPECT_ERROR(MPI_Ialltoallv(data, counts, displs, MPI_INT, got, displs, displs, MPI_INT, world,
                                &request),
                 MPI_ERR_COUNT, "sendcounts", "-2");
    EXPECT_ERROR(MPI_Ireduce_scatter(data, got, counts, MPI_INT, MPI_SUM, world, &request),
                 MPI_ERR_COUNT, "recvcounts", "-2");
    counts[0] = 0;
    MPI_Datatype types[16];
    for (int i = 0; i < 16; i++) types[i] = MPI_DATATYPE_NULL;
    EXPECT_ERROR(MPI_Ialltoallw(data, counts, displs, types, got, counts, displs, types, world,
                                &request),
                 MPI_ERR_TYPE, "sendtypes");
    OK(MPI_Type_free(&raw));
}

static void wrong_requests(void) {
    MPI_Request barrier, none = MPI_REQUEST_NULL, several[2];
    MPI_Status status;
    EXPECT_ERROR(MPI_Start(NULL), MPI_ERR_ARG, "request", "null");
    EXPECT_ERROR(MPI_Start(&none), MPI_ERR_REQUEST, "request", "MPI_REQUEST_NULL");
    OK(MPI_Barrier_init(world, MPI_INFO_NULL, &barrier));
    // Waiting for what was not started is no error.
    OK(MPI_Wait(&barrier, &status));
    OK(MPI_Start(&barrier));
    EXPECT_ERROR(MPI_Start(&barrier), MPI_ERR_REQUEST, "active already");
    EXPECT_ERROR(MPI_Cancel(&barrier), MPI_ERR_REQUEST, "request", "cancel");
    EXPECT_ERROR(MPI_Request_free(&barrier), MPI_ERR_REQUEST, "request", "active");
    OK(MPI_Wait(&barrier, &status));
    several[0] = barrier;
    several[1] = MPI_REQUEST_NULL;
    EXPECT_ERROR(MPI_Startall(2, several), MPI_ERR_REQUEST, "array_of_requests");
    OK(MPI_Wait(&barrier, &status));
    EXPECT_ERROR(MPI_Startall(-1, several), MPI_ERR_COUNT, "count", "-1");
    MPI_Request freed = barrier;
    OK(MPI_Request_free(&barrier));
    EXPECT_ERROR(MPI_Start(&freed), MPI_ERR_REQUEST, "request", "freed");
    EXPECT_ERROR(MPI_Wait(&freed, &status), MPI_ERR_REQUEST, "request", "freed");
    OK(MPI_Ibarrier(world, &request));
    EXPECT_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "request", "persistent");
    EXPECT_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "request", "cancel");
    EXPECT_ERROR(MPI_Request_free(&request), MPI_ERR_REQUEST, "request");
    OK(MPI_Wait(&request, &status));
}

static void wrong_keyvals(void) {
    int comm_key, win_key, flag, type_key;
    void *value;
    MPI_Win win;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &win_key, NULL));
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL));
    OK(MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, world, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    EXPECT_ERROR(MPI_Win_set_attr(win, comm_key, data), MPI_ERR_KEYVAL, "win_keyval");
    EXPECT_ERROR(MPI_Win_get_attr(win, comm_key, &value, &flag), MPI_ERR_KEYVAL, "win_keyval");
    EXPECT_ERROR(MPI_Win_set_attr(win, MPI_WIN_SIZE, data), MPI_ERR_KEYVAL, "win_keyval");
    EXPECT_ERROR(MPI_Win_delete_attr(win, type_key), MPI_ERR_KEYVAL, "win_keyval");
    EXPECT_ERROR(MPI_Comm_set_attr(world, win_key, data), MPI_ERR_KEYVAL, "comm_keyval");
    EXPECT_ERROR(MPI_Comm_set_attr(world, MPI_TAG_UB, data), MPI_ERR_KEYVAL, "comm_keyval");
    EXPECT_ERROR(MPI_Comm_get_attr(world, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL,
                 "comm_keyval");
    EXPECT_ERROR(MPI_Win_free_keyval(&comm_key), MPI_ERR_KEYVAL, "win_keyval");
    MPI_Win freed = win;
    OK(MPI_Win_free(&win));
    EXPECT_ERROR(MPI_Win_set_attr(freed, win_key, data), MPI_ERR_WIN, "win", "freed");
    OK(MPI_Comm_free_keyval(&comm_key));
    OK(MPI_Win_free_keyval(&win_key));
    OK(MPI_Type_free_keyval(&type_key));
    EXPECT_ERROR(MPI_Comm_free_keyval(&comm_key), MPI_ERR_KEYVAL, "comm_keyval");
}

static void wrong_windows(void) {
    MPI_Win wrong[] = {MPI_WIN_NULL, (MPI_Win)0, (MPI_Win)0x123456, (MPI_Win)MPI_COMM_WORLD}, win;
    MPI_Group group;
    MPI_Info info;
    for (int i = 0; i < 4; i++) {
        EXPECT_ERROR(MPI_Win_fence(0, wrong[i]), MPI_ERR_WIN, "win");
        EXPECT_ERROR(MPI_Put(data, 1, MPI_INT, 0, 0, 1, MPI_INT, wrong[i]), MPI_ERR_WIN, "win");
        EXPECT_ERROR(MPI_Rget(data, 1, MPI_INT, 0, 0, 1, MPI_INT, wrong[i], &request), MPI_ERR_WIN, "win");
        EXPECT_ERROR(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, wrong[i]), MPI_ERR_WIN, "win");
        EXPECT_ERROR(MPI_Win_flush_all(wrong[i]), MPI_ERR_WIN, "win");
        EXPECT_ERROR(MPI_Win_get_group(wrong[i], &group), MPI_ERR_WIN, "win");
        EXPECT_ERROR(MPI_Win_get_info(wrong[i], &info), MPI_ERR_WIN, "win");
        MPI_Win one = wrong[i];
        EXPECT_ERROR(MPI_Win_free(&one), MPI_ERR_WIN, "win");
    }
    OK(MPI_Win_create(data, sizeof data, sizeof(int), MPI_INFO_NULL, world, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_fence(0, win));
    EXPECT_ERROR(MPI_Put(got, -1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT, "origin_count", "-1");
    EXPECT_ERROR(MPI_Put(got, 1, MPI_INT, 0, 0, -1, MPI_INT, win), MPI_ERR_COUNT, "target_count", "-1");
    EXPECT_ERROR(MPI_Put(NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_BUFFER, "origin_addr");
    EXPECT_ERROR(MPI_Put(got, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE,
                 "origin_datatype");
    EXPECT_ERROR(MPI_Get(got, 1, MPI_INT, 0, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE,
                 "target_datatype");
    EXPECT_ERROR(MPI_Accumulate(got, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP, "op");
    EXPECT_ERROR(MPI_Fetch_and_op(got, NULL, MPI_INT, 0, 0, MPI_SUM, win), MPI_ERR_BUFFER, "result_addr");
    EXPECT_ERROR(MPI_Compare_and_swap(got, got, got, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE, "datatype");
    OK(MPI_Win_fence(0, win));
    EXPECT_ERROR(MPI_Win_lock(77, 0, 0, win), MPI_ERR_LOCKTYPE, "lock_type", "77");
    EXPECT_ERROR(MPI_Win_lock(MPI_LOCK_SHARED, check_size, 0, win), MPI_ERR_RANK, "rank");
    EXPECT_ERROR(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP, "group", "MPI_GROUP_NULL");
    OK(MPI_Win_free(&win));
    EXPECT_ERROR(MPI_Win_create(data, -1, 1, MPI_INFO_NULL, world, &win), MPI_ERR_SIZE, "size", "-1");
    EXPECT_ERROR(MPI_Win_create(data, 8, 0, MPI_INFO_NULL, world, &win), MPI_ERR_DISP, "disp_unit", "0");
}

static void wrong_buffers_and_sessions(void) {
    static char space[1 << 12];
    void *back;
    int size;
    MPI_Session session, freed, wrong[] = {MPI_SESSION_NULL, (MPI_Session)0, (MPI_Session)MPI_COMM_WORLD};
    MPI_Group group;
    MPI_Errhandler handler;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    EXPECT_ERROR(MPI_Comm_attach_buffer(world, space, -1), MPI_ERR_ARG, "size", "-1");
    EXPECT_ERROR(MPI_Comm_attach_buffer(world, NULL, 100), MPI_ERR_BUFFER, "buffer", "null");
    EXPECT_ERROR(MPI_Comm_detach_buffer(world, &back, &size), MPI_ERR_BUFFER, "attached");
    EXPECT_ERROR(MPI_Session_detach_buffer(session, &back, &size), MPI_ERR_BUFFER, "attached");
    OK(MPI_Session_attach_buffer(session, space, sizeof space));
    EXPECT_ERROR(MPI_Session_attach_buffer(session, space, sizeof space), MPI_ERR_BUFFER, "attached");
    OK(MPI_Session_detach_buffer(session, &back, &size));
    CHECK(back == space && size == sizeof space, "the buffer comes back");
    freed = session;
    OK(MPI_Session_finalize(&session));
    for (int i = 0; i < 4; i++) {
        MPI_Session one = i < 3 ? wrong[i] : freed;
        EXPECT_ERROR(MPI_Session_get_num_psets(one, MPI_INFO_NULL, &size), MPI_ERR_SESSION, "session");
        EXPECT_ERROR(MPI_Group_from_session_pset(one, "mpi://SELF", &group), MPI_ERR_SESSION, "session");
        EXPECT_ERROR(MPI_Session_get_errhandler(one, &handler), MPI_ERR_SESSION, "session");
        EXPECT_ERROR(MPI_Session_attach_buffer(one, space, sizeof space), MPI_ERR_SESSION, "session");
        EXPECT_ERROR(MPI_Session_finalize(&one), MPI_ERR_SESSION, "session");
    }
}

static void intercommunicators(void) {
    MPI_Comm local, inter;
    MPI_Win win;
    int size;
    if (check_size < 2) return;
    OK(MPI_Comm_split(world, check_rank % 2, 0, &local));
    OK(MPI_Intercomm_create(local, 0, world, 1 - check_rank % 2, 5, &inter));
    EXPECT_ERROR(MPI_Iscan(data, got, 1, MPI_INT, MPI_SUM, inter, &request), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Exscan_init(data, got, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &request),
                 MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Win_create(data, 8, 1, MPI_INFO_NULL, inter, &win), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Win_create_dynamic(MPI_INFO_NULL, inter, &win), MPI_ERR_COMM, "comm");
    EXPECT_ERROR(MPI_Neighbor_allgather(data, 1, MPI_INT, got, 1, MPI_INT, inter), MPI_ERR_TOPOLOGY,
                 "comm");
    EXPECT_ERROR(MPI_Ibcast(data, 1, MPI_INT, 99, inter, &request), MPI_ERR_ROOT, "root", "99");
    EXPECT_ERROR(MPI_Iallgather(MPI_IN_PLACE, 1, MPI_INT, got, 1, MPI_INT, inter, &request),
                 MPI_ERR_BUFFER, "IN_PLACE");
    EXPECT_ERROR(MPI_Comm_create_group(inter, MPI_GROUP_EMPTY, 0, &made), MPI_ERR_COMM, "comm");
    OK(MPI_Comm_remote_size(inter, &size));
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&local));
}

int main(void) {
    check_begin();
    wrong_communicators();
    null_places();
    wrong_in_all_forms();
    wrong_requests();
    wrong_keyvals();
    wrong_windows();
    wrong_buffers_and_sessions();
    intercommunicators();
    OK(MPI_Barrier(world));
    return check_end();
}
