/* How much of a message's time passes beside computation, without any call of MPI in between.
 *
 *     mpicc -O2 overlap.c -o overlap -lm && mpirun -n 2 ./overlap [BYTES [ROUNDS [REPETITIONS]]]
 *
 * Processes exchange messages of BYTES in pairs, first alone (`messages`), then with a computation that takes as long as they did
 * alone (`both`):
 *
 *     isend-irecv  MPI_Irecv and MPI_Isend, the computation, MPI_Waitall
 *     receiver     the receiver computes between MPI_Irecv and MPI_Wait, the sender waits
 *     sender       the sender computes between MPI_Isend and MPI_Wait, the receiver waits
 *     ialltoall    MPI_Ialltoall of all processes, the computation, MPI_Wait
 *     iallreduce   MPI_Iallreduce, the computation, MPI_Wait
 *
 * The second figure of `both` is its time less that of the computation alone: zero if all of the communication ran beside it. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"

enum { ISEND_IRECV, RECEIVER, SENDER, IALLTOALL, IALLREDUCE, CASES };
static const char *const NAMES[] = {"isend-irecv", "receiver", "sender", "ialltoall", "iallreduce"};

static int bytes, numbers, partner;
static double *sent, *received, *work, work_sum;
enum { WORK = 4096 };

/* Whether this process computes while the message is underway. */
static int computes(int way) {
    return way == RECEIVER ? rank > partner : way == SENDER ? rank < partner : 1;
}

/* The computation: in the first-level cache, the same steps each time. */
static void compute(long steps) {
    for (long step = 0; step < steps; step++) {
        for (int i = 0; i < WORK; i++) work[i] = work[i] * 0.999 + 0.001;
        work_sum += work[step % WORK];
    }
}

static void communicate(int way, long steps) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int sends = rank < partner;
    if (way == ISEND_IRECV || ((way == RECEIVER || way == SENDER) && !sends))
        MPI_Irecv(received, numbers, MPI_DOUBLE, partner, way, MPI_COMM_WORLD, &requests[0]);
    if (way == ISEND_IRECV || ((way == RECEIVER || way == SENDER) && sends))
        MPI_Isend(sent, numbers, MPI_DOUBLE, partner, way, MPI_COMM_WORLD, &requests[1]);
    if (way == IALLTOALL)
        MPI_Ialltoall(sent, numbers / size, MPI_DOUBLE, received, numbers / size, MPI_DOUBLE, MPI_COMM_WORLD, &requests[0]);
    if (way == IALLREDUCE) MPI_Iallreduce(sent, received, numbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    if (computes(way)) compute(steps);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static double value_of(int process, int i) {
    return process + (i % 1000) * 0.5;
}

/* Whether a process has received what it must have. */
static double wrong_numbers(int way) {
    double wrong = 0;
    if ((way == RECEIVER || way == SENDER) && rank < partner) return 0;
    int each = way == IALLTOALL ? numbers / size : 1;
    for (int i = 0; i < (way == IALLTOALL ? each * size : numbers); i++) {
        double expected = value_of(partner, i);
        if (way == IALLTOALL) expected = value_of(i / each, rank * each + i % each);
        if (way == IALLREDUCE) expected = size * value_of(0, i) + size * (size - 1) / 2.0;
        wrong += received[i] != expected;
    }
    return wrong;
}

/* Seconds of `rounds` rounds of a way with so many steps of computation in each. */
static double measure(int way, int rounds, long steps) {
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    for (int round = 0; round < rounds; round++) communicate(way, steps);
    return study_over_all(MPI_Wtime() - started, MPI_MAX);
}

/* Those of the computation alone, by the processes that compute. */
static double measure_work(int way, int rounds, long steps) {
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    for (int round = 0; round < rounds && computes(way); round++) compute(steps);
    return study_over_all(MPI_Wtime() - started, MPI_MAX);
}

static void run(int way, int rounds) {
    char name[64];
    memset(received, 0, (size_t)numbers * sizeof *received);
    measure(way, 2, 0);
    double alone = measure(way, rounds, 0);
    long steps = 1;
    for (double spent = 0; spent < alone && steps < (1L << 40); steps *= 2) spent = measure_work(way, rounds, 2 * steps);
    /* The last trial took at least as long as the messages: take the right part of it. */
    double spent = measure_work(way, rounds, steps);
    steps = (long)ceil((double)steps * alone / spent);
    spent = measure_work(way, rounds, steps);
    double both = measure(way, rounds, steps);
    snprintf(name, sizeof name, "%dK/%s/messages", bytes / 1024, NAMES[way]);
    study_case(name, alone, alone);
    snprintf(name, sizeof name, "%dK/%s/both", bytes / 1024, NAMES[way]);
    study_case(name, both, both > spent ? both - spent : 0);
    study_verify(NAMES[way], wrong_numbers(way), 0);
}

int main(int argc, char **argv) {
    study_begin("overlap", &argc, &argv, MPI_THREAD_SINGLE);
    bytes = study_number(argc, argv, 1, 1 << 20);
    int rounds = study_number(argc, argv, 2, 50);
    int repetitions = study_number(argc, argv, 3, 1);
    numbers = bytes / (int)sizeof *sent;
    study_need(size % 2 == 0 && numbers >= size && rounds && repetitions,
               "overlap [BYTES [ROUNDS [REPETITIONS]]]: an even number of processes, at least eight bytes for each of them");
    partner = rank ^ 1;
    sent = study_allocate((size_t)numbers, sizeof *sent);
    received = study_allocate((size_t)numbers, sizeof *received);
    work = study_allocate(WORK, sizeof *work);
    for (int i = 0; i < numbers; i++) sent[i] = value_of(rank, i);
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int way = 0; way < CASES; way++) run(way, rounds);
    study_verify("work", work_sum >= 0 ? 0 : 1, 0);
    free(sent);
    free(received);
    free(work);
    return study_end();
}
