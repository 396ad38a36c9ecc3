// Every predefined operation on every predefined datatype: all calls, collective and one-sided,
// accept the same combinations and compute equal results, and these combinations are the standard's
// and those on which programs of other libraries rely. MPI_Compare_and_swap takes all types but
// numbers with fractions and pairs.
// run: 1 2
#include "check.h"

enum { NUMBERS = 1, WHOLE = 2, TRUTHS = 4, SUMS = 8, PLACES = 16, SWAPS = 32 };
enum {
    INTEGERS = NUMBERS | SUMS | WHOLE | TRUTHS | SWAPS,
    REALS = NUMBERS | SUMS,
    COMPLEXES = SUMS,
    LOGICALS = TRUTHS | SWAPS,
};

typedef struct {
    const char *name;
    MPI_Datatype type;
    int takes;
} Type;
typedef struct {
    const char *name;
    MPI_Op op;
    int is;
} Operation;

#define ROW(name, kind) {#name, name, kind}
static const Operation operations[] = {
    ROW(MPI_MAX, NUMBERS), ROW(MPI_MIN, NUMBERS), ROW(MPI_SUM, SUMS), ROW(MPI_PROD, SUMS),
    ROW(MPI_BAND, WHOLE), ROW(MPI_BOR, WHOLE), ROW(MPI_BXOR, WHOLE), ROW(MPI_LAND, TRUTHS),
    ROW(MPI_LOR, TRUTHS), ROW(MPI_LXOR, TRUTHS), ROW(MPI_MAXLOC, PLACES), ROW(MPI_MINLOC, PLACES),
};
static const Type types[] = {
    ROW(MPI_CHAR, INTEGERS), ROW(MPI_SIGNED_CHAR, INTEGERS), ROW(MPI_UNSIGNED_CHAR, INTEGERS),
    ROW(MPI_BYTE, INTEGERS), ROW(MPI_SHORT, INTEGERS), ROW(MPI_UNSIGNED_SHORT, INTEGERS),
    ROW(MPI_INT, INTEGERS), ROW(MPI_UNSIGNED, INTEGERS), ROW(MPI_LONG, INTEGERS),
    ROW(MPI_UNSIGNED_LONG, INTEGERS), ROW(MPI_LONG_LONG, INTEGERS),
    ROW(MPI_UNSIGNED_LONG_LONG, INTEGERS), ROW(MPI_INT8_T, INTEGERS), ROW(MPI_UINT8_T, INTEGERS),
    ROW(MPI_INT16_T, INTEGERS), ROW(MPI_UINT16_T, INTEGERS), ROW(MPI_INT32_T, INTEGERS),
    ROW(MPI_UINT32_T, INTEGERS), ROW(MPI_INT64_T, INTEGERS), ROW(MPI_UINT64_T, INTEGERS),
    ROW(MPI_AINT, INTEGERS), ROW(MPI_COUNT, INTEGERS), ROW(MPI_OFFSET, INTEGERS),
    ROW(MPI_INTEGER, INTEGERS), ROW(MPI_INTEGER1, INTEGERS), ROW(MPI_INTEGER2, INTEGERS),
    ROW(MPI_INTEGER4, INTEGERS), ROW(MPI_INTEGER8, INTEGERS), ROW(MPI_CHARACTER, INTEGERS),
    ROW(MPI_WCHAR, SWAPS), ROW(MPI_PACKED, 0), ROW(MPI_C_BOOL, LOGICALS), ROW(MPI_LOGICAL, LOGICALS),
    ROW(MPI_CXX_BOOL, LOGICALS), ROW(MPI_FLOAT, REALS), ROW(MPI_DOUBLE, REALS),
    ROW(MPI_LONG_DOUBLE, REALS), ROW(MPI_REAL, REALS), ROW(MPI_DOUBLE_PRECISION, REALS),
    ROW(MPI_REAL4, REALS), ROW(MPI_REAL8, REALS), ROW(MPI_C_FLOAT_COMPLEX, COMPLEXES),
    ROW(MPI_C_DOUBLE_COMPLEX, COMPLEXES), ROW(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEXES),
    ROW(MPI_CXX_FLOAT_COMPLEX, COMPLEXES), ROW(MPI_CXX_DOUBLE_COMPLEX, COMPLEXES),
    ROW(MPI_COMPLEX, COMPLEXES), ROW(MPI_DOUBLE_COMPLEX, COMPLEXES), ROW(MPI_COMPLEX8, COMPLEXES),
    ROW(MPI_COMPLEX16, COMPLEXES), ROW(MPI_FLOAT_INT, PLACES), ROW(MPI_DOUBLE_INT, PLACES),
    ROW(MPI_LONG_INT, PLACES), ROW(MPI_2INT, PLACES), ROW(MPI_SHORT_INT, PLACES),
    ROW(MPI_LONG_DOUBLE_INT, PLACES), ROW(MPI_2REAL, PLACES), ROW(MPI_2DOUBLE_PRECISION, PLACES),
    ROW(MPI_2INTEGER, PLACES),
};
#undef ROW

