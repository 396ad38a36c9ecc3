// Constructors, envelopes and contents: what a type was made of comes back; wrong arguments of
// every constructor; names, duplicates, the _c forms.
// run: 1
// checkers: address
#include "check.h"

static MPI_Datatype type;

static void check_envelope(int combiner, int integers, int addresses, int types) {
    int got_integers, got_addresses, got_types, got_combiner;
    OK(MPI_Type_get_envelope(type, &got_integers, &got_addresses, &got_types, &got_combiner));
    CHECK_EQ(got_combiner, combiner);
    CHECK_EQ(got_integers, integers);
    CHECK_EQ(got_addresses, addresses);
    CHECK_EQ(got_types, types);
}

static void check_contents(int integers, const int *expected, int addresses,
                           const MPI_Aint *expected_addresses, MPI_Datatype first) {
    int got[32];
    MPI_Aint got_addresses[8];
    MPI_Datatype got_types[8];
    OK(MPI_Type_get_contents(type, 32, 8, 8, got, got_addresses, got_types));
    for (int i = 0; i < integers; i++) CHECK_EQ(got[i], expected[i]);
    for (int i = 0; i < addresses; i++) CHECK_EQ(got_addresses[i], expected_addresses[i]);
    CHECK(got_types[0] == first, "the type below");
    OK(MPI_Type_free(&type));
}

static void constructors(void) {
    int lengths[2] = {2, 1}, places[2] = {0, 5};
    MPI_Aint bytes[2] = {0, 40};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    type = MPI_INT;
    check_envelope(MPI_COMBINER_NAMED, 0, 0, 0);
    OK(MPI_Type_dup(MPI_DOUBLE, &type));
    check_envelope(MPI_COMBINER_DUP, 0, 0, 1);
    check_contents(0, NULL, 0, NULL, MPI_DOUBLE);
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    check_envelope(MPI_COMBINER_CONTIGUOUS, 1, 0, 1);
    check_contents(1, (int[]){3}, 0, NULL, MPI_INT);
    OK(MPI_Type_vector(3, 2, 5, MPI_INT, &type));
    check_envelope(MPI_COMBINER_VECTOR, 3, 0, 1);
    check_contents(3, (int[]){3, 2, 5}, 0, NULL, MPI_INT);
    OK(MPI_Type_create_hvector(3, 2, 50, MPI_INT, &type));
    check_envelope(MPI_COMBINER_HVECTOR, 2, 1, 1);
    check_contents(2, (int[]){3, 2}, 1, (MPI_Aint[]){50}, MPI_INT);
    OK(MPI_Type_indexed(2, lengths, places, MPI_INT, &type));
    check_envelope(MPI_COMBINER_INDEXED, 5, 0, 1);
    check_contents(5, (int[]){2, 2, 1, 0, 5}, 0, NULL, MPI_INT);
    OK(MPI_Type_create_hindexed(2, lengths, bytes, MPI_INT, &type));
    check_envelope(MPI_COMBINER_HINDEXED, 3, 2, 1);
    check_contents(3, (int[]){2, 2, 1}, 2, bytes, MPI_INT);
    OK(MPI_Type_create_indexed_block(2, 4, places, MPI_INT, &type));
    check_envelope(MPI_COMBINER_INDEXED_BLOCK, 4, 0, 1);
    check_contents(4, (int[]){2, 4, 0, 5}, 0, NULL, MPI_INT);
    OK(MPI_Type_create_hindexed_block(2, 4, bytes, MPI_INT, &type));
    check_envelope(MPI_COMBINER_HINDEXED_BLOCK, 2, 2, 1);
    check_contents(2, (int[]){2, 4}, 2, bytes, MPI_INT);
    OK(MPI_Type_create_struct(2, lengths, bytes, types, &type));
    check_envelope(MPI_COMBINER_STRUCT, 3, 2, 2);
    check_contents(3, (int[]){2, 2, 1}, 2, bytes, MPI_INT);
    OK(MPI_Type_create_resized(MPI_INT, -4, 16, &type));
    check_envelope(MPI_COMBINER_RESIZED, 0, 2, 1);
    check_contents(0, NULL, 2, (MPI_Aint[]){-4, 16}, MPI_INT);
    OK(MPI_Type_create_subarray(2, (int[]){6, 7}, (int[]){2, 3}, (int[]){1, 4}, MPI_ORDER_C, MPI_INT,
                                &type));
    check_envelope(MPI_COMBINER_SUBARRAY, 8, 0, 1);
    check_contents(8, (int[]){2, 6, 7, 2, 3, 1, 4, MPI_ORDER_C}, 0, NULL, MPI_INT);
    OK(MPI_Type_create_darray(4, 1, 1, (int[]){10}, (int[]){MPI_DISTRIBUTE_BLOCK},
                              (int[]){MPI_DISTRIBUTE_DFLT_DARG}, (int[]){4}, MPI_ORDER_C, MPI_INT,
                              &type));
    check_envelope(MPI_COMBINER_DARRAY, 8, 0, 1);
    check_contents(8,
                   (int[]){4, 1, 1, 10, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG, 4,
                           MPI_ORDER_C},
                   0, NULL, MPI_INT);
}

