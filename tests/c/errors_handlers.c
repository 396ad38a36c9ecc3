// Error handlers (own, predefined, inherited, called from inside MPI and by the program), error
// classes, codes and strings that a program adds.
// run: 1 2
#include "check.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void on_error(MPI_Comm *comm, int *code, ...) {
    calls++;
    last_comm = *comm;
    last_code = *code;
    // A handler may call MPI again.
    int rank;
    MPI_Comm_rank(*comm, &rank);
}

static void own_handler(void) {
    MPI_Errhandler handler, got;
    MPI_Comm comm, copy;
    int value = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Comm_get_errhandler(comm, &got));
    CHECK(got == handler, "the handler that was set");
    OK(MPI_Errhandler_free(&got));
    // Freed while in use: it lives as long as the communicator uses it.
    OK(MPI_Errhandler_free(&handler));
    CHECK(handler == MPI_ERRHANDLER_NULL, "the handle is null");
    int code = MPI_Send(&value, 1, MPI_INT, 1234, 0, comm);
    // This handler leaves the code as it is; some libraries return success here.
    if (check_is_combray) CHECK_EQ(code, last_code);
    CHECK_EQ(calls, 1);
    CHECK(last_comm == comm, "the handler is given the communicator");
    MPI_Error_class(last_code, &value);
    CHECK_EQ(value, MPI_ERR_RANK);
    // A duplicate inherits the handler (MPI 5.0, section 9.3).
    OK(MPI_Comm_dup(comm, &copy));
    MPI_Send(&value, 1, MPI_INT, 1234, 0, copy);
    CHECK_EQ(calls, 2);
    CHECK(last_comm == copy, "the duplicate");
    CHECK_EQ(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER), MPI_SUCCESS);
    CHECK_EQ(calls, 3);
    CHECK_EQ(last_code, MPI_ERR_OTHER);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&comm));
}

static void request_errors_use_handler(void) {
    MPI_Errhandler handler;
    MPI_Comm comm;
    MPI_Request request;
    int in[1], out[4] = {0}, before;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Errhandler_free(&handler));
    before = calls;
    OK(MPI_Irecv(in, 1, MPI_INT, 0, 0, comm, &request));
    OK(MPI_Send(out, 4, MPI_INT, 0, 0, comm));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQ(calls, before + 1);
    CHECK(last_comm == comm, "the communicator of the request");
    OK(MPI_Comm_free(&comm));
}

static void added_codes(void) {
    int class, code, second, got, *last, found, length;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Add_error_class(&class));
    CHECK(class > MPI_ERR_LASTCODE, "%d", class);
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_code(MPI_ERR_IO, &second));
    CHECK(code != second && code != class, "codes are distinct");
    OK(MPI_Error_class(code, &got));
    CHECK_EQ(got, class);
    OK(MPI_Error_class(class, &got));
    CHECK_EQ(got, class);
    OK(MPI_Error_class(second, &got));
    CHECK_EQ(got, MPI_ERR_IO);
    OK(MPI_Error_string(code, text, &length));
    CHECK_EQ(length, 0);
    OK(MPI_Add_error_string(class, "a class of our own"));
    OK(MPI_Add_error_string(code, "the cat sat on the keyboard"));
    OK(MPI_Error_string(code, text, &length));
    CHECK(!strcmp(text, "the cat sat on the keyboard"), "%s", text);
    CHECK_EQ(length, (int)strlen(text));
    OK(MPI_Add_error_string(code, "shorter"));
    OK(MPI_Error_string(code, text, &length));
    CHECK(!strcmp(text, "shorter"), "%s", text);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &found));
    REQUIRE(found, "MPI_LASTUSEDCODE");
    CHECK(*last >= class, "%d", *last);
    if (!check_is_combray) return;
    EXPECT_ERROR(MPI_Add_error_string(MPI_ERR_RANK, "no"), MPI_ERR_ARG);
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_code(second));
    OK(MPI_Remove_error_string(class));
    OK(MPI_Remove_error_class(class));
}

static void every_class_has_text(void) {
    char text[MPI_MAX_ERROR_STRING], success[MPI_MAX_ERROR_STRING];
    int length, class;
    OK(MPI_Error_string(MPI_SUCCESS, success, &length));
    for (int code = 1; code <= MPI_ERR_ABI; code++) {
#ifdef MPICH
        // It gave this number to no class.
        if (code == 54) continue;
#endif
        text[0] = 0;
        OK(MPI_Error_string(code, text, &length));
        CHECK(length > 5 && strcmp(text, success), "the text of class %d is \"%s\"", code, text);
        OK(MPI_Error_class(code, &class));
        CHECK_EQ(class, code);
    }
    if (!check_is_combray) return;
    EXPECT_ERROR(MPI_Error_class(-7, &class), MPI_ERR_ARG, "errorcode", "-7");
    EXPECT_ERROR(MPI_Error_string(MPI_ERR_LASTCODE + 100000, text, &length), MPI_ERR_ARG,
                 "errorcode");
}

int main(void) {
    check_begin();
    own_handler();
    request_errors_use_handler();
    every_class_has_text();
    added_codes();
    return check_end();
}
