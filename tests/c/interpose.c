// A tool that stands before the library sees each call of the program once, and none of the
// library's own: no MPI_Send from inside MPI_Bcast, no MPI_Barrier from inside MPI_Finalize.
// run: 1 3
// preload: tool_count.c
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

static int count_of(const char *name) {
    int *counter = dlsym(RTLD_DEFAULT, name);
    REQUIRE(counter != NULL, "%s: the tool is not loaded", name);
    return *counter;
}

#define CHECK_COUNT(name, expected) CHECK_EQ(count_of(name), expected)

int main(void) {
    check_begin();
    int value = check_rank, sum = 0, next = (check_rank + 1) % check_size;
    int before = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2];
    MPI_Comm copy;
    MPI_Datatype type;
    static char block[1 << 20], gathered[8];

    CHECK_COUNT("tool_barriers", 0);
    for (int i = 0; i < 5; i++) {
        OK(MPI_Irecv(&sum, 1, MPI_INT, before, 0, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Send(&value, 1, MPI_INT, next, 0, MPI_COMM_WORLD));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    }
    OK(MPI_Irecv(block, 1 << 19, MPI_BYTE, before, 0, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(block + (1 << 19), 1 << 19, MPI_BYTE, next, 0, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Isend(&value, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Recv(&sum, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(&value, 1, MPI_INT, next, 1, &sum, 1, MPI_INT, before, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++)
        OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Bcast(block, 1 << 20, MPI_BYTE, 0, MPI_COMM_WORLD));
    OK(MPI_Allgather(block, 1, MPI_BYTE, gathered, 1, MPI_BYTE, MPI_COMM_WORLD));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &copy));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Type_vector(3, 1, 2, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_free(&type));

    CHECK_COUNT("tool_sends", 5);
    CHECK_COUNT("tool_receives", 1);
    CHECK_COUNT("tool_isends", 2);
    CHECK_COUNT("tool_irecvs", 6);
    CHECK_COUNT("tool_waits", 6);
    CHECK_COUNT("tool_waitalls", 1);
    CHECK_COUNT("tool_allreduces", 3);
    CHECK_COUNT("tool_bcasts", 1);
    CHECK_COUNT("tool_barriers", 1);
    CHECK_COUNT("tool_comm_dups", 1);
    CHECK_COUNT("tool_type_commits", 1);
    OK(MPI_Finalize());
    CHECK_COUNT("tool_finalized", 1);
    CHECK_COUNT("tool_barriers", 1);
    CHECK_COUNT("tool_waits", 6);
    return check_failures != 0;
}
