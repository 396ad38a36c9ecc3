// The first of two spawned processes is killed, and only the first of two parents is connected with
// it. That one gets an error and leaves MPI_Comm_disconnect early. The other one must leave it,
// too, and both go on. With the argument "allreduce", they call MPI_Allreduce instead. Started by
// tests/scenarios/hosts.py, with the spawned processes on another host.
// combray.h
#include "check.h"
#include <signal.h>

enum { CHILDREN = 2, TAG = 3, PAUSE_US = 300000 };

static void leave(MPI_Comm inter, int is_allreduce) {
    int one = 1, sum;
    if (is_allreduce) {
        int code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
        CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
    } else {
        MPI_Comm copy = inter;
        OK(MPI_Comm_disconnect(&copy));
        CHECK(copy == MPI_COMM_NULL, "the communicator is not freed");
    }
}

int main(int argc, char **argv) {
    check_begin();
    MPI_Comm parents, inter;
    REQUIRE(argc > 1, "an argument");
    int is_allreduce = !strcmp(argv[1], "allreduce"), number = 0;
    OK(MPI_Comm_get_parent(&parents));
    if (parents != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(parents, MPI_ERRORS_RETURN);
        if (check_rank == 0) {
            OK(MPI_Send(&number, 1, MPI_INT, 0, TAG, parents));
            OK(MPI_Recv(&number, 1, MPI_INT, 0, TAG, parents, MPI_STATUS_IGNORE));
            raise(SIGKILL);
        }
        leave(parents, is_allreduce);
        return check_end();
    }
    char *arguments[] = {argv[1], NULL};
    OK(MPI_Comm_spawn(argv[0], arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    if (check_rank == 0) {
        OK(MPI_Recv(&number, 1, MPI_INT, 0, TAG, inter, MPI_STATUS_IGNORE));
        OK(MPI_Send(&number, 1, MPI_INT, 0, TAG, inter));
        int code = MPI_Recv(&number, 1, MPI_INT, 0, TAG, inter, MPI_STATUS_IGNORE);
        CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
        // The other parent and the other child are in the call meanwhile.
        usleep(PAUSE_US);
    }
    leave(inter, is_allreduce);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!check_failures) printf("parent %d goes on\n", check_rank);
    return check_end();
}
