/* Functions of a Fortran program that the library calls through C functions. */
#ifndef COMBRAY_FORTRAN_CALLBACKS_H
#define COMBRAY_FORTRAN_CALLBACKS_H

#include "layer.h"

typedef void fortran_operation(void *in, void *inout, MPI_Fint *length, MPI_Fint *datatype);
typedef void fortran_large_operation(void *in, void *inout, MPI_Count *length, MPI_Fint *datatype);
typedef void fortran_handler(MPI_Fint *object, MPI_Fint *code);
/* Functions for attributes. Those of MPI-1 have default integers in place of addresses. */
typedef void fortran_copy(MPI_Fint *object, MPI_Fint *keyval, void *extra_state, void *value_in,
                          void *value_out, MPI_Fint *flag, MPI_Fint *ierror);
typedef void fortran_delete(MPI_Fint *object, MPI_Fint *keyval, void *value, void *extra_state,
                            MPI_Fint *ierror);
/* Functions for generalized requests. They receive the program's own variable, as in MPICH and Open
 * MPI. */
typedef void fortran_query(MPI_Aint *extra_state, MPI_Status *status, MPI_Fint *ierror);
typedef void fortran_free(MPI_Aint *extra_state, MPI_Fint *ierror);
typedef void fortran_cancel(MPI_Aint *extra_state, MPI_Fint *complete, MPI_Fint *ierror);
typedef void fortran_conversion(void *userbuf, MPI_Fint *datatype, MPI_Fint *count, void *filebuf,
                                MPI_Offset *position, MPI_Aint *extra_state, MPI_Fint *ierror);
typedef void fortran_large_conversion(void *userbuf, MPI_Fint *datatype, MPI_Count *count,
                                      void *filebuf, MPI_Offset *position, MPI_Aint *extra_state,
                                      MPI_Fint *ierror);
typedef void fortran_extent(MPI_Fint *datatype, MPI_Aint *extent, MPI_Aint *extra_state,
                            MPI_Fint *ierror);

/* Each returns a C function that calls the Fortran function; null if there are too many. */
MPI_User_function *combray_fortran_operation(fortran_operation *function);
MPI_User_function_c *combray_fortran_large_operation(fortran_large_operation *function);
MPI_Comm_errhandler_function *combray_fortran_comm_handler(fortran_handler *function);
MPI_Win_errhandler_function *combray_fortran_win_handler(fortran_handler *function);
MPI_File_errhandler_function *combray_fortran_file_handler(fortran_handler *function);
MPI_Session_errhandler_function *combray_fortran_session_handler(fortran_handler *function);

/* The functions of a keyval, and the variable that they receive as EXTRA_STATE. The variable is a
 * copy of the program's and belongs to the keyval, so that a value stored there by one callback is
 * visible to the next. */
struct keyval {
    struct keyval *next;
    fortran_copy *copy;
    fortran_delete *delete;
    /* Programs of MPI-1 have a default integer here. */
    union {
        MPI_Aint address;
        MPI_Fint integer;
    } extra_state;
    bool is_short;
    MPI_Fint keyval;
    /* Whether the keyval was freed, or never created. Attributes may still use the record. */
    bool is_free;
};

struct keyval *combray_fortran_keyval(fortran_copy *copy, fortran_delete *delete,
                                      MPI_Aint extra_state, bool is_short);
/* Sets the keyval of a record; MPI_KEYVAL_INVALID if the record belongs to no keyval any more. */
void combray_fortran_name_keyval(struct keyval *known, MPI_Fint keyval);
/* The record of a keyval; null if the keyval was not created in Fortran. */
struct keyval *combray_fortran_find_keyval(MPI_Fint keyval);
MPI_Comm_copy_attr_function combray_fortran_comm_copy;
MPI_Type_copy_attr_function combray_fortran_type_copy;
MPI_Win_copy_attr_function combray_fortran_win_copy;
MPI_Comm_delete_attr_function combray_fortran_comm_delete;
MPI_Type_delete_attr_function combray_fortran_type_delete;
MPI_Win_delete_attr_function combray_fortran_win_delete;

/* The box of a value that a Fortran program attaches. C programs see its address (section 19.3.7). */
void *combray_fortran_box(MPI_Aint value);
void combray_fortran_unbox(void *box);
/* The value of an attribute as a Fortran program sees it. */
MPI_Aint combray_fortran_value(void *attribute);

/* The functions of a generalized request. */
struct generalized {
    fortran_query *query;
    fortran_free *free;
    fortran_cancel *cancel;
    MPI_Aint *extra_state;
};
MPI_Grequest_query_function combray_fortran_query;
MPI_Grequest_free_function combray_fortran_free;
MPI_Grequest_cancel_function combray_fortran_cancel;

/* The functions of a data representation. Once registered, a representation exists until the
 * program ends. */
struct representation {
    void *read;
    void *write;
    fortran_extent *extent;
    MPI_Aint extra_state;
};
MPI_Datarep_conversion_function combray_fortran_read;
MPI_Datarep_conversion_function combray_fortran_write;
MPI_Datarep_conversion_function_c combray_fortran_large_read;
MPI_Datarep_conversion_function_c combray_fortran_large_write;
MPI_Datarep_extent_function combray_fortran_extent;

#endif
