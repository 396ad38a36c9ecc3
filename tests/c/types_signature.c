// One signature, two layouts: a message leaves with one datatype and arrives with another. Partial
// receives, MPI_Get_count and MPI_Get_elements, absolute addresses, overlapping blocks on the
// sending side, negative strides, empty types, types freed while in use.
// run: 1 2
#include "check.h"
#include <stddef.h>

enum { N = 120, LARGE_N = 60000 };
static int to, from;

static void exchange(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                     MPI_Datatype in_type, MPI_Status *status) {
    OK(MPI_Sendrecv(out, out_count, out_type, to, 0, in, in_count, in_type, from, 0, MPI_COMM_WORLD,
                    status));
}

static MPI_Datatype committed(MPI_Datatype type) {
    OK(MPI_Type_commit(&type));
    return type;
}

// A matrix goes as rows and comes as columns: the transpose, small and large.
static void transpose(int n) {
    MPI_Datatype column, columns;
    int *out = malloc(sizeof(int) * n * n), *in = malloc(sizeof(int) * n * n), wrong = 0;
    for (int i = 0; i < n * n; i++) out[i] = i;
    OK(MPI_Type_vector(n, 1, n, MPI_INT, &column));
    OK(MPI_Type_create_resized(column, 0, sizeof(int), &columns));
    columns = committed(columns);
    exchange(out, n * n, MPI_INT, in, n, columns, MPI_STATUS_IGNORE);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) wrong += in[i * n + j] != out[j * n + i];
    CHECK_EQ(wrong, 0);
    exchange(out, n, columns, in, n * n, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) wrong += in[i * n + j] != out[j * n + i];
    CHECK_EQ(wrong, 0);
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&columns));
    free(out);
    free(in);
}

// A struct of arrays to an array of structs.
static void structures(void) {
    struct pair {
        double d;
        int i;
    } pairs[N];
    struct {
        double d[N];
        int i[N];
    } arrays;
    MPI_Datatype one, all, interleaved;
    int lengths[2 * N];
    MPI_Aint places[2 * N];
    MPI_Datatype types[2 * N];
    int pair_lengths[2] = {1, 1};
    MPI_Aint pair_places[2] = {offsetof(struct pair, d), offsetof(struct pair, i)};
    MPI_Datatype pair_types[2] = {MPI_DOUBLE, MPI_INT};
    for (int i = 0; i < N; i++) {
        arrays.d[i] = i * 0.5;
        arrays.i[i] = -i;
        lengths[2 * i] = lengths[2 * i + 1] = 1;
        MPI_Get_address(&arrays.d[i], &places[2 * i]);
        MPI_Get_address(&arrays.i[i], &places[2 * i + 1]);
        types[2 * i] = MPI_DOUBLE;
        types[2 * i + 1] = MPI_INT;
    }
    OK(MPI_Type_create_struct(2 * N, lengths, places, types, &all));
    OK(MPI_Type_create_struct(2, pair_lengths, pair_places, pair_types, &one));
    OK(MPI_Type_create_resized(one, 0, sizeof(struct pair), &interleaved));
    all = committed(all);
    interleaved = committed(interleaved);
    memset(pairs, 0, sizeof pairs);
    exchange(MPI_BOTTOM, 1, all, pairs, N, interleaved, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++) CHECK(pairs[i].d == i * 0.5 && pairs[i].i == -i, "pair %d", i);
    memset(&arrays, 0, sizeof arrays);
    exchange(pairs, N, interleaved, MPI_BOTTOM, 1, all, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++) CHECK(arrays.d[i] == i * 0.5 && arrays.i[i] == -i, "place %d", i);
    OK(MPI_Type_free(&all));
    OK(MPI_Type_free(&one));
    OK(MPI_Type_free(&interleaved));
}

