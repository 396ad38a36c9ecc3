// Every predefined operation on every predefined C datatype that it is defined for, against a plain
// loop: MPI_Allreduce, MPI_Reduce_local and MPI_Scan. Which pairs are defined: MPI 5.0, section
// 6.9.2.
// run: 1 2 5
// hosts
#include "check.h"
#include <complex.h>
#include <stdbool.h>

enum { N = 37 };

// How each element is made, and how the loop combines: one set of functions per C type.
#define INTEGER_TYPES(X)                                                                           \
    X(MPI_SIGNED_CHAR, signed char) X(MPI_UNSIGNED_CHAR, unsigned char) X(MPI_SHORT, short)        \
    X(MPI_UNSIGNED_SHORT, unsigned short) X(MPI_INT, int) X(MPI_UNSIGNED, unsigned)                \
    X(MPI_LONG, long) X(MPI_UNSIGNED_LONG, unsigned long) X(MPI_LONG_LONG, long long)              \
    X(MPI_UNSIGNED_LONG_LONG, unsigned long long) X(MPI_INT8_T, int8_t) X(MPI_UINT8_T, uint8_t)    \
    X(MPI_INT16_T, int16_t) X(MPI_UINT16_T, uint16_t) X(MPI_INT32_T, int32_t)                      \
    X(MPI_UINT32_T, uint32_t) X(MPI_INT64_T, int64_t) X(MPI_UINT64_T, uint64_t)
// No logical operations on these: they belong to all languages.
#define ADDRESS_TYPES(X)                                                                           \
    X(MPI_AINT, MPI_Aint) X(MPI_OFFSET, MPI_Offset) X(MPI_COUNT, MPI_Count)
#define FLOATING_TYPES(X) X(MPI_FLOAT, float) X(MPI_DOUBLE, double) X(MPI_LONG_DOUBLE, long double)
#define COMPLEX_TYPES(X)                                                                           \
    X(MPI_C_FLOAT_COMPLEX, float complex) X(MPI_C_DOUBLE_COMPLEX, double complex)                  \
    X(MPI_C_LONG_DOUBLE_COMPLEX, long double complex)
#define PAIR_TYPES(X)                                                                              \
    X(MPI_FLOAT_INT, float) X(MPI_DOUBLE_INT, double) X(MPI_LONG_INT, long) X(MPI_2INT, int)       \
    X(MPI_SHORT_INT, short) X(MPI_LONG_DOUBLE_INT, long double)

// Small numbers, so that no sum overflows and no floating-point sum depends on the order.
static int element(int rank, int at) { return (rank * 7 + at * 5 + 3) % 11 % 4; }


#define RUN(type, op, ctype, make, combine, same)                                                  \
    do {                                                                                           \
        ctype in[N], out[N], expected[N], scanned[N];                                              \
        memset(in, 0, sizeof in);                                                                  \
        for (int i = 0; i < N; i++) {                                                              \
            int rank = check_rank, at = i;                                                         \
            in[i] = make;                                                                          \
            rank = 0;                                                                              \
            expected[i] = make;                                                                    \
            for (rank = 1; rank < check_size; rank++) {                                            \
                if (rank == check_rank + 1) scanned[i] = expected[i];                              \
                ctype a = expected[i], b = make;                                                   \
                expected[i] = combine;                                                             \
            }                                                                                      \
            if (check_rank == check_size - 1) scanned[i] = expected[i];                            \
        }                                                                                          \
        OK(MPI_Allreduce(in, out, N, type, op, MPI_COMM_WORLD));                                   \
        for (int i = 0; i < N; i++) {                                                              \
            ctype a = out[i], b = expected[i];                                                     \
            CHECK(same, "MPI_Allreduce %s %s: element %d", #type, #op, i);                         \
        }                                                                                          \
        OK(MPI_Scan(in, out, N, type, op, MPI_COMM_WORLD));                                        \
        for (int i = 0; i < N; i++) {                                                              \
            ctype a = out[i], b = scanned[i];                                                      \
            CHECK(same, "MPI_Scan %s %s: element %d", #type, #op, i);                              \
        }                                                                                          \
        for (int i = 0; i < N; i++) {                                                              \
            int rank = 1, at = i;                                                                  \
            out[i] = make;                                                                         \
            ctype a = in[i], b = out[i];                                                           \
            expected[i] = combine;                                                                 \
        }                                                                                          \
        OK(MPI_Reduce_local(in, out, N, type, op));                                                \
        for (int i = 0; i < N; i++) {                                                              \
            ctype a = out[i], b = expected[i];                                                     \
            CHECK(same, "MPI_Reduce_local %s %s: element %d", #type, #op, i);                      \
        }                                                                                          \
    } while (0)

#define NUMBER ((__typeof__(in[0]))element(rank, at))
#define EQUAL (a == b)

#define ARITHMETIC(type, ctype)                                                                    \
    static void arithmetic_##type(void) {                                                          \
        RUN(type, MPI_SUM, ctype, NUMBER, (ctype)(a + b), EQUAL);                                  \
        RUN(type, MPI_PROD, ctype, NUMBER, (ctype)(a * b), EQUAL);                                 \
        RUN(type, MPI_MAX, ctype, NUMBER, (a > b ? a : b), EQUAL);                                 \
        RUN(type, MPI_MIN, ctype, NUMBER, (a < b ? a : b), EQUAL);                                 \
    }
#define BITWISE(type, ctype)                                                                       \
    static void bitwise_##type(void) {                                                             \
        RUN(type, MPI_BAND, ctype, NUMBER, (ctype)(a & b), EQUAL);                                 \
        RUN(type, MPI_BOR, ctype, NUMBER, (ctype)(a | b), EQUAL);                                  \
        RUN(type, MPI_BXOR, ctype, NUMBER, (ctype)(a ^ b), EQUAL);                                 \
    }
#define LOGICAL(type, ctype)                                                                       \
    static void logical_##type(void) {                                                             \
        RUN(type, MPI_LAND, ctype, NUMBER, (ctype)(a && b), EQUAL);                                \
        RUN(type, MPI_LOR, ctype, NUMBER, (ctype)(a || b), EQUAL);                                 \
        RUN(type, MPI_LXOR, ctype, NUMBER, (ctype)(!a != !b), EQUAL);                              \
    }
