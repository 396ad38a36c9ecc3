/* Array sections that are not contiguous. A section that module mpi_f08 passes as a descriptor is
 * converted to a datatype, so that the data is sent from where it lies. A section that no datatype
 * can describe is copied if the call is complete when it returns, and refused otherwise. */
#include <stdio.h>

#include "descriptors.h"

/* A section with as few dimensions as possible. */
struct shape {
    char *base;
    size_t element;
    int rank;
    MPI_Count extent[RANK_MAX];
    MPI_Count stride[RANK_MAX];
    MPI_Count elements;
};

static struct shape shape_of(const fortran_array *section)
{
    struct shape shape = {.base = array_address(section), .element = array_element(section), .elements = 1};
    for (int i = 0; i < array_rank(section); i++) {
        MPI_Count extent = array_extent(section, i), stride = array_stride(section, i);
        shape.elements *= extent;
        if (extent == 1) continue;
        int last = shape.rank - 1;
        if (last >= 0 && stride == shape.stride[last] * shape.extent[last]) {
            shape.extent[last] *= extent;
            continue;
        }
        shape.extent[shape.rank] = extent;
        shape.stride[shape.rank] = stride;
        shape.rank++;
    }
    return shape;
}

/* Copies all elements from the section into contiguous memory, or back. Returns the end of the
 * contiguous memory that was used. */
static char *copy_elements(const struct shape *shape, int dimension, char *place, char *contiguous,
                           bool back)
{
    if (dimension < 0) {
        memcpy(back ? place : contiguous, back ? contiguous : place, shape->element);
        return contiguous + shape->element;
    }
    for (MPI_Count i = 0; i < shape->extent[dimension]; i++)
        contiguous = copy_elements(shape, dimension - 1, place + i * shape->stride[dimension],
                                   contiguous, back);
    return contiguous;
}

/* Replaces a datatype by a new one. */
static void replace(MPI_Datatype *type, MPI_Datatype made)
{
    PMPI_Type_free(type);
    *type = made;
}

/* A datatype of the first `count` elements of the lowest `rank` dimensions, in Fortran order. */
static MPI_Datatype first_elements(const struct shape *shape, int rank, MPI_Count count,
                                   MPI_Datatype element)
{
    MPI_Datatype type, whole;
    if (rank == 0) {
        PMPI_Type_dup(element, &type);
        return type;
    }
    MPI_Count slab = 1;
    PMPI_Type_dup(element, &whole);
    for (int i = 0; i < rank - 1; i++) {
        slab *= shape->extent[i];
        PMPI_Type_create_hvector_c(shape->extent[i], 1, shape->stride[i], whole, &type);
        replace(&whole, type);
    }
    MPI_Count slabs = count / slab, stride = shape->stride[rank - 1];
    PMPI_Type_create_hvector_c(slabs, 1, stride, whole, &type);
    replace(&whole, type);
    if (count == slabs * slab) return whole;
    MPI_Datatype rest = first_elements(shape, rank - 1, count % slab, element);
    PMPI_Type_create_struct_c(2, (MPI_Count[]){1, 1}, (MPI_Count[]){0, slabs * stride},
                              (MPI_Datatype[]){whole, rest}, &type);
    PMPI_Type_free(&rest);
    replace(&whole, type);
    return whole;
}

/* The offset of an element from the base. */
static MPI_Count offset_of(const struct shape *shape, MPI_Count index)
{
    MPI_Count offset = 0;
    for (int i = 0; i < shape->rank; i++) {
        offset += index % shape->extent[i] * shape->stride[i];
        index /= shape->extent[i];
    }
    return offset;
}

/* The size of a datatype without gaps; 0 for other datatypes. */
static MPI_Count dense_size(MPI_Datatype type)
{
    MPI_Count size, bound, extent, true_bound, true_extent;
    if (PMPI_Type_size_c(type, &size) != MPI_SUCCESS ||
        PMPI_Type_get_extent_c(type, &bound, &extent) != MPI_SUCCESS ||
        PMPI_Type_get_true_extent_c(type, &true_bound, &true_extent) != MPI_SUCCESS)
        return 0;
    bool dense = bound == 0 && true_bound == 0 && extent == size && true_extent == size;
    return dense ? size : 0;
}

/* Creates a datatype for one element of the array, if elements of `type` fill it or consist of
 * several. */
static bool element_type(MPI_Datatype type, MPI_Count size, MPI_Count element, MPI_Datatype *made)
{
    if (size == 0 || (element % size != 0 && size % element != 0)) return false;
    if (element == size)
        PMPI_Type_dup(type, made);
    else if (element % size == 0)
        PMPI_Type_contiguous_c(element / size, type, made);
    else
        PMPI_Type_contiguous_c(element, MPI_BYTE, made);
    return true;
}

