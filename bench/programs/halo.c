/* Halo exchanges on a periodic grid of processes with eight neighbours each, in all ways that MPI has:
 * which is best when.  Each process sends a message of the given size over each edge, and one of
 * 8 bytes over each corner. */
#include "bench.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NEIGHBOURS = 8, EDGES = 4, CORNER_BYTES = 8, TAG = 11, PARTITIONS = 4, HALVES = 2 };
enum { SPINS_BEFORE_YIELD = 200 };

/* Edges first; the opposite of direction d is at d ^ 1. */
static const int directions[NEIGHBOURS][2] = {{-1, 0}, {1, 0},  {0, -1}, {0, 1},
                                              {-1, -1}, {1, 1}, {-1, 1}, {1, -1}};

struct halo {
    const struct job *job;
    int to[NEIGHBOURS];             /* the neighbour in a direction */
    int from[NEIGHBOURS];           /* the rank that sends to this process in that direction */
    int counts[NEIGHBOURS];
    int places[NEIGHBOURS];         /* of the messages in a buffer */
    size_t bytes;                   /* of a buffer */
    char *sent, *received;
    unsigned seed;
    MPI_Request requests[2 * NEIGHBOURS], persistent[2 * NEIGHBOURS], partitioned[2 * NEIGHBOURS];
    MPI_Comm graph;
    MPI_Group group;                /* the neighbours, each once */
    /* One-sided: what neighbours write lies in `landed`. */
    MPI_Win window;
    char *landed;
    /* With notification: two halves that take turns, so that no process writes a half that is still
       read. */
    MPI_Win notified;
    char *halves;
    _Atomic long *flags;            /* in `notified`, behind the halves: one for each direction */
    long round;
    /* Memory that all processes of the machine see; NULL elsewhere. */
    MPI_Win shared;
    char *own;
    char *of[NEIGHBOURS];
    long shared_round;
    char *read;                     /* where the last exchange left what was received */
};

static size_t flags_at(const struct halo *halo) { return HALVES * halo->bytes; }

/* ---- two-sided ---- */

static void run_nonblocking(void *state, long iterations)
{
    struct halo *halo = state;
    for (long i = 0; i < iterations; i++) {
        for (int d = 0; d < NEIGHBOURS; d++)
            MPI_Irecv(halo->received + halo->places[d], halo->counts[d], MPI_BYTE, halo->from[d],
                      TAG + d, MPI_COMM_WORLD, &halo->requests[d]);
        for (int d = 0; d < NEIGHBOURS; d++)
            MPI_Isend(halo->sent + halo->places[d], halo->counts[d], MPI_BYTE, halo->to[d], TAG + d,
                      MPI_COMM_WORLD, &halo->requests[NEIGHBOURS + d]);
        MPI_Waitall(2 * NEIGHBOURS, halo->requests, MPI_STATUSES_IGNORE);
    }
    halo->read = halo->received;
}

static void run_sendrecv(void *state, long iterations)
{
    struct halo *halo = state;
    for (long i = 0; i < iterations; i++)
        for (int d = 0; d < NEIGHBOURS; d++)
            MPI_Sendrecv(halo->sent + halo->places[d], halo->counts[d], MPI_BYTE, halo->to[d],
                         TAG + d, halo->received + halo->places[d], halo->counts[d], MPI_BYTE,
                         halo->from[d], TAG + d, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    halo->read = halo->received;
}

static void open_persistent(struct halo *halo)
{
    for (int d = 0; d < NEIGHBOURS; d++) {
        MPI_Recv_init(halo->received + halo->places[d], halo->counts[d], MPI_BYTE, halo->from[d],
                      TAG + d, MPI_COMM_WORLD, &halo->persistent[d]);
        MPI_Send_init(halo->sent + halo->places[d], halo->counts[d], MPI_BYTE, halo->to[d], TAG + d,
                      MPI_COMM_WORLD, &halo->persistent[NEIGHBOURS + d]);
    }
}

static void run_persistent(void *state, long iterations)
{
    struct halo *halo = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Startall(2 * NEIGHBOURS, halo->persistent);
        MPI_Waitall(2 * NEIGHBOURS, halo->persistent, MPI_STATUSES_IGNORE);
    }
    halo->read = halo->received;
}

