/* A triangular array whose rows are divided badly: the program of docs/user/slow-programs.md.
 *
 *     mpicc -O2 -g uneven.c -o uneven -lm && mpirun -n 2 ./uneven [ROWS [STEPS [even]]]
 *
 * Row i has i + 1 numbers. In each step a process gets the row above its own ones, smooths its rows,
 * and all add up the changes. Each process has equally many rows, so the last has most of the work;
 * with "even" each has equally many elements. It uses nothing but plain MPI. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, rows, is_even;

/* The first row of a process; that of process `size` is the number of all rows. */
static int first_row(int process) {
    double share = (double)process / size;
    return (int)(rows * (is_even ? sqrt(share) : share));
}

/* Moves each number of a row towards the one above it; returns how much changed. */
static double smooth(double *row, const double *above, int length) {
    double change = 0;
    for (int column = 0; column < length; column++) {
        double before = row[column];
        row[column] = sqrt(before * (column + 1 < length ? above[column] : 1));
        change += fabs(row[column] - before);
    }
    return change;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows = argc > 1 ? atoi(argv[1]) : 2000;
    int steps = argc > 2 ? atoi(argv[2]) : 20;
    is_even = argc > 3 && strcmp(argv[3], "even") == 0;
    int first = first_row(rank), last = first_row(rank + 1);
    double *array = malloc((size_t)(last - first + 1) * (size_t)rows * sizeof *array), changed = 0;
    if (!array || last - first < 1) {
        fprintf(stderr, "usage: uneven [ROWS [STEPS [even]]]: one row or more for each process, that fit into memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    /* The row above the first one is that of the process before. */
    for (long place = 0; place < (long)(last - first + 1) * rows; place++) array[place] = 2;
    int before = rank > 0 ? rank - 1 : MPI_PROC_NULL, after = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    double begun = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        double own = 0;
        MPI_Sendrecv(array + (long)(last - first) * rows, last, MPI_DOUBLE, after, 0, array, first, MPI_DOUBLE, before, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int row = last - 1; row >= first; row--)
            own += smooth(array + (long)(row - first + 1) * rows, array + (long)(row - first) * rows, row + 1);
        MPI_Allreduce(&own, &changed, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%d steps in %.1f ms, change %.6g\n", steps, (MPI_Wtime() - begun) * 1000, changed);
    free(array);
    MPI_Finalize();
    return 0;
}
