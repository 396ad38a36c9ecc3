// Wrong and right one-sided communication.
#include "misuse.h"

static int exposed[64], values[16] = {1, 2, 3, 4}, results[16];
static MPI_Win win;

static void make(void) {
    MPI_Win_create(exposed, sizeof exposed, sizeof *exposed, MPI_INFO_NULL, world, &win);
}

static void put(int target, int place) {
    MPI_Put(values, 1, MPI_INT, target, place, 1, MPI_INT, win);
}

static void get(int target, int place) {
    MPI_Get(results, 1, MPI_INT, target, place, 1, MPI_INT, win);
}

// A get beside an operation that changes nothing is right, beside one that changes something wrong.
static void get_beside_atomic_read(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        get(2, 3);
    } else if (rank == 1) {
        MPI_Get_accumulate(values, 1, MPI_INT, results, 1, MPI_INT, 2, 3, 1, MPI_INT, wrong ? MPI_SUM : MPI_NO_OP, win);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void get_beside_fetch(void) {
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        get(1, 3);
        MPI_Fetch_and_op(values, results + 1, MPI_INT, 1, 3, wrong ? MPI_REPLACE : MPI_NO_OP, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void atomic_read_beside_sum(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Get_accumulate(NULL, 0, MPI_INT, results, 1, MPI_INT, 2, 3, 1, wrong ? MPI_FLOAT : MPI_INT, MPI_NO_OP, win);
    } else if (rank == 1) {
        MPI_Accumulate(values, 1, MPI_INT, 2, 3, 1, MPI_INT, MPI_SUM, win);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void put_beside_put(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank < 2) {
        put(2, wrong ? 3 : 3 + rank);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void put_beside_get(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        put(2, 3);
    }
    if (!wrong) {
        MPI_Win_fence(0, win);
    }
    if (rank == 1) {
        get(2, 3);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void sum_beside_product(void) {
    make();
    MPI_Win_fence(0, win);
    MPI_Accumulate(values, 1, MPI_INT, 0, 3, 1, MPI_INT, wrong && rank == 1 ? MPI_PROD : MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void sum_beside_put(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Accumulate(values, 1, MPI_INT, 2, 3, 1, MPI_INT, MPI_REPLACE, win);
    } else if (rank == 1 && wrong) {
        put(2, 3);
    } else if (rank == 1) {
        MPI_Accumulate(values, 1, MPI_INT, 2, 3, 1, MPI_INT, MPI_REPLACE, win);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

// In exposure epochs.
static void posted_puts(void) {
    MPI_Group all, others;
    make();
    MPI_Comm_group(world, &all);
    if (rank == 2) {
        MPI_Group_incl(all, 2, (int[]){0, 1}, &others);
        MPI_Win_post(others, 0, win);
        MPI_Win_wait(win);
        MPI_Group_free(&others);
    } else if (rank < 2) {
        MPI_Group_incl(all, 1, (int[]){2}, &others);
        MPI_Win_start(others, 0, win);
        put(2, wrong ? 3 : 3 + rank);
        MPI_Win_complete(win);
        MPI_Group_free(&others);
    }
    MPI_Group_free(&all);
    MPI_Win_free(&win);
}

static void no_flush(void) {
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        put(1, 3);
        if (!wrong) {
            MPI_Win_flush(1, win);
        }
        put(1, 3);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

// Two processes share a lock, and nothing puts them in order.
static void shared_locks(void) {
    make();
    MPI_Barrier(world);
    for (int turn = 0; turn < 2; turn++) {
        if (rank == turn) {
            MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win);
            put(2, 3);
            MPI_Win_unlock(2, win);
        }
        if (!wrong) {
            MPI_Barrier(world);
        }
    }
    MPI_Win_free(&win);
}

static void exclusive_locks(void) {
    make();
    if (rank < 2) {
        MPI_Win_lock(wrong ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 2, 0, win);
        put(2, 3);
        MPI_Win_unlock(2, win);
    }
    MPI_Win_free(&win);
}

static void locked_all(void) {
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        put(2, 3);
        MPI_Win_flush(2, win);
    }
    if (!wrong) {
        MPI_Barrier(world);
    }
    if (rank == 1) {
        get(2, 3);
        MPI_Win_flush(2, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

// A message puts them in order.
static void locked_with_message(void) {
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        put(2, 3);
        MPI_Win_flush(2, win);
        MPI_Send(values, 1, MPI_INT, 1, 0, world);
    } else if (rank == 1) {
        if (!wrong) {
            MPI_Recv(results, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
        }
        put(2, 3);
        MPI_Win_flush(2, win);
        if (wrong) {
            MPI_Recv(results, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

// A flag in memory that both access atomically puts them in order.
static void locked_with_flag(void) {
    int one = 1, flag = 0;
    make();
    MPI_Barrier(world);
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        put(2, 3);
        MPI_Win_flush(2, win);
        MPI_Accumulate(&one, 1, MPI_INT, 2, 9, 1, MPI_INT, MPI_REPLACE, win);
        MPI_Win_flush(2, win);
    } else if (rank == 1) {
        if (wrong) {
            put(2, 3);
            MPI_Win_flush(2, win);
        }
        while (!flag) {
            MPI_Fetch_and_op(NULL, &flag, MPI_INT, 2, 9, MPI_NO_OP, win);
            MPI_Win_flush(2, win);
        }
        put(2, 3);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

// The origin of a put is memory that another process writes.
static void origin_in_window(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Put(exposed + 3, 1, MPI_INT, 2, 7, 1, MPI_INT, win);
    } else if (rank == 1) {
        put(0, wrong ? 3 : 4);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void result_in_window(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Get(exposed + 3, 1, MPI_INT, 2, 7, 1, MPI_INT, win);
    } else if (rank == 1) {
        MPI_Get(results, 1, MPI_INT, 0, wrong ? 3 : 4, 1, MPI_INT, win);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void sent_from_window(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Send(exposed + 3, 1, MPI_INT, 2, 0, world);
    } else if (rank == 1) {
        put(0, wrong ? 3 : 4);
    } else if (rank == 2) {
        MPI_Recv(results, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

// The process that puts knows that the memory was used before.
static void sent_before_put(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Send(exposed + 3, 1, MPI_INT, 1, 0, world);
    } else if (rank == 1) {
        if (!wrong) {
            MPI_Recv(results, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
        }
        put(0, 3);
        if (wrong) {
            MPI_Recv(results, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
        }
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void received_into_window(void) {
    make();
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Recv(exposed + 3, 1, MPI_INT, 2, 0, world, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        get(0, wrong ? 3 : 4);
    } else if (rank == 2) {
        MPI_Send(values, 1, MPI_INT, 0, 0, world);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void freed_without_fence(void) {
    make();
    MPI_Win_fence(0, win);
    put((rank + 1) % size, 3);
    if (!wrong) {
        MPI_Win_fence(0, win);
    }
    MPI_Win_free(&win);
}

static void accumulate_alias(void) {
    make();
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(values, 2, MPI_INT, wrong ? values + 1 : results, 2, MPI_INT, (rank + 1) % size, 3, 2, MPI_INT,
                       MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void origin_changed(void) {
    make();
    MPI_Win_fence(0, win);
    put((rank + 1) % size, 3);
    if (wrong) {
        values[0]++;
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void result_sent(void) {
    make();
    MPI_Win_lock_all(0, win);
    get((rank + 1) % size, 3);
    if (!wrong) {
        MPI_Win_flush_local((rank + 1) % size, win);
    }
    MPI_Sendrecv(results, 1, MPI_INT, rank, 0, results + 1, 1, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static const struct misuse cases[] = {
    {"get_beside_atomic_read", get_beside_atomic_read, MPI_THREAD_SINGLE},
    {"get_beside_fetch", get_beside_fetch, MPI_THREAD_SINGLE},
    {"atomic_read_beside_sum", atomic_read_beside_sum, MPI_THREAD_SINGLE},
    {"put_beside_put", put_beside_put, MPI_THREAD_SINGLE},
    {"put_beside_get", put_beside_get, MPI_THREAD_SINGLE},
    {"sum_beside_product", sum_beside_product, MPI_THREAD_SINGLE},
    {"sum_beside_put", sum_beside_put, MPI_THREAD_SINGLE},
    {"posted_puts", posted_puts, MPI_THREAD_SINGLE},
    {"no_flush", no_flush, MPI_THREAD_SINGLE},
    {"shared_locks", shared_locks, MPI_THREAD_SINGLE},
    {"exclusive_locks", exclusive_locks, MPI_THREAD_SINGLE},
    {"locked_all", locked_all, MPI_THREAD_SINGLE},
    {"locked_with_message", locked_with_message, MPI_THREAD_SINGLE},
    {"locked_with_flag", locked_with_flag, MPI_THREAD_SINGLE},
    {"origin_in_window", origin_in_window, MPI_THREAD_SINGLE},
    {"result_in_window", result_in_window, MPI_THREAD_SINGLE},
    {"sent_from_window", sent_from_window, MPI_THREAD_SINGLE},
    {"sent_before_put", sent_before_put, MPI_THREAD_SINGLE},
    {"received_into_window", received_into_window, MPI_THREAD_SINGLE},
    {"freed_without_fence", freed_without_fence, MPI_THREAD_SINGLE},
    {"accumulate_alias", accumulate_alias, MPI_THREAD_SINGLE},
    {"origin_changed", origin_changed, MPI_THREAD_SINGLE},
    {"result_sent", result_sent, MPI_THREAD_SINGLE},
};

MISUSE_MAIN(cases)
