// The C interface from C++.
#include <iostream>
#include <mpi.h>

int main(int argc, char **argv) {
    int rank = 0, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && sum == 1) std::cout << "two processes agree" << std::endl;
    MPI_Finalize();
}
