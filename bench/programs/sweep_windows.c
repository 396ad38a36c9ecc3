/* One-sided calls.  Those with a passive target are made by the first process, at its peer, while
   all others wait in a barrier; the window's memory begins with what `open` found there. */
#include "sweep.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 1 << 17, PUTS_TOGETHER = 64 };

/* ---- the kinds of windows ---- */

static void begin_passive(struct sweep *sweep)
{
    memset(sweep->window_memory, 0, WINDOW_BYTES);
    MPI_Barrier(sweep->comm);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, sweep->window);
}

static void create(struct sweep *sweep)
{
    sweep->first = 0;
    sweep->window_memory = buffer_new(sweep->job, WINDOW_BYTES);
    MPI_Win_create(sweep->window_memory, WINDOW_BYTES, 1, MPI_INFO_NULL, sweep->comm,
                   &sweep->window);
}

static void open_created(struct sweep *sweep)
{
    create(sweep);
    begin_passive(sweep);
}

static void open_allocated(struct sweep *sweep)
{
    sweep->first = 0;
    MPI_Win_allocate(WINDOW_BYTES, 1, MPI_INFO_NULL, sweep->comm, &sweep->window_memory,
                     &sweep->window);
    begin_passive(sweep);
}

/* Each process receives the address of its peer's memory. */
static void open_dynamic(struct sweep *sweep)
{
    MPI_Aint mine;
    sweep->window_memory = buffer_new(sweep->job, WINDOW_BYTES);
    MPI_Win_create_dynamic(MPI_INFO_NULL, sweep->comm, &sweep->window);
    MPI_Win_attach(sweep->window, sweep->window_memory, WINDOW_BYTES);
    MPI_Get_address(sweep->window_memory, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, sweep->peer, SWEEP_TAG, &sweep->first, 1, MPI_AINT,
                 sweep->peer, SWEEP_TAG, sweep->comm, MPI_STATUS_IGNORE);
    begin_passive(sweep);
}

static void close_window(struct sweep *sweep)
{
    void *owned = sweep->window_memory;
    int *flavor, found;
    MPI_Win_get_attr(sweep->window, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
    bool allocated = *flavor == MPI_WIN_FLAVOR_ALLOCATE;
    MPI_Win_free(&sweep->window);
    if (!allocated)
        free(owned);
}

static void close_passive(struct sweep *sweep)
{
    MPI_Win_unlock_all(sweep->window);
    if (sweep->first != 0) {
        MPI_Barrier(sweep->comm);
        MPI_Win_detach(sweep->window, sweep->window_memory);
    }
    close_window(sweep);
}

/* ---- passive targets ---- */

/* The data of a put is read back by a get where one iteration is checked. */
static void get_back(struct sweep *sweep)
{
    int bytes = (int)sweep->call->bytes;
    MPI_Get(sweep->in, bytes, MPI_BYTE, sweep->peer, sweep->first, bytes, MPI_BYTE, sweep->window);
    MPI_Win_flush(sweep->peer, sweep->window);
}

static void run_put(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    if (sweep->rank != 0)
        return;
    for (long i = 0; i < iterations; i++) {
        MPI_Put(sweep->out, bytes, MPI_BYTE, sweep->peer, sweep->first, bytes, MPI_BYTE,
                sweep->window);
        MPI_Win_flush(sweep->peer, sweep->window);
    }
    if (sweep->checking)
        get_back(sweep);
}

static void run_puts(void *state, long iterations)
{
    struct sweep *sweep = state;
    if (sweep->rank != 0)
        return;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < PUTS_TOGETHER; k++)
            MPI_Put(sweep->out + 8 * k, 8, MPI_BYTE, sweep->peer, sweep->first + 8 * k, 8,
                    MPI_BYTE, sweep->window);
        MPI_Win_flush(sweep->peer, sweep->window);
    }
    if (sweep->checking)
        get_back(sweep);
}

/* What the peer put into its own memory is there: it does so before the barrier of the check. */
static void run_get(void *state, long iterations)
{
    struct sweep *sweep = state;
    if (sweep->rank != 0)
        return;
    if (sweep->checking) {
        int bytes = (int)sweep->call->bytes;
        MPI_Put(sweep->out, bytes, MPI_BYTE, sweep->peer, sweep->first, bytes, MPI_BYTE,
                sweep->window);
        MPI_Win_flush(sweep->peer, sweep->window);
    }
    for (long i = 0; i < iterations; i++)
        get_back(sweep);
}

/* Counters, which lie behind the data of the puts. */
static const MPI_Aint counter = WINDOW_BYTES - 64;

static int64_t fetch(struct sweep *sweep, int64_t add)
{
    int64_t before = -1;
    MPI_Fetch_and_op(&add, &before, MPI_INT64_T, sweep->peer, sweep->first + counter, MPI_SUM,
                     sweep->window);
    MPI_Win_flush(sweep->peer, sweep->window);
    return before;
}

static void run_fetch_and_op(void *state, long iterations)
{
    struct sweep *sweep = state;
    if (sweep->rank != 0)
        return;
    int64_t before = fetch(sweep, 0), found = 0;
    for (long i = 0; i < iterations; i++)
        found = fetch(sweep, 1);
    if (found != before + iterations - 1)
        job_fail(sweep->job, "the counter was %lld and not %lld", (long long)found,
                 (long long)(before + iterations - 1));
}

