// Messages between memory of devices beside plain copies of the driver (bench/devices): it needs
// nothing of CUDA to compile, and runs with any MPI library. Times are of one message or copy, in
// microseconds: the best of five series. Rank 0 prints rows: what, bytes, microseconds. With an
// argument there are few rounds, to try the program.
#include <mpi.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER(name, ...) static int (*name)(__VA_ARGS__)
DRIVER(cuInit, unsigned);
DRIVER(cuDeviceGetCount, int *);
DRIVER(cuDevicePrimaryCtxRetain, void **, int);
DRIVER(cuCtxSetCurrent, void *);
DRIVER(cuMemAlloc_v2, uintptr_t *, size_t);
DRIVER(cuMemAllocAsync, uintptr_t *, size_t, void *);
DRIVER(cuMemAllocHost_v2, void **, size_t);
DRIVER(cuMemcpyDtoDAsync_v2, uintptr_t, uintptr_t, size_t, void *);
DRIVER(cuMemcpyDtoHAsync_v2, void *, uintptr_t, size_t, void *);
DRIVER(cuMemcpyHtoDAsync_v2, uintptr_t, const void *, size_t, void *);
DRIVER(cuMemcpyDtoH_v2, void *, uintptr_t, size_t);
DRIVER(cuMemcpyHtoD_v2, uintptr_t, const void *, size_t);
DRIVER(cuStreamCreate, void **, unsigned);
DRIVER(cuStreamSynchronize, void *);

