// The last process is killed, and rank 0 frees its windows at once while the others still use its
// parts: their operations there succeed, and rank 0 may free its memory when MPI_Win_free returns.
// With the argument "known" rank 0 knows of the failure when it frees, with "unknown" it does not;
// with "epochs" it frees amid epochs of its own, for whose end others wait; with "loop" the last
// one is killed while all make and free windows. Started by tests/scenarios under a launcher that
// keeps the job going.
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { WINDOWS = 3, COUNT = 1 << 15, BYTES = COUNT * 8, ROUNDS = 30 };

static int last;

static long *pages(void) {
    long *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory");
    return memory;
}

static long *memory[WINDOWS];

// Of a window in which memory is attached, where that of rank 0 is; else 0.
static MPI_Aint begin[WINDOWS];

static void make(MPI_Win *windows) {
    memory[0] = pages(), memory[2] = pages();
    MPI_Win_create(memory[0], BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &windows[0]);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory[1], &windows[1]);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &windows[2]);
    MPI_Win_attach(windows[2], memory[2], BYTES);
    MPI_Get_address(memory[2], &begin[2]);
    MPI_Bcast(&begin[2], 1, MPI_AINT, 0, MPI_COMM_WORLD);
    memset(memory[1], 0, BYTES);
    for (int i = 0; i < WINDOWS; i++) MPI_Win_set_errhandler(windows[i], MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Uses the part of rank 0 for a while, each rank words of its own, and one of all.
static void use(MPI_Win window, MPI_Aint at) {
    int words = (COUNT - 1) / check_size;
    MPI_Aint own = at + 8 + 8L * words * check_rank;
    long *given = malloc(BYTES), *got = malloc(BYTES), one = 1, before, sum = -1;
    CHECK_EQ(class_of(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window)), MPI_SUCCESS);
    for (int round = 0; round < ROUNDS; round++) {
        int count = round % 2 ? words : 3;
        for (int i = 0; i < count; i++) given[i] = round * 1000 + i, got[i] = -1;
        CHECK_EQ(class_of(MPI_Put(given, count, MPI_LONG, 0, own, count, MPI_LONG, window)), MPI_SUCCESS);
        CHECK_EQ(class_of(MPI_Win_flush(0, window)), MPI_SUCCESS);
        CHECK_EQ(class_of(MPI_Accumulate(given, count, MPI_LONG, 0, own, count, MPI_LONG, MPI_SUM, window)), MPI_SUCCESS);
        CHECK_EQ(class_of(MPI_Win_flush(0, window)), MPI_SUCCESS);
        CHECK_EQ(class_of(MPI_Get(got, count, MPI_LONG, 0, own, count, MPI_LONG, window)), MPI_SUCCESS);
        CHECK_EQ(class_of(MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, at, MPI_SUM, window)), MPI_SUCCESS);
        CHECK_EQ(class_of(MPI_Win_flush(0, window)), MPI_SUCCESS);
        for (int i = 0; i < count; i++) CHECK_EQ(got[i], 2 * given[i]);
        CHECK(before > sum, "the sum was %ld and is %ld", sum, before);
        sum = before;
        usleep(5000);
    }
    CHECK_EQ(class_of(MPI_Win_unlock(0, window)), MPI_SUCCESS);
    free(given);
    free(got);
}

static void free_at_once(int known) {
    MPI_Win windows[WINDOWS];
    make(windows);
    if (check_rank == last) raise(SIGKILL);
    if (check_rank == 0 && known) {
        CHECK_EQ(class_of(MPI_Recv(NULL, 0, MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)), MPIX_ERR_PROC_FAILED);
    }
    for (int i = 0; i < WINDOWS; i++) {
        if (check_rank != 0) use(windows[i], begin[i]);
        long sum = ROUNDS * (check_size - 2);
        CHECK_EQ(MPI_Win_free(&windows[i]), MPI_SUCCESS);
        // The memory of the other one goes with it.
        if (check_rank == 0 && i != 1) CHECK_EQ(memory[i][0], sum);
        if (i != 1) munmap(memory[i], BYTES);
    }
}

// Rank 0 holds locks, has put and has posted, and frees.
static void free_amid_epochs(void) {
    MPI_Win windows[WINDOWS];
    make(windows);
    long value = 7;
    MPI_Group all, first, second;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, (int[]){0}, &first);
    MPI_Group_incl(all, 1, (int[]){1}, &second);
    if (check_rank == 0) {
        CHECK_EQ(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, windows[0]), MPI_SUCCESS);
        CHECK_EQ(MPI_Put(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, windows[0]), MPI_SUCCESS);
        CHECK_EQ(MPI_Win_lock_all(0, windows[1]), MPI_SUCCESS);
    } else if (check_rank == 1) {
        MPI_Win_post(first, 0, windows[2]);
    }
    if (check_rank == 0) MPI_Win_start(second, 0, windows[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == last) raise(SIGKILL);
    CHECK_EQ(class_of(MPI_Recv(NULL, 0, MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)), MPIX_ERR_PROC_FAILED);
    if (check_rank != 0) {
        CHECK_EQ(class_of(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, windows[0])), MPI_SUCCESS);
        if (check_rank == 1) CHECK_EQ(memory[0][0], 7);
        CHECK_EQ(class_of(MPI_Win_unlock(1, windows[0])), MPI_SUCCESS);
    }
    CHECK_EQ(MPI_Win_free(&windows[0]), MPI_SUCCESS);
    if (check_rank != 0) {
        // A process that has to wait for a lock in shared memory may get the failure instead.
        int class = class_of(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, windows[1]));
        CHECK(class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED, "the lock gave class %d", class);
        if (class == MPI_SUCCESS) MPI_Win_unlock(1, windows[1]);
    }
    CHECK_EQ(MPI_Win_free(&windows[1]), MPI_SUCCESS);
    if (check_rank == 1) CHECK_EQ(class_of(MPI_Win_wait(windows[2])), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_free(&windows[2]), MPI_SUCCESS);
    MPI_Group_free(&all);
    MPI_Group_free(&first);
    MPI_Group_free(&second);
    munmap(memory[0], BYTES);
    munmap(memory[2], BYTES);
}

// Each makes and frees windows until a call returns the failure, wherever that is.
static void make_and_free(int microseconds) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    long *own = pages();
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == last) {
        struct itimerval soon = {.it_value.tv_usec = microseconds};
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    int class = MPI_SUCCESS;
    while (class == MPI_SUCCESS) {
        MPI_Win window;
        class = class_of(MPI_Win_create(own, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
        if (class != MPI_SUCCESS) break;
        CHECK_EQ(MPI_Win_free(&window), MPI_SUCCESS);
        long *shared;
        class = class_of(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window));
        if (class == MPI_SUCCESS) CHECK_EQ(MPI_Win_free(&window), MPI_SUCCESS);
    }
    CHECK_EQ(class, MPIX_ERR_PROC_FAILED);
    munmap(own, BYTES);
}

int main(int argc, char **argv) {
    check_begin();
    last = check_size - 1;
    const char *how = argc > 1 ? argv[1] : "known";
    if (!strcmp(how, "loop")) {
        make_and_free(argc > 2 ? atoi(argv[2]) : 10000);
    } else if (!strcmp(how, "epochs")) {
        free_amid_epochs();
    } else {
        free_at_once(!strcmp(how, "known"));
    }
    int flag = 1;
    CHECK_EQ(class_of(MPIX_Comm_agree(MPI_COMM_WORLD, &flag)), MPIX_ERR_PROC_FAILED);
    printf("rank %d survives\n", check_rank);
    return check_end();
}
