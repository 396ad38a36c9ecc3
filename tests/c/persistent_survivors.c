// The last process fails while all make persistent collective operations: the others get an error,
// in the call that makes one, that starts it, or that completes it, and none hangs. First argument:
// "killed" (by a signal, under a launcher that keeps the job going: MPIX_ERR_PROC_FAILED) or
// "alone" (it ends after an error: MPI_ERR_PROC_ABORTED). Second one: "before", it never comes to
// the call in which the others are; "made", it fails when the operation is made; or a number of
// microseconds after which it is killed wherever it is. Third one: which kind of operation. Started
// by tests/scenarios.
// combray.h
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

enum { KINDS = 21, COUNT = 3000 };

static int last, wanted;
static MPI_Comm ring;
static long *given, *got;
static int counts[64], displacements[64], bytes[64];
static MPI_Datatype types[64];
static MPI_Aint places[64];

// An operation of a kind with so many elements for each process.
static int make(int kind, int n, MPI_Comm comm, MPI_Request *request) {
    MPI_Datatype type = MPI_LONG;
    MPI_Info info = MPI_INFO_NULL;
    for (int i = 0; i < 64; i++) {
        counts[i] = n, displacements[i] = i * n, bytes[i] = i * n * 8, places[i] = bytes[i], types[i] = type;
    }
    *request = MPI_REQUEST_NULL;
    switch (kind) {
    case 0: return MPI_Barrier_init(comm, info, request);
    case 1: return MPI_Bcast_init(given, n, type, 0, comm, info, request);
    case 2: return MPI_Gather_init(given, n, type, got, n, type, 0, comm, info, request);
    case 3: return MPI_Gatherv_init(given, n, type, got, counts, displacements, type, 0, comm, info, request);
    case 4: return MPI_Scatter_init(given, n, type, got, n, type, 0, comm, info, request);
    case 5: return MPI_Scatterv_init(given, counts, displacements, type, got, n, type, 0, comm, info, request);
    case 6: return MPI_Allgather_init(given, n, type, got, n, type, comm, info, request);
    case 7: return MPI_Allgatherv_init(given, n, type, got, counts, displacements, type, comm, info, request);
    case 8: return MPI_Alltoall_init(given, n, type, got, n, type, comm, info, request);
    case 9:
        return MPI_Alltoallv_init(given, counts, displacements, type, got, counts, displacements, type, comm, info,
                                  request);
    case 10: return MPI_Alltoallw_init(given, counts, bytes, types, got, counts, bytes, types, comm, info, request);
    case 11: return MPI_Reduce_init(given, got, n, type, MPI_SUM, 0, comm, info, request);
    case 12: return MPI_Allreduce_init(given, got, n, type, MPI_SUM, comm, info, request);
    case 13: return MPI_Reduce_scatter_init(given, got, counts, type, MPI_SUM, comm, info, request);
    case 14: return MPI_Reduce_scatter_block_init(given, got, n, type, MPI_SUM, comm, info, request);
    case 15: return MPI_Scan_init(given, got, n, type, MPI_SUM, comm, info, request);
    case 16: return MPI_Exscan_init(given, got, n, type, MPI_SUM, comm, info, request);
    case 17: return MPI_Neighbor_allgather_init(given, n, type, got, n, type, ring, info, request);
    case 18: return MPI_Neighbor_allgatherv_init(given, n, type, got, counts, displacements, type, ring, info, request);
    case 19: return MPI_Neighbor_alltoall_init(given, n, type, got, n, type, ring, info, request);
    default:
        return MPI_Neighbor_alltoallw_init(given, counts, places, types, got, counts, places, types, ring, info, request);
    }
}

