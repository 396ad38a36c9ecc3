/* The native interface of Combray, beside MPI in the same library (libmpi_abi.so.1).
 *
 * Packed messages are built segment by segment and taken apart the same way, so that a receiver can
 * look at the beginning of a message before it knows where the rest shall go. The library gathers
 * short segments into few packets and moves long ones straight between the memories of the two
 * programs. Beside them stand tagged messages made of several segments.
 * The guide with examples is share/doc/combray/packed-messages.md.
 * Further functions place memory on NUMA nodes, and tell where the process's rails are.
 *
 * Common to all functions:
 * - They may be called between MPI_Init and MPI_Finalize (or while a session is open), from those
 *   threads that the level of thread support allows. combray_error_string, combray_note_access
 *   and combray_skip_own_functions may be called at any time.
 * - Communicators, requests, statuses and error codes are those of MPI. The result is MPI_SUCCESS or
 *   an error code; MPI_Error_class tells its class, and combray_error_string what was wrong with
 *   which argument. No error handler is called, and no call ends the program. Errors that come out
 *   in MPI_Wait and its like follow the rules of MPI: they go to the communicator's error handler.
 * - A call that fails because of its arguments has done nothing.
 * - Messages of this interface never meet those that the program sends with MPI, nor do packed
 *   messages meet those of combray_isend, also in the same communicator with the same tag.
 * - Tags are 0 to INT_MAX. MPI_PROC_NULL is allowed as source and destination: nothing is
 *   transferred.
 * - Ranks are those of the communicator; in an intercommunicator, of its other group.
 */
#ifndef COMBRAY_H
#define COMBRAY_H

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A packed message that is open: from combray_begin to combray_end, or from combray_begin_unpack to
 * combray_end_unpack or combray_withdraw. Any number may be open at once, also with one tag between
 * the same two processes. */
typedef struct combray_message_s *combray_message;

/* No message; what a variable holds after its message was ended. */
#define COMBRAY_MESSAGE_NULL ((combray_message)0)

/* What a receiver may rely on. Both sides name a mode for each segment; the sender's tells the
 * library what will be needed early, the receiver's when the call returns. They may differ. */
enum {
    /* The data is there when combray_unpack returns, such as a length that is needed to allocate. */
    COMBRAY_EXPRESS = 1,
    /* The data is there when the message has ended, so that the library may gather and overlap. */
    COMBRAY_CHEAPER = 2
};

/* Begins a packed message to the process `destination` of `communicator`.
 *
 * Messages from one process with one tag in one communicator are received in the order in which they
 * were begun, whenever they end. Nothing of a message is promised to arrive before it ends.
 *
 * Errors: MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_ARG for a null pointer; MPI_ERR_OTHER
 * before MPI_Init and after MPI_Finalize (so for all functions). */
int combray_begin(MPI_Comm communicator, int destination, int tag, combray_message *message);

/* Adds a segment of `bytes` bytes at `address` to a message that is sent. The memory must stay as it
 * is until the message has ended: until combray_end returns without a request, or its request is
 * complete. A segment may have 0 bytes; then `address` does not matter.
 *
 * `mode` is COMBRAY_EXPRESS for what the receiver needs to go on, else COMBRAY_CHEAPER.
 *
 * Errors: MPI_ERR_REQUEST if the message is not open or is one that is received; MPI_ERR_BUFFER for
 * a null pointer; MPI_ERR_COUNT if `bytes` exceeds PTRDIFF_MAX; MPI_ERR_ARG for another mode. */
int combray_pack(combray_message message, const void *address, size_t bytes, int mode);

/* Ends a message that is sent. Without a request (NULL) it returns when the memory of the segments
 * is free again, which may be before the receiver has them; as MPI_Send does, it may wait for the
 * receiver. With one it returns at once, and `request` is complete when that is so: it is for
 * MPI_Wait, MPI_Test, MPI_Waitall and all the others, together with requests of MPI.
 * MPI_Request_free is allowed, MPI_Cancel is not (MPI_ERR_REQUEST). `*message` becomes
 * COMBRAY_MESSAGE_NULL.
 *
 * Errors: MPI_ERR_REQUEST if the message is not open or is one that is received; MPI_ERR_ARG if
 * `message` is a null pointer. */
int combray_end(combray_message *message, MPI_Request *request);

/* Begins to receive a packed message from the process `source` of `communicator`, or from any with
 * MPI_ANY_SOURCE, with `tag`, or any tag with MPI_ANY_TAG. It does not wait for the message. Messages
 * that several open calls could receive are theirs in the order of these calls.
 *
 * Errors: MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_ARG for a null pointer. */
int combray_begin_unpack(MPI_Comm communicator, int source, int tag, combray_message *message);

