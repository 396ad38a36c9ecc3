// Shared windows: the parts follow each other, or lie apart if the info requests it; each process
// loads what the others have stored. Allocated windows can be queried too.
// run: 1 2 3 5
// one machine: shares memory between all processes
// checkers: address
#include "windows.h"

static void stores_are_seen(MPI_Win win, int *mine, int ints) {
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    for (int i = 0; i < ints; i++) mine[i] = check_rank * 1000 + i;
    OK(MPI_Win_sync(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_sync(win));
    for (int rank = 0; rank < check_size; rank++) {
        MPI_Aint size;
        int unit, *part, wrong = 0;
        OK(MPI_Win_shared_query(win, rank, &size, &unit, &part));
        CHECK_EQ(unit, sizeof(int));
        CHECK_EQ(size, (rank + 1) * (MPI_Aint)sizeof(int));
        for (int i = 0; i <= rank; i++) wrong += part[i] != rank * 1000 + i;
        CHECK(wrong == 0, "%d wrong of rank %d", wrong, rank);
        if (rank == check_rank) CHECK(part == mine);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_unlock_all(win));
}

// Parts of different sizes; `together`: they must follow each other.
static void parts(MPI_Info info, int together) {
    MPI_Win win;
    int *mine, *first, unit;
    MPI_Aint size, bytes = (check_rank + 1) * (MPI_Aint)sizeof(int);
    OK(MPI_Win_allocate_shared(bytes, sizeof(int), info, MPI_COMM_WORLD, &mine, &win));
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &first));
    CHECK_EQ(size, sizeof(int));
    if (together) CHECK_EQ(mine - first, check_rank * (check_rank + 1) / 2);
    stores_are_seen(win, mine, check_rank + 1);
    // One-sided operations access that memory, too.
    int next = (check_rank + 1) % check_size, value = 77 + check_rank;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, next, next, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(mine[check_rank], 77 + (check_rank + check_size - 1) % check_size);
    OK(MPI_Win_free(&win));
}

static void nothing_on_some(void) {
    MPI_Win win;
    MPI_Aint size;
    int *mine, *found, unit, last = check_size - 1;
    MPI_Aint bytes = check_rank == last ? 4000 : 0;
    OK(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win));
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &found));
    CHECK_EQ(size, 4000);
    if (check_rank == last) {
        CHECK(found == mine);
        found[999] = 12345;
    }
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(found[999], 12345);
    OK(MPI_Win_free(&win));
}

static void allocated_and_created(void) {
    MPI_Win win;
    int *mine, *found, own = 5;
    MPI_Aint size, unit;
    MPI_Aint bytes = (check_rank + 1) * (MPI_Aint)sizeof(int);
    OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win));
    OK(MPI_Win_shared_query_c(win, check_rank, &size, &unit, &found));
    CHECK(found == mine && size == bytes && unit == sizeof(int));
    if (check_is_combray) stores_are_seen(win, mine, check_rank + 1);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create(&own, sizeof own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    for (int rank = 0; rank < check_size && check_is_combray; rank++) {
        OK(MPI_Win_shared_query_c(win, rank, &size, &unit, &found));
        if (rank == check_rank) CHECK(found == &own && size == sizeof own);
        else CHECK(size == 0 || size == sizeof own);
    }
    OK(MPI_Win_free(&win));
}

int main(void) {
    check_begin();
    MPI_Info apart;
    OK(MPI_Info_create(&apart));
    parts(MPI_INFO_NULL, 1);
    OK(MPI_Info_set(apart, "alloc_shared_noncontig", "false"));
    parts(apart, 1);
    OK(MPI_Info_set(apart, "alloc_shared_noncontig", "true"));
    parts(apart, 0);
    OK(MPI_Info_free(&apart));
    nothing_on_some();
    allocated_and_created();
    return check_end();
}
