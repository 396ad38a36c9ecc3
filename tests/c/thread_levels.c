// The four levels of thread support: the requested level is provided, or a higher one; it can be
// queried afterwards; the main thread is the one that called; serialized calls from other threads
// work.
// run: 1 2
// each: single funneled serialized multiple
// thread
#include "check.h"
#include <pthread.h>

static int provided;

static void *other_thread(void *unused) {
    (void)unused;
    int flag = 1, level = -1, value = check_rank, got = -1;
    OK(MPI_Is_thread_main(&flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Query_thread(&level));
    CHECK_EQ(level, provided);
    // One thread at a time, but different threads in turn.
    OK(MPI_Sendrecv(&value, 1, MPI_INT, (check_rank + 1) % check_size, 0, &got, 1, MPI_INT,
                    (check_rank + check_size - 1) % check_size, 0, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(got, (check_rank + check_size - 1) % check_size);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return NULL;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "single";
    int required = !strcmp(name, "multiple")     ? MPI_THREAD_MULTIPLE
                   : !strcmp(name, "serialized") ? MPI_THREAD_SERIALIZED
                   : !strcmp(name, "funneled")   ? MPI_THREAD_FUNNELED
                                                 : MPI_THREAD_SINGLE;
    int flag = 0, level = -1;
    CHECK_EQ(MPI_Init_thread(&argc, &argv, required, &provided), MPI_SUCCESS);
    check_world();
    CHECK(provided >= required, "asked for %d, got %d", required, provided);
    OK(MPI_Query_thread(&level));
    CHECK_EQ(level, provided);
    OK(MPI_Is_thread_main(&flag));
    CHECK_EQ(flag, 1);
    if (required >= MPI_THREAD_SERIALIZED) {
        pthread_t thread;
        pthread_create(&thread, NULL, other_thread, NULL);
        pthread_join(thread, NULL);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_end();
}
