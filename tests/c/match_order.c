// The order of matching, against a model: one receiver, several senders, random mixtures of exact
// receives, MPI_ANY_SOURCE and MPI_ANY_TAG on two communicators, posted before or after the
// messages come. The receiver can compute each sender's sequence, so whichever message an
// MPI_ANY_SOURCE receive got, it must be the first of that sender, communicator and tag that no
// earlier receive took (MPI 5.0, section 3.5), and a receive that was posted earlier may not be
// passed over.
// run: 2 3 4
// timeout: 60
// hosts
// checkers: address threads memory
#include "check.h"

enum { ROUNDS = 60, PER_SENDER = 60, TAGS = 4, COMMS = 2, SENDERS_MAX = 8, MAX = PER_SENDER * SENDERS_MAX };

typedef struct {
    int comm, tag, bytes, taken;
} Sent;

typedef struct {
    int comm, source, tag, done;
    int payload[3 * 1024];
    MPI_Request request;
    MPI_Status status;
} Receive;

static MPI_Comm comms[COMMS];
static Sent sent[SENDERS_MAX][PER_SENDER];
static Receive receives[MAX];

// Every rank derives all sequences from the seed: nothing about them is communicated.
static void derive(uint64_t seed) {
    for (int sender = 1; sender < check_size; sender++) {
        Random random = random_from(seed * 100 + sender);
        for (int i = 0; i < PER_SENDER; i++) {
            int large = random_below(&random, 10) == 0;
            sent[sender][i] = (Sent){random_below(&random, COMMS), random_below(&random, TAGS),
                                     large ? 12000 : 12 + 4 * random_below(&random, 40), 0};
        }
    }
}

static void send_all(uint64_t seed) {
    static int payload[PER_SENDER][3 * 1024];
    MPI_Request requests[PER_SENDER];
    Random random = random_from(seed + check_rank * 17);
    for (int i = 0; i < PER_SENDER; i++) {
        Sent *s = &sent[check_rank][i];
        payload[i][0] = check_rank;
        payload[i][1] = i;
        payload[i][2] = (int)seed;
        if (random_below(&random, 5) == 0)
            OK(MPI_Issend(payload[i], s->bytes, MPI_BYTE, 0, s->tag, comms[s->comm], &requests[i]));
        else
            OK(MPI_Isend(payload[i], s->bytes, MPI_BYTE, 0, s->tag, comms[s->comm], &requests[i]));
        if (random_below(&random, 8) == 0) usleep(random_below(&random, 200));
    }
    OK(MPI_Waitall(PER_SENDER, requests, MPI_STATUSES_IGNORE));
}

// One receive for each message, derived from it by widening some to wildcards. Exact ones always
// have enough messages left only if wildcards do not steal them, so all receives of one
// communicator are of one of two kinds in a round: exact in source, or exact in tag, or both any.
static int plan(uint64_t seed, int widen[COMMS]) {
    Random random = random_from(seed * 31 + 7);
    int count = 0;
    for (int comm = 0; comm < COMMS; comm++) widen[comm] = random_below(&random, 4);
    for (int sender = 1; sender < check_size; sender++)
        for (int i = 0; i < PER_SENDER; i++) {
            Receive *r = &receives[count++];
            r->comm = sent[sender][i].comm;
            r->source = widen[r->comm] & 1 ? MPI_ANY_SOURCE : sender;
            r->tag = widen[r->comm] & 2 ? MPI_ANY_TAG : sent[sender][i].tag;
            r->done = 0;
        }
    for (int i = count - 1; i > 0; i--) {
        int other = random_below(&random, i + 1);
        Receive kept = receives[i];
        receives[i] = receives[other];
        receives[other] = kept;
    }
    return count;
}

// The message that receive `r` got must be the earliest one still untaken that matches it.
static void judge(Receive *r, uint64_t seed) {
    int source = r->payload[0], index = r->payload[1];
    CHECK_EQ(r->payload[2], (int)seed);
    REQUIRE(source >= 1 && source < check_size && index >= 0 && index < PER_SENDER,
            "payload says message %d of rank %d", index, source);
    Sent *got = &sent[source][index];
    CHECK_EQ(r->status.MPI_SOURCE, source);
    CHECK_EQ(r->status.MPI_TAG, got->tag);
    CHECK(got->comm == r->comm, "message of another communicator");
    CHECK(r->source == MPI_ANY_SOURCE || r->source == source, "source %d", source);
    CHECK(r->tag == MPI_ANY_TAG || r->tag == got->tag, "tag %d", got->tag);
    CHECK(!got->taken, "message %d of rank %d was received twice", index, source);
    got->taken = 1;
    int bytes;
    MPI_Get_count(&r->status, MPI_BYTE, &bytes);
    CHECK_EQ(bytes, got->bytes);
    for (int i = 0; i < index; i++) {
        Sent *earlier = &sent[source][i];
        int matches = earlier->comm == r->comm && (r->tag == MPI_ANY_TAG || r->tag == earlier->tag);
        CHECK(!matches || earlier->taken, "message %d of rank %d overtook message %d (seed %d)",
              index, source, i, (int)seed);
    }
}

static void receive_all(uint64_t seed) {
    int widen[COMMS], count = plan(seed, widen);
    Random random = random_from(seed + 3);
    int pause = random_below(&random, 3);
    for (int i = 0; i < count; i++) {
        Receive *r = &receives[i];
        // Early or late against the senders: posted queue in some rounds, unexpected in others.
        if (pause == 1 && i == 0) usleep(3000);
        if (pause == 2 && random_below(&random, 20) == 0) usleep(300);
        OK(MPI_Irecv(r->payload, sizeof r->payload, MPI_BYTE, r->source, r->tag, comms[r->comm],
                     &r->request));
    }
    for (int i = 0; i < count; i++) OK(MPI_Wait(&receives[i].request, &receives[i].status));
    // In the order of posting: each must have got the first that was left for it.
    for (int i = 0; i < count; i++) judge(&receives[i], seed);
}

int main(void) {
    check_begin();
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        derive(seed);
        if (check_rank == 0)
            receive_all(seed);
        else
            send_all(seed);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
