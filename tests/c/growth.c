// What a program does again and again costs no more memory and no more descriptors in the end
// than after the first tenth: fifty kinds of operation. Without an argument all kinds in their
// short form; `growth KIND 1` is one kind in its long form, which tests/growth runs for all.
// run: 2
// timeout: 120
// thread
#include "check.h"
#include <dirent.h>
#include <pthread.h>

// Tables double. Pages of a segment in shared memory count when they are first written to: a method
// of copying may be tried late, and each process has 2 MiB for pieces of messages.
enum { SLACK_KIB = 1024, SHARED_SLACK_KIB = SLACK_KIB + 2 * 2048 };
enum { SHORT_SHARE = 200, WARM_ROUNDS = 100, LONGS = 1024 };

static int peer;
static long numbers[LONGS], others[LONGS];
static char *large, *large_too;
enum { LARGE_BYTES = 1 << 20 };
static MPI_Comm comm, grid;
static MPI_Win window;
static MPI_File file;
static char path[64];

static int open_descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory)) count++;
    if (directory) closedir(directory);
    return count;
}

// ---- messages

static void blocking_messages(int i) {
    if (check_rank == 0) {
        OK(MPI_Send(numbers, 1 + i % 700, MPI_LONG, peer, i % 5000, comm));
        OK(MPI_Recv(others, LONGS, MPI_LONG, peer, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Recv(others, LONGS, MPI_LONG, MPI_ANY_SOURCE, i % 5000, comm, MPI_STATUS_IGNORE));
        OK(MPI_Send(numbers, 1, MPI_LONG, peer, 3, comm));
    }
}

static void nonblocking_messages(int i) {
    MPI_Request requests[8];
    int flag, which[8], count;
    for (int k = 0; k < 4; k++) OK(MPI_Irecv(others + k, 1, MPI_LONG, peer, k, comm, &requests[k]));
    for (int k = 0; k < 4; k++) OK(MPI_Isend(numbers, 1, MPI_LONG, peer, 3 - k, comm, &requests[4 + k]));
    OK(MPI_Testany(8, requests, &which[0], &flag, MPI_STATUS_IGNORE));
    OK(MPI_Request_get_status(requests[i % 8], &flag, MPI_STATUS_IGNORE));
    OK(MPI_Waitsome(8, requests, &count, which, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(8, requests, MPI_STATUSES_IGNORE));
}

static void large_messages(int i) {
    OK(MPI_Sendrecv(large, LARGE_BYTES - i % 100, MPI_BYTE, peer, 1, large_too, LARGE_BYTES, MPI_BYTE, peer, 1,
                    comm, MPI_STATUS_IGNORE));
}

static void middle_messages(int i) {
    OK(MPI_Sendrecv(large, 20000 + i % 100, MPI_BYTE, peer, 1, large_too, LARGE_BYTES, MPI_BYTE, peer, 1, comm,
                    MPI_STATUS_IGNORE));
}

static void send_modes(int i) {
    MPI_Request request;
    (void)i;
    OK(MPI_Irecv(others, 8, MPI_LONG, peer, 1, comm, &request));
    OK(MPI_Barrier(comm));
    OK(MPI_Rsend(numbers, 8, MPI_LONG, peer, 1, comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Irecv(others, 8, MPI_LONG, peer, 1, comm, &request));
    OK(MPI_Ssend(numbers, 8, MPI_LONG, peer, 1, comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void buffered_messages(int i) {
    static char space[8192];
    void *old;
    int bytes;
    OK(MPI_Buffer_attach(space, sizeof space));
    OK(MPI_Bsend(numbers, 8, MPI_LONG, peer, i % 9, comm));
    OK(MPI_Recv(others, 8, MPI_LONG, peer, i % 9, comm, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&old, &bytes));
}

static void replaced_messages(int i) {
    OK(MPI_Sendrecv_replace(numbers, 1 + i % 500, MPI_LONG, peer, 2, peer, 2, comm, MPI_STATUS_IGNORE));
}

static void persistent_messages(int i) {
    MPI_Request requests[2];
    OK(MPI_Recv_init(others, 4, MPI_LONG, peer, i % 3, comm, &requests[0]));
    OK(MPI_Send_init(numbers, 4, MPI_LONG, peer, i % 3, comm, &requests[1]));
    for (int k = 0; k < 2; k++) {
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

static void partitioned_messages(int i) {
    MPI_Request request;
    (void)i;
    if (check_rank == 0) OK(MPI_Psend_init(numbers, 4, 8, MPI_LONG, peer, 1, comm, MPI_INFO_NULL, &request));
    else OK(MPI_Precv_init(others, 4, 8, MPI_LONG, peer, 1, comm, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    for (int k = 0; k < 4 && check_rank == 0; k++) OK(MPI_Pready(k, request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
    // Otherwise the sender would run ahead, and its messages would be buffered.
    OK(MPI_Barrier(comm));
}

static void probed_messages(int i) {
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Isend(numbers, 3, MPI_LONG, peer, i % 7, comm, &request));
    OK(MPI_Probe(peer, MPI_ANY_TAG, comm, &status));
    OK(MPI_Mprobe(MPI_ANY_SOURCE, i % 7, comm, &message, &status));
    OK(MPI_Mrecv(others, 3, MPI_LONG, &message, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void unexpected_messages(int i) {
    MPI_Request requests[20];
    for (int k = 0; k < 20; k++)
        OK(MPI_Isend(numbers, 1 + i % 9, MPI_LONG, peer, k, comm, &requests[k]));
    for (int k = 19; k >= 0; k--) OK(MPI_Recv(others, 9, MPI_LONG, peer, k, comm, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(20, requests, MPI_STATUSES_IGNORE));
}

static void cancelled_receives(int i) {
    MPI_Request request;
    OK(MPI_Irecv(others, 1, MPI_LONG, peer, 30000 + i % 100, comm, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void freed_sends(int i) {
    MPI_Request request;
    OK(MPI_Isend(numbers, 2, MPI_LONG, peer, i % 11, comm, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Recv(others, 2, MPI_LONG, peer, i % 11, comm, MPI_STATUS_IGNORE));
}

static void truncated_messages(int i) {
    if (check_rank == 0) OK(MPI_Send(numbers, 8, MPI_LONG, peer, 1, comm));
    else CHECK(MPI_Recv(others, 2, MPI_LONG, peer, 1, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS, "round %d", i);
    OK(MPI_Barrier(comm));
}

// ---- datatypes and operations

static void datatypes(int i) {
    int lengths[] = {1, 2}, size[] = {4, 4}, part[] = {2, 2}, start[] = {1, 1};
    MPI_Aint places[] = {0, 32};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE}, made[5];
    OK(MPI_Type_vector(3 + i % 5, 1, 2, MPI_LONG, &made[0]));
    OK(MPI_Type_create_struct(2, lengths, places, types, &made[1]));
    OK(MPI_Type_create_subarray(2, size, part, start, MPI_ORDER_C, MPI_INT, &made[2]));
    OK(MPI_Type_dup(made[1], &made[3]));
    OK(MPI_Type_create_resized(made[0], 0, 128, &made[4]));
    for (int k = 0; k < 5; k++) OK(MPI_Type_commit(&made[k]));
    OK(MPI_Sendrecv(numbers, 1, made[0], peer, 1, others, 1, made[0], peer, 1, comm, MPI_STATUS_IGNORE));
    for (int k = 0; k < 5; k++) OK(MPI_Type_free(&made[k]));
}

static void type_contents(int i) {
    MPI_Datatype type, inner[1];
    int numbers_there, addresses, types_there, combiner, integers[3];
    MPI_Aint places[1];
    OK(MPI_Type_vector(2, 1, 2 + i % 3, MPI_INT, &type));
    OK(MPI_Type_get_envelope(type, &numbers_there, &addresses, &types_there, &combiner));
    OK(MPI_Type_get_contents(type, 3, 0, 1, integers, places, inner));
    OK(MPI_Type_set_name(type, "vector"));
    OK(MPI_Type_free(&type));
}

static void packing(int i) {
    char bytes[1024];
    int at = 0, from = 0;
    MPI_Aint there = 0, back = 0;
    OK(MPI_Pack(numbers, 1 + i % 50, MPI_LONG, bytes, sizeof bytes, &at, comm));
    OK(MPI_Unpack(bytes, at, &from, others, 1 + i % 50, MPI_LONG, comm));
    OK(MPI_Pack_external("external32", numbers, 20, MPI_LONG, bytes, sizeof bytes, &there));
    OK(MPI_Unpack_external("external32", bytes, there, &back, others, 20, MPI_LONG));
}

static void add(void *from, void *into, int *count, MPI_Datatype *type) {
    (void)type;
    for (int k = 0; k < *count; k++) ((long *)into)[k] += ((long *)from)[k];
}

static void operations(int i) {
    MPI_Op op;
    OK(MPI_Op_create(add, i % 2, &op));
    OK(MPI_Allreduce(numbers, others, 3, MPI_LONG, op, comm));
    OK(MPI_Reduce_local(numbers, others, 3, MPI_LONG, op));
    OK(MPI_Op_free(&op));
}

// ---- collective operations

static void collectives(int i) {
    int n = 1 + i % 60;
    OK(MPI_Bcast(numbers, n, MPI_LONG, i % 2, comm));
    OK(MPI_Allreduce(numbers, others, n, MPI_LONG, MPI_MAX, comm));
    OK(MPI_Reduce(numbers, others, n, MPI_LONG, MPI_MIN, i % 2, comm));
    OK(MPI_Gather(numbers, n, MPI_LONG, others, n, MPI_LONG, i % 2, comm));
    OK(MPI_Scatter(numbers, n, MPI_LONG, others, n, MPI_LONG, i % 2, comm));
    OK(MPI_Allgather(numbers, n, MPI_LONG, others, n, MPI_LONG, comm));
    OK(MPI_Alltoall(numbers, n, MPI_LONG, others, n, MPI_LONG, comm));
    OK(MPI_Scan(numbers, others, n, MPI_LONG, MPI_MAX, comm));
    OK(MPI_Barrier(comm));
}

static void large_collectives(int i) {
    OK(MPI_Bcast(large, LARGE_BYTES / 4 - i % 9, MPI_BYTE, i % 2, comm));
    OK(MPI_Allreduce(large, large_too, LARGE_BYTES / 8, MPI_BYTE, MPI_BOR, comm));
    OK(MPI_Alltoall(large, LARGE_BYTES / 8, MPI_BYTE, large_too, LARGE_BYTES / 8, MPI_BYTE, comm));
}

static void vector_collectives(int i) {
    int n = 1 + i % 60, counts[] = {n, n}, places[] = {0, n};
    OK(MPI_Gatherv(numbers, n, MPI_LONG, others, counts, places, MPI_LONG, i % 2, comm));
    OK(MPI_Allgatherv(numbers, n, MPI_LONG, others, counts, places, MPI_LONG, comm));
    OK(MPI_Alltoallv(numbers, counts, places, MPI_LONG, others, counts, places, MPI_LONG, comm));
    OK(MPI_Reduce_scatter(numbers, others, counts, MPI_LONG, MPI_MAX, comm));
}

static void nonblocking_collectives(int i) {
    MPI_Request requests[6];
    static long results[6][LONGS];
    int n = 1 + i % 60;
    OK(MPI_Ibarrier(comm, &requests[0]));
    OK(MPI_Ibcast(results[1], n, MPI_LONG, i % 2, comm, &requests[1]));
    OK(MPI_Iallreduce(numbers, results[2], n, MPI_LONG, MPI_MAX, comm, &requests[2]));
    OK(MPI_Iallgather(numbers, n, MPI_LONG, results[3], n, MPI_LONG, comm, &requests[3]));
    OK(MPI_Ialltoall(numbers, n, MPI_LONG, results[4], n, MPI_LONG, comm, &requests[4]));
    OK(MPI_Iexscan(numbers, results[5], n, MPI_LONG, MPI_MAX, comm, &requests[5]));
    OK(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE));
}

static void persistent_collectives(int i) {
    MPI_Request request;
    OK(MPI_Allreduce_init(numbers, others, 1 + i % 60, MPI_LONG, MPI_MAX, comm, MPI_INFO_NULL, &request));
    for (int k = 0; k < 2; k++) {
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&request));
}

static void neighborhoods(int i) {
    int n = 1 + i % 60;
    MPI_Request request;
    OK(MPI_Neighbor_allgather(numbers, n, MPI_LONG, others, n, MPI_LONG, grid));
    OK(MPI_Ineighbor_alltoall(numbers, n, MPI_LONG, others, n, MPI_LONG, grid, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

// ---- communicators

static void duplicates(int i) {
    MPI_Comm made;
    OK(MPI_Comm_dup(comm, &made));
    if (i % 4 == 0) OK(MPI_Barrier(made));
    OK(MPI_Comm_free(&made));
}

static void duplicates_used(int i) {
    MPI_Comm made;
    MPI_Request request;
    OK(MPI_Comm_idup(comm, &made, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int k = 0; k < 10; k++) OK(MPI_Allreduce(numbers, others, 1 + i % 5, MPI_LONG, MPI_MAX, made));
    OK(MPI_Sendrecv(numbers, 1, MPI_LONG, peer, 1, others, 1, MPI_LONG, peer, 1, made, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&made));
}

static void splits(int i) {
    MPI_Comm made[3];
    MPI_Group group;
    OK(MPI_Comm_split(comm, check_rank, i, &made[0]));
    OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made[1]));
    OK(MPI_Comm_group(comm, &group));
    OK(MPI_Comm_create_group(comm, group, i % 50, &made[2]));
    OK(MPI_Group_free(&group));
    for (int k = 0; k < 3; k++) OK(MPI_Comm_free(&made[k]));
}

static void intercommunicators(int i) {
    MPI_Comm made, merged;
    OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, comm, peer, i % 100, &made));
    OK(MPI_Barrier(made));
    OK(MPI_Intercomm_merge(made, check_rank, &merged));
    OK(MPI_Comm_free(&merged));
    OK(MPI_Comm_free(&made));
}

static void topologies(int i) {
    int periodic = 1, indices[] = {1, 2}, edges[] = {1, 0}, degree = 1;
    MPI_Comm made[3];
    OK(MPI_Cart_create(comm, 1, &check_size, &periodic, i % 2, &made[0]));
    OK(MPI_Graph_create(comm, 2, indices, edges, 0, &made[1]));
    OK(MPI_Dist_graph_create(comm, 1, &check_rank, &degree, &peer, &degree, MPI_INFO_NULL, 0, &made[2]));
    for (int k = 0; k < 3; k++) OK(MPI_Comm_free(&made[k]));
}

static void groups(int i) {
    MPI_Group all, made[4];
    int first = i % 2, range[1][3] = {{0, 1, 1}}, translated;
    OK(MPI_Comm_group(comm, &all));
    OK(MPI_Group_incl(all, 1, &first, &made[0]));
    OK(MPI_Group_range_excl(all, 1, range, &made[1]));
    OK(MPI_Group_union(all, made[0], &made[2]));
    OK(MPI_Group_difference(all, made[0], &made[3]));
    OK(MPI_Group_translate_ranks(all, 1, &first, made[0], &translated));
    for (int k = 0; k < 4; k++)
        if (made[k] != MPI_GROUP_EMPTY) OK(MPI_Group_free(&made[k]));
    OK(MPI_Group_free(&all));
}

static int delete_nothing(MPI_Comm from, int keyval, void *value, void *extra) {
    (void)from, (void)keyval, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static void attributes(int i) {
    int keyval, flag;
    void *found;
    MPI_Comm made;
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, delete_nothing, &keyval, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &peer));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &made));
    OK(MPI_Comm_get_attr(made, keyval, &found, &flag));
    OK(MPI_Comm_free(&made));
    if (i % 2) OK(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval));
    else OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &keyval));
    if (i % 2 == 0) OK(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval));
    OK(MPI_Comm_free_keyval(&keyval));
}

static void infos(int i) {
    MPI_Info info, copy, environment;
    char key[32], value[32];
    int flag, length = sizeof value;
    snprintf(key, sizeof key, "key %d", i % 7);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, key, "some value"));
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_get_string(copy, key, &length, value, &flag));
    OK(MPI_Comm_set_info(comm, info));
    OK(MPI_Comm_get_info(comm, &environment));
    OK(MPI_Info_free(&environment));
    OK(MPI_Info_delete(info, key));
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&copy));
}

static void names(int i) {
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    snprintf(name, sizeof name, "communicator %d", i);
    OK(MPI_Comm_set_name(comm, name));
    OK(MPI_Comm_get_name(comm, name, &length));
}

// ---- errors

static void handle(MPI_Comm *of, int *code, ...) {
    (void)of, (void)code;
}

static void error_handlers(int i) {
    MPI_Errhandler handler, old;
    (void)i;
    OK(MPI_Comm_create_errhandler(handle, &handler));
    OK(MPI_Comm_get_errhandler(comm, &old));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
    MPI_Send(numbers, -1, MPI_LONG, peer, 0, comm);
    OK(MPI_Comm_set_errhandler(comm, old));
    OK(MPI_Errhandler_free(&old));
    OK(MPI_Errhandler_free(&handler));
}

static void errors_returned(int i) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class, code = MPI_Send(numbers, -1 - i, MPI_LONG, peer, 0, comm);
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &length));
    code = MPI_Bcast(numbers, 1, MPI_LONG, 77 + i, comm);
    OK(MPI_Error_string(code, text, &length));
}

static void errors_added(int i) {
    int class, code;
    (void)i;
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "an error of the program"));
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_class(class));
}

