/*
 * What two cores can do for messages inside one machine, without any library: how long a message
 * takes that one core copies (`copy`), that the kernel copies out of another process (`fetch`),
 * and of which each core concurrently copies or fetches a half (`halves`, `fetched halves`); and,
 * where two messages go in opposite directions at once, both cores copying (`each`) or fetching
 * (`each fetching`) one.  A `cell` is memory out of which a core reads a message, and into which it
 * then writes its answer; the message is copied whole, or in parts that the other core reads while
 * the next is being written, whatever is fastest.  bench/compare shows the libraries' figures
 * beside them.
 *
 * Usage: limits CORE CORE SIZE...; prints a line of JSON for each size and way: the best of many
 * short batches, in microseconds for one message, or for two in opposite directions.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 25, PIECE = 32 * 1024, PIECES = 32, PART_MIN = 4 * 1024 };
static const double BATCH_SECONDS = 5e-4;

enum way { COPY, FETCH, HALVES, FETCHED_HALVES, RING, CELL, EACH_FETCHING, TWO_RINGS, WAYS };
static const char *const names[WAYS] = {"copy", "fetch", "halves", "fetched halves", "ring",
                                        "cell", "each fetching", "two rings"};

/* Shared by both processes. A lap is one message; each process publishes the last lap that it began
   or ended. */
struct course {
    _Alignas(128) atomic_long begun;
    _Alignas(128) atomic_long ended;
    _Alignas(128) atomic_bool failed;
    struct {
        _Alignas(128) atomic_long filled;
        _Alignas(128) atomic_long emptied;
    } rings[2];                 /* pieces so far, by each side's messages */
    _Alignas(128) atomic_long in_cell; /* parts so far, of both sides' messages */
};

struct side {
    int number;                 /* 0 leads and keeps the time, 1 follows */
    struct course *course;
    char *sent[2];              /* by each side; everywhere at the same address */
    char *received[2];
    char *ring[2];
    long pieces[2];             /* that went through each ring */
    char *cell;
    long parts;                 /* that went through the cell */
    size_t part_bytes;
    pid_t other;
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void bind_to(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        perror("limits: cannot bind to core");
        exit(1);
    }
}

/* Yields now and then, where a core is shared. */
static void await(atomic_long *counter, long value)
{
    for (int spins = 1; atomic_load_explicit(counter, memory_order_acquire) < value; spins++)
        if (spins % 100000 == 0)
            sched_yield();
}

/* Bytes [first, first + bytes) of what `from` sent, by the kernel, as if the memory were not shared. */
static void fetch(struct side *side, int from, size_t first, size_t bytes)
{
    struct iovec here = {.iov_base = side->received[1 - from] + first, .iov_len = bytes};
    struct iovec there = {.iov_base = side->sent[from] + first, .iov_len = bytes};
    if (process_vm_readv(side->other, &here, 1, &there, 1, 0) != (ssize_t)bytes)
        atomic_store(&side->course->failed, true);
}

static void copy(struct side *side, int from, size_t first, size_t bytes)
{
    memcpy(side->received[1 - from] + first, side->sent[from] + first, bytes);
}

/* A piece of a message of `from` through its ring: that side fills it, the other empties it. */
static void pass_piece(struct side *side, int from, size_t first, size_t bytes)
{
    atomic_long *filled = &side->course->rings[from].filled;
    atomic_long *emptied = &side->course->rings[from].emptied;
    size_t length = bytes - first < PIECE ? bytes - first : PIECE;
    long piece = side->pieces[from]++;
    char *place = side->ring[from] + (size_t)(piece % PIECES) * PIECE;
    if (side->number == from) {
        await(emptied, piece - PIECES + 1);
        memcpy(place, side->sent[from] + first, length);
        atomic_store_explicit(filled, piece + 1, memory_order_release);
    } else {
        await(filled, piece + 1);
        memcpy(side->received[1 - from] + first, place, length);
        atomic_store_explicit(emptied, piece + 1, memory_order_release);
    }
}

static void pass(struct side *side, int from, size_t bytes)
{
    for (size_t first = 0; first < bytes; first += PIECE)
        pass_piece(side, from, first, bytes);
}

/* A message of `from` through the cell. The next message, in the other direction, begins after this
   side has read all of it, so nothing else keeps the sides apart. */
static void pass_in_cell(struct side *side, int from, size_t bytes)
{
    atomic_long *written = &side->course->in_cell;
    for (size_t first = 0; first < bytes; first += side->part_bytes) {
        size_t length = bytes - first < side->part_bytes ? bytes - first : side->part_bytes;
        side->parts++;
        if (side->number == from) {
            memcpy(side->cell + first, side->sent[from] + first, length);
            atomic_store_explicit(written, side->parts, memory_order_release);
        } else {
            await(written, side->parts);
            memcpy(side->received[1 - from] + first, side->cell + first, length);
        }
    }
}

