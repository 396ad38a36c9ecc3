/*
 * Files: blocks, a distributed array, interleaved records, pieces with holes, checkpoints, through the
 * page cache. Beside what the library does stands what the system allows: the first process moves as
 * many bytes, without holes, by plain pwritev and preadv.
 */
#define _DEFAULT_SOURCE
#include "bench.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * The data that one benchmark writes and reads.  Every process has `bytes` of it; `filetype`
 * describes where they are, from `displacement` on.
 */
struct file_case {
    const struct job *job;
    const char *name;
    char folder[248];               /* of the first process, for the files of all */
    char path[256];
    MPI_File file;
    MPI_Datatype filetype;
    MPI_Offset displacement;
    char *data, *back;
    size_t bytes;
    bool independent;               /* no process waits for another one */
    bool reopens;                   /* each iteration opens and closes the file */
    bool fresh;                     /* written to a new file up to the device, read when no page is cached */
    char plain_path[264];
    int plain;                      /* the file of the first process alone */
};

enum { DIRECTIONS = 2, PARTS_MAX = 1024 };

static void expect_success(const struct file_case *one, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    job_fail(one->job, "%s: %s", one->name, text);
}

static void case_open(struct file_case *one)
{
    expect_success(one, MPI_File_open(MPI_COMM_WORLD, one->path, MPI_MODE_RDWR | MPI_MODE_CREATE,
                                      MPI_INFO_NULL, &one->file));
    expect_success(one, MPI_File_set_view(one->file, one->displacement, MPI_BYTE, one->filetype,
                                          "native", MPI_INFO_NULL));
}

static void case_close(struct file_case *one)
{
    expect_success(one, MPI_File_close(&one->file));
}

static void run_write(void *state, long iterations)
{
    struct file_case *one = state;
    int (*move)(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Status *) =
        one->independent ? MPI_File_write_at : MPI_File_write_at_all;
    for (long i = 0; i < iterations; i++) {
        if (one->reopens)
            case_open(one);
        expect_success(one, move(one->file, 0, one->data, (int)one->bytes, MPI_BYTE,
                                 MPI_STATUS_IGNORE));
        if (one->fresh)
            expect_success(one, MPI_File_sync(one->file));
        if (one->reopens)
            case_close(one);
    }
}

static void run_read(void *state, long iterations)
{
    struct file_case *one = state;
    int (*move)(MPI_File, MPI_Offset, void *, int, MPI_Datatype, MPI_Status *) =
        one->independent ? MPI_File_read_at : MPI_File_read_at_all;
    for (long i = 0; i < iterations; i++) {
        if (one->reopens)
            case_open(one);
        expect_success(one, move(one->file, 0, one->back, (int)one->bytes, MPI_BYTE,
                                 MPI_STATUS_IGNORE));
        if (one->reopens)
            case_close(one);
    }
}

