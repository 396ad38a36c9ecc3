// Virtual topologies against a model computed here: grids of every shape, graphs, distributed
// graphs whose edges are passed by arbitrary processes; duplicates keep them; wrong arguments.
// run: 1 2 3 5 8
// checkers: address
#include "check.h"

enum { DIMENSIONS_MAX = 4, EDGES_MAX = 64 };

static void balanced_dimensions(void) {
    for (int nodes = 1; nodes <= 64; nodes++)
        for (int count = 1; count <= DIMENSIONS_MAX; count++) {
            int dims[DIMENSIONS_MAX] = {0}, product = 1;
            OK(MPI_Dims_create(nodes, count, dims));
            for (int i = 0; i < count; i++) {
                product *= dims[i];
                CHECK(i == 0 || dims[i] <= dims[i - 1], "%d nodes: dimensions increase", nodes);
            }
            CHECK_EQ(product, nodes);
        }
    int million[3] = {0}, fixed[3] = {0, 3, 0}, none[1];
    OK(MPI_Dims_create(1000000, 3, million));
    CHECK_EQ(million[0], 100);
    CHECK_EQ(million[2], 100);
    OK(MPI_Dims_create(12, 3, fixed));
    CHECK_EQ(fixed[0], 2);
    CHECK_EQ(fixed[1], 3);
    CHECK_EQ(fixed[2], 2);
    OK(MPI_Dims_create(5, 0, none));
    int odd[2] = {2, 0}, negative[2] = {-1, 0};
    EXPECT_ERROR(MPI_Dims_create(7, 2, odd), MPI_ERR_DIMS, "dims", "7");
    EXPECT_ERROR(MPI_Dims_create(7, 2, negative), MPI_ERR_DIMS, "dims", "-1");
    if (check_is_combray) EXPECT_ERROR(MPI_Dims_create(0, 2, odd), MPI_ERR_ARG, "nnodes", "0");
    EXPECT_ERROR(MPI_Dims_create(4, -2, odd), MPI_ERR_ARG, "ndims", "-2");
}

typedef struct {
    int count, size, dims[DIMENSIONS_MAX], periods[DIMENSIONS_MAX];
} Grid;

static void coordinates_of(const Grid *grid, int rank, int *coords) {
    for (int i = grid->count - 1; i >= 0; i--) {
        coords[i] = rank % grid->dims[i];
        rank /= grid->dims[i];
    }
}

static int rank_of(const Grid *grid, const int *coords) {
    int rank = 0;
    for (int i = 0; i < grid->count; i++) rank = rank * grid->dims[i] + coords[i];
    return rank;
}

static int shifted(const Grid *grid, int rank, int direction, int by) {
    int coords[DIMENSIONS_MAX], size = grid->dims[direction];
    coordinates_of(grid, rank, coords);
    int moved = coords[direction] + by;
    if (grid->periods[direction])
        moved = ((moved % size) + size) % size;
    else if (moved < 0 || moved >= size)
        return MPI_PROC_NULL;
    coords[direction] = moved;
    return rank_of(grid, coords);
}

static void check_grid(MPI_Comm comm, const Grid *grid, int rank) {
    int count, kind, dims[DIMENSIONS_MAX], periods[DIMENSIONS_MAX], coords[DIMENSIONS_MAX];
    int expected[DIMENSIONS_MAX], found;
    OK(MPI_Topo_test(comm, &kind));
    CHECK_EQ(kind, MPI_CART);
    OK(MPI_Cartdim_get(comm, &count));
    CHECK_EQ(count, grid->count);
    OK(MPI_Cart_get(comm, DIMENSIONS_MAX, dims, periods, coords));
    coordinates_of(grid, rank, expected);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(dims[i], grid->dims[i]);
        CHECK_EQ(periods[i], grid->periods[i]);
        CHECK_EQ(coords[i], expected[i]);
    }
    for (int other = 0; other < grid->size; other++) {
        OK(MPI_Cart_coords(comm, other, DIMENSIONS_MAX, coords));
        coordinates_of(grid, other, expected);
        CHECK(!memcmp(coords, expected, (size_t)count * sizeof *coords), "coordinates of %d", other);
        for (int i = 0; i < count; i++)
            if (grid->periods[i]) coords[i] += (other % 3 - 1) * grid->dims[i];
        OK(MPI_Cart_rank(comm, coords, &found));
        CHECK_EQ(found, other);
    }
    for (int i = 0; i < count; i++)
        for (int by = -3; by <= 3; by++) {
            int source, destination;
            OK(MPI_Cart_shift(comm, i, by, &source, &destination));
            CHECK_EQ(source, shifted(grid, rank, i, -by));
            CHECK_EQ(destination, shifted(grid, rank, i, by));
        }
}

