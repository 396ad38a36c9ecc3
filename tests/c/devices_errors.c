// Each function of the driver fails once, or from some call on: then the data is right, or the call
// is an error with the driver's name for it, and when the function works again, so does everything.
// The functions that only describe devices fail in scenarios/doctor.py.
// run: 2
// each: memory descriptors streams
// timeout: 120
// one machine: the functions for handles are called on one machine only
// preload: libcuda.so.1.c
#include "devices.h"

#ifndef ERROR_PREFIX
#define ERROR_PREFIX "CUDA_ERROR_"
static const char *const of_memory[] = {
    "cuPointerGetAttributes", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuStreamCreate", "cuStreamSynchronize",
    "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuEventDestroy_v2",
    "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpy2DAsync_v2",
    "cuMemGetAddressRange_v2", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle",
    "cuMemHostRegister_v2", "cuMemHostUnregister", NULL,
};
#endif
// Of memory that belongs to no context, and has a descriptor.
static const char *const of_descriptors[] = {
    "cuPointerGetAttributes", "cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxGetDevice",
    "cuMemRetainAllocationHandle", "cuMemRelease", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle",
    "cuMemAddressReserve", "cuMemAddressFree", "cuMemMap", "cuMemUnmap", "cuMemSetAccess",
    "cuMemPoolExportToShareableHandle", "cuMemPoolImportFromShareableHandle", "cuMemPoolSetAccess",
    "cuMemPoolDestroy", "cuMemPoolExportPointer", "cuMemPoolImportPointer", "cuMemFree_v2", NULL,
};
static const char *const of_streams[] = {
    "cuStreamGetCtx", "cuLaunchHostFunc", "cuStreamWaitValue32_v2", "cuMemHostGetDevicePointer_v2",
    "cuStreamIsCapturing", "cuStreamQuery", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemHostRegister_v2",
    "cuStreamSynchronize", NULL,
};

DRIVER(int, cuStreamCreate, void **, unsigned);
DRIVER(int, fake_device_work, void *, long);

enum { LONG = 1 << 18 };

static int kind;
static void *from, *into;
static MPI_Win window;
static int failures;

// Whether a call has succeeded. If not, it must be with the driver's name for it.
static int ended(int code, const char *operation, const char *failing) {
    if (code == MPI_SUCCESS) return 1;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    CHECK(failing, "%s failed although nothing does: %s", operation, text);
    CHECK_CLASS(code, MPI_ERR_OTHER);
    CHECK(strstr(text, ERROR_PREFIX), "%s without %s: %s", operation, failing ? failing : "", text);
    failures++;
    return 0;
}

static int exchange(int count) {
    int peer = 1 - check_rank, flags[2];
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    // A call that reports a failure has begun its operation nevertheless.
    int code = MPI_Irecv(into, count, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[0]);
    int sent = MPI_Isend(from, count, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; i++) {
        do {
            flags[i] = 0;
            int tested = MPI_Test(&requests[i], &flags[i], &statuses[i]);
            code = code ? code : tested;
        } while (!flags[i] && requests[i] != MPI_REQUEST_NULL);
    }
    return sent ? sent : code;
}

enum { OPERATIONS = 7 };

