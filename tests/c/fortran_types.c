// The datatypes of Fortran as C programs use them: sizes, messages, derived datatypes, packing and
// reductions of all of them, against arithmetic of the C types with equal representation.
// run: 1 2 3
#include "check.h"
#include <complex.h>

enum { COUNT = 7 };

typedef __int128 Wide;
typedef __float128 Quad;

// One integer or real type: how values are stored, and how they are read again.
typedef struct {
    MPI_Datatype type;
    const char *name;
    int size;
    enum { WHOLE, REAL, TRUTH, COMPLEX, PAIR, TEXT } kind;
} Type;

static const Type types[] = {
    {MPI_CHARACTER, "MPI_CHARACTER", 1, TEXT},
    {MPI_LOGICAL, "MPI_LOGICAL", 4, TRUTH},
    {MPI_LOGICAL1, "MPI_LOGICAL1", 1, TRUTH},
    {MPI_LOGICAL2, "MPI_LOGICAL2", 2, TRUTH},
    {MPI_LOGICAL4, "MPI_LOGICAL4", 4, TRUTH},
    {MPI_LOGICAL8, "MPI_LOGICAL8", 8, TRUTH},
    {MPI_LOGICAL16, "MPI_LOGICAL16", 16, TRUTH},
    {MPI_INTEGER, "MPI_INTEGER", 4, WHOLE},
    {MPI_INTEGER1, "MPI_INTEGER1", 1, WHOLE},
    {MPI_INTEGER2, "MPI_INTEGER2", 2, WHOLE},
    {MPI_INTEGER4, "MPI_INTEGER4", 4, WHOLE},
    {MPI_INTEGER8, "MPI_INTEGER8", 8, WHOLE},
    {MPI_INTEGER16, "MPI_INTEGER16", 16, WHOLE},
    {MPI_REAL, "MPI_REAL", 4, REAL},
    {MPI_DOUBLE_PRECISION, "MPI_DOUBLE_PRECISION", 8, REAL},
    {MPI_REAL2, "MPI_REAL2", 2, REAL},
    {MPI_REAL4, "MPI_REAL4", 4, REAL},
    {MPI_REAL8, "MPI_REAL8", 8, REAL},
    {MPI_REAL16, "MPI_REAL16", 16, REAL},
    {MPI_COMPLEX, "MPI_COMPLEX", 8, COMPLEX},
    {MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", 16, COMPLEX},
    {MPI_COMPLEX4, "MPI_COMPLEX4", 4, COMPLEX},
    {MPI_COMPLEX8, "MPI_COMPLEX8", 8, COMPLEX},
    {MPI_COMPLEX16, "MPI_COMPLEX16", 16, COMPLEX},
    {MPI_COMPLEX32, "MPI_COMPLEX32", 32, COMPLEX},
    {MPI_2REAL, "MPI_2REAL", 8, PAIR},
    {MPI_2DOUBLE_PRECISION, "MPI_2DOUBLE_PRECISION", 16, PAIR},
    {MPI_2INTEGER, "MPI_2INTEGER", 8, PAIR},
};

// Binary16 by hand: small whole numbers only.
static void put_half(void *place, double value) {
    uint16_t bits = value < 0 ? 0x8000 : 0;
    double left = value < 0 ? -value : value;
    int exponent = 15;
    if (left > 0) {
        for (; left >= 2; left /= 2) exponent++;
        bits |= exponent << 10 | (uint16_t)((left - 1) * 1024);
    }
    memcpy(place, &bits, 2);
}

static double get_half(const void *place) {
    uint16_t bits;
    memcpy(&bits, place, 2);
    double value = 1 + (bits & 1023) / 1024.0;
    for (int exponent = (bits >> 10 & 31) - 15; exponent > 0; exponent--) value *= 2;
    if ((bits & 0x7fff) == 0) value = 0;
    return bits & 0x8000 ? -value : value;
}

static void put_real(void *place, int size, double value) {
    float single = (float)value;
    Quad quad = value;
    if (size == 2) put_half(place, value);
    if (size == 4) memcpy(place, &single, 4);
    if (size == 8) memcpy(place, &value, 8);
    if (size == 16) memcpy(place, &quad, 16);
}

static double get_real(const void *place, int size) {
    float single;
    double value = 0;
    Quad quad;
    if (size == 2) return get_half(place);
    if (size == 4) return memcpy(&single, place, 4), single;
    if (size == 8) return memcpy(&value, place, 8), value;
    return memcpy(&quad, place, 16), (double)quad;
}

static void put(const Type *type, char *place, int value) {
    Wide whole = value;
    switch (type->kind) {
    case WHOLE:
    case TRUTH:
    case TEXT: memcpy(place, &whole, type->size); break;
    case REAL: put_real(place, type->size, value); break;
    case COMPLEX:
        put_real(place, type->size / 2, value);
        put_real(place + type->size / 2, type->size / 2, -value);
        break;
    case PAIR:
        if (type->type == MPI_2INTEGER) {
            memcpy(place, &(int[]){value, value + 1}, 8);
        } else {
            put_real(place, type->size / 2, value);
            put_real(place + type->size / 2, type->size / 2, value + 1);
        }
    }
}

// The value as a double; of complex numbers the real part, of pairs the first.
static double get(const Type *type, const char *place) {
    Wide whole = 0;
    if (type->kind == WHOLE || type->kind == TRUTH || type->kind == TEXT) {
        int shift = 128 - 8 * type->size;
        memcpy(&whole, place, type->size);
        return (double)(Wide)((Wide)((unsigned __int128)whole << shift) >> shift);
    }
    if (type->type == MPI_2INTEGER) return *(const int *)place;
    return get_real(place, type->kind == REAL ? type->size : type->size / 2);
}

static void described(const Type *type) {
    char name[MPI_MAX_OBJECT_NAME];
    int size, length, integers, addresses, inner, combiner;
    MPI_Aint low, extent;
    OK(MPI_Type_size(type->type, &size));
    CHECK(size == type->size, "%s: %d", type->name, size);
    OK(MPI_Type_get_extent(type->type, &low, &extent));
    CHECK(low == 0 && extent == type->size, "%s: %ld", type->name, (long)extent);
    OK(MPI_Type_get_name(type->type, name, &length));
    CHECK(strcmp(name, type->name) == 0, "%s: %s", type->name, name);
    OK(MPI_Type_get_envelope(type->type, &integers, &addresses, &inner, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_NAMED);
}

// Around the ring, plain, as every second element, and packed.
static void moved(const Type *type) {
    char out[2 * COUNT * 32] = {0}, in[2 * COUNT * 32], packed[4096];
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    int at = 0, count;
    MPI_Datatype spread;
    MPI_Status status;
    for (int i = 0; i < 2 * COUNT; i++) put(type, out + i * type->size, i + check_rank);
    memset(in, 0, sizeof in);
    OK(MPI_Sendrecv(out, COUNT, type->type, next, 0, in, COUNT, type->type, before, 0,
                    MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, type->type, &count));
    CHECK_EQ(count, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(get(type, in + i * type->size) == i + before, "%s: %g", type->name,
              get(type, in + i * type->size));
    OK(MPI_Type_vector(COUNT, 1, 2, type->type, &spread));
    OK(MPI_Type_commit(&spread));
    OK(MPI_Sendrecv(out, 1, spread, next, 0, in, COUNT, type->type, before, 0, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    for (int i = 0; i < COUNT; i++)
        CHECK(get(type, in + i * type->size) == 2 * i + before, "%s", type->name);
    OK(MPI_Pack(out, 1, spread, packed, sizeof packed, &at, MPI_COMM_WORLD));
    CHECK_EQ(at, COUNT * type->size);
    at = 0;
    OK(MPI_Unpack(packed, sizeof packed, &at, in, COUNT, type->type, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++)
        CHECK(get(type, in + i * type->size) == 2 * i + check_rank, "%s", type->name);
    OK(MPI_Type_free(&spread));
}

static int reduces(const Type *type, MPI_Op op, const char *out, char *in) {
    return MPI_Allreduce(out, in, COUNT, type->type, op, MPI_COMM_WORLD) == MPI_SUCCESS;
}

static void reduced(const Type *type) {
    char out[COUNT * 32], in[COUNT * 32];
    int all_ranks = check_size * (check_size - 1) / 2, number = type->kind != TRUTH;
    for (int i = 0; i < COUNT; i++)
        put(type, out + i * type->size, number ? i + check_rank : (i + check_rank) % 2);
#define VALUE get(type, in + i * type->size)
#define HOLDS(op, expected)                                                                        \
    CHECK(reduces(type, op, out, in), "%s", type->name);                                           \
    for (int i = 0; i < COUNT; i++) CHECK(VALUE == (expected), "%s: %g", type->name, VALUE)
    if (type->kind == WHOLE || type->kind == REAL) {
        HOLDS(MPI_SUM, i * check_size + all_ranks);
        HOLDS(MPI_MAX, i + check_size - 1);
        HOLDS(MPI_MIN, i);
        if (type->kind == WHOLE) {
            HOLDS(MPI_BOR, i | (check_size > 1 ? i + 1 : 0) | (check_size > 2 ? i + 2 : 0));
        }
        // One byte is too narrow for these products.
        if (type->size == 1) return;
        HOLDS(MPI_PROD, (check_size > 2 ? i + 2 : 1) * (check_size > 1 ? i + 1 : 1) * i);
    } else if (type->kind == COMPLEX) {
        HOLDS(MPI_SUM, i * check_size + all_ranks);
        CHECK(!reduces(type, MPI_MAX, out, in), "%s has no order", type->name);
    } else if (type->kind == TRUTH) {
        HOLDS(MPI_LAND, check_size == 1 && i % 2);
        HOLDS(MPI_LOR, check_size > 1 || i % 2);
        HOLDS(MPI_LXOR, (i * check_size + all_ranks) % 2);
        CHECK(!reduces(type, MPI_SUM, out, in), "%s is no number", type->name);
    } else if (type->kind == PAIR) {
        HOLDS(MPI_MAXLOC, i + check_size - 1);
        HOLDS(MPI_MINLOC, i);
    }
}

static void wide_values(void) {
    // More than 64 bits and more than 53: the whole width takes part.
    Wide whole = ((Wide)1 << 100) + check_rank, sum;
    Quad real = (Quad)1 + (Quad)1 / ((Wide)1 << 100), total;
    OK(MPI_Allreduce(&whole, &sum, 1, MPI_INTEGER16, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == check_size * ((Wide)1 << 100) + check_size * (check_size - 1) / 2, "");
    OK(MPI_Allreduce(&real, &total, 1, MPI_REAL16, MPI_SUM, MPI_COMM_WORLD));
    CHECK(total == check_size * real, "");
    double complex product, factor = 1 + 2 * I, expected = 1;
    for (int i = 0; i < check_size; i++) expected *= factor;
    OK(MPI_Allreduce(&factor, &product, 1, MPI_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD));
    CHECK(product == expected, "");
}

static void sizes_match(void) {
    MPI_Datatype found;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const Type *type = &types[i];
        int class = type->kind == WHOLE     ? MPI_TYPECLASS_INTEGER
                    : type->kind == REAL    ? MPI_TYPECLASS_REAL
                    : type->kind == COMPLEX ? MPI_TYPECLASS_COMPLEX
                                            : 0, size;
        if (class == 0) continue;
        OK(MPI_Type_match_size(class, type->size, &found));
        OK(MPI_Type_size(found, &size));
        CHECK_EQ(size, type->size);
    }
    EXPECT_ERROR(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &found), MPI_ERR_ARG);
}

int main(void) {
    check_begin();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        described(&types[i]);
        moved(&types[i]);
        reduced(&types[i]);
    }
    wide_values();
    sizes_match();
    return check_end();
}
