// Messages between memory of devices of two processes of one machine: the receiver reads the
// sender's memory by a handle, whatever the memory comes from, and the data goes through the
// processor's memory where there is no handle. Memory that is allocated and freed again leaves
// nothing open.
// run: 2
// each: kinds many
// timeout: 120
// one machine: handles of memory are valid on one machine
// preload: libcuda.so.1.c
#include "devices.h"

enum { LONG = 1 << 20 };

// Whether a handle of memory of the kind can be had, as the driver's documentation says.
static int is_shared(int kind) {
#ifdef HANDLES_OF_HIP
    return kind == DEVICE || kind == SECOND_DEVICE;
#else
    return kind == DEVICE || kind == SECOND_DEVICE || kind == MAPPED || kind == SHARED_POOL;
#endif
}

static void fill(int *memory, int count, int seed) {
    for (int i = 0; i < count; i++) memory[i] = (int)(i * 2654435761u >> 7) + seed;
}

// Sends both ways at once; returns how many copies between devices this process made.
static long exchange(int send_kind, int receive_kind, int count, MPI_Datatype type, int seed) {
    int peer = 1 - check_rank, size;
    MPI_Aint low, extent;
    MPI_Type_get_extent(type, &low, &extent);
    MPI_Type_size(type, &size);
    size_t room = (size_t)extent * count;
    int *expected = malloc(room), *values = malloc(room);
    void *from = device_memory(send_kind, room), *into = device_memory(receive_kind, room);
    fill(values, room / 4, seed + check_rank);
    fill(expected, room / 4, seed + peer);
    device_set(send_kind, from, values, room);
    memset(values, 0, room);
    device_set(receive_kind, into, values, room);
    long before = counts_of_devices().direct;
    MPI_Request requests[2];
    OK(MPI_Irecv(into, count, type, peer, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(from, count, type, peer, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    long direct = counts_of_devices().direct - before;
    device_get(receive_kind, values, into, room);
    int is_plain = size == extent, wrong = 0;
    for (size_t i = 0; i < room / 4; i++)
        if ((is_plain || i % 2 == 0) ? values[i] != expected[i] : values[i] != 0) wrong++;
    CHECK(wrong == 0, "%d elements from %s to %s: %d are wrong", count, kind_names[send_kind],
          kind_names[receive_kind], wrong);
    device_free(send_kind, from);
    device_free(receive_kind, into);
    free(expected);
    free(values);
    return direct;
}

static void kinds(void) {
    MPI_Datatype every_second, elements;
    MPI_Type_create_resized(MPI_INT, 0, 8, &every_second);
    MPI_Type_contiguous(1, every_second, &elements);
    MPI_Type_commit(&elements);
    // The scenarios of devices set these.
    int may_refuse = !are_counted() || getenv("FAKE_DEVICE_FAIL") || getenv("FAKE_DEVICE_PEERS") || getenv("COMBRAY_SINGLE_COPY");
    for (int send = 0; send < KINDS; send++)
        for (int receive = 0; receive < KINDS; receive++) {
            long direct = exchange(send, receive, LONG / 4, MPI_INT, send * KINDS + receive);
            int is_direct = is_shared(send) && is_on_device(receive) && receive != MANAGED;
            if (!may_refuse && is_direct)
                CHECK(direct > 0, "from %s to %s no device was read", kind_names[send], kind_names[receive]);
            if (!is_shared(send)) CHECK_EQ(direct, 0);
            exchange(send, receive, 1000, MPI_INT, 7);
            exchange(send, receive, LONG / 8, elements, 11);
        }
    MPI_Type_free(&elements);
    MPI_Type_free(&every_second);
}

// Each message has memory of its own, which then goes to the next allocation.
static void many(void) {
    exchange(DEVICE, DEVICE, LONG / 4, MPI_INT, 1);
    device_counts before = counts_of_devices();
    // DEVICES_ROUNDS=50000 makes 100,000 allocations in both processes.
    int rounds = getenv("DEVICES_ROUNDS") ? atoi(getenv("DEVICES_ROUNDS")) : 2000;
    // All of them: one that is written to memory that both processes share, as messages of this
    // length are now and then to find the faster way, would have copied it in the call.
    int unread = 0, last = 0;
    for (int round = 0; round < rounds; round++) {
        void *memory = device_memory(DEVICE, 80000);
        int value = round + check_rank, seen;
        device_set(DEVICE, (char *)memory + 76000, &value, sizeof value);
        if (check_rank == 0) {
            OK(MPI_Send(memory, 20000, MPI_INT, 1, 1, MPI_COMM_WORLD));
        } else {
            long direct = counts_of_devices().direct;
            OK(MPI_Recv(memory, 20000, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (counts_of_devices().direct == direct) unread++, last = round;
            device_get(DEVICE, &seen, (char *)memory + 76000, sizeof seen);
            REQUIRE(seen == round, "message %d has the data of message %d", round, seen);
        }
        device_free(DEVICE, memory);
    }
    device_counts after = counts_of_devices();
    CHECK(after.imports <= 64, "%ld handles are open", after.imports);
    CHECK(after.events - before.events <= 64, "there are %ld events", after.events);
    CHECK(after.streams <= 6, "there are %ld streams", after.streams);
    if (check_rank == 1 && are_counted() && !getenv("FAKE_DEVICE_FAIL"))
        CHECK(unread == 0, "%d messages were not read from the device, the last is %d", unread, last);
}

// Waits in vain after messages, so that a report of the job is made (scenarios/devices.py).
static void hang(void) {
    void *memory = device_memory(DEVICE, LONG);
    for (int round = 0; round < 2; round++) {
        if (check_rank == 0) OK(MPI_Send(memory, LONG / 4, MPI_INT, 1, 1, MPI_COMM_WORLD));
        else OK(MPI_Recv(memory, LONG / 4, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    OK(MPI_Recv(memory, LONG / 4, MPI_INT, 1 - check_rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    check_begin();
    devices_begin();
    if (argc > 1 && !strcmp(argv[1], "many")) many();
    else if (argc > 1 && !strcmp(argv[1], "hang")) hang();
    else kinds();
    return check_end();
}