/* Receives the next segment, of exactly `bytes` bytes, to `address`. With COMBRAY_EXPRESS the call
 * waits, and the data is there when it returns; earlier segments may still be missing. With
 * COMBRAY_CHEAPER it does not wait, and the memory belongs to the message until that has ended.
 *
 * Errors: MPI_ERR_TRUNCATE if the segment was packed with another size, or the message has no more
 * segments: then the memory is not touched, and the message can be unpacked further. For a cheaper
 * segment this may come out later: then combray_end_unpack, or the status of its request, tells it.
 * Else as for combray_pack. */
int combray_unpack(combray_message message, void *address, size_t bytes, int mode);

/* Ends a message that is received. Without a request (NULL) it waits until all segments are there,
 * and writes `status`: source, tag, and the sum of the segments in bytes (MPI_Get_count with
 * MPI_BYTE). With one it returns at once, all is there when `request` is complete, and the status is
 * that of the request; `status` is not written. Either may be as in combray_end, and `status` may be
 * MPI_STATUS_IGNORE. `*message` becomes COMBRAY_MESSAGE_NULL, also when an error of a segment is
 * told.
 *
 * Errors: MPI_ERR_TRUNCATE if not all segments of the message were unpacked, or another size was
 * unpacked than packed; MPI_ERR_REQUEST if the message is not open or is one that is sent;
 * MPI_ERR_ARG if `message` is a null pointer. */
int combray_end_unpack(combray_message *message, MPI_Request *request, MPI_Status *status);

/* Waits until a message that is received has begun to arrive, and writes `status`: source and tag. Its
 * length is not known yet and told as 0 bytes. Useful after MPI_ANY_SOURCE.
 *
 * Errors: MPI_ERR_REQUEST if the message is not open or is one that is sent. */
int combray_await(combray_message message, MPI_Status *status);

/* The same without waiting: `*flag` becomes 1 and `status` is written if the message has begun to
 * arrive, else `*flag` becomes 0.
 *
 * Errors: as for combray_await; MPI_ERR_ARG if `flag` is a null pointer. */
int combray_arrived(combray_message message, int *flag, MPI_Status *status);

/* Gives up a message that is received and has not begun to arrive, as a server does that ends.
 * `*message` becomes COMBRAY_MESSAGE_NULL.
 *
 * Errors: MPI_ERR_REQUEST if it has begun to arrive (it stays open and must be ended), is not open, or
 * is one that is sent. */
int combray_withdraw(combray_message *message);

/* A run of memory. */
typedef struct {
    void *address;
    size_t bytes;
} combray_segment;

/* Begins to send one message that has the bytes of `count` segments, one after the other. The list may
 * be changed when the call returns, the memory of the segments when `request` is complete. A segment
 * may have 0 bytes; then its address does not matter.
 *
 * Errors: MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_COUNT if `count` is negative or the sizes
 * exceed PTRDIFF_MAX; MPI_ERR_BUFFER if a segment is a null pointer; MPI_ERR_ARG for other null
 * pointers. */
int combray_isend(MPI_Comm communicator, int destination, int tag,
                  const combray_segment *segments, int count, MPI_Request *request);

/* Begins to receive such a message into `count` segments, which are filled one after the other; they
 * need not be as those of the sender. `source` may be MPI_ANY_SOURCE, `tag` may be MPI_ANY_TAG. The
 * status of the request tells source, tag and bytes; it tells MPI_ERR_TRUNCATE if the message was
 * longer than all segments together, which then have its beginning.
 *
 * Errors: as for combray_isend. */
int combray_irecv(MPI_Comm communicator, int source, int tag,
                  const combray_segment *segments, int count, MPI_Request *request);

/* Lets the memory of a page or more lie on NUMA nodes: the pages that overlap with `bytes` bytes at
 * `address`. `where` is one of
 *   "node:2"                          all on this node, by the system's number
 *   "interleave", "interleave:0,2"    page by page on all nodes, or on these, in turn
 *   "first-touch"                     each page where it is touched first, as usual
 *   "here"                            on the node on which the calling thread runs
 *   "next-touch"                      each whole page on the node of the thread that touches it next
 *   "use:reads=10,writes=2"           wherever it is used soonest by the calling thread, which is going to read
 *                                     and write all of it so often: it stays, or it goes to the thread's node
 *   "use:reads=10,writes=2,thread"    the same; or the thread goes to the memory's node, and stays bound to it
 * Pages that somebody has touched already move, with what is in them, except for "first-touch"; others
 * will lie there when they are touched, except for "here". Pages that other processes use too stay.
 * "next-touch" wants private memory that was got at once, and that is not unmapped before it is touched or
 * placed anew; a process that is forked meanwhile must not use it. The system must let the process see
 * its page faults (vm.unprivileged_userfaultfd, or the capability to trace). What a "use" costs follows
 * from what `combray sample --memory` has kept of this machine; if it has not run, the first such call measures
 * for some tenths of a second. combray_place_reason tells what was done.
 *
 * Errors: MPI_ERR_ARG if `where` is not understood, is a null pointer, or names a node that there is not;
 * MPI_ERR_BUFFER if `address` is a null pointer; MPI_ERR_OTHER if the system refuses. May be called at any
 * time. */
