/* A sparse matrix times a vector, again and again, with neighbours that follow from the matrix.
 *
 *     mpicc -O2 sparse.c -o sparse -lm && mpirun -n 4 ./sparse [EDGE [ITERATIONS [REPETITIONS]]]
 *
 * The matrix has EDGE x EDGE rows: five points of a mesh in each, and in every 16th a column anywhere.
 * Rows are divided among processes. Each process derives from its columns which values it needs of
 * others, and they exchange these lists once; each product then moves just the needed values. Ways:
 *
 *     messages     MPI_Isend and MPI_Irecv with each neighbour
 *     neighbour    MPI_Neighbor_alltoallv on a graph communicator
 *     persistent   the same operation, made once by MPI_Neighbor_alltoallv_init
 *     alltoallv    MPI_Alltoallv over all processes, most of whose counts are zero
 *
 * Each process also computes all rows alone, without messages; its own must be equal. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <stdint.h>

enum { MESSAGES, NEIGHBOUR, PERSISTENT, ALLTOALLV, WAYS };
enum { ENTRIES = 6 };
static const char *const WAY_NAMES[] = {"messages", "neighbour", "persistent", "alltoallv"};

static int edge, row_count, rows, first;
static int *columns;                       /* ENTRIES of each row: places in `vector` */
static double *vector, *product;           /* own values, then those of others */
static int *send_counts, *send_places, *receive_counts, *receive_places; /* by process */
static int *send_rows, send_total, receive_total;
static double *send_values;
/* The same by neighbour, for the graph. */
static MPI_Comm graph;
static int sources, destinations, *source_ranks, *destination_ranks;
static int *source_counts, *source_places, *destination_counts, *destination_places;
static MPI_Request *requests, persistent;

static int begin_of(int process) {
    return (int)((long long)row_count * process / size);
}

static int owner_of(int row) {
    int process = (int)((long long)row * size / row_count);
    while (row < begin_of(process)) process--;
    while (row >= begin_of(process + 1)) process++;
    return process;
}

/* The columns of a row; a row that has fewer than ENTRIES repeats its own. */
static void columns_of(int row, int *found) {
    int x = row % edge, y = row / edge;
    found[0] = row;
    found[1] = x > 0 ? row - 1 : row;
    found[2] = x + 1 < edge ? row + 1 : row;
    found[3] = y > 0 ? row - edge : row;
    found[4] = y + 1 < edge ? row + edge : row;
    found[5] = row % 16 == 0 ? (int)((uint64_t)row * UINT64_C(2654435761) % (uint64_t)row_count) : row;
}

static double start_value(int row) {
    return (double)(row * UINT64_C(7919) % 1009) / 1009;
}

/* Weights add up to 1, so that values stay in their range. */
static double row_product(const int *places, const double *values) {
    static const double WEIGHTS[ENTRIES] = {0.25, 0.125, 0.1875, 0.125, 0.1875, 0.125};
    double sum = 0;
    for (int e = 0; e < ENTRIES; e++) sum += WEIGHTS[e] * values[places[e]];
    return sum;
}

/* ---- The values that are needed of other processes ---- */

