// Two processes that hang with messages in all queues, for mqs_client.c: on MPI_COMM_WORLD, and on
// a communicator with reversed ranks. Only scenarios start it.
#include "check.h"
#include <string.h>
#include <unistd.h>

#define LARGE (4 << 20)

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm turned, gone;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Comm_set_name(turned, "turned");
    MPI_Comm_dup(MPI_COMM_WORLD, &gone);
    MPI_Comm_free(&gone);
    static char large[LARGE];
    char small[100], never;
    memset(large, 'l', sizeof large);
    memset(small, 's', sizeof small);
    if (rank == 1) {
        MPI_Send(small, 100, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
        MPI_Send(small, 10, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
        MPI_Send(small, 20, MPI_CHAR, 1, 6, turned);
        MPI_Send(small, 0, MPI_CHAR, 0, 4, MPI_COMM_WORLD);
        MPI_Recv(&never, 1, MPI_CHAR, 0, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    // The last one has overtaken none of the others.
    MPI_Recv(small, 0, MPI_CHAR, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Request requests[5];
    double gaps[30];
    MPI_Datatype spaced;
    MPI_Type_vector(10, 1, 3, MPI_DOUBLE, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Irecv(small, 40, MPI_CHAR, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(gaps, 1, spaced, 1, 11, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(small, 70, MPI_CHAR, 0, 12, turned, &requests[2]);
    MPI_Isend(large, LARGE, MPI_CHAR, 1, 9, MPI_COMM_WORLD, &requests[3]);
    MPI_Issend(large + 7, 30, MPI_CHAR, 0, 10, turned, &requests[4]);
    int arrived = 0;
    while (!arrived) MPI_Iprobe(0, 6, turned, &arrived, MPI_STATUS_IGNORE);
    printf("waiting %d\n", (int)getpid());
    fflush(stdout);
    MPI_Recv(&never, 1, MPI_CHAR, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 1;
}