int combray_place(void *address, size_t bytes, const char *where);

/* Tells from where the calling thread should read `bytes` bytes at `address` that nobody writes, if it is going to
 * read all of them `reads` times: `*copy` becomes `address`, or that of a copy on the NUMA node of the thread, which
 * is made if the process has none there and that pays. It is as far from the beginning of a page as `address`. Threads
 * of one node share a copy. Changes of the original are not seen in it: call combray_free_copies before the
 * original is changed or freed.
 *
 * Errors: MPI_ERR_BUFFER if `address` is a null pointer; MPI_ERR_COUNT if `bytes` exceeds PTRDIFF_MAX; MPI_ERR_ARG if
 * `reads` is negative or no number, or `copy` is a null pointer; MPI_ERR_OTHER if the system refuses. */
int combray_near_copy(const void *address, size_t bytes, double reads, const void **copy);

/* Frees all copies of the memory that begins at `address`, which nobody may read any more; there may be none. */
int combray_free_copies(const void *address);

/* Writes to `buffer`, which has `size` bytes, what the last combray_place with "use:" or combray_near_copy of the
 * calling thread has decided, and from which times; nothing, if there was none.
 *
 * Errors: MPI_ERR_ARG if `buffer` is a null pointer. */
int combray_place_reason(char *buffer, size_t size);

/* Tells on which NUMA node the page at `address` lies: -1 if nobody has touched it yet.
 *
 * Errors: MPI_ERR_BUFFER, MPI_ERR_ARG for null pointers; MPI_ERR_OTHER if the system does not tell. */
int combray_node_of(const void *address, int *node);

/* Tells how many rails this process has: ways to reach others, such as the memory of the machine and
 * each network interface that is used. They are numbered from 0. In a job whose processes are all on one
 * machine no network interfaces are used.
 *
 * Errors: MPI_ERR_ARG if `count` is a null pointer. */
int combray_rails(int *count);

/* Writes the name of a rail, such as "shm" or "tcp:eth0", to `buffer`, which has `size` bytes: at most
 * `size` - 1 characters and a zero byte. The info key "combray_rail" of communicators takes such names.
 *
 * Errors: MPI_ERR_ARG if there is no such rail or `buffer` is a null pointer. */
int combray_rail_name(int rail, char *buffer, size_t size);

/* Tells where the interface of a rail is: `*node` becomes the NUMA node that is near it, by the system's
 * number, and `*distance` how far the process is from it, counted as firmware does: 10 if the process may
 * run near it, about 20 if each access takes twice as long. Both become -1 where that is not known: for
 * interfaces that are no device of the machine, and for rails without an interface; `*node` alone where
 * several nodes are equally near. Either may be a null pointer.
 *
 * Errors: MPI_ERR_ARG if there is no such rail. */
int combray_rail_place(int rail, int *node, int *distance);

/* Tells which rail is nearest to this process as it was bound when it was first asked for, or when MPI was
 * initialized: of several alike the fastest, else processes take turns. -1 if the place of none is known.
 *
 * Errors: MPI_ERR_ARG if `rail` is a null pointer. */
int combray_nearest_rail(int *rail);

/* Reports to `combray run --check` that the program is going to load (`stores` is 0) or store the `bytes` bytes at
 * `address`. The calls that `mpicc --check-accesses` adds come here; compilers and interpreters that have none may call it
 * themselves. It may be called at any time, from any thread, and does nothing without --check. */
void combray_note_access(const void *address, size_t bytes, int stores);

/* For the library that holds the code at `code`, called when that is loaded: its references to functions of the C library
 * that lead to functions of the program with the same names, such as sendmsg, lead to those of the C library from then on.
 * Combray's Fortran interfaces call it; a layer of another language may. It may be called at any time. A reference that is
 * bound later, at its first call, is not changed: link the library with -z now. */
void combray_skip_own_functions(const void *code);

/* Writes what an error code means to `buffer`, which has `size` bytes: at most `size` - 1 characters
 * and a zero byte. MPI_MAX_ERROR_STRING bytes are always enough. The text of a code names the call,
 * the argument and its value; the last 256 texts are kept.
 *
 * Errors: MPI_ERR_ARG if `code` is no error code or `buffer` is a null pointer. */
int combray_error_string(int code, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
