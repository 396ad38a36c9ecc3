/*
 * What any library could reach at this moment: messages between two processes whose memory is
 * their own, moved by nothing but stores, loads and system calls.
 *
 * One way, as in a ping-pong:
 *   cells    the sender copies into shared memory and the receiver out of it.  A message takes one
 *            or several parts; while the receiver copies one, the sender copies the next.  A
 *            returned cell is memory out of which a process reads a message and into which it then
 *            writes its answer; otherwise each direction has a ring of cells.
 *   fetch    the receiver has the kernel copy (process_vm_readv)
 *   jointly  the kernel copies one half for each process
 * In both directions at once, as in a ping-ping:
 *   both cells, both fetch
 *
 * The shapes of the cells are tried with memcpy first, and the other kernels with the best two.  How
 * long a cache line needs from one core to the other is measured beside each size: all times depend
 * on it, and on a virtual machine it changes.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    LINE = 64,
    SHORT_MAX = 512,            /* up to here the data directly follows the flag */
    BATCHES = 4,
    ROUNDS = 3,                 /* of all ways, so that a disturbance spoils none of them */
    BYTES_MAX = 8 << 20,
    SHAPES_MAX = 16,
    RING_BYTES_MAX = 4 << 20,
};
static const double BATCH_SECONDS = 2.5e-4;

/* ---- kernels ---- */

typedef void kernel(char *into, const char *from, size_t bytes);

static void copy_plain(char *into, const char *from, size_t bytes)
{
    memcpy(into, from, bytes);
}

#ifdef __x86_64__
#include <emmintrin.h>

static void copy_rep(char *into, const char *from, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(into), "+S"(from), "+c"(bytes) : : "memory");
}

