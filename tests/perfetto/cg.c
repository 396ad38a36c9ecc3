// The communication of NAS's CG: conjugate gradients with a sparse matrix that is divided over a
// grid of processes by rows and columns. For each product a rank collects its part of the vector
// from the ranks that own it, and the ranks of a row add up their parts of the result; dot products
// are added up over all ranks. Arguments: an edge, whose square is the number of unknowns, and
// iterations. The solution is known and compared. Prints "sent RANK MESSAGES BYTES" (tags of 1000
// and more) and "took SECONDS".
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG_VECTOR = 1000, TAG_SUM, ENTRIES = 6 };

static int rank, size, edge, unknowns, grid_rows, grid_columns, row, column;
static double *part, *partial, *added;
static MPI_Request *requests;
static long messages, bytes;

// The vector is divided into a piece for each rank. Row r of the grid has the pieces from r *
// grid_columns on, column c those from c * grid_rows on.
static int begin_of(int piece) {
    return (int)((long)unknowns * piece / size);
}

static int length_of(int piece) {
    return begin_of(piece + 1) - begin_of(piece);
}

// The columns with entries in a row of the matrix; it is symmetric, and its diagonal dominates.
static int columns_of(int line, int found[ENTRIES]) {
    int far = line < unknowns / 2 ? line + unknowns / 2 : line - unknowns / 2, count = 0;
    int candidates[ENTRIES] = {line, line - edge, line - 1, line + 1, line + edge, far};
    for (int i = 0; i < ENTRIES; i++)
        if (candidates[i] >= 0 && candidates[i] < unknowns)
            found[count++] = candidates[i];
    return count;
}

static double product_of(int line, const double *vector, int begin, int end) {
    int found[ENTRIES], count = columns_of(line, found);
    double sum = 0;
    for (int i = 0; i < count; i++)
        if (found[i] >= begin && found[i] < end)
            sum += (found[i] == line ? 8 : -1) * vector[found[i] - begin];
    return sum;
}

static void send(const double *values, int count, int to, int tag, MPI_Request *request) {
    MPI_Isend(values, count, MPI_DOUBLE, to, tag, MPI_COMM_WORLD, request);
    messages += to != rank;
    bytes += to != rank ? count * (long)sizeof(double) : 0;
}

// Matrix times vector, of which each rank has its piece.
static void multiply(const double *own, double *result) {
    int count = 0, begin = begin_of(column * grid_rows), end = begin_of((column + 1) * grid_rows);
    for (int i = 0; i < grid_rows; i++) {
        int piece = column * grid_rows + i;
        MPI_Irecv(part + begin_of(piece) - begin, length_of(piece), MPI_DOUBLE, piece, TAG_VECTOR, MPI_COMM_WORLD,
                  &requests[count++]);
    }
    for (int i = 0; i < grid_rows; i++)
        send(own, length_of(rank), i * grid_columns + rank / grid_rows, TAG_VECTOR, &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    int first = begin_of(row * grid_columns), last = begin_of((row + 1) * grid_columns), own_length = length_of(rank);
    for (int line = first; line < last; line++)
        partial[line - first] = product_of(line, part, begin, end);
    count = 0;
    for (int i = 0; i < grid_columns; i++) {
        int peer = row * grid_columns + i;
        MPI_Irecv(added + (size_t)i * (size_t)own_length, own_length, MPI_DOUBLE, peer, TAG_SUM, MPI_COMM_WORLD,
                  &requests[count++]);
        send(partial + begin_of(peer) - first, length_of(peer), peer, TAG_SUM, &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < own_length; k++) {
        result[k] = 0;
        for (int i = 0; i < grid_columns; i++)
            result[k] += added[(size_t)i * (size_t)own_length + (size_t)k];
    }
}

static double dot(const double *a, const double *b) {
    double own = 0, sum;
    for (int k = 0; k < length_of(rank); k++)
        own += a[k] * b[k];
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static double *vector(long length) {
    return calloc((size_t)length + 1, sizeof(double));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    edge = argc > 1 ? atoi(argv[1]) : 32;
    int iterations = argc > 2 ? atoi(argv[2]) : 25, grid[2] = {0, 0};
    unknowns = 2 * (edge * edge / 2);
    MPI_Dims_create(size, 2, grid);
    grid_rows = grid[0], grid_columns = grid[1];
    row = rank / grid_columns, column = rank % grid_columns;
    int own = length_of(rank);
    part = vector(unknowns), partial = vector(unknowns), added = vector((long)own * grid_columns);
    requests = malloc((size_t)(2 * size + 2) * sizeof *requests);
    double *x = vector(own), *direction = vector(own), *rest = vector(own), *image = vector(own), *expected = vector(own);
    for (int k = 0; k < own; k++)
        expected[k] = 1 + (begin_of(rank) + k) % 7;
    multiply(expected, rest);
    for (int k = 0; k < own; k++)
        direction[k] = rest[k];
    double begun = MPI_Wtime(), square = dot(rest, rest);
    for (int step = 0; step < iterations; step++) {
        multiply(direction, image);
        double length = square / dot(direction, image);
        for (int k = 0; k < own; k++) {
            x[k] += length * direction[k];
            rest[k] -= length * image[k];
        }
        double next = dot(rest, rest), ratio = next / square;
        for (int k = 0; k < own; k++)
            direction[k] = rest[k] + ratio * direction[k];
        square = next;
    }
    double took = MPI_Wtime() - begun, worst = 0;
    for (int k = 0; k < own; k++)
        if (!(fabs(x[k] - expected[k]) <= worst))
            worst = fabs(x[k] - expected[k]);
    printf("sent %d %ld %ld\n", rank, messages, bytes);
    if (rank == 0)
        printf("took %.6f\n", took);
    // Each iteration makes the error smaller, by more than half.
    int is_wrong = !(worst < fmax(1e-9, 20 * pow(0.5, iterations)));
    if (is_wrong)
        fprintf(stderr, "rank %d: the solution is wrong by %g\n", rank, worst);
    MPI_Finalize();
    return is_wrong;
}
