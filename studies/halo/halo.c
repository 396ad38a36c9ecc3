/* The halo exchange of a grid in two dimensions, nine ways.
 *
 *     mpicc -O2 -fopenmp halo.c -o halo -lm && mpirun -n 4 ./halo [WAYS [EDGE [EXCHANGES [REPETITIONS]]]]
 *
 * Each process has a block of EDGE x EDGE numbers with a halo of one on each side, in a periodic grid of
 * processes. Rows are contiguous in memory, columns are not. The ways:
 *
 *     sendrecv     four MPI_Sendrecv of derived types, one after another
 *     derived      MPI_Irecv and MPI_Isend of derived types, all underway together
 *     packed       columns are copied to and from contiguous buffers by the program
 *     threads      columns are copied by OpenMP threads
 *     persistent   requests of derived types, prepared once
 *     neighbour    MPI_Neighbor_alltoallw
 *     put          MPI_Put into the neighbours' halos between two MPI_Win_fence
 *     shared       neighbours on one machine read each other's blocks in a shared window
 *     partitioned  messages of contiguous buffers whose parts become ready by thread
 *
 * WAYS is `parts` for the last one, `whole` for the others, or `all`. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <omp.h>

enum { SENDRECV, DERIVED, PACKED, THREADS, PERSISTENT, NEIGHBOUR, PUT, SHARED, PARTITIONED, WAYS };
static const char *const NAMES[] = {"sendrecv",  "derived", "packed", "threads",    "persistent",
                                    "neighbour", "put",     "shared", "partitioned"};
/* Sides: up and down are rows, left and right are columns. */
enum { UP, DOWN, LEFT, RIGHT, SIDES };

static MPI_Comm grid;
static MPI_Win window;
static int edge, width, neighbours[SIDES], threads;
static double *block, *out[SIDES], *in[SIDES];
static double *theirs[SIDES]; /* the neighbours' blocks, where they can be read */
static MPI_Datatype row, column;
static MPI_Request requests[2 * SIDES];

static int opposite(int side) {
    return side ^ 1;
}

/* Where a block has the first number of the side, in its outermost line or in the halo beside it. */
static size_t line_of(int side, int halo) {
    int last = halo ? edge + 1 : edge, first = halo ? 0 : 1;
    int x = side == UP ? first : side == DOWN ? last : 1, y = side == LEFT ? first : side == RIGHT ? last : 1;
    return (size_t)x * (size_t)width + (size_t)y;
}

static MPI_Datatype type_of(int side) {
    return side < LEFT ? row : column;
}

static size_t stride_of(int side) {
    return side < LEFT ? 1 : (size_t)width;
}

/* A number that only this place of this process has in this exchange. */
static double value_of(int process, int x, int y, int exchange) {
    return process * 1e8 + (exchange % 7) * 1e7 + x * 2048.0 + y;
}

/* What the computation between two exchanges would do: all outermost numbers change. */
static void change_lines(int exchange) {
    for (int i = 1; i <= edge; i++) {
        block[(size_t)width + (size_t)i] = value_of(rank, 1, i, exchange);
        block[(size_t)edge * (size_t)width + (size_t)i] = value_of(rank, edge, i, exchange);
        block[(size_t)i * (size_t)width + 1] = value_of(rank, i, 1, exchange);
        block[(size_t)i * (size_t)width + (size_t)edge] = value_of(rank, i, edge, exchange);
    }
}

/* ---- The ways ---- */

/* What a process receives into side `side` its neighbour there sends from the opposite one. */
static void sendrecv(void) {
    for (int side = 0; side < SIDES; side++)
        MPI_Sendrecv(block + line_of(side, 0), 1, type_of(side), neighbours[side], side, block + line_of(opposite(side), 1),
                     1, type_of(side), neighbours[opposite(side)], side, grid, MPI_STATUS_IGNORE);
}

static void derived(void) {
    for (int side = 0; side < SIDES; side++)
        MPI_Irecv(block + line_of(side, 1), 1, type_of(side), neighbours[side], opposite(side), grid, &requests[side]);
    for (int side = 0; side < SIDES; side++)
        MPI_Isend(block + line_of(side, 0), 1, type_of(side), neighbours[side], side, grid, &requests[SIDES + side]);
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
}

static void copy_side(int side, int pack, int begin, int end) {
    double *line = block + line_of(side, !pack);
    size_t stride = stride_of(side);
    double *buffer = pack ? out[side] : in[side];
    for (int i = begin; i < end; i++) {
        if (pack)
            buffer[i] = line[(size_t)i * stride];
        else
            line[(size_t)i * stride] = buffer[i];
    }
}

