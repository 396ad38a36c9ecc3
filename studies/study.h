/* What the programs of the studies share: arguments, the lines that studies/run reads, and the end.
 *
 * Each program prints "library: ..." once, a line "case NAME: TOTAL ms, communication PART ms" (or "case NAME:
 * ALL MB, library PART MB") for each case and repetition, perhaps "bits: HEX", and "NAME: all right" at the end if
 * every result was verified. The exit code is 0 then, 1 after a wrong result and 2 after a wrong argument. */
#ifndef STUDY_H
#define STUDY_H

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
/* The processes that print and compare results. */
static MPI_Comm study_processes;
static const char *study_name;
static int study_wrong;

/* Initializes MPI with this level of thread support, which the library must have. */
static void study_begin(const char *name, int *argc, char ***argv, int level) {
    int provided, length;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    study_name = name;
    /* What a job that is ended has printed until then arrives. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init_thread(argc, argv, level, &provided);
    study_processes = MPI_COMM_WORLD;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided < level) {
        if (rank == 0) fprintf(stderr, "%s: the library does not have the thread level %d\n", name, level);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\r\n")] = 0;
    if (rank == 0) printf("library: %s\n", version);
}

/* Ends the job if an argument is wrong; all processes call it with the same values. */
static void study_need(int right, const char *usage) {
    if (right) return;
    if (rank == 0) fprintf(stderr, "usage: %s\n", usage);
    MPI_Finalize();
    exit(2);
}

/* An argument as a number, or the default; 0, which no study takes, for what is not a number. */
static inline int study_number(int argc, char **argv, int index, int otherwise) {
    char *end;
    if (index >= argc) return otherwise;
    long value = strtol(argv[index], &end, 10);
    return *end || value < 1 || value > 1000000000 ? 0 : (int)value;
}

static inline void *study_allocate(size_t count, size_t bytes) {
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory) {
        fprintf(stderr, "%s: no memory for %zu elements of %zu bytes\n", study_name, count, bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static inline double study_over_all(double value, MPI_Op operation) {
    double result = 0;
    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, operation, study_processes);
    return result;
}

/* Prints a case: the longest total over the processes, and the mean of their communication. */
static inline void study_case(const char *name, double total, double communication) {
    double longest = study_over_all(total, MPI_MAX), mean = study_over_all(communication, MPI_SUM) / size;
    if (rank == 0) printf("case %s: %.3f ms, communication %.3f ms\n", name, longest * 1e3, mean * 1e3);
}

/* Compares the largest deviation over all processes with the limit. */
static void study_verify(const char *what, double deviation, double limit) {
    /* Not a number is the worst deviation. */
    double largest = study_over_all(deviation <= HUGE_VAL ? deviation : HUGE_VAL, MPI_MAX);
    if (largest <= limit) return;
    study_wrong = 1;
    if (rank == 0) printf("%s: WRONG: %s deviates by %g, the limit is %g\n", study_name, what, largest, limit);
}

/* Prints bits that must be the same in each start of the study: studies/run compares them. */
static inline void study_bits(unsigned long long bits) {
    if (rank == 0) printf("bits: %016llx\n", bits);
}

static int study_end(void) {
    if (rank == 0 && !study_wrong) printf("%s: all right\n", study_name);
    MPI_Finalize();
    return study_wrong;
}

#endif
