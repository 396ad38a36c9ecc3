/* What the entries of the three Fortran interfaces share: handles as integers, texts, truth values,
 * and the variables that stand for special addresses. The sources here are compiled twice, for the
 * names MPI_ and, with COMBRAY_PROFILING, for PMPI_; except for those that hold the shared state. */
#ifndef COMBRAY_FORTRAN_LAYER_H
#define COMBRAY_FORTRAN_LAYER_H

#include <ISO_Fortran_binding.h>
#include <alloca.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_fortran.h"

#ifdef COMBRAY_PROFILING
#define F(name) pmpi_##name
#define CALL(name) PMPI_##name
#else
#define F(name) mpi_##name
#define CALL(name) MPI_##name
#endif

/* The second name of an entry without choice buffers, which module mpi_f08 calls: the same, as handles
 * are integers in both and an absent ierror is a null pointer. */
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define SAME(name, other) \
    extern __typeof__(F(name)) F(other) __attribute__((alias(TEXT(F(name)))));

/* The values of the compiler, from facts.f90. */
extern const int combray_fortran_true;
extern const int combray_fortran_sizes[4];
extern const int combray_fortran_kinds[19];

/* Their addresses mean what their names say. The names are those of common blocks in mpif.h, whose
 * memory may lie in the program, so they are found through the dynamic linker. */
extern MPI_Fint mpi_fortran_bottom_;
extern MPI_Fint mpi_fortran_in_place_;
extern MPI_Fint mpi_fortran_buffer_automatic_;
extern MPI_Fint mpi_fortran_status_ignore_[8];
extern MPI_Fint mpi_fortran_statuses_ignore_[8];
extern MPI_Fint mpi_fortran_f08_status_ignore_[8];
extern MPI_Fint mpi_fortran_f08_statuses_ignore_[8];
extern MPI_Fint mpi_fortran_errcodes_ignore_[1];
extern MPI_Fint mpi_fortran_unweighted_[1];
extern MPI_Fint mpi_fortran_weights_empty_[1];
extern char mpi_fortran_argv_null_[1];
extern char mpi_fortran_argvs_null_[1];

static inline void *buffer_address(const void *buffer)
{
    if (buffer == &mpi_fortran_bottom_) return MPI_BOTTOM;
    if (buffer == &mpi_fortran_in_place_) return MPI_IN_PLACE;
    if (buffer == &mpi_fortran_buffer_automatic_) return MPI_BUFFER_AUTOMATIC;
    return (void *)buffer;
}

static inline MPI_Status *status_of(void *status)
{
    if (status == mpi_fortran_status_ignore_ || status == mpi_fortran_f08_status_ignore_)
        return MPI_STATUS_IGNORE;
    return status;
}

static inline MPI_Status *statuses_of(void *statuses)
{
    if (statuses == mpi_fortran_statuses_ignore_ || statuses == mpi_fortran_f08_statuses_ignore_)
        return MPI_STATUSES_IGNORE;
    return statuses;
}

static inline int *weights_of(const MPI_Fint *weights)
{
    if (weights == mpi_fortran_unweighted_) return MPI_UNWEIGHTED;
    if (weights == mpi_fortran_weights_empty_) return MPI_WEIGHTS_EMPTY;
    return (int *)weights;
}

/* Integers below this are the values of the predefined handles (section 20.4.3). */
#define PREDEFINED_END 0x1000

