// Random one-sided operations against a sequential model, on windows of all flavors: puts, gets,
// accumulates and their fetching and request forms, with derived datatypes on both sides, small and
// large, in epochs of all kinds; many at one target, apart from each other or after a flush; and
// counters that all processes add to concurrently. A second argument is a seed.
// each: auto never
// run: 1 2 3 5
// timeout: 60
// hosts
// checkers: address
#include "windows.h"

enum { SLOT = 100000, ROUNDS = CHECK_ROUNDS(40), OPERATIONS = 8, LANE = SLOT / OPERATIONS };
// Each part ends with counters, to which all processes add.
enum { COUNTERS = 4, ADDITIONS = 6 };

// The part of each process has a slot for each origin, so that their writes do not meet.
static int *model;
static int ints_per_part;

enum { FENCE, LOCK, LOCK_ALL, START, EPOCHS };
enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, KINDS };

// Where the elements of an operation are: `blocks` blocks of `length` ints, `stride` ints apart.
typedef struct {
    int blocks, length, stride;
} Shape;

typedef struct {
    int kind, target, begin, requests;
    // It begins where the one before does, after a flush.
    int follows;
    Shape shape, local;
    MPI_Op op;
} Operation;

static int min(int one, int other) { return one < other ? one : other; }

// A random shape with at most `room` ints from its first to its last.
static Shape shape_of(Random *random, int room) {
    int lengths[] = {1, 2, 50, 700, room / 100 + 1, room};
    int length = min(lengths[random_below(random, 6)], room);
    int stride = length + random_below(random, 4);
    int most = (room - length) / stride + 1;
    return (Shape){1 + random_below(random, most), length, stride};
}

// An equal number of ints in another shape.
static Shape reshaped(Random *random, Shape shape) {
    int total = shape.blocks * shape.length;
    if (random_below(random, 2)) return (Shape){1, total, total};
    int length = total % 2 ? 1 : 2;
    return (Shape){total / length, length, length + 1};
}

// Operation `number` of a process in an epoch: in a lane of its own, or, after a flush, where the
// one `before` was.
static Operation operation_of(Random *random, int number, const Operation *before) {
    MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_REPLACE, MPI_NO_OP};
    Operation made = {.kind = random_below(random, KINDS)};
    made.target = random_below(random, check_size);
    int place = random_below(random, LANE / 2);
    made.begin = number * LANE + place;
    int room = random_below(random, 2) ? LANE - place : 1 + random_below(random, 4);
    made.follows = before && random_below(random, 3) == 0;
    if (made.follows) {
        made.target = before->target;
        made.begin = before->begin;
        room = LANE / 2;
    }
    made.shape = shape_of(random, room);
    made.local = reshaped(random, made.shape);
    made.requests = random_below(random, 2);
    made.op = ops[random_below(random, 5)];
    return made;
}

