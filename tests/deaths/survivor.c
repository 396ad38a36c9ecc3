// A random program that survives failures: rounds of random operations, in which processes die at
// random moments. The survivors revoke, shrink, agree on the round to go on with, and finish.
//
//   survivor SEED ROUNDS           under a launcher that keeps the job going
//   survivor SEED ROUNDS spared    no process dies by the plan
//
// All processes draw one plan from the seed: operations, sizes, and which processes die, when and
// how. If an operation succeeds at a process, its result is checked there. A process that reaches
// the end prints that.
#include "../c/check.h"
#include "executioner.h"
#include <sys/wait.h>
#include <time.h>

enum { LARGE = 1 << 18, AGREED_EVERY = 5 };

static int number, rounds;
static uint64_t seed;
static long *in, *out;

static int is_expected(int code) {
    int class = class_of(code);
    return class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING || class == MPIX_ERR_REVOKED ||
           class == MPI_ERR_IN_STATUS;
}

static void leave(int signal_number) {
    (void)signal_number;
    _exit(3);
}

static const int signals[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGUSR1};

// Which of `size` processes die, when and how; returns the descriptor to which the start of the job
// is reported, or -1.
static int plan_death(int rank, int size) {
    Random plan = random_from(seed);
    int deaths = random_below(&plan, size), own = -1;
    for (int i = 0; i < deaths; i++) {
        int victim = random_below(&plan, size), how = random_below(&plan, 4);
        // At once, together with others, or while these recover.
        int delay_us = random_below(&plan, 2) ? random_below(&plan, 30000) : random_below(&plan, 1500000);
        if (victim == rank && own < 0) own = executioner(delay_us, signals[how]);
    }
    return own;
}

// Of each round: a collective operation of another kind than those of operation().
static int collective(MPI_Comm comm, int which, int count, int root, long base) {
    int rank, size, code;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (count > LARGE / 64) count = LARGE / 64;
    for (int i = 0; i < count * size; i++) in[i] = base + rank;
    long first = base * size + (long)size * (size - 1) / 2;
    MPI_Request request;
    switch (which) {
    case 0:
        code = MPI_Reduce(in, out, count, MPI_LONG, MPI_SUM, root, comm);
        if (code == MPI_SUCCESS && rank == root) CHECK_EQ(out[count - 1], first);
        return code;
    case 1:
        code = MPI_Gather(in, count, MPI_LONG, out, count, MPI_LONG, root, comm);
        if (code == MPI_SUCCESS && rank == root) CHECK_EQ(out[count * size - 1], base + size - 1);
        return code;
    case 2:
        code = MPI_Scatter(in, count, MPI_LONG, out, count, MPI_LONG, root, comm);
        if (code == MPI_SUCCESS) CHECK_EQ(out[count - 1], base + root);
        return code;
    case 3:
        code = MPI_Alltoall(in, count, MPI_LONG, out, count, MPI_LONG, comm);
        if (code == MPI_SUCCESS) CHECK_EQ(out[count * size - 1], base + size - 1);
        return code;
    case 4:
        code = MPI_Scan(in, out, count, MPI_LONG, MPI_MAX, comm);
        if (code == MPI_SUCCESS) CHECK_EQ(out[count - 1], base + rank);
        return code;
    case 5:
        code = MPI_Reduce_scatter_block(in, out, count, MPI_LONG, MPI_SUM, comm);
        if (code == MPI_SUCCESS) CHECK_EQ(out[count - 1], first);
        return code;
    default:
        code = MPI_Ibarrier(comm, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    }
}

// Of each round: something is made of the communicator, used, and freed.
static int creation(MPI_Comm comm, int which, int next, long base) {
    int rank, size, code, freed = MPI_SUCCESS;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm made;
    MPI_Win window;
    if (which < 2) {
        code = which ? MPI_Comm_split(comm, rank % 2, rank, &made) : MPI_Comm_dup(comm, &made);
        if (code != MPI_SUCCESS) return code;
        MPI_Request request;
        code = MPI_Ibarrier(made, &request);
        while (code == MPI_SUCCESS && request != MPI_REQUEST_NULL) {
            int done, is_revoked;
            code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            // By one that could not make it, and does not come.
            MPIX_Comm_is_revoked(comm, &is_revoked);
            if (is_revoked && code == MPI_SUCCESS && !done) MPIX_Comm_revoke(made);
        }
        if (code != MPI_SUCCESS) MPIX_Comm_revoke(made);
        MPI_Comm_free(&made);
        return code;
    }
    in[0] = -1, out[0] = base + rank;
    code = MPI_Win_create(in, 8, 8, MPI_INFO_NULL, comm, &window);
    if (code != MPI_SUCCESS) return code;
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    if (which == 2) {
        code = MPI_Win_fence(0, window);
        if (code == MPI_SUCCESS) code = MPI_Put(out, 1, MPI_LONG, next, 0, 1, MPI_LONG, window);
        if (code == MPI_SUCCESS) code = MPI_Win_fence(0, window);
        if (code == MPI_SUCCESS) CHECK(in[0] >= base && in[0] < base + size, "%ld came", in[0]);
    } else {
        code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window);
        if (code == MPI_SUCCESS) code = MPI_Accumulate(out, 1, MPI_LONG, next, 0, 1, MPI_LONG, MPI_MAX, window);
        if (code == MPI_SUCCESS) code = MPI_Win_unlock(next, window);
    }
    if (code != MPI_SUCCESS) MPIX_Comm_revoke(comm);
    freed = MPI_Win_free(&window);
    return code == MPI_SUCCESS ? freed : code;
}

