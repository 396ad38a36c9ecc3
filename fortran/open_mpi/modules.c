/* Module procedures that programs with module mpi_f08 of Open MPI call, with gfortran's names: the
 * comparison of handles. */
#include "modules.h"

#define HANDLES_OF(name)                                     \
    COMPARE(__mpi_f08_types_MOD_ompi_##name##_op_eq, ==)     \
    COMPARE(__mpi_f08_types_MOD_ompi_##name##_op_ne, !=)
FOR_EACH_HANDLE(HANDLES_OF)