static void copy_past_caches(char *into, const char *from, size_t bytes)
{
    size_t whole = (uintptr_t)into % 16 == 0 ? bytes / 16 * 16 : 0;
    for (size_t i = 0; i < whole; i += 16)
        _mm_stream_si128((__m128i *)(void *)(into + i),
                         _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    memcpy(into + whole, from + whole, bytes - whole);
    _mm_sfence();
}

/* With a hint that another core will use the lines (cldemote; nothing on other processors). */
static void copy_demoting(char *into, const char *from, size_t bytes)
{
    memcpy(into, from, bytes);
    for (size_t i = 0; i < bytes; i += LINE)
        __asm__ volatile(".byte 0x0f, 0x1c, 0x07" : : "D"(into + i) : "memory");
}
#endif

static const struct {
    const char *name;
    kernel *copy;
} kernels[] = {
    {"memcpy", copy_plain},
#ifdef __x86_64__
    {"rep movsb", copy_rep},
    {"past caches", copy_past_caches},
    {"demoting", copy_demoting},
#endif
};

enum { KERNELS = sizeof kernels / sizeof kernels[0] };

/* ---- both processes ---- */

/* Shared; each counter has lines of its own. */
struct course {
    _Alignas(128) atomic_long arrived[2];
    _Alignas(128) atomic_long begun;
    _Alignas(128) atomic_long ended;
    _Alignas(128) atomic_long ball;
    _Alignas(128) atomic_bool failed;
    struct {
        _Alignas(128) atomic_long emptied;
    } rings[2];                 /* the last part that was copied out, of each side's messages */
};

/* How messages go through shared memory. */
struct shape {
    size_t part_bytes;
    long cells;                 /* of each direction; 0: one cell, which is returned */
};

struct side {
    int number;                 /* 0 leads and keeps the time, 1 follows */
    struct course *course;
    char *cells[2];             /* for each side's messages */
    char *sent, *received;
    char *others_sent, *others_received; /* addresses in the other process */
    pid_t other;
    long lap, arrivals;
    long parts[2];              /* of each side's messages so far */
    size_t bytes;
    struct shape shape;
    int sending, receiving;     /* kernels */
    bool both;                  /* both sides send at the same time */
};

/* Yields now and then, where a core is shared. */
static void await(atomic_long *counter, long value)
{
    for (int spins = 1; atomic_load_explicit(counter, memory_order_acquire) < value; spins++)
        if (spins % 100000 == 0)
            sched_yield();
}

static void publish(atomic_long *counter, long value)
{
    atomic_store_explicit(counter, value, memory_order_release);
}

static void meet(struct side *side)
{
    side->arrivals++;
    publish(&side->course->arrived[side->number], side->arrivals);
    await(&side->course->arrived[1 - side->number], side->arrivals);
}

/* ---- ways ---- */

static size_t ring_bytes(const struct side *side)
{
    return side->shape.part_bytes * (size_t)side->shape.cells;
}

/* The next part of a message of `from`, whose bytes begin at `first`. The flag before a cell's data
   is the number of the part, which is never used again. */
static void pass_part(struct side *side, int from, size_t first)
{
    const struct shape *shape = &side->shape;
    size_t left = side->bytes - first;
    size_t length = left < shape->part_bytes ? left : shape->part_bytes;
    bool returned = shape->cells == 0;
    long part = ++side->parts[returned ? 0 : from];
    size_t index = returned ? first / shape->part_bytes : (size_t)(part % shape->cells);
    size_t gap = shape->part_bytes <= SHORT_MAX ? sizeof(atomic_long) : LINE;
    size_t stride = (shape->part_bytes + gap + LINE - 1) / LINE * LINE;
    char *cell = side->cells[returned ? 0 : from] + index * stride;
    atomic_long *flag = (atomic_long *)(void *)cell;
    atomic_long *emptied = &side->course->rings[from].emptied;
    /* Where both send, a part is written after the other side has copied the last part but one. */
    bool wraps = !returned && !side->both && side->bytes > ring_bytes(side);
    if (side->number == from) {
        if (wraps)
            await(emptied, part - shape->cells);
        kernels[side->sending].copy(cell + gap, side->sent + first, length);
        publish(flag, part);
        return;
    }
    for (int spins = 1; atomic_load_explicit(flag, memory_order_acquire) != part; spins++)
        if (spins % 100000 == 0)
            sched_yield();
    kernels[side->receiving].copy(side->received + first, cell + gap, length);
    if (wraps)
        publish(emptied, part);
}

static void through_cells(struct side *side, int from)
{
    for (size_t first = 0; first < side->bytes; first += side->shape.part_bytes)
        pass_part(side, from, first);
}

static void both_through_cells(struct side *side, int from)
{
    (void)from;
    for (size_t first = 0; first < side->bytes; first += side->shape.part_bytes) {
        pass_part(side, side->number, first);
        pass_part(side, 1 - side->number, first);
    }
}

static void by_kernel(struct side *side, bool reads, size_t first, size_t bytes)
{
    struct iovec here = {.iov_base = (reads ? side->received : side->sent) + first,
                         .iov_len = bytes};
    struct iovec there = {.iov_base = (reads ? side->others_sent : side->others_received) + first,
                          .iov_len = bytes};
    ssize_t done = reads ? process_vm_readv(side->other, &here, 1, &there, 1, 0)
                         : process_vm_writev(side->other, &here, 1, &there, 1, 0);
    if (done != (ssize_t)bytes)
        atomic_store(&side->course->failed, true);
}

/* The sender needs no notice: the answer is one. */
static void fetched(struct side *side, int from)
{
    if (side->number == from) {
        publish(&side->course->begun, side->lap);
    } else {
        await(&side->course->begun, side->lap);
        by_kernel(side, true, 0, side->bytes);
    }
}

static void jointly(struct side *side, int from)
{
    size_t half = side->bytes / 2;
    if (side->number == from) {
        publish(&side->course->begun, side->lap);
        by_kernel(side, false, half, side->bytes - half);
        publish(&side->course->ended, side->lap);
    } else {
        await(&side->course->begun, side->lap);
        by_kernel(side, true, 0, half);
        await(&side->course->ended, side->lap);
    }
}

static void both_fetched(struct side *side, int from)
{
    (void)from;
    meet(side);
    by_kernel(side, true, 0, side->bytes);
}

enum way { CELLS, FETCH, JOINTLY, BOTH_CELLS, BOTH_FETCH, WAYS };

static const struct {
    const char *name;
    void (*move)(struct side *, int from);
    bool has_cells, is_both;
} ways[WAYS] = {
    [CELLS] = {"cells", through_cells, true, false},
    [FETCH] = {"fetch", fetched, false, false},
    [JOINTLY] = {"jointly", jointly, false, false},
    [BOTH_CELLS] = {"both cells", both_through_cells, true, true},
    [BOTH_FETCH] = {"both fetch", both_fetched, false, true},
};

/* ---- measuring ---- */

/* An even, fixed number of laps, equal on both sides: as many as fill a batch at 8 GB/s. */
static long laps_of_batch(size_t bytes)
{
    long pairs = (long)(BATCH_SECONDS / ((double)bytes / 8e9 + 0.3e-6) / 2);
    return 2 * (pairs < 2 ? 2 : pairs);
}

/* Returns the best time of a message in seconds, the same on both sides. */
static double time_way(struct side *side, enum way way, MPI_Comm pair)
{
    long laps = laps_of_batch(side->bytes);
    side->both = ways[way].is_both;
    double best = 1e9;
    meet(side);
    publish(&side->course->rings[1 - side->number].emptied, side->parts[1 - side->number]);
    meet(side);
    for (int batch = 0; batch <= BATCHES; batch++) {
        double start = MPI_Wtime();
        for (long i = 0; i < laps; i++) {
            side->lap++;
            ways[way].move(side, (int)(i % 2));
        }
        double seconds = (MPI_Wtime() - start) / (double)laps;
        /* The first batch brings the memory into the state of the others. */
        best = batch > 0 && seconds < best ? seconds : best;
    }
    MPI_Bcast(&best, 1, MPI_DOUBLE, 0, pair);
    return best;
}

static double crossing_seconds(struct side *side)
{
    enum { ROUND_TRIPS = 400 };
    double best = 1;
    atomic_long *ball = &side->course->ball;
    for (int batch = 0; batch < BATCHES; batch++) {
        meet(side);
        if (side->number == 0)
            publish(ball, 0);
        meet(side);
        double start = MPI_Wtime();
        for (long i = 0; i < ROUND_TRIPS; i++) {
            await(ball, 2 * i + side->number);
            publish(ball, 2 * i + side->number + 1);
        }
        double seconds = (MPI_Wtime() - start) / (2 * ROUND_TRIPS);
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* All shapes that are tried for messages of this length; returns their number. */
static int shapes_of(size_t bytes, bool both, struct shape *shapes)
{
    static const struct shape rings[] = {{8 << 10, 4},   {8 << 10, 16},  {32 << 10, 2},
                                         {32 << 10, 8},  {32 << 10, 32}, {128 << 10, 4},
                                         {128 << 10, 16}};
    int count = 0;
    for (size_t parts = 1; !both && parts <= 8; parts *= 2)
        if (parts == 1 || bytes / parts >= 2 << 10)
            shapes[count++] = (struct shape){(bytes + parts - 1) / parts, 0};
    for (long cells = both ? 2 : 1; cells <= 4; cells *= both ? 2 : 4)
        if (bytes * (size_t)cells <= RING_BYTES_MAX)
            shapes[count++] = (struct shape){bytes, cells};
    for (size_t i = 0; i < sizeof rings / sizeof rings[0]; i++)
        if (rings[i].part_bytes < bytes)
            shapes[count++] = rings[i];
    return count;
}

/* The best time of a way with cells; what it was reached with is left in `side`. */
static double time_cells(struct side *side, enum way way, MPI_Comm pair)
{
    struct shape shapes[SHAPES_MAX], best_two[2] = {0};
    double best[2] = {1e9, 1e9};
    int count = shapes_of(side->bytes, ways[way].is_both, shapes);
    side->sending = side->receiving = 0;
    for (int i = 0; i < count; i++) {
        side->shape = shapes[i];
        double seconds = time_way(side, way, pair);
        int place = seconds < best[0] ? 0 : 1;
        if (seconds >= best[place])
            continue;
        if (place == 0)
            best[1] = best[0], best_two[1] = best_two[0];
        best[place] = seconds, best_two[place] = shapes[i];
    }
    struct side found = *side;
    found.shape = best_two[0];
    double least = best[0];
    for (int i = 0; i < (count > 1 ? 2 : 1); i++)
        for (int sending = 0; sending < KERNELS; sending++)
            for (int receiving = 0; receiving < (KERNELS > 1 ? 2 : 1); receiving++) {
                side->shape = best_two[i], side->sending = sending, side->receiving = receiving;
                double seconds = time_way(side, way, pair);
                if (seconds < least)
                    least = seconds, found.shape = best_two[i], found.sending = sending,
                    found.receiving = receiving;
            }
    side->shape = found.shape, side->sending = found.sending, side->receiving = found.receiving;
    return least;
}

static void describe_cells(const struct side *side, char *text, size_t text_size)
{
    char part[32];
    size_text(side->shape.part_bytes, part, sizeof part);
    size_t parts = (side->bytes + side->shape.part_bytes - 1) / side->shape.part_bytes;
    int used = side->shape.cells == 0
                   ? snprintf(text, text_size, "returned cell, %zu part%s of %s", parts,
                              parts == 1 ? "" : "s", part)
                   : snprintf(text, text_size, "%ld cell%s of %s", side->shape.cells,
                              side->shape.cells == 1 ? "" : "s", part);
    snprintf(text + used, text_size - (size_t)used, ", %s and %s", kernels[side->sending].name,
             kernels[side->receiving].name);
}

/* Whether the kernel refused to copy; both sides get the same answer. */
static bool has_failed(struct side *side)
{
    meet(side);
    bool failed = atomic_load(&side->course->failed);
    meet(side);
    if (side->number == 0)
        atomic_store(&side->course->failed, false);
    meet(side);
    return failed;
}

static void measure_size(struct job *job, struct side *side)
{
    double crossing = crossing_seconds(side), best[WAYS];
    char how[WAYS][96] = {""};
    for (enum way way = CELLS; way < WAYS; way++)
        best[way] = 1e9;
    for (int round = 0; round < ROUNDS; round++)
        for (enum way way = CELLS; way < WAYS; way++) {
            double seconds = ways[way].has_cells ? time_cells(side, way, job->pair)
                                                 : time_way(side, way, job->pair);
            if (has_failed(side) || seconds >= best[way])
                continue;
            best[way] = seconds;
            if (ways[way].has_cells)
                describe_cells(side, how[way], sizeof how[way]);
        }
    for (enum way way = CELLS; way < WAYS; way++)
        if (best[way] < 1e9)
            report_limit(job, ways[way].name, side->bytes, best[way], how[way], crossing);
}

/* Memory of both processes: the course, then the cells of each side. */
static void share_memory(struct job *job, struct side *side, MPI_Win *window)
{
    /* Each part has a line for its flag, and a message in a returned cell has up to eight. */
    size_t cells_bytes = BYTES_MAX + 64 * 2 * LINE;
    size_t course_bytes = (sizeof(struct course) + 128) / 4096 * 4096 + 4096;
    MPI_Aint bytes = job->rank == 0 ? (MPI_Aint)(course_bytes + 2 * cells_bytes) : 0;
    char *own, *memory;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, job->pair, &own, window);
    MPI_Win_shared_query(*window, 0, &bytes, &unit, &memory);
    if (job->rank == 0)
        memset(memory, 0, course_bytes + 2 * cells_bytes);
    side->course = (struct course *)(((uintptr_t)memory + 127) / 128 * 128);
    for (int i = 0; i < 2; i++)
        side->cells[i] = memory + course_bytes + (size_t)i * cells_bytes;
    MPI_Barrier(job->pair);
}

static void exchange_addresses(struct job *job, struct side *side)
{
    /* Where only descendants may be read, this process may be read all the same. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    long long own[3] = {getpid(), (intptr_t)side->sent, (intptr_t)side->received}, others[3];
    MPI_Sendrecv(own, 3, MPI_LONG_LONG, 1 - job->rank, 1, others, 3, MPI_LONG_LONG, 1 - job->rank,
                 1, job->pair, MPI_STATUS_IGNORE);
    side->other = (pid_t)others[0];
    side->others_sent = (char *)(intptr_t)others[1];
    side->others_received = (char *)(intptr_t)others[2];
}

static bool are_on_one_machine(MPI_Comm pair)
{
    MPI_Comm machine;
    int size;
    MPI_Comm_split_type(pair, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &size);
    MPI_Comm_free(&machine);
    return size == 2;
}

void bench_limits(struct job *job)
{
    static const struct list none;
    struct list sizes = job->options.sizes;
    if (job->pair == MPI_COMM_NULL)
        return;
    if (!are_on_one_machine(job->pair)) {
        report_note(job, "limits left out: its two processes must share memory");
        return;
    }
    report_section(job, "limits", "what any library could reach at this moment, without MPI", true);
    if (sizes.length == 0) {
        sizes = list_or_powers(&none, 1 << 10, 2, BYTES_MAX);
        for (int i = sizes.length++; i > 0; i--)
            sizes.values[i] = sizes.values[i - 1];
        sizes.values[0] = 8;
    }
    job_describe(job, "limits", "", BYTES_MAX);
    struct side side = {.number = job->rank,
                        .sent = buffer_new(job, BYTES_MAX),
                        .received = buffer_new(job, BYTES_MAX)};
    MPI_Win window;
    share_memory(job, &side, &window);
    exchange_addresses(job, &side);
    for (int i = 0; i < sizes.length; i++) {
        side.bytes = (size_t)sizes.values[i];
        job_describe(job, "limits", "", side.bytes);
        if (side.bytes < 1 || side.bytes > BYTES_MAX)
            job_fail(job, "limits measures messages of 1 B to 8 MiB");
        measure_size(job, &side);
    }
    MPI_Win_free(&window);
    free(side.sent);
    free(side.received);
}
