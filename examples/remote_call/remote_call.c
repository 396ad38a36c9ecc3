/* See remote_call.h. A call is one packed message to the server, whose header tells the service, the
 * object and under which tag the answer is awaited; the answer is one packed message back, whose first
 * segment tells how it went. */
#include "remote_call.h"

#include <stdio.h>
#include <stdlib.h>

enum { CALL_TAG = 0, SERVICES_MAX = 64, LEAVE = 0 };

static MPI_Comm world;
static remote_service *services[SERVICES_MAX];
static void **objects;
static int objects_count, objects_room;
static int next_answer_tag = CALL_TAG + 1;

static void check(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    if (code == MPI_SUCCESS)
        return;
    combray_error_string(code, text, sizeof text);
    fprintf(stderr, "remote_call: %s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CHECK(call) check(call, #call)

void remote_start(MPI_Comm communicator) {
    /* A communicator of its own keeps the library's messages apart from those of its user. */
    CHECK(MPI_Comm_dup(communicator, &world));
}

void remote_stop(void) {
    free(objects);
    objects = NULL;
    objects_count = objects_room = 0;
    CHECK(MPI_Comm_free(&world));
}

void remote_register(int number, remote_service *service) {
    if (number <= LEAVE || number >= SERVICES_MAX) {
        fprintf(stderr, "remote_call: service %d: the numbers are 1 to %d\n", number,
                SERVICES_MAX - 1);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    services[number] = service;
}

remote_object remote_object_new(void *object) {
    if (objects_count == objects_room) {
        objects_room = 2 * objects_room + 8;
        objects = realloc(objects, (size_t)objects_room * sizeof *objects);
        if (!objects) {
            fprintf(stderr, "remote_call: no memory for %d objects\n", objects_room);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    objects[objects_count++] = object;
    return objects_count;
}

void *remote_object_of(remote_object number) {
    return number > 0 && number <= objects_count ? objects[number - 1] : NULL;
}

void remote_object_forget(remote_object number) {
    if (number > 0 && number <= objects_count)
        objects[number - 1] = NULL;
}

void remote_result(remote_request *request, int status) {
    CHECK(combray_end_unpack(&request->arguments, NULL, MPI_STATUS_IGNORE));
    CHECK(combray_begin(world, request->caller, request->answer_tag, &request->result));
    /* In the request, since its memory must outlive this function. */
    request->status = status;
    CHECK(combray_pack(request->result, &request->status, sizeof status, COMBRAY_EXPRESS));
}

void remote_answer(remote_request *request) {
    CHECK(combray_end(&request->result, NULL));
}

/* Refuses a call: its arguments are not looked at, which combray_end_unpack rightly tells. */
static void refuse(remote_request *request, int status) {
    combray_end_unpack(&request->arguments, NULL, MPI_STATUS_IGNORE);
    CHECK(combray_begin(world, request->caller, request->answer_tag, &request->result));
    CHECK(combray_pack(request->result, &status, sizeof status, COMBRAY_EXPRESS));
    CHECK(combray_end(&request->result, NULL));
}

void remote_serve(int clients) {
    while (clients > 0) {
        remote_header header;
        MPI_Status status;
        remote_request request = {.result = COMBRAY_MESSAGE_NULL};
        CHECK(combray_begin_unpack(world, MPI_ANY_SOURCE, CALL_TAG, &request.arguments));
        CHECK(combray_unpack(request.arguments, &header, sizeof header, COMBRAY_EXPRESS));
        CHECK(combray_await(request.arguments, &status));
        request.caller = status.MPI_SOURCE;
        request.answer_tag = header.answer_tag;
        request.object = remote_object_of(header.object);
        if (header.service == LEAVE) {
            CHECK(combray_end_unpack(&request.arguments, NULL, MPI_STATUS_IGNORE));
            clients--;
        } else if (header.service < 0 || header.service >= SERVICES_MAX ||
                   !services[header.service]) {
            refuse(&request, REMOTE_NO_SERVICE);
        } else if (header.object && !request.object) {
            refuse(&request, REMOTE_NO_OBJECT);
        } else {
            services[header.service](&request);
            if (request.arguments != COMBRAY_MESSAGE_NULL)
                refuse(&request, REMOTE_NO_RESULT);
        }
    }
}

/* Begins a call to which an answer with this tag is awaited, or none with a negative one. */
static void begin(remote_call *call, int server, int service, remote_object object, int tag) {
    *call = (remote_call){.header = {.service = service, .object = object, .answer_tag = tag},
                          .sending = MPI_REQUEST_NULL};
    if (tag >= 0)
        CHECK(combray_begin_unpack(world, server, tag, &call->result));
    CHECK(combray_begin(world, server, CALL_TAG, &call->arguments));
    CHECK(combray_pack(call->arguments, &call->header, sizeof call->header, COMBRAY_EXPRESS));
}

void remote_begin(remote_call *call, int server, int service, remote_object object) {
    begin(call, server, service, object, next_answer_tag++);
}

void remote_send(remote_call *call) {
    CHECK(combray_end(&call->arguments, &call->sending));
}

int remote_is_answered(remote_call *call) {
    int flag;
    CHECK(combray_arrived(call->result, &flag, MPI_STATUS_IGNORE));
    return flag;
}

int remote_status(remote_call *call) {
    int status;
    CHECK(combray_unpack(call->result, &status, sizeof status, COMBRAY_EXPRESS));
    return status;
}

void remote_end(remote_call *call) {
    CHECK(combray_end_unpack(&call->result, NULL, MPI_STATUS_IGNORE));
    CHECK(MPI_Wait(&call->sending, MPI_STATUS_IGNORE));
}

void remote_leave(int server) {
    remote_call call;
    begin(&call, server, LEAVE, 0, -1);
    CHECK(combray_end(&call.arguments, NULL));
}
