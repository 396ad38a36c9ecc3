// Packed messages: express and cheaper segments of all sizes, several messages at once, any source,
// beside messages of MPI on one communicator.
// run: 1 2 3 4
// timeout: 60
// combray.h
// hosts
// checkers: address
#include "check.h"

#include <combray.h>

static const size_t sizes[] = {0,    1,    4,    64,   1000, 4095,  4096,  4097,   5000,
                               8100, 8180, 8181, 8192, 8193, 20000, 65536, 300000, 1 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int next_rank, previous_rank;

// To the next process, from the one before; the first segments and the last ones with other modes.
static void all_sizes_and_modes(void) {
    static unsigned char out[SIZES][1 << 20], in[SIZES][1 << 20];
    for (int modes = 0; modes < 16; modes++) {
        combray_message sent, received;
        MPI_Request requests[2];
        MPI_Status statuses[2];
        size_t total = 0;
        OK(combray_begin(MPI_COMM_WORLD, next_rank, modes, &sent));
        for (int i = 0; i < SIZES; i++) {
            pattern_fill(out[i], sizes[i], (uint64_t)(check_rank * 100 + i + modes));
            int mode = modes >> (2 * (i % 2)) & 1 ? COMBRAY_EXPRESS : COMBRAY_CHEAPER;
            OK(combray_pack(sent, out[i], sizes[i], mode));
            total += sizes[i];
        }
        OK(combray_end(&sent, &requests[0]));
        CHECK(sent == COMBRAY_MESSAGE_NULL, "the variable stays");
        OK(combray_begin_unpack(MPI_COMM_WORLD, previous_rank, modes, &received));
        memset(in, 0x55, sizeof in);
        for (int i = 0; i < SIZES; i++) {
            int mode = modes >> (2 * (i % 2) + 1) & 1 ? COMBRAY_EXPRESS : COMBRAY_CHEAPER;
            OK(combray_unpack(received, in[i], sizes[i], mode));
            if (mode == COMBRAY_EXPRESS)
                CHECK_PATTERN(in[i], sizes[i], (uint64_t)(previous_rank * 100 + i + modes));
        }
        OK(combray_end_unpack(&received, &requests[1], MPI_STATUS_IGNORE));
        CHECK(received == COMBRAY_MESSAGE_NULL, "the variable stays");
        OK(MPI_Waitall(2, requests, statuses));
        for (int i = 0; i < SIZES; i++)
            CHECK_PATTERN(in[i], sizes[i], (uint64_t)(previous_rank * 100 + i + modes));
        int count;
        OK(MPI_Get_count(&statuses[1], MPI_BYTE, &count));
        CHECK_EQ(count, total);
        CHECK_EQ(statuses[1].MPI_SOURCE, previous_rank);
        CHECK_EQ(statuses[1].MPI_TAG, modes);
    }
}

// A length that is needed to allocate.
static void length_first(void) {
    for (int round = 0; round < 50; round++) {
        combray_message sent, received;
        MPI_Request request;
        MPI_Status status;
        int length = (round * round * 37 + check_rank) % 50000, told = -1;
        unsigned char *out = malloc((size_t)length + 1);
        pattern_fill(out, (size_t)length, (uint64_t)round);
        OK(combray_begin(MPI_COMM_WORLD, next_rank, 3, &sent));
        OK(combray_pack(sent, &length, sizeof length, COMBRAY_EXPRESS));
        OK(combray_pack(sent, out, (size_t)length, COMBRAY_CHEAPER));
        OK(combray_end(&sent, &request));
        OK(combray_begin_unpack(MPI_COMM_WORLD, previous_rank, MPI_ANY_TAG, &received));
        OK(combray_unpack(received, &told, sizeof told, COMBRAY_EXPRESS));
        CHECK_EQ(told, (round * round * 37 + previous_rank) % 50000);
        unsigned char *in = malloc((size_t)told + 1);
        OK(combray_unpack(received, in, (size_t)told, COMBRAY_CHEAPER));
        OK(combray_end_unpack(&received, NULL, &status));
        CHECK_PATTERN(in, (size_t)told, (uint64_t)round);
        CHECK_EQ(status.MPI_TAG, 3);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        free(out);
        free(in);
    }
}

// Messages with one tag, ended in another order than begun.
static void order_of_beginning(void) {
    enum { OPEN = 6 };
    static char large[OPEN][100000];
    combray_message messages[OPEN], received;
    MPI_Request requests[OPEN];
    for (int i = 0; i < OPEN; i++) {
        memset(large[i], i, sizeof large[i]);
        OK(combray_begin(MPI_COMM_WORLD, next_rank, 5, &messages[i]));
        if (i % 2) OK(combray_pack(messages[i], &i, sizeof i, COMBRAY_CHEAPER));
    }
    int values[OPEN];
    for (int k = OPEN - 1; k >= 0; k--) {
        int i = (k * 5 + 2) % OPEN;
        values[i] = i;
        if (i % 2 == 0) OK(combray_pack(messages[i], &values[i], sizeof i, COMBRAY_EXPRESS));
        OK(combray_pack(messages[i], large[i], sizeof large[i], COMBRAY_CHEAPER));
        OK(combray_end(&messages[i], &requests[i]));
    }
    for (int i = 0; i < OPEN; i++) {
        static char in[100000];
        int value = -1;
        OK(combray_begin_unpack(MPI_COMM_WORLD, previous_rank, 5, &received));
        OK(combray_unpack(received, &value, sizeof value, COMBRAY_EXPRESS));
        CHECK_EQ(value, i);
        OK(combray_unpack(received, in, sizeof in, COMBRAY_CHEAPER));
        OK(combray_end_unpack(&received, NULL, MPI_STATUS_IGNORE));
        CHECK(in[0] == i && !memcmp(in, large[i], sizeof in), "message %d", i);
    }
    OK(MPI_Waitall(OPEN, requests, MPI_STATUSES_IGNORE));
}

// All send to process 0, which queries the source and answers.
static void any_source(void) {
    enum { ROUNDS = 20 };
    if (check_rank == 0) {
        int *seen = calloc((size_t)check_size, sizeof *seen);
        for (int i = 0; i < ROUNDS * (check_size - 1); i++) {
            combray_message question, answer;
            MPI_Status status;
            double number = 0;
            OK(combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, MPI_ANY_TAG, &question));
            OK(combray_await(question, &status));
            OK(combray_unpack(question, &number, sizeof number, COMBRAY_EXPRESS));
            OK(combray_end_unpack(&question, NULL, MPI_STATUS_IGNORE));
            CHECK_EQ(status.MPI_TAG, seen[status.MPI_SOURCE]++);
            CHECK_EQ(number, status.MPI_SOURCE * 1000 + status.MPI_TAG);
            number *= 2;
            OK(combray_begin(MPI_COMM_WORLD, status.MPI_SOURCE, status.MPI_TAG, &answer));
            OK(combray_pack(answer, &number, sizeof number, COMBRAY_CHEAPER));
            OK(combray_end(&answer, NULL));
        }
        free(seen);
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        combray_message question, answer;
        double number = check_rank * 1000 + i, twice = 0;
        int flag = 7;
        OK(combray_begin_unpack(MPI_COMM_WORLD, 0, i, &answer));
        OK(combray_arrived(answer, &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(flag, 0);
        OK(combray_begin(MPI_COMM_WORLD, 0, i, &question));
        OK(combray_pack(question, &number, sizeof number, COMBRAY_EXPRESS));
        OK(combray_end(&question, NULL));
        while (!flag) OK(combray_arrived(answer, &flag, MPI_STATUS_IGNORE));
        OK(combray_unpack(answer, &twice, sizeof twice, COMBRAY_CHEAPER));
        OK(combray_end_unpack(&answer, NULL, MPI_STATUS_IGNORE));
        CHECK_EQ(twice, 2 * number);
    }
}

// One tag in MPI, in packed messages and in messages of segments: they never match each other.
static void beside_mpi(void) {
    enum { MESSAGES = 8 };
    MPI_Request requests[4 * MESSAGES + MESSAGES];
    MPI_Status statuses[4 * MESSAGES + MESSAGES];
    int out[3][MESSAGES], in[3][MESSAGES], n = 0;
    char parts[MESSAGES][2][6];
    for (int i = 0; i < MESSAGES; i++) {
        combray_message message;
        int *from = &out[0][i];
        out[0][i] = 1000 + i, out[1][i] = 2000 + i, out[2][i] = 3000 + i;
        OK(MPI_Isend(&out[1][i], 1, MPI_INT, next_rank, 0, MPI_COMM_WORLD, &requests[n++]));
        OK(combray_begin(MPI_COMM_WORLD, next_rank, 0, &message));
        OK(combray_pack(message, from, sizeof *from, COMBRAY_CHEAPER));
        OK(combray_end(&message, &requests[n++]));
        memcpy(parts[i][0], "123456", 6);
        combray_segment list[] = {{&out[2][i], 2}, {NULL, 0}, {(char *)&out[2][i] + 2, 2}};
        OK(combray_isend(MPI_COMM_WORLD, next_rank, 0, list, 3, &requests[n++]));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < MESSAGES; i++) {
        combray_message message;
        OK(combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, MPI_ANY_TAG, &message));
        OK(combray_unpack(message, &in[0][i], sizeof(int), COMBRAY_CHEAPER));
        OK(combray_end_unpack(&message, &requests[n++], MPI_STATUS_IGNORE));
        combray_segment list[] = {{&in[2][i], 1}, {(char *)&in[2][i] + 1, 3}, {parts[i][1], 6}};
        OK(combray_irecv(MPI_COMM_WORLD, MPI_ANY_SOURCE, MPI_ANY_TAG, list, 3, &requests[n++]));
    }
    for (int i = 0; i < MESSAGES; i++)
        OK(MPI_Recv(&in[1][i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    OK(MPI_Waitall(n, requests, statuses));
    for (int i = 0; i < MESSAGES; i++)
        for (int k = 0; k < 3; k++) CHECK_EQ(in[k][i], out[k][i]);
    for (int i = 3 * MESSAGES; i < n; i++) {
        int count;
        OK(MPI_Get_count(&statuses[i], MPI_BYTE, &count));
        CHECK_EQ(count, 4);
        CHECK_EQ(statuses[i].MPI_SOURCE, previous_rank);
    }
}

// To the process itself, to MPI_PROC_NULL, and in a communicator of another order.
static void other_peers(void) {
    combray_message sent, received;
    MPI_Request request;
    MPI_Status status;
    static char out[200000], in[200000];
    int value = 9, got = 0;
    pattern_fill(out, sizeof out, 1);
    OK(combray_begin(MPI_COMM_SELF, 0, 1, &sent));
    OK(combray_pack(sent, &value, sizeof value, COMBRAY_EXPRESS));
    OK(combray_pack(sent, out, sizeof out, COMBRAY_CHEAPER));
    OK(combray_end(&sent, &request));
    OK(combray_begin_unpack(MPI_COMM_SELF, MPI_ANY_SOURCE, 1, &received));
    OK(combray_unpack(received, &got, sizeof got, COMBRAY_EXPRESS));
    CHECK_EQ(got, 9);
    OK(combray_unpack(received, in, sizeof in, COMBRAY_CHEAPER));
    OK(combray_end_unpack(&received, NULL, &status));
    CHECK_EQ(status.MPI_SOURCE, 0);
    CHECK_PATTERN(in, sizeof in, 1);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

    OK(combray_begin(MPI_COMM_WORLD, MPI_PROC_NULL, 1, &sent));
    OK(combray_pack(sent, out, sizeof out, COMBRAY_CHEAPER));
    OK(combray_end(&sent, NULL));
    OK(combray_begin_unpack(MPI_COMM_WORLD, MPI_PROC_NULL, MPI_ANY_TAG, &received));
    got = 5;
    OK(combray_unpack(received, &got, sizeof got, COMBRAY_EXPRESS));
    CHECK_EQ(got, 5);
    OK(combray_end_unpack(&received, NULL, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);

    if (check_size > 1) {
        // Between two groups: ranks are those of the other one.
        MPI_Comm half, between;
        int side = check_rank % 2, peers;
        OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half));
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 0, &between));
        OK(MPI_Comm_remote_size(between, &peers));
        MPI_Request sends[4];
        for (int i = 0; i < peers; i++) {
            OK(combray_begin(between, i, side, &sent));
            OK(combray_pack(sent, &check_rank, sizeof check_rank, COMBRAY_EXPRESS));
            OK(combray_pack(sent, out, sizeof out, COMBRAY_CHEAPER));
            OK(combray_end(&sent, &sends[i]));
        }
        for (int i = 0; i < peers; i++) {
            OK(combray_begin_unpack(between, i, MPI_ANY_TAG, &received));
            OK(combray_unpack(received, &got, sizeof got, COMBRAY_EXPRESS));
            OK(combray_unpack(received, in, sizeof in, COMBRAY_CHEAPER));
            OK(combray_end_unpack(&received, NULL, &status));
            CHECK_EQ(got, 2 * i + 1 - side);
            CHECK_EQ(status.MPI_TAG, 1 - side);
            CHECK_PATTERN(in, sizeof in, 1);
        }
        OK(MPI_Waitall(peers, sends, MPI_STATUSES_IGNORE));
        OK(MPI_Comm_free(&half));
        OK(MPI_Comm_free(&between));
    }

    MPI_Comm turned;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &turned));
    int rank;
    OK(MPI_Comm_rank(turned, &rank));
    OK(combray_begin(turned, (rank + 1) % check_size, 1, &sent));
    OK(combray_pack(sent, &check_rank, sizeof check_rank, COMBRAY_CHEAPER));
    OK(combray_end(&sent, NULL));
    OK(combray_begin_unpack(turned, MPI_ANY_SOURCE, 1, &received));
    // Freed here, it lives until its last message is over.
    OK(MPI_Comm_free(&turned));
    OK(combray_unpack(received, &got, sizeof got, COMBRAY_CHEAPER));
    OK(combray_end_unpack(&received, NULL, &status));
    CHECK_EQ(status.MPI_SOURCE, (rank + check_size - 1) % check_size);
    CHECK_EQ(got, next_rank);
}

int main(void) {
    check_begin();
    next_rank = (check_rank + 1) % check_size;
    previous_rank = (check_rank + check_size - 1) % check_size;
    all_sizes_and_modes();
    length_first();
    order_of_beginning();
    // Messages of another part must not be there yet, where any would do.
    OK(MPI_Barrier(MPI_COMM_WORLD));
    any_source();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    beside_mpi();
    other_peers();
    return check_end();
}
