// Collectives through memory that the processes of a communicator share: blocking and nonblocking
// ones mixed on several communicators, of sizes that fit in a slot, take several turns or go by
// messages; a root that runs ahead; processes that come late, so that the others sleep;
// communicators made and freed; blocks of any sizes; counts that do not fit together.
// run: 2 3 8
// each: auto never
// timeout: 60
// hosts
// checkers: address
#include <time.h>
#include "check.h"

enum { ROUNDS = 120, COMMS = 3, SIZE_MAX_INTS = 12000 };

static int sizes[] = {1, 2, 12, 13, 200, 256, 300, 1500, 9000, SIZE_MAX_INTS};

static void nap(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

static int value(int round, int rank, int at) { return round * 7919 + rank * 104729 + at; }

static int *filled(int round, int rank, int count) {
    int *made = malloc(sizeof(int) * (size_t)(count + 1));
    for (int i = 0; i < count; i++) made[i] = value(round, rank, i);
    made[count] = -5;
    return made;
}

static void judge(const char *what, int round, const int *got, int rank, int first, int count) {
    for (int i = 0; i < count; i++)
        if (got[i] != value(round, rank, first + i)) {
            CHECK(0, "%s, round %d: element %d of rank %d is %d", what, round, i, rank, got[i]);
            return;
        }
}

static void blocking(MPI_Comm comm, int round, int kind, int count, int root) {
    int rank, size;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    int *all = filled(round, rank, count * size);
    int *out = malloc(sizeof(int) * (size_t)(count * size + 1));
    int n = size * (size - 1) / 2;
    switch (kind) {
        case 0:
            OK(MPI_Bcast(all, count, MPI_INT, root, comm));
            judge("bcast", round, all, root, 0, count);
            break;
        case 1:
            OK(MPI_Allreduce(all, out, count, MPI_INT, MPI_SUM, comm));
            CHECK_EQ(out[count - 1], size * (round * 7919 + count - 1) + n * 104729);
            break;
        case 2:
            OK(MPI_Allgather(all, count, MPI_INT, out, count, MPI_INT, comm));
            for (int r = 0; r < size; r++) judge("allgather", round, out + r * count, r, 0, count);
            break;
        case 3:
            OK(MPI_Alltoall(all, count, MPI_INT, out, count, MPI_INT, comm));
            for (int r = 0; r < size; r++)
                judge("alltoall", round, out + r * count, r, rank * count, count);
            break;
        case 4:
            OK(MPI_Gather(all, count, MPI_INT, out, count, MPI_INT, root, comm));
            for (int r = 0; r < size && rank == root; r++)
                judge("gather", round, out + r * count, r, 0, count);
            break;
        case 5:
            OK(MPI_Scatter(all, count, MPI_INT, out, count, MPI_INT, root, comm));
            judge("scatter", round, out, root, rank * count, count);
            break;
        case 6:
            OK(MPI_Reduce(all, out, count, MPI_INT, MPI_MAX, root, comm));
            if (rank == root) judge("reduce", round, out, size - 1, 0, count);
            break;
        case 7:
            OK(MPI_Scan(all, out, count, MPI_INT, MPI_MAX, comm));
            judge("scan", round, out, rank, 0, count);
            break;
        default: OK(MPI_Barrier(comm)); break;
    }
    CHECK_EQ(all[count * size], -5);
    free(all);
    free(out);
}

static void mixed(void) {
    MPI_Comm comms[COMMS];
    MPI_Request requests[6];
    int *kept[6], begun = 0;
    Random shared = random_from(5), own = random_from(50 + (uint64_t)check_rank);
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm = comms[random_below(&shared, COMMS)];
        int kind = random_below(&shared, 9), count = sizes[random_below(&shared, 10)];
        int root = random_below(&shared, check_size);
        if (random_below(&own, 20) == 0) nap(3000);
        if (random_below(&shared, 3) == 0) {
            kept[begun] = filled(round, check_rank == root ? 1000 : 0, count);
            OK(MPI_Ibcast(kept[begun], count, MPI_INT, root, comm, &requests[begun]));
            if (++begun == 6 || random_below(&shared, 4) == 0) {
                blocking(comm, round, kind, count, root);
                OK(MPI_Waitall(begun, requests, MPI_STATUSES_IGNORE));
                while (begun > 0) {
                    begun--;
                    CHECK_EQ((kept[begun][0] - 104729 * 1000) % 7919, 0);
                    free(kept[begun]);
                }
            }
        } else {
            blocking(comm, round, kind, count, root);
        }
        if (round % 40 == 39 && begun == 0) {
            OK(MPI_Comm_free(&comms[0]));
            OK(MPI_Comm_dup(comms[1], &comms[0]));
        }
    }
    OK(MPI_Waitall(begun, requests, MPI_STATUSES_IGNORE));
    while (begun > 0) free(kept[--begun]);
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_free(&comms[i]));
}

