// Two jobs that were started separately connect, and exchange messages in all ways. The first
// argument chooses the part of the job, the second is the file for the name of the port.
// Started by tests/scenarios/connecting.py.
// combray.h
#include "check.h"
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { LENGTHS = 5, ROUNDS = 20 };

static const int lengths[LENGTHS] = {0, 1, 3000, 40000, 300000};

static int accepts;
static char port[MPI_MAX_PORT_NAME];

// The name goes through a file, which appears at once with all that it contains.
static void write_port(const char *file) {
    char draft[4096];
    snprintf(draft, sizeof draft, "%s.draft", file);
    FILE *out = fopen(draft, "w");
    REQUIRE(out, "%s", draft);
    fputs(port, out);
    fclose(out);
    rename(draft, file);
}

static void read_port(const char *file) {
    FILE *in;
    while (!(in = fopen(file, "r"))) usleep(1000);
    REQUIRE(fgets(port, sizeof port, in), "%s", file);
    fclose(in);
}

static MPI_Comm meet(const char *file) {
    MPI_Comm inter;
    int root = check_size - 1;
    if (accepts) {
        if (check_rank == root) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            CHECK(strlen(port) < 256, "%s", port);
            write_port(file);
        }
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter));
    } else {
        if (check_rank == root) read_port(file);
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter));
    }
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    return inter;
}

static void exchange(MPI_Comm inter, int others) {
    unsigned char *out = malloc(lengths[LENGTHS - 1]), *in = malloc(lengths[LENGTHS - 1]);
    for (int round = 0; round < ROUNDS; round++)
        for (int peer = 0; peer < others; peer++) {
            int bytes = lengths[(round + peer + check_rank) % LENGTHS], got;
            MPI_Status status;
            pattern_fill(out, bytes, check_rank * 2 + accepts);
            OK(MPI_Sendrecv(out, bytes, MPI_BYTE, peer, round, in, lengths[LENGTHS - 1], MPI_BYTE, peer, round, inter,
                            &status));
            OK(MPI_Get_count(&status, MPI_BYTE, &got));
            CHECK_EQ(status.MPI_SOURCE, peer);
            CHECK_EQ(got, lengths[(round + check_rank + peer) % LENGTHS]);
            CHECK_PATTERN(in, got, peer * 2 + !accepts);
        }
    free(out);
    free(in);
}

static void collectives(MPI_Comm inter, int others) {
    int mine = check_rank + 1, sum = 0, all[64] = {0};
    OK(MPI_Barrier(inter));
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK_EQ(sum, others * (others + 1) / 2);
    OK(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, inter));
    for (int i = 0; i < others; i++) CHECK_EQ(all[i], i + 1);
    int word = accepts && check_rank == 0 ? 4711 : 0;
    int root = accepts ? (check_rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
    OK(MPI_Bcast(&word, 1, MPI_INT, root, inter));
    if (!accepts) CHECK_EQ(word, 4711);
}

