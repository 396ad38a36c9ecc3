/* What programs with module mpi_f08 of MPICH call in modules, as gfortran names it: the comparison of
 * handles, among themselves and with integers, and the conversion of statuses. */
#include "layer.h"

#define COMPARE(name, operation)                                                             \
    MPI_Fint __mpi_f08_types_MOD_mpi_##name(const MPI_Fint *one, const MPI_Fint *other)      \
    {                                                                                        \
        return truth(*one operation *other);                                                 \
    }
#define OBJECT(name)                    \
    COMPARE(name##_eq, ==)              \
    COMPARE(name##_neq, !=)             \
    COMPARE(name##_f08_eq_f, ==)        \
    COMPARE(name##_f08_neq_f, !=)       \
    COMPARE(name##_f_eq_f08, ==)        \
    COMPARE(name##_f_neq_f08, !=)
OBJECT(comm)
OBJECT(datatype)
OBJECT(errhandler)
OBJECT(file)
OBJECT(group)
OBJECT(info)
OBJECT(message)
OBJECT(op)
OBJECT(request)
OBJECT(session)
OBJECT(win)

/* The same integers in both. */
#define STATUS(name)                                                                                    \
    void __mpi_f08_types_MOD_mpi_status_##name(const MPI_Status *from, MPI_Status *to, MPI_Fint *ierror) \
    {                                                                                                   \
        *to = *from;                                                                                    \
        set_code(ierror, MPI_SUCCESS);                                                                  \
    }
STATUS(f2f08)
STATUS(f082f)
