// Exchanges messages according to a random plan that all ranks know, and prints what it has sent:
// "sent RANK MESSAGES BYTES". The tags of these messages are 1000 and more. It also prints the
// time before each call of MPI_Topo_test, "clock RANK NANOSECONDS ...", to compare it with the
// clock of the trace.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TAG = 1000, BYTES_MAX = 200000, READINGS = 50 };

static char out[BYTES_MAX], in[BYTES_MAX];
static unsigned state = 12345;

static unsigned next(unsigned limit) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

int main(int argc, char **argv) {
    int provided, rank, size, rounds = argc > 1 ? atoi(argv[1]) : 200;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long messages = 0, bytes = 0;
    for (int round = 0; round < rounds; round++) {
        int from = (int)next(size), to = (int)next(size), way = (int)next(4), tag = TAG + (int)next(3);
        int length = (int)(next(8) ? next(300) : next(BYTES_MAX)), is_wild = (int)next(4) == 0;
        MPI_Request request = MPI_REQUEST_NULL;
        if (rank == to)
            MPI_Irecv(in, BYTES_MAX, MPI_CHAR, is_wild ? MPI_ANY_SOURCE : from, is_wild ? MPI_ANY_TAG : tag,
                      MPI_COMM_WORLD, &request);
        if (rank == from) {
            MPI_Request sending = MPI_REQUEST_NULL;
            if (way == 0 || from == to)
                MPI_Isend(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &sending);
            else if (way == 1)
                MPI_Ssend(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD);
            else
                MPI_Send(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD);
            MPI_Wait(&sending, MPI_STATUS_IGNORE);
            messages += from != to;
            bytes += from != to ? length : 0;
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (next(16) == 0)
            MPI_Allreduce(MPI_IN_PLACE, in, 10, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
        // A receive from any source must not get a message of a later round.
        if (is_wild)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    long long times[READINGS];
    for (int i = 0; i < READINGS; i++) {
        struct timespec now;
        int kind;
        clock_gettime(CLOCK_MONOTONIC, &now);
        times[i] = now.tv_sec * 1000000000LL + now.tv_nsec;
        MPI_Topo_test(MPI_COMM_WORLD, &kind);
    }
    char line[64 + READINGS * 24];
    int used = sprintf(line, "sent %d %ld %ld\nclock %d", rank, messages, bytes, rank);
    for (int i = 0; i < READINGS; i++)
        used += sprintf(line + used, " %lld", times[i]);
    puts(line);
    MPI_Finalize();
    return 0;
}
