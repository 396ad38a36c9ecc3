// The communication of NAS's LU: symmetric successive over-relaxation on a cube, whose columns are
// divided over a grid of processes. In each step the planes are swept upwards and then downwards,
// and each plane waits for the edges of two neighbours: many small messages in a pipeline. Then
// halos are exchanged and the residual is added up over all ranks. Arguments: points along an edge,
// steps. The residual must shrink. Prints "sent RANK MESSAGES BYTES" (tags of 1000 and more) and
// "took SECONDS".
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WEST, EAST, NORTH, SOUTH, SIDES, TAG = 1000 };

static MPI_Comm grid;
static int rank, points, columns, rows, first_column, first_row, neighbours[SIDES];
static double *now, *source, *edges[2 * SIDES];
static long messages, bytes;

// The place of a point; `x` is -1 to `columns`, `y` is -1 to `rows`, `z` is -1 to `points`.
static size_t at(int x, int y, int z) {
    return ((size_t)(z + 1) * (size_t)(rows + 2) + (size_t)(y + 1)) * (size_t)(columns + 2) + (size_t)(x + 1);
}

static double solution(int x, int y, int z) {
    double a = (x + 1.0) / (points + 1), b = (y + 1.0) / (points + 1), c = (z + 1.0) / (points + 1);
    return a * (1 - a) * b * (1 - b) * c * (1 - c);
}

static void begin_and_count(int place, int places, int *first, int *count) {
    *first = (int)((long)points * place / places);
    *count = (int)((long)points * (place + 1) / places) - *first;
}

// Copies the edge of a plane at a side of the block into a buffer, or out of it into the halo.
static void copy_edge(int side, int z, double *buffer, int is_received) {
    int is_column = side == WEST || side == EAST;
    int inside = side == WEST || side == NORTH ? 0 : (is_column ? columns : rows) - 1;
    int fixed = !is_received ? inside : side == WEST || side == NORTH ? -1 : inside + 1;
    for (int i = 0; i < (is_column ? rows : columns); i++) {
        double *point = &now[is_column ? at(fixed, i, z) : at(i, fixed, z)];
        if (is_received)
            *point = buffer[i];
        else
            buffer[i] = *point;
    }
}

static int edge_length(int side) {
    return side == WEST || side == EAST ? rows : columns;
}

static void send_edge(int side, int z) {
    if (neighbours[side] == MPI_PROC_NULL)
        return;
    copy_edge(side, z, edges[side], 0);
    MPI_Send(edges[side], edge_length(side), MPI_DOUBLE, neighbours[side], TAG + side, grid);
    messages++;
    bytes += edge_length(side) * (long)sizeof(double);
}

static void receive_edge(int side, int z) {
    if (neighbours[side] == MPI_PROC_NULL)
        return;
    // It comes from the opposite side of the neighbour.
    MPI_Recv(edges[side], edge_length(side), MPI_DOUBLE, neighbours[side], TAG + (side ^ 1), grid, MPI_STATUS_IGNORE);
    copy_edge(side, z, edges[side], 1);
}

static double around(int x, int y, int z) {
    return now[at(x - 1, y, z)] + now[at(x + 1, y, z)] + now[at(x, y - 1, z)] + now[at(x, y + 1, z)] +
           now[at(x, y, z - 1)] + now[at(x, y, z + 1)];
}

static void relax(int x, int y, int z) {
    const double factor = 1.5;
    double *point = &now[at(x, y, z)];
    *point += factor * ((around(x, y, z) + source[at(x, y, z)]) / 6 - *point);
}

static void sweep_up(void) {
    for (int z = 0; z < points; z++) {
        receive_edge(WEST, z);
        receive_edge(NORTH, z);
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < columns; x++)
                relax(x, y, z);
        send_edge(EAST, z);
        send_edge(SOUTH, z);
    }
}

