// A process sends much in a session, ends the session and itself. The other receives all of it
// later; its notes about that (that buffers are free again) have no receiver any more.
// run: 2
// hosts
// each: near far
#include "check.h"

enum { MESSAGES = 24000, BYTES = 64 };

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
    unsigned char data[BYTES];
    if (check_rank == 0) {
        for (int i = 0; i < MESSAGES; i++) {
            memset(data, i, BYTES);
            OK(MPI_Send(data, BYTES, MPI_BYTE, 1, 0, world));
        }
    } else {
        sleep(3);
        for (int i = 0; i < MESSAGES; i++) {
            OK(MPI_Recv(data, BYTES, MPI_BYTE, 0, 0, world, MPI_STATUS_IGNORE));
            CHECK(data[0] == (unsigned char)i && data[BYTES - 1] == (unsigned char)i, "message %d", i);
        }
    }
    OK(MPI_Comm_free(&world));
    OK(MPI_Session_finalize(&session));
    return check_failures != 0;
}
