// Threads pack and unpack at once: messages of their own with tags of their own, one message that
// several threads unpack in turn, and one thread that waits while others make progress.
// run: 1 2 3
// timeout: 60
// thread
// combray.h
// hosts
// checkers: threads
#include "check.h"

#include <combray.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 60, LONG = 30000, SHARED = 64 };

static int next_rank, previous_rank;

static void *converse(void *argument) {
    int thread = (int)(intptr_t)argument;
    unsigned char *out = malloc(LONG), *in = malloc(LONG);
    for (int round = 0; round < ROUNDS; round++) {
        combray_message sent, received;
        MPI_Request requests[2];
        int length = (round * 977 + thread * 131) % LONG, told = -1;
        uint64_t seed = (uint64_t)(thread * 1000 + round);
        pattern_fill(out, (size_t)length, seed + (uint64_t)check_rank * 7);
        OK(combray_begin(MPI_COMM_WORLD, next_rank, thread, &sent));
        OK(combray_pack(sent, &length, sizeof length, COMBRAY_EXPRESS));
        OK(combray_pack(sent, out, (size_t)length, COMBRAY_CHEAPER));
        OK(combray_end(&sent, &requests[0]));
        OK(combray_begin_unpack(MPI_COMM_WORLD, previous_rank, thread, &received));
        OK(combray_unpack(received, &told, sizeof told, COMBRAY_EXPRESS));
        REQUIRE(told == length, "%d instead of %d", told, length);
        OK(combray_unpack(received, in, (size_t)told, round % 2 ? COMBRAY_EXPRESS : COMBRAY_CHEAPER));
        if (round % 3) {
            OK(combray_end_unpack(&received, &requests[1], MPI_STATUS_IGNORE));
            OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        } else {
            OK(combray_end_unpack(&received, NULL, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        }
        CHECK_PATTERN(in, (size_t)told, seed + (uint64_t)previous_rank * 7);
    }
    free(out);
    free(in);
    return NULL;
}

static combray_message shared;
static int seen[SHARED];

// Each thread takes what comes next.
static void *take_some(void *argument) {
    (void)argument;
    for (int i = 0; i < SHARED / THREADS; i++) {
        int number = -1;
        OK(combray_unpack(shared, &number, sizeof number, COMBRAY_EXPRESS));
        REQUIRE(number >= 0 && number < SHARED, "%d", number);
        __atomic_add_fetch(&seen[number], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *add_some(void *argument) {
    int *numbers = argument;
    for (int i = 0; i < SHARED / THREADS; i++)
        OK(combray_pack(shared, &numbers[i], sizeof *numbers, COMBRAY_CHEAPER));
    return NULL;
}

static void one_message(void) {
    combray_message received;
    pthread_t threads[THREADS];
    int numbers[SHARED];
    for (int i = 0; i < SHARED; i++) numbers[i] = i;
    OK(combray_begin(MPI_COMM_WORLD, next_rank, 99, &shared));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, add_some, &numbers[i * (SHARED / THREADS)]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    MPI_Request request;
    OK(combray_end(&shared, &request));
    OK(combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, 99, &received));
    shared = received;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, take_some, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    OK(combray_end_unpack(&shared, NULL, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < SHARED; i++) CHECK_EQ(seen[i], 1);
}

int main(void) {
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    REQUIRE(provided == MPI_THREAD_MULTIPLE, "level %d", provided);
    next_rank = (check_rank + 1) % check_size;
    previous_rank = (check_rank + check_size - 1) % check_size;
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, converse, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    one_message();
    return check_end();
}
