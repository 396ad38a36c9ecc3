// Processes that have only sessions end when they are done, before others have looked at what they
// sent: it arrives all the same.
// run: 2 5 8
#include "check.h"

int main(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, value;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "leave", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    check_rank = rank, check_size = size;
    int partner = size - 1 - rank;
    if (rank < size / 2) {
        OK(MPI_Send(&rank, 1, MPI_INT, partner, 0, comm));
    } else if (partner < size / 2) {
        usleep(50000);
        OK(MPI_Recv(&value, 1, MPI_INT, partner, 0, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(value, partner);
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    return check_failures != 0;
}
