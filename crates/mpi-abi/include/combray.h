/* The native interface of Combray, beside MPI in the same library (libmpi_abi.so.1).
 *
 * A packed message is built segment by segment, and received segment by segment, so that a receiver
 * can look at the beginning of a message before it knows where the rest must go. The library
 * gathers short segments into few packets and copies long ones directly between the memories of the
 * two programs. The interface also has tagged messages that consist of several segments. The guide
 * with examples is share/doc/combray/docs/user/packed-messages.md. Further functions place memory
 * on NUMA nodes, and return the locality of the process's rails.
 *
 * Common to all functions:
 * - They may be called between MPI_Init and MPI_Finalize (or while a session is open), from the
 *   threads that the level of thread support allows. combray_error_string, combray_note_access
 *   and combray_skip_own_functions may be called at any time.
 * - Communicators, requests, statuses and error codes are those of MPI. The result is MPI_SUCCESS
 *   or an error code. MPI_Error_class returns the class of a code, and combray_error_string
 *   describes which argument was wrong and why. No error handler is called, and no call ends the
 *   program. Errors that occur in MPI_Wait and similar functions follow the rules of MPI: they go
 *   to the communicator's error handler.
 * - A call that fails because of its arguments has no effect.
 * - Messages of this interface never match messages that the program sends with MPI, and packed
 *   messages never match messages of combray_isend, even with the same communicator and tag.
 * - Tags are 0 to INT_MAX. MPI_PROC_NULL is allowed as source and destination: nothing is
 *   transferred.
 * - Ranks are those of the communicator; in an intercommunicator, those of its remote group.
 */
#ifndef COMBRAY_H
#define COMBRAY_H

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open packed message: from combray_begin to combray_end, or from combray_begin_unpack to
 * combray_end_unpack or combray_withdraw. Any number of messages may be open at once, also several
 * with one tag between two processes. */
typedef struct combray_message_s *combray_message;

/* The null handle. A variable has this value after its message was ended. */
#define COMBRAY_MESSAGE_NULL ((combray_message)0)

/* When the data of a segment is needed. Both sides specify a mode for each segment: the sender's
 * mode informs the library what will be needed early, and the receiver's mode determines when the
 * call returns. The modes of the two sides may differ. */
enum {
    /* The data is there when combray_unpack returns. Example: a length that is needed to allocate
     * memory. */
    COMBRAY_EXPRESS = 1,
    /* The data is there when the message has ended, so that the library may gather and overlap. */
    COMBRAY_CHEAPER = 2
};

/* Begins a packed message to the process `destination` of `communicator`.
 *
 * Messages from one process with one tag in one communicator are received in the order in which
 * they were begun, regardless of when they end. No part of a message is guaranteed to arrive before
 * the message ends.
 *
 * Errors: MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_ARG for a null pointer; MPI_ERR_OTHER
 * before MPI_Init and after MPI_Finalize (for all functions). */
int combray_begin(MPI_Comm communicator, int destination, int tag, combray_message *message);

/* Adds a segment of `bytes` bytes at `address` to a message to send. The memory must not change
 * until the message has ended: until combray_end returns without a request, or until its request is
 * complete. A segment may have 0 bytes; then `address` is ignored.
 *
 * `mode` is COMBRAY_EXPRESS for data that the receiver needs to continue, and COMBRAY_CHEAPER for
 * all other data.
 *
 * Errors: MPI_ERR_REQUEST if the message is not open or is a message to receive; MPI_ERR_BUFFER for
 * a null pointer; MPI_ERR_COUNT if `bytes` exceeds PTRDIFF_MAX; MPI_ERR_ARG for another mode. */
int combray_pack(combray_message message, const void *address, size_t bytes, int mode);

/* Ends a message to send. Without a request (NULL) the call returns when the memory of the segments
 * may be used again, possibly before the receiver has the data; like MPI_Send, it may wait for the
 * receiver. With a request it returns at once, and `request` is complete when the memory may be
 * used again. The request may be passed to MPI_Wait, MPI_Test, MPI_Waitall and all similar
 * functions, together with requests of MPI. MPI_Request_free is allowed, MPI_Cancel is not
 * (MPI_ERR_REQUEST). `*message` becomes COMBRAY_MESSAGE_NULL.
 *
 * Errors: MPI_ERR_REQUEST if the message is not open or is a message to receive; MPI_ERR_ARG if
 * `message` is a null pointer. */
