// A message longer than the buffer: MPI_ERR_TRUNCATE, nothing written past the buffer, the message
// is consumed, and the process goes on. For eager and rendezvous sizes, posted first or unexpected,
// and for several messages at once through MPI_Waitall.
// run: 2
// hosts
// checkers: address
#include "check.h"

enum { LONGEST = 4 << 20 };
static unsigned char *big, *small;

static void one_size(int bytes, int posted_first, int tag) {
    MPI_Request request;
    MPI_Status status;
    int half = bytes / 2, guard = 64, code, class;
    if (check_rank == 0) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        pattern_fill(big, bytes + 10, tag);
        OK(MPI_Send(big, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD));
        OK(MPI_Send(big, 10, MPI_BYTE, 1, tag, MPI_COMM_WORLD));
        return;
    }
    memset(small, 0xEE, half + guard);
    if (!posted_first) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Probe(0, tag, MPI_COMM_WORLD, &status));
    }
    OK(MPI_Irecv(small, half, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request));
    if (posted_first) OK(MPI_Barrier(MPI_COMM_WORLD));
    code = MPI_Wait(&request, &status);
    CHECK(code != MPI_SUCCESS, "a message of %d bytes fits into %d", bytes, half);
    MPI_Error_class(code, &class);
    CHECK_EQ(class, MPI_ERR_TRUNCATE);
    CHECK(request == MPI_REQUEST_NULL, "a failed receive is complete");
    CHECK_EQ(status.MPI_SOURCE, 0);
    CHECK_EQ(status.MPI_TAG, tag);
    for (int i = 0; i < guard; i++)
        CHECK(small[half + i] == 0xEE, "byte %d behind the buffer was written (%d)", i, bytes);
    // The next message with this tag is the second one.
    OK(MPI_Recv(small, LONGEST, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &half));
    CHECK_EQ(half, 10);
    CHECK_PATTERN(small, 10, tag);
}

static void message_names_sizes(void) {
    MPI_Status status;
    if (check_rank == 0) {
        OK(MPI_Send(big, 100, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
    } else {
        EXPECT_ERROR(MPI_Recv(small, 60, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE,
                     "100", "60");
    }
}

// One truncated message among four: MPI_ERR_IN_STATUS, and each status holds its own code.
static void among_several(void) {
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int values[4][4], code, class;
    if (check_rank == 0) {
        int out[4] = {5, 6, 7, 8};
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < 4; i++)
            OK(MPI_Send(out, i == 2 ? 4 : 1, MPI_INT, 1, 20 + i, MPI_COMM_WORLD));
        return;
    }
    for (int i = 0; i < 4; i++)
        OK(MPI_Irecv(values[i], i == 2 ? 2 : 4, MPI_INT, 0, 20 + i, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int pending = 0;
    code = MPI_Waitall(4, requests, statuses);
    MPI_Error_class(code, &class);
    CHECK_EQ(class, MPI_ERR_IN_STATUS);
    for (int i = 0; i < 4; i++) {
        MPI_Error_class(statuses[i].MPI_ERROR, &class);
        pending += class == MPI_ERR_PENDING;
        if (i == 2) CHECK(class == MPI_ERR_TRUNCATE, "status 2 has class %d", class);
    }
    if (pending) OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 4; i++)
        if (i != 2) CHECK_EQ(values[i][0], 5);
}

int main(void) {
    check_begin();
    big = malloc(LONGEST);
    small = malloc(LONGEST);
    int tag = 100;
    for (int bytes = 2; bytes <= 1 << 21; bytes *= 4)
        for (int posted_first = 0; posted_first < 2; posted_first++)
            one_size(bytes, posted_first, tag++);
    message_names_sizes();
    among_several();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    free(big);
    free(small);
    return check_end();
}
