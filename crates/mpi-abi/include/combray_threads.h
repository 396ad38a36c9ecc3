/* Threads of Combray for programs in C: they cost little, share a few kernel threads, the workers, and
 * let others run while they wait, also in calls of MPI. The guide is share/doc/combray/docs/user/threads.md.
 *
 * Common to all functions:
 * - They need neither MPI_Init nor an MPI program. A program that calls MPI on several threads asks
 *   for MPI_THREAD_MULTIPLE; its blocking calls then wait without their worker.
 * - Threads are cooperative: others run when one waits, yields, sleeps or ends. One that does neither
 *   for 10 ms lends its worker's processor to the others until it does.
 * - Results are 0 or a number of <errno.h>: EINVAL for an argument that is none (a null pointer, a
 *   key that was deleted), and what the function says.
 * - All but combray_key_set work on kernel threads, too, which then sleep as with pthreads.
 * - Variables of _Thread_local, control words of floating point and the signal mask belong to the
 *   worker: do not rely on them across a call that waits. errno goes with the thread.
 * - A mutex, condition, semaphore or once that consists of zeros is initialized. They must not be
 *   copied or moved in memory, and must be destroyed (where there is a function for it) to give back
 *   their memory, when nobody uses them any more.
 */
#ifndef COMBRAY_THREADS_H
#define COMBRAY_THREADS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts `count` workers, or one on each processor that the process may use if that is 0. Stacks have
 * `stack_bytes` bytes, 256 KiB if that is 0, of which memory is taken as far as they were touched; a
 * thread that overflows its stack aborts the program with a message. `scheduler` says who decides
 * where threads run: "steal" (also if it is a null pointer), "null", "burst", "spread", "cache", "memory",
 * "gang" or "interface".
 * Errors: EBUSY: there are workers. EINVAL: more workers than processors, or no such scheduler. EAGAIN: the
 * system makes no more kernel threads. */
int combray_threads_start(int count, size_t stack_bytes, const char *scheduler);

/* Ends the workers. Errors: EBUSY: threads have not ended. ESRCH: there are none. EDEADLK: the caller is
 * a thread of theirs. */
int combray_threads_stop(void);

/* How many workers there are. */
int combray_threads_count(void);

/* A thread that was made, until it is joined or detached. */
typedef struct combray_thread_s *combray_thread;

/* A bubble: threads, and bubbles, that belong together. */
typedef struct combray_bubble_s *combray_bubble;

/* Makes a thread that runs `body(argument)`. `name` (for messages) and `bubble` may be null pointers, and
 * `thread`, if nobody will join it. In a bubble that was not submitted the thread waits until that is.
 * Errors: ESRCH: there are no workers. */
int combray_thread_create(combray_thread *thread, const char *name, combray_bubble bubble,
                          void *(*body)(void *), void *argument);

/* Waits until the thread has ended, and stores what its body returned in *result, if that is not a null
 * pointer. The handle is no longer valid then. Errors: EDEADLK: the caller is this thread. ECANCELED: the
 * caller was asked to end; the handle stays valid. */
int combray_thread_join(combray_thread thread, void **result);

/* Nobody will join the thread. The handle is no longer valid. */
int combray_thread_detach(combray_thread thread);

/* Asks the thread to end: if it waits for a thread, a condition or a semaphore, or sleeps, that call returns
 * ECANCELED, else the next one that would wait does, once. It is for the thread to end then, as nobody else
 * knows what it holds; the next waits, of those who clean up, are as ever. Other waits, of MPI, too, go on. */
int combray_thread_cancel(combray_thread thread);

/* Calls both functions: the first one here; the second one afterwards, unless another worker has come to it
 * meanwhile, on a thread of its own. Returns when both have ended, and costs little more than two calls, so that
 * it is for tasks of a hundred nanoseconds, too. On kernel threads one is called after the other. */
int combray_fork_join(void (*first)(void *), void *first_argument, void (*second)(void *), void *second_argument);

/* Lets others run. */
void combray_thread_yield(void);

/* Waits for so many nanoseconds at least. Errors: ECANCELED: the caller was asked to end, before or meanwhile. */
int combray_thread_sleep(uint64_t nanoseconds);

/* A number that no other thread has at the same time; 0 on kernel threads. */
uint64_t combray_thread_number(void);

/* A mutex, for one thread at a time. It is not recursive. */
typedef struct {
    void *private_;
} combray_mutex;
#define COMBRAY_MUTEX_INITIALIZER {0}

