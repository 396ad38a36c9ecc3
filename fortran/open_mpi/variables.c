/* Symbols that only programs for Open MPI import: the variables whose addresses have a meaning, and
 * MPI_Sizeof. All their compilers treat odd values as true. */
#include "layer.h"

const int combray_fortran_true = 1;

MPI_Fint mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_buffer_automatic_;
MPI_Fint mpi_fortran_status_ignore_[6], mpi_fortran_statuses_ignore_[6];
MPI_Fint mpi_fortran_errcodes_ignore_[1], mpi_fortran_unweighted_[1], mpi_fortran_weights_empty_[1];
char mpi_fortran_argv_null_[1], mpi_fortran_argvs_null_[1];

/* MPI_Sizeof, by the type and the dimensions of its argument. */
#define SIZE(name, bytes)                                                                             \
    void mpi_sizeof_##name##_(const void *x, MPI_Fint *size, MPI_Fint *ierror)                        \
    {                                                                                                 \
        (void)x;                                                                                      \
        *size = bytes;                                                                                \
        set_code(ierror, MPI_SUCCESS);                                                                \
    }                                                                                                 \
    extern __typeof__(mpi_sizeof_##name##_) pmpi_sizeof_##name##_                                     \
        __attribute__((alias("mpi_sizeof_" #name "_")));
#define SIZES(name, bytes)                                                                            \
    SIZE(name##_scalar, bytes) SIZE(name##_r1, bytes) SIZE(name##_r2, bytes) SIZE(name##_r3, bytes)   \
    SIZE(name##_r4, bytes) SIZE(name##_r5, bytes) SIZE(name##_r6, bytes) SIZE(name##_r7, bytes)       \
    SIZE(name##_r8, bytes) SIZE(name##_r9, bytes) SIZE(name##_r10, bytes) SIZE(name##_r11, bytes)     \
    SIZE(name##_r12, bytes) SIZE(name##_r13, bytes) SIZE(name##_r14, bytes) SIZE(name##_r15, bytes)
SIZES(character, 1)
SIZES(logical, 4)
SIZES(int8, 1)
SIZES(int16, 2)
SIZES(int32, 4)
SIZES(int64, 8)
SIZES(real32, 4)
SIZES(real64, 8)
SIZES(real128, 16)
SIZES(complex32, 8)
SIZES(complex64, 16)
SIZES(complex128, 32)
