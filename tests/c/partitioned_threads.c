// Many threads fill partitions and mark them as ready, while others wait for what comes in.
// run: 1 2 3
// timeout: 60
// thread
// hosts
// checkers: threads
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, PARTS_OF_EACH = 8, PARTS = THREADS * PARTS_OF_EACH, COUNT = 700, ROUNDS = 40 };

static int out[PARTS * COUNT], in[PARTS * COUNT], count, round_number;
static MPI_Request send_request, receive_request;

static void *fill(void *argument) {
    int thread = (int)(intptr_t)argument;
    for (int k = 0; k < PARTS_OF_EACH; k++) {
        int part = k * THREADS + thread;
        for (int i = 0; i < count; i++)
            out[part * count + i] = check_rank * 1000000 + round_number * 30000 + part * count + i;
        OK(MPI_Pready(part, send_request));
    }
    return NULL;
}

// Half as many partitions on this side, each for one thread.
static void *look(void *argument) {
    int thread = (int)(intptr_t)argument, size = 2 * count;
    int before = (check_rank + check_size - 1) % check_size;
    for (int part = thread; part < PARTS / 2; part += THREADS) {
        int flag = 0;
        while (!flag) OK(MPI_Parrived(receive_request, part, &flag));
        for (int i = part * size; i < (part + 1) * size; i++)
            REQUIRE(in[i] == before * 1000000 + round_number * 30000 + i, "round %d: %d at %d",
                    round_number, in[i], i);
    }
    return NULL;
}

static void rounds(int elements, int number) {
    count = elements;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    OK(MPI_Psend_init(out, PARTS, count, MPI_INT, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &send_request));
    OK(MPI_Precv_init(in, PARTS / 2, 2 * count, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &receive_request));
    for (round_number = 0; round_number < number; round_number++) {
        pthread_t fillers[THREADS], lookers[THREADS];
        memset(in, 0xff, sizeof in);
        OK(MPI_Start(&receive_request));
        OK(MPI_Start(&send_request));
        for (intptr_t i = 0; i < THREADS; i++) {
            pthread_create(&lookers[i], NULL, look, (void *)i);
            pthread_create(&fillers[i], NULL, fill, (void *)i);
        }
        // Waits asleep until the last thread has marked its last partition.
        OK(MPI_Wait(&send_request, MPI_STATUS_IGNORE));
        for (int i = 0; i < THREADS; i++) {
            pthread_join(fillers[i], NULL);
            pthread_join(lookers[i], NULL);
        }
        OK(MPI_Wait(&receive_request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&send_request));
    OK(MPI_Request_free(&receive_request));
}

int main(void) {
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    REQUIRE(provided == MPI_THREAD_MULTIPLE, "level %d", provided);
    rounds(COUNT, ROUNDS);
    // So short that all could go as one message.
    rounds(2, ROUNDS / 4);
    return check_end();
}
