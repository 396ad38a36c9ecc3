// The last process begins a collective operation, so that its messages are sent, and is killed. The
// others know of the failure when they call the operation. It succeeds where all messages that it
// needs were sent, or returns the failure; the messages are never taken for a mismatched call of
// the others. Argument: which operation. Started by tests/scenarios.
// combray.h
#include "check.h"
#include <signal.h>

static long part[2], all[256];
static MPI_Request operation;

static int begin(int kind) {
    switch (kind) {
    case 0: return MPI_Iallgather(part, 2, MPI_LONG, all, 2, MPI_LONG, MPI_COMM_WORLD, &operation);
    case 1: return MPI_Ibarrier(MPI_COMM_WORLD, &operation);
    default: return MPI_Ibcast(all, 100, MPI_LONG, check_size - 1, MPI_COMM_WORLD, &operation);
    }
}

int main(int argc, char **argv) {
    check_begin();
    int kind = argc > 1 ? atoi(argv[1]) : 0, last = check_size - 1;
    long value = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == last) {
        for (int i = 0; i < 100; i++) all[i] = i;
        begin(kind);
        // What comes later has overtaken nothing.
        for (int rank = 0; rank < last; rank++) {
            MPI_Send(&value, 1, MPI_LONG, rank, 1, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_LONG, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        raise(SIGKILL);
    }
    MPI_Recv(&value, 1, MPI_LONG, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_LONG, last, 2, MPI_COMM_WORLD);
    CHECK_EQ(class_of(MPI_Recv(&value, 1, MPI_LONG, last, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)), MPIX_ERR_PROC_FAILED);
    CHECK_EQ(class_of(begin(kind)), MPI_SUCCESS);
    int class = class_of(MPI_Wait(&operation, MPI_STATUS_IGNORE));
    CHECK(class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED, "the operation gave class %d", class);
    if (class == MPI_SUCCESS && kind == 2)
        for (int i = 0; i < 100; i++) CHECK_EQ(all[i], i);
    printf("rank %d survives\n", check_rank);
    return check_end();
}
