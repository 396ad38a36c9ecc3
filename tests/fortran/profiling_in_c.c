/* A tool in C: it counts the sends that it sees. */
#include <mpi.h>

static int sends;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int sends_in_c(void)
{
    return sends;
}
