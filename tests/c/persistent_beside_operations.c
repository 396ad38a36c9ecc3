// A persistent buffered send is started while an operation of the program is underway in another
// collective call: starting makes progress, so the operation may run in it, and make requests.
// run: 1 2 3
#include "check.h"
#include <stdlib.h>

enum { NUMBERS = 4096 };

static int query(void *state, MPI_Status *status) {
    (void)state;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int end(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static void add(void *in, void *sum, int *count, MPI_Datatype *type) {
    MPI_Request own;
    (void)type;
    OK(MPI_Grequest_start(query, end, cancel, NULL, &own));
    OK(MPI_Grequest_complete(own));
    OK(MPI_Wait(&own, MPI_STATUS_IGNORE));
    for (int i = 0; i < *count; i++)
        ((int *)sum)[i] += ((int *)in)[i];
}

int main(void) {
    static int ones[NUMBERS], sums[NUMBERS];
    int sent, received, bytes = 1 << 16;
    check_begin();
    for (int i = 0; i < NUMBERS; i++) ones[i] = 1;
    char *memory = malloc((size_t)bytes);
    MPI_Op operation;
    MPI_Request send, sum, receive;
    OK(MPI_Buffer_attach(memory, bytes));
    OK(MPI_Op_create(add, 1, &operation));
    OK(MPI_Bsend_init(&sent, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD, &send));
    for (int round = 0; round < CHECK_ROUNDS(500); round++) {
        sent = round;
        OK(MPI_Iallreduce(ones, sums, NUMBERS, MPI_INT, operation, MPI_COMM_WORLD, &sum));
        OK(MPI_Irecv(&received, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD, &receive));
        OK(MPI_Start(&send));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&sum, MPI_STATUS_IGNORE));
        CHECK_EQ(received, round);
        CHECK_EQ(sums[0], check_size);
        CHECK_EQ(sums[NUMBERS - 1], check_size);
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Op_free(&operation));
    OK(MPI_Buffer_detach(&memory, &bytes));
    free(memory);
    return check_end();
}
