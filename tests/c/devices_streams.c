// Operations that take their turn on a stream of the program: they begin after the work that the
// stream has before them, and what follows waits for them, while no call of the program waits.
// Without such waits the data is old, as the copies of the stream are late.
// run: 1 2 3
// each: turns threads
// timeout: 60
// preload: libcuda.so.1.c
#include "devices.h"

enum { COUNT = 50000, ROUNDS = 8, MANY = 300 };

DRIVER(int, cuStreamCreate, void **, unsigned);
DRIVER(int, cuMemcpyHtoDAsync_v2, uintptr_t, const void *, size_t, void *);
DRIVER(int, cuMemcpyDtoHAsync_v2, void *, uintptr_t, size_t, void *);
DRIVER(int, fake_device_work, void *, long);
DRIVER(int, fake_device_break, void *);
DRIVER(int, fake_device_capture, void *, int);

static void *queue;
static MPIX_Stream stream;
static MPI_Comm comm;

static MPIX_Stream stream_on(void *queue) {
    MPI_Info info;
    MPIX_Stream made;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    OK(MPIX_Info_set_hex(info, "value", &queue, sizeof queue));
    OK(MPIX_Stream_create(info, &made));
    MPI_Info_free(&info);
    return made;
}

static int value_of(int rank, int round, int index) { return rank * 1000003 + round * 7919 + index; }

static int *new_values(int rank, int round) {
    int *values = malloc(COUNT * sizeof *values);
    for (int i = 0; i < COUNT; i++) values[i] = value_of(rank, round, i);
    return values;
}

static void check_values(const int *values, int rank, int round, int count, const char *what) {
    for (int i = 0; i < count; i++)
        if (values[i] != value_of(rank, round, i)) {
            CHECK(0, "%s, round %d: element %d is %d, not %d", what, round, i, values[i], value_of(rank, round, i));
            return;
        }
}

static void to_device(void *to, const void *from, size_t bytes) {
    if (fake_device_work) DRIVER_OK(fake_device_work(queue, 300));
    DRIVER_OK(cuMemcpyHtoDAsync_v2((uintptr_t)to, from, bytes, queue));
}

static void to_host(void *to, const void *from, size_t bytes) {
    DRIVER_OK(cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, queue));
}

// All rounds are queued before the first one is over, with the same memory.
static void ring(int is_blocking, int count) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    size_t bytes = count * sizeof(int);
    void *from = device_memory(DEVICE, bytes), *into = device_memory(SECOND_DEVICE, bytes);
    int *given[ROUNDS], *taken[ROUNDS];
    MPI_Status statuses[ROUNDS][2];
    memset(statuses, 0, sizeof statuses);
    for (int round = 0; round < ROUNDS; round++) {
        given[round] = new_values(check_rank, round);
        taken[round] = calloc(count, sizeof(int));
        to_device(from, given[round], bytes);
        if (is_blocking && check_rank % 2 == 0) OK(MPIX_Send_enqueue(from, count, MPI_INT, next, round, comm));
        if (is_blocking) {
            OK(MPIX_Recv_enqueue(into, count, MPI_INT, previous, round, comm, &statuses[round][1]));
        } else {
            MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
            OK(MPIX_Isend_enqueue(from, count, MPI_INT, next, round, comm, &requests[0]));
            OK(MPIX_Irecv_enqueue(into, count, MPI_INT, previous, round, comm, &requests[1]));
            if (round % 2) {
                OK(MPIX_Wait_enqueue(&requests[1], &statuses[round][1]));
                OK(MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE));
            } else {
                OK(MPIX_Waitall_enqueue(2, requests, statuses[round]));
            }
            CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "a request is left");
        }
        if (is_blocking && check_rank % 2) OK(MPIX_Send_enqueue(from, count, MPI_INT, next, round, comm));
        to_host(taken[round], into, bytes);
    }
    DRIVER_OK(cuStreamSynchronize(queue));
    for (int round = 0; round < ROUNDS; round++) {
        check_values(taken[round], previous, round, count, is_blocking ? "Recv_enqueue" : "Irecv_enqueue");
        CHECK_EQ(statuses[round][1].MPI_SOURCE, previous);
        CHECK_EQ(statuses[round][1].MPI_TAG, round);
        free(given[round]);
        free(taken[round]);
    }
    device_free(DEVICE, from);
    device_free(SECOND_DEVICE, into);
}

