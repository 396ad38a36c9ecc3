// Attributes and callbacks that call MPI again from inside: copy and delete callbacks of
// communicators and datatypes that send, receive, duplicate and set other attributes; operations of
// the program that send to their own process; error handlers that communicate. A library that holds
// a lock while it calls back would hang here.
// run: 1 2 3
#include "check.h"

static int copies, deletions, inner_keyval, last_extra;

// Uses much of MPI while the outer call is underway.
static void use_mpi(void) {
    int out = 5, in = 0, size;
    MPI_Request request;
    MPI_Datatype type;
    OK(MPI_Irecv(&in, 1, MPI_INT, 0, 99, MPI_COMM_SELF, &request));
    OK(MPI_Send(&out, 1, MPI_INT, 0, 99, MPI_COMM_SELF));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(in, 5);
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    OK(MPI_Type_size(type, &size));
    CHECK_EQ(size, 12);
    OK(MPI_Type_free(&type));
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    MPI_Comm inner;
    (void)keyval;
    copies++;
    last_extra = *(int *)extra;
    use_mpi();
    // Collective on one communicator: every rank's callback calls it at a corresponding place.
    OK(MPI_Comm_dup(MPI_COMM_SELF, &inner));
    OK(MPI_Comm_set_attr(inner, inner_keyval, in));
    OK(MPI_Comm_free(&inner));
    OK(MPI_Comm_set_attr(comm, inner_keyval, in));
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra) {
    int rank;
    (void)keyval;
    (void)value;
    (void)extra;
    deletions++;
    OK(MPI_Comm_rank(comm, &rank));
    use_mpi();
    return MPI_SUCCESS;
}

