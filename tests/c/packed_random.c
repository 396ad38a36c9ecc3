// Random packed messages against a model: every process makes one common plan from the seed, with
// senders, receivers, contents and order; the steps of all its messages are mixed at random on both
// sides, and messages of MPI go between.
// run: 1 2 3 4
// timeout: 60
// combray.h
// hosts
// checkers: address
#include "check.h"

#include <combray.h>

enum { MESSAGES_MAX = 40, SEGMENTS_MAX = 12, TAGS = 3, ROUNDS = CHECK_ROUNDS(200) };

// The content of a message: first its number in the plan, then segments.
typedef struct {
    int source, destination, tag, segments;
    int bytes[SEGMENTS_MAX];
} Planned;

// A message as one side goes through it.
typedef struct {
    int index, step;
    combray_message message;
    unsigned char *data[SEGMENTS_MAX];
    MPI_Request request;
} Side;

static Planned plan[MESSAGES_MAX];
static int planned, numbers[MESSAGES_MAX];
static Random own;

static int random_bytes(Random *random) {
    static const int edges[] = {0, 1, 4095, 4096, 4097, 8179, 8180, 8181, 8192, 65536};
    switch (random_below(random, 8)) {
    case 0: return edges[random_below(random, 10)];
    case 1: return random_below(random, 20000);
    case 2: return random_below(random, 20) ? random_below(random, 3000) : random_below(random, 1 << 20);
    default: return random_below(random, 64);
    }
}

static void make_plan(Random *random) {
    planned = 1 + random_below(random, MESSAGES_MAX);
    for (int i = 0; i < planned; i++) {
        Planned *message = &plan[i];
        *message = (Planned){.source = random_below(random, check_size),
                             .destination = random_below(random, check_size),
                             .tag = random_below(random, TAGS),
                             .segments = random_below(random, SEGMENTS_MAX + 1)};
        for (int k = 0; k < message->segments; k++) message->bytes[k] = random_bytes(random);
        numbers[i] = i;
    }
}

static int random_mode(void) {
    return random_below(&own, 2) ? COMBRAY_EXPRESS : COMBRAY_CHEAPER;
}

static uint64_t seed_of(int message, int segment) {
    return (uint64_t)(message * 100 + segment);
}

// One step of a message that is sent: its number, its segments, its end. Begun messages only.
static void step_sent(Side *side) {
    const Planned *message = &plan[side->index];
    int k = side->step++ - 1;
    if (k < 0) {
        OK(combray_pack(side->message, &numbers[side->index], sizeof(int), random_mode()));
    } else if (k < message->segments) {
        size_t bytes = (size_t)message->bytes[k];
        side->data[k] = malloc(bytes + 1);
        pattern_fill(side->data[k], bytes, seed_of(side->index, k));
        OK(combray_pack(side->message, side->data[k], bytes, random_mode()));
    } else {
        OK(combray_end(&side->message, &side->request));
    }
}

// One step of a message that is received; its number was unpacked before.
static void step_received(Side *side) {
    const Planned *message = &plan[side->index];
    int k = side->step++ - 1;
    if (k < message->segments) {
        size_t bytes = (size_t)message->bytes[k];
        int mode = random_mode();
        side->data[k] = malloc(bytes + 1);
        memset(side->data[k], 0xee, bytes + 1);
        OK(combray_unpack(side->message, side->data[k], bytes, mode));
        if (mode == COMBRAY_EXPRESS) CHECK_PATTERN(side->data[k], bytes, seed_of(side->index, k));
    } else if (random_below(&own, 2)) {
        OK(combray_end_unpack(&side->message, &side->request, MPI_STATUS_IGNORE));
    } else {
        OK(combray_end_unpack(&side->message, NULL, MPI_STATUS_IGNORE));
    }
}

// Takes random steps of messages until each has made all: its number, its segments, its end.
static void take_steps(Side *sides, int count, void (*step)(Side *)) {
    int left = count;
    while (left > 0) {
        Side *side = &sides[random_below(&own, count)];
        int steps = plan[side->index].segments + 2;
        if (side->step == steps) continue;
        step(side);
        left -= side->step == steps;
    }
}

