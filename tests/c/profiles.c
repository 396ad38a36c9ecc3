// Programs that are slow for one reason each: the argument names it. For scenarios.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGE = 1 << 20 };

static int rank, size;
static char large[LARGE];

// Outside of MPI, and however many others want the core.
static void compute(long milliseconds) {
    struct timespec time = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&time, NULL);
}

// One rank has three times the work of the others.
static void slow_rank(void) {
    double sum;
    for (int step = 0; step < 20; step++) {
        compute(rank == 1 ? 30 : 10);
        double part = rank;
        MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

// Each rank begins when it has what the one before it has made.
static void chain(void) {
    int value = 0;
    for (int step = 0; step < 6; step++) {
        if (rank > 0)
            MPI_Recv(&value, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        compute(30);
        if (rank + 1 < size)
            MPI_Send(&value, 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// Numbers are sent one by one.
static void small_messages(void) {
    double number = 0;
    for (int step = 0; step < 50; step++) {
        for (int i = 0; i < 10000; i++) {
            if (rank == 0)
                MPI_Send(&number, 1, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD);
            else if (rank == 1)
                MPI_Recv(&number, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        compute(1);
    }
}

// The receiver computes first.
static void late_receives(void) {
    for (int step = 0; step < 15; step++) {
        if (rank == 0) {
            MPI_Send(large, LARGE, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
        } else if (rank == 1) {
            compute(20);
            MPI_Recv(large, LARGE, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

// Now this rank comes last, now that.
static void imbalance(void) {
    for (int step = 0; step < 20; step++) {
        compute(step % size == rank ? 25 : 5);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// Half of the work could be done after the message is sent.
static void late_sends(void) {
    MPI_Request request;
    for (int step = 0; step < 15; step++) {
        compute(rank == 0 ? 25 : 1);
        if (rank == 0) {
            MPI_Send(large, 100, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Irecv(large, 100, MPI_CHAR, 0, 3, MPI_COMM_WORLD, &request);
            MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        }
        compute(rank == 0 ? 1 : 24);
    }
}

static void balanced(void) {
    double sum, part = rank;
    for (int step = 0; step < 20; step++) {
        compute(15);
        MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"slow_rank", slow_rank},         {"chain", chain},         {"small_messages", small_messages},
        {"late_receives", late_receives}, {"imbalance", imbalance}, {"late_sends", late_sends},
        {"balanced", balanced},
    };
    const char *name = count > 1 ? words[1] : "balanced";
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, name) == 0)
            all[i].run();
    MPI_Finalize();
    return 0;
}
