/* Prints lines without ever flushing, notes in a file that it has, and meets an end of a kind; also
 * compiled as C++, where it prints to std::cout. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __cplusplus
#include <iostream>
#define PRINT(rank, number) (std::cout << "rank " << rank << " line " << number << "\n")
#define EARLY() (std::cout << "before MPI_Init\n")
#else
#define PRINT(rank, number) printf("rank %d line %d\n", rank, number)
#define EARLY() printf("before MPI_Init\n")
#endif

static int rank;

static void note_that_all_is_printed(const char *folder) {
    char path[4096], temporary[4096];
    snprintf(path, sizeof path, "%s/%d", folder, rank);
    snprintf(temporary, sizeof temporary, "%s/part-%d", folder, rank);
    FILE *file = fopen(temporary, "w");
    fprintf(file, "%d", (int)getpid());
    fclose(file);
    rename(temporary, path);
}

int main(int argc, char **argv) {
    const char *what = argv[1];
    EARLY();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int number = 0; number < 3; number++)
        PRINT(rank, number);
    fprintf(stderr, "rank %d error\n", rank);
    note_that_all_is_printed(argv[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && !strcmp(what, "crash"))
        raise(SIGSEGV);
    if (rank == 0 && !strcmp(what, "error"))
        MPI_Send(&rank, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    if (rank == 0 && !strcmp(what, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Recv(&rank, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
