// Topologies whose processes may be reordered, on machines that are emulated: neighbours come
// together on one machine, and the process that gets a rank has the neighbours given for it.
//
// run: 1 4 6 8
#include "check.h"

#include <stdbool.h>

// The machine of each process of MPI_COMM_WORLD.
static int *machines;
// Whether they are those of this program: odd ranks on one, even ranks on the other.
static bool is_emulated;

// Without a name of its own machine the process takes one, before MPI begins.
static void name_machine(void) {
    const char *rank = getenv("COMBRAY_RANK");
    is_emulated = rank && !getenv("COMBRAY_NODE");
    if (!is_emulated) return;
    setenv("COMBRAY_NODE", atoi(rank) % 2 ? "odd" : "even", 1);
    setenv("COMBRAY_NET", "lo", 1);
}

static void learn_machines(void) {
    const char *name = getenv("COMBRAY_NODE");
    int own = 0;
    for (; name && *name; name++) own = own * 31 + *name;
    machines = malloc((size_t)check_size * sizeof *machines);
    REQUIRE(machines, "no memory");
    MPI_Allgather(&own, 1, MPI_INT, machines, 1, MPI_INT, MPI_COMM_WORLD);
}

// By rank in a communicator: the rank in MPI_COMM_WORLD. All of them are different.
static void world_ranks(MPI_Comm comm, int *ranks) {
    int size;
    MPI_Comm_size(comm, &size);
    MPI_Allgather(&check_rank, 1, MPI_INT, ranks, 1, MPI_INT, comm);
    for (int one = 0; one < size; one++)
        for (int other = 0; other < one; other++)
            CHECK(ranks[one] != ranks[other], "ranks %d and %d are one process", one, other);
}

// How many of the edges of a ring of `size` processes go between machines.
static int edges_between(const int *ranks, int size) {
    int count = 0;
    for (int at = 0; at < size; at++) count += machines[ranks[at]] != machines[ranks[(at + 1) % size]];
    return count;
}

// A ring of all processes has no more edges between machines than it must have.
static void check_ring(MPI_Comm comm, const char *what) {
    int *ranks = malloc((size_t)check_size * sizeof *ranks), *before = malloc((size_t)check_size * sizeof *before);
    REQUIRE(ranks && before, "no memory");
    world_ranks(comm, ranks);
    for (int rank = 0; rank < check_size; rank++) before[rank] = rank;
    int edges = edges_between(ranks, check_size), edges_before = edges_between(before, check_size);
    CHECK(edges <= edges_before, "%s: %d edges between machines, without order %d", what, edges, edges_before);
    if (is_emulated && check_is_combray && check_size > 2)
        CHECK(edges == 2, "%s: %d edges between two machines", what, edges);
    free(ranks);
    free(before);
}

// Each process receives the ranks of its neighbours on a ring.
static void check_neighbours(MPI_Comm comm, const char *what) {
    int rank, size, heard[2] = {-1, -1};
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int sent[2] = {rank, rank};
    MPI_Neighbor_alltoall(sent, 1, MPI_INT, heard, 1, MPI_INT, comm);
    int below = (rank + size - 1) % size, above = (rank + 1) % size;
    CHECK(heard[0] == below && heard[1] == above, "%s: rank %d of %d heard from %d and %d", what, rank, size, heard[0],
          heard[1]);
}

static void grids(void) {
    int periodic = 1, mapped = -1, rank;
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, &periodic, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    CHECK(rank == check_rank, "without reorder rank %d became %d", check_rank, rank);
    MPI_Comm_free(&grid);

    MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, &periodic, 1, &grid);
    MPI_Cart_map(MPI_COMM_WORLD, 1, &check_size, &periodic, &mapped);
    MPI_Comm_rank(grid, &rank);
    if (check_is_combray) CHECK(rank == mapped, "MPI_Cart_map says %d, but the rank is %d", mapped, rank);
    check_ring(grid, "grid");
    check_neighbours(grid, "grid");
    MPI_Comm_free(&grid);

    // Fewer positions than processes.
    int half = (check_size + 1) / 2;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &half, &periodic, 1, &grid);
    MPI_Cart_map(MPI_COMM_WORLD, 1, &half, &periodic, &mapped);
    CHECK((grid == MPI_COMM_NULL) == (mapped == MPI_UNDEFINED), "MPI_Cart_map says %d", mapped);
    if (grid != MPI_COMM_NULL) {
        check_neighbours(grid, "half a grid");
        MPI_Comm_free(&grid);
    }
}

