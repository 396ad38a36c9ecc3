// A random but valid program, planned by every process alike.
//
// Operations have one order. Operation k meets at time 4k + 1: a blocking call is made at that
// time. A nonblocking operation begins at any time up to 4k, and ends at any time from 4k + 2 on.
// So a process that blocks waits only for operations that all others begin before they can block
// themselves, and no program can hang. Operations that must match in order (messages of a channel,
// collectives of a communicator) begin in the order of operations on all processes, so that there
// is one outcome.
#ifndef PLAN_H
#define PLAN_H

#include "model.h"

enum { COMMS_MAX = 10, OPERATIONS_MAX = 60, TAGS = 3, PARTS_MAX = 16, MEMBERS_MAX = PROCESSES_MAX };

// Tags of single operations begin here; no other message has them.
enum { TAG_OWN = 100, TAG_NEVER = 20000, TAG_CREATE = 10000 };

typedef struct {
    MPI_Comm handle;
    int inter, alive;
    // The processes of the group or the two groups, by rank, as ranks in the job.
    int size[2], member[2][MEMBERS_MAX];
    // From when on it can be used, and when the latest collective began at each process.
    long ready, latest[PROCESSES_MAX];
    // Per channel: are tags ignored in the order, and when did the latest send and receive begin.
    int ordered[PROCESSES_MAX][PROCESSES_MAX];
    long sent[PROCESSES_MAX][PROCESSES_MAX][TAGS], received[PROCESSES_MAX][PROCESSES_MAX][TAGS];
    // The only process that sends messages there, or -1.
    int only_source[PROCESSES_MAX];
} Comm;

enum { MESSAGE, SHIFT, COLLECT, COLLECTIVE, CREATE, FREE, CANCEL, NOBODY };
enum { BLOCKING, NONBLOCKING, PERSISTENT, DETACHED, PROBED };
enum { STANDARD, SYNCHRONOUS, BUFFERED, READY };
enum {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV,
    ALLTOALLW, REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, COLLECTIVES
};
enum { DUP, IDUP, SPLIT, SUBSET, SUBSET_GROUP, INTER, MERGE, CREATIONS };

// What one process does in one operation.
typedef struct {
    int process, form, mode, wildcard;
    long start, done;
} Role;

typedef struct Operation {
    int kind, index, what, tag, base, unit, amount, in_place, number, reduction, early_free;
    Comm *comm;
    // Names the data of this operation, and what is unchanged when it is repeated.
    uint64_t name, shape;
    // The sides of a message are roles 0 and 1; a collective has one role per process. COLLECT has
    // the senders first and the receiver last.
    int roles, root_side, root;
    Role role[PARTS_MAX];
    // The repetitions of this operation with its persistent requests, before and after.
    struct Operation *previous;
    int repeated;
    // What a creation makes: one communicator, or two groups each its own.
    Comm *made[3];
    int color[PROCESSES_MAX], key[PROCESSES_MAX];
} Operation;

typedef struct {
    uint64_t seed;
    Random random;
    int processes, comms, operations;
    Comm comm[COMMS_MAX];
    Operation operation[OPERATIONS_MAX];
} Plan;

static int rank_in(const Comm *comm, int side, int process) {
    for (int i = 0; i < comm->size[side]; i++)
        if (comm->member[side][i] == process) return i;
    return -1;
}

static int side_of(const Comm *comm, int process) {
    if (rank_in(comm, 0, process) >= 0) return 0;
    return comm->inter && rank_in(comm, 1, process) >= 0 ? 1 : -1;
}

// The group that a process of this side names by ranks.
static int peers_of(const Comm *comm, int side) { return comm->inter ? 1 - side : 0; }

static long latest(long a, long b) { return a > b ? a : b; }

static Comm *plan_comm(Plan *plan) {
    Comm *comm = &plan->comm[plan->comms++];
    memset(comm, 0, sizeof *comm);
    comm->handle = MPI_COMM_NULL;
    comm->alive = 1;
    for (int to = 0; to < plan->processes; to++) {
        comm->only_source[to] = -1;
        for (int from = 0; from < plan->processes; from++)
            comm->ordered[from][to] = chance(&plan->random, 50);
    }
    return comm;
}

