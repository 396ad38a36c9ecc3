/* Two processes, bytes with gaps between them, beside the same number in a row. */
#include "bench.h"

#include <stdlib.h>

enum { TAG = 9, BLOCKS_MAX = 2 };

/* A message in memory, the same for the sender and the receiver: as MPI is told, and as bytes. */
struct layout {
    MPI_Datatype type;
    int count;                          /* of `type` in the message */
    size_t elements;                    /* a pattern of blocks, repeated so many times */
    size_t extent;                      /* bytes from one repetition to the next */
    int blocks;                         /* in one repetition */
    size_t offsets[BLOCKS_MAX];
    size_t lengths[BLOCKS_MAX];
};

struct transfer {
    const struct job *job;
    struct layout layout;
    char *send_buffer, *receive_buffer;
    size_t span;                        /* of the whole message, with its gaps */
    int peer;
    bool first;
    unsigned seed;
};

static const unsigned char GAP = 0xA5;

static void run_transfer(void *state, long iterations)
{
    const struct transfer *transfer = state;
    const struct layout *layout = &transfer->layout;
    for (long i = 0; i < iterations; i++) {
        if (transfer->first)
            MPI_Send(transfer->send_buffer, layout->count, layout->type, transfer->peer, TAG,
                     transfer->job->pair);
        MPI_Recv(transfer->receive_buffer, layout->count, layout->type, transfer->peer, TAG,
                 transfer->job->pair, MPI_STATUS_IGNORE);
        if (!transfer->first)
            MPI_Send(transfer->send_buffer, layout->count, layout->type, transfer->peer, TAG,
                     transfer->job->pair);
    }
}

/* The blocks hold the peer's pattern, the gaps are untouched. */
static void expect_layout(const struct transfer *transfer, unsigned seed)
{
    const struct layout *layout = &transfer->layout;
    size_t cursor = 0;
    for (size_t element = 0; element < layout->elements; element++) {
        for (int block = 0; block < layout->blocks; block++) {
            size_t start = element * layout->extent + layout->offsets[block];
            expect_constant(transfer->job, transfer->receive_buffer, cursor, start - cursor, GAP);
            pattern_expect_part(transfer->job, transfer->receive_buffer, start,
                                layout->lengths[block], seed);
            cursor = start + layout->lengths[block];
        }
    }
    expect_constant(transfer->job, transfer->receive_buffer, cursor, transfer->span - cursor, GAP);
}

static void check_transfer(void *state)
{
    struct transfer *transfer = state;
    pattern_fill(transfer->send_buffer, transfer->span,
                 transfer->seed + (unsigned)transfer->first);
    for (size_t i = 0; i < transfer->span; i++)
        transfer->receive_buffer[i] = (char)GAP;
    run_transfer(transfer, 1);
    expect_layout(transfer, transfer->seed + (unsigned)!transfer->first);
    transfer->seed += 2;
}

static struct transfer transfer_new(const struct job *job, struct layout layout)
{
    size_t span = layout.elements * layout.extent;
    return (struct transfer){
        .job = job,
        .layout = layout,
        .send_buffer = buffer_new(job, span),
        .receive_buffer = buffer_new(job, span),
        .span = span,
        .peer = 1 - job->rank,
        .first = job->rank == 0,
        .seed = 1,
    };
}

static void transfer_free(struct transfer *transfer)
{
    free(transfer->send_buffer);
    free(transfer->receive_buffer);
    if (transfer->layout.type != MPI_BYTE)
        MPI_Type_free(&transfer->layout.type);
}