static void merged(MPI_Comm inter, int others) {
    MPI_Comm all, copy, half, near;
    int rank, size, one = 1, sum;
    OK(MPI_Intercomm_merge(inter, !accepts, &all));
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    CHECK_EQ(size, check_size + others);
    CHECK_EQ(rank, accepts ? check_rank : others + check_rank);
    OK(MPI_Comm_dup(all, &copy));
    OK(MPI_Comm_split(copy, rank % 2, -rank, &half));
    OK(MPI_Comm_split_type(copy, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near));
    MPI_Comm every[] = {all, copy, half, near};
    for (int i = 0; i < 4; i++) {
        int count;
        OK(MPI_Comm_size(every[i], &count));
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, every[i]));
        CHECK_EQ(sum, count);
        if (every[i] == near) CHECK(count <= check_size, "%d processes of both jobs", count);
        double *many = calloc(20000, sizeof *many);
        for (int k = 0; k < 20000; k++) many[k] = k;
        OK(MPI_Allreduce(MPI_IN_PLACE, many, 20000, MPI_DOUBLE, MPI_SUM, every[i]));
        for (int k = 0; k < 20000; k += 1999) CHECK_EQ(many[k], (double)k * count);
        free(many);
    }
    // Each job numbers processes for itself, so they cannot name each other in these calls.
    MPI_Comm wrong = MPI_COMM_NULL;
    MPI_Group group;
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    if (check_rank == 0) {
        int code = MPI_Intercomm_create(MPI_COMM_SELF, 0, all, accepts ? check_size : 0, 5, &wrong);
        CHECK_CLASS(code, MPI_ERR_COMM);
    }
    OK(MPI_Comm_group(all, &group));
    int code = MPI_Comm_create_from_group(group, "all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &wrong);
    CHECK_CLASS(code, MPI_ERR_COMM);
    OK(MPI_Group_free(&group));
    // The members agree on an order and on machines.
    MPI_Comm ring;
    int periodic = 1, right, left, got = -1;
    OK(MPI_Cart_create(all, 1, &size, &periodic, 1, &ring));
    OK(MPI_Cart_shift(ring, 0, 1, &left, &right));
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, ring, MPI_STATUS_IGNORE));
    CHECK_EQ(got, (rank + size - 1) % size);
    OK(MPI_Comm_free(&ring));
    int *memory;
    MPI_Win window;
    OK(MPI_Win_allocate(2 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, all, &memory, &window));
    memory[0] = memory[1] = 0;
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window));
    OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, window));
    OK(MPI_Win_fence(0, window));
    CHECK_EQ(memory[0], (rank + size - 1) % size);
    CHECK_EQ(memory[1], rank == 0 ? size : 0);
    OK(MPI_Win_free(&window));
    for (int i = 3; i >= 1; i--) OK(MPI_Comm_free(&every[i]));
    OK(MPI_Comm_disconnect(&all));
}

static void whole(const char *file) {
    MPI_Comm inter = meet(file);
    int is_inter, others;
    OK(MPI_Comm_test_inter(inter, &is_inter));
    CHECK_EQ(is_inter, 1);
    OK(MPI_Comm_remote_size(inter, &others));
    exchange(inter, others);
    collectives(inter, others);
    merged(inter, others);
    // A send that is complete here may not have arrived yet.
    int late = 0;
    if (accepts && check_rank == 0) {
        OK(MPI_Send(&check_size, 1, MPI_INT, 0, 99, inter));
    } else if (!accepts && check_rank == 0) {
        usleep(50000);
        OK(MPI_Recv(&late, 1, MPI_INT, 0, 99, inter, MPI_STATUS_IGNORE));
        CHECK_EQ(late, others);
    }
    OK(MPI_Comm_disconnect(&inter));
    CHECK(inter == MPI_COMM_NULL);
    if (accepts && check_rank == check_size - 1) OK(MPI_Close_port(port));
}

// A second connection between the jobs, while the first is in use, and over one port.
static void again(const char *file) {
    MPI_Comm first = meet(file), second;
    int others;
    OK(MPI_Comm_remote_size(first, &others));
    if (accepts)
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, check_size - 1, MPI_COMM_WORLD, &second));
    else
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, check_size - 1, MPI_COMM_WORLD, &second));
    int result;
    MPI_Group one, other;
    OK(MPI_Comm_remote_group(first, &one));
    OK(MPI_Comm_remote_group(second, &other));
    OK(MPI_Group_compare(one, other, &result));
    CHECK_EQ(result, MPI_IDENT);
    OK(MPI_Group_free(&one));
    OK(MPI_Group_free(&other));
    exchange(first, others);
    exchange(second, others);
    OK(MPI_Comm_disconnect(&first));
    exchange(second, others);
    OK(MPI_Comm_disconnect(&second));
}

// The other job is killed: this one gets errors and goes on.
static void survives(const char *file) {
    MPI_Comm inter = meet(file);
    int word = 0;
    // The other job is killed when all processes of this one have left the barrier.
    int others;
    OK(MPI_Barrier(inter));
    OK(MPI_Comm_remote_size(inter, &others));
    for (int other = 0; other < others; other++)
        if (accepts)
            OK(MPI_Send(&word, 1, MPI_INT, other, 8, inter));
        else
            OK(MPI_Recv(&word, 1, MPI_INT, other, 8, inter, MPI_STATUS_IGNORE));
    if (!accepts) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        raise(SIGKILL);
    }
    int code = MPI_Recv(&word, 1, MPI_INT, 0, 7, inter, MPI_STATUS_IGNORE);
    CHECK_CLASS(code, MPIX_ERR_PROC_FAILED);
    code = MPI_Barrier(inter);
    CHECK_CLASS(code, MPIX_ERR_PROC_FAILED);
    OK(MPI_Comm_disconnect(&inter));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
}

