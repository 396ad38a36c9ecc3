// A rank that waits burns no processor time: two seconds in MPI_Recv, MPI_Wait, MPI_Probe and
// MPI_Barrier while the others sleep, each under 1 % of it, with all its threads.
// run: 2 4
// hosts
#include "check.h"

static const double WAITED_SECONDS = 2.0, BURNT_SECONDS_MAX = 0.02;

static void measure(const char *name, void (*wait)(void)) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        // The sender sleeps outside of MPI, then wakes the others.
        usleep((useconds_t)(WAITED_SECONDS * 1e6));
        for (int to = 1; to < check_size; to++)
            OK(MPI_Send(&to, 1, MPI_INT, to, 0, MPI_COMM_WORLD));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        return;
    }
    double processor = processor_seconds(), wall = MPI_Wtime();
    wait();
    processor = processor_seconds() - processor;
    wall = MPI_Wtime() - wall;
    CHECK(wall > 0.8 * WAITED_SECONDS, "%s: returned after %.2f s", name, wall);
    CHECK(processor < BURNT_SECONDS_MAX || !check_is_combray,
          "%s: %.2f s of processor time in %.2f s of waiting", name, processor, wall);
}

static void receive(void) {
    int value;
    OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void probe(void) {
    int value;
    OK(MPI_Probe(0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void barrier(void) {
    int value;
    MPI_Request request;
    OK(MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int main(void) {
    check_begin();
    measure("MPI_Recv", receive);
    measure("MPI_Probe", probe);
    measure("MPI_Barrier", barrier);
    return check_end();
}
