// Rank 0 frees or closes an object that was made on a communicator. The others do not come to that
// call: one revokes the communicator and all the others shrink it. Rank 0 returns, joins them, and
// when they free the object later it is freed, too. No process waits for a call that another one
// will make only later.
// run: 2 3 5
#include "check.h"

enum { KINDS = 7, PAUSE_US = 20000 };

static long own[64];

// What one kind of object is, on its communicator.
typedef struct {
    MPI_Win window;
    MPI_File file;
} object;

static object made(int kind, MPI_Comm comm, const char *name) {
    object it = {MPI_WIN_NULL, MPI_FILE_NULL};
    void *memory;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    switch (kind) {
    case 0: MPI_Win_create(own, sizeof own, 8, MPI_INFO_NULL, comm, &it.window); break;
    case 1: MPI_Win_allocate(512, 8, MPI_INFO_NULL, comm, &memory, &it.window); break;
    case 2: MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &it.window); break;
    case 3: MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, comm, &it.window); break;
    case 4: MPI_File_open(comm, name, mode, MPI_INFO_NULL, &it.file); break;
    case 5: MPI_File_open(comm, name, mode | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &it.file); break;
    default: break;
    }
    if (it.window != MPI_WIN_NULL) MPI_Win_set_errhandler(it.window, MPI_ERRORS_RETURN);
    return it;
}

static int freed(int kind, object *it, MPI_Comm comm) {
    if (kind < 4) return MPI_Win_free(&it->window);
    if (kind < 6) return MPI_File_close(&it->file);
    MPI_Comm copy = comm;
    return MPI_Comm_disconnect(&copy);
}

int main(void) {
    char name[64];
    check_begin();
    snprintf(name, sizeof name, "/tmp/revoked_frees-%d", (int)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Comm comm, left;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        object it = made(kind, comm, name);
        MPI_Barrier(MPI_COMM_WORLD);
        int is_early = check_rank == 0 && kind < 6;
        if (is_early) CHECK_EQ(class_of(freed(kind, &it, comm)), MPI_SUCCESS);
        if (check_rank == 1) {
            usleep(PAUSE_US);
            CHECK_EQ(MPIX_Comm_revoke(comm), MPI_SUCCESS);
        }
        CHECK_EQ(MPIX_Comm_shrink(comm, &left), MPI_SUCCESS);
        int size;
        MPI_Comm_size(left, &size);
        CHECK_EQ(size, check_size);
        if (!is_early) CHECK_EQ(class_of(freed(kind, &it, comm)), MPI_SUCCESS);
        if (kind < 6) MPI_Comm_free(&comm);
        MPI_Comm_free(&left);
    }
    if (check_rank == 0) unlink(name);
    return check_end();
}
