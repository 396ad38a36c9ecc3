// A hundred thousand unexpected messages, received in reverse and in random order: found in
// constant time. Then ten thousand unexpected one-byte messages, whose memory must be near their
// size: some tens of bytes each, not a page or a pool buffer.
// run: 2
// timeout: 60
// one machine: between machines most of the messages wait for a round trip each
#include "check.h"

enum { MESSAGES = 100000, TINY = 10000, SECONDS_MAX = 15, TINY_KIB_MAX = 2560 };

static int order[MESSAGES];

static void shuffle(void) {
    Random random = random_from(5);
    for (int i = 0; i < MESSAGES; i++) order[i] = i;
    for (int i = MESSAGES - 1; i > 0; i--) {
        int other = random_below(&random, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

// Rank 0 must not block for ever if eager data is bounded: it sends without waiting for each.
static void one_order(const char *name) {
    static MPI_Request requests[MESSAGES];
    static int sent[MESSAGES];
    int value, done = 0;
    if (check_rank == 0) {
        for (int i = 0; i < MESSAGES; i++) {
            sent[i] = i * 3;
            OK(MPI_Isend(&sent[i], 1, MPI_INT, 1, i % 32768, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Send(&done, 1, MPI_INT, 1, 32767, MPI_COMM_WORLD));
        OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
        return;
    }
    static int taken[32768];
    memset(taken, 0, sizeof taken);
    double start = MPI_Wtime();
    for (int i = 0; i < MESSAGES; i++) {
        int tag = order[i] % 32768;
        OK(MPI_Recv(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(value, (tag + 32768 * taken[tag]++) * 3);
    }
    OK(MPI_Recv(&done, 1, MPI_INT, 0, 32767, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    double seconds = MPI_Wtime() - start;
    CHECK(seconds < SECONDS_MAX, "%s order: %.1f s", name, seconds);
}

static void tiny_messages(void) {
    char byte = 1;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        MPI_Request *requests = malloc(TINY * sizeof *requests);
        for (int i = 0; i < TINY; i++)
            OK(MPI_Isend(&byte, 1, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]));
        OK(MPI_Waitall(TINY, requests, MPI_STATUSES_IGNORE));
        free(requests);
        return;
    }
    long before = memory_kib("VmRSS");
    MPI_Status status;
    // The last message is seen, so all have come (messages of one pair do not overtake).
    OK(MPI_Probe(0, TINY - 1, MPI_COMM_WORLD, &status));
    long grown = memory_kib("VmRSS") - before;
    CHECK(grown < TINY_KIB_MAX, "%d messages of 1 byte cost %ld KiB", TINY, grown);
    for (int i = TINY - 1; i >= 0; i--)
        OK(MPI_Recv(&byte, 1, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(void) {
    check_begin();
    // Memory first, while nothing of the larger part is kept in pools.
    tiny_messages();
    for (int i = 0; i < MESSAGES; i++) order[i] = MESSAGES - 1 - i;
    one_order("reverse");
    shuffle();
    one_order("random");
    return check_end();
}
