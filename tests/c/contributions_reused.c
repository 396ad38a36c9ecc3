// A program must leave the send buffer of a nonblocking collective operation alone until it is
// complete, and some overwrite it right after the call: it was a local variable. Other libraries
// have sent small contributions by then, so results are right, and they are here: up to the bound
// that docs/user/habits.md states. Every operation, nonblocking and persistent, with packed data
// and with a datatype that has gaps, by messages and on boards. With "count" and a number of
// elements it prints how many results are wrong, to compare libraries.
// run: 2 3 5
// each: auto never
// hosts
// timeout: 60
#include "check.h"

typedef enum { BLOCKING, NONBLOCKING, PERSISTENT } Form;

static const char *const operations[] = {
    "bcast",     "gather",     "gatherv",        "scatter",
    "scatterv",  "allgather",  "allgatherv",     "alltoall",
    "alltoallv", "alltoallw",  "reduce",         "allreduce",
    "scan",      "exscan",     "reduce_scatter", "reduce_scatter_block",
    "neighbor_allgather",      "neighbor_allgatherv",
    "neighbor_alltoall",       "neighbor_alltoallv",
    "neighbor_alltoallw",
};
enum { OPERATIONS = sizeof operations / sizeof *operations, MEMBERS_MAX = 16, LONGS_MAX = 1 << 17 };

static long contribution[LONGS_MAX], kept[LONGS_MAX], result[LONGS_MAX], expected[LONGS_MAX];
static MPI_Comm comm, ring;

// One call, in any of the three forms. Blocks have `n` elements of `type`, `extent` longs each.
static void call(int which, Form form, long *send, long *receive, int n, MPI_Datatype type,
                 int extent, int root, MPI_Op op, MPI_Request *request) {
    int counts[MEMBERS_MAX], places[MEMBERS_MAX], byte_places[MEMBERS_MAX];
    MPI_Aint far_places[MEMBERS_MAX];
    MPI_Datatype types[MEMBERS_MAX];
    for (int i = 0; i < MEMBERS_MAX; i++) {
        counts[i] = n;
        places[i] = i * n;
        byte_places[i] = i * n * extent * (int)sizeof(long);
        far_places[i] = byte_places[i];
        types[i] = type;
    }
#define CALL(Name, name, ...)                                                                      \
    if (form == BLOCKING) OK(MPI_##Name(__VA_ARGS__));                                             \
    else if (form == NONBLOCKING) OK(MPI_I##name(__VA_ARGS__, request));                           \
    else OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request));                               \
    break
    switch (which) {
    case 0: CALL(Bcast, bcast, check_rank == root ? send : receive, n, type, root, comm);
    case 1: CALL(Gather, gather, send, n, type, receive, n, type, root, comm);
    case 2: CALL(Gatherv, gatherv, send, n, type, receive, counts, places, type, root, comm);
    case 3: CALL(Scatter, scatter, send, n, type, receive, n, type, root, comm);
    case 4: CALL(Scatterv, scatterv, send, counts, places, type, receive, n, type, root, comm);
    case 5: CALL(Allgather, allgather, send, n, type, receive, n, type, comm);
    case 6: CALL(Allgatherv, allgatherv, send, n, type, receive, counts, places, type, comm);
    case 7: CALL(Alltoall, alltoall, send, n, type, receive, n, type, comm);
    case 8: CALL(Alltoallv, alltoallv, send, counts, places, type, receive, counts, places, type, comm);
    case 9:
        CALL(Alltoallw, alltoallw, send, counts, byte_places, types, receive, counts, byte_places, types,
             comm);
    case 10: CALL(Reduce, reduce, send, receive, n, type, op, root, comm);
    case 11: CALL(Allreduce, allreduce, send, receive, n, type, op, comm);
    case 12: CALL(Scan, scan, send, receive, n, type, op, comm);
    case 13: CALL(Exscan, exscan, send, receive, n, type, op, comm);
    case 14: CALL(Reduce_scatter, reduce_scatter, send, receive, counts, type, op, comm);
    case 15: CALL(Reduce_scatter_block, reduce_scatter_block, send, receive, n, type, op, comm);
    case 16: CALL(Neighbor_allgather, neighbor_allgather, send, n, type, receive, n, type, ring);
    case 17:
        CALL(Neighbor_allgatherv, neighbor_allgatherv, send, n, type, receive, counts, places, type, ring);
    case 18: CALL(Neighbor_alltoall, neighbor_alltoall, send, n, type, receive, n, type, ring);
    case 19:
        CALL(Neighbor_alltoallv, neighbor_alltoallv, send, counts, places, type, receive, counts, places,
             type, ring);
    default:
        CALL(Neighbor_alltoallw, neighbor_alltoallw, send, counts, far_places, types, receive, counts,
             far_places, types, ring);
    }
}


