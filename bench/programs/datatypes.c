/* Two processes, bytes with gaps between them, beside an equal number of contiguous bytes and
 * beside a program that packs them itself. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 9, BLOCKS_MAX = 2 };

/* Vectors that span more memory are left out. */
static const size_t SPAN_MAX = (size_t)64 << 20;

/* A message in memory, equal for the sender and the receiver: as arguments of MPI, and as bytes. */
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
    char *packed;                       /* where the program packs the message; NULL: it does not */
    size_t span;                        /* of the whole message, with its gaps */
    int peer;
    bool first;
    unsigned seed;
};

static const unsigned char GAP = 0xA5;

/* Copies `count` blocks from one constant stride to another, as a program does whose block length
 * is a compile-time constant. */
static void copy_blocks(char *restrict into, size_t into_stride, const char *restrict from,
                        size_t from_stride, size_t block, size_t count)
{
#define COPY_BLOCKS_OF(bytes)                                                                      \
    case bytes:                                                                                    \
        for (size_t i = 0; i < count; i++)                                                         \
            memcpy(into + i * into_stride, from + i * from_stride, bytes);                         \
        break;
    switch (block) {
        COPY_BLOCKS_OF(4)
        COPY_BLOCKS_OF(8)
        COPY_BLOCKS_OF(16)
        COPY_BLOCKS_OF(64)
        COPY_BLOCKS_OF(1024)
    default:
        for (size_t i = 0; i < count; i++)
            memcpy(into + i * into_stride, from + i * from_stride, block);
    }
#undef COPY_BLOCKS_OF
}

static void send_packed_by_hand(const struct transfer *transfer)
{
    const struct layout *layout = &transfer->layout;
    size_t block = layout->lengths[0];
    copy_blocks(transfer->packed, block, transfer->send_buffer, layout->extent, block,
                layout->elements);
    MPI_Send(transfer->packed, (int)(layout->elements * block), MPI_BYTE, transfer->peer, TAG,
             transfer->job->pair);
}

static void receive_and_unpack_by_hand(const struct transfer *transfer)
{
    const struct layout *layout = &transfer->layout;
    size_t block = layout->lengths[0];
    MPI_Recv(transfer->packed, (int)(layout->elements * block), MPI_BYTE, transfer->peer, TAG,
             transfer->job->pair, MPI_STATUS_IGNORE);
    copy_blocks(transfer->receive_buffer, layout->extent, transfer->packed, block, block,
                layout->elements);
}

static void run_packing_by_hand(void *state, long iterations)
{
    const struct transfer *transfer = state;
    for (long i = 0; i < iterations; i++) {
        if (transfer->first)
            send_packed_by_hand(transfer);
        receive_and_unpack_by_hand(transfer);
        if (!transfer->first)
            send_packed_by_hand(transfer);
    }
}

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
    if (transfer->packed)
        run_packing_by_hand(transfer, 1);
    else
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
    free(transfer->packed);
    if (transfer->layout.type != MPI_BYTE)
        MPI_Type_free(&transfer->layout.type);
}

static struct layout contiguous_layout(size_t bytes)
{
    return (struct layout){.type = MPI_BYTE, .count = (int)bytes, .elements = 1, .extent = bytes,
                           .blocks = 1, .lengths = {bytes}};
}

/* Times all transfers in alternation. */
static void measure_transfers(struct job *job, struct row *row, struct transfer *transfers,
                              int count, struct timing *timings)
{
    struct operation operations[OPERATIONS_TOGETHER];
    for (int i = 0; i < count; i++)
        operations[i] = (struct operation){
            .run = transfers[i].packed ? run_packing_by_hand : run_transfer,
            .check = check_transfer, .state = &transfers[i], .comm = job->pair,
            .clock = CLOCK_FIRST, .share = 0.5};
    job_describe(job, row->benchmark, row->variant, row->bytes);
    measure(job, operations, count, timings);
    row->processes = 2;
    row->bytes_total = row->bytes;
}

static void report_timing(struct job *job, struct row row, struct timing timing, const char *twin,
                          struct timing twin_timing)
{
    row.timing = timing;
    row.twin = twin;
    row.ratio = twin && twin_timing.min > 0 ? timing.min / twin_timing.min : 0;
    report_row(job, &row);
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
        struct transfer transfers[2] = {transfer_new(job, contiguous_layout(row.bytes)),
                                        transfer_new(job, indexed_layout(repeats))};
        struct timing timings[2] = {{0}};
        measure_transfers(job, &row, transfers, 2, timings);
        struct row plain = row;
        snprintf(plain.variant, sizeof plain.variant, "contiguous");
        report_timing(job, plain, timings[0], NULL, timings[0]);
        report_timing(job, row, timings[1], "contiguous", timings[0]);
        transfer_free(&transfers[0]);
        transfer_free(&transfers[1]);
    }
}

/* Blocks of `block` bytes, the next one begins `stride` blocks later. */
static struct layout vector_layout(size_t bytes, size_t block, size_t stride)
{
    size_t blocks = bytes / block;
    int ints = (int)(block / sizeof(int));
    MPI_Datatype type;
    MPI_Type_vector((int)blocks, ints, (int)stride * ints, MPI_INT, &type);
    MPI_Type_commit(&type);
    return (struct layout){.type = type, .count = 1, .elements = blocks, .extent = stride * block,
                           .blocks = 1, .lengths = {block}};
}

/* A vector, as many contiguous bytes, and the vector packed and unpacked by the program. */
static void measure_vector(struct job *job, size_t bytes, size_t block, size_t stride)
{
    char place[28], stride_text[16] = "";
    if (stride > 2)
        snprintf(stride_text, sizeof stride_text, ", stride %u", (unsigned)stride);
    snprintf(place, sizeof place, "%u B%s", (unsigned)block, stride_text);
    struct row row = {.benchmark = "vector", .parameter = "block_bytes", .value = (long)block,
                      .bytes = bytes};
    snprintf(row.variant, sizeof row.variant, "blocks of %s", place);
    struct transfer transfers[3] = {transfer_new(job, contiguous_layout(bytes)),
                                    transfer_new(job, vector_layout(bytes, block, stride)),
                                    transfer_new(job, vector_layout(bytes, block, stride))};
    transfers[2].packed = buffer_new(job, bytes);
    struct timing timings[3] = {{0}};
    measure_transfers(job, &row, transfers, 3, timings);
    struct row plain = row, by_hand = row;
    snprintf(plain.variant, sizeof plain.variant, "in a row, beside %s", place);
    snprintf(by_hand.variant, sizeof by_hand.variant, "by hand, %s", place);
    report_timing(job, plain, timings[0], NULL, timings[0]);
    report_timing(job, by_hand, timings[2], "in a row", timings[0]);
    report_timing(job, row, timings[1], "by hand", timings[2]);
    for (int i = 0; i < 3; i++)
        transfer_free(&transfers[i]);
}

void bench_vector(struct job *job)
{
    static const struct { size_t block, stride; } shapes[] = {
        {4, 2}, {8, 2}, {16, 2}, {64, 2}, {1024, 2}, {8, 256}};
    report_section(job, "vector",
                   "strided blocks, beside bytes in a row and packing by hand; time of one way",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    struct list sizes = list_or_powers(&job->options.sizes, 4L << 10, 16, 1L << 20);
    for (int i = 0; i < sizes.length; i++) {
        for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
            size_t block = shapes[k].block, bytes = (size_t)sizes.values[i] / block * block;
            if (bytes > 0 && bytes * shapes[k].stride <= SPAN_MAX)
                measure_vector(job, bytes, block, shapes[k].stride);
        }
    }
}
