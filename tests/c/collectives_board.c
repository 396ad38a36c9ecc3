// Collectives through memory that the processes of a communicator share: blocking and nonblocking
// ones mixed on several communicators, of sizes that fit in a slot, take several or go by messages;
// a root that runs ahead; processes that come late, so that the others sleep; communicators made
// and freed; counts that do not fit together.
// run: 2 3 8
// each: auto never
// timeout: 60
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

int main(int argc, char **argv) {
    if (argc > 1) setenv("COMBRAY_BOARDS", argv[1], 1);
    check_begin();
    root_ahead();
    mixed();
    late();
    counts_that_do_not_fit();
    return check_end();
}
