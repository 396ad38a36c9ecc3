/* Counts the calls of a program and the time that it spends in them, for `combray compare`: loaded
 * before the MPI library, whichever that is (LD_PRELOAD). When the program calls MPI_Finalize,
 * process 0 writes a file, which COMBRAY_TALLY names:
 *
 *     library TEXT
 *     seconds S            from MPI_Init to MPI_Finalize, of the process that took longest
 *     call NAME COUNT S    of all processes together
 */
/* For secure_getenv. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calls.h"

#define EXPORT __attribute__((visibility("default")))

#define POSITION(name, parameters, arguments) AT_##name,
enum { CALLS(POSITION) CALL_COUNT };

#define NAME(name, parameters, arguments) "MPI_" #name,
static const char *const names[] = {CALLS(NAME)};

static long long counts[CALL_COUNT], nanoseconds[CALL_COUNT];
static long long begun;
/* What an MPI library calls inside of a call belongs to that one. */
static _Thread_local bool is_inside;

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

#define COUNTED(name, parameters, arguments)                                                \
    EXPORT int MPI_##name parameters                                                        \
    {                                                                                       \
        if (is_inside)                                                                      \
            return PMPI_##name arguments;                                                   \
        is_inside = true;                                                                   \
        long long start = now();                                                            \
        int code = PMPI_##name arguments;                                                   \
        __atomic_fetch_add(&nanoseconds[AT_##name], now() - start, __ATOMIC_RELAXED);       \
        __atomic_fetch_add(&counts[AT_##name], 1, __ATOMIC_RELAXED);                        \
        is_inside = false;                                                                  \
        return code;                                                                        \
    }
CALLS(COUNTED)

EXPORT int MPI_Init(int *argc, char ***argv)
{
    int code = PMPI_Init(argc, argv);
    begun = now();
    return code;
}

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int code = PMPI_Init_thread(argc, argv, required, provided);
    begun = now();
    return code;
}

static void write_tally(const char *path, double longest, const long long *all_counts,
                        const long long *all_nanoseconds)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    PMPI_Get_library_version(library, &length);
    library[strcspn(library, "\n\r")] = 0;
    FILE *file = fopen(path, "wx");
    if (!file) {
        perror(path);
        return;
    }
    fprintf(file, "library %s\nseconds %.9f\n", library, longest);
    for (int i = 0; i < CALL_COUNT; i++)
        if (all_counts[i] > 0)
            fprintf(file, "call %s %lld %.9f\n", names[i], all_counts[i], (double)all_nanoseconds[i] / 1e9);
    if (fclose(file) != 0)
        perror(path);
}

EXPORT int MPI_Finalize(void)
{
    double own = (double)(now() - begun) / 1e9, longest = 0;
    long long all_counts[CALL_COUNT], all_nanoseconds[CALL_COUNT];
    int rank;
    const char *path = secure_getenv("COMBRAY_TALLY");
    is_inside = true;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    PMPI_Reduce(counts, all_counts, CALL_COUNT, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Reduce(nanoseconds, all_nanoseconds, CALL_COUNT, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && path)
        write_tally(path, longest, all_counts, all_nanoseconds);
    return PMPI_Finalize();
}
