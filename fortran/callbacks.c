/* Functions of a Fortran program that the library calls through C functions. */
#include "callbacks.h"

#include <pthread.h>

/* The C functions for operations and error handlers have no argument for extra state. So there is a
 * table of C functions, each for one function of the program. A function that is passed twice uses
 * one place. */
#define PLACES 128
#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define SIXTY_FOUR(X, n) \
    EIGHT(X, n##0) EIGHT(X, n##1) EIGHT(X, n##2) EIGHT(X, n##3) \
    EIGHT(X, n##4) EIGHT(X, n##5) EIGHT(X, n##6) EIGHT(X, n##7)
/* Octal numbers from 0 to 127. */
#define ALL(X) SIXTY_FOUR(X, 0) SIXTY_FOUR(X, 01)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef void function_of_program(void);

static int place_of(function_of_program **places, function_of_program *function)
{
    int place = 0;
    pthread_mutex_lock(&lock);
    while (place < PLACES && places[place] && places[place] != function) place++;
    if (place < PLACES) places[place] = function;
    pthread_mutex_unlock(&lock);
    return place;
}

static function_of_program *operations[PLACES];
static function_of_program *large_operations[PLACES];
static function_of_program *handlers[PLACES];

#define OPERATION(n)                                                                       \
    static void operation_##n(void *in, void *inout, int *length, MPI_Datatype *datatype)  \
    {                                                                                      \
        MPI_Fint type = Type_out(*datatype);                                               \
        ((fortran_operation *)operations[n])(in, inout, length, &type);                    \
    }
#define LARGE_OPERATION(n)                                                                 \
    static void large_operation_##n(void *in, void *inout, MPI_Count *length,              \
                                    MPI_Datatype *datatype)                                \
    {                                                                                      \
        MPI_Fint type = Type_out(*datatype);                                               \
        ((fortran_large_operation *)large_operations[n])(in, inout, length, &type);        \
    }
#define HANDLER(object, Name, Type, n)                                                     \
    static void object##_handler_##n(Type *handle, int *code, ...)                         \
    {                                                                                      \
        MPI_Fint integer = Name##_out(*handle);                                            \
        ((fortran_handler *)handlers[n])(&integer, code);                                  \
    }
#define COMM_HANDLER(n) HANDLER(comm, Comm, MPI_Comm, n)
#define WIN_HANDLER(n) HANDLER(win, Win, MPI_Win, n)
#define FILE_HANDLER(n) HANDLER(file, File, MPI_File, n)
#define SESSION_HANDLER(n) HANDLER(session, Session, MPI_Session, n)
ALL(OPERATION)
ALL(LARGE_OPERATION)
ALL(COMM_HANDLER)
ALL(WIN_HANDLER)
ALL(FILE_HANDLER)
ALL(SESSION_HANDLER)

#define ROW(Type, name, Function, places)                                          \
    Type *combray_fortran_##name(Function *function)                               \
    {                                                                              \
        static Type *const row[PLACES] = {ALL(ROW_##name)};                        \
        int place = place_of(places, (function_of_program *)function);             \
        return place < PLACES ? row[place] : NULL;                                 \
    }
#define ROW_operation(n) operation_##n,
#define ROW_large_operation(n) large_operation_##n,
#define ROW_comm_handler(n) comm_handler_##n,
#define ROW_win_handler(n) win_handler_##n,
#define ROW_file_handler(n) file_handler_##n,
#define ROW_session_handler(n) session_handler_##n,
ROW(MPI_User_function, operation, fortran_operation, operations)
ROW(MPI_User_function_c, large_operation, fortran_large_operation, large_operations)
ROW(MPI_Comm_errhandler_function, comm_handler, fortran_handler, handlers)
ROW(MPI_Win_errhandler_function, win_handler, fortran_handler, handlers)
ROW(MPI_File_errhandler_function, file_handler, fortran_handler, handlers)
ROW(MPI_Session_errhandler_function, session_handler, fortran_handler, handlers)

/* Values that Fortran programs attach, in chunks that are never freed. The address of an attribute
 * shows whether it is such a value. */
#define BOXES 256
struct boxes {
    struct boxes *next;
    MPI_Aint values[BOXES];
};
static struct boxes *all_boxes;
/* A free box contains the address of the next free box. */
static MPI_Aint *free_box;

static bool is_box(void *attribute)
{
    for (struct boxes *piece = all_boxes; piece; piece = piece->next)
        if ((uintptr_t)attribute - (uintptr_t)piece->values < sizeof piece->values) return true;
    return false;
}

void *combray_fortran_box(MPI_Aint value)
{
    pthread_mutex_lock(&lock);
    if (!free_box) {
        struct boxes *piece = combray_fortran_room(sizeof *piece);
        piece->next = all_boxes;
        all_boxes = piece;
        for (int i = 0; i < BOXES; i++) {
            piece->values[i] = (MPI_Aint)free_box;
            free_box = &piece->values[i];
        }
    }
    MPI_Aint *box = free_box;
    free_box = (MPI_Aint *)*box;
    *box = value;
    pthread_mutex_unlock(&lock);
    return box;
}

void combray_fortran_unbox(void *attribute)
{
    pthread_mutex_lock(&lock);
    if (is_box(attribute)) {
        MPI_Aint *box = attribute;
        *box = (MPI_Aint)free_box;
        free_box = box;
    }
    pthread_mutex_unlock(&lock);
}

MPI_Aint combray_fortran_value(void *attribute)
{
    pthread_mutex_lock(&lock);
    MPI_Aint value = is_box(attribute) ? *(MPI_Aint *)attribute : (MPI_Aint)attribute;
    pthread_mutex_unlock(&lock);
    return value;
}

static struct keyval *keyvals;

/* A record outlives its keyval, because the layer cannot detect when the last attribute of the
 * keyval is gone. A new keyval with equal functions and equal state reuses the record. */
struct keyval *combray_fortran_keyval(fortran_copy *copy, fortran_delete *delete,
                                      MPI_Aint extra_state, bool is_short)
{
    struct keyval wanted = {.copy = copy, .delete = delete, .is_short = is_short,
                            .keyval = MPI_KEYVAL_INVALID};
    if (is_short) wanted.extra_state.integer = (MPI_Fint)extra_state;
    else wanted.extra_state.address = extra_state;
    pthread_mutex_lock(&lock);
    struct keyval *known = keyvals;
    while (known && (!known->is_free || known->copy != copy ||
                     known->delete != delete || known->is_short != is_short ||
                     known->extra_state.address != wanted.extra_state.address))
        known = known->next;
    if (!known) {
        known = combray_fortran_room(sizeof *known);
        wanted.next = keyvals;
        keyvals = known;
        *known = wanted;
    }
    known->is_free = false;
    pthread_mutex_unlock(&lock);
    return known;
}

void combray_fortran_name_keyval(struct keyval *known, MPI_Fint keyval)
{
    pthread_mutex_lock(&lock);
    known->keyval = keyval;
    known->is_free = keyval == MPI_KEYVAL_INVALID;
    pthread_mutex_unlock(&lock);
}

struct keyval *combray_fortran_find_keyval(MPI_Fint keyval)
{
    pthread_mutex_lock(&lock);
    struct keyval *known = keyvals;
    while (known && (known->is_free || known->keyval != keyval)) known = known->next;
    pthread_mutex_unlock(&lock);
    return known;
}

static int copy_attribute(MPI_Fint object, int keyval, void *extra_state, void *value_in,
                          void *value_out, int *flag)
{
    struct keyval *known = extra_state;
    MPI_Aint in = combray_fortran_value(value_in), out = 0;
    MPI_Fint is_copied = 0, code = MPI_SUCCESS;
    if (known->is_short) {
        MPI_Fint short_in = (MPI_Fint)in, short_out = 0;
        known->copy(&object, &keyval, &known->extra_state, &short_in, &short_out, &is_copied, &code);
        out = short_out;
    } else {
        known->copy(&object, &keyval, &known->extra_state, &in, &out, &is_copied, &code);
    }
    *flag = is_copied != 0;
    if (*flag && code == MPI_SUCCESS) *(void **)value_out = combray_fortran_box(out);
    return code;
}

static int delete_attribute(MPI_Fint object, int keyval, void *value, void *extra_state)
{
    struct keyval *known = extra_state;
    MPI_Aint in = combray_fortran_value(value);
    MPI_Fint code = MPI_SUCCESS;
    if (known->is_short) {
        MPI_Fint short_in = (MPI_Fint)in;
        known->delete(&object, &keyval, &short_in, &known->extra_state, &code);
    } else {
        known->delete(&object, &keyval, &in, &known->extra_state, &code);
    }
    if (code == MPI_SUCCESS) combray_fortran_unbox(value);
    return code;
}

#define ATTRIBUTES(object, Name, Type)                                                       \
    int combray_fortran_##object##_copy(Type handle, int keyval, void *extra_state,          \
                                        void *value_in, void *value_out, int *flag)          \
    {                                                                                        \
        return copy_attribute(Name##_out(handle), keyval, extra_state, value_in, value_out,  \
                              flag);                                                         \
    }                                                                                        \
    int combray_fortran_##object##_delete(Type handle, int keyval, void *value,              \
                                          void *extra_state)                                 \
    {                                                                                        \
        return delete_attribute(Name##_out(handle), keyval, value, extra_state);             \
    }
ATTRIBUTES(comm, Comm, MPI_Comm)
ATTRIBUTES(type, Type, MPI_Datatype)
ATTRIBUTES(win, Win, MPI_Win)

int combray_fortran_query(void *extra_state, MPI_Status *status)
{
    struct generalized *request = extra_state;
    MPI_Fint code = MPI_SUCCESS;
    request->query(request->extra_state, status, &code);
    return code;
}

int combray_fortran_free(void *extra_state)
{
    struct generalized *request = extra_state;
    MPI_Fint code = MPI_SUCCESS;
    request->free(request->extra_state, &code);
    free(request);
    return code;
}

int combray_fortran_cancel(void *extra_state, int complete)
{
    struct generalized *request = extra_state;
    MPI_Fint is_complete = truth(complete), code = MPI_SUCCESS;
    request->cancel(request->extra_state, &is_complete, &code);
    return code;
}

#define CONVERSION(name, member, Count, Function)                                             \
    int combray_fortran_##name(void *userbuf, MPI_Datatype datatype, Count count,             \
                               void *filebuf, MPI_Offset position, void *extra_state)         \
    {                                                                                         \
        struct representation *known = extra_state;                                           \
        MPI_Fint type = Type_out(datatype), code = MPI_SUCCESS;                               \
        ((Function *)known->member)(userbuf, &type, &count, filebuf, &position,               \
                                    &known->extra_state, &code);                              \
        return code;                                                                          \
    }
CONVERSION(read, read, int, fortran_conversion)
CONVERSION(write, write, int, fortran_conversion)
CONVERSION(large_read, read, MPI_Count, fortran_large_conversion)
CONVERSION(large_write, write, MPI_Count, fortran_large_conversion)

int combray_fortran_extent(MPI_Datatype datatype, MPI_Aint *extent, void *extra_state)
{
    struct representation *known = extra_state;
    MPI_Fint type = Type_out(datatype), code = MPI_SUCCESS;
    known->extent(&type, extent, &known->extra_state, &code);
    return code;
}
