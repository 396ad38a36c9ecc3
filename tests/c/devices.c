// Every call that takes a buffer, with memory of graphics processors: the result is the one of host
// memory, bytes in gaps of datatypes included, and the context of the thread stays as it was.
// run: 3
// at night: 2 4
// each: messages collectives windows files packing
// timeout: 60
// preload: libcuda.so.1.c
#include "devices.h"

// What an operation gets: memory for `count` elements of `type` for each process, of which the
// program has written both.
typedef struct {
    void *send, *receive;
    int count;
    MPI_Datatype type;
    MPI_Comm comm, ring;
    int rank, size;
} arguments;

typedef struct {
    const char *name;
    void (*run)(arguments *);
    // With MPI_INT only.
    int plain;
} operation;

static int counts[8], places[8], bytes[8];
static MPI_Datatype types[8];
static MPI_Op joined;
static MPI_File file;

static void finish(MPI_Request *request) { MPI_Wait(request, MPI_STATUS_IGNORE); }

static void start_twice(MPI_Request *request) {
    for (int round = 0; round < 2; round++) {
        MPI_Start(request);
        finish(request);
    }
    MPI_Request_free(request);
}

// Point-to-point: to the next process, from the previous one.
#define NEXT ((a->rank + 1) % a->size)
#define PREVIOUS ((a->rank + a->size - 1) % a->size)
#define SENT a->send, a->count, a->type, NEXT, 3, a->comm
#define RECEIVED a->receive, a->count, a->type, PREVIOUS, 3, a->comm

static void send_recv(arguments *a) {
    if (a->rank % 2 == 0) MPI_Send(SENT);
    MPI_Recv(RECEIVED, MPI_STATUS_IGNORE);
    if (a->rank % 2) MPI_Send(SENT);
}

static void ssend(arguments *a) {
    MPI_Request request;
    MPI_Irecv(RECEIVED, &request);
    MPI_Ssend(SENT);
    finish(&request);
}

static void rsend(arguments *a) {
    MPI_Request request;
    MPI_Irecv(RECEIVED, &request);
    MPI_Barrier(a->comm);
    MPI_Rsend(SENT);
    finish(&request);
}

// Memory for buffered messages, of a kind.
static void *attach(arguments *a, int kind, int on_communicator) {
    int packed;
    MPI_Pack_size(a->count, a->type, a->comm, &packed);
    int room = 2 * (packed + MPI_BSEND_OVERHEAD);
    void *buffer = device_memory(kind, room);
    if (on_communicator) MPI_Comm_attach_buffer(a->comm, buffer, room);
    else MPI_Buffer_attach(buffer, room);
    return buffer;
}

static void detach(arguments *a, int kind, void *attached, int on_communicator) {
    void *buffer;
    int room;
    if (on_communicator) MPI_Comm_detach_buffer(a->comm, &buffer, &room);
    else MPI_Buffer_detach(&buffer, &room);
    CHECK(buffer == attached, "the buffer that was detached is %p, not %p", buffer, attached);
    device_free(kind, attached);
}

static void bsend(arguments *a) {
    void *buffer = attach(a, HOST, 0);
    MPI_Bsend(SENT);
    MPI_Recv(RECEIVED, MPI_STATUS_IGNORE);
    detach(a, HOST, buffer, 0);
}

static void ibsend(arguments *a) {
    void *buffer = attach(a, DEVICE, 0);
    MPI_Request request;
    MPI_Ibsend(SENT, &request);
    MPI_Recv(RECEIVED, MPI_STATUS_IGNORE);
    finish(&request);
    detach(a, DEVICE, buffer, 0);
}

static void bsend_init(arguments *a) {
    void *buffer = attach(a, DEVICE, 1);
    MPI_Request request;
    MPI_Bsend_init(SENT, &request);
    MPI_Start(&request);
    MPI_Recv(RECEIVED, MPI_STATUS_IGNORE);
    finish(&request);
    MPI_Request_free(&request);
    detach(a, DEVICE, buffer, 1);
}

