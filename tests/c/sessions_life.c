// Sessions: without MPI_Init; several at once; before, during and after the world model; again
// after all was over; process sets, their groups, communicators made of them, what these can do.
// run: 1 2 3 5
// each: only around again several after
// hosts
// checkers: address
#include "check.h"

static MPI_Session begin(void) {
    MPI_Session session = MPI_SESSION_NULL;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK(session != MPI_SESSION_NULL, "a handle");
    return session;
}

static void end(MPI_Session *session) {
    OK(MPI_Session_finalize(session));
    CHECK(*session == MPI_SESSION_NULL, "the handle is gone");
}

static MPI_Group group_of(MPI_Session session, const char *set) {
    MPI_Group group;
    OK(MPI_Group_from_session_pset(session, set, &group));
    return group;
}

static MPI_Comm communicator(MPI_Session session, const char *set, const char *tag) {
    MPI_Comm comm;
    MPI_Group group = group_of(session, set);
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    return comm;
}

// The value of a key, which must be there.
static const char *value_of(MPI_Info info, const char *key) {
    static char value[MPI_MAX_INFO_VAL];
    int flag = 0, room = sizeof value;
    value[0] = 0;
    OK(MPI_Info_get_string(info, key, &room, value, &flag));
    CHECK(flag, "%s is set", key);
    return value;
}

static void sets(MPI_Session session) {
    int count = 0, found = 0, rank, size;
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    CHECK_EQ(count, 2);
    for (int n = 0; n < count; n++) {
        char name[MPI_MAX_PSET_NAME_LEN], part[5];
        int needed = 0, room;
        MPI_Info info;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &needed, NULL));
        room = needed;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &room, name));
        CHECK_EQ(room, needed);
        CHECK_EQ(strlen(name) + 1, needed);
        room = sizeof part;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &room, part));
        CHECK(!strcmp(part, "mpi:"), "a name cut short: %s", part);
        MPI_Group group = group_of(session, name);
        OK(MPI_Group_size(group, &size));
        OK(MPI_Session_get_pset_info(session, name, &info));
        CHECK_EQ(atoi(value_of(info, "mpi_size")), size);
        OK(MPI_Info_free(&info));
        OK(MPI_Group_rank(group, &rank));
        if (!strcmp(name, "mpi://WORLD")) {
            found |= 1;
            check_rank = rank;
            check_size = size;
        } else if (!strcmp(name, "mpi://SELF")) {
            found |= 2;
            CHECK_EQ(size, 1);
            CHECK_EQ(rank, 0);
        }
        OK(MPI_Group_free(&group));
    }
    CHECK_EQ(found, 3);
}

// Short and long messages, a collective, and communicators made of this one.
static void use(MPI_Comm comm, int long_too) {
    enum { LONG = 1 << 20 };
    int rank, size, sum = -1, next, before, got = -1, bytes = long_too ? LONG : 1000;
    unsigned char *out = malloc(bytes), *in = malloc(bytes);
    MPI_Comm half, copy;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, next, 3, &got, 1, MPI_INT, before, 3, comm, MPI_STATUS_IGNORE));
    CHECK_EQ(got, before);
    pattern_fill(out, bytes, rank);
    OK(MPI_Sendrecv(out, bytes, MPI_BYTE, next, 4, in, bytes, MPI_BYTE, before, 4, comm,
                    MPI_STATUS_IGNORE));
    CHECK_PATTERN(in, bytes, before);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * (size - 1) / 2);
    OK(MPI_Comm_split(comm, rank % 2, 0, &half));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, half));
    CHECK_EQ(sum, (size - 1) % 2 == rank % 2 ? size - 1 : size - 2);
    OK(MPI_Comm_dup(half, &copy));
    OK(MPI_Barrier(copy));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&half));
    free(out);
    free(in);
}

static void world(void) {
    int sum = 0, one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, check_size);
}

