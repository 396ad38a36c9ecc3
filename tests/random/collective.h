// Collectives and the making of communicators, for one process.
#ifndef COLLECTIVE_H
#define COLLECTIVE_H

#include "tasks.h"

// Blocks of one buffer: what their data is named by, and how many units each has.
typedef struct {
    int count, shape;
    int a[PROCESSES_MAX], b[PROCESSES_MAX], units[PROCESSES_MAX];
} Blocks;

static int is_varied(int what) {
    return what == GATHERV || what == SCATTERV || what == ALLGATHERV || what == ALLTOALLV ||
           what == ALLTOALLW;
}

static void block_add(Blocks *blocks, const Operation *operation, int a, int b) {
    int units = operation->amount, low = a, high = b;
    // In place, as much goes back as comes.
    if (operation->in_place && a > b) {
        low = b;
        high = a;
    }
    if (is_varied(operation->what) && operation->what < ALLTOALLV) low = a, high = b;
    if (is_varied(operation->what))
        units = (int)(mix(operation->shape, 64 * (uint64_t)low + (uint64_t)high) %
                      (uint64_t)(operation->amount + 1));
    blocks->a[blocks->count] = a;
    blocks->b[blocks->count] = b;
    blocks->units[blocks->count++] = units;
}

// The contribution and the result of this process. Data that is equal for all receivers has the
// name 0.
static void blocks_of(const Operation *operation, Blocks *out, Blocks *in) {
    const Comm *comm = operation->comm;
    int side = comm->inter ? side_of(comm, me) : 0, peers = peers_of(comm, side);
    int what = operation->what, root = comm->member[operation->root_side][operation->root];
    int at_root = me == root, beside = comm->inter && side == operation->root_side;
    const int *member = comm->member[peers];
    out->shape = what == ALLTOALLW ? TYPED
                 : what == SCATTERV || what == ALLTOALLV ? VARIED : REGULAR;
    in->shape = what == ALLTOALLW ? TYPED
                : what == GATHERV || what == ALLGATHERV || what == ALLTOALLV ? VARIED : REGULAR;
    for (int i = 0; i < comm->size[peers]; i++) {
        if (what >= ALLTOALL || ((what == SCATTER || what == SCATTERV) && at_root))
            block_add(out, operation, me, member[i]);
        if (what >= ALLTOALL) block_add(in, operation, member[i], me);
        else if (what >= ALLGATHER || ((what == GATHER || what == GATHERV) && at_root))
            block_add(in, operation, member[i], 0);
    }
    if (what == ALLGATHER || what == ALLGATHERV || (what == BCAST && at_root) ||
        ((what == GATHER || what == GATHERV) && !beside))
        block_add(out, operation, me, 0);
    if (what == BCAST && !beside && !at_root) block_add(in, operation, root, 0);
    if ((what == SCATTER || what == SCATTERV) && !beside) block_add(in, operation, root, me);
}

static void put_all(unsigned char *image, const View *view, const Operation *operation,
                    const Blocks *blocks, int only) {
    for (int i = 0; i < blocks->count; i++)
        if (only < 0 || blocks->a[i] == only)
            put_block(image, view, i, operation, blocks->a[i], blocks->b[i], blocks->units[i]);
}

static void prepare_moves(Task *task) {
    Operation *operation = task->operation;
    int what = operation->what;
    Blocks out = {0}, in = {0};
    blocks_of(operation, &out, &in);
    if (!task->in) {
        Random random = task_random(task);
        int base = operation->base, unit = operation->unit;
        task->out_view = view_make(&random, base, unit, out.count, out.units, out.shape);
        task->in_view = view_make(&random, base, unit, in.count, in.units, in.shape);
        task->out_bytes = task->out_view.bytes;
        task->in_bytes = task->in_view.bytes;
    }
    task->compare = 1;
    clean(&task->out, task->out_bytes);
    clean(&task->in, task->in_bytes);
    clean(&task->expected, task->in_bytes);
    put_all(task->out, &task->out_view, operation, &out, -1);
    put_all(task->expected, &task->in_view, operation, &in, -1);
    if (operation->in_place && what >= ALLTOALL)
        for (int i = 0; i < out.count; i++)
            put_block(task->in, &task->in_view, i, operation, me, out.b[i], out.units[i]);
    else if (operation->in_place && what != SCATTER && what != SCATTERV && what != BCAST)
        put_all(task->in, &task->in_view, operation, &in, me);
    // At a root in place nothing is received.
    if (operation->in_place && (what == SCATTER || what == SCATTERV) && out.count > 0)
        memcpy(task->expected, task->in, (size_t)task->in_bytes);
    remember_out(task);
}