// Set once its members are decided.
static void plan_sources(Plan *plan, Comm *comm) {
    for (int side = 0; side <= comm->inter; side++)
        for (int i = 0; i < comm->size[side]; i++) {
            int peers = peers_of(comm, side);
            if (chance(&plan->random, 40))
                comm->only_source[comm->member[side][i]] =
                    comm->member[peers][random_below(&plan->random, comm->size[peers])];
        }
}

static int plan_amount(Plan *plan, const Operation *operation) {
    static const int most[] = {64, 64, 64, 64, 64, 64, 2000, 2000, 30000, 200000};
    Random *random = &plan->random;
    int which = random_below(random, 100), unit = operation->unit * bases[operation->base].bytes;
    if (which < 10) return 0;
    if (which == 99) which = 9;
    else if (which > 95) which = 8;
    else which %= 8;
    return 1 + random_below(random, 1 + most[which] / unit);
}

static void plan_data(Plan *plan, Operation *operation) {
    static const int units[] = {1, 2, 3, 4, 6, 12};
    operation->base = random_below(&plan->random, BASES);
    operation->unit = units[random_below(&plan->random, 6)];
    operation->amount = plan_amount(plan, operation);
}

// When a role begins and ends, not before `after`.
static void plan_times(Plan *plan, const Operation *operation, Role *role, long after) {
    long now = 4L * operation->index;
    long start = 4L * (operation->index - random_below(&plan->random, 8));
    long done = now + 2 + 4L * random_below(&plan->random, chance(&plan->random, 30) ? 30 : 8);
    if (role->form == BLOCKING || role->form == PROBED || role->mode == READY) start = now + 1;
    role->start = latest(start, after);
    role->done = role->form == BLOCKING ? now + 1 : done;
}

// The time after which a message may begin at one of its ends, so that its channel stays in order.
static long *channel(const Operation *operation, int from, int to, int sends) {
    Comm *comm = operation->comm;
    int slot = comm->ordered[from][to] ? 0 : operation->tag % TAGS;
    return sends ? &comm->sent[from][to][slot] : &comm->received[from][to][slot];
}

static void plan_end(Plan *plan, Operation *operation, Role *role, int from, int to, int sends,
                     long after) {
    long *last = channel(operation, from, to, sends);
    plan_times(plan, operation, role, latest(after, latest(*last, operation->comm->ready)));
    *last = role->start;
}

static void plan_sender(Plan *plan, Role *role, int process) {
    static const int forms[] = {BLOCKING, BLOCKING, NONBLOCKING, NONBLOCKING, PERSISTENT, DETACHED};
    role->process = process;
    role->form = forms[random_below(&plan->random, 6)];
    role->mode = chance(&plan->random, 50) ? STANDARD : random_below(&plan->random, 4);
}

static void plan_receiver(Plan *plan, Role *role, int process) {
    static const int forms[] = {BLOCKING, PROBED, PROBED, NONBLOCKING, NONBLOCKING, PERSISTENT};
    role->process = process;
    role->form = forms[random_below(&plan->random, 6)];
    role->mode = random_below(&plan->random, 4);
    if (role->mode == READY) role->mode = STANDARD;
}

static void plan_message_roles(Plan *plan, Operation *operation, int from, int to, int fixed) {
    Role *send = &operation->role[0], *receive = &operation->role[1];
    Operation *previous = operation->previous;
    // A persistent side stays as it is.
    if (!fixed || previous->role[0].form != PERSISTENT) plan_sender(plan, send, from);
    if (!fixed || previous->role[1].form != PERSISTENT) plan_receiver(plan, receive, to);
    int must_be_posted = send->mode == READY || (from == to && send->form == BLOCKING);
    if (must_be_posted && (receive->form == BLOCKING || receive->form == PROBED))
        receive->form = NONBLOCKING;
    long after[2] = {0, 0};
    for (int i = 0; i < 2 && fixed; i++)
        if (operation->role[i].form == PERSISTENT && previous->role[i].form == PERSISTENT)
            after[i] = previous->role[i].done;
    plan_end(plan, operation, send, from, to, 1, after[0]);
    plan_end(plan, operation, receive, from, to, 0, after[1]);
    operation->roles = 2;
}

