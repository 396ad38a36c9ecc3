// A delete function that fails for an attribute of MPI_COMM_SELF: MPI_Finalize calls the others
// too, ends MPI in every process, and returns the code, or the result of the error handler. In
// another call the communicator or window is kept; a datatype is freed nevertheless.
// run: 1 2
// each: returned handled forgiven
#include "check.h"

static int deleted[8], deletions, fails_with, handled;

static int delete_comm(MPI_Comm comm, int keyval, void *value, void *state) {
    (void)comm, (void)keyval, (void)state;
    deleted[deletions++] = (int)(intptr_t)value;
    return (intptr_t)value == 2 ? fails_with : MPI_SUCCESS;
}
static int delete_type(MPI_Datatype type, int keyval, void *value, void *state) {
    (void)type;
    return delete_comm(MPI_COMM_NULL, keyval, value, state);
}
static int delete_win(MPI_Win win, int keyval, void *value, void *state) {
    (void)win;
    return delete_comm(MPI_COMM_NULL, keyval, value, state);
}

static void on_error(MPI_Comm *comm, int *code, ...) {
    int finalized, rank;
    CHECK(*comm == MPI_COMM_SELF, "the handler is that of MPI_COMM_SELF");
    CHECK_EQ(*code, fails_with);
    // It can call MPI.
    OK(MPI_Finalized(&finalized));
    CHECK_EQ(finalized, 0);
    OK(MPI_Comm_rank(*comm, &rank));
    handled++;
}
static void forgive(MPI_Comm *comm, int *code, ...) {
    on_error(comm, code);
    *code = MPI_SUCCESS;
}

// The object stays, and can be freed when the function no longer fails.
#define KEPT(call, handle, null)                                                                   \
    do {                                                                                           \
        deletions = 0;                                                                             \
        fails_with = MPI_ERR_OTHER;                                                                \
        CHECK_EQ(call, fails_with);                                                                \
        CHECK(handle != null, "the object is still there");                                        \
        fails_with = MPI_SUCCESS;                                                                  \
        OK(call);                                                                                  \
        CHECK(handle == null, "the object was freed");                                             \
    } while (0)

static void of_objects(void) {
    MPI_Comm comm;
    MPI_Win win;
    int of_comm, of_win;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_comm, &of_comm, NULL));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_win, &of_win, NULL));
    for (int disconnects = 0; disconnects < 2; disconnects++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        OK(MPI_Comm_set_attr(comm, of_comm, (void *)2));
        if (disconnects) KEPT(MPI_Comm_disconnect(&comm), comm, MPI_COMM_NULL);
        else KEPT(MPI_Comm_free(&comm), comm, MPI_COMM_NULL);
    }
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_set_attr(win, of_win, (void *)2));
    KEPT(MPI_Win_free(&win), win, MPI_WIN_NULL);
}

static void of_types(void) {
    MPI_Datatype type;
    int keyval;
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_type, &keyval, NULL));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_set_attr(type, keyval, (void *)2));
    deletions = 0;
    fails_with = MPI_ERR_OTHER;
    OK(MPI_Type_free(&type));
    CHECK(type == MPI_DATATYPE_NULL, "the datatype was freed");
    CHECK_EQ(deletions, 1);
    OK(MPI_Type_free_keyval(&keyval));
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "returned";
    int keyvals[3], class, flag;
    MPI_Errhandler handler;
    check_begin();
    of_types();
    // What the others do is of no use to a program.
    if (!check_is_combray) return check_end();
    of_objects();
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &fails_with));
    if (!strcmp(how, "returned")) {
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    } else {
        OK(MPI_Comm_create_errhandler(!strcmp(how, "handled") ? on_error : forgive, &handler));
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
        OK(MPI_Errhandler_free(&handler));
    }
    deletions = 0;
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_comm, &keyvals[i], NULL));
        // In the last process all functions succeed.
        int fails = check_rank < check_size - 1 || check_size == 1;
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyvals[i], (void *)(intptr_t)(i == 1 && !fails ? 4 : i + 1)));
    }
    int fails = check_rank < check_size - 1 || check_size == 1;
    int code = MPI_Finalize();
    CHECK_EQ(code, fails && strcmp(how, "forgiven") ? fails_with : MPI_SUCCESS);
    CHECK_EQ(handled, fails && strcmp(how, "returned"));
    CHECK(deletions == 3 && deleted[0] == 3 && deleted[2] == 1, "all functions were called");
    CHECK_EQ(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK_EQ(flag, 1);
    return check_failures != 0;
}