static void open_partitioned(struct halo *halo)
{
    for (int d = 0; d < NEIGHBOURS; d++) {
        int partitions = d < EDGES ? PARTITIONS : 1, tag = TAG + NEIGHBOURS + d;
        int count = halo->counts[d] / partitions;
        MPI_Precv_init(halo->received + halo->places[d], partitions, count, MPI_BYTE, halo->from[d],
                       tag, MPI_COMM_WORLD, MPI_INFO_NULL, &halo->partitioned[d]);
        MPI_Psend_init(halo->sent + halo->places[d], partitions, count, MPI_BYTE, halo->to[d], tag,
                       MPI_COMM_WORLD, MPI_INFO_NULL, &halo->partitioned[NEIGHBOURS + d]);
    }
}

static void run_partitioned(void *state, long iterations)
{
    struct halo *halo = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Startall(2 * NEIGHBOURS, halo->partitioned);
        for (int d = 0; d < NEIGHBOURS; d++)
            MPI_Pready_range(0, (d < EDGES ? PARTITIONS : 1) - 1,
                             halo->partitioned[NEIGHBOURS + d]);
        MPI_Waitall(2 * NEIGHBOURS, halo->partitioned, MPI_STATUSES_IGNORE);
    }
    halo->read = halo->received;
}

static void run_neighbour(void *state, long iterations)
{
    struct halo *halo = state;
    for (long i = 0; i < iterations; i++)
        MPI_Neighbor_alltoallv(halo->sent, halo->counts, halo->places, MPI_BYTE, halo->received,
                               halo->counts, halo->places, MPI_BYTE, halo->graph);
    halo->read = halo->received;
}

/* ---- one-sided ---- */

static void put_all(const struct halo *halo, MPI_Win window, size_t base)
{
    for (int d = 0; d < NEIGHBOURS; d++)
        MPI_Put(halo->sent + halo->places[d], halo->counts[d], MPI_BYTE, halo->to[d],
                (MPI_Aint)(base + (size_t)halo->places[d]), halo->counts[d], MPI_BYTE, window);
}

static void run_fence(void *state, long iterations)
{
    struct halo *halo = state;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, halo->window);
    for (long i = 0; i < iterations; i++) {
        put_all(halo, halo->window, 0);
        MPI_Win_fence(0, halo->window);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, halo->window);
    halo->read = halo->landed;
}

static void run_post_start(void *state, long iterations)
{
    struct halo *halo = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Win_post(halo->group, 0, halo->window);
        MPI_Win_start(halo->group, 0, halo->window);
        put_all(halo, halo->window, 0);
        MPI_Win_complete(halo->window);
        MPI_Win_wait(halo->window);
    }
    halo->read = halo->landed;
}

/* Waits until a flag has come to a round; others may need the core, or this process's help. */
static void await_flag(const _Atomic long *flag, long round, MPI_Win window)
{
    int arrived;
    for (int spins = 1; atomic_load_explicit(flag, memory_order_acquire) < round; spins++) {
        if (spins % SPINS_BEFORE_YIELD != 0)
            continue;
        MPI_Win_sync(window);
        MPI_Iprobe(MPI_ANY_SOURCE, TAG + 3 * NEIGHBOURS, MPI_COMM_WORLD, &arrived,
                   MPI_STATUS_IGNORE);
        sched_yield();
    }
}

static void run_flush(void *state, long iterations)
{
    struct halo *halo = state;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, halo->notified);
    for (long i = 0; i < iterations; i++) {
        long round = ++halo->round;
        size_t base = (size_t)(round % HALVES) * halo->bytes;
        put_all(halo, halo->notified, base);
        MPI_Win_flush_all(halo->notified);
        for (int d = 0; d < NEIGHBOURS; d++)
            MPI_Accumulate(&round, 1, MPI_LONG, halo->to[d],
                           (MPI_Aint)(flags_at(halo) + (size_t)d * sizeof(long)), 1, MPI_LONG,
                           MPI_REPLACE, halo->notified);
        MPI_Win_flush_all(halo->notified);
        for (int d = 0; d < NEIGHBOURS; d++)
            await_flag(&halo->flags[d], round, halo->notified);
        MPI_Win_sync(halo->notified);
        halo->read = halo->halves + base;
    }
    MPI_Win_unlock_all(halo->notified);
}