// One process of the connecting job is killed, and all others of both jobs go on without it: on
// the intercommunicator, and on a communicator of both.
static void recovers(const char *file) {
    MPI_Comm inter = meet(file), all, left;
    int others, one = 1, sum = 0, flag, size, failed = -1;
    OK(MPI_Comm_remote_size(inter, &others));
    OK(MPI_Intercomm_merge(inter, !accepts, &all));
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(all));
    // The last process is killed when all others have left the barrier.
    int last, own;
    OK(MPI_Comm_size(all, &last));
    OK(MPI_Comm_rank(all, &own));
    if (own == --last) {
        for (int other = 0; other < last; other++)
            OK(MPI_Recv(&flag, 1, MPI_INT, other, 9, all, MPI_STATUS_IGNORE));
        raise(SIGKILL);
    }
    OK(MPI_Send(&one, 1, MPI_INT, last, 9, all));
    int code = MPI_Barrier(all);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED || class_of(code) == MPIX_ERR_REVOKED, "class %d", class_of(code));
    // The others learn it from calls that fail.
    if (accepts && check_rank == 0) OK(MPIX_Comm_revoke(all));
    do code = MPI_Barrier(all);
    while (class_of(code) == MPIX_ERR_PROC_FAILED);
    CHECK_CLASS(code, MPIX_ERR_REVOKED);
    OK(MPIX_Comm_shrink(all, &left));
    OK(MPI_Comm_size(left, &size));
    CHECK_EQ(size, check_size + others - 1);
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, left));
    CHECK_EQ(sum, size);
    MPI_Group group;
    OK(MPIX_Comm_get_failed(all, &group));
    OK(MPI_Group_size(group, &failed));
    CHECK_EQ(failed, 1);
    OK(MPI_Group_free(&group));
    flag = accepts ? 6 : 3;
    OK(MPIX_Comm_agree(left, &flag));
    CHECK_EQ(flag, 2);
    OK(MPI_Comm_disconnect(&left));
    OK(MPI_Comm_free(&all));
    // The flags of each side go to the other one. The failure is not acknowledged on this one.
    flag = accepts ? 6 : 3;
    CHECK_CLASS(MPIX_Comm_agree(inter, &flag), MPIX_ERR_PROC_FAILED);
    CHECK_EQ(flag, accepts ? 3 : 6);
    int acknowledged;
    OK(MPIX_Comm_ack_failed(inter, 1, &acknowledged));
    OK(MPIX_Comm_revoke(inter));
    OK(MPIX_Comm_shrink(inter, &left));
    OK(MPI_Comm_remote_size(left, &size));
    CHECK_EQ(size, accepts ? others - 1 : others);
    OK(MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(left));
    exchange(left, size);
    OK(MPI_Comm_disconnect(&left));
    OK(MPI_Comm_disconnect(&inter));
}

static int open_descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    REQUIRE(folder, "/proc/self/fd");
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static MPI_Comm meet_at_port(void) {
    MPI_Comm inter;
    int root = check_size - 1;
    if (accepts)
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter));
    else
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter));
    return inter;
}

// Many processes of each job send to all of the other one.
static void many(const char *file) {
    enum { WORDS = 16 };
    MPI_Comm inter = meet(file), all;
    int others, size;
    OK(MPI_Comm_remote_size(inter, &others));
    int *out = malloc((size_t)(others + check_size) * WORDS * sizeof *out);
    int *in = malloc((size_t)(others + check_size) * WORDS * sizeof *in);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < others * WORDS; i++) out[i] = round + check_rank * 1000 + i / WORDS;
        OK(MPI_Alltoall(out, WORDS, MPI_INT, in, WORDS, MPI_INT, inter));
        int wrong = 0;
        for (int i = 0; i < others * WORDS; i++) wrong += in[i] != round + i / WORDS * 1000 + check_rank;
        CHECK_EQ(wrong, 0);
    }
    OK(MPI_Intercomm_merge(inter, !accepts, &all));
    OK(MPI_Comm_size(all, &size));
    CHECK_EQ(size, others + check_size);
    int rank, wrong = 0;
    OK(MPI_Comm_rank(all, &rank));
    for (int i = 0; i < size * WORDS; i++) out[i] = rank * 1000 + i / WORDS;
    OK(MPI_Alltoall(out, WORDS, MPI_INT, in, WORDS, MPI_INT, all));
    for (int i = 0; i < size * WORDS; i++) wrong += in[i] != i / WORDS * 1000 + rank;
    CHECK_EQ(wrong, 0);
    free(out);
    free(in);
    OK(MPI_Comm_disconnect(&all));
    OK(MPI_Comm_disconnect(&inter));
}

