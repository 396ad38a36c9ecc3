// Nonblocking and persistent collectives: hundreds underway on one communicator, mixed with
// blocking ones and messages, completed in any order; persistent ones started in another order on
// each process; operations of the program that call the library; errors returned in the status.
// run: 1 2 3 5
// hosts
// checkers: address threads
#include "check.h"

enum { MANY = 300, KINDS = 6, LENGTH_MAX = 3000 };

typedef struct {
    int kind, length, root;
    int *send, *receive;
    MPI_Request request;
} Operation;

static int value(int operation, int rank, int at) { return operation * 1000003 + rank * 101 + at; }

// Equal on all processes, except for the buffers.
static Operation make(Random *random) {
    Operation made = {random_below(random, KINDS), 0, random_below(random, check_size), 0, 0,
                      MPI_REQUEST_NULL};
    int lengths[] = {0, 1, 7, 100, LENGTH_MAX};
    made.length = lengths[random_below(random, 5)];
    size_t room = (size_t)(made.length * check_size + 1) * sizeof(int);
    made.send = malloc(room);
    made.receive = malloc(room);
    return made;
}

static void fill(Operation *one, int number) {
    for (int i = 0; i < one->length * check_size; i++) {
        one->send[i] = value(number, check_rank, i);
        one->receive[i] = -1;
    }
    if (one->kind == 1 && check_rank == one->root)
        memcpy(one->receive, one->send, (size_t)one->length * sizeof(int));
}

static void begin(Operation *one, MPI_Comm comm) {
    MPI_Request *request = &one->request;
    int *send = one->send, *receive = one->receive, n = one->length;
    switch (one->kind) {
        case 0: OK(MPI_Ibarrier(comm, request)); break;
        case 1: OK(MPI_Ibcast(receive, n, MPI_INT, one->root, comm, request)); break;
        case 2: OK(MPI_Iallreduce(send, receive, n, MPI_INT, MPI_SUM, comm, request)); break;
        case 3: OK(MPI_Igather(send, n, MPI_INT, receive, n, MPI_INT, one->root, comm, request)); break;
        case 4: OK(MPI_Ialltoall(send, n, MPI_INT, receive, n, MPI_INT, comm, request)); break;
        case 5: OK(MPI_Iscan(send, receive, n, MPI_INT, MPI_MAX, comm, request)); break;
    }
}

static void keep(Operation *one, MPI_Comm comm) {
    MPI_Request *request = &one->request;
    MPI_Info none = MPI_INFO_NULL;
    int *send = one->send, *receive = one->receive, n = one->length, root = one->root;
    switch (one->kind) {
        case 0: OK(MPI_Barrier_init(comm, none, request)); break;
        case 1: OK(MPI_Bcast_init(receive, n, MPI_INT, root, comm, none, request)); break;
        case 2: OK(MPI_Allreduce_init(send, receive, n, MPI_INT, MPI_SUM, comm, none, request)); break;
        case 3: OK(MPI_Gather_init(send, n, MPI_INT, receive, n, MPI_INT, root, comm, none, request)); break;
        case 4: OK(MPI_Alltoall_init(send, n, MPI_INT, receive, n, MPI_INT, comm, none, request)); break;
        case 5: OK(MPI_Scan_init(send, receive, n, MPI_INT, MPI_MAX, comm, none, request)); break;
    }
}

static void verify(const Operation *one, int number) {
    int bad = 0;
    for (int i = 0; i < one->length; i++) {
        int sum = 0;
        for (int rank = 0; rank < check_size; rank++) sum += value(number, rank, i);
        if (one->kind == 1) bad += one->receive[i] != value(number, one->root, i);
        if (one->kind == 2) bad += one->receive[i] != sum;
        if (one->kind == 5) bad += one->receive[i] != value(number, check_rank, i);
    }
    for (int rank = 0; rank < check_size; rank++)
        for (int i = 0; i < one->length; i++) {
            int got = one->receive[rank * one->length + i];
            if (one->kind == 3 && check_rank == one->root) bad += got != value(number, rank, i);
            if (one->kind == 4) bad += got != value(number, rank, check_rank * one->length + i);
        }
    CHECK(bad == 0, "operation %d of kind %d: %d of %d wrong", number, one->kind, bad, one->length);
}

static void release(Operation *one) {
    free(one->send);
    free(one->receive);
}

