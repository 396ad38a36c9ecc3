// A hundred thousand posted receives, matched in reverse and in random order: exact receives must
// be found in constant time. The time bound is generous; a walk along the queue would need 5 * 10^9
// steps for each order.
// run: 2
// timeout: 60
// hosts
#include "check.h"

enum { MESSAGES = 100000, SECONDS_MAX = 15 };

static int order[MESSAGES], values[MESSAGES];
static MPI_Request requests[MESSAGES];

static void shuffle(uint64_t seed) {
    Random random = random_from(seed);
    for (int i = 0; i < MESSAGES; i++) order[i] = i;
    for (int i = MESSAGES - 1; i > 0; i--) {
        int other = random_below(&random, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static void one_order(const char *name) {
    if (check_rank == 0) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < MESSAGES; i++)
            OK(MPI_Send(&order[i], 1, MPI_INT, 1, order[i] % 32768, MPI_COMM_WORLD));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        return;
    }
    for (int i = 0; i < MESSAGES; i++) {
        values[i] = -1;
        OK(MPI_Irecv(&values[i], 1, MPI_INT, 0, i % 32768, MPI_COMM_WORLD, &requests[i]));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    double start = MPI_Wtime();
    OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    double seconds = MPI_Wtime() - start;
    CHECK(seconds < SECONDS_MAX, "%s order: %.1f s", name, seconds);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    // Tags repeat past 32768: among equal tags, the receives complete in the order of sending.
    static int next_sent[32768];
    static int sent_of_tag[32768][4];
    memset(next_sent, 0, sizeof next_sent);
    for (int i = 0; i < MESSAGES; i++) {
        int tag = order[i] % 32768;
        sent_of_tag[tag][next_sent[tag]++] = order[i];
    }
    memset(next_sent, 0, sizeof next_sent);
    for (int i = 0; i < MESSAGES; i++) {
        int tag = i % 32768;
        CHECK_EQ(values[i], sent_of_tag[tag][next_sent[tag]++]);
    }
}

int main(void) {
    check_begin();
    for (int i = 0; i < MESSAGES; i++) order[i] = MESSAGES - 1 - i;
    one_order("reverse");
    shuffle(11);
    one_order("random");
    return check_end();
}
