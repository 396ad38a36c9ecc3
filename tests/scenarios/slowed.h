/* Makes an example slow in one of several ways, for scenarios: it is compiled with `-include`
 * of this file, and SLOWED says how. */
#include <mpi.h>
#include <string.h>
#include <time.h>

#define BY_ONE_RANK 1
#define BY_A_CHAIN 2
#define BY_SMALL_MESSAGES 3
#define BY_LATE_RECEIVES 4

/* Something outside of MPI, however many others want the core. */
static inline void slowed_pause(long milliseconds) {
    struct timespec time = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&time, NULL);
}

static inline int slowed_rank(void) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

#if SLOWED == BY_ONE_RANK || SLOWED == BY_A_CHAIN
/* Before each sum one rank has more to do, or each waits for what the one before it has done. */
static inline int slowed_Allreduce(const void *given, void *result, int count, MPI_Datatype type, MPI_Op operation,
                                   MPI_Comm comm) {
    int rank = slowed_rank(), size, token = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (SLOWED == BY_ONE_RANK) {
        slowed_pause(rank == 1 ? 12 : 2);
    } else {
        if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        slowed_pause(10);
        if (rank + 1 < size) MPI_Send(&token, 1, MPI_INT, rank + 1, 99, MPI_COMM_WORLD);
    }
    return MPI_Allreduce(given, result, count, type, operation, comm);
}
#define MPI_Allreduce slowed_Allreduce
#endif

#if SLOWED == BY_SMALL_MESSAGES
/* Numbers are sent one by one. */
static inline int slowed_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    int size, *numbers = data;
    MPI_Comm_size(comm, &size);
    (void)type;
    for (int i = 0; i < count; i++) {
        for (int to = 0; slowed_rank() == root && to < size; to++)
            if (to != root) MPI_Send(numbers + i, 1, MPI_INT, to, 98, comm);
        if (slowed_rank() != root) MPI_Recv(numbers + i, 1, MPI_INT, root, 98, comm, MPI_STATUS_IGNORE);
    }
    return MPI_SUCCESS;
}
#define MPI_Bcast slowed_Bcast
#endif

#if SLOWED == BY_LATE_RECEIVES
/* One rank has something to do before it receives, when it has sent already. */
static struct {
    void *buffer;
    int count, source, tag;
    MPI_Datatype type;
    MPI_Comm comm;
} slowed_later[12];

static inline int slowed_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                               MPI_Request *request) {
    static int next;
    if (slowed_rank() != 1) return MPI_Irecv(buffer, count, type, source, tag, comm, request);
    slowed_later[next].buffer = buffer, slowed_later[next].count = count, slowed_later[next].type = type;
    slowed_later[next].source = source, slowed_later[next].tag = tag, slowed_later[next].comm = comm;
    next = (next + 1) % 6;
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

static inline int slowed_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    if (slowed_rank() == 1) {
        slowed_pause(80);
        for (int i = 0; i < 6; i++)
            MPI_Irecv(slowed_later[i].buffer, slowed_later[i].count, slowed_later[i].type, slowed_later[i].source,
                      slowed_later[i].tag, slowed_later[i].comm, &requests[i]);
    }
    return MPI_Waitall(count, requests, statuses);
}
#define MPI_Irecv slowed_Irecv
#define MPI_Waitall slowed_Waitall
#endif
