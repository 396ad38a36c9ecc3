// A program that uses sessions only, and whose processes become more and fewer: spawned processes
// meet their parents without MPI_Init, process sets that the program publishes contain processes of
// both jobs, a component with a session of its own makes communicators of them, and a process
// leaves alone.
// run: 1 3
// timeout: 60
// one machine: processes are looked for by their numbers
// combray.h
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <signal.h>

enum { CHILDREN = 2 };

static const char *const name = "app://team";

static MPI_Comm from_set(MPI_Session session, const char *set, const char *tag) {
    MPI_Group group;
    MPI_Comm made;
    OK(MPI_Group_from_session_pset(session, set, &group));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
    OK(MPI_Group_free(&group));
    return made;
}

static int set_size(MPI_Session session) {
    MPI_Info info;
    char value[16] = "";
    int length = sizeof value, flag = 0;
    OK(MPI_Session_get_pset_info(session, name, &info));
    OK(MPI_Info_get_string(info, "mpi_size", &length, value, &flag));
    OK(MPI_Info_free(&info));
    CHECK(flag, "mpi_size is missing");
    return atoi(value);
}

static void sums(MPI_Comm comm, int size) {
    int one = 1, sum = 0, counted;
    OK(MPI_Comm_size(comm, &counted));
    CHECK_EQ(counted, size);
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size);
}

// An intercommunicator of the processes with even and with odd ranks, which belong to both jobs.
static void halves(MPI_Group all, int size) {
    MPI_Group sides[2], nobody;
    MPI_Comm between, merged;
    int rank, remote_size, one = 1, sum = 0;
    OK(MPI_Group_rank(all, &rank));
    for (int side = 0; side < 2; side++) {
        int range[1][3] = {{side, size - 1, 2}};
        OK(MPI_Group_range_incl(all, 1, range, &sides[side]));
    }
    // The groups count on the leaders only, which are the last processes.
    int mine = rank % 2, others = size / 2 + (mine && size % 2), leads = rank >= size - 2;
    OK(MPI_Group_incl(all, 0, NULL, &nobody));
    OK(MPI_Intercomm_create_from_groups(sides[mine], (size - others) - 1, leads ? sides[!mine] : nobody,
                                        others - 1, "halves", MPI_INFO_NULL, MPI_ERRORS_RETURN, &between));
    OK(MPI_Comm_remote_size(between, &remote_size));
    CHECK_EQ(remote_size, others);
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, between));
    CHECK_EQ(sum, others);
    OK(MPI_Intercomm_merge(between, mine, &merged));
    sums(merged, size);
    int merged_rank;
    OK(MPI_Comm_rank(merged, &merged_rank));
    CHECK_EQ(merged_rank, mine ? (size + 1) / 2 + rank / 2 : rank / 2);
    OK(MPI_Comm_free(&merged));
    OK(MPI_Comm_free(&between));
    for (int side = 0; side < 2; side++) OK(MPI_Group_free(&sides[side]));
    OK(MPI_Group_free(&nobody));
}

// Groups of one job each do not say how processes of both are named.
static void sides_without_a_set(MPI_Session session, MPI_Group all) {
    MPI_Group own, others;
    MPI_Comm between;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &own));
    OK(MPI_Group_difference(all, own, &others));
    CHECK_CLASS(MPI_Intercomm_create_from_groups(own, 0, others, 0, "sides", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                                 &between), MPI_ERR_COMM);
    OK(MPI_Group_free(&own));
    OK(MPI_Group_free(&others));
}

// A part of the program that has got no communicator from the others finds them by the set, which
// may contain all processes of both jobs.
static void component(int size, int is_whole) {
    MPI_Session session;
    MPI_Group group, reversed;
    MPI_Comm made, split, back;
    int sets, length = 0, rank, reversed_rank;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets));
    CHECK_EQ(sets, 3);
    char found[MPI_MAX_PSET_NAME_LEN];
    OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 2, &length, NULL));
    OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 2, &length, found));
    CHECK(!strcmp(found, name), "%s", found);
    CHECK_EQ(set_size(session), size);
    made = from_set(session, name, "component");
    sums(made, size);
    OK(MPI_Comm_rank(made, &rank));
    // Groups that are derived from it have the processes in another order.
    OK(MPI_Group_from_session_pset(session, "APP://Team", &group));
    int range[1][3] = {{size - 1, 0, -1}};
    OK(MPI_Group_range_incl(group, 1, range, &reversed));
    OK(MPI_Comm_create_from_group(reversed, "reversed", MPI_INFO_NULL, MPI_ERRORS_RETURN, &back));
    OK(MPI_Comm_rank(back, &reversed_rank));
    CHECK_EQ(reversed_rank, size - 1 - rank);
    sums(back, size);
    halves(group, size);
    if (is_whole) sides_without_a_set(session, group);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&reversed));
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_pset_name", name));
    OK(MPI_Comm_split_type(back, MPI_COMM_TYPE_RESOURCE_GUIDED, rank, info, &split));
    sums(split, size);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&split));
    OK(MPI_Comm_free(&back));
    OK(MPI_Comm_free(&made));
    OK(MPI_Session_finalize(&session));
}

