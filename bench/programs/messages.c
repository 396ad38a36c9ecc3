/* Two processes, many messages at once: message rate and multi-segment ping-pong. */
#include "bench.h"

#include <stdlib.h>

enum { TAG_ACKNOWLEDGE = 5, TAG_FIRST = 10 };

/* `count` messages of `bytes` each, which stand in a row in both buffers. */
struct burst {
    const struct job *job;
    char *send_buffer, *receive_buffer;
    MPI_Request *requests;
    int count;
    int bytes;
    bool distinct_tags;
    int peer;
    bool first;
    unsigned seed;
};

static int tag_of(const struct burst *burst, int index)
{
    return burst->distinct_tags ? TAG_FIRST + index : TAG_FIRST;
}

static void send_burst(const struct burst *burst)
{
    for (int i = 0; i < burst->count; i++)
        MPI_Isend(burst->send_buffer + (size_t)i * (size_t)burst->bytes, burst->bytes, MPI_BYTE,
                  burst->peer, tag_of(burst, i), burst->job->pair, &burst->requests[i]);
    MPI_Waitall(burst->count, burst->requests, MPI_STATUSES_IGNORE);
}

static void receive_burst(const struct burst *burst)
{
    for (int i = 0; i < burst->count; i++)
        MPI_Irecv(burst->receive_buffer + (size_t)i * (size_t)burst->bytes, burst->bytes,
                  MPI_BYTE, burst->peer, tag_of(burst, i), burst->job->pair,
                  &burst->requests[i]);
    MPI_Waitall(burst->count, burst->requests, MPI_STATUSES_IGNORE);
}

/* One window of messages in one direction, acknowledged by an empty message. */
static void run_rate(void *state, long iterations)
{
    const struct burst *burst = state;
    for (long i = 0; i < iterations; i++) {
        if (burst->first) {
            send_burst(burst);
            MPI_Recv(NULL, 0, MPI_BYTE, burst->peer, TAG_ACKNOWLEDGE, burst->job->pair,
                     MPI_STATUS_IGNORE);
        } else {
            receive_burst(burst);
            MPI_Send(NULL, 0, MPI_BYTE, burst->peer, TAG_ACKNOWLEDGE, burst->job->pair);
        }
    }
}

static void run_segments(void *state, long iterations)
{
    const struct burst *burst = state;
    for (long i = 0; i < iterations; i++) {
        if (burst->first) {
            send_burst(burst);
            receive_burst(burst);
        } else {
            receive_burst(burst);
            send_burst(burst);
        }
    }
}

static void prepare_check(struct burst *burst)
{
    size_t total = (size_t)burst->count * (size_t)burst->bytes;
    pattern_fill(burst->send_buffer, total, burst->seed + (unsigned)burst->first);
    pattern_fill(burst->receive_buffer, total, burst->seed + 100);
}

static void finish_check(struct burst *burst, bool has_received)
{
    if (has_received)
        pattern_expect(burst->job, burst->receive_buffer,
                       (size_t)burst->count * (size_t)burst->bytes,
                       burst->seed + (unsigned)!burst->first);
    burst->seed += 2;
}

static void check_rate(void *state)
{
    struct burst *burst = state;
    prepare_check(burst);
    run_rate(burst, 1);
    finish_check(burst, !burst->first);
}

static void check_segments(void *state)
{
    prepare_check(state);
    run_segments(state, 1);
    finish_check(state, true);
}

static void measure_burst(struct job *job, struct row row, struct operation operation,
                          bool distinct_tags)
{
    size_t total = row.bytes * (size_t)row.value;
    job_describe(job, row.benchmark, row.variant, row.bytes);
    if (total > (1u << 30))
        job_fail(job, "more than 1 GiB in flight is not supported by this benchmark");
    struct burst burst = {
        .job = job,
        .send_buffer = buffer_new(job, total),
        .receive_buffer = buffer_new(job, total),
        .requests = buffer_new(job, (size_t)row.value * sizeof(MPI_Request)),
        .count = (int)row.value,
        .bytes = (int)row.bytes,
        .distinct_tags = distinct_tags,
        .peer = 1 - job->rank,
        .first = job->rank == 0,
        .seed = (unsigned)row.value,
    };
    operation.state = &burst;
    operation.comm = job->pair;
    row.processes = 2;
    row.bytes_total = total;
    measure(job, &operation, 1, &row.timing);
    report_row(job, &row);
    free(burst.send_buffer);
    free(burst.receive_buffer);
    free(burst.requests);
}

void bench_rate(struct job *job)
{
    report_section(job, "rate",
                   "a window of messages in one direction, then an empty answer; time of all",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    struct list sizes = list_or_powers(&job->options.sizes, 8, 2, 8);
    struct operation operation = {.run = run_rate, .check = check_rate, .clock = CLOCK_FIRST,
                                  .share = 1.0};
    for (int i = 0; i < sizes.length; i++) {
        struct row row = {.benchmark = "rate", .bytes = (size_t)sizes.values[i],
                          .parameter = "window", .value = job->options.window,
                          .messages = job->options.window};
        measure_burst(job, row, operation, false);
    }
}

void bench_segments(struct job *job)
{
    report_section(job, "segments",
                   "K messages of distinct tags there, then back; time of one way for all K", true);
    if (job->pair == MPI_COMM_NULL)
        return;
    struct list sizes = list_or_powers(&job->options.sizes, 64, 16, 1024);
    struct list counts = list_or_powers(&job->options.segments, 1, 2, 64);
    struct operation operation = {.run = run_segments, .check = check_segments,
                                  .clock = CLOCK_FIRST, .share = 0.5};
    for (int i = 0; i < sizes.length; i++) {
        for (int k = 0; k < counts.length; k++) {
            char text[32];
            struct row row = {.benchmark = "segments", .bytes = (size_t)sizes.values[i],
                              .parameter = "segments", .value = counts.values[k],
                              .messages = counts.values[k]};
            snprintf(row.variant, sizeof row.variant, "of %s",
                     size_text(row.bytes, text, sizeof text));
            measure_burst(job, row, operation, true);
        }
    }
}