int combray_mutex_lock(combray_mutex *mutex);
/* Errors: EBUSY: it is locked. */
int combray_mutex_trylock(combray_mutex *mutex);
/* By the thread that has locked it. Errors: EPERM: nobody has. */
int combray_mutex_unlock(combray_mutex *mutex);
int combray_mutex_destroy(combray_mutex *mutex);

/* A condition variable. */
typedef struct {
    void *private_;
} combray_condition;
#define COMBRAY_CONDITION_INITIALIZER {0}

/* Unlocks the mutex, which the caller has locked, waits for a signal, and locks it again.
 * Errors: ECANCELED: the caller was asked to end; it holds the mutex again, and has taken no signal. */
int combray_condition_wait(combray_condition *condition, combray_mutex *mutex);
/* Wakes the thread that has waited longest. */
int combray_condition_signal(combray_condition *condition);
/* Wakes all that wait. */
int combray_condition_broadcast(combray_condition *condition);
int combray_condition_destroy(combray_condition *condition);

/* A barrier for a number of threads, as often as they like. */
typedef struct {
    void *private_;
} combray_barrier;

/* What combray_barrier_wait returns in the thread that came last. */
#define COMBRAY_BARRIER_LAST (-1)

/* Errors: EINVAL: `count` is 0. */
int combray_barrier_init(combray_barrier *barrier, unsigned count);
int combray_barrier_wait(combray_barrier *barrier);
int combray_barrier_destroy(combray_barrier *barrier);

/* A counter of permits; zeros are a semaphore without permits. */
typedef struct {
    void *private_;
} combray_semaphore;

int combray_semaphore_init(combray_semaphore *semaphore, unsigned permits);
/* Takes a permit; waits until there is one. Errors: ECANCELED: there was none, and the caller was asked to end. */
int combray_semaphore_wait(combray_semaphore *semaphore);
/* Errors: EAGAIN: there is none now. */
int combray_semaphore_trywait(combray_semaphore *semaphore);
/* Gives a permit. */
int combray_semaphore_post(combray_semaphore *semaphore);
int combray_semaphore_destroy(combray_semaphore *semaphore);

/* Something that is done once. */
typedef struct {
    void *private_;
} combray_once_flag;
#define COMBRAY_ONCE_INITIALIZER {0}

/* Calls the function if nobody has; when this returns, it has been called. */
int combray_once(combray_once_flag *flag, void (*action)(void));

/* Under a key each thread has a value of its own, a null pointer at first. The destructor, if it is not a
 * null pointer, is called with a value that is none when its thread ends. */
typedef uint32_t combray_key;

int combray_key_create(combray_key *key, void (*destructor)(void *));
/* Values are not destroyed any more. */
int combray_key_delete(combray_key key);
/* Errors: EPERM: the caller is a kernel thread. */
int combray_key_set(combray_key key, void *value);
void *combray_key_get(combray_key key);

/* What the threads of a bubble have to do with each other. */
enum {
    COMBRAY_UNRELATED = 0,
    /* They use the same data, so they should be near each other. */
    COMBRAY_SHARES_MEMORY = 1,
    /* They wait for each other, so they should run at the same time. */
    COMBRAY_WAITS_TOGETHER = 2
};

/* Makes a bubble, in another one if `inside` is not a null pointer; such a one is submitted with the other. */
int combray_bubble_create(combray_bubble *bubble, combray_bubble inside, int relation);
/* The scheduler decides where the threads of the bubble run, which are ready from now on.
 * Errors: ESRCH: there are no workers. */
int combray_bubble_submit(combray_bubble bubble);
/* The handle is no longer valid; threads in the bubble go on. */
int combray_bubble_free(combray_bubble bubble);

/* How memory is used: read only, perhaps by many, so that it stays where it is; or written, too, so that
 * it may go where its user goes. */
enum { COMBRAY_READS = 1, COMBRAY_WRITES = 2 };

/* Says that the caller uses this memory, until it says something else of memory that begins there. The
 * scheduler "memory" then runs it on the NUMA node that has most of its memory, as far as load allows;
 * where load forces it elsewhere, what is written follows. Others take no notice. Where the memory is, is
 * looked up now: touch it before.
 * Errors: EINVAL: `address` is a null pointer, there are no bytes, or no such access. EPERM: the caller is
 * a kernel thread. */
int combray_uses(const void *address, size_t bytes, int access);
/* The same for what the threads of a bubble use together. Where it is, is looked up again when the bubble
 * is submitted. */
int combray_bubble_uses(combray_bubble bubble, const void *address, size_t bytes, int access);

#ifdef __cplusplus
}
#endif

#endif
