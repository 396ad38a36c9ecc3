/* What a program in C sees of the handles, attributes and statuses of a Fortran program. */
#include <mpi_fortran.h>

static MPI_Aint mine = 123;

int value_in_c(MPI_Fint comm, int keyval)
{
    MPI_Aint *value;
    int flag;
    MPI_Comm_get_attr(MPI_Comm_f2c(comm), keyval, &value, &flag);
    return flag ? (int)*value : -1;
}

void set_in_c(MPI_Fint comm, int keyval)
{
    MPI_Comm_set_attr(MPI_Comm_f2c(comm), keyval, (void *)mine);
}

int statuses_in_c(const MPI_F08_status *status)
{
    MPI_Status in_c, again;
    MPI_Fint in_fortran[8];
    int count = -1;
    MPI_Status_f082c(status, &in_c);
    MPI_Status_c2f(&in_c, in_fortran);
    MPI_Status_f2c(in_fortran, &again);
    MPI_Get_count(&again, MPI_Type_f2c(MPI_Type_c2f(MPI_INT)), &count);
    return again.MPI_TAG == 4 && in_fortran[1] == 4 && MPI_F_STATUS_IGNORE ? count : -1;
}
