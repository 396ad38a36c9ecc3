/* Poisson's equation on a cube, by Jacobi iterations: halos of blocks in three dimensions.
 *
 *     mpicc -O2 poisson3d.c -o poisson3d -lm && mpirun -n 4 ./poisson3d [POINTS [ITERATIONS [REPETITIONS]]]
 *
 * POINTS inner points along each edge are divided into blocks on a Cartesian grid of processes. Each
 * iteration exchanges the faces of the blocks, which are subarray types, computes a new value for each
 * point out of its six neighbours, and adds up how much changed everywhere. Time in the exchange and in
 * MPI_Allreduce, waiting included, is called communication, the rest computation; both are means over the
 * processes.
 *
 * The right-hand side is f = (pi^2)(1 + 4 + 9) u for u = sin(pi x) sin(2 pi y) sin(3 pi z), which is zero on the
 * surface. For the grid too u is an eigenvector; so the value of each point after any number of iterations
 * is known, and all of them are checked. It uses nothing but plain MPI. */
#define _POSIX_C_SOURCE 200112L
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* The block of this process: its inner points, with one point of halo on each side. */
struct block {
    MPI_Comm grid;
    int points;          /* along an edge of the whole cube */
    int count[3];        /* inner points of the block */
    int first[3];        /* where they begin in the cube */
    int below[3], above[3];
    MPI_Datatype face_sent[3][2], face_received[3][2];
    double *now, *next, *source;
};

static int rank, size;

static size_t at(const struct block *block, int x, int y, int z) {
    return ((size_t)x * (size_t)(block->count[1] + 2) + (size_t)y) * (size_t)(block->count[2] + 2) + (size_t)z;
}

/* The solution of the continuous problem at a point of the block. */
static double solution(const struct block *block, int x, int y, int z) {
    double step = 1.0 / (block->points + 1);
    return sin(PI * step * (block->first[0] + x)) * sin(2 * PI * step * (block->first[1] + y)) *
           sin(3 * PI * step * (block->first[2] + z));
}