int combray_end(combray_message *message, MPI_Request *request);

/* Begins to receive a packed message from the process `source` of `communicator`, or from any
 * process with MPI_ANY_SOURCE, with tag `tag`, or with any tag with MPI_ANY_TAG. The call does not
 * wait for the message. If several open messages match, they are matched in the order of these
 * calls.
 *
 * Errors: MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_ARG for a null pointer. */
int combray_begin_unpack(MPI_Comm communicator, int source, int tag, combray_message *message);

/* Receives the next segment, of exactly `bytes` bytes, to `address`. With COMBRAY_EXPRESS the call
 * waits, and the data is there when it returns; earlier segments may still be missing. With
 * COMBRAY_CHEAPER it does not wait, and the program must not use the memory until the message has
 * ended.
 *
 * Errors: MPI_ERR_TRUNCATE if the segment was packed with another size, or if the message has no
 * more segments. Then the memory is not changed, and more of the message can be unpacked. For a
 * segment with COMBRAY_CHEAPER this error may be detected later; then combray_end_unpack or the
 * status of its request reports it. Other errors are those of combray_pack. */
int combray_unpack(combray_message message, void *address, size_t bytes, int mode);

/* Ends a message to receive. Without a request (NULL) the call waits until all segments have
 * arrived, and writes `status`: source, tag, and the sum of the segments in bytes (MPI_Get_count
 * with MPI_BYTE). With a request it returns at once, all segments have arrived when `request` is
 * complete, and the status is that of the request; `status` is not written. The uses of `request`
 * are those in combray_end, and `status` may be MPI_STATUS_IGNORE. `*message` becomes
 * COMBRAY_MESSAGE_NULL, even if the call reports an error of a segment.
 *
 * Errors: MPI_ERR_TRUNCATE if not all segments of the message were unpacked, or if a segment was
 * unpacked with another size than packed; MPI_ERR_REQUEST if the message is not open or is a
 * message to send; MPI_ERR_ARG if `message` is a null pointer. */
int combray_end_unpack(combray_message *message, MPI_Request *request, MPI_Status *status);

/* Waits until a message to receive has begun to arrive, and writes `status`: source and tag. The
 * length is not known yet, so the status has 0 bytes. This is useful after MPI_ANY_SOURCE.
 *
 * Errors: MPI_ERR_REQUEST if the message is not open or is a message to send. */
int combray_await(combray_message message, MPI_Status *status);

/* Tests, without waiting, whether a message to receive has begun to arrive. If so, `*flag` becomes
 * 1 and `status` is written as by combray_await; otherwise `*flag` becomes 0.
 *
 * Errors: those of combray_await; MPI_ERR_ARG if `flag` is a null pointer. */
int combray_arrived(combray_message message, int *flag, MPI_Status *status);

/* Cancels a message to receive that has not begun to arrive, for example in a server that ends.
 * `*message` becomes COMBRAY_MESSAGE_NULL.
 *
 * Errors: MPI_ERR_REQUEST if the message has begun to arrive (it stays open and must be ended), is
 * not open, or is a message to send. */
int combray_withdraw(combray_message *message);

/* A contiguous piece of memory. */
typedef struct {
    void *address;
    size_t bytes;
} combray_segment;

/* Begins to send one message that consists of the bytes of `count` segments, one after the other.
 * The program may change the list when the call returns, and the memory of the segments when
 * `request` is complete. A segment may have 0 bytes; then its address is ignored.
 *
 * Errors: MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_COUNT if `count` is negative or the
 * sizes exceed PTRDIFF_MAX; MPI_ERR_BUFFER if a segment is a null pointer; MPI_ERR_ARG for other
 * null pointers. */
int combray_isend(MPI_Comm communicator, int destination, int tag,
                  const combray_segment *segments, int count, MPI_Request *request);

/* Begins to receive a message of combray_isend into `count` segments, which are filled one after
 * the other. They may differ from the segments of the sender. `source` may be MPI_ANY_SOURCE, `tag`
 * may be MPI_ANY_TAG. The status of the request contains source, tag and number of bytes. Its error
 * is MPI_ERR_TRUNCATE if the message was longer than all segments together, which then contain its
 * beginning.
 *
 * Errors: those of combray_isend. */
int combray_irecv(MPI_Comm communicator, int source, int tag,
                  const combray_segment *segments, int count, MPI_Request *request);

