/* Messages between the two processes of a pair: both execute this code. */
#include "sweep.h"

enum { TOGETHER = 32 };

static void run_sendrecv(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++)
        MPI_Sendrecv(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->in, bytes,
                     MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm, MPI_STATUS_IGNORE);
}

static void run_sendrecv_replace(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    if (sweep->checking)
        for (int i = 0; i < bytes; i++)
            sweep->in[i] = sweep->out[i];
    for (long i = 0; i < iterations; i++)
        MPI_Sendrecv_replace(sweep->in, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->peer,
                             SWEEP_TAG, sweep->comm, MPI_STATUS_IGNORE);
}

static void begin_both(struct sweep *sweep, MPI_Request *requests)
{
    int bytes = (int)sweep->call->bytes;
    MPI_Irecv(sweep->in, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm, &requests[0]);
    MPI_Isend(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm, &requests[1]);
}

static void run_waitall(void *state, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        MPI_Request requests[2];
        begin_both(state, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void run_testall(void *state, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        MPI_Request requests[2];
        begin_both(state, requests);
        for (int done = 0; !done;)
            MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    }
}

static void run_irecv_send(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Irecv(sweep->in, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm, &request);
        MPI_Send(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void run_isend_recv(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Isend(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm, &request);
        MPI_Recv(sweep->in, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm,
                 MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void begin_many(struct sweep *sweep, MPI_Request *receives, MPI_Request *sends)
{
    for (int i = 0; i < TOGETHER; i++)
        MPI_Irecv(sweep->in + 8 * i, 8, MPI_BYTE, sweep->peer, SWEEP_TAG + i, sweep->comm,
                  &receives[i]);
    for (int i = 0; i < TOGETHER; i++)
        MPI_Isend(sweep->out + 8 * i, 8, MPI_BYTE, sweep->peer, SWEEP_TAG + i, sweep->comm,
                  &sends[i]);
}

static void run_waitany(void *state, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        MPI_Request receives[TOGETHER], sends[TOGETHER];
        begin_many(state, receives, sends);
        for (int left = TOGETHER, index; left > 0; left--)
            MPI_Waitany(TOGETHER, receives, &index, MPI_STATUS_IGNORE);
        MPI_Waitall(TOGETHER, sends, MPI_STATUSES_IGNORE);
    }
}

static void run_waitsome(void *state, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        MPI_Request receives[TOGETHER], sends[TOGETHER];
        begin_many(state, receives, sends);
        int indices[TOGETHER];
        for (int left = TOGETHER, found; left > 0; left -= found)
            MPI_Waitsome(TOGETHER, receives, &found, indices, MPI_STATUSES_IGNORE);
        MPI_Waitall(TOGETHER, sends, MPI_STATUSES_IGNORE);
    }
}

static void run_waitall_many(void *state, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        MPI_Request requests[2 * TOGETHER];
        begin_many(state, requests, requests + TOGETHER);
        MPI_Waitall(2 * TOGETHER, requests, MPI_STATUSES_IGNORE);
    }
}

static char attached[1 << 16];

static void open_buffered(struct sweep *sweep)
{
    (void)sweep;
    MPI_Buffer_attach(attached, sizeof attached);
}

static void close_buffered(struct sweep *sweep)
{
    (void)sweep;
    void *memory;
    int bytes;
    MPI_Buffer_detach(&memory, &bytes);
}

static void run_bsend(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++) {
        MPI_Bsend(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm);
        MPI_Recv(sweep->in, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm,
                 MPI_STATUS_IGNORE);
    }
}

/* The first of a pair sends at once, the second after it has received: so no two of them wait. */
static void run_ssend(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes, first = sweep->rank < sweep->peer;
    for (long i = 0; i < 2 * iterations; i++)
        if (first == (i % 2 == 0))
            MPI_Ssend(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm);
        else
            MPI_Recv(sweep->in, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm,
                     MPI_STATUS_IGNORE);
}

static void run_mprobe(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Message message;
        MPI_Isend(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm, &request);
        MPI_Mprobe(sweep->peer, SWEEP_TAG, sweep->comm, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(sweep->in, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void run_iprobe(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Isend(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm, &request);
        for (int there = 0; !there;)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, sweep->comm, &there, MPI_STATUS_IGNORE);
        MPI_Recv(sweep->in, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm,
                 MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

const struct sweep_call sweep_messages[] = {
    {"Sendrecv", 8, NULL, run_sendrecv, NULL, RESULT_OF_PEER, false},
    {"Sendrecv", 4096, NULL, run_sendrecv, NULL, RESULT_OF_PEER, false},
    {"Sendrecv_replace", 1024, NULL, run_sendrecv_replace, NULL, RESULT_OF_PEER, false},
    {"Irecv, Isend, Waitall", 8, NULL, run_waitall, NULL, RESULT_OF_PEER, false},
    {"Irecv, Isend, Testall", 8, NULL, run_testall, NULL, RESULT_OF_PEER, false},
    {"Irecv, Send, Wait", 8, NULL, run_irecv_send, NULL, RESULT_OF_PEER, false},
    {"Isend, Recv, Wait", 8, NULL, run_isend_recv, NULL, RESULT_OF_PEER, false},
    {"32 Irecv, Isend, Waitall", 8 * TOGETHER, NULL, run_waitall_many, NULL, RESULT_OF_PEER, false},
    {"32 Irecv, Isend, Waitany", 8 * TOGETHER, NULL, run_waitany, NULL, RESULT_OF_PEER, false},
    {"32 Irecv, Isend, Waitsome", 8 * TOGETHER, NULL, run_waitsome, NULL, RESULT_OF_PEER, false},
    {"Bsend, Recv", 8, open_buffered, run_bsend, close_buffered, RESULT_OF_PEER, false},
    {"Ssend there and back", 8, NULL, run_ssend, NULL, RESULT_OF_PEER, false},
    {"Isend, Mprobe, Mrecv", 8, NULL, run_mprobe, NULL, RESULT_OF_PEER, false},
    {"Isend, Iprobe, Recv", 8, NULL, run_iprobe, NULL, RESULT_OF_PEER, false},
    {0},
};

/* ---- operations that are prepared once and started often ---- */

static void open_send_receive(struct sweep *sweep)
{
    int bytes = (int)sweep->call->bytes;
    MPI_Recv_init(sweep->in, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm,
                  &sweep->requests[0]);
    MPI_Send_init(sweep->out, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm,
                  &sweep->requests[1]);
    sweep->request_count = 2;
}

static void run_started(void *state, long iterations)
{
    struct sweep *sweep = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Startall(sweep->request_count, sweep->requests);
        MPI_Waitall(sweep->request_count, sweep->requests, MPI_STATUSES_IGNORE);
    }
}

static void run_started_one(void *state, long iterations)
{
    struct sweep *sweep = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Start(&sweep->requests[0]);
        MPI_Wait(&sweep->requests[0], MPI_STATUS_IGNORE);
    }
}

enum { PARTITIONS = 4 };

static void open_partitioned(struct sweep *sweep)
{
    MPI_Count bytes = (MPI_Count)sweep->call->bytes / PARTITIONS;
    MPI_Precv_init(sweep->in, PARTITIONS, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm,
                   MPI_INFO_NULL, &sweep->requests[0]);
    MPI_Psend_init(sweep->out, PARTITIONS, bytes, MPI_BYTE, sweep->peer, SWEEP_TAG, sweep->comm,
                   MPI_INFO_NULL, &sweep->requests[1]);
    sweep->request_count = 2;
}

static void run_partitioned(void *state, long iterations)
{
    struct sweep *sweep = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Startall(2, sweep->requests);
        for (int partition = 0; partition < PARTITIONS; partition++)
            MPI_Pready(partition, sweep->requests[1]);
        MPI_Waitall(2, sweep->requests, MPI_STATUSES_IGNORE);
    }
}

static void open_allreduce(struct sweep *sweep)
{
    MPI_Allreduce_init(sweep->out, sweep->in, (int)(sweep->call->bytes / sizeof(double)),
                       MPI_DOUBLE, MPI_SUM, sweep->comm, MPI_INFO_NULL, &sweep->requests[0]);
    sweep->request_count = 1;
}

static void open_barrier(struct sweep *sweep)
{
    MPI_Barrier_init(sweep->comm, MPI_INFO_NULL, &sweep->requests[0]);
    sweep->request_count = 1;
}

const struct sweep_call sweep_persistent[] = {
    {"persistent Send, Recv", 8, open_send_receive, run_started, close_requests, RESULT_OF_PEER,
     false},
    {"persistent Send, Recv", 4096, open_send_receive, run_started, close_requests,
     RESULT_OF_PEER, false},
    {"partitioned, 4 parts", 256, open_partitioned, run_partitioned, close_requests,
     RESULT_OF_PEER, false},
    {"Allreduce_init", 8, open_allreduce, run_started_one, close_requests, RESULT_SUMS, false},
    {"Barrier_init", 0, open_barrier, run_started_one, close_requests, RESULT_NONE, false},
    {0},
};
