// Wrong and right collective operations, and threads in them.
// thread
#include <pthread.h>
#include <time.h>

#include "misuse.h"

enum { MAX = 16 };
static int from[2 * MAX], to[2 * MAX], counts[MAX], others[MAX], places[MAX];
static MPI_Datatype types[MAX], other_types[MAX];

// Each process has a block of one number for each other one.
static void one_each(void) {
    for (int i = 0; i < size; i++) {
        counts[i] = others[i] = 1;
        places[i] = i;
        types[i] = other_types[i] = MPI_INT;
    }
}

static void allgather_sides(void) {
    MPI_Allgather(from, 1, MPI_INT, to, wrong ? 2 : 1, MPI_INT, world);
}

static void allgather_elements(void) {
    MPI_Allgather(from, 1, MPI_INT, to, 1, wrong ? MPI_FLOAT : MPI_INT, world);
}

static void alltoall_sides(void) {
    MPI_Alltoall(from, wrong ? 2 : 1, MPI_INT, to, 1, MPI_INT, world);
}

static void gather_sides(void) {
    MPI_Gather(from, 1, MPI_INT, to, rank == 1 && wrong ? 2 : 1, MPI_INT, 1, world);
}

static void scatter_sides(void) {
    MPI_Scatter(from, rank == 1 && wrong ? 2 : 1, MPI_INT, to, 1, MPI_INT, 1, world);
}

static void allgatherv_sides(void) {
    one_each();
    others[rank] = wrong ? 2 : 1;
    MPI_Allgatherv(from, 1, MPI_INT, to, others, places, MPI_INT, world);
}

static void allgatherv_peers(void) {
    one_each();
    // What one expects of the last is not what that sends.
    others[size - 1] = wrong && rank == 0 ? 2 : 1;
    MPI_Allgatherv(from, 1, MPI_INT, to, others, places, MPI_INT, world);
}

static void gatherv_peers(void) {
    one_each();
    others[0] = wrong ? 2 : 1;
    MPI_Gatherv(from, 1, MPI_INT, to, others, places, MPI_INT, 1, world);
}

static void scatterv_peers(void) {
    one_each();
    MPI_Scatterv(from, counts, places, MPI_INT, to, rank == 0 && wrong ? 2 : 1, MPI_INT, 1, world);
}

static void alltoallv_peers(void) {
    one_each();
    others[0] = wrong && rank == 1 ? 2 : 1;
    MPI_Alltoallv(from, counts, places, MPI_INT, to, others, places, MPI_INT, world);
}

static void alltoallv_sides(void) {
    one_each();
    others[rank] = wrong && rank == 1 ? 2 : 1;
    MPI_Alltoallv(from, counts, places, MPI_INT, to, others, places, MPI_INT, world);
}

static void alltoallw_peers(void) {
    one_each();
    other_types[0] = wrong && rank == 1 ? MPI_FLOAT : MPI_INT;
    for (int i = 0; i < size; i++) {
        places[i] = 4 * i;
    }
    MPI_Alltoallw(from, counts, places, types, to, others, places, other_types, world);
}

