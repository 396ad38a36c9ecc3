// The communicator that a window was made on is revoked while processes wait in each kind of
// synchronization: all calls return MPIX_ERR_REVOKED, and so do later ones. Then the window is
// freed, with open epochs.
// run: 2 3 5
#include "check.h"

static long *memory, given[64];

enum { FLAVORS = 4, WAITS = 6 };

static MPI_Win made(int flavor, MPI_Comm comm) {
    MPI_Win window;
    switch (flavor) {
    case 0: MPI_Win_create(memory, 512, 8, MPI_INFO_NULL, comm, &window); break;
    case 1: MPI_Win_allocate(512, 8, MPI_INFO_NULL, comm, &memory, &window); break;
    case 2: MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window); break;
    default: MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, comm, &window);
    }
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    return window;
}

// Rank 0 takes part in none. The window may be revoked already.
static int wait_in(int which, MPI_Win window, MPI_Group first, int flavor) {
    int done = 0, code = MPI_SUCCESS;
    switch (which) {
    case 0: return MPI_Win_fence(0, window);
    case 1: return MPI_Win_start(first, 0, window);
    case 2:
        code = MPI_Win_post(first, 0, window);
        return code ? code : MPI_Win_wait(window);
    case 3:
        code = MPI_Win_post(first, 0, window);
        while (code == MPI_SUCCESS && !done) code = MPI_Win_test(window, &done);
        return code;
    case 4:
        // Rank 0 has it and does not give it back.
        code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        return code;
    default:
        // An epoch with operations in it.
        MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
        if (flavor < 2) MPI_Put(given, 8, MPI_LONG, 0, 8 * check_rank, 8, MPI_LONG, window);
        return MPI_Win_fence(0, window);
    }
}

int main(void) {
    check_begin();
    long *own = calloc(64, 8);
    MPI_Group all, first;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, (int[]){0}, &first);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        for (int which = 0; which < WAITS; which++) {
            MPI_Comm comm;
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
            memory = own;
            MPI_Win window = made(flavor, comm);
            if (which == 4 && check_rank == 0) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
            MPI_Barrier(MPI_COMM_WORLD);
            if (check_rank == 0) {
                CHECK_EQ(MPIX_Comm_revoke(comm), MPI_SUCCESS);
            } else {
                int class = class_of(wait_in(which, window, first, flavor));
                CHECK(class == MPIX_ERR_REVOKED, "rank %d: window %d, wait %d gave class %d", check_rank, flavor, which,
                      class);
            }
            // All processes know it now, or will: later operations end, too, and the window is
            // freed.
            MPI_Barrier(MPI_COMM_WORLD);
            CHECK_EQ(MPI_Win_free(&window), MPI_SUCCESS);
            CHECK(window == MPI_WIN_NULL, "the window is still there");
            MPI_Comm_free(&comm);
        }
    }
    // A window on a communicator that was revoked cannot be made; on another one it can.
    MPI_Comm comm;
    MPI_Win window;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPIX_Comm_revoke(comm);
    CHECK_EQ(class_of(MPI_Win_create(own, 512, 8, MPI_INFO_NULL, comm, &window)), MPIX_ERR_REVOKED);
    MPI_Comm_free(&comm);
    MPI_Win_create(own, 512, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    given[0] = check_rank + 1;
    MPI_Put(given, 1, MPI_LONG, (check_rank + 1) % check_size, 0, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    CHECK_EQ(own[0], (check_rank + check_size - 1) % check_size + 1);
    MPI_Win_free(&window);
    MPI_Group_free(&first);
    MPI_Group_free(&all);
    free(own);
    return check_end();
}
