// A job of many processes on one machine: each exchanges a block with each other one, once, by
// MPI_Alltoall, and a message with its neighbours in a ring. With the argument "wait" rank 0 then
// prints "ready" and waits for a line on standard input, and all others for rank 0; tests/large
// looks at the launcher meanwhile.
// run: 2 5
#include "check.h"

static int value(int from, int to) { return from * 5 + to * 3 + 1; }

static void all_to_all(void) {
    int *out = malloc(check_size * sizeof *out), *in = calloc(check_size, sizeof *in);
    REQUIRE(out && in, "there is memory");
    for (int to = 0; to < check_size; to++) out[to] = value(check_rank, to);
    OK(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD));
    for (int from = 0; from < check_size; from++) CHECK_EQ(in[from], value(from, check_rank));
    free(out);
    free(in);
}

static void ring(void) {
    int above = (check_rank + 1) % check_size, below = (check_rank + check_size - 1) % check_size, in = -1;
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, above, 7, &in, 1, MPI_INT, below, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(in, below);
}

int main(int argc, char **argv) {
    check_begin();
    all_to_all();
    ring();
    if (argc > 1 && !strcmp(argv[1], "wait")) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0) {
            printf("ready\n");
            fflush(stdout);
            getchar();
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return check_end();
}
