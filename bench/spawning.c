// What bench/spawning measures: the median time of starting a process that initializes MPI, by fork
// and exec ("plain"), or by MPI_Comm_spawn ("spawn"), in microseconds.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char path[4096];

static int compare(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static double now(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

// The other end of its standard output learns when MPI_Init has returned.
static int be_started(void) {
    MPI_Comm parents;
    MPI_Init(NULL, NULL);
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL)
        MPI_Comm_disconnect(&parents);
    else if (write(STDOUT_FILENO, "x", 1) != 1)
        return 1;
    MPI_Finalize();
    return 0;
}

static double start_plainly(void) {
    int ends[2];
    char byte;
    if (pipe(ends)) exit(1);
    double begun = now();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(path, path, "started", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1) exit(1);
    double taken = now() - begun;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return taken;
}

static double start_by_spawn(void) {
    char *arguments[] = {"started", NULL};
    MPI_Comm made;
    double begun = now();
    MPI_Comm_spawn(path, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &made, MPI_ERRCODES_IGNORE);
    double taken = now() - begun;
    MPI_Comm_disconnect(&made);
    // The process that has just been disconnected ends meanwhile.
    usleep(20000);
    return taken;
}

int main(int argc, char **argv) {
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0 || argc < 2) return 2;
    if (!strcmp(argv[1], "started")) return be_started();
    int count = argc > 2 ? atoi(argv[2]) : 0, spawns = !strcmp(argv[1], "spawn");
    if (count < 1) return 2;
    double *times = calloc((size_t)count, sizeof *times);
    if (spawns) MPI_Init(NULL, NULL);
    for (int i = 0; i < count; i++) times[i] = spawns ? start_by_spawn() : start_plainly();
    if (spawns) MPI_Finalize();
    qsort(times, (size_t)count, sizeof *times, compare);
    printf("%.0f\n", times[count / 2]);
    free(times);
    return 0;
}
