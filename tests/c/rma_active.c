// Post, start, complete, wait and test: rings, stars and pairs in turn, on windows of all flavors;
// fences with all assertions.
// each: auto never
// run: 2 3 5
// hosts
// checkers: address
#include "windows.h"

enum { TURNS = 40, LARGE = 30000 };

static MPI_Group group_of(int rank) {
    MPI_Group world, group;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &rank, &group));
    OK(MPI_Group_free(&world));
    return group;
}

// Each process writes to the next one, and is written to by the one before.
static void ring(const Window *window, int bytes) {
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Group origin = group_of(before), target = group_of(next);
    unsigned char *data = malloc((size_t)bytes);
    for (int turn = 0; turn < TURNS; turn++) {
        pattern_fill(data, (size_t)bytes, (uint64_t)(turn * 100 + check_rank));
        OK(MPI_Win_post(origin, 0, window->win));
        OK(MPI_Win_start(target, 0, window->win));
        OK(MPI_Put(data, bytes, MPI_BYTE, next, window_at(window, next, 0), bytes, MPI_BYTE,
                   window->win));
        OK(MPI_Win_complete(window->win));
        if (turn % 2) {
            OK(MPI_Win_wait(window->win));
        } else {
            int over = 0;
            while (!over) OK(MPI_Win_test(window->win, &over));
        }
        CHECK_PATTERN(window->memory, (size_t)bytes, (uint64_t)(turn * 100 + before));
    }
    free(data);
    OK(MPI_Group_free(&origin));
    OK(MPI_Group_free(&target));
}

// All others read from and write to rank 0, which only exposes its part.
static void star(const Window *window) {
    MPI_Group world, others, middle = group_of(0);
    int zero = 0;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_excl(world, 1, &zero, &others));
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Aint slot = (MPI_Aint)sizeof(int) * check_rank;
        if (check_rank == 0) {
            OK(MPI_Win_post(others, turn % 2 ? MPI_MODE_NOSTORE : 0, window->win));
            OK(MPI_Win_wait(window->win));
            for (int rank = 1; rank < check_size; rank++)
                CHECK_EQ(((int *)window->memory)[rank], turn * 1000 + rank);
        } else {
            int old = -1, value = turn * 1000 + check_rank;
            OK(MPI_Win_start(middle, 0, window->win));
            OK(MPI_Get_accumulate(&value, 1, MPI_INT, &old, 1, MPI_INT, 0,
                                  window_at(window, 0, slot), 1, MPI_INT, MPI_REPLACE, window->win));
            OK(MPI_Win_complete(window->win));
            CHECK_EQ(old, turn ? (turn - 1) * 1000 + check_rank : 0);
        }
    }
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&others));
    OK(MPI_Group_free(&middle));
}

// An exposure epoch is not over before its origin has completed its access epoch.
static void not_too_early(const Window *window) {
    MPI_Group peer = group_of(1 - check_rank % 2);
    int over = 0;
    if (check_rank == 0) {
        OK(MPI_Win_post(peer, 0, window->win));
        OK(MPI_Win_test(window->win, &over));
        CHECK(!over);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        while (!over) OK(MPI_Win_test(window->win, &over));
    } else {
        if (check_rank == 1) OK(MPI_Win_start(peer, 0, window->win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 1) OK(MPI_Win_complete(window->win));
    }
    OK(MPI_Group_free(&peer));
}

static void fences(const Window *window) {
    int assertions[] = {0, MPI_MODE_NOSTORE, MPI_MODE_NOPUT, MPI_MODE_NOSTORE | MPI_MODE_NOPUT};
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, window->win));
    for (int turn = 0; turn < TURNS; turn++) {
        int value = turn * 100 + check_rank;
        OK(MPI_Put(&value, 1, MPI_INT, next, window_at(window, next, 0), 1, MPI_INT, window->win));
        OK(MPI_Win_fence(0, window->win));
        CHECK_EQ(*(int *)window->memory, turn * 100 + before);
        OK(MPI_Win_fence(assertions[turn % 4], window->win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win));
}

int main(int argc, char **argv) {
    window_sharing(argc, argv);
    check_begin();
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!window_exists(flavor)) continue;
        Window window = window_open(flavor, LARGE);
        ring(&window, 8);
        ring(&window, LARGE);
        fences(&window);
        memset(window.memory, 0, LARGE);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        star(&window);
        not_too_early(&window);
        window_close(&window);
    }
    return check_end();
}
