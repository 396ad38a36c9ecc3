// A sender that runs far ahead of its receiver: unexpected messages are bounded at the receiver,
// and all of them arrive once it posts receives.
// run: 2
// timeout: 60
// hosts
#include "check.h"

enum { MESSAGES = 10000, BYTES = 8192, GROWTH_KIB_MAX = 32 * 1024 };

int main(void) {
    check_begin();
    unsigned char *buffer = malloc(BYTES);
    pattern_fill(buffer, BYTES, 1);
    if (check_rank == 0) {
        MPI_Request *requests = malloc(MESSAGES * sizeof *requests);
        for (int i = 0; i < MESSAGES; i++)
            OK(MPI_Isend(buffer, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]));
        OK(MPI_Send(buffer, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
        OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
        free(requests);
    } else {
        long before = memory_kib("VmHWM");
        int flag;
        // Progress without taking anything.
        for (double end = MPI_Wtime() + 1.0; MPI_Wtime() < end;)
            OK(MPI_Iprobe(0, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        long grown = memory_kib("VmHWM") - before;
        CHECK(grown < GROWTH_KIB_MAX || !check_is_combray,
              "%d MiB that nobody asked for cost the receiver %ld KiB", MESSAGES * (BYTES >> 10) >> 10,
              grown);
        for (int i = 0; i < MESSAGES; i++) {
            OK(MPI_Recv(buffer, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (i % 100 == 0) CHECK_PATTERN(buffer, BYTES, 1);
        }
        OK(MPI_Recv(buffer, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    free(buffer);
    return check_end();
}