/* Names what the program does from now on, in all its threads, until the next call: combray run
 * --trace shows the phases of each rank, and combray trace how even and how long they are. An empty
 * name ends the phase. Without a trace the call does nothing. MPI_Pcontrol(n) begins the phase
 * "level n", and MPI_Pcontrol(0) ends the phase.
 *
 * Errors: MPI_ERR_ARG if `name` is a null pointer. */
int combray_phase(const char *name);

/* Returns how many processes the user asks the program to have, with the command combray resize: all
 * processes of `communicator` together, as the launcher of the process of rank 0 reports. Collective
 * over the intracommunicator `communicator`; all processes return the same result. `*processes`
 * becomes the number, or 0 if the user has asked for nothing, or if the launcher is not combray run.
 * It keeps this value until the user asks again, so that a program compares it with the number of
 * processes it has, also after failures. `*hints` becomes an info object for MPI_Comm_spawn (key
 * "host") if the user has named hosts for new processes, and otherwise MPI_INFO_NULL. The program
 * frees the object.
 *
 * A call costs two broadcasts and a message to the launcher, about 0.1 ms. The guide with an example
 * is share/doc/combray/docs/user/elastic.md.
 *
 * Errors: MPI_ERR_COMM, also for an intercommunicator; MPI_ERR_ARG for a null pointer; those of
 * collective operations with failed processes. */
int combray_wanted_size(MPI_Comm communicator, int *processes, MPI_Info *hints);

/* Publishes the processes of the intracommunicator `communicator` as a process set that sessions see
 * (MPI 5.0, section 11.3.2): MPI_Session_get_num_psets counts it, and MPI_Group_from_session_pset returns its
 * group. A set that was published under this name before is replaced: so a program whose processes become
 * more or fewer lets all its components see which ones there are. Collective over the communicator, which the
 * program may free. The processes may belong to several connected jobs; MPI_Comm_create_from_group then makes
 * communicators of the group, and of groups that are derived from it.
 *
 * A set keeps its number and name until the process ends. Processes that are in an earlier set of
 * this name, but not in `communicator`, keep the earlier one until they withdraw it or close their
 * last session. A set keeps the connections between its processes open.
 *
 * Errors: MPI_ERR_COMM, also for an intercommunicator; MPI_ERR_ARG for a null pointer, an empty or
 * too long name (MPI_MAX_PSET_NAME_LEN), one that begins with "mpi://", or different names on
 * different processes; those of collective operations with failed processes. */
int combray_publish_set(MPI_Comm communicator, const char *name);

/* Withdraws a process set on this process only: from now on it has no members. Its number and its
 * name stay.
 *
 * Errors: MPI_ERR_ARG for a null pointer, or if the program has published no set of this name. */
int combray_withdraw_set(const char *name);

/* Places memory of a page or more on NUMA nodes: the pages that overlap with the `bytes` bytes at
 * `address`. `where` is one of
 *   "node:2"                          all pages on this node, by the system's number
 *   "interleave", "interleave:0,2"    page by page on all nodes, or on these nodes, in turn
 *   "first-touch"                     each page on the node of the thread that touches it first, as usual
 *   "here"                            on the node on which the calling thread runs
 *   "next-touch"                      each whole page on the node of the thread that touches it next
 *   "use:reads=10,writes=2"           where the calling thread can read and write all of it fastest, so many times:
 *                                     the memory stays, or it moves to the thread's node
 *   "use:reads=10,writes=2,thread"    as "use"; or the thread moves to the memory's node, and stays bound to it
 * Pages that have been touched already move with their contents, except for "first-touch". Other
 * pages will be placed when they are touched, except for "here". Pages that other processes use,
 * too, do not move. "next-touch" requires private memory from a single mapping that is not unmapped
 * before it is touched or placed again; a process that is forked meanwhile must not use the memory.
 * The system must permit the process to handle its page faults (vm.unprivileged_userfaultfd, or the
 * capability to trace). The costs for "use" are taken from the measurements that `combray sample
 * --memory` has stored for this machine; without them, the first such call measures for some tenths
 * of a second. combray_place_reason returns what was done.
 *
 * Errors: MPI_ERR_ARG if `where` cannot be parsed, is a null pointer, or names a node that does not
 * exist; MPI_ERR_BUFFER if `address` is a null pointer; MPI_ERR_OTHER if the system refuses. The
 * function may be called at any time. */
