// A target that computes and calls no MPI function does not hold up processes that use its part of
// an allocated window, with locks, accumulates and flushes. Where the library must be called for
// progress (created windows) any call of it will do.
// run: 2 3
// timeout: 60
// hosts
#include "windows.h"

enum { COMPUTING_MS = 700, TURNS = 30 };

static double now(void) { return MPI_Wtime(); }

static void compute(double seconds) {
    volatile double sum = 0;
    for (double end = now() + seconds; now() < end;)
        for (int i = 1; i < 1000; i++) sum += 1.0 / i;
}

static void use_part_of_rank_0(const Window *window) {
    const long long one = 1;
    long long old;
    for (int turn = 0; turn < TURNS; turn++) {
        OK(MPI_Win_lock(turn % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, window->win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG_LONG, 0, window_at(window, 0, 0), 1, MPI_LONG_LONG,
                          MPI_SUM, window->win));
        OK(MPI_Win_flush(0, window->win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_LONG_LONG, 0, window_at(window, 0, 8), MPI_SUM,
                            window->win));
        OK(MPI_Win_unlock(0, window->win));
    }
}

static void target_computes(int flavor) {
    Window window = window_open(flavor, 64);
    double begin = now();
    if (check_rank == 0) {
        compute(COMPUTING_MS * 1e-3);
    } else {
        use_part_of_rank_0(&window);
        double took = now() - begin;
        CHECK(took < 0.8 * COMPUTING_MS * 1e-3, "%s: %g s while the target computed %d ms",
              FLAVOR_NAMES[flavor], took, COMPUTING_MS);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.win));
        for (int i = 0; i < 2; i++)
            CHECK_EQ(((long long *)window.memory)[i], TURNS * (check_size - 1));
        OK(MPI_Win_unlock(0, window.win));
    }
    window_close(&window);
}

enum { BY_RECEIVE, BY_PROBE, BY_TEST, BY_BARRIER, BY_SYNC, BY_IBARRIER, WAYS };

// The target waits inside of some call: it serves its window meanwhile.
static void target_waits(int flavor, int way) {
    Window window = window_open(flavor, 64);
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0, token = 0;
    if (way == BY_IBARRIER) OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    if (check_rank != 0) {
        use_part_of_rank_0(&window);
        if (way <= BY_TEST) OK(MPI_Send(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD));
    } else {
        volatile long long *counter = (long long *)window.memory + 1;
        for (int rank = 1; rank < check_size; rank++) {
            if (way == BY_PROBE) OK(MPI_Probe(rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (way == BY_TEST) {
                OK(MPI_Irecv(&token, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request));
                for (done = 0; !done;) OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
            } else if (way < BY_TEST) {
                OK(MPI_Recv(&token, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
        }
        while (way == BY_SYNC && *counter < TURNS * (check_size - 1)) OK(MPI_Win_sync(window.win));
    }
    if (way == BY_IBARRIER) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) CHECK_EQ(*(long long *)window.memory, TURNS * (check_size - 1));
    window_close(&window);
}

// Programs fill a part that they just got without a barrier, while others lock it already. Nothing
// promises that this goes well, but with a library that is called for progress it does.
static void owner_fills_at_once(void) {
    enum { WINDOWS = 40 };
    int lost = 0;
    for (int i = 0; i < WINDOWS; i++) {
        MPI_Win win;
        long long *memory;
        const long long one = 1;
        OK(MPI_Win_allocate(check_rank ? 0 : 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
        if (check_rank == 0) {
            compute(20e-6);
            *memory = 0;
        }
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, MPI_SUM, win));
        OK(MPI_Win_unlock(0, win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        lost += check_rank == 0 && *memory != check_size;
        OK(MPI_Win_free(&win));
    }
    // The system may take the core away for long.
    CHECK(lost < WINDOWS / 4, "%d of %d", lost, WINDOWS);
}

int main(void) {
    check_begin();
    // A part on another machine is reached by messages, which its process must take.
    if (check_is_combray && all_near()) {
        target_computes(ALLOCATED);
        target_computes(SHARED);
    }
    if (check_is_combray) owner_fills_at_once();
    for (int flavor = 0; flavor < FLAVORS; flavor++)
        for (int way = 0; way < WAYS && window_exists(flavor); way++) target_waits(flavor, way);
    return check_end();
}
