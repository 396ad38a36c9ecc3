// Wrong and right loads and stores of the program, which --check sees if it is compiled with
// mpicc --check-accesses.
#include "misuse.h"

static int exposed[64], values[16] = {1, 2, 3, 4}, results[16];
static volatile int seen;
static MPI_Win win;

static void make(void) {
    MPI_Win_create(exposed, sizeof exposed, sizeof *exposed, MPI_INFO_NULL, world, &win);
}

static int right_neighbour(void) {
    return (rank + 1) % size;
}

// What a receive brings is read before that is complete.
static void read_before_wait(void) {
    MPI_Request request;
    MPI_Irecv(results, 4, MPI_INT, rank, 0, world, &request);
    if (wrong) {
        seen = results[1];
    }
    MPI_Send(values, 4, MPI_INT, rank, 0, world);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    seen = results[2];
}

static void written_before_wait(void) {
    MPI_Request request;
    MPI_Irecv(results, 4, MPI_INT, rank, 0, world, &request);
    results[wrong ? 2 : 4] = 5;
    MPI_Send(values, 4, MPI_INT, rank, 0, world);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    results[2] = 6;
}

// The value does not change, but it is written while it is sent; reading it is right.
static void written_while_sent(void) {
    MPI_Request request;
    MPI_Isend(values, 4, MPI_INT, rank, 0, world, &request);
    seen = values[1];
    if (wrong) {
        values[1] = seen;
    }
    MPI_Recv(results, 4, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    values[1] = 2;
}

static void read_while_reduced(void) {
    MPI_Request request;
    MPI_Iallreduce(values, results, 4, MPI_INT, MPI_SUM, world, &request);
    seen = wrong ? results[0] : values[0];
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    seen = results[0];
}

static void read_before_flush(void) {
    make();
    MPI_Win_lock_all(0, win);
    MPI_Get(results, 1, MPI_INT, right_neighbour(), 3, 1, MPI_INT, win);
    if (!wrong) {
        MPI_Win_flush(right_neighbour(), win);
    }
    seen = results[0];
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void read_before_fence(void) {
    make();
    MPI_Win_fence(0, win);
    MPI_Get(results, 1, MPI_INT, right_neighbour(), 3, 1, MPI_INT, win);
    if (!wrong) {
        MPI_Win_fence(0, win);
    }
    seen = results[0];
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void origin_written(void) {
    make();
    MPI_Win_fence(0, win);
    MPI_Put(values, 1, MPI_INT, right_neighbour(), 3, 1, MPI_INT, win);
    values[wrong ? 0 : 1] = 1;
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

// Another process puts what this one reads or writes.
static void load_beside_put(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Put(values, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
    } else if (rank == 1) {
        seen = exposed[wrong ? 3 : 4];
    }
    MPI_Win_fence(0, win);
    seen = exposed[3];
    MPI_Win_free(&win);
}

static void store_beside_put(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Put(values, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
    } else if (rank == 1) {
        exposed[wrong ? 3 : 4] = 7;
    }
    MPI_Win_fence(0, win);
    exposed[3] = 8;
    MPI_Win_free(&win);
}

static void store_beside_get(void) {
    make();
    exposed[3] = rank;
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Get(results, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
    } else if (rank == 1 && wrong) {
        exposed[3] = 7;
    }
    seen = exposed[3];
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void store_beside_sum(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Accumulate(values, 1, MPI_INT, 1, 3, 1, MPI_INT, MPI_SUM, win);
    } else if (rank == 1) {
        exposed[wrong ? 3 : 4]++;
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void load_in_exposure(void) {
    MPI_Group all, others;
    make();
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, (int[]){rank ^ 1}, &others);
    if (rank == 0) {
        MPI_Win_start(others, 0, win);
        MPI_Put(values, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
        MPI_Win_complete(win);
    } else if (rank == 1) {
        MPI_Win_post(others, 0, win);
        if (wrong) {
            seen = exposed[3];
        }
        MPI_Win_wait(win);
        seen = exposed[3];
    }
    MPI_Group_free(&others);
    MPI_Group_free(&all);
    MPI_Win_free(&win);
}

static void store_beside_locked_put(void) {
    make();
    MPI_Barrier(world);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        MPI_Put(values, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
        MPI_Win_unlock(1, win);
    }
    if (!wrong) {
        MPI_Barrier(world);
    }
    if (rank == 1) {
        exposed[3] = 9;
    }
    MPI_Barrier(world);
    MPI_Win_free(&win);
}

static void load_beside_locked_put(void) {
    make();
    MPI_Barrier(world);
    if (rank == 0) {
        MPI_Win_lock_all(0, win);
        MPI_Put(values, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
        MPI_Win_unlock_all(win);
    } else if (rank == 1 && wrong) {
        seen = exposed[3];
    }
    MPI_Barrier(world);
    seen = exposed[3];
    MPI_Win_free(&win);
}

// To wait for a value that another process puts is right, with MPI_Win_sync.
static void waits_for_value(void) {
    volatile int *place = &exposed[3];
    make();
    MPI_Win_lock_all(0, win);
    MPI_Barrier(world);
    if (rank == 0) {
        MPI_Put(values, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
    } else if (rank == 1 && !wrong) {
        while (*place == 0) {
            MPI_Win_sync(win);
        }
    } else if (rank == 1) {
        *place = 2;
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

// A message reports that the memory may be written.
static void stored_before_message(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 1) {
        exposed[3] = 5;
        MPI_Send(values, 1, MPI_INT, 0, 0, world);
    } else if (rank == 0) {
        if (!wrong) {
            MPI_Recv(results, 1, MPI_INT, 1, 0, world, MPI_STATUS_IGNORE);
        }
        MPI_Put(values, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
        if (wrong) {
            MPI_Recv(results, 1, MPI_INT, 1, 0, world, MPI_STATUS_IGNORE);
        }
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static const struct misuse cases[] = {
    {"read_before_wait", read_before_wait, MPI_THREAD_SINGLE},
    {"written_before_wait", written_before_wait, MPI_THREAD_SINGLE},
    {"written_while_sent", written_while_sent, MPI_THREAD_SINGLE},
    {"read_while_reduced", read_while_reduced, MPI_THREAD_SINGLE},
    {"read_before_flush", read_before_flush, MPI_THREAD_SINGLE},
    {"read_before_fence", read_before_fence, MPI_THREAD_SINGLE},
    {"origin_written", origin_written, MPI_THREAD_SINGLE},
    {"load_beside_put", load_beside_put, MPI_THREAD_SINGLE},
    {"store_beside_put", store_beside_put, MPI_THREAD_SINGLE},
    {"store_beside_get", store_beside_get, MPI_THREAD_SINGLE},
    {"store_beside_sum", store_beside_sum, MPI_THREAD_SINGLE},
    {"load_in_exposure", load_in_exposure, MPI_THREAD_SINGLE},
    {"store_beside_locked_put", store_beside_locked_put, MPI_THREAD_SINGLE},
    {"load_beside_locked_put", load_beside_locked_put, MPI_THREAD_SINGLE},
    {"waits_for_value", waits_for_value, MPI_THREAD_SINGLE},
    {"stored_before_message", stored_before_message, MPI_THREAD_SINGLE},
};

MISUSE_MAIN(cases)
