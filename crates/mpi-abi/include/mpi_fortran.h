/* mpi_fortran.h: what C programs need in addition to mpi.h if they call Fortran, or are called by
 * it (sections 19.3.4 and 19.3.5 of the standard): MPI_Fint, handles as integers, and statuses.
 * mpi.h includes it, unless COMBRAY_NO_FINT is defined. */
#ifndef COMBRAY_MPI_FORTRAN_H_INCLUDED
#define COMBRAY_MPI_FORTRAN_H_INCLUDED

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int MPI_Fint;

/* A status of module mpi_f08 has the layout of a status in C. */
typedef MPI_Status MPI_F08_status;

#define MPI_Comm_c2f(comm)             MPI_Comm_toint(comm)
#define MPI_Comm_f2c(comm)             MPI_Comm_fromint(comm)
#define MPI_Errhandler_c2f(errhandler) MPI_Errhandler_toint(errhandler)
#define MPI_Errhandler_f2c(errhandler) MPI_Errhandler_fromint(errhandler)
#define MPI_File_c2f(file)             MPI_File_toint(file)
#define MPI_File_f2c(file)             MPI_File_fromint(file)
#define MPI_Group_c2f(group)           MPI_Group_toint(group)
#define MPI_Group_f2c(group)           MPI_Group_fromint(group)
#define MPI_Info_c2f(info)             MPI_Info_toint(info)
#define MPI_Info_f2c(info)             MPI_Info_fromint(info)
#define MPI_Message_c2f(message)       MPI_Message_toint(message)
#define MPI_Message_f2c(message)       MPI_Message_fromint(message)
#define MPI_Op_c2f(op)                 MPI_Op_toint(op)
#define MPI_Op_f2c(op)                 MPI_Op_fromint(op)
#define MPI_Request_c2f(request)       MPI_Request_toint(request)
#define MPI_Request_f2c(request)       MPI_Request_fromint(request)
#define MPI_Session_c2f(session)       MPI_Session_toint(session)
#define MPI_Session_f2c(session)       MPI_Session_fromint(session)
#define MPI_Type_c2f(datatype)         MPI_Type_toint(datatype)
#define MPI_Type_f2c(datatype)         MPI_Type_fromint(datatype)
#define MPI_Win_c2f(win)               MPI_Win_toint(win)
#define MPI_Win_f2c(win)               MPI_Win_fromint(win)

/* The constants of Fortran, in the library of the Fortran interfaces. */
extern MPI_Fint *MPI_F_STATUS_IGNORE;
extern MPI_Fint *MPI_F_STATUSES_IGNORE;
extern MPI_F08_status *MPI_F08_STATUS_IGNORE;
extern MPI_F08_status *MPI_F08_STATUSES_IGNORE;

int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status);
int MPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status);
int MPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status);
int MPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status);
int MPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status);
int MPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status);
int PMPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status);
int PMPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status);
int PMPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status);
int PMPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status);
int PMPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status);
int PMPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status);

#ifdef __cplusplus
}
#endif

#endif
