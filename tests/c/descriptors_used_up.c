// A process that has used up its descriptors sleeps while another one tries to connect to it, and
// accepts the connection when there are free descriptors again.
// run: 4
#include <fcntl.h>
#include <sys/resource.h>
#include "check.h"

enum { LIMIT = 64, GO = 1, LATE = 2 };
static const double WAITED_SECONDS = 2.0, BURNT_SECONDS_MAX = 0.3;

int main(void) {
    const char *rank = getenv("COMBRAY_RANK");
    if (rank && !getenv("COMBRAY_NODE")) {
        setenv("COMBRAY_NODE", rank, 1);
        setenv("COMBRAY_NET", "lo", 1);
    }
    const struct rlimit limit = {LIMIT, LIMIT};
    setrlimit(RLIMIT_NOFILE, &limit);
    check_begin();
    int value = 0, used[LIMIT], count = 0;
    if (check_rank == 0) {
        while (count < LIMIT && (used[count] = open("/dev/null", O_RDONLY)) >= 0)
            count++;
        CHECK(count > 0 && count < LIMIT, "%d descriptors could be opened", count);
        OK(MPI_Send(&value, 1, MPI_INT, 1, GO, MPI_COMM_WORLD));
        const double processor = processor_seconds(), wall = MPI_Wtime();
        OK(MPI_Recv(&value, 1, MPI_INT, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        const double burnt = processor_seconds() - processor;
        CHECK(burnt < BURNT_SECONDS_MAX || !check_is_combray,
              "%.2f s of processor time in %.2f s of waiting", burnt, MPI_Wtime() - wall);
        while (count > 0)
            close(used[--count]);
        OK(MPI_Recv(&value, 1, MPI_INT, 2, LATE, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(value, 7);
    } else if (check_rank == 1) {
        OK(MPI_Recv(&value, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(&value, 1, MPI_INT, 2, GO, MPI_COMM_WORLD));
        usleep((useconds_t)(WAITED_SECONDS * 1e6));
        OK(MPI_Send(&value, 1, MPI_INT, 0, GO, MPI_COMM_WORLD));
    } else if (check_rank == 2) {
        // At the start only neighbours are connected.
        OK(MPI_Recv(&value, 1, MPI_INT, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        value = 7;
        OK(MPI_Send(&value, 1, MPI_INT, 0, LATE, MPI_COMM_WORLD));
    }
    return check_end();
}
