// A process fails while all make windows, so that some survivors have a window and others have
// none: no process hangs in an operation on it, and all get the failure. First argument: "killed"
// (under a launcher that keeps the job going: MPIX_ERR_PROC_FAILED) or "alone" (it ends after an
// error: MPI_ERR_PROC_ABORTED). Second one: after how many microseconds it is killed, wherever it
// is; 0: before it comes to the call. Third one: which operations on windows. Fourth one: which
// process fails. Started by tests/scenarios.
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

enum { FLAVORS = 4, USES = 6, COUNT = 1 << 13, BYTES = COUNT * 8 };

static int victim, wanted;
static long *own, *given, *got;

// Whether a call succeeded; another result is checked.
static int goes_well(int code, const char *what) {
    int class = class_of(code);
    CHECK(class == MPI_SUCCESS || class == wanted, "rank %d: %s gave class %d", check_rank, what, class);
    return class == MPI_SUCCESS;
}

#define GOES_WELL(call) goes_well(call, #call)

static int make(int flavor, MPI_Win *window) {
    long *memory;
    switch (flavor) {
    case 0: return MPI_Win_create(own, BYTES, 8, MPI_INFO_NULL, MPI_COMM_WORLD, window);
    case 1: return MPI_Win_allocate(BYTES, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, window);
    case 2: return MPI_Win_create(own, check_rank ? BYTES : 0, 8, MPI_INFO_NULL, MPI_COMM_WORLD, window);
    default: return MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, window);
    }
}

// What one does with a window, at all processes; whether all went well.
static int use(int what, int flavor, MPI_Win window) {
    int holds_data = flavor < 2, fine = 1;
    MPI_Group all;
    MPI_Request request = MPI_REQUEST_NULL;
    switch (what) {
    case 0:
        for (int target = 0; target < check_size && fine; target++) {
            if (!GOES_WELL(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window))) return 0;
            if (holds_data) fine = GOES_WELL(MPI_Put(given, COUNT, MPI_LONG, target, 0, COUNT, MPI_LONG, window));
            fine = GOES_WELL(MPI_Win_unlock(target, window)) && fine;
        }
        return fine;
    case 1:
        if (!GOES_WELL(MPI_Win_lock_all(0, window))) return 0;
        for (int target = 0; target < check_size && fine && holds_data; target++) {
            fine = GOES_WELL(MPI_Accumulate(given, COUNT, MPI_LONG, target, 0, COUNT, MPI_LONG, MPI_SUM, window)) &&
                   GOES_WELL(MPI_Win_flush(target, window)) &&
                   GOES_WELL(MPI_Rget(got, COUNT, MPI_LONG, target, 0, COUNT, MPI_LONG, window, &request)) &&
                   GOES_WELL(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        return GOES_WELL(MPI_Win_unlock_all(window)) && fine;
    case 2:
        if (!GOES_WELL(MPI_Win_fence(0, window))) return 0;
        for (int target = 0; target < check_size && fine && holds_data; target++)
            fine = GOES_WELL(MPI_Put(given, 3, MPI_LONG, target, 0, 3, MPI_LONG, window));
        return GOES_WELL(MPI_Win_fence(0, window)) && fine;
    case 3:
    case 4:
        // All of them, or those that are left.
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        if (what == 4) {
            MPI_Group left;
            MPI_Group_excl(all, 1, &victim, &left);
            MPI_Group_free(&all);
            all = left;
        }
        if (what == 3 || check_rank != victim) {
            fine = GOES_WELL(MPI_Win_post(all, 0, window)) && GOES_WELL(MPI_Win_start(all, 0, window));
            for (int target = 0; target < check_size && fine && holds_data; target++)
                if (what == 3 || target != victim) fine = GOES_WELL(MPI_Put(given, COUNT, MPI_LONG, target, 0, COUNT, MPI_LONG, window));
            fine = fine && GOES_WELL(MPI_Win_complete(window)) && GOES_WELL(MPI_Win_wait(window));
        }
        MPI_Group_free(&all);
        return fine;
    default: return 1;
    }
}

static void end_alone(void) {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ABORT);
    MPI_Send(NULL, 0, MPI_BYTE, 77, 0, MPI_COMM_SELF);
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    check_begin();
    int killed = !strcmp(argv[1], "killed"), what = atoi(argv[3]);
    victim = atoi(argv[4]);
    wanted = killed ? MPIX_ERR_PROC_FAILED : MPI_ERR_PROC_ABORTED;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    own = calloc(3, BYTES), given = own + COUNT, got = given + COUNT;
    MPI_Barrier(MPI_COMM_WORLD);
    int microseconds = atoi(argv[2]);
    if (check_rank == victim && !microseconds) {
        if (killed) raise(SIGKILL);
        end_alone();
    }
    if (check_rank == victim) {
        struct itimerval soon = {.it_value.tv_usec = microseconds};
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    // A process that does not need the failed one for a window without memory makes it without an
    // error.
    for (int round = microseconds ? 0 : FLAVORS - 1, fine = 1; fine; round++) {
        MPI_Win window = MPI_WIN_NULL;
        int flavor = round % FLAVORS;
        if (!GOES_WELL(make(flavor, &window))) break;
        MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
        fine = use(what, flavor, window);
        CHECK_EQ(class_of(MPI_Win_free(&window)), MPI_SUCCESS);
    }
    printf("rank %d survives\n", check_rank);
    free(own);
    return check_end();
}
