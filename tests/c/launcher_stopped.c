// Ranks of one machine connect each other, and meet, without their launcher: where ranks outnumber
// cores, a rank that asked the launcher for each peer would wait for its turn each time. Rank 0
// stops the launcher, and all ranks exchange their first messages.
// run: 5 24
// one machine: cards of other machines come from the launcher
#include "check.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { TAG = 5, WATCHED_SECONDS = 10 };

// All have joined the job when this ends, and no rank is connected to others than its neighbours.
static void go_round(void) {
    int above = (check_rank + 1) % check_size, below = (check_rank + check_size - 1) % check_size, token = 0;
    if (check_rank) OK(MPI_Recv(&token, 1, MPI_INT, below, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Send(&token, 1, MPI_INT, above, TAG, MPI_COMM_WORLD));
    if (!check_rank) OK(MPI_Recv(&token, 1, MPI_INT, below, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

// A process that lets the launcher go on after a while, whatever happens here.
static pid_t watch(pid_t launcher) {
    pid_t watcher = fork();
    if (watcher) return watcher;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct timespec time = {WATCHED_SECONDS, 0};
    nanosleep(&time, NULL);
    kill(launcher, SIGCONT);
    _exit(0);
}

static void exchange(void) {
    int *out = malloc(check_size * sizeof *out), *in = malloc(check_size * sizeof *in);
    MPI_Request *requests = malloc(2 * check_size * sizeof *requests);
    REQUIRE(out && in && requests, "there is memory");
    for (int peer = 0; peer < check_size; peer++) {
        out[peer] = 100 * check_rank + peer;
        OK(MPI_Irecv(&in[peer], 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &requests[2 * peer]));
        OK(MPI_Isend(&out[peer], 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &requests[2 * peer + 1]));
    }
    OK(MPI_Waitall(2 * check_size, requests, MPI_STATUSES_IGNORE));
    for (int peer = 0; peer < check_size; peer++) CHECK_EQ(in[peer], 100 * peer + check_rank);
    free(out);
    free(in);
    free(requests);
}

int main(void) {
    check_begin();
    // Under other launchers there are no cards in memory.
    if (!check_is_combray || !getenv("COMBRAY_QUESTIONS")) return check_end();
    go_round();
    pid_t launcher = getppid(), watcher = 0;
    double begun = MPI_Wtime();
    if (check_rank == 0) {
        watcher = watch(launcher);
        REQUIRE(watcher > 0 && !kill(launcher, SIGSTOP), "the launcher can be stopped");
    }
    go_round();
    exchange();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        double seconds = MPI_Wtime() - begun;
        kill(watcher, SIGKILL);
        kill(launcher, SIGCONT);
        waitpid(watcher, NULL, 0);
        CHECK(seconds < WATCHED_SECONDS, "ranks waited %.1f s for the launcher", seconds);
    }
    return check_end();
}
