/* Functions that entry points of all kinds use. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layer.h"

/* Functions of the program with names of the C library must not be called from here. This runs
 * first when this library is loaded. Other MPI libraries do not have the function, so the symbol is
 * weak. */
void combray_skip_own_functions(const void *code) __attribute__((weak));
__attribute__((constructor(101))) static void on_loading(void)
{
    if (combray_skip_own_functions) combray_skip_own_functions((const void *)on_loading);
}

void *combray_fortran_room(size_t bytes)
{
    void *room = malloc(bytes);
    if (!room) {
        fprintf(stderr, "MPI: there is no room for %zu bytes of a call's arguments\n", bytes);
        abort();
    }
    return room;
}

void combray_fortran_replace_handle(MPI_Fint *place, MPI_Fint handle)
{
    /* The kernel writes an integer there, or fails with EFAULT if the memory is read-only. */
    if (syscall(SYS_getcpu, place, NULL, NULL) == 0 || errno != EFAULT) *place = handle;
}

int combray_fortran_neighbours(MPI_Comm comm, bool sends)
{
    int topology, dimensions, rank, in, out, weighted, count = 0;
    if (comm == MPI_COMM_NULL || PMPI_Topo_test(comm, &topology) != MPI_SUCCESS) return 0;
    if (topology == MPI_CART && PMPI_Cartdim_get(comm, &dimensions) == MPI_SUCCESS)
        return 2 * dimensions;
    if (topology == MPI_GRAPH && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS &&
        PMPI_Graph_neighbors_count(comm, rank, &count) == MPI_SUCCESS)
        return count;
    if (topology == MPI_DIST_GRAPH &&
        PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted) == MPI_SUCCESS)
        return sends ? out : in;
    return 0;
}

/* The texts of errors that have a code of their own. Further texts only get the code of their
 * class. */
#define CODES_MAX 64

static int known_code(int class, const char *text)
{
    static struct { char *text; int code; } known[CODES_MAX];
    int i = 0, code;
    while (i < CODES_MAX && known[i].text && strcmp(known[i].text, text) != 0) i++;
    if (i == CODES_MAX) return class;
    if (known[i].text) return known[i].code;
    if (PMPI_Add_error_code(class, &code) != MPI_SUCCESS ||
        PMPI_Add_error_string(code, text) != MPI_SUCCESS)
        return class;
    known[i].text = strdup(text);
    known[i].code = code;
    return code;
}

int combray_fortran_code(int class, const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int code = known_code(class, text);
    pthread_mutex_unlock(&lock);
    return code;
}
