// Where memory cannot be shared, allocated windows work by messages, and shared ones are refused on
// all processes alike.
// run: 1 2 3
// hosts
#include "windows.h"

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
    return check_end();
}
