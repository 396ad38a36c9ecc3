/* All shortest paths of a directed graph, by Floyd and Warshall: broadcasts of rows.
 *
 *     mpicc -O2 asp.c -o asp && mpirun -n 4 ./asp [VERTICES [REPETITIONS]]
 *
 * The matrix of distances is divided by rows. In step k, the owner of row k broadcasts it, and everybody
 * looks whether the way over vertex k is shorter. What a process spends in broadcasts, waiting for the
 * owner included, is called communication, the rest computation; both are means over the processes.
 *
 * Each process checks some of its rows by Dijkstra's algorithm, which has nothing in common with the
 * first but the graph. It uses nothing but plain MPI. */
#define _POSIX_C_SOURCE 200112L
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far more than any path of the graph, and twice of it still fits. */
enum { NO_WAY = 1 << 29, LONGEST_EDGE = 1000, EDGES_PER_VERTEX = 8, ROWS_CHECKED = 3 };

static int rank, size, vertices;

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "asp: no memory for %zu bytes; give fewer vertices\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* The first row of a process; that of process `size` is the number of all rows. */
static int first_row(int process) {
    return (int)((int64_t)vertices * process / size);
}

static int owner_of(int row) {
    int process = (int)((int64_t)row * size / vertices);
    while (first_row(process + 1) <= row) process++;
    while (first_row(process) > row) process--;
    return process;
}

/* The length of the edge, the same everywhere without a word: a hash of its ends. */
static int edge(int from, int to) {
    if (from == to) return 0;
    uint32_t hash = (uint32_t)from * 2654435761u ^ ((uint32_t)to * 2246822519u + 374761393u);
    hash = (hash ^ hash >> 15) * 2246822519u;
    hash = (hash ^ hash >> 13) * 3266489917u;
    hash ^= hash >> 16;
    if (hash % (uint32_t)vertices >= EDGES_PER_VERTEX) return NO_WAY;
    return 1 + (int)(hash / (uint32_t)vertices % LONGEST_EDGE);
}

static void fill(int *rows) {
    int first = first_row(rank), count = first_row(rank + 1) - first;
    for (int row = 0; row < count; row++)
        for (int to = 0; to < vertices; to++) rows[(size_t)row * (size_t)vertices + (size_t)to] = edge(first + row, to);
}

/* Turns edges into distances; gives the seconds spent in broadcasts. */
static double find_paths(int *rows, int *passing) {
    int first = first_row(rank), count = first_row(rank + 1) - first;
    double communication = 0;
    for (int k = 0; k < vertices; k++) {
        int owner = owner_of(k);
        int *over = owner == rank ? rows + (size_t)(k - first) * (size_t)vertices : passing;
        double start = MPI_Wtime();
        MPI_Bcast(over, vertices, MPI_INT, owner, MPI_COMM_WORLD);
        communication += MPI_Wtime() - start;
        for (int row = 0; row < count; row++) {
            int *distances = rows + (size_t)row * (size_t)vertices, to_k = distances[k];
            for (int to = 0; to < vertices; to++) {
                int way = to_k + over[to];
                distances[to] = way < distances[to] ? way : distances[to];
            }
        }
    }
    return communication;
}

/* Distances from one vertex, by Dijkstra. */
static void distances_from(int from, int *distances, char *done) {
    memset(done, 0, (size_t)vertices);
    for (int vertex = 0; vertex < vertices; vertex++) distances[vertex] = vertex == from ? 0 : NO_WAY;
    for (;;) {
        int nearest = -1;
        for (int vertex = 0; vertex < vertices; vertex++)
            if (!done[vertex] && distances[vertex] < NO_WAY && (nearest < 0 || distances[vertex] < distances[nearest]))
                nearest = vertex;
        if (nearest < 0) return;
        done[nearest] = 1;
        for (int to = 0; to < vertices; to++) {
            int length = edge(nearest, to);
            if (length < NO_WAY && distances[nearest] + length < distances[to]) distances[to] = distances[nearest] + length;
        }
    }
}

/* How many of the distances that were looked at are wrong. */
static int wrong_distances(const int *rows) {
    int first = first_row(rank), count = first_row(rank + 1) - first, wrong = 0;
    int *expected = allocate((size_t)vertices * sizeof *expected);
    char *done = allocate((size_t)vertices);
    for (int check = 0; check < ROWS_CHECKED && check < count; check++) {
        int row = (int)((int64_t)check * (count - 1) / (ROWS_CHECKED - 1));
        distances_from(first + row, expected, done);
        for (int to = 0; to < vertices; to++) {
            int found = rows[(size_t)row * (size_t)vertices + (size_t)to];
            /* Adding an edge to "no way" stays far above every path. */
            if (found != expected[to] && !(found >= NO_WAY && expected[to] == NO_WAY)) wrong++;
        }
    }
    free(expected);
    free(done);
    return wrong;
}

static double mean_over_processes(double seconds) {
    double sum = 0;
    MPI_Allreduce(&seconds, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum / size;
}

static void print_library(void) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\r\n")] = 0;
    printf("asp: shortest paths between %d vertices, %d processes, %s\n", vertices, size, version);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    vertices = argc > 1 ? atoi(argv[1]) : 512;
    int repetitions = argc > 2 ? atoi(argv[2]) : 1;
    if (vertices < size || vertices > 20000 || repetitions < 1) {
        if (rank == 0) fprintf(stderr, "usage: asp [VERTICES [REPETITIONS]]: one vertex or more for each process, at most 20000\n");
        MPI_Finalize();
        return 2;
    }
    if (rank == 0) print_library();
    int count = first_row(rank + 1) - first_row(rank), wrong = 0, wrong_everywhere = 0;
    int *rows = allocate((size_t)count * (size_t)vertices * sizeof *rows);
    int *passing = allocate((size_t)vertices * sizeof *passing);
    for (int repetition = 0; repetition < repetitions; repetition++) {
        fill(rows);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime(), mine = find_paths(rows, passing), all = MPI_Wtime() - start;
        double communication = mean_over_processes(mine), computation = mean_over_processes(all - mine);
        if (rank == 0) printf("communication %.3f ms, computation %.3f ms\n", communication * 1e3, computation * 1e3);
        wrong += wrong_distances(rows);
    }
    MPI_Allreduce(&wrong, &wrong_everywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(wrong_everywhere ? "asp: %d distances are WRONG\n" : "asp: all distances are right\n", wrong_everywhere);
    free(rows);
    free(passing);
    MPI_Finalize();
    return wrong_everywhere ? 1 : 0;
}
