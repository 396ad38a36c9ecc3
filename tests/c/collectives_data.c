// The collectives that move data, with every root, zero to large counts, MPI_IN_PLACE, uneven and
// empty shares, and derived types on one side.
// run: 1 2 3 5 8
// hosts
// checkers: address memory
#include "check.h"

enum { LARGE = 20000, RANKS_MAX = 16 };
static int *in, *out;
static MPI_Datatype spaced;

static int value(int rank, int at) { return rank * 100003 + at * 7 + 1; }

static void fill(int *at, int rank, int count, int shift) {
    for (int i = 0; i < count; i++) at[i] = value(rank, i + shift);
}

static void judge(const char *name, const int *at, int rank, int count, int shift) {
    for (int i = 0; i < count; i++)
        if (at[i] != value(rank, i + shift)) {
            check_fail(__FILE__, __LINE__, 0, "%s of %d: element %d is %d, not %d", name, count, i,
                       at[i], value(rank, i + shift));
            return;
        }
}

static void rooted(int count, int root) {
    MPI_Comm world = MPI_COMM_WORLD;
    int all = count * check_size, is_root = check_rank == root;
    fill(in, is_root ? root : 99, count, 0);
    OK(MPI_Bcast(in, count, MPI_INT, root, world));
    judge("MPI_Bcast", in, root, count, 0);
    fill(in, check_rank, count, 0);
    memset(out, 0, sizeof(int) * all);
    OK(MPI_Gather(in, count, MPI_INT, out, count, MPI_INT, root, world));
    for (int rank = 0; is_root && rank < check_size; rank++)
        judge("MPI_Gather", out + rank * count, rank, count, 0);
    if (is_root) fill(out + root * count, root, count, 0);
    OK(MPI_Gather(is_root ? MPI_IN_PLACE : in, count, MPI_INT, out, count, MPI_INT, root, world));
    for (int rank = 0; is_root && rank < check_size; rank++)
        judge("MPI_Gather in place", out + rank * count, rank, count, 0);
    fill(in, root, all, 0);
    memset(out, 0, sizeof(int) * all);
    OK(MPI_Scatter(in, count, MPI_INT, out, count, MPI_INT, root, world));
    judge("MPI_Scatter", out, root, count, check_rank * count);
    OK(MPI_Scatter(in, count, MPI_INT, is_root ? MPI_IN_PLACE : out, count, MPI_INT, root, world));
    judge("MPI_Scatter in place", is_root ? in + root * count : out, root, count,
          check_rank * count);
}

// Rank r has r % 3 * count / 2 elements; a hole of 3 between the places.
static void rooted_uneven(int count, int root) {
    int counts[RANKS_MAX], places[RANKS_MAX], next = 0, is_root = check_rank == root;
    for (int rank = 0; rank < check_size; rank++) {
        counts[rank] = rank % 3 * count / 2;
        places[rank] = next;
        next += counts[rank] + 3;
    }
    fill(in, check_rank, counts[check_rank], 0);
    memset(out, 0xEE, sizeof(int) * next);
    OK(MPI_Gatherv(in, counts[check_rank], MPI_INT, out, counts, places, MPI_INT, root,
                   MPI_COMM_WORLD));
    for (int rank = 0; is_root && rank < check_size; rank++) {
        judge("MPI_Gatherv", out + places[rank], rank, counts[rank], 0);
        CHECK_EQ(out[places[rank] + counts[rank]], (int)0xEEEEEEEE);
    }
    fill(in, root, next, 0);
    OK(MPI_Scatterv(in, counts, places, MPI_INT, out, counts[check_rank], MPI_INT, root,
                    MPI_COMM_WORLD));
    judge("MPI_Scatterv", out, root, counts[check_rank], places[check_rank]);
    OK(MPI_Scatterv(in, counts, places, MPI_INT, is_root ? MPI_IN_PLACE : out, counts[check_rank],
                    MPI_INT, root, MPI_COMM_WORLD));
    if (!is_root) judge("MPI_Scatterv in place", out, root, counts[check_rank], places[check_rank]);
}

// Blocks of different sizes, one after the other or backwards with gaps, which stay as they are.
static void to_all_of_sizes(int count, int has_gaps, int is_in_place) {
    const char *call = is_in_place ? "MPI_Allgatherv in place" : "MPI_Allgatherv";
    int counts[RANKS_MAX], places[RANKS_MAX], next = 0;
    for (int number = 0; number < check_size; number++) {
        int rank = has_gaps ? check_size - 1 - number : number;
        counts[rank] = (rank + 1) % 3 * count / 2;
        places[rank] = next;
        next += counts[rank] + has_gaps;
    }
    memset(out, 0xEE, sizeof(int) * next);
    fill(is_in_place ? out + places[check_rank] : in, check_rank, counts[check_rank], 0);
    OK(MPI_Allgatherv(is_in_place ? MPI_IN_PLACE : in, counts[check_rank], MPI_INT, out, counts, places, MPI_INT,
                      MPI_COMM_WORLD));
    for (int rank = 0; rank < check_size; rank++) {
        judge(call, out + places[rank], rank, counts[rank], 0);
        if (has_gaps) CHECK_EQ(out[places[rank] + counts[rank]], (int)0xEEEEEEEE);
    }
}

