/* An array as module mpi_f08 passes it: in the compiler's C descriptor. */
#ifndef COMBRAY_FORTRAN_ARRAY_H
#define COMBRAY_FORTRAN_ARRAY_H

#include <ISO_Fortran_binding.h>

typedef CFI_cdesc_t fortran_array;
/* The count type of the routine whose counts are default integers. */
typedef MPI_Fint fortran_partition_count;
#define RANK_MAX CFI_MAX_RANK

static inline void *array_address(const fortran_array *array) { return array->base_addr; }
static inline size_t array_element(const fortran_array *array) { return array->elem_len; }
static inline int array_rank(const fortran_array *array) { return array->rank; }
/* Below 0 in the last dimension of an assumed-size array. */
static inline ptrdiff_t array_extent(const fortran_array *array, int i) { return array->dim[i].extent; }
/* The stride in bytes. */
static inline ptrdiff_t array_stride(const fortran_array *array, int i) { return array->dim[i].sm; }

/* Strings beside such arrays have descriptors, too. */
#define TEXT_PARAMETER(name) const CFI_cdesc_t *name
#define TEXT_LENGTH_PARAMETER(name)
#define TEXT_ADDRESS(name) name->base_addr
#define TEXT_LENGTH(name) name->elem_len

/* Whether a datatype is predefined. The handle of another datatype may be reused for a new type. */
static inline bool is_predefined(MPI_Datatype type)
{
    return (uintptr_t)type < PREDEFINED_END;
}

#endif
