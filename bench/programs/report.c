/* Output: a table for readers, CSV and JSON for programs. Only rank 0 writes. */
#define _POSIX_C_SOURCE 200112L
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static const double MICRO = 1e6;

const char *size_text(size_t bytes, char *text, size_t text_size)
{
    if (bytes >= 1u << 20 && bytes % (1u << 20) == 0)
        snprintf(text, text_size, "%zu MiB", bytes >> 20);
    else if (bytes >= 1u << 10 && bytes % (1u << 10) == 0)
        snprintf(text, text_size, "%zu KiB", bytes >> 10);
    else
        snprintf(text, text_size, "%zu B", bytes);
    return text;
}

/* Megabytes (1e6) per second at the best time, 0 where there is none. */
static double bandwidth(const struct row *row)
{
    return row->bytes_total && row->timing.min > 0
               ? (double)row->bytes_total / row->timing.min * 1e-6
               : 0;
}

static double messages_per_second(const struct row *row)
{
    return row->messages && row->timing.min > 0 ? (double)row->messages / row->timing.min : 0;
}

static void print_json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        if ((unsigned char)*text >= 0x20)
            putchar(*text);
    }
    putchar('"');
}

/* "0, 1" or "none": where the processes are bound. */
static void describe_cores(const struct job *job, const int *cores, char *text, size_t text_size)
{
    size_t used = 0;
    snprintf(text, text_size, "none (not asked for, see --pin)");
    if (!job->options.pin)
        return;
    for (int i = 0; i < job->size && used + 16 < text_size; i++)
        used += (size_t)snprintf(text + used, text_size - used, "%s%d", i ? ", " : "", cores[i]);
}

static void print_header_json(const struct job *job, const struct utsname *system,
                              const int *cores)
{
    printf("{\"record\":\"header\",\"program\":\"combray-bench %s\",\"library\":",
           COMBRAY_BENCH_VERSION);
    print_json_string(job->library);
    printf(",\"host\":");
    print_json_string(job->host);
    printf(",\"kernel\":");
    print_json_string(system->release);
    printf(",\"processes\":%d,\"cores_allowed\":%d,\"cores_pinned\":[", job->size,
           job->cores_allowed);
    for (int i = 0; job->options.pin && i < job->size; i++)
        printf("%s%d", i ? "," : "", cores[i]);
    printf("],\"clock_resolution_ns\":%.3f,\"batches\":%d,\"batch_ms\":%g}\n",
           job->clock_resolution * 1e9, job->options.batches, job->options.batch_seconds * 1e3);
}

