/* Threads of Combray for programs in C. They cost little, share a few kernel threads (the workers),
 * and let other threads run while they wait, also in MPI calls. The guide is
 * share/doc/combray/docs/user/threads.md.
 *
 * Common to all functions:
 * - They need neither MPI_Init nor an MPI program. A program that calls MPI on several threads must
 *   request MPI_THREAD_MULTIPLE; while its blocking calls wait, the worker runs other threads.
 * - Threads are cooperative: other threads run when a thread waits, yields, sleeps or ends. A
 *   thread that does none of these for 10 ms lends its worker's processor to the others until it
 *   does.
 * - Results are 0 or a number of <errno.h>: EINVAL for an invalid argument (a null pointer, a key
 *   that was deleted), and the errors that each function documents.
 * - All functions but combray_key_set also work on kernel threads, which then sleep as with
 *   pthreads.
 * - Variables of _Thread_local, control words of floating point and the signal mask belong to the
 *   worker: do not rely on them across a call that waits. errno belongs to the thread.
 * - A mutex, condition, semaphore or once flag that consists of zeros is initialized. These objects
 *   must not be copied or moved in memory. When they are no longer used, they must be destroyed (if
 *   there is a function for it) to free their memory.
 */
#ifndef COMBRAY_THREADS_H
#define COMBRAY_THREADS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts `count` workers; 0 stands for one worker on each processor that the process may use.
 * Stacks have `stack_bytes` bytes; 0 stands for 256 KiB. Memory is allocated only for the parts of
 * a stack that were touched. A thread that overflows its stack aborts the program with a message.
 * `scheduler` names the scheduler that decides where threads run: "steal" (also for a null
 * pointer), "null", "burst", "spread", "cache", "memory", "gang" or "interface".
 * Errors: EBUSY: there are workers. EINVAL: there are fewer processors than workers, or no such
 * scheduler. EAGAIN: the system cannot create more kernel threads. */
int combray_threads_start(int count, size_t stack_bytes, const char *scheduler);

/* Ends the workers.
 * Errors: EBUSY: some threads have not ended. ESRCH: there are no workers. EDEADLK: the caller is a
 * thread of these workers. */
int combray_threads_stop(void);

/* Returns the number of workers. */
int combray_threads_count(void);

/* A thread that was created, until it is joined or detached. */
typedef struct combray_thread_s *combray_thread;

/* A bubble: a group of threads, and of other bubbles, that belong together. */
typedef struct combray_bubble_s *combray_bubble;

/* Creates a thread that runs `body(argument)`. `name` (for messages) and `bubble` may be null
 * pointers, and so may `thread`, if the thread will not be joined. In a bubble that was not
 * submitted the thread waits until the bubble is submitted.
 * Errors: ESRCH: there are no workers. */
int combray_thread_create(combray_thread *thread, const char *name, combray_bubble bubble,
                          void *(*body)(void *), void *argument);

/* Waits until the thread has ended, and stores the result of its body in *result, unless `result`
 * is a null pointer. Then the handle is no longer valid.
 * Errors: EDEADLK: the caller is this thread. ECANCELED: the caller was cancelled; the handle stays
 * valid. */
int combray_thread_join(combray_thread thread, void **result);

/* Declares that the thread will not be joined. The handle is no longer valid. */
int combray_thread_detach(combray_thread thread);

/* Requests that the thread ends. If it waits for a thread, a condition or a semaphore, or sleeps,
 * that call returns ECANCELED; otherwise its next call that would wait does. This happens once. The
 * thread itself must end then, because only it knows which resources it holds; its later waits, for
 * cleaning up, work as usual. Other waits, including those of MPI, continue. */
int combray_thread_cancel(combray_thread thread);

/* Calls both functions: the first one here, and the second one afterwards, unless another worker
 * has started it meanwhile, on a thread of its own. Returns when both have ended. It costs little
 * more than two calls, so it is suitable for tasks of a hundred nanoseconds, too. On kernel threads
 * one function is called after the other. */
int combray_fork_join(void (*first)(void *), void *first_argument, void (*second)(void *), void *second_argument);

/* Lets other threads run. */
void combray_thread_yield(void);

/* Sleeps for at least the given number of nanoseconds.
 * Errors: ECANCELED: the caller was cancelled, before the call or during it. */
int combray_thread_sleep(uint64_t nanoseconds);

/* Returns a number that no other thread has at this time; 0 on kernel threads. */
uint64_t combray_thread_number(void);

/* A mutex, which one thread at a time can lock. It is not recursive. */
typedef struct {
    void *private_;
} combray_mutex;
#define COMBRAY_MUTEX_INITIALIZER {0}

int combray_mutex_lock(combray_mutex *mutex);
/* Errors: EBUSY: the mutex is locked. */
int combray_mutex_trylock(combray_mutex *mutex);
/* Must be called by the thread that has locked the mutex. Errors: EPERM: the mutex is not locked. */
int combray_mutex_unlock(combray_mutex *mutex);
int combray_mutex_destroy(combray_mutex *mutex);

