// The last process is killed inside of MPI_Finalize, at the moment at which it takes leave of its
// launcher: the others, which have met it there, take their leave nevertheless. Under a launcher
// that keeps the job going (tests/scenarios).
#include "check.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

// Replaces every descriptor of the file of `one` by `other`; or closes these, if `other` is -1.
static void replace_all(int one, int other) {
    struct stat wanted, found;
    if (fstat(one, &wanted)) exit(2);
    for (int descriptor = 3; descriptor < 1024; descriptor++) {
        if (fstat(descriptor, &found) || found.st_ino != wanted.st_ino || found.st_dev != wanted.st_dev) continue;
        if (other < 0) {
            close(descriptor);
        } else {
            dup2(other, descriptor);
        }
    }
}

// Stands between this process and its launcher: answers that no key is known, until the process
// waits for the others.
static void kill_at_the_barrier(void) {
    int ends[2], launcher = atoi(getenv("PMI_FD"));
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(2);
    pid_t parent = getpid();
    if (fork()) {
        replace_all(launcher, ends[1]);
        close(ends[0]);
        close(ends[1]);
        return;
    }
    close(ends[1]);
    replace_all(launcher, -1);
    FILE *said = fdopen(ends[0], "r");
    char line[1024];
    while (fgets(line, sizeof line, said)) {
        static const char unknown[] = "cmd=get_result rc=-1 msg=key_not_found\n";
        if (strstr(line, "cmd=barrier_in")) break;
        if (write(ends[0], unknown, sizeof unknown - 1) < 0) break;
    }
    kill(parent, SIGKILL);
    _exit(0);
}

int main(void) {
    check_begin();
    if (check_rank == check_size - 1) kill_at_the_barrier();
    MPI_Finalize();
    printf("rank %d has taken leave\n", check_rank);
    return 0;
}