static MPI_Datatype type_of(Shape shape) {
    MPI_Datatype type;
    OK(MPI_Type_vector(shape.blocks, shape.length, shape.stride, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

static int at(Shape shape, int index) {
    return index / shape.length * shape.stride + index % shape.length;
}

static int combined(MPI_Op op, int given, int there) {
    if (op == MPI_SUM) return (int)((unsigned)given + (unsigned)there);
    if (op == MPI_MAX) return given > there ? given : there;
    if (op == MPI_BXOR) return given ^ there;
    return op == MPI_REPLACE ? given : there;
}

static int given_value(int round, int origin, int number, int index) {
    return (round * 7 + origin) * 1000 + number * 100 + index * 31;
}

// What an operation of `origin` does to the model; what was there before goes to `before`.
static void simulate(const Operation *one, int round, int origin, int number, int *before) {
    int *slot = model + (size_t)one->target * (size_t)ints_per_part + origin * SLOT + one->begin;
    for (int i = 0; i < one->shape.blocks * one->shape.length; i++) {
        int *place = slot + at(one->shape, i), given = given_value(round, origin, number, i);
        if (before) before[i] = *place;
        if (one->kind == PUT) *place = given;
        if (one->kind >= ACCUMULATE) *place = combined(one->op, given, *place);
    }
}

typedef struct {
    int *send, *receive, *expected;
    MPI_Request request;
} Buffers;

static void begin(const Window *window, const Operation *one, int epoch, Buffers *buffers, int round,
                  int number) {
    int total = one->shape.blocks * one->shape.length;
    size_t room = (size_t)at(one->local, total - 1) + 1;
    buffers->send = malloc(room * sizeof(int));
    buffers->receive = malloc(room * sizeof(int));
    buffers->expected = malloc((size_t)total * sizeof(int));
    for (size_t i = 0; i < room; i++) buffers->send[i] = buffers->receive[i] = -1;
    for (int i = 0; i < total; i++)
        buffers->send[at(one->local, i)] = given_value(round, check_rank, number, i);
    MPI_Datatype local = type_of(one->local), remote = type_of(one->shape);
    MPI_Aint place = window_at(window, one->target,
                               (MPI_Aint)sizeof(int) * (check_rank * SLOT + one->begin));
    int target = one->target;
    void *send = buffers->send, *receive = buffers->receive;
    MPI_Win win = window->win;
    MPI_Request *request = &buffers->request;
    int with_request = one->requests && (epoch == LOCK || epoch == LOCK_ALL);
    *request = MPI_REQUEST_NULL;
    switch (one->kind + (with_request ? KINDS : 0)) {
        case PUT: OK(MPI_Put(send, 1, local, target, place, 1, remote, win)); break;
        case GET: OK(MPI_Get(receive, 1, local, target, place, 1, remote, win)); break;
        case ACCUMULATE:
            OK(MPI_Accumulate(send, 1, local, target, place, 1, remote, one->op, win));
            break;
        case GET_ACCUMULATE:
            OK(MPI_Get_accumulate(send, 1, local, receive, 1, local, target, place, 1, remote,
                                  one->op, win));
            break;
        case PUT + KINDS: OK(MPI_Rput(send, 1, local, target, place, 1, remote, win, request)); break;
        case GET + KINDS: OK(MPI_Rget(receive, 1, local, target, place, 1, remote, win, request)); break;
        case ACCUMULATE + KINDS:
            OK(MPI_Raccumulate_c(send, 1, local, target, place, 1, remote, one->op, win, request));
            break;
        case GET_ACCUMULATE + KINDS:
            OK(MPI_Rget_accumulate(send, 1, local, receive, 1, local, target, place, 1, remote,
                                   one->op, win, request));
            break;
    }
    OK(MPI_Type_free(&local));
    OK(MPI_Type_free(&remote));
}

static void verify(const Operation *one, Buffers *buffers, const char *flavor) {
    int wrong = 0, total = one->shape.blocks * one->shape.length;
    if (one->kind == GET || one->kind == GET_ACCUMULATE)
        for (int i = 0; i < total; i++)
            wrong += buffers->receive[at(one->local, i)] != buffers->expected[i];
    CHECK(wrong == 0, "%s: kind %d from rank %d: %d of %d wrong", flavor, one->kind, one->target,
          wrong, total);
    free(buffers->send);
    free(buffers->receive);
    free(buffers->expected);
}

static void open_epoch(const Window *window, int epoch, int target, MPI_Group all) {
    switch (epoch) {
        case FENCE: OK(MPI_Win_fence(0, window->win)); break;
        case LOCK: OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window->win)); break;
        case LOCK_ALL: OK(MPI_Win_lock_all(0, window->win)); break;
        case START:
            OK(MPI_Win_post(all, 0, window->win));
            OK(MPI_Win_start(all, 0, window->win));
            break;
    }
}

static void close_epoch(const Window *window, int epoch, int target) {
    switch (epoch) {
        case FENCE: OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win)); break;
        case LOCK: OK(MPI_Win_unlock(target, window->win)); break;
        case LOCK_ALL: OK(MPI_Win_unlock_all(window->win)); break;
        case START:
            OK(MPI_Win_complete(window->win));
            OK(MPI_Win_wait(window->win));
            break;
    }
}

