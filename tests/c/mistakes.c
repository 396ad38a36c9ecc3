// Mistakes, each named by the argument. What `combray run --check` says of each is in
// tests/scenarios/mistakes.py, with the lines of this file on which they are made.
// thread
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static MPI_Comm world = MPI_COMM_WORLD;

// The processes call different operations.
static void order(void) {
    int value = rank;
    if (rank == 1) {
        MPI_Bcast(&value, 1, MPI_INT, 0, world); // order: here
    } else {
        MPI_Barrier(world); // order: others
    }
}

// Each believes itself to be the root.
static void root(void) {
    int value = rank;
    MPI_Bcast(&value, 1, MPI_INT, rank, world); // root: here
}

// They add in one place and look for the greatest in the other.
static void reduction(void) {
    int value = rank, result;
    MPI_Allreduce(&value, &result, 1, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, world); // reduction: here
}

// One has more elements.
static void counts(void) {
    int values[2] = {rank, rank}, results[2];
    MPI_Reduce(values, results, rank == 1 ? 2 : 1, MPI_INT, MPI_SUM, 0, world); // counts: here
}

// One takes integers for floating-point numbers.
static void types(void) {
    int value = 0, result;
    MPI_Allreduce(&value, &result, 1, rank == 1 ? MPI_FLOAT : MPI_INT, MPI_SUM, world); // types: here
}

// Operations that are only begun have one order, too.
static void begun(void) {
    int value = rank;
    MPI_Request requests[2];
    if (rank == 2) {
        MPI_Ibarrier(world, &requests[1]); // begun: here
        MPI_Ibcast(&value, 1, MPI_INT, 0, world, &requests[0]);
    } else {
        MPI_Ibcast(&value, 1, MPI_INT, 0, world, &requests[0]);
        MPI_Ibarrier(world, &requests[1]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void *in_thread(void *unused) {
    MPI_Barrier(world); // threads: here
    return unused;
}

// Two threads enter operations of one communicator.
static void threads(void) {
    pthread_t other;
    pthread_create(&other, NULL, in_thread, NULL);
    in_thread(NULL);
    pthread_join(other, NULL);
}

// Nothing is wrong with this.
static void none(void) {
    int value = rank, result, all[16];
    MPI_Request request;
    MPI_Comm other;
    MPI_Bcast(&value, 1, MPI_INT, size - 1, world);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, world);
    MPI_Comm_split(world, rank % 2, rank, &other);
    MPI_Reduce(&value, &result, 1, MPI_INT, MPI_SUM, 0, other);
    MPI_Comm_free(&other);
    MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, 0, world);
    MPI_Scatter(all, 1, MPI_INT, rank == 0 ? MPI_IN_PLACE : &value, 1, MPI_INT, 0, world);
    MPI_Iallgather(&value, 4, MPI_BYTE, all, 1, MPI_INT, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static struct {
    const char *name;
    void (*commit)(void);
} mistakes[] = {{"order", order}, {"root", root},       {"reduction", reduction}, {"counts", counts},
                {"types", types}, {"begun", begun},     {"threads", threads},     {"none", none}};

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        if (argc > 1 && strcmp(argv[1], mistakes[i].name) == 0) {
            mistakes[i].commit();
        }
    }
    MPI_Finalize();
    return 0;
}
