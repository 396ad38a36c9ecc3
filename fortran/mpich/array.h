/* An array as module mpi_f08 of MPICH passes it when compiled by gfortran 8 or newer: in that
 * compiler's own descriptor. */
#ifndef COMBRAY_FORTRAN_ARRAY_H
#define COMBRAY_FORTRAN_ARRAY_H

typedef struct {
    void *address;
    size_t offset;
    size_t element;
    int version;
    signed char rank;
    signed char type;
    signed short attribute;
    /* The bytes between elements whose indices differ by one, if strides count these units. */
    ptrdiff_t span;
    struct {
        ptrdiff_t stride;
        ptrdiff_t lower;
        ptrdiff_t upper;
    } dimensions[];
} fortran_array;
/* Partition counts are always large counts here. */
typedef MPI_Count fortran_partition_count;
#define RANK_MAX 15

static inline void *array_address(const fortran_array *array) { return array->address; }
static inline size_t array_element(const fortran_array *array) { return array->element; }
static inline int array_rank(const fortran_array *array) { return array->rank; }
/* Below 0 in the last dimension of an assumed-size array. */
static inline ptrdiff_t array_extent(const fortran_array *array, int i)
{
    return array->dimensions[i].upper - array->dimensions[i].lower + 1;
}
/* The stride in bytes. */
static inline ptrdiff_t array_stride(const fortran_array *array, int i)
{
    return array->dimensions[i].stride * (array->span ? array->span : (ptrdiff_t)array->element);
}

/* Strings are passed in the usual way: an address, and the length at the end of the parameters. */
#define TEXT_PARAMETER(name) const char *name
#define TEXT_LENGTH_PARAMETER(name) , size_t name##_length
#define TEXT_ADDRESS(name) name
#define TEXT_LENGTH(name) name##_length

/* Whether a datatype is predefined: datatypes of the program have the two highest bits set. */
static inline bool is_predefined(MPI_Datatype type)
{
    return (uint32_t)type >> 30 != 3;
}

#endif
