// Persistent collectives: many of all kinds on several communicators, with the amounts that go
// through slots of each size, in several turns or by messages; started in another order by each
// process, one by one and together, beside blocking and nonblocking ones, and completed in any
// order by all means; freed in different orders and made again, more than the board has room for;
// a root that runs ahead, and processes that come late.
// run: 1 2 3 5
// each: auto never
// timeout: 60
// hosts
// checkers: address
#include <time.h>
#include "check.h"

enum { KINDS = 9, OPERATIONS = 12, GENERATIONS = 10, ROUNDS = 12, COMMS = 2, MANY = 150 };

typedef struct {
    int kind, count, root;
    MPI_Comm comm;
    int *in, *out;
} Operation;

static const int counts[] = {1, 2, 7, 12, 13, 100, 256, 300, 3000, 20000};
static int rank, size;
static unsigned long long common, own;

static unsigned draw(unsigned long long *state, unsigned below) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(*state >> 33) % below;
}

static void nap(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

static int value(int round, int from, int at) { return round * 31 + from * 1009 + at; }

// The sum of what the ranks below `ranks` have.
static int sum(int round, int ranks, int at) {
    return ranks * (round * 31 + at) + 1009 * (ranks * (ranks - 1) / 2);
}

static void own_sum(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void make(Operation *one, MPI_Comm *comms, MPI_Op op, MPI_Request *request) {
    one->kind = (int)draw(&common, KINDS);
    one->count = counts[draw(&common, sizeof counts / sizeof *counts)];
    one->root = (int)draw(&common, (unsigned)size);
    one->comm = comms[draw(&common, COMMS)];
    MPI_Op sum_op = draw(&common, 4) == 0 ? op : MPI_SUM;
    size_t ints = (size_t)one->count * (size_t)size + 1;
    int *in = one->in = malloc(sizeof(int) * ints), *out = one->out = malloc(sizeof(int) * ints);
    int n = one->count, root = one->root;
    MPI_Comm comm = one->comm;
    MPI_Info none = MPI_INFO_NULL;
    switch (one->kind) {
        case 0: OK(MPI_Barrier_init(comm, none, request)); break;
        case 1: OK(MPI_Bcast_init(out, n, MPI_INT, root, comm, none, request)); break;
        case 2: OK(MPI_Allreduce_init(in, out, n, MPI_INT, sum_op, comm, none, request)); break;
        case 3: OK(MPI_Reduce_init(in, out, n, MPI_INT, sum_op, root, comm, none, request)); break;
        case 4:
            OK(MPI_Allgather_init(in, n, MPI_INT, out, n, MPI_INT, comm, none, request));
            break;
        case 5:
            OK(MPI_Alltoall_init(in, n, MPI_INT, out, n, MPI_INT, comm, none, request));
            break;
        case 6:
            OK(MPI_Gather_init(in, n, MPI_INT, out, n, MPI_INT, root, comm, none, request));
            break;
        case 7:
            OK(MPI_Scatter_init(in, n, MPI_INT, out, n, MPI_INT, root, comm, none, request));
            break;
        default: OK(MPI_Scan_init(in, out, n, MPI_INT, sum_op, comm, none, request)); break;
    }
}

static void fill(const Operation *one, int round) {
    int ints = one->count * size;
    for (int i = 0; i < ints; i++) {
        one->in[i] = value(round, rank, i);
        one->out[i] = one->kind == 1 && rank == one->root ? value(round, rank, i) : -1;
    }
}

// What element `i` of the result must be; -1: nothing is written there.
static int expected(const Operation *one, int round, int i) {
    int n = one->count, from = i / n, at = i % n, is_root = rank == one->root;
    switch (one->kind) {
        case 1: return i < n || is_root ? value(round, one->root, i) : -1;
        case 2: return i < n ? sum(round, size, i) : -1;
        case 3: return i < n && is_root ? sum(round, size, i) : -1;
        case 4: return value(round, from, at);
        case 5: return value(round, from, rank * n + at);
        case 6: return is_root ? value(round, from, at) : -1;
        case 7: return i < n ? value(round, one->root, rank * n + i) : -1;
        case 8: return i < n ? sum(round, rank + 1, i) : -1;
        default: return -1;
    }
}

static void judge(const Operation *one, int round) {
    for (int i = 0; i < one->count * size; i++)
        if (one->out[i] != expected(one, round, i)) {
            CHECK(0, "kind %d, %d ints, root %d, round %d: element %d is %d, not %d", one->kind,
                  one->count, one->root, round, i, one->out[i], expected(one, round, i));
            return;
        }
}

static void shuffle(int *order, int n, unsigned long long *state) {
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int other = (int)draw(state, (unsigned)i + 1), kept = order[i];
        order[i] = order[other], order[other] = kept;
    }
}

// Starts all in an order of this process, and blocking and nonblocking operations between.
static void run(Operation *all, MPI_Request *requests, int round, MPI_Comm *comms) {
    int order[OPERATIONS], sums[2] = {rank, rank}, total = -1, begun_total = -1;
    for (int i = 0; i < OPERATIONS; i++) fill(&all[i], round);
    MPI_Request begun = MPI_REQUEST_NULL;
    MPI_Comm comm = comms[draw(&common, COMMS)];
    int blocks = (int)draw(&common, 2), begins = (int)draw(&common, 2);
    if (draw(&own, 6) == 0) nap(200);
    shuffle(order, OPERATIONS, &own);
    if (draw(&own, 3) == 0) {
        OK(MPI_Startall(OPERATIONS, requests));
    } else {
        for (int i = 0; i < OPERATIONS; i++) OK(MPI_Start(&requests[order[i]]));
    }
    if (begins) OK(MPI_Iallreduce(&sums[0], &begun_total, 1, MPI_INT, MPI_SUM, comm, &begun));
    if (blocks) {
        OK(MPI_Allreduce(&sums[1], &total, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(total, size * (size - 1) / 2);
    }
    shuffle(order, OPERATIONS, &own);
    unsigned way = draw(&own, 4);
    if (way == 0) {
        OK(MPI_Waitall(OPERATIONS, requests, MPI_STATUSES_IGNORE));
    } else {
        for (int i = 0; i < OPERATIONS; i++) {
            int index = order[i], done = 0;
            if (way == 1) {
                OK(MPI_Waitany(OPERATIONS, requests, &index, MPI_STATUS_IGNORE));
                CHECK(index >= 0 && index < OPERATIONS, "MPI_Waitany tells %d", index);
            } else if (way == 2) {
                while (!done) OK(MPI_Test(&requests[index], &done, MPI_STATUS_IGNORE));
            } else {
                OK(MPI_Wait(&requests[index], MPI_STATUS_IGNORE));
            }
        }
    }
    OK(MPI_Wait(&begun, MPI_STATUS_IGNORE));
    if (begins) CHECK_EQ(begun_total, size * (size - 1) / 2);
    for (int i = 0; i < OPERATIONS; i++) judge(&all[i], round);
}

// More than have room on the board at once, freed from different ends.
static void make_many(MPI_Comm comm) {
    static int in[MANY], out[MANY];
    MPI_Request requests[MANY];
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < MANY; i++) {
            in[i] = rank + i;
            OK(MPI_Allreduce_init(&in[i], &out[i], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                  &requests[i]));
        }
        OK(MPI_Startall(MANY, requests));
        OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(out[i], size * (size - 1) / 2 + size * i);
            OK(MPI_Request_free(&requests[rank % 2 == 0 ? i : MANY - 1 - i]));
        }
    }
}

