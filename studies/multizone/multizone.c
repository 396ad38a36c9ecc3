/* The heat equation on a box that consists of zones of equal or very different sizes, as in the
 * multi-zone benchmarks (BT-MZ and SP-MZ; van der Wijngaart and Jin, NASA report NAS-03-010, 2003).
 *
 *     mpicc -O2 -fopenmp multizone.c -o multizone -lm
 *     mpirun -n 2 ./multizone [OUTER [POINTS [STEPS [REPETITIONS]]]]
 *
 * The box has POINTS x POINTS x POINTS/4 points and 4 x 4 zones, which divide x and y. In a step, each
 * zone receives the values along its four sides from the neighbouring zones, and then advances alone:
 * an implicit step that is factored into sweeps along x, y and z, each of which solves a tridiagonal
 * system per line. Zones are given to processes by size, the largest first, each to the process with
 * the fewest points. OUTER threads of a process advance different zones, and each of them has
 * OMP_NUM_THREADS / OUTER threads for the lines of a sweep.
 *
 * Each number is computed from the same numbers in the same order however zones, lines and sides are
 * divided, so the result has the same bits in each start; it is also compared with the exact solution. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <omp.h>

enum { SIDE = 4, ZONES = SIDE * SIDE, NEIGHBOURS = 4 };
static const double PI = 3.14159265358979323846;
/* In uneven divisions the widest column of zones is this many times as wide as the narrowest. */
static const double RATIO = 4.5;

struct zone {
    int owner;
    int first[2], count[3];      /* first point along x and y, numbered from 1; points along x, y and z */
    double *now, *change;        /* values, and what a step adds; with one layer of halo in x and y */
    double *out[NEIGHBOURS], *in[NEIGHBOURS];
};

static struct zone zones[ZONES];
static int points, depth, outer, inner;
static double time_step, spacing[3];

static size_t row_of(const struct zone *zone) {
    return (size_t)zone->count[2] + 2;
}

static size_t at(const struct zone *zone, int x, int y, int z) {
    return ((size_t)x * (size_t)(zone->count[1] + 2) + (size_t)y) * row_of(zone) + (size_t)z;
}

static double exact(const struct zone *zone, int x, int y, int z, double time) {
    return exp(-3 * PI * PI * time) * sin(PI * spacing[0] * (zone->first[0] + x - 1)) *
           sin(PI * spacing[1] * (zone->first[1] + y - 1)) * sin(PI * spacing[2] * z);
}

/* ---- The zones and where they are ---- */

/* Where column `index` of zones begins, as a share of the box. */
static double share_before(int index, int uneven) {
    double before = 0, all = 0;
    for (int i = 0; i < SIDE; i++) {
        double width = uneven ? pow(RATIO, (double)i / (SIDE - 1)) : 1;
        all += width;
        if (i < index) before += width;
    }
    return before / all;
}

static int neighbour_of(int index, int side) {
    int x = index / SIDE + (side == 0 ? -1 : side == 1), y = index % SIDE + (side == 2 ? -1 : side == 3);
    return x < 0 || x >= SIDE || y < 0 || y >= SIDE ? -1 : x * SIDE + y;
}

static long points_of(const struct zone *zone) {
    return (long)zone->count[0] * zone->count[1] * zone->count[2];
}

/* Gives the largest zone that has no owner to the process with the fewest points, until all have one. */
static void distribute(void) {
    long *load = study_allocate((size_t)size, sizeof *load);
    for (int given = 0; given < ZONES; given++) {
        struct zone *largest = NULL;
        int process = 0;
        for (int i = 0; i < ZONES; i++)
            if (zones[i].owner < 0 && (!largest || points_of(&zones[i]) > points_of(largest))) largest = &zones[i];
        for (int p = 1; p < size; p++)
            if (load[p] < load[process]) process = p;
        largest->owner = process;
        load[process] += points_of(largest);
    }
    free(load);
}

static size_t side_length(const struct zone *zone, int side) {
    return (size_t)zone->count[side < 2 ? 1 : 0] * (size_t)zone->count[2];
}

static void open_zones(int uneven) {
    for (int i = 0; i < ZONES; i++) {
        struct zone *zone = &zones[i];
        *zone = (struct zone){.owner = -1, .count = {0, 0, depth}};
        for (int d = 0; d < 2; d++) {
            int column = d == 0 ? i / SIDE : i % SIDE;
            int begin = (int)(points * share_before(column, uneven)), end = (int)(points * share_before(column + 1, uneven));
            zone->first[d] = begin + 1;
            zone->count[d] = (column == SIDE - 1 ? points : end) - begin;
        }
    }
    distribute();
    for (int i = 0; i < ZONES; i++) {
        struct zone *zone = &zones[i];
        if (zone->owner != rank) continue;
        size_t all = at(zone, zone->count[0] + 1, zone->count[1] + 1, depth + 1) + 1;
        zone->now = study_allocate(all, sizeof *zone->now);
        zone->change = study_allocate(all, sizeof *zone->change);
        for (int side = 0; side < NEIGHBOURS; side++) {
            zone->out[side] = study_allocate(side_length(zone, side), sizeof(double));
            zone->in[side] = study_allocate(side_length(zone, side), sizeof(double));
        }
    }
}

