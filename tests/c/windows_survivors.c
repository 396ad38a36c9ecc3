// The last process is killed while it holds locks, or others wait for it, in windows of all kinds,
// or while it accumulates (argument "accumulate"): no process hangs, and operations that involve it
// fail with MPIX_ERR_PROC_FAILED. Started by tests/scenarios under a launcher that keeps the job
// going.
#include "check.h"
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { WINDOWS = 3 };

static int last;

#define FAILS(call) CHECK_CLASS(call, MPIX_ERR_PROC_FAILED)

// It is killed by a signal of its own timer, amid a long change most of the time.
static int accumulate(void) {
    enum { COUNT = 1 << 20 };
    long *memory, *values = malloc(COUNT * sizeof *values);
    for (int i = 0; i < COUNT; i++) values[i] = 1;
    MPI_Win window;
    MPI_Win_allocate(COUNT * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    memset(memory, 0, COUNT * 8);
    MPI_Win_lock_all(0, window);
    // All have their locks, also where some are slow.
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == last) {
        struct itimerval soon = {.it_value.tv_usec = 20000 + getpid() % 7 * 1000};
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, NULL);
        for (;;) MPI_Accumulate(values, COUNT, MPI_LONG, 0, 0, COUNT, MPI_LONG, MPI_SUM, window);
    }
    usleep(60000);
    long before, value = 1000;
    CHECK_EQ(MPI_Fetch_and_op(&value, &before, MPI_LONG, 0, 0, MPI_SUM, window), MPI_SUCCESS);
    CHECK_EQ(MPI_Accumulate(values, COUNT, MPI_LONG, 0, 0, COUNT, MPI_LONG, MPI_SUM, window), MPI_SUCCESS);
    int flag = 1;
    FAILS(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
    MPI_Win_unlock_all(window);
    CHECK_EQ(MPI_Win_free(&window), MPI_SUCCESS);
    free(values);
    printf("rank %d survives\n", check_rank);
    return check_end();
}

int main(int argc, char **argv) {
    check_begin();
    last = check_size - 1;
    if (argc > 1 && !strcmp(argv[1], "accumulate")) return accumulate();
    long *memory[WINDOWS] = {calloc(8, 8), NULL, NULL}, value = 5;
    MPI_Win windows[WINDOWS];
    MPI_Win_create(memory[0], 64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &windows[0]);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory[1], &windows[1]);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &windows[2]);
    for (int i = 0; i < WINDOWS; i++) {
        MPI_Win_set_errhandler(windows[i], MPI_ERRORS_RETURN);
        if (check_rank == last) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, windows[i]);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == last) raise(SIGKILL);
    MPI_Group all, failed;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &last, &failed);
    for (int i = 0; i < WINDOWS; i++) {
        // Either the requesting process gets the failure, or it gets the failed process's lock.
        int class = class_of(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, windows[i]));
        CHECK(class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED, "the lock gave class %d", class);
        if (class == MPI_SUCCESS) CHECK_EQ(MPI_Win_unlock(0, windows[i]), MPI_SUCCESS);
        FAILS(MPI_Win_start(failed, 0, windows[i]));
        MPI_Win_complete(windows[i]);
        CHECK_EQ(class_of(MPI_Win_post(failed, 0, windows[i])), MPI_SUCCESS);
        FAILS(MPI_Win_wait(windows[i]));
        int done;
        FAILS(MPI_Win_test(windows[i], &done));
    }
    // Where no message is lost, operations with those that are left go on: here with itself.
    if (class_of(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, windows[0])) == MPI_SUCCESS) {
        CHECK_EQ(MPI_Put(&value, 1, MPI_LONG, check_rank, 1, 1, MPI_LONG, windows[0]), MPI_SUCCESS);
        CHECK_EQ(MPI_Win_unlock(check_rank, windows[0]), MPI_SUCCESS);
        CHECK_EQ(memory[0][1], 5);
    }
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, windows[0]));
    // Freeing waits for those that are left.
    int flag = 1;
    FAILS(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
    for (int i = 0; i < WINDOWS; i++) CHECK_EQ(MPI_Win_free(&windows[i]), MPI_SUCCESS);
    MPI_Group_free(&failed);
    MPI_Group_free(&all);
    free(memory[0]);
    printf("rank %d survives\n", check_rank);
    return check_end();
}
