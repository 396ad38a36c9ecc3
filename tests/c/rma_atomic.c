// Accumulates, MPI_Fetch_and_op, MPI_Compare_and_swap and locks of all processes on common elements
// at once, on windows of all flavors: nothing gets lost.
// each: auto never
// run: 1 2 3 5
// timeout: 60
// hosts
#include "windows.h"

enum { TURNS = 60, ELEMENTS = 700 };

// Offsets in the part of the process with rank 0.
enum { COUNTER = 0, MUTEX = 8, GUARDED = 16, ARRAY = 64, PART = ARRAY + 8 * ELEMENTS };

static long long read_value(const Window *window, MPI_Aint offset) {
    long long value = -1;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window->win));
    OK(MPI_Get(&value, 1, MPI_LONG_LONG, 0, window_at(window, 0, offset), 1, MPI_LONG_LONG,
               window->win));
    OK(MPI_Win_unlock(0, window->win));
    return value;
}

// Reads, adds one and writes, alone under an exclusive lock.
static void exclusive_locks(const Window *window) {
    MPI_Aint place = window_at(window, 0, GUARDED);
    for (int turn = 0; turn < TURNS; turn++) {
        long long value = -1;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window->win));
        OK(MPI_Get(&value, 1, MPI_LONG_LONG, 0, place, 1, MPI_LONG_LONG, window->win));
        OK(MPI_Win_flush(0, window->win));
        value++;
        OK(MPI_Put(&value, 1, MPI_LONG_LONG, 0, place, 1, MPI_LONG_LONG, window->win));
        OK(MPI_Win_unlock(0, window->win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_EQ(read_value(window, GUARDED), TURNS * check_size);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

// Each number of a counter is given out once.
static void tickets(const Window *window) {
    int total = TURNS * check_size, *seen = calloc((size_t)total, sizeof(int));
    const long long one = 1;
    OK(MPI_Win_lock_all(0, window->win));
    for (int turn = 0; turn < TURNS; turn++) {
        long long ticket = -1;
        OK(MPI_Fetch_and_op(&one, &ticket, MPI_LONG_LONG, 0, window_at(window, 0, COUNTER), MPI_SUM,
                            window->win));
        OK(MPI_Win_flush(0, window->win));
        REQUIRE(ticket >= 0 && ticket < total, "%lld of %d", ticket, total);
        seen[ticket]++;
    }
    OK(MPI_Win_unlock_all(window->win));
    OK(MPI_Allreduce(MPI_IN_PLACE, seen, total, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < total; i++) CHECK(seen[i] == 1, "ticket %d was given %d times", i, seen[i]);
    free(seen);
}

// A lock out of compare and swap guards a value that is not changed atomically.
static void mutex(const Window *window) {
    const long long free_value = 0, taken = check_rank + 1;
    MPI_Aint guarded = window_at(window, 0, GUARDED), word = window_at(window, 0, MUTEX);
    long long before = read_value(window, GUARDED);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, window->win));
    for (int turn = 0; turn < TURNS / 4; turn++) {
        long long found = -1, value = -1;
        do {
            OK(MPI_Compare_and_swap(&taken, &free_value, &found, MPI_LONG_LONG, 0, word,
                                    window->win));
            OK(MPI_Win_flush(0, window->win));
        } while (found != free_value);
        OK(MPI_Get(&value, 1, MPI_LONG_LONG, 0, guarded, 1, MPI_LONG_LONG, window->win));
        OK(MPI_Win_flush(0, window->win));
        value++;
        OK(MPI_Put(&value, 1, MPI_LONG_LONG, 0, guarded, 1, MPI_LONG_LONG, window->win));
        OK(MPI_Win_flush(0, window->win));
        OK(MPI_Accumulate(&free_value, 1, MPI_LONG_LONG, 0, word, 1, MPI_LONG_LONG, MPI_REPLACE,
                          window->win));
        OK(MPI_Win_flush(0, window->win));
    }
    OK(MPI_Win_unlock_all(window->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_EQ(read_value(window, GUARDED), before + TURNS / 4 * check_size);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

// All add to one long array at once, in one epoch between fences and with shared locks.
static void sums(const Window *window) {
    static double ones[ELEMENTS], sum[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) ones[i] = i + 1;
    MPI_Aint place = window_at(window, 0, ARRAY);
    OK(MPI_Win_fence(0, window->win));
    for (int turn = 0; turn < 10; turn++)
        OK(MPI_Accumulate(ones, ELEMENTS, MPI_DOUBLE, 0, place, ELEMENTS, MPI_DOUBLE, MPI_SUM,
                          window->win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win));
    for (int turn = 0; turn < 10; turn++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window->win));
        OK(MPI_Get_accumulate(ones, ELEMENTS, MPI_DOUBLE, sum, ELEMENTS, MPI_DOUBLE, 0, place,
                              ELEMENTS, MPI_DOUBLE, MPI_SUM, window->win));
        OK(MPI_Win_unlock(0, window->win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window->win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, sum, ELEMENTS, MPI_DOUBLE, 0, place, ELEMENTS,
                          MPI_DOUBLE, MPI_NO_OP, window->win));
    OK(MPI_Win_unlock(0, window->win));
    int wrong = 0;
    for (int i = 0; i < ELEMENTS; i++) wrong += sum[i] != 20.0 * check_size * (i + 1);
    CHECK(wrong == 0, "%s: %d sums of %d are wrong", FLAVOR_NAMES[window->flavor], wrong, ELEMENTS);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

// A value with its index, which has padding, and a datatype derived from it.
static void locations(const Window *window) {
    struct {
        double value;
        int index;
    } given[2] = {{check_rank % 3, check_rank}, {-check_rank, check_rank}}, best[2];
    MPI_Datatype pairs;
    OK(MPI_Type_contiguous(2, MPI_DOUBLE_INT, &pairs));
    OK(MPI_Type_commit(&pairs));
    if (check_rank == 0) memset((char *)window->memory + ARRAY, 0, sizeof best);
    OK(MPI_Win_fence(0, window->win));
    OK(MPI_Accumulate(given, 1, pairs, 0, window_at(window, 0, ARRAY), 1, pairs, MPI_MAXLOC,
                      window->win));
    OK(MPI_Win_fence(0, window->win));
    OK(MPI_Get(best, 1, pairs, 0, window_at(window, 0, ARRAY), 1, pairs, window->win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win));
    int highest = check_size > 2 ? 2 : check_size - 1;
    CHECK(best[0].value == highest && best[0].index == highest, "%g at %d", best[0].value,
          best[0].index);
    CHECK(best[1].value == 0 && best[1].index == 0, "%g at %d", best[1].value, best[1].index);
    OK(MPI_Type_free(&pairs));
}

int main(int argc, char **argv) {
    window_sharing(argc, argv);
    check_begin();
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!window_exists(flavor)) continue;
        Window window = window_open(flavor, PART);
        exclusive_locks(&window);
        tickets(&window);
        mutex(&window);
        sums(&window);
        locations(&window);
        window_close(&window);
    }
    return check_end();
}