int combray_place(void *address, size_t bytes, const char *where);

/* Returns the address from which the calling thread should read the `bytes` bytes at `address`,
 * which no thread writes, if it will read all of them `reads` times. `*copy` becomes `address`, or
 * the address of a copy on the NUMA node of the thread. A copy is made if the process has none on
 * that node and if it saves time. The copy has the same offset from the beginning of a page as
 * `address`. Threads of one node share a copy. The copy does not follow changes of the original:
 * call combray_free_copies before the original is changed or freed.
 *
 * Errors: MPI_ERR_BUFFER if `address` is a null pointer; MPI_ERR_COUNT if `bytes` exceeds
 * PTRDIFF_MAX; MPI_ERR_ARG if `reads` is negative or not a number, or if `copy` is a null pointer;
 * MPI_ERR_OTHER if the system refuses. */
int combray_near_copy(const void *address, size_t bytes, double reads, const void **copy);

/* Frees all copies of the memory that begins at `address`, if there are any. No thread may read
 * them any more. */
int combray_free_copies(const void *address);

/* Writes to `buffer`, which has `size` bytes, what the last combray_place with "use:" or
 * combray_near_copy of the calling thread has decided, and on the basis of which times. Writes an
 * empty text if there was no such call.
 *
 * Errors: MPI_ERR_ARG if `buffer` is a null pointer. */
int combray_place_reason(char *buffer, size_t size);

/* Returns in `*node` the NUMA node of the page at `address`, or -1 if no thread has touched the
 * page yet.
 *
 * Errors: MPI_ERR_BUFFER, MPI_ERR_ARG for null pointers; MPI_ERR_OTHER if the system does not
 * report the node. */
int combray_node_of(const void *address, int *node);

/* Returns in `*count` the number of rails of this process. A rail is a way to reach other
 * processes, such as the memory of the host or a network interface that is used. Rails are numbered
 * from 0. In a job whose processes are all on one host no network interfaces are used.
 *
 * Errors: MPI_ERR_ARG if `count` is a null pointer. */
int combray_rails(int *count);

/* Writes the name of a rail, such as "shm" or "tcp:eth0", to `buffer`, which has `size` bytes: at
 * most `size` - 1 characters and a zero byte. The info key "combray_rail" of communicators accepts
 * such names.
 *
 * Errors: MPI_ERR_ARG if there is no such rail or `buffer` is a null pointer. */
int combray_rail_name(int rail, char *buffer, size_t size);

/* Returns the locality of a rail's interface. `*node` becomes the NUMA node next to it, by the
 * system's number. `*distance` becomes its distance from the process in the units of the firmware:
 * 10 if the process may run on the nearest node, about 20 if each access takes twice as long. Both
 * become -1 if the locality is not known: for interfaces that are not devices of the host, and for
 * rails without an interface. Only `*node` becomes -1 if several nodes are equally near. Either
 * pointer may be null.
 *
 * Errors: MPI_ERR_ARG if there is no such rail. */
int combray_rail_place(int rail, int *node, int *distance);

/* Returns in `*rail` the rail that is nearest to this process. The result depends on how the
 * process was bound at the first query, or when MPI was initialized. Among equally near rails the
 * fastest is chosen; equally fast ones are distributed over the processes. The result is -1 if no
 * rail's locality is known.
 *
 * Errors: MPI_ERR_ARG if `rail` is a null pointer. */
int combray_nearest_rail(int *rail);

/* Reports to `combray run --check` that the program will load (`stores` is 0) or store the `bytes`
 * bytes at `address`. The calls that `mpicc --check-accesses` adds come here. Compilers and
 * interpreters without this option may call the function themselves. It may be called at any time,
 * from any thread, and does nothing without --check. */
void combray_note_access(const void *address, size_t bytes, int stores);

/* For the library that holds the code at `code`, called when that is loaded: its references to functions of the C library
 * that lead to functions of the program with the same names, such as sendmsg, lead to those of the C library from then on.
 * Combray's Fortran interfaces call it; a layer of another language may. It may be called at any time. A reference that is
 * bound later, at its first call, is not changed: link the library with -z now. */
void combray_skip_own_functions(const void *code);