// The root is over before others begin, and again, until all slots are used.
static void run_ahead(MPI_Comm comm) {
    static const int lengths[] = {1, 200, 10000};
    for (int kind = 0; kind < 3; kind++) {
        int n = lengths[kind], *data = malloc(sizeof(int) * (size_t)n);
        MPI_Request request;
        OK(MPI_Bcast_init(data, n, MPI_INT, 0, comm, MPI_INFO_NULL, &request));
        for (int round = 0; round < 60; round++) {
            if (rank != 0 && round % 20 == 7) nap(300);
            data[0] = data[n - 1] = rank == 0 ? round : -1;
            OK(MPI_Start(&request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_EQ(data[0], round);
            CHECK_EQ(data[n - 1], round);
        }
        OK(MPI_Request_free(&request));
        free(data);
    }
}

// Thousands of runs of one.
static void run_often(MPI_Comm comm) {
    long long in, out;
    MPI_Request request;
    OK(MPI_Allreduce_init(&in, &out, 1, MPI_LONG_LONG, MPI_SUM, comm, MPI_INFO_NULL, &request));
    for (int round = 0; round < 5000; round++) {
        in = rank + round;
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(out, (long long)size * round + size * (size - 1) / 2);
    }
    OK(MPI_Request_free(&request));
}

int main(int argc, char **argv) {
    if (argc > 1) setenv("COMBRAY_BOARDS", argv[1], 1);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    common = 11, own = 77 + (unsigned long long)rank;
    MPI_Comm comms[COMMS];
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    MPI_Op op;
    OK(MPI_Op_create(own_sum, 1, &op));
    for (int generation = 0; generation < GENERATIONS; generation++) {
        Operation all[OPERATIONS];
        MPI_Request requests[OPERATIONS];
        int order[OPERATIONS];
        for (int i = 0; i < OPERATIONS; i++) make(&all[i], comms, op, &requests[i]);
        for (int round = 0; round < ROUNDS; round++) run(all, requests, round, comms);
        shuffle(order, OPERATIONS, &own);
        for (int i = 0; i < OPERATIONS; i++) {
            OK(MPI_Request_free(&requests[order[i]]));
            free(all[order[i]].in), free(all[order[i]].out);
        }
    }
    make_many(comms[0]);
    run_ahead(comms[1]);
    run_often(comms[0]);
    OK(MPI_Op_free(&op));
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