static void graphs(void) {
    int *index = malloc((size_t)check_size * sizeof *index), *edges = malloc((size_t)check_size * 2 * sizeof *edges);
    REQUIRE(index && edges, "no memory");
    for (int rank = 0; rank < check_size; rank++) {
        index[rank] = 2 * (rank + 1);
        edges[2 * rank] = (rank + check_size - 1) % check_size;
        edges[2 * rank + 1] = (rank + 1) % check_size;
    }
    MPI_Comm graph;
    int rank, mapped;
    MPI_Graph_create(MPI_COMM_WORLD, check_size, index, edges, 1, &graph);
    MPI_Graph_map(MPI_COMM_WORLD, check_size, index, edges, &mapped);
    MPI_Comm_rank(graph, &rank);
    if (check_is_combray) CHECK(rank == mapped, "MPI_Graph_map says %d, but the rank is %d", mapped, rank);
    check_ring(graph, "graph");
    check_neighbours(graph, "graph");
    MPI_Comm_free(&graph);
    free(index);
    free(edges);
}

// The weight of the edge of a ring that leaves a rank.
static int weight_of(int rank) {
    return 100 + rank;
}

static void check_distributed(MPI_Comm graph, const char *what) {
    int rank, in, out, weighted, sources[2], destinations[2], in_weights[2], out_weights[2];
    MPI_Comm_rank(graph, &rank);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    CHECK(in == 2 && out == 2 && weighted, "%s: %d sources, %d destinations", what, in, out);
    MPI_Dist_graph_neighbors(graph, 2, sources, in_weights, 2, destinations, out_weights);
    int below = (rank + check_size - 1) % check_size, above = (rank + 1) % check_size;
    bool right = sources[0] + sources[1] == below + above && destinations[0] + destinations[1] == below + above;
    CHECK(right, "%s: rank %d hears from %d and %d", what, rank, sources[0], sources[1]);
    int expected = 2 * weight_of(rank);
    CHECK(out_weights[0] + out_weights[1] == expected, "%s: rank %d has the weights %d and %d", what, rank,
          out_weights[0], out_weights[1]);
    check_ring(graph, what);
}

static void distributed_graphs(void) {
    int below = (check_rank + check_size - 1) % check_size, above = (check_rank + 1) % check_size;
    int peers[2] = {below, above}, in_weights[2] = {weight_of(below), weight_of(above)};
    int out_weights[2] = {weight_of(check_rank), weight_of(check_rank)};
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, peers, in_weights, 2, peers, out_weights, MPI_INFO_NULL, 1,
                                   &graph);
    check_distributed(graph, "adjacent");
    check_neighbours(graph, "adjacent");
    MPI_Comm_free(&graph);

    // Process 0 has all edges.
    int count = check_rank == 0 ? check_size : 0;
    int *from = malloc((size_t)check_size * 6 * sizeof *from);
    REQUIRE(from, "no memory");
    int *degrees = from + check_size, *to = degrees + check_size, *weights = to + 2 * check_size;
    for (int rank = 0; rank < check_size; rank++) {
        from[rank] = rank;
        degrees[rank] = 2;
        to[2 * rank] = (rank + check_size - 1) % check_size;
        to[2 * rank + 1] = (rank + 1) % check_size;
        weights[2 * rank] = weights[2 * rank + 1] = weight_of(rank);
    }
    MPI_Dist_graph_create(MPI_COMM_WORLD, count, from, degrees, to, weights, MPI_INFO_NULL, 1, &graph);
    check_distributed(graph, "edges");
    MPI_Comm_free(&graph);
    free(from);
}

int main(void) {
    name_machine();
    check_begin();
    learn_machines();
    grids();
    graphs();
    distributed_graphs();
    free(machines);
    return check_end();
}
