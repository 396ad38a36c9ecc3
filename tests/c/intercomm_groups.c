// MPI_Intercomm_create_from_groups: in sessions and in the world model; leaders anywhere; both
// sides exchange messages; wrong arguments return errors.
// run: 2 3 5
// each: session world
#include "check.h"

static void talk(MPI_Comm comm, int local_size, int remote_size) {
    int inter = 0, rank, size, value, sum = -1, expected = 0;
    OK(MPI_Comm_test_inter(comm, &inter));
    CHECK_EQ(inter, 1);
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    CHECK_EQ(size, local_size);
    OK(MPI_Comm_remote_size(comm, &size));
    CHECK_EQ(size, remote_size);
    for (int to = 0; to < remote_size; to++) OK(MPI_Send(&rank, 1, MPI_INT, to, rank, comm));
    for (int from = 0; from < remote_size; from++) {
        OK(MPI_Recv(&value, 1, MPI_INT, from, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(value, from);
        expected += from;
    }
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, expected);
}

static void sides(MPI_Group all) {
    for (int turn = 0; turn < 6; turn++) {
        int low = 1 + turn % (check_size - 1), high = check_size - low;
        int first[1][3] = {{0, low - 1, 1}}, second[1][3] = {{check_size - 1, low, -1}};
        int leaders[2] = {turn % low, turn % high};
        MPI_Group groups[2], got;
        MPI_Comm comm;
        MPI_Info info;
        OK(MPI_Group_range_incl(all, 1, first, &groups[0]));
        OK(MPI_Group_range_incl(all, 1, second, &groups[1]));
        int side = check_rank >= low, own = -1, result;
        OK(MPI_Group_rank(groups[side], &own));
        // The other side counts on the leader only.
        int leads = own == leaders[side];
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "color", "blue"));
        OK(MPI_Intercomm_create_from_groups(groups[side], leaders[side],
                                            leads ? groups[!side] : MPI_GROUP_NULL,
                                            leads ? leaders[!side] : -7, "sides", info,
                                            MPI_ERRORS_RETURN, &comm));
        OK(MPI_Info_free(&info));
        OK(MPI_Comm_remote_group(comm, &got));
        OK(MPI_Group_compare(got, groups[!side], &result));
        CHECK_EQ(result, MPI_IDENT);
        OK(MPI_Group_free(&got));
        talk(comm, side ? high : low, side ? low : high);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Group_free(&groups[0]));
        OK(MPI_Group_free(&groups[1]));
    }
}

static void errors(MPI_Group all) {
    MPI_Comm comm;
    EXPECT_ERROR(MPI_Intercomm_create_from_groups(all, check_size, all, 0, "tag", MPI_INFO_NULL,
                                                  MPI_ERRORS_RETURN, &comm),
                 MPI_ERR_RANK, "local_leader");
    // Only the leader can see it, and sends the failure to the others.
    EXPECT_ERROR(MPI_Intercomm_create_from_groups(all, 0, all, 0, "tag", MPI_INFO_NULL,
                                                  MPI_ERRORS_RETURN, &comm),
                 check_rank == 0 ? MPI_ERR_GROUP : MPI_ERR_OTHER,
                 check_rank == 0 ? "in common" : "local leader, rank 0");
    EXPECT_ERROR(MPI_Intercomm_create_from_groups(all, 0, MPI_GROUP_EMPTY, 0, "tag", MPI_INFO_NULL,
                                                  MPI_ERRORS_RETURN, &comm),
                 check_rank == 0 ? MPI_ERR_RANK : MPI_ERR_OTHER, "leader");
}

int main(int argc, char **argv) {
    int in_world = argc > 1 && !strcmp(argv[1], "world");
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Group all;
    if (in_world) {
        check_begin();
        OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    } else {
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
        OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
        OK(MPI_Group_rank(all, &check_rank));
        OK(MPI_Group_size(all, &check_size));
        check_is_combray = 1;
    }
    sides(all);
    if (check_is_combray) errors(all);
    OK(MPI_Group_free(&all));
    if (in_world) return check_end();
    OK(MPI_Session_finalize(&session));
    return check_failures != 0;
}