static int sent_to_me(Side *sides) {
    int count = 0;
    for (int i = 0; i < planned; i++)
        if (plan[i].destination == check_rank)
            sides[count++] = (Side){.index = i, .request = MPI_REQUEST_NULL};
    return count;
}

// The messages of one source with one tag must come in the order of the plan, in which they were
// begun.
static void begin_received(Side *sides, int count, int any) {
    static int last[64][TAGS];
    memset(last, -1, sizeof last);
    for (int i = 0; i < count; i++) {
        const Planned *expected = &plan[sides[i].index];
        OK(combray_begin_unpack(MPI_COMM_WORLD, any ? MPI_ANY_SOURCE : expected->source,
                                any ? MPI_ANY_TAG : expected->tag, &sides[i].message));
    }
    for (int i = 0; i < count; i++) {
        MPI_Status status;
        int number = -1;
        OK(combray_unpack(sides[i].message, &number, sizeof number, COMBRAY_EXPRESS));
        OK(combray_await(sides[i].message, &status));
        REQUIRE(number >= 0 && number < planned, "message %d of %d", number, planned);
        CHECK(any || number == sides[i].index, "message %d for %d", number, sides[i].index);
        const Planned *message = &plan[number];
        CHECK_EQ(status.MPI_SOURCE, message->source);
        CHECK_EQ(status.MPI_TAG, message->tag);
        CHECK_EQ(check_rank, message->destination);
        CHECK(number > last[message->source][message->tag], "%d after %d", number,
              last[message->source][message->tag]);
        last[message->source][message->tag] = number;
        sides[i].index = number;
        sides[i].step = 1;
    }
}

static void round_of_messages(uint64_t seed) {
    static Side sent[MESSAGES_MAX], received[MESSAGES_MAX];
    Random shared = random_from(seed);
    own = random_from(seed * 1000 + (uint64_t)check_rank + 1);
    make_plan(&shared);
    int any = random_below(&shared, 2), sends = 0, receives = sent_to_me(received);
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2 * MESSAGES_MAX + 2];
    int ring_out = (int)seed, ring_in = -1, pending = 0;
    OK(MPI_Irecv(&ring_in, 1, MPI_INT, previous, 0, MPI_COMM_WORLD, &requests[pending++]));
    for (int i = 0; i < planned; i++) {
        if (plan[i].source != check_rank) continue;
        sent[sends] = (Side){.index = i};
        OK(combray_begin(MPI_COMM_WORLD, plan[i].destination, plan[i].tag, &sent[sends].message));
        sends++;
    }
    take_steps(sent, sends, step_sent);
    OK(MPI_Isend(&ring_out, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[pending++]));
    begin_received(received, receives, any);
    take_steps(received, receives, step_received);
    for (int i = 0; i < sends; i++) requests[pending++] = sent[i].request;
    for (int i = 0; i < receives; i++) requests[pending++] = received[i].request;
    OK(MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(ring_in, seed);
    for (int i = 0; i < receives; i++) {
        const Planned *message = &plan[received[i].index];
        for (int k = 0; k < message->segments; k++) {
            CHECK_PATTERN(received[i].data[k], (size_t)message->bytes[k],
                          seed_of(received[i].index, k));
            CHECK(received[i].data[k][message->bytes[k]] == 0xee, "more was written");
            free(received[i].data[k]);
        }
    }
    for (int i = 0; i < sends; i++)
        for (int k = 0; k < plan[sent[i].index].segments; k++) free(sent[i].data[k]);
    // With wildcards, messages of the next round must not be here yet.
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(void) {
    check_begin();
    for (uint64_t seed = 1; seed <= ROUNDS && !check_failures; seed++) {
        round_of_messages(seed);
        if (check_failures) fprintf(stderr, "rank %d: in round %d\n", check_rank, (int)seed);
    }
    return check_end();
}
