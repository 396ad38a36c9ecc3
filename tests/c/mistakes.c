// Mistakes, each named by the argument. The report of `combray run --check` for each is in
// tests/scenarios/mistakes.py, with the lines of this file on which they are made.
// thread
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static MPI_Comm world = MPI_COMM_WORLD;

// The processes call different operations.
static void order(void) {
    int value = rank;
    if (rank == 1) {
        MPI_Bcast(&value, 1, MPI_INT, 0, world); // order: here
    } else {
        MPI_Barrier(world); // order: others
    }
}

// Each believes itself to be the root.
static void root(void) {
    int value = rank;
    MPI_Bcast(&value, 1, MPI_INT, rank, world); // root: here
}

// They add in one place and compute the maximum in the other.
static void reduction(void) {
    int value = rank, result;
    MPI_Allreduce(&value, &result, 1, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, world); // reduction: here
}

// One has more elements.
static void counts(void) {
    int values[2] = {rank, rank}, results[2];
    MPI_Reduce(values, results, rank == 1 ? 2 : 1, MPI_INT, MPI_SUM, 0, world); // counts: here
}

// One takes integers for floating-point numbers.
static void types(void) {
    int value = 0, result;
    MPI_Allreduce(&value, &result, 1, rank == 1 ? MPI_FLOAT : MPI_INT, MPI_SUM, world); // types: here
}

