// The last process ends before it has exchanged a message with any other: a process that waits for
// any source gets the failure nevertheless, and so does a process that waits in a collective
// operation for one that has seen the failure and has left the operation. First argument: "killed"
// (under a launcher that keeps the job going: MPIX_ERR_PROC_FAILED) or "alone" (it ends after an
// error: MPI_ERR_PROC_ABORTED). Started by tests/scenarios.
#include "check.h"
#include <signal.h>

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    check_begin();
    int killed = !strcmp(argv[1], "killed"), wanted = killed ? MPIX_ERR_PROC_FAILED : MPI_ERR_PROC_ABORTED;
    if (check_rank == check_size - 1) {
        if (killed) raise(SIGKILL);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ABORT);
        MPI_Send(NULL, 0, MPI_BYTE, 77, 0, MPI_COMM_SELF);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (check_rank > 0)
        CHECK_EQ(class_of(MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)), wanted);
    CHECK_EQ(class_of(MPI_Barrier(MPI_COMM_WORLD)), wanted);
    printf("rank %d survives\n", check_rank);
    return check_end();
}
