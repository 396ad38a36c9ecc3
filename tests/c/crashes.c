// thread
// One of the processes crashes, or all do, in the way that the argument names; started by
// tests/scenarios/crashes.py.
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int zero;
static volatile int *volatile nowhere;

#define APART __attribute__((noinline, noclone))

static APART int read_from(volatile int *place) { return *place + 1; }

static APART int descend(int depth) {
    volatile char room[256];
    room[0] = (char)depth;
    return descend(depth + 1) + room[0];
}

static void own_handler(int number) {
    (void)number;
    static const char text[] = "the program's own handler\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(4);
    _exit(3);
}

static void *in_a_thread(void *nothing) {
    (void)nothing;
    read_from(nowhere);
    return 0;
}

// The allocator finds its damaged memory while it holds its lock.
static APART void damage_the_heap(void) {
    enum { LARGE = 120000 };
    char *volatile last = malloc(LARGE);
    memset(last, 0x7f, malloc_usable_size(last) + 16);
    if (!malloc(LARGE)) exit(4);
}

static APART void send_nowhere(void) {
    MPI_Send(0, 0, MPI_INT, 77, 0, MPI_COMM_WORLD);
    zero = 0;
}

static APART void crash(const char *how) {
    if (!strcmp(how, "read")) read_from(nowhere);
    if (!strcmp(how, "overflow")) descend(0);
    if (!strcmp(how, "divide")) exit(7 / zero);
    if (!strcmp(how, "call")) ((void (*)(void))nowhere)();
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "heap")) damage_the_heap();
    if (!strcmp(how, "raise")) raise(SIGBUS);
    if (!strcmp(how, "handler")) read_from(nowhere);
    if (!strcmp(how, "error")) send_nowhere();
    if (!strcmp(how, "child")) {
        pid_t child = fork();
        if (!child) read_from(nowhere);
        int status = 0;
        if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) exit(4);
    }
    if (!strcmp(how, "thread")) {
        pthread_t thread;
        pthread_create(&thread, 0, in_a_thread, 0);
        pthread_join(thread, 0);
    }
}

int main(int argc, char **argv) {
    int rank;
    const char *how = argc > 1 ? argv[1] : "none";
    if (!strcmp(how, "handler")) signal(SIGSEGV, own_handler);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(how, "mismatch")) {
        int value[1000] = {0};
        MPI_Bcast(value, rank ? 1 : 1000, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 1 || argc > 2) crash(how);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