// How the result of a reduce-scatter is divided in the group of this process.
static int divide(const Operation *operation, int *counts) {
    const Comm *comm = operation->comm;
    int side = comm->inter ? side_of(comm, me) : 0, size = comm->size[side];
    int total = operation->amount * comm->size[0] * (comm->inter ? comm->size[1] : 1);
    for (int i = 0; i < size; i++) counts[i] = total / size;
    for (int i = 0; i < size && operation->what == REDUCE_SCATTER; i++) {
        int moved = (int)(mix(operation->shape, 900 + 10 * (uint64_t)side + (uint64_t)i) %
                          (uint64_t)(counts[i] + 1));
        counts[i] -= moved;
        counts[(i + 1) % size] += moved;
    }
    return total;
}

// The first element and the number of elements of this process's result; 0 if it has none.
static int result_of(const Operation *operation, int given, const int *counts, int *first) {
    const Comm *comm = operation->comm;
    int side = comm->inter ? side_of(comm, me) : 0, rank = rank_in(comm, side, me);
    *first = 0;
    switch (operation->what) {
    case REDUCE:
        return me == comm->member[operation->root_side][operation->root] ? given : 0;
    case EXSCAN: return rank > 0 ? given : 0;
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
        for (int i = 0; i < rank; i++) *first += counts[i];
        return counts[rank];
    default: return given;
    }
}

static void prepare_operation(Task *task) {
    Operation *operation = task->operation;
    int number = number_of(operation);
    Random random = task_random(task);
    task->stride = number_bytes[number];
    task->type = number_types[number];
    task->op = MPI_OP_NULL;
    if (number != AFFINE) {
        task->op = reduction_predefined(number, reduction_of(operation));
        return;
    }
    MPI_Datatype pair;
    task->stride += 4 * random_below(&random, 3);
    OK(MPI_Type_contiguous(2, MPI_UINT32_T, &pair));
    OK(MPI_Type_create_resized(pair, 0, task->stride, &task->type));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_commit(&task->type));
    OK(MPI_Op_create(combine_lines, 0, &task->op));
    task->made_op = 1;
}

static void prepare_reduction(Task *task, int *counts) {
    Operation *operation = task->operation;
    const Comm *comm = operation->comm;
    int side = comm->inter ? side_of(comm, me) : 0, peers = peers_of(comm, side), first;
    int sources = comm->size[peers], given = operation->amount, begun = task->in != NULL;
    if (operation->what == REDUCE_SCATTER || operation->what == REDUCE_SCATTER_BLOCK)
        given = divide(operation, counts);
    if (operation->what == SCAN) sources = rank_in(comm, 0, me) + 1;
    if (operation->what == EXSCAN) sources = rank_in(comm, 0, me);
    if (!begun) prepare_operation(task);
    int result = result_of(operation, given, counts, &first);
    int has_input = !(operation->what == REDUCE && comm->inter && side == operation->root_side);
    int in_place = operation->in_place && (operation->what != REDUCE || result > 0 || given == 0);
    task->out_bytes = has_input ? given * task->stride : 0;
    task->in_bytes = (in_place ? given : result) * task->stride;
    clean(&task->out, task->out_bytes);
    clean(&task->in, task->in_bytes);
    clean(&task->expected, task->in_bytes);
    for (int i = 0; i < given && has_input; i++)
        number_make(operation, me, i, task->out + i * task->stride);
    if (in_place) {
        memcpy(task->in, task->out, (size_t)task->in_bytes);
        memcpy(task->expected, task->in, (size_t)task->in_bytes);
    }
    for (int i = 0; i < result; i++)
        number_result(operation, comm->member[peers], sources, first + i,
                      task->expected + i * task->stride);
    // What else a buffer in place holds afterwards is left open.
    if (in_place && result * task->stride < task->in_bytes && operation->what != EXSCAN)
        task->in_bytes = result * task->stride;
    task->compare = !(operation->what == EXSCAN && sources == 0);
    remember_out(task);
}

static int root_argument(const Operation *operation) {
    const Comm *comm = operation->comm;
    if (!comm->inter || side_of(comm, me) != operation->root_side) return operation->root;
    return me == comm->member[operation->root_side][operation->root] ? MPI_ROOT : MPI_PROC_NULL;
}

// The three forms of each collective.
#define FORMS(blocking, begun, kept_ready, ...)                                                    \
    do {                                                                                           \
        if (form == BLOCKING) OK(blocking(__VA_ARGS__, comm));                                     \
        else if (form == NONBLOCKING) OK(begun(__VA_ARGS__, comm, &task->request));                \
        else OK(kept_ready(__VA_ARGS__, comm, MPI_INFO_NULL, &task->request));                     \
    } while (0)

