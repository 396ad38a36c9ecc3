/* The native interface from C and C++: two processes tell each other their rank in packed messages. */
#include <combray.h>
#include <stdio.h>

int main(int argc, char **argv) {
    combray_message sent, received;
    int rank, other = -1, all = 0, agrees;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    combray_begin(MPI_COMM_WORLD, 1 - rank, 0, &sent);
    combray_pack(sent, &rank, sizeof rank, COMBRAY_EXPRESS);
    combray_end(&sent, NULL);
    combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, MPI_ANY_TAG, &received);
    combray_unpack(received, &other, sizeof other, COMBRAY_EXPRESS);
    combray_end_unpack(&received, NULL, MPI_STATUS_IGNORE);
    agrees = other == 1 - rank;
    MPI_Allreduce(&agrees, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 2) printf("two processes agree\n");
    MPI_Finalize();
    return 0;
}