static int operate(int which) {
    int peer = 1 - check_rank, code, fenced;
    switch (which) {
    case 0: return exchange(100);
    case 1: return exchange(LONG / 4);
    case 2: return MPI_Sendrecv(from, 20000, MPI_INT, peer, 2, into, 20000, MPI_INT, peer, 2, MPI_COMM_WORLD,
                                MPI_STATUS_IGNORE);
    case 3: return MPI_Allreduce(from, into, 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    case 4: code = MPI_Put(from, 1000, MPI_INT, peer, 0, 1000, MPI_INT, window); break;
    case 5: code = MPI_Put(from, LONG / 4, MPI_INT, peer, 0, LONG / 4, MPI_INT, window); break;
    // What is got has the window's content after the get of the peer, whichever is first.
    default: code = MPI_Get(from, LONG / 8, MPI_INT, peer, LONG / 8, LONG / 8, MPI_INT, window);
    }
    fenced = MPI_Win_fence(0, window);
    return code ? code : fenced;
}

static const char *const operations[] = {
    "short exchange", "long exchange", "Sendrecv", "Allreduce", "short Put", "long Put", "long Get",
};
static const int lengths[] = {100, LONG / 4, 20000, 1000, 1000, LONG / 4, LONG / 8};

static void run(int which, const char *failing) {
    int *values = malloc(LONG), *expected = malloc(LONG), is_get = which == OPERATIONS - 1;
    for (int i = 0; i < LONG / 4; i++) {
        values[i] = i * 3 + check_rank;
        expected[i] = which == 3 ? i * 6 + 1 : i * 3 + 1 - check_rank;
    }
    device_set(kind, from, values, LONG);
    for (int i = 0; i < LONG / 4; i++) values[i] = i >= LONG / 8 ? (i - LONG / 8) * 3 + check_rank : 0;
    device_set(kind, into, values, LONG);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, window);
    if (check_rank == 0) fake_device_fail(failing);
    int good = ended(operate(which), operations[which], failing);
    fake_device_fail(NULL);
    // What has failed and was not reported yet.
    int all, own = ended(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier", failing) && good;
    OK(MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (all) {
        device_get(kind, values, is_get ? from : into, LONG);
        for (int i = 0; i < lengths[which]; i++)
            if (values[i] != expected[i]) {
                CHECK(0, "%s of %s without %s: element %d is %d, not %d", operations[which], kind_names[kind],
                      failing ? failing : "nothing", i, values[i], expected[i]);
                break;
            }
    }
    void *now;
    DRIVER_OK(cuCtxGetCurrent(&now));
    CHECK(now == device_contexts[0], "%s without %s left another context", operations[which], failing ? failing : "nothing");
    free(values);
    free(expected);
}

// Once, and always.
static void each(const char *const *functions, void (*test)(const char *failing)) {
    for (; *functions; functions++)
        for (int number = 1; number >= -1; number -= 2) {
            char failing[100];
            snprintf(failing, sizeof failing, "%s,%d", *functions, number);
            test(failing);
        }
}

static void of_one_kind(const char *failing) {
    // New memory has no handle yet.
    from = device_memory(kind, LONG);
    into = device_memory(kind, LONG);
    OK(MPI_Win_create(into, LONG, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    for (int which = 0; which < OPERATIONS; which++) {
        run(which, failing);
        run(which, NULL);
    }
    OK(MPI_Win_free(&window));
    device_free(kind, from);
    device_free(kind, into);
}

// A message from the process to itself, on a stream that comes to it late.
static void on_a_stream(const char *failing) {
    enum { COUNT = 1000 };
    void *queue;
    MPIX_Stream stream;
    MPI_Comm comm;
    MPI_Info info;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int values[COUNT], seen[COUNT];
    from = device_memory(DEVICE, sizeof values);
    into = device_memory(DEVICE, sizeof values);
    for (int i = 0; i < COUNT; i++) values[i] = i * 5 + check_rank, seen[i] = 0;
    device_set(DEVICE, from, values, sizeof values);
    device_set(DEVICE, into, seen, sizeof seen);
    DRIVER_OK(cuStreamCreate(&queue, 0));
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    OK(MPIX_Info_set_hex(info, "value", &queue, sizeof queue));
    fake_device_fail(failing);
    int made = ended(MPIX_Stream_create(info, &stream), "MPIX_Stream_create", failing);
    if (made) {
        OK(MPIX_Stream_comm_create(MPI_COMM_SELF, stream, &comm));
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        // Longer than the library waits before it asks about the stream.
        DRIVER_OK(fake_device_work(queue, 250000));
        int received = ended(MPIX_Irecv_enqueue(into, COUNT, MPI_INT, 0, 1, comm, &requests[0]), "Irecv_enqueue", failing);
        int sent = ended(MPIX_Isend_enqueue(from, COUNT, MPI_INT, 0, 1, comm, &requests[1]), "Isend_enqueue", failing);
        int good = received && sent;
        good &= ended(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), "Waitall_enqueue", failing);
        // A receive that was queued waits for its message.
        if (received && !sent) good &= ended(MPI_Send(from, COUNT, MPI_INT, 0, 1, comm), "MPI_Send", failing);
        for (int i = 0; i < 2; i++) good &= ended(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), "MPI_Wait", failing);
        fake_device_fail(NULL);
        DRIVER_OK(cuStreamSynchronize(queue));
        for (int i = 0; i < 10; i++) good &= ended(MPI_Barrier(MPI_COMM_SELF), "MPI_Barrier", failing);
        device_get(DEVICE, seen, into, sizeof seen);
        if (good) CHECK(!memcmp(seen, values, sizeof seen), "the message without %s is wrong", failing ? failing : "nothing");
        OK(MPIX_Stream_free(&stream));
        OK(MPI_Comm_free(&comm));
    }
    fake_device_fail(NULL);
    MPI_Info_free(&info);
    device_free(DEVICE, from);
    device_free(DEVICE, into);
    if (failing) on_a_stream(NULL);
}

int main(int argc, char **argv) {
    check_begin();
    devices_begin();
    FIND(cuStreamCreate); FIND(fake_device_work);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const char *group = argc > 1 ? argv[1] : "memory";
    int few = 10;
    if (!strcmp(group, "streams")) {
        each(of_streams, on_a_stream);
        few = 8;
    } else if (!strcmp(group, "descriptors")) {
        for (kind = MAPPED; kind <= SHARED_POOL; kind++) each(of_descriptors, of_one_kind);
    } else {
        kind = DEVICE;
        each(of_memory, of_one_kind);
        few = 20;
    }
    CHECK(check_rank != 0 || failures >= few, "only %d calls have failed", failures);
    return check_end();
}
