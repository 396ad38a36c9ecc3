/* The binary interface of MPICH and its derivatives, as the Fortran layer uses it. Source of the
 * facts: mpif.h of MPICH 4.0.2 and Intel MPI 2021.18. */
#ifndef COMBRAY_FORTRAN_DIALECT_H
#define COMBRAY_FORTRAN_DIALECT_H

typedef int MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Request,
    MPI_Session, MPI_Win;
typedef struct ADIOI_FileD *MPI_File;

typedef struct MPI_Status {
    int count_lo;
    int count_hi_and_cancelled;
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
} MPI_Status;

#include "constants.h"
#include "../generated/functions.h"

/* The common blocks of mpif.h. The first contains MPI_BOTTOM, MPI_IN_PLACE and MPI_STATUS_IGNORE,
 * the second MPI_STATUSES_IGNORE and MPI_ERRCODES_IGNORE, and the one of characters MPI_ARGVS_NULL
 * and MPI_ARGV_NULL. */
extern MPI_Fint mpipriv1_[2 + 5], mpipriv2_[5 + 1], mpifcmb5_, mpifcmb9_, mpifcmba_;
extern char mpiprivc_[2];
/* The variables of module mpi_f08, with gfortran's names for module variables. */
extern MPI_Fint MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE, MPIR_F08_MPI_BUFFER_AUTOMATIC;
extern MPI_Status MPIR_F08_MPI_STATUS_IGNORE_OBJ, MPIR_F08_MPI_STATUSES_IGNORE_OBJ[1];
extern MPI_Fint __mpi_f08_link_constants_MOD_mpi_errcodes_ignore[1];
extern MPI_Fint __mpi_f08_link_constants_MOD_mpi_unweighted, __mpi_f08_link_constants_MOD_mpi_weights_empty;
extern char __mpi_f08_link_constants_MOD_mpi_argv_null[1], __mpi_f08_link_constants_MOD_mpi_argvs_null[1];

#define IS_BOTTOM(address) ((address) == (void *)&mpipriv1_[0] || (address) == (void *)&MPIR_F08_MPI_BOTTOM)
#define IS_IN_PLACE(address) \
    ((address) == (void *)&mpipriv1_[1] || (address) == (void *)&MPIR_F08_MPI_IN_PLACE)
#define IS_BUFFER_AUTOMATIC(address) \
    ((address) == (void *)&mpifcmba_ || (address) == (void *)&MPIR_F08_MPI_BUFFER_AUTOMATIC)
#define IS_STATUS_IGNORE(address) \
    ((address) == (void *)&mpipriv1_[2] || (address) == (void *)&MPIR_F08_MPI_STATUS_IGNORE_OBJ)
#define IS_STATUSES_IGNORE(address) \
    ((address) == (void *)&mpipriv2_[0] || (address) == (void *)MPIR_F08_MPI_STATUSES_IGNORE_OBJ)
#define IS_ERRCODES_IGNORE(address) \
    ((address) == (void *)&mpipriv2_[5] || \
     (address) == (void *)__mpi_f08_link_constants_MOD_mpi_errcodes_ignore)
#define IS_UNWEIGHTED(address) \
    ((address) == (void *)&mpifcmb5_ || (address) == (void *)&__mpi_f08_link_constants_MOD_mpi_unweighted)
#define IS_WEIGHTS_EMPTY(address) \
    ((address) == (void *)&mpifcmb9_ || (address) == (void *)&__mpi_f08_link_constants_MOD_mpi_weights_empty)
#define IS_ARGV_NULL(address) \
    ((address) == (void *)&mpiprivc_[1] || (address) == (void *)__mpi_f08_link_constants_MOD_mpi_argv_null)
#define IS_ARGVS_NULL(address) \
    ((address) == (void *)&mpiprivc_[0] || (address) == (void *)__mpi_f08_link_constants_MOD_mpi_argvs_null)

#define SAME_ADDRESS(name, other)
#define SAME_LARGE(name, other) SAME(name, other)

/* MPI_LB and MPI_UB in Fortran. */
#define FORTRAN_LB 0x4c000010
#define FORTRAN_UB 0x4c000011

/* A handle in C is the Fortran integer itself. */
#define HANDLE(Name, Type)                                                        \
    static inline Type Name##_in(const MPI_Fint *integer) { return *integer; }    \
    static inline MPI_Fint Name##_out(Type handle) { return handle; }
/* A file handle is an address in C. */
#define FILE_HANDLE                                                                                        \
    static inline MPI_File File_in(const MPI_Fint *integer) { return PMPI_File_f2c(*integer); }            \
    static inline MPI_Fint File_out(MPI_File handle) { return PMPI_File_c2f(handle); }

/* The Fortran number of a predefined keyval is one higher than the C number. */
static inline int keyval_in(const MPI_Fint *keyval)
{
    int kind = *keyval & ~0xff;
    return kind == (MPI_TAG_UB & ~0xff) || kind == (MPI_WIN_BASE & ~0xff) ? (*keyval - 1) | 1 : *keyval;
}

#endif
