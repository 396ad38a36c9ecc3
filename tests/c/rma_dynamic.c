// Dynamic windows: several regions that are attached and detached, also more of them than shared
// memory publishes, operations over the whole of one, and access to memory that is not attached,
// which is refused at the next synchronization and changes nothing.
// run: 1 2 3
// hosts
// checkers: address
#include "windows.h"

enum { REGIONS = 5, INTS = 4000 };

static MPI_Win win;
static int *regions[REGIONS];
static MPI_Aint addresses[64][REGIONS];

static void attach_all(void) {
    for (int i = 0; i < REGIONS; i++) {
        regions[i] = calloc(INTS, sizeof(int));
        OK(MPI_Win_attach(win, regions[i], INTS * sizeof(int)));
        OK(MPI_Get_address(regions[i], &addresses[check_rank][i]));
    }
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, addresses, REGIONS, MPI_AINT,
                     MPI_COMM_WORLD));
}

static void write_everywhere(void) {
    static int data[INTS];
    OK(MPI_Win_lock_all(0, win));
    for (int rank = 0; rank < check_size; rank++)
        for (int i = 0; i < REGIONS; i++) {
            for (int k = 0; k < INTS; k++) data[k] = rank * 10 + i + k;
            MPI_Aint place = MPI_Aint_add(addresses[rank][i], check_rank * (MPI_Aint)sizeof(int));
            MPI_Datatype comb;
            OK(MPI_Type_vector(INTS / check_size, 1, check_size, MPI_INT, &comb));
            OK(MPI_Type_commit(&comb));
            OK(MPI_Put(data + check_rank, 1, comb, rank, place, 1, comb, win));
            OK(MPI_Type_free(&comb));
            OK(MPI_Win_flush_local(rank, win));
        }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int wrong = 0;
    for (int i = 0; i < REGIONS; i++)
        for (int k = 0; k < INTS / check_size * check_size; k++)
            wrong += regions[i][k] != check_rank * 10 + i + k;
    CHECK(wrong == 0, "%d wrong", wrong);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

// Rows of one array that were attached one by one, and regions that lie apart, are one target.
static void over_several_regions(void) {
    enum { ROWS = 6, COLUMNS = 30, ALL = ROWS * COLUMNS };
    static short rows[ALL];
    static MPI_Aint places[64];
    int target = (check_rank + 1) % check_size, source = (check_rank + check_size - 1) % check_size;
    for (int k = 0; k < ALL; k++) rows[k] = (short)k;
    for (int row = 0; row < ROWS; row++)
        OK(MPI_Win_attach(win, rows + (row * 5 % ROWS) * COLUMNS, COLUMNS * sizeof(short)));
    OK(MPI_Get_address(rows, &places[check_rank]));
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, places, 1, MPI_AINT, MPI_COMM_WORLD));
    short data[ALL], before[ALL];
    for (int k = 0; k < ALL; k++) data[k] = (short)(1000 + check_rank);
    int inside = ALL - 2 * 7;
    MPI_Aint at = MPI_Aint_add(places[target], 7 * (MPI_Aint)sizeof(short));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
    OK(MPI_Get_accumulate(data, inside, MPI_SHORT, before, inside, MPI_SHORT, target, at, inside,
                          MPI_SHORT, MPI_SUM, win));
    OK(MPI_Win_flush(target, win));
    for (int k = 0; k < inside; k++) CHECK_EQ(before[k], 7 + k);
    OK(MPI_Accumulate(data, inside, MPI_SHORT, target, at, inside, MPI_SHORT, MPI_SUM, win));
    OK(MPI_Win_flush(target, win));
    OK(MPI_Put(data, 2, MPI_SHORT, target, at + (COLUMNS - 8) * (MPI_Aint)sizeof(short), 2, MPI_SHORT,
               win));
    OK(MPI_Get(before, ALL, MPI_SHORT, target, places[target], ALL, MPI_SHORT, win));
    OK(MPI_Win_unlock(target, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int k = 0; k < ALL; k++) {
        int is_put = k == COLUMNS - 1 || k == COLUMNS, is_inside = k >= 7 && k < ALL - 7;
        int added = is_inside ? 2 * (1000 + source) : 0;
        CHECK_EQ(rows[k], is_put ? 1000 + source : k + added);
    }
    // One element for each of two regions that lie apart, and bytes of both sides of their gap.
    long *apart[2] = {calloc(40000, sizeof(long)), calloc(40000, sizeof(long))};
    MPI_Aint ends[2];
    static MPI_Aint all_ends[64][2];
    for (int i = 0; i < 2; i++) {
        OK(MPI_Win_attach(win, apart[i], 40000 * sizeof(long)));
        OK(MPI_Get_address(apart[i], &ends[i]));
    }
    OK(MPI_Allgather(ends, 2, MPI_AINT, all_ends, 2, MPI_AINT, MPI_COMM_WORLD));
    MPI_Datatype joined;
    int lengths[2] = {40000, 39999};
    OK(MPI_Type_create_hindexed(2, lengths, all_ends[target], MPI_LONG, &joined));
    OK(MPI_Type_commit(&joined));
    long *given = malloc(79999 * sizeof(long));
    for (int k = 0; k < 79999; k++) given[k] = k + check_rank;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
    OK(MPI_Put(given, 79999, MPI_LONG, target, 0, 1, joined, win));
    OK(MPI_Win_flush(target, win));
    OK(MPI_Accumulate(given, 79999, MPI_LONG, target, 0, 1, joined, MPI_SUM, win));
    OK(MPI_Win_unlock(target, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    long wrong = 0;
    for (int k = 0; k < 79999; k++)
        wrong += apart[k >= 40000][k % 40000] != 2 * (k + source);
    CHECK(wrong == 0 && apart[1][39999] == 0, "%ld wrong", wrong);
    OK(MPI_Type_free(&joined));
    free(given);
    for (int row = 0; row < ROWS; row++) OK(MPI_Win_detach(win, rows + row * COLUMNS));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Win_detach(win, apart[i]));
        free(apart[i]);
    }
}

