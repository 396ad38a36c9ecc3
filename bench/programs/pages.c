/* Two processes, one with memory that the other fetches by pages, as distributed shared memory
   does. */
#include "bench.h"

#include <stdlib.h>

enum { TAG_REQUEST = 20, TAG_PAGE = 40, REQUEST_BYTES = 16, REQUESTS_MAX = 16 };

struct server {
    const struct job *job;
    char *pages;                    /* all of them in a row, on both sides */
    char asked[REQUESTS_MAX][REQUEST_BYTES];
    int count;
    int bytes;                      /* of a page */
    int peer;
    bool asks;
    unsigned seed;
};

static char *page_of(const struct server *server, int index)
{
    return server->pages + (size_t)index * (size_t)server->bytes;
}

/* All requests at once; the pages may come in any order. */
static void ask(struct server *server)
{
    MPI_Request requests[2 * REQUESTS_MAX];
    int count = 0;
    for (int i = 0; i < server->count; i++)
        MPI_Irecv(page_of(server, i), server->bytes, MPI_BYTE, server->peer, TAG_PAGE + i,
                  server->job->pair, &requests[count++]);
    for (int i = 0; i < server->count; i++)
        MPI_Isend(server->asked[i], REQUEST_BYTES, MPI_BYTE, server->peer, TAG_REQUEST + i,
                  server->job->pair, &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

/* Each request is answered as soon as it is there. */
static void serve(struct server *server)
{
    MPI_Request requests[REQUESTS_MAX], answers[REQUESTS_MAX];
    for (int i = 0; i < server->count; i++)
        MPI_Irecv(server->asked[i], REQUEST_BYTES, MPI_BYTE, server->peer, TAG_REQUEST + i,
                  server->job->pair, &requests[i]);
    for (int served = 0; served < server->count; served++) {
        int index;
        MPI_Waitany(server->count, requests, &index, MPI_STATUS_IGNORE);
        MPI_Isend(page_of(server, index), server->bytes, MPI_BYTE, server->peer, TAG_PAGE + index,
                  server->job->pair, &answers[index]);
    }
    MPI_Waitall(server->count, answers, MPI_STATUSES_IGNORE);
}

static void run_pages(void *state, long iterations)
{
    struct server *server = state;
    for (long i = 0; i < iterations; i++) {
        if (server->asks)
            ask(server);
        else
            serve(server);
    }
}

static void check_pages(void *state)
{
    struct server *server = state;
    size_t total = (size_t)server->count * (size_t)server->bytes;
    pattern_fill(server->pages, total, server->seed + (unsigned)server->asks);
    run_pages(server, 1);
    if (server->asks)
        pattern_expect(server->job, server->pages, total, server->seed);
    server->seed += 2;
}

void bench_pages(struct job *job)
{
    report_section(job, "pages", "three requests at once, each answered by a page; time of all",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    static const int requests = 3;
    struct list sizes = list_or_powers(&job->options.sizes, 8L << 10, 8, 64L << 10);
    for (int i = 0; i < sizes.length; i++) {
        size_t bytes = (size_t)sizes.values[i], total = bytes * (size_t)requests;
        job_describe(job, "pages", "", bytes);
        if (total > (1u << 30))
            job_fail(job, "more than 1 GiB in flight is not supported by this benchmark");
        struct server server = {.job = job, .pages = buffer_new(job, total), .count = requests,
                                .bytes = (int)bytes, .peer = 1 - job->rank,
                                .asks = job->rank == 0, .seed = (unsigned)bytes};
        struct operation operation = {.run = run_pages, .check = check_pages, .state = &server,
                                      .comm = job->pair, .clock = CLOCK_FIRST, .share = 1.0};
        struct row row = {.benchmark = "pages", .processes = 2, .bytes = bytes,
                          .bytes_total = total, .parameter = "requests", .value = requests};
        measure(job, &operation, 1, &row.timing);
        report_row(job, &row);
        free(server.pages);
    }
}
