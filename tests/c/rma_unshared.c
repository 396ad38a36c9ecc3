// Where memory cannot be shared, allocated windows work by messages, and shared ones are refused on
// all processes alike. Large accumulates are cut between elements, also where their size divides no
// length of a message.
// run: 1 2 3
// hosts
#include "windows.h"

typedef struct {
    double value;
    int place;
} DoubleInt;

// Every process contributes the greatest value of the elements whose number is its rank modulo
// their count.
static void large_accumulate(void) {
    enum { COUNT = 100000 };
    Window window = window_open(ALLOCATED, COUNT * sizeof(DoubleInt));
    DoubleInt *given = calloc(COUNT, sizeof *given), *kept = window.memory;
    for (int i = 0; i < COUNT; i++)
        given[i] = (DoubleInt){i % check_size == check_rank ? i + 1 : -i, check_rank};
    int wrong = 0, next = (check_rank + 1) % check_size;
    for (int i = 0; i < COUNT; i++) kept[i] = (DoubleInt){-COUNT, -1};
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, window.win));
    for (int target = next, i = 0; i < check_size; target = (target + 1) % check_size, i++)
        OK(MPI_Accumulate(given, COUNT, MPI_DOUBLE_INT, target, 0, COUNT, MPI_DOUBLE_INT, MPI_MAXLOC,
                          window.win));
    OK(MPI_Win_unlock_all(window.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++)
        wrong += kept[i].value != i + 1 || kept[i].place != i % check_size;
    CHECK_EQ(wrong, 0);
    free(given);
    window_close(&window);
}

int main(void) {
    setenv("COMBRAY_SHARED_WINDOWS", "never", 1);
    check_begin();
    if (!check_is_combray) return check_end();
    MPI_Win win;
    void *base;
    EXPECT_ERROR(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win),
                 MPI_ERR_RMA_SHARED, "COMBRAY_SHARED_WINDOWS");
    Window window = window_open(ALLOCATED, 100);
    MPI_Aint size;
    int unit, next = (check_rank + 1) % check_size, value = 40 + check_rank;
    OK(MPI_Win_shared_query(window.win, check_rank, &size, &unit, &base));
    CHECK(size == 100 && base == window.memory);
    if (check_size > 1) {
        OK(MPI_Win_shared_query(window.win, next, &size, &unit, &base));
        CHECK(size == 0 && base == NULL);
    }
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window.win));
    OK(MPI_Put(&value, 1, MPI_INT, next, 96, 1, MPI_INT, window.win));
    OK(MPI_Win_unlock(next, window.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    memcpy(&value, (char *)window.memory + 96, sizeof value);
    CHECK_EQ(value, 40 + (check_rank + check_size - 1) % check_size);
    window_close(&window);
    large_accumulate();
    return check_end();
}
