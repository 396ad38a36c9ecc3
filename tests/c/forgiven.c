// What the standard leaves out or forbids, and other libraries allow: programs rely on it.
// run: 1 2
// combray.h
#include "check.h"

static int calls;
static MPI_Comm last;

static void on_error(MPI_Comm *comm, int *code, ...) {
    (void)code;
    calls++;
    last = *comm;
}

// An error in a call without a communicator goes to MPI_COMM_SELF's error handler, and to
// MPI_COMM_WORLD's where the program has set only that one.
static void errors_without_a_communicator(void) {
    MPI_Errhandler handler;
    MPI_Datatype type;
    int class;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Error_class(MPI_Type_contiguous(-1, MPI_INT, &type), &class);
    CHECK_EQ(class, MPI_ERR_COUNT);
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    MPI_Type_contiguous(-1, MPI_INT, &type);
    CHECK_EQ(calls, 1);
    CHECK(last == MPI_COMM_WORLD, "the handler is given the communicator whose it is");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    MPI_Type_contiguous(-1, MPI_INT, &type);
    CHECK_EQ(calls, 2);
    CHECK(last == MPI_COMM_SELF, "a handler of MPI_COMM_SELF goes first");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
}

static void names_of_process_sets(void) {
    const char *names[] = {"mpi://world", "MPI://World", "mpi://self", "mpi://SELF"};
    MPI_Session session;
    MPI_Group group;
    int size;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    for (int i = 0; i < 4; i++) {
        OK(MPI_Group_from_session_pset(session, names[i], &group));
        OK(MPI_Group_size(group, &size));
        CHECK_EQ(size, i < 2 ? check_size : 1);
        OK(MPI_Group_free(&group));
    }
    CHECK(MPI_Group_from_session_pset(session, "mpi://worlds", &group) != MPI_SUCCESS, "no set");
    OK(MPI_Session_finalize(&session));
}

static void reductions(void) {
    char own = (char)(check_rank ? -3 : 2), sum = 0, least = 0;
    OK(MPI_Allreduce(&own, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ((signed char)sum, check_size == 1 ? 2 : -1);
    OK(MPI_Allreduce(&own, &least, 1, MPI_CHAR, MPI_MIN, MPI_COMM_WORLD));
    CHECK_EQ((signed char)least, check_size == 1 ? 2 : -3);
    MPI_Aint address = check_rank == 0 ? 0 : 256, any = -1;
    OK(MPI_Allreduce(&address, &any, 1, MPI_AINT, MPI_LOR, MPI_COMM_WORLD));
    CHECK_EQ(any != 0, check_size > 1);
    MPI_Offset offset = 7, all = -1;
    OK(MPI_Allreduce(&offset, &all, 1, MPI_OFFSET, MPI_LAND, MPI_COMM_WORLD));
    CHECK(all != 0, "all are true");
    MPI_Count count = 3, odd = -1;
    OK(MPI_Allreduce(&count, &odd, 1, MPI_COUNT, MPI_LXOR, MPI_COMM_WORLD));
    CHECK_EQ(odd != 0, check_size % 2);
}

static void locks_of_no_process(void) {
    int part = 0, given = 9;
    MPI_Win win;
    OK(MPI_Win_create(&part, sizeof part, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, 0, win));
    OK(MPI_Put(&given, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    OK(MPI_Win_flush(MPI_PROC_NULL, win));
    OK(MPI_Win_flush_local(MPI_PROC_NULL, win));
    OK(MPI_Win_unlock(MPI_PROC_NULL, win));
    OK(MPI_Win_free(&win));
    CHECK_EQ(part, 0);
}

int main(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    errors_without_a_communicator();
    names_of_process_sets();
    reductions();
    locks_of_no_process();
    return check_end();
}
