// Partitioned communication: partitions go early, both sides divide the data in their own way, any
// datatype, many rounds; matching in the order of the calls; null processes; wrong use.
// run: 1 2 3 5
// timeout: 60
// hosts
// checkers: address
#include "check.h"

#include <unistd.h>

enum { ROUNDS = 6 };

static int arrived(MPI_Request request, int partition) {
    int flag;
    OK(MPI_Parrived(request, partition, &flag));
    return flag;
}

static void await_partition(MPI_Request request, int partition) {
    while (!arrived(request, partition)) {}
}

// The numbers from 0 on, in some order.
static void shuffle(Random *random, int *order, int count) {
    for (int i = 0; i < count; i++) {
        int j = random_below(random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

// `parts` partitions of `count` ints to the next process, received as `others` partitions.
static void ring(Random *random, int parts, int others, int count) {
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    int total = parts * count, other_count = total / others, tag = random_below(random, 1000);
    int *out = malloc((size_t)total * sizeof *out + 1), *in = malloc((size_t)total * sizeof *in + 1);
    int *order = malloc((size_t)parts * sizeof *order);
    MPI_Request send, receive;
    MPI_Status status;
    OK(MPI_Psend_init(out, parts, count, MPI_INT, next, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, others, other_count, MPI_INT, before, tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &receive));
    CHECK(arrived(receive, 0), "nothing is awaited of an inactive request");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < total; i++) {
            out[i] = check_rank * 1000000 + round * 100000 + i;
            in[i] = -1;
        }
        shuffle(random, order, parts);
        MPI_Request both[2] = {receive, send};
        // Both orders of starting: data may arrive before the receive is started.
        if (random_below(random, 2)) OK(MPI_Barrier(MPI_COMM_WORLD));
        if (random_below(random, 2)) {
            OK(MPI_Startall(2, both));
            for (int i = 0; i < parts; i++) OK(MPI_Pready(order[i], send));
        } else {
            OK(MPI_Start(&send));
            for (int i = 0; i < parts; i++) OK(MPI_Pready_list(1, &order[i], send));
            OK(MPI_Start(&receive));
        }
        for (int part = 0; part < others; part++) {
            await_partition(receive, part);
            for (int i = part * other_count; i < (part + 1) * other_count; i++)
                REQUIRE(in[i] == before * 1000000 + round * 100000 + i, "round %d: %d at %d", round,
                        in[i], i);
        }
        OK(MPI_Wait(&receive, &status));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        int elements;
        OK(MPI_Get_count(&status, MPI_INT, &elements));
        CHECK_EQ(elements, total);
        CHECK_EQ(status.MPI_SOURCE, before);
        CHECK_EQ(status.MPI_TAG, tag);
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    CHECK(send == MPI_REQUEST_NULL, "freed");
    free(out);
    free(in);
    free(order);
}

// One buffer for many rounds: partitions become ready at once, soon after each other, late, or with
// progress in between, and the receiver tests each, tests some, or waits for all. The sender may be
// done before the receiver starts.
static void many_rounds(Random *random, int parts, int others, int count) {
    enum { MANY = 140 };
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    int total = parts * count, of_others = total / others;
    int *out = malloc((size_t)total * sizeof *out), *in = malloc((size_t)total * sizeof *in);
    int *order = malloc((size_t)parts * sizeof *order);
    MPI_Request send, receive;
    OK(MPI_Psend_init(out, parts, count, MPI_INT, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, others, of_others, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &receive));
    for (int round = 0; round < MANY; round++) {
        // Mostly one way for several rounds.
        static int way;
        if (random_below(random, 8) == 0) way = random_below(random, 5);
        shuffle(random, order, parts);
        memset(in, 0xff, (size_t)total * sizeof *in);
        int early = random_below(random, 2);
        if (early) OK(MPI_Start(&receive));
        OK(MPI_Start(&send));
        for (int i = 0; i < total; i++) out[i] = check_rank * 1000000 + round * 1000 + i;
        int half = random_below(random, parts + 1), flag;
        if (way == 0) OK(MPI_Pready_range(0, parts - 1, send));
        if (way == 1) {
            OK(MPI_Pready_list(half, order, send));
            OK(MPI_Pready_list(parts - half, order + half, send));
        }
        for (int i = 0; way > 1 && i < parts; i++) {
            if (way == 3 && i == half) OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
            if (way == 4 && i == half) usleep(50);
            OK(MPI_Pready(order[i], send));
        }
        // What has gone may be written, whatever the receiver has done.
        OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
        if (flag) memset(out, 0, (size_t)total * sizeof *out);
        MPI_Status status;
        if (!early) OK(MPI_Start(&receive));
        for (int part = random_below(random, 2) ? 0 : others; part < others; part++) {
            await_partition(receive, part);
            for (int i = part * of_others; i < (part + 1) * of_others; i++)
                REQUIRE(in[i] == before * 1000000 + round * 1000 + i, "round %d: %d at %d", round,
                        in[i], i);
        }
        OK(MPI_Wait(&receive, &status));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        int elements;
        OK(MPI_Get_count(&status, MPI_INT, &elements));
        CHECK_EQ(elements, total);
        for (int i = 0; i < total; i++)
            REQUIRE(in[i] == before * 1000000 + round * 1000 + i, "round %d: %d at %d", round,
                    in[i], i);
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    free(out);
    free(in);
    free(order);
}

// No call tests the operation any more when the last data arrive.
static void given_up(void) {
    int out[4], in[4], next = (check_rank + 1) % check_size;
    int before = (check_rank + check_size - 1) % check_size;
    MPI_Request send, receive;
    for (int round = 0; round < 4; round++) {
        OK(MPI_Psend_init(out, 4, 1, MPI_INT, next, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        OK(MPI_Precv_init(in, 2, 2, MPI_INT, before, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        OK(MPI_Start(&send));
        for (int i = 0; i < 4; i++) {
            out[i] = check_rank + round + i;
            int flag;
            if (i == 2) OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
            OK(MPI_Pready(i, send));
        }
        OK(MPI_Start(&receive));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&send));
        memset(out, 0xff, sizeof out);
        OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&receive));
        for (int i = 0; i < 4; i++) CHECK_EQ(in[i], before + round + i);
    }
}

// A partition is there before the next one is even ready, also a large one.
static void early(int count) {
    int *out = malloc(4 * (size_t)count * sizeof *out), *in = calloc(2 * (size_t)count, 2 * sizeof *in);
    int peer = check_rank ^ 1, is_sender = check_rank % 2 == 0;
    MPI_Request request;
    if (peer >= check_size) peer = check_rank;
    if (peer == check_rank) goto done;
    if (is_sender) {
        OK(MPI_Psend_init(out, 4, count, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        OK(MPI_Start(&request));
        for (int part = 0; part < 4; part++) {
            for (int i = 0; i < count; i++) out[part * count + i] = part + i;
            OK(MPI_Pready(part, request));
            // The receiver answers when it has seen what this completes for it: two to one.
            if (part % 2) OK(MPI_Recv(NULL, 0, MPI_INT, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    } else {
        OK(MPI_Precv_init(in, 2, 2 * count, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        OK(MPI_Start(&request));
        for (int half = 0; half < 2; half++) {
            for (int later = half; later < 2; later++)
                if (later > half) CHECK(!arrived(request, later), "it is not ready yet");
            await_partition(request, half);
            for (int i = 0; i < 2 * count; i++)
                REQUIRE(in[half * 2 * count + i] == half * 2 + i / count + i % count, "at %d", i);
            OK(MPI_Send(NULL, 0, MPI_INT, peer, 4, MPI_COMM_WORLD));
        }
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
done:
    free(out);
    free(in);
}

// The sender waits before the receiver tests its request again.
static void progress_elsewhere(void) {
    enum { COUNT = 100000 };
    static int out[2 * COUNT], in[2 * COUNT];
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Request send, receive;
    OK(MPI_Precv_init(in, 1, 2 * COUNT, MPI_INT, before, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&receive));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Psend_init(out, 2, COUNT, MPI_INT, next, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    for (int i = 0; i < 2 * COUNT; i++) out[i] = check_rank + i;
    OK(MPI_Start(&send));
    OK(MPI_Pready_range(0, 1, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2 * COUNT; i++) REQUIRE(in[i] == before + i, "at %d", i);
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

// Columns go out; triples with gaps come in, whose borders are not those of the partitions.
static void datatypes(void) {
    enum { ROWS = 12, COLUMNS = 4 };
    int out[ROWS][COLUMNS], in[16 * 5];
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Datatype column, one_column, gaps, triple;
    MPI_Request send, receive;
    OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column));
    OK(MPI_Type_create_resized(column, 0, sizeof(int), &one_column));
    OK(MPI_Type_commit(&one_column));
    int lengths[2] = {1, 2}, places[2] = {0, 2};
    OK(MPI_Type_indexed(2, lengths, places, MPI_INT, &gaps));
    OK(MPI_Type_create_resized(gaps, 0, 5 * sizeof(int), &triple));
    OK(MPI_Type_commit(&triple));
    for (int whole = 0; whole < 2; whole++) {
        // 48 ints: four partitions of 12 (four triples each), or 24 of 2 as bytes of columns.
        int halves = whole ? 4 : 24;
        int packed[ROWS * COLUMNS];
        if (whole)
            OK(MPI_Psend_init(out, COLUMNS, 1, one_column, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                              &send));
        else
            OK(MPI_Psend_init(packed, halves, 2, MPI_INT, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                              &send));
        OK(MPI_Precv_init(in, 8, 2, triple, before, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        for (int round = 0; round < 3; round++) {
            memset(in, 0xee, sizeof in);
            for (int i = 0; i < ROWS * COLUMNS; i++)
                packed[i] = out[i % ROWS][i / ROWS] = check_rank * 1000 + round * 100 + i;
            OK(MPI_Start(&receive));
            OK(MPI_Start(&send));
            for (int i = halves - 1; i >= 0; i--) OK(MPI_Pready(i, send));
            await_partition(receive, 7);
            CHECK_EQ(in[15 * 5 + 3], before * 1000 + round * 100 + 47);
            OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
            for (int i = 0; i < 16 * 5; i++) {
                int at = i % 5, gap = at == 1 || at == 4;
                int expected = before * 1000 + round * 100 + i / 5 * 3 + (at ? at - 1 : 0);
                REQUIRE(in[i] == (gap ? (int)0xeeeeeeee : expected), "whole %d: %d at %d", whole,
                        in[i], i);
            }
        }
        OK(MPI_Request_free(&send));
        OK(MPI_Request_free(&receive));
    }
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&one_column));
    OK(MPI_Type_free(&gaps));
    OK(MPI_Type_free(&triple));
}

// Equal envelopes match in the order of the calls, and ordinary messages do not meddle.
static void matching(void) {
    enum { PAIRS = 5 };
    int out[PAIRS][2], in[PAIRS][2], plain = check_rank, got = -1;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Request sends[PAIRS], receives[PAIRS], ordinary;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &ordinary));
    for (int i = 0; i < PAIRS; i++) {
        out[i][0] = out[i][1] = check_rank * 10 + i;
        OK(MPI_Psend_init(out[i], 2, 1, MPI_INT, next, 7, comm, MPI_INFO_NULL, &sends[i]));
        OK(MPI_Precv_init(in[i], 1, 2, MPI_INT, before, 7, comm, MPI_INFO_NULL, &receives[i]));
    }
    // A receive that is given up before it met its send takes that with it.
    OK(MPI_Request_free(&receives[1]));
    OK(MPI_Request_free(&sends[1]));
    OK(MPI_Comm_free(&comm));
    for (int i = PAIRS - 1; i >= 0; i--)
        if (i != 1) OK(MPI_Start(&sends[i]));
    for (int i = PAIRS - 1; i >= 0; i--)
        if (i != 1) OK(MPI_Pready_range(0, 1, sends[i]));
    for (int i = 0; i < PAIRS; i++)
        if (i != 1) OK(MPI_Start(&receives[i]));
    OK(MPI_Waitall(PAIRS, receives, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(PAIRS, sends, MPI_STATUSES_IGNORE));
    for (int i = 0; i < PAIRS; i++) {
        if (i == 1) continue;
        CHECK_EQ(in[i][0], before * 10 + i);
        CHECK_EQ(in[i][1], before * 10 + i);
        OK(MPI_Request_free(&sends[i]));
        OK(MPI_Request_free(&receives[i]));
    }
    CHECK_EQ(got, -1);
    OK(MPI_Cancel(&ordinary));
    OK(MPI_Wait(&ordinary, MPI_STATUS_IGNORE));
    (void)plain;
}

// To the process with this rank in the other group, and back.
static void between_groups(void) {
    MPI_Comm half, inter;
    MPI_Request requests[2];
    int upper = check_rank % 2, rank, remote, out[3], in[3];
    if (check_size < 2) return;
    OK(MPI_Comm_split(MPI_COMM_WORLD, upper, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !upper, 1, &inter));
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Comm_remote_size(inter, &remote));
    if (rank < remote) {
        OK(MPI_Psend_init(out, 3, 1, MPI_INT, rank, 0, inter, MPI_INFO_NULL, &requests[0]));
        OK(MPI_Precv_init(in, 1, 3, MPI_INT, rank, 0, inter, MPI_INFO_NULL, &requests[1]));
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 3; i++) out[i] = check_rank * 100 + round * 10 + i;
            OK(MPI_Startall(2, requests));
            OK(MPI_Pready_range(0, 2, requests[0]));
            OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < 3; i++) CHECK_EQ(in[i], (check_rank ^ 1) * 100 + round * 10 + i);
        }
        OK(MPI_Request_free(&requests[0]));
        OK(MPI_Request_free(&requests[1]));
    }
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

static void nobody(void) {
    int data[2] = {0}, index, flag;
    MPI_Request requests[2];
    MPI_Status status;
    OK(MPI_Psend_init(data, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(data, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Startall(2, requests));
    OK(MPI_Pready_range(0, 1, requests[0]));
    CHECK(arrived(requests[1], 1), "from nobody all is here");
    OK(MPI_Wait(&requests[1], &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    OK(MPI_Waitany(2, requests, &index, &status));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    OK(MPI_Parrived(MPI_REQUEST_NULL, 5, &flag));
    CHECK_EQ(flag, 1);
}

static void wrong_use(void) {
    int out[4] = {0}, in[4], flag, list[2] = {1, 7}, self = check_rank;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request send, receive, ordinary, small;
    EXPECT_ERROR(MPI_Psend_init(out, -1, 1, MPI_INT, 0, 0, world, MPI_INFO_NULL, &send),
                 MPI_ERR_ARG, "partitions", "-1");
    EXPECT_ERROR(MPI_Psend_init(out, 1, -2, MPI_INT, 0, 0, world, MPI_INFO_NULL, &send),
                 MPI_ERR_COUNT, "count", "-2");
    EXPECT_ERROR(MPI_Psend_init(NULL, 1, 1, MPI_INT, 0, 0, world, MPI_INFO_NULL, &send),
                 MPI_ERR_BUFFER, "buf", "null");
    EXPECT_ERROR(MPI_Psend_init(out, 1, 1, MPI_INT, 99, 0, world, MPI_INFO_NULL, &send),
                 MPI_ERR_RANK, "dest", "99");
    EXPECT_ERROR(MPI_Precv_init(in, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, world, MPI_INFO_NULL, &send),
                 MPI_ERR_RANK, "MPI_ANY_SOURCE");
    EXPECT_ERROR(MPI_Precv_init(in, 1, 1, MPI_INT, 0, MPI_ANY_TAG, world, MPI_INFO_NULL, &send),
                 MPI_ERR_TAG, "tag");
    OK(MPI_Psend_init(out, 4, 1, MPI_INT, self, 0, world, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, 2, 2, MPI_INT, self, 0, world, MPI_INFO_NULL, &receive));
    EXPECT_ERROR(MPI_Pready(0, send), MPI_ERR_REQUEST, "request", "not active");
    EXPECT_ERROR(MPI_Pready(0, receive), MPI_ERR_REQUEST, "request", "receives");
    EXPECT_ERROR(MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST, "request");
    EXPECT_ERROR(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST, "request", "sends");
    OK(MPI_Start(&send));
    EXPECT_ERROR(MPI_Start(&send), MPI_ERR_REQUEST, "active already");
    EXPECT_ERROR(MPI_Pready(4, send), MPI_ERR_ARG, "partition", "4", "0 to 3");
    EXPECT_ERROR(MPI_Pready(-1, send), MPI_ERR_ARG, "partition", "-1");
    EXPECT_ERROR(MPI_Pready_range(2, 4, send), MPI_ERR_ARG, "partition_high", "4");
    EXPECT_ERROR(MPI_Pready_range(2, 1, send), MPI_ERR_ARG, "partition_low", "2");
    EXPECT_ERROR(MPI_Pready_list(2, list, send), MPI_ERR_ARG, "array_of_partitions", "7");
    EXPECT_ERROR(MPI_Pready(1, send), MPI_ERR_ARG, "partition", "1", "already");
    EXPECT_ERROR(MPI_Cancel(&send), MPI_ERR_REQUEST, "cancelled");
    EXPECT_ERROR(MPI_Request_free(&send), MPI_ERR_REQUEST, "active");
    OK(MPI_Pready(0, send));
    OK(MPI_Pready_range(2, 3, send));
    OK(MPI_Start(&receive));
    EXPECT_ERROR(MPI_Parrived(receive, 2, &flag), MPI_ERR_ARG, "partition", "2", "0 to 1");
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&receive));
    OK(MPI_Request_free(&send));
    // Less room than data.
    OK(MPI_Psend_init(out, 2, 2, MPI_INT, self, 0, world, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, 3, 1, MPI_INT, self, 0, world, MPI_INFO_NULL, &small));
    OK(MPI_Start(&send));
    OK(MPI_Start(&small));
    OK(MPI_Pready_range(0, 1, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    EXPECT_ERROR(MPI_Wait(&small, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "partitions");
    OK(MPI_Request_free(&small));
    OK(MPI_Request_free(&send));
    OK(MPI_Send_init(out, 1, MPI_INT, self, 0, world, &ordinary));
    EXPECT_ERROR(MPI_Pready(0, ordinary), MPI_ERR_REQUEST, "not a partitioned");
    OK(MPI_Request_free(&ordinary));
}

int main(void) {
    check_begin();
    Random random = random_from(411);
    ring(&random, 1, 1, 1);
    ring(&random, 4, 4, 0);
    ring(&random, 4, 4, 3);
    ring(&random, 6, 4, 10);
    ring(&random, 4, 6, 30);
    ring(&random, 1, 7, 70);
    ring(&random, 64, 1, 1);
    ring(&random, 3, 5, 50000);
    ring(&random, 1000, 100, 2);
    many_rounds(&random, 4, 4, 4);
    many_rounds(&random, 6, 4, 20);
    many_rounds(&random, 4, 6, 30);
    many_rounds(&random, 1, 5, 100);
    many_rounds(&random, 32, 2, 100);
    given_up();
    early(1);
    early(100000);
    progress_elsewhere();
    datatypes();
    matching();
    nobody();
    between_groups();
    if (check_is_combray) wrong_use();
    return check_end();
}
