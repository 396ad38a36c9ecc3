// A process of two connected jobs is killed: one that was spawned ("child"), or one of those that
// have spawned it ("parent"). All others shrink the communicator of both jobs, spawn a process in
// the place of the missing one, and go on. Started by tests/scenarios/spawning.py.
// combray.h
#include "check.h"
#include <signal.h>

enum { CHILDREN = 3, PARENTS = 2, ALL = CHILDREN + PARENTS };

static char file[4096];

static void is_whole(MPI_Comm comm, int wanted) {
    int size, rank, sum = 0;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_rank(comm, &rank));
    CHECK_EQ(size, wanted);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, wanted * (wanted - 1) / 2);
}

// A process that was spawned in the place of another one.
static void replacement(MPI_Comm parents) {
    MPI_Comm all;
    OK(MPI_Intercomm_merge(parents, 1, &all));
    is_whole(all, ALL);
    OK(MPI_Comm_disconnect(&parents));
    OK(MPI_Comm_disconnect(&all));
}

static void recover(MPI_Comm all) {
    MPI_Comm left, made, whole;
    int code, one = 1;
    do code = MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, all);
    while (code == MPI_SUCCESS);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED || class_of(code) == MPIX_ERR_REVOKED, "class %d", class_of(code));
    OK(MPIX_Comm_revoke(all));
    OK(MPIX_Comm_shrink(all, &left));
    OK(MPI_Comm_disconnect(&all));
    is_whole(left, ALL - 1);
    char *arguments[] = {"replacement", NULL};
    OK(MPI_Comm_spawn(file, arguments, 1, MPI_INFO_NULL, 0, left, &made, MPI_ERRCODES_IGNORE));
    OK(MPI_Intercomm_merge(made, 0, &whole));
    is_whole(whole, ALL);
    OK(MPI_Comm_disconnect(&made));
    OK(MPI_Comm_disconnect(&whole));
    OK(MPI_Comm_disconnect(&left));
}

int main(int argc, char **argv) {
    check_begin();
    MPI_Comm parents, inter, all;
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    REQUIRE(length > 0 && argc > 1, "readlink");
    OK(MPI_Comm_get_parent(&parents));
    if (!strcmp(argv[1], "replacement")) {
        replacement(parents);
        return check_end();
    }
    int is_child = parents != MPI_COMM_NULL;
    char *arguments[] = {argv[1], NULL};
    if (is_child)
        inter = parents;
    else
        OK(MPI_Comm_spawn(file, arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    OK(MPI_Intercomm_merge(inter, is_child, &all));
    is_whole(all, ALL);
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    OK(MPI_Comm_free(&inter));
    if (check_rank == check_size - 1 && is_child == !strcmp(argv[1], "child")) raise(SIGKILL);
    recover(all);
    if (!check_failures) printf("%s %d has recovered\n", is_child ? "child" : "parent", check_rank);
    return check_end();
}
