// MPI_Comm_split_type: by shared memory, by parts of the machine to which processes are restricted,
// by process sets, by the largest part that separates them; the result of MPI_Get_hw_resource_info
// is consistent with that.
// run: 1 2 3 5
// one machine: expects all processes to share memory
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include "check.h"

static const char *const parts[] = {"hwloc://NUMANode", "hwloc://Package", "hwloc://L3Cache",
                                    "hwloc://Core", "hwloc://PU", "hwloc://Network"};
enum { PARTS = sizeof parts / sizeof *parts };

static int size_of(MPI_Comm comm) {
    int size = 0;
    if (comm != MPI_COMM_NULL) OK(MPI_Comm_size(comm, &size));
    return size;
}

static MPI_Comm split(int type, const char *key, const char *value) {
    MPI_Comm comm;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    if (key) OK(MPI_Info_set(info, key, value));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, type, -check_rank, info, &comm));
    OK(MPI_Info_free(&info));
    return comm;
}

static void expect_size(MPI_Comm comm, int expected, const char *what) {
    CHECK(size_of(comm) == expected, "%s: %d processes, expected %d", what, size_of(comm), expected);
    if (comm != MPI_COMM_NULL) {
        int rank;
        OK(MPI_Comm_rank(comm, &rank));
        // The keys turn the order round.
        if (expected == check_size) CHECK_EQ(rank, check_size - 1 - check_rank);
        OK(MPI_Barrier(comm));
        OK(MPI_Comm_free(&comm));
    }
}

static int restricted_to(const char *part) {
    MPI_Info info;
    char value[10] = "";
    int flag, room = sizeof value;
    OK(MPI_Get_hw_resource_info(&info));
    OK(MPI_Info_get_string(info, part, &room, value, &flag));
    CHECK(flag && (!strcmp(value, "true") || !strcmp(value, "false")), "%s is %s", part, value);
    OK(MPI_Info_free(&info));
    return !strcmp(value, "true");
}

static void by_name(void) {
    int guided[] = {MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED};
    expect_size(split(MPI_COMM_TYPE_SHARED, NULL, NULL), check_size, "shared memory");
    for (int i = 0; i < 2; i++) {
        const char *type = "mpi_hw_resource_type";
        expect_size(split(guided[i], type, "mpi_shared_memory"), check_size, "shared memory");
        expect_size(split(guided[i], type, "hwloc://Moon"), 0, "no such part");
        expect_size(split(guided[i], NULL, NULL), 0, "no key");
        for (int part = 0; part < PARTS; part++) {
            MPI_Comm comm = split(guided[i], type, parts[part]);
            CHECK_EQ(comm != MPI_COMM_NULL, restricted_to(parts[part]));
            if (comm != MPI_COMM_NULL) OK(MPI_Comm_free(&comm));
        }
    }
    expect_size(split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://WORLD"), check_size,
                "the set of all");
    expect_size(split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://SELF"), 1, "itself");
    expect_size(split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://MOON"), 0, "no set");
    // Sets do not guide by hardware.
    expect_size(split(MPI_COMM_TYPE_HW_GUIDED, "mpi_pset_name", "mpi://WORLD"), 0, "a set");
    // Those that want none take part.
    MPI_Comm comm;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, check_rank ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0,
                           MPI_INFO_NULL, &comm));
    CHECK_EQ(size_of(comm), check_rank == 0);
    if (comm != MPI_COMM_NULL) OK(MPI_Comm_free(&comm));
    EXPECT_ERROR(MPI_Comm_split_type(MPI_COMM_WORLD, 12345, 0, MPI_INFO_NULL, &comm), MPI_ERR_ARG,
                 "split_type", "12345");
}

// Goes down until no part separates the processes any more; each step makes fewer.
static int step_down(void) {
    MPI_Comm comm = MPI_COMM_WORLD;
    int steps = 0;
    for (; steps < 2 * PARTS; steps++) {
        MPI_Comm below;
        MPI_Info info;
        char value[100] = "";
        int flag, room = sizeof value, known = 0;
        OK(MPI_Info_create(&info));
        OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &below));
        OK(MPI_Info_get_string(info, "mpi_hw_resource_type", &room, value, &flag));
        CHECK_EQ(flag, below != MPI_COMM_NULL);
        OK(MPI_Info_free(&info));
        if (below != MPI_COMM_NULL) {
            for (int part = 0; part < PARTS; part++) known |= !strcmp(value, parts[part]);
            CHECK(known, "%s", value);
            CHECK(size_of(below) < size_of(comm), "%d < %d", size_of(below), size_of(comm));
        }
        if (comm != MPI_COMM_WORLD) OK(MPI_Comm_free(&comm));
        comm = below;
        if (comm == MPI_COMM_NULL) break;
    }
    CHECK(steps < 2 * PARTS, "it comes to an end");
    return steps;
}

// Each process on one hardware thread, in turn on the first and the last one that it may use.
static void restricted(void) {
    cpu_set_t bound, allowed, one;
    int first = -1, last = -1, mine = 0;
    if (sched_getaffinity(0, sizeof bound, &bound)) return;
    // The launcher may have bound each process elsewhere: all begin with the whole machine.
    memset(&allowed, 0xff, sizeof allowed);
    if (sched_setaffinity(0, sizeof allowed, &allowed)) return;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed)) {
            if (first < 0) first = core;
            last = core;
        }
    int core = check_rank % 2 ? last : first;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one)) return;
    // Without hwloc's library the machine is not known: no process counts as restricted.
    if (!dlopen("libhwloc.so.15", RTLD_LAZY)) {
        for (int part = 0; part < PARTS; part++) CHECK(!restricted_to(parts[part]), "%s", parts[part]);
        sched_setaffinity(0, sizeof bound, &bound);
        return;
    }
    CHECK(restricted_to("hwloc://PU"), "to one thread");
    for (int rank = 0; rank < check_size; rank++) mine += (rank % 2 ? last : first) == core;
    expect_size(split(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "hwloc://PU"), mine,
                "one thread");
    int steps = step_down();
    CHECK_EQ(steps > 0, mine < check_size);
    sched_setaffinity(0, sizeof bound, &bound);
}

int main(void) {
    check_begin();
    by_name();
    step_down();
    restricted();
    return check_end();
}
