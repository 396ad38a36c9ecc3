/*
 * combray-bench: one portable MPI benchmark, compiled unchanged with every library.
 *
 * It uses the plain C API only, so that a difference between two results is a
 * difference between the libraries.  docs/internals/benchmarks.md describes what each part measures.
 */
#ifndef COMBRAY_BENCH_H
#define COMBRAY_BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define COMBRAY_BENCH_VERSION "1"

/* ---- options (options.c) ---- */

enum { LIST_CAPACITY = 96, THREADS_MAX = 64 };

/* A list of numbers from the command line; empty means: the benchmark's own default. */
struct list {
    long values[LIST_CAPACITY];
    int length;
};

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

struct options {
    struct list sizes;          /* message sizes in bytes */
    struct list segments;       /* numbers of segments of the multi-segment ping-pong */
    struct list threads;        /* numbers of threads of each process */
    /* For tests of `nearness`: how long a message takes at least, in ns, by the node of rank 0, and,
     * for each KiB, by that of its memory. */
    struct list made_up_latency, made_up_kib;
    long window;                /* messages in flight of the message rate */
    long iterations;            /* per batch; 0: calibrated to batch_seconds */
    int batches;
    double batch_seconds;
    double warm_up_seconds;
    double limit_seconds;       /* of one measured point; reduces the batches, never below 3 */
    double slowest_seconds;     /* a point is left out if one iteration takes longer */
    bool pin;
    bool pin_ranks;             /* by the rank in the job, not on the machine */
    bool multiple;              /* ask for MPI_THREAD_MULTIPLE */
    bool transport;
    bool list_only;
    bool help;
    bool version;
    enum format format;
    const char *svg_path;
    const char *selected[32];   /* names of benchmarks; none selects all */
    int selected_count;
};

/* Reads the command line. On failure returns false and leaves a sentence in `error`. */
bool options_parse(int argc, char **argv, struct options *options, char *error, size_t error_size);
void options_print_help(FILE *stream);
/* The values of `given`, or, if it is empty, start, start*factor, ... up to and with last. */
struct list list_or_powers(const struct list *given, long start, long factor, long last);

/* ---- the job (job.c, pinning.c) ---- */

struct job {
    struct options options;
    int rank, size;             /* in MPI_COMM_WORLD */
    int local_rank;             /* among the processes of this machine */
    MPI_Comm pair;              /* ranks 0 and 1, MPI_COMM_NULL elsewhere */
    double clock_resolution;    /* seconds, as observed */
    char library[160];          /* first line of MPI_Get_library_version */
    char host[MPI_MAX_PROCESSOR_NAME];
    int cores_allowed;          /* of this process, before it pinned itself */
    int core;                   /* pinned to, or -1 */
    /* The current measurement: for messages about wrong data. */
    const char *benchmark;
    char variant[48];
    size_t bytes;
};

void job_open(struct job *job);
void job_close(struct job *job);
void job_describe(struct job *job, const char *benchmark, const char *variant, size_t bytes);
/* Prints the reason with the name of the benchmark, and ends all processes. */
_Noreturn void job_fail(const struct job *job, const char *format, ...);

int cores_allowed(void);
/* Binds the calling thread to the (local_rank modulo cores)-th allowed core; the core, or -1. */
int pin_to_core(int local_rank);

/* ---- data (pattern.c) ---- */

/* Page-aligned, touched memory; ends the job if there is none. */
void *buffer_new(const struct job *job, size_t bytes);
void pattern_fill(void *buffer, size_t bytes, unsigned seed);
void pattern_expect(const struct job *job, const void *buffer, size_t bytes, unsigned seed);
/* Some of the bytes of a larger pattern: those of [first, first + bytes). */
void pattern_expect_part(const struct job *job, const void *buffer, size_t first, size_t bytes,
                         unsigned seed);
void expect_constant(const struct job *job, const void *buffer, size_t first, size_t bytes,
                     unsigned char value);

/* ---- measuring (measure.c) ---- */

/* Which clock counts: that of the first process, or the slowest of all; or, for operations that
 * wait for no other process, the slowest by the processor time of the calling thread. */
enum clock_choice { CLOCK_FIRST, CLOCK_SLOWEST, CLOCK_WORKED };

/* Something that is repeated and timed; all processes of `comm` call it together. */
struct operation {
    void (*run)(void *state, long iterations);
    void (*prepare)(void *state);   /* untimed, before each batch; may be NULL */
    void (*check)(void *state);     /* one iteration on fresh data, verified */
    void *state;
    MPI_Comm comm;
    enum clock_choice clock;
    double share;                   /* of an iteration's time that is reported: 0.5 is one way */
};

