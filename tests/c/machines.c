// Which processes share a machine, on however many hosts they run: processes with one host name
// share memory and shared windows, others do not, and all of them exchange messages.
// run: 1 2 3 5
// hosts
// checkers: address threads
#include "windows.h"

static char names[64][MPI_MAX_PROCESSOR_NAME];

static int beside(int rank) { return strcmp(names[rank], names[check_rank]) == 0; }

static void shared_memory_is_of_one_host(MPI_Comm machine) {
    MPI_Group all, near;
    int size, expected = 0;
    OK(MPI_Comm_size(machine, &size));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Comm_group(machine, &near));
    for (int rank = 0; rank < check_size; rank++) {
        int found;
        expected += beside(rank);
        OK(MPI_Group_translate_ranks(all, 1, &rank, near, &found));
        CHECK((found != MPI_UNDEFINED) == beside(rank), "rank %d on %s", rank, names[rank]);
    }
    CHECK_EQ(size, expected);
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&near));
}

static void shared_windows_work(MPI_Comm machine) {
    int rank, size, *mine, *first, unit;
    MPI_Win win;
    MPI_Aint bytes;
    OK(MPI_Comm_rank(machine, &rank));
    OK(MPI_Comm_size(machine, &size));
    OK(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, machine, &mine, &win));
    OK(MPI_Win_fence(0, win));
    *mine = 100 + rank;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &first));
    for (int i = 0; i < size; i++) CHECK_EQ(first[i], 100 + i);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
}

// A window of all processes: by memory to some, by messages to the others.
static void allocated_windows_reach_all(void) {
    int *mine;
    MPI_Win win;
    OK(MPI_Win_allocate((MPI_Aint)check_size * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL,
                        MPI_COMM_WORLD, &mine, &win));
    OK(MPI_Win_fence(0, win));
    int value = 7 + check_rank;
    for (int rank = 0; rank < check_size; rank++)
        OK(MPI_Put(&value, 1, MPI_INT, rank, check_rank, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    for (int rank = 0; rank < check_size; rank++) CHECK_EQ(mine[rank], 7 + rank);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
}

int main(void) {
    check_begin();
    REQUIRE(check_size <= 64, "too many processes");
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length;
    OK(MPI_Get_processor_name(name, &length));
    OK(MPI_Allgather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, MPI_COMM_WORLD));
    MPI_Comm machine;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
    shared_memory_is_of_one_host(machine);
    shared_windows_work(machine);
    allocated_windows_reach_all();
    OK(MPI_Comm_free(&machine));
    return check_end();
}