/* Endpoints: connections by address, beside MPI and on the same rails. A process opens an endpoint
 * and passes its URI, as text, to other processes, which connect to it. Both may have been started
 * separately, on one host or on hosts that reach each other, and no launcher is needed: a program
 * that never calls MPI_Init may use all functions of this section. All connections of an endpoint
 * have one queue of events. Messages arrive in buffers of the library, which the program reads in
 * place and returns in any order.
 *
 * The URI contains a key: a process that can read the URI can connect, and no other; or both
 * processes have the key in a file, and the URI is no secret. Nothing that
 * another process has sent is examined before it has proved that it has the key. Errors of a
 * connection are events with a status; none of them ends the program, nor the job of MPI.
 *
 * The guide with an example is share/doc/combray/docs/user/endpoints.md. */
typedef struct combray_endpoint_s *combray_endpoint;

/* One end of a connection. Each connection ends with exactly one event COMBRAY_REJECTED,
 * COMBRAY_CLOSED or COMBRAY_LOST; the handle then names nothing. */
typedef struct combray_connection_s *combray_connection;

#define COMBRAY_ENDPOINT_NULL ((combray_endpoint)0)
#define COMBRAY_CONNECTION_NULL ((combray_connection)0)

/* The types of events. */
enum {
    /* There is no event. `connection` is COMBRAY_CONNECTION_NULL, or a connection of which the
     * program holds so many messages that its peer may be unable to send. */
    COMBRAY_EVENT_NONE = 0,
    /* Another process wants to connect; `data` is what it has sent for this. Call combray_accept or
     * combray_reject. */
    COMBRAY_CONNECT_REQUEST = 1,
    /* The other program has accepted a connection of combray_connect. */
    COMBRAY_CONNECTED = 2,
    /* A connection of combray_connect was not made. If the other program has rejected it, `status`
     * is MPI_SUCCESS and `data` is what it has sent. Otherwise `status` is the error: no process
     * has this URI, or it did not answer in time. */
    COMBRAY_REJECTED = 3,
    /* A message has arrived: `data`. */
    COMBRAY_RECEIVED = 4,
    /* A message that was sent with COMBRAY_NOTIFY has arrived in the other process, and its memory
     * may be used again. `context` is that of combray_send. */
    COMBRAY_SENT = 5,
    /* After combray_send, combray_memory_read, combray_memory_write or combray_memory_fence has
     * returned MPI_ERR_PENDING: call it again. */
    COMBRAY_WRITABLE = 6,
    /* Both programs have closed the connection, and all messages before that were received. */
    COMBRAY_CLOSED = 7,
    /* The other process has ended or cannot be reached any more, or it has sent more than it may;
     * `status` is the error. It is MPI_ERR_ACCESS if encrypted data was changed, repeated or left out
     * on its way. The last messages may be lost. */
    COMBRAY_LOST = 8,
    /* A combray_memory_read, combray_memory_write or combray_memory_fence has ended: with
     * COMBRAY_NOTIFY, or because the owner of the memory has refused it. `context` is that of the
     * call. `status` is MPI_SUCCESS, or MPI_ERR_BASE if the memory is not registered (any more) at
     * the endpoint of the other end, MPI_ERR_ACCESS or MPI_ERR_RMA_RANGE. */
    COMBRAY_COMPLETED = 9,
    /* After combray_keepalive: nothing has come from the other process for the time that was set,
     * although it was asked for a sign of life. Its program may be stopped, or the network
     * interrupted. The connection stays; wait on, or call combray_disconnect. The event comes once
     * for each silence. */
    COMBRAY_SILENT = 10,
    /* A thread has called combray_endpoint_wake. */
    COMBRAY_WOKEN = 11
};

/* An event. */
typedef struct {
    int type;
    /* MPI_SUCCESS or an error code, which combray_error_string describes. */
    int status;
    combray_connection connection;
    /* The pointer that the program has passed with the connection or the send. */
    void *context;
    /* Memory of the library, which the program may read and write until it returns the event;
     * aligned to 8 bytes. */
    void *data;
    size_t bytes;
    /* For combray_return. */
    size_t lent;
} combray_event;

enum {
    /* For combray_send: an event COMBRAY_SENT follows. For reads, writes and fences of registered
     * memory: an event COMBRAY_COMPLETED follows. */
    COMBRAY_NOTIFY = 1,
    /* For combray_send: the message arrives once, as soon as it is there, even if a message that was
     * sent before, or the data of a write, is still on its way. */
    COMBRAY_UNORDERED = 2,
    /* For combray_send, not with COMBRAY_NOTIFY: like COMBRAY_UNORDERED, but the message is dropped
     * if the other program holds all messages that it may hold, or the rails to its process are
     * busy with earlier messages. The call returns MPI_SUCCESS, and combray_dropped counts. So a
     * message that is delivered has not waited long. */
    COMBRAY_UNRELIABLE = 4
};

