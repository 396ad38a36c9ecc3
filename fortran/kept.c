/* Datatypes of array sections, kept from call to call. Programs send the faces of one block over
 * and over, and creating a datatype costs more than a send. Only sections of predefined types are
 * kept, because the handle of another type may be reused for a new type. */
#include "descriptors.h"

#define KEPT_TYPES 8
#define KEPT_RANK_MAX 4

struct kept_type {
    MPI_Datatype type;
    /* The number of calls that use the datatype now. */
    int users;
    /* The key of the datatype. An unused place has rank 0, which no section has. */
    int rank;
    enum view_kind kind;
    MPI_Datatype of;
    size_t element;
    MPI_Count count;
    ptrdiff_t extent[KEPT_RANK_MAX], stride[KEPT_RANK_MAX];
};

static struct kept_type kept[KEPT_TYPES];
/* Whether a thread accesses the table; another thread then skips it. */
static char is_busy;
static bool is_open, is_closed;
static unsigned int next, found_last;

static inline bool enter(void)
{
    return __atomic_exchange_n(&is_busy, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline void leave(void)
{
    __atomic_store_n(&is_busy, 0, __ATOMIC_RELEASE);
}

static inline bool can_be_kept(const fortran_array *section, MPI_Datatype type)
{
    return array_rank(section) <= KEPT_RANK_MAX && is_predefined(type);
}

/* The datatype of a block does not depend on the number of blocks. */
static inline MPI_Count count_that_matters(enum view_kind kind, MPI_Count count)
{
    return kind == SINGLE ? count : 0;
}

static inline bool is_for(const struct kept_type *one, const fortran_array *section, MPI_Count count,
                          MPI_Datatype type, enum view_kind kind)
{
    if (one->rank != array_rank(section) || one->of != type || one->element != array_element(section) ||
        one->count != count_that_matters(kind, count) || one->kind != kind)
        return false;
    for (int i = 0; i < array_rank(section); i++) {
        if (one->extent[i] != array_extent(section, i) || one->stride[i] != array_stride(section, i))
            return false;
    }
    return true;
}

bool combray_fortran_find_type(struct view *view, MPI_Count count, MPI_Datatype type,
                               enum view_kind kind)
{
    const fortran_array *section = view->section;
    if (!can_be_kept(section, type) || !enter()) return false;
    bool found = false;
    for (unsigned int i = 0; i < KEPT_TYPES && !found; i++) {
        unsigned int place = (found_last + i) % KEPT_TYPES;
        if (!is_for(&kept[place], section, count, type, kind)) continue;
        found = true;
        found_last = place;
        __atomic_fetch_add(&kept[place].users, 1, __ATOMIC_ACQUIRE);
        view->type = kept[place].type;
        if (kind == SINGLE) view->count = 1;
        view->kept = &kept[place].users;
    }
    leave();
    return found;
}

static void forget(struct kept_type *one)
{
    if (one->rank != 0) PMPI_Type_free(&one->type);
    one->rank = 0;
}

/* Called at the beginning of MPI_Finalize: nothing is kept from now on. If a call of another thread
 * still uses a kept datatype, that is an error of the program. */
static int close_all(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    if (!enter()) return MPI_SUCCESS;
    is_closed = true;
    for (int i = 0; i < KEPT_TYPES; i++) forget(&kept[i]);
    leave();
    return MPI_SUCCESS;
}

/* Datatypes are only kept between MPI_Init and MPI_Finalize, because the end of a session invokes
 * no callback. */
static bool open_first(void)
{
    int has_begun, has_ended, keyval;
    if (is_open || is_closed) return !is_closed;
    if (PMPI_Initialized(&has_begun) != MPI_SUCCESS || !has_begun) return false;
    if (PMPI_Finalized(&has_ended) != MPI_SUCCESS || has_ended) return false;
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close_all, &keyval, NULL) != MPI_SUCCESS)
        return false;
    is_open = PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL) == MPI_SUCCESS;
    PMPI_Comm_free_keyval(&keyval);
    return is_open;
}

void combray_fortran_keep_type(struct view *view, MPI_Count count, MPI_Datatype type,
                               enum view_kind kind)
{
    const fortran_array *section = view->section;
    if (!can_be_kept(section, type) || !enter()) return;
    struct kept_type *place = &kept[next++ % KEPT_TYPES];
    if (open_first() && __atomic_load_n(&place->users, __ATOMIC_ACQUIRE) == 0) {
        forget(place);
        *place = (struct kept_type){.type = view->made, .users = 1, .rank = array_rank(section), .kind = kind,
                                    .of = type, .element = array_element(section),
                                    .count = count_that_matters(kind, count)};
        for (int i = 0; i < array_rank(section); i++) {
            place->extent[i] = array_extent(section, i);
            place->stride[i] = array_stride(section, i);
        }
        view->kept = &place->users;
        view->made = MPI_DATATYPE_NULL;
    }
    leave();
}