static void reductions(void) {
    size_t bytes = COUNT * sizeof(int);
    void *memory = device_memory(DEVICE, bytes), *sum = device_memory(DEVICE, bytes);
    int *given[ROUNDS], *taken[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        given[round] = new_values(check_rank, round);
        taken[round] = calloc(COUNT, sizeof(int));
        to_device(memory, given[round], bytes);
        if (round % 2) OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, memory, COUNT, MPI_INT, MPI_SUM, comm));
        else OK(MPIX_Allreduce_enqueue(memory, sum, COUNT, MPI_INT, MPI_SUM, comm));
        to_host(taken[round], round % 2 ? memory : sum, bytes);
    }
    DRIVER_OK(cuStreamSynchronize(queue));
    for (int round = 0; round < ROUNDS; round++) {
        int wrong = 0;
        for (int i = 0; i < COUNT; i++) {
            int expected = 0;
            for (int rank = 0; rank < check_size; rank++) expected += value_of(rank, round, i);
            wrong += taken[round][i] != expected;
        }
        CHECK(wrong == 0, "Allreduce_enqueue, round %d: %d elements are wrong", round, wrong);
        free(given[round]);
        free(taken[round]);
    }
    device_free(DEVICE, memory);
    device_free(DEVICE, sum);
}

// The receive is queued and its call has returned before the sender begins: no call waits.
static void late_sender(void) {
    int peer = check_rank ^ 1;
    if (peer >= check_size) peer = MPI_PROC_NULL;
    void *memory = device_memory(DEVICE, COUNT * sizeof(int));
    int *values = new_values(check_rank, 1), *taken = calloc(COUNT, sizeof(int));
    MPI_Status status;
    if (check_rank % 2 == 0) {
        OK(MPIX_Recv_enqueue(memory, COUNT, MPI_INT, peer, 9, comm, &status));
        to_host(taken, memory, COUNT * sizeof(int));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank % 2) {
        to_device(memory, values, COUNT * sizeof(int));
        OK(MPIX_Send_enqueue(memory, COUNT, MPI_INT, peer, 9, comm));
    }
    DRIVER_OK(cuStreamSynchronize(queue));
    if (check_rank % 2 == 0 && peer != MPI_PROC_NULL) {
        check_values(taken, peer, 1, COUNT, "late sender");
        int count;
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK_EQ(count, COUNT);
    }
    if (peer == MPI_PROC_NULL) CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    device_free(DEVICE, memory);
    free(values);
    free(taken);
}

// The program may wait for a request of a stream, too.
static void waited_by_the_program(void) {
    void *memory = device_memory(DEVICE, COUNT * sizeof(int)), *into = device_memory(DEVICE, COUNT * sizeof(int));
    int *values = new_values(check_rank, 2), *taken = calloc(COUNT, sizeof(int));
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2];
    to_device(memory, values, COUNT * sizeof(int));
    OK(MPIX_Isend_enqueue(memory, COUNT, MPI_INT, next, 4, comm, &requests[0]));
    OK(MPIX_Irecv_enqueue(into, COUNT, MPI_INT, previous, 4, comm, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    device_get(DEVICE, taken, into, COUNT * sizeof(int));
    check_values(taken, previous, 2, COUNT, "MPI_Waitall");
    device_free(DEVICE, memory);
    device_free(DEVICE, into);
    free(values);
    free(taken);
}

// The stream waits for operations that are complete already.
static void late_wait(void) {
    void *memory = device_memory(DEVICE, COUNT * sizeof(int)), *into = device_memory(DEVICE, COUNT * sizeof(int));
    int *values = new_values(check_rank, 3), *taken = calloc(COUNT, sizeof(int)), flag = 0;
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2];
    to_device(memory, values, COUNT * sizeof(int));
    OK(MPIX_Isend_enqueue(memory, COUNT, MPI_INT, next, 6, comm, &requests[0]));
    OK(MPIX_Irecv_enqueue(into, COUNT, MPI_INT, previous, 6, comm, &requests[1]));
    for (int i = 0; i < 2; i++)
        for (flag = 0; !flag;) OK(MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE));
    // The library finds out that nothing is left to do.
    for (int i = 0; i < 100; i++) OK(MPIX_Stream_progress(stream));
    OK(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
    to_host(taken, into, COUNT * sizeof(int));
    DRIVER_OK(cuStreamSynchronize(queue));
    check_values(taken, previous, 3, COUNT, "late wait");
    device_free(DEVICE, memory);
    device_free(DEVICE, into);
    free(values);
    free(taken);
}

