// Windows of all flavors, made alike for tests: every process has a part of equal size, and the
// unit of displacements is a byte.
#ifndef WINDOWS_H
#define WINDOWS_H

#include "check.h"

enum { CREATED, ALLOCATED, SHARED, DYNAMIC, FLAVORS };

static const char *const FLAVOR_NAMES[FLAVORS] MAYBE_UNUSED = {"created", "allocated", "shared",
                                                               "dynamic"};

typedef struct {
    MPI_Win win;
    int flavor;
    void *memory;
    // By rank: the displacement of the part's first byte.
    MPI_Aint *origins;
} Window;

static Window MAYBE_UNUSED window_open(int flavor, MPI_Aint size) {
    Window window = {MPI_WIN_NULL, flavor, NULL, calloc((size_t)check_size, sizeof(MPI_Aint))};
    MPI_Comm comm = MPI_COMM_WORLD;
    if (flavor == CREATED || flavor == DYNAMIC) window.memory = calloc(1, (size_t)size);
    if (flavor == CREATED)
        OK(MPI_Win_create(window.memory, size, 1, MPI_INFO_NULL, comm, &window.win));
    if (flavor == ALLOCATED)
        OK(MPI_Win_allocate(size, 1, MPI_INFO_NULL, comm, &window.memory, &window.win));
    if (flavor == SHARED)
        OK(MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, comm, &window.memory, &window.win));
    if (flavor == DYNAMIC) {
        MPI_Aint address;
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window.win));
        OK(MPI_Win_attach(window.win, window.memory, size));
        OK(MPI_Get_address(window.memory, &address));
        OK(MPI_Allgather(&address, 1, MPI_AINT, window.origins, 1, MPI_AINT, comm));
    }
    OK(MPI_Win_set_errhandler(window.win, MPI_ERRORS_RETURN));
    memset(window.memory, 0, (size_t)size);
    OK(MPI_Barrier(comm));
    return window;
}

static void MAYBE_UNUSED window_close(Window *window) {
    if (window->flavor == DYNAMIC) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_detach(window->win, window->memory));
    }
    OK(MPI_Win_free(&window->win));
    CHECK(window->win == MPI_WIN_NULL);
    if (window->flavor == CREATED || window->flavor == DYNAMIC) free(window->memory);
    free(window->origins);
}

// By the argument "never", programs with a line "each: auto never" try windows without shared
// memory.
static void MAYBE_UNUSED window_sharing(int argc, char **argv) {
    if (argc > 1) setenv("COMBRAY_SHARED_WINDOWS", argv[1], 1);
}

// Whether all processes are on one machine.
static int MAYBE_UNUSED all_near(void) {
    MPI_Comm near;
    int size, all;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near));
    OK(MPI_Comm_size(near, &size));
    OK(MPI_Allreduce(&size, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    OK(MPI_Comm_free(&near));
    return all == check_size;
}

static int MAYBE_UNUSED window_exists(int flavor) {
    const char *sharing = getenv("COMBRAY_SHARED_WINDOWS");
    return flavor != SHARED || ((!sharing || strcmp(sharing, "never")) && all_near());
}

// The displacement of a byte in the part of a process.
static MPI_Aint MAYBE_UNUSED window_at(const Window *window, int rank, MPI_Aint offset) {
    return window->origins[rank] + offset;
}

#endif
