// The attributes of the standard: communicators of the world have all of them, those of a session
// the highest tag only (MPI 5.0, section 9.1.2), and windows have theirs whatever their
// communicator.
// run: 1 2
#include "check.h"

static const struct {
    const char *name;
    int keyval, of_session;
} keys[] = {
    {"MPI_TAG_UB", MPI_TAG_UB, 1},
    {"MPI_IO", MPI_IO, 0},
#ifdef MPI_HOST
    {"MPI_HOST", MPI_HOST, 0},
#endif
    {"MPI_WTIME_IS_GLOBAL", MPI_WTIME_IS_GLOBAL, 0},
    {"MPI_APPNUM", MPI_APPNUM, 0},
    {"MPI_UNIVERSE_SIZE", MPI_UNIVERSE_SIZE, 0},
    {"MPI_LASTUSEDCODE", MPI_LASTUSEDCODE, 0},
};

static void expect(const char *what, MPI_Comm comm, int is_of_session) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int *value = NULL, flag = -1, wanted = !is_of_session || keys[i].of_session;
        OK(MPI_Comm_get_attr(comm, keys[i].keyval, &value, &flag));
        CHECK(!!flag == wanted, "%s of %s", keys[i].name, what);
        CHECK(!flag || keys[i].keyval != MPI_TAG_UB || *value >= 32767, "%s of %s is %d", keys[i].name, what, *value);
        // It is the library's.
        int code = MPI_Comm_set_attr(comm, keys[i].keyval, NULL);
        CHECK(class_of(code) == MPI_ERR_KEYVAL, "%s of %s can be set", keys[i].name, what);
        code = MPI_Comm_delete_attr(comm, keys[i].keyval);
        CHECK(class_of(code) == MPI_ERR_KEYVAL, "%s of %s can be deleted", keys[i].name, what);
    }
}

static void expect_of_window(MPI_Comm comm) {
    static const int of_windows[] = {MPI_WIN_BASE, MPI_WIN_SIZE, MPI_WIN_DISP_UNIT, MPI_WIN_CREATE_FLAVOR,
                                     MPI_WIN_MODEL};
    MPI_Win win;
    void *value;
    int memory[2], flag;
    OK(MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    for (int i = 0; i < 5; i++) {
        flag = 0;
        OK(MPI_Win_get_attr(win, of_windows[i], &value, &flag));
        CHECK(flag, "the attribute %d of windows", i);
    }
    EXPECT_ERROR(MPI_Win_get_attr(win, MPI_TAG_UB, &value, &flag), MPI_ERR_KEYVAL, "win_keyval");
    EXPECT_ERROR(MPI_Comm_get_attr(comm, MPI_WIN_BASE, &value, &flag), MPI_ERR_KEYVAL, "comm_keyval");
    OK(MPI_Win_free(&win));
}

// A communicator, and those that are made from it.
static void expect_of_family(const char *what, MPI_Comm comm, int is_of_session) {
    MPI_Comm made, again;
    expect(what, comm, is_of_session);
    OK(MPI_Comm_dup(comm, &made));
    expect("a duplicate", made, is_of_session);
    OK(MPI_Comm_split(made, check_rank, 0, &again));
    expect("a part of a duplicate", again, is_of_session);
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&made));
    expect_of_window(comm);
}

int main(void) {
    check_begin();
    // In some libraries all communicators have all attributes, in others only the one of the world.
    if (!check_is_combray) return check_end();
    expect_of_family("MPI_COMM_WORLD", MPI_COMM_WORLD, 0);
    expect_of_family("MPI_COMM_SELF", MPI_COMM_SELF, 0);
#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    OK(MPI_Comm_create_from_group(group, "world", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    expect_of_family("a communicator of the world's group", comm, 0);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    static const char *const sets[] = {"mpi://WORLD", "mpi://SELF"};
    for (int i = 0; i < 2; i++) {
        OK(MPI_Group_from_session_pset(session, sets[i], &group));
        OK(MPI_Comm_create_from_group(group, sets[i], MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
        expect_of_family(sets[i], comm, 1);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Group_free(&group));
    }
    OK(MPI_Session_finalize(&session));
#endif
    return check_end();
}