static void plan_message(Plan *plan, Operation *operation) {
    Random *random = &plan->random;
    Comm *comm = operation->comm;
    int side = comm->inter ? random_below(random, 2) : 0, peers = peers_of(comm, side);
    int to = comm->member[side][random_below(random, comm->size[side])];
    int from = comm->only_source[to];
    if (from < 0) from = comm->member[peers][random_below(random, comm->size[peers])];
    plan_data(plan, operation);
    operation->tag = random_below(random, TAGS);
    Role *receive = &operation->role[1];
    receive->wildcard = 0;
    if (comm->ordered[from][to] && chance(random, 40)) receive->wildcard |= 1;
    if (comm->only_source[to] >= 0 && chance(random, 60)) receive->wildcard |= 2;
    plan_message_roles(plan, operation, from, to, 0);
}

// All processes send to one and receive from one.
static void plan_shift(Plan *plan, Operation *operation) {
    Comm *comm = operation->comm;
    int size = comm->size[0], to[MEMBERS_MAX];
    for (int i = 0; i < size; i++) {
        to[i] = i;
        if (comm->only_source[comm->member[0][i]] >= 0) operation->kind = COLLECTIVE;
    }
    if (comm->inter || operation->kind == COLLECTIVE) {
        operation->kind = NOBODY;
        operation->role[0].process = random_below(&plan->random, plan->processes);
        operation->role[0].start = 4L * operation->index + 1;
        operation->roles = 1;
        return;
    }
    shuffle(&plan->random, to, size);
    plan_data(plan, operation);
    operation->tag = random_below(&plan->random, TAGS);
    operation->roles = size;
    for (int i = 0; i < size; i++) {
        Role *role = &operation->role[i];
        int me = comm->member[0][i], next = comm->member[0][to[i]], before = -1;
        for (int j = 0; j < size; j++)
            if (to[j] == i) before = comm->member[0][j];
        *role = (Role){.process = me, .form = chance(&plan->random, 60) ? BLOCKING : NONBLOCKING,
                       .mode = random_below(&plan->random, 2)};
        long after = *channel(operation, before, me, 0);
        plan_end(plan, operation, role, me, next, 1, after);
        *channel(operation, before, me, 0) = role->start;
        operation->key[i] = to[i];
    }
}

// One process receives from any source, as many messages as come.
static void plan_collect(Plan *plan, Operation *operation) {
    Random *random = &plan->random;
    Comm *comm = operation->comm;
    int side = comm->inter ? random_below(random, 2) : 0, peers = peers_of(comm, side);
    int to = comm->member[side][random_below(random, comm->size[side])];
    int messages = 1 + random_below(random, 8);
    plan_data(plan, operation);
    operation->tag = TAG_OWN + operation->index;
    operation->roles = 0;
    Role receive = {.process = to, .form = chance(random, 50) ? BLOCKING : NONBLOCKING};
    plan_times(plan, operation, &receive, comm->ready);
    for (int i = 0; i < messages; i++) {
        int from = comm->member[peers][random_below(random, comm->size[peers])];
        if (from == to || (comm->only_source[to] >= 0 && comm->only_source[to] != from)) continue;
        Role *send = &operation->role[operation->roles++];
        *send = (Role){.process = from, .form = chance(random, 50) ? BLOCKING : NONBLOCKING,
                       .mode = random_below(random, 3)};
        receive.start = latest(receive.start, *channel(operation, from, to, 0));
        plan_end(plan, operation, send, from, to, 1, 0);
    }
    for (int i = 0; i < operation->roles; i++)
        *channel(operation, operation->role[i].process, to, 0) = receive.start;
    operation->role[operation->roles++] = receive;
}

