/* The Cholesky factorisation of a symmetric matrix in tiles, as a graph of tasks over processes and threads.
 *
 *     mpicc -O2 -fopenmp cholesky.c -o cholesky -lm && mpirun -n 2 ./cholesky [TILES [TILE [REPETITIONS]]]
 *
 * The matrix has TILES x TILES tiles of TILE x TILE numbers; the lower ones are distributed over a grid of processes in
 * two dimensions, cyclically. Column after column, the diagonal tile is factored, the tiles below are solved
 * with it, and each tile further right is reduced by the product of two of them. Ways:
 *
 *     steps     a column after another: OpenMP loops over its tiles, then all messages of the column
 *     tasks     OpenMP tasks whose dependences are tiles; a tile is sent by the task that completes it, and a tile of
 *               another process is a task that MPI completes (`detach`): one more thread waits for messages */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <omp.h>
#include <sched.h>

enum { STEPS, TASKS, WAYS };
static const char *const NAMES[] = {"steps", "tasks"};

static int tiles, tile, grid[2];
static size_t tile_numbers;
static double **tile_at;      /* tile (i, j) at [i * tiles + j]: own ones, and received ones of others */
static double communication;  /* of the thread that waits for messages */

static int owner(int i, int j) {
    return i % grid[0] * grid[1] + j % grid[1];
}

/* Whether a process computes with tile (i, k) of another: with the diagonal one below it, with others in their row
 * and in the column of their number. */
static int needs(int process, int i, int k) {
    if (process == owner(i, k)) return 0;
    for (int j = k + 1; j < tiles; j++) {
        if (i == k && owner(j, k) == process) return 1;
        if (i > k && ((j <= i && owner(i, j) == process) || (j >= i && owner(j, i) == process))) return 1;
    }
    return 0;
}

/* An element of the matrix: large on the diagonal, so that the matrix is positive definite. */
static double element(int i, int j) {
    return 1.0 / (1 + abs(i - j)) + (i == j ? 8 : 0);
}

/* ---- The kernels of a tile ---- */

static void factor(double *a) {
    for (int j = 0; j < tile; j++) {
        for (int k = 0; k < j; k++) a[j * tile + j] -= a[j * tile + k] * a[j * tile + k];
        a[j * tile + j] = sqrt(a[j * tile + j]);
        for (int i = j + 1; i < tile; i++) {
            for (int k = 0; k < j; k++) a[i * tile + j] -= a[i * tile + k] * a[j * tile + k];
            a[i * tile + j] /= a[j * tile + j];
        }
        for (int i = 0; i < j; i++) a[i * tile + j] = 0;
    }
}

static void solve(const double *diagonal, double *a) {
    for (int i = 0; i < tile; i++)
        for (int j = 0; j < tile; j++) {
            double value = a[i * tile + j];
            for (int k = 0; k < j; k++) value -= a[i * tile + k] * diagonal[j * tile + k];
            a[i * tile + j] = value / diagonal[j * tile + j];
        }
}