// Operations that are only begun have one order, too.
static void begun(void) {
    int value = rank;
    MPI_Request requests[2];
    if (rank == 2) {
        MPI_Ibarrier(world, &requests[1]); // begun: here
        MPI_Ibcast(&value, 1, MPI_INT, 0, world, &requests[0]);
    } else {
        MPI_Ibcast(&value, 1, MPI_INT, 0, world, &requests[0]);
        MPI_Ibarrier(world, &requests[1]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void *in_thread(void *unused) {
    MPI_Barrier(world); // threads: here
    return unused;
}

// Two threads enter operations of one communicator.
static void threads(void) {
    pthread_t other;
    pthread_create(&other, NULL, in_thread, NULL);
    in_thread(NULL);
    pthread_join(other, NULL);
}

// The data is changed before the send is complete.
static void changed(void) {
    int value = 1;
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(&value, 1, MPI_INT, 1, 0, world, &request); // changed: here
        value = 2;
        MPI_Wait(&request, MPI_STATUS_IGNORE); // changed: end
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
}

// That mistake with a long message and a request that is started.
static void changed_started(void) {
    int count = 1 << 18, *data = calloc(count, sizeof *data);
    MPI_Request request;
    if (rank == 0) {
        MPI_Send_init(data, count, MPI_INT, 1, 0, world, &request);
        MPI_Start(&request); // changed_started: here
        data[count / 2] = 7;
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Recv(data, count, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
    free(data);
}

// The memory is given back before the send is complete.
static void freed(void) {
    int count = 1 << 20, *data = calloc(count, sizeof *data);
    MPI_Request request;
    if (rank == 0) {
        MPI_Irecv(&size, 1, MPI_INT, 1, 1, world, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Isend(data, 100, MPI_INT, 1, 0, world, &request); // freed: here
        free(data);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Irecv(data, 100, MPI_INT, 0, 0, world, &request);
        MPI_Send(&size, 1, MPI_INT, 0, 1, world);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        free(data);
    }
}

// Two receives have four elements in common.
static void overlap(void) {
    int values[12] = {0};
    MPI_Request requests[2];
    if (rank == 0) {
        MPI_Irecv(values, 8, MPI_INT, 1, 0, world, &requests[0]); // overlap: first
        MPI_Irecv(values + 4, 8, MPI_INT, 1, 1, world, &requests[1]); // overlap: here
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Send(values, 8, MPI_INT, 0, 0, world);
        MPI_Send(values, 8, MPI_INT, 0, 1, world);
    }
}

// A value is sent while a receive into it is pending.
static void sent_too_early(void) {
    int value = rank;
    MPI_Request request;
    if (rank == 0) {
        MPI_Irecv(&value, 1, MPI_INT, 1, 0, world, &request);
        MPI_Send(&value, 1, MPI_INT, 1, 0, world); // sent_too_early: here
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, 0, 0, world);
    }
}

// The receiver has no receive posted for this.
static void ready(void) {
    int value = rank;
    if (rank == 0) {
        MPI_Rsend(&value, 1, MPI_INT, 1, 3, world); // ready: here
        MPI_Barrier(world);
    } else {
        MPI_Barrier(world);
        if (rank == 1) {
            MPI_Recv(&value, 1, MPI_INT, 0, 3, world, MPI_STATUS_IGNORE);
        }
    }
}

// The message is longer than the buffer.
static void truncated(void) {
    int values[4] = {rank};
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, 1, 5, world); // truncated: sender
    } else if (rank == 1) {
        MPI_Recv(values, 3, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE); // truncated: here
    }
}

// That mistake with a receive from any source, which is waited for.
static void truncated_later(void) {
    int values[4] = {rank};
    MPI_Request request;
    if (rank == 1) {
        MPI_Irecv(values, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &request); // truncated_later: here
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        MPI_Send(values, 2, MPI_INT, 1, 5, world); // truncated_later: sender
    }
}

// Integers are received as floating-point numbers.
static void mismatched(void) {
    double values[2] = {0};
    if (rank == 0) {
        MPI_Send(values, 2, MPI_LONG, 1, 6, world); // mismatched: sender
    } else if (rank == 1) {
        MPI_Recv(values, 2, MPI_DOUBLE, MPI_ANY_SOURCE, 6, world, MPI_STATUS_IGNORE); // mismatched: here
    }
}

// The members of a structure have another order on the other side.
static void mismatched_structure(void) {
    struct {
        int number;
        float value;
    } one = {1, 2};
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, 4};
    MPI_Datatype types[2] = {MPI_INT, MPI_FLOAT}, made;
    if (rank == 1) {
        types[0] = MPI_FLOAT, types[1] = MPI_INT;
    }
    MPI_Type_create_struct(2, lengths, places, types, &made);
    MPI_Type_commit(&made);
    if (rank < 2) {
        MPI_Sendrecv_replace(&one, 1, made, 1 - rank, 0, 1 - rank, 0, world, MPI_STATUS_IGNORE); // mismatched_structure: here
    }
    MPI_Type_free(&made);
}

// No call completes this receive.
static void request_left(void) {
    static int value;
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, rank, 0, world, &request); // request_left: here
    MPI_Send(&rank, 1, MPI_INT, rank, 0, world);
}

// Nor frees these.
static void persistent_left(void) {
    static int value;
    MPI_Request requests[3];
    for (int i = 0; i < 3; i++) {
        MPI_Recv_init(&value, 1, MPI_INT, rank, i, world, &requests[i]); // persistent_left: here
    }
}

static void objects_left(void) {
    MPI_Comm made;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Comm_dup(world, &made); // objects_left: communicator
    MPI_Type_contiguous(3, MPI_INT, &type); // objects_left: type
    MPI_Comm_group(world, &group); // objects_left: group
}

// No process receives this.
static void message_left(void) {
    int value = rank;
    if (rank == 0) {
        MPI_Send(&value, 1, MPI_INT, 1, 8, world); // message_left: here
    }
}

// One ends while others go on.
static void left_early(void) {
    if (rank != 1 && MPI_Barrier(world) != MPI_SUCCESS) { // left_early: others
        printf("the barrier has failed\n");
    }
}

// The contribution is changed before the sum is complete.
static void changed_sum(void) {
    int value = rank, sum;
    MPI_Request request;
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, world, &request); // changed_sum: here
    value = 7;
    MPI_Wait(&request, MPI_STATUS_IGNORE); // changed_sum: end
}

