// A job that spawns two processes from its own executable file, and what happens when one of the
// two jobs ends. The first argument says how: tests/scenarios/spawning.py starts it.
#include "check.h"
#include <signal.h>
#include <time.h>

enum { CHILDREN = 2 };

static int is(const char *given, const char *name) { return strcmp(given, name) == 0; }

static void say(const char *what) {
    printf("%s %d\n", what, check_rank);
    fflush(stdout);
}

static void rest(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void wait_for_ever(void) {
    for (;;) rest(1);
}

static void be_child(const char *how, MPI_Comm parents) {
    MPI_Barrier(parents);
    say("child runs");
    if (is(how, "apart")) {
        MPI_Comm_disconnect(&parents);
        rest(1);
        say("child goes on");
    } else if (is(how, "apart-fails")) {
        MPI_Comm_disconnect(&parents);
        MPI_Barrier(MPI_COMM_WORLD);
        if (check_rank == 0) exit(3);
        wait_for_ever();
    } else if (is(how, "stays")) {
        MPI_Comm_disconnect(&parents);
        say("child stays");
        wait_for_ever();
    } else if (is(how, "child-dies")) {
        if (check_rank == 0) raise(SIGKILL);
        wait_for_ever();
    } else if (is(how, "child-aborts")) {
        if (check_rank == 0) MPI_Abort(MPI_COMM_WORLD, 7);
        wait_for_ever();
    } else {
        wait_for_ever();
    }
}

static void be_parent(const char *how, MPI_Comm children) {
    MPI_Barrier(children);
    rest(0.3);
    say("parent runs");
    if (is(how, "apart") || is(how, "apart-fails") || is(how, "stays")) {
        MPI_Comm_disconnect(&children);
    } else if (is(how, "killed")) {
        raise(SIGKILL);
    } else if (is(how, "aborted")) {
        MPI_Abort(MPI_COMM_WORLD, 5);
    } else if (is(how, "child-dies") || is(how, "child-aborts")) {
        MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
        for (int child = 0; child < CHILDREN; child++) {
            int value, code;
            code = MPI_Recv(&value, 1, MPI_INT, child, 0, children, MPI_STATUS_IGNORE);
            CHECK_CLASS(code, MPIX_ERR_PROC_FAILED);
        }
        say("parent got an error");
    } else {
        wait_for_ever();
    }
}

int main(int argc, char **argv) {
    check_begin();
    MPI_Comm other;
    MPI_Comm_get_parent(&other);
    REQUIRE(argc == 2, "the argument is missing");
    if (other != MPI_COMM_NULL) {
        be_child(argv[1], other);
        return check_end();
    }
    char file[4096];
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    REQUIRE(length > 0, "readlink");
    file[length] = 0;
    char *arguments[] = {argv[1], NULL};
    MPI_Comm_spawn(file, arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                   MPI_ERRCODES_IGNORE);
    be_parent(argv[1], other);
    return check_end();
}
