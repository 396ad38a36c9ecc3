/*
 * Series of times in which each point is near its neighbours: bench/cliffs looks for steps in them.
 *
 * Usage: cliffs [AXIS...], with two processes; a line "AXIS X MICROSECONDS" for each point, from
 * process 0, the shortest of several batches. Microseconds are those of one message.
 */
#define _POSIX_C_SOURCE 200112L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 3, GO_TAG = 4, BATCHES = 7, MESSAGES_MAX = 4096, COMMUNICATORS_MAX = 64,
       BUFFER_BYTES = 8 << 20 };

int pin_to_core(int local_rank);    /* of pinning.c */

static const double batch_seconds = 0.3e-3;

static int rank, peer;
static char *out, *in;
static MPI_Request requests[MESSAGES_MAX];
static MPI_Comm communicators[COMMUNICATORS_MAX];

/* What one iteration does: as many messages as `count` says, each of `bytes` bytes. */
struct point {
    int count, bytes;
    long shift;                     /* of the buffers, in bytes */
    MPI_Datatype type;              /* of `items` items, if it is not a null handle */
    int items;
};

typedef void iteration(const struct point *point);

static void there_and_back(const struct point *point)
{
    MPI_Datatype type = point->type == MPI_DATATYPE_NULL ? MPI_BYTE : point->type;
    int items = point->type == MPI_DATATYPE_NULL ? point->bytes : point->items;
    if (rank == 0) {
        MPI_Send(out + point->shift, items, type, peer, TAG, MPI_COMM_WORLD);
        MPI_Recv(in + point->shift, items, type, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in + point->shift, items, type, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out + point->shift, items, type, peer, TAG, MPI_COMM_WORLD);
    }
}

/* All at once in one direction; the answer says that they are here. */
static void burst(const struct point *point)
{
    for (int i = 0; i < point->count; i++) {
        if (rank == 0)
            MPI_Isend(out, point->bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(in + (long)i * point->bytes, point->bytes, MPI_BYTE, peer, TAG,
                      MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(point->count, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, peer, GO_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(NULL, 0, MPI_BYTE, peer, GO_TAG, MPI_COMM_WORLD);
}

/* The receiver waits for the last message, and then takes the others, the last of them first. */
static void unexpected(const struct point *point)
{
    if (rank == 0) {
        for (int i = 0; i < point->count; i++)
            MPI_Isend(out, point->bytes, MPI_BYTE, peer, TAG + 2 + i, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(point->count, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, peer, GO_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (int i = point->count - 1; i >= 0; i--)
            MPI_Recv(in, point->bytes, MPI_BYTE, peer, TAG + 2 + i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, peer, GO_TAG, MPI_COMM_WORLD);
    }
}

/* A message in each of so many communicators, there and back. */
static void over_communicators(const struct point *point)
{
    for (int i = 0; i < point->count; i++)
        MPI_Sendrecv(out, point->bytes, MPI_BYTE, peer, TAG, in, point->bytes, MPI_BYTE, peer, TAG,
                     communicators[i], MPI_STATUS_IGNORE);
}

static double seconds_of(iteration *run, const struct point *point, long iterations)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long i = 0; i < iterations; i++)
        run(point);
    return (MPI_Wtime() - start) / (double)iterations;
}

/* One point: the shortest batch, per message. */
static void measure(const char *axis, double x, iteration *run, const struct point *point)
{
    double once = seconds_of(run, point, 3), best = once;
    long iterations = (long)(batch_seconds / once) + 1;
    MPI_Bcast(&iterations, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int i = 0; i < BATCHES; i++) {
        double seconds = seconds_of(run, point, iterations);
        best = seconds < best ? seconds : best;
    }
    int messages = run == there_and_back ? 2 : point->count;
    if (rank == 0)
        printf("%s %g %.4f\n", axis, x, best / messages * 1e6);
}

static void sizes(void)
{
    for (long base = 8; base <= 512 << 10; base *= 2) {
        long around[] = {base - 1, base, base + 1, base + base / 4, base + base / 2,
                         base + base / 4 * 3};
        for (int i = 0; i < 6; i++) {
            struct point point = {1, (int)around[i], 0, MPI_DATATYPE_NULL, 0};
            measure("size", (double)around[i], there_and_back, &point);
        }
    }
}

static void alignments(void)
{
    static const int lengths[] = {256, 4 << 10, 64 << 10};
    for (int i = 0; i < 3; i++)
        for (int shift = 0; shift <= 64; shift += shift < 8 ? 1 : 8) {
            char axis[32];
            snprintf(axis, sizeof axis, "alignment:%d", lengths[i]);
            struct point point = {1, lengths[i], shift, MPI_DATATYPE_NULL, 0};
            measure(axis, shift, there_and_back, &point);
        }
}

static void counts(const char *name, iteration *run, int most)
{
    static const int lengths[] = {8, 4 << 10, 64 << 10};
    for (int i = 0; i < 3; i++)
        for (double exact = 1; exact <= most && (exact + 1) * lengths[i] <= BUFFER_BYTES; exact *= 1.25) {
            int count = (int)(exact + 0.5);
            if (count == (int)(exact / 1.25 + 0.5) && exact > 1)
                continue;
            char axis[32];
            snprintf(axis, sizeof axis, "%s:%d", name, lengths[i]);
            struct point point = {count, lengths[i], 0, MPI_DATATYPE_NULL, 0};
            measure(axis, count, run, &point);
        }
}

/* 32 KiB in blocks of this length, with as much space between them. */
static void types(void)
{
    enum { TOTAL = 32 << 10 };
    for (int block = 8; block <= TOTAL; block += block < 64 ? 8 : block / 4) {
        struct point point = {1, TOTAL, 0, MPI_DATATYPE_NULL, 1};
        MPI_Type_vector(TOTAL / block, block, 2 * block, MPI_BYTE, &point.type);
        MPI_Type_commit(&point.type);
        measure("blocks", block, there_and_back, &point);
        MPI_Type_free(&point.type);
    }
}

static int is_wanted(int count, char **names, const char *name)
{
    for (int i = 1; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return count < 2;
}

int main(int argc, char **argv)
{
    int processes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (processes != 2) {
        fprintf(stderr, "cliffs: two processes are needed\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    peer = 1 - rank;
    pin_to_core(rank);
    out = malloc(BUFFER_BYTES);
    in = malloc(BUFFER_BYTES);
    memset(out, 1, BUFFER_BYTES);
    memset(in, 2, BUFFER_BYTES);
    for (int i = 0; i < COMMUNICATORS_MAX; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &communicators[i]);
    if (is_wanted(argc, argv, "size"))
        sizes();
    if (is_wanted(argc, argv, "alignment"))
        alignments();
    if (is_wanted(argc, argv, "requests"))
        counts("requests", burst, MESSAGES_MAX);
    if (is_wanted(argc, argv, "unexpected"))
        counts("unexpected", unexpected, 1024);
    if (is_wanted(argc, argv, "communicators"))
        counts("communicators", over_communicators, COMMUNICATORS_MAX);
    if (is_wanted(argc, argv, "blocks"))
        types();
    for (int i = 0; i < COMMUNICATORS_MAX; i++)
        MPI_Comm_free(&communicators[i]);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
