// Messages of a process to itself: every size, posted before and after, several at once, large ones
// in both directions between adjacent buffers, collectives on MPI_COMM_SELF.
// run: 1 2
#include "check.h"

enum { LARGEST = 1 << 24 };
static unsigned char *out, *in;

static void both_orders(int bytes) {
    MPI_Request request;
    MPI_Status status;
    int count;
    pattern_fill(out, bytes, bytes);
    memset(in, 0, bytes);
    OK(MPI_Irecv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_SELF, &request));
    OK(MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_SELF));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, bytes);
    CHECK_PATTERN(in, bytes, bytes);
    memset(in, 0, bytes);
    OK(MPI_Isend(out, bytes, MPI_BYTE, check_rank, 2, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(status.MPI_SOURCE, check_rank);
    CHECK_PATTERN(in, bytes, bytes);
    memset(in, 0, bytes);
    OK(MPI_Sendrecv(out, bytes, MPI_BYTE, 0, 3, in, bytes, MPI_BYTE, 0, 3, MPI_COMM_SELF, &status));
    CHECK_PATTERN(in, bytes, bytes);
    OK(MPI_Sendrecv_replace(in, bytes, MPI_BYTE, 0, 4, 0, 4, MPI_COMM_SELF, &status));
    CHECK_PATTERN(in, bytes, bytes);
}

static void many_at_once(void) {
    enum { COUNT = 1000 };
    static int values[COUNT], got[COUNT];
    static MPI_Request requests[2 * COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = i;
        OK(MPI_Isend(&values[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]));
    }
    for (int i = 0; i < COUNT; i++)
        OK(MPI_Irecv(&got[i], 1, MPI_INT, 0, COUNT - 1 - i, MPI_COMM_SELF, &requests[COUNT + i]));
    OK(MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++) CHECK_EQ(got[i], COUNT - 1 - i);
}

static void synchronous(void) {
    MPI_Request request;
    int flag, value = 1, got = 0;
    OK(MPI_Issend(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request));
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "not before the receive");
    OK(MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 1);
}

static void collectives(void) {
    int mine = 5, got = 0;
    OK(MPI_Barrier(MPI_COMM_SELF));
    OK(MPI_Bcast(&mine, 1, MPI_INT, 0, MPI_COMM_SELF));
    OK(MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    CHECK_EQ(got, 5);
    got = 0;
    OK(MPI_Alltoall(&mine, 1, MPI_INT, &got, 1, MPI_INT, MPI_COMM_SELF));
    CHECK_EQ(got, 5);
    got = 0;
    OK(MPI_Scan(&mine, &got, 1, MPI_INT, MPI_MAX, MPI_COMM_SELF));
    CHECK_EQ(got, 5);
}

int main(void) {
    check_begin();
    out = malloc(LARGEST);
    in = malloc(LARGEST);
    both_orders(0);
    for (int bytes = 1; bytes <= LARGEST; bytes *= 3) both_orders(bytes);
    both_orders(LARGEST);
    many_at_once();
    synchronous();
    collectives();
    free(out);
    free(in);
    return check_end();
}
