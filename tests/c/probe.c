// Probes and matched probes: blocking and not, exact and wildcard, for small and large messages; a
// matched message is out of reach of every other receive; MPI_MESSAGE_NO_PROC.
// run: 2 3
// hosts
// checkers: address memory
#include "check.h"

enum { LARGE = 300000 };
static char buffer[LARGE];

static void probe_then_receive(int bytes, int wild) {
    MPI_Status status, got;
    int counted, source = wild ? MPI_ANY_SOURCE : 0, tag = wild ? MPI_ANY_TAG : 4;
    if (check_rank == 0) {
        pattern_fill(buffer, bytes, 4);
        for (int i = 0; i < 3; i++) OK(MPI_Send(buffer, bytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD));
    }
    if (check_rank != 1) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        return;
    }
    OK(MPI_Probe(source, tag, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, 0);
    CHECK_EQ(status.MPI_TAG, 4);
    OK(MPI_Get_count(&status, MPI_BYTE, &counted));
    CHECK_EQ(counted, bytes);
    OK(MPI_Recv(buffer, counted, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &got));
    CHECK_PATTERN(buffer, bytes, 4);
    int flag = 0;
    while (!flag) OK(MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Recv(buffer, bytes, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_Message message = MPI_MESSAGE_NULL;
    for (flag = 0; !flag;) OK(MPI_Improbe(source, tag, MPI_COMM_WORLD, &flag, &message, &status));
    memset(buffer, 0, bytes);
    OK(MPI_Mrecv(buffer, bytes, MPI_BYTE, &message, &got));
    CHECK(message == MPI_MESSAGE_NULL, "a received message is null");
    CHECK_EQ(got.MPI_SOURCE, 0);
    CHECK_PATTERN(buffer, bytes, 4);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "a message is left over");
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

// After a matched probe an equal probe finds the next message, and a receive takes the next one.
static void matched_is_taken(void) {
    MPI_Message first, second;
    MPI_Request requests[2];
    MPI_Status status;
    int values[3] = {10, 11, 12}, got[3] = {0};
    if (check_rank == 0)
        for (int i = 0; i < 3; i++) OK(MPI_Send(&values[i], 1, MPI_INT, 1, 6, MPI_COMM_WORLD));
    if (check_rank != 1) return;
    OK(MPI_Mprobe(0, 6, MPI_COMM_WORLD, &first, &status));
    OK(MPI_Mprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &second, &status));
    OK(MPI_Recv(&got[2], 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    OK(MPI_Imrecv(&got[1], 1, MPI_INT, &second, &requests[1]));
    OK(MPI_Imrecv(&got[0], 1, MPI_INT, &first, &requests[0]));
    CHECK(first == MPI_MESSAGE_NULL && second == MPI_MESSAGE_NULL, "null from then on");
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 3; i++) CHECK_EQ(got[i], values[i]);
}

static void truncated_matched(void) {
    MPI_Message message;
    MPI_Status status;
    if (check_rank == 0) OK(MPI_Send(buffer, 1000, MPI_BYTE, 1, 8, MPI_COMM_WORLD));
    if (check_rank != 1) return;
    OK(MPI_Mprobe(0, 8, MPI_COMM_WORLD, &message, &status));
    EXPECT_ERROR(MPI_Mrecv(buffer, 10, MPI_BYTE, &message, &status), MPI_ERR_TRUNCATE, "1000", "10");
    if (check_is_combray) CHECK(message == MPI_MESSAGE_NULL, "consumed");
}

static void no_process(void) {
    MPI_Message message;
    MPI_Status status;
    int flag = 0, count = -1;
    OK(MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    CHECK_EQ(status.MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &status));
    CHECK_EQ(flag, 1);
    OK(MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC, "MPI_MESSAGE_NO_PROC");
    OK(MPI_Mrecv(buffer, 5, MPI_BYTE, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL, "null");
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, 0);
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
}

// A probe on one communicator does not see the other's messages.
static void contexts_are_apart(void) {
    MPI_Comm copy;
    int flag = 1, value = 3;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    if (check_rank == 0) OK(MPI_Send(&value, 1, MPI_INT, 1, 2, copy));
    if (check_rank == 1) {
        MPI_Status status;
        OK(MPI_Probe(0, 2, copy, &status));
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag, "seen on MPI_COMM_WORLD");
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 2, copy, MPI_STATUS_IGNORE));
    }
    OK(MPI_Comm_free(&copy));
}

int main(void) {
    check_begin();
    int sizes[] = {0, 1, 100, 5000, 70000, LARGE};
    for (int i = 0; i < 6; i++)
        for (int wild = 0; wild < 2; wild++) probe_then_receive(sizes[i], wild);
    matched_is_taken();
    truncated_matched();
    no_process();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    contexts_are_apart();
    return check_end();
}