typedef struct {
    long descriptors, mapped_kib, used_kib;
} Held;

static Held held_now(void) {
    return (Held){open_descriptors(), memory_kib("VmSize"), memory_kib("VmRSS")};
}

// Connections that come and go cost nothing in the end: descriptors, mappings (VmSize), memory.
static void check_nothing_more(Held before, int others, int rounds) {
    Held now = held_now();
    long descriptors = now.descriptors - before.descriptors;
    CHECK(descriptors <= 2 * others, "%ld descriptors more after %d connections", descriptors, rounds);
    long mapped = now.mapped_kib - before.mapped_kib, used = now.used_kib - before.used_kib;
    // One connection may still be open; a segment takes more than that.
    CHECK(mapped < 8192L * others, "%ld KiB more are mapped after %d connections", mapped, rounds);
    // What is used anew after the first quarter does not depend on how many connections follow.
    CHECK(used < 2048, "%ld KiB more are in use after %d connections", used, rounds);
    if (check_rank == 0)
        printf("%d connections: %ld descriptors, %ld KiB mapped, %ld KiB used more\n", rounds, descriptors, mapped, used);
}

static void often(const char *file, int rounds) {
    MPI_Comm first = meet(file);
    Held before = {0, 0, 0};
    int others, warm = rounds / 4;
    keep_heaps();
    OK(MPI_Comm_remote_size(first, &others));
    OK(MPI_Comm_disconnect(&first));
    for (int round = 0; round < rounds; round++) {
        MPI_Comm inter = meet_at_port(), all;
        if (round % 64 == 0) exchange(inter, others);
        int mine = 1, sum;
        OK(MPI_Intercomm_merge(inter, !accepts, &all));
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all));
        CHECK_EQ(sum, check_size + others);
        // Now the one, now the other is the last communicator with the other job.
        if (round % 2) {
            OK(MPI_Comm_disconnect(&all));
            OK(MPI_Comm_disconnect(&inter));
        } else {
            OK(MPI_Comm_disconnect(&inter));
            OK(MPI_Comm_free(&all));
        }
        if (round + 1 == warm) before = held_now();
    }
    check_nothing_more(before, others, rounds - warm);
}

// Jobs that connect to one job, each of them once, one after another.
static void clients(const char *file, int jobs) {
    enum { BYTES = 40000 };
    static char out[BYTES], in[BYTES];
    Held before = {0, 0, 0};
    int others = 1, warm = jobs / 4;
    keep_heaps();
    for (int job = 0; job < (accepts ? jobs : 1); job++) {
        MPI_Comm inter = job ? meet_at_port() : meet(file);
        OK(MPI_Comm_remote_size(inter, &others));
        for (int peer = 0; peer < others; peer++) {
            pattern_fill(out, BYTES, check_rank + peer);
            OK(MPI_Sendrecv(out, BYTES, MPI_BYTE, peer, 1, in, BYTES, MPI_BYTE, peer, 1, inter, MPI_STATUS_IGNORE));
            CHECK(!memcmp(in, out, BYTES), "rank %d of job %d sends other bytes", peer, job);
        }
        int mine = 1, sum;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter));
        CHECK_EQ(sum, others);
        OK(MPI_Comm_disconnect(&inter));
        if (job + 1 == warm) before = held_now();
    }
    if (accepts) check_nothing_more(before, others, jobs - warm);
}

