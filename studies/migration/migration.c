/* An adaptive mesh whose blocks move between processes as the refined region moves.
 *
 *     mpicc -O2 migration.c -o migration -lm && mpirun -n 4 ./migration [BLOCKS [PHASES [STEPS [REPETITIONS]]]]
 *
 * A square consists of BLOCKS x BLOCKS blocks. A block has 4 x 4 cells, or 16 x 16 near a ring whose radius grows from
 * phase to phase. In each of the STEPS steps of a phase, blocks exchange the means along their sides with their
 * neighbours, and all cells move towards them. Between two phases, blocks are refined or coarsened and the curve on which they
 * lie (Morton order) is divided anew, so that all processes have about as many cells: then blocks migrate. Ways:
 *
 *     messages    sides and blocks are sent to each process by MPI_Isend and MPI_Irecv
 *     collective  sides go through MPI_Neighbor_alltoallv on a graph of the processes that is made anew in each
 *                 phase, blocks through MPI_Alltoallv
 *
 * A cell's value depends only on the cells' values before, so any number of processes gives the same bits. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"

enum { MESSAGES, COLLECTIVE, WAYS, COARSE = 4, FINE = 16, SIDES = 4, BLOCKS_MAX = 256 };
static const char *const NAMES[] = {"messages", "collective"};

struct block {
    int cells; /* along an edge */
    double *values;
    double around[SIDES]; /* means along the facing sides of the neighbours */
};

static int blocks, phase, *owners, *order; /* of each block; blocks along the curve */
static struct block *all;                  /* values only in own blocks */
static double communication;

/* Lists of numbers for each process, and from each. */
struct exchange {
    int *sent, *sent_at, *received, *received_at;
    double *out, *in;
};

static int refined(int block) {
    double x = (block / blocks + 0.5) / blocks - 0.5, y = (block % blocks + 0.5) / blocks - 0.5;
    double radius = 0.05 + 0.04 * (phase % 12);
    return fabs(sqrt(x * x + y * y) - radius) < 0.06;
}

static int neighbour_of(int block, int side) {
    int x = block / blocks + (side == 0 ? -1 : side == 1), y = block % blocks + (side == 2 ? -1 : side == 3);
    return x < 0 || y < 0 || x >= blocks || y >= blocks ? -1 : x * blocks + y;
}

static int compare_on_curve(const void *left, const void *right) {
    unsigned long place[2] = {0, 0};
    for (int which = 0; which < 2; which++) {
        int block = *(const int *)(which ? right : left);
        for (int bit = 0; bit < 10; bit++)
            place[which] |= (unsigned long)(block / blocks >> bit & 1) << (2 * bit + 1) | (unsigned long)(block % blocks >> bit & 1) << (2 * bit);
    }
    return (place[0] > place[1]) - (place[0] < place[1]);
}

/* Divides the curve into parts with about as many cells. */
static void divide(int *found) {
    long cells = 0, before = 0;
    for (int i = 0; i < blocks * blocks; i++) cells += refined(i) ? FINE * FINE : COARSE * COARSE;
    for (int i = 0; i < blocks * blocks; i++) {
        long own = refined(order[i]) ? FINE * FINE : COARSE * COARSE;
        found[order[i]] = (int)((before + own / 2) * size / cells);
        before += own;
    }
}

/* ---- Cells ---- */

static void make_cells(struct block *block, int cells) {
    block->cells = cells;
    block->values = study_allocate((size_t)(cells * cells), sizeof *block->values);
}

/* Gives a block another number of cells: each is the mean of the cells that it replaces, or a copy of the one. */
static void resize(struct block *block, int cells) {
    struct block before = *block;
    if (before.cells == cells) return;
    make_cells(block, cells);
    int factor = cells > before.cells ? cells / before.cells : before.cells / cells;
    for (int x = 0; x < cells; x++)
        for (int y = 0; y < cells; y++) {
            double value = 0;
            if (cells > before.cells)
                value = before.values[x / factor * before.cells + y / factor];
            else
                for (int i = 0; i < factor * factor; i++)
                    value += before.values[(x * factor + i / factor) * before.cells + y * factor + i % factor] / (factor * factor);
            block->values[x * cells + y] = value;
        }
    free(before.values);
}

static double mean_of_side(const struct block *block, int side) {
    int cells = block->cells;
    double sum = 0;
    for (int i = 0; i < cells; i++) {
        int x = side == 0 ? 0 : side == 1 ? cells - 1 : i, y = side == 2 ? 0 : side == 3 ? cells - 1 : i;
        sum += block->values[x * cells + y];
    }
    return sum / cells;
}

/* Each cell moves towards the sides, the more the nearer they are. */
static void advance(struct block *block) {
    int cells = block->cells;
    for (int x = 0; x < cells; x++)
        for (int y = 0; y < cells; y++) {
            double *value = &block->values[x * cells + y], down = (x + 0.5) / cells, right = (y + 0.5) / cells;
            double towards = ((1 - down) * block->around[0] + down * block->around[1] + (1 - right) * block->around[2] +
                              right * block->around[3]) / 2;
            *value += 0.2 * (towards - *value);
        }
}

