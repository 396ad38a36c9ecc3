/*
 * MPI_Init that binds each process as `combray-bench --pin` does, through the profiling interface.
 * bench/compare links it with the programs of examples/, so that all libraries run them on the
 * same cores.
 */
#include "bench.h"

int MPI_Init(int *argc, char ***argv)
{
    MPI_Comm machine;
    int local_rank;
    int code = PMPI_Init(argc, argv);
    if (code != MPI_SUCCESS)
        return code;
    PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    PMPI_Comm_rank(machine, &local_rank);
    PMPI_Comm_free(&machine);
    pin_to_core(local_rank);
    return code;
}
