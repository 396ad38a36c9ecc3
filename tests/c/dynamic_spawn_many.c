// A hundred jobs that are spawned one after another leave no process, no descriptor and no shared
// memory, and the same is true of fifty failed attempts.
// run: 1 2
// timeout: 120
// one machine: spawned processes run on the machine of the root
#include "check.h"
#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>

enum { JOBS = 100, FAILURES = 50, SETTLED = 10 };

static int entries(const char *folder) {
    int count = 0;
    DIR *open = opendir(folder);
    REQUIRE(open, "%s", folder);
    while (readdir(open)) count++;
    closedir(open);
    return count;
}

static void spawn_one(const char *file) {
    char *arguments[] = {"child", NULL};
    MPI_Comm made;
    MPI_Comm_spawn(file, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &made,
                   MPI_ERRCODES_IGNORE);
    int sent = 5, sum = 0;
    MPI_Allreduce(&sent, &sum, 1, MPI_INT, MPI_SUM, made);
    CHECK(sum == 7, "the child contributes 7, not %d", sum);
    MPI_Comm_disconnect(&made);
}

int main(int argc, char **argv) {
    check_begin();
    MPI_Comm parents;
    MPI_Comm_get_parent(&parents);
    if (argc > 1 && !strcmp(argv[1], "child")) {
        int sent = 7, sum = 0;
        MPI_Allreduce(&sent, &sum, 1, MPI_INT, MPI_SUM, parents);
        MPI_Comm_disconnect(&parents);
        return check_end();
    }
    char file[4096];
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    REQUIRE(length > 0, "readlink");
    file[length] = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int before = 0;
    for (int i = 0; i < JOBS; i++) {
        spawn_one(file);
        if (i == SETTLED) before = entries("/proc/self/fd");
    }
    int after = entries("/proc/self/fd");
    CHECK(after <= before, "%d descriptors after %d jobs, %d after %d", after, JOBS, before, SETTLED);
    for (int i = 0; i < FAILURES; i++) {
        MPI_Comm made;
        int code = MPI_Comm_spawn("/nonexistent/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                                  MPI_COMM_WORLD, &made, MPI_ERRCODES_IGNORE);
        CHECK(class_of(code) == MPI_ERR_SPAWN, "class %d", class_of(code));
    }
    after = entries("/proc/self/fd");
    CHECK(after <= before, "%d descriptors after failures, %d before", after, before);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "this process has no children");
    return check_end();
}
