// Sessions without MPI_Init, several at once, before, during and after the world; communicators of
// groups with string tags; buffers and error handlers of sessions.
// run: 1 2 3 5
// each: alone before during after
// hosts
#include "check.h"

static int calls_of_handler;

static void handler(MPI_Session *session, int *code, ...) {
    (void)session;
    (void)code;
    calls_of_handler++;
}

static MPI_Session open_session(const char *level) {
    MPI_Session session;
    MPI_Info info = MPI_INFO_NULL;
    if (level) {
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "thread_level", level));
    }
    OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    if (level) OK(MPI_Info_free(&info));
    return session;
}

static MPI_Comm communicator_of(MPI_Session session, const char *set, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    OK(MPI_Group_from_session_pset(session, set, &group));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    return comm;
}

static int sum_of_ranks(MPI_Comm comm) {
    int rank, sum = -1;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    return sum;
}

static void sets(MPI_Session session) {
    int count, flag, length = 0;
    char name[MPI_MAX_PSET_NAME_LEN], value[32];
    MPI_Info info;
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    CHECK(count >= 2);
    int found = 0;
    for (int i = 0; i < count; i++) {
        length = 0;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL));
        int wanted = length;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        CHECK_EQ(length, wanted);
        CHECK_EQ(strlen(name) + 1, wanted);
        found += !strcmp(name, "mpi://WORLD") + !strcmp(name, "mpi://SELF");
        length = 4;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        CHECK(!strcmp(name, "mpi") && length == wanted);
    }
    CHECK_EQ(found, 2);
    OK(MPI_Session_get_pset_info(session, "mpi://SELF", &info));
    OK(MPI_Info_get(info, "mpi_size", 31, value, &flag));
    CHECK(flag && !strcmp(value, "1"));
    OK(MPI_Info_free(&info));
    EXPECT_ERROR(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &length, name), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Session_get_pset_info(session, "mpi://NOWHERE", &info), MPI_ERR_ARG, "NOWHERE");
}

// Concurrent creations with other tags and overlapping groups do not mix.
static void string_tags(MPI_Session session) {
    MPI_Group world, pair;
    int size, rank;
    MPI_Comm all = communicator_of(session, "mpi://WORLD", "org.combray.all"), some;
    OK(MPI_Comm_size(all, &size));
    OK(MPI_Comm_rank(all, &rank));
    check_rank = rank;
    check_size = size;
    CHECK_EQ(sum_of_ranks(all), size * (size - 1) / 2);
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    for (int round = 0; round < 20; round++)
        for (int other = 0; other + 1 < size; other++) {
            if (rank != other && rank != other + 1) continue;
            int ranks[2] = {other + 1, other};
            OK(MPI_Group_incl(world, 2, ranks, &pair));
            OK(MPI_Comm_create_from_group(pair, round % 2 ? "a" : "b", MPI_INFO_NULL,
                                          MPI_ERRORS_RETURN, &some));
            CHECK_EQ(sum_of_ranks(some), 1);
            OK(MPI_Comm_free(&some));
            OK(MPI_Group_free(&pair));
        }
    char longer[MPI_MAX_STRINGTAG_LEN + 2];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    EXPECT_ERROR(MPI_Comm_create_from_group(world, longer, MPI_INFO_NULL, MPI_ERRORS_RETURN, &some),
                 MPI_ERR_ARG, "stringtag");
    OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "none", MPI_INFO_NULL, MPI_ERRORS_RETURN, &some));
    CHECK(some == MPI_COMM_NULL);
    OK(MPI_Group_free(&world));
    OK(MPI_Comm_free(&all));
}

static void two_sides(MPI_Session session) {
    MPI_Group world, sides[2];
    MPI_Comm inter, merged;
    int size, rank, remote;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    OK(MPI_Group_size(world, &size));
    OK(MPI_Group_rank(world, &rank));
    if (size > 1) {
        int half = size / 2, first[1][3] = {{0, half - 1, 1}};
        OK(MPI_Group_range_incl(world, 1, first, &sides[0]));
        OK(MPI_Group_range_excl(world, 1, first, &sides[1]));
        int own = rank >= half;
        OK(MPI_Intercomm_create_from_groups(sides[own], 0, sides[!own], 0, "sides", MPI_INFO_NULL,
                                            MPI_ERRORS_RETURN, &inter));
        OK(MPI_Comm_remote_size(inter, &remote));
        CHECK_EQ(remote, own ? half : size - half);
        OK(MPI_Intercomm_merge(inter, own, &merged));
        CHECK_EQ(sum_of_ranks(merged), size * (size - 1) / 2);
        OK(MPI_Comm_free(&merged));
        OK(MPI_Comm_free(&inter));
        OK(MPI_Group_free(&sides[0]));
        OK(MPI_Group_free(&sides[1]));
    }
    OK(MPI_Group_free(&world));
}

