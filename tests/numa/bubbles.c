// Run by guest.sh on a machine with four NUMA nodes: threads of bubbles that use memory run where
// it is, and memory that is written follows threads that must run elsewhere. Prints "NAME: well",
// or the fault.
#define _GNU_SOURCE
#include <combray.h>
#include <combray_threads.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, BYTES = 64 * PAGE, NODES = 4, THREADS = 2 };

static int faults;

static void expect(const char *what, int about, long found, long expected) {
    if (found == expected) return;
    faults++;
    printf("%s %d: %ld, expected %ld\n", what, about, found, expected);
}

static char *memory_on(int node) {
    void *memory = NULL;
    char where[20];
    snprintf(where, sizeof where, "node:%d", node);
    if (posix_memalign(&memory, PAGE, BYTES) || combray_place(memory, BYTES, where)) exit(1);
    memset(memory, 1, BYTES);
    return memory;
}

static int own_node(void) {
    return sched_getcpu() / 2;
}

static int near;

// Counts each thread that ends where its memory is.
static void *works(void *argument) {
    int node = -1;
    volatile long sum = 0;
    for (long i = 0; i < 20000000; i++) sum += i;
    combray_node_of(argument, &node);
    if (own_node() == node) __atomic_add_fetch(&near, 1, __ATOMIC_RELAXED);
    return NULL;
}

// A bubble for each node, made in another order.
static void threads_run_near_memory(void) {
    combray_bubble all, bubbles[NODES];
    combray_thread threads[NODES][THREADS];
    char *memory[NODES];
    expect("create", 0, combray_bubble_create(&all, NULL, COMBRAY_UNRELATED), 0);
    for (int i = 0; i < NODES; i++) {
        long node = (3 * i + 2) % NODES;
        memory[i] = memory_on(node);
        expect("create", i, combray_bubble_create(&bubbles[i], all, COMBRAY_SHARES_MEMORY), 0);
        expect("uses", i, combray_bubble_uses(bubbles[i], memory[i], BYTES, COMBRAY_WRITES), 0);
        for (int j = 0; j < THREADS; j++)
            expect("thread", j, combray_thread_create(&threads[i][j], NULL, bubbles[i], works, memory[i]), 0);
    }
    expect("submit", 0, combray_bubble_submit(all), 0);
    for (int i = 0; i < NODES; i++) {
        for (int j = 0; j < THREADS; j++) combray_thread_join(threads[i][j], NULL);
        combray_bubble_free(bubbles[i]);
        free(memory[i]);
    }
    combray_bubble_free(all);
    // A processor that was awake before the others may have taken one of theirs.
    expect("threads near their memory, at least 6", near, near >= 6, 1);
}

enum { BUBBLES = 2 * NODES };

static char *crowded[BUBBLES];
static int ran_on[BUBBLES][THREADS];

static void *moves(void *argument) {
    int number = (int)(long)argument;
    volatile long sum = 0;
    for (long i = 0; i < 20000000; i++) sum += i;
    ran_on[number / THREADS][number % THREADS] = own_node();
    return NULL;
}

// Nearly all memory is on one node, which has too few processors: some bubbles are put elsewhere,
// and their memory follows.
static void memory_follows(void) {
    combray_bubble all, bubbles[BUBBLES];
    combray_thread threads[BUBBLES][THREADS];
    expect("create", 0, combray_bubble_create(&all, NULL, COMBRAY_UNRELATED), 0);
    for (int i = 0; i < BUBBLES; i++) {
        crowded[i] = memory_on(i > 0);
        expect("create", i, combray_bubble_create(&bubbles[i], all, COMBRAY_SHARES_MEMORY), 0);
        expect("uses", i, combray_bubble_uses(bubbles[i], crowded[i], BYTES, COMBRAY_WRITES), 0);
        for (long j = 0; j < THREADS; j++)
            combray_thread_create(&threads[i][j], NULL, bubbles[i], moves, (void *)(THREADS * i + j));
    }
    expect("submit", 0, combray_bubble_submit(all), 0);
    int moved = 0;
    for (int i = 0; i < BUBBLES; i++) {
        int node = -1;
        for (int j = 0; j < THREADS; j++) combray_thread_join(threads[i][j], NULL);
        combray_node_of(crowded[i] + BYTES / 2, &node);
        moved += node != (i > 0);
        // An idle processor may have taken one thread out of its bubble.
        int is_near = ran_on[i][0] == node || ran_on[i][1] == node;
        expect("memory with neither of its users, on node", node, is_near, 1);
        combray_bubble_free(bubbles[i]);
        free(crowded[i]);
    }
    combray_bubble_free(all);
    expect("bubbles whose memory has moved, at least 2", moved, moved >= 2, 1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    expect("start", 0, combray_threads_start(0, 0, "memory"), 0);
    threads_run_near_memory();
    printf("near_memory: %s\n", faults ? "wrong" : "well");
    faults = 0;
    memory_follows();
    printf("memory_follows: %s\n", faults ? "wrong" : "well");
    expect("stop", 0, combray_threads_stop(), 0);
    return MPI_Finalize();
}