/* A condition variable. */
typedef struct {
    void *private_;
} combray_condition;
#define COMBRAY_CONDITION_INITIALIZER {0}

/* Unlocks the mutex, which the caller has locked, waits for a signal, and locks the mutex again.
 * Errors: ECANCELED: the caller was cancelled; it holds the mutex again, and has consumed no
 * signal. */
int combray_condition_wait(combray_condition *condition, combray_mutex *mutex);
/* Wakes the thread that has waited longest. */
int combray_condition_signal(combray_condition *condition);
/* Wakes all waiting threads. */
int combray_condition_broadcast(combray_condition *condition);
int combray_condition_destroy(combray_condition *condition);

/* A barrier for a fixed number of threads, which can be used repeatedly. */
typedef struct {
    void *private_;
} combray_barrier;

/* The result of combray_barrier_wait in the thread that arrived last. */
#define COMBRAY_BARRIER_LAST (-1)

/* Errors: EINVAL: `count` is 0. */
int combray_barrier_init(combray_barrier *barrier, unsigned count);
int combray_barrier_wait(combray_barrier *barrier);
int combray_barrier_destroy(combray_barrier *barrier);

/* A counter of permits; a semaphore that consists of zeros has no permits. */
typedef struct {
    void *private_;
} combray_semaphore;

int combray_semaphore_init(combray_semaphore *semaphore, unsigned permits);
/* Takes a permit; waits until there is one.
 * Errors: ECANCELED: there was none, and the caller was cancelled. */
int combray_semaphore_wait(combray_semaphore *semaphore);
/* Errors: EAGAIN: there is no permit now. */
int combray_semaphore_trywait(combray_semaphore *semaphore);
/* Adds a permit. */
int combray_semaphore_post(combray_semaphore *semaphore);
int combray_semaphore_destroy(combray_semaphore *semaphore);

/* A flag for an action that must run once. */
typedef struct {
    void *private_;
} combray_once_flag;
#define COMBRAY_ONCE_INITIALIZER {0}

/* Calls the function unless it has been called with this flag. When combray_once returns, the
 * function has been called. */
int combray_once(combray_once_flag *flag, void (*action)(void));

/* A key, under which each thread has its own value, initially a null pointer. When a thread ends,
 * the destructor, unless it is a null pointer, is called with the thread's value, if the value is
 * not a null pointer. */
typedef uint32_t combray_key;

int combray_key_create(combray_key *key, void (*destructor)(void *));
/* Deletes a key. Its destructor is no longer called. */
int combray_key_delete(combray_key key);
/* Errors: EPERM: the caller is a kernel thread. */
int combray_key_set(combray_key key, void *value);
void *combray_key_get(combray_key key);

/* The relations between the threads of a bubble. */
enum {
    COMBRAY_UNRELATED = 0,
    /* They use common data, so they should run near each other. */
    COMBRAY_SHARES_MEMORY = 1,
    /* They wait for each other, so they should run at one time. */
    COMBRAY_WAITS_TOGETHER = 2
};

/* Creates a bubble. If `inside` is not a null pointer, the new bubble is part of that bubble and is
 * submitted with it. */
int combray_bubble_create(combray_bubble *bubble, combray_bubble inside, int relation);
/* Makes the threads of the bubble ready. The scheduler decides where they run.
 * Errors: ESRCH: there are no workers. */
int combray_bubble_submit(combray_bubble bubble);
/* Frees the handle, which is no longer valid; the threads in the bubble continue. */
int combray_bubble_free(combray_bubble bubble);

/* How memory is used. Memory that is only read, perhaps by many threads, stays where it is. Memory
 * that is also written may move to the node of its user. */
enum { COMBRAY_READS = 1, COMBRAY_WRITES = 2 };

/* Declares that the caller uses this memory, until it makes another declaration for memory that
 * begins at this address. The scheduler "memory" then runs the caller on the NUMA node that has
 * most of its memory, as far as the load permits. If the load forces the caller to another node,
 * memory that it writes follows it. Other schedulers ignore the declaration. The location of the
 * memory is determined in this call: touch the memory before.
 * A thread of a team of OpenMP may also call it, in a region, if the program runs on Combray's
 * library of OpenMP: memory that is written then moves to the node of its thread of the outermost
 * team, and follows that. If a thread names more than 4096 ranges, the oldest are forgotten.
 * Errors: EINVAL: `address` is a null pointer, `bytes` is 0, or there is no such access. EPERM: the
 * caller is another kernel thread. */
int combray_uses(const void *address, size_t bytes, int access);
/* Declares that the threads of a bubble use this memory together, with the effects described for
 * combray_uses. The location of the memory is determined again when the bubble is submitted. */
int combray_bubble_uses(combray_bubble bubble, const void *address, size_t bytes, int access);

#ifdef __cplusplus
}
#endif

#endif