// The communicator's buffer pays first, then the session's.
static void buffers(MPI_Session session) {
    static char small[100], of_session[10000];
    char data[1000] = {0}, got[1000];
    void *address;
    int size;
    MPI_Request request;
    MPI_Comm self = communicator_of(session, "mpi://SELF", "buffers");
    EXPECT_ERROR(MPI_Bsend(data, 10, MPI_CHAR, 0, 0, self), MPI_ERR_BUFFER, "MPI_Buffer_attach");
    OK(MPI_Session_attach_buffer(session, of_session, sizeof of_session));
    EXPECT_ERROR(MPI_Session_attach_buffer(session, small, sizeof small), MPI_ERR_BUFFER, "detach");
    OK(MPI_Bsend(data, 1000, MPI_CHAR, 0, 0, self));
    OK(MPI_Recv(got, 1000, MPI_CHAR, 0, 0, self, MPI_STATUS_IGNORE));
    OK(MPI_Session_flush_buffer(session));
    OK(MPI_Comm_attach_buffer(self, small, sizeof small));
    EXPECT_ERROR(MPI_Bsend(data, 1000, MPI_CHAR, 0, 0, self), MPI_ERR_BUFFER, "little room");
    OK(MPI_Comm_detach_buffer(self, &address, &size));
    CHECK(address == small && size == sizeof small);
    OK(MPI_Comm_attach_buffer(self, MPI_BUFFER_AUTOMATIC, 0));
    OK(MPI_Bsend(data, 1000, MPI_CHAR, 0, 0, self));
    OK(MPI_Recv(got, 1000, MPI_CHAR, 0, 0, self, MPI_STATUS_IGNORE));
    OK(MPI_Comm_iflush_buffer(self, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_detach_buffer(self, &address, &size));
    CHECK(address == MPI_BUFFER_AUTOMATIC);
    OK(MPI_Session_detach_buffer(session, &address, &size));
    CHECK(address == of_session && size == sizeof of_session);
    EXPECT_ERROR(MPI_Session_detach_buffer(session, &address, &size), MPI_ERR_BUFFER, "no buffer");
    OK(MPI_Comm_free(&self));
}

static void error_handlers(MPI_Session session) {
    MPI_Errhandler made, found;
    int before = calls_of_handler;
    OK(MPI_Session_create_errhandler(handler, &made));
    OK(MPI_Session_set_errhandler(session, made));
    OK(MPI_Session_get_errhandler(session, &found));
    CHECK(found == made);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    MPI_Group group;
    CHECK(MPI_Group_from_session_pset(session, "nothing", &group) != MPI_SUCCESS);
    CHECK_EQ(calls_of_handler - before, 2);
    OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&made));
}

static void thread_level(void) {
    char value[40];
    int flag;
    MPI_Info info;
    MPI_Session session = open_session("MPI_THREAD_MULTIPLE");
    OK(MPI_Session_get_info(session, &info));
    OK(MPI_Info_get(info, "thread_level", 39, value, &flag));
    CHECK(flag && !strcmp(value, "MPI_THREAD_MULTIPLE"));
    OK(MPI_Info_free(&info));
    OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL);
}

static void everything(void) {
    MPI_Session one = open_session(NULL), other = open_session(NULL);
    sets(one);
    string_tags(one);
    two_sides(other);
    buffers(one);
    MPI_Comm left = communicator_of(other, "mpi://WORLD", "left");
    OK(MPI_Session_finalize(&one));
    sum_of_ranks(left);
    OK(MPI_Comm_free(&left));
    error_handlers(other);
    OK(MPI_Session_finalize(&other));
    thread_level();
    // Another one after the last was over.
    one = open_session(NULL);
    left = communicator_of(one, "mpi://WORLD", "again");
    sum_of_ranks(left);
    OK(MPI_Comm_free(&left));
    OK(MPI_Session_finalize(&one));
}

int main(int argc, char **argv) {
    const char *when = argc > 1 ? argv[1] : "alone";
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    OK(MPI_Get_library_version(version, &length));
    check_is_combray = strstr(version, "Combray") != NULL;
    if (!strcmp(when, "alone")) {
        everything();
        return check_failures != 0;
    }
    if (!strcmp(when, "before")) everything();
    check_begin();
    if (!strcmp(when, "during")) everything();
    MPI_Session kept = MPI_SESSION_NULL;
    if (!strcmp(when, "after")) kept = open_session(NULL);
    MPI_Finalize();
    if (!strcmp(when, "after")) {
        MPI_Comm comm = communicator_of(kept, "mpi://WORLD", "after");
        CHECK_EQ(sum_of_ranks(comm), check_size * (check_size - 1) / 2);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Session_finalize(&kept));
        everything();
    }
    return check_failures != 0;
}