// Data that fits in no slot: all operations in several turns, and two begun together beside a
// blocking one.
static void several_turns(void) {
    int count = 450001, size = check_size, rank = check_rank;
    for (int kind = 0; kind < 8; kind++) blocking(MPI_COMM_WORLD, kind, kind, count, kind % size);
    MPI_Request requests[3];
    int *shown = filled(11, rank == 1 ? 1 : 0, 2 * count), *reduced = filled(12, rank, count);
    int *mine = filled(13, rank, count * size), *share = malloc(sizeof(int) * (size_t)count);
    OK(MPI_Ibcast(shown, 2 * count, MPI_INT, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Iallreduce(MPI_IN_PLACE, reduced, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Ireduce_scatter_block(mine, share, count, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &requests[2]));
    blocking(MPI_COMM_WORLD, 14, 2, count, 0);
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    judge("ibcast", 11, shown, 1, 0, 2 * count);
    judge("iallreduce", 12, reduced, size - 1, 0, count);
    judge("ireduce_scatter_block", 13, share, 0, rank * count, count);
    for (int i = 0; i < count; i++) mine[i] = i;
    OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, mine, count / size, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count / size; i++) {
        if (mine[i] == size * (rank * (count / size) + i)) continue;
        CHECK(0, "reduce_scatter_block in place: element %d is %d", i, mine[i]);
        break;
    }
    free(shown), free(reduced), free(mine), free(share);
}

// Were the wake-up of a sleeper lost, each time would take half a second.
static void late(void) {
    double start = MPI_Wtime();
    for (int round = 0; round < 60; round++) {
        if (round % check_size == check_rank) nap(4000);
        blocking(MPI_COMM_WORLD, round, round % 9, sizes[round % 4], round % check_size);
    }
    CHECK(MPI_Wtime() - start < 20, "60 operations took %.1f s", MPI_Wtime() - start);
}

static void root_ahead(void) {
    for (int round = 0; round < 1000; round++)
        blocking(MPI_COMM_WORLD, round, round < 500 ? 0 : 6, sizes[round % 3], 0);
}

static void counts_that_do_not_fit(void) {
    char data[64];
    memset(data, 1 + check_rank, sizeof data);
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 6; i++) OK(MPI_Barrier(comm));
    int code = MPI_Bcast(data, check_rank == 0 ? 40 : 20, MPI_CHAR, 0, comm), class;
    OK(MPI_Error_class(code, &class));
    CHECK_EQ(class, check_rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE);
    CHECK_EQ(data[19], 1);
    CHECK_EQ(data[20], check_rank == 0 ? 1 : 1 + check_rank);
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&comm));
}

// Blocks with a length of their own for each pair: some in slots, some as messages, some empty.
static int handed(int round, int from, int to) {
    static const int lengths[] = {1, 3, 0, 100, 1000, 1024, 1025, 4000, 9, 20000};
    return lengths[(round + 3 * from + 7 * to) % 10];
}

