/* Two processes, bytes in a row: ping-pong and ping-ping. */
#include "bench.h"

#include <stdlib.h>

enum { TAG = 7 };

struct exchange {
    const struct job *job;
    char *send_buffer, *receive_buffer;
    int bytes;
    int peer;
    bool first;         /* begins the ping-pong */
    unsigned seed;      /* of the next check */
};

static void send_one(const struct exchange *exchange)
{
    MPI_Send(exchange->send_buffer, exchange->bytes, MPI_BYTE, exchange->peer, TAG,
             exchange->job->pair);
}

static void receive_one(const struct exchange *exchange)
{
    MPI_Recv(exchange->receive_buffer, exchange->bytes, MPI_BYTE, exchange->peer, TAG,
             exchange->job->pair, MPI_STATUS_IGNORE);
}

static void run_pingpong(void *state, long iterations)
{
    const struct exchange *exchange = state;
    if (exchange->first) {
        for (long i = 0; i < iterations; i++) {
            send_one(exchange);
            receive_one(exchange);
        }
    } else {
        for (long i = 0; i < iterations; i++) {
            receive_one(exchange);
            send_one(exchange);
        }
    }
}

static void run_pingping(void *state, long iterations)
{
    const struct exchange *exchange = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Isend(exchange->send_buffer, exchange->bytes, MPI_BYTE, exchange->peer, TAG,
                  exchange->job->pair, &request);
        receive_one(exchange);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void prepare_check(struct exchange *exchange)
{
    /* Each process sends a pattern of its own; the receiver can compute its peer's. */
    pattern_fill(exchange->send_buffer, (size_t)exchange->bytes,
                 exchange->seed + (unsigned)exchange->first);
    pattern_fill(exchange->receive_buffer, (size_t)exchange->bytes, exchange->seed + 100);
}

static void finish_check(struct exchange *exchange)
{
    pattern_expect(exchange->job, exchange->receive_buffer, (size_t)exchange->bytes,
                   exchange->seed + (unsigned)!exchange->first);
    exchange->seed += 2;
}

static void check_pingpong(void *state)
{
    prepare_check(state);
    run_pingpong(state, 1);
    finish_check(state);
}

static void check_pingping(void *state)
{
    prepare_check(state);
    run_pingping(state, 1);
    finish_check(state);
}

static void over_sizes(struct job *job, const char *name, struct operation operation)
{
    static const struct list none;
    struct list sizes = job->options.sizes;
    if (sizes.length == 0) {
        sizes = list_or_powers(&none, 1, 2, 8L << 20);
        struct list with_zero = {.length = 1};
        for (int i = 0; i < sizes.length; i++)
            with_zero.values[with_zero.length++] = sizes.values[i];
        sizes = with_zero;
    }
    for (int i = 0; i < sizes.length; i++) {
        size_t bytes = (size_t)sizes.values[i];
        job_describe(job, name, "", bytes);
        if (bytes > (1u << 30))
            job_fail(job, "sizes above 1 GiB are not supported by this benchmark");
        struct exchange exchange = {
            .job = job,
            .send_buffer = buffer_new(job, bytes),
            .receive_buffer = buffer_new(job, bytes),
            .bytes = (int)bytes,
            .peer = 1 - job->rank,
            .first = job->rank == 0,
            .seed = (unsigned)i * 64,
        };
        operation.state = &exchange;
        operation.comm = job->pair;
        struct row row = {.benchmark = name, .processes = 2, .bytes = bytes,
                          .bytes_total = bytes};
        measure(job, &operation, 1, &row.timing);
        report_row(job, &row);
        free(exchange.send_buffer);
        free(exchange.receive_buffer);
    }
}

void bench_pingpong(struct job *job)
{
    report_section(job, "pingpong", "one message there and back; time of one way (half of both)",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    over_sizes(job, "pingpong", (struct operation){.run = run_pingpong, .check = check_pingpong,
                                                   .clock = CLOCK_FIRST, .share = 0.5});
}

void bench_pingping(struct job *job)
{
    report_section(job, "pingping",
                   "both send at once; time until both have received; bandwidth of one direction",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    over_sizes(job, "pingping", (struct operation){.run = run_pingping, .check = check_pingping,
                                                   .clock = CLOCK_SLOWEST, .share = 1.0});
}
