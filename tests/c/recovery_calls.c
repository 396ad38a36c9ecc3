// The calls by which programs survive failed processes, without any failure: agreements, shrunk
// communicators, acknowledged failures, on communicators of all kinds, blocking and as requests.
// run: 1 2 3 5
// combray.h
#include "check.h"

static MPI_Group group_of(int call(MPI_Comm, MPI_Group *), MPI_Comm comm) {
    MPI_Group group = MPI_GROUP_NULL;
    CHECK_EQ(call(comm, &group), MPI_SUCCESS);
    return group;
}

static void is_empty(int call(MPI_Comm, MPI_Group *), MPI_Comm comm) {
    MPI_Group group = group_of(call, comm);
    int size;
    MPI_Group_size(group, &size);
    CHECK_EQ(size, 0);
    MPI_Group_free(&group);
}

static void agree(MPI_Comm comm, int number) {
    for (int i = 0; i < 20; i++) {
        int flag = i;
        CHECK_EQ(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS);
        CHECK_EQ(flag, i);
    }
    // Each clears a bit of its own.
    int flag = ~(1 << number % 30), all = -1;
    int size, remote = 0, inter;
    MPI_Comm_size(comm, &size);
    MPI_Comm_test_inter(comm, &inter);
    if (inter) MPI_Comm_remote_size(comm, &remote);
    CHECK_EQ(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS);
    for (int other = 0; other < (inter ? remote : size); other++) all &= ~(1 << other % 30);
    CHECK_EQ(flag, all);
}

// Several at once, completed in any order, beside other operations.
static void agree_in_passing(MPI_Comm comm) {
    enum { COUNT = 7 };
    int flags[COUNT], rank;
    MPI_Request requests[COUNT + 1];
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < COUNT; i++) {
        flags[i] = rank % 2 ? 255 : 15 + i;
        CHECK_EQ(MPIX_Comm_iagree(comm, &flags[i], &requests[i]), MPI_SUCCESS);
    }
    CHECK_EQ(MPI_Ibarrier(comm, &requests[COUNT]), MPI_SUCCESS);
    MPI_Wait(&requests[COUNT - 1], MPI_STATUS_IGNORE);
    CHECK_EQ(MPI_Waitall(COUNT + 1, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    int inter;
    MPI_Comm_test_inter(comm, &inter);
    if (!inter)
        for (int i = 0; i < COUNT; i++) CHECK_EQ(flags[i], 15 + i);
}

static void is_as_good(MPI_Comm comm, MPI_Comm made) {
    int result;
    MPI_Comm_compare(comm, made, &result);
    CHECK_EQ(result, MPI_CONGRUENT);
    long one = 1, sum = 0;
    int inter, size;
    MPI_Comm_test_inter(made, &inter);
    MPI_Comm_size(made, &size);
    if (inter) MPI_Comm_remote_size(made, &size);
    CHECK_EQ(MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, made), MPI_SUCCESS);
    CHECK_EQ(sum, size);
    MPI_Comm_free(&made);
}

static void all_calls(MPI_Comm comm) {
    int rank, flag = 1, count = 77;
    MPI_Comm made;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    agree(comm, rank);
    agree_in_passing(comm);
    CHECK_EQ(MPIX_Comm_is_revoked(comm, &flag), MPI_SUCCESS);
    CHECK_EQ(flag, 0);
    CHECK_EQ(MPIX_Comm_failure_ack(comm), MPI_SUCCESS);
    is_empty(MPIX_Comm_failure_get_acked, comm);
    is_empty(MPIX_Comm_get_failed, comm);
    CHECK_EQ(PMPIX_Comm_ack_failed(comm, 3, &count), MPI_SUCCESS);
    CHECK_EQ(count, 0);
    CHECK_EQ(MPIX_Comm_shrink(comm, &made), MPI_SUCCESS);
    is_as_good(comm, made);
    CHECK_EQ(MPIX_Comm_ishrink(comm, &made, &request), MPI_SUCCESS);
    // The properties of the communicator are known before the request completes.
    MPI_Errhandler handler;
    CHECK_EQ(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), MPI_SUCCESS);
    CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    MPI_Comm_get_errhandler(made, &handler);
    CHECK(handler == MPI_ERRORS_RETURN, "the error handler is lost");
    is_as_good(comm, made);
}

static void errors(void) {
    int class, count;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPIX_Comm_agree(MPI_COMM_WORLD, NULL), &class);
    CHECK_EQ(class, MPI_ERR_ARG);
    MPI_Error_class(MPIX_Comm_ack_failed(MPI_COMM_WORLD, -1, &count), &class);
    CHECK_EQ(class, MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(void) {
    check_begin();
    MPI_Comm copy, half, inter;
    all_calls(MPI_COMM_SELF);
    all_calls(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    all_calls(copy);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, &half);
    all_calls(half);
    if (check_size > 1) {
        // The leaders are the ones with the highest ranks.
        int highest = check_size - 1 - (check_size - 1 - (1 - check_rank % 2)) % 2;
        MPI_Intercomm_create(half, 0, copy, highest, 3, &inter);
        all_calls(inter);
        MPI_Comm_free(&inter);
    }
    errors();
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    return check_end();
}