static void handing(void) {
    int rank = check_rank, size = check_size;
    int *counts = malloc(sizeof(int) * (size_t)size * 4);
    int *places = counts + size, *in_counts = places + size, *in_places = in_counts + size;
    for (int round = 0; round < 60; round++) {
        int root = round % size, total = 0, in_total = 0;
        MPI_Request request;
        for (int peer = 0; peer < size; peer++) {
            places[peer] = total, in_places[peer] = in_total;
            total += counts[peer] = handed(round, rank, peer);
            in_total += in_counts[peer] = handed(round, peer, rank);
        }
        int *out = filled(round, rank, total), *in = malloc(sizeof(int) * (size_t)(in_total + 1));
        if (round % 9 == rank) nap(500);
        if (round % 2 == 0) {
            OK(MPI_Alltoallv(out, counts, places, MPI_INT, in, in_counts, in_places, MPI_INT,
                             MPI_COMM_WORLD));
        } else {
            OK(MPI_Ialltoallv(out, counts, places, MPI_INT, in, in_counts, in_places, MPI_INT,
                              MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        for (int peer = 0, first; peer < size; peer++) {
            first = 0;
            for (int before = 0; before < rank; before++) first += handed(round, peer, before);
            judge("alltoallv", round, in + in_places[peer], peer, first, in_counts[peer]);
        }
        OK(MPI_Scatterv(out, counts, places, MPI_INT, in, in_counts[root], MPI_INT, root,
                        MPI_COMM_WORLD));
        int first = 0;
        for (int before = 0; before < rank; before++) first += handed(round, root, before);
        judge("scatterv", round, in, root, first, in_counts[root]);
        OK(MPI_Gatherv(out, counts[root], MPI_INT, in, in_counts, in_places, MPI_INT, root,
                       MPI_COMM_WORLD));
        for (int peer = 0; peer < size && rank == root; peer++)
            judge("gatherv", round, in + in_places[peer], peer, 0, in_counts[peer]);
        free(out), free(in);
    }
    free(counts);
}

// A block that is longer than expected is an error of its receiver alone, in a slot or as a
// message.
static void handed_lengths_that_do_not_fit(void) {
    enum { LONG = 30000, MAX_SIZE = 8 };
    char *out = malloc(LONG * MAX_SIZE), *in = malloc(LONG * MAX_SIZE);
    int counts[MAX_SIZE], places[MAX_SIZE], code, class;
    memset(out, 7, LONG * MAX_SIZE);
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 6; i++) OK(MPI_Barrier(comm));
    for (int round = 0; round < 2; round++) {
        int length = round == 0 ? 40 : LONG, shown = round == 0 ? 20 : 200;
        for (int i = 0; i < check_size; i++) counts[i] = length, places[i] = i * LONG;
        memset(in, 0, LONG * MAX_SIZE);
        code = MPI_Scatterv(out, counts, places, MPI_CHAR, in, check_rank == 1 ? shown : length,
                            MPI_CHAR, 0, comm);
        OK(MPI_Error_class(code, &class));
        CHECK_EQ(class, check_rank == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        CHECK_EQ(in[shown], check_rank == 1 ? 0 : 7);
        counts[1] = shown;
        code = MPI_Gatherv(out, length, MPI_CHAR, in, counts, places, MPI_CHAR, 0, comm);
        OK(MPI_Error_class(code, &class));
        CHECK_EQ(class, check_rank == 0 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        OK(MPI_Barrier(comm));
    }
    OK(MPI_Comm_free(&comm));
    free(out), free(in);
}

int main(int argc, char **argv) {
    if (argc > 1) setenv("COMBRAY_BOARDS", argv[1], 1);
    check_begin();
    root_ahead();
    mixed();
    late();
    several_turns();
    counts_that_do_not_fit();
    handing();
    handed_lengths_that_do_not_fit();
    return check_end();
}
