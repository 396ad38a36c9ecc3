/* A wave over a table whose values depend on the row above and on the column before.
 *
 *     mpicc -O2 -fopenmp wavefront.c -o wavefront -lm
 *     mpirun -n 4 ./wavefront [EDGE [SWEEPS [REPETITIONS]]]
 *
 * V(i,j) = (V(i,j) + V(i-1,j) + V(i,j-1)) / 3 over a table of EDGE x EDGE, SWEEPS times. Rows are divided
 * among processes, and those of a process among its threads. A row of blocks, each some columns wide, is
 * worked off from left to right; the one below follows a block behind. Ways:
 *
 *     messages     a thread waits for a counter of the thread above; between processes each block's last
 *                  row is a message
 *     partitioned  between processes a sweep is one partitioned message, and a block a partition
 *     diagonals    all blocks of a diagonal are computed by an OpenMP loop, whose end is a barrier
 *
 * All values are compared with those that one process computes without blocks; they must be equal. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

enum { MESSAGES, DIAGONALS, PARTITIONED, WAYS };
enum { THREADS_MAX = 256, BLOCKS_MAX = 4096 };
static const char *const WAY_NAMES[] = {"messages", "diagonals", "partitioned"};

static int edge, threads, sweeps;
static int way, width, blocks; /* columns of a block, blocks of a row */
static int above, below;       /* the neighbours, or MPI_PROC_NULL */
static int row_begin[THREADS_MAX + 1];
static double *table;                     /* rows of this process, each with a column before it */
static double *rows_in[2], *rows_out[2];  /* the rows of even and of odd sweeps that cross to or from neighbours */
static MPI_Request received[2][BLOCKS_MAX], sent[2][BLOCKS_MAX];
static double waited; /* seconds of all threads in MPI */

/* How many blocks a thread has finished in all sweeps, in a cache line of its own. */
static struct {
    _Alignas(64) atomic_int blocks;
} finished[THREADS_MAX];

static double start_value(int row, int column) {
    return (double)((row * 7919 + column * 104729) % 1000) / 1000;
}

static double *at(int row, int column) {
    return table + (size_t)row * (size_t)(edge + 1) + 1 + column;
}

/* One block, whose row above is there. */
static void compute(int begin, int end, int column, int columns, const double *up) {
    for (int row = begin; row < end; row++) {
        double *here = at(row, column);
        for (int j = 0; j < columns; j++) here[j] = (here[j] + up[j] + here[j - 1]) / 3;
        up = here;
    }
}

/* ---- Between processes; the sweep's number decides which of two buffers is used ---- */

static void receive_block(int sweep, int block) {
    MPI_Irecv(rows_in[sweep % 2] + block * width, width, MPI_DOUBLE, above, block, MPI_COMM_WORLD, &received[sweep % 2][block]);
}

static void open_way(void) {
    for (int half = 0; half < 2; half++)
        for (int block = 0; block < blocks; block++) received[half][block] = sent[half][block] = MPI_REQUEST_NULL;
    for (int half = 0; half < 2 && half < sweeps; half++) {
        if (way != PARTITIONED) {
            for (int block = 0; block < blocks && above != MPI_PROC_NULL; block++) receive_block(half, block);
            continue;
        }
        if (above != MPI_PROC_NULL) {
            MPI_Precv_init(rows_in[half], blocks, width, MPI_DOUBLE, above, half, MPI_COMM_WORLD, MPI_INFO_NULL, received[half]);
            MPI_Start(received[half]);
        }
        if (below != MPI_PROC_NULL)
            MPI_Psend_init(rows_out[half], blocks, width, MPI_DOUBLE, below, half, MPI_COMM_WORLD, MPI_INFO_NULL, sent[half]);
    }
}

static void close_way(void) {
    for (int half = 0; half < 2; half++) {
        MPI_Waitall(blocks, sent[half], MPI_STATUSES_IGNORE);
        MPI_Waitall(blocks, received[half], MPI_STATUSES_IGNORE);
        if (way == PARTITIONED && above != MPI_PROC_NULL) MPI_Request_free(received[half]);
        if (way == PARTITIONED && below != MPI_PROC_NULL) MPI_Request_free(sent[half]);
    }
}