static MPI_Datatype face(const struct block *block, int dimension, int layer) {
    int sizes[3], counts[3], starts[3];
    for (int d = 0; d < 3; d++) {
        sizes[d] = block->count[d] + 2;
        counts[d] = d == dimension ? 1 : block->count[d];
        starts[d] = d == dimension ? layer : 1;
    }
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static double *allocate(size_t count) {
    double *numbers = calloc(count, sizeof *numbers);
    if (!numbers) {
        fprintf(stderr, "poisson3d: no memory for %zu numbers; give fewer points\n", count);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return numbers;
}

static void open_block(struct block *block, int points) {
    int dimensions[3] = {0, 0, 0}, periods[3] = {0, 0, 0}, place[3];
    MPI_Dims_create(size, 3, dimensions);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dimensions, periods, 0, &block->grid);
    MPI_Cart_coords(block->grid, rank, 3, place);
    block->points = points;
    for (int d = 0; d < 3; d++) {
        int begin = points * place[d] / dimensions[d];
        block->first[d] = begin;
        block->count[d] = points * (place[d] + 1) / dimensions[d] - begin;
        MPI_Cart_shift(block->grid, d, 1, &block->below[d], &block->above[d]);
    }
    for (int d = 0; d < 3; d++) {
        block->face_sent[d][0] = face(block, d, 1);
        block->face_sent[d][1] = face(block, d, block->count[d]);
        block->face_received[d][0] = face(block, d, 0);
        block->face_received[d][1] = face(block, d, block->count[d] + 1);
    }
    size_t all = at(block, block->count[0] + 1, block->count[1] + 1, block->count[2] + 1) + 1;
    block->now = allocate(all);
    block->next = allocate(all);
    block->source = allocate(all);
    for (int x = 1; x <= block->count[0]; x++)
        for (int y = 1; y <= block->count[1]; y++)
            for (int z = 1; z <= block->count[2]; z++)
                block->source[at(block, x, y, z)] = 14 * PI * PI * solution(block, x, y, z);
}

static void close_block(struct block *block) {
    for (int d = 0; d < 3; d++)
        for (int end = 0; end < 2; end++) {
            MPI_Type_free(&block->face_sent[d][end]);
            MPI_Type_free(&block->face_received[d][end]);
        }
    MPI_Comm_free(&block->grid);
    free(block->now);
    free(block->next);
    free(block->source);
}

/* All six faces at once; at the surface of the cube the neighbour is MPI_PROC_NULL. */
static void exchange_halos(struct block *block) {
    MPI_Request requests[12];
    int count = 0;
    for (int d = 0; d < 3; d++) {
        MPI_Irecv(block->now, 1, block->face_received[d][0], block->below[d], 2 * d, block->grid, &requests[count++]);
        MPI_Irecv(block->now, 1, block->face_received[d][1], block->above[d], 2 * d + 1, block->grid, &requests[count++]);
    }
    for (int d = 0; d < 3; d++) {
        MPI_Isend(block->now, 1, block->face_sent[d][1], block->above[d], 2 * d, block->grid, &requests[count++]);
        MPI_Isend(block->now, 1, block->face_sent[d][0], block->below[d], 2 * d + 1, block->grid, &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

/* New values out of the old ones of six neighbours; gives the sum of the squares of all changes. */
static double relax(struct block *block) {
    double step = 1.0 / (block->points + 1), changed = 0;
    size_t row = (size_t)(block->count[2] + 2), plane = row * (size_t)(block->count[1] + 2);
    for (int x = 1; x <= block->count[0]; x++)
        for (int y = 1; y <= block->count[1]; y++) {
            size_t start = at(block, x, y, 1);
            const double *now = block->now + start, *source = block->source + start;
            double *next = block->next + start;
            for (int z = 0; z < block->count[2]; z++) {
                const double *here = now + z;
                double sum = here[-1] + here[1] + *(here - row) + here[row] + *(here - plane) + here[plane];
                double value = (sum + step * step * source[z]) / 6, change = value - *here;
                next[z] = value;
                changed += change * change;
            }
        }
    double *swapped = block->now;
    block->now = block->next;
    block->next = swapped;
    return changed;
}

/* Iterates from zero; gives the seconds spent in communication, and the last change. */
static double solve(struct block *block, int iterations, double *change) {
    double communication = 0;
    for (int iteration = 0; iteration < iterations; iteration++) {
        double start = MPI_Wtime();
        exchange_halos(block);
        communication += MPI_Wtime() - start;
        double mine = relax(block);
        start = MPI_Wtime();
        MPI_Allreduce(&mine, change, 1, MPI_DOUBLE, MPI_SUM, block->grid);
        communication += MPI_Wtime() - start;
    }
    *change = sqrt(*change);
    return communication;
}

/* The largest difference from what so many iterations give: each shrinks the distance from the grid's own
 * solution by the same factor, as the error is an eigenvector. */
static double largest_error(const struct block *block, int iterations) {
    double step = 1.0 / (block->points + 1), cosines = 0, largest = 0;
    for (int mode = 1; mode <= 3; mode++) cosines += cos(mode * PI * step);
    double grid_solution = 14 * PI * PI * step * step / (2 * (3 - cosines));
    double factor = grid_solution * (1 - pow(cosines / 3, iterations));
    for (int x = 1; x <= block->count[0]; x++)
        for (int y = 1; y <= block->count[1]; y++)
            for (int z = 1; z <= block->count[2]; z++) {
                double error = fabs(block->now[at(block, x, y, z)] - factor * solution(block, x, y, z));
                /* Not a number is the worst error. */
                if (!(error <= largest)) largest = error;
            }
    return largest;
}

static double over_processes(double value, MPI_Op operation) {
    double result = 0;
    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, operation, MPI_COMM_WORLD);
    return result;
}

static void print_library(int points, int iterations) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\r\n")] = 0;
    printf("poisson3d: %d points in each dimension, %d iterations, %d processes, %s\n", points, iterations, size, version);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int points = argc > 1 ? atoi(argv[1]) : 64, iterations = argc > 2 ? atoi(argv[2]) : 200;
    int repetitions = argc > 3 ? atoi(argv[3]) : 1;
    if (points < size || points > 1000 || iterations < 1 || repetitions < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: poisson3d [POINTS [ITERATIONS [REPETITIONS]]]: "
                            "as many points as processes or more, at most 1000\n");
        MPI_Finalize();
        return 2;
    }
    if (rank == 0) print_library(points, iterations);
    struct block block;
    double error = 0, change = 0;
    open_block(&block, points);
    size_t all = at(&block, block.count[0] + 1, block.count[1] + 1, block.count[2] + 1) + 1;
    for (int repetition = 0; repetition < repetitions; repetition++) {
        memset(block.now, 0, all * sizeof *block.now);
        memset(block.next, 0, all * sizeof *block.next);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime(), mine = solve(&block, iterations, &change), total = MPI_Wtime() - start;
        double communication = over_processes(mine, MPI_SUM) / size;
        double computation = over_processes(total - mine, MPI_SUM) / size;
        if (rank == 0) printf("communication %.3f ms, computation %.3f ms\n", communication * 1e3, computation * 1e3);
        error = fmax(error, over_processes(largest_error(&block, iterations), MPI_MAX));
    }
    int right = error < 1e-10;
    if (rank == 0) {
        printf("last change %.3g, largest error %.2g\n", change, error);
        puts(right ? "poisson3d: all points are right" : "poisson3d: points are WRONG");
    }
    close_block(&block);
    MPI_Finalize();
    return right ? 0 : 1;
}
