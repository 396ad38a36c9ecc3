// Jobs that spawn jobs, connect to them, merge with them and disconnect from them, in random order,
// for so many seconds: tests/deaths/dynamic kills processes meanwhile. An error is good, and a
// wrong value or another class of error is not. After an error the communicator is revoked, so
// that no process waits for one that has gone on.
//
//     families SEED SECONDS
//
// Spawned jobs get four arguments: seed, seconds, what they do, and their generation.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 3, CHILDREN_MAX = 3, ROUNDS_MAX = 1000, LEFT_ALONE_MS = 300 };
enum what { EXCHANGE, MERGE, CONNECT, GRANDCHILD, LEAVE, WHATS };

static int rank, size, generation;
static uint64_t state;
static char file[4096];

static unsigned number(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void wrong(const char *call, int class) {
    printf("generation %d, rank %d: %s is wrong (%d)\n", generation, rank, call, class);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

// Whether a call has succeeded. `comm` is revoked if it has not.
static int good(const char *call, int code, MPI_Comm comm) {
    if (code == MPI_SUCCESS) return 1;
    int class;
    MPI_Error_class(code, &class);
    if (class != MPIX_ERR_PROC_FAILED && class != MPIX_ERR_REVOKED && class != MPI_ERR_SPAWN &&
        class != MPI_ERR_PORT) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        printf("%s\n", text);
        wrong(call, class);
    }
    if (comm != MPI_COMM_NULL) MPIX_Comm_revoke(comm);
    return 0;
}

// Adds the numbers of both groups, on an intercommunicator: each gets the sum of the other one.
static int exchange(MPI_Comm comm) {
    int theirs, own = rank + 1, sum = 0;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_remote_size(comm, &theirs);
    if (!good("MPI_Allreduce", MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm), comm)) return 0;
    if (sum != theirs * (theirs + 1) / 2) wrong("a sum", sum);
    return 1;
}

static int merge(MPI_Comm comm, int is_high) {
    MPI_Comm all;
    if (!good("MPI_Intercomm_merge", MPI_Intercomm_merge(comm, is_high, &all), comm)) return 0;
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    int count, one = 1, sum = 0;
    MPI_Comm_size(all, &count);
    int done = good("MPI_Allreduce", MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all), all);
    if (done && sum != count) wrong("a count", sum);
    MPI_Comm_disconnect(&all);
    return done;
}

// The spawned job opens a port, to which its parents connect.
static int connect_to(MPI_Comm children) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    if (!good("MPI_Bcast", MPI_Bcast(port, sizeof port, MPI_CHAR, 0, children), children)) return 0;
    int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    if (!good("MPI_Comm_connect", code, children)) return 0;
    int done = exchange(other);
    MPI_Comm_disconnect(&other);
    return done;
}

static int accept_from(MPI_Comm parents) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    int root = rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    if (!good("MPI_Bcast", MPI_Bcast(port, sizeof port, MPI_CHAR, root, parents), parents)) return 0;
    int code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    if (!good("MPI_Comm_accept", code, parents)) return 0;
    int done = exchange(other);
    MPI_Comm_disconnect(&other);
    return done;
}

static int spawn(enum what what, int count) {
    char seed[32], kind[16], next[16];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)state);
    snprintf(kind, sizeof kind, "%d", what);
    snprintf(next, sizeof next, "%d", generation + 1);
    char *arguments[] = {seed, "0", kind, next, NULL};
    MPI_Comm children;
    int code = MPI_Comm_spawn(file, arguments, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                              MPI_ERRCODES_IGNORE);
    if (!good("MPI_Comm_spawn", code, MPI_COMM_NULL)) return 0;
    int done = exchange(children);
    if (done && what == MERGE) done = merge(children, 0);
    if (done && what == CONNECT) done = connect_to(children);
    if (done && what == GRANDCHILD) done = exchange(children);
    MPI_Comm_disconnect(&children);
    return done;
}

static void be_child(enum what what, MPI_Comm parents) {
    int done = exchange(parents);
    if (done && what == MERGE) done = merge(parents, 1);
    if (done && what == CONNECT) done = accept_from(parents);
    if (done && what == GRANDCHILD) {
        done = spawn(EXCHANGE, 1);
        if (done) done = exchange(parents);
        else MPIX_Comm_revoke(parents);
    }
    MPI_Comm_disconnect(&parents);
    if (what == LEAVE) usleep(1000 * LEFT_ALONE_MS);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm parents;
    MPI_Comm_get_parent(&parents);
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    if (argc < 3 || length <= 0) MPI_Abort(MPI_COMM_WORLD, 2);
    state = strtoull(argv[1], NULL, 10);
    if (parents != MPI_COMM_NULL) {
        generation = atoi(argv[4]);
        be_child((enum what)atoi(argv[3]), parents);
    } else {
        double end = now() + atof(argv[2]);
        int goes_on = 1, errors = 0;
        int round = 0;
        for (; goes_on && round < ROUNDS_MAX; round++) {
            enum what what = (enum what)number(WHATS);
            errors += !spawn(what, 1 + (int)number(CHILDREN_MAX));
            goes_on = now() < end;
            // A process of this job has died: the launcher ends the others.
            int code = MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
            if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 4);
        }
        printf("rank %d is done, after %d rounds with %d errors\n", rank, round, errors);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
