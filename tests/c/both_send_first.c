// Pairs in which both send 13 to 64 KiB before they receive: the sender must not wait for a receive
// that comes after its own send, also where it has found that the receiver copies such messages
// faster than itself.
// run: 2 4
#include "check.h"

enum { ROUNDS = 40, EXCHANGES = 20, LENGTH_MAX = 65536 };

int main(void) {
    check_begin();
    static char out[LENGTH_MAX], in[LENGTH_MAX];
    const int lengths[] = {13000, 20000, 33000, LENGTH_MAX};
    int peer = check_rank ^ 1;
    MPI_Comm world = MPI_COMM_WORLD;
    for (int round = 0; round < ROUNDS; round++) {
        for (int which = 0; which < 4; which++) {
            int length = lengths[which];
            // One process waits for the other: both copy methods are tried, and the faster one is
            // known.
            for (int i = 0; i < EXCHANGES; i++) {
                if (check_rank < peer) MPI_Send(out, length, MPI_CHAR, peer, 0, world);
                MPI_Recv(in, length, MPI_CHAR, peer, 0, world, MPI_STATUS_IGNORE);
                if (check_rank > peer) MPI_Send(out, length, MPI_CHAR, peer, 0, world);
            }
            memset(out, round + check_rank + which, length);
            MPI_Send(out, length, MPI_CHAR, peer, 1, world);
            memset(out, 77, length);
            MPI_Recv(in, length, MPI_CHAR, peer, 1, world, MPI_STATUS_IGNORE);
            for (int i = 0; i < length; i++) CHECK_EQ(in[i], (char)(round + peer + which));
        }
    }
    return check_end();
}
