/* All processes: blocking collectives, the root going round. */
#include "collective.h"

#include <stdlib.h>
#include <string.h>

static const struct collective_kind *const kinds[] = {
    rooted_collectives, exchanging_collectives, reducing_collectives};

enum { LISTS = sizeof kinds / sizeof kinds[0] };

bool is_collective(const char *name)
{
    for (int list = 0; list < LISTS; list++)
        for (const struct collective_kind *kind = kinds[list]; kind->name; kind++)
            if (strcmp(kind->name, name) == 0)
                return true;
    return false;
}

int next_root(struct collective *collective)
{
    int root = collective->turn;
    collective->turn = root + 1 == collective->job->size ? 0 : root + 1;
    return root;
}

/* ---- patterns: block j of process i holds the pattern i * size + j ---- */

static unsigned block_seed(const struct collective *collective, int process, int block)
{
    return (unsigned)(process * collective->job->size + block);
}

void fill_block(struct collective *collective, size_t first_unit, size_t units, int block)
{
    pattern_fill(collective->send_buffer + first_unit * collective->unit_bytes,
                 units * collective->unit_bytes,
                 block_seed(collective, collective->job->rank, block));
}

static size_t room_of(const struct collective *collective)
{
    return (size_t)collective->units * collective->unit_bytes *
           ((size_t)collective->job->size + 1);
}

void spoil_receive_buffer(struct collective *collective)
{
    memset(collective->receive_buffer, 0x5A, room_of(collective));
}

void expect_block(const struct collective *collective, size_t first_unit, size_t units,
                  int process, int block)
{
    pattern_expect(collective->job,
                   collective->receive_buffer + first_unit * collective->unit_bytes,
                   units * collective->unit_bytes, block_seed(collective, process, block));
}

/* ---- one collective at one size ---- */

/* Half a block for even numbers, one and a half for odd ones: two make up two blocks. */
static int uneven_units(const struct collective *collective, int number)
{
    int half = collective->units / 2;
    return number % 2 == 0 ? half : 2 * collective->units - half;
}

static void lay_out(struct collective *collective)
{
    const struct job *job = collective->job;
    int **arrays[] = {&collective->counts, &collective->displacements, &collective->pair_counts,
                      &collective->pair_displacements};
    for (int i = 0; i < 4; i++)
        *arrays[i] = buffer_new(job, (size_t)job->size * sizeof(int));
    for (int rank = 0, next = 0, next_of_pair = 0; rank < job->size; rank++) {
        collective->counts[rank] = uneven_units(collective, rank);
        collective->displacements[rank] = next;
        next += collective->counts[rank];
        collective->pair_counts[rank] = uneven_units(collective, rank + job->rank);
        collective->pair_displacements[rank] = next_of_pair;
        next_of_pair += collective->pair_counts[rank];
    }
}

static void collective_free(struct collective *collective)
{
    free(collective->send_buffer);
    free(collective->receive_buffer);
    free(collective->counts);
    free(collective->displacements);
    free(collective->pair_counts);
    free(collective->pair_displacements);
}

static void measure_collective(struct job *job, const struct collective_kind *kind, size_t bytes)
{
    job_describe(job, kind->name, "", bytes);
    size_t unit_bytes = kind->numeric ? sizeof(double) : 1;
    if (bytes * ((size_t)job->size + 1) > (1u << 30))
        job_fail(job, "blocks above 1 GiB in total are not supported by this benchmark");
    struct collective collective = {.job = job, .units = (int)(bytes / unit_bytes),
                                    .unit_bytes = unit_bytes};
    collective.send_buffer = buffer_new(job, room_of(&collective));
    collective.receive_buffer = buffer_new(job, room_of(&collective));
    lay_out(&collective);
    struct operation operation = {.run = kind->run, .check = kind->check, .state = &collective,
                                  .comm = MPI_COMM_WORLD, .clock = CLOCK_SLOWEST, .share = 1.0};
    struct row row = {.benchmark = kind->name, .processes = job->size, .bytes = bytes};
    if (measure(job, &operation, 1, &row.timing)) {
        report_row(job, &row);
    } else {
        char note[96];
        snprintf(note, sizeof note, "%s of %zu bytes left out: one call takes more than %g ms",
                 kind->name, bytes, job->options.slowest_seconds * 1e3);
        report_note(job, note);
    }
    collective_free(&collective);
}

static void measure_kind(struct job *job, const struct collective_kind *kind,
                         const struct list *sizes)
{
    report_section(job, kind->name,
                   kind->sized ? "time of one call, slowest process; size of one block"
                               : "time of one call, slowest process",
                   false);
    if (!kind->sized) {
        measure_collective(job, kind, 0);
        return;
    }
    for (int i = 0; i < sizes->length; i++) {
        size_t bytes = (size_t)sizes->values[i];
        if (kind->numeric)
            bytes = bytes / sizeof(double) * sizeof(double);
        if (bytes > 0)
            measure_collective(job, kind, bytes);
    }
}

void bench_collectives(struct job *job)
{
    struct list sizes = list_or_powers(&job->options.sizes, 8, 8, 1L << 20);
    for (int list = 0; list < LISTS; list++)
        for (const struct collective_kind *kind = kinds[list]; kind->name; kind++)
            if (is_selected(job, "collectives") || is_selected(job, kind->name))
                measure_kind(job, kind, &sizes);
}