static void add_waited(double started) {
    double seconds = MPI_Wtime() - started;
#pragma omp atomic
    waited += seconds;
}

/* Returns when the row above the block is there. */
static void await_above(int sweep, int block) {
    if (above == MPI_PROC_NULL) return;
    double started = MPI_Wtime();
    int there = 0;
    if (way != PARTITIONED) {
        MPI_Wait(&received[sweep % 2][block], MPI_STATUS_IGNORE);
    } else {
        MPI_Parrived(received[sweep % 2][0], block, &there);
        while (!there) {
            sched_yield();
            MPI_Parrived(received[sweep % 2][0], block, &there);
        }
    }
    add_waited(started);
}

/* The row above has been used: its memory may receive that of the sweep after the next. */
static void release_above(int sweep, int block) {
    if (above == MPI_PROC_NULL || sweep + 2 >= sweeps) return;
    double started = MPI_Wtime();
    if (way != PARTITIONED) {
        receive_block(sweep + 2, block);
    } else if (block == blocks - 1) {
        MPI_Wait(received[sweep % 2], MPI_STATUS_IGNORE);
        MPI_Start(received[sweep % 2]);
    }
    add_waited(started);
}

/* Sends the last row of a block that has been computed. */
static void send_below(int sweep, int block, int last_row) {
    int half = sweep % 2;
    double *out = rows_out[half] + block * width, started = MPI_Wtime();
    if (below == MPI_PROC_NULL) return;
    if (way != PARTITIONED) {
        MPI_Wait(&sent[half][block], MPI_STATUS_IGNORE);
        memcpy(out, at(last_row, block * width), (size_t)width * sizeof *out);
        MPI_Isend(out, width, MPI_DOUBLE, below, block, MPI_COMM_WORLD, &sent[half][block]);
    } else {
        if (block == 0) {
            MPI_Wait(sent[half], MPI_STATUS_IGNORE);
            MPI_Start(sent[half]);
        }
        memcpy(out, at(last_row, block * width), (size_t)width * sizeof *out);
        MPI_Pready(block, sent[half][0]);
    }
    add_waited(started);
}

/* ---- Inside a process ---- */

static void await_thread(int thread, int count) {
    while (atomic_load_explicit(&finished[thread].blocks, memory_order_acquire) < count) sched_yield();
}

/* The thread's part of a block. */
static void compute_block(int thread, int sweep, int block) {
    int begin = row_begin[thread], column = block * width;
    const double *up = thread == 0 ? rows_in[sweep % 2] + column : at(begin - 1, column);
    compute(begin, row_begin[thread + 1], column, width, up);
}

/* Each thread follows the one above it. It stays no more than a sweep ahead of the one below, which reads
 * its last row. */
static void pipelined(int thread) {
    for (int sweep = 0; sweep < sweeps; sweep++)
        for (int block = 0; block < blocks; block++) {
            int number = sweep * blocks + block;
            if (thread == 0)
                await_above(sweep, block);
            else
                await_thread(thread - 1, number + 1);
            if (thread + 1 < threads) await_thread(thread + 1, number - blocks + 1);
            compute_block(thread, sweep, block);
            if (thread == 0) release_above(sweep, block);
            if (thread == threads - 1) send_below(sweep, block, row_begin[threads] - 1);
            atomic_store_explicit(&finished[thread].blocks, number + 1, memory_order_release);
        }
}

/* Thread t has block d - t of the diagonal d. The first thread calls MPI. */
static void diagonals(int thread) {
    for (int sweep = 0; sweep < sweeps; sweep++)
        for (int diagonal = 0; diagonal < blocks + threads - 1; diagonal++) {
            if (thread == 0 && diagonal < blocks) await_above(sweep, diagonal);
#pragma omp for schedule(static, 1)
            for (int part = 0; part < threads; part++)
                if (diagonal - part >= 0 && diagonal - part < blocks) compute_block(part, sweep, diagonal - part);
            if (thread != 0) continue;
            if (diagonal < blocks) release_above(sweep, diagonal);
            int last = diagonal - (threads - 1);
            if (last >= 0) send_below(sweep, last, row_begin[threads] - 1);
        }
}

