// A hundred jobs that are spawned one after another leave no process, no descriptor, no mapping and
// no memory, and fifty failed attempts leave no more. The first argument is another number of jobs.
// run: 1 2
// timeout: 120
// one machine: spawned processes run on the machine of the root
#include "check.h"
#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>

// The connection with the last child may still be open, with 33 MiB of the child's segment mapped.
enum { FAILURES = 50, MAPPED_KIB_MAX = 40 << 10, USED_KIB_MAX = 2048 };

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
    int before = 0, jobs = argc > 1 ? atoi(argv[1]) : 100, settled = jobs / 4;
    long mapped = 0, used = 0;
    keep_heaps();
    for (int i = 0; i < jobs; i++) {
        spawn_one(file);
        if (i == settled) {
            before = entries("/proc/self/fd");
            mapped = memory_kib("VmSize");
            used = memory_kib("VmRSS");
        }
    }
    int after = entries("/proc/self/fd");
    CHECK(after <= before, "%d descriptors after %d jobs, %d after %d", after, jobs, before, settled);
    mapped = memory_kib("VmSize") - mapped;
    used = memory_kib("VmRSS") - used;
    CHECK(mapped < MAPPED_KIB_MAX, "%ld KiB more are mapped after %d jobs", mapped, jobs - settled);
    CHECK(used < USED_KIB_MAX, "%ld KiB more are in use after %d jobs", used, jobs - settled);
    if (argc > 1) printf("%d jobs: %ld KiB mapped, %ld KiB used more\n", jobs - settled, mapped, used);
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
