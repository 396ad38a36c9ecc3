// A child that a process forks, and that lives on without exec, has no socket of the library: its
// parent, when it closes one, sleeps in its waits as before, and peers see the end of what the
// parent has ended.
// run: 3
// hosts
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "check.h"

static const double WAITED_SECONDS = 3.0, BURNT_SECONDS_MAX = 0.3;

// The number of IP sockets of this process.
static int sockets(void) {
    int count = 0;
    for (int descriptor = 0; descriptor < 1024; descriptor++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        if (getsockname(descriptor, (struct sockaddr *)&address, &length) == 0)
            count += address.ss_family == AF_INET || address.ss_family == AF_INET6;
    }
    return count;
}

// A child that reports how many sockets it has, and sleeps until it is killed.
static pid_t sleeping_child(void) {
    int ends[2], count = -1;
    CHECK(pipe(ends) == 0, "no pipe");
    const pid_t child = fork();
    if (child == 0) {
        count = sockets();
        if (write(ends[1], &count, sizeof count) != sizeof count)
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(ends[0], &count, sizeof count) == sizeof count, "the child says nothing");
    CHECK(!check_is_combray || count == 0, "the child has %d sockets", count);
    close(ends[0]);
    close(ends[1]);
    return child;
}

int main(void) {
    const char *rank = getenv("COMBRAY_RANK");
    if (rank && !getenv("COMBRAY_NODE")) {
        setenv("COMBRAY_NODE", rank, 1);
        setenv("COMBRAY_NET", "lo", 1);
    }
    check_begin();
    int value = 0;
    pid_t child = 0;
    // All are connected with rank 0.
    if (check_rank == 0) {
        for (int other = 1; other < check_size; other++)
            OK(MPI_Recv(&value, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        child = sleeping_child();
    } else {
        OK(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    }
    // The last rank ends, and rank 0 closes the connection to it.
    if (check_rank == check_size - 1)
        return check_end();
    if (check_rank == 0) {
        const double processor = processor_seconds(), wall = MPI_Wtime();
        OK(MPI_Recv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        const double burnt = processor_seconds() - processor;
        CHECK(burnt < BURNT_SECONDS_MAX || !check_is_combray,
              "%.2f s of processor time in %.2f s of waiting", burnt, MPI_Wtime() - wall);
        kill(child, SIGKILL);
        CHECK(waitpid(child, NULL, 0) == child, "no child to wait for");
    } else {
        usleep((useconds_t)(WAITED_SECONDS * 1e6));
        OK(MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
    }
    return check_end();
}
