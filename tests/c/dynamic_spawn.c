// Processes that a program spawns from its own executable file: they find their parents, exchange
// messages with them, merge with them, spawn further processes, and disconnect.
// run: 1 2 5
// timeout: 60
// one machine: spawned processes run on the machine of the root
#include "check.h"

enum { TAG = 17, CHILDREN = 3 };

// The name of this executable file, as seen by spawned processes too.
static const char *own_file(void) {
    static char file[4096];
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    REQUIRE(length > 0, "readlink");
    file[length] = 0;
    return file;
}

// What both sides of an intercommunicator between parents and children do together.
static void talk(MPI_Comm between, int is_parent) {
    int is_inter, rank, remote, size;
    MPI_Comm_test_inter(between, &is_inter);
    CHECK(is_inter, "an intercommunicator");
    MPI_Comm_rank(between, &rank);
    MPI_Comm_size(between, &size);
    MPI_Comm_remote_size(between, &remote);
    // Each child talks to the parent of its rank modulo their number.
    int parents = is_parent ? size : remote, children = is_parent ? remote : size;
    for (int child = 0; child < children; child++) {
        int parent = child % parents, value = -1;
        if (is_parent && rank == parent) {
            int sent = 100 + child;
            MPI_Send(&sent, 1, MPI_INT, child, TAG, between);
            MPI_Recv(&value, 1, MPI_INT, child, TAG, between, MPI_STATUS_IGNORE);
            CHECK(value == 200 + child, "parent %d received %d from child %d", rank, value, child);
        } else if (!is_parent && rank == child) {
            MPI_Recv(&value, 1, MPI_INT, parent, TAG, between, MPI_STATUS_IGNORE);
            CHECK(value == 100 + child, "child %d received %d", rank, value);
            value += 100;
            MPI_Send(&value, 1, MPI_INT, parent, TAG, between);
        }
    }
    MPI_Comm merged;
    MPI_Intercomm_merge(between, !is_parent, &merged);
    int all, place, sum = 0;
    MPI_Comm_size(merged, &all);
    MPI_Comm_rank(merged, &place);
    CHECK(all == size + remote, "%d processes are merged", all);
    CHECK(place == (is_parent ? rank : remote + rank), "place %d", place);
    MPI_Allreduce(&place, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == all * (all - 1) / 2, "sum %d", sum);
    MPI_Comm_free(&merged);
}

static void run_child(MPI_Comm parents, int generations) {
    talk(parents, 0);
    if (generations > 1) {
        char *arguments[] = {"child", "1", NULL};
        MPI_Comm grandchildren;
        MPI_Comm_spawn(own_file(), arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &grandchildren,
                       MPI_ERRCODES_IGNORE);
        talk(grandchildren, 1);
        MPI_Comm_disconnect(&grandchildren);
    }
    MPI_Comm_disconnect(&parents);
    MPI_Comm_get_parent(&parents);
    CHECK(parents == MPI_COMM_NULL, "no parents after MPI_Comm_disconnect");
}

int main(int argc, char **argv) {
    check_begin();
    MPI_Comm parents;
    MPI_Comm_get_parent(&parents);
    if (argc > 2) {
        REQUIRE(parents != MPI_COMM_NULL, "a spawned process has parents");
        CHECK(!strcmp(argv[1], "child") && argc == 3, "arguments %s %s", argv[1], argv[2]);
        run_child(parents, atoi(argv[2]));
        return check_end();
    }
    CHECK(parents == MPI_COMM_NULL, "a process that was not spawned has no parents");
    char *arguments[] = {"child", "2", NULL};
    int codes[CHILDREN] = {-1, -1, -1}, size;
    MPI_Comm children;
    int root = check_size - 1;
    MPI_Comm_spawn(own_file(), arguments, CHILDREN, MPI_INFO_NULL, root, MPI_COMM_WORLD, &children,
                   codes);
    for (int i = 0; i < CHILDREN; i++) CHECK(codes[i] == MPI_SUCCESS, "code %d", codes[i]);
    MPI_Comm_remote_size(children, &size);
    CHECK(size == CHILDREN, "%d children", size);
    talk(children, 1);
    MPI_Comm_disconnect(&children);
    CHECK(children == MPI_COMM_NULL, "the handle is null after MPI_Comm_disconnect");
    return check_end();
}
