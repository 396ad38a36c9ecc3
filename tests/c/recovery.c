// Processes fail one after the other, and the survivors go on: they agree, acknowledge, revoke,
// shrink, and compute on the rest of the world, until two are left. The argument says how the
// processes end. Started by tests/scenarios under a launcher that keeps the job going.
// combray.h
#include "check.h"
#include <signal.h>

enum { LARGE = 1 << 20 };

static const char *how;
static char *memory;
// The own rank when the job began; those with the highest ranks fail first.
static int number;

#define GIVES(call, wanted)                                                                        \
    do {                                                                                           \
        int class_ = class_of(call);                                                               \
        CHECK(class_ == (wanted), "rank %d: %s gave class %d", number, #call, class_);             \
    } while (0)

static void end_now(void) {
    if (!strcmp(how, "segfault")) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (!strcmp(how, "exit")) _exit(3);
    if (!strcmp(how, "stop")) {
        // Stopped for a while before it is gone.
        if (!fork()) {
            usleep(300000);
            kill(getppid(), SIGKILL);
            _exit(0);
        }
        raise(SIGSTOP);
    }
    raise(SIGKILL);
}

static int size_of(MPI_Group group) {
    int size;
    MPI_Group_size(group, &size);
    MPI_Group_free(&group);
    return size;
}

static int failed_of(MPI_Comm comm, int call(MPI_Comm, MPI_Group *)) {
    MPI_Group group;
    CHECK_EQ(call(comm, &group), MPI_SUCCESS);
    return size_of(group);
}

// Right after the last process of the communicator has failed.
static void first_failure(MPI_Comm comm) {
    int rank, size, acknowledged = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int next = (rank + 1) % (size - 1), before = (rank + size - 2) % (size - 1), value = -1;
    MPI_Request request;
    CHECK_EQ(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, comm, &request), MPI_SUCCESS);
    // An agreement reports the failure to all processes, with one value.
    int flag = ~(1 << rank);
    GIVES(MPIX_Comm_agree(comm, &flag), MPIX_ERR_PROC_FAILED);
    CHECK_EQ(flag, ~((1 << (size - 1)) - 1));
    CHECK_EQ(failed_of(comm, MPIX_Comm_get_failed), 1);
    CHECK_EQ(failed_of(comm, MPIX_Comm_failure_get_acked), 0);
    // What could come from the failed process waits until its failure is acknowledged.
    GIVES(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    int done = 0;
    GIVES(MPI_Test(&request, &done, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(request != MPI_REQUEST_NULL, "the receive is lost");
    GIVES(MPI_Recv(&done, 1, MPI_INT, MPI_ANY_SOURCE, 9, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    GIVES(MPI_Recv(&done, 1, MPI_INT, size - 1, 8, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    if (rank % 2) {
        CHECK_EQ(MPIX_Comm_failure_ack(comm), MPI_SUCCESS);
    } else {
        CHECK_EQ(MPIX_Comm_ack_failed(comm, 5, &acknowledged), MPI_SUCCESS);
        CHECK_EQ(acknowledged, 1);
    }
    CHECK_EQ(failed_of(comm, MPIX_Comm_failure_get_acked), 1);
    CHECK_EQ(MPI_Send(&rank, 1, MPI_INT, next, 7, comm), MPI_SUCCESS);
    CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQ(value, before);
    CHECK_EQ(MPI_Send(&rank, 1, MPI_INT, next, 8, comm), MPI_SUCCESS);
    CHECK_EQ(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 8, comm, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQ(value, before);
    // Now all processes know the failure, and have acknowledged it.
    flag = 6;
    GIVES(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS);
    CHECK_EQ(flag, 6);
    MPI_Request agreed[2];
    int flags[2] = {rank ? 12 : 10, rank ? 3 : 5};
    CHECK_EQ(MPIX_Comm_iagree(comm, &flags[0], &agreed[0]), MPI_SUCCESS);
    CHECK_EQ(MPIX_Comm_iagree(comm, &flags[1], &agreed[1]), MPI_SUCCESS);
    CHECK_EQ(MPI_Waitall(2, agreed, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    if (size > 2) {
        CHECK_EQ(flags[0], 8);
        CHECK_EQ(flags[1], 1);
    }
}

// Everything works among those that are left.
static void computes(MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int count = 1; count <= LARGE / 8; count *= 32) {
        long *in = (long *)memory, *out = in + LARGE / 8;
        for (int i = 0; i < count; i++) in[i] = rank + i;
        CHECK_EQ(MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm), MPI_SUCCESS);
        for (int i = 0; i < count; i++) CHECK_EQ(out[i], (long)size * (size - 1) / 2 + (long)i * size);
        int next = (rank + 1) % size, before = (rank + size - 1) % size;
        pattern_fill(in, count * 8, rank);
        CHECK_EQ(MPI_Sendrecv(in, count, MPI_LONG, next, 1, out, count, MPI_LONG, before, 1, comm, MPI_STATUS_IGNORE),
                 MPI_SUCCESS);
        CHECK_PATTERN(out, count * 8, before);
        for (int root = 0; root < size; root++) {
            pattern_fill(in, count * 8, rank == root ? 99 : rank);
            CHECK_EQ(MPI_Bcast(in, count, MPI_LONG, root, comm), MPI_SUCCESS);
            CHECK_PATTERN(in, count * 8, 99);
        }
    }
}

// Works until a process fails, and makes a communicator of the others.
static MPI_Comm work_until_failure(MPI_Comm comm, int fails, int kind) {
    int rank, size, code = MPI_SUCCESS;
    long value, sum;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int round = 0; code == MPI_SUCCESS; round++) {
        if (fails && round == 50) end_now();
        value = rank;
        if (kind == 0) code = MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, comm);
        if (kind == 1) code = MPI_Bcast(memory, LARGE, MPI_BYTE, round % size, comm);
        // Only its neighbours wait for the one that fails; the others hear of it by the revocation.
        if (kind == 2) {
            int next = (rank + 1) % size, before = (rank + size - 1) % size;
            code = MPI_Sendrecv(memory, 64 << 10, MPI_BYTE, next, 1, memory + LARGE, 64 << 10, MPI_BYTE, before, 1,
                                comm, MPI_STATUS_IGNORE);
        }
    }
    int class = class_of(code);
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "rank %d: class %d", number, class);
    CHECK_EQ(MPIX_Comm_revoke(comm), MPI_SUCCESS);
    MPI_Comm left;
    if (kind == 1) {
        MPI_Request request;
        CHECK_EQ(MPIX_Comm_ishrink(comm, &left, &request), MPI_SUCCESS);
        CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    } else {
        CHECK_EQ(MPIX_Comm_shrink(comm, &left), MPI_SUCCESS);
    }
    CHECK_EQ(MPI_Comm_free(&comm), MPI_SUCCESS);
    return left;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    how = argv[1];
    check_begin();
    number = check_rank;
    memory = calloc(2, LARGE);
    MPI_Comm comm, left;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    if (number == check_size - 1) end_now();
    first_failure(comm);
    CHECK_EQ(MPIX_Comm_shrink(comm, &left), MPI_SUCCESS);
    MPI_Comm_free(&comm);
    int size, rank, kind = 0;
    // Those with lower ranks that have failed.
    int gone_before = 0;
    for (;;) {
        MPI_Comm_size(left, &size);
        MPI_Comm_rank(left, &rank);
        CHECK_EQ(rank, number - gone_before);
        computes(left);
        if (size <= 2) break;
        // The last, or the first, which coordinates.
        int victim = kind % 2 ? 0 : size - 1;
        left = work_until_failure(left, rank == victim, kind % 3);
        int now;
        MPI_Comm_size(left, &now);
        CHECK_EQ(now, size - 1);
        gone_before += victim == 0;
        kind++;
    }
    printf("rank %d survives\n", number);
    fflush(stdout);
    MPI_Comm_free(&left);
    free(memory);
    return check_end();
}
