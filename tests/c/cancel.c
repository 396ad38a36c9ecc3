// Cancelling: receives that match nothing; sends that were never matched (eager, synchronous,
// large): whether they are cancelled or not, MPI_Wait returns, and what was not cancelled is
// received.
// run: 2
// hosts
// checkers: address memory
#include "check.h"

enum { LARGEST = 1 << 20 };
static char buffer[LARGEST];

static void receives(void) {
    MPI_Request request;
    MPI_Status status;
    int value = 77, cancelled;
    for (int i = 0; i < 500; i++) {
        OK(MPI_Irecv(&value, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : 1 - check_rank, 5, MPI_COMM_WORLD,
                     &request));
        OK(MPI_Cancel(&request));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK_EQ(cancelled, 1);
    }
    CHECK_EQ(value, 77);
    // A cancelled receive takes nothing: the message goes to the next one.
    OK(MPI_Irecv(&value, 1, MPI_INT, 1 - check_rank, 6, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int out = 100 + check_rank;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, 1 - check_rank, 6, &value, 1, MPI_INT, 1 - check_rank, 6,
                    MPI_COMM_WORLD, &status));
    CHECK_EQ(value, 101 - check_rank);
}

// A receive that may be matched already: it takes the message, or leaves it for the next one.
static void too_late(void) {
    MPI_Request request;
    MPI_Status status;
    int value = 0, out = 9, cancelled;
    OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 7, MPI_COMM_WORLD, &request));
    OK(MPI_Send(&out, 1, MPI_INT, check_rank, 7, MPI_COMM_WORLD));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled || value == 9, "neither cancelled nor received");
    if (cancelled)
        OK(MPI_Recv(&value, 1, MPI_INT, check_rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(value, 9);
}

// Either the send is cancelled, or the message arrives; never both, never neither.
static void one_send(int bytes, int synchronous, int tag) {
    MPI_Request request;
    MPI_Status status;
    int cancelled, flag;
    if (check_rank == 0) {
        if (synchronous)
            OK(MPI_Issend(buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request));
        else
            OK(MPI_Isend(buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Cancel(&request));
        // The receiver posts its receive only after a message, so nothing matches; yet after
        // MPI_Cancel waiting is local: it returns whatever others do (MPI 5.0, section 3.8.4).
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        OK(MPI_Send(&cancelled, 1, MPI_INT, 1, 9999, MPI_COMM_WORLD));
        return;
    }
    OK(MPI_Recv(&cancelled, 1, MPI_INT, 0, 9999, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (!cancelled) {
        OK(MPI_Recv(buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Iprobe(0, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag, "a cancelled message of %d bytes is there", bytes);
    }
}

static void persistent_receive(void) {
    MPI_Request request;
    MPI_Status status;
    int value, cancelled;
    OK(MPI_Recv_init(&value, 1, MPI_INT, 1 - check_rank, 12, MPI_COMM_WORLD, &request));
    OK(MPI_Start(&request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 1);
    OK(MPI_Start(&request));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int out = 30 + check_rank;
    OK(MPI_Send(&out, 1, MPI_INT, 1 - check_rank, 12, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 0);
    CHECK_EQ(value, 31 - check_rank);
    OK(MPI_Request_free(&request));
}

int main(void) {
    check_begin();
    receives();
    too_late();
    // Not every library can cancel a send; those wait here for ever.
    int sends = check_is_combray ? 6 : 0;
    int sizes[] = {1, 60, 1000, 20000, 100000, LARGEST}, tag = 100;
    for (int i = 0; i < sends; i++)
        for (int synchronous = 0; synchronous < 2; synchronous++)
            one_send(sizes[i], synchronous, tag++);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    persistent_receive();
    return check_end();
}