static void close_zones(void) {
    for (int i = 0; i < ZONES; i++) {
        free(zones[i].now);
        free(zones[i].change);
        for (int side = 0; side < NEIGHBOURS; side++) {
            free(zones[i].out[side]);
            free(zones[i].in[side]);
        }
    }
}

static void set_initial(struct zone *zone) {
    for (int x = 1; x <= zone->count[0]; x++)
        for (int y = 1; y <= zone->count[1]; y++)
            for (int z = 1; z <= depth; z++) zone->now[at(zone, x, y, z)] = exact(zone, x, y, z, 0);
}

/* ---- The exchange ---- */

/* Copies a side of a zone: what neighbours need, or the halo that they fill. */
static void copy_side(struct zone *zone, int side, int pack) {
    int along_y = side < 2, last = zone->count[along_y ? 0 : 1];
    int fixed = side % 2 ? (pack ? last : last + 1) : (pack ? 1 : 0);
    double *buffer = pack ? zone->out[side] : zone->in[side];
    for (int i = 1; i <= zone->count[along_y ? 1 : 0]; i++, buffer += depth) {
        double *line = zone->now + (along_y ? at(zone, fixed, i, 1) : at(zone, i, fixed, 1));
        if (pack)
            memcpy(buffer, line, (size_t)depth * sizeof *line);
        else
            memcpy(line, buffer, (size_t)depth * sizeof *line);
    }
}

static void exchange(void) {
    MPI_Request requests[2 * ZONES * NEIGHBOURS];
    int count = 0;
    for (int i = 0; i < ZONES; i++)
        for (int side = 0; side < NEIGHBOURS; side++) {
            int other = neighbour_of(i, side);
            if (zones[i].owner != rank || other < 0 || zones[other].owner == rank) continue;
            /* A message is named by the zone and the side that receive it. */
            MPI_Irecv(zones[i].in[side], (int)side_length(&zones[i], side), MPI_DOUBLE, zones[other].owner,
                      i * NEIGHBOURS + side, MPI_COMM_WORLD, &requests[count++]);
        }
#pragma omp parallel for collapse(2) schedule(static)
    for (int i = 0; i < ZONES; i++)
        for (int side = 0; side < NEIGHBOURS; side++)
            if (zones[i].owner == rank && neighbour_of(i, side) >= 0) copy_side(&zones[i], side, 1);
    for (int i = 0; i < ZONES; i++)
        for (int side = 0; side < NEIGHBOURS; side++) {
            int other = neighbour_of(i, side);
            if (zones[i].owner != rank || other < 0) continue;
            size_t length = side_length(&zones[i], side);
            if (zones[other].owner == rank)
                memcpy(zones[other].in[side ^ 1], zones[i].out[side], length * sizeof(double));
            else
                MPI_Isend(zones[i].out[side], (int)length, MPI_DOUBLE, zones[other].owner,
                          other * NEIGHBOURS + (side ^ 1), MPI_COMM_WORLD, &requests[count++]);
        }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
#pragma omp parallel for collapse(2) schedule(static)
    for (int i = 0; i < ZONES; i++)
        for (int side = 0; side < NEIGHBOURS; side++)
            if (zones[i].owner == rank && neighbour_of(i, side) >= 0) copy_side(&zones[i], side, 0);
}

/* ---- A step of one zone ---- */

/* Solves (1 + 2r) v[i] - r v[i-1] - r v[i+1] = right[i] in place for `lines` lines at once, which lie one
 * number apart, while the points of a line lie `stride` apart. There is no change in a halo. */
static void solve_lines(double *values, int count, size_t stride, size_t lines, double r) {
    double factors[count];
    for (int i = 0; i < count; i++) {
        double before = i == 0 ? 0 : factors[i - 1], divisor = 1 / (1 + 2 * r - r * before);
        factors[i] = r * divisor;
        double *here = values + (size_t)i * stride, *last = here - stride;
        if (i == 0)
            for (size_t line = 0; line < lines; line++) here[line] *= divisor;
        else
            for (size_t line = 0; line < lines; line++) here[line] = (here[line] + r * last[line]) * divisor;
    }
    for (int i = count - 2; i >= 0; i--) {
        double *here = values + (size_t)i * stride, *next = here + stride;
        for (size_t line = 0; line < lines; line++) here[line] += factors[i] * next[line];
    }
}