void report_header(struct job *job)
{
    int *cores = buffer_new(job, (size_t)job->size * sizeof *cores);
    struct utsname system = {0};
    MPI_Gather(&job->core, 1, MPI_INT, cores, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (job->rank == 0) {
        char text[256];
        uname(&system);
        describe_cores(job, cores, text, sizeof text);
        const char *prefix = job->options.format == FORMAT_CSV ? "# " : "";
        if (job->options.format == FORMAT_JSON) {
            print_header_json(job, &system, cores);
        } else {
            printf("%sLibrary    %s\n", prefix, job->library);
            printf("%sMachine    %s, Linux %s, %d %s allowed to rank 0\n", prefix, job->host,
                   system.release, job->cores_allowed, job->cores_allowed == 1 ? "core" : "cores");
            printf("%sProcesses  %d, pinned by this program: %s\n", prefix, job->size, text);
            printf("%sMethod     %d batches of about %g ms, best and median batch; "
                   "clock step %.0f ns\n",
                   prefix, job->options.batches, job->options.batch_seconds * 1e3,
                   job->clock_resolution * 1e9);
        }
        if (job->options.format == FORMAT_CSV)
            puts("benchmark,variant,processes,bytes,parameter,value,iterations,batches,min_us,"
                 "median_us,bandwidth_MB_per_s,messages_per_s,ratio_to_twin");
        fflush(stdout);
    }
    free(cores);
}

static bool heading_due, heading_with_bandwidth;

void report_section(const struct job *job, const char *benchmark, const char *explanation,
                    bool with_bandwidth)
{
    if (job->rank != 0 || job->options.format != FORMAT_TABLE)
        return;
    printf("\n%s: %s\n", benchmark, explanation);
    heading_due = true;
    heading_with_bandwidth = with_bandwidth;
}

void report_guideline(const struct job *job, const char *text, size_t bytes, double slow,
                      double fast, double noise, bool violated)
{
    char size[32];
    if (job->rank != 0)
        return;
    if (job->options.format == FORMAT_JSON)
        printf("{\"record\":\"guideline\",\"guideline\":\"%s\",\"processes\":%d,\"bytes\":%zu,"
               "\"slow_us\":%.4f,\"fast_us\":%.4f,\"noise_us\":%.4f,\"violated\":%s}\n",
               text, job->size, bytes, slow * MICRO, fast * MICRO, noise * MICRO,
               violated ? "true" : "false");
    else if (job->options.format == FORMAT_CSV)
        printf("guidelines,\"%s\",%d,%zu,violated,%d,,,%.6f,%.6f,,,%.4f\n", text, job->size, bytes,
               violated, slow * MICRO, slow * MICRO, fast > 0 ? slow / fast : 0);
    else if (violated)
        printf("%12s  %-46s %10.3f µs against %10.3f µs, noise %.3f µs\n",
               size_text(bytes, size, sizeof size), text, slow * MICRO, fast * MICRO,
               noise * MICRO);
    fflush(stdout);
}

void report_note(const struct job *job, const char *note)
{
    if (job->rank != 0)
        return;
    if (job->options.format == FORMAT_TABLE) {
        printf("\n%s\n", note);
    } else if (job->options.format == FORMAT_CSV) {
        printf("# %s\n", note);
    } else {
        printf("{\"record\":\"note\",\"text\":");
        print_json_string(note);
        puts("}");
    }
}

void report_limit(const struct job *job, const char *way, size_t bytes, double seconds,
                  const char *how, double crossing)
{
    char size[32];
    double speed = (double)bytes / seconds * 1e-6;
    if (job->rank != 0)
        return;
    if (job->options.format == FORMAT_JSON)
        printf("{\"record\":\"limit\",\"way\":\"%s\",\"bytes\":%zu,\"us\":%.4f,\"how\":\"%s\","
               "\"crossing_ns\":%.1f}\n",
               way, bytes, seconds * MICRO, how, crossing * 1e9);
    else if (job->options.format == FORMAT_CSV)
        printf("limits,\"%s: %s\",2,%zu,crossing_ns,%.0f,,,%.6f,%.6f,%.3f,,\n", way, how, bytes,
               crossing * 1e9, seconds * MICRO, seconds * MICRO, speed);
    else
        printf("%12s  %-10s %10.3f µs %10.1f MB/s  crossing %4.0f ns  %s\n",
               size_text(bytes, size, sizeof size), way, seconds * MICRO, speed, crossing * 1e9,
               how);
    fflush(stdout);
}

static void print_row_csv(const struct row *row)
{
    printf("%s,\"%s\",%d,%zu,%s,", row->benchmark, row->variant, row->processes, row->bytes,
           row->parameter ? row->parameter : "");
    if (row->parameter)
        printf("%ld", row->value);
    printf(",%ld,%d,%.6f,%.6f,", row->timing.iterations, row->timing.batches,
           row->timing.min * MICRO, row->timing.median * MICRO);
    if (row->bytes_total)
        printf("%.3f", bandwidth(row));
    putchar(',');
    if (row->messages)
        printf("%.0f", messages_per_second(row));
    putchar(',');
    if (row->ratio > 0)
        printf("%.4f", row->ratio);
    putchar('\n');
}

static void print_row_json(const struct row *row)
{
    printf("{\"record\":\"result\",\"benchmark\":\"%s\",\"variant\":\"%s\",\"processes\":%d,"
           "\"bytes\":%zu",
           row->benchmark, row->variant, row->processes, row->bytes);
    if (row->parameter)
        printf(",\"parameter\":\"%s\",\"value\":%ld", row->parameter, row->value);
    printf(",\"iterations\":%ld,\"batches\":%d,\"min_us\":%.6f,\"median_us\":%.6f",
           row->timing.iterations, row->timing.batches, row->timing.min * MICRO,
           row->timing.median * MICRO);
    if (row->timing.processor > 0)
        printf(",\"processor_us\":%.6f", row->timing.processor * MICRO);
    if (row->bytes_total)
        printf(",\"bandwidth_MB_per_s\":%.3f", bandwidth(row));
    if (row->messages)
        printf(",\"messages_per_s\":%.0f", messages_per_second(row));
    if (row->ratio > 0)
        printf(",\"twin\":\"%s\",\"ratio_to_twin\":%.4f", row->twin, row->ratio);
    if (row->system_calls)
        printf(",\"system_calls\":%ld", row->system_calls);
    puts("}");
}

static void print_row_table(const struct row *row)
{
    char text[32], what[80];
    bool named = row->variant[0] || row->parameter;
    if (heading_due) {
        printf("%12s  %s%13s  %13s", "size", named ? "what                          " : "",
               "best", "median");
        printf("%s%s\n", heading_with_bandwidth ? "       bandwidth" : "",
               row->messages ? "           rate" : "");
        heading_due = false;
    }
    snprintf(what, sizeof what, "%s", row->variant);
    if (row->parameter && strcmp(row->parameter, "threads") == 0)
        snprintf(what, sizeof what, "%s, %ld threads", row->variant, row->value);
    else if (row->parameter && row->messages)
        snprintf(what, sizeof what, "%ld messages", row->value);
    else if (row->parameter && strcmp(row->parameter, "repeats") == 0)
        snprintf(what, sizeof what, "%s, repeated %ld", row->variant, row->value);
    printf("%12s  ", size_text(row->bytes, text, sizeof text));
    if (named)
        printf("%-30s", what);
    printf("%10.3f µs  %10.3f µs", row->timing.min * MICRO, row->timing.median * MICRO);
    if (row->bytes_total)
        printf("%11.1f MB/s", bandwidth(row));
    if (row->messages)
        printf("%9.2f mio/s", messages_per_second(row) * 1e-6);
    if (row->ratio > 0)
        printf("  %.2f of %s", row->ratio, row->twin);
    if (row->system_calls)
        printf("  %ld calls", row->system_calls);
    putchar('\n');
}

void report_row(const struct job *job, const struct row *row)
{
    if (job->rank != 0)
        return;
    switch (job->options.format) {
    case FORMAT_CSV: print_row_csv(row); break;
    case FORMAT_JSON: print_row_json(row); break;
    default: print_row_table(row); break;
    }
    fflush(stdout);
    if (job->options.svg_path)
        plot_add(row);
}

void report_transport(const struct job *job, double payload_bytes, double loopback_bytes,
                      double network_bytes, int shared_count, const char *shared_names)
{
    if (job->rank != 0)
        return;
    if (job->options.format == FORMAT_JSON) {
        printf("{\"record\":\"transport\",\"payload_bytes\":%.0f,\"loopback_bytes\":%.0f,"
               "\"network_bytes\":%.0f,\"shared_mappings\":%d,\"names\":",
               payload_bytes, loopback_bytes, network_bytes, shared_count);
        print_json_string(shared_names);
        puts("}");
        return;
    }
    const char *prefix = job->options.format == FORMAT_CSV ? "# " : "";
    printf("%sTransport  %.0f bytes exchanged, %.0f seen on the loopback interface, %.0f received "
           "by others; %d mappings shared by ranks 0 and 1: %s\n",
           prefix, payload_bytes, loopback_bytes, network_bytes, shared_count,
           shared_count ? shared_names : "none");
}