// The largest element fits in; its bytes are such that no number is a NaN.
enum { ROOM = 64 };
static unsigned char *memory, own[ROOM], given[ROOM], wanted[ROOM], got[ROOM];
static MPI_Win win;
static int other;

static void prepare(void) {
    memset(own, 0x11, ROOM);
    memset(given, 0x05, ROOM);
    memset(got, 0xee, ROOM);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
    memcpy(memory, own, ROOM);
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

// The return code of one call and its result at the other process (or in `got`) against the
// expected.
static void compare(const char *call, const Type *type, const char *operation, int code, int is_taken,
                    int refusal, const unsigned char *result, const unsigned char *value) {
    int size, class = class_of(code);
    MPI_Type_size(type->type, &size);
    // Pairs have padding, and so has a long double.
    int bytes = type->takes & PLACES || strstr(type->name, "LONG_DOUBLE") ? 2 : size;
    CHECK(class == (is_taken ? MPI_SUCCESS : refusal), "%s of %s with %s: class %d", call, type->name, operation,
          class);
    CHECK(!is_taken || code || !memcmp(result, value, bytes), "%s of %s with %s: another result", call, type->name,
          operation);
}

static void one_sided(const Type *type, const Operation *operation, int is_taken) {
    static const char *const calls[] = {"MPI_Accumulate", "MPI_Raccumulate", "MPI_Get_accumulate",
                                        "MPI_Rget_accumulate", "MPI_Fetch_and_op"};
    MPI_Datatype datatype = type->type;
    for (int call = 0; call < 5; call++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int code = 0;
        prepare();
        OK(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win));
        switch (call) {
        case 0: code = MPI_Accumulate(given, 1, datatype, other, 0, 1, datatype, operation->op, win); break;
        case 1: code = MPI_Raccumulate(given, 1, datatype, other, 0, 1, datatype, operation->op, win, &request); break;
        case 2:
            code = MPI_Get_accumulate(given, 1, datatype, got, 1, datatype, other, 0, 1, datatype, operation->op, win);
            break;
        case 3:
            code = MPI_Rget_accumulate(given, 1, datatype, got, 1, datatype, other, 0, 1, datatype, operation->op, win,
                                       &request);
            break;
        case 4: code = MPI_Fetch_and_op(given, got, datatype, other, 0, operation->op, win); break;
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Win_unlock(other, win));
        if (call >= 2) compare(calls[call], type, "the old value", code, is_taken, MPI_ERR_OP, got, own);
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
        compare(calls[call], type, operation->name, code, is_taken, MPI_ERR_OP, memory, wanted);
        OK(MPI_Win_unlock(check_rank, win));
    }
}

static void collective(const Type *type, const Operation *operation, int is_taken) {
    prepare();
    memcpy(wanted, own, ROOM);
    int code = MPI_Reduce_local(given, wanted, 1, type->type, operation->op);
    compare("MPI_Reduce_local", type, operation->name, code, is_taken, MPI_ERR_OP, wanted, wanted);
    const unsigned char *mine = check_rank == 0 ? given : own;
    const unsigned char *value = check_size > 1 ? wanted : given;
    code = MPI_Allreduce(mine, got, 1, type->type, operation->op, MPI_COMM_WORLD);
    compare("MPI_Allreduce", type, operation->name, code, is_taken, MPI_ERR_OP, got, value);
    code = MPI_Scan(mine, got, 1, type->type, operation->op, MPI_COMM_WORLD);
    compare("MPI_Scan", type, operation->name, code, is_taken, MPI_ERR_OP, got, check_rank ? value : given);
}

static void swap(const Type *type) {
    prepare();
    OK(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win));
    int code = MPI_Compare_and_swap(given, own, got, type->type, other, 0, win);
    OK(MPI_Win_unlock(other, win));
    compare("MPI_Compare_and_swap", type, "the old value", code, type->takes & SWAPS, MPI_ERR_TYPE, got, own);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    compare("MPI_Compare_and_swap", type, "the new value", code, type->takes & SWAPS, MPI_ERR_TYPE, memory, given);
    OK(MPI_Win_unlock(check_rank, win));
}

int main(void) {
    check_begin();
    // Others end the job, or take what makes no sense.
    if (!check_is_combray) return check_end();
    other = (check_rank + 1) % check_size;
    OK(MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        if (types[t].type == MPI_DATATYPE_NULL) continue;
        for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
            int is_taken = (types[t].takes & operations[o].is) != 0;
            collective(&types[t], &operations[o], is_taken);
            one_sided(&types[t], &operations[o], is_taken);
        }
        swap(&types[t]);
    }
    OK(MPI_Win_free(&win));
    return check_end();
}
