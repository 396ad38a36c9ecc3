/* Checkpoints of a distributed array in one file, and their restart.
 *
 *     mpicc -O2 checkpoint.c -o checkpoint -lm && mpirun -n 4 ./checkpoint [EDGE [ROUNDS [REPETITIONS [FOLDER]]]]
 *
 * A square of EDGE x EDGE numbers is divided into blocks among the processes. A file has the rows of the whole square,
 * so any number of processes can read it. Ways to write it:
 *
 *     collective    MPI_File_write_all through a view of the process's block
 *     independent   MPI_File_write through that view: one row of the block after another, with gaps between them
 *     nonblocking   MPI_File_iwrite_all, while the next state is computed
 *
 * and `restart` reads it with MPI_File_read_all as strips of rows, as another division would need. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <unistd.h>

enum { COLLECTIVE, INDEPENDENT, NONBLOCKING, RESTART, CASES };
static const char *const NAMES[] = {"collective", "independent", "nonblocking", "restart"};

static int edge, first[2], count[2];
static double *block, *next_block;
static MPI_Datatype view;
static char path[4096];

static double value_of(int x, int y, int round) {
    return x * 1e5 + y + round * 1e10;
}

static void compute(double *values, int round) {
    for (int x = 0; x < count[0]; x++)
        for (int y = 0; y < count[1]; y++) values[(size_t)x * (size_t)count[1] + (size_t)y] = value_of(first[0] + x, first[1] + y, round);
}

/* Files have the error handler MPI_ERRORS_RETURN. */
static void need(int code, const char *call) {
    char words[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, words, &length);
    fprintf(stderr, "checkpoint: %s: %s\n", call, words);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File open_file(int mode, MPI_Datatype type) {
    MPI_File file;
    need(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "MPI_File_open");
    need(MPI_File_set_view(file, 0, MPI_DOUBLE, type, "native", MPI_INFO_NULL), "MPI_File_set_view");
    return file;
}

/* Returns the time that the calls of files took. */
static double write_round(int way, int round) {
    int numbers = count[0] * count[1];
    MPI_Request request;
    double started = MPI_Wtime(), computed = 0;
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_WRONLY, view);
    if (way == COLLECTIVE) need(MPI_File_write_all(file, block, numbers, MPI_DOUBLE, MPI_STATUS_IGNORE), "MPI_File_write_all");
    if (way == INDEPENDENT) need(MPI_File_write(file, block, numbers, MPI_DOUBLE, MPI_STATUS_IGNORE), "MPI_File_write");
    if (way == NONBLOCKING) need(MPI_File_iwrite_all(file, block, numbers, MPI_DOUBLE, &request), "MPI_File_iwrite_all");
    double before = MPI_Wtime();
    compute(next_block, round + 1);
    computed = MPI_Wtime() - before;
    if (way == NONBLOCKING) need(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    need(MPI_File_close(&file), "MPI_File_close");
    double *swapped = block;
    block = next_block;
    next_block = swapped;
    return MPI_Wtime() - started - computed;
}

/* How many numbers of a strip of the file are not those of the round. */
static double wrong_numbers(int round, double *spent) {
    int begin = (int)((long)edge * rank / size), end = (int)((long)edge * (rank + 1) / size);
    int sizes[2] = {edge, edge}, extents[2] = {end - begin, edge}, start[2] = {begin, 0};
    size_t numbers = (size_t)(end - begin) * (size_t)edge;
    double *strip = study_allocate(numbers, sizeof *strip), wrong = 0;
    MPI_Datatype type = MPI_DOUBLE;
    if (end > begin) {
        MPI_Type_create_subarray(2, sizes, extents, start, MPI_ORDER_C, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
    }
    double started = MPI_Wtime();
    MPI_File file = open_file(MPI_MODE_RDONLY, type);
    need(MPI_File_read_all(file, strip, (int)numbers, MPI_DOUBLE, MPI_STATUS_IGNORE), "MPI_File_read_all");
    need(MPI_File_close(&file), "MPI_File_close");
    *spent += MPI_Wtime() - started;
    for (int x = begin; x < end; x++)
        for (int y = 0; y < edge; y++) wrong += strip[(size_t)(x - begin) * (size_t)edge + (size_t)y] != value_of(x, y, round);
    if (end > begin) MPI_Type_free(&type);
    free(strip);
    return wrong;
}

static void run(int rounds) {
    double restarted = 0;
    for (int way = COLLECTIVE; way <= NONBLOCKING; way++) {
        double spent = 0;
        compute(block, 0);
        if (rank == 0) unlink(path);
        MPI_Barrier(MPI_COMM_WORLD);
        double started = MPI_Wtime();
        for (int round = 0; round < rounds; round++) spent += write_round(way, round);
        double total = MPI_Wtime() - started;
        study_case(NAMES[way], total, spent);
        study_verify(NAMES[way], wrong_numbers(rounds - 1, &restarted), 0);
    }
    study_case(NAMES[RESTART], restarted, restarted);
}

int main(int argc, char **argv) {
    study_begin("checkpoint", &argc, &argv, MPI_THREAD_SINGLE);
    edge = study_number(argc, argv, 1, 500);
    int rounds = study_number(argc, argv, 2, 4), repetitions = study_number(argc, argv, 3, 1);
    int dimensions[2] = {0, 0}, sizes[2] = {edge, edge};
    MPI_Dims_create(size, 2, dimensions);
    study_need(edge >= dimensions[0] && edge <= 20000 && rounds && repetitions,
               "checkpoint [EDGE [ROUNDS [REPETITIONS [FOLDER]]]]: an edge of at most 20000 numbers");
    /* Processes of the job read the name from the first, as each has another number. */
    snprintf(path, sizeof path, "%s/combray-checkpoint-%ld", argc > 4 ? argv[4] : "/tmp", (long)getpid());
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int d = 0; d < 2; d++) {
        int place = d == 0 ? rank / dimensions[1] : rank % dimensions[1];
        first[d] = (int)((long)edge * place / dimensions[d]);
        count[d] = (int)((long)edge * (place + 1) / dimensions[d]) - first[d];
    }
    MPI_Type_create_subarray(2, sizes, count, first, MPI_ORDER_C, MPI_DOUBLE, &view);
    MPI_Type_commit(&view);
    block = study_allocate((size_t)count[0] * (size_t)count[1], sizeof *block);
    next_block = study_allocate((size_t)count[0] * (size_t)count[1], sizeof *next_block);
    for (int repetition = 0; repetition < repetitions; repetition++) run(rounds);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) unlink(path);
    MPI_Type_free(&view);
    free(block);
    free(next_block);
    return study_end();
}
