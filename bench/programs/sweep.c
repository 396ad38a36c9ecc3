/* Runs the calls of the lists one after the other. */
#include "sweep.h"

#include <stdlib.h>
#include <string.h>

/* ---- data ---- */

static double contribution(const struct sweep *sweep, int rank, size_t element)
{
    return rank + 3.0 * (double)element + sweep->seed % 7;
}

static unsigned seed_of(const struct sweep *sweep, int rank)
{
    return sweep->seed + (unsigned)((rank + sweep->size) % sweep->size);
}

static void fill(struct sweep *sweep)
{
    size_t bytes = sweep->call->bytes;
    memset(sweep->in, 0x5A, 2 * bytes);
    if (sweep->call->result != RESULT_SUMS) {
        /* Each neighbour gets an equal part. */
        pattern_fill(sweep->out, bytes, seed_of(sweep, sweep->rank));
        memcpy(sweep->out + bytes, sweep->out, bytes);
        return;
    }
    double *values = (double *)sweep->out;
    for (size_t i = 0; i < bytes / sizeof *values; i++)
        values[i] = contribution(sweep, sweep->rank, i);
}

static void expect_sums(const struct sweep *sweep)
{
    const double *found = (const double *)sweep->in;
    for (size_t i = 0; i < sweep->call->bytes / sizeof *found; i++) {
        double sum = 0;
        for (int rank = 0; rank < sweep->size; rank++)
            sum += contribution(sweep, rank, i);
        if (found[i] != sum)
            job_fail(sweep->job, "element %zu is %g and not %g", i, found[i], sum);
    }
}

static void expect_result(const struct sweep *sweep)
{
    size_t bytes = sweep->call->bytes;
    switch (sweep->call->result) {
    case RESULT_NONE:
        break;
    case RESULT_OF_PEER:
        pattern_expect(sweep->job, sweep->in, bytes, seed_of(sweep, sweep->peer));
        break;
    case RESULT_OF_SELF:
        pattern_expect(sweep->job, sweep->in, bytes, seed_of(sweep, sweep->rank));
        break;
    case RESULT_OF_NEIGHBORS:
        pattern_expect(sweep->job, sweep->in, bytes, seed_of(sweep, sweep->rank - 1));
        pattern_expect(sweep->job, sweep->in + bytes, bytes, seed_of(sweep, sweep->rank + 1));
        break;
    case RESULT_SUMS:
        expect_sums(sweep);
    }
}

static void check(void *state)
{
    struct sweep *sweep = state;
    const struct sweep_call *call = sweep->call;
    sweep->seed += (unsigned)sweep->size;
    fill(sweep);
    /* No process reads or writes another process's memory before that is ready. */
    MPI_Barrier(sweep->comm);
    sweep->checking = true;
    call->run(sweep, 1);
    sweep->checking = false;
    MPI_Barrier(sweep->comm);
    if (!call->alone || sweep->rank == 0)
        expect_result(sweep);
}

/* ---- one call ---- */

/* Which times count. A local operation waits for no other process: where two processes share a
 * core, the time for which the other one has it is no time of the call. */
static enum clock_choice clock_of(const struct sweep_call *call, bool local)
{
    if (local)
        return CLOCK_WORKED;
    return call->alone ? CLOCK_FIRST : CLOCK_SLOWEST;
}

static void measure_call(struct job *job, struct sweep *sweep, const char *benchmark, bool local)
{
    const struct sweep_call *call = sweep->call;
    job_describe(job, benchmark, call->name, call->bytes);
    if (call->open)
        call->open(sweep);
    struct operation operation = {.run = call->run, .check = check, .state = sweep,
                                  .comm = sweep->comm,
                                  .clock = clock_of(call, local),
                                  .share = 1.0};
    struct timing timing;
    if (measure(job, &operation, 1, &timing)) {
        struct row row = {.benchmark = benchmark, .processes = sweep->size, .bytes = call->bytes,
                          .timing = timing};
        snprintf(row.variant, sizeof row.variant, "%s", call->name);
        report_row(job, &row);
    } else {
        char note[128];
        snprintf(note, sizeof note, "%s, %s left out: one call takes longer than --slowest",
                 benchmark, call->name);
        report_note(job, note);
    }
    if (call->close)
        call->close(sweep);
}

void close_requests(struct sweep *sweep)
{
    for (int i = 0; i < sweep->request_count; i++)
        MPI_Request_free(&sweep->requests[i]);
    sweep->request_count = 0;
}

struct list_of_calls {
    const struct sweep_call *calls;
    bool local;                     /* these stay in the process */
};

static void run_lists(struct job *job, const char *benchmark, const struct list_of_calls *lists,
                      int count)
{
    /* A process without a peer stays out. */
    int paired = job->size / 2 * 2;
    struct sweep sweep = {.job = job};
    MPI_Comm_split(MPI_COMM_WORLD, job->rank < paired ? 0 : MPI_UNDEFINED, job->rank, &sweep.comm);
    if (sweep.comm == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(sweep.comm, &sweep.rank);
    MPI_Comm_size(sweep.comm, &sweep.size);
    sweep.peer = sweep.rank ^ 1;
    sweep.out = buffer_new(job, SWEEP_ROOM);
    sweep.in = buffer_new(job, SWEEP_ROOM);
    for (int i = 0; i < count; i++)
        for (sweep.call = lists[i].calls; sweep.call->name; sweep.call++)
            measure_call(job, &sweep, benchmark, lists[i].local);
    free(sweep.out);
    free(sweep.in);
    MPI_Comm_free(&sweep.comm);
}

/* ---- the benchmarks ---- */

void bench_calls(struct job *job)
{
    const struct list_of_calls lists[] = {{sweep_messages, false},
                                          {sweep_persistent, false},
                                          {sweep_collectives, false},
                                          {sweep_datatypes, true},
                                          {sweep_local, true}};
    report_section(job, "calls", "calls that programs have in their loops; time of one, slowest "
                                 "process (of datatypes and what else is local, of its processor)",
                   false);
    run_lists(job, "calls", lists, sizeof lists / sizeof lists[0]);
}

void bench_rma(struct job *job)
{
    const struct list_of_calls lists[] = {{sweep_windows, false}};
    report_section(job, "rma", "one-sided calls; while the target waits, or by the slowest process "
                               "where all take part",
                   false);
    run_lists(job, "rma", lists, 1);
}