// ---- one-sided communication

static void windows_created(int i) {
    MPI_Win win;
    OK(MPI_Win_create(others, sizeof others, sizeof(long), MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(numbers, 1 + i % 9, MPI_LONG, peer, 0, 1 + i % 9, MPI_LONG, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
}

static void windows_allocated(int i) {
    MPI_Win win;
    long *base;
    OK(MPI_Win_allocate(4096 + i % 100, 1, MPI_INFO_NULL, comm, &base, &win));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Put(numbers, 9, MPI_LONG, peer, 0, 9, MPI_LONG, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static void windows_shared(int i) {
    MPI_Win win;
    long *base;
    OK(MPI_Win_allocate_shared(4096 + 8 * (i % 10), 1, MPI_INFO_NULL, comm, &base, &win));
    base[0] = i;
    OK(MPI_Win_free(&win));
}

static void windows_dynamic(int i) {
    static MPI_Win win = MPI_WIN_NULL;
    static char memory[4096];
    if (i == 0 && win == MPI_WIN_NULL) OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_attach(win, memory, sizeof memory));
    OK(MPI_Win_detach(win, memory));
    if (i < 0) OK(MPI_Win_free(&win));
}

static void puts_and_gets(int i) {
    long one = i, result;
    MPI_Request request;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, window));
    OK(MPI_Put(numbers, 4, MPI_LONG, peer, 0, 4, MPI_LONG, window));
    OK(MPI_Get(others, 4, MPI_LONG, peer, 8, 4, MPI_LONG, window));
    OK(MPI_Win_flush(peer, window));
    OK(MPI_Accumulate(numbers, 4, MPI_LONG, peer, 16, 4, MPI_LONG, MPI_SUM, window));
    OK(MPI_Fetch_and_op(&one, &result, MPI_LONG, peer, 30, MPI_SUM, window));
    OK(MPI_Compare_and_swap(&one, &result, &result, MPI_LONG, peer, 31, window));
    OK(MPI_Rput(numbers, 4, MPI_LONG, peer, 40, 4, MPI_LONG, window, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock(peer, window));
}

static void epochs(int i) {
    MPI_Group all, group;
    OK(MPI_Comm_group(comm, &all));
    OK(MPI_Group_incl(all, 1, &peer, &group));
    OK(MPI_Win_post(group, 0, window));
    OK(MPI_Win_start(group, 0, window));
    OK(MPI_Put(numbers, 1 + i % 20, MPI_LONG, peer, 100, 1 + i % 20, MPI_LONG, window));
    OK(MPI_Win_complete(window));
    OK(MPI_Win_wait(window));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&all));
}

static void memory(int i) {
    void *memory;
    OK(MPI_Alloc_mem(100 + 1000 * (i % 50), MPI_INFO_NULL, &memory));
    memset(memory, 1, 100);
    OK(MPI_Free_mem(memory));
}

// ---- files

static void files_opened(int i) {
    MPI_File made;
    OK(MPI_File_open(comm, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &made));
    OK(MPI_File_write_at(made, 8 * check_rank, numbers, 1, MPI_LONG, MPI_STATUS_IGNORE));
    OK(MPI_File_set_size(made, 16 + i % 100));
    OK(MPI_File_close(&made));
}

static void files_written(int i) {
    MPI_Request request;
    OK(MPI_File_write_at_all(file, 512 * check_rank, numbers, 32, MPI_LONG, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, 512 * peer, others, 32, MPI_LONG, MPI_STATUS_IGNORE));
    OK(MPI_File_iwrite_at(file, 4096 + 64 * (i % 10), numbers, 8, MPI_LONG, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_write_shared(file, numbers, 2, MPI_LONG, MPI_STATUS_IGNORE));
}

static void file_views(int i) {
    MPI_Datatype every_second;
    OK(MPI_Type_vector(8, 1, 2, MPI_LONG, &every_second));
    OK(MPI_Type_commit(&every_second));
    OK(MPI_File_set_view(file, 8 * check_rank, MPI_LONG, every_second, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, numbers, 8 + i % 8, MPI_LONG, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_Type_free(&every_second));
}

// ---- the rest

static void sessions(int i) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm made;
    int size;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &size));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, i % 2 ? "odd" : "even", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_free(&made));
    OK(MPI_Session_finalize(&session));
}

