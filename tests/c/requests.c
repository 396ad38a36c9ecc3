// All the Test and Wait forms: any, some, all, with null and inactive requests between, statuses of
// each, MPI_Request_get_status, MPI_Request_free of a send on its way.
// run: 2
// hosts
// checkers: address memory
#include "check.h"

enum { COUNT = 16 };
static int values[COUNT], got[COUNT];
static MPI_Request requests[COUNT];
static MPI_Status statuses[COUNT];

static void post_receives(void) {
    for (int i = 0; i < COUNT; i++) {
        got[i] = -1;
        OK(MPI_Irecv(&got[i], 1, MPI_INT, 1 - check_rank, i, MPI_COMM_WORLD, &requests[i]));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void send(int tag) {
    values[tag] = 100 * check_rank + tag;
    OK(MPI_Send(&values[tag], 1, MPI_INT, 1 - check_rank, tag, MPI_COMM_WORLD));
}

static void judge(int i, const MPI_Status *status) {
    CHECK_EQ(got[i], 100 * (1 - check_rank) + i);
    CHECK_EQ(status->MPI_TAG, i);
    CHECK_EQ(status->MPI_SOURCE, 1 - check_rank);
    CHECK(requests[i] == MPI_REQUEST_NULL, "request %d", i);
}

static void wait_any(void) {
    int index, flag, seen[COUNT] = {0};
    post_receives();
    for (int i = 0; i < COUNT; i++) send((i * 7) % COUNT);
    for (int i = 0; i < COUNT; i++) {
        MPI_Status status;
        if (i % 2) {
            OK(MPI_Waitany(COUNT, requests, &index, &status));
        } else {
            do OK(MPI_Testany(COUNT, requests, &index, &flag, &status));
            while (!flag);
        }
        REQUIRE(index >= 0 && index < COUNT, "index %d", index);
        CHECK(!seen[index]++, "request %d completed twice", index);
        judge(index, &status);
    }
    OK(MPI_Waitany(COUNT, requests, &index, &statuses[0]));
    CHECK_EQ(index, MPI_UNDEFINED);
    OK(MPI_Testany(COUNT, requests, &index, &flag, &statuses[0]));
    CHECK_EQ(index, MPI_UNDEFINED);
    CHECK_EQ(flag, 1);
}

static void wait_some(void) {
    int indices[COUNT], done, total = 0, flag;
    post_receives();
    for (int i = COUNT - 1; i >= 0; i--) send(i);
    while (total < COUNT) {
        if (total % 3)
            OK(MPI_Waitsome(COUNT, requests, &done, indices, statuses));
        else
            OK(MPI_Testsome(COUNT, requests, &done, indices, statuses));
        REQUIRE(done != MPI_UNDEFINED && done >= 0, "%d", done);
        for (int i = 0; i < done; i++) judge(indices[i], &statuses[i]);
        total += done;
    }
    CHECK_EQ(total, COUNT);
    OK(MPI_Waitsome(COUNT, requests, &done, indices, statuses));
    CHECK_EQ(done, MPI_UNDEFINED);
    OK(MPI_Testall(COUNT, requests, &flag, statuses));
    CHECK_EQ(flag, 1);
    CHECK_EQ(statuses[3].MPI_SOURCE, MPI_ANY_SOURCE);
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
}

static void test_all(void) {
    int flag;
    post_receives();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Testall(COUNT, requests, &flag, statuses));
    CHECK_EQ(flag, 0);
    // A test without result completed nothing.
    for (int i = 0; i < COUNT; i++) CHECK(requests[i] != MPI_REQUEST_NULL, "request %d", i);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) send(i);
    do OK(MPI_Testall(COUNT, requests, &flag, statuses));
    while (!flag);
    for (int i = 0; i < COUNT; i++) judge(i, &statuses[i]);
}

// MPI_Request_get_status tests without freeing.
static void get_status(void) {
    MPI_Request request;
    MPI_Status status;
    int flag = 0, value = 0, out = 8;
    OK(MPI_Irecv(&value, 1, MPI_INT, 1 - check_rank, 3, MPI_COMM_WORLD, &request));
    OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status));
    CHECK_EQ(flag, 1);
    CHECK_EQ(status.MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Send(&out, 1, MPI_INT, 1 - check_rank, 3, MPI_COMM_WORLD));
    for (flag = 0; !flag;) OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_EQ(value, 8);
    CHECK_EQ(status.MPI_TAG, 3);
    OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 1);
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(status.MPI_TAG, 3);
}

// A freed request's operation still completes: the message arrives.
static void free_on_the_way(void) {
    enum { BYTES = 1 << 20 };
    static char message[BYTES], received[BYTES];
    MPI_Request request;
    pattern_fill(message, BYTES, check_rank);
    OK(MPI_Isend(message, BYTES, MPI_BYTE, 1 - check_rank, 5, MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL, "null");
    OK(MPI_Recv(received, BYTES, MPI_BYTE, 1 - check_rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_PATTERN(received, BYTES, 1 - check_rank);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

// An inactive persistent request counts as complete, with an empty status.
static void inactive(void) {
    MPI_Request both[2];
    MPI_Status status;
    int index, value;
    OK(MPI_Recv_init(&value, 1, MPI_INT, 1 - check_rank, 9, MPI_COMM_WORLD, &both[0]));
    both[1] = MPI_REQUEST_NULL;
    OK(MPI_Wait(&both[0], &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
    OK(MPI_Waitany(2, both, &index, &status));
    CHECK_EQ(index, MPI_UNDEFINED);
    CHECK(both[0] != MPI_REQUEST_NULL, "a persistent request stays");
    OK(MPI_Request_free(&both[0]));
}

int main(void) {
    check_begin();
    for (int i = 0; i < 20; i++) {
        wait_any();
        wait_some();
        test_all();
    }
    get_status();
    free_on_the_way();
    inactive();
    return check_end();
}
