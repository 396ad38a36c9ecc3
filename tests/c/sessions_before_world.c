// Some processes open and close a session before MPI_Init, so that they have left the launcher; all
// meet in MPI_Finalize nevertheless, and another session can follow.
// run: 3
// hosts
// checkers: address
#include "check.h"

int main(void) {
    MPI_Session session;
    MPI_Comm self;
    MPI_Group group;
    const char *own = getenv("COMBRAY_RANK");
    int is_early = own && atoi(own) % 2 == 1;
    for (int i = 0; is_early && i < 2; i++) {
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
        OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
        OK(MPI_Comm_create_from_group(group, "alone", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &self));
        OK(MPI_Comm_free(&self));
        OK(MPI_Group_free(&group));
        OK(MPI_Session_finalize(&session));
    }
    OK(MPI_Init(NULL, NULL));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &check_rank));
    int one = 1, sum = 0, size;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, size);
    OK(MPI_Finalize());
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Session_finalize(&session));
    return check_failures != 0;
}
