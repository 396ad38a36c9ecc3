// MPI_THREAD_MULTIPLE: four threads send and receive at once, on tags, communicators and sizes of
// their own; then all on one communicator with MPI_ANY_TAG; then collectives on a communicator
// each.
// run: 2 3
// thread
// timeout: 60
// hosts
// checkers: address threads
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300, LARGEST = 1 << 17 };

static MPI_Comm comms[THREADS];
static pthread_barrier_t together;

typedef struct {
    int number;
    void (*work)(int thread);
} Task;

static void exchange(int thread) {
    unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    Random random = random_from(thread + 1);
    for (int round = 0; round < ROUNDS; round++) {
        // All ranks draw equal numbers: both sides know the size.
        int bytes = random_below(&random, 4) ? random_below(&random, 2000)
                                             : random_below(&random, LARGEST);
        MPI_Comm comm = round % 2 ? comms[thread] : MPI_COMM_WORLD;
        MPI_Request requests[2];
        MPI_Status statuses[2];
        int count;
        pattern_fill(out, bytes, check_rank * 100 + thread);
        OK(MPI_Irecv(in, LARGEST, MPI_BYTE, before, thread, comm, &requests[0]));
        OK(MPI_Isend(out, bytes, MPI_BYTE, next, thread, comm, &requests[1]));
        if (round % 3)
            OK(MPI_Waitall(2, requests, statuses));
        else {
            OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
            OK(MPI_Wait(&requests[0], &statuses[0]));
        }
        OK(MPI_Get_count(&statuses[0], MPI_BYTE, &count));
        CHECK_EQ(count, bytes);
        CHECK_PATTERN(in, bytes, before * 100 + thread);
    }
    free(out);
    free(in);
}

// One communicator, one tag space: each thread takes any message, all are taken once.
static int taken[THREADS * ROUNDS];

static void any_message(int thread) {
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    for (int round = 0; round < ROUNDS; round++) {
        int out = thread * ROUNDS + round, in = -1;
        MPI_Request request;
        OK(MPI_Isend(&out, 1, MPI_INT, next, 500 + round, MPI_COMM_WORLD, &request));
        OK(MPI_Recv(&in, 1, MPI_INT, before, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        REQUIRE(in >= 0 && in < THREADS * ROUNDS, "message %d", in);
        __atomic_add_fetch(&taken[in], 1, __ATOMIC_RELAXED);
    }
}

// A matched probe gives each message to one thread only.
static void matched(int thread) {
    int next = (check_rank + 1) % check_size, sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int out = thread + round, in;
        MPI_Message message;
        MPI_Status status;
        OK(MPI_Send(&out, 1, MPI_INT, next, 0, comms[0]));
        OK(MPI_Mprobe(MPI_ANY_SOURCE, 0, comms[0], &message, &status));
        OK(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
        sum += in;
    }
    __atomic_add_fetch(&taken[0], sum, __ATOMIC_RELAXED);
}

static void collectives(int thread) {
    for (int round = 0; round < ROUNDS / 3; round++) {
        int mine = check_rank + thread + round, sum = 0;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comms[thread]));
        CHECK_EQ(sum, check_size * (check_size - 1) / 2 + check_size * (thread + round));
        OK(MPI_Bcast(&mine, 1, MPI_INT, round % check_size, comms[thread]));
        CHECK_EQ(mine, round % check_size + thread + round);
    }
}

static void local_objects(int thread) {
    (void)thread;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Datatype type;
        MPI_Group group, part;
        int ranks[1] = {0};
        OK(MPI_Type_vector(round + 1, 1, 2, MPI_INT, &type));
        OK(MPI_Type_commit(&type));
        OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
        OK(MPI_Group_incl(group, 1, ranks, &part));
        OK(MPI_Group_free(&part));
        OK(MPI_Group_free(&group));
        OK(MPI_Type_free(&type));
    }
}

static void *run(void *argument) {
    Task *task = argument;
    pthread_barrier_wait(&together);
    task->work(task->number);
    return NULL;
}

static void on_threads(void (*work)(int)) {
    pthread_t threads[THREADS];
    Task tasks[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (Task){i, work};
        pthread_create(&threads[i], NULL, run, &tasks[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(void) {
    int provided, main_thread;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    REQUIRE(provided == MPI_THREAD_MULTIPLE, "%d", provided);
    OK(MPI_Query_thread(&provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_Is_thread_main(&main_thread));
    CHECK_EQ(main_thread, 1);
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    on_threads(exchange);
    on_threads(any_message);
    for (int i = 0; i < THREADS * ROUNDS; i++) CHECK(taken[i] == 1, "message %d: %d", i, taken[i]);
    taken[0] = 0;
    on_threads(matched);
    int expected = 0;
    for (int i = 0; i < THREADS; i++)
        for (int round = 0; round < ROUNDS; round++) expected += i + round;
    CHECK_EQ(taken[0], expected);
    on_threads(collectives);
    on_threads(local_objects);
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
