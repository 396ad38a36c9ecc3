// Wrong calls on windows of all flavors: arguments, places outside, epochs that are not open. Each
// error goes to the window's handler, has its class and a message with the cause; nothing is
// changed.
// run: 1 2
#include "windows.h"

enum { PART = 64 };

static int value = 7, result;

static void wrong_arguments(const Window *window) {
    MPI_Win win = window->win;
    MPI_Aint at = window_at(window, 0, 0);
    MPI_Request request;
    OK(MPI_Win_fence(0, win));
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, check_size, at, 1, MPI_INT, win), MPI_ERR_RANK,
                 "target_rank");
    EXPECT_ERROR(MPI_Put(&value, -1, MPI_INT, 0, at, 1, MPI_INT, win), MPI_ERR_COUNT, "origin_count");
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, 0, at, -2, MPI_INT, win), MPI_ERR_COUNT, "target_count",
                 "-2");
    EXPECT_ERROR(MPI_Put(NULL, 1, MPI_INT, 0, at, 1, MPI_INT, win), MPI_ERR_BUFFER, "origin_addr");
    EXPECT_ERROR(MPI_Get(&value, 1, MPI_DATATYPE_NULL, 0, at, 1, MPI_INT, win), MPI_ERR_TYPE,
                 "origin_datatype");
    EXPECT_ERROR(MPI_Get(&value, 1, MPI_INT, 0, at, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE,
                 "target_datatype");
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, 0, at, 2, MPI_INT, win), MPI_ERR_TYPE, "4 bytes", "8");
    EXPECT_ERROR(MPI_Accumulate(&value, 1, MPI_INT, 0, at, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE,
                 "MPI_INT", "MPI_FLOAT");
    EXPECT_ERROR(MPI_Accumulate(&value, 1, MPI_FLOAT, 0, at, 1, MPI_FLOAT, MPI_BAND, win),
                 MPI_ERR_OP, "MPI_BAND", "MPI_FLOAT");
    EXPECT_ERROR(MPI_Accumulate(&value, 1, MPI_INT, 0, at, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP,
                 "op");
    EXPECT_ERROR(MPI_Fetch_and_op(&value, &result, MPI_DATATYPE_NULL, 0, at, MPI_SUM, win),
                 MPI_ERR_TYPE, "datatype");
    EXPECT_ERROR(MPI_Compare_and_swap(&value, &value, &result, MPI_FLOAT, 0, at, win), MPI_ERR_TYPE,
                 "datatype");
    EXPECT_ERROR(MPI_Fetch_and_op(&value, NULL, MPI_INT, 0, at, MPI_SUM, win), MPI_ERR_BUFFER,
                 "result_addr");
    EXPECT_ERROR(MPI_Rput(&value, 1, MPI_INT, 0, at, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC,
                 "MPI_Win_lock");
    EXPECT_ERROR(MPI_Win_fence(1 << 20, win), MPI_ERR_ASSERT, "assert");
    MPI_Datatype uncommitted, mixed;
    OK(MPI_Type_contiguous(1, MPI_INT, &uncommitted));
    EXPECT_ERROR(MPI_Put(&value, 1, uncommitted, 0, at, 1, MPI_INT, win), MPI_ERR_TYPE, "commit");
    OK(MPI_Type_free(&uncommitted));
    MPI_Datatype types[] = {MPI_INT, MPI_FLOAT};
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 4}, types, &mixed));
    OK(MPI_Type_commit(&mixed));
    EXPECT_ERROR(MPI_Accumulate(&value, 1, mixed, 0, at, 1, mixed, MPI_SUM, win), MPI_ERR_TYPE,
                 "predefined");
    OK(MPI_Type_free(&mixed));
    // To no process everything goes.
    OK(MPI_Put(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, 0, MPI_INT, win));
    OK(MPI_Get(&value, 1, MPI_INT, MPI_PROC_NULL, 99999, 1, MPI_INT, win));
    OK(MPI_Fetch_and_op(&value, &result, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EXPECT_ERROR(MPI_Win_lock(7, 0, 0, win), MPI_ERR_LOCKTYPE, "lock_type", "7");
    EXPECT_ERROR(MPI_Win_lock(MPI_LOCK_SHARED, -5, 0, win), MPI_ERR_RANK, "rank", "-5");
}

static void outside(const Window *window) {
    if (window->flavor == DYNAMIC) return;
    MPI_Win win = window->win;
    long long old[2] = {-1, -1};
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, 0, PART - 3, 1, MPI_INT, win), MPI_ERR_RMA_RANGE, "64");
    EXPECT_ERROR(MPI_Get(old, 2, MPI_LONG_LONG, 0, PART - 8, 2, MPI_LONG_LONG, win),
                 MPI_ERR_RMA_RANGE);
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, 0, -4, 1, MPI_INT, win), MPI_ERR_DISP, "-4");
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, 0, (MPI_Aint)1 << 62, 1, MPI_INT, win),
                 MPI_ERR_RMA_RANGE);
    EXPECT_ERROR(MPI_Fetch_and_op(&value, &result, MPI_INT, 0, PART, MPI_SUM, win),
                 MPI_ERR_RMA_RANGE);
    EXPECT_ERROR(MPI_Compare_and_swap(&value, &value, &result, MPI_INT, 0, PART, win),
                 MPI_ERR_RMA_RANGE);
    MPI_Datatype before;
    OK(MPI_Type_create_hindexed(1, (int[]){1}, (MPI_Aint[]){-4}, MPI_INT, &before));
    OK(MPI_Type_commit(&before));
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, 0, 3, 1, before, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Put(&value, 1, MPI_INT, 0, 4, 1, before, win));
    OK(MPI_Type_free(&before));
    OK(MPI_Win_unlock(0, win));
}