static void to_all(int count) {
    MPI_Comm world = MPI_COMM_WORLD;
    fill(in, check_rank, count, 0);
    OK(MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, world));
    for (int rank = 0; rank < check_size; rank++)
        judge("MPI_Allgather", out + rank * count, rank, count, 0);
    memset(out, 0, sizeof(int) * count * check_size);
    fill(out + check_rank * count, check_rank, count, 0);
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, MPI_INT, world));
    for (int rank = 0; rank < check_size; rank++)
        judge("MPI_Allgather in place", out + rank * count, rank, count, 0);
    fill(in, check_rank, count * check_size, 0);
    OK(MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, world));
    for (int rank = 0; rank < check_size; rank++)
        judge("MPI_Alltoall", out + rank * count, rank, count, check_rank * count);
    OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, count, MPI_INT, world));
    for (int rank = 0; rank < check_size; rank++)
        judge("MPI_Alltoall in place", in + rank * count, rank, count, check_rank * count);
}

// From rank s to rank r go (s + 2r) % 4 * count / 3 elements.
static int share(int from, int to, int count) { return (from + 2 * to) % 4 * count / 3; }

static void to_all_uneven(int count) {
    int out_counts[RANKS_MAX], out_places[RANKS_MAX], in_counts[RANKS_MAX], in_places[RANKS_MAX];
    int out_bytes[RANKS_MAX], in_bytes[RANKS_MAX], next_out = 0, next_in = 0;
    MPI_Datatype types[RANKS_MAX];
    for (int rank = 0; rank < check_size; rank++) {
        in_counts[rank] = share(check_rank, rank, count);
        out_counts[rank] = share(rank, check_rank, count);
        in_places[rank] = next_in;
        out_places[rank] = next_out;
        in_bytes[rank] = next_in * (int)sizeof(int);
        out_bytes[rank] = next_out * (int)sizeof(int);
        types[rank] = MPI_INT;
        next_in += in_counts[rank] + 1;
        next_out += out_counts[rank] + 2;
    }
    for (int rank = 0; rank < check_size; rank++)
        fill(in + in_places[rank], check_rank, in_counts[rank], rank * 10);
    OK(MPI_Alltoallv(in, in_counts, in_places, MPI_INT, out, out_counts, out_places, MPI_INT,
                     MPI_COMM_WORLD));
    for (int rank = 0; rank < check_size; rank++)
        judge("MPI_Alltoallv", out + out_places[rank], rank, out_counts[rank], check_rank * 10);
    memset(out, 0, sizeof(int) * next_out);
    OK(MPI_Alltoallw(in, in_counts, in_bytes, types, out, out_counts, out_bytes, types,
                     MPI_COMM_WORLD));
    for (int rank = 0; rank < check_size; rank++)
        judge("MPI_Alltoallw", out + out_places[rank], rank, out_counts[rank], check_rank * 10);
}

// Every other int here, contiguous ints there.
static void derived(int count, int root) {
    for (int i = 0; i < count; i++) {
        in[2 * i] = value(check_rank, i);
        in[2 * i + 1] = -1;
    }
    OK(MPI_Gather(in, count, spaced, out, count, MPI_INT, root, MPI_COMM_WORLD));
    for (int rank = 0; check_rank == root && rank < check_size; rank++)
        judge("MPI_Gather of a derived type", out + rank * count, rank, count, 0);
    memset(out, 0xEE, sizeof(int) * 2 * count * check_size);
    OK(MPI_Allgather(in, count, spaced, out, count, spaced, MPI_COMM_WORLD));
    for (int rank = 0; rank < check_size; rank++)
        for (int i = 0; i < count; i++) {
            CHECK_EQ(out[2 * (rank * count + i)], value(rank, i));
            CHECK_EQ(out[2 * (rank * count + i) + 1], (int)0xEEEEEEEE);
        }
    OK(MPI_Bcast(in, count, spaced, root, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) CHECK_EQ(in[2 * i], value(root, i));
    if (count) CHECK_EQ(in[1], -1);
}

int main(void) {
    check_begin();
    in = malloc(sizeof(int) * (LARGE + 8) * RANKS_MAX * 2);
    out = malloc(sizeof(int) * (LARGE + 8) * RANKS_MAX * 2);
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced));
    OK(MPI_Type_commit(&spaced));
    int counts[] = {0, 1, 6, 1000, LARGE};
    for (int i = 0; i < 5; i++) {
        for (int root = 0; root < check_size; root++) {
            rooted(counts[i], root);
            rooted_uneven(counts[i], root);
            derived(counts[i] / 2, root);
        }
        to_all(counts[i]);
        for (int form = 0; form < 4; form++) to_all_of_sizes(counts[i], form / 2, form % 2);
        to_all_uneven(counts[i]);
    }
    OK(MPI_Type_free(&spaced));
    free(in);
    free(out);
    return check_end();
}
