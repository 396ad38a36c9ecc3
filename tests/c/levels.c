// Collectives of all processes, for tests/scenarios/levels.py and tests/numa/guest.sh, which check
// which process sends to which: with an argument broadcasts from this rank only.
#include "check.h"

enum { TIMES = 40, COUNT = 3 };

static int value(int round, int rank, int at) { return round * 7919 + rank * 101 + at; }

// What one process has for each, of each or for all.
static int *filled(int round, int rank, int count) {
    int *made = malloc(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++) made[i] = value(round, rank, i);
    return made;
}

static void judge(const char *what, int round, int at, int found, int expected) {
    CHECK(found == expected, "%s %d, element %d: %d instead of %d", what, round, at, found, expected);
}

static void move(int round, int root, int rank, int size) {
    int *own = filled(round, rank, COUNT * size), *all = calloc((size_t)(COUNT * size), sizeof(int));
    OK(MPI_Gather(own, COUNT, MPI_INT, all, COUNT, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; rank == root && i < COUNT * size; i++)
        judge("gather", round, i, all[i], value(round, i / COUNT, i % COUNT));
    OK(MPI_Scatter(own, COUNT, MPI_INT, all, COUNT, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++)
        judge("scatter", round, i, all[i], value(round, root, rank * COUNT + i));
    OK(MPI_Allgather(own, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT * size; i++)
        judge("allgather", round, i, all[i], value(round, i / COUNT, i % COUNT));
    OK(MPI_Alltoall(own, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT * size; i++)
        judge("alltoall", round, i, all[i], value(round, i / COUNT, rank * COUNT + i % COUNT));
    free(own);
    free(all);
}

static void combine(int round, int root, int rank, int size) {
    int *own = filled(round, rank, COUNT * size), all[COUNT] = {0};
    int ranks = size * (size - 1) / 2;
    OK(MPI_Reduce(own, all, COUNT, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
    for (int i = 0; rank == root && i < COUNT; i++)
        judge("reduce", round, i, all[i], size * value(round, 0, i) + 101 * ranks);
    OK(MPI_Allreduce(own, all, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++)
        judge("allreduce", round, i, all[i], size * value(round, 0, i) + 101 * ranks);
    OK(MPI_Reduce_scatter_block(own, all, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++)
        judge("reduce_scatter", round, i, all[i], size * value(round, 0, rank * COUNT + i) + 101 * ranks);
    free(own);
}

int main(int argc, char **argv) {
    check_begin();
    int rank = check_rank, size = check_size;
    for (int i = 0; i < TIMES; i++) {
        int root = argc > 1 ? atoi(argv[1]) : i % size;
        int data = rank == root ? i : -1;
        OK(MPI_Bcast(&data, 1, MPI_INT, root, MPI_COMM_WORLD));
        CHECK(data == i, "broadcast %d from %d: %d", i, root, data);
        if (argc > 1) continue;
        move(i, root, rank, size);
        combine(i, root, rank, size);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return check_end();
}
