// Run by guest.sh on a machine with four NUMA nodes: four processes, each on a node of its own. For
// each check rank 0 prints "NAME: well", or the rank that finds a fault prints it.
#define _GNU_SOURCE
#include <combray.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, PAGES = 64, BYTES = PAGE * PAGES, NODES = 4 };

static int rank, faults;
static const char *what;

#define EXPECT(found, expected) expect(#found, __LINE__, found, expected)

static void expect(const char *text, int line, long found, long expected) {
    if (found == expected) return;
    faults++;
    printf("%s: rank %d, line %d: %s is %ld, expected %ld\n", what, rank, line, text, found, expected);
}

static int node_of(const void *address) {
    int node = -2;
    EXPECT(combray_node_of(address, &node), MPI_SUCCESS);
    return node;
}

static void all_on(const char *memory, int node) {
    for (int page = 0; page < PAGES; page++) EXPECT(node_of(memory + page * PAGE), node);
}

static char *fresh(void) {
    void *memory = NULL;
    if (posix_memalign(&memory, PAGE, BYTES)) MPI_Abort(MPI_COMM_WORLD, 1);
    // What the heap had before may lie anywhere.
    EXPECT(combray_place(memory, BYTES, "first-touch"), MPI_SUCCESS);
    memset(memory, 3, BYTES);
    EXPECT(combray_place(memory, BYTES, "here"), MPI_SUCCESS);
    return memory;
}

// By default: on the own node's two cores, with memory there.
static void bound(void) {
    cpu_set_t set;
    EXPECT(sched_getaffinity(0, sizeof set, &set), 0);
    EXPECT(CPU_COUNT(&set), 2);
    EXPECT(CPU_ISSET(2 * rank, &set) != 0, 1);
    static char touched[BYTES];
    memset(touched, 1, BYTES);
    EXPECT(node_of(touched + BYTES / 2), rank);
    const char *places = getenv("OMP_PLACES");
    char expected[20];
    snprintf(expected, sizeof expected, "{%d},{%d}", 2 * rank, 2 * rank + 1);
    EXPECT(places && !strcmp(places, expected), 1);
}

static void allocated(void) {
    for (int node = 0; node < NODES; node++) {
        char place[20], *memory;
        MPI_Info info;
        snprintf(place, sizeof place, "node:%d", node);
        MPI_Info_create(&info);
        MPI_Info_set(info, "combray_memory", place);
        EXPECT(MPI_Alloc_mem(BYTES, info, &memory), MPI_SUCCESS);
        MPI_Info_free(&info);
        memset(memory, 1, BYTES);
        all_on(memory, node);
        MPI_Free_mem(memory);
    }
}

static void interleaved(void) {
    int count[NODES] = {0};
    char *memory = fresh();
    EXPECT(combray_place(memory, BYTES, "interleave"), MPI_SUCCESS);
    for (int page = 0; page < PAGES; page++) count[node_of(memory + page * PAGE) & 3]++;
    for (int node = 0; node < NODES; node++) EXPECT(count[node], PAGES / NODES);
    EXPECT(combray_place(memory, BYTES, "interleave:1,3"), MPI_SUCCESS);
    for (int page = 0; page < PAGES; page++) EXPECT(node_of(memory + page * PAGE) % 2, 1);
    EXPECT(memory[BYTES - 1], 3);
}

static void migrated(void) {
    char *memory = fresh(), place[20];
    all_on(memory, rank);
    snprintf(place, sizeof place, "node:%d", (rank + 1) % NODES);
    EXPECT(combray_place(memory, BYTES, place), MPI_SUCCESS);
    all_on(memory, (rank + 1) % NODES);
    // This thread, now on another node, takes the memory along.
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(2 * ((rank + 2) % NODES), &set);
    EXPECT(sched_setaffinity(0, sizeof set, &set), 0);
    EXPECT(combray_place(memory, BYTES, "first-touch"), MPI_SUCCESS);
    EXPECT(combray_place(memory, BYTES, "here"), MPI_SUCCESS);
    all_on(memory, (rank + 2) % NODES);
    for (int at = 0; at < BYTES; at++)
        if (memory[at] != 3) faults++;
    EXPECT(combray_place(memory, BYTES, "node:4") != MPI_SUCCESS, 1);
}

// Each page goes to the node of the thread that touches it next, with its content.
static void touched(void) {
    char *memory = fresh();
    cpu_set_t before, set;
    EXPECT(sched_getaffinity(0, sizeof before, &before), 0);
    EXPECT(combray_place(memory, BYTES, "next-touch"), MPI_SUCCESS);
    for (int step = 0; step < 2; step++) {
        int node = (rank + 1 + step) % NODES;
        CPU_ZERO(&set);
        CPU_SET(2 * node, &set);
        EXPECT(sched_setaffinity(0, sizeof set, &set), 0);
        for (int page = step * PAGES / 2; page < (step + 1) * PAGES / 2; page++) {
            EXPECT(memory[page * PAGE + 5], 3);
            EXPECT(node_of(memory + page * PAGE), node);
        }
    }
    EXPECT(sched_setaffinity(0, sizeof before, &before), 0);
}