static void check_parts(MPI_Comm comm, const Grid *grid, int rank) {
    int coords[DIMENSIONS_MAX];
    coordinates_of(grid, rank, coords);
    for (int choice = 0; choice < 1 << grid->count; choice++) {
        int remain[DIMENSIONS_MAX], color = 0;
        Grid part = {.size = 1};
        for (int i = 0; i < grid->count; i++) {
            remain[i] = choice >> i & 1;
            if (remain[i]) {
                part.dims[part.count] = grid->dims[i];
                part.periods[part.count++] = grid->periods[i];
                part.size *= grid->dims[i];
            } else {
                color = color * grid->dims[i] + coords[i];
            }
        }
        MPI_Comm sub;
        int size, sub_rank, least, most;
        OK(MPI_Cart_sub(comm, remain, &sub));
        OK(MPI_Comm_size(sub, &size));
        OK(MPI_Comm_rank(sub, &sub_rank));
        CHECK_EQ(size, part.size);
        check_grid(sub, &part, sub_rank);
        OK(MPI_Allreduce(&color, &least, 1, MPI_INT, MPI_MIN, sub));
        OK(MPI_Allreduce(&color, &most, 1, MPI_INT, MPI_MAX, sub));
        CHECK_EQ(least, most);
        OK(MPI_Comm_free(&sub));
    }
}

static void grids(Random *random) {
    for (int round = 0; round < 12; round++) {
        Grid grid = {.count = random_below(random, DIMENSIONS_MAX + 1), .size = 1};
        for (int i = 0; i < grid.count; i++) {
            grid.dims[i] = 1 + random_below(random, check_size / grid.size);
            grid.periods[i] = random_below(random, 2);
            grid.size *= grid.dims[i];
        }
        MPI_Comm comm, copy;
        int place, rank, reorder = round % 2;
        OK(MPI_Cart_map(MPI_COMM_WORLD, grid.count, grid.dims, grid.periods, &place));
        CHECK((place == MPI_UNDEFINED) == (check_rank >= grid.size), "who is in the map");
        OK(MPI_Cart_create(MPI_COMM_WORLD, grid.count, grid.dims, grid.periods, reorder, &comm));
        CHECK((comm == MPI_COMM_NULL) == (check_rank >= grid.size), "who is in the grid");
        if (comm == MPI_COMM_NULL) continue;
        // On several machines another rank may be better than the own.
        OK(MPI_Comm_rank(comm, &rank));
        CHECK_EQ(rank, reorder ? place : check_rank);
        check_grid(comm, &grid, rank);
        OK(MPI_Comm_dup(comm, &copy));
        check_grid(copy, &grid, rank);
        check_parts(copy, &grid, rank);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Comm_free(&copy));
    }
}