static void plan_members(Plan *plan, Operation *operation, int form) {
    Comm *comm = operation->comm;
    operation->roles = 0;
    for (int side = 0; side <= comm->inter; side++)
        for (int i = 0; i < comm->size[side]; i++) {
            Role *role = &operation->role[operation->roles];
            int process = comm->member[side][i];
            long after = comm->latest[process];
            if (operation->previous)
                after = latest(after, operation->previous->role[operation->roles].done);
            *role = (Role){.process = process, .form = form};
            plan_times(plan, operation, role, after);
            if (form == PERSISTENT && !operation->previous)
                role->start = role->done = 4L * operation->index + 1;
            comm->latest[process] = role->start;
            operation->roles++;
        }
}

static void plan_collective(Plan *plan, Operation *operation) {
    Random *random = &plan->random;
    Comm *comm = operation->comm;
    plan_data(plan, operation);
    operation->what = random_below(random, comm->inter ? SCAN : COLLECTIVES);
    operation->root_side = comm->inter ? random_below(random, 2) : 0;
    operation->root = random_below(random, comm->size[operation->root_side]);
    operation->in_place = !comm->inter && chance(random, 30);
    operation->number = (int)(random_next(random) >> 33);
    operation->reduction = (int)(random_next(random) >> 33);
    if (operation->amount > 3000) operation->amount = 3000;
    plan_members(plan, operation, random_below(random, 3));
}

static void plan_group(const Operation *operation, Comm *made, int side, int color) {
    const Comm *comm = operation->comm;
    int from = comm->inter ? side : 0;
    for (int least = -9; least < 9; least++)
        for (int i = 0; i < comm->size[from]; i++) {
            int process = comm->member[from][i];
            if (operation->color[process] == color && operation->key[process] == least)
                made->member[side][made->size[side]++] = process;
        }
}

// A split of both groups alike: a colour that one group lacks makes nothing.
static void plan_split(Plan *plan, Operation *operation, int colors) {
    const Comm *comm = operation->comm;
    for (int color = 0; color < colors; color++) {
        Comm *made = operation->made[color] = plan_comm(plan);
        made->inter = comm->inter;
        for (int side = 0; side <= comm->inter; side++)
            plan_group(operation, made, side, color);
        if (made->size[0] == 0 || (comm->inter && made->size[1] == 0))
            made->alive = made->size[0] = made->size[1] = 0;
    }
}

static void plan_creation_kind(Plan *plan, Operation *operation) {
    Random *random = &plan->random;
    Comm *comm = operation->comm, *made;
    switch (operation->what) {
    case SPLIT: plan_split(plan, operation, 2); break;
    case SUBSET:
    case SUBSET_GROUP: plan_split(plan, operation, 1); break;
    case INTER:
        made = operation->made[0] = plan_comm(plan);
        made->inter = 1;
        for (int side = 0; side < 2; side++) plan_group(operation, made, side, side);
        if (made->size[0] == 0 || made->size[1] == 0) {
            made->size[0] = made->size[1] = made->alive = 0;
            break;
        }
        for (int side = 0; side < 2; side++)
            operation->role[side].wildcard = random_below(random, made->size[side]);
        break;
    case MERGE:
        made = operation->made[0] = plan_comm(plan);
        operation->root_side = random_below(random, 2);
        for (int part = 0; part < 2; part++) {
            int side = part ^ operation->root_side;
            for (int i = 0; i < comm->size[side]; i++)
                made->member[0][made->size[0]++] = comm->member[side][i];
        }
        break;
    default:
        made = operation->made[0] = plan_comm(plan);
        made->inter = comm->inter;
        memcpy(made->size, comm->size, sizeof comm->size);
        memcpy(made->member, comm->member, sizeof comm->member);
    }
}

