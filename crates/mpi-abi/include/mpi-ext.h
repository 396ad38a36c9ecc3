/* What programs that were written for Open MPI or MPICH find out about graphics processors: at
 * compile time by these macros, at run time by MPIX_Query_cuda_support and MPIX_GPU_query_support,
 * which mpi.h declares. */
#ifndef COMBRAY_MPI_EXT_H
#define COMBRAY_MPI_EXT_H

#define OMPI_HAVE_MPI_EXT_CUDA 1
#define MPIX_CUDA_AWARE_SUPPORT 1
#define OMPI_HAVE_MPI_EXT_ROCM 1
#define MPIX_ROCM_AWARE_SUPPORT 1

#define MPIX_GPU_SUPPORT_CUDA 0
#define MPIX_GPU_SUPPORT_ZE 1
#define MPIX_GPU_SUPPORT_HIP 2

#endif