/* Each process copies from its neighbours' memory the data that they have written there. */
static void run_shared(void *state, long iterations)
{
    struct halo *halo = state;
    _Atomic long *own_flag = (_Atomic long *)(halo->own + flags_at(halo));
    for (long i = 0; i < iterations; i++) {
        long round = ++halo->shared_round;
        size_t base = (size_t)(round % HALVES) * halo->bytes;
        memcpy(halo->own + base, halo->sent, halo->bytes);
        atomic_store_explicit(own_flag, round, memory_order_release);
        for (int d = 0; d < NEIGHBOURS; d++) {
            await_flag((_Atomic long *)(halo->of[d] + flags_at(halo)), round, halo->shared);
            memcpy(halo->received + halo->places[d], halo->of[d] + base + halo->places[d],
                   (size_t)halo->counts[d]);
        }
    }
    halo->read = halo->received;
}

/* ---- the ways ---- */

static void check_with(struct halo *halo, void (*run)(void *, long))
{
    const struct job *job = halo->job;
    unsigned seed = halo->seed++;
    for (int d = 0; d < NEIGHBOURS; d++)
        pattern_fill(halo->sent + halo->places[d], (size_t)halo->counts[d],
                     seed * 1009u + (unsigned)(job->rank * NEIGHBOURS + d));
    memset(halo->received, 0, halo->bytes);
    memset(halo->landed, 0, halo->bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    run(halo, 1);
    for (int d = 0; d < NEIGHBOURS; d++)
        pattern_expect(job, halo->read + halo->places[d], (size_t)halo->counts[d],
                       seed * 1009u + (unsigned)(halo->from[d] * NEIGHBOURS + d));
    MPI_Barrier(MPI_COMM_WORLD);
}

#define CHECK(way) \
    static void check_##way(void *state) { check_with(state, run_##way); }
CHECK(nonblocking)
CHECK(sendrecv)
CHECK(persistent)
CHECK(partitioned)
CHECK(neighbour)
CHECK(fence)
CHECK(post_start)
CHECK(flush)
CHECK(shared)

static const struct {
    const char *name;
    void (*run)(void *, long);
    void (*check)(void *);
} ways[] = {
    /* The first is what the others are compared with. */
    {"Isend, Irecv, Waitall", run_nonblocking, check_nonblocking},
    {"Sendrecv", run_sendrecv, check_sendrecv},
    {"persistent", run_persistent, check_persistent},
    {"partitioned", run_partitioned, check_partitioned},
    {"Neighbor_alltoallv", run_neighbour, check_neighbour},
    {"Put, fence", run_fence, check_fence},
    {"post, start, Put", run_post_start, check_post_start},
    {"Put, flush, flag", run_flush, check_flush},
    {"shared, loads", run_shared, check_shared},
};
enum { WAYS = sizeof ways / sizeof ways[0] };
_Static_assert((int)WAYS <= (int)OPERATIONS_TOGETHER, "all ways are measured together");

static void find_neighbours(struct halo *halo)
{
    int dims[2] = {0, 0}, periods[2] = {1, 1}, own[2], ranks[NEIGHBOURS], different = 0;
    MPI_Comm grid;
    MPI_Group world;
    MPI_Dims_create(halo->job->size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, halo->job->rank, 2, own);
    for (int d = 0; d < NEIGHBOURS; d++) {
        int there[2] = {own[0] + directions[d][0], own[1] + directions[d][1]};
        int back[2] = {own[0] - directions[d][0], own[1] - directions[d][1]};
        MPI_Cart_rank(grid, there, &halo->to[d]);
        MPI_Cart_rank(grid, back, &halo->from[d]);
    }
    MPI_Comm_free(&grid);
    static const int weights[NEIGHBOURS] = {1, 1, 1, 1, 1, 1, 1, 1};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, NEIGHBOURS, halo->from, weights, NEIGHBOURS, halo->to,
                                   weights, MPI_INFO_NULL, 0, &halo->graph);
    for (int d = 0; d < NEIGHBOURS; d++) {
        bool known = false;
        for (int i = 0; i < different; i++)
            known = known || ranks[i] == halo->to[d];
        if (!known)
            ranks[different++] = halo->to[d];
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, different, ranks, &halo->group);
    MPI_Group_free(&world);
}