static void wrong_epochs(const Window *window) {
    MPI_Win win = window->win;
    MPI_Aint at = window_at(window, 0, 0);
    MPI_Group self, empty = MPI_GROUP_EMPTY;
    int over, other = check_size - 1;
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, 0, at, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "MPI_Win_fence");
    EXPECT_ERROR(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    EXPECT_ERROR(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    EXPECT_ERROR(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC, "not locked");
    EXPECT_ERROR(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    EXPECT_ERROR(MPI_Win_complete(win), MPI_ERR_RMA_SYNC, "MPI_Win_start");
    EXPECT_ERROR(MPI_Win_wait(win), MPI_ERR_RMA_SYNC, "MPI_Win_post");
    EXPECT_ERROR(MPI_Win_test(win, &over), MPI_ERR_RMA_SYNC, "MPI_Win_post");
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    EXPECT_ERROR(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC, "locked already");
    EXPECT_ERROR(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock");
    EXPECT_ERROR(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock");
    EXPECT_ERROR(MPI_Win_start(empty, 0, win), MPI_ERR_RMA_SYNC);
    EXPECT_ERROR(MPI_Win_free(&win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock");
    EXPECT_ERROR(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    if (other) {
        MPI_Aint there = window_at(window, other, 0);
        EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, other, there, 1, MPI_INT, win), MPI_ERR_RMA_SYNC,
                     "not locked");
        EXPECT_ERROR(MPI_Win_flush(other, win), MPI_ERR_RMA_SYNC);
    }
    OK(MPI_Win_unlock(0, win));
    OK(MPI_Win_start(empty, 0, win));
    EXPECT_ERROR(MPI_Put(&value, 1, MPI_INT, 0, at, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "group");
    EXPECT_ERROR(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC, "MPI_Win_complete");
    OK(MPI_Win_complete(win));
    OK(MPI_Win_post(empty, 0, win));
    EXPECT_ERROR(MPI_Win_post(empty, 0, win), MPI_ERR_RMA_SYNC, "MPI_Win_wait");
    EXPECT_ERROR(MPI_Win_free(&win), MPI_ERR_RMA_SYNC, "exposure", "MPI_Win_wait");
    OK(MPI_Win_wait(win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, 0, at, 1, MPI_INT, win));
    EXPECT_ERROR(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC, "MPI_Win_fence");
    OK(MPI_Comm_group(MPI_COMM_SELF, &self));
    OK(MPI_Group_free(&self));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
}

static int handled;
static MPI_Win handled_win;

static void handler(MPI_Win *win, int *code, ...) {
    int class;
    MPI_Error_class(*code, &class);
    handled = class;
    handled_win = *win;
}

static void errors_go_to_the_window(const Window *window) {
    MPI_Errhandler ours, found;
    OK(MPI_Win_create_errhandler(handler, &ours));
    OK(MPI_Win_set_errhandler(window->win, ours));
    OK(MPI_Win_get_errhandler(window->win, &found));
    CHECK(found == ours);
    OK(MPI_Errhandler_free(&found));
    CHECK(MPI_Put(&value, 1, MPI_INT, 99, 0, 1, MPI_INT, window->win) != MPI_SUCCESS);
    CHECK(handled == MPI_ERR_RANK && handled_win == window->win);
    CHECK(MPI_Win_unlock(0, window->win) != MPI_SUCCESS);
    CHECK_EQ(handled, MPI_ERR_RMA_SYNC);
    OK(MPI_Win_call_errhandler(window->win, MPI_ERR_OTHER));
    CHECK_EQ(handled, MPI_ERR_OTHER);
    OK(MPI_Win_set_errhandler(window->win, MPI_ERRORS_RETURN));
    MPI_Errhandler of_comm;
    OK(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)handler, &of_comm));
    EXPECT_ERROR(MPI_Win_set_errhandler(window->win, of_comm), MPI_ERR_ARG, "communicators");
    OK(MPI_Errhandler_free(&of_comm));
    OK(MPI_Errhandler_free(&ours));
}

static void wrong_creations(void) {
    MPI_Win win;
    void *base;
    char memory[8];
    EXPECT_ERROR(MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_SIZE,
                 "size", "-1");
    EXPECT_ERROR(MPI_Win_create(memory, 8, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_DISP,
                 "disp_unit");
    EXPECT_ERROR(MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_BASE,
                 "base");
    EXPECT_ERROR(MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, NULL, &win), MPI_ERR_ARG,
                 "baseptr");
    EXPECT_ERROR(MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM,
                 "comm");
    EXPECT_ERROR(MPI_Win_allocate((MPI_Aint)1 << 50, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win),
                 MPI_ERR_NO_MEM);
    EXPECT_ERROR(MPI_Win_allocate_shared(INT64_MAX - 5, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win),
                 MPI_ERR_NO_MEM);
    win = MPI_WIN_NULL;
    EXPECT_ERROR(MPI_Win_fence(0, win), MPI_ERR_WIN, "MPI_WIN_NULL");
    EXPECT_ERROR(MPI_Win_free(&win), MPI_ERR_WIN, "MPI_WIN_NULL");
    OK(MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win freed = win;
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    EXPECT_ERROR(MPI_Win_attach(win, memory, 8), MPI_ERR_RMA_FLAVOR);
    OK(MPI_Win_free(&win));
    EXPECT_ERROR(MPI_Win_fence(0, freed), MPI_ERR_WIN, "freed");
}

int main(void) {
    check_begin();
    if (!check_is_combray) return check_end();
    wrong_creations();
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!window_exists(flavor)) continue;
        Window window = window_open(flavor, PART);
        OK(MPI_Win_set_errhandler(window.win, MPI_ERRORS_RETURN));
        wrong_arguments(&window);
        outside(&window);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        wrong_epochs(&window);
        errors_go_to_the_window(&window);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        window_close(&window);
    }
    return check_end();
}