// Ends of connections that close at different times, and processes that meet again before, while
// and after the other side has closed its end.
static void closing(const char *file) {
    MPI_Comm first = meet(file), second, third, merged;
    int others, result;
    OK(MPI_Comm_remote_size(first, &others));
    MPI_Group group, again;
    OK(MPI_Comm_remote_group(first, &group));
    // Only the side that accepts frees its communicator now: the other one has it open.
    if (accepts) OK(MPI_Comm_free(&first));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    second = meet_at_port();
    exchange(second, others);
    if (!accepts) OK(MPI_Comm_free(&first));
    third = meet_at_port();
    exchange(third, others);
    exchange(second, others);
    OK(MPI_Intercomm_merge(third, accepts, &merged));
    OK(MPI_Comm_disconnect(&second));
    OK(MPI_Comm_disconnect(&third));
    OK(MPI_Barrier(merged));
    OK(MPI_Comm_disconnect(&merged));
    // Nothing connects the jobs any more, but a group knows the processes.
    for (int round = 0; round < 4; round++) {
        second = meet_at_port();
        OK(MPI_Comm_remote_group(second, &again));
        exchange(second, others);
        third = meet_at_port();
        MPI_Group same;
        OK(MPI_Comm_remote_group(third, &same));
        OK(MPI_Group_compare(again, same, &result));
        CHECK_EQ(result, MPI_IDENT);
        OK(MPI_Group_free(&again));
        OK(MPI_Group_free(&same));
        OK(MPI_Comm_disconnect(&third));
        OK(MPI_Comm_disconnect(&second));
    }
    OK(MPI_Group_free(&group));
}

// Two halves of one job connect.
static void halves(void) {
    MPI_Comm half, inter;
    int others, rank;
    accepts = check_rank % 2 == 0;
    OK(MPI_Comm_split(MPI_COMM_WORLD, accepts, check_rank, &half));
    OK(MPI_Comm_rank(half, &rank));
    if (check_rank == 0) OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (accepts)
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
    else
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
    OK(MPI_Comm_remote_size(inter, &others));
    CHECK_EQ(others, accepts ? check_size / 2 : (check_size + 1) / 2);
    int mine = 100 + rank, sum = 0;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK_EQ(sum, 100 * others + others * (others - 1) / 2);
    MPI_Comm all;
    OK(MPI_Intercomm_merge(inter, 0, &all));
    OK(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_MAX, all));
    OK(MPI_Comm_disconnect(&all));
    OK(MPI_Comm_disconnect(&inter));
    if (check_rank == 0) OK(MPI_Close_port(port));
    OK(MPI_Comm_free(&half));
}

