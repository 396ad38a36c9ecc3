// A profiling tool, as users write them: it is loaded before the library (LD_PRELOAD), counts the
// calls that it sees, and passes them on by their PMPI names.
#include <mpi.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int tool_sends, tool_receives, tool_isends, tool_irecvs, tool_waits, tool_waitalls;
EXPORT int tool_allreduces, tool_bcasts, tool_barriers, tool_type_commits, tool_comm_dups;
EXPORT int tool_finalized;

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    tool_sends++;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}
int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status) {
    tool_receives++;
    return PMPI_Recv(buf, count, type, source, tag, comm, status);
}
int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request) {
    tool_isends++;
    return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}
int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request) {
    tool_irecvs++;
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}
int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    tool_waits++;
    return PMPI_Wait(request, status);
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    tool_waitalls++;
    return PMPI_Waitall(count, requests, statuses);
}
int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
    tool_allreduces++;
    return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    tool_bcasts++;
    return PMPI_Bcast(buf, count, type, root, comm);
}
int MPI_Barrier(MPI_Comm comm) {
    tool_barriers++;
    return PMPI_Barrier(comm);
}
int MPI_Type_commit(MPI_Datatype *type) {
    tool_type_commits++;
    return PMPI_Type_commit(type);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy) {
    tool_comm_dups++;
    return PMPI_Comm_dup(comm, copy);
}
int MPI_Finalize(void) {
    tool_finalized++;
    return PMPI_Finalize();
}