static void only(void) {
    int flag = 1;
    MPI_Session session = begin();
    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 0);
    sets(session);
    MPI_Comm all = communicator(session, "mpi://WORLD", "org.example.all");
    MPI_Comm self = communicator(session, "mpi://SELF", "org.example.self");
    use(all, 1);
    use(self, 1);
    OK(MPI_Comm_free(&all));
    OK(MPI_Comm_disconnect(&self));
    end(&session);
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 0);
}

// One that began before the world model and ends after it.
static void around(void) {
    int flag;
    MPI_Session session = begin();
    sets(session);
    MPI_Comm all = communicator(session, "mpi://WORLD", "around");
    use(all, 0);
    MPI_Init(NULL, NULL);
    check_world();
    world();
    use(all, 0);
    MPI_Session inner = begin();
    MPI_Comm within = communicator(inner, "mpi://WORLD", "within");
    use(within, 0);
    OK(MPI_Comm_free(&within));
    end(&inner);
    world();
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 1);
    use(all, 1);
    OK(MPI_Comm_free(&all));
    end(&session);
}

// One after the other: each time all is over, and begins again.
static void again(void) {
    for (int i = 0; i < 20; i++) {
        char tag[20];
        snprintf(tag, sizeof tag, "turn %d", i % 3);
        MPI_Session session = begin();
        sets(session);
        MPI_Comm all = communicator(session, "mpi://WORLD", tag);
        use(all, i % 5 == 0);
        OK(MPI_Comm_free(&all));
        end(&session);
    }
}

// Several sessions, each with a communicator; groups that are another order of processes.
static void several(void) {
    enum { SESSIONS = 4 };
    MPI_Session sessions[SESSIONS];
    MPI_Comm comms[SESSIONS];
    for (int i = 0; i < SESSIONS; i++) sessions[i] = begin();
    sets(sessions[0]);
    for (int i = 0; i < SESSIONS; i++) {
        char tag[30];
        snprintf(tag, sizeof tag, "session %d", i);
        comms[i] = communicator(sessions[i], "mpi://WORLD", tag);
    }
    for (int i = 0; i < SESSIONS; i++) use(comms[i], 0);
    // One string in groups without common processes, and the reversed order.
    MPI_Group all = group_of(sessions[1], "mpi://WORLD"), mine;
    int parity = check_rank % 2;
    int range[1][3] = {{(check_size - 1 - parity) / 2 * 2 + parity, parity, -2}};
    MPI_Comm reversed;
    OK(MPI_Group_range_incl(all, 1, range, &mine));
    OK(MPI_Comm_create_from_group(mine, "same", MPI_INFO_NULL, MPI_ERRORS_RETURN, &reversed));
    use(reversed, 0);
    OK(MPI_Comm_free(&reversed));
    OK(MPI_Group_free(&mine));
    OK(MPI_Group_free(&all));
    for (int i = SESSIONS - 1; i >= 0; i--) {
        use(comms[i], 0);
        OK(MPI_Comm_free(&comms[i]));
        end(&sessions[i]);
    }
}

// After the world model, which knew its neighbours only, processes reach all others.
static void after(void) {
    MPI_Init(NULL, NULL);
    check_world();
    world();
    OK(MPI_Finalize());
    MPI_Session session = begin();
    MPI_Comm all = communicator(session, "mpi://WORLD", "after");
    int value = check_rank, values[16];
    for (int to = 0; to < check_size; to++)
        OK(MPI_Send(&value, 1, MPI_INT, to, 9, all));
    for (int from = 0; from < check_size; from++) {
        OK(MPI_Recv(&values[0], 1, MPI_INT, from, 9, all, MPI_STATUS_IGNORE));
        CHECK_EQ(values[0], from);
    }
    OK(MPI_Comm_free(&all));
    end(&session);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "only";
    if (!strcmp(what, "only")) only();
    if (!strcmp(what, "around")) around();
    if (!strcmp(what, "again")) again();
    if (!strcmp(what, "several")) several();
    if (!strcmp(what, "after")) after();
    return check_failures != 0;
}