/* Opens an endpoint. If MPI is not initialized and no session is open, the process joins its job,
 * or becomes a job of its own. Functions of this interface may be called until all endpoints are
 * closed, also after MPI_Finalize.
 *
 * `options` is NULL or a list with commas of
 *   "memory=BYTES"   The memory for messages that have arrived and were not returned; 268435456
 * without this option, 65536 at least. A new connection gets a sixteenth of what is left as its
 * window, between 4 and 256 KiB: its peer may send as much before messages are returned. Each
 * message counts 64 bytes more than it has. A longer message than that may be sent while three
 * quarters of the window are free. If no memory is left, further connections are refused.
 *   "key=FILE"       Trust by a file that all programs have which connect to each other, in place of
 * a key in the URI: 16 to 4096 bytes that are hard to guess, which no other user may access. The URI
 * then contains nothing secret. The name of the file contains no comma.
 *   "encrypt"        All that leaves the machine of a connection of this endpoint is encrypted, in both
 * directions: data of requests, messages, and accesses to registered memory. Keys are computed from
 * the key of the URI or of the file, and from random numbers. The URI shows this option, so that an
 * endpoint without it encrypts when it connects to one with it. Shared memory is used as it is.
 *   "threads"        Several threads may call this interface at the same time, as with
 * MPI_THREAD_MULTIPLE. Without this option, the level of thread support of MPI applies.
 *
 * Errors: MPI_ERR_ARG for other options, a key file that cannot be read or has another length, or a
 * null pointer; MPI_ERR_ACCESS if other users may access the key file; MPI_ERR_OTHER if the process cannot join
 * its job, or the system refuses sockets. */
int combray_endpoint_open(const char *options, combray_endpoint *endpoint);

/* Writes the URI of the endpoint to `buffer`, which has `size` bytes; 256 are always enough.
 *
 * Errors: MPI_ERR_ARG if there is no such endpoint (for all functions), or `buffer` is a null
 * pointer; MPI_ERR_COUNT if `size` is too small. */
int combray_endpoint_uri(combray_endpoint endpoint, char *buffer, size_t size);

/* Returns in `*descriptor` a descriptor that is readable while the endpoint has events, for poll
 * and epoll. It belongs to the endpoint: do not read or close it. Call combray_endpoint_poll until
 * there is no event before each wait. The descriptor may also be readable when there is no event:
 * then poll, and wait again.
 *
 * Errors: MPI_ERR_ARG for a null pointer; MPI_ERR_OTHER if the system has no descriptors left. */
int combray_endpoint_descriptor(combray_endpoint endpoint, int *descriptor);

/* Returns in `*count` how many connections to the endpoint were closed before the other side had
 * proved that it has the key: it has another key, sends something else, is silent for 10 s, or many
 * connect at once. Such connections have no other effect.
 *
 * Errors: MPI_ERR_ARG for a null pointer. */
int combray_endpoint_refused(combray_endpoint endpoint, size_t *count);

/* Takes the next event from the queue. If there is none, waits up to `timeout` milliseconds; 0 does
 * not wait, and a negative number waits for ever. `event->type` is COMBRAY_EVENT_NONE if there was
 * no event.
 *
 * Errors: MPI_ERR_ARG for a null pointer. */
int combray_endpoint_poll(combray_endpoint endpoint, combray_event *event, int timeout);

/* Puts an event COMBRAY_WOKEN into the queue, unless one is there, so that a thread that waits in
 * combray_endpoint_poll, or for the descriptor, returns. For programs whose threads may call this
 * interface at the same time (option "threads"). */
int combray_endpoint_wake(combray_endpoint endpoint);

/* Returns the data of an event, which must not be used any more. Events may be returned in any
 * order, also after the end of the connection. Does nothing for an event without data. A program
 * that does not return messages stops its peers from sending more; peers of other connections are
 * not affected.
 *
 * Errors: MPI_ERR_ARG if the data was returned before, or is not of this endpoint. */
int combray_return(combray_endpoint endpoint, combray_event *event);