static void irsend(arguments *a) {
    MPI_Request requests[2];
    MPI_Irecv(RECEIVED, &requests[0]);
    MPI_Barrier(a->comm);
    MPI_Irsend(SENT, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void ready_again(arguments *a) {
    MPI_Request requests[2];
    MPI_Recv_init(RECEIVED, &requests[0]);
    MPI_Rsend_init(SENT, &requests[1]);
    for (int round = 0; round < 2; round++) {
        MPI_Start(&requests[0]);
        MPI_Barrier(a->comm);
        MPI_Start(&requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
}

static void synchronous_again(arguments *a) {
    MPI_Request requests[2];
    MPI_Recv_init(RECEIVED, &requests[0]);
    MPI_Ssend_init(SENT, &requests[1]);
    for (int round = 0; round < 2; round++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
}

static void nonblocking(arguments *a) {
    MPI_Request requests[2];
    MPI_Irecv(RECEIVED, &requests[0]);
    MPI_Isend(SENT, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void tested(arguments *a) {
    MPI_Request requests[2];
    MPI_Isend(SENT, &requests[1]);
    MPI_Irecv(RECEIVED, &requests[0]);
    for (int done = 0; !done;) MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
}

static void synchronous(arguments *a) {
    MPI_Request requests[2];
    MPI_Issend(SENT, &requests[1]);
    MPI_Irecv(RECEIVED, &requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void persistent(arguments *a) {
    MPI_Request requests[2];
    MPI_Recv_init(RECEIVED, &requests[0]);
    MPI_Send_init(SENT, &requests[1]);
    for (int round = 0; round < 3; round++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
}

static void matched(arguments *a) {
    MPI_Request request;
    MPI_Message message;
    MPI_Isend(SENT, &request);
    MPI_Mprobe(PREVIOUS, 3, a->comm, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(a->receive, a->count, a->type, &message, MPI_STATUS_IGNORE);
    finish(&request);
}

static void matched_later(arguments *a) {
    MPI_Request request, received;
    MPI_Message message;
    MPI_Isend(SENT, &request);
    MPI_Mprobe(PREVIOUS, 3, a->comm, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(a->receive, a->count, a->type, &message, &received);
    finish(&received);
    finish(&request);
}

static void sendrecv(arguments *a) {
    MPI_Sendrecv(a->send, a->count, a->type, NEXT, 3, RECEIVED, MPI_STATUS_IGNORE);
}

static void sendrecv_replace(arguments *a) {
    MPI_Sendrecv_replace(a->receive, a->count, a->type, NEXT, 3, PREVIOUS, 3, a->comm, MPI_STATUS_IGNORE);
}

static void isendrecv(arguments *a) {
    MPI_Request request;
    MPI_Isendrecv(a->send, a->count, a->type, NEXT, 3, RECEIVED, &request);
    finish(&request);
}

static void isendrecv_replace(arguments *a) {
    MPI_Request request;
    MPI_Isendrecv_replace(a->receive, a->count, a->type, NEXT, 3, PREVIOUS, 3, a->comm, &request);
    finish(&request);
}

static void partitioned(arguments *a) {
    MPI_Request requests[2];
    MPI_Psend_init(a->send, 2, a->count / 2, a->type, NEXT, 3, a->comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(a->receive, 2, a->count / 2, a->type, PREVIOUS, 3, a->comm, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 2; round++) {
        MPI_Startall(2, requests);
        MPI_Pready(1, requests[0]);
        MPI_Pready(0, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
}

// The receiver has more room than there is data: the rest keeps its bytes.
static void shorter(arguments *a) {
    MPI_Request request;
    MPI_Isend(a->send, a->count / 3, a->type, NEXT, 3, a->comm, &request);
    MPI_Recv(RECEIVED, MPI_STATUS_IGNORE);
    finish(&request);
}

static void to_self(arguments *a) {
    MPI_Sendrecv(a->send, a->count, a->type, a->rank, 3, a->receive, a->count, a->type, a->rank, 3, a->comm,
                 MPI_STATUS_IGNORE);
}

static const operation messages[] = {
    {"Send, Recv", send_recv, 0}, {"Ssend", ssend, 0}, {"Rsend", rsend, 0}, {"Bsend", bsend, 0},
    {"Isend, Irecv", nonblocking, 0}, {"Testall", tested, 0}, {"Issend", synchronous, 0},
    {"Send_init", persistent, 0}, {"Mrecv", matched, 0}, {"Imrecv", matched_later, 0},
    {"Sendrecv", sendrecv, 0}, {"Sendrecv_replace", sendrecv_replace, 0}, {"Isendrecv", isendrecv, 0},
    {"Isendrecv_replace", isendrecv_replace, 0}, {"Psend_init", partitioned, 0}, {"shorter", shorter, 0},
    {"to itself", to_self, 0}, {"Ibsend", ibsend, 0}, {"Bsend_init", bsend_init, 0}, {"Irsend", irsend, 0},
    {"Rsend_init", ready_again, 0}, {"Ssend_init", synchronous_again, 0}, {NULL, NULL, 0},
};

// Each collective operation in its three forms.
#define IN_PARENTHESES(...) __VA_ARGS__
#define FORMS(Name, name, on, ...) \
    static void name(arguments *a) { MPI_##Name(__VA_ARGS__, on); } \
    static void i##name(arguments *a) { \
        MPI_Request request; \
        MPI_I##name(__VA_ARGS__, on, &request); \
        finish(&request); \
    } \
    static void name##_init(arguments *a) { \
        MPI_Request request; \
        MPI_##Name##_init(__VA_ARGS__, on, MPI_INFO_NULL, &request); \
        start_twice(&request); \
    }
#define ROOT (a->size - 1)
#define GIVEN a->send, a->count, a->type
#define TAKEN a->receive, a->count, a->type
#define GIVEN_V a->send, counts, places, a->type
#define TAKEN_V a->receive, counts, places, a->type
#define GIVEN_W a->send, counts, bytes, types
#define TAKEN_W a->receive, counts, bytes, types

FORMS(Bcast, bcast, a->comm, TAKEN, ROOT)
FORMS(Gather, gather, a->comm, GIVEN, TAKEN, ROOT)
FORMS(Gatherv, gatherv, a->comm, a->send, counts[a->rank], a->type, TAKEN_V, ROOT)
FORMS(Scatter, scatter, a->comm, GIVEN, TAKEN, ROOT)
FORMS(Scatterv, scatterv, a->comm, GIVEN_V, a->receive, counts[a->rank], a->type, ROOT)
FORMS(Allgather, allgather, a->comm, GIVEN, TAKEN)
FORMS(Allgatherv, allgatherv, a->comm, a->send, counts[a->rank], a->type, TAKEN_V)
FORMS(Alltoall, alltoall, a->comm, GIVEN, TAKEN)
FORMS(Alltoallv, alltoallv, a->comm, a->send, bytes, places, a->type, a->receive, bytes, places, a->type)
FORMS(Reduce, reduce, a->comm, a->send, a->receive, a->count, a->type, MPI_SUM, ROOT)
FORMS(Allreduce, allreduce, a->comm, a->send, a->receive, a->count, a->type, MPI_SUM)
FORMS(Scan, scan, a->comm, a->send, a->receive, a->count, a->type, MPI_SUM)
FORMS(Exscan, exscan, a->comm, a->send, a->receive, a->count, a->type, MPI_MAX)
FORMS(Reduce_scatter_block, reduce_scatter_block, a->comm, a->send, a->receive, a->count, a->type, MPI_SUM)
FORMS(Reduce_scatter, reduce_scatter, a->comm, a->send, a->receive, counts, a->type, MPI_SUM)
FORMS(Neighbor_allgather, neighbor_allgather, a->ring, GIVEN, TAKEN)
FORMS(Neighbor_alltoall, neighbor_alltoall, a->ring, GIVEN, TAKEN)
FORMS(Neighbor_alltoallv, neighbor_alltoallv, a->ring, a->send, bytes, places, a->type, a->receive, bytes, places, a->type)

static int ring_counts[2], ring_places[2], apart[8];
static MPI_Aint ring_apart[2];

FORMS(Neighbor_allgatherv, neighbor_allgatherv, a->ring, GIVEN, a->receive, ring_counts, ring_places, a->type)
FORMS(Alltoallw, alltoallw, a->comm, a->send, bytes, apart, types, a->receive, bytes, apart, types)
FORMS(Neighbor_alltoallw, neighbor_alltoallw, a->ring, a->send, bytes, ring_apart, types, a->receive, bytes, ring_apart,
      types)

static void allreduce_in_place(arguments *a) {
    MPI_Allreduce(MPI_IN_PLACE, a->receive, a->count, a->type, MPI_SUM, a->comm);
}

static void allgather_in_place(arguments *a) { MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, TAKEN, a->comm); }

static void alltoall_in_place(arguments *a) { MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, TAKEN, a->comm); }

static void with_function(arguments *a) { MPI_Allreduce(a->send, a->receive, a->count, a->type, joined, a->comm); }

static void scan_with_function(arguments *a) { MPI_Scan(a->send, a->receive, a->count, a->type, joined, a->comm); }

#define THREE(name, plain) {#name, name, plain}, {"I" #name, i##name, plain}, {#name "_init", name##_init, plain}
static const operation collectives[] = {
    THREE(bcast, 0), THREE(gather, 0), THREE(gatherv, 0), THREE(scatter, 0), THREE(scatterv, 0),
    THREE(allgather, 0), THREE(allgatherv, 0), THREE(alltoall, 0), THREE(alltoallv, 0), THREE(reduce, 1),
    THREE(allreduce, 1), THREE(scan, 1), THREE(exscan, 1), THREE(reduce_scatter_block, 1),
    THREE(reduce_scatter, 1), THREE(neighbor_allgather, 0), THREE(neighbor_alltoall, 0),
    THREE(neighbor_alltoallv, 0), {"Allreduce in place", allreduce_in_place, 1},
    {"Allgather in place", allgather_in_place, 0}, {"Alltoall in place", alltoall_in_place, 0},
    THREE(neighbor_allgatherv, 0), THREE(alltoallw, 0), THREE(neighbor_alltoallw, 0), {"own operation", with_function, 0}, {"Scan, own operation", scan_with_function, 0},
    {NULL, NULL, 0},
};

// Windows on the memory for results. Operations of one process go to the next one.
typedef void (*window_use)(arguments *, MPI_Win);

static void with_window(arguments *a, window_use use) {
    MPI_Win window;
    MPI_Aint low, extent;
    MPI_Type_get_extent(a->type, &low, &extent);
    MPI_Win_create(a->receive, extent * a->count * a->size, 1, MPI_INFO_NULL, a->comm, &window);
    MPI_Win_fence(0, window);
    use(a, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

#define WINDOW(name, ...) \
    static void name##_fence(arguments *a, MPI_Win window) { __VA_ARGS__; } \
    static void name(arguments *a) { with_window(a, name##_fence); }
#define REQUESTED(name, ...) \
    static void name##_fence(arguments *a, MPI_Win window) { \
        MPI_Request request; \
        MPI_Win_lock(MPI_LOCK_SHARED, NEXT, 0, window); \
        __VA_ARGS__; \
        finish(&request); \
        MPI_Win_unlock(NEXT, window); \
    } \
    static void name(arguments *a) { with_window(a, name##_fence); }
#define TARGET NEXT, 0, a->count, a->type

WINDOW(put, MPI_Put(GIVEN, TARGET, window))
WINDOW(get, MPI_Get(GIVEN, TARGET, window))
WINDOW(accumulate, MPI_Accumulate(GIVEN, TARGET, MPI_SUM, window))
WINDOW(replace, MPI_Accumulate(GIVEN, TARGET, MPI_REPLACE, window))
REQUESTED(rput, MPI_Rput(GIVEN, TARGET, window, &request))
REQUESTED(rget, MPI_Rget(GIVEN, TARGET, window, &request))
REQUESTED(raccumulate, MPI_Raccumulate(GIVEN, TARGET, MPI_SUM, window, &request))

static char *second_half(arguments *a) {
    MPI_Aint low, extent;
    MPI_Type_get_extent(a->type, &low, &extent);
    return (char *)a->send + extent * a->count;
}

WINDOW(get_accumulate, MPI_Get_accumulate(GIVEN, second_half(a), a->count, a->type, TARGET, MPI_SUM, window))
REQUESTED(rget_accumulate,
          MPI_Rget_accumulate(GIVEN, second_half(a), a->count, a->type, TARGET, MPI_SUM, window, &request))
WINDOW(fetch_and_op, MPI_Fetch_and_op(a->send, second_half(a), MPI_INT, NEXT, 4, MPI_SUM, window))
WINDOW(compare_and_swap,
       MPI_Compare_and_swap(a->send, (char *)a->send + 4, second_half(a), MPI_INT, NEXT, 8, window))

// A window without memory, to which each process attaches its own.
static void dynamic(arguments *a) {
    MPI_Win window;
    MPI_Aint low, extent, own, of_next;
    MPI_Type_get_extent(a->type, &low, &extent);
    MPI_Win_create_dynamic(MPI_INFO_NULL, a->comm, &window);
    MPI_Win_attach(window, a->receive, extent * a->count * a->size);
    MPI_Get_address(a->receive, &own);
    MPI_Sendrecv(&own, 1, MPI_AINT, PREVIOUS, 8, &of_next, 1, MPI_AINT, NEXT, 8, a->comm, MPI_STATUS_IGNORE);
    MPI_Win_fence(0, window);
    MPI_Put(GIVEN, NEXT, of_next, a->count, a->type, window);
    MPI_Win_fence(0, window);
    MPI_Get(second_half(a), a->count, a->type, NEXT, of_next, a->count, a->type, window);
    MPI_Win_fence(0, window);
    MPI_Win_detach(window, a->receive);
    MPI_Win_free(&window);
}

static const operation accesses[] = {
    {"Put", put, 0}, {"Get", get, 0}, {"Accumulate", accumulate, 1}, {"MPI_REPLACE", replace, 1},
    {"Rput", rput, 0}, {"Rget", rget, 0}, {"Raccumulate", raccumulate, 1}, {"Get_accumulate", get_accumulate, 1},
    {"Rget_accumulate", rget_accumulate, 1}, {"Fetch_and_op", fetch_and_op, 1},
    {"Compare_and_swap", compare_and_swap, 1}, {"Win_attach", dynamic, 0}, {NULL, NULL, 0},
};

// Files: each process writes, and reads what it has written.

static MPI_Offset own_place(arguments *a) {
    int size;
    MPI_Type_size(a->type, &size);
    return (MPI_Offset)a->rank * a->count * size;
}

#define WRITTEN file, own_place(a), GIVEN
#define READ file, own_place(a), TAKEN

static void write_read(arguments *a) {
    MPI_File_write_at(WRITTEN, MPI_STATUS_IGNORE);
    MPI_File_read_at(READ, MPI_STATUS_IGNORE);
}

static void write_read_all(arguments *a) {
    MPI_File_write_at_all(WRITTEN, MPI_STATUS_IGNORE);
    MPI_File_read_at_all(READ, MPI_STATUS_IGNORE);
}

static void iwrite_iread(arguments *a) {
    MPI_Request request;
    MPI_File_iwrite_at(WRITTEN, &request);
    finish(&request);
    MPI_File_iread_at(READ, &request);
    finish(&request);
}

static void iwrite_iread_all(arguments *a) {
    MPI_Request request;
    MPI_File_iwrite_at_all(WRITTEN, &request);
    finish(&request);
    MPI_File_iread_at_all(READ, &request);
    finish(&request);
}

static void split(arguments *a) {
    MPI_File_write_at_all_begin(WRITTEN);
    MPI_File_write_at_all_end(file, a->send, MPI_STATUS_IGNORE);
    MPI_File_read_at_all_begin(READ);
    MPI_File_read_at_all_end(file, a->receive, MPI_STATUS_IGNORE);
}

static void individual(arguments *a) {
    MPI_File_seek(file, own_place(a), MPI_SEEK_SET);
    MPI_File_write(file, GIVEN, MPI_STATUS_IGNORE);
    MPI_File_seek(file, own_place(a), MPI_SEEK_SET);
    MPI_File_read(file, TAKEN, MPI_STATUS_IGNORE);
}

static void ordered(arguments *a) {
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_ordered(file, GIVEN, MPI_STATUS_IGNORE);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered(file, TAKEN, MPI_STATUS_IGNORE);
}

static void go_to_own_place(arguments *a) { MPI_File_seek(file, own_place(a), MPI_SEEK_SET); }

static void individual_all(arguments *a) {
    go_to_own_place(a);
    MPI_File_write_all(file, GIVEN, MPI_STATUS_IGNORE);
    go_to_own_place(a);
    MPI_File_read_all(file, TAKEN, MPI_STATUS_IGNORE);
}

static void iwrite_iread_individual(arguments *a) {
    MPI_Request request;
    go_to_own_place(a);
    MPI_File_iwrite(file, GIVEN, &request);
    finish(&request);
    go_to_own_place(a);
    MPI_File_iread(file, TAKEN, &request);
    finish(&request);
}

static void iwrite_iread_individual_all(arguments *a) {
    MPI_Request request;
    go_to_own_place(a);
    MPI_File_iwrite_all(file, GIVEN, &request);
    finish(&request);
    go_to_own_place(a);
    MPI_File_iread_all(file, TAKEN, &request);
    finish(&request);
}

static void split_individual(arguments *a) {
    go_to_own_place(a);
    MPI_File_write_all_begin(file, GIVEN);
    MPI_File_write_all_end(file, a->send, MPI_STATUS_IGNORE);
    go_to_own_place(a);
    MPI_File_read_all_begin(file, TAKEN);
    MPI_File_read_all_end(file, a->receive, MPI_STATUS_IGNORE);
}

static void split_ordered(arguments *a) {
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_ordered_begin(file, GIVEN);
    MPI_File_write_ordered_end(file, a->send, MPI_STATUS_IGNORE);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered_begin(file, TAKEN);
    MPI_File_read_ordered_end(file, a->receive, MPI_STATUS_IGNORE);
}

// One process after the other, so that each finds its own data.
static void shared(arguments *a) {
    for (int reads = 0; reads < 2; reads++) {
        MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
        for (int rank = 0; rank < a->size; rank++) {
            MPI_Barrier(a->comm);
            if (rank != a->rank) continue;
            MPI_Request request = MPI_REQUEST_NULL;
            if (a->rank % 2) {
                if (reads) MPI_File_iread_shared(file, TAKEN, &request);
                else MPI_File_iwrite_shared(file, GIVEN, &request);
            } else if (reads) MPI_File_read_shared(file, TAKEN, MPI_STATUS_IGNORE);
            else MPI_File_write_shared(file, GIVEN, MPI_STATUS_IGNORE);
            finish(&request);
        }
        MPI_Barrier(a->comm);
    }
}

static const operation transfers[] = {
    {"write_at", write_read, 0}, {"write_at_all", write_read_all, 0}, {"iwrite_at", iwrite_iread, 0},
    {"iwrite_at_all", iwrite_iread_all, 0}, {"write_at_all_begin", split, 0}, {"write", individual, 0},
    {"write_ordered", ordered, 0}, {"write_all", individual_all, 0}, {"iwrite", iwrite_iread_individual, 0},
    {"iwrite_all", iwrite_iread_individual_all, 0}, {"write_all_begin", split_individual, 0},
    {"write_ordered_begin", split_ordered, 0}, {"write_shared", shared, 0}, {NULL, NULL, 0},
};

static void pack(arguments *a) {
    int room, position = 0;
    MPI_Pack_size(a->count, a->type, a->comm, &room);
    char *packed = malloc(room + 1);
    MPI_Pack(GIVEN, packed, room, &position, a->comm);
    room = position;
    position = 0;
    MPI_Unpack(packed, room, &position, TAKEN, a->comm);
    free(packed);
}

// The packed data itself lies in the memory for results, or in that for data.
static void pack_there(arguments *a) {
    int room, position = 0;
    MPI_Pack_size(a->count, a->type, a->comm, &room);
    MPI_Pack(GIVEN, a->receive, room, &position, a->comm);
}

static void unpack_from_there(arguments *a) {
    int room, position = 0;
    MPI_Pack_size(a->count, a->type, a->comm, &room);
    MPI_Unpack(a->send, room, &position, TAKEN, a->comm);
}

static void pack_external(arguments *a) {
    MPI_Aint room, position = 0;
    MPI_Pack_external_size("external32", a->count, a->type, &room);
    char *packed = malloc(room + 1);
    MPI_Pack_external("external32", GIVEN, packed, room, &position);
    position = 0;
    MPI_Unpack_external("external32", packed, room, &position, TAKEN);
    free(packed);
}

static void reduce_local(arguments *a) { MPI_Reduce_local(a->send, a->receive, a->count, a->type, MPI_SUM); }

static void reduce_local_own(arguments *a) { MPI_Reduce_local(a->send, a->receive, a->count, a->type, joined); }

static const operation packing[] = {
    {"Pack", pack, 0}, {"Pack to there", pack_there, 0}, {"Unpack from there", unpack_from_there, 0},
    {"Pack_external", pack_external, 0}, {"Reduce_local", reduce_local, 1},
    {"Reduce_local, own operation", reduce_local_own, 0}, {NULL, NULL, 0},
};

// Adds the integers of elements of any of the types below.
static void add_elements(void *in, void *inout, int *count, MPI_Datatype *type) {
    MPI_Aint low, extent;
    MPI_Type_get_extent(*type, &low, &extent);
    int size;
    MPI_Type_size(*type, &size);
    for (int i = 0; i < *count; i++) {
        int packed_in[64], packed_out[64], at = 0;
        MPI_Pack((char *)in + i * extent, 1, *type, packed_in, sizeof packed_in, &at, MPI_COMM_SELF);
        at = 0;
        MPI_Pack((char *)inout + i * extent, 1, *type, packed_out, sizeof packed_out, &at, MPI_COMM_SELF);
        for (int k = 0; k < size / 4; k++) packed_out[k] += packed_in[k];
        at = 0;
        MPI_Unpack(packed_out, size, &at, (char *)inout + i * extent, 1, *type, MPI_COMM_SELF);
    }
}

// The types of elements: all consist of integers.
enum { TYPES = 4 };
static const char *const type_names[TYPES] = {"MPI_INT", "vector", "indexed", "struct"};

static MPI_Datatype element_type(int which) {
    MPI_Datatype type = MPI_INT, bare;
    if (which == 1) MPI_Type_vector(5, 2, 3, MPI_INT, &type);
    if (which == 2) {
        int lengths[] = {1, 3, 2}, displacements[] = {9, 0, 5};
        MPI_Type_indexed(3, lengths, displacements, MPI_INT, &type);
    }
    if (which == 3) {
        int lengths[] = {2, 1};
        MPI_Aint displacements[] = {8, 20};
        MPI_Datatype inner[] = {MPI_INT, MPI_INT};
        MPI_Type_create_struct(2, lengths, displacements, inner, &bare);
        MPI_Type_create_resized(bare, 0, 32, &type);
        MPI_Type_free(&bare);
    }
    if (which) MPI_Type_commit(&type);
    return type;
}

static void fill(int *memory, size_t integers, int seed) {
    for (size_t i = 0; i < integers; i++) memory[i] = (int)((i * 2654435761u + seed * 40503u) >> 8 & 0xffff);
}

static void run(const operation *of, arguments *a, const char *type_name, int send_kind, int receive_kind) {
    MPI_Aint low, extent;
    MPI_Type_get_extent(a->type, &low, &extent);
    // Exchanges between more processes than two neighbours use twice the size.
    size_t room = ((size_t)extent * a->count * (a->size > 2 ? a->size : 2) + 64) * 2;
    int *given = malloc(room), *taken = malloc(room), *before[2] = {malloc(room), malloc(room)};
    // Before others access the file for the next operation.
    if (file) MPI_Barrier(a->comm);
    fill(before[0], room / 4, check_rank + 1);
    fill(before[1], room / 4, check_rank + 77);
    memcpy(given, before[0], room);
    memcpy(taken, before[1], room);
    a->send = given;
    a->receive = taken;
    of->run(a);
    void *send = device_memory(send_kind, room), *receive = device_memory(receive_kind, room);
    device_set(send_kind, send, before[0], room);
    device_set(receive_kind, receive, before[1], room);
    a->send = send;
    a->receive = receive;
    of->run(a);
    device_get(send_kind, before[0], send, room);
    device_get(receive_kind, before[1], receive, room);
    for (int which = 0; which < 2; which++) {
        int *expected = which ? taken : given;
        if (memcmp(before[which], expected, room)) {
            size_t at = 0;
            while (before[which][at] == expected[at]) at++;
            CHECK(0, "%s of %d %s from %s to %s: integer %zu of the %s buffer is %d, not %d", of->name, a->count,
                  type_name, kind_names[send_kind], kind_names[receive_kind], at, which ? "second" : "first",
                  before[which][at], expected[at]);
        }
    }
    void *now;
    DRIVER_OK(cuCtxGetCurrent(&now));
    CHECK(now == device_contexts[0], "%s left another context", of->name);
    device_free(send_kind, send);
    device_free(receive_kind, receive);
    free(given);
    free(taken);
    free(before[0]);
    free(before[1]);
}

int main(int argc, char **argv) {
    check_begin();
    devices_begin();
    const char *group = argc > 1 ? argv[1] : "messages";
    const operation *all = !strcmp(group, "messages") ? messages : !strcmp(group, "collectives") ? collectives
        : !strcmp(group, "windows") ? accesses : !strcmp(group, "files") ? transfers : packing;
    arguments a = {.comm = MPI_COMM_WORLD, .rank = check_rank, .size = check_size};
    int periodic = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &a.size, &periodic, 0, &a.ring);
    MPI_Op_create(add_elements, 1, &joined);
    if (all == transfers) {
        // devices_hip.c may run beside.
        const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
        char name[80];
        snprintf(name, sizeof name, "%.60s-of-%d", program, a.size);
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                      MPI_INFO_NULL, &file);
    }
    long before = counts_of_devices().copies;
    static const int lengths[] = {4, 1000, 40000};
    // For a closer look: the name of an operation, and an index of a length.
    const char *only = argc > 2 ? argv[2] : NULL;
    int only_length = argc > 3 ? atoi(argv[3]) : -1;
    for (int which = 0; which < TYPES; which++) {
        a.type = element_type(which);
        MPI_Aint low, extent;
        MPI_Type_get_extent(a.type, &low, &extent);
        for (int length = 0; length < 3; length++) {
            if (only_length >= 0 && length != only_length) continue;
            a.count = which && length ? lengths[length] / 10 : lengths[length];
            for (int i = 0; i < a.size; i++) {
                // Fewer than `count` for each process, in blocks at places of `count`.
                counts[i] = a.count - (i % 2);
                places[i] = i * a.count;
                bytes[i] = a.count - 1;
                types[i] = a.type;
                apart[i] = (int)(places[i] * extent);
            }
            // The two neighbours in a ring.
            for (int i = 0; i < 2; i++) {
                ring_counts[i] = a.count;
                ring_places[i] = i * a.count;
                ring_apart[i] = ring_places[i] * extent;
            }
            for (const operation *of = all; of->name; of++) {
                if ((of->plain && which) || (only && strcmp(of->name, only))) continue;
                // Long ones of one datatype besides integers.
                if (length == 2 && which && which != 1 + (of - all) % (TYPES - 1)) continue;
                // Functions of the program make long ones slow.
                if (length == 2 && strstr(of->name, "own operation")) continue;
                // All kinds in turn.
                int kind = 1 + (int)(of - all + which + length) % (KINDS - 1);
                run(of, &a, type_names[which], kind, HOST);
                run(of, &a, type_names[which], HOST, kind);
                run(of, &a, type_names[which], kind, 1 + (int)(of - all + which) % (KINDS - 1));
            }
        }
        if (which) MPI_Type_free(&a.type);
    }
    CHECK(only || !are_counted() || counts_of_devices().copies > before + 100, "memory of devices was copied only %ld times",
          counts_of_devices().copies - before);
    if (all == transfers) MPI_File_close(&file);
    MPI_Op_free(&joined);
    MPI_Comm_free(&a.ring);
    return check_end();
}
