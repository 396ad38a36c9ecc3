// MPI_Sendrecv, MPI_Sendrecv_replace, MPI_Isendrecv and MPI_Isendrecv_replace around a ring and
// with MPI_PROC_NULL at the ends, small and large, with different types on both sides.
// run: 1 2 5
// hosts
// checkers: address memory
#include "check.h"

enum { LARGE = 200000 };
static int out[LARGE], in[LARGE], counts[] = {0, 1, 1000, LARGE};

static void around(int count) {
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Status status;
    MPI_Request request;
    int got;
    for (int i = 0; i < count; i++) out[i] = check_rank * 1000000 + i;
    OK(MPI_Sendrecv(out, count, MPI_INT, next, 3, in, count * 4, MPI_BYTE, before, MPI_ANY_TAG,
                    MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_INT, &got));
    CHECK_EQ(got, count);
    if (count) CHECK_EQ(in[count - 1], before * 1000000 + count - 1);
    OK(MPI_Sendrecv_replace(in, count, MPI_INT, before, 4, next, 4, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, next);
    if (count) CHECK_EQ(in[count - 1], check_rank * 1000000 + count - 1);
    OK(MPI_Isendrecv(out, count, MPI_INT, next, 5, in, count, MPI_INT, before, 5, MPI_COMM_WORLD,
                     &request));
    OK(MPI_Wait(&request, &status));
    if (count) CHECK_EQ(in[count - 1], before * 1000000 + count - 1);
    // The status is the receive's; some libraries give the send's.
    if (check_is_combray) CHECK_EQ(status.MPI_SOURCE, before);
    OK(MPI_Isendrecv_replace(in, count, MPI_INT, before, 6, next, 6, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    if (count) CHECK_EQ(in[count - 1], check_rank * 1000000 + count - 1);
}

// A line rather than a ring: its ends have MPI_PROC_NULL beyond them.
static void line(int count) {
    int next = check_rank + 1 < check_size ? check_rank + 1 : MPI_PROC_NULL;
    int before = check_rank > 0 ? check_rank - 1 : MPI_PROC_NULL, got = -1;
    MPI_Status status;
    if (count) {
        out[0] = check_rank;
        in[0] = -5;
    }
    OK(MPI_Sendrecv(out, count, MPI_INT, next, 3, in, count, MPI_INT, before, 3, MPI_COMM_WORLD,
                    &status));
    CHECK_EQ(status.MPI_SOURCE, before);
    if (count) CHECK_EQ(in[0], check_rank > 0 ? before : -5);
    OK(MPI_Get_count(&status, MPI_INT, &got));
    CHECK_EQ(got, before == MPI_PROC_NULL ? 0 : count);
    if (before == MPI_PROC_NULL) CHECK_EQ(status.MPI_TAG, MPI_ANY_TAG);
}

// MPI_Sendrecv_replace of a type with gaps leaves the gaps alone.
static void replace_with_gaps(void) {
    MPI_Datatype gaps;
    MPI_Status status;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    OK(MPI_Type_vector(500, 2, 3, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int i = 0; i < 1500; i++) out[i] = i % 3 == 2 ? -7 : check_rank * 5000 + i;
    OK(MPI_Sendrecv_replace(out, 1, gaps, next, 0, before, 0, MPI_COMM_WORLD, &status));
    for (int i = 0; i < 1499; i++) CHECK_EQ(out[i], i % 3 == 2 ? -7 : before * 5000 + i);
    OK(MPI_Type_free(&gaps));
}

int main(void) {
    check_begin();
    for (int i = 0; i < 4; i++) {
        around(counts[i]);
        line(counts[i]);
    }
    replace_with_gaps();
    return check_end();
}