/* Closes an endpoint and all of its connections, without further events. What was sent arrives,
 * unless the other process does not respond for 2 s. Memory of sends with COMBRAY_NOTIFY may be
 * used again after their events only; so wait for them first. `*endpoint` becomes
 * COMBRAY_ENDPOINT_NULL.
 *
 * Errors: MPI_ERR_ARG for a null pointer. */
int combray_endpoint_close(combray_endpoint *endpoint);

/* Begins to connect to the endpoint with this URI, which may be in another process or this one.
 * Does not wait: the event COMBRAY_CONNECTED or COMBRAY_REJECTED follows. The other program gets
 * the `bytes` bytes at `data`, at most 1024, to decide whether it accepts. `context` is in all
 * events of the connection. The other program must answer within `timeout` milliseconds; 60 s if
 * `timeout` is negative.
 *
 * Errors: MPI_ERR_PORT if `uri` cannot be parsed, or is that of an endpoint with a key file and
 * `endpoint` has none; MPI_ERR_COUNT if `bytes` is too large;
 * MPI_ERR_BUFFER and MPI_ERR_ARG for null pointers; MPI_ERR_NO_SPACE if the endpoint has no memory
 * left for a connection. */
int combray_connect(combray_endpoint endpoint, const char *uri, const void *data, size_t bytes,
                    void *context, int timeout, combray_connection *connection);

/* Accepts the connection of an event COMBRAY_CONNECT_REQUEST: messages can be sent and received.
 * `context` is in all events of the connection.
 *
 * Errors: MPI_ERR_ARG if the connection does not wait for an answer; an event COMBRAY_LOST says so
 * if the other process has ended or given up. */
int combray_accept(combray_connection connection, void *context);

/* Rejects the connection of an event COMBRAY_CONNECT_REQUEST; no further event follows. The other
 * program gets the `bytes` bytes at `data`, at most 1024.
 *
 * Errors: those of combray_accept; MPI_ERR_COUNT if `bytes` is too large. */
int combray_reject(combray_connection connection, const void *data, size_t bytes);

/* Closes this end of a connection. What was sent arrives; messages that have not been received are
 * dropped at this end. The other program gets COMBRAY_CLOSED after the last message. So does this
 * one when the other end is closed, too, which its library does without a call of the program. A
 * connection of combray_connect that was not accepted yet ends with COMBRAY_CLOSED, too; a request
 * that waits for an answer is rejected, without an event. Reads and writes of registered memory that
 * are underway may end without having taken place.
 *
 * Errors: MPI_ERR_ARG if there is no such connection. */
int combray_disconnect(combray_connection connection);

/* From now on, an event COMBRAY_SILENT reports when nothing has come from the other process for
 * `milliseconds`; 0: no longer. After half of that time the library asks the other one for a sign of
 * life, which is given without a call of the program there (not with COMBRAY_HELPER=never). A
 * connection without this call, or on which messages arrive, causes no messages for it.
 *
 * Errors: MPI_ERR_ARG if there is no such connection, it is not accepted yet or closed, or for a
 * negative time. */
int combray_keepalive(combray_connection connection, int milliseconds);

/* Sends the `bytes` bytes at `data`, at most 1 GiB, as one message. Messages of a connection arrive
 * once and in order, except those with COMBRAY_UNORDERED or COMBRAY_UNRELIABLE. The memory may be
 * used again when the call returns; with COMBRAY_NOTIFY in `flags` only after the event
 * COMBRAY_SENT or the end of the connection, which saves a copy of long messages. The call does not
 * wait.
 *
 * A connection may end while its events are still in the queue: then the call returns MPI_ERR_ARG
 * before the program has taken the event COMBRAY_CLOSED or COMBRAY_LOST.
 *
 * Errors: MPI_ERR_PENDING if the other program must return messages first: the event
 * COMBRAY_WRITABLE follows, once; MPI_ERR_ARG if there is no such connection, it is not accepted
 * yet or closed, or for other flags; MPI_ERR_COUNT if the message is too long; MPI_ERR_BUFFER for a
 * null pointer. */
int combray_send(combray_connection connection, const void *data, size_t bytes, void *context, int flags);

/* Returns in `*count` how many messages of COMBRAY_UNRELIABLE this end of a connection has dropped.
 *
 * Errors: MPI_ERR_ARG if there is no such connection, or for a null pointer. */
int combray_dropped(combray_connection connection, size_t *count);

/* The name of memory that a program has registered. It has no pointers: pass it to other programs
 * in any way, for example in a message. */
