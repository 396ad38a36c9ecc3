// Neighbourhood collectives on random grids, graphs and distributed graphs, blocking, nonblocking
// and persistent, all operations at once on one communicator: every block is where a model computed
// here expects it, and memory that belongs to no neighbour is unchanged.
// run: 1 2 3 5 8
// timeout: 60
// hosts
// checkers: address
#include "check.h"

enum { EDGES_MAX = 48, INTS_MAX = 6, ROUNDS = 24 };

// One side of the edges of a process: the process at the other end, and the number of the edge,
// which is equal at both ends.
typedef struct {
    int count, peer[EDGES_MAX], edge[EDGES_MAX];
} Side;

typedef struct {
    MPI_Comm comm;
    Side out, in;
} Place;

static void add(Side *side, int peer, int edge) {
    side->peer[side->count] = peer;
    side->edge[side->count++] = edge;
}

// What goes down in a dimension arrives from above: an edge is named by its sender, the dimension
// and the direction.
static Place random_grid(Random *random) {
    int count = random_below(random, 4), dims[3], periods[3], size = 1;
    Place place = {.comm = MPI_COMM_NULL};
    for (int i = 0; i < count; i++) {
        dims[i] = 1 + random_below(random, check_size / size);
        periods[i] = random_below(random, 2);
        size *= dims[i];
    }
    OK(MPI_Cart_create(MPI_COMM_WORLD, count, dims, periods, 0, &place.comm));
    if (place.comm == MPI_COMM_NULL) return place;
    for (int i = 0; i < count; i++) {
        int before, after;
        OK(MPI_Cart_shift(place.comm, i, 1, &before, &after));
        add(&place.out, before, (check_rank * 4 + i) * 2);
        add(&place.out, after, (check_rank * 4 + i) * 2 + 1);
        add(&place.in, before, (before * 4 + i) * 2 + 1);
        add(&place.in, after, (after * 4 + i) * 2);
    }
    return place;
}

// Several edges between two processes match by their order in the lists of both.
static int numbered(const Side *side, int peer, int from, int to) {
    int nth = 0;
    for (int i = 0; i < side->count; i++) nth += side->peer[i] == peer;
    return (from * 64 + to) * EDGES_MAX + nth;
}

// Symmetric, as the standard requires of graphs that all processes pass: each edge has its reverse.
static Place random_graph(Random *random) {
    int degree[16] = {0}, neighbors[16][EDGES_MAX], index[16], edges[16 * EDGES_MAX], count = 0;
    int pairs = random_below(random, 3 * check_size);
    Place place = {.comm = MPI_COMM_NULL};
    for (int i = 0; i < pairs; i++) {
        int a = random_below(random, check_size), b = random_below(random, check_size);
        if (degree[a] > EDGES_MAX - 2 || degree[b] > EDGES_MAX - 2) continue;
        neighbors[a][degree[a]++] = b;
        neighbors[b][degree[b]++] = a;
    }
    for (int node = 0; node < check_size; node++) {
        for (int i = 0; i < degree[node]; i++) edges[count++] = neighbors[node][i];
        index[node] = count;
    }
    OK(MPI_Graph_create(MPI_COMM_WORLD, check_size, index, edges, 0, &place.comm));
    for (int i = 0; i < degree[check_rank]; i++) {
        int peer = neighbors[check_rank][i];
        add(&place.out, peer, numbered(&place.out, peer, check_rank, peer));
        add(&place.in, peer, numbered(&place.in, peer, peer, check_rank));
    }
    return place;
}

static Place random_distributed_graph(Random *random) {
    Place place = {.comm = MPI_COMM_NULL};
    int count = random_below(random, EDGES_MAX), adjacent = random_below(random, 2), given = 0;
    int sources[EDGES_MAX], degrees[EDGES_MAX], destinations[EDGES_MAX], weights[EDGES_MAX];
    for (int i = 0; i < count; i++) {
        int from = random_below(random, check_size), to = random_below(random, check_size);
        int giver = random_below(random, check_size);
        if (adjacent && from == check_rank)
            add(&place.out, to, numbered(&place.out, to, from, to));
        if (adjacent && to == check_rank)
            add(&place.in, from, numbered(&place.in, from, from, to));
        if (giver != check_rank) continue;
        sources[given] = from;
        degrees[given] = 1;
        weights[given] = i;
        destinations[given++] = to;
    }
    if (adjacent) {
        OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, place.in.count, place.in.peer,
                                          MPI_UNWEIGHTED, place.out.count, place.out.peer,
                                          MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &place.comm));
        return place;
    }
    // The library chooses the order of the lists; the weights tell the edges apart.
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, given, sources, degrees, destinations,
                             given ? weights : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &place.comm));
    int weighted;
    OK(MPI_Dist_graph_neighbors_count(place.comm, &place.in.count, &place.out.count, &weighted));
    OK(MPI_Dist_graph_neighbors(place.comm, EDGES_MAX, place.in.peer, place.in.edge, EDGES_MAX,
                                place.out.peer, place.out.edge));
    return place;
}

