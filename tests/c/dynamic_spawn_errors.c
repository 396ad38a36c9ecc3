// Jobs that cannot be spawned: all members get an error of the class that the standard says, each
// process has a code, and afterwards spawning still works.
// run: 1 2 5
// timeout: 60
// one machine: spawned processes run on the machine of the root
#include "check.h"

enum { MOST = 4 };

static int root;

// Spawns processes that cannot run, and checks the errors. Wrong arguments give no codes.
static void fails(const char *command, char **arguments, int count, MPI_Info info, int class,
                  const char *words) {
    int codes[MOST] = {-1, -1, -1, -1};
    MPI_Comm made = MPI_COMM_WORLD;
    int code = MPI_Comm_spawn(command, arguments, count, info, root, MPI_COMM_WORLD, &made, codes);
    CHECK(class_of(code) == class, "%s: class %d instead of %d", command, class_of(code), class);
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    CHECK(!check_is_combray || strstr(text, words), "%s: \"%s\"", command, text);
    CHECK(made == MPI_COMM_NULL, "%s: there is no communicator", command);
    for (int i = 0; class == MPI_ERR_SPAWN && i < count; i++) {
        CHECK(class_of(codes[i]) == MPI_ERR_SPAWN, "%s: code %d is %d", command, i, codes[i]);
    }
}

// Fewer processes than asked for, by the info key soft: the codes of the others say so.
static void spawn_fewer(const char *file) {
    char *arguments[] = {"child", NULL}, **lists[] = {arguments, arguments};
    char *commands[] = {(char *)file, (char *)file};
    int counts[] = {3, 1}, codes[] = {-1, -1, -1, -1}, size;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm made;
    MPI_Info_create(&infos[0]);
    MPI_Info_set(infos[0], "soft", "1:2");
    OK(MPI_Comm_spawn_multiple(2, commands, lists, counts, infos, root, MPI_COMM_WORLD, &made, codes));
    OK(MPI_Comm_remote_size(made, &size));
    CHECK_EQ(size, 3);
    for (int i = 0; i < 4; i++)
        CHECK(class_of(codes[i]) == (i == 2 ? MPI_ERR_SPAWN : MPI_SUCCESS), "code %d is %d", i, codes[i]);
    OK(MPI_Barrier(made));
    OK(MPI_Comm_disconnect(&made));
    MPI_Info_free(&infos[0]);
}

static void spawn_well(void) {
    char file[4096];
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    REQUIRE(length > 0, "readlink");
    file[length] = 0;
    char *arguments[] = {"child", NULL};
    MPI_Comm made;
    OK(MPI_Comm_spawn(file, arguments, 2, MPI_INFO_NULL, root, MPI_COMM_WORLD, &made,
                      MPI_ERRCODES_IGNORE));
    OK(MPI_Barrier(made));
    OK(MPI_Comm_disconnect(&made));
    spawn_fewer(file);
}

static void fails_of_several(void) {
    char *commands[] = {"true", "/nonexistent/program"};
    int counts[] = {1, 2}, codes[] = {-1, -1, -1};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm made;
    int code = MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, counts, infos, root,
                                       MPI_COMM_WORLD, &made, codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN, "class %d", class_of(code));
    for (int i = 0; i < 3; i++) CHECK(class_of(codes[i]) == MPI_ERR_SPAWN, "code %d", codes[i]);
    code = MPI_Comm_spawn_multiple(0, commands, MPI_ARGVS_NULL, counts, infos, root,
                                   MPI_COMM_WORLD, &made, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_ARG, "class %d", class_of(code));
}

int main(int argc, char **argv) {
    check_begin();
    MPI_Comm parents;
    MPI_Comm_get_parent(&parents);
    if (argc > 1 && !strcmp(argv[1], "child")) {
        MPI_Barrier(parents);
        MPI_Comm_disconnect(&parents);
        return check_end();
    }
    root = check_size / 2;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char **none = MPI_ARGV_NULL;
    fails("/nonexistent/program", none, 3, MPI_INFO_NULL, MPI_ERR_SPAWN, "No such file");
    fails("no-such-program", none, 1, MPI_INFO_NULL, MPI_ERR_SPAWN, "in no folder of PATH");
    fails("/etc/passwd", none, 2, MPI_INFO_NULL, MPI_ERR_SPAWN, "not an executable file");
    fails("true", none, 0, MPI_INFO_NULL, MPI_ERR_ARG, "maxprocs is 0");
    fails("true", none, -3, MPI_INFO_NULL, MPI_ERR_ARG, "maxprocs is -3");
    fails("true", none, (1 << 20) + 1, MPI_INFO_NULL, MPI_ERR_ARG, "maxprocs is 1048577");
    fails("", none, 1, MPI_INFO_NULL, MPI_ERR_ARG, "empty");
    fails("true", none, 2, MPI_INFO_NULL, MPI_ERR_SPAWN, "MPI_Init");
    char *status[] = {"-c", "exit 3", NULL}, *killed[] = {"-c", "kill -9 $$", NULL};
    fails("sh", status, 2, MPI_INFO_NULL, MPI_ERR_SPAWN, "exit code 3");
    fails("sh", killed, 1, MPI_INFO_NULL, MPI_ERR_SPAWN, "exit code 137");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", "/nonexistent");
    fails("true", none, 1, info, MPI_ERR_SPAWN, "/nonexistent");
    MPI_Info_delete(info, "wdir");
    MPI_Info_set(info, "arch", "vax");
    fails("true", none, 1, info, MPI_ERR_SPAWN, "vax");
    MPI_Info_delete(info, "arch");
    MPI_Info_set(info, "soft", "9:10");
    fails("true", none, 2, info, MPI_ERR_INFO_VALUE, "soft");
    MPI_Info_free(&info);
    fails_of_several();
    spawn_well();
    return check_end();
}
