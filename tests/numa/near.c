// Run by guest.sh on a machine with four NUMA nodes and an interface near nodes 0 and 2: four
// processes that take themselves to be on two machines, each process on a node of its own or free
// to choose. Each prints what it finds: its rank, its nearest rail, where that is, where the helper
// may run, where the library's buffers lie, and how many are nearest to that interface. With an
// argument: how neighbours in a ring lie.
#define _GNU_SOURCE
#include <combray.h>
#include <dirent.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1000 };

// The value of a line of a file that begins with `key`.
static void line_of(const char *path, const char *key, char *value) {
    char line[LINE];
    FILE *file = fopen(path, "r");
    value[0] = 0;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) sscanf(line + strlen(key), "%99s", value);
    if (file) fclose(file);
}

// Where the thread of the library may run.
static void helper(char *threads) {
    char path[400], name[100];
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    strcpy(threads, "none");
    while (tasks && (task = readdir(tasks))) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        line_of(path, "Name:", name);
        if (!strcmp(name, "combray-helper")) line_of(path, "Cpus_allowed_list:", threads);
    }
    if (tasks) closedir(tasks);
}

// The nodes on which memory lies that is bound to one and touched: " " and the number for each.
static void buffers(char *nodes) {
    char line[LINE];
    FILE *maps = fopen("/proc/self/numa_maps", "r");
    nodes[0] = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        if (!strstr(line, " bind:")) continue;
        for (int node = 0; node < 4; node++) {
            char pages[20], number[3];
            snprintf(pages, sizeof pages, " N%d=", node);
            snprintf(number, sizeof number, " %d", node);
            if (strstr(line, pages) && !strstr(nodes, number)) strcat(nodes, number);
        }
    }
    if (maps) fclose(maps);
}

// How many edges of a ring lie between nodes.
static int edges_between(MPI_Comm comm, int size, int node) {
    int nodes[64], count = 0;
    MPI_Allgather(&node, 1, MPI_INT, nodes, 1, MPI_INT, comm);
    for (int at = 0; at < size; at++) count += nodes[at] != nodes[(at + 1) % size];
    return count;
}

// Processes of one machine get other ranks in a topology, so that neighbours are on one node.
static void ring(int rank, int size) {
    int periodic = 1, node = 0;
    cpu_set_t set;
    MPI_Comm grid;
    sched_getaffinity(0, sizeof set, &set);
    while (!CPU_ISSET(2 * node, &set) && !CPU_ISSET(2 * node + 1, &set)) node++;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 1, &grid);
    int before = edges_between(MPI_COMM_WORLD, size, node), after = edges_between(grid, size, node);
    if (rank == 0) printf("%d edges between nodes, %d when reordered\n", before, after);
    MPI_Comm_free(&grid);
}

int main(int argc, char **argv) {
    int rank, size, nearest, node = -1, distance = -1, sharing = 0;
    char name[100] = "none", threads[100], nodes[100], line[LINE], all[4 * LINE];
    MPI_Info info;
    MPI_Comm network;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) {
        ring(rank, size);
        MPI_Finalize();
        return 0;
    }
    // Something goes through the buffers.
    char *data = malloc(1 << 20), *other = malloc(1 << 20);
    memset(data, 1, 1 << 20);
    for (int bytes = 1 << 10; bytes <= 1 << 20; bytes <<= 5)
        MPI_Sendrecv(data, bytes, MPI_BYTE, (rank + 2) % size, 0, other, bytes, MPI_BYTE, (rank + 2) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    combray_nearest_rail(&nearest);
    if (nearest >= 0) {
        combray_rail_name(nearest, name, sizeof name);
        combray_rail_place(nearest, &node, &distance);
    }
    helper(threads);
    buffers(nodes);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "hwloc://Network");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &network);
    MPI_Info_free(&info);
    if (network != MPI_COMM_NULL) MPI_Comm_size(network, &sharing);
    // Operations without a root go from machine to machine by their leaders.
    int sum, one = 1;
    for (int i = 0; i < 100; i++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    snprintf(line, sizeof line, "rank %d: rail on node %d at %d, helper on %s, buffers on%s, %d at the interface", rank,
             node, distance, threads, nodes[0] ? nodes : " no node", sharing);
    MPI_Gather(line, LINE, MPI_CHAR, all, LINE, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int other_rank = 0; rank == 0 && other_rank < size; other_rank++) puts(all + other_rank * LINE);
    MPI_Finalize();
    return 0;
}
