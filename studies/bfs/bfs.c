/* Breadth-first search in a random graph with very uneven degrees, level by level.
 *
 *     mpicc -O2 bfs.c -o bfs -lm && mpirun -n 4 ./bfs [SCALE [SEARCHES [REPETITIONS]]]
 *
 * The graph has 2^SCALE vertices and 16 times as many edges, whose ends are drawn as in the R-MAT model
 * (Chakrabarti, Zhan and Faloutsos, 2004): few vertices have thousands of edges, most have few. Vertex v
 * belongs to process v mod P. In each level, every process sends the unvisited ends of its frontier's edges to
 * their owners, with the vertex from which they were reached. Ways:
 *
 *     alltoallv   counts by MPI_Alltoall, then one MPI_Alltoallv for each level
 *     messages    batches of pairs by MPI_Isend as soon as they are full; an empty one ends the level
 *     bitmap      each process finds the unvisited vertices of its own that have a neighbour in the frontier,
 *                 which all know as bits after MPI_Allgatherv ("bottom up") */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <stdint.h>

enum { ALLTOALLV, MESSAGES, BITMAP, WAYS, DEGREE = 16, BATCH = 512, UNDERWAY = 16 };
static const char *const NAMES[] = {"alltoallv", "messages", "bitmap"};

static int scale;
static int64_t vertices, mine;          /* of the graph; of this process */
static int64_t *edges_begin, *ends;     /* the edges of own vertex i are ends[edges_begin[i] .. edges_begin[i+1]-1] */
static int64_t *parents, *levels;       /* of own vertices, -1 for those that were not reached */
static int64_t *frontier, *next_frontier, frontier_length, next_length;
static double communication;

/* ---- The graph ---- */

static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    value = (value ^ (value >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ (value >> 33);
}

/* The ends of an edge: in each bit, one of four quadrants with the probabilities 57, 19, 19 and 5 %. */
static void draw_edge(uint64_t edge, int64_t found[2]) {
    found[0] = found[1] = 0;
    for (int bit = 0; bit < scale; bit++) {
        unsigned draw = (unsigned)(mix(edge * 64 + (unsigned)bit) % 100);
        found[0] = 2 * found[0] + (draw >= 76);
        found[1] = 2 * found[1] + ((draw >= 57 && draw < 76) || draw >= 95);
    }
    /* So vertices with many edges are not neighbours in numbering. */
    for (int end = 0; end < 2; end++) found[end] = (int64_t)((uint64_t)found[end] * UINT64_C(0x9e3779b1) & (uint64_t)(vertices - 1));
}

static int owner(int64_t vertex) {
    return (int)(vertex % size);
}

static int64_t number(int64_t vertex) {
    return vertex / size;
}

/* Every process draws all edges and keeps those of its vertices, in two passes: count, store. */
static void make_graph(void) {
    mine = (vertices - rank + size - 1) / size;
    edges_begin = study_allocate((size_t)mine + 2, sizeof *edges_begin);
    int64_t *places = edges_begin + 1;
    for (int store = 0; store < 2; store++) {
        for (uint64_t edge = 0; edge < (uint64_t)(vertices * DEGREE); edge++) {
            int64_t found[2];
            draw_edge(edge, found);
            for (int end = 0; end < 2; end++) {
                if (owner(found[end]) != rank) continue;
                int64_t vertex = number(found[end]);
                if (store)
                    ends[places[vertex]++] = found[!end];
                else
                    places[vertex + 1]++;
            }
        }
        if (store) break;
        for (int64_t i = 0; i < mine; i++) places[i + 1] += places[i];
        ends = study_allocate((size_t)places[mine], sizeof *ends);
    }
}

/* ---- A level ---- */

static void visit(int64_t vertex, int64_t parent, int64_t level) {
    int64_t index = number(vertex);
    if (parents[index] >= 0) return;
    parents[index] = parent;
    levels[index] = level;
    next_frontier[next_length++] = vertex;
}

static void level_by_alltoallv(int64_t level) {
    static int *sent, *sent_at, *received, *received_at;
    if (!sent) {
        sent = study_allocate(4 * (size_t)size, sizeof *sent);
        sent_at = sent + size;
        received = sent + 2 * size;
        received_at = sent + 3 * size;
    }
    memset(sent, 0, (size_t)size * sizeof *sent);
    for (int64_t i = 0; i < frontier_length; i++) {
        int64_t index = number(frontier[i]);
        for (int64_t e = edges_begin[index]; e < edges_begin[index + 1]; e++) sent[owner(ends[e])] += 2;
    }
    double started = MPI_Wtime();
    MPI_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, MPI_COMM_WORLD);
    communication += MPI_Wtime() - started;
    int all_sent = 0, all_received = 0;
    for (int p = 0; p < size; p++) {
        sent_at[p] = all_sent;
        received_at[p] = all_received;
        all_sent += sent[p];
        all_received += received[p];
    }
    int64_t *pairs = study_allocate((size_t)all_sent, sizeof *pairs), *found = study_allocate((size_t)all_received, sizeof *found);
    for (int64_t i = 0; i < frontier_length; i++) {
        int64_t index = number(frontier[i]);
        for (int64_t e = edges_begin[index]; e < edges_begin[index + 1]; e++) {
            int process = owner(ends[e]);
            pairs[sent_at[process]++] = ends[e];
            pairs[sent_at[process]++] = frontier[i];
        }
    }
    for (int p = 0; p < size; p++) sent_at[p] -= sent[p];
    started = MPI_Wtime();
    MPI_Alltoallv(pairs, sent, sent_at, MPI_INT64_T, found, received, received_at, MPI_INT64_T, MPI_COMM_WORLD);
    communication += MPI_Wtime() - started;
    for (int i = 0; i < all_received; i += 2) visit(found[i], found[i + 1], level);
    free(pairs);
    free(found);
}

