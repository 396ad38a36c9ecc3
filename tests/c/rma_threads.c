// MPI_THREAD_MULTIPLE on one window: threads use the parts of all processes at once in one epoch,
// each with flushes and requests of its own, while others lock another window.
// run: 2 3
// thread
// timeout: 60
// hosts
// checkers: threads
#include "windows.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 60, INTS = 3000 };
enum { SLOT = INTS * sizeof(int), COUNTER = THREADS * SLOT, PART = COUNTER + 8 };

static Window *window, *locked;
static pthread_barrier_t together;
static long long tickets_sum;

// Each thread of each process has a slot in the part of the next process.
static void write_and_read(int thread) {
    int next = (check_rank + 1) % check_size;
    MPI_Aint place = window_at(window, next, thread * (MPI_Aint)SLOT);
    int *out = malloc(SLOT), *in = malloc(SLOT);
    for (int round = 0; round < ROUNDS; round++) {
        int length = round % 3 ? 5 : INTS, wrong = 0;
        MPI_Request request;
        for (int i = 0; i < length; i++) out[i] = round * 1000 + thread * 100 + i, in[i] = -1;
        if (round % 2) {
            OK(MPI_Put(out, length, MPI_INT, next, place, length, MPI_INT, window->win));
            OK(MPI_Win_flush(next, window->win));
            OK(MPI_Get(in, length, MPI_INT, next, place, length, MPI_INT, window->win));
            OK(MPI_Win_flush_local(next, window->win));
        } else {
            OK(MPI_Rput(out, length, MPI_INT, next, place, length, MPI_INT, window->win, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            OK(MPI_Win_flush_all(window->win));
            OK(MPI_Rget(in, length, MPI_INT, next, place, length, MPI_INT, window->win, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        for (int i = 0; i < length; i++) wrong += in[i] != out[i];
        CHECK(wrong == 0, "%s: thread %d, round %d: %d of %d wrong", FLAVOR_NAMES[window->flavor],
              thread, round, wrong, length);
    }
    free(out);
    free(in);
}

static void take_tickets(void) {
    const long long one = 1;
    for (int round = 0; round < ROUNDS; round++) {
        long long ticket = -1;
        OK(MPI_Fetch_and_op(&one, &ticket, MPI_LONG_LONG, 0, window_at(window, 0, COUNTER), MPI_SUM,
                            window->win));
        OK(MPI_Win_flush(0, window->win));
        __atomic_add_fetch(&tickets_sum, ticket, __ATOMIC_RELAXED);
    }
}

static void lock_another(void) {
    for (int round = 0; round < ROUNDS; round++) {
        long long value = -1;
        MPI_Aint place = window_at(locked, 0, 0);
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, locked->win));
        OK(MPI_Get(&value, 1, MPI_LONG_LONG, 0, place, 1, MPI_LONG_LONG, locked->win));
        OK(MPI_Win_flush(0, locked->win));
        value++;
        OK(MPI_Put(&value, 1, MPI_LONG_LONG, 0, place, 1, MPI_LONG_LONG, locked->win));
        OK(MPI_Win_unlock(0, locked->win));
    }
}

static void *run(void *argument) {
    int thread = *(int *)argument;
    pthread_barrier_wait(&together);
    write_and_read(thread);
    take_tickets();
    if (thread == 0) lock_another();
    return NULL;
}

static void all_threads(int flavor) {
    Window one = window_open(flavor, PART), other = window_open(flavor, 8);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    window = &one;
    locked = &other;
    tickets_sum = 0;
    OK(MPI_Win_lock_all(0, one.win));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, run, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    OK(MPI_Win_unlock_all(one.win));
    OK(MPI_Allreduce(MPI_IN_PLACE, &tickets_sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    long long tickets = (long long)ROUNDS * THREADS * check_size;
    CHECK_EQ(tickets_sum, tickets * (tickets - 1) / 2);
    if (check_rank == 0) CHECK_EQ(*(long long *)other.memory, ROUNDS * check_size);
    window_close(&one);
    window_close(&other);
}

int main(void) {
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    REQUIRE(provided == MPI_THREAD_MULTIPLE, "%d", provided);
    pthread_barrier_init(&together, NULL, THREADS);
    for (int flavor = 0; flavor < FLAVORS; flavor++)
        if (window_exists(flavor)) all_threads(flavor);
    return check_end();
}
