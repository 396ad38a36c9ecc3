// Makes a periodic grid of all processes with reorder, and prints the host of each position:
// tests/scenarios/hosts.py starts it, and knows the network. The arguments are the extents.
#include "check.h"

enum { NAME_BYTES = MPI_MAX_PROCESSOR_NAME, DIMENSIONS_MAX = 4 };

// Each process hears from the position before it in each dimension.
static void check_neighbours(MPI_Comm grid, int dimensions, const int *extents) {
    int rank;
    MPI_Comm_rank(grid, &rank);
    for (int dimension = 0; dimension < dimensions; dimension++) {
        int before, after, heard = -1, expected, at[DIMENSIONS_MAX];
        MPI_Cart_shift(grid, dimension, 1, &before, &after);
        MPI_Sendrecv(&rank, 1, MPI_INT, after, 0, &heard, 1, MPI_INT, before, 0, grid, MPI_STATUS_IGNORE);
        MPI_Cart_coords(grid, rank, dimensions, at);
        at[dimension] = (at[dimension] + extents[dimension] - 1) % extents[dimension];
        MPI_Cart_rank(grid, at, &expected);
        CHECK(heard == expected, "rank %d heard from %d instead of %d", rank, heard, expected);
    }
}

int main(int argc, char **argv) {
    check_begin();
    int dimensions = argc - 1, extents[DIMENSIONS_MAX], periods[DIMENSIONS_MAX] = {1, 1, 1, 1}, length;
    REQUIRE(dimensions >= 1 && dimensions <= DIMENSIONS_MAX, "%d extents", dimensions);
    for (int dimension = 0; dimension < dimensions; dimension++) extents[dimension] = atoi(argv[dimension + 1]);
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, dimensions, extents, periods, 1, &grid);
    REQUIRE(grid != MPI_COMM_NULL, "the grid has fewer positions than there are processes");
    check_neighbours(grid, dimensions, extents);
    char name[NAME_BYTES] = "", *names = malloc((size_t)check_size * NAME_BYTES);
    REQUIRE(names, "no memory");
    MPI_Get_processor_name(name, &length);
    MPI_Gather(name, NAME_BYTES, MPI_CHAR, names, NAME_BYTES, MPI_CHAR, 0, grid);
    int rank;
    MPI_Comm_rank(grid, &rank);
    if (rank == 0) {
        printf("hosts:");
        for (int at = 0; at < check_size; at++) printf(" %s", names + at * NAME_BYTES);
        printf("\n");
    }
    free(names);
    MPI_Comm_free(&grid);
    return check_end();
}
