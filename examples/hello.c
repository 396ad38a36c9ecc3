// Who runs where, over which transport, and how fast: a plain MPI program.
//
//     mpicc -O2 hello.c -o hello && mpirun -n 4 ./hello
//
// Nothing in it knows Combray but one info key, "combray_transport", which other libraries lack.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATENCY_ROUNDS = 2000, BANDWIDTH_ROUNDS = 20, BANDWIDTH_BYTES = 4 << 20 };

typedef struct {
    char host[MPI_MAX_PROCESSOR_NAME];
    char cores[64];
    int pid;
} Place;

// The cores that this process may use, as ranges: "0-1,4".
static void write_cores(char *text, size_t size) {
    cpu_set_t set;
    size_t used = 0;
    text[0] = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    for (int core = 0; core < CPU_SETSIZE && used < size; core++) {
        if (!CPU_ISSET(core, &set)) continue;
        int last = core;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) last++;
        used += snprintf(text + used, size - used, last > core ? "%s%d-%d" : "%s%d",
                         used ? "," : "", core, last);
        core = last;
    }
}

static void write_transport(char *text, int size) {
    MPI_Info info;
    int found = 0, length = size;
    MPI_Comm_get_info(MPI_COMM_WORLD, &info);
    MPI_Info_get_string(info, "combray_transport", &length, text, &found);
    MPI_Info_free(&info);
    if (!found) snprintf(text, size, "unknown");
}

// Seconds for one message of this size one way, between rank 0 and the other.
static double one_way_seconds(char *buffer, int bytes, int rounds, int other) {
    int rank;
    double start = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int peer = rank == 0 ? other : 0;
    // A few rounds first that do not count: the ways are made on first use.
    for (int i = -10; i < rounds; i++) {
        if (i == 0) start = MPI_Wtime();
        if (rank == 0) MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank != 0) MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) / rounds / 2;
}

static void show_header(int size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING], transport[64];
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    write_transport(transport, sizeof transport);
    printf("%d process%s, %s, transport: %s\n\n", size, size == 1 ? "" : "es", version, transport);
    printf("%5s  %-20s %8s  %-10s %14s %16s\n", "rank", "host", "pid", "cores", "latency to 0",
           "bandwidth to 0");
}

static void show_rank(int rank, const Place *place, double latency, double bandwidth) {
    printf("%5d  %-20.20s %8d  %-10s ", rank, place->host, place->pid, place->cores);
    if (rank == 0)
        printf("%14s %16s\n", "-", "-");
    else
        printf("%11.2f us %11.2f GB/s\n", latency * 1e6, bandwidth / 1e9);
}

int main(int argc, char **argv) {
    int rank, size, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    Place mine, *places = malloc(size * sizeof *places);
    memset(&mine, 0, sizeof mine);
    MPI_Get_processor_name(mine.host, &length);
    write_cores(mine.cores, sizeof mine.cores);
    mine.pid = getpid();
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, places, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);

    if (rank == 0) {
        show_header(size);
        show_rank(0, &places[0], 0, 0);
    }
    char *buffer = calloc(1, BANDWIDTH_BYTES);
    for (int other = 1; other < size; other++) {
        // Pairs take turns, so that they do not disturb each other.
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != 0 && rank != other) continue;
        double latency = one_way_seconds(buffer, 8, LATENCY_ROUNDS, other);
        double large = one_way_seconds(buffer, BANDWIDTH_BYTES, BANDWIDTH_ROUNDS, other);
        if (rank == 0) show_rank(other, &places[other], latency, BANDWIDTH_BYTES / large);
    }
    free(buffer);
    free(places);
    MPI_Finalize();
    return 0;
}
