/* Two processes, many short segments: as one packed message of combray.h, and as messages of MPI. */
#include "bench.h"

#include <stdlib.h>

#if defined __has_include
#if __has_include(<combray.h>)
#include <combray.h>
#define HAS_PACKED_MESSAGES 1
#endif
#endif

#ifdef HAS_PACKED_MESSAGES

enum { TAG_FIRST = 10 };

/* `count` segments of `bytes` each, which stand in a row in both buffers. */
struct segments {
    const struct job *job;
    char *send_buffer, *receive_buffer;
    MPI_Request *requests;
    int count;
    int bytes;
    int mode;
    int peer;
    bool first;
    unsigned seed;
};

static void send_packed(const struct segments *segments)
{
    combray_message message;
    combray_begin(segments->job->pair, segments->peer, TAG_FIRST, &message);
    for (int i = 0; i < segments->count; i++)
        combray_pack(message, segments->send_buffer + (size_t)i * (size_t)segments->bytes,
                     (size_t)segments->bytes, segments->mode);
    combray_end(&message, NULL);
}

static void receive_packed(const struct segments *segments)
{
    combray_message message;
    combray_begin_unpack(segments->job->pair, segments->peer, TAG_FIRST, &message);
    for (int i = 0; i < segments->count; i++)
        combray_unpack(message, segments->receive_buffer + (size_t)i * (size_t)segments->bytes,
                       (size_t)segments->bytes, segments->mode);
    combray_end_unpack(&message, NULL, MPI_STATUS_IGNORE);
}

static void send_each(const struct segments *segments)
{
    for (int i = 0; i < segments->count; i++)
        MPI_Isend(segments->send_buffer + (size_t)i * (size_t)segments->bytes, segments->bytes,
                  MPI_BYTE, segments->peer, TAG_FIRST + i, segments->job->pair,
                  &segments->requests[i]);
    MPI_Waitall(segments->count, segments->requests, MPI_STATUSES_IGNORE);
}

static void receive_each(const struct segments *segments)
{
    for (int i = 0; i < segments->count; i++)
        MPI_Irecv(segments->receive_buffer + (size_t)i * (size_t)segments->bytes, segments->bytes,
                  MPI_BYTE, segments->peer, TAG_FIRST + i, segments->job->pair,
                  &segments->requests[i]);
    MPI_Waitall(segments->count, segments->requests, MPI_STATUSES_IGNORE);
}

static void run_packed(void *state, long iterations)
{
    const struct segments *segments = state;
    for (long i = 0; i < iterations; i++) {
        if (segments->first)
            send_packed(segments);
        receive_packed(segments);
        if (!segments->first)
            send_packed(segments);
    }
}

static void run_each(void *state, long iterations)
{
    const struct segments *segments = state;
    for (long i = 0; i < iterations; i++) {
        if (segments->first)
            send_each(segments);
        receive_each(segments);
        if (!segments->first)
            send_each(segments);
    }
}

static void check_with(struct segments *segments, void (*run)(void *, long))
{
    size_t total = (size_t)segments->count * (size_t)segments->bytes;
    pattern_fill(segments->send_buffer, total, segments->seed + (unsigned)segments->first);
    pattern_fill(segments->receive_buffer, total, segments->seed + 100);
    run(segments, 1);
    pattern_expect(segments->job, segments->receive_buffer, total,
                   segments->seed + (unsigned)!segments->first);
    segments->seed += 2;
}

static void check_packed(void *state)
{
    check_with(state, run_packed);
}

static void check_each(void *state)
{
    check_with(state, run_each);
}

static void measure_segments(struct job *job, int count, size_t bytes)
{
    size_t total = bytes * (size_t)count;
    struct segments segments = {
        .job = job,
        .send_buffer = buffer_new(job, total),
        .receive_buffer = buffer_new(job, total),
        .requests = buffer_new(job, (size_t)count * sizeof(MPI_Request)),
        .count = count,
        .bytes = (int)bytes,
        .mode = COMBRAY_CHEAPER,
        .peer = 1 - job->rank,
        .first = job->rank == 0,
        .seed = (unsigned)count,
    };
    struct segments express = segments;
    express.mode = COMBRAY_EXPRESS;
    struct operation operations[3] = {
        {.run = run_each, .check = check_each, .state = &segments},
        {.run = run_packed, .check = check_packed, .state = &segments},
        {.run = run_packed, .check = check_packed, .state = &express},
    };
    static const char *const names[3] = {"Isends", "cheaper", "express"};
    struct timing timings[3] = {{0}};
    char text[32];
    for (int i = 0; i < 3; i++) {
        operations[i].comm = job->pair;
        operations[i].clock = CLOCK_FIRST;
        operations[i].share = 0.5;
    }
    job_describe(job, "packed", "", bytes);
    measure(job, operations, 3, timings);
    for (int i = 0; i < 3; i++) {
        struct row row = {.benchmark = "packed", .processes = 2, .bytes = bytes,
                          .bytes_total = total, .parameter = "segments", .value = count,
                          .timing = timings[i]};
        snprintf(row.variant, sizeof row.variant, "%s of %s", names[i],
                 size_text(bytes, text, sizeof text));
        if (i > 0 && timings[0].min > 0) {
            row.twin = "Isends";
            row.ratio = timings[i].min / timings[0].min;
        }
        report_row(job, &row);
    }
    free(segments.send_buffer);
    free(segments.receive_buffer);
    free(segments.requests);
}

void bench_packed(struct job *job)
{
    report_section(job, "packed",
                   "K segments there and back, as one packed message or as K Isends; time of one way",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    struct list sizes = list_or_powers(&job->options.sizes, 4, 256, 1024);
    struct list counts = list_or_powers(&job->options.segments, 1, 4, 64);
    for (int i = 0; i < sizes.length; i++)
        for (int k = 0; k < counts.length; k++) {
            if ((size_t)sizes.values[i] * (size_t)counts.values[k] > (1u << 30))
                job_fail(job, "more than 1 GiB in flight is not supported by this benchmark");
            measure_segments(job, (int)counts.values[k], (size_t)sizes.values[i]);
        }
}

#else

void bench_packed(struct job *job)
{
    report_note(job, "packed left out: this library has no combray.h");
}

#endif
