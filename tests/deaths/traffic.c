// Traffic of every kind between processes of one machine, of which some are killed in the middle
// of it. The others go on with each other, in the pairs without any recovery, and check all data.
//
//   traffic SEED
//
// All processes draw one plan from the seed: lengths, operations, and which processes are killed in
// which phase, how long after its beginning. A process that reaches the end prints that.
#include "../c/check.h"
#include "executioner.h"

enum { PHASES = 4, ROUNDS = 6, AT_ONCE = 6, LONGEST = 400000, PROCESSES_MAX = 8, OPERATIONS = 300 };

static uint64_t seed;
static unsigned char *sent[AT_ONCE * PROCESSES_MAX], *received[AT_ONCE * PROCESSES_MAX];

static int is_expected(int code) {
    int class = class_of(code);
    return class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING || class == MPIX_ERR_REVOKED;
}

// Whether a call succeeded; its error must be one of a failed process.
static int is_fine(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS) return 1;
    MPI_Error_string(code, text, &length);
    CHECK(is_expected(code), "%s: %s", what, text);
    return 0;
}

// In which phase this process is killed, and the descriptor of its executioner; at least two
// processes are left.
static int plan_death(int rank, int size, int *descriptor) {
    Random plan = random_from(seed);
    int deaths = 1 + random_below(&plan, size - 2), phase = -1, planned = 0;
    int is_victim[PROCESSES_MAX] = {0};
    while (planned < deaths) {
        int victim = random_below(&plan, size), in = random_below(&plan, PHASES);
        int delay_us = random_below(&plan, random_below(&plan, 2) ? 3000 : 60000);
        if (is_victim[victim]) continue;
        is_victim[victim] = 1;
        planned++;
        if (victim == rank) *descriptor = executioner(delay_us, SIGKILL), phase = in;
    }
    return phase;
}

// The length of a message, in all ways of copying: short ones, those in fragments or cells, those
// that are sent ahead through the pool, and long ones.
static int length_of(int phase, int round, int from, int to, int number) {
    Random plan = random_from((((seed * PHASES + phase) * ROUNDS + round) * 64 + from * 8 + to) * AT_ONCE + number);
    static const int most[] = {200, 12000, 65536, 65536, LONGEST};
    int kind = random_below(&plan, 5);
    return kind == 2 ? 65536 : 1 + random_below(&plan, most[kind]);
}

// Each pair of processes exchanges messages. Those with a process that was killed end with an
// error; all others arrive.
static void exchange_in_pairs(MPI_Comm comm, int phase, int is_failed[]) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[2][AT_ONCE * PROCESSES_MAX];
        for (int place = 0; place < AT_ONCE * PROCESSES_MAX; place++)
            requests[0][place] = requests[1][place] = MPI_REQUEST_NULL;
        for (int peer = 0; peer < size; peer++) {
            for (int number = 0; number < AT_ONCE && peer != rank && !is_failed[peer]; number++) {
                int place = peer * AT_ONCE + number, tag = round * AT_ONCE + number;
                int in = length_of(phase, round, peer, rank, number), out = length_of(phase, round, rank, peer, number);
                pattern_fill(sent[place], out, round * 31 + rank + number);
                is_fine(MPI_Irecv(received[place], in, MPI_BYTE, peer, tag, comm, &requests[0][place]), "MPI_Irecv");
                is_fine((number % 3 ? MPI_Isend : MPI_Issend)(sent[place], out, MPI_BYTE, peer, tag, comm, &requests[1][place]),
                        "MPI_Isend");
            }
        }
        for (int peer = 0; peer < size; peer++) {
            int fails = is_failed[peer];
            for (int number = 0; number < AT_ONCE && peer != rank && !is_failed[peer]; number++) {
                int place = peer * AT_ONCE + number, in = length_of(phase, round, peer, rank, number);
                // A call that failed has left no request.
                int arrived = requests[0][place] != MPI_REQUEST_NULL;
                arrived = is_fine(MPI_Wait(&requests[0][place], MPI_STATUS_IGNORE), "MPI_Wait") && arrived;
                if (arrived) CHECK_PATTERN(received[place], in, round * 31 + peer + number);
                int left = is_fine(MPI_Wait(&requests[1][place], MPI_STATUS_IGNORE), "MPI_Wait");
                fails |= !arrived || !left;
            }
            is_failed[peer] = fails;
        }
    }
}

