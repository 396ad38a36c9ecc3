// Whatever the level of thread support, any thread may query it and whether the thread is the main
// one, also while the main thread communicates (section 11.6.2 of the standard).
// run: 1 2
// checkers: threads
// thread
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 2000 };

static int provided;
static atomic_int asked, communicated;

static void *ask(void *unused) {
    (void)unused;
    // Until both threads have done enough concurrently.
    while (atomic_load(&asked) < ROUNDS || atomic_load(&communicated) < ROUNDS) {
        int is_main = -1, level = -1;
        OK(MPI_Is_thread_main(&is_main));
        CHECK_EQ(is_main, 0);
        OK(MPI_Query_thread(&level));
        CHECK_EQ(level, provided);
        atomic_fetch_add(&asked, 1);
    }
    return NULL;
}

static void communicate(int round) {
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int value = round * check_size + check_rank, got = -1, sum = -1;
    OK(MPI_Sendrecv(&value, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(got, round * check_size + left);
    int one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, check_size);
}

int main(int argc, char **argv) {
    CHECK_EQ(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), MPI_SUCCESS);
    check_world();
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, ask, NULL), 0);
    // All processes go on together, until the other thread of each has made enough queries.
    for (int round = 0, going = 1; going; round++) {
        communicate(round);
        atomic_fetch_add(&communicated, 1);
        int mine = round + 1 < ROUNDS || atomic_load(&asked) < ROUNDS;
        OK(MPI_Allreduce(&mine, &going, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    }
    pthread_join(thread, NULL);
    int is_main = -1;
    OK(MPI_Is_thread_main(&is_main));
    CHECK_EQ(is_main, 1);
    return check_end();
}
