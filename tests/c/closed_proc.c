// Processes whose /proc/PID/fd is closed to others share memory and exchange messages nevertheless:
// processes that forbid tracing before MPI_Init, as an executable without read permission does from
// its start; some of them; processes that forbid it later, before they have connected to most of
// the others; and processes that are in other user namespaces than their peers.
// run: 2 3 5
// each: nobody all odd later namespaces
// checkers: address threads
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>

enum { LARGE = 3 << 20 };

static void forbid_tracing(void) {
    REQUIRE(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "prctl: %s", strerror(errno));
}

static void exchange(int peer, int bytes) {
    unsigned char *out = malloc(bytes), *in = calloc(1, bytes);
    pattern_fill(out, bytes, check_rank);
    OK(MPI_Sendrecv(out, bytes, MPI_BYTE, peer, 0, in, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    CHECK_PATTERN(in, bytes, peer);
    free(out);
    free(in);
}

static void collectives(int count) {
    int *out = malloc(sizeof(int) * count), *in = calloc(sizeof(int), count);
    for (int i = 0; i < count; i++) out[i] = i + check_rank;
    OK(MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++)
        REQUIRE(in[i] == i * check_size + check_size * (check_size - 1) / 2, "element %d", i);
    for (int i = 0; i < count; i++) out[i] = check_rank == 0 ? i : -1;
    OK(MPI_Bcast(out, count, MPI_INT, 0, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) REQUIRE(out[i] == i, "element %d", i);
    int *all = calloc(sizeof(int), (size_t)count * check_size);
    OK(MPI_Allgather(out, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Alltoall(MPI_IN_PLACE, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < count * check_size; i++) REQUIRE(all[i] == i % count, "element %d", i);
    free(out);
    free(in);
    free(all);
}

static void shared_window(void) {
    MPI_Comm near;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near));
    int rank, size;
    OK(MPI_Comm_rank(near, &rank));
    OK(MPI_Comm_size(near, &size));
    int *own;
    MPI_Win win;
    OK(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, near, &own, &win));
    OK(MPI_Win_fence(0, win));
    *own = 100 + rank;
    OK(MPI_Win_fence(0, win));
    for (int other = 0; other < size; other++) {
        MPI_Aint bytes;
        int unit, *there;
        OK(MPI_Win_shared_query(win, other, &bytes, &unit, &there));
        CHECK_EQ(*there, 100 + other);
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&near));
}

static void window(int bytes) {
    unsigned char *own = calloc(1, bytes), *out = malloc(bytes), *in = malloc(bytes);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Win win;
    OK(MPI_Win_create(own, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    pattern_fill(out, bytes, check_rank);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(out, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, win));
    OK(MPI_Win_fence(0, win));
    CHECK_PATTERN(own, bytes, before);
    OK(MPI_Get(in, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, win));
    OK(MPI_Win_fence(0, win));
    CHECK_PATTERN(in, bytes, check_rank);
    OK(MPI_Win_free(&win));
    free(own);
    free(out);
    free(in);
}

static void everything(void) {
    // From the second on, only neighbours have connected before.
    for (int distance = check_size / 2; distance > 0; distance--) {
        int peer = check_rank ^ distance;
        if (peer < check_size) exchange(peer, 100);
        if (peer < check_size) exchange(peer, LARGE);
    }
    int counts[] = {1, 1000, LARGE / 16};
    for (int i = 0; i < 3; i++) collectives(counts[i]);
    shared_window();
    window(64);
    window(LARGE);
}

// A process that polls without waiting is found as well.
static void first_contact_of_who_tests(void) {
    int last = check_size - 1, flag = 0, value = 0;
    if (check_rank == last) {
        OK(MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD));
    } else if (check_rank == 0) {
        while (!flag) OK(MPI_Iprobe(last, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&value, 1, MPI_INT, last, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void write_to(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    REQUIRE(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
    close(file);
}

// As apptainer and rootless podman do: the user stays, the capabilities are valid inside only.
static int enter_namespace(void) {
    char map[64];
    unsigned user = geteuid(), group = getegid();
    if (unshare(CLONE_NEWUSER) != 0) return 0;
    snprintf(map, sizeof map, "%u %u 1", user, user);
    write_to("/proc/self/uid_map", map);
    write_to("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", group, group);
    write_to("/proc/self/gid_map", map);
    return 1;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "all";
    const char *number = getenv("PMI_RANK");
    if (strcmp(mode, "all") == 0) forbid_tracing();
    if (strcmp(mode, "odd") == 0 && number && atoi(number) % 2 == 1) forbid_tracing();
    if (strcmp(mode, "namespaces") == 0 && !enter_namespace()) return 77;
    check_begin();
    if (strcmp(mode, "later") == 0) {
        forbid_tracing();
        first_contact_of_who_tests();
    }
    everything();
    return check_end();
}
