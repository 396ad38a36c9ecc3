// Hints of communicators and windows: reserved ones have their defaults, are changed by valid
// values, and stay as they are where the program sets nothing new.
// run: 1 2
#include "check.h"

static void expect(MPI_Info info, const char *key, const char *expected) {
    char value[100] = "";
    int flag = 0, room = sizeof value;
    OK(MPI_Info_get_string(info, key, &room, value, &flag));
    if (!expected)
        CHECK(!flag, "%s is not set, but is %s", key, value);
    else
        CHECK(flag && !strcmp(value, expected), "%s is %s, expected %s", key, value, expected);
}

static MPI_Info with(const char *key, const char *value) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, key, value));
    return info;
}

static const char *const assertions[] = {
    "mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
#if MPI_MAX_INFO_KEY > 48
    "mpi_assert_strict_persistent_collective_ordering",
#endif
};

static void expect_of_comm(MPI_Comm comm, const char *key, const char *value) {
    MPI_Info info;
    OK(MPI_Comm_get_info(comm, &info));
    expect(info, key, value);
    OK(MPI_Info_free(&info));
}

static void give_comm(MPI_Comm comm, const char *key, const char *value) {
    MPI_Info info = with(key, value);
    OK(MPI_Comm_set_info(comm, info));
    OK(MPI_Info_free(&info));
}

// How messages travel can be chosen for each communicator; what means nothing is ignored, and
// whatever is chosen, messages arrive.
static void scheduling(MPI_Comm comm) {
    static const char *const right[][2] = {
        {"combray_strategy", "direct"}, {"combray_strategy", "priority"}, {"combray_priority", "-3"},
        {"combray_priority", "7"},      {"combray_rail", "fastest"},      {"combray_rail", "shm"}};
    static const char *const wrong[][2] = {{"combray_strategy", "magic"}, {"combray_strategy", ""},
                                           {"combray_priority", "high"},  {"combray_priority", "1e3"},
                                           {"combray_rail", "nowhere0"},  {"combray_rail", "Fastest"}};
    MPI_Info info;
    int rank, size, flag = 0, room = 0;
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_get_string(info, "combray_strategy", &room, NULL, &flag));
    OK(MPI_Info_free(&info));
    if (!flag) return;  // another library
    expect_of_comm(comm, "combray_priority", "0");
    expect_of_comm(comm, "combray_rail", "all");
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        give_comm(comm, right[i][0], right[i][1]);
        expect_of_comm(comm, right[i][0], right[i][1]);
        OK(MPI_Comm_rank(comm, &rank));
        OK(MPI_Comm_size(comm, &size));
        for (int length = 1; length <= 1 << 20; length *= 32) {
            char *out = calloc(length, 1), *in = calloc(length, 1);
            memset(out, rank + 1, length);
            OK(MPI_Sendrecv(out, length, MPI_CHAR, (rank + 1) % size, 3, in, length, MPI_CHAR,
                            (rank + size - 1) % size, 3, comm, MPI_STATUS_IGNORE));
            CHECK_EQ(in[length - 1], (rank + size - 1) % size + 1);
            free(out);
            free(in);
        }
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) give_comm(comm, wrong[i][0], wrong[i][1]);
    expect_of_comm(comm, "combray_strategy", "priority");
    expect_of_comm(comm, "combray_priority", "7");
    expect_of_comm(comm, "combray_rail", "shm");
}

static void communicators(void) {
    MPI_Comm comm, copy;
    MPI_Info info = with("mpi_assert_exact_length", "true");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (size_t i = 0; i < sizeof assertions / sizeof *assertions; i++)
        expect_of_comm(comm, assertions[i], "false");
    give_comm(comm, "mpi_assert_no_any_tag", "true");
    give_comm(comm, "mpi_assert_no_any_source", "perhaps");
    give_comm(comm, "color", "blue");
    expect_of_comm(comm, "mpi_assert_no_any_tag", "true");
    expect_of_comm(comm, "mpi_assert_no_any_source", "false");
    // Ignored hints are not among the hints (MPI 5.0, section 7.4.4); some libraries return them.
    if (check_is_combray) expect_of_comm(comm, "color", NULL);
    give_comm(comm, "mpi_assert_no_any_tag", "false");
    expect_of_comm(comm, "mpi_assert_no_any_tag", "false");
    scheduling(comm);
    // A duplicate has only the hints passed to it.
    OK(MPI_Comm_dup_with_info(comm, info, &copy));
    expect_of_comm(copy, "mpi_assert_exact_length", "true");
    expect_of_comm(copy, "color", NULL);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_dup(comm, &copy));
    expect_of_comm(copy, "color", NULL);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Info_free(&info));
}

static void expect_of_win(MPI_Win win, const char *key, const char *value) {
    MPI_Info info;
    OK(MPI_Win_get_info(win, &info));
    expect(info, key, value);
    OK(MPI_Info_free(&info));
}

static void give_win(MPI_Win win, const char *key, const char *value) {
    MPI_Info info = with(key, value);
    OK(MPI_Win_set_info(win, info));
    OK(MPI_Info_free(&info));
}

static void windows(void) {
    static int memory[4];
    MPI_Info info = with("no_locks", "true");
    MPI_Win win;
    OK(MPI_Win_create(memory, sizeof memory, 1, info, MPI_COMM_WORLD, &win));
    OK(MPI_Info_free(&info));
    expect_of_win(win, "no_locks", "true");
    expect_of_win(win, "accumulate_ordering", "rar,raw,war,waw");
    expect_of_win(win, "accumulate_ops", "same_op_no_op");
    expect_of_win(win, "same_size", "false");
    give_win(win, "accumulate_ordering", "always");
    expect_of_win(win, "accumulate_ordering", "rar,raw,war,waw");
    give_win(win, "color", "blue");
    if (check_is_combray) expect_of_win(win, "color", NULL);
    give_win(win, "accumulate_ordering", "none");
    expect_of_win(win, "accumulate_ordering", "none");
    expect_of_win(win, "no_locks", "true");
    OK(MPI_Win_free(&win));
}

int main(void) {
    check_begin();
    communicators();
    windows();
    return check_end();
}
