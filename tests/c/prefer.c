// What counts first, for the messages of a communicator (combray_prefer) and for a process
// (COMBRAY_PREFER): with bandwidth first messages of a burst to another machine share packets from
// the first on, with latency first none waits; a process that leaves the processor to its program
// sleeps soon while it waits.
// run: 2
// each: balance latency bandwidth compute
// combray.h
#include <stdlib.h>
#include <time.h>

#include "check.h"

enum { BURST = 16, ROUNDS = 30 };

static int packets_sent(void) {
    static MPI_T_pvar_session session;
    static MPI_T_pvar_handle handle;
    unsigned long long value = 0;
    if (!handle) {
        int provided, index, count;
        OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
        OK(MPI_T_pvar_session_create(&session));
        OK(MPI_T_pvar_get_index("packets_sent", MPI_T_PVAR_CLASS_COUNTER, &index));
        OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
        OK(MPI_T_pvar_start(session, handle));
    }
    OK(MPI_T_pvar_read(session, handle, &value));
    return (int)value;
}

static void expect(MPI_Comm comm, const char *expected) {
    char value[100] = "";
    int flag = 0, room = sizeof value;
    MPI_Info info;
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_get_string(info, "combray_prefer", &room, value, &flag));
    OK(MPI_Info_free(&info));
    CHECK(flag && !strcmp(value, expected), "it is %s, expected %s", value, expected);
}

static void prefer(MPI_Comm comm, const char *what) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "combray_prefer", what));
    OK(MPI_Comm_set_info(comm, info));
    OK(MPI_Info_free(&info));
}

// Bursts of short messages of process 0 to process 1, with an answer to each; returns how many
// packets process 0 sent.
static int packets_of_bursts(MPI_Comm comm) {
    MPI_Request requests[BURST];
    int values[BURST], before = packets_sent();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BURST; i++) {
            values[i] = i;
            if (check_rank == 0)
                OK(MPI_Isend(&values[i], 1, MPI_INT, 1, i, comm, &requests[i]));
            else
                OK(MPI_Irecv(&values[i], 1, MPI_INT, 0, i, comm, &requests[i]));
        }
        OK(MPI_Waitall(BURST, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < BURST; i++) CHECK_EQ(values[i], i);
        if (check_rank == 1) OK(MPI_Send(&round, 1, MPI_INT, 0, 99, comm));
        else OK(MPI_Recv(values, 1, MPI_INT, 1, 99, comm, MPI_STATUS_IGNORE));
    }
    return packets_sent() - before;
}

// A process waits for messages that come each millisecond: its part of the processor.
static double waiting(void) {
    struct timespec pause = {0, 1000000};
    int value = 0, count = 300;
    double wall = MPI_Wtime(), processor = processor_seconds();
    for (int i = 0; i < count; i++) {
        if (check_rank == 1) nanosleep(&pause, NULL);
        if (check_rank == 1) OK(MPI_Send(&i, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
        else OK(MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    return (processor_seconds() - processor) / (MPI_Wtime() - wall);
}

int main(int argc, char **argv) {
    const char *first = argc > 1 ? argv[1] : "balance";
    setenv("COMBRAY_PREFER", first, 1);
    check_begin();
    if (!check_is_combray) return check_end();
    expect(MPI_COMM_WORLD, first);
    MPI_Comm comm, apart;
    int here;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &apart));
    OK(MPI_Comm_size(apart, &here));
    OK(MPI_Comm_free(&apart));
    int latency, bandwidth, by_process = packets_of_bursts(MPI_COMM_WORLD);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    expect(comm, first);
    prefer(comm, "latency");
    expect(comm, "latency");
    latency = packets_of_bursts(comm);
    prefer(comm, "bandwidth");
    bandwidth = packets_of_bursts(comm);
    prefer(comm, "glory");
    expect(comm, "bandwidth");
    prefer(comm, "compute");
    expect(comm, "compute");
    packets_of_bursts(comm);
    OK(MPI_Comm_free(&comm));
    if (here == 1 && check_rank == 0) {
        // Strategies that send each message by itself have no bursts.
        int alone = getenv("COMBRAY_STRATEGY") && !strcmp(getenv("COMBRAY_STRATEGY"), "direct");
        CHECK(latency > 3 * ROUNDS / 2, "latency: %d packets", latency);
        CHECK(alone || bandwidth < 3 * ROUNDS / 2, "bandwidth: %d packets", bandwidth);
        if (!strcmp(first, "latency")) CHECK(by_process > 3 * ROUNDS / 2, "%d packets", by_process);
        if (!strcmp(first, "bandwidth"))
            CHECK(alone || by_process < 3 * ROUNDS / 2, "%d packets", by_process);
    }
    double part = waiting();
    if (check_rank == 0 && !strcmp(first, "compute"))
        CHECK(part < 0.4, "it uses %.2f of a processor while it waits", part);
    return check_end();
}