static void graphs(Random *random) {
    for (int round = 0; round < 10; round++) {
        int nodes = random_below(random, check_size + 1);
        int index[16], edges[EDGES_MAX], got_index[16], got_edges[EDGES_MAX], count = 0, place;
        for (int node = 0; node < nodes; node++) {
            int degree = random_below(random, 5);
            for (int i = 0; i < degree; i++) edges[count++] = random_below(random, nodes);
            index[node] = count;
        }
        MPI_Comm comm;
        OK(MPI_Graph_map(MPI_COMM_WORLD, nodes, index, edges, &place));
        CHECK((place == MPI_UNDEFINED) == (check_rank >= nodes), "who is in the map");
        CHECK(place < nodes, "place %d of %d", place, nodes);
        OK(MPI_Graph_create(MPI_COMM_WORLD, nodes, index, edges, 0, &comm));
        CHECK((comm == MPI_COMM_NULL) == (check_rank >= nodes), "who is in the graph");
        if (comm == MPI_COMM_NULL) continue;
        int kind, got_nodes, got_count;
        OK(MPI_Topo_test(comm, &kind));
        CHECK_EQ(kind, MPI_GRAPH);
        OK(MPI_Graphdims_get(comm, &got_nodes, &got_count));
        CHECK_EQ(got_nodes, nodes);
        CHECK_EQ(got_count, count);
        OK(MPI_Graph_get(comm, 16, EDGES_MAX, got_index, got_edges));
        CHECK(!memcmp(index, got_index, (size_t)nodes * sizeof *index), "the index");
        CHECK(!memcmp(edges, got_edges, (size_t)count * sizeof *edges), "the edges");
        for (int node = 0; node < nodes; node++) {
            int begin = node ? index[node - 1] : 0, degree, neighbors[8];
            OK(MPI_Graph_neighbors_count(comm, node, &degree));
            CHECK_EQ(degree, index[node] - begin);
            OK(MPI_Graph_neighbors(comm, node, 8, neighbors));
            CHECK(!memcmp(neighbors, edges + begin, (size_t)degree * sizeof *neighbors),
                  "neighbours of %d", node);
        }
        OK(MPI_Comm_free(&comm));
    }
}

// All processes draw equal edges; edge i is passed to the library by process giver[i].
static void distributed_graphs(Random *random) {
    for (int round = 0; round < 12; round++) {
        int count = random_below(random, EDGES_MAX), weighted = random_below(random, 3) > 0;
        int given = 0, in = 0, out = 0;
        int sources[EDGES_MAX], degrees[EDGES_MAX], destinations[EDGES_MAX], weights[EDGES_MAX];
        int in_sum = 0, out_sum = 0, from[EDGES_MAX], to[EDGES_MAX];
        for (int i = 0; i < count; i++) {
            from[i] = random_below(random, check_size);
            to[i] = random_below(random, check_size);
            int giver = random_below(random, check_size);
            in_sum += to[i] == check_rank ? (from[i] + 1) * (i + 1) : 0;
            out_sum += from[i] == check_rank ? (to[i] + 1) * (i + 1) : 0;
            in += to[i] == check_rank;
            out += from[i] == check_rank;
            if (giver != check_rank) continue;
            sources[given] = from[i];
            degrees[given] = 1;
            destinations[given] = to[i];
            weights[given++] = i;
        }
        MPI_Comm comm, copy;
        const int *given_weights = !weighted ? MPI_UNWEIGHTED : given ? weights : MPI_WEIGHTS_EMPTY;
        OK(MPI_Dist_graph_create(MPI_COMM_WORLD, given, sources, degrees, destinations,
                                 given_weights, MPI_INFO_NULL, 0, &comm));
        int kind, got_in, got_out, got_weighted;
        OK(MPI_Topo_test(comm, &kind));
        CHECK_EQ(kind, MPI_DIST_GRAPH);
        OK(MPI_Dist_graph_neighbors_count(comm, &got_in, &got_out, &got_weighted));
        CHECK_EQ(got_in, in);
        CHECK_EQ(got_out, out);
        CHECK_EQ(got_weighted, weighted);
        int in_ranks[EDGES_MAX], in_weights[EDGES_MAX], out_ranks[EDGES_MAX], out_weights[EDGES_MAX];
        in_weights[0] = out_weights[0] = -1;
        OK(MPI_Dist_graph_neighbors(comm, in, in_ranks, in_weights, out, out_ranks, out_weights));
        if (weighted) {
            for (int i = 0; i < in; i++) in_sum -= (in_ranks[i] + 1) * (in_weights[i] + 1);
            for (int i = 0; i < out; i++) out_sum -= (out_ranks[i] + 1) * (out_weights[i] + 1);
            CHECK_EQ(in_sum, 0);
            CHECK_EQ(out_sum, 0);
        } else {
            CHECK_EQ(in_weights[0], -1);
            CHECK_EQ(out_weights[0], -1);
        }
        // The graph again, now from the edges that each process has.
        OK(MPI_Dist_graph_create_adjacent(
            comm, in, in_ranks, weighted ? in_weights : MPI_UNWEIGHTED, out, out_ranks,
            weighted ? out_weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &copy));
        int in_again[EDGES_MAX], out_again[EDGES_MAX];
        // Only as much as there is room for; some libraries insist on room for all.
        int room = check_is_combray ? in / 2 : in;
        OK(MPI_Dist_graph_neighbors(copy, room, in_again, MPI_UNWEIGHTED, out, out_again,
                                    MPI_UNWEIGHTED));
        CHECK(!memcmp(in_again, in_ranks, (size_t)room * sizeof(int)), "sources");
        CHECK(!memcmp(out_again, out_ranks, (size_t)out * sizeof(int)), "destinations");
        OK(MPI_Comm_free(&comm));
        OK(MPI_Comm_free(&copy));
    }
}

