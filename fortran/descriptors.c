/* Entries with descriptors that the generator leaves out. Compiled for MPI_ and for PMPI_. */
#include "descriptors.h"

void F(f_sync_reg_f08ts_)(const fortran_array *buf)
{
    (void)buf;
}

/* The size of an element is in the descriptor of a scalar, too. */
void F(sizeof_f08ts_)(const fortran_array *x, MPI_Fint *size, MPI_Fint *ierror)
{
    *size = (MPI_Fint)array_element(x);
    set_code(ierror, MPI_SUCCESS);
}
