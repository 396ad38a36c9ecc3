// Memory with a place: MPI_Alloc_mem and windows with the info key combray_memory, combray_place
// and combray_node_of; on machines with one NUMA node impossible requests return an error.
// run: 1 2
// one machine: windows that are allocated together must be memory that all can map
// combray.h
#include "check.h"
#include <combray.h>

enum { BYTES = 1 << 20, PAGE = 4096 };

static MPI_Info info_with(const char *where) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "combray_memory", where));
    return info;
}

static int node_of(const void *address) {
    int node = -2;
    OK(combray_node_of(address, &node));
    return node;
}

// The node on which this process may have memory: that of memory that it touched.
static int some_node(void) {
    static char memory[PAGE];
    memory[0] = 1;
    return node_of(memory);
}

static void allocated(int node) {
    char where[40];
    snprintf(where, sizeof where, "node:%d", node);
    const char *const places[] = {where, "interleave", "first-touch", "here", "next-touch"};
    for (int i = 0; i < 5; i++) {
        MPI_Info info = info_with(places[i]);
        char *memory;
        OK(MPI_Alloc_mem(BYTES + 1, info, &memory));
        OK(MPI_Info_free(&info));
        memset(memory, 5, BYTES + 1);
        CHECK(node_of(memory + BYTES / 2) >= 0, "it is somewhere");
        if (i == 0) CHECK_EQ(node_of(memory + BYTES / 2), node);
        OK(combray_place(memory, BYTES, "here"));
        OK(combray_place(memory, BYTES, "interleave"));
        OK(combray_place(memory, BYTES, where));
        CHECK_EQ(node_of(memory), node);
        for (int at = 0; at <= BYTES; at += PAGE / 2) CHECK_EQ(memory[at], 5);
        OK(MPI_Free_mem(memory));
    }
}

static void refused(void) {
    void *memory;
    char page[2 * PAGE];
    int node;
    MPI_Info info = info_with("node:1000");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    EXPECT_ERROR(MPI_Alloc_mem(10, info, &memory), MPI_ERR_INFO_VALUE, "MPI_Alloc_mem", "NUMA node 1000");
    OK(MPI_Info_free(&info));
    info = info_with("moon");
    EXPECT_ERROR(MPI_Alloc_mem(10, info, &memory), MPI_ERR_INFO_VALUE, "MPI_Alloc_mem", "moon");
    OK(MPI_Info_free(&info));
    EXPECT_ERROR(combray_place(page, sizeof page, "node:1000"), MPI_ERR_ARG, "combray_place", "1000");
    EXPECT_ERROR(combray_place(page, sizeof page, NULL), MPI_ERR_ARG, "combray_place", "where");
    EXPECT_ERROR(combray_place(page, sizeof page, "moon"), MPI_ERR_ARG, "combray_place", "use:reads=10");
    EXPECT_ERROR(combray_place(page, sizeof page, "use:reads=-1"), MPI_ERR_ARG, "combray_place", "no number of times");
    EXPECT_ERROR(combray_place(page, sizeof page, "use:writes=0"), MPI_ERR_ARG, "combray_place", "nothing that is read");
    const void *copy;
    EXPECT_ERROR(combray_near_copy(NULL, 1, 1, &copy), MPI_ERR_BUFFER, "combray_near_copy", "address");
    EXPECT_ERROR(combray_near_copy(page, 1, -1, &copy), MPI_ERR_ARG, "combray_near_copy", "reads");
    EXPECT_ERROR(combray_near_copy(page, 1, 1, NULL), MPI_ERR_ARG, "combray_near_copy", "copy");
    EXPECT_ERROR(combray_place_reason(NULL, 10), MPI_ERR_ARG, "combray_place_reason", "buffer");
    EXPECT_ERROR(combray_place(NULL, 1, "here"), MPI_ERR_BUFFER, "combray_place", "address");
    EXPECT_ERROR(combray_place(page, PTRDIFF_MAX, "here"), MPI_ERR_OTHER, "combray_place", "not memory of this process");
    EXPECT_ERROR(combray_node_of(NULL, &node), MPI_ERR_BUFFER, "combray_node_of", "address");
    EXPECT_ERROR(combray_node_of(page, NULL), MPI_ERR_ARG, "combray_node_of", "node");
}

// Memory that is used by the process that first touched it is in the right place, whatever the
// machine.
static void used(void) {
    char reason[400] = "?", *memory;
    OK(combray_place_reason(reason, sizeof reason));
    CHECK_EQ(strlen(reason), 0);
    OK(MPI_Alloc_mem(BYTES, MPI_INFO_NULL, &memory));
    OK(combray_place(memory, BYTES, "use:reads=10,writes=2"));
    OK(combray_place_reason(reason, sizeof reason));
    CHECK(!strncmp(reason, "nothing moves: ", 15), "it is '%s'", reason);
    memset(memory, 3, BYTES);
    int node = node_of(memory);
    OK(combray_place(memory, BYTES, "use:writes=0.5"));
    OK(combray_place_reason(reason, sizeof reason));
    CHECK(!strncmp(reason, "nothing moves: ", 15), "it is '%s'", reason);
    CHECK_EQ(node_of(memory), node);
    for (int at = 0; at < BYTES; at += PAGE) CHECK_EQ(memory[at], 3);
    OK(combray_place_reason(reason, 4));
    CHECK(!strcmp(reason, "not"), "it is '%s'", reason);
    const void *copy = NULL;
    OK(combray_near_copy(memory, BYTES, 1000, &copy));
    CHECK(copy == memory, "it is where it should be");
    OK(combray_place_reason(reason, sizeof reason));
    CHECK(!strncmp(reason, "it is read where it is: ", 24), "it is '%s'", reason);
    OK(combray_free_copies(memory));
    OK(MPI_Free_mem(memory));
}

static void windows(int node) {
    char where[40], told[40];
    snprintf(where, sizeof where, "node:%d", node);
    const char *const places[] = {where, "node:1000"};
    for (int i = 0; i < 4; i++) {
        MPI_Info info = info_with(places[i % 2]), used;
        MPI_Win win;
        char *memory;
        int flag, room = sizeof told;
        if (i / 2)
            OK(MPI_Win_allocate(BYTES, 1, info, MPI_COMM_WORLD, &memory, &win));
        else
            OK(MPI_Win_allocate_shared(BYTES, 1, info, MPI_COMM_WORLD, &memory, &win));
        memory[BYTES / 2] = 7;
        if (i % 2 == 0) CHECK_EQ(node_of(memory + BYTES / 2), node);
        OK(MPI_Win_get_info(win, &used));
        OK(MPI_Info_get_string(used, "combray_memory", &room, told, &flag));
        CHECK(flag && !strcmp(told, i % 2 ? "first-touch" : where), "it is %s", told);
        OK(MPI_Info_free(&used));
        OK(MPI_Info_free(&info));
        OK(MPI_Win_free(&win));
    }
}

int main(void) {
    check_begin();
    int node = some_node();
    allocated(node);
    used();
    windows(node);
    refused();
    return check_end();
}