static void ialltoallv_peers(void) {
    MPI_Request request;
    one_each();
    others[0] = wrong && rank == 1 ? 2 : 1;
    MPI_Ialltoallv(from, counts, places, MPI_INT, to, others, places, MPI_INT, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// In place the receive arguments describe the data that is sent.
static void alltoallv_in_place(void) {
    one_each();
    others[0] = others[1] = wrong && rank == 1 ? 2 : 1;
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_INT, to, others, places, MPI_INT, world);
}

static void gather_alias(void) {
    MPI_Gather(wrong ? to : from, 1, MPI_INT, to, 1, MPI_INT, 0, world);
}

static void gather_overlap(void) {
    MPI_Gather(wrong ? to + 1 : to + size, 1, MPI_INT, to, 1, MPI_INT, 0, world);
}

static void scatter_alias(void) {
    MPI_Scatter(from, 1, MPI_INT, wrong ? from : to, 1, MPI_INT, 0, world);
}

static void allgather_alias(void) {
    MPI_Allgather(wrong ? to : from, 1, MPI_INT, to, 1, MPI_INT, world);
}

static void allgatherv_alias(void) {
    one_each();
    MPI_Allgatherv(wrong ? to : from, 1, MPI_INT, to, counts, places, MPI_INT, world);
}

static void alltoall_alias(void) {
    MPI_Alltoall(wrong ? to : from, 1, MPI_INT, to, 1, MPI_INT, world);
}

static void alltoallw_alias(void) {
    one_each();
    for (int i = 0; i < size; i++) {
        places[i] = 4 * i;
    }
    MPI_Alltoallw(wrong ? to : from, counts, places, types, to, counts, places, types, world);
}

static void allreduce_overlap(void) {
    MPI_Allreduce(from, wrong ? from + 1 : from + 2, 2, MPI_INT, MPI_SUM, world);
}

static void reduce_overlap(void) {
    MPI_Reduce(from, wrong ? from + 1 : from + 2, 2, MPI_INT, MPI_SUM, 0, world);
}

static void scan_overlap(void) {
    MPI_Scan(from + 1, wrong ? from : from + 3, 2, MPI_INT, MPI_SUM, world);
}

static void reduce_scatter_overlap(void) {
    MPI_Reduce_scatter_block(from, wrong ? from + 1 : to, 1, MPI_INT, MPI_SUM, world);
}

static void reduce_local_alias(void) {
    MPI_Reduce_local(from, wrong ? from : to, 2, MPI_INT, MPI_SUM);
}

static void reduce_local_overlap(void) {
    MPI_Reduce_local(from, wrong ? from + 1 : from + 2, 2, MPI_INT, MPI_SUM);
}

static void iallgather_alias(void) {
    MPI_Request request;
    MPI_Iallgather(wrong ? to : from, 1, MPI_INT, to, 1, MPI_INT, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void *send_to_itself(void *unused) {
    int value;
    MPI_Sendrecv(&rank, 1, MPI_INT, rank, 0, &value, 1, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE);
    return unused;
}

// At MPI_THREAD_FUNNELED only the main thread may call.
static void funneled(void) {
    pthread_t other;
    if (wrong) {
        pthread_create(&other, NULL, send_to_itself, NULL);
        pthread_join(other, NULL);
    } else {
        send_to_itself(NULL);
    }
}

static void *receive(void *unused) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, rank, 1, world, MPI_STATUS_IGNORE);
    return unused;
}

// At MPI_THREAD_SERIALIZED they take turns. Here the other thread may be in MPI_Recv.
static void serialized(void) {
    pthread_t other;
    MPI_Request request = MPI_REQUEST_NULL;
    if (wrong) {
        pthread_create(&other, NULL, receive, NULL);
        struct timespec while_it_waits = {0, 300000000};
        nanosleep(&while_it_waits, NULL);
        MPI_Send(&rank, 1, MPI_INT, rank, 1, world);
    } else {
        MPI_Isend(&rank, 1, MPI_INT, rank, 1, world, &request);
        pthread_create(&other, NULL, receive, NULL);
    }
    pthread_join(other, NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static const struct misuse cases[] = {
    {"allgather_sides", allgather_sides, MPI_THREAD_SINGLE},
    {"allgather_elements", allgather_elements, MPI_THREAD_SINGLE},
    {"alltoall_sides", alltoall_sides, MPI_THREAD_SINGLE},
    {"gather_sides", gather_sides, MPI_THREAD_SINGLE},
    {"scatter_sides", scatter_sides, MPI_THREAD_SINGLE},
    {"allgatherv_sides", allgatherv_sides, MPI_THREAD_SINGLE},
    {"allgatherv_peers", allgatherv_peers, MPI_THREAD_SINGLE},
    {"gatherv_peers", gatherv_peers, MPI_THREAD_SINGLE},
    {"scatterv_peers", scatterv_peers, MPI_THREAD_SINGLE},
    {"alltoallv_peers", alltoallv_peers, MPI_THREAD_SINGLE},
    {"alltoallv_sides", alltoallv_sides, MPI_THREAD_SINGLE},
    {"alltoallw_peers", alltoallw_peers, MPI_THREAD_SINGLE},
    {"ialltoallv_peers", ialltoallv_peers, MPI_THREAD_SINGLE},
    {"alltoallv_in_place", alltoallv_in_place, MPI_THREAD_SINGLE},
    {"gather_alias", gather_alias, MPI_THREAD_SINGLE},
    {"gather_overlap", gather_overlap, MPI_THREAD_SINGLE},
    {"scatter_alias", scatter_alias, MPI_THREAD_SINGLE},
    {"allgather_alias", allgather_alias, MPI_THREAD_SINGLE},
    {"allgatherv_alias", allgatherv_alias, MPI_THREAD_SINGLE},
    {"alltoall_alias", alltoall_alias, MPI_THREAD_SINGLE},
    {"alltoallw_alias", alltoallw_alias, MPI_THREAD_SINGLE},
    {"allreduce_overlap", allreduce_overlap, MPI_THREAD_SINGLE},
    {"reduce_overlap", reduce_overlap, MPI_THREAD_SINGLE},
    {"scan_overlap", scan_overlap, MPI_THREAD_SINGLE},
    {"reduce_scatter_overlap", reduce_scatter_overlap, MPI_THREAD_SINGLE},
    {"reduce_local_alias", reduce_local_alias, MPI_THREAD_SINGLE},
    {"reduce_local_overlap", reduce_local_overlap, MPI_THREAD_SINGLE},
    {"iallgather_alias", iallgather_alias, MPI_THREAD_SINGLE},
    {"funneled", funneled, MPI_THREAD_FUNNELED},
    {"serialized", serialized, MPI_THREAD_SERIALIZED},
};

MISUSE_MAIN(cases)
