// Large nonblocking operations that are not waited for at once: inside a machine the processes that
// wait carry out portions of the work for all. Several underway, in place or not, with any
// datatype, combined by functions of the program, while some compute; and processes that pass
// different sizes.
// run: 2 3
// one machine: portions are carried out by processes that share memory
// checkers: threads
#include "check.h"
#include <time.h>

enum { LENGTH = 50000, MANY = 4 };

static void compute(int microseconds) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < microseconds);
}

static int value(int number, int source, int target, int at) {
    return number * 7919 + source * 1000003 + target * 101 + at;
}

static int *room(int count) {
    int *memory = malloc((size_t)count * sizeof *memory);
    for (int i = 0; i < count; i++) memory[i] = -1;
    return memory;
}

// Each element is followed by a gap.
static MPI_Datatype spaced(void) {
    MPI_Datatype type;
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type));
    OK(MPI_Type_commit(&type));
    return type;
}

static void exchange(int number, int sparse) {
    MPI_Datatype type = sparse ? spaced() : MPI_INT;
    int stride = sparse ? 2 : 1, all = LENGTH * check_size;
    int *send = room(all * stride), *receive[MANY];
    MPI_Request requests[MANY];
    for (int i = 0; i < all; i++) send[i * stride] = value(number, check_rank, i / LENGTH, i % LENGTH);
    for (int k = 0; k < MANY; k++) {
        receive[k] = room(all);
        OK(MPI_Ialltoall(send, LENGTH, type, receive[k], LENGTH, MPI_INT, MPI_COMM_WORLD, &requests[k]));
    }
    if (number % check_size == check_rank) compute(500);
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < MANY; k++) {
        for (int i = 0; i < all; i++) {
            int expected = value(number, i / LENGTH, check_rank, i % LENGTH);
            if (receive[k][i] != expected) {
                CHECK_EQ(receive[k][i], expected);
                break;
            }
        }
        free(receive[k]);
    }
    free(send);
    if (sparse) OK(MPI_Type_free(&type));
}

static void gather(int number, int in_place) {
    int all = LENGTH * check_size;
    int *receive = room(all), *send = room(LENGTH), *own = in_place ? receive + check_rank * LENGTH : send;
    for (int i = 0; i < LENGTH; i++) own[i] = value(number, check_rank, 0, i);
    MPI_Request request;
    OK(MPI_Iallgather(in_place ? MPI_IN_PLACE : send, LENGTH, MPI_INT, receive, LENGTH, MPI_INT, MPI_COMM_WORLD, &request));
    if (number % check_size == check_rank) compute(500);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < all; i++)
        if (receive[i] != value(number, i / LENGTH, 0, i % LENGTH)) {
            CHECK_EQ(receive[i], value(number, i / LENGTH, 0, i % LENGTH));
            break;
        }
    free(receive);
    free(send);
}

// Pairs (a, b) for x -> a x + b, one after the other: that does not commute.
static void compose(void *left, void *right, int *count, MPI_Datatype *type) {
    unsigned *first = left, *second = right;
    (void)type;
    for (int i = 0; i < *count; i++) {
        unsigned a = first[2 * i] * second[2 * i], b = first[2 * i] * second[2 * i + 1] + first[2 * i + 1];
        second[2 * i] = a;
        second[2 * i + 1] = b;
    }
}

static void reduce(int number, int in_place, int own_function) {
    int pairs = LENGTH / 2;
    unsigned *send = (unsigned *)room(LENGTH), *receive = (unsigned *)room(LENGTH), *own = in_place ? receive : send;
    for (int i = 0; i < LENGTH; i++) own[i] = (unsigned)value(number, check_rank, 0, i);
    MPI_Datatype type = MPI_UNSIGNED;
    MPI_Op operation = MPI_SUM;
    if (own_function) {
        OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &type));
        OK(MPI_Type_commit(&type));
        OK(MPI_Op_create(compose, 0, &operation));
    }
    MPI_Request request;
    OK(MPI_Iallreduce(in_place ? MPI_IN_PLACE : send, receive, own_function ? pairs : LENGTH, type, operation, MPI_COMM_WORLD, &request));
    if (number % check_size == check_rank) compute(500);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < pairs; i++) {
        unsigned expected[2], next[2];
        for (int rank = check_size - 1; rank >= 0; rank--) {
            for (int k = 0; k < 2; k++) next[k] = (unsigned)value(number, rank, 0, 2 * i + k);
            if (rank == check_size - 1) {
                memcpy(expected, next, sizeof next);
            } else if (own_function) {
                compose(next, expected, &(int){1}, &type);
            } else {
                for (int k = 0; k < 2; k++) expected[k] += next[k];
            }
        }
        if (memcmp(&receive[2 * i], expected, sizeof expected)) {
            CHECK_EQ(receive[2 * i], expected[0]);
            CHECK_EQ(receive[2 * i + 1], expected[1]);
            break;
        }
    }
    if (own_function) {
        OK(MPI_Type_free(&type));
        OK(MPI_Op_free(&operation));
    }
    free(send);
    free(receive);
}

// A process that comes and finds that the others have passed another size gets an error, and no
// process hangs.
static void disagree(void) {
    int *send = room(2 * LENGTH), *receive = room(2 * LENGTH), class;
    MPI_Request request;
    MPI_Status status = {0};
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Iallreduce(send, receive, LENGTH + check_rank * 20000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPI_Error_class(MPI_Wait(&request, &status), &class));
    CHECK_EQ(class, MPI_ERR_TRUNCATE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    free(send);
    free(receive);
}

int main(void) {
    check_begin();
    // From now on the processes share memory, if they ever do.
    for (int i = 0; i < 8; i++) OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int number = 0; number < 12; number++) {
        exchange(number, number % 2);
        gather(number, number % 2);
        reduce(number, number % 2, number / 2 % 2);
    }
    if (check_is_combray && check_size == 2 && !getenv("COMBRAY_SINGLE_COPY")) disagree();
    return check_end();
}