typedef struct {
    unsigned char bytes[40];
} combray_memory;

/* What other programs may do with registered memory. */
enum { COMBRAY_MAY_READ = 1, COMBRAY_MAY_WRITE = 2 };

/* Lets the other ends of the connections of `endpoint`, now and later, read or write the `bytes`
 * bytes at `address`, if they get the name `*memory`. `permissions` is COMBRAY_MAY_READ,
 * COMBRAY_MAY_WRITE, or their sum. The memory stays registered until it is deregistered or the
 * endpoint is closed; the program may use it meanwhile, and coordinates that with the others by
 * messages. Registrations may overlap.
 *
 * Errors: MPI_ERR_ARG if there is no such endpoint, for other permissions, or if `memory` is a null
 * pointer; MPI_ERR_COUNT if `bytes` is 0; MPI_ERR_BUFFER if `address` is a null pointer;
 * MPI_ERR_NO_SPACE if the endpoint has 2^20 registered memories. */
int combray_memory_register(combray_endpoint endpoint, void *address, size_t bytes, int permissions,
                            combray_memory *memory);

/* Ends the registration. When the call returns, no other program reads or writes the memory any
 * more; those that still have the name get COMBRAY_COMPLETED with MPI_ERR_BASE.
 *
 * Errors: MPI_ERR_ARG if there is no such endpoint or `memory` is a null pointer; MPI_ERR_BASE if
 * the memory is not registered at this endpoint. */
int combray_memory_deregister(combray_endpoint endpoint, const combray_memory *memory);

/* Reads `bytes` bytes of `memory`, from byte `offset` on, to `address`. `memory` was registered at
 * the endpoint of the other end of `connection`. The memory at `address` is in use until the read or
 * the connection has ended. Between processes of one host that may copy each other's memory, the
 * copy is made in the call, without the other process; otherwise the call does not wait.
 *
 * A read returns what earlier writes of the same connection have written. Between a read and a later
 * write of the same bytes, and between operations of different connections, the program decides the
 * order by fences and events. Operations that have not ended when the connection ends have no event.
 *
 * Errors: MPI_ERR_PENDING if 1024 operations of the connection are underway: the event
 * COMBRAY_WRITABLE follows; MPI_ERR_ACCESS and MPI_ERR_RMA_RANGE if `memory` was registered without
 * COMBRAY_MAY_READ, or is shorter; MPI_ERR_BASE if it is no name; MPI_ERR_ARG if there is no such
 * connection, it is not accepted yet or closed, or for other flags; MPI_ERR_BUFFER and MPI_ERR_ARG
 * for null pointers. */
int combray_memory_read(combray_connection connection, const combray_memory *memory, size_t offset,
                        void *address, size_t bytes, void *context, int flags);

/* Writes the `bytes` bytes at `address` to `memory`, from byte `offset` on. The memory at `address`
 * is in use until the write or the connection has ended. If `message` is not NULL, the
 * `message_bytes` bytes there, which may be used again when the call returns, are sent as a message
 * that the other program gets when the bytes were written; not if the write was refused. Messages
 * that are sent later on this connection arrive after the bytes were written, too: combray_send
 * returns MPI_ERR_PENDING until the library has sent the data. There is no order within the bytes.
 *
 * Errors: those of combray_memory_read, for COMBRAY_MAY_WRITE; MPI_ERR_COUNT if the message has more
 * than 1 GiB. */
int combray_memory_write(combray_connection connection, const combray_memory *memory, size_t offset,
                         const void *address, size_t bytes, const void *message,
                         size_t message_bytes, void *context, int flags);

/* Reads and writes of the connection that are begun later take place after those that were begun
 * before have ended. With COMBRAY_NOTIFY, COMBRAY_COMPLETED reports that these have ended. The call
 * does not wait.
 *
 * Errors: MPI_ERR_PENDING and MPI_ERR_ARG as for combray_memory_read. */
int combray_memory_fence(combray_connection connection, void *context, int flags);

/* Writes the meaning of an error code to `buffer`, which has `size` bytes: at most `size` - 1
 * characters and a zero byte. MPI_MAX_ERROR_STRING bytes are always enough. The text of a code
 * names the call, the argument and its value; the last 256 texts are kept.
 *
 * Errors: MPI_ERR_ARG if `code` is not an error code or `buffer` is a null pointer. */
int combray_error_string(int code, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
