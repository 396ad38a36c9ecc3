// A communicator is revoked while its processes wait in operations of all kinds: each ends with
// MPIX_ERR_REVOKED on all of them, and so does everything later. Other communicators are as
// before, and agreements and shrinking go on.
// run: 2 3 5
// combray.h
#include "check.h"

enum { LARGE = 4 << 20 };

#define REVOKED(call) CHECK_CLASS(call, MPIX_ERR_REVOKED)

static char *memory;

static MPI_Comm fresh(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

// Everything that can be waited for, by number; rank 0 takes part in none. The communicator may be
// revoked already.
static int wait_in(int which, MPI_Comm comm) {
    long value = 1, sum;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Message message;
    int code;
    switch (which) {
    case 0: return MPI_Recv(memory, 8, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
    case 1: return MPI_Recv(memory, LARGE, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    case 2: return MPI_Ssend(memory, 8, MPI_BYTE, 0, 1, comm);
    case 3: return MPI_Send(memory, LARGE, MPI_BYTE, 0, 1, comm);
    case 4: return MPI_Probe(0, 1, comm, MPI_STATUS_IGNORE);
    case 5: return MPI_Mprobe(MPI_ANY_SOURCE, 1, comm, &message, MPI_STATUS_IGNORE);
    case 6: return MPI_Barrier(comm);
    case 7: return MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, comm);
    case 8: return MPI_Bcast(memory, LARGE, MPI_BYTE, 0, comm);
    case 9:
        code = MPI_Ibarrier(comm, &requests[0]);
        if (code != MPI_SUCCESS) return code;
        return MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    case 10:
        code = MPI_Irecv(memory, LARGE, MPI_BYTE, 0, 1, comm, &requests[0]);
        if (code != MPI_SUCCESS) return code;
        code = MPI_Isend(memory + LARGE, LARGE, MPI_BYTE, 0, 1, comm, &requests[1]);
        if (code != MPI_SUCCESS) {
            REVOKED(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
            return code;
        }
        code = MPI_Waitall(2, requests, statuses);
        CHECK_EQ(class_of(code), MPI_ERR_IN_STATUS);
        REVOKED(statuses[0].MPI_ERROR);
        return statuses[1].MPI_ERROR;
    case 11: return MPI_Sendrecv_replace(memory, LARGE, MPI_BYTE, 0, 1, 0, 1, comm, MPI_STATUS_IGNORE);
    case 12: {
        MPI_Comm made;
        return MPI_Comm_split(comm, 0, 0, &made);
    }
    case 13: {
        MPI_Request request;
        code = MPI_Recv_init(memory, 8, MPI_BYTE, MPI_ANY_SOURCE, 1, comm, &request);
        if (code != MPI_SUCCESS) return code;
        code = MPI_Start(&request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        REVOKED(MPI_Start(&request));
        MPI_Request_free(&request);
        return code;
    }
    case 14: {
        int flag = 0;
        do code = MPI_Iprobe(0, 1, comm, &flag, MPI_STATUS_IGNORE);
        while (code == MPI_SUCCESS && !flag);
        return code;
    }
    case 15:
        code = MPI_Irecv(memory, 8, MPI_BYTE, 0, 1, comm, &requests[0]);
        if (code != MPI_SUCCESS) return code;
        for (int flag = 0; !flag;) code = MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        return code;
    default: return -1;
    }
}

static void is_of_no_use(MPI_Comm comm) {
    int flag = 0, size;
    long value = 1, sum;
    MPI_Comm other;
    MPI_Request request;
    MPI_Group group;
    CHECK_EQ(MPIX_Comm_is_revoked(comm, &flag), MPI_SUCCESS);
    CHECK_EQ(flag, 1);
    REVOKED(MPI_Send(memory, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm));
    REVOKED(MPI_Recv(memory, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE));
    REVOKED(MPI_Isend(memory, 8, MPI_BYTE, check_rank, 0, comm, &request));
    REVOKED(MPI_Irecv(memory, 8, MPI_BYTE, 0, 0, comm, &request));
    REVOKED(MPI_Iprobe(0, 0, comm, &flag, MPI_STATUS_IGNORE));
    REVOKED(MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, comm));
    REVOKED(MPI_Iallreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, comm, &request));
    REVOKED(MPI_Comm_dup(comm, &other));
    CHECK_EQ(MPIX_Comm_revoke(comm), MPI_SUCCESS);
    // What needs no other process.
    CHECK_EQ(MPI_Comm_size(comm, &size), MPI_SUCCESS);
    CHECK_EQ(size, check_size);
    CHECK_EQ(MPI_Comm_group(comm, &group), MPI_SUCCESS);
    MPI_Group_free(&group);
    CHECK_EQ(MPI_Comm_set_name(comm, "revoked"), MPI_SUCCESS);
    // What survivors need.
    int all = check_rank ? 7 : 5;
    CHECK_EQ(MPIX_Comm_agree(comm, &all), MPI_SUCCESS);
    CHECK_EQ(all, 5);
    CHECK_EQ(MPIX_Comm_shrink(comm, &other), MPI_SUCCESS);
    CHECK_EQ(MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, other), MPI_SUCCESS);
    CHECK_EQ(sum, check_size);
    MPI_Comm_free(&other);
}

int main(void) {
    check_begin();
    memory = calloc(2, LARGE);
    for (int which = 0; which <= 15; which++) {
        MPI_Comm comm = fresh();
        long value = 1, sum;
        // With a board, and without.
        if (which % 2 || which == 8)
            for (int i = 0; i < 20; i++) MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, comm);
        if (check_rank == 0) {
            // They are likely to wait by then; if not, the result does not change.
            usleep(which % 4 * 1000);
            CHECK_EQ(MPIX_Comm_revoke(comm), MPI_SUCCESS);
        } else {
            int class = class_of(wait_in(which, comm));
            CHECK(class == MPIX_ERR_REVOKED, "rank %d: operation %d gave class %d", check_rank, which, class);
        }
        is_of_no_use(comm);
        CHECK_EQ(MPI_Comm_free(&comm), MPI_SUCCESS);
        CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
    }
    // Revoked by all at once, by one before the others have made it, and the world at last.
    for (int i = 0; i < 50; i++) {
        MPI_Comm comm = fresh();
        if (i % 2 || check_rank == i / 2 % check_size) MPIX_Comm_revoke(comm);
        else REVOKED(MPI_Recv(memory, 8, MPI_BYTE, check_rank, 1, comm, MPI_STATUS_IGNORE));
        MPI_Comm_free(&comm);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
    if (check_rank == 0) MPIX_Comm_revoke(MPI_COMM_WORLD);
    else REVOKED(MPI_Recv(memory, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    is_of_no_use(MPI_COMM_WORLD);
    free(memory);
    return check_end();
}