static void call_move(Task *task) {
    Operation *operation = task->operation;
    const View *out = &task->out_view, *in = &task->in_view;
    MPI_Comm comm = operation->comm->handle;
    int form = task->role->form, what = operation->what, root = root_argument(operation);
    int at_root = me == operation->comm->member[operation->root_side][operation->root];
    int sc = out->count[0], rc = in->count[0];
    MPI_Datatype st = out->type[0], rt = in->type[0];
    const void *sb = task->out;
    void *rb = task->in;
    int rooted = what >= BCAST && what <= SCATTERV;
    if (operation->in_place && (what == SCATTER || what == SCATTERV)) {
        if (at_root) rb = MPI_IN_PLACE;
    } else if (operation->in_place && (!rooted || at_root)) {
        sb = MPI_IN_PLACE;
    }
    int *scs = out->count, *sds = out->displacement, *rcs = in->count, *rds = in->displacement;
    switch (what) {
    case BCAST:
        if (at_root) FORMS(MPI_Bcast, MPI_Ibcast, MPI_Bcast_init, task->out, sc, st, root);
        else FORMS(MPI_Bcast, MPI_Ibcast, MPI_Bcast_init, rb, rc, rt, root);
        break;
    case GATHER: FORMS(MPI_Gather, MPI_Igather, MPI_Gather_init, sb, sc, st, rb, rc, rt, root); break;
    case GATHERV:
        FORMS(MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init, sb, sc, st, rb, rcs, rds, rt, root);
        break;
    case SCATTER:
        FORMS(MPI_Scatter, MPI_Iscatter, MPI_Scatter_init, sb, sc, st, rb, rc, rt, root);
        break;
    case SCATTERV:
        FORMS(MPI_Scatterv, MPI_Iscatterv, MPI_Scatterv_init, sb, scs, sds, st, rb, rc, rt, root);
        break;
    case ALLGATHER:
        FORMS(MPI_Allgather, MPI_Iallgather, MPI_Allgather_init, sb, sc, st, rb, rc, rt);
        break;
    case ALLGATHERV:
        FORMS(MPI_Allgatherv, MPI_Iallgatherv, MPI_Allgatherv_init, sb, sc, st, rb, rcs, rds, rt);
        break;
    case ALLTOALL:
        FORMS(MPI_Alltoall, MPI_Ialltoall, MPI_Alltoall_init, sb, sc, st, rb, rc, rt);
        break;
    case ALLTOALLV:
        FORMS(MPI_Alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init, sb, scs, sds, st, rb, rcs, rds, rt);
        break;
    default:
        FORMS(MPI_Alltoallw, MPI_Ialltoallw, MPI_Alltoallw_init, sb, scs, out->at_int, out->type, rb,
              rcs, in->at_int, in->type);
    }
}

static void call_reduction(Task *task, const int *counts) {
    Operation *operation = task->operation;
    MPI_Comm comm = operation->comm->handle;
    MPI_Datatype type = task->type;
    MPI_Op op = task->op;
    int form = task->role->form, n = operation->amount, root = root_argument(operation);
    int at_root = me == operation->comm->member[operation->root_side][operation->root];
    const void *sb = task->out;
    void *rb = task->in;
    if (operation->in_place && (operation->what != REDUCE || at_root)) sb = MPI_IN_PLACE;
    switch (operation->what) {
    case REDUCE: FORMS(MPI_Reduce, MPI_Ireduce, MPI_Reduce_init, sb, rb, n, type, op, root); break;
    case ALLREDUCE:
        FORMS(MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init, sb, rb, n, type, op);
        break;
    case SCAN: FORMS(MPI_Scan, MPI_Iscan, MPI_Scan_init, sb, rb, n, type, op); break;
    case EXSCAN: FORMS(MPI_Exscan, MPI_Iexscan, MPI_Exscan_init, sb, rb, n, type, op); break;
    case REDUCE_SCATTER:
        FORMS(MPI_Reduce_scatter, MPI_Ireduce_scatter, MPI_Reduce_scatter_init, sb, rb, counts, type,
              op);
        break;
    default:
        FORMS(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block_init, sb,
              rb, counts[0], type, op);
    }
}

static void release_reduction(Task *task) {
    if (!task->made_op) return;
    OK(MPI_Op_free(&task->op));
    OK(MPI_Type_free(&task->type));
    task->made_op = 0;
}