// All receives are queued before the sends for which they wait, and they are more operations than a
// queue of the driver may hold.
static void many_receives(void) {
    int *from = device_memory(DEVICE, MANY * sizeof(int)), *into = device_memory(DEVICE, MANY * sizeof(int));
    int *values = new_values(check_rank, 4), *taken = calloc(MANY, sizeof(int));
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2 * MANY];
    to_device(from, values, MANY * sizeof(int));
    for (int i = 0; i < MANY; i++)
        OK(MPIX_Irecv_enqueue(into + i, 1, MPI_INT, previous, 7, comm, &requests[i]));
    for (int i = 0; i < MANY; i++)
        OK(MPIX_Isend_enqueue(from + i, 1, MPI_INT, next, 7, comm, &requests[MANY + i]));
    OK(MPIX_Waitall_enqueue(2 * MANY, requests, MPI_STATUSES_IGNORE));
    to_host(taken, into, MANY * sizeof(int));
    DRIVER_OK(cuStreamSynchronize(queue));
    check_values(taken, previous, 4, MANY, "many receives");
    device_free(DEVICE, from);
    device_free(DEVICE, into);
    free(values);
    free(taken);
}

static void nothing(void *in, void *out, int *count, MPI_Datatype *type) { (void)in, (void)out, (void)count, (void)type; }

static void mistakes(int takes_turns) {
    int value = 0, other;
    MPI_Request request;
    MPI_Op own;
    MPI_Info info;
    MPIX_Stream made;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPIX_Send_enqueue(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COMM);
    MPI_Op_create(nothing, 1, &own);
    CHECK_CLASS(MPIX_Allreduce_enqueue(&value, &other, 1, MPI_INT, own, comm), MPI_ERR_OP);
    MPI_Op_free(&own);
    OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 77, MPI_COMM_WORLD, &request));
    CHECK_CLASS(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    request = MPI_REQUEST_NULL;
    OK(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    OK(MPIX_Waitall_enqueue(1, &request, MPI_STATUSES_IGNORE));
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "ze_command_queue_handle_t");
    CHECK_CLASS(MPIX_Stream_create(info, &made), MPI_ERR_INFO_VALUE);
    MPI_Info_set(info, "type", "cudaStream_t");
    CHECK_CLASS(MPIX_Stream_create(info, &made), MPI_ERR_INFO_VALUE);
    MPI_Info_set(info, "value", "12");
    CHECK_CLASS(MPIX_Stream_create(info, &made), MPI_ERR_INFO_VALUE);
    MPI_Info_free(&info);
    // A message that is too long: a call reports it that comes when it has happened.
    int *memory = device_memory(DEVICE, 4 * sizeof *memory);
    OK(MPIX_Isend_enqueue(memory, 4, MPI_INT, check_rank, 5, comm, &request));
    int code = MPIX_Recv_enqueue(memory, 1, MPI_INT, check_rank, 5, comm, MPI_STATUS_IGNORE);
    if (takes_turns) {
        // This call does its work even if it reports the receive.
        int waited = MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
        code = code ? code : waited;
        CHECK(request == MPI_REQUEST_NULL, "a request is left");
        DRIVER_OK(cuStreamSynchronize(queue));
        for (int tries = 0; !code && tries < 1000; tries++) code = MPI_Barrier(MPI_COMM_SELF);
        char text[MPI_MAX_ERROR_STRING] = "";
        int length;
        MPI_Error_string(code, text, &length);
        CHECK_CLASS(code, MPI_ERR_OTHER);
        CHECK(strstr(text, "a receive on a stream failed"), "%s", text);
    } else {
        CHECK_CLASS(code, MPI_ERR_TRUNCATE);
        OK(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    }
    device_free(DEVICE, memory);
}

// A graph would repeat what belongs to one call.
static void captured(void) {
    int value = 1, other = 0, length;
    char text[MPI_MAX_ERROR_STRING] = "";
    DRIVER_OK(fake_device_capture(queue, 1));
    int code = MPIX_Allreduce_enqueue(&value, &other, 1, MPI_INT, MPI_SUM, comm);
    CHECK_CLASS(code, MPI_ERR_OTHER);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "captured into a graph"), "%s", text);
    DRIVER_OK(fake_device_capture(queue, 0));
    OK(MPIX_Allreduce_enqueue(&value, &other, 1, MPI_INT, MPI_SUM, comm));
    DRIVER_OK(cuStreamSynchronize(queue));
    CHECK_EQ(other, check_size);
}

