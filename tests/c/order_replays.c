/* Programs whose replay meets a difficulty: "order_replays KIND [late]". With "late" the processes do
   in another order, or do more than, what they did without it. For scenarios.
   window: process 0 serves a put of process 1 before thousands of process 2; late: process 1 is last.
   receive: process 0 receives from any source what the others send; late: once more.
   threads: two threads of process 0 receive from any source. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PUTS 3000
#define BYTES 2000

static int rank, size, late;

static void put(int count) {
    static char block[BYTES], memory[BYTES];
    MPI_Win window;
    MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    memset(block, rank, BYTES);
    MPI_Win_fence(0, window);
    if (rank == (late ? 1 : 2)) usleep(1000000);
    for (int number = 0; number < count; number++)
        MPI_Put(block, BYTES, MPI_BYTE, 0, 0, BYTES, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    if (rank == 0) printf("rank 0: %d\n", memory[0]);
    MPI_Win_free(&window);
}

static void *receive_one(void *unused) {
    int got;
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return unused;
}

int main(int argc, char **argv) {
    int provided;
    const char *kind = argc > 1 ? argv[1] : "receive";
    late = argc > 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(kind, "window")) {
        put(rank == 2 ? PUTS : rank == 1);
    } else if (rank > 0) {
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else {
        pthread_t thread;
        int others = size - 1 + late, is_apart = !strcmp(kind, "threads");
        if (is_apart) pthread_create(&thread, NULL, receive_one, NULL);
        while (others-- > is_apart) receive_one(NULL);
        if (is_apart) pthread_join(thread, NULL);
    }
    MPI_Finalize();
    return 0;
}
