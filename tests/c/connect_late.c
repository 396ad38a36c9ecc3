// A process that computes for long without calling MPI is not lost: a message to it that was begun
// meanwhile arrives, and so does one that it began before.
// run: 3
// timeout: 60
// hosts
#include "check.h"

// Longer than any limit for making a connection.
enum { SECONDS = 22 };

int main(void) {
    check_begin();
    int out = check_rank, in = -1;
    MPI_Request request;
    // Emulated hosts have this name. On one machine there is no limit that could be exceeded; a
    // query to the others would connect them.
    unsigned seconds = getenv("COMBRAY_NODE") ? SECONDS : 0;
    if (check_rank == 0) {
        sleep(seconds);
        OK(MPI_Recv(&in, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(in, 2);
    } else if (check_rank == 1) {
        OK(MPI_Isend(&out, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, &request));
        sleep(seconds);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Isend(&out, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Recv(&in, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(in, 1);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    return check_end();
}