static void plan_create(Plan *plan, Operation *operation) {
    Random *random = &plan->random;
    Comm *comm = operation->comm;
    do operation->what = random_below(random, CREATIONS);
    while (comm->inter ? operation->what == INTER || operation->what == SUBSET_GROUP
                       : operation->what == MERGE);
    for (int i = 0; i < plan->processes; i++) {
        operation->color[i] = random_below(random, operation->what == INTER ? 2 : 3);
        if (operation->what == SUBSET || operation->what == SUBSET_GROUP) operation->color[i] %= 2;
        // Keys differ, so that the order does not depend on the rule for equal ones.
        operation->key[i] = i;
    }
    shuffle(random, operation->key, plan->processes);
    plan_members(plan, operation, operation->what == IDUP ? NONBLOCKING : BLOCKING);
    plan_creation_kind(plan, operation);
    for (int i = 0; i < 3; i++) {
        Comm *made = operation->made[i];
        if (!made) continue;
        made->ready = 4L * (operation->index + 1);
        for (int process = 0; process < plan->processes; process++)
            made->latest[process] = made->ready;
        if (made->alive) plan_sources(plan, made);
    }
    for (int i = 0; i < operation->roles; i++)
        operation->role[i].done = 4L * operation->index + 2;
}

// An earlier operation once more, if its persistent requests are free by then.
static int plan_repeat(Plan *plan, Operation *operation) {
    for (int tries = 0; tries < 5 && operation->index > 0; tries++) {
        Operation *old = &plan->operation[random_below(&plan->random, operation->index)];
        int persistent = 0, late = 0;
        if ((old->kind != MESSAGE && old->kind != COLLECTIVE) || old->repeated || !old->comm->alive)
            continue;
        for (int i = 0; i < old->roles; i++) {
            persistent += old->role[i].form == PERSISTENT;
            late += old->role[i].done >= 4L * operation->index;
        }
        if (!persistent || late) continue;
        int index = operation->index;
        uint64_t name = operation->name;
        *operation = *old;
        operation->index = index;
        operation->name = name;
        operation->previous = old;
        old->repeated = 1;
        operation->repeated = 0;
        if (operation->kind == MESSAGE)
            plan_message_roles(plan, operation, old->role[0].process, old->role[1].process, 1);
        else
            plan_members(plan, operation, PERSISTENT);
        return 1;
    }
    return 0;
}

static void plan_operation(Plan *plan, Operation *operation) {
    Random *random = &plan->random;
    int which = random_below(random, 100);
    do operation->comm = &plan->comm[random_below(random, plan->comms)];
    while (!operation->comm->alive);
    if (which < 20 && plan_repeat(plan, operation)) return;
    if (which < 55) {
        operation->kind = MESSAGE;
        plan_message(plan, operation);
    } else if (which < 60) {
        operation->kind = SHIFT;
        plan_shift(plan, operation);
    } else if (which < 66) {
        operation->kind = COLLECT;
        plan_collect(plan, operation);
    } else if (which < 74 && plan->comms + 2 <= COMMS_MAX) {
        operation->kind = CREATE;
        plan_create(plan, operation);
    } else if (which < 76 && operation->comm != &plan->comm[0]) {
        operation->kind = FREE;
        plan_members(plan, operation, BLOCKING);
        operation->comm->alive = 0;
    } else if (which < 79) {
        operation->kind = CANCEL;
        operation->role[0].process = operation->comm->member[0][0];
        operation->role[0].start = 4L * operation->index + 1;
        operation->roles = 1;
    } else {
        operation->kind = COLLECTIVE;
        plan_collective(plan, operation);
    }
}

static void plan_make(Plan *plan, uint64_t seed, int processes) {
    memset(plan, 0, sizeof *plan);
    plan->seed = seed;
    plan->random = (Random){mix(seed, 1)};
    plan->processes = processes;
    Comm *world = plan_comm(plan);
    world->size[0] = processes;
    for (int i = 0; i < processes; i++) world->member[0][i] = i;
    plan_sources(plan, world);
    int operations = 5 + random_below(&plan->random, OPERATIONS_MAX - 4);
    for (int i = 0; i < operations; i++) {
        Operation *operation = &plan->operation[i];
        operation->index = i;
        operation->name = operation->shape = mix(seed, 1000 + (uint64_t)i);
        operation->early_free = chance(&plan->random, 50);
        plan_operation(plan, operation);
        plan->operations++;
    }
}

#endif
