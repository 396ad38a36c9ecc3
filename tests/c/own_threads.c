// Threads of the library (combray_threads.h): those that wait in MPI leave their workers to others,
// however many there are; mutexes, conditions, barriers, semaphores, keys, bubbles from C.
// run: 1 2 4
// hosts
// combray.h
#include "check.h"
#include <combray_threads.h>
#include <errno.h>

enum { PAIRS = 64, ROUNDS = 20, LONG = 100000 };

static int peer;

// Each thread sends to and receives from the thread of its number in the next and in the previous
// process, on two workers: all others wait meanwhile.
static void *exchange(void *argument) {
    int number = (int)(intptr_t)argument, from = (check_rank + check_size - 1) % check_size;
    int *data = malloc(2 * LONG * sizeof *data), *got = data + LONG;
    for (int round = 0; round < ROUNDS; round++) {
        int length = round % 5 == 4 ? LONG : 1 + number, tag = number * ROUNDS + round;
        for (int i = 0; i < length; i++)
            data[i] = check_rank + number + round + i;
        MPI_Status status;
        if (round % 2) {
            MPI_Request request;
            OK(MPI_Isend(data, length, MPI_INT, peer, tag, MPI_COMM_WORLD, &request));
            OK(MPI_Recv(got, LONG, MPI_INT, from, tag, MPI_COMM_WORLD, &status));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Sendrecv(data, length, MPI_INT, peer, tag, got, LONG, MPI_INT, from, tag,
                            MPI_COMM_WORLD, &status));
        }
        int count;
        OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK(count == length && got[0] == from + number + round &&
              got[length - 1] == from + number + round + length - 1);
    }
    free(data);
    return argument;
}

// A receiver waits in MPI for a message that another thread of this process sends later: with one
// worker that is possible only if the wait releases the worker.
static void *receives(void *argument) {
    int *value = argument;
    OK(MPI_Recv(value, 1, MPI_INT, check_rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return value;
}

static void *sends(void *argument) {
    OK(MPI_Ssend(argument, 1, MPI_INT, check_rank, 7, MPI_COMM_WORLD));
    return NULL;
}

// Collective operations of several threads, on a communicator each.
static MPI_Comm communicators[8];

static void *reduces(void *argument) {
    int number = (int)(intptr_t)argument, sum;
    for (int round = 0; round < 50; round++) {
        int value = check_rank + number + round;
        OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, communicators[number]));
        CHECK(sum == check_size * (number + round) + check_size * (check_size - 1) / 2);
        OK(MPI_Barrier(communicators[number]));
    }
    return NULL;
}

static combray_mutex mutex = COMBRAY_MUTEX_INITIALIZER;
static combray_condition condition = COMBRAY_CONDITION_INITIALIZER;
static combray_barrier barrier;
static combray_semaphore semaphore;
static combray_once_flag once = COMBRAY_ONCE_INITIALIZER;
static combray_key key;
static int counted, called, destroyed, turn;

static void call_once(void) { called++; }

static void destroy(void *value) {
    combray_mutex_lock(&mutex);
    destroyed += *(int *)value;
    combray_mutex_unlock(&mutex);
}

static void *uses_all(void *argument) {
    int *number = argument;
    CHECK(combray_thread_number() != 0);
    CHECK(combray_once(&once, call_once) == 0 && called == 1);
    CHECK(combray_key_get(key) == NULL && combray_key_set(key, number) == 0);
    for (int i = 0; i < 100; i++) {
        CHECK(combray_mutex_lock(&mutex) == 0);
        int before = counted;
        if (i % 10 == 0)
            combray_thread_yield();
        counted = before + 1;
        CHECK(combray_mutex_trylock(&mutex) == EBUSY);
        CHECK(combray_mutex_unlock(&mutex) == 0);
    }
    CHECK(combray_key_get(key) == number);
    combray_barrier_wait(&barrier);
    CHECK(counted == 10 * 100);
    // In the order of their numbers.
    CHECK(combray_mutex_lock(&mutex) == 0);
    while (turn != *number)
        CHECK(combray_condition_wait(&condition, &mutex) == 0);
    turn++;
    CHECK(combray_condition_broadcast(&condition) == 0);
    CHECK(combray_mutex_unlock(&mutex) == 0);
    CHECK(combray_semaphore_post(&semaphore) == 0);
    return number;
}

struct fibonacci {
    int number, result;
};

static void fibonacci(void *argument) {
    struct fibonacci *own = argument;
    own->result = own->number;
    if (own->number < 2)
        return;
    struct fibonacci one = {own->number - 1, 0}, other = {own->number - 2, 0};
    CHECK(combray_fork_join(fibonacci, &one, fibonacci, &other) == 0);
    own->result = one.result + other.result;
}

static void *forks(void *argument) {
    fibonacci(argument);
    return NULL;
}

static combray_semaphore nothing;
static volatile int told;

static void *waits_for_nothing(void *argument) {
    uintptr_t kind = (uintptr_t)argument;
    if (kind == 0)
        told = combray_semaphore_wait(&nothing);
    if (kind == 1)
        told = combray_thread_sleep(1000000000000);
    if (kind == 2) {
        CHECK(combray_mutex_lock(&mutex) == 0);
        told = combray_condition_wait(&condition, &mutex);
        CHECK(combray_mutex_trylock(&mutex) == EBUSY && combray_mutex_unlock(&mutex) == 0);
    }
    if (kind == 3) {
        combray_thread other;
        CHECK(combray_thread_create(&other, NULL, NULL, waits_for_nothing, (void *)1) == 0);
        int own = combray_thread_join(other, NULL);
        CHECK(combray_thread_cancel(other) == 0 && combray_thread_join(other, NULL) == 0);
        told = own;
    }
    return argument;
}