static void check_both(void *state)
{
    struct file_case *one = state;
    memset(one->back, 0x5A, one->bytes);
    run_write(one, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    run_read(one, 1);
    pattern_expect(one->job, one->back, one->bytes, (unsigned)one->job->rank + 1);
}

static void plain_open(struct file_case *one)
{
    one->plain = open(one->plain_path, O_RDWR | O_CREAT, 0600);
    if (one->plain < 0)
        job_fail(one->job, "%s: cannot open %s", one->name, one->plain_path);
}

typedef ssize_t move_function(int file, const struct iovec *parts, int count, off_t offset);

/* The block of the first process as often as there are processes. */
static void plain_move(struct file_case *one, move_function *move, char *block)
{
    size_t all = one->bytes * (size_t)one->job->size;
    for (size_t done = 0; done < all;) {
        struct iovec parts[PARTS_MAX];
        int count = 0;
        size_t at = done;
        for (; at < all && count < PARTS_MAX; count++) {
            size_t begun = at % one->bytes;
            parts[count] = (struct iovec){block + begun, one->bytes - begun};
            at += one->bytes - begun;
        }
        ssize_t moved = move(one->plain, parts, count, (off_t)done);
        if (moved <= 0)
            job_fail(one->job, "%s: a plain call moved nothing", one->name);
        done += (size_t)moved;
    }
}

static void run_plain(struct file_case *one, long iterations, move_function *move, char *block)
{
    if (one->job->rank != 0)
        return;
    for (long i = 0; i < iterations; i++) {
        if (one->reopens)
            plain_open(one);
        plain_move(one, move, block);
        if (one->fresh && move == pwritev)
            fdatasync(one->plain);
        if (one->reopens)
            close(one->plain);
    }
}

static void run_plain_write(void *state, long iterations)
{
    struct file_case *one = state;
    run_plain(one, iterations, pwritev, one->data);
}

static void run_plain_read(void *state, long iterations)
{
    struct file_case *one = state;
    run_plain(one, iterations, preadv, one->back);
}

static void check_plain(void *state)
{
    struct file_case *one = state;
    run_plain_write(one, 1);
    run_plain_read(one, 1);
    if (one->job->rank == 0)
        pattern_expect(one->job, one->back, one->bytes, 1);
}

/* What comes before an iteration on a fresh file, untimed: it is removed, or its pages are dropped. */
static void prepare(const struct file_case *one, const char *path, bool is_written)
{
    if (one->fresh && one->job->rank == 0 && is_written) {
        unlink(path);
    } else if (one->fresh && one->job->rank == 0) {
        int file = open(path, O_RDONLY);
        if (file >= 0) {
            posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
            close(file);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void prepare_write(void *state)
{
    const struct file_case *one = state;
    prepare(one, one->path, true);
}

static void prepare_read(void *state)
{
    const struct file_case *one = state;
    prepare(one, one->path, false);
}

static void prepare_plain_write(void *state)
{
    const struct file_case *one = state;
    prepare(one, one->plain_path, true);
}

static void prepare_plain_read(void *state)
{
    const struct file_case *one = state;
    prepare(one, one->plain_path, false);
}

/* How often this process has called the system to read or write; the call itself is one. */
static long calls_so_far(void)
{
    char text[512] = "";
    long reads = 0, writes = 0;
    int file = open("/proc/self/io", O_RDONLY);
    if (file < 0)
        return 0;
    if (read(file, text, sizeof text - 1) > 0 && strstr(text, "syscr:")) {
        reads = atol(strstr(text, "syscr:") + 6);
        writes = atol(strstr(text, "syscw:") + 6);
    }
    close(file);
    return reads + writes;
}

/* The calls of all processes for one iteration. */
static long calls_of(const struct operation *operation)
{
    long all = 0, before;
    operation->prepare(operation->state);
    before = calls_so_far();
    operation->run(operation->state, 1);
    long calls = calls_so_far() - before - 1;
    MPI_Reduce(&calls, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

static void measure_case(struct job *job, struct file_case *one, size_t size)
{
    const char *folder = getenv("TMPDIR");
    snprintf(one->folder, sizeof one->folder, "%s/combray-bench-" "XX" "XX" "XX",
             folder ? folder : "/tmp");
    if (job->rank == 0 && !mkdtemp(one->folder))
        job_fail(job, "%s: no folder can be made in TMPDIR or /tmp", one->name);
    MPI_Bcast(one->folder, sizeof one->folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(one->path, sizeof one->path, "%s/file", one->folder);
    snprintf(one->plain_path, sizeof one->plain_path, "%s-plain", one->path);
    one->job = job;
    one->data = buffer_new(job, one->bytes);
    one->back = buffer_new(job, one->bytes);
    pattern_fill(one->data, one->bytes, (unsigned)job->rank + 1);
    job_describe(job, one->name, "", size);
    if (!one->reopens)
        case_open(one);
    if (!one->reopens && job->rank == 0)
        plain_open(one);
    struct operation operations[] = {
        {.run = run_write, .prepare = prepare_write, .check = check_both, .state = one,
         .comm = MPI_COMM_WORLD, .clock = CLOCK_SLOWEST, .share = 1.0},
        {.run = run_read, .prepare = prepare_read, .check = check_both, .state = one,
         .comm = MPI_COMM_WORLD, .clock = CLOCK_SLOWEST, .share = 1.0},
        {.run = run_plain_write, .prepare = prepare_plain_write, .check = check_plain, .state = one,
         .comm = MPI_COMM_WORLD, .clock = CLOCK_SLOWEST, .share = 1.0},
        {.run = run_plain_read, .prepare = prepare_plain_read, .check = check_plain, .state = one,
         .comm = MPI_COMM_WORLD, .clock = CLOCK_SLOWEST, .share = 1.0}};
    struct timing timings[2 * DIRECTIONS];
    if (measure(job, operations, 2 * DIRECTIONS, timings)) {
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            struct row row = {.benchmark = one->name, .processes = job->size, .bytes = size,
                              .bytes_total = one->bytes * (size_t)job->size,
                              .timing = timings[direction],
                              .ratio = timings[direction].min / timings[DIRECTIONS + direction].min,
                              .twin = "plain calls",
                              .system_calls = calls_of(&operations[direction])};
            strcpy(row.variant, direction ? "read" : "write");
            report_row(job, &row);
        }
    } else {
        report_note(job, "a file benchmark is left out: one call takes too long");
    }
    if (!one->reopens)
        case_close(one);
    if (!one->reopens && job->rank == 0)
        close(one->plain);
    MPI_Barrier(MPI_COMM_WORLD);
    if (job->rank == 0) {
        unlink(one->path);
        unlink(one->plain_path);
        rmdir(one->folder);
    }
    free(one->data);
    free(one->back);
}

void bench_file_blocks(struct job *job)
{
    struct list sizes = list_or_powers(&job->options.sizes, 4 << 10, 16, 16 << 20);
    report_section(job, "file_blocks", "a contiguous block of each process, collectively", true);
    for (int i = 0; i < sizes.length; i++) {
        size_t bytes = (size_t)sizes.values[i];
        struct file_case one = {.name = "file_blocks", .filetype = MPI_BYTE, .bytes = bytes,
                                .displacement = (MPI_Offset)bytes * job->rank};
        measure_case(job, &one, bytes);
    }
}

/* A cube of doubles, a block of which each process has. */
void bench_file_array(struct job *job)
{
    report_section(job, "file_array", "a cube of doubles in blocks, collectively", true);
    for (int edge = 32; edge <= 128; edge *= 2) {
        int grid[3] = {0, 0, 0}, global[3] = {edge, edge, edge};
        int kinds[3] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK};
        int arguments[3] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG,
                            MPI_DISTRIBUTE_DFLT_DARG};
        int bytes;
        struct file_case one = {.name = "file_array"};
        /* The last dimension, whose elements are neighbours in memory, is divided first. */
        MPI_Dims_create(job->size, 3, grid);
        int last = grid[0];
        grid[0] = grid[2];
        grid[2] = last;
        MPI_Type_create_darray(job->size, job->rank, 3, global, kinds, arguments, grid,
                               MPI_ORDER_C, MPI_DOUBLE, &one.filetype);
        MPI_Type_commit(&one.filetype);
        MPI_Type_size(one.filetype, &bytes);
        one.bytes = (size_t)bytes;
        measure_case(job, &one, (size_t)edge * edge * edge * sizeof(double));
        MPI_Type_free(&one.filetype);
    }
}

/* Records of all processes in turn, and behind those of each turn a hole. */
static void measure_records(struct job *job, struct file_case one, int record, int hole)
{
    MPI_Datatype block;
    one.displacement = (MPI_Offset)record * job->rank;
    MPI_Type_contiguous(record, MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, (MPI_Aint)record * job->size + hole,
                            &one.filetype);
    MPI_Type_commit(&one.filetype);
    measure_case(job, &one, (size_t)record);
    MPI_Type_free(&one.filetype);
    MPI_Type_free(&block);
}

/* Records of all processes in turn: 4 MiB of each process. */
void bench_file_records(struct job *job)
{
    const struct list *given = &job->options.segments;
    struct list sizes = list_or_powers(given, 8, 8, 32 << 10);
    struct file_case one = {.name = "file_records", .bytes = 4 << 20};
    report_section(job, "file_records", "records of all processes in turn, collectively", true);
    for (int i = 0; i < sizes.length; i++)
        measure_records(job, one, (int)sizes.values[i], 0);
    if (given->length == 0)
        measure_records(job, one, 64 << 10, 0);
}

/* Pieces of all processes in turn, and holes of their size: up to 65,536 pieces of each process. */
void bench_file_holes(struct job *job)
{
    const struct list *given = &job->options.segments;
    struct list sizes = list_or_powers(given, 4, 16, 64 << 10);
    report_section(job, "file_holes", "pieces with holes between them, independently", true);
    for (int i = 0; i < sizes.length; i++) {
        size_t piece = (size_t)sizes.values[i], pieces = (16 << 20) / piece;
        struct file_case one = {.name = "file_holes", .independent = true,
                                .bytes = piece * (pieces < 65536 ? pieces : 65536)};
        measure_records(job, one, (int)piece, (int)piece);
    }
}

/* A file that is opened, written or read, and closed. */
void bench_file_checkpoint(struct job *job)
{
    report_section(job, "file_checkpoint", "open, a block of each process, close", true);
    for (size_t bytes = 4 << 10; bytes <= 4 << 20; bytes <<= 10) {
        struct file_case one = {.name = "file_checkpoint", .filetype = MPI_BYTE, .bytes = bytes,
                                .displacement = (MPI_Offset)bytes * job->rank, .reopens = true};
        measure_case(job, &one, bytes);
    }
}

/* 1 GiB of all processes together. */
void bench_file_gigabyte(struct job *job)
{
    size_t bytes = ((size_t)1 << 30) / (size_t)job->size;
    struct file_case one = {.name = "file_gigabyte", .filetype = MPI_BYTE, .bytes = bytes,
                            .displacement = (MPI_Offset)bytes * job->rank, .reopens = true};
    report_section(job, "file_gigabyte", "open, a part of 1 GiB of each process, close", true);
    measure_case(job, &one, bytes);
}

/* A block of 32 MiB of each process, and as much in records of all processes in turn. */
void bench_file_fresh(struct job *job)
{
    static const int records[] = {512, 4 << 10, 64 << 10};
    struct file_case one = {.name = "file_fresh", .filetype = MPI_BYTE, .bytes = 32 << 20,
                            .reopens = true, .fresh = true};
    report_section(job, "file_fresh",
                   "a new file up to the device, read when its pages are not cached", true);
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
        measure_records(job, one, records[i], 0);
    one.displacement = (MPI_Offset)one.bytes * job->rank;
    measure_case(job, &one, one.bytes);
}
