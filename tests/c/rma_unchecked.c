// A process waits for an event inside of an exclusive lock of its own part, and the others post it
// under MPI_MODE_NOCHECK: that takes no lock, so no process waits for it, and all operations are
// done at the end of the epoch. Coarray programs wait in this way for events.
// run: 2 3
// each: auto never
// hosts
#include "windows.h"

enum { ROUNDS = 20 };
enum { ALL, SHARING, EXCLUDING, KINDS };
static MPI_Aint origin;

static void lock(int kind, int target, MPI_Win win) {
    if (kind == ALL) OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    if (kind == SHARING) OK(MPI_Win_lock(MPI_LOCK_SHARED, target, MPI_MODE_NOCHECK, win));
    if (kind == EXCLUDING) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, MPI_MODE_NOCHECK, win));
}

static void unlock(int kind, int target, MPI_Win win) {
    if (kind == ALL) OK(MPI_Win_unlock_all(win));
    else OK(MPI_Win_unlock(target, win));
}

static void wait_for_events(int count, MPI_Win win) {
    int unused = 0, events = 0;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    // The others know that it is locked.
    MPI_Barrier(MPI_COMM_WORLD);
    while (events < count) {
        OK(MPI_Fetch_and_op(&unused, &events, MPI_INT, 0, origin, MPI_NO_OP, win));
        OK(MPI_Win_flush(0, win));
    }
    CHECK_EQ(events, count);
    events = -count;
    OK(MPI_Accumulate(&events, 1, MPI_INT, 0, origin, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_unlock(0, win));
}

static void post_events(int kind, int round, MPI_Aint place, MPI_Win win) {
    int one = 1, data = 1000 * round + check_rank, got = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    lock(kind, 0, win);
    OK(MPI_Put(&data, 1, MPI_INT, 0, place, 1, MPI_INT, win));
    OK(MPI_Win_flush(0, win));
    OK(MPI_Get(&got, 1, MPI_INT, 0, place, 1, MPI_INT, win));
    OK(MPI_Accumulate(&one, 1, MPI_INT, 0, origin, 1, MPI_INT, MPI_SUM, win));
    unlock(kind, 0, win);
    CHECK_EQ(got, data);
}

static void play(int *memory, MPI_Win win) {
    for (int kind = ALL; kind < KINDS; kind++)
        for (int round = 0; round < ROUNDS; round++) {
            if (check_rank == 0) wait_for_events(check_size - 1, win);
            else post_events(kind, round, origin + check_rank * (MPI_Aint)sizeof(int), win);
            MPI_Barrier(MPI_COMM_WORLD);
            if (check_rank > 0) continue;
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            for (int rank = 1; rank < check_size; rank++) CHECK_EQ(memory[rank], 1000 * round + rank);
            CHECK_EQ(memory[0], 0);
            OK(MPI_Win_unlock(0, win));
        }
}

int main(int argc, char **argv) {
    static const int flavors[] = {CREATED, ALLOCATED, DYNAMIC};
    window_sharing(argc, argv);
    check_begin();
    for (int i = 0; i < 3; i++) {
        Window window = window_open(flavors[i], 64 * sizeof(int));
        origin = window.origins[0];
        play(window.memory, window.win);
        window_close(&window);
    }
    return check_end();
}
