// Large and small messages between two processes for so many seconds (its first argument), both
// ways at once, each checked, and once more after so many seconds without any (its second); then so
// many seconds of rest (its third): for scenarios that cut or slow a network interface meanwhile
// (tests/cluster). Prints how many packets from outside of the job each process has refused.
#include "check.h"

enum { BYTES = 8 << 20, SMALL_COUNT = 8, TAG_LARGE = 1, TAG_SMALL = 2 };

static uint64_t word_of(int rank, int round, size_t index) {
    return ((uint64_t)(rank + 1) << 56) ^ ((uint64_t)round << 32) ^ index * 2654435761u;
}

static void fill(uint64_t *words, int rank, int round) {
    for (size_t i = 0; i < BYTES / sizeof *words; i++) words[i] = word_of(rank, round, i);
}

static void expect(const uint64_t *words, int rank, int round) {
    for (size_t i = 0; i < BYTES / sizeof *words; i++)
        REQUIRE(words[i] == word_of(rank, round, i), "round %d, word %zu is %llx", round, i,
                (unsigned long long)words[i]);
}

static void exchange(uint64_t *out, uint64_t *in, int peer, int round) {
    MPI_Request requests[2 + 2 * SMALL_COUNT];
    int sent[SMALL_COUNT], received[SMALL_COUNT], count = 0;
    OK(MPI_Irecv(in, BYTES, MPI_BYTE, peer, TAG_LARGE, MPI_COMM_WORLD, &requests[count++]));
    OK(MPI_Isend(out, BYTES, MPI_BYTE, peer, TAG_LARGE, MPI_COMM_WORLD, &requests[count++]));
    for (int i = 0; i < SMALL_COUNT; i++) {
        sent[i] = round * SMALL_COUNT + i;
        OK(MPI_Irecv(&received[i], 1, MPI_INT, peer, TAG_SMALL, MPI_COMM_WORLD, &requests[count++]));
        OK(MPI_Isend(&sent[i], 1, MPI_INT, peer, TAG_SMALL, MPI_COMM_WORLD, &requests[count++]));
    }
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < SMALL_COUNT; i++) CHECK_EQ(received[i], round * SMALL_COUNT + i);
}

static MPI_T_pvar_session session;
static MPI_T_pvar_handle refused;

static void count_refused(void) {
    int provided, index, count;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("refused", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &refused, &count));
    OK(MPI_T_pvar_start(session, refused));
}

static void tell_refused(void) {
    unsigned long long value = 0;
    OK(MPI_T_pvar_read(session, refused, &value));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    printf("rank %d has refused %llu\n", check_rank, value);
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(check_size == 2 && argc == 4, "two processes, and three numbers of seconds");
    const double seconds = atof(argv[1]), pause = atof(argv[2]), rest = atof(argv[3]);
    const int peer = 1 - check_rank;
    uint64_t *out = malloc(BYTES), *in = malloc(BYTES);
    REQUIRE(out && in, "no memory");
    count_refused();
    int round = 0, last = 0;
    const double start = MPI_Wtime();
    for (int is_over = 0; !last; round++) {
        last = is_over;
        if (last) usleep((useconds_t)(pause * 1e6));
        fill(out, check_rank, round);
        exchange(out, in, peer, round);
        expect(in, peer, round);
        is_over = MPI_Wtime() - start > seconds;
        OK(MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    if (check_rank == 0)
        printf("%d rounds of %d bytes both ways in %.1f s\n", round, BYTES, MPI_Wtime() - start);
    tell_refused();
    usleep((useconds_t)(rest * 1e6));
    free(out);
    free(in);
    return check_end();
}