static int query(void *extra, MPI_Status *status) {
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}
static int release(void *extra) {
    (void)extra;
    return MPI_SUCCESS;
}
static int cancel(void *extra, int complete) {
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static void generalized_requests(int i) {
    MPI_Request request;
    (void)i;
    OK(MPI_Grequest_start(query, release, cancel, NULL, &request));
    OK(MPI_Grequest_complete(request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void tools(int i) {
    MPI_T_pvar_session session;
    int count, provided;
    (void)i;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_pvar_get_num(&count));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
}

static void *in_thread(void *argument) {
    long got, given = *(int *)argument;
    MPI_Request request;
    OK(MPI_Irecv(&got, 1, MPI_LONG, check_rank, 9, comm, &request));
    OK(MPI_Send(&given, 1, MPI_LONG, check_rank, 9, comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return NULL;
}

static void threads(int i) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, &i);
    pthread_join(thread, NULL);
}

typedef struct {
    const char *name;
    void (*step)(int);
    // The number of repetitions in thousands in the long form: fewer for slow operations.
    int thousands;
} Kind;

#define KIND(name, thousands) {#name, name, thousands}
static const Kind kinds[] = {
    KIND(blocking_messages, 1000), KIND(nonblocking_messages, 1000), KIND(large_messages, 10),
    KIND(middle_messages, 10), KIND(send_modes, 100), KIND(buffered_messages, 1000),
    KIND(replaced_messages, 1000), KIND(persistent_messages, 100), KIND(partitioned_messages, 1000),
    KIND(probed_messages, 100), KIND(unexpected_messages, 100), KIND(cancelled_receives, 1000),
    KIND(freed_sends, 1000), KIND(truncated_messages, 1000), KIND(datatypes, 1000),
    KIND(type_contents, 1000), KIND(packing, 1000), KIND(operations, 1000), KIND(collectives, 100),
    KIND(large_collectives, 10), KIND(vector_collectives, 100), KIND(nonblocking_collectives, 100),
    KIND(persistent_collectives, 100), KIND(neighborhoods, 100), KIND(duplicates, 100),
    KIND(duplicates_used, 100), KIND(splits, 10), KIND(intercommunicators, 100),
    KIND(topologies, 100), KIND(groups, 1000), KIND(attributes, 1000), KIND(infos, 1000),
    KIND(names, 1000), KIND(error_handlers, 1000), KIND(errors_returned, 1000),
    KIND(errors_added, 1000), KIND(windows_created, 100), KIND(windows_allocated, 10),
    KIND(windows_shared, 10), KIND(windows_dynamic, 100), KIND(puts_and_gets, 1000),
    KIND(epochs, 1000), KIND(memory, 1000), KIND(files_opened, 10), KIND(files_written, 100),
    KIND(file_views, 100), KIND(sessions, 100), KIND(generalized_requests, 1000), KIND(tools, 100),
    KIND(threads, 100),
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void repeat(const Kind *kind, int share) {
    int descriptors = 0, count = CHECK_ROUNDS(kind->thousands * 1000 / share);
    // A few rounds try each method by which large messages can be copied.
    int settled = count / 10 > WARM_ROUNDS ? count / 10 : count / 2 < WARM_ROUNDS ? count / 2 : WARM_ROUNDS;
    long own_kib = 0, shared_kib = 0;
    double begun = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        if (i == settled) {
            own_kib = memory_kib("RssAnon");
            shared_kib = memory_kib("RssShmem");
            descriptors = open_descriptors();
        }
        kind->step(i);
    }
    long own = memory_kib("RssAnon") - own_kib, shared = memory_kib("RssShmem") - shared_kib;
    int more = open_descriptors() - descriptors;
    if (check_rank == 0 && share != SHORT_SHARE)
        printf("%s: %d times in %.1f s, %ld KiB more\n", kind->name, count, MPI_Wtime() - begun, own + shared);
    CHECK(own <= SLACK_KIB, "%s, %d times: memory has grown by %ld KiB", kind->name, count, own);
    CHECK(shared <= SHARED_SLACK_KIB, "%s, %d times: shared memory has grown by %ld KiB", kind->name, count, shared);
    CHECK(more <= 0, "%s, %d times: there are %d more descriptors", kind->name, count, more);
}

int main(int argc, char **argv) {
    int provided, periodic = 1, known = argc < 2;
    if (argc > 1 && !strcmp(argv[1], "list")) {
        for (int k = 0; k < KINDS; k++) puts(kinds[k].name);
        return 0;
    }
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    REQUIRE(check_size == 2, "two processes exchange messages");
    peer = 1 - check_rank;
    large = calloc(1, LARGE_BYTES);
    large_too = calloc(1, LARGE_BYTES);
    memset(large, 1, LARGE_BYTES);
    memset(large_too, 1, LARGE_BYTES);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Cart_create(comm, 1, &check_size, &periodic, 0, &grid));
    long *base;
    OK(MPI_Win_allocate(8192, sizeof(long), MPI_INFO_NULL, comm, &base, &window));
    int job = (int)getpid();
    OK(MPI_Bcast(&job, 1, MPI_INT, 0, comm));
    snprintf(path, sizeof path, "/tmp/growth-%d", job);
    OK(MPI_File_open(comm, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    for (int k = 0; k < KINDS; k++)
        if (argc < 2 || !strcmp(argv[1], kinds[k].name)) {
            known = 1;
            repeat(&kinds[k], argc < 3 ? SHORT_SHARE : atoi(argv[2]));
        }
    REQUIRE(known, "there is no such kind");
    OK(MPI_File_close(&file));
    OK(MPI_Barrier(comm));
    if (check_rank == 0) unlink(path);
    OK(MPI_Win_free(&window));
    OK(MPI_Comm_free(&grid));
    OK(MPI_Comm_free(&comm));
    free(large);
    free(large_too);
    return check_end();
}
