/* Start, choice of benchmarks, end. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(struct job *);
    int processes_min;
} benchmarks[] = {
    {"pingpong", bench_pingpong, 2}, {"pingping", bench_pingping, 2},
    {"rate", bench_rate, 2},         {"segments", bench_segments, 2},
    {"packed", bench_packed, 2},     {"pages", bench_pages, 2},
    {"sockets", bench_sockets, 2},   {"indexed", bench_indexed, 2},
    {"vector", bench_vector, 2},     {"self", bench_self, 1},
    {"overlap", bench_overlap, 2},   {"nearness", bench_nearness, 2},
    {"collectives", bench_collectives, 1}, {"guidelines", bench_guidelines, 2},
    {"threads", bench_threads, 2},   {"saturation", bench_saturation, 2},
    {"own_threads", bench_own_threads, 2}, {"hidden_halo", bench_hidden_halo, 2},
    {"calls", bench_calls, 2},       {"rma", bench_rma, 2},
    {"halo", bench_halo, 2},         {"limits", bench_limits, 2},
    {"file_blocks", bench_file_blocks, 1}, {"file_array", bench_file_array, 1},
    {"file_records", bench_file_records, 1}, {"file_checkpoint", bench_file_checkpoint, 1},
    {"file_holes", bench_file_holes, 1}, {"file_gigabyte", bench_file_gigabyte, 1},
    {"file_fresh", bench_file_fresh, 1},
};

enum { BENCHMARKS = sizeof benchmarks / sizeof benchmarks[0] };

/* Without a selection everything is selected. */
bool is_selected(const struct job *job, const char *name)
{
    for (int i = 0; i < job->options.selected_count; i++)
        if (strcmp(job->options.selected[i], name) == 0)
            return true;
    return job->options.selected_count == 0;
}

static bool is_known(const char *name)
{
    for (int i = 0; i < BENCHMARKS; i++)
        if (strcmp(benchmarks[i].name, name) == 0)
            return true;
    return is_collective(name);
}

static bool wants_collective(const struct job *job)
{
    for (int i = 0; i < job->options.selected_count; i++)
        if (is_collective(job->options.selected[i]))
            return true;
    return false;
}

static void run_selected(struct job *job)
{
    report_header(job);
    if (job->options.transport)
        show_transport(job);
    for (int i = 0; i < BENCHMARKS; i++) {
        bool collectives = benchmarks[i].run == bench_collectives;
        if (!is_selected(job, benchmarks[i].name) && !(collectives && wants_collective(job)))
            continue;
        if (job->size < benchmarks[i].processes_min) {
            char note[96];
            snprintf(note, sizeof note, "%s left out: it needs 2 processes (mpirun -n 2)",
                     benchmarks[i].name);
            report_note(job, note);
            continue;
        }
        benchmarks[i].run(job);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Answers that need no measurement; true if that was all. */
static bool answer_question(const struct job *job)
{
    const struct options *options = &job->options;
    if (!options->help && !options->version && !options->list_only)
        return false;
    if (job->rank != 0)
        return true;
    if (options->help)
        options_print_help(stdout);
    else if (options->version)
        printf("combray-bench %s\n", COMBRAY_BENCH_VERSION);
    else
        for (int i = 0; i < BENCHMARKS; i++)
            puts(benchmarks[i].name);
    return true;
}

static bool selection_is_known(const struct job *job)
{
    for (int i = 0; i < job->options.selected_count; i++) {
        if (is_known(job->options.selected[i]))
            continue;
        if (job->rank == 0)
            fprintf(stderr, "combray-bench: no benchmark is called \"%s\"; see --list\n",
                    job->options.selected[i]);
        return false;
    }
    return true;
}

/* Settings that must be known before MPI starts. */
static int wanted_level(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--multiple") == 0)
            return MPI_THREAD_MULTIPLE;
    return MPI_THREAD_SINGLE;
}

int main(int argc, char **argv)
{
    static struct job job;
    char error[256];
    int status = 0, provided;
    MPI_Init_thread(&argc, &argv, wanted_level(argc, argv), &provided);
    bool understood = options_parse(argc, argv, &job.options, error, sizeof error);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    if (!understood) {
        if (job.rank == 0)
            fprintf(stderr, "combray-bench: %s; see --help\n", error);
        status = 2;
    } else if (!selection_is_known(&job)) {
        status = 2;
    } else if (!answer_question(&job)) {
        job_open(&job);
        run_selected(&job);
        if (job.rank == 0 && job.options.svg_path && !plot_write(&job, job.options.svg_path)) {
            fprintf(stderr, "combray-bench: cannot write %s\n", job.options.svg_path);
            status = 1;
        }
        job_close(&job);
    }
    MPI_Finalize();
    return status;
}