static void advance(struct zone *zone) {
    int nx = zone->count[0], ny = zone->count[1];
    size_t row = row_of(zone), plane = row * (size_t)(ny + 2);
    double r[3];
    for (int d = 0; d < 3; d++) r[d] = time_step / (spacing[d] * spacing[d]);
    double *now = zone->now, *change = zone->change;
#pragma omp parallel num_threads(inner)
    {
#pragma omp for schedule(static)
        for (int x = 1; x <= nx; x++)
            for (int y = 1; y <= ny; y++) {
                const double *here = now + at(zone, x, y, 0);
                double *line = change + at(zone, x, y, 0);
                for (int z = 1; z <= depth; z++)
                    line[z] = r[0] * (*(here + z - plane) - 2 * here[z] + here[z + plane]) +
                              r[1] * (*(here + z - row) - 2 * here[z] + here[z + row]) +
                              r[2] * (here[z - 1] - 2 * here[z] + here[z + 1]);
                solve_lines(line + 1, depth, 1, 1, r[2]);
            }
#pragma omp for schedule(static)
        for (int x = 1; x <= nx; x++) solve_lines(change + at(zone, x, 1, 1), ny, row, (size_t)depth, r[1]);
#pragma omp for schedule(static)
        for (int y = 1; y <= ny; y++) solve_lines(change + at(zone, 1, y, 1), nx, plane, (size_t)depth, r[0]);
#pragma omp for schedule(static)
        for (int x = 1; x <= nx; x++)
            for (int y = 1; y <= ny; y++)
                for (int z = 1; z <= depth; z++) now[at(zone, x, y, z)] += change[at(zone, x, y, z)];
    }
}

static void solve(int steps, double *communication) {
    int mine[ZONES], count = 0;
    for (int i = 0; i < ZONES; i++)
        if (zones[i].owner == rank) mine[count++] = i;
    /* Large zones first, so that the last ones to be taken are small. */
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && points_of(&zones[mine[j]]) > points_of(&zones[mine[j - 1]]); j--) {
            int swapped = mine[j];
            mine[j] = mine[j - 1];
            mine[j - 1] = swapped;
        }
    *communication = 0;
    for (int step = 0; step < steps; step++) {
        double started = MPI_Wtime();
        exchange();
        *communication += MPI_Wtime() - started;
#pragma omp parallel for num_threads(outer) schedule(dynamic)
        for (int i = 0; i < count; i++) advance(&zones[mine[i]]);
    }
}

/* ---- The result ---- */

static double largest_error(double time) {
    double largest = 0;
    for (int i = 0; i < ZONES; i++) {
        const struct zone *zone = &zones[i];
        for (int x = 1; zone->owner == rank && x <= zone->count[0]; x++)
            for (int y = 1; y <= zone->count[1]; y++)
                for (int z = 1; z <= depth; z++) {
                    double error = fabs(zone->now[at(zone, x, y, z)] - exact(zone, x, y, z, time));
                    if (!(error <= largest)) largest = error;
                }
    }
    return largest;
}

/* A sum over the bits of all values that depends on where each of them is. */
static unsigned long long bits_of_all(void) {
    unsigned long long mine = 0, all = 0;
    for (int i = 0; i < ZONES; i++) {
        const struct zone *zone = &zones[i];
        for (int x = 1; zone->owner == rank && x <= zone->count[0]; x++)
            for (int y = 1; y <= zone->count[1]; y++)
                for (int z = 1; z <= depth; z++) {
                    unsigned long long bits, place = (unsigned long long)(zone->first[0] + x) * 4096 + (unsigned)(zone->first[1] + y);
                    memcpy(&bits, &zone->now[at(zone, x, y, z)], sizeof bits);
                    mine += bits * (2 * (place * 4096 + (unsigned)z) + 1);
                }
    }
    MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static unsigned long long run(int uneven, int steps) {
    char name[64];
    double communication;
    snprintf(name, sizeof name, "%s/%dx%d", uneven ? "uneven" : "even", outer, inner);
    open_zones(uneven);
    for (int i = 0; i < ZONES; i++)
        if (zones[i].owner == rank) set_initial(&zones[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    solve(steps, &communication);
    study_case(name, MPI_Wtime() - started, communication);
    /* Halos do not change during a step, so values near them lag behind: by less than half of what has decayed. */
    double time = steps * time_step;
    study_verify(name, largest_error(time), (1 - exp(-3 * PI * PI * time)) / 2);
    unsigned long long bits = bits_of_all();
    close_zones();
    return bits;
}

int main(int argc, char **argv) {
    study_begin("multizone", &argc, &argv, MPI_THREAD_FUNNELED);
    int threads = omp_get_max_threads();
    outer = study_number(argc, argv, 1, 1);
    points = study_number(argc, argv, 2, 64);
    int steps = study_number(argc, argv, 3, 20), repetitions = study_number(argc, argv, 4, 1);
    study_need(outer && threads % outer == 0 && points >= 16 && points <= 2000 && steps && repetitions && size <= ZONES,
               "multizone [OUTER [POINTS [STEPS [REPETITIONS]]]]: OUTER divides OMP_NUM_THREADS, 16 to 2000 points, at "
               "most 16 processes");
    inner = threads / outer;
    depth = points / 4;
    for (int d = 0; d < 3; d++) spacing[d] = 1.0 / ((d < 2 ? points : depth) + 1);
    time_step = spacing[0] * spacing[0] / 2;
    omp_set_max_active_levels(2);
    unsigned long long bits = 0;
    for (int repetition = 0; repetition < repetitions; repetition++) bits = run(0, steps) + 3 * run(1, steps);
    study_bits(bits);
    return study_end();
}