/* One block of `count` elements of `type`. */
static bool single(struct view *view, const struct shape *shape, MPI_Count count, MPI_Datatype type)
{
    MPI_Count size = dense_size(type), element = (MPI_Count)shape->element;
    MPI_Datatype unit, made;
    if (!element_type(type, size, element, &unit)) return false;
    MPI_Count bytes = count * size, elements = bytes / element, left = bytes % element / size;
    made = first_elements(shape, shape->rank, elements, unit);
    PMPI_Type_free(&unit);
    if (left > 0) {
        MPI_Datatype with_rest;
        PMPI_Type_create_struct_c(2, (MPI_Count[]){1, left},
                                  (MPI_Count[]){0, offset_of(shape, elements)},
                                  (MPI_Datatype[]){made, type}, &with_rest);
        replace(&made, with_rest);
    }
    PMPI_Type_commit(&made);
    view->made = view->type = made;
    view->count = 1;
    return true;
}

/* Elements at one stride: the datatype's extent becomes that stride, and counts do not change. */
static bool blocks(struct view *view, const struct shape *shape, MPI_Datatype type)
{
    MPI_Count size = dense_size(type), element = (MPI_Count)shape->element;
    if (shape->rank != 1 || size == 0 || size % element != 0) return false;
    MPI_Datatype unit, made;
    element_type(type, size, element, &unit);
    if (size > element) {
        PMPI_Type_create_hvector_c(size / element, 1, shape->stride[0], unit, &made);
        replace(&unit, made);
    }
    PMPI_Type_create_resized_c(unit, 0, size / element * shape->stride[0], &made);
    PMPI_Type_free(&unit);
    PMPI_Type_commit(&made);
    view->made = view->type = made;
    return true;
}

static bool whole(struct view *view, const struct shape *shape, int use)
{
    if (use & KEPT) return false;
    view->copy = malloc((size_t)shape->elements * shape->element);
    if (!view->copy) return false;
    copy_elements(shape, shape->rank - 1, shape->base, view->copy, false);
    view->address = view->copy;
    view->back = use & WRITTEN;
    return true;
}

int combray_fortran_view(struct view *view, const char *call, int position, const char *name,
                         const fortran_array *section, MPI_Count count, MPI_Datatype type,
                         enum view_kind kind, int use)
{
    *view = (struct view){.address = buffer_address(array_address(section)), .count = count, .type = type,
                          .made = MPI_DATATYPE_NULL, .section = section};
    /* The call itself reports these errors. */
    bool refused = kind <= BLOCKS && type == MPI_DATATYPE_NULL;
    if (is_plain(section) || refused || (kind == SINGLE && count <= 0)) return MPI_SUCCESS;
    if (kind <= BLOCKS && combray_fortran_find_type(view, count, type, kind)) return MPI_SUCCESS;
    struct shape shape = shape_of(section);
    char text[MPI_MAX_ERROR_STRING];
    if (kind == SINGLE) {
        MPI_Count size = 0, there = shape.elements * (MPI_Count)shape.element;
        if (PMPI_Type_size_c(type, &size) == MPI_SUCCESS && size > 0 && count > there / size) {
            snprintf(text, sizeof text,
                     "%s: argument %d (%s) is an array section of %lld bytes, but %lld elements of "
                     "%lld bytes are to be found there", call, position, name, (long long)there,
                     (long long)count, (long long)size);
            return combray_fortran_code(MPI_ERR_COUNT, text);
        }
    }
    if ((kind == SINGLE && single(view, &shape, count, type)) ||
        (kind == BLOCKS && blocks(view, &shape, type))) {
        combray_fortran_keep_type(view, count, type, kind);
        return MPI_SUCCESS;
    }
    if (kind != REGION && whole(view, &shape, use)) return MPI_SUCCESS;
    snprintf(text, sizeof text,
             "%s: argument %d (%s) is an array section with gaps, which this call cannot use "
             "after it returned%s; give it a contiguous array", call, position, name,
             kind == REGION ? "" : ", with this operation or datatype");
    return combray_fortran_code(MPI_ERR_BUFFER, text);
}

void combray_fortran_view_end(struct view *view)
{
    if (view->kept) __atomic_fetch_sub(view->kept, 1, __ATOMIC_RELEASE);
    if (view->made != MPI_DATATYPE_NULL) PMPI_Type_free(&view->made);
    if (view->copy) {
        struct shape shape = shape_of(view->section);
        if (view->back) copy_elements(&shape, shape.rank - 1, shape.base, view->copy, true);
        free(view->copy);
    }
}