/* Batches for one process: one is filled while up to UNDERWAY are sent. */
struct outlet {
    int64_t pairs[UNDERWAY][2 * BATCH];
    MPI_Request requests[UNDERWAY];
    int current, length;
};

static struct outlet *outlets;
static int open_senders; /* that have not ended the level yet */

/* Receives batches that have arrived, or waits for one. */
static void receive_batches(int64_t level, int wait) {
    static int64_t pairs[2 * BATCH];
    int arrived = 1, count;
    MPI_Status status;
    while (open_senders > 0) {
        if (wait)
            MPI_Probe(MPI_ANY_SOURCE, (int)level, MPI_COMM_WORLD, &status);
        else
            MPI_Iprobe(MPI_ANY_SOURCE, (int)level, MPI_COMM_WORLD, &arrived, &status);
        if (!arrived) return;
        MPI_Get_count(&status, MPI_INT64_T, &count);
        MPI_Recv(pairs, count, MPI_INT64_T, status.MPI_SOURCE, (int)level, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < count; i += 2) visit(pairs[i], pairs[i + 1], level);
        /* Messages of a sender do not overtake each other, so its short one is the last. */
        if (count < 2 * BATCH) open_senders--;
        if (wait) return;
    }
}

static void send_batch(int process, int64_t level) {
    struct outlet *outlet = &outlets[process];
    double started = MPI_Wtime();
    MPI_Isend(outlet->pairs[outlet->current], outlet->length, MPI_INT64_T, process, (int)level, MPI_COMM_WORLD,
              &outlet->requests[outlet->current]);
    outlet->current = (outlet->current + 1) % UNDERWAY;
    outlet->length = 0;
    int done = 0;
    while (!done) {
        MPI_Test(&outlet->requests[outlet->current], &done, MPI_STATUS_IGNORE);
        if (!done) receive_batches(level, 0);
    }
    communication += MPI_Wtime() - started;
}

static void level_by_messages(int64_t level) {
    open_senders = size;
    for (int64_t i = 0; i < frontier_length; i++) {
        int64_t index = number(frontier[i]);
        for (int64_t e = edges_begin[index]; e < edges_begin[index + 1]; e++) {
            struct outlet *outlet = &outlets[owner(ends[e])];
            int64_t *pair = outlet->pairs[outlet->current] + outlet->length;
            pair[0] = ends[e];
            pair[1] = frontier[i];
            outlet->length += 2;
            if (outlet->length == 2 * BATCH) send_batch(owner(ends[e]), level);
        }
    }
    for (int p = 0; p < size; p++) send_batch((rank + p) % size, level);
    double started = MPI_Wtime();
    while (open_senders > 0) receive_batches(level, 1);
    for (int p = 0; p < size; p++) MPI_Waitall(UNDERWAY, outlets[p].requests, MPI_STATUSES_IGNORE);
    communication += MPI_Wtime() - started;
}