static void sweep_down(void) {
    for (int z = points - 1; z >= 0; z--) {
        receive_edge(EAST, z);
        receive_edge(SOUTH, z);
        for (int y = rows - 1; y >= 0; y--)
            for (int x = columns - 1; x >= 0; x--)
                relax(x, y, z);
        send_edge(WEST, z);
        send_edge(NORTH, z);
    }
}

// All edges of a side travel in one message.
static void exchange_halos(void) {
    MPI_Request requests[2 * SIDES];
    for (int side = 0; side < SIDES; side++) {
        int length = edge_length(side);
        MPI_Irecv(edges[SIDES + side], length * points, MPI_DOUBLE, neighbours[side], TAG + SIDES + (side ^ 1), grid,
                  &requests[side]);
        for (int z = 0; neighbours[side] != MPI_PROC_NULL && z < points; z++)
            copy_edge(side, z, edges[side] + (size_t)length * (size_t)z, 0);
        MPI_Isend(edges[side], length * points, MPI_DOUBLE, neighbours[side], TAG + SIDES + side, grid,
                  &requests[SIDES + side]);
        messages += neighbours[side] != MPI_PROC_NULL;
        bytes += neighbours[side] != MPI_PROC_NULL ? length * points * (long)sizeof(double) : 0;
    }
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
    for (int side = 0; side < SIDES; side++)
        for (int z = 0; neighbours[side] != MPI_PROC_NULL && z < points; z++)
            copy_edge(side, z, edges[SIDES + side] + (size_t)edge_length(side) * (size_t)z, 1);
}

static double residual(void) {
    double own = 0, sum;
    for (int z = 0; z < points; z++)
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < columns; x++) {
                double difference = around(x, y, z) + source[at(x, y, z)] - 6 * now[at(x, y, z)];
                own += difference * difference;
            }
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, grid);
    return sqrt(sum);
}

static void prepare(void) {
    int size, places[2] = {0, 0}, place[2];
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, places);
    MPI_Cart_create(MPI_COMM_WORLD, 2, places, (int[]){0, 0}, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, place);
    MPI_Cart_shift(grid, 0, 1, &neighbours[NORTH], &neighbours[SOUTH]);
    MPI_Cart_shift(grid, 1, 1, &neighbours[WEST], &neighbours[EAST]);
    if (points < places[0])
        MPI_Abort(MPI_COMM_WORLD, 2);
    begin_and_count(place[0], places[0], &first_row, &rows);
    begin_and_count(place[1], places[1], &first_column, &columns);
    now = calloc(at(columns, rows, points) + 1, sizeof(double));
    source = calloc(at(columns, rows, points) + 1, sizeof(double));
    for (int side = 0; side < 2 * SIDES; side++)
        edges[side] = calloc((size_t)points * (size_t)points, sizeof(double));
    // The source for which the solution is exact: minus its differences.
    for (int z = 0; z < points; z++)
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < columns; x++) {
                int a = first_column + x, b = first_row + y;
                source[at(x, y, z)] = 6 * solution(a, b, z) - solution(a - 1, b, z) - solution(a + 1, b, z) -
                                      solution(a, b - 1, z) - solution(a, b + 1, z) - solution(a, b, z - 1) -
                                      solution(a, b, z + 1);
            }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    points = argc > 1 ? atoi(argv[1]) : 16;
    int steps = argc > 2 ? atoi(argv[2]) : 20;
    prepare();
    double before = residual(), begun = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        sweep_up();
        sweep_down();
        exchange_halos();
    }
    double after = residual(), took = MPI_Wtime() - begun;
    printf("sent %d %ld %ld\n", rank, messages, bytes);
    if (rank == 0)
        printf("took %.6f\n", took);
    // Each step makes the residual smaller, by more than 1 % on cubes of up to 64 points.
    int is_wrong = !(after < before * pow(0.99, steps) || after <= 1e-12);
    if (is_wrong)
        fprintf(stderr, "rank %d: the residual is %g after %g\n", rank, after, before);
    MPI_Finalize();
    return is_wrong;
}
