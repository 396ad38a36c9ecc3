// Error classes, codes and strings of the program: added, queried, passed to error handlers, and
// removed in the order that the standard demands; before MPI_Init too. Errors of several requests
// stand in their statuses.
// run: 1 2
#include "check.h"

static int handled;

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    handled = *code;
}

static void expect_text(int code, const char *expected) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    OK(MPI_Error_string(code, text, &length));
    CHECK(strcmp(text, expected) == 0 && length == (int)strlen(expected), "\"%s\"", text);
}

static void add_and_remove(void) {
    int class, other, code, found;
    OK(MPI_Add_error_class(&class));
    CHECK(class > MPI_ERR_LASTCODE, "%d", class);
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_class(&other));
    CHECK(code > class && other > code, "%d %d %d", class, code, other);
    OK(MPI_Error_class(code, &found));
    CHECK_EQ(found, class);
    expect_text(code, "");
    OK(MPI_Add_error_string(code, "the tide is out"));
    OK(MPI_Add_error_string(class, "sea"));
    expect_text(code, "the tide is out");
    expect_text(class, "sea");
    OK(MPI_Remove_error_string(code));
    expect_text(code, "");
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_string(class));
    OK(MPI_Remove_error_class(class));
    OK(MPI_Remove_error_class(other));
    // Of a class of the standard.
    OK(MPI_Add_error_code(MPI_ERR_RANK, &code));
    OK(MPI_Error_class(code, &found));
    CHECK_EQ(found, MPI_ERR_RANK);
    OK(MPI_Remove_error_code(code));
}

static void wrong_order(void) {
    int class, code, found;
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    EXPECT_ERROR(MPI_Remove_error_class(class), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Remove_error_class(code), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Remove_error_code(class), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Remove_error_string(code), MPI_ERR_ARG);
    OK(MPI_Add_error_string(code, "text"));
    EXPECT_ERROR(MPI_Remove_error_code(code), MPI_ERR_ARG);
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code));
    EXPECT_ERROR(MPI_Remove_error_code(code), MPI_ERR_ARG);
    OK(MPI_Remove_error_class(class));
    EXPECT_ERROR(MPI_Error_class(class, &found), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Add_error_code(class, &found), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Add_error_code(MPI_ERR_LASTCODE - 1, &found), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Add_error_code(-1, &found), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Add_error_string(MPI_ERR_RANK, "mine"), MPI_ERR_ARG);
    EXPECT_ERROR(MPI_Remove_error_class(MPI_ERR_RANK), MPI_ERR_ARG);
}

static void given_to_a_handler(void) {
    MPI_Errhandler errhandler;
    MPI_Comm copy;
    int class, code;
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_create_errhandler(handler, &errhandler));
    OK(MPI_Comm_set_errhandler(copy, errhandler));
    OK(MPI_Errhandler_free(&errhandler));
    OK(MPI_Comm_call_errhandler(copy, code));
    CHECK_EQ(handled, code);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_class(class));
}

// Of three messages one is too long; a call for several requests returns which.
static void in_statuses(int some) {
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int data[3][4], out[4] = {0}, class, count = 0, indices[3], done = 0, wrong = 0;
    for (int i = 0; i < 3; i++) OK(MPI_Irecv(data[i], 2, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]));
    for (int i = 0; i < 3; i++)
        OK(MPI_Send(out, i == 1 ? 4 : 2, MPI_INT, 0, i, MPI_COMM_SELF));
    while (done < 3) {
        int code = some ? MPI_Waitsome(3, requests, &count, indices, statuses)
                        : MPI_Waitall(3, requests, statuses);
        if (!some) count = 3;
        for (int i = 0; i < count && code != MPI_SUCCESS; i++) {
            OK(MPI_Error_class(code, &class));
            CHECK_EQ(class, MPI_ERR_IN_STATUS);
            OK(MPI_Error_class(statuses[i].MPI_ERROR, &class));
            wrong += class != MPI_SUCCESS;
            CHECK_EQ(class, statuses[i].MPI_TAG == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        }
        done += count;
    }
    CHECK_EQ(wrong, 1);
    for (int i = 0; i < 3; i++) CHECK(requests[i] == MPI_REQUEST_NULL, "%d", i);
}

int main(void) {
    add_and_remove();
    check_begin();
    add_and_remove();
    wrong_order();
    given_to_a_handler();
    in_statuses(0);
    in_statuses(1);
    return check_end();
}