static void run_compare_and_swap(void *state, long iterations)
{
    struct sweep *sweep = state;
    if (sweep->rank != 0)
        return;
    int64_t there = fetch(sweep, 0), found = there;
    for (long i = 0; i < iterations; i++, there++) {
        int64_t next = there + 1;
        MPI_Compare_and_swap(&next, &there, &found, MPI_INT64_T, sweep->peer,
                             sweep->first + counter, sweep->window);
        MPI_Win_flush(sweep->peer, sweep->window);
    }
    if (found != there - 1)
        job_fail(sweep->job, "the word was %lld and not %lld", (long long)found,
                 (long long)(there - 1));
}

static void run_accumulate(void *state, long iterations)
{
    struct sweep *sweep = state;
    int64_t one = 1;
    if (sweep->rank != 0)
        return;
    int64_t before = fetch(sweep, 0);
    for (long i = 0; i < iterations; i++) {
        MPI_Accumulate(&one, 1, MPI_INT64_T, sweep->peer, sweep->first + counter, 1, MPI_INT64_T,
                       MPI_SUM, sweep->window);
        MPI_Win_flush(sweep->peer, sweep->window);
    }
    if (fetch(sweep, 0) != before + iterations)
        job_fail(sweep->job, "the sum is not %lld", (long long)(before + iterations));
}

static void run_rget(void *state, long iterations)
{
    struct sweep *sweep = state;
    int bytes = (int)sweep->call->bytes;
    if (sweep->rank != 0)
        return;
    for (long i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Rget(sweep->in, bytes, MPI_BYTE, sweep->peer, sweep->first, bytes, MPI_BYTE,
                 sweep->window, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* ---- synchronisation ---- */

static void run_lock_put(void *state, long iterations)
{
    struct sweep *sweep = state;
    if (sweep->rank != 0)
        return;
    for (long i = 0; i < iterations; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, sweep->peer, 0, sweep->window);
        MPI_Put(sweep->out, 8, MPI_BYTE, sweep->peer, 0, 8, MPI_BYTE, sweep->window);
        MPI_Win_unlock(sweep->peer, sweep->window);
    }
}

static void open_fenced(struct sweep *sweep)
{
    create(sweep);
    MPI_Win_fence(0, sweep->window);
}

static void close_fenced(struct sweep *sweep)
{
    MPI_Win_fence(MPI_MODE_NOSUCCEED, sweep->window);
    close_window(sweep);
}

static void put_to_peer(struct sweep *sweep)
{
    int bytes = (int)sweep->call->bytes;
    MPI_Put(sweep->out, bytes, MPI_BYTE, sweep->peer, 0, bytes, MPI_BYTE, sweep->window);
}

static void run_fence(void *state, long iterations)
{
    struct sweep *sweep = state;
    for (long i = 0; i < iterations; i++) {
        put_to_peer(sweep);
        MPI_Win_fence(0, sweep->window);
    }
    memcpy(sweep->in, sweep->window_memory, sweep->call->bytes);
}

static void run_started_epochs(void *state, long iterations)
{
    struct sweep *sweep = state;
    MPI_Group all, peer;
    MPI_Comm_group(sweep->comm, &all);
    MPI_Group_incl(all, 1, &sweep->peer, &peer);
    for (long i = 0; i < iterations; i++) {
        MPI_Win_post(peer, 0, sweep->window);
        MPI_Win_start(peer, 0, sweep->window);
        put_to_peer(sweep);
        MPI_Win_complete(sweep->window);
        MPI_Win_wait(sweep->window);
    }
    memcpy(sweep->in, sweep->window_memory, sweep->call->bytes);
    MPI_Group_free(&all);
    MPI_Group_free(&peer);
}

static void run_create_free(void *state, long iterations)
{
    struct sweep *sweep = state;
    for (long i = 0; i < iterations; i++) {
        MPI_Win window;
        MPI_Win_create(sweep->in, SWEEP_ROOM, 1, MPI_INFO_NULL, sweep->comm, &window);
        MPI_Win_free(&window);
    }
}

#define PASSIVE(kind, open)                                                                        \
    {kind ", Put, flush", 8, open, run_put, close_passive, RESULT_OF_SELF, true},                  \
    {kind ", Put, flush", 64 << 10, open, run_put, close_passive, RESULT_OF_SELF, true},           \
    {kind ", 64 Puts, flush", 8 * PUTS_TOGETHER, open, run_puts, close_passive, RESULT_OF_SELF,    \
     true},                                                                                        \
    {kind ", Get, flush", 8, open, run_get, close_passive, RESULT_OF_SELF, true},                  \
    {kind ", Get, flush", 64 << 10, open, run_get, close_passive, RESULT_OF_SELF, true},           \
    {kind ", Rget, Wait", 8, open, run_rget, close_passive, RESULT_NONE, true},                    \
    {kind ", Fetch_and_op, flush", 8, open, run_fetch_and_op, close_passive, RESULT_NONE, true},   \
    {kind ", Compare_and_swap, flush", 8, open, run_compare_and_swap, close_passive, RESULT_NONE,  \
     true},                                                                                        \
    {kind ", Accumulate, flush", 8, open, run_accumulate, close_passive, RESULT_NONE, true}

const struct sweep_call sweep_windows[] = {
    PASSIVE("created", open_created),
    PASSIVE("allocated", open_allocated),
    PASSIVE("dynamic", open_dynamic),
    {"created, lock, Put, unlock", 8, create, run_lock_put, close_window, RESULT_NONE, true},
    {"created, Put, fence", 8, open_fenced, run_fence, close_fenced, RESULT_OF_PEER, false},
    {"created, Put, fence", 64 << 10, open_fenced, run_fence, close_fenced, RESULT_OF_PEER, false},
    {"created, post, start, Put, complete, wait", 8, create, run_started_epochs, close_window,
     RESULT_OF_PEER, false},
    {"Win_create, Win_free", 0, NULL, run_create_free, NULL, RESULT_NONE, false},
    {0},
};