// After an error of its context, a stream never comes to what is queued on it.
static void broken(void) {
    void *other, *memory = device_memory(DEVICE, sizeof(int));
    MPI_Comm of_self;
    MPI_Request request;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    DRIVER_OK(cuStreamCreate(&other, 0));
    MPIX_Stream made = stream_on(other);
    OK(MPIX_Stream_comm_create(MPI_COMM_SELF, made, &of_self));
    MPI_Comm_set_errhandler(of_self, MPI_ERRORS_RETURN);
    DRIVER_OK(fake_device_break(other));
    OK(MPIX_Irecv_enqueue(memory, 1, MPI_INT, 0, 1, of_self, &request));
    int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_CLASS(code, MPI_ERR_OTHER);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", text);
    OK(MPIX_Stream_free(&made));
    OK(MPI_Comm_free(&of_self));
    device_free(DEVICE, memory);
}

int main(int argc, char **argv) {
    // Otherwise calls wait for the stream (scenarios/devices.py).
    int takes_turns = argc > 1 && strcmp(argv[1], "waits") != 0, level;
    if (argc > 1 && !strcmp(argv[1], "threads")) {
        // Then the helper takes the lock that calls take.
        OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
        check_world();
    } else {
        check_begin();
    }
    devices_begin();
    FIND(cuStreamCreate); FIND(cuMemcpyHtoDAsync_v2); FIND(cuMemcpyDtoHAsync_v2);
    LOOK_FOR(fake_device_work); LOOK_FOR(fake_device_break); LOOK_FOR(fake_device_capture);
    DRIVER_OK(cuStreamCreate(&queue, 0));
    stream = stream_on(queue);
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm));
    MPIX_Stream found;
    OK(MPIX_Comm_get_stream(comm, 0, &found));
    CHECK(found == stream, "the stream is %x, not %x", found, stream);
    OK(MPIX_Comm_get_stream(MPI_COMM_WORLD, 0, &found));
    CHECK(found == MPIX_STREAM_NULL, "the world has stream %x", found);
    OK(MPIX_Stream_progress(stream));
    for (int length = 0; length < 2; length++) {
        ring(0, length ? COUNT : 10);
        if (check_size % 2 == 0) ring(1, length ? COUNT : 10);
    }
    reductions();
    if (takes_turns) late_sender();
    waited_by_the_program();
    late_wait();
    many_receives();
    mistakes(takes_turns);
    if (takes_turns && are_counted()) captured();
    if (takes_turns && are_counted()) broken();
    OK(MPIX_Stream_free(&stream));
    CHECK(stream == MPIX_STREAM_NULL, "the handle of a freed stream is %x", stream);
    OK(MPI_Comm_free(&comm));
    // A stream that is not one of a device.
    OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm));
    int sum;
    OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    OK(MPIX_Stream_free(&stream));
    OK(MPI_Comm_free(&comm));
    return check_end();
}