// How many of `rounds` results are wrong on any process.
static int wrong_results(int which, Form form, int n, MPI_Datatype type, int extent, MPI_Op op,
                         int rounds) {
    size_t bytes = (size_t)(n * check_size * extent) * sizeof(long);
    if (bytes < (size_t)(n * 2 * extent) * sizeof(long)) bytes = (size_t)(n * 2 * extent) * sizeof(long);
    int wrong = 0, all = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    if (form == PERSISTENT) call(which, form, contribution, result, n, type, extent, 0, op, &request);
    for (int round = 0; round < rounds; round++) {
        int root = form == PERSISTENT ? 0 : round % check_size;
        for (size_t i = 0; i < bytes / sizeof(long); i++)
            contribution[i] = kept[i] = 1 + check_rank * 100 + round * 7 + (long)i;
        memset(result, 0, bytes);
        memset(expected, 0, bytes);
        // Members come one after another.
        if (round % 4 == 1 && check_rank == (round / 4) % check_size) usleep(200);
        if (form == PERSISTENT) OK(MPI_Start(&request));
        else call(which, form, contribution, result, n, type, extent, root, op, &request);
        memset(contribution, 0x55, bytes);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        call(which, BLOCKING, kept, expected, n, type, extent, root, op, NULL);
        wrong += memcmp(result, expected, bytes) != 0;
    }
    if (form == PERSISTENT) OK(MPI_Request_free(&request));
    OK(MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

static void add(void *from, void *into, int *count, MPI_Datatype *type) {
    MPI_Aint low, extent;
    MPI_Type_get_extent(*type, &low, &extent);
    for (int i = 0; i < *count; i++) {
        long *one = (long *)((char *)into + i * extent), *other = (long *)((char *)from + i * extent);
        one[0] += other[0];
        if (extent > (MPI_Aint)sizeof(long)) one[2] += other[2];
    }
}

static void print_counts(int n, int rounds) {
    for (Form form = NONBLOCKING; form <= PERSISTENT; form++)
        for (int which = 0; which < OPERATIONS; which++) {
            int wrong = wrong_results(which, form, n, MPI_LONG, 1, MPI_SUM, rounds);
            if (check_rank == 0 && wrong)
                printf("%s %s: %d of %d\n", form == PERSISTENT ? "persistent" : "nonblocking",
                       operations[which], wrong, rounds * check_size);
        }
}

int main(int argc, char **argv) {
    // Without boards members send each other messages, as they do between machines.
    if (argc > 1 && !strcmp(argv[1], "never")) setenv("COMBRAY_BOARDS", "never", 1);
    check_begin();
    comm = MPI_COMM_WORLD;
    int is_ring = 1;
    OK(MPI_Cart_create(comm, 1, &check_size, &is_ring, 0, &ring));
    if (argc > 3 && !strcmp(argv[1], "count")) {
        print_counts(atoi(argv[2]), atoi(argv[3]));
        return check_end();
    }
    MPI_Datatype gaps, resized;
    MPI_Op user;
    OK(MPI_Type_vector(2, 1, 2, MPI_LONG, &gaps));
    OK(MPI_Type_create_resized(gaps, 0, 4 * sizeof(long), &resized));
    OK(MPI_Type_commit(&resized));
    OK(MPI_Op_create(add, 1, &user));
    const int lengths[] = {1, 20};
    for (Form form = NONBLOCKING; form <= PERSISTENT; form++)
        for (int which = 0; which < OPERATIONS; which++)
            for (int l = 0; l < 2; l++) {
                int n = lengths[l];
                int wrong = wrong_results(which, form, n, MPI_LONG, 1, MPI_SUM, CHECK_ROUNDS(30));
                CHECK(!wrong, "form %d of %s, %d elements: %d wrong", form, operations[which], n, wrong);
                wrong = wrong_results(which, form, n, resized, 4, user, CHECK_ROUNDS(10));
                CHECK(!wrong, "form %d of %s, %d with gaps: %d wrong", form, operations[which], n, wrong);
            }
    OK(MPI_Op_free(&user));
    OK(MPI_Type_free(&gaps));
    OK(MPI_Type_free(&resized));
    OK(MPI_Comm_free(&ring));
    return check_end();
}
