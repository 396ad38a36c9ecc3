// Run by guest.sh on a machine with four NUMA nodes of two cores each, on Combray's library of
// OpenMP. "teams", with OMP_PLACES=cores and OMP_PROC_BIND=spread,close: a team of four threads,
// each of which opens a team of two; counts threads and pages on the node of their outer thread.
// "teams uneven": a team of eight threads, each of which opens a team of two with memory that it
// has named; two threads have eight times as much to do as the others; counts after teams could
// move.
#define _GNU_SOURCE
#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64, OUTER = 4, INNER = 2 };

static int node_of(void *address) {
    int node = -1;
    // MPOL_F_NODE and MPOL_F_ADDR.
    if (syscall(SYS_get_mempolicy, &node, NULL, 0, address, 3) != 0) return -1;
    return node;
}

static void *fresh_pages(void) {
    // What the heap had before may lie anywhere.
    void *memory = mmap(NULL, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    return memset(memory, 1, PAGE * PAGES);
}

static void compute(long steps) {
    for (volatile long step = 0; step < steps; step++) continue;
}

enum { ZONES = 8, HEAVY = 2, ROUNDS = 8 };
static const long steps = 200000;

// Combray's library has it; programs with MPI call combray_uses.
extern int combray_openmp_uses(const void *address, size_t bytes, int access) __attribute__((weak));

static int uneven(void) {
    static char *memory[ZONES];
    int node[ZONES], together = 0, pages = 0, refused = 0;
    // All of it is where the initial thread is.
    for (int zone = 0; zone < ZONES; zone++) memory[zone] = fresh_pages();
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel num_threads(ZONES) reduction(+ : together, pages, refused)
        {
            int zone = omp_get_thread_num(), nodes[INNER];
            if (round == 0) refused += combray_openmp_uses(memory[zone], PAGE * PAGES, 2) != 0;
#pragma omp parallel num_threads(INNER)
            {
                compute(zone < HEAVY ? 8 * steps : steps);
                nodes[omp_get_thread_num()] = sched_getcpu() / 2;
            }
            if (round == ROUNDS - 1) {
                // The first thread of the first team is the program's, and not bound.
                node[zone] = nodes[1];
                together += zone == 0 || nodes[0] == nodes[1];
                for (int page = 0; page < PAGES; page++) pages += node_of(memory[zone] + page * PAGE) == nodes[1];
            }
        }
    }
    // The first two threads begin on one node, as there are two for each node.
    int are_apart = node[0] != node[1];
    printf("uneven: heavy teams %s, %d of %d teams together, %d of %d pages with their team, %d refused, %s outside\n",
           are_apart ? "apart" : "on one node", together, ZONES, pages, ZONES * PAGES, refused,
           combray_openmp_uses(memory[0], PAGE, 2) == EPERM ? "EPERM" : "accepted");
    return 0;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        omp_set_max_active_levels(2);
        return uneven();
    }
    int threads = 0, pages = 0, nodes = 0;
    omp_set_max_active_levels(2);
    for (int round = 0; round < 3; round++) {
#pragma omp parallel num_threads(OUTER) reduction(+ : threads, pages, nodes)
        {
            int node = omp_get_thread_num();
            nodes += sched_getcpu() / 2 == node;
#pragma omp parallel num_threads(INNER) reduction(+ : threads, pages)
            {
                threads += sched_getcpu() / 2 == node && omp_get_place_num() == 2 * node + omp_get_thread_num();
                char *memory = fresh_pages();
                for (int page = 0; page < PAGES; page++) pages += node_of(memory + page * PAGE) == node;
                munmap(memory, PAGE * PAGES);
            }
        }
    }
    printf("teams: %d of %d outer threads, %d of %d threads, %d of %d pages on their node\n", nodes, 3 * OUTER, threads,
           3 * OUTER * INNER, pages, 3 * OUTER * INNER * PAGES);
    return 0;
}
