// A program that uses sessions only goes on when one of its processes is killed. Another process
// leaves early and has not failed. Started by tests/scenarios/launching.py.
// combray.h
#include "check.h"
#include <signal.h>

enum { KILLED = 2, LEAVES = 3, SIZE = 4 };

static MPI_Comm of(MPI_Session session, int size, const char *tag) {
    MPI_Group world, first;
    MPI_Comm made;
    int range[1][3] = {{0, size - 1, 1}};
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    OK(MPI_Group_range_incl(world, 1, range, &first));
    OK(MPI_Comm_create_from_group(first, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&first));
    return made;
}

static int failed_in(MPI_Comm comm) {
    MPI_Group group;
    int size;
    OK(MPIX_Comm_get_failed(comm, &group));
    OK(MPI_Group_size(group, &size));
    OK(MPI_Group_free(&group));
    return size;
}

int main(void) {
    MPI_Session session;
    MPI_Comm all, three, left;
    int word = 0, sum = 0, one = 1, size;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    all = of(session, SIZE, "all");
    OK(MPI_Comm_rank(all, &check_rank));
    OK(MPI_Comm_size(all, &check_size));
    OK(MPI_Barrier(all));
    if (check_rank == LEAVES) {
        OK(MPI_Comm_free(&all));
        OK(MPI_Session_finalize(&session));
        return 0;
    }
    three = of(session, KILLED + 1, "three");
    OK(MPI_Barrier(three));
    if (check_rank == KILLED) raise(SIGKILL);
    // Nothing but the launcher reports the failure: no message is underway. The other survivor may
    // have had that report first, and have revoked the communicator already.
    int class = class_of(MPI_Recv(&word, 1, MPI_INT, KILLED, 0, three, MPI_STATUS_IGNORE));
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "class %d", class);
    class = class_of(MPI_Barrier(three));
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "class %d", class);
    OK(MPIX_Comm_revoke(three));
    OK(MPIX_Comm_shrink(three, &left));
    CHECK_EQ(failed_in(three), 1);
    OK(MPI_Comm_size(left, &size));
    CHECK_EQ(size, KILLED);
    // A communicator with the failed process cannot be made any more, and one without it can.
    MPI_Group world;
    MPI_Comm none, again;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    int members[] = {0, 1, KILLED};
    MPI_Group group;
    OK(MPI_Group_incl(world, 3, members, &group));
    CHECK(MPI_Comm_create_from_group(group, "none", MPI_INFO_NULL, MPI_ERRORS_RETURN, &none) != MPI_SUCCESS);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    again = of(session, KILLED, "again");
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, again));
    CHECK_EQ(sum, KILLED);
    // The process that has left is missing for long, and has not failed.
    for (int i = 0; i < 20; i++) {
        OK(MPI_Barrier(left));
        usleep(50000);
    }
    CHECK_EQ(failed_in(all), 1);
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&left));
    OK(MPI_Comm_free(&three));
    OK(MPI_Comm_free(&all));
    OK(MPI_Session_finalize(&session));
    if (!check_failures) printf("rank %d goes on\n", check_rank);
    return check_failures != 0;
}