// Makes, runs twice and frees one; the class of the first call that fails.
static int use(int kind, int n, MPI_Comm comm) {
    MPI_Request request;
    int class = class_of(make(kind, n, comm, &request));
    for (int run = 0; run < 2 && class == MPI_SUCCESS; run++) {
        class = class_of(MPI_Start(&request));
        if (class == MPI_SUCCESS) class = class_of(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    if (request != MPI_REQUEST_NULL) CHECK_EQ(class_of(MPI_Request_free(&request)), MPI_SUCCESS);
    return class;
}

static void end_it(const char *how) {
    if (!strcmp(how, "killed")) raise(SIGKILL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ABORT);
    MPI_Send(NULL, 0, MPI_BYTE, 77, 0, MPI_COMM_SELF);
    CHECK(0, "the rank goes on after its error");
}

// A process that only contributes, or only exchanges with live neighbours, may succeed, but an
// error must be this one.
static void is_reported(int class, int must) {
    CHECK(class == wanted || (!must && class == MPI_SUCCESS), "rank %d got class %d", check_rank, class);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    check_begin();
    last = check_size - 1;
    wanted = strcmp(argv[1], "killed") ? MPI_ERR_PROC_ABORTED : MPIX_ERR_PROC_FAILED;
    const char *when = argv[2];
    int kind = argc > 3 ? atoi(argv[3]) : 0;
    given = calloc(COUNT * check_size, 8), got = calloc(COUNT * check_size, 8);
    MPI_Comm comm, left;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank == last, check_rank, &left);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, (int[]){1}, 0, &ring);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    if (!strcmp(when, "before")) {
        MPI_Barrier(comm);
        if (check_rank == last) {
            usleep(50000);
            end_it(argv[1]);
        }
        // On a machine the making waits for all, elsewhere the first run may.
        is_reported(use(kind, 10, comm), kind == 0 || kind == 6 || kind == 12);
        is_reported(use(0, 10, comm), 1);
    } else if (!strcmp(when, "made")) {
        MPI_Request request;
        CHECK_EQ(make(kind, COUNT, comm, &request), MPI_SUCCESS);
        if (check_rank == last) end_it(argv[1]);
        int class = class_of(MPI_Start(&request));
        if (class == MPI_SUCCESS) class = class_of(MPI_Wait(&request, MPI_STATUS_IGNORE));
        is_reported(class, kind == 0 || kind == 6 || kind == 12);
        CHECK_EQ(class_of(MPI_Request_free(&request)), MPI_SUCCESS);
        is_reported(use(0, 10, comm), 1);
    } else {
        MPI_Barrier(comm);
        if (check_rank == last) {
            struct itimerval soon = {.it_value.tv_usec = atoi(when)};
            signal(SIGALRM, SIG_DFL);
            setitimer(ITIMER_REAL, &soon, NULL);
        }
        // On this communicator, and on new ones, which get their board with the first operation.
        int class = MPI_SUCCESS;
        for (int i = 0; class == MPI_SUCCESS; i++) {
            class = use(i % KINDS, i % 5 ? i % 50 : COUNT, comm);
            MPI_Comm fresh = MPI_COMM_NULL;
            if (class == MPI_SUCCESS) class = class_of(MPI_Comm_dup(comm, &fresh));
            if (class == MPI_SUCCESS) class = use(i % 17, 3, fresh);
            if (fresh != MPI_COMM_NULL) MPI_Comm_free(&fresh);
        }
        is_reported(class, 1);
    }
    // Those that are left make some, and use them.
    long sum = 0, mine = check_rank;
    MPI_Request request;
    CHECK_EQ(class_of(MPI_Allreduce_init(&mine, &sum, 1, MPI_LONG, MPI_SUM, left, MPI_INFO_NULL, &request)), MPI_SUCCESS);
    for (int run = 0; run < 3; run++) {
        CHECK_EQ(class_of(MPI_Start(&request)), MPI_SUCCESS);
        CHECK_EQ(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_SUCCESS);
        CHECK_EQ(sum, last * (last - 1) / 2);
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&ring);
    MPI_Comm_free(&left);
    free(given);
    free(got);
    printf("rank %d survives\n", check_rank);
    return check_end();
}
