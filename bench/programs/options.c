/* The command line. */
#include "bench.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

void options_print_help(FILE *stream)
{
    fputs(
        "Usage: mpirun -n 2 combray-bench [OPTIONS] [BENCHMARK...]\n"
        "Measures an MPI library. Without names all benchmarks run.\n\n"
        "Benchmarks\n"
        "  pingpong     one message there and back; time of one way\n"
        "  pingping     both send at once; time until both have received\n"
        "  rate         message rate: a window of small messages in flight\n"
        "  segments     K messages of distinct tags there, then back\n"
        "  pages        three requests at once, each answered by a page\n"
        "  sockets      ping-pong over a plain TCP connection, beside MPI's\n"
        "  indexed      64-byte and 256 KiB blocks in turn, beside contiguous bytes\n"
        "  vector       strided blocks, beside contiguous bytes\n"
        "  self         a message of a process to itself\n"
        "  nearness     messages by the NUMA nodes of a process and of its memory\n"
        "  overlap      communication beside computing that calls nothing of MPI: how much\n"
        "               of it is seen\n"
        "  collectives  barrier bcast gather gatherv scatter scatterv allgather allgatherv\n"
        "               alltoall alltoallv reduce allreduce reduce_scatter_block\n"
        "               reduce_scatter scan exscan (each can be named alone)\n"
        "  guidelines   what takes longer than other calls that do the same: violations\n"
        "  threads      message rate of threads that all communicate (with --multiple)\n"
        "  saturation   bandwidth of the first half of the processes to the other, from all their\n"
        "               threads\n"
        "  own_threads  the same exchange by threads of combray_threads.h and by kernel threads\n"
        "  hidden_halo  a halo exchange by four threads for each core, beside computing alone\n"
        "  calls        calls that programs have in their loops, each by itself: messages,\n"
        "               persistent ones, neighbours, datatypes\n"
        "  rma          one-sided calls on all kinds of windows\n"
        "  halo         eight neighbours on a grid, in all ways that MPI has: which is best\n"
        "  limits       what any library could reach inside a machine at this moment\n"
        "  file_blocks, file_array, file_records, file_holes, file_checkpoint, file_gigabyte, file_fresh\n"
        "               files, written and read by all processes together: a block of each, a\n"
        "               cube in blocks, records in turn, open and close with a block of each or\n"
        "               with 1 GiB of all, blocks and records past the cache of the system\n\n"
        "Options\n"
        "  --sizes LIST       bytes, e.g. 0,8,1K,64K:8M (a range doubles)\n"
        "  --segments LIST    numbers of segments, e.g. 1:64\n"
        "  --window N         messages in flight of `rate` and, by thread, `threads` (64)\n"
        "  --threads LIST     numbers of threads of `threads` (1:8), `saturation` (1) and\n"
        "                     `own_threads` (1,4,16,64)\n"
        "  --multiple         ask for MPI_THREAD_MULTIPLE, which more than one thread needs\n"
        "  --made-up-latency LIST, --made-up-kib LIST\n"
        "                     for tests of `nearness`: the least nanoseconds of a message by the\n"
        "                     node of rank 0, and of a KiB by the node of its memory\n"
        "  --batches N        batches per point (30)\n"
        "  --batch-time MS    length of a batch in milliseconds (1)\n"
        "  --iterations N     per batch, instead of the calibration by --batch-time\n"
        "  --warm-up MS       milliseconds before the first batch (5)\n"
        "  --limit MS         milliseconds per point; fewer batches if it takes longer (3000)\n"
        "  --slowest MS       leave a collective or a call out where one takes longer\n"
        "  --pin              bind process i of a machine to its allowed core i\n"
        "  --pin-ranks        bind process i of the job to allowed core i: for hosts that share\n"
        "                     the cores of one machine\n"
        "  --transport        show whether the processes speak over shared memory\n"
        "  --csv | --json     for programs; --json prints one object per line\n"
        "  --svg FILE         also draw time and bandwidth over size\n"
        "  --list             names of the benchmarks\n"
        "  --help, --version\n",
        stream);
}

/* "64K" is 65536. Returns false if the text is not a size, and moves *text behind it. */
static bool parse_size(const char **text, long *value)
{
    char *end;
    long number = strtol(*text, &end, 10);
    if (end == *text || number < 0)
        return false;
    long factor = 1;
    if (*end == 'k' || *end == 'K')
        factor = 1L << 10;
    else if (*end == 'm' || *end == 'M')
        factor = 1L << 20;
    else if (*end == 'g' || *end == 'G')
        factor = 1L << 30;
    *text = factor > 1 ? end + 1 : end;
    if (number > (1L << 40) / factor)
        return false;
    *value = number * factor;
    return true;
}

static bool append(struct list *list, long value)
{
    if (list->length == LIST_CAPACITY)
        return false;
    list->values[list->length++] = value;
    return true;
}