// Operations on parts of others, under locks, until one fails. The remaining processes must not
// wait for a lock without end.
static int use_window(MPI_Comm comm, Random *plan, MPI_Info info) {
    int rank, size, code;
    long *part, own = 0, seen = -1, one = 1, last[PROCESSES_MAX] = {0};
    MPI_Win window;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    code = MPI_Win_allocate((size + 1) * sizeof *part, sizeof *part, info, comm, &part, &window);
    if (!is_fine(code, "MPI_Win_allocate")) return 0;
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    memset(part, 0, (size + 1) * sizeof *part);
    code = MPI_Barrier(comm);
    for (int number = 0; number < OPERATIONS && code == MPI_SUCCESS; number++) {
        int target = random_below(plan, size), kind = random_below(plan, 3);
        code = MPI_Win_lock(kind ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, window);
        if (code != MPI_SUCCESS) break;
        if (kind < 2) {
            own = number * 100L + rank;
            code = MPI_Put(&own, 1, MPI_LONG, target, rank, 1, MPI_LONG, window);
            if (code == MPI_SUCCESS) code = MPI_Win_flush(target, window);
            if (code == MPI_SUCCESS) code = MPI_Get(&seen, 1, MPI_LONG, target, rank, 1, MPI_LONG, window);
        } else {
            code = MPI_Fetch_and_op(&one, &seen, MPI_LONG, target, size, MPI_SUM, window);
        }
        int unlocked = MPI_Win_unlock(target, window);
        if (code == MPI_SUCCESS) code = unlocked;
        if (code != MPI_SUCCESS) break;
        if (kind < 2) CHECK_EQ(seen, own);
        else CHECK(seen >= last[target], "%ld after %ld", seen, last[target]);
        if (kind == 2) last[target] = seen + 1;
    }
    int fine = is_fine(code, "an operation of a window");
    if (!fine) MPIX_Comm_revoke(comm);
    return is_fine(MPI_Win_free(&window), "MPI_Win_free") && fine;
}

// Short collective operations, which use the board, until one fails.
static int use_board(MPI_Comm comm, Random *plan) {
    int rank, size, code = MPI_SUCCESS;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int number = 0; number < OPERATIONS && code == MPI_SUCCESS; number++) {
        int count = 1 + random_below(plan, random_below(plan, 2) ? 16 : 6000), root = random_below(plan, size);
        long *in = (long *)sent[0], *out = (long *)received[0];
        for (int i = 0; i < count; i++) in[i] = number + rank + i;
        switch (random_below(plan, 3)) {
        case 0:
            code = MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm);
            if (code == MPI_SUCCESS) CHECK_EQ(out[count - 1], size * (number + count - 1L) + size * (size - 1) / 2);
            break;
        case 1:
            code = MPI_Bcast(in, count, MPI_LONG, root, comm);
            if (code == MPI_SUCCESS) CHECK_EQ(in[count - 1], number + root + count - 1);
            break;
        default: code = MPI_Barrier(comm);
        }
    }
    int fine = is_fine(code, "a collective operation");
    if (!fine) MPIX_Comm_revoke(comm);
    return fine;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    seed = strtoull(argv[1], NULL, 0);
    check_begin();
    REQUIRE(check_size > 2 && check_size <= PROCESSES_MAX, "for 3 to 8 processes");
    int number = check_rank, descriptor = -1, dies_in = plan_death(number, check_size, &descriptor);
    for (int place = 0; place < AT_ONCE * PROCESSES_MAX; place++) sent[place] = malloc(LONGEST), received[place] = malloc(LONGEST);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    for (int phase = 0; phase < PHASES; phase++) {
        Random plan = random_from(seed * 1000003 + phase);
        int kind = random_below(&plan, 4), fine = 1, is_failed[PROCESSES_MAX] = {0};
        if (phase == dies_in && write(descriptor, "x", 1) != 1) return 1;
        if (kind < 2) exchange_in_pairs(comm, phase, is_failed);
        if (kind == 2) {
            MPI_Info info;
            MPI_Info_create(&info);
            fine = use_window(comm, &plan, info);
            MPI_Info_free(&info);
        }
        if (kind == 3) fine = use_board(comm, &plan);
        for (int peer = 0; peer < check_size; peer++) fine &= !is_failed[peer];
        if (MPIX_Comm_agree(comm, &fine) == MPI_SUCCESS && fine) continue;
        MPI_Comm left;
        CHECK_EQ(class_of(MPIX_Comm_shrink(comm, &left)), MPI_SUCCESS);
        MPI_Comm_free(&comm);
        comm = left;
    }
    printf("rank %d is done%s\n", number, check_failures ? " and has failures" : "");
    fflush(stdout);
    MPI_Comm_free(&comm);
    for (int place = 0; place < AT_ONCE * PROCESSES_MAX; place++) free(sent[place]), free(received[place]);
    return check_end();
}
