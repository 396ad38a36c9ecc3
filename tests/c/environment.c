// The environment of a program: which functions may be called before MPI_Init and after
// MPI_Finalize, versions, processor name, clocks, predefined attributes, callbacks of MPI_COMM_SELF
// at the end.
// run: 1 2
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

static int deleted_at, order;

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra) {
    int finalized = 1, rank = -1;
    (void)keyval;
    (void)extra;
    // The first act of MPI_Finalize, when MPI still works (MPI 5.0, section 11.4.1).
    MPI_Finalized(&finalized);
    if (finalized) return MPI_ERR_OTHER;
    MPI_Comm_rank(comm, &rank);
    if (rank != 0) return MPI_ERR_OTHER;
    // Last set, first called.
    deleted_at = deleted_at * 10 + (int)(intptr_t)value;
    order++;
    return MPI_SUCCESS;
}

static void always_callable(int expect_initialized, int expect_finalized) {
    int flag, version, subversion, length, class;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Info info;
    MPI_Initialized(&flag);
    CHECK_EQ(flag, expect_initialized);
    MPI_Finalized(&flag);
    CHECK_EQ(flag, expect_finalized);
    CHECK_EQ(MPI_Get_version(&version, &subversion), MPI_SUCCESS);
    CHECK_EQ(version, MPI_VERSION);
    CHECK_EQ(subversion, MPI_SUBVERSION);
    CHECK_EQ(MPI_Get_library_version(text, &length), MPI_SUCCESS);
    CHECK_EQ(length, strlen(text));
    CHECK(length > 0, "a version");
    CHECK_EQ(MPI_Abi_get_version(&version, &subversion), MPI_SUCCESS);
#ifdef MPI_ABI_VERSION
    CHECK_EQ(version, MPI_ABI_VERSION);
#else
    CHECK_EQ(version, -1);
#endif
    // Which library of Combray it is.
    if (check_is_combray) CHECK(strstr(text, version > 0 ? "standard ABI" : "ABI of MPICH"), "%s", text);
    CHECK_EQ(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_EQ(MPI_Info_set(info, "a", "b"), MPI_SUCCESS);
    CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
    CHECK_EQ(MPI_Error_class(MPI_ERR_RANK, &class), MPI_SUCCESS);
    CHECK_EQ(class, MPI_ERR_RANK);
}

static void clocks(void) {
    double tick = MPI_Wtick(), last = MPI_Wtime(), start = last;
    CHECK(tick > 0 && tick < 1e-3, "a tick of %g s", tick);
    for (int i = 0; i < 10000; i++) {
        double now = MPI_Wtime();
        CHECK(now >= last, "time went back");
        last = now;
    }
    usleep(20000);
    CHECK(MPI_Wtime() - start > 0.015 && MPI_Wtime() - start < 5, "%g s", MPI_Wtime() - start);
}

static void attributes(void) {
    int *value, found;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found));
    CHECK(found && *value >= 32767, "MPI_TAG_UB");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &found));
    CHECK(found && (*value == 0 || *value == 1), "MPI_WTIME_IS_GLOBAL");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &found));
    CHECK(found, "MPI_IO");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &found));
    CHECK(!found || *value == 0, "MPI_APPNUM");
    EXPECT_ERROR(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL), MPI_ERR_KEYVAL);
}

static void (*handlers[NSIG])(int);

static void own_handler(int number) { exit(number); }

// Combray handles signals that kill because of a fault, unless the program does.
static int is_fault(int number) {
    return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGABRT;
}

// What all other signals do is the program's affair.
static void note_signals(int compare) {
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0) continue;
        if (compare && check_is_combray && !(is_fault(number) && handlers[number] == SIG_DFL))
            CHECK(action.sa_handler == handlers[number], "the handler of signal %d changed", number);
        handlers[number] = action.sa_handler;
    }
}

int main(void) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int length, keyvals[3], provided;
    always_callable(0, 0);
    // One fault that the program handles, and one that it ignores.
    signal(SIGFPE, own_handler);
    signal(SIGBUS, SIG_IGN);
    note_signals(0);
    check_begin();
    note_signals(1);
    always_callable(1, 0);
    OK(MPI_Get_processor_name(name, &length));
    CHECK_EQ(length, strlen(name));
    CHECK(length > 0, "a name");
    OK(MPI_Query_thread(&provided));
    clocks();
    attributes();
    EXPECT_ERROR(MPI_Init(NULL, NULL), MPI_ERR_OTHER);
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &keyvals[i], NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyvals[i], (void *)(intptr_t)(i + 1)));
        OK(MPI_Comm_free_keyval(&keyvals[i]));
    }
    OK(MPI_Finalize());
    CHECK_EQ(order, 3);
    CHECK_EQ(deleted_at, 321);
    always_callable(1, 1);
    return check_failures != 0;
}
