// The last rank ends while the others go on: alone after an error (argument "alone"), or by a
// signal under a launcher that keeps the job going ("killed"). What involves it fails with
// MPI_ERR_PROC_ABORTED, or MPIX_ERR_PROC_FAILED where the job keeps going, and nothing else does.
// Started by tests/scenarios.
// combray.h
#include "check.h"
#include <signal.h>

enum { LARGE = 4 << 20 };

static int last;
// The class of what involves it.
static int wanted;

#define FAILS(call) CHECK_CLASS(call, wanted)

static void end_it(const char *how) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(how, "killed")) raise(SIGKILL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ABORT);
    MPI_Send(NULL, 0, MPI_BYTE, 77, 0, MPI_COMM_SELF);
    CHECK(0, "the rank goes on after its error");
}

// Between those that are left.
static void others_are_reached(char *memory) {
    int next = (check_rank + 1) % last, before = (check_rank + last - 1) % last;
    for (int bytes = 0; bytes <= LARGE; bytes = bytes ? bytes * 64 : 1) {
        char *in = memory, *out = memory + LARGE;
        pattern_fill(out, bytes, check_rank + bytes);
        int code = MPI_Sendrecv(out, bytes, MPI_BYTE, next, 5, in, bytes, MPI_BYTE, before, 5, MPI_COMM_WORLD,
                                MPI_STATUS_IGNORE);
        CHECK_EQ(class_of(code), MPI_SUCCESS);
        CHECK_PATTERN(in, bytes, before + bytes);
    }
}

// A process whose calls fail because of the failed process learns that the communicator was
// revoked, even if it only repeats such a call.
static void revocation_is_learned(MPI_Comm comm, int is_collective) {
    int code;
    if (check_rank == 0) CHECK_EQ(class_of(MPIX_Comm_revoke(comm)), MPI_SUCCESS);
    do code = is_collective ? MPI_Barrier(comm) : MPI_Send(NULL, 0, MPI_BYTE, last, 7, comm);
    while (class_of(code) == MPIX_ERR_PROC_FAILED);
    CHECK_CLASS(code, MPIX_ERR_REVOKED);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    check_begin();
    last = check_size - 1;
    wanted = strcmp(argv[1], "killed") ? MPI_ERR_PROC_ABORTED : MPIX_ERR_PROC_FAILED;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char *memory = calloc(2, LARGE);
    MPI_Comm left, revoked[2];
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &revoked[i]);
        MPI_Comm_set_errhandler(revoked[i], MPI_ERRORS_RETURN);
    }
    MPI_Comm_split(MPI_COMM_WORLD, check_rank == last, check_rank, &left);
    MPI_Win window;
    char *exposed = calloc(1, 64);
    MPI_Win_create(exposed, 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    if (check_rank == last) end_it(argv[1]);
    // Begun before it ends, or while it does.
    MPI_Request begun[3];
    MPI_Status statuses[3];
    MPI_Irecv(memory, 8, MPI_BYTE, last, 1, MPI_COMM_WORLD, &begun[0]);
    MPI_Issend(memory + 8, 8, MPI_BYTE, last, 2, MPI_COMM_WORLD, &begun[1]);
    MPI_Isend(memory + LARGE, LARGE, MPI_BYTE, last, 3, MPI_COMM_WORLD, &begun[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(class_of(MPI_Waitall(3, begun, statuses)), MPI_ERR_IN_STATUS);
    for (int i = 0; i < 3; i++) CHECK_EQ(class_of(statuses[i].MPI_ERROR), wanted);
    // And everything later.
    long value = 1, sum;
    int flag;
    FAILS(MPI_Recv(memory, 8, MPI_BYTE, last, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    FAILS(MPI_Recv(memory, 8, MPI_BYTE, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    FAILS(MPI_Ssend(memory, 8, MPI_BYTE, last, 4, MPI_COMM_WORLD));
    FAILS(MPI_Send(memory, LARGE, MPI_BYTE, last, 4, MPI_COMM_WORLD));
    FAILS(MPI_Probe(last, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    FAILS(MPI_Iprobe(last, 4, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    FAILS(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    FAILS(MPI_Bcast(memory, LARGE, MPI_BYTE, 0, MPI_COMM_WORLD));
    MPI_Request request;
    int code = MPI_Iallreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &request);
    CHECK_EQ(class_of(code), MPI_SUCCESS);
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE));
    FAILS(MPI_Win_fence(0, window));
    MPI_Group all, failed;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &last, &failed);
    FAILS(MPI_Win_start(failed, 0, window));
    MPI_Group_free(&failed);
    MPI_Group_free(&all);
    others_are_reached(memory);
    CHECK_EQ(class_of(MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, left)), MPI_SUCCESS);
    CHECK_EQ(sum, last);
    for (int i = 0; i < 2 && wanted == MPIX_ERR_PROC_FAILED; i++) revocation_is_learned(revoked[i], i);
    MPI_Comm_free(&left);
    free(memory);
    printf("rank %d survives\n", check_rank);
    return check_end();
}
