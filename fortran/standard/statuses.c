/* Conversions of statuses, which the libraries of the other binary interfaces contain. Compiled for
 * MPI_ and for PMPI_. */
#include "layer.h"

/* The integers of a status are equal in all three languages. */
#define STATUS(name, From, To)                  \
    int CALL(Status_##name)(const From *from, To *to) \
    {                                           \
        memcpy(to, from, sizeof(MPI_Status));   \
        return MPI_SUCCESS;                     \
    }
STATUS(c2f, MPI_Status, MPI_Fint)
STATUS(f2c, MPI_Fint, MPI_Status)
STATUS(c2f08, MPI_Status, MPI_F08_status)
STATUS(f082c, MPI_F08_status, MPI_Status)
STATUS(f2f08, MPI_Fint, MPI_F08_status)
STATUS(f082f, MPI_F08_status, MPI_Fint)

