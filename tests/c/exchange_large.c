// Both ranks send 1 GiB to each other at once, twice: with nonblocking calls and with MPI_Sendrecv.
// run: 2
// timeout: 90
// memory: 6
// alone: fills the memory
#include "check.h"

#define BYTES (1 << 30)

// Touching every byte would measure this loop: words at a stride that is no power of two do.
enum { STRIDE = 4091 };

static void fill(unsigned char *at, int seed) {
    for (size_t i = 0; i < BYTES; i += STRIDE) at[i] = pattern_byte(seed, i);
    at[BYTES - 1] = 0x5a;
}

static void judge(const unsigned char *at, int seed) {
    for (size_t i = 0; i < BYTES - 1; i += STRIDE)
        REQUIRE(at[i] == pattern_byte(seed, i), "byte %zu", i);
    CHECK_EQ(at[BYTES - 1], 0x5a);
}

int main(void) {
    check_begin();
    unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
    int other = 1 - check_rank, count;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    fill(out, check_rank + 1);
    OK(MPI_Irecv(in, BYTES, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(out, BYTES, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    OK(MPI_Get_count(&statuses[0], MPI_BYTE, &count));
    CHECK_EQ(count, BYTES);
    judge(in, other + 1);
    memset(in, 0, BYTES);
    OK(MPI_Sendrecv(out, BYTES, MPI_BYTE, other, 1, in, BYTES, MPI_BYTE, other, 1, MPI_COMM_WORLD,
                    &statuses[0]));
    judge(in, other + 1);
    free(out);
    free(in);
    return check_end();
}
