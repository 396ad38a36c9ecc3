// Three programs with small regions or tasks: programs THREADS [ROUNDS [NAME]] prints for each the
// best of some rounds in seconds. "regions": 10^6 regions with a loop of 100 iterations.
// "fibonacci": the number of 27, with two tasks for each number. "cholesky": a sparse matrix in
// blocks of 16, whose tasks depend on each other.
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int threads;

static double regions(void) {
    static double values[100];
    for (int region = 0; region < 1000000; region++) {
#pragma omp parallel for num_threads(threads)
        for (int i = 0; i < 100; i++)
            values[i] += 1;
    }
    return values[0] + values[99];
}

static long fibonacci(int n) {
    if (n < 2)
        return n;
    long a, b;
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

static double fibonacci_in_region(void) {
    long result = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    result = fibonacci(27);
    return result;
}

// A symmetric matrix of N x N blocks, of which only some are there; elimination adds others.
#define N 48
#define B 16
typedef double Block[B * B];
static Block *blocks[N][N];

static void fill(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            if (i == j || i - j == 1 || (i * 7 + j * 3) % 11 == 0)
                blocks[i][j] = malloc(sizeof(Block));
    for (int k = 0; k < N; k++)
        for (int i = k + 1; i < N; i++)
            for (int j = k + 1; j <= i; j++)
                if (blocks[i][k] && blocks[j][k] && !blocks[i][j])
                    blocks[i][j] = malloc(sizeof(Block));
}

static void set(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            if (blocks[i][j])
                for (int x = 0; x < B; x++)
                    for (int y = 0; y < B; y++)
                        (*blocks[i][j])[x * B + y] = i == j && x == y ? 2.0 * N * B : 1.0 / (1 + (i * B + x + j * B + y) % 17);
}

static void factor(double *a) {
    for (int k = 0; k < B; k++) {
        a[k * B + k] = sqrt(a[k * B + k]);
        for (int i = k + 1; i < B; i++)
            a[i * B + k] /= a[k * B + k];
        for (int i = k + 1; i < B; i++)
            for (int j = k + 1; j <= i; j++)
                a[i * B + j] -= a[i * B + k] * a[j * B + k];
    }
}

static void solve(const double *a, double *b) {
    for (int x = 0; x < B; x++)
        for (int k = 0; k < B; k++) {
            double sum = b[x * B + k];
            for (int m = 0; m < k; m++)
                sum -= b[x * B + m] * a[k * B + m];
            b[x * B + k] = sum / a[k * B + k];
        }
}

static void update(const double *a, const double *b, double *c) {
    for (int x = 0; x < B; x++)
        for (int y = 0; y < B; y++) {
            double sum = 0;
            for (int k = 0; k < B; k++)
                sum += a[x * B + k] * b[y * B + k];
            c[x * B + y] -= sum;
        }
}

static double cholesky(void) {
    set();
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (int k = 0; k < N; k++) {
        double *d = *blocks[k][k];
#pragma omp task depend(inout : d[0]) firstprivate(d)
        factor(d);
        for (int i = k + 1; i < N; i++)
            if (blocks[i][k]) {
                double *b = *blocks[i][k];
#pragma omp task depend(in : d[0]) depend(inout : b[0]) firstprivate(d, b)
                solve(d, b);
            }
        for (int i = k + 1; i < N; i++)
            for (int j = k + 1; j <= i; j++)
                if (blocks[i][k] && blocks[j][k]) {
                    double *a = *blocks[i][k], *b = *blocks[j][k], *c = *blocks[i][j];
#pragma omp task depend(in : a[0], b[0]) depend(inout : c[0]) firstprivate(a, b, c)
                    update(a, b, c);
                }
    }
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            for (int x = 0; blocks[i][j] && x < B; x++)
                sum += (*blocks[i][j])[x * B];
    return sum;
}

static const struct {
    const char *name;
    double (*run)(void);
} PROGRAMS[] = {{"regions", regions}, {"fibonacci", fibonacci_in_region}, {"cholesky", cholesky}};

int main(int count, char **arguments) {
    threads = count > 1 ? atoi(arguments[1]) : 2;
    int rounds = count > 2 ? atoi(arguments[2]) : 3;
    fill();
    for (int i = 0; i < 3; i++) {
        if (count > 3 && strcmp(arguments[3], PROGRAMS[i].name) != 0)
            continue;
        double best = 1e9, result = 0;
        for (int round = 0; round < rounds; round++) {
            double start = omp_get_wtime();
            result = PROGRAMS[i].run();
            double seconds = omp_get_wtime() - start;
            best = seconds < best ? seconds : best;
        }
        printf("%s %.4f s, result %.6f\n", PROGRAMS[i].name, best, result);
        fflush(stdout);
    }
    return 0;
}