enum { SERIES = 5, REDUCED = 1 << 20 };
static const size_t LENGTHS[] = {8, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
enum { LENGTH_COUNT = sizeof LENGTHS / sizeof *LENGTHS };
#define LENGTH_MAX LENGTHS[LENGTH_COUNT - 1]

static int rank, size, is_trial;
static void *stream;
// Memory that has a handle, that of the default pool, which has none, and the processor's.
static uintptr_t own[2], of_pool[2];
static void *host[2];

static void must(int outcome, const char *what) {
    if (outcome == 0) return;
    fprintf(stderr, "bench/devices: %s returned %d\n", what, outcome);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define MUST(call) must((call), #call)

static void find_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "bench/devices: %s\n", dlerror());
        exit(3);
    }
#define FIND(name) \
    if (!(name = (__typeof__(name))dlsym(library, #name))) { \
        fprintf(stderr, "bench/devices: libcuda.so.1 has no %s\n", #name); \
        exit(3); \
    }
    FIND(cuInit) FIND(cuDeviceGetCount) FIND(cuDevicePrimaryCtxRetain) FIND(cuCtxSetCurrent)
    FIND(cuMemAlloc_v2) FIND(cuMemAllocAsync) FIND(cuMemAllocHost_v2) FIND(cuMemcpyDtoDAsync_v2)
    FIND(cuMemcpyDtoHAsync_v2) FIND(cuMemcpyHtoDAsync_v2) FIND(cuMemcpyDtoH_v2) FIND(cuMemcpyHtoD_v2)
    FIND(cuStreamCreate) FIND(cuStreamSynchronize)
}

// What is measured: `bytes` between memory of this process, or to and from rank 1.
typedef void (*work)(size_t bytes);

static void plain_copy(size_t bytes) {
    MUST(cuMemcpyDtoDAsync_v2(own[1], own[0], bytes, stream));
    MUST(cuStreamSynchronize(stream));
}

static void to_host(size_t bytes) {
    MUST(cuMemcpyDtoHAsync_v2(host[0], own[0], bytes, stream));
    MUST(cuStreamSynchronize(stream));
}

static void to_device(size_t bytes) {
    MUST(cuMemcpyHtoDAsync_v2(own[0], host[0], bytes, stream));
    MUST(cuStreamSynchronize(stream));
}

static void there_and_back(void *from, void *into, size_t bytes) {
    if (rank == 0) MPI_Send(from, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank < 2) MPI_Recv(into, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(from, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
}

static void message(size_t bytes) { there_and_back((void *)own[0], (void *)own[1], bytes); }
static void staged(size_t bytes) { there_and_back((void *)of_pool[0], (void *)of_pool[1], bytes); }
static void host_message(size_t bytes) { there_and_back(host[0], host[1], bytes); }

static void allreduce(size_t bytes) {
    MPI_Allreduce((void *)own[0], (void *)own[1], bytes / sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void host_allreduce(size_t bytes) {
    MPI_Allreduce(host[0], host[1], bytes / sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// The work is that of `ranks` ranks, and takes `parts` messages.
static void measure(const char *name, work of, int ranks, int parts, size_t bytes) {
    int rounds = is_trial ? 2 : bytes > (1 << 20) ? 10 : bytes > 4096 ? 100 : 500;
    double best = 1e9;
    for (int series = is_trial ? SERIES - 1 : 0; series < SERIES; series++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank < ranks) of(bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int round = 0; round < rounds && rank < ranks; round++) of(bytes);
        double each = (MPI_Wtime() - begin) / rounds / parts;
        best = each < best ? each : best;
    }
    if (rank == 0) {
        printf("%s\t%zu\t%.3f\n", name, bytes, best * 1e6);
        fflush(stdout);
    }
}

// Messages have their data in the end.
static void check(const char *name, uintptr_t from, uintptr_t into, work of) {
    unsigned *values = host[0], *seen = host[1], wrong = 0;
    size_t count = LENGTH_MAX / sizeof *values;
    for (size_t i = 0; i < count; i++) values[i] = i * 2654435761u + rank, seen[i] = 0;
    MUST(cuMemcpyHtoD_v2(from, values, LENGTH_MAX));
    MUST(cuMemcpyHtoD_v2(into, seen, LENGTH_MAX));
    MUST(cuStreamSynchronize(NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    of(LENGTH_MAX);
    MUST(cuMemcpyDtoH_v2(seen, into, LENGTH_MAX));
    for (size_t i = 0; i < count && rank < 2; i++) wrong += seen[i] != (unsigned)(i * 2654435761u + 1 - rank);
    if (wrong) {
        fprintf(stderr, "bench/devices: %s: %u words of %zu bytes are wrong on rank %d\n", name, wrong, LENGTH_MAX, rank);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    find_driver();
    is_trial = argc > 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int devices;
    void *context;
    MUST(cuInit(0));
    MUST(cuDeviceGetCount(&devices));
    MUST(cuDevicePrimaryCtxRetain(&context, rank % devices));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, 1));
    for (int i = 0; i < 2; i++) {
        MUST(cuMemAlloc_v2(&own[i], LENGTH_MAX));
        MUST(cuMemAllocAsync(&of_pool[i], LENGTH_MAX, NULL));
        MUST(cuMemAllocHost_v2(&host[i], LENGTH_MAX));
        memset(host[i], 0, LENGTH_MAX);
    }
    MUST(cuStreamSynchronize(NULL));
    if (size > 1) {
        check("message", own[0], own[1], message);
        check("message of a pool", of_pool[0], of_pool[1], staged);
    }
    for (int i = 0; i < LENGTH_COUNT; i++) {
        measure("plain copy", plain_copy, 1, 1, LENGTHS[i]);
        measure("copy to host", to_host, 1, 1, LENGTHS[i]);
        measure("copy to device", to_device, 1, 1, LENGTHS[i]);
        if (size < 2) continue;
        measure("message", message, 2, 2, LENGTHS[i]);
        measure("message of a pool", staged, 2, 2, LENGTHS[i]);
        measure("host message", host_message, 2, 2, LENGTHS[i]);
    }
    measure("allreduce", allreduce, size, 1, REDUCED);
    measure("host allreduce", host_allreduce, size, 1, REDUCED);
    return MPI_Finalize();
}
