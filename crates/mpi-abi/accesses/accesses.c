/* The functions that GCC calls before the loads and stores of a program that `mpicc
 * --check-accesses` compiles (-fsanitize=thread). They are linked into the program instead of
 * ThreadSanitizer's run-time library, and report the accesses to the MPI library by
 * combray_note_access. */
#include <stddef.h>
#include <stdint.h>

/* Declared in combray.h, which includes mpi.h. In a program without MPI this function is missing. */
void combray_note_access(const void *address, size_t bytes, int stores) __attribute__((weak));

#define HIDDEN __attribute__((visibility("hidden")))

static inline void note(const void *address, size_t bytes, int stores)
{
    if (combray_note_access)
        combray_note_access(address, bytes, stores);
}

#define ACCESSES(bytes) \
    HIDDEN void __tsan_read##bytes(const void *address) { note(address, bytes, 0); } \
    HIDDEN void __tsan_write##bytes(const void *address) { note(address, bytes, 1); } \
    HIDDEN void __tsan_unaligned_read##bytes(const void *address) { note(address, bytes, 0); } \
    HIDDEN void __tsan_unaligned_write##bytes(const void *address) { note(address, bytes, 1); }

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

HIDDEN void __tsan_read_range(const void *address, size_t bytes) { note(address, bytes, 0); }
HIDDEN void __tsan_write_range(const void *address, size_t bytes) { note(address, bytes, 1); }
HIDDEN void __tsan_vptr_read(const void *address) { note(address, sizeof(void *), 0); }

HIDDEN void __tsan_vptr_update(const void *address, const void *table)
{
    (void)table;
    note(address, sizeof(void *), 1);
}

/* Each object file calls the first function when it is loaded; each function calls the other two
 * when it begins and ends. */
HIDDEN void __tsan_init(void) {}
HIDDEN void __tsan_func_entry(const void *caller) { (void)caller; }
HIDDEN void __tsan_func_exit(void) {}

/* Replacements for fences and atomic operations. Each has the strictest memory order, which
 * separates it from all conflicting accesses, so it is not reported. */
HIDDEN void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

HIDDEN void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define CHANGE(bits, name) \
    HIDDEN uint##bits##_t __tsan_atomic##bits##_fetch_##name(uint##bits##_t *place, uint##bits##_t value, int order) \
    { \
        (void)order; \
        return __atomic_fetch_##name(place, value, __ATOMIC_SEQ_CST); \
    }

#define COMPARE(bits, name, is_weak) \
    HIDDEN int __tsan_atomic##bits##_compare_exchange_##name(uint##bits##_t *place, uint##bits##_t *expected, \
                                                             uint##bits##_t value, int order, int failure) \
    { \
        (void)order; \
        (void)failure; \
        return __atomic_compare_exchange_n(place, expected, value, is_weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }

#define ATOMICS(bits) \
    HIDDEN uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *place, int order) \
    { \
        (void)order; \
        return __atomic_load_n(place, __ATOMIC_SEQ_CST); \
    } \
    HIDDEN void __tsan_atomic##bits##_store(uint##bits##_t *place, uint##bits##_t value, int order) \
    { \
        (void)order; \
        __atomic_store_n(place, value, __ATOMIC_SEQ_CST); \
    } \
    HIDDEN uint##bits##_t __tsan_atomic##bits##_exchange(uint##bits##_t *place, uint##bits##_t value, int order) \
    { \
        (void)order; \
        return __atomic_exchange_n(place, value, __ATOMIC_SEQ_CST); \
    } \
    COMPARE(bits, strong, 0) \
    COMPARE(bits, weak, 1) \
    HIDDEN uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(uint##bits##_t *place, uint##bits##_t expected, \
                                                                     uint##bits##_t value, int order, int failure) \
    { \
        (void)order; \
        (void)failure; \
        __atomic_compare_exchange_n(place, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected; \
    } \
    CHANGE(bits, add) \
    CHANGE(bits, sub) \
    CHANGE(bits, and) \
    CHANGE(bits, or) \
    CHANGE(bits, xor) \
    CHANGE(bits, nand)

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)
