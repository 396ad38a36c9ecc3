// The time of day jumps back and forth by hours: nothing waits longer or shorter for that, and
// MPI_Wtime only goes forward.
// run: 2 4
// preload: clock_jumping.c
#include "check.h"
#include <time.h>

enum { ROUNDS = 300, LARGE = 1 << 18 };

int main(void) {
    check_begin();
    time_t first = time(NULL), second = time(NULL);
    CHECK(labs(second - first) >= 1800, "the time of day does not jump: the test is wrong");
    char *out = calloc(2, LARGE), *in = out + LARGE;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    double begun = MPI_Wtime(), last = begun;
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = round % 10 ? 8 : LARGE;
        pattern_fill(out, bytes, round + check_rank);
        // Some wait until they sleep.
        if (round % 50 == check_rank) usleep(20000);
        MPI_Sendrecv(out, bytes, MPI_BYTE, next, 1, in, bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_PATTERN(in, bytes, round + before);
        int sum = 0;
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQ(sum, check_size * (check_size - 1) / 2);
        double now = MPI_Wtime();
        CHECK(now >= last, "MPI_Wtime went from %f to %f", last, now);
        last = now;
    }
    CHECK(last - begun < 1000, "MPI_Wtime says that this took %f s", last - begun);
    free(out);
    return check_end();
}
