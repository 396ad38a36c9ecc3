// A process is killed amid a write, while it holds something that the others wait for: the lock of
// a range in atomic mode ("atomic", "nonblocking"), the lock of holes which are written together
// with the data between them ("sieving"), the turn at the shared file pointer ("shared"; "owner":
// the process that keeps the pointer), or the bytes of a collective write ("aggregator"; "member":
// it is killed before that). No process hangs; the survivors continue to write and read, close the
// file, and operations that involve the failed process fail with MPIX_ERR_PROC_FAILED. Started by
// tests/scenarios under a launcher that keeps the job going, with files_faulty.c loaded first.
// combray.h
// preload: files_faulty.c
// one machine: the library with the faults is loaded here
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>

enum { CELL = 64, CELLS = 40, SPAN = CELL * CELLS, PAUSE_MS = 300 };

static MPI_File file;
static int victim;
static const char *what;
static unsigned char bytes[SPAN], back[SPAN];

static int is(const char *name) { return !strcmp(what, name); }

#define FAILS(call) CHECK_CLASS(call, MPIX_ERR_PROC_FAILED)

static void kill_in_write(int writes_before) {
    void (*function)(int, int);
    *(void **)&function = dlsym(RTLD_DEFAULT, "files_faulty_kill");
    REQUIRE(function != NULL, "the library with the faults is not loaded");
    function(writes_before, PAUSE_MS);
}

// Every other half of a cell.
static void set_view_with_holes(void) {
    MPI_Datatype half, cells;
    OK(MPI_Type_contiguous(CELL / 2, MPI_BYTE, &half));
    OK(MPI_Type_create_resized(half, 0, CELL, &cells));
    OK(MPI_Type_commit(&cells));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, cells, "native", MPI_INFO_NULL));
    OK(MPI_Type_free(&half));
    OK(MPI_Type_free(&cells));
}

// Each process its own cells, in turn.
static void set_view_of_own_cells(void) {
    MPI_Datatype cell, cells;
    OK(MPI_Type_contiguous(CELL, MPI_BYTE, &cell));
    OK(MPI_Type_create_resized(cell, 0, (MPI_Aint)CELL * check_size, &cells));
    OK(MPI_Type_commit(&cells));
    OK(MPI_File_set_view(file, (MPI_Offset)CELL * check_rank, MPI_BYTE, cells, "native",
                         MPI_INFO_NULL));
    OK(MPI_Type_free(&cell));
    OK(MPI_Type_free(&cells));
}

static int write_at_once(void) {
    MPI_Status status;
    MPI_Request request;
    if (is("shared") || is("owner"))
        return MPI_File_write_shared(file, bytes, CELL, MPI_BYTE, &status);
    if (is("aggregator") || is("member"))
        return MPI_File_write_at_all(file, 0, bytes, SPAN, MPI_BYTE, &status);
    if (!is("nonblocking"))
        return MPI_File_write_at(file, 0, bytes, SPAN / 2, MPI_BYTE, &status);
    OK(MPI_File_iwrite_at(file, 0, bytes, SPAN / 2, MPI_BYTE, &request));
    return MPI_Wait(&request, &status);
}

// The others find the lock taken: its holder sleeps in its write, then it is killed.
static void be_killed(void) {
    if (is("member")) raise(SIGKILL);
    kill_in_write(0);
    write_at_once();
    CHECK(0, "rank %d is still there", check_rank);
}

// Whether a lock is held where the victim writes.
static int is_locked(const char *name) {
    int found = open(name, O_RDWR);
    REQUIRE(found >= 0, "%s cannot be opened", name);
    struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    REQUIRE(fcntl(found, F_OFD_GETLK, &asked) == 0, "locks cannot be asked for");
    close(found);
    return asked.l_type != F_UNLCK;
}

static void go_on_behind_lock(const char *name) {
    for (int tries = 0; tries < 250 && !is_locked(name); tries++) usleep(1000);
    CHECK(is_locked(name), "the failing process holds no lock");
    CHECK_EQ(write_at_once(), MPI_SUCCESS);
    // All survivors have written equal data, whichever was last.
    MPI_Status status;
    int count;
    CHECK_EQ(MPI_File_read_at(file, 0, back, SPAN / 2, MPI_BYTE, &status), MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQ(count, SPAN / 2);
    CHECK(memcmp(back, bytes, SPAN / 2) == 0, "the failed process's bytes are left");
}

static void go_on_with_pointer(void) {
    // The process that has the pointer may be needed for it; another one is not.
    usleep(2 * PAUSE_MS * 1000);
    MPI_Offset before = -1, after = -1;
    int classes[] = {class_of(MPI_File_get_position_shared(file, &before)),
                     class_of(write_at_once()),
                     class_of(MPI_File_get_position_shared(file, &after))};
    for (int i = 0; i < 3; i++)
        CHECK(classes[i] == MPI_SUCCESS || (is("owner") && classes[i] == MPIX_ERR_PROC_FAILED),
              "call %d gave class %d", i, classes[i]);
    if (classes[0] || classes[1] || classes[2]) return;
    CHECK(before >= CELL && after >= before + CELL, "the pointer was at %lld, then at %lld",
          (long long)before, (long long)after);
}

static void open_file(const char *name) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    if (is("sieving")) OK(MPI_Info_set(info, "romio_ds_write", "enable"));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    char size[16];
    snprintf(size, sizeof size, "%d", check_size);
    OK(MPI_Info_set(info, "cb_nodes", size));
    OK(MPI_Info_set(info, "striping_unit", "64"));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    OK(MPI_Info_free(&info));
    OK(MPI_File_set_size(file, is("shared") || is("owner") ? 0 : 2 * SPAN));
    OK(MPI_File_set_atomicity(file, is("atomic") || is("nonblocking")));
    if (is("aggregator") || is("member")) set_view_of_own_cells();
    else if (!is("shared") && !is("owner")) set_view_with_holes();
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    what = argv[1];
    check_begin();
    victim = is("owner") ? 0 : check_size - 1;
    char name[256];
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/survivors-of-files-%d", folder ? folder : "/tmp", (int)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    open_file(name);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    memset(bytes, check_rank == victim ? 99 : 11, sizeof bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == victim) be_killed();
    if (is("aggregator") || is("member")) FAILS(write_at_once());
    else if (is("shared") || is("owner")) go_on_with_pointer();
    else go_on_behind_lock(name);
    // And later operations: own bytes move, calls that need all processes return the failure.
    int flag = 1;
    FAILS(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
    MPI_Status status;
    CHECK_EQ(MPI_File_write_at(file, 4 * SPAN, bytes, CELL, MPI_BYTE, &status), MPI_SUCCESS);
    CHECK_EQ(MPI_File_read_at(file, 4 * SPAN, back, CELL, MPI_BYTE, &status), MPI_SUCCESS);
    CHECK(memcmp(back, bytes, CELL) == 0, "other bytes than written");
    // In atomic mode each process moves its own bytes and does not wait; the failure is known.
    FAILS(MPI_File_write_at_all(file, 0, bytes, CELL, MPI_BYTE, &status));
    FAILS(MPI_File_write_ordered(file, bytes, CELL, MPI_BYTE, &status));
    FAILS(MPI_File_sync(file));
    CHECK_EQ(MPI_File_close(&file), MPI_SUCCESS);
    CHECK(file == MPI_FILE_NULL, "the handle is left");
    unlink(name);
    printf("rank %d survives\n", check_rank);
    return check_end();
}