struct timing {
    double min, median;             /* seconds per iteration, times `share`, over the batches */
    double spread;                  /* from the lower to the upper quartile of the batches */
    double processor;               /* as min, for the processor time of all processes; mean */
    long iterations;                /* per batch */
    int batches;
};

enum { OPERATIONS_TOGETHER = 9 };

/*
 * Times `count` operations on one communicator, their batches in alternation, so that all run
 * under equal conditions.  The results are valid on the communicator's rank 0.  False, without
 * results, if an operation is slower than the options allow.
 */
bool measure(const struct job *job, const struct operation *operations, int count,
             struct timing *timings);

/* ---- reporting (report.c, plot.c) ---- */

struct row {
    const char *benchmark;
    char variant[48];
    int processes;
    size_t bytes;                   /* of one message, block or contribution */
    size_t bytes_total;             /* one way, per iteration: what bandwidth counts; 0: none */
    const char *parameter;          /* what `value` means, or NULL */
    long value;
    long messages;                  /* per iteration, for rates; 0: not a rate */
    struct timing timing;
    double ratio;                   /* time over that of the twin measured beside it; 0: none */
    const char *twin;               /* what the twin is, as "contiguous"; NULL where ratio is 0 */
    long system_calls;              /* that read or write, of all processes, per iteration; 0: not counted */
};

void report_header(struct job *job);
/* Starts the table of a benchmark; only the human format shows it. */
void report_section(const struct job *job, const char *benchmark, const char *explanation,
                    bool with_bandwidth);
/* Call on rank 0 of MPI_COMM_WORLD; other ranks are ignored. */
void report_row(const struct job *job, const struct row *row);
/* A comparison of two ways to one result; tables show only violations. Times in seconds. */
void report_guideline(const struct job *job, const char *text, size_t bytes, double slow,
                      double fast, double noise, bool violated);
void report_note(const struct job *job, const char *note);
/* The shortest time of a message that the machine allows, moved in one way; `how` describes it.
 * Times in seconds. */
void report_limit(const struct job *job, const char *way, size_t bytes, double seconds,
                  const char *how, double crossing);
/* What was seen of the transport while payload_bytes went between ranks 0 and 1: received by the
 * loopback and by the other interfaces of rank 0's machine. */
void report_transport(const struct job *job, double payload_bytes, double loopback_bytes,
                      double network_bytes, int shared_count, const char *shared_names);
/* Text with units, as "64 KiB"; returns `text`. */
const char *size_text(size_t bytes, char *text, size_t text_size);

void plot_add(const struct row *row);
/* Writes all added rows as one SVG; false if the file cannot be written. */
bool plot_write(const struct job *job, const char *path);

/* ---- the benchmarks ---- */

void bench_pingpong(struct job *job);
void bench_pingping(struct job *job);
void bench_rate(struct job *job);
void bench_segments(struct job *job);
void bench_packed(struct job *job);
void bench_pages(struct job *job);
void bench_sockets(struct job *job);

/* A TCP connection of ranks 0 and 1, or -1: rank 1 listens on all of its addresses, rank 0 takes
   the first that answers.  Both sides poll it. */
int plain_connect(const struct job *job);
void plain_send(const struct job *job, int socket, const char *from, size_t bytes);
void plain_receive(const struct job *job, int socket, char *into, size_t bytes);

void bench_indexed(struct job *job);
void bench_vector(struct job *job);
void bench_self(struct job *job);
void bench_overlap(struct job *job);
void bench_nearness(struct job *job);
void bench_collectives(struct job *job);
void bench_guidelines(struct job *job);
void bench_threads(struct job *job);
void bench_saturation(struct job *job);
void bench_own_threads(struct job *job);
void bench_hidden_halo(struct job *job);
void bench_calls(struct job *job);
void bench_rma(struct job *job);
void bench_halo(struct job *job);
void bench_limits(struct job *job);
void bench_file_blocks(struct job *job);
void bench_file_array(struct job *job);
void bench_file_records(struct job *job);
void bench_file_holes(struct job *job);
void bench_file_checkpoint(struct job *job);
void bench_file_gigabyte(struct job *job);
void bench_file_fresh(struct job *job);
/* Shows over what two processes speak: loopback traffic and shared mappings. */
void show_transport(struct job *job);

/* Whether `collectives` contains it; each can be selected by its name. */
bool is_collective(const char *name);
bool is_selected(const struct job *job, const char *name);

#endif