static void decided(char *memory, const char *use, const char *expected) {
    char reason[400];
    EXPECT(combray_place(memory, BYTES, use), MPI_SUCCESS);
    EXPECT(combray_place_reason(reason, sizeof reason), MPI_SUCCESS);
    if (!strncmp(reason, expected, strlen(expected))) return;
    faults++;
    printf("%s: rank %d: %s: %s, expected: %s\n", what, rank, use, reason, expected);
}

// By the costs that guest.sh has written: far memory takes three times as long, moving it as long
// as reading it 40 times, going there no time.
static void used(void) {
    char *memory = fresh(), place[20], went[40];
    const int here = sched_getcpu() / 2, far = (here + 1) % NODES;
    cpu_set_t before, all;
    decided(memory, "use:reads=1000", "nothing moves");
    snprintf(place, sizeof place, "node:%d", far);
    EXPECT(combray_place(memory, BYTES, place), MPI_SUCCESS);
    decided(memory, "use:reads=10", "nothing moves");
    // It is bound to its own node.
    decided(memory, "use:reads=10,thread", "nothing moves");
    all_on(memory, far);
    decided(memory, "use:reads=10,writes=90", "the pages went");
    all_on(memory, here);
    EXPECT(combray_place(memory, BYTES, place), MPI_SUCCESS);
    EXPECT(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&all);
    CPU_SET(2 * here, &all);
    CPU_SET(2 * far, &all);
    EXPECT(sched_setaffinity(0, sizeof all, &all), 0);
    // Wherever of both it runs now, it is used soonest from there.
    snprintf(went, sizeof went, "the thread went to node %d", far);
    if (sched_getcpu() / 2 == here) decided(memory, "use:reads=10,thread", went);
    else decided(memory, "use:reads=10,thread", "nothing moves");
    all_on(memory, far);
    EXPECT(sched_setaffinity(0, sizeof before, &before), 0);
    for (int at = 0; at < BYTES; at++)
        if (memory[at] != 3) faults++;
}

// Memory that is only read is copied once for a node that reads it often enough, and all its
// threads read the copy.
static void copied(void) {
    char *memory = fresh(), place[20];
    const void *copy, *again;
    const int here = sched_getcpu() / 2, far = (here + 1) % NODES;
    snprintf(place, sizeof place, "node:%d", far);
    EXPECT(combray_place(memory, BYTES, place), MPI_SUCCESS);
    // Making one takes four near reads.
    EXPECT(combray_near_copy(memory, BYTES, 2, &copy), MPI_SUCCESS);
    EXPECT(copy == memory, 1);
    EXPECT(combray_near_copy(memory, BYTES, 10, &copy), MPI_SUCCESS);
    EXPECT(copy != memory, 1);
    all_on(copy, here);
    EXPECT(memcmp(copy, memory, BYTES), 0);
    EXPECT(combray_near_copy(memory, BYTES, 1, &again), MPI_SUCCESS);
    EXPECT(again == copy, 1);
    EXPECT(combray_free_copies(memory), MPI_SUCCESS);
    EXPECT(combray_near_copy(memory, BYTES, 1, &again), MPI_SUCCESS);
    EXPECT(again == memory, 1);
    all_on(memory, far);
}

static void windows(void) {
    for (int shared = 0; shared < 2; shared++) {
        char place[20], *memory;
        MPI_Win win;
        MPI_Info info;
        snprintf(place, sizeof place, "node:%d", 3 - rank);
        MPI_Info_create(&info);
        MPI_Info_set(info, "combray_memory", place);
        if (shared)
            MPI_Win_allocate_shared(BYTES, 1, info, MPI_COMM_WORLD, &memory, &win);
        else
            MPI_Win_allocate(BYTES, 1, info, MPI_COMM_WORLD, &memory, &win);
        MPI_Info_free(&info);
        memset(memory, 1, BYTES);
        all_on(memory, 3 - rank);
        MPI_Win_free(&win);
    }
}

static void split(void) {
    MPI_Info info;
    MPI_Comm node;
    int size = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "hwloc://NUMANode");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &node);
    EXPECT(node != MPI_COMM_NULL, 1);
    if (node != MPI_COMM_NULL) MPI_Comm_size(node, &size);
    EXPECT(size, 1);
    MPI_Info_free(&info);
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*look)(void);
    } all[] = {{"bound", bound},       {"allocated", allocated}, {"interleaved", interleaved},
               {"windows", windows},   {"split", split},         {"migrated", migrated},
               {"touched", touched},   {"used", used},
               {"copied", copied}};
    int total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        what = all[i].name;
        faults = 0;
        all[i].look();
        fflush(stdout);
        MPI_Allreduce(&faults, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0 && total == 0) printf("%s: well\n", what);
    }
    MPI_Finalize();
    return 0;
}
