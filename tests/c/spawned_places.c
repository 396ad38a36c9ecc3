// Prints MPI_UNIVERSE_SIZE, then spawns as many processes as each argument names, one job after the
// other, and prints on which hosts they run: tests/scenarios/hosts.py starts it.
// The last process is the root. After the argument "each", all processes spawn at the same time,
// each alone, and the spawned processes of all of them exist at the same time. An argument such as
// host=a is the info key of the spawns that follow. If TEST_END_US is set, spawned processes live
// for so many microseconds after MPI_Finalize.
#include "check.h"

enum { TAG = 5, NAME_BYTES = MPI_MAX_PROCESSOR_NAME };

static void be_child(MPI_Comm parents) {
    char name[NAME_BYTES] = "";
    int length;
    MPI_Get_processor_name(name, &length);
    int remote;
    MPI_Comm_remote_size(parents, &remote);
    MPI_Send(name, NAME_BYTES, MPI_CHAR, remote - 1, TAG, parents);
    MPI_Barrier(parents);
    MPI_Comm_disconnect(&parents);
}

static MPI_Info info = MPI_INFO_NULL;

static void spawn(int count, int root, MPI_Comm comm) {
    MPI_Comm children;
    int rank;
    MPI_Comm_rank(comm, &rank);
    char file[4096];
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    REQUIRE(length > 0, "readlink");
    file[length] = 0;
    int code = MPI_Comm_spawn(file, MPI_ARGV_NULL, count, info, root, comm, &children,
                              MPI_ERRCODES_IGNORE);
    if (code != MPI_SUCCESS) {
        int class;
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_SPAWN, "class %d", class);
        char text[MPI_MAX_ERROR_STRING];
        MPI_Error_string(code, text, &class);
        if (rank == root) printf("%s\nrefused\n", text);
        MPI_Barrier(MPI_COMM_WORLD);
        return;
    }
    char line[4096] = "children:";
    for (int child = 0; rank == root && child < count; child++) {
        char name[NAME_BYTES];
        MPI_Recv(name, NAME_BYTES, MPI_CHAR, child, TAG, children, MPI_STATUS_IGNORE);
        strncat(line, " ", sizeof line - strlen(line) - 1);
        strncat(line, name, sizeof line - strlen(line) - 1);
    }
    if (rank == root) printf("%s\n", line);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(children);
    MPI_Comm_disconnect(&children);
}

int main(int argc, char **argv) {
    check_begin();
    MPI_Comm parents;
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL) {
        be_child(parents);
        int code = check_end();
        const char *pause = getenv("TEST_END_US");
        if (pause != NULL) usleep((useconds_t)atoi(pause));
        return code;
    }
    int *universe, is_set, size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &is_set);
    // Other launchers need not know it.
    if (is_set && check_rank == size - 1) printf("universe: %d\n", *universe);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int each = argc > 1 && strcmp(argv[1], "each") == 0;
    for (int i = 1 + each; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value != NULL) {
            *value++ = 0;
            if (info == MPI_INFO_NULL) MPI_Info_create(&info);
            MPI_Info_set(info, argv[i], value);
            continue;
        }
        spawn(atoi(argv[i]), each ? 0 : size - 1, each ? MPI_COMM_SELF : MPI_COMM_WORLD);
    }
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    return check_end();
}
