// Two processes that share one core and test again and again for a result, by each call that does
// so, run about as fast as two that wait: a process that tests without result gives the core to the
// other one, and does not keep it until the kernel takes it away.
// run: 2
// timeout: 60
// one machine: the processes are bound to the same core
#define _GNU_SOURCE
#include "check.h"

#include <sched.h>

enum { EXCHANGES = 50, BATCHES = 7, TAG = 3 };

// Keeping the core costs some thousand times what a wait does.
static const double RATIO_MAX = 100;

static MPI_Win window;
static int sent, received;

static void begin(MPI_Request *requests) {
    int peer = 1 - check_rank;
    OK(MPI_Irecv(&received, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&sent, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &requests[1]));
}

static void by_waitall(void) {
    MPI_Request requests[2];
    begin(requests);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
}

static void by_test(void) {
    MPI_Request requests[2];
    begin(requests);
    for (int i = 0; i < 2; i++)
        for (int done = 0; !done;) OK(MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE));
}

static void by_testall(void) {
    MPI_Request requests[2];
    begin(requests);
    for (int done = 0; !done;) OK(MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE));
}

static void by_testany(void) {
    MPI_Request requests[2];
    begin(requests);
    for (int index = 0, done; index != MPI_UNDEFINED;)
        do
            OK(MPI_Testany(2, requests, &index, &done, MPI_STATUS_IGNORE));
        while (!done);
}

static void by_testsome(void) {
    MPI_Request requests[2];
    begin(requests);
    for (int left = 2, found, indices[2]; left > 0; left -= found)
        OK(MPI_Testsome(2, requests, &found, indices, MPI_STATUSES_IGNORE));
}

static void by_get_status(void) {
    MPI_Request requests[2];
    begin(requests);
    for (int done = 0; !done;)
        OK(MPI_Request_get_status(requests[0], &done, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
}

static void by_iprobe(void) {
    int peer = 1 - check_rank;
    OK(MPI_Send(&sent, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD));
    for (int found = 0; !found;)
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&received, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void by_improbe(void) {
    MPI_Message message;
    OK(MPI_Send(&sent, 1, MPI_INT, 1 - check_rank, TAG, MPI_COMM_WORLD));
    for (int found = 0; !found;)
        OK(MPI_Improbe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE));
    OK(MPI_Mrecv(&received, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
}

// Each counts up in the other's part of a shared window.
static void by_win_sync(void) {
    volatile int *own, *other;
    MPI_Aint bytes;
    int unit;
    OK(MPI_Win_shared_query(window, check_rank, &bytes, &unit, (void *)&own));
    OK(MPI_Win_shared_query(window, 1 - check_rank, &bytes, &unit, (void *)&other));
    int count = ++*other;
    do
        OK(MPI_Win_sync(window));
    while (*own < count);
    received = sent;
}

static double seconds_of(void (*exchange)(void)) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    double start = MPI_Wtime();
    for (int i = 0; i < EXCHANGES; i++) {
        sent = i + 1;
        received = 0;
        exchange();
        CHECK_EQ(received, sent);
    }
    return MPI_Wtime() - start;
}

static int in_order(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// The usual time, as other programs may have the core as well.
static double usual_seconds_of(void (*exchange)(void)) {
    double seconds[BATCHES];
    for (int i = 0; i < BATCHES; i++) seconds[i] = seconds_of(exchange);
    qsort(seconds, BATCHES, sizeof seconds[0], in_order);
    return seconds[BATCHES / 2];
}

static const struct {
    const char *name;
    void (*exchange)(void);
} asking[] = {
    {"MPI_Test", by_test},         {"MPI_Testall", by_testall},
    {"MPI_Testany", by_testany},   {"MPI_Testsome", by_testsome},
    {"MPI_Iprobe", by_iprobe},     {"MPI_Improbe", by_improbe},
    {"MPI_Win_sync", by_win_sync}, {"MPI_Request_get_status", by_get_status},
};

// One core for both, wherever the launcher has bound them, and the number of cores that the
// launcher would pass for both; to be called before the library counts the cores.
static void bind_to_first_core(void) {
    setenv("COMBRAY_CORES", "1", 1);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0) return;
    }
}

int main(void) {
    bind_to_first_core();
    check_begin();
    int *memory;
    OK(MPI_Win_allocate_shared(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    *memory = 0;
    OK(MPI_Win_lock_all(0, window));
    double waiting = usual_seconds_of(by_waitall);
    for (size_t i = 0; i < sizeof asking / sizeof asking[0]; i++) {
        double seconds = usual_seconds_of(asking[i].exchange);
        CHECK(seconds < RATIO_MAX * waiting || !check_is_combray,
              "%s: an exchange takes %.1f us, by MPI_Waitall %.1f", asking[i].name,
              seconds / EXCHANGES * 1e6, waiting / EXCHANGES * 1e6);
    }
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
    return check_end();
}
