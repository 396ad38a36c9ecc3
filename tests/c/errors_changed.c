// What an error handler leaves in the error code is what the call returns (MPI 5.0, section 9.3.1):
// handlers of communicators, windows, files and sessions; errors of arguments, of a receive, of
// requests alone and in lists, of collective operations and of one-sided calls.
// run: 1
#include "check.h"

enum { NOTHING = -1 };
static int leaves, calls, seen;
static const void *of_object;
static MPI_Comm comm, other;

static void change(int *code) {
    calls++;
    seen = class_of(*code);
    if (leaves != NOTHING) *code = leaves;
}
static void on_comm(MPI_Comm *object, int *code, ...) { of_object = (const void *)(uintptr_t)*object; change(code); }
static void on_win(MPI_Win *object, int *code, ...) { (void)object; change(code); }
static void on_file(MPI_File *object, int *code, ...) { (void)object; change(code); }
static void on_session(MPI_Session *object, int *code, ...) { (void)object; change(code); }

// Some libraries return other codes.
static void check_returned(int line, const char *call, int code, int class) {
    if (!check_is_combray) return;
    int wanted = leaves == NOTHING ? class : leaves;
    if (calls != 1 || seen != class || class_of(code) != wanted)
        check_fail(__FILE__, line, 0, "%s: %d calls of the handler, which was given class %d and left %d; returned class %d",
                   call, calls, seen, leaves, class_of(code));
}

#define CHANGED(call, class)                                                                       \
    do {                                                                                           \
        static const int all[] = {NOTHING, MPI_SUCCESS, MPI_ERR_DIMS};                             \
        for (int i_ = 0; i_ < 3; i_++) {                                                           \
            leaves = all[i_];                                                                      \
            calls = seen = 0;                                                                      \
            int code_ = (call);                                                                    \
            check_returned(__LINE__, #call, code_, class);                                         \
        }                                                                                          \
    } while (0)

static int in[4], out[8];

// A receive in `where` of a message that is too long, underway.
static void too_long(MPI_Comm where, MPI_Request *request) {
    OK(MPI_Irecv(in, 1, MPI_INT, 0, 0, where, request));
    OK(MPI_Send(out, 4, MPI_INT, 0, 0, where));
}

static int received(void) {
    MPI_Request request;
    OK(MPI_Isend(out, 4, MPI_INT, 0, 0, comm, &request));
    int code = MPI_Recv(in, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return code;
}

static int waited(void) {
    MPI_Request request;
    too_long(comm, &request);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int waited_persistent(void) {
    MPI_Request request;
    OK(MPI_Recv_init(in, 1, MPI_INT, 0, 0, comm, &request));
    OK(MPI_Start(&request));
    OK(MPI_Send(out, 4, MPI_INT, 0, 0, comm));
    int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    OK(MPI_Request_free(&request));
    return code;
}

static int tested(void) {
    MPI_Request request;
    int flag = 0, code = MPI_SUCCESS;
    too_long(comm, &request);
    while (request != MPI_REQUEST_NULL) code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return code;
}

static int any(int waits) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL};
    int index, flag, code = MPI_SUCCESS;
    too_long(comm, &requests[1]);
    while (requests[1] != MPI_REQUEST_NULL)
        code = waits ? MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE)
                     : MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
    return code;
}

// Two requests of which one or both fail: the handler gets the code of the first that fails, and
// the code that it returns is in the status of that request.
static int several(int form, MPI_Status *statuses) {
    MPI_Request requests[3];
    int count, flag, indices[3], code = MPI_SUCCESS;
    // It is complete, of another communicator, and fine.
    OK(MPI_Ibarrier(other, &requests[0]));
    OK(MPI_Irecv(in, 1, MPI_INT, 0, 1, comm, &requests[1]));
    too_long(comm, &requests[2]);
    OK(MPI_Send(out, 1, MPI_INT, 0, 1, comm));
    MPI_Request *last = &requests[2];
    switch (form) {
    case 0: code = MPI_Waitall(3, requests, statuses); break;
    case 1: while (*last != MPI_REQUEST_NULL) code = MPI_Testall(3, requests, &flag, statuses); break;
    case 2: while (*last != MPI_REQUEST_NULL) code = MPI_Waitsome(3, requests, &count, indices, statuses); break;
    case 3: while (*last != MPI_REQUEST_NULL) code = MPI_Testsome(3, requests, &count, indices, statuses); break;
    }
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    return code;
}

