/* Module procedures that programs with module mpi_f08 of MPICH call, with gfortran's names: the
 * comparison of handles, among themselves and with integers, and the conversion of statuses. */
#include "modules.h"

#define HANDLES_OF(name)                                     \
    COMPARE(__mpi_f08_types_MOD_mpi_##name##_eq, ==)         \
    COMPARE(__mpi_f08_types_MOD_mpi_##name##_neq, !=)        \
    COMPARE(__mpi_f08_types_MOD_mpi_##name##_f08_eq_f, ==)   \
    COMPARE(__mpi_f08_types_MOD_mpi_##name##_f08_neq_f, !=)  \
    COMPARE(__mpi_f08_types_MOD_mpi_##name##_f_eq_f08, ==)   \
    COMPARE(__mpi_f08_types_MOD_mpi_##name##_f_neq_f08, !=)
FOR_EACH_HANDLE(HANDLES_OF)

/* The integers of a status are equal in both forms. */
#define STATUS(name)                                                                                    \
    void __mpi_f08_types_MOD_mpi_status_##name(const MPI_Status *from, MPI_Status *to, MPI_Fint *ierror) \
    {                                                                                                   \
        *to = *from;                                                                                    \
        set_code(ierror, MPI_SUCCESS);                                                                  \
    }
STATUS(f2f08)
STATUS(f082f)