static void open_shared(struct halo *halo, MPI_Aint bytes)
{
    MPI_Comm machine;
    int processes;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, halo->job->rank, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &processes);
    halo->own = NULL;
    int all = processes == halo->job->size;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (all) {
        MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, machine, &halo->own, &halo->shared);
        memset(halo->own, 0, (size_t)bytes);
        for (int d = 0; d < NEIGHBOURS; d++) {
            MPI_Aint size;
            int unit;
            MPI_Win_shared_query(halo->shared, halo->from[d], &size, &unit, &halo->of[d]);
        }
        MPI_Win_lock_all(MPI_MODE_NOCHECK, halo->shared);
    }
    MPI_Comm_free(&machine);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void halo_open(struct halo *halo, const struct job *job, size_t edge_bytes)
{
    *halo = (struct halo){.job = job, .seed = 1};
    find_neighbours(halo);
    for (int d = 0; d < NEIGHBOURS; d++) {
        halo->counts[d] = d < EDGES ? (int)edge_bytes : CORNER_BYTES;
        halo->places[d] = (int)halo->bytes;
        halo->bytes += (size_t)halo->counts[d];
    }
    halo->sent = buffer_new(job, halo->bytes);
    halo->received = buffer_new(job, halo->bytes);
    open_persistent(halo);
    open_partitioned(halo);
    MPI_Aint bytes = (MPI_Aint)(flags_at(halo) + NEIGHBOURS * sizeof(long));
    MPI_Win_allocate((MPI_Aint)halo->bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &halo->landed,
                     &halo->window);
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &halo->halves, &halo->notified);
    memset(halo->halves, 0, (size_t)bytes);
    halo->flags = (_Atomic long *)(halo->halves + flags_at(halo));
    open_shared(halo, bytes);
}

static void halo_close(struct halo *halo)
{
    if (halo->own) {
        MPI_Win_unlock_all(halo->shared);
        MPI_Win_free(&halo->shared);
    }
    MPI_Win_free(&halo->notified);
    MPI_Win_free(&halo->window);
    for (int i = 0; i < 2 * NEIGHBOURS; i++) {
        MPI_Request_free(&halo->persistent[i]);
        MPI_Request_free(&halo->partitioned[i]);
    }
    MPI_Group_free(&halo->group);
    MPI_Comm_free(&halo->graph);
    free(halo->sent);
    free(halo->received);
}

/* The index of the fastest way. */
static int best_of(const struct timing *timings, int count)
{
    int best = 0;
    for (int way = 1; way < count; way++)
        if (timings[way].median < timings[best].median)
            best = way;
    return best;
}

void bench_halo(struct job *job)
{
    struct list sizes = list_or_powers(&job->options.sizes, 8, 8, 1 << 20);
    int best[LIST_CAPACITY];
    report_section(job, "halo",
                   "eight neighbours of a periodic grid: this size over edges, 8 bytes over corners", false);
    for (int i = 0; i < sizes.length; i++) {
        struct halo halo;
        size_t bytes = (size_t)sizes.values[i];
        best[i] = -1;
        if (bytes < PARTITIONS || bytes % PARTITIONS != 0 || bytes > INT_MAX / NEIGHBOURS)
            continue;
        halo_open(&halo, job, bytes);
        struct operation operations[WAYS];
        struct timing timings[WAYS];
        int count = halo.own ? WAYS : WAYS - 1;
        for (int way = 0; way < count; way++)
            operations[way] = (struct operation){.run = ways[way].run, .check = ways[way].check, .state = &halo,
                                                 .comm = MPI_COMM_WORLD, .clock = CLOCK_SLOWEST, .share = 1};
        job_describe(job, "halo", "", bytes);
        if (measure(job, operations, count, timings) && job->rank == 0) {
            for (int way = 0; way < count; way++) {
                struct row row = {.benchmark = "halo", .processes = job->size, .bytes = bytes,
                                  .timing = timings[way]};
                snprintf(row.variant, sizeof row.variant, "%s", ways[way].name);
                if (way > 0) {
                    row.ratio = timings[way].median / timings[0].median;
                    row.twin = "Isend, Irecv";
                }
                report_row(job, &row);
            }
            best[i] = best_of(timings, count);
        }
        halo_close(&halo);
    }
    for (int i = 0; i < sizes.length && job->rank == 0; i++) {
        char note[96], size[32];
        if (best[i] < 0)
            continue;
        snprintf(note, sizeof note, "fastest with %s: %s",
                 size_text((size_t)sizes.values[i], size, sizeof size), ways[best[i]].name);
        report_note(job, note);
    }
}