// Each process adds to a counter of each target, with all others: nothing is lost, and a process
// that fetches sees its own additions in their order.
static void add_together(const Window *window, Random *random, int *counters) {
    int additions[64][ADDITIONS], places[64][ADDITIONS];
    for (int origin = 0; origin < check_size; origin++)
        for (int i = 0; i < ADDITIONS; i++) {
            int target = random_below(random, check_size), counter = random_below(random, COUNTERS);
            additions[origin][i] = 1 + random_below(random, 1000);
            places[origin][i] = target * COUNTERS + counter;
            counters[places[origin][i]] += additions[origin][i];
        }
    OK(MPI_Win_lock_all(0, window->win));
    int last[64 * COUNTERS];
    for (int i = 0; i < check_size * COUNTERS; i++) last[i] = -1;
    for (int i = 0; i < ADDITIONS; i++) {
        int place = places[check_rank][i], target = place / COUNTERS, before = -1;
        MPI_Aint at = window_at(window, target, (MPI_Aint)sizeof(int) *
                                                    (ints_per_part - COUNTERS + place % COUNTERS));
        int *add = &additions[check_rank][i];
        if (i % 3 == 0) {
            OK(MPI_Accumulate(add, 1, MPI_INT, target, at, 1, MPI_INT, MPI_SUM, window->win));
            continue;
        }
        if (i % 3 == 1)
            OK(MPI_Fetch_and_op(add, &before, MPI_INT, target, at, MPI_SUM, window->win));
        else
            OK(MPI_Get_accumulate(add, 1, MPI_INT, &before, 1, MPI_INT, target, at, 1, MPI_INT,
                                  MPI_SUM, window->win));
        OK(MPI_Win_flush(target, window->win));
        CHECK(before >= 0 && before >= last[place] && before <= counters[place] - *add,
              "%s: counter %d was %d", FLAVOR_NAMES[window->flavor], place, before);
        last[place] = before + *add;
    }
    OK(MPI_Win_unlock_all(window->win));
    for (int target = 0; target < check_size; target++)
        for (int i = 0; i < COUNTERS; i++)
            model[(size_t)(target + 1) * (size_t)ints_per_part - COUNTERS + (size_t)i] =
                counters[target * COUNTERS + i];
}

// Each process has some operations in one epoch, whose places at a target do not overlap, unless
// there is a flush between them.
static void one_round(const Window *window, Random *random, int round, MPI_Group all) {
    int epoch = random_below(random, EPOCHS), mine = 0;
    Operation own[OPERATIONS];
    Buffers buffers[OPERATIONS];
    int numbers[OPERATIONS];
    for (int origin = 0; origin < check_size; origin++) {
        Operation before;
        int flushes = epoch == LOCK || epoch == LOCK_ALL;
        for (int number = 0; number < OPERATIONS; number++) {
            Operation one = operation_of(random, number, number && flushes ? &before : NULL);
            if (epoch == LOCK && number) one.target = before.target;
            before = one;
            if (origin == check_rank) {
                numbers[mine] = number;
                own[mine++] = one;
            } else {
                simulate(&one, round, origin, number, NULL);
            }
        }
    }
    open_epoch(window, epoch, own[0].target, all);
    for (int i = 0; i < mine; i++) {
        if (own[i].follows) OK(MPI_Win_flush(own[i].target, window->win));
        begin(window, &own[i], epoch, &buffers[i], round, numbers[i]);
        simulate(&own[i], round, check_rank, numbers[i], buffers[i].expected);
    }
    if (epoch == LOCK) OK(MPI_Win_flush_local(own[0].target, window->win));
    if (epoch == LOCK_ALL && round % 2) OK(MPI_Win_flush_all(window->win));
    for (int i = 0; i < mine; i++) OK(MPI_Wait(&buffers[i].request, MPI_STATUS_IGNORE));
    close_epoch(window, epoch, own[0].target);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < mine; i++) verify(&own[i], &buffers[i], FLAVOR_NAMES[window->flavor]);
    const int *part = model + (size_t)check_rank * (size_t)ints_per_part, *memory = window->memory;
    int wrong = 0;
    for (int i = 0; i < ints_per_part; i++) wrong += memory[i] != part[i];
    REQUIRE(wrong == 0, "%s, round %d, epoch %d: %d of %d wrong", FLAVOR_NAMES[window->flavor],
            round, epoch, wrong, ints_per_part);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    window_sharing(argc, argv);
    check_begin();
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    ints_per_part = check_size * SLOT + COUNTERS;
    model = malloc(sizeof(int) * (size_t)ints_per_part * (size_t)check_size);
    MPI_Group all;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!window_exists(flavor)) continue;
        Random random = random_from(40 + (uint64_t)flavor + 100 * seed);
        int counters[64 * COUNTERS] = {0};
        memset(model, 0, sizeof(int) * (size_t)ints_per_part * (size_t)check_size);
        Window window = window_open(flavor, (MPI_Aint)sizeof(int) * ints_per_part);
        for (int round = 0; round < ROUNDS; round++) {
            if (round % 4 == 0) add_together(&window, &random, counters);
            one_round(&window, &random, round, all);
        }
        window_close(&window);
    }
    OK(MPI_Group_free(&all));
    free(model);
    return check_end();
}
