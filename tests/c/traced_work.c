// Work of every kind that a trace shows, in known amounts: data of collective operations, many
// small messages at once, large messages, unexpected messages, calls for files, a window,
// user-level threads. The argument is the name of a file. For scenarios.
#include <combray_threads.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 40, LARGE = 4 << 20, UNEXPECTED = 30, WRITES = 5, BLOCK = 4096, THREADS = 3, PUTS = 10, PUT = 64 };

static int rank, size;
static char large[LARGE];

static void operate_together(void) {
    double values[100] = {0}, results[100];
    for (int turn = 0; turn < 3; turn++)
        MPI_Allreduce(values, results, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(large, 1000, MPI_CHAR, 1, MPI_COMM_WORLD);
    // Rank r contributes r + 1 integers.
    int own[64] = {0}, counts[64], places[64], sum = 0;
    for (int peer = 0; peer < size; peer++) {
        counts[peer] = peer + 1;
        places[peer] = sum;
        sum += counts[peer];
    }
    int *all = calloc(sum, sizeof(int));
    MPI_Gatherv(own, rank + 1, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Request request;
    MPI_Ialltoall(large, 8, MPI_CHAR, large + 4096, 8, MPI_CHAR, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, large, 16, MPI_CHAR, MPI_COMM_WORLD);
    free(all);
}

static void exchange(void) {
    MPI_Request requests[SMALL];
    static char small[SMALL][16];
    if (rank > 1)
        return;
    for (int number = 0; number < SMALL; number++)
        if (rank == 0)
            MPI_Isend(small[number], 16, MPI_CHAR, 1, number, MPI_COMM_WORLD, &requests[number]);
        else
            MPI_Irecv(small[number], 16, MPI_CHAR, 0, number, MPI_COMM_WORLD, &requests[number]);
    MPI_Waitall(SMALL, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Send(large, LARGE, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(large, LARGE, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    // They have arrived before their receives are posted: the message behind them has.
    for (int number = 0; number < UNEXPECTED; number++)
        if (rank == 0)
            MPI_Send(small[0], 16, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Ssend(small[0], 1, MPI_CHAR, 1, 8, MPI_COMM_WORLD);
    else
        MPI_Recv(small[0], 1, MPI_CHAR, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    // The counters are recorded at the end of a call, once in a while.
    for (double begun = MPI_Wtime(); rank == 1 && MPI_Wtime() - begun < 0.02;) {
        int flag;
        MPI_Iprobe(0, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    for (int number = 0; number < UNEXPECTED; number++)
        if (rank == 1)
            MPI_Recv(small[0], 16, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void use_file(const char *name) {
    MPI_File file;
    static char block[BLOCK];
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &file);
    for (int number = 0; number < WRITES; number++) {
        MPI_Offset place = (MPI_Offset)(rank * WRITES + number) * BLOCK;
        MPI_File_write_at(file, place, block, BLOCK, MPI_CHAR, MPI_STATUS_IGNORE);
    }
    MPI_Request request;
    MPI_File_iread_at(file, (MPI_Offset)rank * WRITES * BLOCK, block, BLOCK, MPI_CHAR, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

// Rank 0 puts PUTS blocks into the window of rank 1, and adds a number.
static void use_window(void) {
    char *memory;
    MPI_Win window;
    MPI_Win_allocate((PUTS + 1) * PUT, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_fence(0, window);
    if (rank == 0) {
        long one = 1;
        for (int number = 0; number < PUTS; number++)
            MPI_Put(large, PUT, MPI_CHAR, 1, (MPI_Aint)number * PUT, PUT, MPI_CHAR, window);
        MPI_Accumulate(&one, 1, MPI_LONG, 1, PUTS * PUT, 1, MPI_LONG, MPI_SUM, window);
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void *work(void *unused) {
    volatile double sum = 0;
    for (int step = 0; step < 100000; step++)
        sum += step;
    return unused;
}

static void run_threads(void) {
    combray_thread threads[THREADS];
    if (combray_threads_start(1, 0, NULL) != 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int number = 0; number < THREADS; number++)
        combray_thread_create(&threads[number], "worker", NULL, work, NULL);
    for (int number = 0; number < THREADS; number++)
        combray_thread_join(threads[number], NULL);
    combray_threads_stop();
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2 || size < 2 || size > 64)
        MPI_Abort(MPI_COMM_WORLD, 1);
    operate_together();
    exchange();
    use_file(argv[1]);
    use_window();
    run_threads();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