static void expect_refusal(int code) {
    int class = -1;
    if (code == MPI_SUCCESS) {
        CHECK(0, "an operation on memory that is not attached succeeded");
        return;
    }
    MPI_Error_class(code, &class);
    CHECK_EQ(class, MPI_ERR_RMA_RANGE);
}

// An operation and the flush after it: one of them fails.
static int flushed(int code, int target) {
    int after = MPI_Win_flush(target, win);
    return code == MPI_SUCCESS ? after : code;
}

// Each process writes a block of its own in each of many long regions of each process, and gets all
// of it back; between turns some of them are detached and attached again in another order.
static void many_long_regions(void) {
    enum { MANY = 12, TURNS = 4, BLOCK = 3000 };
    int length = BLOCK * check_size;
    int *memory = calloc((size_t)MANY * (size_t)length, sizeof(int));
    int *given = malloc(BLOCK * sizeof(int)), *got = malloc((size_t)length * sizeof(int));
    int *at[MANY];
    static MPI_Aint places[64][MANY];
    for (int i = 0; i < MANY; i++) {
        at[i] = memory + i * length;
        OK(MPI_Win_attach(win, at[i], length * (MPI_Aint)sizeof(int)));
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < MANY; i++) OK(MPI_Get_address(at[i], &places[check_rank][i]));
        OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, places, MANY, MPI_AINT, MPI_COMM_WORLD));
        OK(MPI_Win_lock_all(0, win));
        for (int rank = 0; rank < check_size; rank++)
            for (int i = 0; i < MANY; i++) {
                for (int k = 0; k < BLOCK; k++) given[k] = turn + 100 * i + 10000 * check_rank + k;
                MPI_Aint place = MPI_Aint_add(places[rank][i], check_rank * (MPI_Aint)sizeof(int) * BLOCK);
                OK(MPI_Put(given, BLOCK, MPI_INT, rank, place, BLOCK, MPI_INT, win));
                OK(MPI_Win_flush_local(rank, win));
            }
        OK(MPI_Win_flush_all(win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        long wrong = 0;
        for (int rank = 0; rank < check_size; rank++)
            for (int i = 0; i < MANY; i++) {
                OK(MPI_Get(got, length, MPI_INT, rank, places[rank][i], length, MPI_INT, win));
                OK(MPI_Win_flush(rank, win));
                for (int k = 0; k < length; k++)
                    wrong += got[k] != turn + 100 * i + 10000 * (k / BLOCK) + k % BLOCK;
            }
        CHECK(wrong == 0, "turn %d: %ld wrong", turn, wrong);
        OK(MPI_Win_unlock_all(win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (turn == TURNS - 1) break;
        int first = 3 * turn;
        int *former[3] = {at[first], at[first + 1], at[first + 2]};
        for (int i = 0; i < 3; i++) OK(MPI_Win_detach(win, former[i]));
        if (check_is_combray) {
            int target = (check_rank + 1) % check_size;
            OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
            int code = MPI_Put(given, BLOCK, MPI_INT, target, places[target][first], BLOCK, MPI_INT, win);
            expect_refusal(flushed(code, target));
            OK(MPI_Win_unlock(target, win));
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        for (int i = 0; i < 3; i++) {
            at[first + i] = former[(i + 1) % 3];
            OK(MPI_Win_attach(win, at[first + i], length * (MPI_Aint)sizeof(int)));
        }
    }
    for (int i = 0; i < MANY; i++) OK(MPI_Win_detach(win, at[i]));
    free(memory);
    free(given);
    free(got);
}

static void access_outside(void) {
    static int data[INTS + 1], kept[INTS];
    int target = (check_rank + 1) % check_size;
    memcpy(kept, regions[0], sizeof kept);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Aint base = addresses[target][0], past = MPI_Aint_add(base, INTS * sizeof(int));
    MPI_Aint hidden;
    OK(MPI_Get_address(kept, &hidden));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
    expect_refusal(flushed(MPI_Put(data, INTS + 1, MPI_INT, target, base, INTS + 1, MPI_INT, win), target));
    expect_refusal(flushed(MPI_Put(data, 1, MPI_INT, target, hidden, 1, MPI_INT, win), target));
    expect_refusal(flushed(MPI_Put(data, 1, MPI_INT, target, 8, 1, MPI_INT, win), target));
    expect_refusal(flushed(MPI_Get(data, 2, MPI_INT, target, past - 4, 2, MPI_INT, win), target));
    expect_refusal(flushed(
        MPI_Accumulate(data, INTS, MPI_INT, target, hidden, INTS, MPI_INT, MPI_SUM, win), target));
    expect_refusal(flushed(MPI_Get_accumulate(data, 1, MPI_INT, kept, 1, MPI_INT, target, hidden, 1,
                                              MPI_INT, MPI_SUM, win),
                           target));
    // It goes on after that.
    OK(MPI_Put(data, 0, MPI_INT, target, 0, 0, MPI_INT, win));
    OK(MPI_Get(data, 1, MPI_INT, target, base, 1, MPI_INT, win));
    OK(MPI_Win_unlock(target, win));
    CHECK_EQ(data[0], target * 10);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(!memcmp(kept + 1, regions[0] + 1, sizeof kept - sizeof(int)), "memory was changed");
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void wrong_arguments(void) {
    EXPECT_ERROR(MPI_Win_attach(win, regions[0] + 7, 4), MPI_ERR_RMA_ATTACH, "attached already");
    EXPECT_ERROR(MPI_Win_detach(win, regions[0] + 7), MPI_ERR_RMA_ATTACH);
    EXPECT_ERROR(MPI_Win_attach(win, NULL, 4), MPI_ERR_BASE, "base");
    EXPECT_ERROR(MPI_Win_attach(win, regions[0], -4), MPI_ERR_SIZE, "size", "-4");
    MPI_Aint size;
    int unit;
    void *base;
    EXPECT_ERROR(MPI_Win_shared_query(win, 0, &size, &unit, &base), MPI_ERR_RMA_FLAVOR);
}

int main(void) {
    check_begin();
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    for (int turn = 0; turn < 3; turn++) {
        attach_all();
        write_everywhere();
        over_several_regions();
        many_long_regions();
        if (check_is_combray) {
            access_outside();
            wrong_arguments();
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < REGIONS; i++) {
            OK(MPI_Win_detach(win, regions[(i + turn) % REGIONS]));
            free(regions[(i + turn) % REGIONS]);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Win_free(&win));
    return check_end();
}
