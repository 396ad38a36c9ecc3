// A job of many processes on one machine: each exchanges a block with each other one, once, by
// MPI_Alltoall, and a message with its neighbours in a ring. Up to 200 processes also exchange
// messages directly, each with each other one, by MPI_Alltoallv, in place and by a persistent
// request that is started twice. With the argument "wait" rank 0 then prints "ready" and waits for
// a line on standard input, and all others for rank 0; tests/large looks at the launcher meanwhile.
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

static void each_with_each(void) {
    size_t bytes = check_size * sizeof(int);
    int *out = malloc(bytes), *in = malloc(bytes), *ones = malloc(bytes), *places = malloc(bytes);
    REQUIRE(out && in && ones && places, "there is memory");
    for (int to = 0; to < check_size; to++) {
        out[to] = in[to] = value(check_rank, to);
        ones[to] = 1;
        places[to] = to;
    }
    OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_INT, in, ones, places, MPI_INT, MPI_COMM_WORLD));
    for (int from = 0; from < check_size; from++) CHECK_EQ(in[from], value(from, check_rank));
    MPI_Request request;
    OK(MPI_Alltoallv_init(out, ones, places, MPI_INT, in, ones, places, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int turn = 0; turn < 2; turn++) {
        for (int from = 0; from < check_size; from++) in[from] = -1;
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int from = 0; from < check_size; from++) CHECK_EQ(in[from], value(from, check_rank));
    }
    OK(MPI_Request_free(&request));
    free(out);
    free(in);
    free(ones);
    free(places);
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
    if (check_size <= 200) each_with_each();
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