static void wrong_grids(void) {
    MPI_Comm world = MPI_COMM_WORLD, grid, other;
    int dims[2] = {check_size, 1}, periods[2] = {0, 1}, out[2], rank, kind;
    int huge[2] = {check_size, 2}, zero[2] = {0, 1};
    OK(MPI_Topo_test(world, &kind));
    CHECK_EQ(kind, MPI_UNDEFINED);
    EXPECT_ERROR(MPI_Cart_create(world, 2, huge, periods, 0, &other), MPI_ERR_DIMS, "dims");
    EXPECT_ERROR(MPI_Cart_create(world, 2, zero, periods, 0, &other), MPI_ERR_DIMS, "dims", "0");
    EXPECT_ERROR(MPI_Cart_create(world, 2, NULL, periods, 0, &other), MPI_ERR_ARG, "dims", "null");
    EXPECT_ERROR(MPI_Cart_create(world, -1, dims, periods, 0, &other), MPI_ERR_ARG, "ndims", "-1");
    EXPECT_ERROR(MPI_Cart_create(world, 1, dims, periods, 0, NULL), MPI_ERR_ARG, "comm_cart");
    EXPECT_ERROR(MPI_Cart_shift(world, 0, 1, &out[0], &out[1]), MPI_ERR_TOPOLOGY, "Cartesian");
    EXPECT_ERROR(MPI_Cart_coords(world, 0, 2, out), MPI_ERR_TOPOLOGY, "comm", "no topology");
    EXPECT_ERROR(MPI_Graphdims_get(world, &out[0], &out[1]), MPI_ERR_TOPOLOGY, "graph");
    EXPECT_ERROR(MPI_Dist_graph_neighbors_count(world, &out[0], &out[1], &kind), MPI_ERR_TOPOLOGY,
                 "distributed graph");
    OK(MPI_Cart_create(world, 2, dims, periods, 0, &grid));
    EXPECT_ERROR(MPI_Graph_neighbors_count(grid, 0, &kind), MPI_ERR_TOPOLOGY, "Cartesian grid");
    EXPECT_ERROR(MPI_Cart_shift(grid, 2, 1, &out[0], &out[1]), MPI_ERR_DIMS, "direction", "2");
    EXPECT_ERROR(MPI_Cart_coords(grid, check_size, 2, out), MPI_ERR_RANK, "rank");
    EXPECT_ERROR(MPI_Cart_coords(grid, 0, 1, out), MPI_ERR_ARG, "maxdims", "1", "2");
    EXPECT_ERROR(MPI_Cart_get(grid, 1, out, out, out), MPI_ERR_ARG, "maxdims", "1", "2");
    int outside[2] = {check_size, 5};
    EXPECT_ERROR(MPI_Cart_rank(grid, outside, &rank), MPI_ERR_ARG, "coords", "not periodic");
    OK(MPI_Comm_free(&grid));
}

