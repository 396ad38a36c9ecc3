/* A message of a process to itself. Only the first process takes part. */
#include "bench.h"

#include <stdlib.h>

enum { TAG = 3 };

struct loop {
    const struct job *job;
    char *send_buffer, *receive_buffer;
    int bytes;
    unsigned seed;
};

static void run_isend_recv(void *state, long iterations)
{
    const struct loop *loop = state;
    int me = loop->job->rank;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Isend(loop->send_buffer, loop->bytes, MPI_BYTE, me, TAG, MPI_COMM_WORLD, &request);
        MPI_Recv(loop->receive_buffer, loop->bytes, MPI_BYTE, me, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void run_irecv_send(void *state, long iterations)
{
    const struct loop *loop = state;
    int me = loop->job->rank;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Irecv(loop->receive_buffer, loop->bytes, MPI_BYTE, me, TAG, MPI_COMM_WORLD, &request);
        MPI_Send(loop->send_buffer, loop->bytes, MPI_BYTE, me, TAG, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void run_sendrecv(void *state, long iterations)
{
    const struct loop *loop = state;
    for (long i = 0; i < iterations; i++)
        MPI_Sendrecv(loop->send_buffer, loop->bytes, MPI_BYTE, 0, TAG, loop->receive_buffer,
                     loop->bytes, MPI_BYTE, 0, TAG, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static void check_once(struct loop *loop, void (*run)(void *, long))
{
    pattern_fill(loop->send_buffer, (size_t)loop->bytes, loop->seed);
    pattern_fill(loop->receive_buffer, (size_t)loop->bytes, loop->seed + 1);
    run(loop, 1);
    pattern_expect(loop->job, loop->receive_buffer, (size_t)loop->bytes, loop->seed);
    loop->seed += 2;
}

static void check_isend_recv(void *state) { check_once(state, run_isend_recv); }
static void check_irecv_send(void *state) { check_once(state, run_irecv_send); }
static void check_sendrecv(void *state) { check_once(state, run_sendrecv); }

static const struct {
    const char *variant;
    void (*run)(void *, long);
    void (*check)(void *);
} variants[] = {
    {"Isend, Recv", run_isend_recv, check_isend_recv},
    {"Irecv, Send", run_irecv_send, check_irecv_send},
    {"Sendrecv", run_sendrecv, check_sendrecv},
};

enum { VARIANTS = sizeof variants / sizeof variants[0] };
_Static_assert((int)VARIANTS <= (int)OPERATIONS_TOGETHER, "all variants are measured together");

void bench_self(struct job *job)
{
    report_section(job, "self", "a message of a process to itself; time of the whole message",
                   true);
    if (job->rank != 0)
        return;
    struct list sizes = list_or_powers(&job->options.sizes, 8, 8, 64L << 10);
    for (int i = 0; i < sizes.length; i++) {
        size_t bytes = (size_t)sizes.values[i];
        job_describe(job, "self", "", bytes);
        if (bytes > (1u << 30))
            job_fail(job, "sizes above 1 GiB are not supported by this benchmark");
        struct loop loop = {.job = job, .send_buffer = buffer_new(job, bytes),
                            .receive_buffer = buffer_new(job, bytes), .bytes = (int)bytes};
        struct operation operations[VARIANTS];
        struct timing timings[VARIANTS];
        for (int k = 0; k < VARIANTS; k++)
            operations[k] = (struct operation){.run = variants[k].run,
                                               .check = variants[k].check, .state = &loop,
                                               .comm = MPI_COMM_SELF, .clock = CLOCK_FIRST,
                                               .share = 1.0};
        measure(job, operations, VARIANTS, timings);
        for (int k = 0; k < VARIANTS; k++) {
            struct row row = {.benchmark = "self", .processes = 1, .bytes = bytes,
                              .bytes_total = bytes, .timing = timings[k]};
            snprintf(row.variant, sizeof row.variant, "%s", variants[k].variant);
            report_row(job, &row);
        }
        free(loop.send_buffer);
        free(loop.receive_buffer);
    }
}
