// All processes exchange checked messages with all others, in rounds each of which begins no
// earlier than its time. A process that fails meanwhile is left out from then on; the others report
// it and finish. The first argument says how they wait: "wait" by MPI_Waitall, "test" by testing
// each request, "probe" by probing for each message, "receive" by blocking calls. The second is the
// number of rounds, the third the minimum length of each in milliseconds. Runners kill processes
// meanwhile, or disturb their network: tests/cluster/outages, also for tests/scenarios.
#include "check.h"

enum { LARGE = 1 << 20, SIZES = 6, UNDERWAY = 10 };

static const int sizes[SIZES] = {8, LARGE, 1400, 60000, 0, 300000};

static char *out, **in;
static int *has_failed, failures;

// What a call that involves a peer has returned; whether it went well.
static int went_well(int code, int peer) {
    int class = class_of(code);
    if (class == MPI_SUCCESS) return 1;
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPI_ERR_PROC_ABORTED, "class %d from rank %d", class, peer);
    if (!has_failed[peer]) {
        has_failed[peer] = 1;
        failures++;
        printf("rank %d is told that rank %d has failed\n", check_rank, peer);
        fflush(stdout);
    }
    return 0;
}

static void wait_for_next_round(double begin) {
    double left = begin - MPI_Wtime();
    if (left > 0) usleep((useconds_t)(left * 1e6));
}

// Completes two requests for each peer: a receive and a send.
static void complete(const char *how, MPI_Request *requests) {
    if (!strcmp(how, "wait")) {
        MPI_Status statuses[2 * check_size];
        int code = MPI_Waitall(2 * check_size, requests, statuses);
        if (class_of(code) == MPI_SUCCESS) return;
        CHECK_EQ(class_of(code), MPI_ERR_IN_STATUS);
        for (int i = 0; i < 2 * check_size; i++) went_well(statuses[i].MPI_ERROR, i / 2);
        return;
    }
    for (int left = 1; left;) {
        left = 0;
        for (int i = 0; i < 2 * check_size; i++) {
            int done = 0, code;
            if (requests[i] == MPI_REQUEST_NULL) continue;
            code = MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
            if (went_well(code, i / 2) && !done) left = 1;
        }
    }
}

// Receives from a peer after the message was found there.
static void find(int peer, int bytes, int tag) {
    int found = 0;
    while (!found) {
        int code = MPI_Iprobe(peer, tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        if (!went_well(code, peer)) return;
    }
    went_well(MPI_Recv(in[peer], bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), peer);
}

static void exchange(const char *how, int round) {
    int bytes = sizes[round % SIZES];
    MPI_Request requests[2 * check_size];
    for (int i = 0; i < 2 * check_size; i++) requests[i] = MPI_REQUEST_NULL;
    int by_requests = !strcmp(how, "wait") || !strcmp(how, "test");
    pattern_fill(out, bytes, check_rank * 1000 + round);
    for (int peer = 0; peer < check_size; peer++) {
        if (peer == check_rank || has_failed[peer]) continue;
        if (by_requests)
            went_well(MPI_Irecv(in[peer], bytes, MPI_BYTE, peer, round, MPI_COMM_WORLD, &requests[2 * peer]), peer);
        went_well(MPI_Isend(out, bytes, MPI_BYTE, peer, round, MPI_COMM_WORLD, &requests[2 * peer + 1]), peer);
    }
    for (int peer = 0; peer < check_size && !by_requests; peer++) {
        if (peer == check_rank || has_failed[peer]) continue;
        if (!strcmp(how, "probe")) find(peer, bytes, round);
        else went_well(MPI_Recv(in[peer], bytes, MPI_BYTE, peer, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE), peer);
    }
    complete(by_requests ? how : "wait", requests);
    for (int peer = 0; peer < check_size; peer++)
        if (peer != check_rank && !has_failed[peer]) CHECK_PATTERN(in[peer], bytes, peer * 1000 + round);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    check_begin();
    int rounds = atoi(argv[2]), each = atoi(argv[3]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    out = malloc(LARGE);
    in = malloc(check_size * sizeof *in);
    has_failed = calloc(check_size, sizeof *has_failed);
    for (int peer = 0; peer < check_size; peer++) in[peer] = malloc(LARGE);
    double begin = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        wait_for_next_round(begin + round * each / 1000.0);
        exchange(argv[1], round);
        if (round == UNDERWAY) {
            printf("rank %d is underway\n", check_rank);
            fflush(stdout);
        }
    }
    printf("rank %d outlives %d\n", check_rank, failures);
    for (int peer = 0; peer < check_size; peer++) free(in[peer]);
    free(in);
    free(out);
    free(has_failed);
    return check_end();
}
