// What this process has to do for one operation: buffers, what must be in them in the end, the
// call.
#ifndef TASKS_H
#define TASKS_H

#include "numbers.h"

enum { IDLE, ACTIVE, FINISHED };

typedef struct Task {
    Operation *operation;
    Role *role;
    int part, state, compare, made_op;
    View out_view, in_view;
    unsigned char *out, *out_copy, *in, *expected;
    long out_bytes, in_bytes;
    MPI_Request request;
    MPI_Op op;
    // Reductions: bytes from element to element.
    long stride;
    MPI_Datatype type;
    // COLLECT's receiver: one of each per message.
    MPI_Request requests[PARTS_MAX];
    View views[PARTS_MAX];
    unsigned char *many[PARTS_MAX];
    MPI_Status statuses[PARTS_MAX];
} Task;

static int me;
// Tokens and other internal messages, outside of the program's communicators.
static MPI_Comm control;
// Decisions of this process alone, which no other process sees.
static Random whim;

static Random task_random(const Task *task) {
    return (Random){mix(task->operation->shape, 50 + (uint64_t)task->part)};
}

static uint64_t block_name(const Operation *operation, int a, int b) {
    return mix(operation->name, 500 + 64 * (uint64_t)a + (uint64_t)b);
}

static long unit_bytes(const Operation *operation) {
    return (long)operation->unit * bases[operation->base].bytes;
}

static void put_block(unsigned char *image, const View *view, int block, const Operation *operation,
                      int a, int b, int units) {
    long bytes = units * unit_bytes(operation);
    view_put(image, view, block, message_bytes(block_name(operation, a, b), bytes), bytes);
}

static void remember_out(Task *task) {
    if (!task->out_copy) task->out_copy = keep((size_t)task->out_bytes);
    memcpy(task->out_copy, task->out, (size_t)task->out_bytes);
}

static void clean(unsigned char **image, long bytes) {
    if (!*image) *image = keep_message((size_t)bytes);
    memset(*image, UNTOUCHED, (size_t)bytes);
}

// The one block that goes out, named by (a, b).
static void prepare_out(Task *task, int a, int b) {
    Operation *operation = task->operation;
    Random random = task_random(task);
    if (!task->out) {
        task->out_view =
            view_make(&random, operation->base, operation->unit, 1, &operation->amount, REGULAR);
        task->out_bytes = task->out_view.bytes;
    }
    clean(&task->out, task->out_bytes);
    put_block(task->out, &task->out_view, 0, operation, a, b, operation->amount);
    remember_out(task);
}

static void prepare_in(Task *task, int a, int b) {
    Operation *operation = task->operation;
    Random random = task_random(task);
    if (!task->in) {
        int room = operation->amount + (random_below(&random, 2) ? random_below(&random, 4) : 0);
        task->in_view = view_make(&random, operation->base, operation->unit, 1, &room, REGULAR);
        task->in_bytes = task->in_view.bytes;
        task->compare = 1;
    }
    clean(&task->in, task->in_bytes);
    clean(&task->expected, task->in_bytes);
    put_block(task->expected, &task->in_view, 0, operation, a, b, operation->amount);
}

// The rank by which a process is named to `task`'s process in its communicator.
static int peer_rank(const Operation *operation, int process, int other) {
    const Comm *comm = operation->comm;
    return rank_in(comm, peers_of(comm, comm->inter ? side_of(comm, process) : 0), other);
}

static void send_token(const Operation *operation, int to) {
    OK(MPI_Send(NULL, 0, MPI_INT, to, TAG_OWN + operation->index, control));
}

