/* The C side of calls.f90: what a call costs in C, and the marks between which callgrind counts. */
#include <mpi.h>
#include <valgrind/callgrind.h>

enum { TAG = 7 };

static long long sent, received;

void count_from_here(void) { CALLGRIND_ZERO_STATS; }

void count_to_here(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }

void c_isend_recv_wait(void)
{
    MPI_Request request;
    MPI_Isend(&sent, 8, MPI_BYTE, 0, TAG, MPI_COMM_SELF, &request);
    MPI_Recv(&received, 8, MPI_BYTE, 0, TAG, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void c_irecv_send_wait(void)
{
    MPI_Request request;
    MPI_Irecv(&received, 8, MPI_BYTE, 0, TAG, MPI_COMM_SELF, &request);
    MPI_Send(&sent, 8, MPI_BYTE, 0, TAG, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
