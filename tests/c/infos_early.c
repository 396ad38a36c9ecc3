// MPI_Info_create_env before MPI_Init: the command, its arguments, the number of processes, and
// facts of the system; after MPI_Init also the level of threads.
// run: 1 3
#include "check.h"

static int has(MPI_Info info, const char *key, char *value) {
    int room = 1000, flag = 0;
    value[0] = 0;
    MPI_Info_get_string(info, key, &room, value, &flag);
    return flag;
}

int main(int argc, char **argv) {
    MPI_Info early, later;
    char value[1000], size[1000], *words[] = {argv[0], "one", "two", NULL};
    (void)argc;
    MPI_Info_create_env(3, words, &early);
    check_begin();
    OK(MPI_Info_create_env(3, words, &later));
    CHECK(has(early, "command", value) && !strcmp(value, argv[0]), "%s", value);
    CHECK(has(early, "argv", value) && !strcmp(value, "one two"), "%s", value);
    // Other libraries leave these out.
    if (check_is_combray) {
        CHECK(has(early, "maxprocs", size), "the number of processes is known");
        CHECK_EQ(atoi(size), check_size);
        CHECK(has(later, "maxprocs", value) && !strcmp(value, size), "%s", value);
        CHECK(has(early, "host", value) && has(early, "arch", value) && has(early, "wdir", value), "the system's");
        CHECK(!has(early, "thread_level", value), "no level was asked for yet");
        CHECK(has(later, "thread_level", value) && !strcmp(value, "MPI_THREAD_SINGLE"), "%s", value);
    }
    OK(MPI_Info_free(&early));
    OK(MPI_Info_free(&later));
    return check_end();
}
