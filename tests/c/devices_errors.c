// Each function of the driver fails once, or from some call on: then the data is right, or the call
// is an error with the driver's name for it, and when the function works again, so does everything.
// run: 2
// timeout: 120
// one machine: the functions for handles are called on one machine only
// preload: libcuda.so.1.c
#include "devices.h"

enum { LONG = 1 << 18 };

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
    CHECK(strstr(text, "CUDA_ERROR_"), "%s without %s: %s", operation, failing ? failing : "", text);
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

static int operate(int which) {
    switch (which) {
    case 0: return exchange(100);
    case 1: return exchange(LONG / 4);
    case 2: return MPI_Sendrecv(from, 20000, MPI_INT, 1 - check_rank, 2, into, 20000, MPI_INT, 1 - check_rank, 2,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    case 3: return MPI_Allreduce(from, into, 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    default: {
        int code = MPI_Put(from, 1000, MPI_INT, 1 - check_rank, 0, 1000, MPI_INT, window);
        int fenced = MPI_Win_fence(0, window);
        return code ? code : fenced;
    }
    }
}

static const char *const operations[] = {"short exchange", "long exchange", "Sendrecv", "Allreduce", "Put"};
static const int lengths[] = {100, LONG / 4, 20000, 1000, 1000};

static void run(int which, const char *failing) {
    int *values = malloc(LONG), *expected = malloc(LONG);
    for (int i = 0; i < LONG / 4; i++) {
        values[i] = i * 3 + check_rank;
        expected[i] = which == 3 ? i * 6 + 1 : i * 3 + 1 - check_rank;
    }
    device_set(DEVICE, from, values, LONG);
    memset(values, 0, LONG);
    device_set(DEVICE, into, values, LONG);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, window);
    if (check_rank == 0) fake_device_fail(failing);
    int good = ended(operate(which), operations[which], failing);
    fake_device_fail(NULL);
    // What has failed and was not reported yet.
    int all, own = ended(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier", failing) && good;
    OK(MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (all) {
        device_get(DEVICE, values, into, LONG);
        for (int i = 0; i < lengths[which]; i++)
            if (values[i] != expected[i]) {
                CHECK(0, "%s without %s: element %d is %d, not %d", operations[which], failing ? failing : "nothing", i,
                      values[i], expected[i]);
                break;
            }
    }
    void *now;
    DRIVER_OK(cuCtxGetCurrent(&now));
    CHECK(now == device_contexts[0], "%s left another context", operations[which]);
    free(values);
    free(expected);
}

int main(void) {
    static const char *const functions[] = {
        "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuStreamCreate", "cuStreamSynchronize", "cuEventCreate",
        "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuEventDestroy_v2", "cuMemcpyDtoHAsync_v2",
        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpy2DAsync_v2", "cuMemGetAddressRange_v2",
        "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle", "cuMemHostRegister_v2",
        "cuMemRetainAllocationHandle", "cuMemExportToShareableHandle",
    };
    check_begin();
    devices_begin();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t function = 0; function < sizeof functions / sizeof *functions; function++)
        for (int number = 1; number >= -1; number -= 2) {
            // New memory has no handle yet.
            from = device_memory(DEVICE, LONG);
            into = device_memory(DEVICE, LONG);
            OK(MPI_Win_create(into, LONG, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
            MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
            char failing[100];
            snprintf(failing, sizeof failing, "%s,%d", functions[function], number);
            for (int which = 0; which < 5; which++) {
                run(which, failing);
                run(which, NULL);
            }
            OK(MPI_Win_free(&window));
            device_free(DEVICE, from);
            device_free(DEVICE, into);
        }
    CHECK(check_rank != 0 || failures >= 20, "only %d calls have failed", failures);
    return check_end();
}
