// Every send mode (standard, synchronous, buffered, ready), blocking, nonblocking and persistent,
// with blocking, nonblocking and persistent receives, for sizes around every power of two: the
// places where a library changes its protocol.
// run: 2
// timeout: 60
// hosts
// checkers: address
#include "check.h"

enum { LARGEST = 1 << 22, MODES = 4, FORMS = 3 };

typedef int SendFunction(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int StartFunction(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static SendFunction *const blocking[MODES] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
static StartFunction *const nonblocking[MODES] = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
static StartFunction *const persistent[MODES] = {MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init,
                                                 MPI_Rsend_init};
static const char *const names[MODES] = {"standard", "synchronous", "buffered", "ready"};
enum { READY = 3 };

static unsigned char *buffer, *attached;

static void send_one(int mode, int form, int bytes, int tag) {
    MPI_Request request;
    pattern_fill(buffer, bytes, tag);
    // A ready send needs a receive that is posted already: the receiver sends a message when it is.
    if (mode == READY)
        OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (form == 0) {
        OK(blocking[mode](buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD));
    } else if (form == 1) {
        OK(nonblocking[mode](buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(request == MPI_REQUEST_NULL, "complete");
    } else {
        OK(persistent[mode](buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(request != MPI_REQUEST_NULL, "a persistent request stays");
        OK(MPI_Request_free(&request));
    }
}

static void receive_one(int mode, int form, int bytes, int tag) {
    MPI_Request request;
    MPI_Status status;
    int counted;
    memset(buffer, 0, bytes);
    if (mode == READY || form == 1) {
        OK(MPI_Irecv(buffer, LARGEST + 64, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request));
        if (mode == READY) OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, &status));
    } else if (form == 0) {
        OK(MPI_Recv(buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &status));
    } else {
        OK(MPI_Recv_init(buffer, bytes, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Request_free(&request));
    }
    OK(MPI_Get_count(&status, MPI_BYTE, &counted));
    CHECK(counted == bytes, "%s, form %d: %d bytes, not %d", names[mode], form, counted, bytes);
    CHECK_EQ(status.MPI_SOURCE, 0);
    CHECK_EQ(status.MPI_TAG, tag);
    CHECK_PATTERN(buffer, bytes, tag);
}

static void one_size(int bytes) {
    for (int mode = 0; mode < MODES; mode++)
        for (int form = 0; form < FORMS; form++) {
            int tag = 10 + (bytes * 13 + mode * 5 + form) % 20000;
            if (check_rank == 0)
                send_one(mode, form, bytes, tag);
            else
                receive_one(mode, form, bytes, tag);
        }
}

// A synchronous send is complete only when its receive was matched.
static void synchronous_waits(void) {
    MPI_Request request;
    int value = 5, flag = 1;
    if (check_rank == 0) {
        OK(MPI_Issend(&value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, &request));
        for (int i = 0; i < 100; i++) {
            OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag, "a synchronous send completed before its receive was posted");
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(value, 5);
    }
}

// One set of persistent requests, started again and again, with a new content each time.
static void persistent_again(void) {
    enum { COUNT = 8, STARTS = 200 };
    MPI_Request requests[COUNT];
    static int values[COUNT][600];
    for (int i = 0; i < COUNT; i++) {
        int ints = 1 + i * 80;
        if (check_rank == 0)
            OK(MPI_Send_init(values[i], ints, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]));
        else
            OK(MPI_Recv_init(values[i], ints, MPI_INT, 0, i, MPI_COMM_WORLD, &requests[i]));
    }
    for (int start = 0; start < STARTS; start++) {
        for (int i = 0; i < COUNT && check_rank == 0; i++)
            for (int j = 0; j < 1 + i * 80; j++) values[i][j] = start * 1000 + i + j;
        OK(MPI_Startall(COUNT, requests));
        OK(MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < COUNT && check_rank == 1; i++) {
            CHECK_EQ(values[i][0], start * 1000 + i);
            CHECK_EQ(values[i][i * 80], start * 1000 + i + i * 80);
        }
    }
    for (int i = 0; i < COUNT; i++) OK(MPI_Request_free(&requests[i]));
}

int main(void) {
    check_begin();
    // Three buffered sends may be underway at once, until a ready send waits for the receiver.
    int size = 3 * (LARGEST + 64 + MPI_BSEND_OVERHEAD);
    buffer = malloc(LARGEST + 64);
    attached = malloc(size);
    OK(MPI_Buffer_attach(attached, size));
    one_size(0);
    for (int power = 1; power <= LARGEST; power *= 2)
        for (int off = -1; off <= 1; off++)
            if (power + off > 0 && (power > 2 || off >= 0)) one_size(power + off);
    synchronous_waits();
    persistent_again();
    void *detached;
    int detached_size;
    OK(MPI_Buffer_detach(&detached, &detached_size));
    CHECK(detached == attached && detached_size == size, "the buffer that was attached");
    free(buffer);
    free(attached);
    return check_end();
}