static void mistakes(MPI_Comm team, MPI_Comm between, int rank) {
    CHECK_CLASS(combray_publish_set(between, name), MPI_ERR_COMM);
    CHECK_CLASS(combray_publish_set(MPI_COMM_NULL, name), MPI_ERR_COMM);
    CHECK_CLASS(combray_publish_set(team, NULL), MPI_ERR_ARG);
    CHECK_CLASS(combray_publish_set(team, ""), MPI_ERR_ARG);
    CHECK_CLASS(combray_publish_set(team, "MPI://mine"), MPI_ERR_ARG);
    CHECK_CLASS(combray_publish_set(team, rank ? "one" : "two"), MPI_ERR_ARG);
    CHECK_CLASS(combray_publish_set(team, rank ? name : ""), MPI_ERR_ARG);
    static char longest[MPI_MAX_PSET_NAME_LEN + 1];
    memset(longest, 'x', MPI_MAX_PSET_NAME_LEN);
    CHECK_CLASS(combray_publish_set(team, longest), MPI_ERR_ARG);
    CHECK_CLASS(combray_withdraw_set("mpi://WORLD"), MPI_ERR_ARG);
    CHECK_CLASS(combray_withdraw_set("nothing"), MPI_ERR_ARG);
}

// Sets that are published from communicators made of earlier sets do not keep those.
static MPI_Comm renewed(MPI_Session session, MPI_Comm team) {
    enum { WARM = 20, TIMES = 100, BYTES_EACH_MAX = 100 };
    size_t before = 0;
    for (int round = 0; round < WARM + TIMES; round++) {
        if (round == WARM) before = mallinfo2().uordblks;
        MPI_Comm next = from_set(session, name, "renewed");
        OK(combray_publish_set(next, name));
        OK(MPI_Comm_free(&team));
        team = next;
    }
    long each = ((long)mallinfo2().uordblks - (long)before) / TIMES;
    CHECK(each <= BYTES_EACH_MAX, "each set leaves %ld bytes", each);
    return team;
}

static void ends_soon(pid_t process) {
    for (int tries = 0; tries < 20000; tries++) {
        if (kill(process, 0) && errno == ESRCH) return;
        usleep(1000);
    }
    CHECK(0, "process %d, which has left, waits for the others", (int)process);
}

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Comm own, parents, between, team, smaller;
    int is_child = argc > 1 && !strcmp(argv[1], "child"), rank, size, own_size;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    own = from_set(session, "mpi://WORLD", "start");
    OK(MPI_Comm_rank(own, &check_rank));
    OK(MPI_Comm_size(own, &own_size));
    OK(MPI_Comm_get_parent(&parents));
    CHECK_EQ(parents != MPI_COMM_NULL, is_child);
    if (is_child) {
        between = parents;
    } else {
        char *arguments[] = {"child", NULL}, file[4096];
        ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
        REQUIRE(length > 0, "readlink");
        file[length] = 0;
        OK(MPI_Comm_spawn(file, arguments, CHILDREN, MPI_INFO_NULL, 0, own, &between, MPI_ERRCODES_IGNORE));
    }
    OK(MPI_Intercomm_merge(between, is_child, &team));
    OK(MPI_Comm_rank(team, &rank));
    OK(MPI_Comm_size(team, &size));
    mistakes(team, between, rank);
    OK(combray_publish_set(team, name));
    component(size, 1);
    team = renewed(session, team);
    component(size, 1);
    OK(MPI_Comm_disconnect(&between));
    int process = (int)getpid();
    OK(MPI_Bcast(&process, 1, MPI_INT, size - 1, team));
    OK(MPI_Comm_split(team, rank < size - 1 ? 0 : MPI_UNDEFINED, rank, &smaller));
    OK(MPI_Comm_free(&team));
    if (rank == size - 1) {
        OK(MPI_Comm_free(&own));
        OK(MPI_Session_finalize(&session));
        return check_failures != 0;
    }
    OK(combray_publish_set(smaller, name));
    component(size - 1, 0);
    ends_soon(process);
    sums(smaller, size - 1);
    OK(MPI_Comm_free(&smaller));
    component(size - 1, 0);
    OK(combray_withdraw_set(name));
    CHECK_EQ(set_size(session), 0);
    OK(MPI_Comm_free(&own));
    OK(MPI_Session_finalize(&session));
    if (!check_failures && !is_child && check_rank == 0) printf("done\n");
    return check_failures != 0;
}
