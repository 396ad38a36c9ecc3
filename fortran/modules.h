/* Procedures that module mpi_f08 of other libraries defines for each kind of handle: the
 * comparisons. */
#ifndef COMBRAY_FORTRAN_MODULES_H
#define COMBRAY_FORTRAN_MODULES_H

#include "layer.h"

#define COMPARE(function, operation)                                        \
    MPI_Fint function(const MPI_Fint *one, const MPI_Fint *other)           \
    {                                                                       \
        return truth(*one operation *other);                                \
    }

#define FOR_EACH_HANDLE(X) \
    X(comm) X(datatype) X(errhandler) X(file) X(group) X(info) X(message) X(op) X(request) X(session) X(win)

#endif
