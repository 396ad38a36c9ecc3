/* Entry points with descriptors that the generator omits. Compiled for MPI_ and for PMPI_. */
#include "descriptors.h"

void F(f_sync_reg_f08ts_)(const fortran_array *buf)
{
    (void)buf;
}

/* The descriptor of a scalar also contains the element size. */
void F(sizeof_f08ts_)(const fortran_array *x, MPI_Fint *size, MPI_Fint *ierror)
{
    *size = (MPI_Fint)array_element(x);
    set_code(ierror, MPI_SUCCESS);
}