#define HANDLE(Name, Type)                                                          \
    static inline Type Name##_in(const MPI_Fint *integer)                           \
    {                                                                               \
        uint32_t value = (uint32_t)*integer;                                        \
        return value < PREDEFINED_END ? (Type)(uintptr_t)value                      \
                                      : CALL(Name##_fromint)(*integer);             \
    }                                                                               \
    static inline MPI_Fint Name##_out(Type handle)                                  \
    {                                                                               \
        uintptr_t value = (uintptr_t)handle;                                        \
        return value < PREDEFINED_END ? (MPI_Fint)value : CALL(Name##_toint)(handle); \
    }
HANDLE(Comm, MPI_Comm)
HANDLE(Errhandler, MPI_Errhandler)
HANDLE(File, MPI_File)
HANDLE(Group, MPI_Group)
HANDLE(Info, MPI_Info)
HANDLE(Message, MPI_Message)
HANDLE(Op, MPI_Op)
HANDLE(Request, MPI_Request)
HANDLE(Session, MPI_Session)
HANDLE(Type, MPI_Datatype)
HANDLE(Win, MPI_Win)

static inline void set_code(MPI_Fint *ierror, int code)
{
    if (ierror) *ierror = code;
}

static inline MPI_Fint truth(int value)
{
    return value ? combray_fortran_true : 0;
}

/* MPI counts from 0 in C, and from 1 in Fortran (section 3.7.5). */
static inline MPI_Fint one_based(int index)
{
    return index == MPI_UNDEFINED ? index : index + 1;
}

/* Room for so many objects while a call lasts: on the stack, unless they are thousands. */
#define STACK_BYTES_MAX 32768
#define BYTES(type, count) ((count) > 0 ? (size_t)(count) * sizeof(type) : 64)
#define ROOM(type, count) \
    ((type *)(BYTES(type, count) <= STACK_BYTES_MAX ? alloca(BYTES(type, count)) \
                                                    : combray_fortran_room(BYTES(type, count))))
#define RELEASE(room, type, count) \
    do { if (BYTES(type, count) > STACK_BYTES_MAX) free(room); } while (0)
void *combray_fortran_room(size_t bytes);

/* A text of Fortran as C has it: without the blanks at the end. */
static inline size_t text_length(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == ' ') length--;
    return length;
}

static inline const char *text_in(char *room, const char *text, size_t length)
{
    length = text_length(text, length);
    memcpy(room, text, length);
    room[length] = 0;
    return room;
}

/* Keys and values of an info object lose the blanks at their beginning, too (section 10). */
static inline const char *word_in(char *room, const char *text, size_t length)
{
    while (length > 0 && *text == ' ') text++, length--;
    return text_in(room, text, length);
}

static inline void text_out(char *text, size_t length, const char *from)
{
    size_t used = strnlen(from, length);
    memcpy(text, from, used);
    memset(text + used, ' ', length - used);
}

/* Where the memory of an array section is, for a call that wants address, count and datatype. */
struct view {
    void *address;
    MPI_Count count;
    MPI_Datatype type;
    /* Made for this call; null if there is none. */
    MPI_Datatype made;
    /* How many calls use the datatype, if it is one that is kept. */
    int *kept;
    char *copy;
    const CFI_cdesc_t *section;
    bool back;
};

enum view_kind {
    /* One block of count elements. */
    SINGLE,
    /* Blocks at multiples of the datatype's extent. */
    BLOCKS,
    /* Memory that the call uses as it is. */
    WHOLE,
    /* Memory that stays in use after the call. */
    REGION,
};

/* What becomes of the buffer: bits. */
enum { READ = 1, WRITTEN = 2, KEPT = 4 };

/* Finds the memory of an array section. The name of the call and the place of the argument are for
 * messages; the error handler is still to be called if it fails. */
int combray_fortran_view(struct view *view, const char *call, int position, const char *name,
                         const CFI_cdesc_t *section, MPI_Count count, MPI_Datatype type,
                         enum view_kind kind, int use);
void combray_fortran_view_end(struct view *view);

/* Finds a kept datatype for the section of the view. */
bool combray_fortran_find_type(struct view *view, MPI_Count count, MPI_Datatype type,
                               enum view_kind kind);
/* Keeps the datatype that was made for the view, if it can be used again. */
void combray_fortran_keep_type(struct view *view, MPI_Count count, MPI_Datatype type,
                               enum view_kind kind);

/* An error code of this class with this text. */
int combray_fortran_code(int class, const char *text);

/* Whether the elements lie side by side, so that the address is all that MPI needs. */
static inline bool is_plain(const CFI_cdesc_t *buffer)
{
    ptrdiff_t expected = (ptrdiff_t)buffer->elem_len;
    for (int i = 0; i < buffer->rank; i++) {
        ptrdiff_t extent = buffer->dim[i].extent;
        /* The last dimension of an assumed-size array has no extent. */
        if (extent == 0 || (extent < 0 && buffer->dim[i].sm == expected)) return true;
        if (extent != 1 && buffer->dim[i].sm != expected) return false;
        expected *= extent;
    }
    return true;
}

/* How many processes a collective call of this communicator exchanges data with. */
static inline int peers_of(MPI_Comm comm)
{
    int size = 0, is_inter = 0;
    if (comm == MPI_COMM_NULL || CALL(Comm_test_inter)(comm, &is_inter) != MPI_SUCCESS) return 0;
    int code = is_inter ? CALL(Comm_remote_size)(comm, &size) : CALL(Comm_size)(comm, &size);
    return code == MPI_SUCCESS ? size : 0;
}

/* How many neighbours a process receives from, or sends to. */
int combray_fortran_neighbours(MPI_Comm comm, bool sends);

#endif
