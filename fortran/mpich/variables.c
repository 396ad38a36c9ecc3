/* Symbols that only programs for MPICH import: the variables whose addresses have a meaning, and
 * MPI_Sizeof. All their compilers treat odd values as true. */
#include "layer.h"

const int combray_fortran_true = 1;

MPI_Fint mpipriv1_[2 + 5], mpipriv2_[5 + 1], mpifcmb5_, mpifcmb9_, mpifcmba_;
char mpiprivc_[2];
MPI_Fint MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE, MPIR_F08_MPI_BUFFER_AUTOMATIC;
MPI_Status MPIR_F08_MPI_STATUS_IGNORE_OBJ, MPIR_F08_MPI_STATUSES_IGNORE_OBJ[1];
MPI_Fint __mpi_f08_link_constants_MOD_mpi_errcodes_ignore[1];
MPI_Fint __mpi_f08_link_constants_MOD_mpi_unweighted, __mpi_f08_link_constants_MOD_mpi_weights_empty;
char __mpi_f08_link_constants_MOD_mpi_argv_null[1], __mpi_f08_link_constants_MOD_mpi_argvs_null[1];

/* MPI_Sizeof of module mpi, with gfortran's names for module procedures. */
#define SIZE(name, bytes)                                                                             \
    void __mpi_sizeofs_MOD_mpi_sizeof_##name(const void *x, MPI_Fint *size, MPI_Fint *ierror)         \
    {                                                                                                 \
        (void)x;                                                                                      \
        *size = bytes;                                                                                \
        set_code(ierror, MPI_SUCCESS);                                                                \
    }
#define SIZES(name, bytes) SIZE(name, bytes) SIZE(name##v, bytes)
SIZES(ch, 1)
SIZES(cx, 8)
SIZES(d, 8)
SIZES(i, 4)
SIZES(i1, 1)
SIZES(i2, 2)
SIZES(i8, 8)
SIZES(l, 4)
SIZES(r, 4)
