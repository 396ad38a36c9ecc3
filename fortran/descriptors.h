/* Array sections, which module mpi_f08 passes as descriptors. */
#ifndef COMBRAY_FORTRAN_DESCRIPTORS_H
#define COMBRAY_FORTRAN_DESCRIPTORS_H

#include "layer.h"

#include "array.h"

/* The memory of an array section, as address, count and datatype for a call. */
struct view {
    void *address;
    MPI_Count count;
    MPI_Datatype type;
    /* The datatype that was created for this call; the null handle if there is none. */
    MPI_Datatype made;
    /* The number of calls that use the datatype, if it is a kept datatype. */
    int *kept;
    char *copy;
    const fortran_array *section;
    bool back;
};

enum view_kind {
    /* One block of count elements. */
    SINGLE,
    /* Blocks at multiples of the datatype's extent. */
    BLOCKS,
    /* Memory whose datatype must not be replaced: a section with gaps is copied for the call. */
    WHOLE,
    /* Memory that stays in use after the call: a section with gaps is refused. */
    REGION,
};

/* How the call uses the buffer, as bits. */
enum { READ = 1, WRITTEN = 2, KEPT = 4 };

/* Finds the memory of an array section. The name of the call and the index of the argument are for
 * messages. If it fails, the caller must still call the error handler. */
int combray_fortran_view(struct view *view, const char *call, int position, const char *name,
                         const fortran_array *section, MPI_Count count, MPI_Datatype type,
                         enum view_kind kind, int use);
void combray_fortran_view_end(struct view *view);

/* Finds a kept datatype for the section of the view. */
bool combray_fortran_find_type(struct view *view, MPI_Count count, MPI_Datatype type,
                               enum view_kind kind);
/* Keeps the datatype that was created for the view, if it can be reused. */
void combray_fortran_keep_type(struct view *view, MPI_Count count, MPI_Datatype type,
                               enum view_kind kind);

/* Whether the elements are contiguous, so that the address suffices for MPI. */
static inline bool is_plain(const fortran_array *buffer)
{
    ptrdiff_t expected = (ptrdiff_t)array_element(buffer);
    for (int i = 0; i < array_rank(buffer); i++) {
        ptrdiff_t extent = array_extent(buffer, i);
        /* The last dimension of an assumed-size array has no extent. */
        if (extent == 0 || (extent < 0 && array_stride(buffer, i) == expected)) return true;
        if (extent != 1 && array_stride(buffer, i) != expected) return false;
        expected *= extent;
    }
    return true;
}

#endif
