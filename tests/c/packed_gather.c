// The purpose of packing: a message of many segments is one packet, also with a long segment that
// is sent by itself; and nothing is left behind.
// run: 2
// one machine: packets to other machines go when the network takes them
// combray.h
#include "check.h"

#include <combray.h>

static MPI_T_pvar_session session;
static MPI_T_pvar_handle packets, requests_left;

static MPI_T_pvar_handle variable(const char *name, int class) {
    int index, count;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_get_index(name, class, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    return handle;
}

static int value_of(MPI_T_pvar_handle handle) {
    unsigned long long value = 0;
    OK(MPI_T_pvar_read(session, handle, &value));
    return (int)value;
}

// A message of process 0 to process 1 with `count` segments of `bytes` bytes and one of `large`;
// how many packets it took until its end.
static int packets_of(int count, size_t bytes, size_t large, int mode) {
    static char out[200000], in[200000], large_in[200000];
    combray_message message;
    int before = 0, after = 0;
    memset(out, 7, sizeof out);
    memset(in, 0, sizeof in);
    memset(large_in, 0, sizeof large_in);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        MPI_Request request;
        before = value_of(packets);
        OK(combray_begin(MPI_COMM_WORLD, 1, 0, &message));
        for (int i = 0; i < count; i++)
            OK(combray_pack(message, out + (size_t)i * bytes, bytes, mode));
        OK(combray_pack(message, out, large, COMBRAY_CHEAPER));
        CHECK_EQ(value_of(packets), before);
        OK(combray_end(&message, &request));
        after = value_of(packets);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(combray_begin_unpack(MPI_COMM_WORLD, 0, 0, &message));
        for (int i = 0; i < count; i++)
            OK(combray_unpack(message, in + (size_t)i * bytes, bytes, mode));
        OK(combray_unpack(message, large_in, large, COMBRAY_CHEAPER));
        OK(combray_end_unpack(&message, NULL, MPI_STATUS_IGNORE));
        CHECK(!memcmp(in, out, (size_t)count * bytes), "the short segments");
        CHECK(!memcmp(large_in, out, large), "the long segment");
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return after - before;
}

int main(void) {
    int provided;
    check_begin();
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    packets = variable("packets_sent", MPI_T_PVAR_CLASS_COUNTER);
    requests_left = variable("requests", MPI_T_PVAR_CLASS_LEVEL);
    OK(MPI_T_pvar_start(session, packets));
    // Whatever strategy was chosen for all messages.
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "combray_strategy", "aggregate"));
    OK(MPI_Comm_set_info(MPI_COMM_WORLD, info));
    OK(MPI_Info_free(&info));
    // The two processes connect.
    packets_of(1, 4, 0, COMBRAY_CHEAPER);
    packets_of(1, 4, 20000, COMBRAY_CHEAPER);
    int left = value_of(requests_left), expected = check_rank == 0;
    for (int mode = COMBRAY_EXPRESS; mode <= COMBRAY_CHEAPER; mode++) {
        CHECK_EQ(packets_of(1, 4, 0, mode), expected);
        CHECK_EQ(packets_of(16, 4, 0, mode), expected);
        CHECK_EQ(packets_of(16, 400, 0, mode), expected);
        CHECK_EQ(packets_of(16, 4, 5000, mode), expected);
        CHECK_EQ(packets_of(16, 4, 100000, mode), expected);
    }
    for (int i = 0; i < 100; i++) packets_of(i % 50, 100, (size_t)i * 1000, COMBRAY_CHEAPER);
    CHECK_EQ(value_of(requests_left), left);
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return check_end();
}
