// Operations of the program: commutative or not (then in the order of the ranks, for every root),
// on derived types, from the _c constructor, for large counts; each reduction collective.
// run: 1 2 3 5 8
#include "check.h"

// 2x2 matrices over the integers modulo a prime: associative, not commutative.
typedef struct {
    uint32_t a, b, c, d;
} Matrix;

enum { PRIME = 65521 };

static Matrix times(Matrix x, Matrix y) {
    return (Matrix){(uint32_t)(((uint64_t)x.a * y.a + (uint64_t)x.b * y.c) % PRIME),
                    (uint32_t)(((uint64_t)x.a * y.b + (uint64_t)x.b * y.d) % PRIME),
                    (uint32_t)(((uint64_t)x.c * y.a + (uint64_t)x.d * y.c) % PRIME),
                    (uint32_t)(((uint64_t)x.c * y.b + (uint64_t)x.d * y.d) % PRIME)};
}

static Matrix matrix(int rank, int at) {
    return (Matrix){rank * 31 + at + 1, at % 17 + 2, rank + 3, at * 7 + rank + 1};
}

static int calls;

// inoutvec = invec op inoutvec: the operand of the lower ranks comes first.
static void multiply(void *in, void *inout, int *length, MPI_Datatype *type) {
    int size;
    PMPI_Type_size(*type, &size);
    calls++;
    for (int i = 0; i < *length; i++)
        ((Matrix *)inout)[i] = times(((Matrix *)in)[i], ((Matrix *)inout)[i]);
}

static void multiply_c(void *in, void *inout, MPI_Count *length, MPI_Datatype *type) {
    (void)type;
    for (MPI_Count i = 0; i < *length; i++)
        ((Matrix *)inout)[i] = times(((Matrix *)in)[i], ((Matrix *)inout)[i]);
}

static Matrix *in, *out, *expected;
static MPI_Datatype type;

// The product of ranks first..=last.
static void expect(int first, int last, int count) {
    for (int i = 0; i < count; i++) {
        expected[i] = matrix(first, i);
        for (int rank = first + 1; rank <= last; rank++)
            expected[i] = times(expected[i], matrix(rank, i));
    }
}

#define JUDGE(name, count)                                                                         \
    CHECK(!memcmp(out, expected, sizeof(Matrix) * (count)), name " of %d with %d ranks", count,    \
          check_size)

static void all_collectives(int count, MPI_Op op) {
    for (int i = 0; i < count; i++) in[i] = matrix(check_rank, i);
    for (int root = 0; root < check_size; root++) {
        memset(out, 0, sizeof(Matrix) * count);
        OK(MPI_Reduce(in, out, count, type, op, root, MPI_COMM_WORLD));
        expect(0, check_size - 1, count);
        if (check_rank == root) JUDGE("MPI_Reduce", count);
    }
    OK(MPI_Allreduce(in, out, count, type, op, MPI_COMM_WORLD));
    JUDGE("MPI_Allreduce", count);
    memcpy(out, in, sizeof(Matrix) * count);
    OK(MPI_Allreduce(MPI_IN_PLACE, out, count, type, op, MPI_COMM_WORLD));
    JUDGE("MPI_Allreduce in place", count);
    OK(MPI_Scan(in, out, count, type, op, MPI_COMM_WORLD));
    expect(0, check_rank, count);
    JUDGE("MPI_Scan", count);
    memcpy(out, in, sizeof(Matrix) * count);
    OK(MPI_Scan(MPI_IN_PLACE, out, count, type, op, MPI_COMM_WORLD));
    JUDGE("MPI_Scan in place", count);
    OK(MPI_Exscan(in, out, count, type, op, MPI_COMM_WORLD));
    if (check_rank > 0) {
        expect(0, check_rank - 1, count);
        JUDGE("MPI_Exscan", count);
    }
    memcpy(out, in, sizeof(Matrix) * count);
    OK(MPI_Exscan(MPI_IN_PLACE, out, count, type, op, MPI_COMM_WORLD));
    if (check_rank > 0) JUDGE("MPI_Exscan in place", count);
}

