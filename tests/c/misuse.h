// Cases of wrong use of MPI, each with a twin that is right: the arguments are the name of the case
// and `wrong` or `right`; `all` are all cases that need no threads. What --check reports of each
// stands in tests/scenarios/misuse.py.
#ifndef MISUSE_H
#define MISUSE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, wrong;
static MPI_Comm world = MPI_COMM_WORLD;

struct misuse {
    const char *name;
    void (*commit)(void);
    int level;
};

static inline int misuse_main(int argc, char **argv, const struct misuse *cases, size_t count) {
    int level = MPI_THREAD_SINGLE, committed = 0, is_all = argc == 3 && strcmp(argv[1], "all") == 0;
    for (size_t i = 0; i < count && argc == 3; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            level = cases[i].level;
        }
    }
    MPI_Init_thread(&argc, &argv, level, &level);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    for (size_t i = 0; i < count && argc == 3; i++) {
        if (strcmp(argv[1], cases[i].name) == 0 || (is_all && cases[i].level == MPI_THREAD_SINGLE)) {
            wrong = strcmp(argv[2], "wrong") == 0;
            cases[i].commit();
            committed++;
        }
    }
    MPI_Finalize();
    return committed == 0;
}

#define MISUSE_MAIN(cases) \
    int main(int argc, char **argv) { return misuse_main(argc, argv, cases, sizeof cases / sizeof *cases); }

#endif