static void level_by_bitmap(int64_t level) {
    /* Each process's bits begin on a byte of their own. */
    static unsigned char *bits, *own;
    static int *bytes, *begins;
    if (!bits) {
        bytes = study_allocate(2 * (size_t)size, sizeof *bytes);
        begins = bytes + size;
        int all = 0;
        for (int p = 0; p < size; p++) {
            begins[p] = all;
            bytes[p] = (int)(((vertices - p + size - 1) / size + 7) / 8);
            all += bytes[p];
        }
        bits = study_allocate((size_t)all, 1);
        own = study_allocate((size_t)bytes[rank], 1);
    }
    memset(own, 0, (size_t)bytes[rank]);
    for (int64_t i = 0; i < frontier_length; i++) own[number(frontier[i]) / 8] |= (unsigned char)(1 << number(frontier[i]) % 8);
    double started = MPI_Wtime();
    MPI_Allgatherv(own, bytes[rank], MPI_BYTE, bits, bytes, begins, MPI_BYTE, MPI_COMM_WORLD);
    communication += MPI_Wtime() - started;
    for (int64_t index = 0; index < mine; index++)
        for (int64_t e = edges_begin[index]; parents[index] < 0 && e < edges_begin[index + 1]; e++) {
            int64_t other = number(ends[e]);
            if (bits[begins[owner(ends[e])] + other / 8] >> other % 8 & 1) visit(index * size + rank, ends[e], level);
        }
}

/* ---- A search and its proof ---- */

static void search(int way, int64_t root) {
    for (int64_t i = 0; i < mine; i++) parents[i] = levels[i] = -1;
    frontier_length = next_length = 0;
    if (owner(root) == rank) visit(root, root, 0);
    for (int64_t level = 1, found = 1; found > 0; level++) {
        int64_t *swapped = frontier;
        frontier = next_frontier;
        next_frontier = swapped;
        frontier_length = next_length;
        next_length = 0;
        if (way == ALLTOALLV)
            level_by_alltoallv(level);
        else if (way == MESSAGES)
            level_by_messages(level);
        else
            level_by_bitmap(level);
        double started = MPI_Wtime();
        MPI_Allreduce(&next_length, &found, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        communication += MPI_Wtime() - started;
    }
}

/* How many vertices contradict a breadth-first tree: the level of a parent must be one less, the edge to it must exist, and
 * the levels of the ends of any edge differ by at most one. */
static double wrong_vertices(int64_t root) {
    int64_t *all = study_allocate((size_t)vertices, sizeof *all), *spread = study_allocate((size_t)vertices, sizeof *spread);
    for (int64_t i = 0; i < vertices; i++) all[i] = -1;
    for (int64_t i = 0; i < mine; i++) all[i * size + rank] = levels[i];
    MPI_Allreduce(all, spread, (int)vertices, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    double wrong = spread[root] != 0;
    for (int64_t i = 0; i < mine; i++) {
        int64_t vertex = i * size + rank;
        int parent_is_neighbour = vertex == root || parents[i] < 0;
        for (int64_t e = edges_begin[i]; e < edges_begin[i + 1]; e++) {
            int64_t here = spread[vertex], there = spread[ends[e]];
            parent_is_neighbour |= ends[e] == parents[i];
            wrong += (here < 0) != (there < 0) || here - there > 1 || there - here > 1;
        }
        wrong += !parent_is_neighbour;
        if (parents[i] >= 0 && vertex != root) wrong += spread[parents[i]] + 1 != spread[vertex];
    }
    free(all);
    free(spread);
    return wrong;
}

/* A vertex with an edge. */
static int64_t root_of(int number_of_search) {
    int64_t found[2];
    draw_edge((uint64_t)number_of_search * 7919 % (uint64_t)(vertices * DEGREE), found);
    return found[0];
}

int main(int argc, char **argv) {
    study_begin("bfs", &argc, &argv, MPI_THREAD_SINGLE);
    scale = study_number(argc, argv, 1, 14);
    int searches = study_number(argc, argv, 2, 4), repetitions = study_number(argc, argv, 3, 1);
    study_need(scale >= 4 && scale <= 24 && searches && repetitions, "bfs [SCALE [SEARCHES [REPETITIONS]]]: a scale of 4 to 24");
    vertices = (int64_t)1 << scale;
    make_graph();
    parents = study_allocate(4 * (size_t)mine, sizeof *parents);
    levels = parents + mine;
    frontier = levels + mine;
    next_frontier = frontier + mine;
    outlets = study_allocate((size_t)size, sizeof *outlets);
    for (int p = 0; p < size; p++)
        for (int i = 0; i < UNDERWAY; i++) outlets[p].requests[i] = MPI_REQUEST_NULL;
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int way = 0; way < WAYS; way++) {
            double total = 0;
            communication = 0;
            for (int i = 0; i < searches; i++) {
                MPI_Barrier(MPI_COMM_WORLD);
                double started = MPI_Wtime();
                search(way, root_of(i));
                total += MPI_Wtime() - started;
                study_verify(NAMES[way], wrong_vertices(root_of(i)), 0);
            }
            study_case(NAMES[way], total, communication);
        }
    return study_end();
}
