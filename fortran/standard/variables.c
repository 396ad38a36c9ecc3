/* The variables whose addresses have a meaning, and the report of the compiler's properties to the
 * library. */
#include <stdio.h>

#include "layer.h"

/* Defined in facts.f90. */
extern const int combray_fortran_sizes[4];
extern const int combray_fortran_kinds[19];

MPI_Fint mpi_fortran_bottom_;
MPI_Fint mpi_fortran_in_place_;
MPI_Fint mpi_fortran_buffer_automatic_;
MPI_Fint mpi_fortran_status_ignore_[8];
MPI_Fint mpi_fortran_statuses_ignore_[8];
MPI_Fint mpi_fortran_f08_status_ignore_[8];
MPI_Fint mpi_fortran_f08_statuses_ignore_[8];
MPI_Fint mpi_fortran_errcodes_ignore_[1];
MPI_Fint mpi_fortran_unweighted_[1];
MPI_Fint mpi_fortran_weights_empty_[1];
char mpi_fortran_argv_null_[1];
char mpi_fortran_argvs_null_[1];

/* For C programs that pass on statuses of Fortran (section 19.3.5). */
MPI_Fint *MPI_F_STATUS_IGNORE = mpi_fortran_status_ignore_;
MPI_Fint *MPI_F_STATUSES_IGNORE = mpi_fortran_statuses_ignore_;
MPI_F08_status *MPI_F08_STATUS_IGNORE = (MPI_F08_status *)mpi_fortran_f08_status_ignore_;
MPI_F08_status *MPI_F08_STATUSES_IGNORE = (MPI_F08_status *)mpi_fortran_f08_statuses_ignore_;

/* Reports the compiler's properties at loading, so that a program can query them before MPI_Init. */
__attribute__((constructor)) static void tell_library(void)
{
    static const char *const sizes[] = {"mpi_logical_size", "mpi_integer_size", "mpi_real_size",
                                        "mpi_double_precision_size"};
    static const char *const kinds[] = {
        "logical1", "logical2", "logical4", "logical8", "logical16", "integer1", "integer2",
        "integer4", "integer8", "integer16", "real2", "real4", "real8", "real16", "complex4",
        "complex8", "complex16", "complex32", "double_complex"};
    MPI_Info facts;
    if (PMPI_Info_create(&facts) != MPI_SUCCESS) return;
    char text[64];
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%d", combray_fortran_sizes[i]);
        PMPI_Info_set(facts, sizes[i], text);
    }
    for (int i = 0; i < 19; i++) {
        snprintf(text, sizeof text, "mpi_%s_supported", kinds[i]);
        PMPI_Info_set(facts, text, combray_fortran_kinds[i] ? "true" : "false");
    }
    PMPI_Abi_set_fortran_info(facts);
    PMPI_Info_free(&facts);
    int yes = combray_fortran_true, no = 0;
    PMPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no);
}