// Names that lead to no port are errors on all processes, and none of them waits.
static void refused(void) {
    MPI_Comm inter;
    char closed[MPI_MAX_PORT_NAME];
    EXPECT_ERROR(MPI_Comm_connect("nowhere", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT, "nowhere");
    EXPECT_ERROR(MPI_Comm_accept("nowhere", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT, "nowhere");
    OK(MPI_Open_port(MPI_INFO_NULL, closed));
    OK(MPI_Close_port(closed));
    EXPECT_ERROR(MPI_Close_port(closed), MPI_ERR_PORT, "no open port");
    EXPECT_ERROR(MPI_Comm_connect(closed, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT, "port");
    EXPECT_ERROR(MPI_Comm_accept(closed, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT, "no open port");
    EXPECT_ERROR(MPI_Comm_connect(closed, MPI_INFO_NULL, check_size, MPI_COMM_WORLD, &inter), MPI_ERR_ROOT, "root");
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

// The name of the port goes by way of a service.
static void published(const char *service) {
    char found[MPI_MAX_PORT_NAME];
    int root = check_rank == 0;
    MPI_Comm inter;
    if (accepts && root) {
        EXPECT_ERROR(MPI_Lookup_name(service, MPI_INFO_NULL, found), MPI_ERR_NAME, service);
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        EXPECT_ERROR(MPI_Unpublish_name(service, MPI_INFO_NULL, port), MPI_ERR_SERVICE, service);
        OK(MPI_Publish_name(service, MPI_INFO_NULL, port));
        EXPECT_ERROR(MPI_Publish_name(service, MPI_INFO_NULL, port), MPI_ERR_SERVICE, service);
        OK(MPI_Lookup_name(service, MPI_INFO_NULL, found));
        CHECK(!strcmp(found, port), "%s", found);
    }
    if (!accepts && root)
        while (MPI_Lookup_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS) usleep(1000);
    if (accepts)
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    else
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    int others;
    OK(MPI_Comm_remote_size(inter, &others));
    collectives(inter, others);
    OK(MPI_Comm_disconnect(&inter));
    if (accepts && root) {
        OK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
        EXPECT_ERROR(MPI_Lookup_name(service, MPI_INFO_NULL, found), MPI_ERR_NAME, service);
        OK(MPI_Close_port(port));
    }
}

// Two processes with a socket in common, which stays usable.
static void joined(const char *file) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", file);
    int made = socket(AF_UNIX, SOCK_STREAM, 0), descriptor = made;
    if (accepts) {
        REQUIRE(!bind(made, (struct sockaddr *)&address, sizeof address) && !listen(made, 1), "%s", file);
        descriptor = accept(made, NULL, NULL);
    } else {
        while (connect(made, (struct sockaddr *)&address, sizeof address)) usleep(1000);
    }
    MPI_Comm inter;
    OK(MPI_Comm_join(descriptor, &inter));
    int size, others;
    OK(MPI_Comm_size(inter, &size));
    OK(MPI_Comm_remote_size(inter, &others));
    CHECK_EQ(size, 1);
    CHECK_EQ(others, 1);
    int mine = accepts, theirs = -1;
    OK(MPI_Sendrecv(&mine, 1, MPI_INT, 0, 0, &theirs, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE));
    CHECK_EQ(theirs, !accepts);
    OK(MPI_Comm_disconnect(&inter));
    char byte = accepts;
    CHECK_EQ(write(descriptor, &byte, 1), 1);
    CHECK_EQ(read(descriptor, &byte, 1), 1);
    CHECK_EQ(byte, !accepts);
    EXPECT_ERROR(MPI_Comm_join(-1, &inter), MPI_ERR_ARG, "fd", "-1");
    EXPECT_ERROR(MPI_Comm_join(STDIN_FILENO, &inter), MPI_ERR_ARG, "socket");
}

// One process of each job meets the other job alone; all processes of a job must finalize alike.
static void alone(const char *file) {
    if (check_rank) return;
    MPI_Comm inter;
    int value = 7;
    if (accepts) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        write_port(file);
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        OK(MPI_Send(&value, 1, MPI_INT, 0, 0, inter));
    } else {
        read_port(file);
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE));
    }
    OK(MPI_Comm_disconnect(&inter));
}

// Windows of both jobs: with fences, locks, atomic operations, and memory that is attached later.
static void windows_of(MPI_Comm all) {
    enum { WORDS = 200000 };
    int rank, size;
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    int *memory = calloc(WORDS, sizeof *memory), *out = malloc(WORDS * sizeof *out);
    MPI_Win window;
    OK(MPI_Win_create(memory, WORDS * sizeof *memory, sizeof *memory, MPI_INFO_NULL, all, &window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    // Each process puts a large block into the memory of its successor, and reads that of the one
    // after it.
    for (int i = 0; i < WORDS; i++) out[i] = rank * WORDS + i;
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(out, WORDS, MPI_INT, (rank + 1) % size, 0, WORDS, MPI_INT, window));
    OK(MPI_Win_fence(0, window));
    int before = (rank + size - 1) % size, wrong = 0;
    for (int i = 0; i < WORDS; i++) wrong += memory[i] != before * WORDS + i;
    CHECK_EQ(wrong, 0);
    OK(MPI_Get(out, WORDS, MPI_INT, (rank + 2) % size, 0, WORDS, MPI_INT, window));
    OK(MPI_Win_fence(0, window));
    for (int i = 0; i < WORDS; i++) wrong += out[i] != (rank + 1) % size * WORDS + i;
    CHECK_EQ(wrong, 0);
    memset(memory, 0, 4 * sizeof *memory);
    OK(MPI_Barrier(all));
    // All add to one word under locks, by the target and by each other.
    for (int round = 0; round < ROUNDS; round++) {
        int one = 1, old = -1, value;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
        OK(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
        OK(MPI_Win_flush(0, window));
        value++;
        OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
        OK(MPI_Win_unlock(0, window));
        OK(MPI_Win_lock_all(0, window));
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 1, MPI_SUM, window));
        OK(MPI_Accumulate(&one, 1, MPI_INT, size - 1, 2, 1, MPI_INT, MPI_SUM, window));
        OK(MPI_Win_flush_all(window));
        OK(MPI_Win_unlock_all(window));
        CHECK(old >= 0 && old < ROUNDS * size, "%d", old);
    }
    OK(MPI_Barrier(all));
    OK(MPI_Win_lock_all(0, window));
    OK(MPI_Win_sync(window));
    if (rank == 0) {
        CHECK_EQ(memory[0], ROUNDS * size);
        CHECK_EQ(memory[1], ROUNDS * size);
    }
    if (rank == size - 1) CHECK_EQ(memory[2], ROUNDS * size);
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
    MPI_Aint address, *addresses = malloc((size_t)size * sizeof *addresses);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, all, &window));
    OK(MPI_Win_attach(window, memory, WORDS * sizeof *memory));
    OK(MPI_Get_address(memory, &address));
    OK(MPI_Allgather(&address, 1, MPI_AINT, addresses, 1, MPI_AINT, all));
    OK(MPI_Win_lock_all(0, window));
    OK(MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, addresses[(rank + 1) % size], 1, MPI_INT, window));
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Barrier(all));
    CHECK_EQ(memory[0], before);
    OK(MPI_Win_detach(window, memory));
    OK(MPI_Win_free(&window));
    // Processes of two jobs share memory by a window if they are on one machine.
    int *shared, *theirs, unit;
    MPI_Aint bytes;
    int code = MPI_Win_allocate_shared(sizeof *shared, sizeof *shared, MPI_INFO_NULL, all, &shared, &window);
    if (code == MPI_SUCCESS) {
        OK(MPI_Win_fence(0, window));
        *shared = 100 + rank;
        OK(MPI_Win_fence(0, window));
        OK(MPI_Win_shared_query(window, before, &bytes, &unit, &theirs));
        CHECK_EQ(*theirs, 100 + before);
        OK(MPI_Win_fence(0, window));
        OK(MPI_Win_free(&window));
    } else {
        CHECK_CLASS(code, MPI_ERR_RMA_SHARED);
    }
    free(addresses);
    free(memory);
    free(out);
}