/* c -= a * transposed b. Four products at a time, always in the same order. */
static void reduce(const double *a, const double *b, double *c) {
    for (int i = 0; i < tile; i++)
        for (int j = 0; j < tile; j++) {
            double sums[4] = {0, 0, 0, 0};
            int k = 0;
            for (; k + 4 <= tile; k += 4)
                for (int lane = 0; lane < 4; lane++) sums[lane] += a[i * tile + k + lane] * b[j * tile + k + lane];
            for (; k < tile; k++) sums[0] += a[i * tile + k] * b[j * tile + k];
            c[i * tile + j] -= (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
}

/* ---- Messages ---- */

/* A process sends a tile to every other that needs it; it does not change afterwards. */
static void send_tile(int i, int k) {
    for (int process = 0; process < size; process++) {
        MPI_Request request;
        if (!needs(process, i, k)) continue;
        MPI_Isend(tile_at[i * tiles + k], (int)tile_numbers, MPI_DOUBLE, process, i * tiles + k, MPI_COMM_WORLD, &request);
        /* The barrier at the end of the factorisation shows that it has arrived. */
        MPI_Request_free(&request);
    }
}

static void receive_tile(int i, int k, MPI_Request *request) {
    MPI_Irecv(tile_at[i * tiles + k], (int)tile_numbers, MPI_DOUBLE, owner(i, k), i * tiles + k, MPI_COMM_WORLD, request);
}

/* ---- The ways ---- */

static void exchange_column(int k, int first, int last) {
    double started = MPI_Wtime();
    MPI_Request *requests = study_allocate((size_t)(last - first), sizeof *requests);
    int count = 0;
    for (int i = first; i < last; i++)
        if (needs(rank, i, k)) receive_tile(i, k, &requests[count++]);
    for (int i = first; i < last; i++)
        if (owner(i, k) == rank) send_tile(i, k);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    free(requests);
    communication += MPI_Wtime() - started;
}

static void factor_in_steps(void) {
    for (int k = 0; k < tiles; k++) {
        double *diagonal = tile_at[k * tiles + k];
        if (owner(k, k) == rank) factor(diagonal);
        exchange_column(k, k, k + 1);
#pragma omp parallel for schedule(dynamic)
        for (int i = k + 1; i < tiles; i++)
            if (owner(i, k) == rank) solve(diagonal, tile_at[i * tiles + k]);
        exchange_column(k, k + 1, tiles);
#pragma omp parallel for collapse(2) schedule(dynamic)
        for (int i = k + 1; i < tiles; i++)
            for (int j = k + 1; j < tiles; j++)
                if (j <= i && owner(i, j) == rank)
                    reduce(tile_at[i * tiles + k], tile_at[j * tiles + k], tile_at[i * tiles + j]);
    }
}

/* A tile of another process: its request, and the event that ends its task. */
static MPI_Request *arrivals;
static omp_event_handle_t *events;
static int expected, created;

static void create_arrivals(void) {
    for (int k = 0; k < tiles; k++)
        for (int i = k; i < tiles; i++) {
            omp_event_handle_t event;
            if (!needs(rank, i, k)) continue;
#pragma omp task depend(out : tile_at[i * tiles + k][0]) detach(event)
            {
            }
            events[expected] = event;
            receive_tile(i, k, &arrivals[expected++]);
        }
#pragma omp atomic write seq_cst
    created = 1;
}

static void create_tasks(void) {
    create_arrivals();
    for (int k = 0; k < tiles; k++) {
        double *diagonal = tile_at[k * tiles + k];
        if (owner(k, k) == rank) {
#pragma omp task depend(inout : diagonal[0]) priority(2)
            {
                factor(diagonal);
                send_tile(k, k);
            }
        }
        for (int i = k + 1; i < tiles; i++) {
            double *panel = tile_at[i * tiles + k];
            if (owner(i, k) != rank) continue;
#pragma omp task depend(in : diagonal[0]) depend(inout : panel[0]) priority(1)
            {
                solve(diagonal, panel);
                send_tile(i, k);
            }
        }
        for (int i = k + 1; i < tiles; i++)
            for (int j = k + 1; j <= i; j++) {
                double *left = tile_at[i * tiles + k], *right = tile_at[j * tiles + k], *reduced = tile_at[i * tiles + j];
                if (owner(i, j) != rank) continue;
#pragma omp task depend(in : left[0], right[0]) depend(inout : reduced[0])
                reduce(left, right, reduced);
            }
    }
}

static void wait_for_arrivals(void) {
    int known = 0, left, done;
    while (!known) {
#pragma omp atomic read seq_cst
        known = created;
        sched_yield();
    }
    int *which = study_allocate((size_t)expected, sizeof *which);
    for (left = expected; left > 0; left -= done) {
        double started = MPI_Wtime();
        MPI_Waitsome(expected, arrivals, &done, which, MPI_STATUSES_IGNORE);
        communication += MPI_Wtime() - started;
        for (int i = 0; i < done; i++) omp_fulfill_event(events[which[i]]);
    }
    free(which);
}

static void factor_by_tasks(void) {
    arrivals = study_allocate((size_t)(tiles * tiles), sizeof *arrivals);
    events = study_allocate((size_t)(tiles * tiles), sizeof *events);
    expected = created = 0;
#pragma omp parallel num_threads(omp_get_max_threads() + 1)
    {
        if (omp_get_thread_num() == 0)
            wait_for_arrivals();
        else if (omp_get_thread_num() == 1)
            create_tasks();
    }
    free(arrivals);
    free(events);
}

/* ---- Preparation and proof ---- */

static void set_tiles(void) {
    for (int i = 0; i < tiles; i++)
        for (int j = 0; j <= i; j++) {
            double *own = tile_at[i * tiles + j];
            for (int x = 0; owner(i, j) == rank && x < tile; x++)
                for (int y = 0; y < tile; y++) own[x * tile + y] = element(i * tile + x, j * tile + y);
        }
}

/* Adds the product of a process's tiles, or of their transposed ones, with a vector. */
static void multiply(int transposed, const double *vector, double *product) {
    int length = tiles * tile;
    double *part = study_allocate((size_t)length, sizeof *part);
    for (int i = 0; i < tiles; i++)
        for (int j = 0; j <= i; j++)
            for (int x = 0; owner(i, j) == rank && x < tile; x++)
                for (int y = 0; y < tile; y++) {
                    double value = tile_at[i * tiles + j][x * tile + y];
                    if (transposed)
                        part[j * tile + y] += value * vector[i * tile + x];
                    else
                        part[i * tile + x] += value * vector[j * tile + y];
                }
    MPI_Allreduce(part, product, length, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    free(part);
}

/* The largest difference between the matrix times a vector, and its factors times that vector. */
static double largest_residual(void) {
    int length = tiles * tile;
    double *vector = study_allocate(3 * (size_t)length, sizeof *vector), largest = 0;
    double *half = vector + length, *whole = half + length;
    for (int i = 0; i < length; i++) vector[i] = sin(i + 1.0);
    multiply(1, vector, half);
    multiply(0, half, whole);
    for (int i = rank; i < length; i += size) {
        double exact = 0;
        for (int j = 0; j < length; j++) exact += element(i, j) * vector[j];
        double error = fabs(exact - whole[i]);
        if (!(error <= largest)) largest = error;
    }
    free(vector);
    return largest;
}

static void run(int way) {
    set_tiles();
    communication = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    if (way == STEPS)
        factor_in_steps();
    else
        factor_by_tasks();
    double total = MPI_Wtime() - started;
    MPI_Barrier(MPI_COMM_WORLD);
    study_case(NAMES[way], total, communication);
    study_verify(NAMES[way], largest_residual(), 1e-10);
}

int main(int argc, char **argv) {
    study_begin("cholesky", &argc, &argv, MPI_THREAD_MULTIPLE);
    tiles = study_number(argc, argv, 1, 12);
    tile = study_number(argc, argv, 2, 64);
    int repetitions = study_number(argc, argv, 3, 1);
    study_need(tiles && tiles <= 150 && tile && tile <= 1000 && repetitions,
               "cholesky [TILES [TILE [REPETITIONS]]]: at most 150 x 150 tiles of at most 1000 x 1000 numbers");
    tile_numbers = (size_t)tile * (size_t)tile;
    MPI_Dims_create(size, 2, grid);
    tile_at = study_allocate((size_t)(tiles * tiles), sizeof *tile_at);
    for (int i = 0; i < tiles; i++)
        for (int j = 0; j <= i; j++)
            if (owner(i, j) == rank || needs(rank, i, j)) tile_at[i * tiles + j] = study_allocate(tile_numbers, sizeof(double));
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int way = 0; way < WAYS; way++) run(way);
    for (int i = 0; i < tiles * tiles; i++) free(tile_at[i]);
    free(tile_at);
    return study_end();
}
