/* What the entry points of the three Fortran interfaces share: handles as integers, strings,
 * logical values, and the variables that stand for special addresses. The sources here are compiled
 * twice, for the names MPI_ and, with COMBRAY_PROFILING, for PMPI_, except those that contain the
 * shared state. They are compiled for each binary interface, with its folder: standard, mpich,
 * open_mpi. */
#ifndef COMBRAY_FORTRAN_LAYER_H
#define COMBRAY_FORTRAN_LAYER_H

#include <alloca.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef COMBRAY_PROFILING
#define F(name) pmpi_##name
#define CALL(name) PMPI_##name
#else
#define F(name) mpi_##name
#define CALL(name) MPI_##name
#endif

/* CALL is only for the C function that the program requests. The layer's own calls use the prefix
 * PMPI_, so that a tool sees only calls of the program. */

/* The differences between binary interfaces: the types and functions of C, handles as integers, and
 * the variables whose addresses have a meaning. */
#include "dialect.h"

HANDLE(Comm, MPI_Comm)
HANDLE(Errhandler, MPI_Errhandler)
FILE_HANDLE
HANDLE(Group, MPI_Group)
HANDLE(Info, MPI_Info)
HANDLE(Message, MPI_Message)
HANDLE(Op, MPI_Op)
HANDLE(Request, MPI_Request)
HANDLE(Session, MPI_Session)
HANDLE(Type, MPI_Datatype)
HANDLE(Win, MPI_Win)

/* The second name of an entry point without choice buffers, which module mpi_f08 calls. One
 * function serves both names, because handles are integers in both interfaces and an absent ierror
 * is a null pointer. */
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define SAME(name, other) \
    extern __typeof__(F(name)) F(other) __attribute__((alias(TEXT(F(name)))));

/* The compiler's value of .true. */
extern const int combray_fortran_true;

static inline void *buffer_address(const void *buffer)
{
    if (IS_BOTTOM(buffer)) return MPI_BOTTOM;
    if (IS_IN_PLACE(buffer)) return MPI_IN_PLACE;
    if (IS_BUFFER_AUTOMATIC(buffer)) return MPI_BUFFER_AUTOMATIC;
    return (void *)buffer;
}

static inline MPI_Status *status_of(void *status)
{
    return IS_STATUS_IGNORE(status) ? MPI_STATUS_IGNORE : status;
}

static inline MPI_Status *statuses_of(void *statuses)
{
    return IS_STATUSES_IGNORE(statuses) ? MPI_STATUSES_IGNORE : statuses;
}

static inline int *weights_of(const MPI_Fint *weights)
{
    if (IS_UNWEIGHTED(weights)) return MPI_UNWEIGHTED;
    if (IS_WEIGHTS_EMPTY(weights)) return MPI_WEIGHTS_EMPTY;
    return (int *)weights;
}

static inline void set_code(MPI_Fint *ierror, int code)
{
    if (ierror) *ierror = code;
}

static inline MPI_Fint truth(int value)
{
    return value ? combray_fortran_true : 0;
}

/* Writes back a handle that the call may have changed. An unchanged handle may be a constant of the
 * program in read-only memory, so it is not written. */
static inline void put_handle(MPI_Fint *place, MPI_Fint handle)
{
    if (*place != handle) *place = handle;
}

/* Writes back the new value of a freed object's handle, unless the program passed a constant:
 * predefined error handlers and the empty group can be freed, too. */
void combray_fortran_replace_handle(MPI_Fint *place, MPI_Fint handle);

/* MPI counts from 0 in C, and from 1 in Fortran (section 3.7.5). */
static inline MPI_Fint one_based(int index)
{
    return index == MPI_UNDEFINED ? index : index + 1;
}

/* Memory for `count` objects during a call: on the stack, or on the heap if there are thousands. */
#define STACK_BYTES_MAX 32768
#define BYTES(type, count) ((count) > 0 ? (size_t)(count) * sizeof(type) : 64)
#define ROOM(type, count) \
    ((type *)(BYTES(type, count) <= STACK_BYTES_MAX ? alloca(BYTES(type, count)) \
                                                    : combray_fortran_room(BYTES(type, count))))
#define RELEASE(room, type, count) \
    do { if (BYTES(type, count) > STACK_BYTES_MAX) free(room); } while (0)
void *combray_fortran_room(size_t bytes);

/* Converts a Fortran string to C: without the trailing blanks. */
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

/* Keys and values of an info object lose their leading blanks, too (section 10). */
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

/* Returns an error code of this class with this text. */
int combray_fortran_code(int class, const char *text);

/* The number of processes with which a collective call of this communicator exchanges data. */
static inline int peers_of(MPI_Comm comm)
{
    int size = 0, is_inter = 0;
    if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS) return 0;
    int code = is_inter ? PMPI_Comm_remote_size(comm, &size) : PMPI_Comm_size(comm, &size);
    return code == MPI_SUCCESS ? size : 0;
}

/* The number of neighbours from which a process receives, or to which it sends. */
int combray_fortran_neighbours(MPI_Comm comm, bool sends);

#endif