/* Times `layout` and the same bytes in a row, in alternation, and reports both. */
static void measure_beside_contiguous(struct job *job, struct row row, struct layout layout,
                                      const char *contiguous_variant)
{
    struct layout contiguous = {.type = MPI_BYTE, .count = (int)row.bytes, .elements = 1,
                                .extent = row.bytes, .blocks = 1, .lengths = {row.bytes}};
    struct transfer transfers[2] = {transfer_new(job, contiguous), transfer_new(job, layout)};
    struct operation operations[2];
    struct timing timings[2] = {{0}};
    for (int i = 0; i < 2; i++)
        operations[i] = (struct operation){.run = run_transfer, .check = check_transfer,
                                           .state = &transfers[i], .comm = job->pair,
                                           .clock = CLOCK_FIRST, .share = 0.5};
    job_describe(job, row.benchmark, row.variant, row.bytes);
    measure(job, operations, 2, timings);
    row.processes = 2;
    row.bytes_total = row.bytes;
    struct row plain = row;
    snprintf(plain.variant, sizeof plain.variant, "%s", contiguous_variant);
    plain.timing = timings[0];
    report_row(job, &plain);
    row.timing = timings[1];
    row.twin = "contiguous";
    row.ratio = timings[0].min > 0 ? timings[1].min / timings[0].min : 0;
    report_row(job, &row);
    transfer_free(&transfers[0]);
    transfer_free(&transfers[1]);
}

/* A small and a large block, each followed by a gap of 64 bytes. */
static struct layout indexed_layout(int repeats)
{
    enum { SMALL = 64, LARGE = 256 * 1024, GAP_BYTES = 64 };
    int lengths[2] = {SMALL, LARGE};
    int offsets[2] = {0, SMALL + GAP_BYTES};
    MPI_Aint extent = SMALL + GAP_BYTES + LARGE + GAP_BYTES;
    MPI_Datatype indexed, type;
    MPI_Type_indexed(2, lengths, offsets, MPI_BYTE, &indexed);
    MPI_Type_create_resized(indexed, 0, extent, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&indexed);
    return (struct layout){.type = type, .count = repeats, .elements = (size_t)repeats,
                           .extent = (size_t)extent, .blocks = 2,
                           .offsets = {0, SMALL + GAP_BYTES}, .lengths = {SMALL, LARGE}};
}

void bench_indexed(struct job *job)
{
    report_section(job, "indexed",
                   "blocks of 64 B and 256 KiB in turn, beside contiguous bytes; time of one way",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    for (int repeats = 1; repeats <= 16; repeats *= 2) {
        struct row row = {.benchmark = "indexed", .variant = "indexed", .parameter = "repeats",
                          .value = repeats, .bytes = (size_t)repeats * (64 + 256 * 1024)};
        measure_beside_contiguous(job, row, indexed_layout(repeats), "contiguous");
    }
}

/* Blocks of `block` bytes, each followed by a gap of the same length. */
static struct layout vector_layout(size_t bytes, size_t block)
{
    size_t blocks = bytes / block;
    int ints = (int)(block / sizeof(int));
    MPI_Datatype type;
    MPI_Type_vector((int)blocks, ints, 2 * ints, MPI_INT, &type);
    MPI_Type_commit(&type);
    return (struct layout){.type = type, .count = 1, .elements = blocks, .extent = 2 * block,
                           .blocks = 1, .lengths = {block}};
}

void bench_vector(struct job *job)
{
    static const size_t block_sizes[] = {4, 8, 16, 64, 1024};
    report_section(job, "vector",
                   "strided blocks, half of the memory, beside contiguous bytes; time of one way",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    struct list sizes = list_or_powers(&job->options.sizes, 64L << 10, 16, 1L << 20);
    for (int i = 0; i < sizes.length; i++) {
        for (size_t k = 0; k < sizeof block_sizes / sizeof block_sizes[0]; k++) {
            size_t block = block_sizes[k], bytes = (size_t)sizes.values[i] / block * block;
            if (bytes == 0)
                continue;
            struct row row = {.benchmark = "vector", .parameter = "block_bytes",
                              .value = (long)block, .bytes = bytes};
            char contiguous[48];
            snprintf(row.variant, sizeof row.variant, "blocks of %zu B", block);
            snprintf(contiguous, sizeof contiguous, "contiguous, beside %zu B", block);
            measure_beside_contiguous(job, row, vector_layout(bytes, block), contiguous);
        }
    }
}
