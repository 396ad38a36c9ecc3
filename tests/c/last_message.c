// Process 0 sends a message when the machine of process 1 is silent already (tests/cluster), and
// ends its session, which waits until that machine has the message. There is no world, whose
// processes would all connect before they leave.
#include "check.h"
#include <unistd.h>

enum { CUT_SECONDS = 3, REST_SECONDS = 12 };

int main(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, word = 1;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "last", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Barrier(comm));
    sleep(rank == 0 ? CUT_SECONDS : REST_SECONDS);
    const double start = MPI_Wtime();
    if (rank == 0) OK(MPI_Send(&word, 1, MPI_INT, 1, 0, comm));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Session_finalize(&session));
    printf("rank %d has left after %.1f s\n", rank, MPI_Wtime() - start);
    return 0;
}