// A file of both jobs: blocks of each process, collective and ordered accesses, the shared file
// pointer.
static void file_of(MPI_Comm all, const char *name) {
    enum { WORDS = 30000 };
    int rank, size, wrong = 0;
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    int *out = malloc(WORDS * sizeof *out), *in = malloc(WORDS * sizeof *in), *seen = calloc(size, sizeof *seen);
    MPI_File file;
    MPI_Status status;
    OK(MPI_File_open(all, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    for (int i = 0; i < WORDS; i++) out[i] = rank * WORDS + i;
    MPI_Offset block = (MPI_Offset)WORDS * (MPI_Offset)sizeof *out;
    OK(MPI_File_write_at_all(file, rank * block, out, WORDS, MPI_INT, &status));
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(all));
    int next = (rank + 1) % size;
    OK(MPI_File_read_at(file, next * block, in, WORDS, MPI_INT, &status));
    for (int i = 0; i < WORDS; i++) wrong += in[i] != next * WORDS + i;
    CHECK_EQ(wrong, 0);
    // Interleaved columns, so that the processes exchange what they write.
    MPI_Datatype column;
    OK(MPI_Type_vector(WORDS, 1, size, MPI_INT, &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_File_set_view(file, rank * (MPI_Offset)sizeof *out, MPI_INT, column, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, out, WORDS, MPI_INT, &status));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(file, (MPI_Offset)rank * WORDS, in, WORDS, MPI_INT, &status));
    for (int i = 0; i < WORDS; i++) {
        int place = rank * WORDS + i;
        wrong += in[i] != place % size * WORDS + place / size;
    }
    CHECK_EQ(wrong, 0);
    OK(MPI_Type_free(&column));
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_write_ordered(file, &rank, 1, MPI_INT, &status));
    OK(MPI_File_write_shared(file, &rank, 1, MPI_INT, &status));
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(all));
    OK(MPI_File_read_at(file, 0, in, 2 * size, MPI_INT, &status));
    for (int i = 0; i < size; i++) {
        CHECK_EQ(in[i], i);
        if (in[size + i] >= 0 && in[size + i] < size) seen[in[size + i]]++;
    }
    for (int i = 0; i < size; i++) CHECK_EQ(seen[i], 1);
    OK(MPI_File_close(&file));
    free(out);
    free(in);
    free(seen);
}

