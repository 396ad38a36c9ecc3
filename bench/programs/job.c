/* The processes of one run: ranks, cores and clock. */
#include "bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The smallest step that MPI_Wtime was seen to make, in seconds: MPI_Wtick only promises. */
static double observe_clock_resolution(void)
{
    double smallest = 1;
    for (int i = 0; i < 200; i++) {
        double start = MPI_Wtime(), now;
        do
            now = MPI_Wtime();
        while (now <= start);
        if (now - start < smallest)
            smallest = now - start;
    }
    return smallest;
}

static void read_library_version(char *line, size_t line_size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\r\n")] = '\0';
    for (char *cursor = version; *cursor; cursor++)
        if (*cursor == '\t')
            *cursor = ' ';
    snprintf(line, line_size, "%.150s", version);
}

static void open_pair(struct job *job)
{
    job->pair = MPI_COMM_NULL;
    if (job->size == 2)
        job->pair = MPI_COMM_WORLD;
    else if (job->size > 2)
        MPI_Comm_split(MPI_COMM_WORLD, job->rank < 2 ? 0 : MPI_UNDEFINED, job->rank, &job->pair);
}

void job_open(struct job *job)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->size);
    MPI_Comm machine;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &job->local_rank);
    MPI_Comm_free(&machine);
    job->cores_allowed = cores_allowed();
    job->core = job->options.pin
                    ? pin_to_core(job->options.pin_ranks ? job->rank : job->local_rank)
                    : -1;
    int length = 0;
    MPI_Get_processor_name(job->host, &length);
    read_library_version(job->library, sizeof job->library);
    job->clock_resolution = observe_clock_resolution();
    open_pair(job);
    job->benchmark = "start";
}

void job_close(struct job *job)
{
    if (job->pair != MPI_COMM_NULL && job->pair != MPI_COMM_WORLD)
        MPI_Comm_free(&job->pair);
}

void job_describe(struct job *job, const char *benchmark, const char *variant, size_t bytes)
{
    job->benchmark = benchmark;
    snprintf(job->variant, sizeof job->variant, "%s", variant);
    job->bytes = bytes;
}

_Noreturn void job_fail(const struct job *job, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    fprintf(stderr, "combray-bench: FAILED in %s%s%s, %zu bytes, rank %d: %s\n", job->benchmark,
            job->variant[0] ? " " : "", job->variant, job->bytes, job->rank, reason);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 3);
    abort();
}
