/*
 * Self-consistent performance: a combination of other calls of one library with an equal result
 * must not be faster.  After J. L. Träff, W. D. Gropp and R. Thakur, "Self-Consistent MPI Performance
 * Guidelines", IEEE Transactions on Parallel and Distributed Systems 21(5), 2010.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* Slower by less than this part of the other side's time, besides the noise, is no violation. */
static const double TOLERANCE = 0.05;

struct sides {
    const struct job *job;
    char *sent, *received;          /* room for twice the bytes of the comparison */
    int *counts, *displacements;
};

/* One call that moves or combines `bytes` in all: blocks of a process are that part of it. */
typedef void call(struct sides *sides, int bytes);

static int block_of(const struct sides *sides, int bytes)
{
    return bytes / sides->job->size;
}

static void lay_out(struct sides *sides, int block)
{
    for (int rank = 0; rank < sides->job->size; rank++) {
        sides->counts[rank] = block;
        sides->displacements[rank] = rank * block;
    }
}

static void call_bcast(struct sides *s, int bytes)
{
    MPI_Bcast(s->sent, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void call_gather(struct sides *s, int bytes)
{
    int block = block_of(s, bytes);
    MPI_Gather(s->sent, block, MPI_BYTE, s->received, block, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void call_gatherv(struct sides *s, int bytes)
{
    int block = block_of(s, bytes);
    lay_out(s, block);
    MPI_Gatherv(s->sent, block, MPI_BYTE, s->received, s->counts, s->displacements, MPI_BYTE, 0,
                MPI_COMM_WORLD);
}

static void call_scatter(struct sides *s, int bytes)
{
    int block = block_of(s, bytes);
    MPI_Scatter(s->sent, block, MPI_BYTE, s->received, block, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void call_scatterv(struct sides *s, int bytes)
{
    int block = block_of(s, bytes);
    lay_out(s, block);
    MPI_Scatterv(s->sent, s->counts, s->displacements, MPI_BYTE, s->received, block, MPI_BYTE, 0,
                 MPI_COMM_WORLD);
}

static void call_allgather(struct sides *s, int bytes)
{
    int block = block_of(s, bytes);
    MPI_Allgather(s->sent, block, MPI_BYTE, s->received, block, MPI_BYTE, MPI_COMM_WORLD);
}

static void call_allgatherv(struct sides *s, int bytes)
{
    int block = block_of(s, bytes);
    lay_out(s, block);
    MPI_Allgatherv(s->sent, block, MPI_BYTE, s->received, s->counts, s->displacements, MPI_BYTE,
                   MPI_COMM_WORLD);
}

static void call_alltoall(struct sides *s, int bytes)
{
    int block = block_of(s, bytes);
    MPI_Alltoall(s->sent, block, MPI_BYTE, s->received, block, MPI_BYTE, MPI_COMM_WORLD);
}

static void call_alltoallv(struct sides *s, int bytes)
{
    lay_out(s, block_of(s, bytes));
    MPI_Alltoallv(s->sent, s->counts, s->displacements, MPI_BYTE, s->received, s->counts,
                  s->displacements, MPI_BYTE, MPI_COMM_WORLD);
}

static int doubles(int bytes)
{
    return bytes / (int)sizeof(double);
}

static void call_reduce(struct sides *s, int bytes)
{
    MPI_Reduce(s->sent, s->received, doubles(bytes), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void call_allreduce(struct sides *s, int bytes)
{
    MPI_Allreduce(s->sent, s->received, doubles(bytes), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void call_reduce_scatter_block(struct sides *s, int bytes)
{
    MPI_Reduce_scatter_block(s->sent, s->received, doubles(block_of(s, bytes)), MPI_DOUBLE,
                             MPI_SUM, MPI_COMM_WORLD);
}

static void call_reduce_scatter(struct sides *s, int bytes)
{
    lay_out(s, doubles(block_of(s, bytes)));
    MPI_Reduce_scatter(s->sent, s->received, s->counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void call_scan(struct sides *s, int bytes)
{
    MPI_Scan(s->sent, s->received, doubles(bytes), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void call_exscan(struct sides *s, int bytes)
{
    MPI_Exscan(s->sent, s->received, doubles(bytes), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void call_reduce_local(struct sides *s, int bytes)
{
    MPI_Reduce_local(s->sent, s->received, doubles(bytes), MPI_DOUBLE, MPI_SUM);
}

/* Between ranks 0 and 1, there and back, in so many messages of equal length. */
static void send_in_parts(struct sides *s, int bytes, int parts)
{
    if (s->job->rank > 1)
        return;
    int length = bytes / parts;
    for (int direction = 0; direction < 2; direction++) {
        MPI_Request requests[2];
        for (int part = 0; part < parts; part++) {
            if (direction == s->job->rank)
                MPI_Isend(s->sent + part * length, length, MPI_BYTE, 1 - s->job->rank, part,
                          MPI_COMM_WORLD, &requests[part]);
            else
                MPI_Irecv(s->received + part * length, length, MPI_BYTE, 1 - s->job->rank, part,
                          MPI_COMM_WORLD, &requests[part]);
        }
        MPI_Waitall(parts, requests, MPI_STATUSES_IGNORE);
    }
}

static void call_send(struct sides *s, int bytes)
{
    send_in_parts(s, bytes, 1);
}

static void call_send_in_two(struct sides *s, int bytes)
{
    send_in_parts(s, bytes, 2);
}

/* `slow` must not take longer than all of `fast`, for an equal number of bytes. */
static const struct composition {
    const char *text;
    call *slow, *fast[2];
} compositions[] = {
    {"gather <= allgather", call_gather, {call_allgather}},
    {"scatter <= bcast", call_scatter, {call_bcast}},
    {"reduce <= allreduce", call_reduce, {call_allreduce}},
    {"allgather <= alltoall", call_allgather, {call_alltoall}},
    {"scan <= exscan + reduce_local", call_scan, {call_exscan, call_reduce_local}},
    {"bcast <= scatter + allgather", call_bcast, {call_scatter, call_allgather}},
    {"allgather <= gather + bcast", call_allgather, {call_gather, call_bcast}},
    {"allreduce <= reduce + bcast", call_allreduce, {call_reduce, call_bcast}},
    {"allreduce <= reduce_scatter_block + allgather", call_allreduce,
     {call_reduce_scatter_block, call_allgather}},
    {"reduce <= reduce_scatter_block + gather", call_reduce,
     {call_reduce_scatter_block, call_gather}},
    {"reduce_scatter_block <= reduce + scatter", call_reduce_scatter_block,
     {call_reduce, call_scatter}},
    {"reduce_scatter <= reduce + scatterv", call_reduce_scatter, {call_reduce, call_scatterv}},
    {"gather <= gatherv", call_gather, {call_gatherv}},
    {"scatter <= scatterv", call_scatter, {call_scatterv}},
    {"allgather <= allgatherv", call_allgather, {call_allgatherv}},
    {"alltoall <= alltoallv", call_alltoall, {call_alltoallv}},
    {"reduce_scatter_block <= reduce_scatter", call_reduce_scatter_block, {call_reduce_scatter}},
    {"send <= send in two halves", call_send, {call_send_in_two}},
};

/* Those of which less must not take longer than more. */
static const struct { const char *name; call *call; } growing[] = {
    {"send", call_send}, {"bcast", call_bcast}, {"gather", call_gather},
    {"scatter", call_scatter}, {"allgather", call_allgather}, {"alltoall", call_alltoall},
    {"reduce", call_reduce}, {"allreduce", call_allreduce},
    {"reduce_scatter_block", call_reduce_scatter_block}, {"scan", call_scan},
    {"exscan", call_exscan},
};

enum {
    COMPOSITIONS = sizeof compositions / sizeof compositions[0],
    GROWING = sizeof growing / sizeof growing[0],
};

/* ---- measuring both sides of a comparison in alternation ---- */

struct side {
    struct sides *sides;
    call *calls[2];                 /* the second may be NULL */
    int bytes, times;
};

static void run_side(void *state, long iterations)
{
    const struct side *side = state;
    for (long i = 0; i < iterations; i++)
        for (int time = 0; time < side->times; time++) {
            side->calls[0](side->sides, side->bytes);
            if (side->calls[1])
                side->calls[1](side->sides, side->bytes);
        }
}

/* The data are verified where each call is measured for itself. */
static void warm_up(void *state)
{
    run_side(state, 1);
}

struct finding {
    double slow, fast, noise;       /* seconds; noise: half of both interquartile ranges */
    bool measured, violated;
};

static struct finding compare_once(struct job *job, struct side *slow, struct side *fast)
{
    struct side *both[2] = {slow, fast};
    struct operation operations[2];
    struct timing timings[2] = {{0}};
    struct finding finding = {0};
    for (int i = 0; i < 2; i++)
        operations[i] = (struct operation){.run = run_side, .check = warm_up, .state = both[i],
                                           .comm = MPI_COMM_WORLD, .clock = CLOCK_SLOWEST,
                                           .share = 1.0};
    finding.measured = measure(job, operations, 2, timings);
    finding.slow = timings[0].median;
    finding.fast = timings[1].median;
    finding.noise = (timings[0].spread + timings[1].spread) / 2;
    int violated = finding.measured &&
                   finding.slow > finding.fast * (1 + TOLERANCE) + finding.noise;
    MPI_Bcast(&violated, 1, MPI_INT, 0, MPI_COMM_WORLD);
    finding.violated = violated;
    return finding;
}

struct tally {
    int comparisons, violations;
};

/* An apparent violation is measured a second time, and counts if it is one again. */
static void compare(struct job *job, const char *text, struct side slow, struct side fast,
                    struct tally *tally)
{
    job_describe(job, "guidelines", "", (size_t)slow.bytes);
    struct finding finding = compare_once(job, &slow, &fast);
    if (finding.violated)
        finding = compare_once(job, &slow, &fast);
    if (!finding.measured)
        return;
    tally->comparisons++;
    tally->violations += finding.violated;
    report_guideline(job, text, (size_t)slow.bytes, finding.slow, finding.fast, finding.noise,
                     finding.violated);
}

static void compare_all(struct job *job, struct sides *sides, int bytes, struct tally *tally)
{
    char text[96];
    for (int i = 0; i < COMPOSITIONS; i++) {
        const struct composition *c = &compositions[i];
        struct side slow = {sides, {c->slow, NULL}, bytes, 1};
        struct side fast = {sides, {c->fast[0], c->fast[1]}, bytes, 1};
        compare(job, c->text, slow, fast, tally);
    }
    for (int i = 0; i < GROWING; i++) {
        struct side one = {sides, {growing[i].call, NULL}, bytes, 1};
        struct side twice = {sides, {growing[i].call, NULL}, bytes, 2};
        struct side larger = {sides, {growing[i].call, NULL}, 2 * bytes, 1};
        snprintf(text, sizeof text, "%s <= %s of twice the bytes", growing[i].name,
                 growing[i].name);
        compare(job, text, one, larger, tally);
        snprintf(text, sizeof text, "%s <= two of half the bytes", growing[i].name);
        compare(job, text, larger, twice, tally);
    }
}

void bench_guidelines(struct job *job)
{
    report_section(job, "guidelines",
                   "what takes longer than other calls that do the same; bytes in all", false);
    struct list sizes = list_or_powers(&job->options.sizes, 64, 8, 2L << 20);
    struct tally tally = {0, 0};
    for (int i = 0; i < sizes.length; i++) {
        int unit = job->size * (int)sizeof(double);
        long bytes = sizes.values[i] / unit * unit;
        if (bytes == 0 || bytes > 1L << 28)
            continue;
        struct sides sides = {.job = job,
                              .sent = buffer_new(job, 2 * (size_t)bytes),
                              .received = buffer_new(job, 2 * (size_t)bytes),
                              .counts = buffer_new(job, (size_t)job->size * sizeof(int)),
                              .displacements = buffer_new(job, (size_t)job->size * sizeof(int))};
        compare_all(job, &sides, (int)bytes, &tally);
        free(sides.sent);
        free(sides.received);
        free(sides.counts);
        free(sides.displacements);
    }
    char note[96];
    snprintf(note, sizeof note, "guidelines: %d violations in %d comparisons", tally.violations,
             tally.comparisons);
    report_note(job, note);
}