static int compare_ints(const void *left, const void *right) {
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

/* The rows of others that own rows have as columns, ascending and each once; they are ordered by owner too. */
static int *needed_rows(void) {
    int *needed = study_allocate((size_t)rows * ENTRIES, sizeof *needed), count = 0, kept = 0;
    for (int i = 0; i < rows; i++) {
        columns_of(first + i, columns + (size_t)i * ENTRIES);
        for (int e = 0; e < ENTRIES; e++) {
            int column = columns[(size_t)i * ENTRIES + (size_t)e];
            if (column < first || column >= first + rows) needed[count++] = column;
        }
    }
    qsort(needed, (size_t)count, sizeof *needed, compare_ints);
    for (int i = 0; i < count; i++)
        if (kept == 0 || needed[kept - 1] != needed[i]) needed[kept++] = needed[i];
    receive_total = kept;
    return needed;
}

static int places_of(const int *counts, int *places) {
    int total = 0;
    for (int process = 0; process < size; process++) {
        places[process] = total;
        total += counts[process];
    }
    return total;
}

static void exchange_lists(const int *needed) {
    size_t processes = (size_t)size;
    int *tables = study_allocate(4 * processes, sizeof *tables);
    send_counts = tables;
    send_places = tables + processes;
    receive_counts = tables + 2 * processes;
    receive_places = tables + 3 * processes;
    for (int i = 0; i < receive_total; i++) receive_counts[owner_of(needed[i])]++;
    places_of(receive_counts, receive_places);
    MPI_Alltoall(receive_counts, 1, MPI_INT, send_counts, 1, MPI_INT, MPI_COMM_WORLD);
    send_total = places_of(send_counts, send_places);
    send_rows = study_allocate((size_t)send_total, sizeof *send_rows);
    send_values = study_allocate((size_t)send_total, sizeof *send_values);
    MPI_Alltoallv(needed, receive_counts, receive_places, MPI_INT, send_rows, send_counts, send_places, MPI_INT, MPI_COMM_WORLD);
}

/* Columns become places: own rows come first in `vector`, then the needed ones. */
static void number_columns(const int *needed) {
    for (size_t i = 0; i < (size_t)rows * ENTRIES; i++) {
        if (columns[i] >= first && columns[i] < first + rows) {
            columns[i] -= first;
        } else {
            const int *found = bsearch(&columns[i], needed, (size_t)receive_total, sizeof *needed, compare_ints);
            columns[i] = rows + (int)(found - needed);
        }
    }
}

static void make_graph(void) {
    size_t processes = (size_t)size;
    int *tables = study_allocate(6 * processes, sizeof *tables);
    source_ranks = tables;
    source_counts = tables + processes;
    source_places = tables + 2 * processes;
    destination_ranks = tables + 3 * processes;
    destination_counts = tables + 4 * processes;
    destination_places = tables + 5 * processes;
    for (int process = 0; process < size; process++) {
        if (receive_counts[process] > 0) {
            source_ranks[sources] = process;
            source_counts[sources] = receive_counts[process];
            source_places[sources++] = receive_places[process];
        }
        if (send_counts[process] > 0) {
            destination_ranks[destinations] = process;
            destination_counts[destinations] = send_counts[process];
            destination_places[destinations++] = send_places[process];
        }
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, sources, source_ranks, source_counts, destinations, destination_ranks,
                                   destination_counts, MPI_INFO_NULL, 0, &graph);
    requests = study_allocate((size_t)(sources + destinations), sizeof *requests);
}

/* ---- The product ---- */

static void exchange_messages(double *others) {
    MPI_Request *request = requests;
    for (int s = 0; s < sources; s++)
        MPI_Irecv(others + source_places[s], source_counts[s], MPI_DOUBLE, source_ranks[s], 0, MPI_COMM_WORLD, request++);
    for (int d = 0; d < destinations; d++)
        MPI_Isend(send_values + destination_places[d], destination_counts[d], MPI_DOUBLE, destination_ranks[d], 0,
                  MPI_COMM_WORLD, request++);
    MPI_Waitall(sources + destinations, requests, MPI_STATUSES_IGNORE);
}

static void exchange(int way) {
    double *others = vector + rows;
    for (int i = 0; i < send_total; i++) send_values[i] = vector[send_rows[i] - first];
    if (way == MESSAGES) {
        exchange_messages(others);
    } else if (way == NEIGHBOUR) {
        MPI_Neighbor_alltoallv(send_values, destination_counts, destination_places, MPI_DOUBLE, others, source_counts,
                               source_places, MPI_DOUBLE, graph);
    } else if (way == PERSISTENT) {
        MPI_Start(&persistent);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    } else {
        MPI_Alltoallv(send_values, send_counts, send_places, MPI_DOUBLE, others, receive_counts, receive_places, MPI_DOUBLE,
                      MPI_COMM_WORLD);
    }
}

static void run(int way, int iterations, const double *right) {
    double communication = 0;
    for (int i = 0; i < rows; i++) vector[i] = start_value(first + i);
    if (way == PERSISTENT)
        MPI_Neighbor_alltoallv_init(send_values, destination_counts, destination_places, MPI_DOUBLE, vector + rows,
                                    source_counts, source_places, MPI_DOUBLE, graph, MPI_INFO_NULL, &persistent);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int iteration = 0; iteration < iterations; iteration++) {
        double started = MPI_Wtime();
        exchange(way);
        communication += MPI_Wtime() - started;
        for (int i = 0; i < rows; i++) product[i] = row_product(columns + (size_t)i * ENTRIES, vector);
        memcpy(vector, product, (size_t)rows * sizeof *vector);
    }
    study_case(WAY_NAMES[way], MPI_Wtime() - begun, communication);
    if (way == PERSISTENT) MPI_Request_free(&persistent);
    int differing = 0;
    for (int i = 0; i < rows; i++) differing += vector[i] != right[i];
    study_verify(WAY_NAMES[way], differing, 0);
}

/* The right values of own rows, from a product of all rows in one process. */
static double *right_values(int iterations) {
    size_t all = (size_t)row_count;
    double *now = study_allocate(all, sizeof *now), *next = study_allocate(all, sizeof *next);
    for (int row = 0; row < row_count; row++) now[row] = start_value(row);
    for (int iteration = 0; iteration < iterations; iteration++) {
        for (int row = 0; row < row_count; row++) {
            int places[ENTRIES];
            columns_of(row, places);
            next[row] = row_product(places, now);
        }
        double *swapped = now;
        now = next;
        next = swapped;
    }
    memmove(now, now + first, (size_t)rows * sizeof *now);
    free(next);
    return now;
}

int main(int argc, char **argv) {
    study_begin("sparse", &argc, &argv, MPI_THREAD_SINGLE);
    edge = study_number(argc, argv, 1, 300);
    int iterations = study_number(argc, argv, 2, 50), repetitions = study_number(argc, argv, 3, 1);
    study_need(edge && edge <= 10000 && edge >= size && iterations && repetitions,
               "sparse [EDGE [ITERATIONS [REPETITIONS]]]: an edge of at least the number of processes, at most 10000");
    row_count = edge * edge;
    first = begin_of(rank);
    rows = begin_of(rank + 1) - first;
    columns = study_allocate((size_t)rows * ENTRIES, sizeof *columns);
    int *needed = needed_rows();
    exchange_lists(needed);
    number_columns(needed);
    make_graph();
    vector = study_allocate((size_t)rows + (size_t)receive_total, sizeof *vector);
    product = study_allocate((size_t)rows, sizeof *product);
    double *right = right_values(iterations);
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int way = 0; way < WAYS; way++) run(way, iterations, right);
    MPI_Comm_free(&graph);
    free(right);
    free(needed);
    return study_end();
}