// One operation of the plan; its results are checked if the call succeeded.
static int operation(MPI_Comm comm, int round) {
    Random plan = random_from(seed * 1000003 + round);
    int rank, size, code;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int count = 1 << random_below(&plan, 18), root = random_below(&plan, 1 << 20) % size;
    int shift = 1 + random_below(&plan, 1 << 20) % (size > 1 ? size - 1 : 1);
    int next = (rank + shift) % size, before = (rank + size - shift % size) % size;
    if (count > LARGE) count = LARGE;
    long base = round * 7L;
    MPI_Request requests[2];
    int kind = random_below(&plan, 18);
    if (kind >= 7 && kind < 14) return collective(comm, kind - 7, count, root, base);
    if (kind >= 14) return creation(comm, kind - 14, next, base);
    switch (kind) {
    case 0:
        for (int i = 0; i < count; i++) in[i] = base + rank + i;
        code = MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm);
        if (code == MPI_SUCCESS)
            for (int i = 0; i < count; i += 1 + count / 64)
                CHECK_EQ(out[i], size * (base + i) + (long)size * (size - 1) / 2);
        return code;
    case 1:
        if (rank == root) pattern_fill(in, count * 8, base);
        code = MPI_Bcast(in, count, MPI_LONG, root, comm);
        if (code == MPI_SUCCESS) CHECK_PATTERN(in, count * 8, base);
        return code;
    case 2: return MPI_Barrier(comm);
    case 3:
        pattern_fill(in, count * 8, base + rank);
        // The round is the tag, as a process that receives from any source may be in an earlier
        // round.
        code = MPI_Sendrecv(in, count, MPI_LONG, next, round, out, count, MPI_LONG, before, round, comm,
                            MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS) CHECK_PATTERN(out, count * 8, base + before);
        return code;
    case 4: {
        pattern_fill(in, count * 8, base + rank);
        code = MPI_Irecv(out, count, MPI_LONG, MPI_ANY_SOURCE, round, comm, &requests[0]);
        if (code != MPI_SUCCESS) return code;
        code = MPI_Issend(in, count, MPI_LONG, next, round, comm, &requests[1]);
        if (code == MPI_SUCCESS) {
            MPI_Status status;
            code = MPI_Wait(&requests[0], &status);
            if (code == MPI_SUCCESS) {
                CHECK_EQ(status.MPI_SOURCE, before);
                CHECK_PATTERN(out, count * 8, base + before);
            }
            if (code != MPI_SUCCESS) MPIX_Comm_revoke(comm);
            int sent = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            if (code == MPI_SUCCESS) code = sent;
        } else {
            MPIX_Comm_revoke(comm);
        }
        // The failure of any process may have interrupted it; the communicator is revoked now.
        while (requests[0] != MPI_REQUEST_NULL) {
            int again = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            CHECK(again == MPI_SUCCESS || is_expected(again), "class %d", class_of(again));
            if (requests[0] != MPI_REQUEST_NULL) MPIX_Comm_failure_ack(comm);
        }
        return code;
    }
    case 5:
        for (int i = 0; i < count; i++) in[i] = base + rank;
        code = MPI_Iallreduce(in, out, count, MPI_LONG, MPI_MAX, comm, &requests[0]);
        if (code != MPI_SUCCESS) return code;
        code = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS) CHECK_EQ(out[count - 1], base + size - 1);
        return code;
    default:
        if (count > LARGE / 64) count = LARGE / 64;
        pattern_fill(in, count * 8, base + rank);
        code = MPI_Allgather(in, count, MPI_LONG, out, count, MPI_LONG, comm);
        if (code == MPI_SUCCESS)
            for (int other = 0; other < size; other++) CHECK_PATTERN(out + other * count, count * 8, base + other);
        return code;
    }
}

// A communicator of those that are left, and the round that the slowest of them is in.
static MPI_Comm recover(MPI_Comm comm, int *round) {
    for (;;) {
        MPI_Comm left;
        CHECK_EQ(MPIX_Comm_revoke(comm), MPI_SUCCESS);
        int code = MPIX_Comm_shrink(comm, &left);
        CHECK_EQ(class_of(code), MPI_SUCCESS);
        MPI_Comm_free(&comm);
        comm = left;
        int slowest;
        int fine = MPI_Allreduce(round, &slowest, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS;
        if (!fine) MPIX_Comm_revoke(comm);
        // All go on, or all try again.
        if (MPIX_Comm_agree(comm, &fine) == MPI_SUCCESS && fine) {
            *round = slowest;
            return comm;
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    seed = strtoull(argv[1], NULL, 0);
    rounds = atoi(argv[2]);
    signal(SIGUSR1, leave);
    signal(SIGSEGV, SIG_DFL);
    check_begin();
    number = check_rank;
    in = calloc(LARGE, 8);
    out = calloc(LARGE, 8);
    int start = argc > 3 ? -1 : plan_death(number, check_size);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    if (start >= 0 && write(start, "x", 1) != 1) return 1;
    for (int round = 0; round < rounds;) {
        int code = operation(comm, round);
        int fine = code == MPI_SUCCESS;
        if (!fine && !is_expected(code)) {
            char text[MPI_MAX_ERROR_STRING];
            int length;
            MPI_Error_string(code, text, &length);
            CHECK(0, "round %d: %s", round, text);
        }
        if (!fine) MPIX_Comm_revoke(comm);
        round++;
        if (!fine || round % AGREED_EVERY == 0 || round == rounds) {
            if (!fine) round--;
            int all = fine;
            if (MPIX_Comm_agree(comm, &all) != MPI_SUCCESS || !all) comm = recover(comm, &round);
        }
    }
    printf("rank %d is done%s\n", number, check_failures ? " and has failures" : "");
    fflush(stdout);
    MPI_Comm_free(&comm);
    free(in);
    free(out);
    return check_end();
}
