// Creating a communicator synchronizes its members, as it does in other libraries, and programs
// rely on it: a consensus exchange (MPI_Issend to any, MPI_Iprobe from any source, MPI_Ibarrier)
// that is repeated with one tag, on one communicator, is right only if no process begins the next
// one while another still probes for the last. Each operation that makes a communicator, by
// messages and on boards.
// run: 2 3 5
// each: auto never
// one machine: compares times of all processes
// timeout: 60
#include "check.h"
#include <time.h>

static MPI_Comm own_duplicate, halves, both_sides;

// One clock for all processes of a machine, unlike MPI_Wtime.
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void pause_ms(int ms) {
    struct timespec time = {0, ms * 1000000L};
    nanosleep(&time, NULL);
}

// One exchange: each process sends its round to the next; a process that receives another round's
// message took part in two at the same time.
static int consensus(MPI_Comm comm, int round) {
    int to = (check_rank + 1) % check_size, value = round, wrong = 0, received = 0, done = 0, sent;
    int begun = 0;
    MPI_Request send, barrier = MPI_REQUEST_NULL;
    OK(MPI_Issend(&value, 1, MPI_INT, to, 7, comm, &send));
    while (!done) {
        int found, other;
        MPI_Status status;
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 7, comm, &found, &status));
        if (found) {
            OK(MPI_Recv(&other, 1, MPI_INT, status.MPI_SOURCE, 7, comm, MPI_STATUS_IGNORE));
            wrong += other != round;
            received++;
        }
        if (begun) {
            OK(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Test(&send, &sent, MPI_STATUS_IGNORE));
            if (sent) {
                OK(MPI_Ibarrier(comm, &barrier));
                begun = 1;
            }
        }
        // Others have left the barrier long ago.
        if (done && check_rank == round % check_size) {
            int more;
            pause_ms(1);
            OK(MPI_Iprobe(MPI_ANY_SOURCE, 7, comm, &more, &status));
            wrong += more;
        }
    }
    return wrong + (received != 1);
}

// The side of this process in intercommunicators, and the other side's leader in MPI_COMM_WORLD.
static void sides(int *is_low, int *leader) {
    *is_low = check_rank < check_size / 2;
    *leader = *is_low ? check_size / 2 : 0;
}

// Makes a communicator of all processes in one of the ways.
static MPI_Comm make(int way) {
    int degree = 1, next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    int periodic = 1, is_low, leader;
    int indices[16], edges[16];
    for (int i = 0; i < check_size; i++) {
        indices[i] = i + 1;
        edges[i] = (i + 1) % check_size;
    }
    MPI_Group group;
    MPI_Request request;
    MPI_Comm made = MPI_COMM_NULL;
    sides(&is_low, &leader);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    switch (way) {
    case 0: OK(MPI_Comm_dup(MPI_COMM_WORLD, &made)); break;
    case 1: OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &made)); break;
    case 2:
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &made, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 3: OK(MPI_Comm_create(MPI_COMM_WORLD, group, &made)); break;
    case 4: OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &made)); break;
    case 5: OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &made)); break;
    case 6: OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, &periodic, 0, &made)); break;
    case 7: OK(MPI_Graph_create(MPI_COMM_WORLD, check_size, indices, edges, 0, &made)); break;
    case 8:
        OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &check_rank, &degree, &next, &degree,
                                 MPI_INFO_NULL, 0, &made));
        break;
    case 9:
        OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &degree, 1, &next, &degree,
                                          MPI_INFO_NULL, 0, &made));
        break;
    case 10: OK(MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, leader, 5, &made)); break;
    case 11: OK(MPI_Intercomm_merge(both_sides, !is_low, &made)); break;
    case 12: OK(MPI_Comm_dup(both_sides, &made)); break;
    case 13:
        OK(MPI_Comm_idup(both_sides, &made, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 14: OK(MPI_Comm_split(both_sides, 0, 0, &made)); break;
    default: OK(MPI_Comm_create_from_group(group, "again", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
    }
    OK(MPI_Group_free(&group));
    return made;
}

static const char *const ways[] = {
    "Comm_dup", "Comm_dup_with_info", "Comm_idup", "Comm_create", "Comm_create_group", "Comm_split",
    "Cart_create", "Graph_create", "Dist_graph_create", "Dist_graph_create_adjacent", "Intercomm_create",
    "Intercomm_merge", "Comm_dup of an intercommunicator", "Comm_idup of an intercommunicator",
    "Comm_split of an intercommunicator", "Comm_create_from_group",
};
enum { WAYS = sizeof ways / sizeof *ways };

// Whether every process has come when any leaves: the last one comes late.
static int leaves_early(int way, int late) {
    double left, arrived, last = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == late) pause_ms(10);
    arrived = now();
    MPI_Comm made = make(way);
    left = now();
    OK(MPI_Allreduce(&arrived, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    OK(MPI_Comm_free(&made));
    return left < last;
}

int main(int argc, char **argv) {
    // Without boards members send each other messages, as they do between machines.
    if (argc > 1 && !strcmp(argv[1], "never")) setenv("COMBRAY_BOARDS", "never", 1);
    int rounds = argc > 2 ? atoi(argv[2]) : CHECK_ROUNDS(10), is_low, leader;
    check_begin();
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &own_duplicate));
    sides(&is_low, &leader);
    OK(MPI_Comm_split(MPI_COMM_WORLD, is_low, 0, &halves));
    OK(MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, leader, 4, &both_sides));
    for (int way = 0; way < WAYS; way++) {
        int counts[2] = {0, 0}, all[2];
        for (int late = 0; late < check_size; late++) counts[0] += leaves_early(way, late);
        for (int round = 0; round < rounds; round++) {
            counts[1] += consensus(own_duplicate, round);
            MPI_Comm made = make(way);
            OK(MPI_Comm_free(&made));
        }
        OK(MPI_Allreduce(counts, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(!all[0], "MPI_%s: %d times a process left before all had come", ways[way], all[0]);
        CHECK(!all[1], "MPI_%s: %d mistakes of the exchange", ways[way], all[1]);
    }
    OK(MPI_Comm_free(&both_sides));
    OK(MPI_Comm_free(&halves));
    OK(MPI_Comm_free(&own_duplicate));
    return check_end();
}