static int value(int edge, int round, int i) { return edge * 1000 + round * 10 + i; }

// Counts and places of blocks: an edge has one count at both ends.
typedef struct {
    int counts[EDGES_MAX], displs[EDGES_MAX];
    MPI_Aint bytes[EDGES_MAX];
    MPI_Datatype types[EDGES_MAX];
} Blocks;

static Blocks blocks_of(const Side *side) {
    Blocks blocks;
    for (int i = 0; i < side->count; i++) {
        blocks.counts[i] = side->peer[i] == MPI_PROC_NULL ? 3 : side->edge[i] % INTS_MAX;
        // Backwards, and with a gap behind each block.
        blocks.displs[i] = (side->count - 1 - i) * (INTS_MAX + 1);
        blocks.bytes[i] = (MPI_Aint)(blocks.displs[i] * (int)sizeof(int));
        blocks.types[i] = MPI_INT;
    }
    return blocks;
}

// The operations: allgather, allgatherv, alltoall, alltoallv, alltoallw.
enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, OPERATIONS };
enum { BLOCKING, NONBLOCKING, PERSISTENT };

typedef struct {
    int send[EDGES_MAX * (INTS_MAX + 1)], receive[EDGES_MAX * (INTS_MAX + 1)];
    Blocks out, in;
    MPI_Request request;
} Job;

static int equal_count(int operation) { return operation == ALLTOALL ? 3 : 2; }

static void fill(Job *job, const Place *place, int operation, int round) {
    memset(job->receive, 0xee, sizeof job->receive);
    if (operation == ALLGATHER || operation == ALLGATHERV) {
        for (int i = 0; i < INTS_MAX; i++) job->send[i] = value(check_rank, round, i);
        return;
    }
    int step = operation == ALLTOALL ? equal_count(operation) : 0;
    for (int block = 0; block < place->out.count; block++)
        for (int i = 0; i < (step ? step : job->out.counts[block]); i++) {
            int at = step ? block * step : job->out.displs[block];
            job->send[at + i] = value(place->out.edge[block], round, i);
        }
}

