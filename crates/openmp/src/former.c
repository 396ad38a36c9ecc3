// What Rust cannot define: functions with a variable number of arguments, and former versions of
// functions under the same name.
#include <stdarg.h>
#include <stdint.h>

// The most loops that one ordered(n) can have here.
#define DEPTH_MAX 64

extern unsigned combray_doacross_depth(void);
extern void combray_doacross_wait(const uint64_t *numbers);
extern void combray_openmp_missing(const char *name) __attribute__((noreturn));

extern void combray_openmp_ended(void);

// A destructor, as the process may end without the functions that the program has registered.
__attribute__((destructor)) static void ended(void) {
    combray_openmp_ended();
}

#define WAIT(name, type)                                            \
    void name(type first, ...) {                                    \
        unsigned depth = combray_doacross_depth();                  \
        if (depth > DEPTH_MAX)                                      \
            combray_openmp_missing("ordered with so many loops");   \
        uint64_t numbers[DEPTH_MAX] = {(uint64_t)first};            \
        va_list rest;                                               \
        va_start(rest, first);                                      \
        for (unsigned place = 1; place < depth; place++)            \
            numbers[place] = (uint64_t)va_arg(rest, type);          \
        va_end(rest);                                               \
        combray_doacross_wait(numbers);                             \
    }

WAIT(GOMP_doacross_wait, long)
WAIT(GOMP_doacross_ull_wait, unsigned long long)

// Locks as they were before OpenMP 3.0: the same words. A nestable one was smaller.
#define FORMER(result, name)                                        \
    extern result omp_##name(void *);                               \
    result combray_former_##name(void *lock) {                      \
        return omp_##name(lock);                                    \
    }                                                               \
    __asm__(".symver combray_former_" #name ", omp_" #name "@OMP_1.0");
#define FORMER_NEST(name)                                           \
    void combray_former_##name(void) {                              \
        combray_openmp_missing("omp_" #name " of OpenMP 2.5");      \
    }                                                               \
    __asm__(".symver combray_former_" #name ", omp_" #name "@OMP_1.0");

FORMER(void, init_lock)
FORMER(void, init_lock_)
FORMER(void, destroy_lock)
FORMER(void, destroy_lock_)
FORMER(void, set_lock)
FORMER(void, set_lock_)
FORMER(void, unset_lock)
FORMER(void, unset_lock_)
FORMER(int, test_lock)
FORMER(int, test_lock_)
FORMER_NEST(init_nest_lock)
FORMER_NEST(init_nest_lock_)
FORMER_NEST(destroy_nest_lock)
FORMER_NEST(destroy_nest_lock_)
FORMER_NEST(set_nest_lock)
FORMER_NEST(set_nest_lock_)
FORMER_NEST(unset_nest_lock)
FORMER_NEST(unset_nest_lock_)
FORMER_NEST(test_nest_lock)
FORMER_NEST(test_nest_lock_)