static void begin_send(Task *task, int to) {
    typedef int Blocking(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    typedef int Begun(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    Blocking *const blocking[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
    Begun *const begun[] = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
    Begun *const kept_ready[] = {MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init, MPI_Rsend_init};
    Operation *operation = task->operation;
    Role *role = task->role;
    const View *view = &task->out_view;
    MPI_Comm comm = operation->comm->handle;
    int rank = peer_rank(operation, me, to), tag = operation->tag, count = view->count[0];
    MPI_Datatype type = view->type[0];
    if (role->mode == READY && to != me)
        OK(MPI_Recv(NULL, 0, MPI_INT, to, TAG_OWN + operation->index, control, MPI_STATUS_IGNORE));
    task->state = ACTIVE;
    switch (role->form) {
    case BLOCKING:
        if (role->mode == STANDARD && chance(&whim, 20))
            OK(MPI_Send_c(task->out, count, type, rank, tag, comm));
        else
            OK(blocking[role->mode](task->out, count, type, rank, tag, comm));
        task->state = FINISHED;
        break;
    case PERSISTENT:
        if (task->request == MPI_REQUEST_NULL)
            OK(kept_ready[role->mode](task->out, count, type, rank, tag, comm, &task->request));
        OK(MPI_Start(&task->request));
        break;
    default: OK(begun[role->mode](task->out, count, type, rank, tag, comm, &task->request));
    }
    if (role->form == DETACHED) {
        OK(MPI_Request_free(&task->request));
        task->state = FINISHED;
    }
    if (operation->early_free && role->form != PERSISTENT) view_release(&task->out_view);
}

static void judge_status(const Task *task, const View *view, const MPI_Status *status, int rank) {
    const Operation *operation = task->operation;
    long bytes = operation->amount * unit_bytes(operation);
    int count, elements, expected = (int)(bytes / view->layout[0]->bytes);
    MPI_Datatype type = view->type[0];
    CHECK_EQ(status->MPI_SOURCE, rank);
    CHECK_EQ(status->MPI_TAG, operation->tag);
    OK(MPI_Get_count(status, type, &count));
    OK(MPI_Get_elements(status, type, &elements));
    CHECK_EQ(count, expected);
    CHECK_EQ(elements, expected * view->layout[0]->entries);
}

static void judge(Task *task) {
    Operation *operation = task->operation;
    task->state = FINISHED;
    if (task->out)
        CHECK(!memcmp(task->out, task->out_copy, (size_t)task->out_bytes),
              "operation %d: what was sent has changed", operation->index);
    if (task->in && task->compare && memcmp(task->in, task->expected, (size_t)task->in_bytes)) {
        long at = 0;
        while (task->in[at] == task->expected[at]) at++;
        CHECK(0, "operation %d: byte %ld of %ld is 0x%02x, not 0x%02x", operation->index, at,
              task->in_bytes, task->in[at], task->expected[at]);
    }
    if (task->role->form == PERSISTENT) {
        CHECK(task->request != MPI_REQUEST_NULL, "a persistent request is gone");
        if (!operation->repeated) OK(MPI_Request_free(&task->request));
    }
    CHECK(task->role->form == PERSISTENT || task->request == MPI_REQUEST_NULL,
          "operation %d: its request is left", operation->index);
}

static void judge_received(Task *task, const MPI_Status *status) {
    judge_status(task, &task->in_view, status,
                 peer_rank(task->operation, me, task->operation->role[0].process));
    judge(task);
}

// A probe, then the receive of the message that it reports.
static void receive_probed(Task *task, int source, int tag) {
    const View *view = &task->in_view;
    MPI_Comm comm = task->operation->comm->handle;
    int count = view->count[0], found = 0, how = random_below(&whim, 4);
    MPI_Status status;
    MPI_Message message;
    if (how < 2) {
        if (how == 0) OK(MPI_Probe(source, tag, comm, &status));
        else
            while (!found) OK(MPI_Iprobe(source, tag, comm, &found, &status));
        OK(MPI_Recv(task->in, count, view->type[0], status.MPI_SOURCE, status.MPI_TAG, comm, &status));
        judge_received(task, &status);
        return;
    }
    if (how == 2) OK(MPI_Mprobe(source, tag, comm, &message, &status));
    else
        while (!found) OK(MPI_Improbe(source, tag, comm, &found, &message, &status));
    if (chance(&whim, 50)) {
        OK(MPI_Imrecv(task->in, count, view->type[0], &message, &task->request));
    } else {
        OK(MPI_Mrecv(task->in, count, view->type[0], &message, &status));
        judge_received(task, &status);
    }
}

static void begin_receive(Task *task) {
    Operation *operation = task->operation;
    Role *role = task->role;
    const View *view = &task->in_view;
    MPI_Comm comm = operation->comm->handle;
    int source = peer_rank(operation, me, operation->role[0].process), tag = operation->tag;
    int count = view->count[0];
    MPI_Datatype type = view->type[0];
    MPI_Status status;
    if (role->wildcard & 1) tag = MPI_ANY_TAG;
    if (role->wildcard & 2) source = MPI_ANY_SOURCE;
    task->state = ACTIVE;
    switch (role->form) {
    case BLOCKING:
        OK(MPI_Recv(task->in, count, type, source, tag, comm, &status));
        judge_received(task, &status);
        break;
    case PROBED: receive_probed(task, source, tag); break;
    case PERSISTENT:
        if (task->request == MPI_REQUEST_NULL)
            OK(MPI_Recv_init(task->in, count, type, source, tag, comm, &task->request));
        OK(MPI_Start(&task->request));
        break;
    default: OK(MPI_Irecv(task->in, count, type, source, tag, comm, &task->request));
    }
}

// MPI_Sendrecv and its relatives.
static void begin_shift(Task *task) {
    Operation *operation = task->operation;
    const Comm *comm = operation->comm;
    int rank = task->part, to = operation->key[rank], from = 0;
    while (operation->key[from] != rank) from++;
    View *out = &task->out_view, *in = &task->in_view;
    MPI_Comm handle = comm->handle;
    MPI_Status status;
    int tag = operation->tag, begun = task->role->form == NONBLOCKING;
    prepare_out(task, comm->member[0][rank], 0);
    // Elsewhere MPI_Isendrecv_replace has been seen to bring wrong data.
    if (task->role->mode && (check_is_combray || !begun)) {
        // One memory for both directions.
        task->in = task->out;
        task->out = NULL;
        *in = *out;
        task->in_bytes = in->bytes;
        task->compare = 1;
        clean(&task->expected, in->bytes);
        put_block(task->expected, in, 0, operation, comm->member[0][from], 0, operation->amount);
        if (begun)
            OK(MPI_Isendrecv_replace(task->in, in->count[0], in->type[0], to, tag, from, tag, handle,
                                     &task->request));
        else
            OK(MPI_Sendrecv_replace(task->in, in->count[0], in->type[0], to, tag, from, tag, handle,
                                    &status));
    } else {
        prepare_in(task, comm->member[0][from], 0);
        if (begun)
            OK(MPI_Isendrecv(task->out, out->count[0], out->type[0], to, tag, task->in, in->count[0],
                             in->type[0], from, tag, handle, &task->request));
        else
            OK(MPI_Sendrecv(task->out, out->count[0], out->type[0], to, tag, task->in, in->count[0],
                            in->type[0], from, tag, handle, &status));
    }
    task->state = ACTIVE;
    if (begun) return;
    judge_status(task, in, &status, from);
    judge(task);
}

// Messages from any source: which receive gets which is open, but the messages of one sender come
// in order.
static void finish_collect(Task *task) {
    Operation *operation = task->operation;
    int messages = operation->roles - 1, seen[PARTS_MAX] = {0};
    if (task->role->form == NONBLOCKING) OK(MPI_Waitall(messages, task->requests, task->statuses));
    for (int i = 0; i < messages; i++) {
        const View *view = &task->views[i];
        int source = task->statuses[i].MPI_SOURCE, part = 0;
        while (part < messages &&
               (seen[part] || peer_rank(operation, me, operation->role[part].process) != source))
            part++;
        if (part == messages) {
            CHECK(0, "operation %d: nobody sent from rank %d", operation->index, source);
            continue;
        }
        seen[part] = 1;
        judge_status(task, view, &task->statuses[i], source);
        unsigned char *expected = image_make(view->bytes);
        put_block(expected, view, 0, operation, operation->role[part].process, part,
                  operation->amount);
        CHECK(!memcmp(task->many[i], expected, (size_t)view->bytes),
              "operation %d: message %d from rank %d differs", operation->index, i, source);
    }
    task->state = FINISHED;
}

static void begin_collect(Task *task) {
    Operation *operation = task->operation;
    int messages = operation->roles - 1, tag = operation->tag;
    MPI_Comm comm = operation->comm->handle;
    Random random = task_random(task);
    task->state = ACTIVE;
    for (int i = 0; i < messages; i++) {
        View *view = &task->views[i];
        *view = view_make(&random, operation->base, operation->unit, 1, &operation->amount, REGULAR);
        task->many[i] = image_make(view->bytes);
        if (task->role->form == NONBLOCKING) {
            OK(MPI_Irecv(task->many[i], view->count[0], view->type[0], MPI_ANY_SOURCE, tag, comm,
                         &task->requests[i]));
            continue;
        }
        int source = MPI_ANY_SOURCE;
        if (chance(&whim, 40)) {
            MPI_Status status;
            OK(MPI_Probe(MPI_ANY_SOURCE, tag, comm, &status));
            source = status.MPI_SOURCE;
        }
        OK(MPI_Recv(task->many[i], view->count[0], view->type[0], source, tag, comm,
                    &task->statuses[i]));
    }
    if (task->role->form == BLOCKING) finish_collect(task);
}

#endif
