/* The standard's binary interface, as the Fortran layer uses it. */
#ifndef COMBRAY_FORTRAN_DIALECT_H
#define COMBRAY_FORTRAN_DIALECT_H

#include "mpi_fortran.h"

/* These are the names of common blocks in mpif.h. Their memory may be in the program, so they are
 * found through the dynamic linker. */
extern MPI_Fint mpi_fortran_bottom_;
extern MPI_Fint mpi_fortran_in_place_;
extern MPI_Fint mpi_fortran_buffer_automatic_;
extern MPI_Fint mpi_fortran_status_ignore_[8];
extern MPI_Fint mpi_fortran_statuses_ignore_[8];
extern MPI_Fint mpi_fortran_f08_status_ignore_[8];
extern MPI_Fint mpi_fortran_f08_statuses_ignore_[8];
extern MPI_Fint mpi_fortran_errcodes_ignore_[1];
extern MPI_Fint mpi_fortran_unweighted_[1];
extern MPI_Fint mpi_fortran_weights_empty_[1];
extern char mpi_fortran_argv_null_[1];
extern char mpi_fortran_argvs_null_[1];

#define IS_BOTTOM(address) ((address) == (void *)&mpi_fortran_bottom_)
#define IS_IN_PLACE(address) ((address) == (void *)&mpi_fortran_in_place_)
#define IS_BUFFER_AUTOMATIC(address) ((address) == (void *)&mpi_fortran_buffer_automatic_)
#define IS_STATUS_IGNORE(address) \
    ((address) == (void *)mpi_fortran_status_ignore_ || (address) == (void *)mpi_fortran_f08_status_ignore_)
#define IS_STATUSES_IGNORE(address) \
    ((address) == (void *)mpi_fortran_statuses_ignore_ || \
     (address) == (void *)mpi_fortran_f08_statuses_ignore_)
#define IS_ERRCODES_IGNORE(address) ((address) == (void *)mpi_fortran_errcodes_ignore_)
#define IS_UNWEIGHTED(address) ((address) == (void *)mpi_fortran_unweighted_)
#define IS_WEIGHTS_EMPTY(address) ((address) == (void *)mpi_fortran_weights_empty_)
#define IS_ARGV_NULL(address) ((address) == (void *)mpi_fortran_argv_null_)
#define IS_ARGVS_NULL(address) ((address) == (void *)mpi_fortran_argvs_null_)

/* Module mpi_f08 passes buffers as descriptors, so entry points with buffers have no second name. */
#define SAME_ADDRESS(name, other)
#define SAME_LARGE(name, other)

/* Integers below this are the values of the predefined handles (section 20.4.3). */
#define PREDEFINED_END 0x1000

/* The Fortran values of MPI_LB and MPI_UB, which the standard does not have. No datatype has these
 * values. */
#define FORTRAN_LB 0x2fe
#define FORTRAN_UB 0x2ff

#define HANDLE(Name, Type)                                                          \
    static inline Type Name##_in(const MPI_Fint *integer)                           \
    {                                                                               \
        uint32_t value = (uint32_t)*integer;                                        \
        return value < PREDEFINED_END ? (Type)(uintptr_t)value                      \
                                      : PMPI_##Name##_fromint(*integer);             \
    }                                                                               \
    static inline MPI_Fint Name##_out(Type handle)                                  \
    {                                                                               \
        uintptr_t value = (uintptr_t)handle;                                        \
        return value < PREDEFINED_END ? (MPI_Fint)value : PMPI_##Name##_toint(handle); \
    }
#define FILE_HANDLE HANDLE(File, MPI_File)

static inline int keyval_in(const MPI_Fint *keyval)
{
    return *keyval;
}

#endif