// Windows and files on communicators of both jobs.
static void stores(const char *name) {
    MPI_Comm inter = meet(name), all;
    char file[4096];
    snprintf(file, sizeof file, "%s.data", name);
    OK(MPI_Intercomm_merge(inter, !accepts, &all));
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    windows_of(all);
    file_of(all, file);
    OK(MPI_Comm_disconnect(&all));
    OK(MPI_Comm_disconnect(&inter));
}

// One process of the connecting job is killed while both jobs use a window and a file: accesses to
// its memory are errors, and those that are left make others.
static void stores_survive(const char *name) {
    enum { WORDS = 1000 };
    MPI_Comm inter = meet(name), all, left;
    MPI_Win window;
    MPI_File file;
    MPI_Group failed;
    char path[4096];
    int others, rank, size, code, class, count = 0, word = 7, memory[WORDS] = {0};
    snprintf(path, sizeof path, "%s.data", name);
    OK(MPI_Comm_remote_size(inter, &others));
    OK(MPI_Intercomm_merge(inter, !accepts, &all));
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    OK(MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, all, &window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    OK(MPI_File_open(all, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    // The first that leave the barrier may already have lost the last process, and have revoked.
    code = MPI_Barrier(all);
    class = class_of(code);
    CHECK(class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "class %d", class);
    // It is the last process of both.
    if (!accepts && check_rank == check_size - 1) raise(SIGKILL);
    do {
        code = MPI_Win_lock(MPI_LOCK_SHARED, size - 1, 0, window);
        if (code == MPI_SUCCESS) code = MPI_Put(&word, 1, MPI_INT, size - 1, 0, 1, MPI_INT, window);
        int end = MPI_Win_unlock(size - 1, window);
        if (code == MPI_SUCCESS) code = end;
    } while (code == MPI_SUCCESS);
    // Those that have noticed it revoke the communicator, with the window and the file.
    class = class_of(code);
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "class %d", class);
    code = MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    if (code == MPI_SUCCESS) code = MPI_Put(&word, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
    if (code == MPI_SUCCESS) code = MPI_Win_unlock(0, window);
    class = class_of(code);
    CHECK(class == MPI_SUCCESS || class == MPIX_ERR_REVOKED, "class %d", class);
    do code = MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof word, &word, 1, MPI_INT, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS);
    class = class_of(code);
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "class %d", class);
    OK(MPIX_Comm_revoke(all));
    OK(MPIX_Comm_shrink(all, &left));
    OK(MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN));
    OK(MPIX_Comm_get_failed(all, &failed));
    OK(MPI_Group_size(failed, &count));
    CHECK_EQ(count, 1);
    OK(MPI_Group_free(&failed));
    MPI_Win_free(&window);
    MPI_File_close(&file);
    snprintf(path, sizeof path, "%s.more", name);
    windows_of(left);
    file_of(left, path);
    OK(MPI_Comm_disconnect(&left));
    OK(MPI_Comm_free(&all));
    MPI_Comm_free(&inter);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    check_begin();
    accepts = !strcmp(argv[2], "accept");
    const char *file = argc > 3 ? argv[3] : "";
    if (!strcmp(argv[1], "alone")) alone(file);
    if (!strcmp(argv[1], "whole")) whole(file);
    if (!strcmp(argv[1], "again")) again(file);
    if (!strncmp(argv[1], "often:", 6)) often(file, atoi(argv[1] + 6));
    if (!strncmp(argv[1], "clients:", 8)) clients(file, atoi(argv[1] + 8));
    if (!strcmp(argv[1], "closing")) closing(file);
    if (!strcmp(argv[1], "recovers")) recovers(file);
    if (!strcmp(argv[1], "survives")) survives(file);
    if (!strcmp(argv[1], "stores")) stores(file);
    if (!strcmp(argv[1], "stores-survive")) stores_survive(file);
    if (!strcmp(argv[1], "many")) many(file);
    if (!strcmp(argv[1], "published")) published(file);
    if (!strcmp(argv[1], "joined")) joined(file);
    if (!strcmp(argv[1], "halves")) halves();
    if (!strcmp(argv[1], "refused")) refused();
    if (!check_failures) printf("rank %d is done\n", check_rank);
    return check_end();
}
