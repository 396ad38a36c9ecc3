/* Remote calls over packed messages: a process calls services that others offer, on objects that live
 * there.
 *
 * A server registers services under numbers and serves until all its clients have left. A client begins
 * a call, packs its arguments, sends it, and unpacks the result when it wants it; any number of calls can
 * be underway at once, to one server or several. A failure of the messages ends the job with a text. */
#ifndef REMOTE_CALL_H
#define REMOTE_CALL_H

#include <combray.h>

/* An object as clients name it: valid at the server that gave it out. 0 is no object. */
typedef int remote_object;

/* How a call went. Services may return numbers of their own from 1 on. */
enum { REMOTE_OK = 0, REMOTE_NO_SERVICE = -1, REMOTE_NO_OBJECT = -2, REMOTE_NO_RESULT = -3 };

/* What a call begins with: the service, the object, and under which tag the answer is awaited. */
typedef struct {
    int service;
    remote_object object;
    int answer_tag;
} remote_header;

/* A call as the server sees it. */
typedef struct {
    int caller;                /* its rank */
    void *object;              /* what the client named; NULL for none */
    combray_message arguments; /* to be unpacked */
    combray_message result;    /* to be packed, after remote_result */
    int answer_tag;
    int status;
} remote_request;

/* A service: unpacks its arguments, calls remote_result, packs its results if it has any, and calls
 * remote_answer while they are still in memory. */
typedef void remote_service(remote_request *request);

/* A call as the client sees it. It stays where it is from remote_begin to remote_end. */
typedef struct {
    remote_header header;
    combray_message arguments; /* to be packed, after remote_begin */
    combray_message result;    /* to be unpacked, after remote_status */
    MPI_Request sending;
} remote_call;

/* All processes of a communicator begin and end to use the library. */
void remote_start(MPI_Comm communicator);
void remote_stop(void);

/* Server: offers a service under a number from 1 on. */
void remote_register(int number, remote_service *service);

/* Server: serves until so many clients have called remote_leave. */
void remote_serve(int clients);

/* Server: gives an object a number, looks one up (NULL if there is none), forgets one. */
remote_object remote_object_new(void *object);
void *remote_object_of(remote_object number);
void remote_object_forget(remote_object number);

/* Service: all arguments have been unpacked, and are there when this returns; `status` tells the client
 * how the call went, and results may be packed. */
void remote_result(remote_request *request, int status);

/* Service: the result is complete; the memory of what was packed is free again. */
void remote_answer(remote_request *request);

/* Client: begins a call of a service, on an object or none. */
void remote_begin(remote_call *call, int server, int service, remote_object object);

/* Client: all arguments are packed. Their memory stays as it is until remote_end. */
void remote_send(remote_call *call);

/* Client: whether the answer has begun to arrive; does not wait. */
int remote_is_answered(remote_call *call);

/* Client: waits for the answer and tells how the call went. If it is REMOTE_OK, the result follows. */
int remote_status(remote_call *call);

/* Client: the result was unpacked, and is there when this returns. */
void remote_end(remote_call *call);

/* Client: there will be no more calls to this server. */
void remote_leave(int server);

#endif
