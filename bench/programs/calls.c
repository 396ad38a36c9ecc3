/*
 * Single calls, for bench/instructions to count their instructions under callgrind.
 *
 *   calls             as one process: each case so many times, then twice as many, a dump for both
 *   calls FILE        as two processes: a dump for each call. They take turns through FILE, beside
 *                     the library, so that a call finds what it would else wait for.
 *
 * The name of a dump is that of the case; alone also how many times it ran.
 */
#include <mpi.h>
#include <valgrind/callgrind.h>

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 7, TOGETHER = 32, WARM_UP = 300, TIMES = 1000, TURNS = 40, NAME_MAX_BYTES = 64 };

static MPI_Comm comm;
static int self, peer;
static long long sent[TOGETHER], received[TOGETHER];

static void nothing(void) {}

static void isend_recv_wait(void)
{
    MPI_Request request;
    MPI_Isend(sent, 8, MPI_BYTE, self, TAG, comm, &request);
    MPI_Recv(received, 8, MPI_BYTE, self, TAG, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void many_waitall(void)
{
    MPI_Request requests[2 * TOGETHER];
    for (int i = 0; i < TOGETHER; i++)
        MPI_Irecv(received + i, 8, MPI_BYTE, self, TAG, comm, requests + i);
    for (int i = 0; i < TOGETHER; i++)
        MPI_Isend(sent + i, 8, MPI_BYTE, self, TAG, comm, requests + TOGETHER + i);
    MPI_Waitall(2 * TOGETHER, requests, MPI_STATUSES_IGNORE);
}

static void send_one(void) { MPI_Send(sent, 8, MPI_BYTE, peer, TAG, comm); }

static void receive_one(void)
{
    MPI_Recv(received, 8, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE);
}

static void barrier(void) { MPI_Barrier(comm); }
static void broadcast(void) { MPI_Bcast(sent, 8, MPI_BYTE, 0, comm); }

static void allreduce(void)
{
    MPI_Allreduce(sent, received, 1, MPI_INT64_T, MPI_SUM, comm);
}

static void reduce(void) { MPI_Reduce(sent, received, 1, MPI_INT64_T, MPI_SUM, 0, comm); }

static void reduce_scatter(void)
{
    static const int counts[] = {1, 1};
    MPI_Reduce_scatter(sent, received, counts, MPI_INT64_T, MPI_SUM, comm);
}

static const struct {
    const char *name;
    void (*run)(void);
} alone[] = {
    {"nothing", nothing},
    {"isend_recv_wait", isend_recv_wait},
    {"32_irecv_32_isend_waitall", many_waitall},
    {"barrier", barrier},
    {"bcast", broadcast},
    {"allreduce", allreduce},
    {"reduce", reduce},
    {"reduce_scatter", reduce_scatter},
};

/* In each turn one process goes first, and the other after it. What the first does is counted only
 * if it does not wait for the other. Messages go there and back, as only a process that receives
 * learns how to send in the shortest way. */
static const struct {
    const char *first_name, *second_name;
    void (*first)(void), (*second)(void);
    int goes_first;
    bool swaps;
} turns[] = {
    {"nothing", "nothing", nothing, nothing, 0, true},
    {"send", "recv", send_one, receive_one, 0, true},
    {NULL, "barrier", barrier, barrier, 0, false},
    {"bcast, root", "bcast, other", broadcast, broadcast, 0, false},
    {NULL, "allreduce", allreduce, allreduce, 0, false},
    {"reduce, other", "reduce, root", reduce, reduce, 1, false},
    {NULL, "reduce_scatter", reduce_scatter, reduce_scatter, 0, false},
};

enum { ALONE = sizeof alone / sizeof alone[0], CASES = sizeof turns / sizeof turns[0] };

static void run_alone(void)
{
    for (int i = 0; i < ALONE; i++)
        for (int times = TIMES; times <= 2 * TIMES; times += TIMES) {
            for (int k = 0; k < WARM_UP; k++)
                alone[i].run();
            char name[NAME_MAX_BYTES];
            snprintf(name, sizeof name, "%s %d", alone[i].name, times);
            CALLGRIND_ZERO_STATS;
            for (int k = 0; k < times; k++)
                alone[i].run();
            CALLGRIND_DUMP_STATS_AT(name);
        }
}

/* How far each process is, in FILE. */
static _Atomic long *reached;

static void reach(long step) { atomic_store(reached + self, step); }

static void await(long step)
{
    while (atomic_load(reached + peer) < step)
        sched_yield();
}

/* Without a name it is only run. */
static void count_once(const char *name, void (*run)(void))
{
    CALLGRIND_ZERO_STATS;
    run();
    if (name)
        CALLGRIND_DUMP_STATS_AT(name);
}

static bool is_first(int i, int turn)
{
    return self == (turns[i].goes_first + (turns[i].swaps ? turn : 0)) % 2;
}

static void run_turns(void)
{
    long step = 0;
    for (int i = 0; i < CASES; i++) {
        for (int k = 0; k < WARM_UP; k++)
            (is_first(i, k) ? turns[i].first : turns[i].second)();
        for (int k = 0; k < TURNS; k++) {
            step += 2;
            bool waits = turns[i].first_name == NULL;
            if (is_first(i, k)) {
                if (waits)
                    reach(step - 1);
                count_once(turns[i].first_name, turns[i].first);
                reach(step - 1);
            } else {
                await(step - 1);
                /* Nothing tells when the first waits inside its call; it has time to get there, and
                 * a turn in which it came later has more instructions than count. */
                if (waits)
                    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
                count_once(turns[i].second_name, turns[i].second);
            }
            reach(step);
            await(step);
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    peer = 1 - self;
    if (size != argc || size > 2) {
        fprintf(stderr, "usage: calls, or mpirun -n 2 calls FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    comm = size == 1 ? MPI_COMM_SELF : MPI_COMM_WORLD;
    if (size == 1) {
        run_alone();
    } else {
        int file = open(argv[1], O_RDWR);
        reached = file < 0 ? MAP_FAILED
                           : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (reached == MAP_FAILED) {
            perror(argv[1]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        run_turns();
    }
    MPI_Finalize();
}