// A collective operation writes where a receive does.
static void overlap_blocks(void) {
    int blocks[8] = {0}, counts[2] = {1, 2}, places[2] = {0, 4}, own = counts[rank];
    MPI_Request requests[2];
    MPI_Irecv(blocks + 5, 2, MPI_INT, rank, 0, world, &requests[0]); // overlap_blocks: first
    MPI_Iallgatherv(counts, own, MPI_INT, blocks, counts, places, MPI_INT, world, &requests[1]); // overlap_blocks: here
    MPI_Send(places, 2, MPI_INT, rank, 0, world);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static int exposed[16];

static MPI_Win window_of_all(void) {
    MPI_Win win;
    MPI_Win_create(exposed, sizeof exposed, sizeof *exposed, MPI_INFO_NULL, world, &win);
    MPI_Win_set_name(win, "halo");
    return win;
}

// Two processes put into one place between two fences.
static void put_twice(void) {
    MPI_Win win = window_of_all();
    MPI_Win_fence(0, win);
    if (rank > 0) {
        MPI_Put(&rank, 1, MPI_INT, 0, 2, 1, MPI_INT, win); // put_twice: here
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

// One gets what another puts, in one exposure epoch.
static void put_and_get(void) {
    int values[3] = {rank};
    MPI_Win win = window_of_all();
    MPI_Group all, others;
    MPI_Comm_group(world, &all);
    MPI_Group_excl(all, 1, (int[]){0}, &others);
    if (rank == 0) {
        MPI_Win_post(others, 0, win);
        MPI_Win_wait(win);
    } else {
        MPI_Group_free(&others);
        MPI_Group_incl(all, 1, (int[]){0}, &others);
        MPI_Win_start(others, 0, win);
        if (rank == 1) {
            MPI_Put(values, 3, MPI_INT, 0, 4, 3, MPI_INT, win); // put_and_get: put
        } else {
            MPI_Get(values, 2, MPI_INT, 0, 6, 2, MPI_INT, win); // put_and_get: get
        }
        MPI_Win_complete(win);
    }
    MPI_Group_free(&others);
    MPI_Group_free(&all);
    MPI_Win_free(&win);
}

// Two accumulate in one place with different operations.
static void accumulated(void) {
    MPI_Win win = window_of_all();
    MPI_Win_fence(0, win);
    MPI_Accumulate(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, rank == 1 ? MPI_PROD : MPI_SUM, win); // accumulated: here
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

// What was put is got without a flush.
static void unflushed(void) {
    int value = 5, result;
    MPI_Win win = window_of_all();
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        MPI_Put(&value, 1, MPI_INT, 1, 3, 1, MPI_INT, win); // unflushed: put
        MPI_Get(&result, 1, MPI_INT, 1, 3, 1, MPI_INT, win); // unflushed: get
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

// The origin buffer is changed before the put is complete.
static void changed_put(void) {
    int value = 5;
    MPI_Win win = window_of_all();
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Put(&value, 1, MPI_INT, 1, 3, 1, MPI_INT, win); // changed_put: here
        value = 6;
        MPI_Win_unlock(1, win); // changed_put: end
    }
    MPI_Win_free(&win);
}

// The result is sent before the get is complete.
static void got_too_early(void) {
    int value = 0, other;
    MPI_Win win = window_of_all();
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        MPI_Get(&value, 1, MPI_INT, 1, 3, 1, MPI_INT, win); // got_too_early: get
        MPI_Send(&value, 1, MPI_INT, 1, 0, world); // got_too_early: here
    } else if (rank == 1) {
        MPI_Recv(&other, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

// What a probe has found is received as something else.
static void mismatched_found(void) {
    double values[2] = {0};
    MPI_Message message;
    if (rank == 0) {
        MPI_Send(values, 2, MPI_LONG, 1, 6, world); // mismatched_found: sender
    } else if (rank == 1) {
        MPI_Mprobe(0, 6, world, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(values, 2, MPI_DOUBLE, &message, MPI_STATUS_IGNORE); // mismatched_found: here
    }
}

static void correct_windows(void) {
    int values[8] = {0}, result;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Win win = window_of_all();
    MPI_Request request;
    MPI_Group all;
    // Neighbouring places, one operation for all, one after the other.
    MPI_Win_fence(0, win);
    for (int i = 0; i < 3; i++) {
        MPI_Put(&rank, 1, MPI_INT, to, i, 1, MPI_INT, win);
        MPI_Get(&values[i], 1, MPI_INT, to, 3 + i, 1, MPI_INT, win);
        MPI_Get(&values[3 + i], 1, MPI_INT, 0, 3 + i, 1, MPI_INT, win);
        MPI_Accumulate(&rank, 1, MPI_INT, 0, 8, 1, MPI_INT, MPI_SUM, win);
        MPI_Win_fence(0, win);
        MPI_Get(&values[6], 1, MPI_INT, to, i, 1, MPI_INT, win);
        MPI_Win_fence(0, win);
        MPI_Put(&rank, 1, MPI_INT, to, i, 1, MPI_INT, win);
        MPI_Win_fence(0, win);
    }
    // Each of two epochs has a put into one place.
    MPI_Comm_group(world, &all);
    MPI_Group neighbours[2];
    MPI_Group_incl(all, 1, &from, &neighbours[0]);
    MPI_Group_incl(all, 1, &to, &neighbours[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Win_post(neighbours[0], 0, win);
        MPI_Win_start(neighbours[1], 0, win);
        MPI_Put(&rank, 1, MPI_INT, to, 9, 1, MPI_INT, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Group_free(&neighbours[0]);
    MPI_Group_free(&neighbours[1]);
    MPI_Group_free(&all);
    // Flushes keep apart, and so does the end of a request that reads.
    MPI_Win_lock_all(0, win);
    values[0] = 1;
    MPI_Put(values, 1, MPI_INT, to, 10, 1, MPI_INT, win);
    MPI_Win_flush(to, win);
    values[0] = 2;
    MPI_Rget(&result, 1, MPI_INT, to, 10, 1, MPI_INT, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    result = 3;
    MPI_Rput(values, 1, MPI_INT, to, 10, 1, MPI_INT, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    values[0] = 4;
    MPI_Win_flush_all(win);
    MPI_Get(&values[1], 1, MPI_INT, to, 11, 1, MPI_INT, win);
    MPI_Win_flush_local(to, win);
    MPI_Put(&values[1], 1, MPI_INT, to, 11, 1, MPI_INT, win);
    for (int i = 0; i < 3; i++) {
        MPI_Fetch_and_op(&rank, &result, MPI_INT, 0, 12, i == 1 ? MPI_NO_OP : MPI_SUM, win);
        MPI_Win_flush_local(0, win);
        MPI_Compare_and_swap(&rank, &values[0], &result, MPI_INT, 0, 12, win);
        MPI_Win_flush_local(0, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void correct_collectives(void) {
    int data[64] = {0}, more[64] = {0}, counts[16], places[16], bytes[16];
    MPI_Datatype types[16];
    MPI_Request requests[8];
    for (int i = 0; i < size; i++) {
        counts[i] = 1, places[i] = 2 * i, bytes[i] = 8 * i + 4, types[i] = MPI_INT;
    }
    // They write every other number, and those between.
    MPI_Iallgatherv(&rank, 1, MPI_INT, data, counts, places, MPI_INT, world, &requests[0]);
    MPI_Ialltoallw(more, counts, bytes, types, data, counts, bytes, types, world, &requests[1]);
    MPI_Iallreduce(more, data + 40, 4, MPI_INT, MPI_SUM, world, &requests[2]);
    MPI_Ireduce_scatter(more, data + 45, counts, MPI_INT, MPI_SUM, world, &requests[3]);
    MPI_Igather(&rank, 1, MPI_INT, rank == 0 ? data + 48 : data, 1, MPI_INT, 0, world, &requests[4]);
    MPI_Ibcast(rank == 0 ? more : data + 56, 2, MPI_INT, 0, world, &requests[5]);
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    MPI_Allreduce_init(MPI_IN_PLACE, data, 4, MPI_INT, MPI_MAX, world, MPI_INFO_NULL, &requests[0]);
    for (int i = 0; i < 3; i++) {
        data[i] = i;
        MPI_Start(&requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&requests[0]);
}

static void correct_messages(void) {
    enum { COUNT = 40 };
    int values[COUNT][4] = {{0}}, matrix[4][4] = {{0}}, flag = 0, index, count, indices[COUNT];
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request requests[2 * COUNT];
    MPI_Status status;
    MPI_Datatype column;
    // Many with one tag, waited for in another order.
    for (int i = 0; i < COUNT; i++) {
        MPI_Irecv(values[i], 4, i % 3 ? MPI_INT : MPI_BYTE, from, 1, world, &requests[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        MPI_Isend(matrix, i % 3 ? 4 : 1, MPI_INT, to, 1, world, &requests[COUNT + i]);
    }
    for (int i = 2 * COUNT - 1; i >= COUNT / 2; i--) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    MPI_Waitany(COUNT / 2, requests, &index, &status);
    MPI_Waitsome(COUNT / 2, requests, &count, indices, MPI_STATUSES_IGNORE);
    MPI_Waitall(COUNT / 2, requests, MPI_STATUSES_IGNORE);
    // Columns lie between each other, and have nothing in common.
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < 4; i++) {
        MPI_Irecv(&matrix[0][i], 1, column, from, i, world, &requests[i]);
        MPI_Isend(values[i], 4, MPI_INT, to, i, world, &requests[4 + i]);
    }
    while (!flag) {
        MPI_Testall(8, requests, &flag, MPI_STATUSES_IGNORE);
    }
    MPI_Type_free(&column);
    // Sends of one buffer; from any source; a receive that is cancelled; a message that was probed
    // before.
    MPI_Isend(values, 1, MPI_INT, to, 9, world, &requests[0]);
    MPI_Isend(values, 2, MPI_INT, to, 10, world, &requests[1]);
    MPI_Irecv(values[2], 16, MPI_INT, MPI_ANY_SOURCE, 12345, world, &requests[2]);
    MPI_Recv(matrix[1], 4, MPI_INT, MPI_ANY_SOURCE, 10, world, MPI_STATUS_IGNORE);
    MPI_Probe(from, MPI_ANY_TAG, world, &status);
    MPI_Recv(matrix[2], 4, MPI_INT, from, status.MPI_TAG, world, MPI_STATUS_IGNORE);
    MPI_Cancel(&requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    // A message that is taken out of matching, and sends that fail or are cancelled.
    MPI_Message message;
    MPI_Comm careful;
    MPI_Comm_dup(world, &careful);
    MPI_Comm_set_errhandler(careful, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++) {
        MPI_Isend(values, 2 + i, MPI_INT, to, 7, careful, &requests[i]);
    }
    MPI_Bsend(values, 4, MPI_INT, to, 7, careful);
    MPI_Mprobe(MPI_ANY_SOURCE, 7, careful, &message, &status);
    MPI_Recv(matrix[1], 3, MPI_INT, from, 7, careful, MPI_STATUS_IGNORE);
    MPI_Mrecv(matrix, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Issend(values, 4, MPI_INT, to, 8, careful, &requests[2]);
    MPI_Cancel(&requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Issend(values, 0, MPI_INT, rank, 9, careful, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Request_free(&requests[0]);
    MPI_Comm_free(&careful);
    // A ready send whose receive is posted, and started again and again.
    MPI_Recv_init(values, 1, MPI_INT, from, 3, world, &requests[0]);
    for (int i = 0; i < 5; i++) {
        MPI_Start(&requests[0]);
        MPI_Sendrecv(&i, 1, MPI_INT, from, 4, &index, 1, MPI_INT, to, 4, world, MPI_STATUS_IGNORE);
        MPI_Rsend(&i, 1, MPI_INT, to, 3, world);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&requests[0]);
}

// Nothing is wrong with this.
static void none(void) {
    int value = rank, result, all[16];
    MPI_Request request;
    MPI_Comm other;
    MPI_Bcast(&value, 1, MPI_INT, size - 1, world);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, world);
    MPI_Comm_split(world, rank % 2, rank, &other);
    MPI_Reduce(&value, &result, 1, MPI_INT, MPI_SUM, 0, other);
    MPI_Comm_free(&other);
    MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, 0, world);
    MPI_Scatter(all, 1, MPI_INT, rank == 0 ? MPI_IN_PLACE : &value, 1, MPI_INT, 0, world);
    MPI_Iallgather(&value, 4, MPI_BYTE, all, 1, MPI_INT, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    correct_messages();
    correct_windows();
    correct_collectives();
}

static struct {
    const char *name;
    void (*commit)(void);
} mistakes[] = {
    {"order", order},
    {"root", root},
    {"reduction", reduction},
    {"counts", counts},
    {"types", types},
    {"begun", begun},
    {"threads", threads},
    {"none", none},
    {"changed", changed},
    {"changed_started", changed_started},
    {"freed", freed},
    {"overlap", overlap},
    {"sent_too_early", sent_too_early},
    {"ready", ready},
    {"truncated", truncated},
    {"truncated_later", truncated_later},
    {"mismatched", mismatched},
    {"mismatched_structure", mismatched_structure},
    {"request_left", request_left},
    {"persistent_left", persistent_left},
    {"objects_left", objects_left},
    {"message_left", message_left},
    {"left_early", left_early},
    {"changed_sum", changed_sum},
    {"overlap_blocks", overlap_blocks},
    {"put_twice", put_twice},
    {"put_and_get", put_and_get},
    {"accumulated", accumulated},
    {"unflushed", unflushed},
    {"changed_put", changed_put},
    {"got_too_early", got_too_early},
    {"mismatched_found", mismatched_found},
};

int main(int argc, char **argv) {
    int level, has_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        if (argc > 1 && strcmp(argv[1], mistakes[i].name) == 0) {
            mistakes[i].commit();
        }
    }
    MPI_Finalize();
    return 0;
}