static void start_packed(void) {
    for (int side = 0; side < SIDES; side++) {
        double *sent = side < LEFT ? block + line_of(side, 0) : out[side];
        double *received = side < LEFT ? block + line_of(side, 1) : in[side];
        MPI_Irecv(received, edge, MPI_DOUBLE, neighbours[side], opposite(side), grid, &requests[side]);
        MPI_Isend(sent, edge, MPI_DOUBLE, neighbours[side], side, grid, &requests[SIDES + side]);
    }
}

static void packed(void) {
    for (int side = LEFT; side < SIDES; side++) copy_side(side, 1, 0, edge);
    start_packed();
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
    for (int side = LEFT; side < SIDES; side++) copy_side(side, 0, 0, edge);
}

static void packed_by_threads(void) {
#pragma omp parallel num_threads(threads)
    {
        int thread = omp_get_thread_num(), begin = edge * thread / threads, end = edge * (thread + 1) / threads;
        for (int side = LEFT; side < SIDES; side++) copy_side(side, 1, begin, end);
#pragma omp barrier
#pragma omp master
        {
            start_packed();
            MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
        }
#pragma omp barrier
        for (int side = LEFT; side < SIDES; side++) copy_side(side, 0, begin, end);
    }
}

static void persistent(void) {
    MPI_Startall(2 * SIDES, requests);
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
}

/* MPI defines the order of neighbours in a Cartesian grid: down and up in each dimension. */
static void neighbour(void) {
    static int ones[SIDES] = {1, 1, 1, 1};
    MPI_Aint sent[SIDES], received[SIDES];
    MPI_Datatype types[SIDES];
    for (int side = 0; side < SIDES; side++) {
        sent[side] = (MPI_Aint)(line_of(side, 0) * sizeof *block);
        received[side] = (MPI_Aint)(line_of(side, 1) * sizeof *block);
        types[side] = type_of(side);
    }
    MPI_Neighbor_alltoallw(block, ones, sent, types, block, ones, received, types, grid);
}

