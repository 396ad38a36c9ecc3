// A program over libfabric's provider of TCP, between machines that are emulated on the loopback
// interface. Messages of all lengths, from all to all, many short ones, and collective operations;
// then one that is late, so that its receiver sleeps. Without libfabric it is skipped.
//
// run: 2 3
// library: libfabric.so.1 libfabric1
// combray.h
#include "check.h"

#include <combray.h>
#include <unistd.h>

enum { LONGEST = 300000 };

// Each process takes a machine of its own, and libfabric, before MPI begins.
static void name_machine(void) {
    const char *rank = getenv("COMBRAY_RANK");
    REQUIRE(rank, "the launcher tells the rank");
    char node[32];
    snprintf(node, sizeof node, "machine%s", rank);
    setenv("COMBRAY_NODE", node, 1);
    setenv("COMBRAY_NET", "ofi:tcp:lo", 1);
}

static void check_rails(void) {
    int count;
    char name[64] = "";
    OK(combray_rails(&count));
    CHECK(count == 3, "%d rails, not the process's own, that of the machine, and libfabric's", count);
    OK(combray_rail_name(count - 1, name, sizeof name));
    CHECK(!strcmp(name, "ofi:tcp:lo"), "the rail between machines is %s", name);
}

// Each process sends to all, itself included, and receives in another order.
static void check_messages(int length) {
    unsigned char *out = malloc((size_t)check_size * LONGEST), *in = malloc((size_t)check_size * LONGEST);
    MPI_Request *requests = malloc(2 * (size_t)check_size * sizeof *requests);
    REQUIRE(out && in && requests, "no memory");
    for (int to = 0; to < check_size; to++) {
        memset(out + to * LONGEST, check_rank * 16 + to + length % 7, (size_t)length);
        MPI_Isend(out + to * LONGEST, length, MPI_BYTE, to, length, MPI_COMM_WORLD, &requests[to]);
    }
    for (int from = check_size - 1; from >= 0; from--)
        MPI_Irecv(in + from * LONGEST, length, MPI_BYTE, from, length, MPI_COMM_WORLD, &requests[check_size + from]);
    MPI_Waitall(2 * check_size, requests, MPI_STATUSES_IGNORE);
    for (int from = 0; from < check_size; from++)
        for (int at = 0; at < length; at++)
            REQUIRE(in[from * LONGEST + at] == (unsigned char)(from * 16 + check_rank + length % 7),
                    "byte %d of %d from %d", at, length, from);
    free(out);
    free(in);
    free(requests);
}

// Many short messages to one process, more than can be underway at one time.
static void check_many(void) {
    enum { MANY = 2000 };
    for (int number = 0; number < MANY; number++) {
        if (check_rank > 0) MPI_Send(&number, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        for (int from = 1; !check_rank && from < check_size; from++) {
            int got;
            MPI_Recv(&got, 1, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            REQUIRE(got == number, "message %d from %d is %d", number, from, got);
        }
    }
}

// The receiver sleeps when the message comes, and is woken by it.
static void check_late(void) {
    for (int turn = 0; turn < 20; turn++) {
        char byte = (char)turn;
        if (check_rank == 0) {
            usleep(20000);
            MPI_Send(&byte, 1, MPI_CHAR, 1, 4, MPI_COMM_WORLD);
        }
        if (check_rank == 1) {
            MPI_Recv(&byte, 1, MPI_CHAR, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(byte == turn, "message %d is %d", turn, byte);
        }
    }
}

int main(void) {
    name_machine();
    check_begin();
    if (check_is_combray) check_rails();
    static const int lengths[] = {0, 1, 8, 1000, 16384, 16385, 40000, LONGEST};
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) check_messages(lengths[at]);
    check_many();
    check_late();
    int sum = 0, one = check_rank + 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == check_size * (check_size + 1) / 2, "the sum is %d", sum);
    return check_end();
}
