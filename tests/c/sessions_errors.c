// Errors with sessions go to the session's handler, those of a creation to the handler that the new
// object would get; a call before anything began ends the program only after a handler was called.
// run: 1 2 3
#include "check.h"

static int calls, last_code;
static MPI_Session last_session;

static void note_session(MPI_Session *session, int *code, ...) {
    calls++;
    last_session = *session;
    last_code = *code;
}

static void note_comm(MPI_Comm *comm, int *code, ...) {
    calls++;
    CHECK(*comm == MPI_COMM_NULL, "there is no communicator yet");
    last_code = *code;
}

static void handlers(void) {
    MPI_Session session, unmade = MPI_SESSION_NULL;
    MPI_Errhandler handler, comm_handler, got;
    MPI_Group group, nothing;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info;
    int count, class;
    check_is_combray = 1;
    OK(MPI_Session_create_errhandler(note_session, &handler));
    OK(MPI_Comm_create_errhandler(note_comm, &comm_handler));

    // Before there is anything.
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "thread_level", "MPI_THREAD_TOGETHER"));
    EXPECT_ERROR(MPI_Session_init(info, handler, &unmade), MPI_ERR_INFO_VALUE, "info", "TOGETHER");
    CHECK_EQ(calls, 1);
    CHECK(last_session == MPI_SESSION_NULL && unmade == MPI_SESSION_NULL, "no session");
    OK(MPI_Info_free(&info));

    OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    OK(MPI_Session_get_errhandler(session, &got));
    CHECK(got == handler, "the handler that was given");
    OK(MPI_Errhandler_free(&got));
    EXPECT_ERROR(MPI_Group_from_session_pset(session, "mpi://NOWHERE", &group), MPI_ERR_ARG,
                 "pset_name", "NOWHERE", "mpi://WORLD");
    CHECK_EQ(calls, 2);
    CHECK(last_session == session, "the handler is told the session");
    OK(MPI_Error_class(last_code, &class));
    CHECK_EQ(class, MPI_ERR_ARG);
    count = 0;
    EXPECT_ERROR(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 2, &count, NULL), MPI_ERR_ARG, "n",
                 "2");
    EXPECT_ERROR(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &count, NULL), MPI_ERR_ARG,
                 "n", "-1");
    CHECK_EQ(calls, 4);
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK_EQ(calls, 5);
    CHECK_EQ(last_code, MPI_ERR_OTHER);

    // The world's communicators are not there.
    OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    EXPECT_ERROR(MPI_Session_set_errhandler(session, comm_handler), MPI_ERR_ARG, "communicators");
    EXPECT_ERROR(MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL), MPI_ERR_ARG, "npset_names");

    // Errors in making objects from a group.
    static char long_tag[MPI_MAX_STRINGTAG_LEN + 1];
    char characters[16];
    snprintf(characters, sizeof characters, "%d", MPI_MAX_STRINGTAG_LEN);
    memset(long_tag, 'x', MPI_MAX_STRINGTAG_LEN);
    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    calls = 0;
    EXPECT_ERROR(MPI_Comm_create_from_group(group, long_tag, MPI_INFO_NULL, comm_handler, &comm),
                 MPI_ERR_ARG, "stringtag", characters);
    CHECK_EQ(calls, 1);
    EXPECT_ERROR(MPI_Comm_create_from_group(MPI_GROUP_NULL, "tag", MPI_INFO_NULL, comm_handler, &comm),
                 MPI_ERR_GROUP, "group", "MPI_GROUP_NULL");
    CHECK_EQ(calls, 2);
    OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "tag", MPI_INFO_NULL, comm_handler, &comm));
    CHECK(comm == MPI_COMM_NULL, "nobody needs a communicator");
    OK(MPI_Group_difference(group, group, &nothing));
    OK(MPI_Comm_create_from_group(group, "tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    EXPECT_ERROR(MPI_Send(NULL, 0, MPI_INT, 1, 0, comm), MPI_ERR_RANK, "dest", "1");
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Errhandler_free(&comm_handler));
    OK(MPI_Session_finalize(&session));
}

// A group of others, and processes whose arguments differ.
static void disagreement(void) {
    MPI_Session session;
    MPI_Group all, one, turned;
    MPI_Comm comm;
    int rank, size, first[1] = {0};
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    OK(MPI_Group_rank(all, &rank));
    OK(MPI_Group_size(all, &size));
    OK(MPI_Group_incl(all, 1, first, &one));
    if (rank > 0)
        EXPECT_ERROR(MPI_Comm_create_from_group(one, "tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
                     MPI_ERR_GROUP, "group");
    if (size > 2) {
        // These processes in another order on one of them.
        int order[3] = {0, 2, 1};
        OK(MPI_Group_incl(all, 3, order, &turned));
        EXPECT_ERROR(MPI_Comm_create_from_group(rank == 1 ? turned : all, "tag", MPI_INFO_NULL,
                                                MPI_ERRORS_RETURN, &comm),
                     MPI_ERR_GROUP, "same group");
        OK(MPI_Group_free(&turned));
    }
    // And then they agree.
    OK(MPI_Comm_create_from_group(all, "tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&one));
    OK(MPI_Group_free(&all));
    OK(MPI_Session_finalize(&session));
}

int main(void) {
    handlers();
    disagreement();
    return check_failures != 0;
}