static void put(void) {
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    for (int side = 0; side < SIDES; side++)
        MPI_Put(block + line_of(side, 0), 1, type_of(side), neighbours[side], (MPI_Aint)line_of(opposite(side), 1), 1,
                type_of(side), window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
}

/* Two barriers: nobody reads before all have written, and nobody writes before all have read. */
static void shared(void) {
    MPI_Win_sync(window);
    MPI_Barrier(grid);
    MPI_Win_sync(window);
    for (int side = 0; side < SIDES; side++) {
        const double *from = theirs[side] + line_of(opposite(side), 0);
        double *to = block + line_of(side, 1);
        size_t stride = stride_of(side);
        for (int i = 0; i < edge; i++) to[(size_t)i * stride] = from[(size_t)i * stride];
    }
    MPI_Barrier(grid);
}

static void partitioned(void) {
    MPI_Startall(2 * SIDES, requests);
#pragma omp parallel num_threads(threads)
    {
        int thread = omp_get_thread_num(), part = edge / threads, begin = part * thread;
        for (int side = 0; side < SIDES; side++) {
            copy_side(side, 1, begin, begin + part);
            MPI_Pready(thread, requests[SIDES + side]);
        }
    }
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
    for (int side = 0; side < SIDES; side++) copy_side(side, 0, 0, edge);
}

static void (*const EXCHANGES[])(void) = {sendrecv,  derived, packed, packed_by_threads, persistent,
                                          neighbour, put,     shared, partitioned};

/* ---- Preparation, measurement and proof ---- */

static void open_way(int way) {
    for (int side = 0; side < SIDES; side++) {
        MPI_Request *receive = &requests[side], *send = &requests[SIDES + side];
        if (way == PERSISTENT) {
            MPI_Recv_init(block + line_of(side, 1), 1, type_of(side), neighbours[side], opposite(side), grid, receive);
            MPI_Send_init(block + line_of(side, 0), 1, type_of(side), neighbours[side], side, grid, send);
        } else if (way == PARTITIONED) {
            MPI_Precv_init(in[side], 1, edge, MPI_DOUBLE, neighbours[side], opposite(side), grid, MPI_INFO_NULL, receive);
            MPI_Psend_init(out[side], threads, edge / threads, MPI_DOUBLE, neighbours[side], side, grid, MPI_INFO_NULL, send);
        }
    }
    if (way == SHARED) MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
}

static void close_way(int way) {
    if (way == PERSISTENT || way == PARTITIONED)
        for (int i = 0; i < 2 * SIDES; i++) MPI_Request_free(&requests[i]);
    if (way == SHARED) MPI_Win_unlock_all(window);
}

static double wrong_numbers(int exchange) {
    double wrong = 0;
    for (int side = 0; side < SIDES; side++)
        for (int i = 1; i <= edge; i++) {
            int from = opposite(side), x = from == UP ? 1 : from == DOWN ? edge : i, y = from == LEFT ? 1 : from == RIGHT ? edge : i;
            double found = block[line_of(side, 1) + (size_t)(i - 1) * stride_of(side)];
            wrong += found != value_of(neighbours[side], x, y, exchange);
        }
    return wrong;
}

static void run(int way, int exchanges) {
    double wrong = 0, communication = 0;
    open_way(way);
    MPI_Barrier(grid);
    for (int exchange = 0; exchange < exchanges; exchange++) {
        change_lines(exchange);
        double started = MPI_Wtime();
        EXCHANGES[way]();
        communication += MPI_Wtime() - started;
        if (exchange < 10 || exchange == exchanges - 1) wrong += wrong_numbers(exchange);
    }
    close_way(way);
    study_case(NAMES[way], communication, communication);
    study_verify(NAMES[way], wrong, 0);
}

/* The block lies in a window whose memory neighbours on the same machine can read. */
static void open_block(void) {
    int dimensions[2] = {0, 0}, periods[2] = {1, 1}, unit;
    MPI_Dims_create(size, 2, dimensions);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dimensions, periods, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &neighbours[UP], &neighbours[DOWN]);
    MPI_Cart_shift(grid, 1, 1, &neighbours[LEFT], &neighbours[RIGHT]);
    MPI_Comm machine;
    int together;
    MPI_Comm_split_type(grid, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &together);
    MPI_Comm_free(&machine);
    MPI_Aint bytes = (MPI_Aint)width * width * (MPI_Aint)sizeof *block;
    int one_machine = study_over_all(together == size, MPI_MIN) == 1;
    if (one_machine)
        MPI_Win_allocate_shared(bytes, sizeof *block, MPI_INFO_NULL, grid, &block, &window);
    else
        MPI_Win_allocate(bytes, sizeof *block, MPI_INFO_NULL, grid, &block, &window);
    for (int side = 0; side < SIDES; side++) {
        if (one_machine) MPI_Win_shared_query(window, neighbours[side], &bytes, &unit, &theirs[side]);
        out[side] = study_allocate((size_t)edge, sizeof *block);
        in[side] = study_allocate((size_t)edge, sizeof *block);
    }
    memset(block, 0, (size_t)width * (size_t)width * sizeof *block);
    MPI_Type_contiguous(edge, MPI_DOUBLE, &row);
    MPI_Type_vector(edge, 1, width, MPI_DOUBLE, &column);
    MPI_Type_commit(&row);
    MPI_Type_commit(&column);
}

static void close_block(void) {
    MPI_Type_free(&row);
    MPI_Type_free(&column);
    for (int side = 0; side < SIDES; side++) {
        free(out[side]);
        free(in[side]);
    }
    MPI_Win_free(&window);
    MPI_Comm_free(&grid);
}

int main(int argc, char **argv) {
    study_begin("halo", &argc, &argv, MPI_THREAD_MULTIPLE);
    const char *ways = argc > 1 ? argv[1] : "all";
    int parts = strcmp(ways, "whole") != 0, whole = strcmp(ways, "parts") != 0;
    edge = study_number(argc, argv, 2, 512);
    int exchanges = study_number(argc, argv, 3, 1000), repetitions = study_number(argc, argv, 4, 1);
    threads = omp_get_max_threads();
    width = edge + 2;
    study_need((!parts || !whole || strcmp(ways, "all") == 0) && edge && edge <= 2000 && edge % threads == 0 && exchanges && repetitions,
               "halo [WAYS [EDGE [EXCHANGES [REPETITIONS]]]]: ways whole, parts or all; an edge of at most 2000 numbers, a "
               "multiple of OMP_NUM_THREADS");
    open_block();
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int way = 0; way < WAYS; way++)
            if ((way == PARTITIONED ? parts : whole) && (way != SHARED || theirs[0])) run(way, exchanges);
    close_block();
    return study_end();
}