static bool parse_list(const char *text, struct list *list)
{
    list->length = 0;
    for (;;) {
        long first, last;
        if (!parse_size(&text, &first))
            return false;
        last = first;
        if (*text == ':') {
            text++;
            if (!parse_size(&text, &last) || last < first)
                return false;
        }
        for (long value = first; value <= last; value = value ? value * 2 : 1) {
            if (!append(list, value))
                return false;
        }
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

struct list list_or_powers(const struct list *given, long start, long factor, long last)
{
    if (given->length > 0)
        return *given;
    struct list list = {.length = 0};
    for (long value = start; value <= last; value *= factor)
        append(&list, value);
    return list;
}

static bool parse_number(const char *text, double min, double max, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= min && *value <= max;
}

enum option_id {
    OPTION_SIZES = 256, OPTION_SEGMENTS, OPTION_THREADS, OPTION_WINDOW, OPTION_BATCHES,
    OPTION_BATCH_TIME, OPTION_ITERATIONS, OPTION_WARM_UP, OPTION_LIMIT, OPTION_SLOWEST, OPTION_PIN, OPTION_PIN_RANKS,
    OPTION_MULTIPLE, OPTION_TRANSPORT, OPTION_MADE_UP_LATENCY, OPTION_MADE_UP_KIB, OPTION_CSV, OPTION_JSON, OPTION_SVG, OPTION_LIST,
    OPTION_HELP, OPTION_VERSION
};

static const struct option long_options[] = {
    {"sizes", required_argument, NULL, OPTION_SIZES},
    {"segments", required_argument, NULL, OPTION_SEGMENTS},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"made-up-latency", required_argument, NULL, OPTION_MADE_UP_LATENCY},
    {"made-up-kib", required_argument, NULL, OPTION_MADE_UP_KIB},
    {"window", required_argument, NULL, OPTION_WINDOW},
    {"batches", required_argument, NULL, OPTION_BATCHES},
    {"batch-time", required_argument, NULL, OPTION_BATCH_TIME},
    {"iterations", required_argument, NULL, OPTION_ITERATIONS},
    {"warm-up", required_argument, NULL, OPTION_WARM_UP},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"slowest", required_argument, NULL, OPTION_SLOWEST},
    {"pin", no_argument, NULL, OPTION_PIN},
    {"pin-ranks", no_argument, NULL, OPTION_PIN_RANKS},
    {"multiple", no_argument, NULL, OPTION_MULTIPLE},
    {"transport", no_argument, NULL, OPTION_TRANSPORT},
    {"csv", no_argument, NULL, OPTION_CSV},
    {"json", no_argument, NULL, OPTION_JSON},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"list", no_argument, NULL, OPTION_LIST},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* A list of numbers between 1 and `most`. */
static bool parse_counts(const char *text, long most, struct list *list)
{
    bool good = parse_list(text, list);
    for (int i = 0; good && i < list->length; i++)
        good = list->values[i] >= 1 && list->values[i] <= most;
    return good;
}

/* Options whose value must be valid; false if it is not. */
static bool apply_value(struct options *options, int id, const char *text)
{
    double number = 0;
    bool good = true;
    switch (id) {
    case OPTION_SIZES:
        return parse_list(text, &options->sizes);
    case OPTION_SEGMENTS:
        return parse_counts(text, 4096, &options->segments);
    case OPTION_MADE_UP_LATENCY:
        return parse_list(text, &options->made_up_latency);
    case OPTION_MADE_UP_KIB:
        return parse_list(text, &options->made_up_kib);
    case OPTION_THREADS:
        return parse_counts(text, THREADS_MAX, &options->threads);
    case OPTION_WINDOW:
        good = parse_number(text, 1, 65536, &number);
        options->window = (long)number;
        return good;
    case OPTION_BATCHES:
        good = parse_number(text, 3, 100000, &number);
        options->batches = (int)number;
        return good;
    case OPTION_ITERATIONS:
        good = parse_number(text, 1, 1e12, &number);
        options->iterations = (long)number;
        return good;
    case OPTION_BATCH_TIME:
        good = parse_number(text, 0.01, 1e6, &number);
        options->batch_seconds = number * 1e-3;
        return good;
    case OPTION_WARM_UP:
        good = parse_number(text, 0, 1e6, &number);
        options->warm_up_seconds = number * 1e-3;
        return good;
    case OPTION_LIMIT:
        good = parse_number(text, 1, 1e9, &number);
        options->limit_seconds = number * 1e-3;
        return good;
    case OPTION_SLOWEST:
        good = parse_number(text, 0.001, 1e9, &number);
        options->slowest_seconds = number * 1e-3;
        return good;
    default:
        options->svg_path = text;
        return true;
    }
}

static void apply_flag(struct options *options, int id)
{
    switch (id) {
    case OPTION_PIN: options->pin = true; break;
    case OPTION_PIN_RANKS: options->pin = options->pin_ranks = true; break;
    case OPTION_MULTIPLE: options->multiple = true; break;
    case OPTION_TRANSPORT: options->transport = true; break;
    case OPTION_CSV: options->format = FORMAT_CSV; break;
    case OPTION_JSON: options->format = FORMAT_JSON; break;
    case OPTION_LIST: options->list_only = true; break;
    case OPTION_HELP: options->help = true; break;
    default: options->version = true; break;
    }
}

static const char *option_name(int id)
{
    for (const struct option *option = long_options; option->name; option++)
        if (option->val == id)
            return option->name;
    return "?";
}

static bool is_flag(int id)
{
    for (const struct option *option = long_options; option->name; option++)
        if (option->val == id)
            return option->has_arg == no_argument;
    return false;
}

bool options_parse(int argc, char **argv, struct options *options, char *error, size_t error_size)
{
    *options = (struct options){
        .window = 64,
        .batches = 30,
        .batch_seconds = 1e-3,
        .warm_up_seconds = 5e-3,
        .limit_seconds = 3.0,
        .slowest_seconds = 1e6,
        .format = FORMAT_TABLE,
    };
    opterr = 0;
    int id;
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (id == '?') {
            snprintf(error, error_size, "unknown option or missing value: %s", argv[optind - 1]);
            return false;
        }
        if (is_flag(id)) {
            apply_flag(options, id);
        } else if (!apply_value(options, id, optarg)) {
            snprintf(error, error_size, "--%s %s: not a value that this option can take",
                     option_name(id), optarg);
            return false;
        }
    }
    const int capacity = (int)(sizeof options->selected / sizeof options->selected[0]);
    for (; optind < argc && options->selected_count < capacity; optind++)
        options->selected[options->selected_count++] = argv[optind];
    return true;
}
