// The native interface without MPI_Init: in a communicator of a session, as long as the session is
// open.
// run: 2
// combray.h
#include "check.h"

#include <combray.h>

static void in_a_session(int round) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    combray_message sent, received;
    MPI_Request requests[2];
    static char out[50000], in[50000];
    int rank, size, number, got = -1;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "packed", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    number = rank * 10 + round;
    pattern_fill(out, sizeof out, (uint64_t)number);
    OK(combray_begin(comm, (rank + 1) % size, 0, &sent));
    OK(combray_pack(sent, &number, sizeof number, COMBRAY_EXPRESS));
    OK(combray_pack(sent, out, sizeof out, COMBRAY_CHEAPER));
    OK(combray_end(&sent, &requests[0]));
    OK(combray_begin_unpack(comm, MPI_ANY_SOURCE, 0, &received));
    OK(combray_unpack(received, &got, sizeof got, COMBRAY_EXPRESS));
    CHECK_EQ(got, (rank + size - 1) % size * 10 + round);
    OK(combray_unpack(received, in, sizeof in, COMBRAY_CHEAPER));
    OK(combray_end_unpack(&received, &requests[1], MPI_STATUS_IGNORE));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK_PATTERN(in, sizeof in, (uint64_t)got);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
}

int main(void) {
    combray_message message = COMBRAY_MESSAGE_NULL;
    char text[MPI_MAX_ERROR_STRING];
    for (int round = 0; round < 2; round++) {
        in_a_session(round);
        int code = combray_begin(MPI_COMM_WORLD, 0, 0, &message);
        CHECK(code != MPI_SUCCESS, "no session is open");
        OK(combray_error_string(code, text, sizeof text));
        CHECK(strstr(text, "combray_begin") != NULL, "%s", text);
    }
    return check_failures != 0;
}