// Fewer elements come than the type holds: counts and elements.
static void partial(void) {
    MPI_Datatype triple;
    MPI_Status status;
    int values[30], count, elements;
    MPI_Count elements_c;
    OK(MPI_Type_vector(3, 1, 2, MPI_INT, &triple));
    triple = committed(triple);
    for (int sent = 0; sent <= 12; sent++) {
        int out[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
        for (int i = 0; i < 30; i++) values[i] = -1;
        exchange(out, sent, MPI_INT, values, 4, triple, &status);
        OK(MPI_Get_count(&status, triple, &count));
        OK(MPI_Get_elements(&status, triple, &elements));
        OK(MPI_Get_elements_c(&status, triple, &elements_c));
        CHECK_EQ(count, sent % 3 ? MPI_UNDEFINED : sent / 3);
        CHECK_EQ(elements, sent);
        CHECK_EQ(elements_c, sent);
        // Extent 5 ints: element i of copy c stands at 5 * c + 2 * i.
        for (int i = 0; i < 12; i++) CHECK_EQ(values[5 * (i / 3) + 2 * (i % 3)], i < sent ? i : -1);
    }
    OK(MPI_Type_free(&triple));
}

static void backwards(void) {
    MPI_Datatype reverse, twice;
    int out[N], in[N], repeated[2 * N];
    for (int i = 0; i < N; i++) out[i] = i;
    OK(MPI_Type_vector(N, 1, -1, MPI_INT, &reverse));
    reverse = committed(reverse);
    exchange(out, N, MPI_INT, &in[N - 1], 1, reverse, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++) CHECK_EQ(in[i], N - 1 - i);
    // Bytes that occur twice in one send are right (on the receiving side they would not be).
    OK(MPI_Type_create_hvector(2, N, 0, MPI_INT, &twice));
    twice = committed(twice);
    exchange(out, 1, twice, repeated, 2 * N, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2 * N; i++) CHECK_EQ(repeated[i], i % N);
    OK(MPI_Type_free(&reverse));
    OK(MPI_Type_free(&twice));
}

static void empty_types(void) {
    MPI_Datatype nothing;
    MPI_Status status;
    MPI_Aint lower, extent;
    int value = 3, count, size;
    OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    nothing = committed(nothing);
    OK(MPI_Type_size(nothing, &size));
    CHECK_EQ(size, 0);
    OK(MPI_Type_get_extent(nothing, &lower, &extent));
    CHECK_EQ(extent, 0);
    exchange(&value, 5, nothing, &value, 5, nothing, &status);
    OK(MPI_Get_count(&status, nothing, &count));
    CHECK_EQ(count, 0);
    OK(MPI_Type_free(&nothing));
    OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &nothing));
    nothing = committed(nothing);
    exchange(NULL, 1, nothing, NULL, 1, nothing, &status);
    OK(MPI_Type_free(&nothing));
}

// A type, and the type that it was made from, may be freed while a message with it is underway.
static void freed_in_use(void) {
    MPI_Datatype inner, outer;
    MPI_Request requests[2];
    int *out = malloc(sizeof(int) * LARGE_N * 2), *in = calloc(LARGE_N, sizeof(int));
    for (int i = 0; i < LARGE_N * 2; i++) out[i] = i;
    OK(MPI_Type_vector(10, 1, 2, MPI_INT, &inner));
    OK(MPI_Type_create_resized(inner, 0, 20 * sizeof(int), &outer));
    OK(MPI_Type_free(&inner));
    outer = committed(outer);
    OK(MPI_Isend(out, LARGE_N / 10, outer, to, 0, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Type_free(&outer));
    CHECK(outer == MPI_DATATYPE_NULL, "null");
    OK(MPI_Irecv(in, LARGE_N, MPI_INT, from, 0, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    int wrong = 0;
    for (int i = 0; i < LARGE_N; i++) wrong += in[i] != 2 * i;
    CHECK_EQ(wrong, 0);
    free(out);
    free(in);
}

// A block of 64 bytes, and one of 256 KiB, at irregular places.
static void blocks(int bytes) {
    enum { COUNT = 16 };
    int places[COUNT], next = 0;
    MPI_Datatype type;
    Random random = random_from(bytes);
    for (int i = 0; i < COUNT; i++) {
        places[i] = next;
        next += bytes + 8 * random_below(&random, 20);
    }
    unsigned char *out = malloc(next), *in = malloc(next);
    pattern_fill(out, next, 1);
    memset(in, 0, next);
    OK(MPI_Type_create_indexed_block(COUNT, bytes, places, MPI_BYTE, &type));
    type = committed(type);
    exchange(out, 1, type, in, 1, type, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++)
        CHECK(!memcmp(in + places[i], out + places[i], bytes), "block %d of %d bytes", i, bytes);
    OK(MPI_Type_free(&type));
    free(out);
    free(in);
}

int main(void) {
    check_begin();
    to = (check_rank + 1) % check_size;
    from = (check_rank + check_size - 1) % check_size;
    transpose(7);
    transpose(100);
    transpose(1000);
    structures();
    partial();
    backwards();
    empty_types();
    freed_in_use();
    for (int bytes = 1; bytes <= 1 << 18; bytes *= 4) blocks(bytes);
    return check_end();
}
