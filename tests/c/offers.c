// Messages whose receives were posted before the receiver began to compute: the sender, which
// waits, writes them into the receive buffers. Whatever other receives are posted, each message
// goes where the standard requires, and nothing is written where a receive was cancelled.
// run: 2 3
// each: single multiple
// timeout: 60
// hosts
// checkers: address threads
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 3 << 20, TAG = 5 };

static unsigned char *sent, *got[3];

static void fill(unsigned char *to, int bytes, int seed) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 10));
}

static void expect(const unsigned char *in, int bytes, int seed) {
    for (int i = 0; i < bytes; i++) CHECK_EQ(in[i], (unsigned char)(seed * 31 + i * 7 + (i >> 10)));
}

static void compute(int microseconds) {
    double end = MPI_Wtime() + microseconds * 1e-6;
    volatile double sum = 0;
    while (MPI_Wtime() < end)
        for (int i = 1; i < 100; i++) sum += 1.0 / i;
}

static void synchronize(void) { OK(MPI_Barrier(MPI_COMM_WORLD)); }

// Each of the two may compute, for a shorter or longer time, before it waits.
static void one(int bytes, int sender_computes, int receiver_computes, int seed) {
    MPI_Request request;
    synchronize();
    if (check_rank == 0) {
        fill(sent, bytes, seed);
        if (seed % 3 == 0) compute(30);
        OK(MPI_Isend(sent, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request));
        compute(sender_computes);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        memset(sent, 0, (size_t)bytes);
    } else if (check_rank == 1) {
        MPI_Status status;
        int count;
        OK(MPI_Irecv(got[0], LONGEST, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request));
        compute(receiver_computes);
        OK(MPI_Wait(&request, &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, bytes);
        expect(got[0], bytes, seed);
    }
}

// The receives of the second process, in this order, with their tags and lengths.
static void several(const int *tags, const int *room, const int *bytes, int count, int seed) {
    MPI_Request requests[3];
    synchronize();
    if (check_rank == 0) {
        for (int i = 0; i < count; i++) {
            fill(sent + i * (LONGEST / 3), bytes[i], seed + i);
            OK(MPI_Isend(sent + i * (LONGEST / 3), bytes[i], MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    } else if (check_rank == 1) {
        for (int i = 0; i < count; i++)
            OK(MPI_Irecv(got[i], room[i], MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : 0, tags[i], MPI_COMM_WORLD, &requests[i]));
        compute(200);
        OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < count; i++) expect(got[i], bytes[i], seed + i);
    }
}

// A receive that is cancelled gets the message, or leaves it to the next one.
static void cancelled(int bytes, int computes, int seed) {
    MPI_Request request;
    synchronize();
    if (check_rank == 0) {
        fill(sent, bytes, seed);
        compute(computes);
        OK(MPI_Send(sent, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
    } else if (check_rank == 1) {
        MPI_Status status;
        int was_cancelled;
        memset(got[0], 0xee, (size_t)bytes);
        OK(MPI_Irecv(got[0], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request));
        compute(30);
        OK(MPI_Cancel(&request));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &was_cancelled));
        if (was_cancelled) OK(MPI_Recv(got[1], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        expect(got[was_cancelled ? 1 : 0], bytes, seed);
        for (int i = 0; was_cancelled && i < bytes; i++) CHECK_EQ(got[0][i], 0xee);
    }
}

// The receiver waits for another message first, so that it polls and takes its offer back.
static void waits_for_another(int bytes, int seed) {
    MPI_Request request;
    int token = seed;
    synchronize();
    if (check_rank == 0) {
        fill(sent, bytes, seed);
        compute(seed % 2 * 100);
        OK(MPI_Send(&token, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD));
        OK(MPI_Send(sent, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
    } else if (check_rank == 1) {
        OK(MPI_Irecv(got[0], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request));
        OK(MPI_Recv(&token, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        compute(100);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        expect(got[0], bytes, seed);
    }
}

// A receive for which no call waits any more gets its message nevertheless.
static void given_up(int bytes, int seed) {
    MPI_Request request;
    int token = 0;
    synchronize();
    if (check_rank == 0) {
        fill(sent, bytes, seed);
        OK(MPI_Ssend(sent, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
        OK(MPI_Send(&token, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD));
    } else if (check_rank == 1) {
        OK(MPI_Irecv(got[0], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request));
        OK(MPI_Request_free(&request));
        compute(200);
        OK(MPI_Recv(&token, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        expect(got[0], bytes, seed);
    }
}

int main(int argc, char **argv) {
    int provided, wanted = argc > 1 && !strcmp(argv[1], "multiple") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    check_world();
    sent = malloc(LONGEST);
    for (int i = 0; i < 3; i++) got[i] = malloc(LONGEST);
    const int sizes[] = {65535, 65536, 65537, 300000, 1 << 20, LONGEST};
    for (int round = 0; round < 4; round++)
        for (int size = 0; size < 6; size++) {
            int seed = round * 10 + size;
            one(sizes[size], 0, 0, seed);
            one(sizes[size], 0, 500, seed);
            one(sizes[size], 500, 0, seed);
            one(sizes[size], 100 * round, 400 - 100 * round, seed);
            cancelled(sizes[size], 10 * seed, seed);
            waits_for_another(sizes[size], seed);
            given_up(sizes[size], seed);
        }
    const int any[] = {TAG, MPI_ANY_TAG, TAG}, same[] = {TAG, TAG, TAG};
    const int room[] = {1 << 20, 1 << 20, 1 << 20};
    const int longs[] = {1 << 20, 70000, 200000}, mixed[] = {8, 1 << 20, 65536}, shorts[] = {8, 100, 65536};
    const int *bytes[] = {longs, mixed, shorts};
    for (int round = 0; round < 10; round++)
        for (int kind = 0; kind < 3; kind++) {
            several(any, room, bytes[kind], 3, round);
            several(same, room, bytes[kind], 3, round);
            several(same, room, bytes[kind], 1, round);
        }
    free(sent);
    for (int i = 0; i < 3; i++) free(got[i]);
    return check_end();
}