// Each rank gets a share of the result: equal shares, then unequal ones, some of them empty.
static void scattered(int share, MPI_Op op) {
    int total = share * check_size, counts[64], begin = 0;
    for (int i = 0; i < total; i++) in[i] = matrix(check_rank, i);
    OK(MPI_Reduce_scatter_block(in, out, share, type, op, MPI_COMM_WORLD));
    expect(0, check_size - 1, total);
    CHECK(!memcmp(out, expected + check_rank * share, sizeof(Matrix) * share),
          "MPI_Reduce_scatter_block of %d", share);
    int left = total;
    for (int rank = 0; rank < check_size; rank++) {
        counts[rank] = rank == check_size - 1 ? left : rank % 3 * share / 2;
        if (rank < check_rank) begin += counts[rank];
        left -= counts[rank];
    }
    OK(MPI_Reduce_scatter(in, out, counts, type, op, MPI_COMM_WORLD));
    CHECK(!memcmp(out, expected + begin, sizeof(Matrix) * counts[check_rank]),
          "MPI_Reduce_scatter of %d", counts[check_rank]);
    memcpy(out, in, sizeof(Matrix) * total);
    OK(MPI_Reduce_scatter(MPI_IN_PLACE, out, counts, type, op, MPI_COMM_WORLD));
    CHECK(!memcmp(out, expected + begin, sizeof(Matrix) * counts[check_rank]),
          "MPI_Reduce_scatter in place of %d", counts[check_rank]);
}

static void local(MPI_Op op) {
    int commutes;
    OK(MPI_Op_commutative(op, &commutes));
    CHECK_EQ(commutes, 0);
    in[0] = matrix(1, 1);
    out[0] = matrix(2, 2);
    OK(MPI_Reduce_local(in, out, 1, type, op));
    expected[0] = times(matrix(1, 1), matrix(2, 2));
    CHECK(!memcmp(out, expected, sizeof(Matrix)), "MPI_Reduce_local: in op inout");
}

// Queries the extent of the datatype that it receives, as it may not know it otherwise.
static void add_apart(void *left, void *right, int *count, MPI_Datatype *apart) {
    MPI_Aint lower, extent;
    OK(MPI_Type_get_extent(*apart, &lower, &extent));
    CHECK_EQ(extent, 2 * sizeof(int));
    for (int i = 0; i < *count; i++) {
        int *to = (int *)((char *)right + i * extent);
        *to += *(int *)((char *)left + i * extent);
    }
}

// The program frees operation and datatype while the reduction is underway, and before a persistent
// one begins; the function still gets a datatype that it can query.
static void freed_early(int persistent) {
    enum { COUNT = 5 };
    int from[2 * COUNT] = {0}, to[2 * COUNT] = {0};
    for (int i = 0; i < COUNT; i++) from[2 * i] = check_rank + i;
    MPI_Datatype apart;
    MPI_Op op;
    MPI_Request request;
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &apart));
    OK(MPI_Type_commit(&apart));
    OK(MPI_Op_create(add_apart, 1, &op));
    if (persistent)
        OK(MPI_Allreduce_init(from, to, COUNT, apart, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    else
        OK(MPI_Iallreduce(from, to, COUNT, apart, op, MPI_COMM_WORLD, &request));
    OK(MPI_Type_free(&apart));
    OK(MPI_Op_free(&op));
    if (persistent) OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(to[2 * i], check_size * i + check_size * (check_size - 1) / 2);
    if (persistent) OK(MPI_Request_free(&request));
}

int main(void) {
    check_begin();
    freed_early(0);
    freed_early(1);
    enum { LARGE = 5000 };
    int bytes = sizeof(Matrix) * LARGE * 8;
    MPI_Op op, op_c;
    in = malloc(bytes);
    out = malloc(bytes);
    expected = malloc(bytes);
    OK(MPI_Type_contiguous(4, MPI_UINT32_T, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Op_create(multiply, 0, &op));
    OK(MPI_Op_create_c(multiply_c, 0, &op_c));
    int counts[] = {0, 1, 2, 100, LARGE};
    for (int i = 0; i < 5; i++) {
        all_collectives(counts[i], op);
        scattered(counts[i], op);
    }
    all_collectives(50, op_c);
    local(op);
    if (check_size > 1) CHECK(calls > 0, "the operation was called");
    OK(MPI_Op_free(&op));
    OK(MPI_Op_free(&op_c));
    OK(MPI_Type_free(&type));
    free(in);
    free(out);
    free(expected);
    return check_end();
}