/* ---- Problem and verification ---- */

static int first_row(int process) {
    return (int)((long long)edge * process / size);
}

static void fill(double *rows, int first, int count) {
    for (int row = 0; row < count; row++) {
        rows[(size_t)row * (size_t)(edge + 1)] = 1;
        for (int column = 0; column < edge; column++)
            rows[(size_t)row * (size_t)(edge + 1) + 1 + (size_t)column] = start_value(first + row, column);
    }
}

/* The right values of this process's rows: the first process computes all, and sends each its own. */
static double *right_values(int rows) {
    size_t line = (size_t)(edge + 1);
    double *mine = study_allocate((size_t)rows * line, sizeof *mine);
    if (rank != 0) {
        MPI_Recv(mine, rows * (int)line, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return mine;
    }
    double *all = study_allocate((size_t)(edge + 1) * line, sizeof *all);
    fill(all + line, 0, edge);
    for (size_t column = 0; column < line; column++) all[column] = 1;
    for (int sweep = 0; sweep < sweeps; sweep++)
        for (size_t place = line; place < (size_t)(edge + 1) * line; place++)
            if (place % line) all[place] = (all[place] + all[place - line] + all[place - 1]) / 3;
    for (int process = 1; process < size; process++)
        MPI_Send(all + (size_t)(first_row(process) + 1) * line, (first_row(process + 1) - first_row(process)) * (int)line,
                 MPI_DOUBLE, process, 0, MPI_COMM_WORLD);
    memcpy(mine, all + line, (size_t)rows * line * sizeof *mine);
    free(all);
    return mine;
}

static void run(const double *right, int rows) {
    char name[64];
    snprintf(name, sizeof name, "%s/%d", WAY_NAMES[way], width);
    fill(table, first_row(rank), rows);
    for (int half = 0; half < 2; half++)
        for (int column = 0; column < edge; column++) rows_in[half][column] = 1;
    for (int t = 0; t < threads; t++) atomic_store(&finished[t].blocks, 0);
    waited = 0;
    open_way();
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
#pragma omp parallel num_threads(threads)
    {
        if (way == DIAGONALS)
            diagonals(omp_get_thread_num());
        else
            pipelined(omp_get_thread_num());
    }
    close_way();
    study_case(name, MPI_Wtime() - started, waited / threads);
    size_t differing = 0, all = (size_t)rows * (size_t)(edge + 1);
    for (size_t place = 0; place < all; place++) differing += table[place] != right[place];
    study_verify(name, (double)differing, 0);
}

int main(int argc, char **argv) {
    study_begin("wavefront", &argc, &argv, MPI_THREAD_MULTIPLE);
    edge = study_number(argc, argv, 1, 1024);
    sweeps = study_number(argc, argv, 2, 10);
    int repetitions = study_number(argc, argv, 3, 1);
    threads = omp_get_max_threads();
    study_need(edge % 64 == 0 && edge >= size * threads && edge >= 64 && edge <= 16 * BLOCKS_MAX && sweeps && sweeps <= 10000 &&
                   repetitions && threads <= THREADS_MAX,
               "wavefront [EDGE [SWEEPS [REPETITIONS]]]: the edge is a multiple of 64 and at least the number of threads of "
               "all processes, at most 65536; at most 10000 sweeps");
    int rows = first_row(rank + 1) - first_row(rank);
    above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    for (int t = 0; t <= threads; t++) row_begin[t] = rows * t / threads;
    table = study_allocate((size_t)rows * (size_t)(edge + 1), sizeof *table);
    for (int half = 0; half < 2; half++) {
        rows_in[half] = study_allocate((size_t)edge, sizeof(double));
        rows_out[half] = study_allocate((size_t)edge, sizeof(double));
    }
    double *right = right_values(rows);
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (way = 0; way < WAYS; way++)
            for (width = 16; width <= edge; width = width == 16 ? edge / 4 : edge + 1) {
                blocks = edge / width;
                run(right, rows);
            }
    free(right);
    free(table);
    for (int half = 0; half < 2; half++) {
        free(rows_in[half]);
        free(rows_out[half]);
    }
    return study_end();
}
