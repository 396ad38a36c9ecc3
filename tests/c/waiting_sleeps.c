// A rank that has waited for a while sleeps: where ranks outnumber cores, a rank that runs from
// time to time only to look takes the cores from the ranks and the launcher that it waits for.
// Rank 0 stays away while all others wait for it, and counts how often their threads run
// (voluntary context switches) and how much processor time they take.
// run: 40
// timeout: 120
// each: single multiple
// one machine: rank 0 reads the files of the other ranks in /proc
#include "check.h"
#include <dirent.h>
#include <time.h>

enum { TAG = 5, LARGE = 1 << 20, PATH_BYTES = 600 };
// The count begins once a rank sleeps, and lasts so long.
static const double SETTLE = 0.6, COUNTED = 2.0;
// Most context switches of a rank, of all its threads, in each second: in a wait that a doorbell
// ends, and in one for memory for which no doorbell rings, or for the launcher.
static const double RUNG = 2.0, UNRUNG = 8.0;
// Most processor time of a rank in each second.
static const double BUSY_MAX = 0.004;

struct used {
    double switches, seconds;
};

static int *processes;

static double number_after(const char *text, const char *key) {
    const char *found = strstr(text, key);
    return found ? atof(found + strlen(key)) : 0;
}

static void read_text(const char *path, char *text, size_t room) {
    FILE *file = fopen(path, "r");
    size_t got = file ? fread(text, 1, room - 1, file) : 0;
    text[got] = 0;
    if (file) fclose(file);
}

// What the threads of all other ranks have used so far.
static struct used used_by_others(void) {
    struct used sum = {0, 0};
    for (int rank = 1; rank < check_size; rank++) {
        char folder[PATH_BYTES], path[PATH_BYTES], text[4096];
        snprintf(folder, sizeof folder, "/proc/%d/task", processes[rank]);
        DIR *threads = opendir(folder);
        REQUIRE(threads, "rank %d runs", rank);
        for (struct dirent *thread; (thread = readdir(threads));) {
            if (thread->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "/proc/%d/task/%.16s/status", processes[rank], thread->d_name);
            read_text(path, text, sizeof text);
            sum.switches += number_after(text, "\nvoluntary_ctxt_switches:");
            snprintf(path, sizeof path, "/proc/%d/task/%.16s/schedstat", processes[rank], thread->d_name);
            read_text(path, text, sizeof text);
            sum.seconds += atof(text) / 1e9;
        }
        closedir(threads);
    }
    return sum;
}

static void sleep_for(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

// Rank 0 stays away while the others wait in `what`.
static void stay_away(const char *what, double switches_max) {
    sleep_for(SETTLE);
    struct used before = used_by_others();
    sleep_for(COUNTED);
    struct used after = used_by_others();
    double ranks_seconds = (check_size - 1) * COUNTED;
    double switches = (after.switches - before.switches) / ranks_seconds;
    double busy = (after.seconds - before.seconds) / ranks_seconds;
    if (getenv("SHOW_WAITS")) printf("%-16s %8.2f switches/s %8.0f us/s\n", what, switches, busy * 1e6);
    CHECK(switches <= switches_max, "%s: a rank makes %.2f context switches in a second", what, switches);
    CHECK(busy <= BUSY_MAX, "%s: a rank runs for %.0f us in a second", what, busy * 1e6);
}

static void begin(void) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void messages(void) {
    char *large = calloc(1, LARGE);
    REQUIRE(large, "there is memory");
    begin();
    if (check_rank == 0) stay_away("MPI_Recv", RUNG);
    for (int rank = 1; check_rank == 0 && rank < check_size; rank++)
        OK(MPI_Send(&rank, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD));
    int in = 0;
    if (check_rank) OK(MPI_Recv(&in, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(in, check_rank);
    begin();
    if (check_rank == 0) {
        stay_away("MPI_Probe", RUNG);
        for (int rank = 1; rank < check_size; rank++) OK(MPI_Send(&rank, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD));
    } else {
        OK(MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&in, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    begin();
    if (check_rank == 0) {
        stay_away("MPI_Send", RUNG);
        for (int rank = 1; rank < check_size; rank++)
            OK(MPI_Recv(large, LARGE, MPI_CHAR, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Send(large, LARGE, MPI_CHAR, 0, TAG, MPI_COMM_WORLD));
    }
    begin();
    MPI_Request both[2];
    int out = check_rank;
    if (check_rank == 0) {
        stay_away("MPI_Waitall", RUNG);
        for (int rank = 1; rank < check_size; rank++)
            OK(MPI_Sendrecv(&rank, 1, MPI_INT, rank, TAG, &in, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Irecv(&in, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &both[0]));
        OK(MPI_Issend(&out, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &both[1]));
        OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    }
    free(large);
}

static void collectives(void) {
    begin();
    if (check_rank == 0) stay_away("MPI_Barrier", RUNG);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) stay_away("MPI_Ibarrier", RUNG);
    MPI_Request request;
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    long sum = 0, one = 1;
    if (check_rank == 0) stay_away("MPI_Allreduce", RUNG);
    OK(MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, check_size);
    MPI_Comm other;
    if (check_rank == 0) stay_away("MPI_Comm_dup", RUNG);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    OK(MPI_Comm_free(&other));
}

static void windows(void) {
    MPI_Win window;
    long *memory;
    OK(MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    OK(MPI_Win_fence(0, window));
    if (check_rank == 0) stay_away("MPI_Win_fence", RUNG);
    OK(MPI_Win_fence(0, window));
    if (check_rank == 0) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
    begin();
    if (check_rank == 0) stay_away("MPI_Win_lock", UNRUNG);
    if (check_rank) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
    OK(MPI_Win_unlock(0, window));
    begin();
    MPI_Group all, others, first;
    int zero = 0;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_incl(all, 1, &zero, &first));
    OK(MPI_Group_excl(all, 1, &zero, &others));
    if (check_rank == 0) {
        stay_away("MPI_Win_start", UNRUNG);
        OK(MPI_Win_post(others, 0, window));
        stay_away("MPI_Win_wait", UNRUNG);
        OK(MPI_Win_wait(window));
        begin();
    } else {
        OK(MPI_Win_start(first, 0, window));
        OK(MPI_Put(&check_rank, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
        OK(MPI_Win_complete(window));
        begin();
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&others));
    OK(MPI_Group_free(&first));
    if (check_rank == 0) stay_away("MPI_Win_free", RUNG);
    OK(MPI_Win_free(&window));
}

int main(int argc, char **argv) {
    int wanted = argc > 1 && !strcmp(argv[1], "multiple") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, given;
    OK(MPI_Init_thread(&argc, &argv, wanted, &given));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &check_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &check_size));
    int process = getpid();
    processes = malloc(check_size * sizeof *processes);
    OK(MPI_Allgather(&process, 1, MPI_INT, processes, 1, MPI_INT, MPI_COMM_WORLD));
    messages();
    collectives();
    windows();
    int failures = check_failures;
    OK(MPI_Allreduce(&failures, &check_failures, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    // Rank 0 has not finalized yet, so the others wait.
    if (check_rank == 0) stay_away("MPI_Finalize", UNRUNG);
    OK(MPI_Finalize());
    free(processes);
    return check_failures ? 1 : 0;
}