static void cancel_in_each_wait(void) {
    for (uintptr_t kind = 0; kind < 4; kind++) {
        combray_thread thread;
        void *result;
        told = 0;
        CHECK(combray_thread_create(&thread, NULL, NULL, waits_for_nothing, (void *)kind) == 0);
        combray_thread_sleep(1000000);
        CHECK(combray_thread_cancel(thread) == 0);
        CHECK(combray_thread_join(thread, &result) == 0 && result == (void *)kind && told == ECANCELED);
    }
    CHECK(combray_thread_cancel(NULL) == EINVAL);
}

static void run(int count, void *(*body)(void *), combray_bubble bubble) {
    combray_thread threads[PAIRS];
    for (int i = 0; i < count; i++)
        CHECK(combray_thread_create(&threads[i], "exchange", bubble, body, (void *)(intptr_t)i) == 0);
    if (bubble)
        CHECK(combray_bubble_submit(bubble) == 0);
    for (int i = 0; i < count; i++) {
        void *result;
        CHECK(combray_thread_join(threads[i], &result) == 0);
    }
}

static void test_with_workers(int workers) {
    CHECK(combray_threads_start(workers, 0, NULL) == 0);
    CHECK(combray_threads_start(workers, 0, NULL) == EBUSY);
    CHECK(combray_threads_count() >= 1);

    int got = 0, value = 4711;
    combray_thread receiver, sender;
    CHECK(combray_thread_create(&receiver, "receiver", NULL, receives, &got) == 0);
    // The receiver waits for the sender.
    CHECK(combray_threads_stop() == EBUSY);
    CHECK(combray_thread_create(&sender, "sender", NULL, sends, &value) == 0);
    CHECK(combray_thread_join(receiver, NULL) == 0 && combray_thread_join(sender, NULL) == 0);
    CHECK(got == 4711);

    combray_bubble bubble;
    CHECK(combray_bubble_create(&bubble, NULL, COMBRAY_WAITS_TOGETHER) == 0);
    run(PAIRS, exchange, bubble);
    CHECK(combray_bubble_free(bubble) == 0);
    run(8, reduces, NULL);

    struct fibonacci task = {18, 0};
    combray_thread forking;
    CHECK(combray_thread_create(&forking, NULL, NULL, forks, &task) == 0);
    CHECK(combray_thread_join(forking, NULL) == 0 && task.result == 2584);

    cancel_in_each_wait();

    counted = turn = destroyed = called = 0;
    once = (combray_once_flag)COMBRAY_ONCE_INITIALIZER;
    CHECK(combray_key_create(&key, destroy) == 0);
    CHECK(combray_barrier_init(&barrier, 10) == 0 && combray_semaphore_init(&semaphore, 0) == 0);
    combray_thread threads[10];
    int numbers[10];
    for (int i = 0; i < 10; i++) {
        numbers[i] = i;
        CHECK(combray_thread_create(&threads[i], NULL, NULL, uses_all, &numbers[i]) == 0);
    }
    // The main thread is a kernel thread, and waits with them.
    for (int i = 0; i < 10; i++)
        CHECK(combray_semaphore_wait(&semaphore) == 0);
    CHECK(combray_semaphore_trywait(&semaphore) == EAGAIN && turn == 10);
    for (int i = 0; i < 10; i++) {
        void *result;
        CHECK(combray_thread_join(threads[i], &result) == 0 && result == &numbers[i]);
    }
    CHECK(destroyed == 45);
    CHECK(combray_key_delete(key) == 0 && combray_key_delete(key) == EINVAL);
    CHECK(combray_barrier_destroy(&barrier) == 0 && combray_semaphore_destroy(&semaphore) == 0);
    CHECK(combray_threads_stop() == 0);
    CHECK(combray_threads_stop() == ESRCH);
}

int main(int argc, char **argv) {
    int level;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    check_world();
    CHECK_EQ(level, MPI_THREAD_MULTIPLE);
    peer = (check_rank + 1) % check_size;
    for (int i = 0; i < 8; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &communicators[i]));
    CHECK(combray_thread_create(NULL, NULL, NULL, receives, NULL) == ESRCH);
    CHECK(combray_threads_start(0, 0, "no such scheduler") == EINVAL);
    CHECK(combray_threads_start(100000, 0, NULL) == EINVAL);
    CHECK(combray_uses(&peer, sizeof peer, COMBRAY_WRITES) == EPERM && combray_uses(&peer, sizeof peer, 0) == EINVAL);
    CHECK(combray_uses(NULL, 1, COMBRAY_READS) == EINVAL && combray_uses(&peer, 0, COMBRAY_READS) == EINVAL);
    CHECK(combray_bubble_uses(NULL, &peer, sizeof peer, COMBRAY_READS) == EINVAL);
    CHECK(combray_mutex_unlock(&mutex) == EPERM && combray_mutex_lock(NULL) == EINVAL);
    CHECK(combray_key_set(0, NULL) == EINVAL && combray_thread_number() == 0);
    struct fibonacci task = {10, 0};
    fibonacci(&task);
    CHECK(task.result == 55 && combray_fork_join(fibonacci, &task, NULL, NULL) == EINVAL);
    test_with_workers(1);
    test_with_workers(0);
    for (int i = 0; i < 8; i++)
        OK(MPI_Comm_free(&communicators[i]));
    CHECK(combray_mutex_destroy(&mutex) == 0 && combray_condition_destroy(&condition) == 0);
    return check_end();
}
