// Rank 1 lends its cores while it waits in MPI, and rank 0 uses them within one region: a thread of
// its team may run there until rank 1 returns. Prints what happened.
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#define SECONDS 100

static cpu_set_t others;

// Waits until the calling thread may run on cores of rank 1, or may not.
static int becomes(int may) {
    for (time_t end = time(NULL) + SECONDS; time(NULL) < end;) {
        cpu_set_t now, both;
        sched_getaffinity(0, sizeof now, &now);
        CPU_AND(&both, &now, &others);
        if ((CPU_COUNT(&both) > 0) == may)
            return 1;
    }
    return 0;
}

static void borrow(void) {
    int lent = 0, returned = 0, threads = 0;
    volatile int stage = 0;
#pragma omp parallel
    {
        int last = omp_get_num_threads() - 1;
        if (omp_get_thread_num() == last) {
            threads = last + 1;
            lent = becomes(1);
            stage = 1;
            returned = becomes(0);
            stage = 2;
        } else if (omp_get_thread_num() == 0) {
            for (int message = 1; message <= 2; message++) {
                while (stage < message)
                    sched_yield();
                MPI_Send(&message, 1, MPI_INT, 1, message, MPI_COMM_WORLD);
            }
        }
    }
    printf("%s threads than cores, %s, %s\n", threads > omp_get_num_procs() ? "more" : "no more",
           lent ? "lent" : "not lent", returned ? "returned" : "not returned");
}

int main(int count, char **arguments) {
    int rank, level;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sched_getaffinity(0, sizeof others, &others);
    MPI_Bcast(&others, sizeof others, MPI_BYTE, 1, MPI_COMM_WORLD);
    if (rank == 0) {
        borrow();
    } else {
        int message;
        MPI_Recv(&message, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        // Busy, so that nothing is lent.
        for (int is_there = 0; !is_there;)
            MPI_Iprobe(0, 2, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
        MPI_Recv(&message, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