// Block-cyclic and cyclic distributions of all processes together cover the array once.
static void darray_covers(int distribution, int argument, int fortran) {
    enum { ROWS = 11, COLUMNS = 7, PROCESSES = 6 };
    int seen[ROWS * COLUMNS] = {0};
    for (int rank = 0; rank < PROCESSES; rank++) {
        int one[ROWS * COLUMNS] = {0}, size, ones[ROWS * COLUMNS], position = 0;
        for (int i = 0; i < ROWS * COLUMNS; i++) ones[i] = 1;
        OK(MPI_Type_create_darray(PROCESSES, rank, 2, (int[]){ROWS, COLUMNS},
                                  (int[]){distribution, distribution}, (int[]){argument, argument},
                                  (int[]){3, 2}, fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, MPI_INT,
                                  &type));
        OK(MPI_Type_commit(&type));
        OK(MPI_Type_size(type, &size));
        OK(MPI_Unpack(ones, sizeof ones, &position, one, 1, type, MPI_COMM_SELF));
        CHECK_EQ(position, size);
        for (int i = 0; i < ROWS * COLUMNS; i++) seen[i] += one[i];
        MPI_Aint lower, extent;
        OK(MPI_Type_get_extent(type, &lower, &extent));
        CHECK_EQ(lower, 0);
        CHECK_EQ(extent, sizeof seen);
        OK(MPI_Type_free(&type));
    }
    for (int i = 0; i < ROWS * COLUMNS; i++)
        CHECK(seen[i] == 1, "distribution %d(%d): element %d is held %d times", distribution,
              argument, i, seen[i]);
}

static void wrong_arguments(void) {
    int lengths[2] = {1, -3}, places[2] = {0, 0};
    MPI_Aint bytes[2] = {0, 0};
    MPI_Datatype types[2] = {MPI_INT, MPI_DATATYPE_NULL};
    EXPECT_ERROR(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT, "count", "-1");
    EXPECT_ERROR(MPI_Type_vector(-2, 1, 1, MPI_INT, &type), MPI_ERR_COUNT, "count", "-2");
    EXPECT_ERROR(MPI_Type_vector(1, -2, 1, MPI_INT, &type), MPI_ERR_ARG, "block length", "-2");
    EXPECT_ERROR(MPI_Type_indexed(2, lengths, places, MPI_INT, &type), MPI_ERR_ARG, "block length",
                 "-3");
    EXPECT_ERROR(MPI_Type_create_hindexed(2, lengths, bytes, MPI_INT, &type), MPI_ERR_ARG,
                 "block length", "-3");
    EXPECT_ERROR(MPI_Type_create_indexed_block(2, -1, places, MPI_INT, &type), MPI_ERR_ARG,
                 "block length", "-1");
    EXPECT_ERROR(MPI_Type_create_struct(2, (int[]){1, 1}, bytes, types, &type), MPI_ERR_TYPE,
                 "types");
    EXPECT_ERROR(MPI_Type_create_subarray(1, (int[]){4}, (int[]){5}, (int[]){0}, MPI_ORDER_C,
                                          MPI_INT, &type),
                 MPI_ERR_ARG, "subsize", "5");
    EXPECT_ERROR(MPI_Type_create_subarray(1, (int[]){4}, (int[]){2}, (int[]){3}, MPI_ORDER_C,
                                          MPI_INT, &type),
                 MPI_ERR_ARG, "start", "3");
    EXPECT_ERROR(MPI_Type_create_subarray(1, (int[]){4}, (int[]){2}, (int[]){1}, 99, MPI_INT, &type),
                 MPI_ERR_ARG, "order", "99");
    type = MPI_INT;
    EXPECT_ERROR(MPI_Type_free(&type), MPI_ERR_TYPE, "datatype", "MPI_INT");
    int integers[1];
    EXPECT_ERROR(MPI_Type_get_contents(MPI_INT, 1, 1, 1, integers, bytes, types), MPI_ERR_TYPE,
                 "MPI_INT");
}

static void names(void) {
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    OK(MPI_Type_get_name(MPI_INT, name, &length));
    CHECK(!strcmp(name, "MPI_INT") && length == 7, "%s", name);
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_get_name(type, name, &length));
    CHECK_EQ(length, 0);
    OK(MPI_Type_set_name(type, "two of them"));
    OK(MPI_Type_get_name(type, name, &length));
    CHECK(!strcmp(name, "two of them"), "%s", name);
    OK(MPI_Type_free(&type));
}

// Displacements past 2^31 need the _c forms and MPI_Count.
static void large(void) {
    MPI_Count lower, extent, size, integers, addresses, counts, types;
    int combiner;
    OK(MPI_Type_vector_c(3, 1, (MPI_Count)1 << 40, MPI_BYTE, &type));
    OK(MPI_Type_get_extent_c(type, &lower, &extent));
    CHECK_EQ(extent, ((int64_t)1 << 41) + 1);
    OK(MPI_Type_size_c(type, &size));
    CHECK_EQ(size, 3);
    OK(MPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_VECTOR);
    CHECK_EQ(integers + addresses + counts, 3);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_contiguous_c((MPI_Count)1 << 35, MPI_INT, &type));
    OK(MPI_Type_size_c(type, &size));
    CHECK_EQ(size, (int64_t)1 << 37);
    OK(MPI_Type_free(&type));
}

int main(void) {
    check_begin();
    constructors();
    for (int fortran = 0; fortran < 2; fortran++) {
        darray_covers(MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG, fortran);
        darray_covers(MPI_DISTRIBUTE_BLOCK, 4, fortran);
        darray_covers(MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, fortran);
        darray_covers(MPI_DISTRIBUTE_CYCLIC, 2, fortran);
        darray_covers(MPI_DISTRIBUTE_CYCLIC, 3, fortran);
    }
    wrong_arguments();
    names();
    large();
    return check_end();
}