static void begin_collective(Task *task) {
    Operation *operation = task->operation;
    int form = task->role->form, what = operation->what;
    MPI_Comm comm = operation->comm->handle;
    int *counts = keep(PROCESSES_MAX * sizeof *counts);
    if (what >= REDUCE) prepare_reduction(task, counts);
    else if (what != BARRIER) prepare_moves(task);
    if (task->request != MPI_REQUEST_NULL) {
        OK(MPI_Start(&task->request));
        task->state = ACTIVE;
        return;
    }
    if (what >= REDUCE) {
        call_reduction(task, counts);
    } else if (what == BARRIER) {
        if (form == BLOCKING) OK(MPI_Barrier(comm));
        else if (form == NONBLOCKING) OK(MPI_Ibarrier(comm, &task->request));
        else OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &task->request));
    } else {
        call_move(task);
    }
    if (operation->early_free) {
        view_release(&task->out_view);
        view_release(&task->in_view);
        release_reduction(task);
    }
    task->state = form == NONBLOCKING ? ACTIVE : FINISHED;
    if (form == BLOCKING) judge(task);
    else if (form == PERSISTENT && !operation->repeated) OK(MPI_Request_free(&task->request));
}

static void judge_comm(const Comm *comm) {
    int side = side_of(comm, me), size, rank, inter;
    if (side < 0) {
        CHECK(comm->handle == MPI_COMM_NULL, "a communicator that this process is not in");
        return;
    }
    REQUIRE(comm->handle != MPI_COMM_NULL, "no communicator");
    OK(MPI_Comm_size(comm->handle, &size));
    OK(MPI_Comm_rank(comm->handle, &rank));
    OK(MPI_Comm_test_inter(comm->handle, &inter));
    CHECK_EQ(size, comm->size[side]);
    CHECK_EQ(rank, rank_in(comm, side, me));
    CHECK_EQ(inter, comm->inter);
    if (!inter) return;
    OK(MPI_Comm_remote_size(comm->handle, &size));
    CHECK_EQ(size, comm->size[1 - side]);
}

// The members that `made` takes from the parent's group of this process.
static MPI_Group subset_of(const Operation *operation) {
    const Comm *parent = operation->comm;
    int side = side_of(parent, me), ranks[MEMBERS_MAX], count = 0;
    for (int least = 0; least < PROCESSES_MAX; least++)
        for (int i = 0; i < parent->size[side]; i++) {
            int process = parent->member[side][i];
            if (operation->color[process] == 0 && operation->key[process] == least)
                ranks[count++] = rank_in(parent, side, process);
        }
    MPI_Group all, some;
    OK(MPI_Comm_group(parent->handle, &all));
    OK(MPI_Group_incl(all, count, ranks, &some));
    OK(MPI_Group_free(&all));
    return some;
}

static void make_inter(Operation *operation) {
    Comm *made = operation->made[0];
    int side = operation->color[me], tag = TAG_CREATE + operation->index;
    MPI_Comm local;
    OK(MPI_Comm_split(operation->comm->handle, side, operation->key[me], &local));
    if (made->size[0] > 0)
        OK(MPI_Intercomm_create(local, operation->role[side].wildcard, control,
                                made->member[1 - side][operation->role[1 - side].wildcard], tag,
                                &made->handle));
    OK(MPI_Comm_free(&local));
}

static void begin_create(Task *task) {
    Operation *operation = task->operation;
    MPI_Comm comm = operation->comm->handle, handle = MPI_COMM_NULL;
    int color = operation->color[me], tag = TAG_CREATE + operation->index;
    MPI_Group group;
    task->state = FINISHED;
    switch (operation->what) {
    case DUP: OK(MPI_Comm_dup(comm, &operation->made[0]->handle)); break;
    case IDUP:
        OK(MPI_Comm_idup(comm, &operation->made[0]->handle, &task->request));
        task->state = ACTIVE;
        return;
    case SPLIT:
        OK(MPI_Comm_split(comm, color > 1 ? MPI_UNDEFINED : color, operation->key[me], &handle));
        if (color < 2) operation->made[color]->handle = handle;
        else CHECK(handle == MPI_COMM_NULL, "a communicator for no color");
        break;
    case SUBSET:
    case SUBSET_GROUP:
        group = subset_of(operation);
        if (operation->what == SUBSET)
            OK(MPI_Comm_create(comm, group, &operation->made[0]->handle));
        else if (color == 0)
            OK(MPI_Comm_create_group(comm, group, tag, &operation->made[0]->handle));
        OK(MPI_Group_free(&group));
        break;
    case INTER: make_inter(operation); break;
    default:
        OK(MPI_Intercomm_merge(comm, side_of(operation->comm, me) != operation->root_side,
                               &operation->made[0]->handle));
    }
    for (int i = 0; i < 2; i++)
        if (operation->made[i]) judge_comm(operation->made[i]);
}

#endif