static void pass_both(struct side *side, size_t bytes)
{
    for (size_t first = 0; first < bytes; first += PIECE) {
        pass_piece(side, side->number, first, bytes);
        pass_piece(side, 1 - side->number, first, bytes);
    }
}

/* What this side does for message `lap`, which side `lap % 2` sends. */
static void work(struct side *side, enum way way, size_t bytes, long lap)
{
    int from = (int)(lap % 2);
    size_t half = bytes / 2;
    switch (way) {
    case COPY: copy(side, 1, 0, bytes); break;
    case FETCH: fetch(side, 1, 0, bytes); break;
    case HALVES: copy(side, from, side->number == 0 ? 0 : half, half); break;
    case FETCHED_HALVES: fetch(side, from, side->number == 0 ? 0 : half, half); break;
    case RING: pass(side, from, bytes); break;
    case CELL: pass_in_cell(side, from, bytes); break;
    case TWO_RINGS: pass_both(side, bytes); break;
    default: fetch(side, 1 - side->number, 0, bytes); break;
    }
}

static bool is_alone(enum way way)
{
    return way == COPY || way == FETCH;
}

/* Whether both sides have to begin and end each message together; rings see to that themselves. */
static bool is_joint(enum way way)
{
    return !is_alone(way) && way != RING && way != CELL && way != TWO_RINGS;
}

static void lead(struct side *side, enum way way, size_t bytes, long lap)
{
    if (is_joint(way))
        atomic_store_explicit(&side->course->begun, lap, memory_order_release);
    work(side, way, bytes, lap);
    if (is_joint(way))
        await(&side->course->ended, lap);
}

static void follow(struct side *side, enum way way, size_t bytes, long first, long count)
{
    for (long lap = first; lap < first + count; lap++) {
        if (is_joint(way))
            await(&side->course->begun, lap);
        work(side, way, bytes, lap);
        if (is_joint(way))
            atomic_store_explicit(&side->course->ended, lap, memory_order_release);
    }
}

/* A fixed number of laps, equal on both sides: as many as fill the batches at 10 GB/s. */
static long laps_of_batch(size_t bytes)
{
    double laps = BATCH_SECONDS / ((double)bytes / 10e9 + 0.5e-6);
    return laps < 4 ? 4 : (long)laps;
}

/* Returns the best time of a message in seconds, on the side that leads. */
static double time_way(struct side *side, enum way way, size_t bytes, long *lap)
{
    long laps = laps_of_batch(bytes), first = *lap;
    *lap += laps * BATCHES;
    if (side->number == 1) {
        if (!is_alone(way))
            follow(side, way, bytes, first, laps * BATCHES);
        return 0;
    }
    double best = 1e9;
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = seconds_now();
        for (long i = 0; i < laps; i++)
            lead(side, way, bytes, first + batch * laps + i);
        double seconds = (seconds_now() - start) / (double)laps;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void measure_way(struct side *side, enum way way, size_t bytes, long *lap)
{
    double best = 1e9;
    for (size_t part = PART_MIN; part <= bytes || part == PART_MIN; part *= 2) {
        side->part_bytes = part;
        double seconds = time_way(side, way, bytes, lap);
        best = seconds < best ? seconds : best;
        if (way != CELL)
            break;
    }
    if (side->number == 1)
        return;
    if (!atomic_exchange(&side->course->failed, false))
        printf("{\"record\":\"limit\",\"way\":\"%s\",\"bytes\":%zu,\"us\":%.4f}\n", names[way],
               bytes, best * 1e6);
}

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("limits: no memory");
        exit(1);
    }
    return memory;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: limits CORE CORE SIZE...\n", stderr);
        return 2;
    }
    size_t largest = 0;
    for (int i = 3; i < argc; i++) {
        size_t bytes = strtoul(argv[i], NULL, 10);
        largest = bytes > largest ? bytes : largest;
    }
    struct side side = {.course = shared_memory(sizeof *side.course), .other = getpid()};
    side.cell = shared_memory(largest + 1);
    for (int i = 0; i < 2; i++) {
        side.sent[i] = shared_memory(largest + 1);
        side.received[i] = shared_memory(largest + 1);
        side.ring[i] = shared_memory((size_t)PIECE * PIECES);
    }
    /* Where only descendants may be read, the child may read its parent as well. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t child = fork();
    if (child < 0) {
        perror("limits: cannot fork");
        return 1;
    }
    side.number = child == 0;
    if (child > 0)
        side.other = child;
    bind_to(atoi(argv[1 + side.number]));
    long lap = 1;
    for (int i = 3; i < argc; i++)
        for (enum way way = COPY; way < WAYS; way++)
            measure_way(&side, way, strtoul(argv[i], NULL, 10), &lap);
    if (child > 0)
        waitpid(child, NULL, 0);
    return 0;
}