static void wrong_graphs(void) {
    MPI_Comm world = MPI_COMM_WORLD, other;
    int index[1] = {1}, falling[1] = {-1}, edges[1] = {0}, stranger[1] = {1}, out[4];
    int beyond = check_size, self = check_rank, one = 1, minus = -1;
    EXPECT_ERROR(MPI_Graph_create(world, check_size + 1, index, edges, 0, &other),
                 MPI_ERR_TOPOLOGY, "nnodes");
    EXPECT_ERROR(MPI_Graph_create(world, -1, index, edges, 0, &other), MPI_ERR_ARG, "nnodes", "-1");
    EXPECT_ERROR(MPI_Graph_create(world, 1, falling, edges, 0, &other), MPI_ERR_ARG, "indx", "-1");
    EXPECT_ERROR(MPI_Graph_create(world, 1, index, stranger, 0, &other), MPI_ERR_ARG, "edges", "1");
    EXPECT_ERROR(MPI_Dist_graph_create_adjacent(world, 1, &beyond, MPI_UNWEIGHTED, 0, NULL,
                                                MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &other),
                 MPI_ERR_RANK, "sources");
    EXPECT_ERROR(MPI_Dist_graph_create_adjacent(world, 1, &self, &minus, 1, &self, &one,
                                                MPI_INFO_NULL, 0, &other),
                 MPI_ERR_ARG, "-1");
    EXPECT_ERROR(MPI_Dist_graph_create_adjacent(world, 1, &self, MPI_WEIGHTS_EMPTY, 1, &self, &one,
                                                MPI_INFO_NULL, 0, &other),
                 MPI_ERR_ARG, "sourceweights", "MPI_WEIGHTS_EMPTY");
    EXPECT_ERROR(MPI_Dist_graph_create_adjacent(world, 1, &self, MPI_UNWEIGHTED, 1, &self, &one,
                                                MPI_INFO_NULL, 0, &other),
                 MPI_ERR_ARG, "MPI_UNWEIGHTED");
    // Only the last process is wrong: no process waits for it.
    int wrong = check_rank == check_size - 1, degree = wrong ? -1 : 1;
    int code = MPI_Dist_graph_create(world, 1, &self, &degree, &self, MPI_UNWEIGHTED,
                                     MPI_INFO_NULL, 0, &other);
    EXPECT_ERROR((code), MPI_ERR_ARG);
    if (check_size > 1) {
        code = MPI_Dist_graph_create(world, 1, &self, &one, &self, wrong ? &one : MPI_UNWEIGHTED,
                                     MPI_INFO_NULL, 0, &other);
        EXPECT_ERROR((code), MPI_ERR_ARG);
    }
    (void)out;
}

// Topologies are for one group; an intercommunicator has none.
static void between_groups(void) {
    MPI_Comm half, inter, other;
    int kind, dims[1] = {1}, periods[1] = {0}, index[1] = {0}, place, upper = check_rank % 2;
    if (check_size < 2) return;
    OK(MPI_Comm_split(MPI_COMM_WORLD, upper, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !upper, 1, &inter));
    OK(MPI_Topo_test(inter, &kind));
    CHECK_EQ(kind, MPI_UNDEFINED);
    EXPECT_ERROR(MPI_Cart_create(inter, 1, dims, periods, 0, &other), MPI_ERR_COMM, "inter");
    EXPECT_ERROR(MPI_Cart_map(inter, 1, dims, periods, &place), MPI_ERR_COMM, "inter");
    EXPECT_ERROR(MPI_Graph_create(inter, 1, index, NULL, 0, &other), MPI_ERR_COMM, "inter");
    EXPECT_ERROR(MPI_Dist_graph_create(inter, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                       &other),
                 MPI_ERR_COMM, "inter");
    EXPECT_ERROR(MPI_Dist_graph_create_adjacent(inter, 0, NULL, MPI_UNWEIGHTED, 0, NULL,
                                                MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &other),
                 MPI_ERR_COMM, "inter");
    OK(MPI_Comm_free(&inter));
    // A duplicate made in passing keeps the topology too.
    OK(MPI_Cart_create(half, 1, dims, periods, 0, &inter));
    if (inter != MPI_COMM_NULL) {
        MPI_Request request;
        OK(MPI_Comm_idup(inter, &other, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Cartdim_get(other, &kind));
        CHECK_EQ(kind, 1);
        OK(MPI_Comm_free(&other));
        OK(MPI_Comm_free(&inter));
    }
    OK(MPI_Comm_free(&half));
}

int main(void) {
    check_begin();
    Random random = random_from(811);
    balanced_dimensions();
    grids(&random);
    graphs(&random);
    distributed_graphs(&random);
    if (check_is_combray) {
        wrong_grids();
        wrong_graphs();
        between_groups();
    }
    return check_end();
}
