/* Routines that the standard has removed and old programs call, whose addresses are default
 * integers; and MPI_Type_create_struct, because the two removed markers may be among its datatypes.
 * Compiled for MPI_ and for PMPI_. */
#include "layer.h"

static int raise(int class, const char *text)
{
    int code = combray_fortran_code(class, text);
    PMPI_Comm_call_errhandler(MPI_COMM_SELF, code);
    return code;
}

/* Converts an address or an extent to a default integer. */
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

/* The bounds that MPI_LB and MPI_UB set: the lowest displacement of MPI_LB and the highest of
 * MPI_UB. */
struct markers {
    bool has_lower, has_upper;
    MPI_Aint lower, upper;
};

static bool is_marker(MPI_Fint type, MPI_Aint place, struct markers *markers)
{
    if (type == FORTRAN_LB) {
        if (!markers->has_lower || place < markers->lower) markers->lower = place;
        markers->has_lower = true;
    } else if (type == FORTRAN_UB) {
        if (!markers->has_upper || place > markers->upper) markers->upper = place;
        markers->has_upper = true;
    } else {
        return false;
    }
    return true;
}

/* Sets the marked bounds of a datatype. */
static int set_bounds(MPI_Datatype *type, const struct markers *markers)
{
    MPI_Datatype resized;
    MPI_Aint lower, extent;
    int code = PMPI_Type_get_extent(*type, &lower, &extent);
    MPI_Aint upper = markers->has_upper ? markers->upper : lower + extent;
    if (markers->has_lower) lower = markers->lower;
    if (code == MPI_SUCCESS) code = PMPI_Type_create_resized(*type, lower, upper - lower, &resized);
    PMPI_Type_free(type);
    if (code == MPI_SUCCESS) *type = resized;
    return code;
}

void F(type_create_struct_)(const MPI_Fint *count, const MPI_Fint blocklengths[],
                            const MPI_Aint displacements[], const MPI_Fint types[], MPI_Fint *newtype,
                            MPI_Fint *ierror)
{
    MPI_Datatype made = 0, *c_types = ROOM(MPI_Datatype, *count);
    MPI_Aint *places = ROOM(MPI_Aint, *count);
    int *lengths = ROOM(int, *count);
    struct markers markers = {0};
    /* An invalid number of blocks is passed on to the call, which reports it. */
    int n = *count < 0 ? *count : 0;
    for (MPI_Fint i = 0; i < *count; i++) {
        if (is_marker(types[i], displacements[i], &markers)) continue;
        lengths[n] = blocklengths[i];
        places[n] = displacements[i];
        c_types[n++] = Type_in(&types[i]);
    }
    int code = CALL(Type_create_struct)(n, lengths, places, c_types, &made);
    /* An error handler may have left MPI_SUCCESS without a datatype. */
    if (code == MPI_SUCCESS && made != 0 && (markers.has_lower || markers.has_upper))
        code = set_bounds(&made, &markers);
    if (code == MPI_SUCCESS) *newtype = Type_out(made);
    RELEASE(lengths, int, *count);
    RELEASE(places, MPI_Aint, *count);
    RELEASE(c_types, MPI_Datatype, *count);
    set_code(ierror, code);
}
SAME(type_create_struct_, type_create_struct_f08_)

void F(type_struct_)(const MPI_Fint *count, const MPI_Fint blocklengths[], const MPI_Fint displacements[],
                     const MPI_Fint types[], MPI_Fint *newtype, MPI_Fint *ierror)
{
    MPI_Aint *wide = ROOM(MPI_Aint, *count);
    F(type_create_struct_)(count, blocklengths, widen(wide, displacements, *count), types, newtype, ierror);
    RELEASE(wide, MPI_Aint, *count);
}

/* Old names of the functions for error handlers. */
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
