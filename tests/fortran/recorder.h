/* Functions in C that stand in the place of the library's. A program in Fortran calls every routine; the
 * function behind it checks what it receives, gives known results, and reports a call of any other function:
 * that is what a tool would see. Values follow from the place of an argument, in both languages. */
#ifndef COMBRAY_TESTS_RECORDER_H
#define COMBRAY_TESTS_RECORDER_H

#include <stdio.h>

#include "layer.h"

enum {
    /* Variables stand in all places. */
    PLAIN,
    /* Constants do where they can: MPI_BOTTOM, MPI_STATUS_IGNORE, MPI_UNWEIGHTED; all logical values are
     * the opposite, and all positions undefined. */
    CONSTANTS,
    /* The function fails, so that no result may come back. */
    FAILURE,
    PASSES
};

/* What a function that fails returns, and what those return that have no error code. */
#define RECORDED_CODE 77
#define RECORDED_DOUBLE 1234.5
#define RECORDED_ADDRESS ((MPI_Aint)1 << 41)

/* Of each kind of handle there are so many. An argument has that of its place, a result the next. */
#define HANDLES 4
#define FOR_EACH_KIND(X)                                                                              \
    X(Comm, MPI_Comm, Comm) X(Datatype, MPI_Datatype, Type) X(Errhandler, MPI_Errhandler, Errhandler) \
    X(File, MPI_File, File) X(Group, MPI_Group, Group) X(Info, MPI_Info, Info)                        \
    X(Message, MPI_Message, Message) X(Op, MPI_Op, Op) X(Request, MPI_Request, Request)               \
    X(Session, MPI_Session, Session) X(Win, MPI_Win, Win)
#define DECLARE(Kind, Type, Conversion) extern Type recorded_##Kind[HANDLES];
FOR_EACH_KIND(DECLARE)

/* The bindings that a routine has: in mpif.h and module mpi, and in module mpi_f08. */
enum { OLD = 1, MPI08 = 2 };
extern const struct recorded {
    const char *name;
    int bindings;
} recorder_routines[];
extern const int recorder_count;
/* The routine that the program calls, and how. */
extern int recorder_expected, recorder_pass;
extern const void *recorder_buffers[];

/* Whether this is the function that is expected now. */
bool recorder_enter(int number, const char *name);
/* Reports an argument that is wrong. */
void recorder_check(bool right, const char *what);
void recorder_unwanted(const char *name);

#define ENTER(number, name) \
    if (!recorder_enter(number, #name)) return MPI_ERR_OTHER

#define UNWANTED(name, Result, parameter, argument) \
    Result name(parameter)                          \
    {                                               \
        recorder_unwanted(#name);                   \
        return P##name(argument);                   \
    }

#define FOR_ELEMENTS(n) for (int k = 0; k < (n); k++)

#define IS_NUMBER(value, expected) recorder_check((value) == (expected), #value)
#define ARE_NUMBERS(list, expected, n) FOR_ELEMENTS(n) recorder_check((list)[k] == (expected) + k, #list)
#define PUT_NUMBERS(list, first, n) FOR_ELEMENTS(n) (list)[k] = (first) + k

#define IS_TRUTH(value) recorder_check((value) == (recorder_pass == PLAIN), #value)
#define ARE_TRUTHS(list) FOR_ELEMENTS(3) recorder_check(((list)[k] != 0) == (k % 2 == 0), #list)
/* Anything but 0 is true in C. */
#define PUT_TRUTH(value) (value) = recorder_pass == PLAIN ? 2 : 0
#define PUT_TRUTHS(list) FOR_ELEMENTS(3) (list)[k] = k % 2 == 0 ? 2 : 0

#define PUT_POSITION(value, position) (value) = recorder_pass == PLAIN ? (position) : MPI_UNDEFINED

#define IS_HANDLE(value, Kind, place) \
    recorder_check((value) == recorded_##Kind[(place) % HANDLES], #value)
#define PUT_HANDLE(value, Kind, place) (value) = recorded_##Kind[((place) + 1) % HANDLES]
#define ARE_HANDLES(list, Kind, place, n) \
    FOR_ELEMENTS(n) recorder_check((list)[k] == recorded_##Kind[((place) + k) % HANDLES], #list)
#define PUT_HANDLES(list, Kind, place, n) \
    FOR_ELEMENTS(n) (list)[k] = recorded_##Kind[((place) + 1 + k) % HANDLES]

#define IS_TEXT(text, expected) recorder_check(strcmp(text, expected) == 0, #text)
#define PUT_TEXT(text, result) strcpy(text, result)

#define PUT_POINTER(place, result) *(void **)(place) = (void *)(uintptr_t)(result)

#define IS_BUFFER(buffer, place)                                                  \
    recorder_check((buffer) == (recorder_pass == PLAIN ? recorder_buffers[place]  \
                                : recorder_pass == CONSTANTS ? MPI_BOTTOM         \
                                                             : MPI_IN_PLACE),     \
                   #buffer)

#define IS_WEIGHTS(weights, first, is_result)                                        \
    if (recorder_pass == CONSTANTS)                                                  \
        recorder_check((weights) == MPI_UNWEIGHTED, #weights);                       \
    else if (recorder_pass == FAILURE)                                               \
        recorder_check((weights) == MPI_WEIGHTS_EMPTY, #weights);                    \
    else if (!(is_result))                                                           \
    ARE_NUMBERS(weights, first, 3)
#define PUT_WEIGHTS(weights, first) \
    if (recorder_pass == PLAIN) PUT_NUMBERS(weights, first, 3)

static inline void check_status(const MPI_Status *status, int first)
{
    recorder_check(status->MPI_SOURCE == first && status->MPI_TAG == first + 1 &&
                       status->MPI_ERROR == first + 2,
                   "status");
}

static inline void put_status(MPI_Status *status, int first)
{
    status->MPI_SOURCE = first;
    status->MPI_TAG = first + 1;
    status->MPI_ERROR = first + 2;
}

#define IS_STATUS(status, first) check_status(status, first)
#define IS_STATUS_OR_IGNORE(status) \
    recorder_check(((status) == MPI_STATUS_IGNORE) == (recorder_pass == CONSTANTS), #status)
#define ARE_STATUSES(statuses) \
    recorder_check(((statuses) == MPI_STATUSES_IGNORE) == (recorder_pass == CONSTANTS), #statuses)
#define PUT_STATUS(status, first) \
    if ((status) != MPI_STATUS_IGNORE) put_status(status, first)
#define PUT_STATUSES(statuses, first) \
    if ((statuses) != MPI_STATUSES_IGNORE) FOR_ELEMENTS(3) put_status(&(statuses)[k], (first) + 10 * k)

#endif
