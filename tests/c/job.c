// A program for the scenarios: its first argument selects its behaviour. It has no process counts
// of its own, so tests/run builds it and leaves starting it to tests/scenarios.
#include "check.h"
#include <signal.h>

static int is(const char *given, const char *name) { return strcmp(given, name) == 0; }

static void wait_for_ever(void) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4242, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Numbered lines, long and short, from all processes at once.
static void write_lines(int lines) {
    char filler[2001];
    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = 0;
    for (int i = 0; i < lines; i++) {
        // In two parts, to give another process's line the chance to come between.
        printf("<%d %d ", check_rank, i);
        fflush(stdout);
        printf("%.*s>\n", i % 7 * 300, filler);
        fflush(stdout);
    }
}

static void copy_input(void) {
    char line[4096];
    int lines = 0;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (lines++ < 3) printf("rank %d read \"%s\"\n", check_rank, line);
    }
    printf("rank %d read %d lines\n", check_rank, lines);
}

// Small and large messages between neighbours, and a collective.
static void traffic(void) {
    enum { LARGEST = 1 << 23 };
    unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
    REQUIRE(out && in, "there is no memory for two messages of %d bytes", LARGEST);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    for (int bytes = 1; bytes <= LARGEST; bytes *= 2) {
        pattern_fill(out, bytes, check_rank + bytes);
        MPI_Sendrecv(out, bytes, MPI_BYTE, next, 0, in, bytes, MPI_BYTE, before, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        CHECK_PATTERN(in, bytes, before + bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(out);
    free(in);
}

// Two communicators; an error in the first ends its processes, and the second goes on.
static void end_some(void) {
    MPI_Comm half;
    int in_second = check_rank >= check_size / 2, value = 0, rank, size;
    MPI_Comm_split(MPI_COMM_WORLD, in_second, 0, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_ABORT);
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    if (!in_second) {
        // The messages from the others to the second half must be underway.
        if (rank == 0) usleep(100000);
        if (rank == 0) MPI_Send(&value, 1, MPI_INT, 77, 0, half);
        wait_for_ever();
    }
    usleep(300000);
    for (int i = 0; i < 100; i++) MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, half);
    printf("rank %d goes on\n", check_rank);
}

static int fail_to_delete(MPI_Comm comm, int keyval, void *value, void *state) {
    (void)comm, (void)keyval, (void)value, (void)state;
    return MPI_ERR_OTHER;
}

// MPI_Finalize calls a function that fails, under the initial error handler.
static void fail_to_finalize(void) {
    int keyval;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, fail_to_delete, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
}

// An error of this process alone, under the initial error handler.
static void report_error(void) {
    int code = MPI_Send(&check_rank, 1, MPI_INT, 77, 0, MPI_COMM_SELF), class = -1;
    MPI_Error_class(code, &class);
    printf("rank %d got %s\n", check_rank, class == MPI_ERR_RANK ? "MPI_ERR_RANK" : "nonsense");
}

// A session that begins when the world has ended, in which all processes exchange messages.
static int session_after(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int *ranks = calloc(check_size, sizeof *ranks);
    MPI_Finalize();
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "after", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Alltoall((int[64]){0}, 1, MPI_INT, ranks, 1, MPI_INT, comm);
    MPI_Allgather(&check_rank, 1, MPI_INT, ranks, 1, MPI_INT, comm);
    int right = ranks[check_size - 1] == check_size - 1;
    free(ranks);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    return !right;
}

// A use of MPI_COMM_SELF after the end of the world, while a session is open: an error, although it
// was used just before.
static int self_after(void) {
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_rank(MPI_COMM_SELF, &check_rank);
        MPI_Barrier(MPI_COMM_SELF);
    }
    MPI_Finalize();
    MPI_Comm_rank(MPI_COMM_SELF, &check_rank);
    MPI_Session_finalize(&session);
    return 0;
}

// What one process does to itself while the others wait for it.
static int end_badly(const char *what, int code) {
    if (check_rank != check_size - 1) {
        wait_for_ever();
        return 0;
    }
    fprintf(stderr, "last words of rank %d\n", check_rank);
    if (is(what, "kill")) kill(getpid(), SIGKILL);
    if (is(what, "segfault")) {
        signal(SIGSEGV, SIG_DFL);
        kill(getpid(), SIGSEGV);
    }
    if (is(what, "exit3")) _exit(3);
    if (is(what, "exit0")) _exit(0);
    if (is(what, "abort")) MPI_Abort(MPI_COMM_WORLD, code);
    return 99;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "hello";
    // A call at the wrong time is reported as such: it must neither crash nor succeed.
    if (is(what, "early")) MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (is(what, "hello") || is(what, "early") || is(what, "late")) {
        printf("rank %d of %d\n", check_rank, check_size);
    } else if (is(what, "fatal")) {
        // The handler of a new program is MPI_ERRORS_ARE_FATAL.
        MPI_Send(&argc, 1, MPI_INT, check_size == 1 ? 77 : check_rank == 0 ? 77 : 0, 4242,
                 MPI_COMM_WORLD);
        wait_for_ever();
    } else if (is(what, "end_some")) {
        end_some();
    } else if (is(what, "report_error")) {
        if (check_rank == 0 || argc > 2) report_error();
    } else if (is(what, "fail_to_finalize")) {
        fail_to_finalize();
    } else if (is(what, "lines")) {
        write_lines(argc > 2 ? atoi(argv[2]) : 100);
    } else if (is(what, "input")) {
        copy_input();
    } else if (is(what, "traffic")) {
        traffic();
    } else if (is(what, "session_after")) {
        return session_after();
    } else if (is(what, "self_after")) {
        return self_after();
    } else if (is(what, "wait")) {
        printf("waiting %d\n", (int)getpid());
        fflush(stdout);
        wait_for_ever();
    } else if (is(what, "environment")) {
        const char *value = argc > 2 ? getenv(argv[2]) : NULL;
        char folder[1024];
        printf("rank %d of %d: %s in %s\n", check_rank, check_size, value ? value : "(unset)",
               getcwd(folder, sizeof folder) ? folder : "?");
    } else {
        return end_badly(what, argc > 2 ? atoi(argv[2]) : 7);
    }
    MPI_Finalize();
    if (is(what, "late")) MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    return check_failures != 0;
}
