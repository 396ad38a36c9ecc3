// Operands of reductions, and what each operation makes of two of them.
#ifndef NUMBERS_H
#define NUMBERS_H

#include "plan.h"

enum { BYTES_KIND, INTS, LONGS, DOUBLES, PLACED, AFFINE, NUMBERS };
enum { REDUCTIONS = 10 };

static const int number_bytes[NUMBERS] = {1, 4, 8, 8, 8, 8};
static const MPI_Datatype number_types[NUMBERS] = {MPI_UINT8_T, MPI_INT,  MPI_INT64_T,
                                                   MPI_DOUBLE,  MPI_2INT, MPI_DATATYPE_NULL};

static int number_of(const Operation *operation) { return operation->number % NUMBERS; }

// Which operation, among those that the kind of number has. Maps of lines (x to ax + b) have the
// one of the program, which does not commute.
static int reduction_of(const Operation *operation) {
    switch (number_of(operation)) {
    case DOUBLES: return operation->reduction % 3;
    case PLACED: return operation->reduction % 2;
    case AFFINE: return 0;
    default: return operation->reduction % REDUCTIONS;
    }
}

#define COMBINE(T)                                                                                 \
    do {                                                                                           \
        T a, b, c = 0;                                                                             \
        memcpy(&a, left, sizeof a);                                                                \
        memcpy(&b, right, sizeof b);                                                               \
        switch (reduction) {                                                                       \
        case 0: c = (T)((uint64_t)a + (uint64_t)b); break;                                         \
        case 1: c = a > b ? a : b; break;                                                          \
        case 2: c = a < b ? a : b; break;                                                          \
        case 3: c = (T)((uint64_t)a * (uint64_t)b); break;                                         \
        case 4: c = a & b; break;                                                                  \
        case 5: c = a | b; break;                                                                  \
        case 6: c = a ^ b; break;                                                                  \
        case 7: c = a && b; break;                                                                 \
        case 8: c = a || b; break;                                                                 \
        default: c = !a != !b;                                                                     \
        }                                                                                          \
        memcpy(right, &c, sizeof c);                                                               \
    } while (0)

static MPI_Op reduction_predefined(int number, int reduction) {
    const MPI_Op all[REDUCTIONS] = {MPI_SUM, MPI_MAX,  MPI_MIN,  MPI_PROD, MPI_BAND,
                                    MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR,  MPI_LXOR};
    if (number == PLACED) return reduction ? MPI_MAXLOC : MPI_MINLOC;
    return all[reduction];
}

// right = left op right
static void combine(int number, int reduction, const unsigned char *left, unsigned char *right) {
    switch (number) {
    case BYTES_KIND: COMBINE(uint8_t); break;
    case INTS: COMBINE(int32_t); break;
    case LONGS: COMBINE(int64_t); break;
    case DOUBLES: {
        double a, b;
        memcpy(&a, left, 8);
        memcpy(&b, right, 8);
        b = reduction == 0 ? a + b : (reduction == 1) == (a > b) ? a : b;
        memcpy(right, &b, 8);
        break;
    }
    case PLACED: {
        int32_t a[2], b[2];
        memcpy(a, left, 8);
        memcpy(b, right, 8);
        int first = a[0] == b[0] ? a[1] < b[1] : (a[0] > b[0]) == reduction;
        if (first) memcpy(right, left, 8);
        break;
    }
    default: {
        uint32_t a[2], b[2], c[2];
        memcpy(a, left, 8);
        memcpy(b, right, 8);
        c[0] = a[0] * b[0];
        c[1] = a[0] * b[1] + a[1];
        memcpy(right, c, 8);
    }
    }
}

// The operation of the program: its operands may lie apart.
static void combine_lines(void *left, void *right, int *count, MPI_Datatype *type) {
    MPI_Aint lower, extent;
    MPI_Type_get_extent(*type, &lower, &extent);
    for (int i = 0; i < *count; i++)
        combine(AFFINE, 0, (unsigned char *)left + i * extent, (unsigned char *)right + i * extent);
}

static void number_make(const Operation *operation, int process, int at, unsigned char *to) {
    uint64_t word = mix(operation->name, (uint64_t)process * 100000 + (uint64_t)at);
    int number = number_of(operation);
    // Few different values, so that places decide, and sums of doubles are exact.
    double real = (double)(word % 2001) - 1000;
    int32_t placed[2] = {(int32_t)(word % 3), process};
    if (number == DOUBLES) memcpy(to, &real, 8);
    else if (number == PLACED) memcpy(to, placed, 8);
    else memcpy(to, &word, (size_t)number_bytes[number]);
}

// What the operands of these processes give, in the order of the list.
static void number_result(const Operation *operation, const int *processes, int count, int at,
                          unsigned char *to) {
    unsigned char left[8];
    int number = number_of(operation), reduction = reduction_of(operation);
    number_make(operation, processes[count - 1], at, to);
    // From the right: each operand joins on the left.
    for (int i = count - 2; i >= 0; i--) {
        number_make(operation, processes[i], at, left);
        combine(number, reduction, left, to);
    }
}

#endif
