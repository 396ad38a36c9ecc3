// Names of old versions of the standard that programs still use, as mpi.h offers them: types of
// functions, and functions that have another name now.
// run: 1
// combray.h
#include "check.h"

static int calls;

static void on_error(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    calls++;
}

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static void error_handlers(void) {
    MPI_Comm_errhandler_fn *for_comm = on_error;
    MPI_Handler_function *for_any = on_error;
    MPI_File_errhandler_fn *for_file = NULL;
    MPI_Win_errhandler_fn *for_win = NULL;
    CHECK(for_comm == for_any && !for_file && !for_win, "types of functions");
    MPI_Errhandler handler, got;
    OK(MPI_Errhandler_create(for_any, &handler));
    OK(MPI_Errhandler_set(MPI_COMM_WORLD, handler));
    OK(MPI_Errhandler_get(MPI_COMM_WORLD, &got));
    CHECK(got == handler, "the handler that was set");
    int value = 0;
    MPI_Send(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    CHECK_EQ(calls, 1);
    OK(MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Errhandler_free(&handler));
}

static void attributes(void) {
    MPI_Copy_function *copies = copy;
    MPI_Delete_function *deletes = delete;
    int key, flag, value = 5;
    void *found;
    OK(MPI_Keyval_create(copies, deletes, &key, NULL));
    OK(MPI_Attr_put(MPI_COMM_WORLD, key, &value));
    OK(MPI_Attr_get(MPI_COMM_WORLD, key, &found, &flag));
    CHECK(flag && found == &value, "the attribute");
    OK(MPI_Attr_delete(MPI_COMM_WORLD, key));
    OK(MPI_Keyval_free(&key));
}

static void datatypes(void) {
    struct {
        int first;
        double second[2];
    } there = {1, {2, 3}};
    MPI_Aint base, places[2], extent, low, high;
    OK(MPI_Address(&there, &base));
    OK(MPI_Address(&there.second, &places[1]));
    places[0] = 0, places[1] -= base;
    int lengths[2] = {1, 2};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, type;
    OK(MPI_Type_struct(2, lengths, places, types, &type));
    OK(MPI_Type_extent(type, &extent));
    OK(MPI_Type_lb(type, &low));
    OK(MPI_Type_ub(type, &high));
    CHECK(extent == sizeof there && low == 0 && high == sizeof there, "extent and bounds");
    OK(MPI_Type_free(&type));
    OK(MPI_Type_hvector(3, 1, 16, MPI_INT, &type));
    OK(MPI_Type_extent(type, &extent));
    CHECK_EQ(extent, 36);
    OK(MPI_Type_free(&type));
    places[0] = 8, places[1] = 24;
    OK(MPI_Type_hindexed(2, lengths, places, MPI_INT, &type));
    OK(MPI_Type_lb(type, &low));
    OK(MPI_Type_ub(type, &high));
    CHECK(low == 8 && high == 32, "bounds");
    OK(MPI_Type_free(&type));
}

int main(void) {
    check_begin();
    error_handlers();
    attributes();
    datatypes();
    return check_end();
}
