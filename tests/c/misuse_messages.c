// Wrong and right messages and requests.
#include "misuse.h"

#include <pthread.h>

static int values[64], more[64];

static void sendrecv_overlap(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Sendrecv(values, 4, MPI_INT, to, 0, wrong ? values + 2 : values + 4, 4, MPI_INT, from, 0, world,
                 MPI_STATUS_IGNORE);
}

static void isendrecv_overlap(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request request;
    MPI_Isendrecv(values, 4, MPI_INT, to, 0, wrong ? values : values + 4, 4, MPI_INT, from, 0, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Elements between those of the other buffer are no overlap.
static void sendrecv_columns(void) {
    MPI_Datatype column;
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(values, 1, column, rank, 0, values + (wrong ? 4 : 1), 1, column, rank, 0, world, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);
}

static void received_twice(void) {
    MPI_Request requests[2];
    MPI_Irecv(values, 4, MPI_INT, rank, 0, world, &requests[0]);
    MPI_Irecv(wrong ? values + 3 : values + 4, 4, MPI_INT, rank, 1, world, &requests[1]);
    MPI_Send(more, 4, MPI_INT, rank, 0, world);
    MPI_Send(more, 4, MPI_INT, rank, 1, world);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void sent_while_received(void) {
    MPI_Request requests[2];
    MPI_Irecv(values, 4, MPI_INT, rank, 0, world, &requests[0]);
    MPI_Isend(wrong ? values : more, 4, MPI_INT, rank, 0, world, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void changed_before_wait(void) {
    MPI_Request request;
    MPI_Isend(values, 4, MPI_INT, rank, 0, world, &request);
    if (wrong) {
        values[2]++;
    }
    MPI_Recv(more, 4, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    values[2]++;
}

static void changed_while_started(void) {
    MPI_Request request;
    MPI_Send_init(values, 4, MPI_INT, rank, 0, world, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        if (wrong && i == 1) {
            values[0]++;
        }
        MPI_Recv(more, 4, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        values[1]++;
    }
    MPI_Request_free(&request);
}

static void too_long(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request request;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Irecv(more, wrong ? 2 : 3, MPI_INT, from, 0, world, &request);
    MPI_Send(values, 3, MPI_INT, to, 0, world);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void other_elements(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request request;
    MPI_Irecv(more, 3, wrong ? MPI_FLOAT : MPI_INT, from, 0, world, &request);
    MPI_Send(values, 3, MPI_INT, to, 0, world);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void not_received(void) {
    if (rank == 0) {
        MPI_Send(values, 1, MPI_INT, 1, 0, world);
    } else if (rank == 1 && !wrong) {
        MPI_Recv(values, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
}

static void not_completed(void) {
    MPI_Request request;
    MPI_Isend(values, 1, MPI_INT, rank, 0, world, &request);
    MPI_Recv(more, 1, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE);
    if (!wrong) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void not_freed(void) {
    MPI_Comm made;
    MPI_Comm_dup(world, &made);
    if (!wrong) {
        MPI_Comm_free(&made);
    }
}

static void not_ready(void) {
    MPI_Request request;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    if (!wrong) {
        MPI_Irecv(more, 1, MPI_INT, from, 0, world, &request);
    }
    MPI_Barrier(world);
    MPI_Rsend(values, 1, MPI_INT, to, 0, world);
    MPI_Barrier(world);
    if (wrong) {
        MPI_Irecv(more, 1, MPI_INT, from, 0, world, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Both send first: that ends well only while messages are buffered.
static void both_send(void) {
    int peer = rank ^ 1;
    if (wrong || rank % 2 == 0) {
        MPI_Send(values, 4, MPI_INT, peer, 0, world);
        MPI_Recv(more, 4, MPI_INT, peer, 0, world, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(more, 4, MPI_INT, peer, 0, world, MPI_STATUS_IGNORE);
        MPI_Send(values, 4, MPI_INT, peer, 0, world);
    }
}

static void ring_of_sends(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request request;
    if (wrong) {
        MPI_Send(values, 4, MPI_INT, to, 0, world);
        MPI_Recv(more, 4, MPI_INT, from, 0, world, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(more, 4, MPI_INT, from, 0, world, &request);
        MPI_Send(values, 4, MPI_INT, to, 0, world);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

// The receiver comes only after a collective operation for which it waits for the sender.
static void send_before_barrier(void) {
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, 1, 0, world);
    } else if (rank == 1 && !wrong) {
        MPI_Recv(more, 4, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(world);
    if (rank == 1 && wrong) {
        MPI_Recv(more, 4, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
}

// Two messages are received in another order than they are sent.
static void crossed_tags(void) {
    if (rank == 0) {
        MPI_Send(values, 1, MPI_INT, 1, 1, world);
        MPI_Send(values, 1, MPI_INT, 1, 2, world);
    } else if (rank == 1) {
        MPI_Recv(more, 1, MPI_INT, 0, wrong ? 2 : 1, world, MPI_STATUS_IGNORE);
        MPI_Recv(more, 1, MPI_INT, 0, wrong ? 1 : 2, world, MPI_STATUS_IGNORE);
    }
}

static void send_to_itself(void) {
    MPI_Request request;
    if (!wrong) {
        MPI_Irecv(more, 1, MPI_INT, rank, 0, world, &request);
    }
    MPI_Send(values, 1, MPI_INT, rank, 0, world);
    if (wrong) {
        MPI_Irecv(more, 1, MPI_INT, rank, 0, world, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void complete_sends_first(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request requests[2];
    MPI_Isend(values, 4, MPI_INT, to, 0, world, &requests[0]);
    MPI_Isend(values, 4, MPI_INT, to, 1, world, &requests[1]);
    if (wrong) {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Recv(more, 4, MPI_INT, from, 0, world, MPI_STATUS_IGNORE);
    MPI_Recv(more, 4, MPI_INT, from, 1, world, MPI_STATUS_IGNORE);
    if (!wrong) {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void complete_started_first(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request request;
    MPI_Send_init(values, 4, MPI_INT, to, 0, world, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        if (wrong) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Recv(more, 4, MPI_INT, from, 0, world, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
}

static void send_before_bcast(void) {
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, size - 1, 0, world);
    } else if (rank == size - 1 && !wrong) {
        MPI_Recv(more, 4, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
    MPI_Bcast(values, 4, MPI_INT, 0, world);
    if (rank == size - 1 && wrong) {
        MPI_Recv(more, 4, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
}

// Only rank 0 sends first. In the wrong form its first send waits for rank 1, which waits for rank
// 2, which waits for rank 0.
static void around_three(void) {
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, wrong ? 1 : 2, 0, world);
        MPI_Send(values, 4, MPI_INT, wrong ? 2 : 1, 0, world);
    } else if (rank == 1) {
        MPI_Recv(more, 4, MPI_INT, 2, 0, world, MPI_STATUS_IGNORE);
        MPI_Recv(more, 4, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    } else if (rank == 2) {
        MPI_Recv(more, 4, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
        MPI_Send(values, 4, MPI_INT, 1, 0, world);
    }
}

// A buffered send of one of both is over immediately, as there is memory for it.
static void both_send_with_buffer(void) {
    char buffer[256 + 4 * MPI_BSEND_OVERHEAD];
    int peer = rank ^ 1;
    MPI_Buffer_attach(buffer, sizeof buffer);
    if (wrong || rank % 2 == 0) {
        MPI_Send(values, 4, MPI_INT, peer, 0, world);
    } else {
        MPI_Bsend(values, 4, MPI_INT, peer, 0, world);
    }
    MPI_Recv(more, 4, MPI_INT, peer, 0, world, MPI_STATUS_IGNORE);
    int bytes;
    void *detached;
    MPI_Buffer_detach(&detached, &bytes);
}

// One computes for a while first: a send that waits for it is no mistake.
static void slow_receiver(void) {
    int peer = rank ^ 1;
    if (rank % 2 == 1) {
        for (double end = MPI_Wtime() + 2.0; MPI_Wtime() < end;) {
        }
    }
    if (wrong || rank % 2 == 0) {
        MPI_Send(values, 4, MPI_INT, peer, 0, world);
        MPI_Recv(more, 4, MPI_INT, peer, 0, world, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(more, 4, MPI_INT, peer, 0, world, MPI_STATUS_IGNORE);
        MPI_Send(values, 4, MPI_INT, peer, 0, world);
    }
}

// First come, first served: the master alone must not send before it has a request.
static void master_and_workers(void) {
    enum { TASKS = 4, ASKS = 1, TASK = 2 };
    MPI_Status status;
    for (int i = 0; i < TASKS; i++) {
        for (int worker = 1; worker < size && rank == 0; worker++) {
            if (wrong) {
                MPI_Send(values, 1, MPI_INT, worker, TASK, world);
            }
            MPI_Recv(more, 1, MPI_INT, MPI_ANY_SOURCE, ASKS, world, &status);
            if (!wrong) {
                MPI_Send(values, 1, MPI_INT, status.MPI_SOURCE, TASK, world);
            }
        }
        if (rank > 0) {
            MPI_Send(values, 1, MPI_INT, 0, ASKS, world);
            MPI_Recv(more, 1, MPI_INT, 0, TASK, world, MPI_STATUS_IGNORE);
        }
    }
}

// Sends that end without a buffer, though the receive is completed, or found, later.
static void no_buffering(void) {
    MPI_Request requests[4];
    int peer = rank ^ 1, done = 0;
    MPI_Irecv(more, 1, MPI_INT, peer, 0, world, &requests[0]);
    MPI_Irecv(more + 1, 1, MPI_INT, MPI_ANY_SOURCE, 1, world, &requests[1]);
    MPI_Irecv(more + 2, 1, MPI_INT, peer, MPI_ANY_TAG, world, &requests[2]);
    MPI_Irecv(more + 3, 1, MPI_INT, peer, 9, world, &requests[3]);
    MPI_Barrier(world);
    MPI_Send(values, 1, MPI_INT, peer, 0, world);
    MPI_Ssend(values, 1, MPI_INT, peer, 1, world);
    MPI_Rsend(values, 1, MPI_INT, peer, 2, world);
    MPI_Send(values, 1, MPI_INT, MPI_PROC_NULL, 3, world);
    MPI_Barrier(world);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    // A receive that is cancelled may have got the message, or not.
    MPI_Cancel(&requests[3]);
    MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
    // A message is looked for before it is received, while the other process waits.
    if (rank % 2 == 0) {
        MPI_Send(values, 1, MPI_INT, peer, 4, world);
    } else {
        MPI_Probe(MPI_ANY_SOURCE, 4, world, MPI_STATUS_IGNORE);
        MPI_Recv(more, 1, MPI_INT, peer, 4, world, MPI_STATUS_IGNORE);
    }
    // Sends for which no call waits before the receives.
    MPI_Isend(values, 1, MPI_INT, peer, 5, world, &requests[0]);
    MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
    MPI_Recv(more, 1, MPI_INT, peer, 5, world, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Sendrecv(values, 1, MPI_INT, peer, 6, more, 1, MPI_INT, peer, 6, world, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(more, 1, MPI_INT, peer, 7, peer, 7, world, MPI_STATUS_IGNORE);
}

static void *receive(void *peer) {
    MPI_Recv(more, 1, MPI_INT, *(int *)peer, 0, world, MPI_STATUS_IGNORE);
    return NULL;
}

// Both send first, and another thread receives.
static void received_by_thread(void) {
    int peer = rank ^ 1;
    pthread_t thread;
    pthread_create(&thread, NULL, receive, &peer);
    MPI_Send(values, 1, MPI_INT, peer, 0, world);
    pthread_join(thread, NULL);
}

// Calls that return an error at once, without probing for a message before.
static void refused_receives(void) {
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    int taken = MPI_Recv(more, 1, MPI_INT, rank, -6, world, MPI_STATUS_IGNORE) == MPI_SUCCESS
                || MPI_Recv(NULL, 1, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE) == MPI_SUCCESS
                || MPI_Recv(more, -1, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE) == MPI_SUCCESS
                || MPI_Recv(more, 1, pair, rank, 0, world, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
    MPI_Type_free(&pair);
    if (taken) {
        MPI_Abort(world, 1);
    }
}

// If the first receive gets the message of rank 1, the second one waits for ever.
static void wildcard_then_named(void) {
    if (rank == 0) {
        MPI_Recv(more, 1, MPI_INT, wrong ? MPI_ANY_SOURCE : 2, 0, world, MPI_STATUS_IGNORE);
        MPI_Recv(more, 1, MPI_INT, 1, 0, world, MPI_STATUS_IGNORE);
    } else if (rank <= 2) {
        if (rank == 1) {
            // So the other message is there first, and this run ends well.
            MPI_Recv(more, 1, MPI_INT, 2, 1, world, MPI_STATUS_IGNORE);
        }
        MPI_Send(values, 1, MPI_INT, 0, 0, world);
        if (rank == 2) {
            MPI_Send(values, 1, MPI_INT, 1, 1, world);
        }
    }
}

// As many receives from any source as messages: whichever comes first, all end.
static void wildcards_for_all(void) {
    if (rank == 0) {
        int named = wrong ? 1 : MPI_ANY_SOURCE;
        MPI_Recv(more, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, MPI_STATUS_IGNORE);
        MPI_Recv(more, 1, MPI_INT, named, MPI_ANY_TAG, world, MPI_STATUS_IGNORE);
    } else if (rank <= 2) {
        if (rank == 1) {
            MPI_Recv(more, 1, MPI_INT, 2, 1, world, MPI_STATUS_IGNORE);
        }
        MPI_Send(values, 1, MPI_INT, 0, 2, world);
        if (rank == 2) {
            MPI_Send(values, 1, MPI_INT, 1, 1, world);
        }
    }
}

static const struct misuse cases[] = {
    {"sendrecv_overlap", sendrecv_overlap, MPI_THREAD_SINGLE},
    {"isendrecv_overlap", isendrecv_overlap, MPI_THREAD_SINGLE},
    {"sendrecv_columns", sendrecv_columns, MPI_THREAD_SINGLE},
    {"received_twice", received_twice, MPI_THREAD_SINGLE},
    {"sent_while_received", sent_while_received, MPI_THREAD_SINGLE},
    {"changed_before_wait", changed_before_wait, MPI_THREAD_SINGLE},
    {"changed_while_started", changed_while_started, MPI_THREAD_SINGLE},
    {"too_long", too_long, MPI_THREAD_SINGLE},
    {"other_elements", other_elements, MPI_THREAD_SINGLE},
    {"not_received", not_received, MPI_THREAD_SINGLE},
    {"not_completed", not_completed, MPI_THREAD_SINGLE},
    {"not_freed", not_freed, MPI_THREAD_SINGLE},
    {"not_ready", not_ready, MPI_THREAD_SINGLE},
    {"both_send", both_send, MPI_THREAD_SINGLE},
    {"ring_of_sends", ring_of_sends, MPI_THREAD_SINGLE},
    {"send_before_barrier", send_before_barrier, MPI_THREAD_SINGLE},
    {"crossed_tags", crossed_tags, MPI_THREAD_SINGLE},
    {"send_to_itself", send_to_itself, MPI_THREAD_SINGLE},
    {"complete_sends_first", complete_sends_first, MPI_THREAD_SINGLE},
    {"complete_started_first", complete_started_first, MPI_THREAD_SINGLE},
    {"send_before_bcast", send_before_bcast, MPI_THREAD_SINGLE},
    {"around_three", around_three, MPI_THREAD_SINGLE},
    {"both_send_with_buffer", both_send_with_buffer, MPI_THREAD_SINGLE},
    {"slow_receiver", slow_receiver, MPI_THREAD_SINGLE},
    {"master_and_workers", master_and_workers, MPI_THREAD_SINGLE},
    {"no_buffering", no_buffering, MPI_THREAD_SINGLE},
    {"refused_receives", refused_receives, MPI_THREAD_SINGLE},
    {"received_by_thread", received_by_thread, MPI_THREAD_MULTIPLE},
    {"wildcard_then_named", wildcard_then_named, MPI_THREAD_SINGLE},
    {"wildcards_for_all", wildcards_for_all, MPI_THREAD_SINGLE},
};

MISUSE_MAIN(cases)
