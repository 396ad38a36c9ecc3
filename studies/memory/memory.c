/* How much memory a job takes on a machine, and which part of it is not the program's data.
 *
 *     mpicc -O2 -fopenmp memory.c -o memory -lm && mpirun -n 4 ./memory [EDGE [HALO]]
 *
 * A square of EDGE x EDGE numbers is divided into blocks among the processes; each has a halo of HALO numbers
 * on every side. OpenMP threads share a block and so have no halos between them. The memory of a process is
 * what the kernel reports as its proportional set size (a page that n processes map counts 1/n for each), so the sum
 * over a machine counts no page twice. Cases:
 *
 *     started    after MPI_Init, without data
 *     block      with the block and its halo
 *     exchanged  after halos were exchanged with all neighbours
 *     all        after an all-to-all exchange among all processes
 *
 * The second figure is what remains without blocks and halos: library, program and stacks. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <omp.h>

static int edge, halo, width[2], count[2];
static double *block;
static MPI_Comm grid;

/* The proportional set size of this process in megabytes. */
static double memory_megabytes(void) {
    char line[256];
    double kibibytes = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %lf", &kibibytes) == 1) break;
    if (file) fclose(file);
    if (kibibytes < 0) {
        fprintf(stderr, "memory: the kernel does not show /proc/self/smaps_rollup\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return kibibytes * 1024 / 1e6;
}

static void report(const char *name, double data_bytes) {
    /* Pages count once all processes have them. */
    MPI_Barrier(MPI_COMM_WORLD);
    double mine = memory_megabytes();
    MPI_Barrier(MPI_COMM_WORLD);
    double all = study_over_all(mine, MPI_SUM), data = study_over_all(data_bytes / 1e6, MPI_SUM);
    if (rank == 0) printf("case %s: %.3f MB, library %.3f MB\n", name, all, all - data);
}

static double value_of(int process, int place) {
    return process * 1e6 + place;
}

/* Fills the block by all threads, as a program would that computes with them. */
static void fill(void) {
#pragma omp parallel for schedule(static)
    for (int x = 0; x < width[0]; x++)
        for (int y = 0; y < width[1]; y++) block[(size_t)x * (size_t)width[1] + (size_t)y] = value_of(rank, x);
}

/* Exchanges the halos of both dimensions; gives how many received numbers are wrong. */
static double exchange(void) {
    double wrong = 0;
    for (int d = 0; d < 2; d++) {
        MPI_Datatype side;
        int before, after, rows = d == 0 ? halo : count[0], columns = d == 0 ? count[1] : halo;
        MPI_Cart_shift(grid, d, 1, &before, &after);
        MPI_Type_vector(rows, columns, width[1], MPI_DOUBLE, &side);
        MPI_Type_commit(&side);
        size_t row = d == 0 ? (size_t)width[1] : 1, corner = d == 0 ? (size_t)halo : (size_t)halo * (size_t)width[1];
        double *first = block + corner + (size_t)halo * row, *last = block + corner + (size_t)count[d] * row;
        double *halo_before = block + corner, *halo_after = block + corner + (size_t)(halo + count[d]) * row;
        MPI_Sendrecv(first, 1, side, before, 0, halo_after, 1, side, after, 0, grid, MPI_STATUS_IGNORE);
        MPI_Sendrecv(last, 1, side, after, 1, halo_before, 1, side, before, 1, grid, MPI_STATUS_IGNORE);
        MPI_Type_free(&side);
        if (before != MPI_PROC_NULL) wrong += floor(*halo_before / 1e6) != before;
        if (after != MPI_PROC_NULL) wrong += floor(*halo_after / 1e6) != after;
    }
    return wrong;
}

static double talk_to_all(void) {
    int *sent = study_allocate(2 * (size_t)size, sizeof *sent), *received = sent + size;
    double wrong = 0;
    for (int p = 0; p < size; p++) sent[p] = rank * size + p;
    MPI_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, MPI_COMM_WORLD);
    for (int p = 0; p < size; p++) wrong += received[p] != p * size + rank;
    free(sent);
    return wrong;
}

int main(int argc, char **argv) {
    study_begin("memory", &argc, &argv, MPI_THREAD_FUNNELED);
    edge = study_number(argc, argv, 1, 1000);
    halo = study_number(argc, argv, 2, 4);
    int dimensions[2] = {0, 0}, periods[2] = {0, 0}, place[2];
    MPI_Dims_create(size, 2, dimensions);
    study_need(halo && edge <= 30000 && edge / dimensions[0] >= halo && edge / dimensions[1] >= halo,
               "memory [EDGE [HALO]]: an edge of at most 30000 numbers, a halo that fits into each block");
    report("started", 0);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dimensions, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, place);
    for (int d = 0; d < 2; d++) {
        count[d] = edge * (place[d] + 1) / dimensions[d] - edge * place[d] / dimensions[d];
        width[d] = count[d] + 2 * halo;
    }
    double bytes = (double)width[0] * width[1] * (double)sizeof *block;
    block = study_allocate((size_t)width[0] * (size_t)width[1], sizeof *block);
    fill();
    report("block", bytes);
    study_verify("exchanged", exchange(), 0);
    report("exchanged", bytes);
    study_verify("all", talk_to_all(), 0);
    report("all", bytes);
    free(block);
    MPI_Comm_free(&grid);
    return study_end();
}
