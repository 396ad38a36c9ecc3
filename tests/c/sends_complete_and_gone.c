// Messages to another host whose sends have completed leave while their program computes, although
// more were sent than a packet holds, and no helper makes progress. The messages fill about one
// packet of 64 KiB. An attempt may find the socket full; three in a row do not.
// run: 2
// hosts
#include "check.h"
#include <time.h>

enum { LENGTH = 500, FIRST = 126, LAST = 132, ATTEMPTS = 3 };
static const double COMPUTING = 0.2;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

// Returns the time when the program has computed.
static double send_and_compute(int count) {
    static char out[LAST][LENGTH];
    MPI_Request requests[LAST];
    for (int i = 0; i < count; i++)
        OK(MPI_Isend(out[i], LENGTH, MPI_CHAR, 1, i, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    double end = now() + COMPUTING;
    while (now() < end) continue;
    return end;
}

// Returns the time when everything has arrived.
static double receive(int count) {
    static char in[LENGTH];
    for (int i = 0; i < count; i++)
        OK(MPI_Recv(in, LENGTH, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return now();
}

static int arrives_in_time(int count) {
    int in_time = 1;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        double end = send_and_compute(count);
        OK(MPI_Send(&end, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD));
    } else {
        double arrived = receive(count), end;
        OK(MPI_Recv(&end, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        in_time = arrived < end;
    }
    OK(MPI_Bcast(&in_time, 1, MPI_INT, 1, MPI_COMM_WORLD));
    return in_time;
}

int main(void) {
    setenv("COMBRAY_HELPER", "never", 1);
    // Emulated hosts have this name, and two interfaces.
    const char *node = getenv("COMBRAY_NODE");
    if (node && strncmp(node, "box", 3) == 0) setenv("COMBRAY_NET", "eth0", 1);
    check_begin();
    for (int count = FIRST; count <= LAST; count++) {
        int in_time = 0;
        for (int i = 0; i < ATTEMPTS && !in_time; i++) in_time = arrives_in_time(count);
        CHECK(in_time);
    }
    return check_end();
}
