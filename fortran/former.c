/* Routines that the standard has removed, and MPI_Sizeof: old programs of other libraries call them. The
 * addresses of the removed ones are default integers. Compiled for MPI_ and for PMPI_. */
#include "layer.h"

static int raise(int class, const char *text)
{
    int code = combray_fortran_code(class, text);
    PMPI_Comm_call_errhandler(MPI_COMM_SELF, code);
    return code;
}

/* An address or an extent as a default integer. */
static int shorten(MPI_Aint value, MPI_Fint *result)
{
    *result = (MPI_Fint)value;
    if (*result == value) return MPI_SUCCESS;
    return raise(MPI_ERR_ARG, "an address or an extent does not fit into a default integer; the program "
                              "needs MPI_Get_address or MPI_Type_get_extent in the place of this routine");
}

void F(address_)(const void *location, MPI_Fint *address, MPI_Fint *ierror)
{
    set_code(ierror, shorten((MPI_Aint)buffer_address(location), address));
}

static int bounds(const MPI_Fint *datatype, MPI_Aint *lower, MPI_Aint *extent)
{
    return CALL(Type_get_extent)(Type_in(datatype), lower, extent);
}

#define BOUND(name, value)                                                                   \
    void F(type_##name##_)(const MPI_Fint *datatype, MPI_Fint *result, MPI_Fint *ierror)     \
    {                                                                                        \
        MPI_Aint lower, extent;                                                              \
        int code = bounds(datatype, &lower, &extent);                                        \
        set_code(ierror, code == MPI_SUCCESS ? shorten(value, result) : code);               \
    }
BOUND(extent, extent)
BOUND(lb, lower)
BOUND(ub, lower + extent)

void F(type_hvector_)(const MPI_Fint *count, const MPI_Fint *blocklength, const MPI_Fint *stride,
                      const MPI_Fint *oldtype, MPI_Fint *newtype, MPI_Fint *ierror)
{
    MPI_Datatype made = 0;
    int code = CALL(Type_create_hvector)(*count, *blocklength, *stride, Type_in(oldtype), &made);
    if (code == MPI_SUCCESS) *newtype = Type_out(made);
    set_code(ierror, code);
}

static MPI_Aint *widen(MPI_Aint *room, const MPI_Fint *values, MPI_Fint count)
{
    for (MPI_Fint i = 0; i < count; i++) room[i] = values[i];
    return room;
}

void F(type_hindexed_)(const MPI_Fint *count, const MPI_Fint blocklengths[], const MPI_Fint displacements[],
                       const MPI_Fint *oldtype, MPI_Fint *newtype, MPI_Fint *ierror)
{
    MPI_Datatype made = 0;
    MPI_Aint *wide = ROOM(MPI_Aint, *count);
    int code = CALL(Type_create_hindexed)(*count, blocklengths, widen(wide, displacements, *count),
                                          Type_in(oldtype), &made);
    if (code == MPI_SUCCESS) *newtype = Type_out(made);
    RELEASE(wide, MPI_Aint, *count);
    set_code(ierror, code);
}

void F(type_struct_)(const MPI_Fint *count, const MPI_Fint blocklengths[], const MPI_Fint displacements[],
                     const MPI_Fint types[], MPI_Fint *newtype, MPI_Fint *ierror)
{
    MPI_Datatype made = 0, *c_types = ROOM(MPI_Datatype, *count);
    MPI_Aint *wide = ROOM(MPI_Aint, *count);
    for (MPI_Fint i = 0; i < *count; i++) c_types[i] = Type_in(&types[i]);
    int code = CALL(Type_create_struct)(*count, blocklengths, widen(wide, displacements, *count), c_types,
                                        &made);
    if (code == MPI_SUCCESS) *newtype = Type_out(made);
    RELEASE(wide, MPI_Aint, *count);
    RELEASE(c_types, MPI_Datatype, *count);
    set_code(ierror, code);
}

/* The same under other names. */
void F(comm_create_errhandler_)(), F(comm_get_errhandler_)(), F(comm_set_errhandler_)();

void F(errhandler_create_)(void *function, MPI_Fint *errhandler, MPI_Fint *ierror)
{
    F(comm_create_errhandler_)(function, errhandler, ierror);
}

void F(errhandler_get_)(const MPI_Fint *comm, MPI_Fint *errhandler, MPI_Fint *ierror)
{
    F(comm_get_errhandler_)(comm, errhandler, ierror);
}

void F(errhandler_set_)(const MPI_Fint *comm, const MPI_Fint *errhandler, MPI_Fint *ierror)
{
    F(comm_set_errhandler_)(comm, errhandler, ierror);
}
