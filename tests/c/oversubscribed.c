// More processes than cores make progress at once: many small steps of a ring, of pairs and of
// collectives, with a time bound that a library which spins without yielding would not hold.
// run: 8 16
// timeout: 60
// hosts
#include "check.h"

enum { ROUNDS = 200 };
static const double SECONDS_MAX = 20.0;

static void ring(int round) {
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    int token = -1;
    // A token goes round: only one process has anything to do at a time.
    if (check_rank == 0) {
        OK(MPI_Send(&round, 1, MPI_INT, next, 0, MPI_COMM_WORLD));
        OK(MPI_Recv(&token, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(token, round + check_size - 1);
    } else {
        OK(MPI_Recv(&token, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        token++;
        OK(MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD));
    }
}

static void collectives(int round) {
    int mine = check_rank + round, sum, all[64];
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, check_size * (check_size - 1) / 2 + round * check_size);
    OK(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
    CHECK_EQ(all[check_size - 1], check_size - 1 + round);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void pairs(void) {
    enum { BYTES = 100000 };
    static char out[BYTES], in[BYTES];
    int other = check_rank ^ 1;
    if (other >= check_size) return;
    OK(MPI_Sendrecv(out, BYTES, MPI_BYTE, other, 0, in, BYTES, MPI_BYTE, other, 0, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
}

int main(void) {
    check_begin();
    double start = MPI_Wtime();
    for (int round = 0; round < ROUNDS; round++) {
        ring(round);
        collectives(round);
        pairs();
    }
    double seconds = MPI_Wtime() - start;
    CHECK(seconds < SECONDS_MAX, "%d rounds took %.1f s", ROUNDS, seconds);
    return check_end();
}
