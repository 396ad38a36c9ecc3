// Operations for which other processes wait make progress while a process is outside of the library
// and computes, until the others create a file, which they do when their operations are complete.
// Without progress outside of calls each of these would wait for ever. Inside a machine, short
// messages need no such progress ("alone").
// run: 2 3
// each: single multiple alone
// timeout: 60
// hosts
// checkers: threads
#include "windows.h"
#include <fcntl.h>
#include <time.h>

static char path[256];

// Anything of the file system does, where processes on different hosts of a test share it.
static void choose_path(int number) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/outside-%d-%d", folder ? folder : "/tmp", (int)getpid(), number);
    OK(MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD));
    unlink(path);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void tell(void) { close(open(path, O_CREAT | O_EXCL | O_WRONLY, 0600)); }

// Returns when the file is there; calls nothing of MPI.
static void compute_until_told(void) {
    volatile double sum = 0;
    while (access(path, F_OK) != 0)
        for (int i = 1; i < 20000; i++) sum += 1.0 / i;
}

static void finish(void) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) unlink(path);
}

// Rank 1 is away while the others wait until it has got their messages.
static void receives(int bytes) {
    unsigned char *buffer = malloc((size_t)bytes * (size_t)check_size);
    if (check_rank == 1) {
        MPI_Request requests[8];
        for (int from = 0, k = 0; from < check_size; from++)
            if (from != 1) OK(MPI_Irecv(buffer + (size_t)from * (size_t)bytes, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, &requests[k++]));
        compute_until_told();
        OK(MPI_Waitall(check_size - 1, requests, MPI_STATUSES_IGNORE));
        for (int from = 0; from < check_size; from++)
            for (int i = 0; from != 1 && i < bytes; i += bytes / 7)
                CHECK_EQ(buffer[(size_t)from * (size_t)bytes + (size_t)i], (unsigned char)(from * 50 + i));
    } else {
        for (int i = 0; i < bytes; i++) buffer[i] = (unsigned char)(check_rank * 50 + i);
        OK(MPI_Ssend(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
        int token = 0;
        if (check_rank == 2) OK(MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        if (check_rank == 0) {
            if (check_size > 2) OK(MPI_Recv(&token, 1, MPI_INT, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            tell();
        }
    }
    free(buffer);
}

// Rank 1 is outside of the library while rank 0 waits for its messages.
static void sends(int bytes) {
    unsigned char *buffer = malloc((size_t)bytes);
    if (check_rank == 1) {
        MPI_Request request;
        for (int i = 0; i < bytes; i++) buffer[i] = (unsigned char)(3 * i);
        OK(MPI_Isend(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request));
        compute_until_told();
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (check_rank == 0) {
        OK(MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < bytes; i += bytes / 7) CHECK_EQ(buffer[i], (unsigned char)(3 * i));
        tell();
    }
    free(buffer);
}

// The exchange with short messages, with gaps or without, where no helper is needed.
static void sends_alone(int count, int stride) {
    int *buffer = calloc((size_t)count * (size_t)stride, sizeof *buffer);
    MPI_Datatype spaced;
    OK(MPI_Type_vector(count, 1, stride, MPI_INT, &spaced));
    OK(MPI_Type_commit(&spaced));
    if (check_rank == 1) {
        MPI_Request request;
        for (int i = 0; i < count; i++) buffer[i * stride] = 3 * i;
        OK(MPI_Isend(buffer, 1, spaced, 0, 0, MPI_COMM_WORLD, &request));
        compute_until_told();
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (check_rank == 0) {
        OK(MPI_Recv(buffer, count, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < count; i++) CHECK_EQ(buffer[i], 3 * i);
        tell();
    }
    OK(MPI_Type_free(&spaced));
    free(buffer);
}

// Rank 1 has begun a collective operation, and the others wait for its end.
static void reduces(int count) {
    double *mine = malloc((size_t)count * sizeof *mine), *sum = malloc((size_t)count * sizeof *sum);
    for (int i = 0; i < count; i++) mine[i] = check_rank + i;
    MPI_Request request;
    OK(MPI_Iallreduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request));
    if (check_rank == 1) compute_until_told();
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (check_rank == 0) tell();
    for (int i = 0; i < count; i += count / 3 + 1)
        CHECK(sum[i] == check_size * (check_size - 1) / 2.0 + (double)check_size * i, "%g", sum[i]);
    free(mine);
    free(sum);
}

static void meets(void) {
    MPI_Request request;
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    if (check_rank == 1) compute_until_told();
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (check_rank == 0) tell();
}

// Rank 1's part of a window is used, whatever the window's memory is.
static void is_used(int flavor) {
    Window window = window_open(flavor, 64);
    if (check_rank == 1) {
        compute_until_told();
    } else if (check_rank == 0) {
        const long long one = 1;
        for (int turn = 0; turn < 10; turn++) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window.win));
            OK(MPI_Accumulate(&one, 1, MPI_LONG_LONG, 1, window_at(&window, 1, 0), 1, MPI_LONG_LONG, MPI_SUM, window.win));
            OK(MPI_Win_unlock(1, window.win));
        }
        tell();
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 1) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window.win));
        CHECK_EQ(*(long long *)window.memory, 10);
        OK(MPI_Win_unlock(1, window.win));
    }
    window_close(&window);
}

int main(int argc, char **argv) {
    int provided, wanted = argc > 1 && !strcmp(argv[1], "multiple") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    const int is_alone = argc > 1 && !strcmp(argv[1], "alone");
    setenv("COMBRAY_HELPER", is_alone ? "never" : "auto", 1);
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    check_world();
    int number = 0;
    // Emulated hosts have this name; between them, a nonblocking send may be held back for a burst.
    const int is_one_machine = getenv("COMBRAY_NODE") == NULL;
    for (int count = 2; is_alone && is_one_machine && count <= 8192; count *= 8) {
        for (int stride = 1; stride <= 3; stride++) {
            choose_path(number++);
            sends_alone(count - 1, stride);
            finish();
        }
    }
    if (is_alone) return check_end();
    static const int bytes[] = {8, 4000, 70000, 3000000};
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < 4; k++) {
            choose_path(number++);
            receives(bytes[k]);
            finish();
            choose_path(number++);
            sends(bytes[k]);
            finish();
            choose_path(number++);
            reduces(bytes[k] / 8);
            finish();
        }
        choose_path(number++);
        meets();
        finish();
        for (int flavor = 0; flavor < FLAVORS; flavor++) {
            if (!window_exists(flavor)) continue;
            choose_path(number++);
            is_used(flavor);
            finish();
        }
    }
    return check_end();
}