// A permutation that differs between processes.
static void shuffle(int *order, int count, Random *random) {
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = random_below(random, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static void many_at_once(void) {
    static Operation all[MANY];
    static int order[MANY];
    Random shared = random_from(11), own = random_from(100 + (uint64_t)check_rank);
    for (int i = 0; i < MANY; i++) {
        all[i] = make(&shared);
        fill(&all[i], i);
        begin(&all[i], MPI_COMM_WORLD);
        if (random_below(&shared, 10) == 0) {
            int one = 1, sum = 0;
            OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
            CHECK_EQ(sum, check_size);
        }
    }
    shuffle(order, MANY, &own);
    for (int i = 0; i < MANY; i++) {
        Operation *one = &all[order[i]];
        int flag = 0;
        if (i % 3 == 0) OK(MPI_Wait(&one->request, MPI_STATUS_IGNORE));
        while (i % 3 == 1 && !flag) OK(MPI_Test(&one->request, &flag, MPI_STATUS_IGNORE));
        if (i % 3 == 2) OK(MPI_Waitall(1, &one->request, MPI_STATUSES_IGNORE));
        CHECK(one->request == MPI_REQUEST_NULL);
        verify(one, order[i]);
        release(one);
    }
}

static void persistent_in_any_order(void) {
    enum { COUNT = 24, TURNS = 20 };
    Operation all[COUNT];
    int order[COUNT];
    MPI_Request requests[COUNT];
    Random shared = random_from(12), own = random_from(200 + (uint64_t)check_rank);
    for (int i = 0; i < COUNT; i++) {
        all[i] = make(&shared);
        keep(&all[i], MPI_COMM_WORLD);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        shuffle(order, COUNT, &own);
        for (int i = 0; i < COUNT; i++) fill(&all[i], turn * COUNT + i);
        for (int i = 0; i < COUNT; i++) {
            if (turn % 2) OK(MPI_Start(&all[order[i]].request));
            requests[i] = all[order[i]].request;
        }
        if (turn % 2 == 0) OK(MPI_Startall(COUNT, requests));
        OK(MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < COUNT; i++) verify(&all[i], turn * COUNT + i);
    }
    // Waiting for one that is not active returns immediately.
    MPI_Status status;
    OK(MPI_Wait(&all[0].request, &status));
    for (int i = 0; i < COUNT; i++) {
        OK(MPI_Request_free(&all[i].request));
        release(&all[i]);
    }
}

// Sends itself a message, and so makes progress while elements are combined.
static void talkative(void *in, void *inout, int *length, MPI_Datatype *type) {
    (void)type;
    int sent = *length, got = 0;
    MPI_Sendrecv(&sent, 1, MPI_INT, 0, 9, &got, 1, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    for (int i = 0; i < *length; i++) ((int *)inout)[i] = ((int *)in)[i] - got + ((int *)inout)[i] + sent;
}

static void operations_that_call(void) {
    MPI_Op op;
    OK(MPI_Op_create(talkative, 1, &op));
    int mine[4] = {check_rank, 1, 2, 3}, sums[8][4];
    MPI_Request requests[8];
    for (int i = 0; i < 8; i++)
        OK(MPI_Iallreduce(mine, sums[i], 4, MPI_INT, op, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Waitall(8, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(sums[i][0], check_size * (check_size - 1) / 2);
        CHECK_EQ(sums[i][3], 3 * check_size);
    }
    OK(MPI_Op_free(&op));
}

// The program goes on with messages while a broadcast waits for its root.
static void advances_beside_messages(void) {
    int data = check_rank == 0 ? 42 : -1, token = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    if (check_rank != 0) OK(MPI_Ibcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, &request));
    if (check_rank == check_size - 1 && check_size > 1)
        OK(MPI_Send(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD));
    if (check_rank == 0) {
        if (check_size > 1)
            OK(MPI_Recv(&token, 1, MPI_INT, check_size - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Ibcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, &request));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(data, 42);
}

static void wrong_use(void) {
    int data[4] = {0};
    MPI_Request request;
    EXPECT_ERROR(MPI_Ibcast(data, 1, MPI_INT, check_size, MPI_COMM_WORLD, &request), MPI_ERR_ROOT,
                 "root");
    EXPECT_ERROR(MPI_Ibcast(data, -1, MPI_INT, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT, "-1");
    EXPECT_ERROR(MPI_Iallreduce(data, data, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request),
                 MPI_ERR_BUFFER, "MPI_IN_PLACE");
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    EXPECT_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "not persistent");
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    EXPECT_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST);
    OK(MPI_Start(&request));
    EXPECT_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "active");
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
    // More is sent than there is room for: the receiver gets the error in the status.
    if (check_size > 1) {
        int room = check_rank == 1 ? 2 : 4, code = MPI_SUCCESS;
        OK(MPI_Ibcast(data, room, MPI_INT, 0, MPI_COMM_WORLD, &request));
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        int class = -1;
        OK(MPI_Error_class(code, &class));
        CHECK_EQ(class, check_rank == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    }
}

int main(void) {
    check_begin();
    many_at_once();
    persistent_in_any_order();
    operations_that_call();
    advances_beside_messages();
    wrong_use();
    return check_end();
}
