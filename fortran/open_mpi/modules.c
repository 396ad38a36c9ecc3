/* What programs with module mpi_f08 of Open MPI call in modules, as gfortran names it: the comparison of
 * handles. */
#include "layer.h"

#define COMPARE(name, operation)                                                             \
    MPI_Fint __mpi_f08_types_MOD_ompi_##name(const MPI_Fint *one, const MPI_Fint *other)     \
    {                                                                                        \
        return truth(*one operation *other);                                                 \
    }
#define OBJECT(name) COMPARE(name##_op_eq, ==) COMPARE(name##_op_ne, !=)
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