static void launch(Job *job, const Place *place, int operation, int form) {
    MPI_Comm comm = place->comm;
    int *send = job->send, *receive = job->receive, count = equal_count(operation);
    Blocks *out = &job->out, *in = &job->in;
    // An allgatherv receives as much from each source; only the places differ.
    if (operation == ALLGATHERV)
        for (int i = 0; i < EDGES_MAX; i++) in->counts[i] = count;
#define FORMS(name, ...)                                                                           \
    if (form == BLOCKING) OK(MPI_Neighbor_##name(__VA_ARGS__, comm));                              \
    if (form == NONBLOCKING) OK(MPI_Ineighbor_##name(__VA_ARGS__, comm, &job->request));           \
    if (form == PERSISTENT)                                                                        \
    OK(MPI_Neighbor_##name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &job->request))
    switch (operation) {
    case ALLGATHER:
        FORMS(allgather, send, count, MPI_INT, receive, count, MPI_INT);
        break;
    case ALLGATHERV:
        FORMS(allgatherv, send, count, MPI_INT, receive, in->counts, in->displs, MPI_INT);
        break;
    case ALLTOALL:
        FORMS(alltoall, send, count, MPI_INT, receive, count, MPI_INT);
        break;
    case ALLTOALLV:
        FORMS(alltoallv, send, out->counts, out->displs, MPI_INT, receive, in->counts, in->displs,
              MPI_INT);
        break;
    default:
        FORMS(alltoallw, send, out->counts, out->bytes, out->types, receive, in->counts, in->bytes,
              in->types);
    }
}

static void check_job(Job *job, const Place *place, int operation, int round) {
    static int expected[EDGES_MAX * (INTS_MAX + 1)];
    int gather = operation == ALLGATHER || operation == ALLGATHERV;
    int equal = operation == ALLGATHER || operation == ALLTOALL;
    memset(expected, 0xee, sizeof expected);
    for (int block = 0; block < place->in.count; block++) {
        int peer = place->in.peer[block];
        if (peer == MPI_PROC_NULL) continue;
        int count = gather || equal ? equal_count(operation) : job->in.counts[block];
        int at = equal ? block * count : job->in.displs[block];
        for (int i = 0; i < count; i++)
            expected[at + i] = value(gather ? peer : place->in.edge[block], round, i);
    }
    for (int i = 0; i < EDGES_MAX * (INTS_MAX + 1); i++)
        REQUIRE(job->receive[i] == expected[i], "operation %d, round %d: %d at %d, expected %d",
                operation, round, job->receive[i], i, expected[i]);
}

static void exchange(const Place *place, int round) {
    static Job jobs[OPERATIONS];
    MPI_Request requests[OPERATIONS];
    for (int form = BLOCKING; form <= PERSISTENT; form++) {
        for (int operation = 0; operation < OPERATIONS; operation++) {
            Job *job = &jobs[operation];
            job->out = blocks_of(&place->out);
            job->in = blocks_of(&place->in);
            fill(job, place, operation, round);
            launch(job, place, operation, form);
            requests[operation] = job->request;
        }
        if (form == NONBLOCKING) OK(MPI_Waitall(OPERATIONS, requests, MPI_STATUSES_IGNORE));
        for (int again = 0; form == PERSISTENT && again < 3; again++) {
            for (int operation = 0; operation < OPERATIONS; operation++)
                fill(&jobs[operation], place, operation, round);
            OK(MPI_Startall(OPERATIONS, requests));
            OK(MPI_Waitall(OPERATIONS, requests, MPI_STATUSES_IGNORE));
            for (int operation = 0; operation < OPERATIONS; operation++)
                check_job(&jobs[operation], place, operation, round);
        }
        for (int operation = 0; operation < OPERATIONS; operation++) {
            if (form == PERSISTENT) OK(MPI_Request_free(&requests[operation]));
            check_job(&jobs[operation], place, operation, round);
        }
    }
}

// Blocks of two datatypes: a column is sent, a row arrives.
static void columns_to_rows(void) {
    int dims[1] = {check_size}, periods[1] = {1};
    int out[4][2], in[2][4], before = (check_rank + check_size - 1) % check_size;
    int after = (check_rank + 1) % check_size;
    MPI_Comm ring;
    MPI_Datatype column, resized;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring));
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &column));
    OK(MPI_Type_create_resized(column, 0, sizeof(int), &resized));
    OK(MPI_Type_commit(&resized));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) out[i][j] = check_rank * 100 + i * 10 + j;
    OK(MPI_Neighbor_alltoall(out, 1, resized, in, 4, MPI_INT, ring));
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(in[0][i], before * 100 + i * 10 + 1);
        CHECK_EQ(in[1][i], after * 100 + i * 10 + 0);
    }
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&resized));
    OK(MPI_Comm_free(&ring));
}

static void wrong_arguments(void) {
    int dims[1] = {check_size}, periods[1] = {1}, data[4], counts[2] = {1, -4}, displs[2] = {0, 1};
    MPI_Comm ring;
    EXPECT_ERROR(MPI_Neighbor_allgather(data, 1, MPI_INT, data, 1, MPI_INT, MPI_COMM_WORLD),
                 MPI_ERR_TOPOLOGY, "comm", "topology");
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring));
    EXPECT_ERROR(MPI_Neighbor_allgather(MPI_IN_PLACE, 1, MPI_INT, data, 1, MPI_INT, ring),
                 MPI_ERR_BUFFER, "sendbuf", "MPI_IN_PLACE");
    EXPECT_ERROR(MPI_Neighbor_alltoall(data, -1, MPI_INT, data, 1, MPI_INT, ring), MPI_ERR_COUNT,
                 "sendcount", "-1");
    EXPECT_ERROR(MPI_Neighbor_allgatherv(data, 1, MPI_INT, data, counts, displs, MPI_INT, ring),
                 MPI_ERR_COUNT, "recvcounts", "-4");
    EXPECT_ERROR(MPI_Neighbor_alltoallv(NULL, displs, displs, MPI_INT, data, displs, displs,
                                        MPI_INT, ring),
                 MPI_ERR_BUFFER, "sendbuf", "null");
    OK(MPI_Comm_free(&ring));
}

int main(void) {
    check_begin();
    Random random = random_from(866);
    for (int round = 0; round < ROUNDS; round++) {
        Place place = round % 3 == 0   ? random_grid(&random)
                      : round % 3 == 1 ? random_graph(&random)
                                       : random_distributed_graph(&random);
        if (place.comm == MPI_COMM_NULL) continue;
        exchange(&place, round);
        OK(MPI_Comm_free(&place.comm));
    }
    columns_to_rows();
    if (check_is_combray) wrong_arguments();
    return check_end();
}
