// Buffered sends: they complete without a receive, fail with MPI_ERR_BUFFER when the buffer is too
// small or missing, detaching waits until the messages are underway, the space is used again.
// run: 2
// hosts
// checkers: address memory
#include "check.h"

static void without_receive(void) {
    enum { COUNT = 20, INTS = 500 };
    static int values[INTS], received[INTS];
    int pack, size;
    void *space, *back;
    OK(MPI_Pack_size(INTS, MPI_INT, MPI_COMM_WORLD, &pack));
    size = COUNT * (pack + MPI_BSEND_OVERHEAD);
    space = malloc(size);
    OK(MPI_Buffer_attach(space, size));
    for (int i = 0; i < COUNT; i++) {
        values[0] = i;
        // The buffer of the program may change at once.
        OK(MPI_Bsend(values, INTS, MPI_INT, 1 - check_rank, i, MPI_COMM_WORLD));
        values[0] = -1;
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        OK(MPI_Recv(received, INTS, MPI_INT, 1 - check_rank, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(received[0], i);
    }
    OK(MPI_Buffer_detach(&back, &size));
    CHECK(back == space, "the buffer that was attached");
    free(space);
}

static void too_small(void) {
    static char message[5000], space[1000 + MPI_BSEND_OVERHEAD];
    void *back;
    int size;
    EXPECT_ERROR(MPI_Bsend(message, 10, MPI_BYTE, 1 - check_rank, 0, MPI_COMM_WORLD),
                 MPI_ERR_BUFFER, "MPI_Buffer_attach");
    OK(MPI_Buffer_attach(space, sizeof space));
    if (check_is_combray)
        EXPECT_ERROR(MPI_Buffer_attach(space, sizeof space), MPI_ERR_BUFFER, "buffer");
    EXPECT_ERROR(MPI_Bsend(message, 5000, MPI_BYTE, 1 - check_rank, 0, MPI_COMM_WORLD),
                 MPI_ERR_BUFFER, "5000");
    // One that fits still goes.
    OK(MPI_Bsend(message, 900, MPI_BYTE, 1 - check_rank, 4, MPI_COMM_WORLD));
    OK(MPI_Recv(message, 900, MPI_BYTE, 1 - check_rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&back, &size));
    CHECK_EQ(size, sizeof space);
    EXPECT_ERROR(MPI_Buffer_attach(space, -1), MPI_ERR_ARG, "size", "-1");
}

// The space of messages that are gone is used again, however many pass through.
static void space_is_reused(void) {
    static char message[1000], space[4 * (1000 + MPI_BSEND_OVERHEAD)];
    void *back;
    int size;
    OK(MPI_Buffer_attach(space, sizeof space));
    for (int i = 0; i < 2000; i++) {
        message[0] = (char)i;
        if (check_rank == 0) {
            OK(MPI_Bsend(message, 1000, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
            OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            message[0] = 0;
            OK(MPI_Recv(message, 1000, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(message[0], (char)i);
            OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
        }
    }
    OK(MPI_Buffer_detach(&back, &size));
}

// Detaching blocks until the messages have left the buffer, which may then be freed.
static void detach_delivers(void) {
    enum { BYTES = 1 << 20 };
    void *back;
    int size = BYTES + MPI_BSEND_OVERHEAD;
    char *message = malloc(BYTES), *space = malloc(size);
    if (check_rank == 0) {
        pattern_fill(message, BYTES, 3);
        OK(MPI_Buffer_attach(space, size));
        OK(MPI_Bsend(message, BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
        OK(MPI_Buffer_detach(&back, &size));
        memset(back, 0, size);
    } else {
        usleep(20000);
        OK(MPI_Recv(message, BYTES, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_PATTERN(message, BYTES, 3);
    }
    free(space);
    free(message);
}

int main(void) {
    check_begin();
    without_receive();
    too_small();
    space_is_reused();
    detach_delivers();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_end();
}