/* ---- Exchanges ---- */

static void open_exchange(struct exchange *exchange) {
    *exchange = (struct exchange){study_allocate(4 * (size_t)size, sizeof(int)), NULL, NULL, NULL, NULL, NULL};
    exchange->sent_at = exchange->sent + size;
    exchange->received = exchange->sent + 2 * size;
    exchange->received_at = exchange->sent + 3 * size;
}

static int fill_places(const int *counts, int *places) {
    int total = 0;
    for (int p = 0; p < size; p++) {
        places[p] = total;
        total += counts[p];
    }
    return total;
}

static void close_exchange(struct exchange *exchange) {
    free(exchange->sent);
    free(exchange->out);
    free(exchange->in);
}

static void exchange_by_messages(const struct exchange *exchange, int tag) {
    MPI_Request *requests = study_allocate(2 * (size_t)size, sizeof *requests);
    int count = 0;
    for (int p = 0; p < size; p++)
        if (p != rank && exchange->received[p])
            MPI_Irecv(exchange->in + exchange->received_at[p], exchange->received[p], MPI_DOUBLE, p, tag, MPI_COMM_WORLD, &requests[count++]);
    for (int p = 0; p < size; p++)
        if (p != rank && exchange->sent[p])
            MPI_Isend(exchange->out + exchange->sent_at[p], exchange->sent[p], MPI_DOUBLE, p, tag, MPI_COMM_WORLD, &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

/* The graph of the processes that have neighbouring blocks. */
static MPI_Comm graph = MPI_COMM_NULL;
static int *graph_lists; /* processes, and the four lists of MPI_Neighbor_alltoallv */

static void make_graph(const struct exchange *sides) {
    int degree = 0, *counts = graph_lists + size;
    for (int p = 0; p < size; p++) {
        if (p == rank || !sides->sent[p]) continue;
        graph_lists[degree] = p;
        counts[degree] = sides->sent[p];
        counts[size + degree] = sides->sent_at[p];
        counts[2 * size + degree] = sides->received[p];
        counts[3 * size + degree++] = sides->received_at[p];
    }
    if (graph != MPI_COMM_NULL) MPI_Comm_free(&graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, graph_lists, MPI_UNWEIGHTED, degree, graph_lists, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
}

/* Counts the sides that go to each process. Both ends list them in the order of the receiving block. */
static void prepare_sides(struct exchange *sides) {
    open_exchange(sides);
    for (int block = 0; block < blocks * blocks; block++)
        for (int side = 0; side < SIDES; side++) {
            int other = neighbour_of(block, side);
            if (other < 0 || owners[block] == owners[other]) continue;
            if (owners[block] == rank) sides->received[owners[other]]++;
            if (owners[other] == rank) sides->sent[owners[block]]++;
        }
    sides->out = study_allocate((size_t)fill_places(sides->sent, sides->sent_at), sizeof(double));
    sides->in = study_allocate((size_t)fill_places(sides->received, sides->received_at), sizeof(double));
}

static void step(int way, const struct exchange *sides, int *places) {
    memcpy(places, sides->sent_at, (size_t)size * sizeof *places);
    for (int block = 0; block < blocks * blocks; block++)
        for (int side = 0; side < SIDES; side++) {
            int other = neighbour_of(block, side);
            if (other >= 0 && owners[other] == rank && owners[block] != rank)
                sides->out[places[owners[block]]++] = mean_of_side(&all[other], side ^ 1);
        }
    double started = MPI_Wtime();
    int *counts = graph_lists + size;
    if (way == MESSAGES)
        exchange_by_messages(sides, 1);
    else
        MPI_Neighbor_alltoallv(sides->out, counts, counts + size, MPI_DOUBLE, sides->in, counts + 2 * size, counts + 3 * size,
                               MPI_DOUBLE, graph);
    communication += MPI_Wtime() - started;
    memcpy(places, sides->received_at, (size_t)size * sizeof *places);
    for (int block = 0; block < blocks * blocks; block++)
        for (int side = 0; side < SIDES && owners[block] == rank; side++) {
            int other = neighbour_of(block, side);
            /* The edge of the square is insulated. */
            if (other < 0)
                all[block].around[side] = mean_of_side(&all[block], side);
            else
                all[block].around[side] = owners[other] == rank ? mean_of_side(&all[other], side ^ 1) : sides->in[places[owners[other]]++];
        }
    for (int block = 0; block < blocks * blocks; block++)
        if (owners[block] == rank) advance(&all[block]);
}

/* Gives blocks new cells and new owners. A block travels as its values; both ends know its size. */
static void migrate(int way) {
    int *next = study_allocate((size_t)(blocks * blocks), sizeof *next), *places = study_allocate((size_t)size, sizeof *places);
    struct exchange moved;
    open_exchange(&moved);
    divide(next);
    for (int i = 0; i < blocks * blocks; i++) {
        int cells = refined(i) ? FINE : COARSE;
        if (owners[i] == rank) resize(&all[i], cells);
        all[i].cells = cells;
        if (owners[i] == next[i]) continue;
        if (owners[i] == rank) moved.sent[next[i]] += cells * cells;
        if (next[i] == rank) moved.received[owners[i]] += cells * cells;
    }
    moved.out = study_allocate((size_t)fill_places(moved.sent, moved.sent_at), sizeof(double));
    moved.in = study_allocate((size_t)fill_places(moved.received, moved.received_at), sizeof(double));
    memcpy(places, moved.sent_at, (size_t)size * sizeof *places);
    for (int i = 0; i < blocks * blocks; i++) {
        size_t numbers = (size_t)(all[i].cells * all[i].cells);
        if (owners[i] != rank || next[i] == rank) continue;
        memcpy(moved.out + places[next[i]], all[i].values, numbers * sizeof(double));
        places[next[i]] += (int)numbers;
        free(all[i].values);
        all[i].values = NULL;
    }
    double started = MPI_Wtime();
    if (way == MESSAGES)
        exchange_by_messages(&moved, 0);
    else
        MPI_Alltoallv(moved.out, moved.sent, moved.sent_at, MPI_DOUBLE, moved.in, moved.received, moved.received_at, MPI_DOUBLE,
                      MPI_COMM_WORLD);
    communication += MPI_Wtime() - started;
    memcpy(places, moved.received_at, (size_t)size * sizeof *places);
    for (int i = 0; i < blocks * blocks; i++) {
        if (next[i] != rank || owners[i] == rank) continue;
        make_cells(&all[i], all[i].cells);
        memcpy(all[i].values, moved.in + places[owners[i]], (size_t)(all[i].cells * all[i].cells) * sizeof(double));
        places[owners[i]] += all[i].cells * all[i].cells;
    }
    close_exchange(&moved);
    memcpy(owners, next, (size_t)(blocks * blocks) * sizeof *owners);
    free(next);
    free(places);
}

/* ---- A run and its proof ---- */

static unsigned long long bits_of_all(void) {
    unsigned long long mine = 0, sum = 0;
    for (int i = 0; i < blocks * blocks; i++)
        for (int cell = 0; owners[i] == rank && cell < all[i].cells * all[i].cells; cell++) {
            unsigned long long bits;
            memcpy(&bits, &all[i].values[cell], sizeof bits);
            mine += bits * (2 * ((unsigned long long)i * FINE * FINE + (unsigned)cell) + 1);
        }
    MPI_Allreduce(&mine, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static unsigned long long run(int way, int phases, int steps) {
    int *places = study_allocate((size_t)size, sizeof *places);
    phase = 0;
    divide(owners);
    for (int i = 0; i < blocks * blocks; i++) {
        if (owners[i] != rank) continue;
        make_cells(&all[i], refined(i) ? FINE : COARSE);
        for (int cell = 0; cell < all[i].cells * all[i].cells; cell++) all[i].values[cell] = (i * 31 + cell * 7) % 1009;
    }
    communication = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    for (; phase < phases; phase++) {
        struct exchange sides;
        if (phase > 0) migrate(way);
        prepare_sides(&sides);
        double making = MPI_Wtime();
        if (way == COLLECTIVE) make_graph(&sides);
        communication += MPI_Wtime() - making;
        for (int i = 0; i < steps; i++) step(way, &sides, places);
        close_exchange(&sides);
    }
    study_case(NAMES[way], MPI_Wtime() - started, communication);
    unsigned long long bits = bits_of_all();
    for (int i = 0; i < blocks * blocks; i++) {
        if (owners[i] == rank) free(all[i].values);
        all[i].values = NULL;
    }
    free(places);
    return bits;
}

int main(int argc, char **argv) {
    study_begin("migration", &argc, &argv, MPI_THREAD_SINGLE);
    blocks = study_number(argc, argv, 1, 32);
    int phases = study_number(argc, argv, 2, 10), steps = study_number(argc, argv, 3, 10), repetitions = study_number(argc, argv, 4, 1);
    study_need(blocks && blocks <= BLOCKS_MAX && phases && steps && repetitions,
               "migration [BLOCKS [PHASES [STEPS [REPETITIONS]]]]: at most 256 x 256 blocks");
    size_t count = (size_t)(blocks * blocks);
    owners = study_allocate(count, sizeof *owners);
    order = study_allocate(count, sizeof *order);
    all = study_allocate(count, sizeof *all);
    graph_lists = study_allocate(5 * (size_t)size, sizeof *graph_lists);
    for (int i = 0; i < blocks * blocks; i++) order[i] = i;
    qsort(order, count, sizeof *order, compare_on_curve);
    unsigned long long bits = 0;
    for (int repetition = 0; repetition < repetitions; repetition++) {
        bits = run(MESSAGES, phases, steps);
        study_verify("collective", run(COLLECTIVE, phases, steps) != bits, 0);
    }
    study_bits(bits);
    if (graph != MPI_COMM_NULL) MPI_Comm_free(&graph);
    return study_end();
}