#define COMPLEX_SUMS(type, ctype)                                                                  \
    static void sums_##type(void) {                                                                \
        RUN(type, MPI_SUM, ctype, (NUMBER + I * at), (a + b), EQUAL);                              \
        RUN(type, MPI_PROD, ctype, (NUMBER + I), (a * b), EQUAL);                                  \
    }
// The index breaks ties: the lowest one wins.
#define PAIRS(type, ctype)                                                                         \
    typedef struct {                                                                               \
        ctype value;                                                                               \
        int index;                                                                                 \
    } Pair_##type;                                                                                 \
    static void pairs_##type(void) {                                                               \
        typedef Pair_##type P;                                                                     \
        RUN(type, MPI_MAXLOC, P, ((P){(ctype)element(rank, at), rank + at % 2}),                   \
            (a.value > b.value || (a.value == b.value && a.index <= b.index) ? a : b),             \
            (a.value == b.value && a.index == b.index));                                           \
        RUN(type, MPI_MINLOC, P, ((P){(ctype)element(rank, at), rank + at % 2}),                   \
            (a.value < b.value || (a.value == b.value && a.index <= b.index) ? a : b),             \
            (a.value == b.value && a.index == b.index));                                           \
    }

INTEGER_TYPES(ARITHMETIC)
ADDRESS_TYPES(ARITHMETIC)
FLOATING_TYPES(ARITHMETIC)
INTEGER_TYPES(BITWISE)
ADDRESS_TYPES(BITWISE)
INTEGER_TYPES(LOGICAL)
LOGICAL(MPI_C_BOOL, bool)
BITWISE(MPI_BYTE, unsigned char)
COMPLEX_TYPES(COMPLEX_SUMS)
PAIR_TYPES(PAIRS)

#define CALL_ARITHMETIC(type, ctype) arithmetic_##type();
#define CALL_BITWISE(type, ctype) bitwise_##type();
#define CALL_LOGICAL(type, ctype) logical_##type();
#define CALL_SUMS(type, ctype) sums_##type();
#define CALL_PAIRS(type, ctype) pairs_##type();

int main(void) {
    check_begin();
    INTEGER_TYPES(CALL_ARITHMETIC)
    ADDRESS_TYPES(CALL_ARITHMETIC)
    FLOATING_TYPES(CALL_ARITHMETIC)
    INTEGER_TYPES(CALL_BITWISE)
    ADDRESS_TYPES(CALL_BITWISE)
    INTEGER_TYPES(CALL_LOGICAL)
    logical_MPI_C_BOOL();
    bitwise_MPI_BYTE();
    COMPLEX_TYPES(CALL_SUMS)
    PAIR_TYPES(CALL_PAIRS)
    return check_end();
}
