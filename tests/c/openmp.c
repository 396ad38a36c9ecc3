// Hybrid programs, at the level that each needs: a field on which the threads of OpenMP work is
// exchanged with the neighbours by the main thread (funneled), by one thread after the other
// (serialized), by all at once (multiple). The threads make only calls that their level allows.
// run: 1 2 3
// each: funneled serialized multiple
// openmp
// timeout: 60
#include "check.h"
#include <omp.h>
#include <sched.h>

enum { THREADS = 3, CELLS = 2000, STEPS = 60 };

// A strip for each thread, with a cell of the neighbours on either side.
static double field[THREADS][CELLS + 2], next[THREADS][CELLS + 2];
static MPI_Comm comms[THREADS];

static double start_value(int process, int thread, int cell) {
    return (process * THREADS + thread) * 10 + cell % 7;
}

// The neighbours are the strips of the thread with this number in the processes before and after.
static void exchange(int thread, MPI_Comm comm, int tag) {
    int before = (check_rank + check_size - 1) % check_size, after = (check_rank + 1) % check_size;
    double *cells = field[thread];
    OK(MPI_Sendrecv(&cells[CELLS], 1, MPI_DOUBLE, after, tag, &cells[0], 1, MPI_DOUBLE, before, tag, comm,
                    MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(&cells[1], 1, MPI_DOUBLE, before, tag, &cells[CELLS + 1], 1, MPI_DOUBLE, after, tag,
                    comm, MPI_STATUS_IGNORE));
}

// The mean of the neighbours: the sum over the ring stays.
static void relax(int thread) {
    const double *old = field[thread];
    for (int i = 1; i <= CELLS; i++) next[thread][i] = (old[i - 1] + old[i + 1]) / 2;
    memcpy(&field[thread][1], &next[thread][1], CELLS * sizeof(double));
}

static double sum_of(int thread) {
    double sum = 0;
    for (int i = 1; i <= CELLS; i++) sum += field[thread][i];
    return sum;
}

static void funneled(void) {
#pragma omp parallel num_threads(THREADS)
    for (int step = 0; step < STEPS; step++) {
#pragma omp master
        for (int thread = 0; thread < THREADS; thread++) exchange(thread, MPI_COMM_WORLD, thread);
#pragma omp barrier
        relax(omp_get_thread_num());
#pragma omp barrier
    }
}

// Which strip is exchanged first differs from process to process, hence not in calls that wait for
// the other side: all are begun, then awaited, always one thread at a time.
static void serialized(void) {
    int before = (check_rank + check_size - 1) % check_size, after = (check_rank + 1) % check_size;
#pragma omp parallel num_threads(THREADS)
    for (int step = 0; step < STEPS; step++) {
        int thread = omp_get_thread_num(), main_thread;
        double *cells = field[thread];
        MPI_Request requests[4];
#pragma omp critical
        {
            OK(MPI_Is_thread_main(&main_thread));
            CHECK_EQ(main_thread, thread == 0);
            OK(MPI_Irecv(&cells[0], 1, MPI_DOUBLE, before, thread, MPI_COMM_WORLD, &requests[0]));
            OK(MPI_Irecv(&cells[CELLS + 1], 1, MPI_DOUBLE, after, 9, comms[thread], &requests[1]));
            OK(MPI_Isend(&cells[CELLS], 1, MPI_DOUBLE, after, thread, MPI_COMM_WORLD, &requests[2]));
            OK(MPI_Isend(&cells[1], 1, MPI_DOUBLE, before, 9, comms[thread], &requests[3]));
        }
        for (int done = 0; !done;) {
#pragma omp critical
            OK(MPI_Testall(4, requests, &done, MPI_STATUSES_IGNORE));
            // The threads outnumber the cores where this runs.
            if (!done) sched_yield();
        }
        relax(thread);
#pragma omp barrier
    }
}

// Every other step on one communicator for all threads, with a tag each.
static void multiple(void) {
#pragma omp parallel num_threads(THREADS)
    for (int step = 0; step < STEPS; step++) {
        int thread = omp_get_thread_num();
        if (step % 2)
            exchange(thread, comms[thread], 0);
        else
            exchange(thread, MPI_COMM_WORLD, thread);
        relax(thread);
        double sum = sum_of(thread), total;
        OK(MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, comms[thread]));
        CHECK(total > 0, "step %d: %f", step, total);
    }
}

// Tasks that wait for each other's messages inside of one process.
static void tasks(void) {
    int sum = 0;
#pragma omp parallel num_threads(THREADS) reduction(+ : sum)
    {
        int thread = omp_get_thread_num(), number = thread, got;
        for (int turn = 0; turn < 200; turn++) {
            if (thread == 0) OK(MPI_Send(&turn, 1, MPI_INT, check_rank, 1, comms[0]));
            OK(MPI_Recv(&got, 1, MPI_INT, check_rank, number + 1, comms[0], MPI_STATUS_IGNORE));
            CHECK_EQ(got, turn);
            if (thread + 1 < THREADS) OK(MPI_Send(&got, 1, MPI_INT, check_rank, number + 2, comms[0]));
            sum += got;
        }
    }
    CHECK_EQ(sum, THREADS * 199 * 200 / 2);
}

int main(int argc, char **argv) {
    const char *names[] = {"funneled", "serialized", "multiple"};
    const int levels[] = {MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    void (*ways[])(void) = {funneled, serialized, multiple};
    int way = 0, provided;
    while (way < 2 && (argc < 2 || strcmp(argv[1], names[way]))) way++;
    MPI_Init_thread(&argc, &argv, levels[way], &provided);
    check_world();
    CHECK(provided >= levels[way], "%d", provided);
    double before = 0, after = 0;
    for (int thread = 0; thread < THREADS; thread++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[thread]));
        for (int i = 1; i <= CELLS; i++) field[thread][i] = start_value(check_rank, thread, i);
        before += sum_of(thread);
    }
    ways[way]();
    for (int thread = 0; thread < THREADS; thread++) after += sum_of(thread);
    OK(MPI_Allreduce(MPI_IN_PLACE, &before, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Allreduce(MPI_IN_PLACE, &after, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    CHECK(after > before * (1 - 1e-9) && after < before * (1 + 1e-9), "%f, not %f", after, before);
    if (levels[way] == MPI_THREAD_MULTIPLE) tasks();
    for (int thread = 0; thread < THREADS; thread++) OK(MPI_Comm_free(&comms[thread]));
    return check_end();
}
