/* The binary interface of Open MPI, as the Fortran layer uses it. Source of the facts: the headers
 * of Open MPI 4.1.4 and 5.0.11. */
#ifndef COMBRAY_FORTRAN_DIALECT_H
#define COMBRAY_FORTRAN_DIALECT_H

typedef struct ompi_communicator_t *MPI_Comm;
typedef struct ompi_datatype_t *MPI_Datatype;
typedef struct ompi_errhandler_t *MPI_Errhandler;
typedef struct ompi_file_t *MPI_File;
typedef struct ompi_group_t *MPI_Group;
typedef struct ompi_info_t *MPI_Info;
typedef struct ompi_message_t *MPI_Message;
typedef struct ompi_op_t *MPI_Op;
typedef struct ompi_request_t *MPI_Request;
typedef struct ompi_instance_t *MPI_Session;
typedef struct ompi_win_t *MPI_Win;

typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int cancelled;
    size_t count;
} MPI_Status;

#include "constants.h"
#include "../generated/functions.h"

/* The common blocks of mpif.h. */
extern MPI_Fint mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_buffer_automatic_;
extern MPI_Fint mpi_fortran_status_ignore_[6], mpi_fortran_statuses_ignore_[6];
extern MPI_Fint mpi_fortran_errcodes_ignore_[1], mpi_fortran_unweighted_[1], mpi_fortran_weights_empty_[1];
extern char mpi_fortran_argv_null_[1], mpi_fortran_argvs_null_[1];

#define IS_BOTTOM(address) ((address) == (void *)&mpi_fortran_bottom_)
#define IS_IN_PLACE(address) ((address) == (void *)&mpi_fortran_in_place_)
#define IS_BUFFER_AUTOMATIC(address) ((address) == (void *)&mpi_fortran_buffer_automatic_)
#define IS_STATUS_IGNORE(address) ((address) == (void *)mpi_fortran_status_ignore_)
#define IS_STATUSES_IGNORE(address) ((address) == (void *)mpi_fortran_statuses_ignore_)
#define IS_ERRCODES_IGNORE(address) ((address) == (void *)mpi_fortran_errcodes_ignore_)
#define IS_UNWEIGHTED(address) ((address) == (void *)mpi_fortran_unweighted_)
#define IS_WEIGHTS_EMPTY(address) ((address) == (void *)mpi_fortran_weights_empty_)
#define IS_ARGV_NULL(address) ((address) == (void *)mpi_fortran_argv_null_)
#define IS_ARGVS_NULL(address) ((address) == (void *)mpi_fortran_argvs_null_)

/* Module mpi_f08 passes the addresses of buffers, as the older interfaces do. */
#define SAME_ADDRESS(name, other) SAME(name, other)
#define SAME_LARGE(name, other)

/* MPI_LB and MPI_UB in Fortran. */
#define FORTRAN_LB 4
#define FORTRAN_UB 3

#define HANDLE(Name, Type)                                                                            \
    static inline Type Name##_in(const MPI_Fint *integer) { return PMPI_##Name##_f2c(*integer); }     \
    static inline MPI_Fint Name##_out(Type handle) { return PMPI_##Name##_c2f(handle); }
#define FILE_HANDLE HANDLE(File, MPI_File)

static inline int keyval_in(const MPI_Fint *keyval)
{
    return *keyval;
}

#endif
