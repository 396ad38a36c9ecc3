// The last process is killed while all write a file in the default view by collective calls, in
// which each writes its own bytes and waits for no other: the calls of the others report the
// failure nevertheless. Started by tests/scenarios under a launcher that keeps the job going.
#include "check.h"
#include <signal.h>

enum { BYTES = 4096, ROUNDS = 100000, PAUSE_US = 1000, BEFORE = 20 };

static char bytes[BYTES];

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    check_begin();
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR, class = MPI_SUCCESS;
    MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file);
    MPI_Offset own = (MPI_Offset)BYTES * check_rank;
    for (int round = 0; round < ROUNDS && class == MPI_SUCCESS; round++) {
        if (check_rank == check_size - 1 && round == BEFORE) raise(SIGKILL);
        class = class_of(MPI_File_write_at_all(file, own, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        usleep(PAUSE_US);
    }
    CHECK_EQ(class, MPIX_ERR_PROC_FAILED);
    CHECK_EQ(class_of(MPI_File_read_at_all(file, own, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE)), MPIX_ERR_PROC_FAILED);
    CHECK_EQ(class_of(MPI_File_write_at(file, own, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE)), MPI_SUCCESS);
    CHECK_EQ(class_of(MPI_File_close(&file)), MPI_SUCCESS);
    printf("rank %d is told\n", check_rank);
    return check_end();
}