static void lists(void) {
    static const int all[] = {NOTHING, MPI_SUCCESS, MPI_ERR_DIMS};
    for (int form = 0; form < 4; form++)
        for (int i = 0; i < 6; i++) {
            MPI_Status statuses[3];
            leaves = all[i % 3];
            calls = seen = 0;
            int code = several(form, i < 3 ? statuses : MPI_STATUSES_IGNORE);
            if (!check_is_combray) continue;
            CHECK_EQ(calls, 1);
            CHECK_EQ(seen, MPI_ERR_TRUNCATE);
            CHECK(of_object == (const void *)(uintptr_t)comm, "the handler of the request that failed");
            CHECK_EQ(class_of(code), leaves == MPI_SUCCESS ? MPI_SUCCESS : MPI_ERR_IN_STATUS);
            if (form < 2 && i < 3) {
                CHECK_EQ(class_of(statuses[2].MPI_ERROR), leaves == NOTHING ? MPI_ERR_TRUNCATE : leaves);
                if (code != MPI_SUCCESS) CHECK_EQ(statuses[1].MPI_ERROR, MPI_SUCCESS);
            }
        }
    // With two errors the handler changes the first one only.
    MPI_Request requests[2];
    MPI_Status statuses[2];
    leaves = MPI_SUCCESS;
    too_long(comm, &requests[0]);
    too_long(comm, &requests[1]);
    int code = MPI_Waitall(2, requests, statuses);
    if (check_is_combray) {
        CHECK_CLASS(code, MPI_ERR_IN_STATUS);
        CHECK_EQ(statuses[0].MPI_ERROR, MPI_SUCCESS);
        CHECK_CLASS(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE);
    }
}

static void of_communicators(void) {
    MPI_Errhandler handler;
    MPI_Comm made;
    MPI_Request request;
    OK(MPI_Comm_create_errhandler(on_comm, &handler));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Comm_dup(comm, &other));
    OK(MPI_Errhandler_free(&handler));
    CHANGED(MPI_Send(out, 1, MPI_INT, 1234, 0, comm), MPI_ERR_RANK);
    CHANGED(MPI_Bcast(out, 1, MPI_INT, 99, comm), MPI_ERR_ROOT);
    CHANGED(MPI_Ibcast(out, 1, MPI_INT, 99, comm, &request), MPI_ERR_ROOT);
    CHANGED(MPI_Allreduce(out, in, 1, MPI_INT, MPI_OP_NULL, comm), MPI_ERR_OP);
    CHANGED(MPI_Comm_split(comm, -55, 0, &made), MPI_ERR_ARG);
    CHANGED(MPI_Comm_get_attr(comm, MPI_KEYVAL_INVALID, &made, &(int){0}), MPI_ERR_KEYVAL);
    CHANGED(received(), MPI_ERR_TRUNCATE);
    CHANGED(waited(), MPI_ERR_TRUNCATE);
    CHANGED(waited_persistent(), MPI_ERR_TRUNCATE);
    CHANGED(tested(), MPI_ERR_TRUNCATE);
    CHANGED(any(0), MPI_ERR_TRUNCATE);
    CHANGED(any(1), MPI_ERR_TRUNCATE);
    lists();
    // The call itself succeeds, whatever the handler leaves.
    leaves = MPI_ERR_DIMS;
    CHECK_EQ(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER), MPI_SUCCESS);
    OK(MPI_Comm_free(&other));
    OK(MPI_Comm_free(&comm));
}

static void of_windows(void) {
    MPI_Errhandler handler;
    MPI_Win win;
    int memory[4];
    OK(MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_create_errhandler(on_win, &handler));
    OK(MPI_Win_set_errhandler(win, handler));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Win_fence(0, win));
    CHANGED(MPI_Put(out, 1, MPI_INT, 99, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    CHANGED(MPI_Accumulate(out, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    OK(MPI_Win_fence(0, win));
    CHANGED(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    leaves = MPI_ERR_DIMS;
    CHECK_EQ(MPI_Win_call_errhandler(win, MPI_ERR_OTHER), MPI_SUCCESS);
    OK(MPI_Win_free(&win));
}

static void of_files(void) {
    MPI_Errhandler handler;
    MPI_File file;
    OK(MPI_File_create_errhandler(on_file, &handler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    CHANGED(MPI_File_open(MPI_COMM_SELF, "/nonexistent/x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
            MPI_ERR_NO_SUCH_FILE);
    CHANGED(MPI_File_delete("/nonexistent/x", MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    OK(MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_set_errhandler(file, handler));
    OK(MPI_Errhandler_free(&handler));
    CHANGED(MPI_File_write(file, out, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    CHANGED(MPI_File_write_all(file, out, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    leaves = MPI_ERR_DIMS;
    CHECK_EQ(MPI_File_call_errhandler(file, MPI_ERR_OTHER), MPI_SUCCESS);
    OK(MPI_File_close(&file));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
}

static void of_sessions(void) {
    MPI_Errhandler handler;
    MPI_Session session;
    MPI_Group group;
    OK(MPI_Session_create_errhandler(on_session, &handler));
    OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    OK(MPI_Errhandler_free(&handler));
    CHANGED(MPI_Group_from_session_pset(session, "nonsense://", &group), MPI_ERR_ARG);
    leaves = MPI_ERR_DIMS;
    CHECK_EQ(MPI_Session_call_errhandler(session, MPI_ERR_OTHER), MPI_SUCCESS);
    OK(MPI_Session_finalize(&session));
}

int main(void) {
    check_begin();
    of_communicators();
    of_windows();
    of_files();
    if (check_is_combray) of_sessions();
    return check_end();
}
