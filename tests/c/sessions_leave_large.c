// A process sends a large message through its session's buffer, ends the session and itself. The
// receiver, also one behind a network, is slow and gets all of it: the end of the last session
// waits until its receiver has fetched everything.
// run: 2
// each: near far
// hosts
#include "check.h"

enum { BYTES = 4 << 20 };

int main(int argc, char **argv) {
    const char *rank = getenv("COMBRAY_RANK");
    if (argc > 1 && !strcmp(argv[1], "far") && rank && !getenv("COMBRAY_NODE"))
        setenv("COMBRAY_NODE", rank, 1);
    MPI_Session session;
    MPI_Group group;
    MPI_Comm world;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "leaves", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(world, &check_rank));
    unsigned char *data = malloc(BYTES), *buffer = malloc(BYTES + MPI_BSEND_OVERHEAD);
    if (check_rank == 0) {
        for (int i = 0; i < BYTES; i++) data[i] = (unsigned char)(i * 7 + i / 4096);
        OK(MPI_Session_attach_buffer(session, buffer, BYTES + MPI_BSEND_OVERHEAD));
        OK(MPI_Bsend(data, BYTES, MPI_BYTE, 1, 0, world));
    } else {
        sleep(3);
        OK(MPI_Recv(data, BYTES, MPI_BYTE, 0, 0, world, MPI_STATUS_IGNORE));
        int wrong = 0;
        for (int i = 0; i < BYTES; i++) wrong += data[i] != (unsigned char)(i * 7 + i / 4096);
        CHECK_EQ(wrong, 0);
    }
    OK(MPI_Comm_free(&world));
    OK(MPI_Session_finalize(&session));
    free(data);
    free(buffer);
    return check_failures != 0;
}
