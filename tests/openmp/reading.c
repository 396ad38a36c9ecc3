// Rank 1 lends its cores while it waits for input, and calls nothing of MPI. Prints what rank 0
// finds.
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 100

// Waits until the last thread of a team may run on cores of rank 1, while the team is busy.
static int is_lent(const cpu_set_t *others) {
    int lent = 0;
#pragma omp parallel
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
        for (time_t end = time(NULL) + SECONDS; time(NULL) < end && !lent;) {
            cpu_set_t now, both;
            sched_getaffinity(0, sizeof now, &now);
            CPU_AND(&both, &now, others);
            lent = CPU_COUNT(&both) > 0;
        }
    }
    return lent;
}

int main(int count, char **arguments) {
    int rank, pipe_ends[2];
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cpu_set_t others;
    sched_getaffinity(0, sizeof others, &others);
    MPI_Bcast(&others, sizeof others, MPI_BYTE, 1, MPI_COMM_WORLD);
    char path[] = "/proc/2147483647/fd/2147483647", byte = 0;
    if (rank == 1) {
        if (pipe(pipe_ends) != 0)
            return 1;
        snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), pipe_ends[1]);
    }
    MPI_Bcast(path, sizeof path, MPI_CHAR, 1, MPI_COMM_WORLD);
    if (rank == 1) {
        if (read(pipe_ends[0], &byte, 1) != 1)
            return 1;
    } else {
        int reading = is_lent(&others);
        FILE *input = fopen(path, "w");
        if (!input || fputc('x', input) == EOF || fclose(input) != 0)
            return 1;
        printf("%s\n", reading ? "lent" : "not lent");
    }
    MPI_Finalize();
    return 0;
}
