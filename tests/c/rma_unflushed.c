// A process accumulates to the next one without a flush, and waits in another call for a message
// that the next one sends as soon as it sees the value: the value arrives nevertheless.
// run: 2 3
// hosts
#include "windows.h"

enum { ROUNDS = 20, WAYS = 4 };

int main(void) {
    check_begin();
    int *word;
    MPI_Win win;
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win));
    *word = -1;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < ROUNDS; round++) {
        if (check_rank == 0) {
            MPI_Request request;
            MPI_Status status;
            int answer = -1, there = 0;
            OK(MPI_Accumulate(&round, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_REPLACE, win));
            switch (round % WAYS) {
            case 0:
                break;
            case 1:
                while (!there) OK(MPI_Iprobe(1, 0, MPI_COMM_WORLD, &there, &status));
                break;
            case 2:
                while (!there) {
                    OK(MPI_Win_sync(win));
                    OK(MPI_Win_flush(0, win));
                    OK(MPI_Iprobe(1, 0, MPI_COMM_WORLD, &there, &status));
                }
                break;
            default:
                OK(MPI_Probe(1, 0, MPI_COMM_WORLD, &status));
            }
            OK(MPI_Irecv(&answer, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_EQ(answer, round);
        } else if (check_rank == 1) {
            int seen = -1;
            while (seen != round) {
                OK(MPI_Fetch_and_op(NULL, &seen, MPI_INT, 1, 0, MPI_NO_OP, win));
                OK(MPI_Win_flush(1, win));
            }
            OK(MPI_Send(&seen, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
        }
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    return check_end();
}
