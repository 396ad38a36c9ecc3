// Programs in which ranks wait for a known reason and time: the arguments name the reason and the
// milliseconds that the late rank takes. That rank prints how long it took, in seconds. For
// scenarios.
#include <combray.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGE = 1 << 20, LATE = 1 };

static int rank, size;
static long milliseconds;
static char large[LARGE], more[LARGE];

static void compute(void) {
    struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

// The rank that the others wait for computes; `late` is that rank.
static void compute_on(int late) {
    double begun = MPI_Wtime();
    if (rank == late) {
        compute();
        printf("%.6f\n", MPI_Wtime() - begun);
    }
}

static void late_sender(int bytes) {
    compute_on(LATE);
    if (rank == LATE)
        MPI_Send(large, bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
    else if (rank == 0)
        MPI_Recv(large, bytes, MPI_CHAR, LATE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void late_sender_small(void) {
    late_sender(8);
}

static void late_sender_large(void) {
    late_sender(LARGE);
}

static void late_sender_with_requests(int bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0)
        MPI_Irecv(large, bytes, MPI_CHAR, LATE, 3, MPI_COMM_WORLD, &request);
    compute_on(LATE);
    if (rank == LATE)
        MPI_Send(large, bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void late_sender_nonblocking(void) {
    late_sender_with_requests(8);
}

static void late_sender_nonblocking_large(void) {
    late_sender_with_requests(LARGE);
}

// Rank 0 waits for the second message of the late rank while the first one is there.
static void wrong_order(int bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == LATE)
        MPI_Isend(more, bytes, MPI_CHAR, 0, 4, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    late_sender(bytes);
    if (rank == 0)
        MPI_Recv(more, bytes, MPI_CHAR, LATE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void wrong_order_small(void) {
    wrong_order(8);
}

static void wrong_order_large(void) {
    wrong_order(LARGE);
}

static void late_receiver_small(void) {
    compute_on(LATE);
    if (rank == 0)
        MPI_Ssend(large, 8, MPI_CHAR, LATE, 3, MPI_COMM_WORLD);
    else if (rank == LATE)
        MPI_Recv(large, 8, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void late_receiver_large(void) {
    compute_on(LATE);
    if (rank == 0)
        MPI_Send(large, LARGE, MPI_CHAR, LATE, 3, MPI_COMM_WORLD);
    else if (rank == LATE)
        MPI_Recv(large, LARGE, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void wait_at_barrier(void) {
    compute_on(LATE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void wait_at_nxn(void) {
    double part = rank, sum;
    compute_on(LATE);
    MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void wait_at_nxn_large(void) {
    compute_on(LATE);
    MPI_Alltoall(large, LARGE / size, MPI_CHAR, more, LARGE / size, MPI_CHAR, MPI_COMM_WORLD);
}

static void early_reduce(void) {
    double part = rank, sum;
    compute_on(LATE);
    MPI_Reduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void early_reduce_large(void) {
    compute_on(LATE);
    MPI_Reduce(large, more, LARGE, MPI_SIGNED_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
}

static void late_broadcast_small(void) {
    compute_on(LATE);
    MPI_Bcast(large, 8, MPI_CHAR, LATE, MPI_COMM_WORLD);
}

static void late_broadcast(void) {
    compute_on(LATE);
    MPI_Bcast(large, LARGE, MPI_CHAR, LATE, MPI_COMM_WORLD);
}

// The late rank computes while it holds the lock.
static void put_under_lock(int bytes) {
    MPI_Win window;
    char *memory;
    MPI_Win_allocate(LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (rank == LATE)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, LATE, 0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    compute_on(LATE);
    if (rank == LATE) {
        MPI_Win_unlock(LATE, window);
    } else if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, LATE, 0, window);
        MPI_Put(large, bytes, MPI_CHAR, LATE, 0, bytes, MPI_CHAR, window);
        MPI_Win_unlock(LATE, window);
    }
    MPI_Win_free(&window);
}

// The late rank exposes its memory late.
static void late_post(int bytes) {
    MPI_Win window;
    char *memory;
    MPI_Group all, target, origin;
    MPI_Win_allocate(LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, (int[]){LATE}, &target);
    MPI_Group_incl(all, 1, (int[]){0}, &origin);
    MPI_Barrier(MPI_COMM_WORLD);
    compute_on(LATE);
    if (rank == LATE) {
        MPI_Win_post(origin, 0, window);
        MPI_Win_wait(window);
    } else if (rank == 0) {
        MPI_Win_start(target, 0, window);
        MPI_Put(large, bytes, MPI_CHAR, LATE, 0, bytes, MPI_CHAR, window);
        MPI_Win_complete(window);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&target);
    MPI_Group_free(&origin);
    MPI_Win_free(&window);
}

static void late_post_small(void) {
    late_post(8);
}

static void late_post_large(void) {
    late_post(LARGE);
}

static void lock_held(void) {
    put_under_lock(8);
}

static void lock_held_large(void) {
    put_under_lock(LARGE);
}

// The late rank computes in one phase; another phase has none that is late.
static void phases(void) {
    for (int step = 0; step < 2; step++) {
        combray_phase("uneven");
        compute_on(LATE);
        MPI_Barrier(MPI_COMM_WORLD);
        combray_phase("even");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    combray_phase("");
    MPI_Pcontrol(7);
    MPI_Pcontrol(0);
    if (combray_phase(NULL) == MPI_SUCCESS)
        exit(3);
}

// Rank 1 computes when rank 0 has computed.
static void in_turns(void) {
    compute_on(0);
    if (rank == 0)
        MPI_Send(large, 8, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(large, 8, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    compute_on(1);
    MPI_Barrier(MPI_COMM_WORLD);
}

// All ranks compute for equal times before each operation.
static void balanced(void) {
    double part = rank, sum;
    compute();
    MPI_Barrier(MPI_COMM_WORLD);
    compute();
    MPI_Sendrecv(large, LARGE, MPI_CHAR, (rank + 1) % size, 3, more, LARGE, MPI_CHAR, (rank + size - 1) % size, 3,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    compute();
    MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    compute();
    MPI_Reduce(large, more, LARGE, MPI_SIGNED_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
    compute();
    MPI_Bcast(large, 8, MPI_CHAR, 0, MPI_COMM_WORLD);
}

#define PROGRAM(name) {#name, name}

static const struct {
    const char *name;
    void (*run)(void);
} PROGRAMS[] = {
    PROGRAM(late_sender_small),   PROGRAM(late_sender_large),    PROGRAM(late_sender_nonblocking),
    PROGRAM(wrong_order_small),   PROGRAM(wrong_order_large),    PROGRAM(late_sender_nonblocking_large),
    PROGRAM(late_receiver_small), PROGRAM(late_receiver_large),  PROGRAM(wait_at_barrier),
    PROGRAM(wait_at_nxn),         PROGRAM(wait_at_nxn_large),    PROGRAM(early_reduce),
    PROGRAM(early_reduce_large),  PROGRAM(late_broadcast_small), PROGRAM(late_broadcast),
    PROGRAM(lock_held),           PROGRAM(lock_held_large),      PROGRAM(phases),
    PROGRAM(late_post_small),     PROGRAM(late_post_large),      PROGRAM(in_turns),
    PROGRAM(balanced),
};

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    milliseconds = atol(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    // What is done for the first time takes longer.
    MPI_Barrier(MPI_COMM_WORLD);
    int found = 0;
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++)
        if (strcmp(PROGRAMS[i].name, argv[1]) == 0) {
            PROGRAMS[i].run();
            found = 1;
        }
    MPI_Finalize();
    return found ? 0 : 2;
}