static int refuse(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static int fail_copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

static int fail_delete(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

static void communicator_attributes(void) {
    MPI_Comm first, second;
    int keyval, refusing, found, extra = 77;
    char *value, base[4];
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &inner_keyval, NULL));
    OK(MPI_Comm_create_keyval(copy, delete, &keyval, &extra));
    OK(MPI_Comm_create_keyval(refuse, delete, &refusing, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    OK(MPI_Comm_get_attr(first, keyval, &value, &found));
    CHECK_EQ(found, 0);
    OK(MPI_Comm_set_attr(first, keyval, base));
    OK(MPI_Comm_set_attr(first, refusing, base));
    OK(MPI_Comm_dup(first, &second));
    CHECK_EQ(copies, 1);
    CHECK_EQ(last_extra, 77);
    OK(MPI_Comm_get_attr(second, keyval, &value, &found));
    CHECK(found && value == base + 1, "what the callback gave");
    OK(MPI_Comm_get_attr(second, refusing, &value, &found));
    CHECK_EQ(found, 0);
    OK(MPI_Comm_get_attr(first, inner_keyval, &value, &found));
    CHECK_EQ(found, 1);
    // Set again: the old value is deleted.
    OK(MPI_Comm_set_attr(second, keyval, base));
    CHECK_EQ(deletions, 1);
    OK(MPI_Comm_delete_attr(second, keyval));
    CHECK_EQ(deletions, 2);
    OK(MPI_Comm_get_attr(second, keyval, &value, &found));
    CHECK_EQ(found, 0);
    int freed = keyval;
    OK(MPI_Comm_free_keyval(&freed));
    CHECK_EQ(freed, MPI_KEYVAL_INVALID);
    // A freed key lives on while attributes use it.
    OK(MPI_Comm_free(&first));
    CHECK_EQ(deletions, 4);
    OK(MPI_Comm_free(&second));
    CHECK_EQ(deletions, 4);
    OK(MPI_Comm_free_keyval(&refusing));
    OK(MPI_Comm_free_keyval(&inner_keyval));
    if (check_is_combray) {
        EXPECT_ERROR(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, base), MPI_ERR_KEYVAL, "keyval");
        EXPECT_ERROR(MPI_Comm_set_attr(MPI_COMM_SELF, MPI_KEYVAL_INVALID, base), MPI_ERR_KEYVAL,
                     "keyval");
        EXPECT_ERROR(MPI_Comm_set_attr(MPI_COMM_SELF, 123456, base), MPI_ERR_KEYVAL, "123456");
    }
}

static void failing_callbacks(void) {
    MPI_Comm comm, copied = MPI_COMM_NULL;
    int bad_copy, bad_delete;
    OK(MPI_Comm_create_keyval(fail_copy, MPI_COMM_NULL_DELETE_FN, &bad_copy, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, fail_delete, &bad_delete, NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_attr(comm, bad_copy, NULL));
    CHECK(MPI_Comm_dup(comm, &copied) != MPI_SUCCESS, "a copy callback failed");
    OK(MPI_Comm_delete_attr(comm, bad_copy));
    OK(MPI_Comm_set_attr(comm, bad_delete, NULL));
    CHECK(MPI_Comm_delete_attr(comm, bad_delete) != MPI_SUCCESS, "a delete callback failed");
    CHECK(MPI_Comm_free(&comm) != MPI_SUCCESS, "a delete callback failed");
    OK(MPI_Comm_free_keyval(&bad_copy));
    OK(MPI_Comm_free_keyval(&bad_delete));
}

static int type_deletions;

static int type_copy(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag) {
    int size;
    (void)keyval, (void)extra;
    OK(MPI_Type_size(type, &size));
    use_mpi();
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int type_delete(MPI_Datatype type, int keyval, void *value, void *extra) {
    (void)type, (void)keyval, (void)value, (void)extra;
    type_deletions++;
    use_mpi();
    return MPI_SUCCESS;
}

static void datatype_attributes(void) {
    MPI_Datatype type, copied;
    int keyval, found, value = 3, *got;
    OK(MPI_Type_create_keyval(type_copy, type_delete, &keyval, NULL));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_set_attr(type, keyval, &value));
    OK(MPI_Type_dup(type, &copied));
    OK(MPI_Type_get_attr(copied, keyval, &got, &found));
    CHECK(found && got == &value, "copied");
    OK(MPI_Type_free(&type));
    // Some libraries keep the original while a duplicate lives.
    if (check_is_combray) CHECK_EQ(type_deletions, 1);
    OK(MPI_Type_delete_attr(copied, keyval));
    OK(MPI_Type_free(&copied));
    CHECK_EQ(type_deletions, 2);
    OK(MPI_Type_free_keyval(&keyval));
}

static void sum(void *in, void *inout, int *length, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *length; i++) ((int *)inout)[i] += ((int *)in)[i];
    use_mpi();
}

static void operation(void) {
    MPI_Op op;
    enum { COUNT = 3000 };
    static int mine[COUNT], all[COUNT];
    OK(MPI_Op_create(sum, 1, &op));
    for (int i = 0; i < COUNT; i++) mine[i] = i;
    OK(MPI_Allreduce(mine, all, COUNT, MPI_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) CHECK_EQ(all[i], i * check_size);
    OK(MPI_Op_free(&op));
}

static int handled;

static void on_error(MPI_Comm *comm, int *code, ...) {
    int mine = 1, all = 0;
    (void)code;
    handled++;
    use_mpi();
    // On every rank alike, so this is a collective of the communicator that failed.
    OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, *comm));
    CHECK_EQ(all, check_size);
}

static void error_handler(void) {
    MPI_Errhandler handler;
    MPI_Comm comm;
    int value = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Errhandler_free(&handler));
    MPI_Send(&value, 1, MPI_INT, 4321, 0, comm);
    CHECK_EQ(handled, 1);
    OK(MPI_Comm_free(&comm));
}

int main(void) {
    check_begin();
    communicator_attributes();
    failing_callbacks();
    datatype_attributes();
    operation();
    error_handler();
    return check_end();
}
