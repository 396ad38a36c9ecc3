// Run by guest.sh on a machine with four NUMA nodes of two cores each, with OMP_PLACES=cores and
// OMP_PROC_BIND=spread,close: a team of four threads, each of which opens a team of two, on
// Combray's library of OpenMP. Counts threads and pages on the node of their outer thread.
#define _GNU_SOURCE
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

int main(void) {
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
                // Fresh pages: what the heap had before may lie anywhere.
                char *memory = mmap(NULL, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (memory == MAP_FAILED) abort();
                memset(memory, 1, PAGE * PAGES);
                for (int page = 0; page < PAGES; page++) pages += node_of(memory + page * PAGE) == node;
                munmap(memory, PAGE * PAGES);
            }
        }
    }
    printf("teams: %d of %d outer threads, %d of %d threads, %d of %d pages on their node\n", nodes, 3 * OUTER, threads,
           3 * OUTER * INNER, pages, 3 * OUTER * INNER * PAGES);
    return 0;
}
