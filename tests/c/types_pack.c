// MPI_Pack and MPI_Unpack in pieces, packed messages, external32: byte order, sizes, round trips.
// run: 1 2
// hosts
// checkers: address memory
#include "check.h"
#include <stddef.h>

static void in_pieces(void) {
    char buffer[500];
    int position = 0, i = 7, in_i = 0, size, to = (check_rank + 1) % check_size;
    double d[3] = {1.5, -2.5, 3.25}, in_d[3];
    char text[6] = "hello", in_text[6];
    int from = (check_rank + check_size - 1) % check_size;
    MPI_Status status;
    OK(MPI_Pack(&i, 1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    OK(MPI_Pack(d, 3, MPI_DOUBLE, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    OK(MPI_Pack(text, 6, MPI_CHAR, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    size = position;
    OK(MPI_Sendrecv_replace(buffer, size, MPI_PACKED, to, 0, from, 0, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_PACKED, &size));
    CHECK_EQ(size, position);
    position = 0;
    OK(MPI_Unpack(buffer, size, &position, &in_i, 1, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Unpack(buffer, size, &position, in_d, 3, MPI_DOUBLE, MPI_COMM_WORLD));
    OK(MPI_Unpack(buffer, size, &position, in_text, 6, MPI_CHAR, MPI_COMM_WORLD));
    CHECK_EQ(position, size);
    CHECK_EQ(in_i, 7);
    CHECK(!memcmp(d, in_d, sizeof d) && !strcmp(in_text, text), "what was packed");
}

static void no_room(void) {
    char buffer[10];
    int values[4] = {0}, position = 0;
    EXPECT_ERROR(MPI_Pack(values, 4, MPI_INT, buffer, 10, &position, MPI_COMM_WORLD),
                 check_is_combray ? MPI_ERR_TRUNCATE : MPI_ERR_ARG, "16", "10");
    CHECK_EQ(position, 0);
    position = 8;
    EXPECT_ERROR(MPI_Unpack(buffer, 10, &position, values, 1, MPI_INT, MPI_COMM_WORLD),
                 check_is_combray ? MPI_ERR_TRUNCATE : MPI_ERR_ARG, "4");
}

// external32 is big-endian with sizes that the standard fixes (MPI 5.0, section 14.5.2).
static void external_bytes(void) {
    unsigned char buffer[64];
    MPI_Aint position = 0, size;
    int i = 0x01020304;
    short s = 0x0506;
    double d = 1.0;
    long l = 0x0a;
    OK(MPI_Pack_external("external32", &i, 1, MPI_INT, buffer, sizeof buffer, &position));
    CHECK_EQ(position, 4);
    OK(MPI_Pack_external("external32", &s, 1, MPI_SHORT, buffer, sizeof buffer, &position));
    CHECK_EQ(position, 6);
    OK(MPI_Pack_external("external32", &d, 1, MPI_DOUBLE, buffer, sizeof buffer, &position));
    CHECK_EQ(position, 14);
    static const unsigned char expected[] = {1, 2, 3, 4, 5, 6, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0};
    CHECK(!memcmp(buffer, expected, sizeof expected), "big-endian bytes");
    OK(MPI_Pack_external_size("external32", 3, MPI_INT, &size));
    CHECK_EQ(size, 12);
    OK(MPI_Pack_external_size("external32", 2, MPI_DOUBLE, &size));
    CHECK_EQ(size, 16);
    OK(MPI_Pack_external_size("external32", 1, MPI_CHAR, &size));
    CHECK_EQ(size, 1);
    position = 0;
    OK(MPI_Pack_external("external32", &l, 1, MPI_LONG, buffer, sizeof buffer, &position));
    long back = 0;
    size = position;
    position = 0;
    OK(MPI_Unpack_external("external32", buffer, size, &position, &back, 1, MPI_LONG));
    CHECK_EQ(back, 0x0a);
}

static void external_round_trip(void) {
    struct mixed {
        char c;
        int64_t l;
        float f;
        short s[3];
    } out[20], in[20];
    int lengths[4] = {1, 1, 1, 3};
    MPI_Aint places[4] = {offsetof(struct mixed, c), offsetof(struct mixed, l),
                          offsetof(struct mixed, f), offsetof(struct mixed, s)};
    MPI_Datatype types[4] = {MPI_CHAR, MPI_INT64_T, MPI_FLOAT, MPI_SHORT}, raw, type;
    unsigned char buffer[20 * 19];
    MPI_Aint position = 0, size;
    OK(MPI_Type_create_struct(4, lengths, places, types, &raw));
    OK(MPI_Type_create_resized(raw, 0, sizeof(struct mixed), &type));
    OK(MPI_Type_commit(&type));
    for (int i = 0; i < 20; i++)
        out[i] = (struct mixed){(char)i, (int64_t)i << 40, i / 4.0f, {i, -i, 7}};
    memset(in, 0, sizeof in);
    OK(MPI_Pack_external_size("external32", 20, type, &size));
    CHECK_EQ(size, 20 * 19);
    OK(MPI_Pack_external("external32", out, 20, type, buffer, sizeof buffer, &position));
    CHECK_EQ(position, 20 * 19);
    position = 0;
    OK(MPI_Unpack_external("external32", buffer, sizeof buffer, &position, in, 20, type));
    for (int i = 0; i < 20; i++)
        CHECK(in[i].c == out[i].c && in[i].l == out[i].l && in[i].f == out[i].f &&
                  !memcmp(in[i].s, out[i].s, sizeof in[i].s),
              "element %d", i);
    OK(MPI_Type_free(&raw));
    OK(MPI_Type_free(&type));
    EXPECT_ERROR(MPI_Pack_external("internal", out, 1, MPI_INT, buffer, sizeof buffer, &position),
                 MPI_ERR_ARG, "datarep", "internal");
}

int main(void) {
    check_begin();
    in_pieces();
    if (check_is_combray) no_room();
    external_bytes();
    external_round_trip();
    return check_end();
}
