/* Processes whose threads all communicate at once: message rate, and bandwidth of hybrid programs. */
#define _POSIX_C_SOURCE 200112L
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>

#if __has_include(<combray_threads.h>)
#include <combray_threads.h>
#define HAS_OWN_THREADS 1
#else
#define HAS_OWN_THREADS 0
#endif

enum { TAG_ACKNOWLEDGE = 1000, TAG_DATA = 2000 };

/* Threads are woken and awaited once per batch: it must be long beside that, and long beside the
 * time slices that threads get where they outnumber cores. */
static const double BATCH_SECONDS_MIN = 0.02;

struct team;

/* One thread, and the memory of its messages, or its strip of a halo exchange. */
struct member {
    struct team *team;
    int number;
    char *buffer;
    MPI_Request *requests;
    double *now, *next;
};

/* Threads of the system, or those of the library (combray_threads.h). */
enum kind { KERNEL_THREADS, OWN_THREADS, KINDS };

/* The threads of one process, each with its counterpart in the peer. Of kernel threads the first is
 * the thread that calls the team; the others, and all of the library's, sleep until there is
 * something to do. */
struct team {
    const struct job *job;
    enum kind kind;
    void (*act)(struct member *, long iterations);
    int rows;                   /* of each strip; 0: this is no halo exchange */
    bool talks;                 /* strips tell each other their edges */
    int threads;
    bool own_communicators;
    MPI_Comm comms[THREADS_MAX];
    int peer;
    bool sends;
    int window, bytes;
    unsigned seed;
    struct member members[THREADS_MAX];
    pthread_t handles[THREADS_MAX];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    long iterations;            /* of the present turn; negative: the end */
    int turn, working;
#if HAS_OWN_THREADS
    combray_thread own[THREADS_MAX];
    combray_barrier begin, end; /* of a turn, for the library's threads and their caller */
#endif
};

static void exchange(struct member *member, long iterations)
{
    struct team *team = member->team;
    MPI_Comm comm = team->comms[team->own_communicators ? member->number : 0];
    int acknowledge = TAG_ACKNOWLEDGE + member->number, data = TAG_DATA + member->number;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < team->window; k++) {
            char *place = member->buffer + (size_t)k * (size_t)team->bytes;
            if (team->sends)
                MPI_Isend(place, team->bytes, MPI_BYTE, team->peer, data, comm,
                          &member->requests[k]);
            else
                MPI_Irecv(place, team->bytes, MPI_BYTE, team->peer, data, comm,
                          &member->requests[k]);
        }
        MPI_Waitall(team->window, member->requests, MPI_STATUSES_IGNORE);
        if (team->sends)
            MPI_Recv(NULL, 0, MPI_BYTE, team->peer, acknowledge, comm, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, team->peer, acknowledge, comm);
    }
}

enum { COLUMNS = 512 };

/* Strips of both processes in turn, so that both neighbours of each are in the other process. */
static int strip_of(const struct member *member)
{
    return 2 * member->number + (member->team->sends ? 0 : 1);
}

static void exchange_edges(struct member *member)
{
    struct team *team = member->team;
    int strips = 2 * team->threads, own = strip_of(member);
    int above = (own + strips - 1) % strips, below = (own + 1) % strips;
    double *last = member->now + team->rows * COLUMNS;
    MPI_Request *requests = member->requests;
    MPI_Irecv(member->now, COLUMNS, MPI_DOUBLE, team->peer, 2 * own, team->comms[0], &requests[0]);
    MPI_Irecv(last + COLUMNS, COLUMNS, MPI_DOUBLE, team->peer, 2 * own + 1, team->comms[0],
              &requests[1]);
    MPI_Isend(member->now + COLUMNS, COLUMNS, MPI_DOUBLE, team->peer, 2 * above + 1,
              team->comms[0], &requests[2]);
    MPI_Isend(last, COLUMNS, MPI_DOUBLE, team->peer, 2 * below, team->comms[0], &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* Computing alone takes strips in turn, too: one that stays with a strip finds it in its cache. */
static void give_way(void)
{
#if HAS_OWN_THREADS
    combray_thread_yield();
#endif
}

/* Each point becomes the mean of its four neighbours. */
static void relax(struct member *member, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        if (member->team->talks)
            exchange_edges(member);
        else
            give_way();
        for (int row = 1; row <= member->team->rows; row++) {
            const double *above = member->now + (row - 1) * COLUMNS;
            const double *here = above + COLUMNS, *below = here + COLUMNS;
            double *to = member->next + row * COLUMNS;
            for (int column = 1; column < COLUMNS - 1; column++)
                to[column] = 0.25 * (above[column] + below[column] + here[column - 1]
                                     + here[column + 1]);
        }
        double *now = member->now;
        member->now = member->next;
        member->next = now;
    }
}

static void *work(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    for (int turn = 1;; turn++) {
        pthread_mutex_lock(&team->mutex);
        while (team->turn != turn)
            pthread_cond_wait(&team->changed, &team->mutex);
        long iterations = team->iterations;
        pthread_mutex_unlock(&team->mutex);
        if (iterations < 0)
            return NULL;
        team->act(member, iterations);
        pthread_mutex_lock(&team->mutex);
        if (--team->working == 0)
            pthread_cond_broadcast(&team->changed);
        pthread_mutex_unlock(&team->mutex);
    }
}

static void call_team(struct team *team, long iterations)
{
    pthread_mutex_lock(&team->mutex);
    team->iterations = iterations;
    team->working = team->threads - 1;
    team->turn++;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->mutex);
}

#if HAS_OWN_THREADS

static void *take_turns(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    for (;;) {
        combray_barrier_wait(&team->begin);
        if (team->iterations < 0)
            return NULL;
        team->act(member, team->iterations);
        combray_barrier_wait(&team->end);
    }
}

static void open_own(struct team *team)
{
    combray_barrier_init(&team->begin, (unsigned)team->threads + 1);
    combray_barrier_init(&team->end, (unsigned)team->threads + 1);
    for (int i = 0; i < team->threads; i++)
        if (combray_thread_create(&team->own[i], NULL, NULL, take_turns, &team->members[i]) != 0)
            job_fail(team->job, "cannot start %d threads of the library", team->threads);
}

static void run_own(struct team *team, long iterations)
{
    team->iterations = iterations;
    combray_barrier_wait(&team->begin);
    if (iterations >= 0)
        combray_barrier_wait(&team->end);
}

static void close_own(struct team *team)
{
    run_own(team, -1);
    for (int i = 0; i < team->threads; i++)
        combray_thread_join(team->own[i], NULL);
    combray_barrier_destroy(&team->begin);
    combray_barrier_destroy(&team->end);
}

#else
static void open_own(struct team *team) { (void)team; }
static void run_own(struct team *team, long iterations) { (void)team, (void)iterations; }
static void close_own(struct team *team) { (void)team; }
#endif

static void run_team(void *state, long iterations)
{
    struct team *team = state;
    if (team->kind == OWN_THREADS) {
        run_own(team, iterations);
        return;
    }
    call_team(team, iterations);
    team->act(&team->members[0], iterations);
    pthread_mutex_lock(&team->mutex);
    while (team->working > 0)
        pthread_cond_wait(&team->changed, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

static void check_team(void *state)
{
    struct team *team = state;
    size_t total = (size_t)team->window * (size_t)team->bytes;
    for (int i = 0; i < team->threads; i++)
        pattern_fill(team->members[i].buffer, total,
                     team->sends ? team->seed + (unsigned)i : team->seed + 1000);
    run_team(team, 1);
    for (int i = 0; i < team->threads && !team->sends; i++)
        pattern_expect(team->job, team->members[i].buffer, total, team->seed + (unsigned)i);
    team->seed += THREADS_MAX;
}

/* Each strip holds its own number, so the expected edges of the neighbours are known. */
static void check_strips(void *state)
{
    struct team *team = state;
    int strips = 2 * team->threads, points = (team->rows + 2) * COLUMNS;
    for (int i = 0; i < team->threads; i++)
        for (int point = 0; point < points; point++)
            team->members[i].now[point] = team->members[i].next[point]
                                        = strip_of(&team->members[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    run_team(team, 1);
    for (int i = 0; i < team->threads && team->talks; i++) {
        int own = strip_of(&team->members[i]);
        double above = (own + strips - 1) % strips, below = (own + 1) % strips;
        const double *told = team->members[i].next;
        if (told[1] != above || told[points - 2] != below)
            job_fail(team->job, "strip %d got wrong edges", own);
    }
}

static void open_team(struct team *team)
{
    const struct job *job = team->job;
    size_t total = (size_t)team->window * (size_t)team->bytes;
    size_t strip = (size_t)(team->rows + 2) * COLUMNS * sizeof(double);
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->changed, NULL);
    for (int i = 0; i < team->threads; i++) {
        struct member *member = &team->members[i];
        *member = (struct member){
            .team = team,
            .number = i,
            .buffer = buffer_new(job, total),
            .requests = buffer_new(job, (size_t)team->window * sizeof(MPI_Request)),
            .now = team->rows ? buffer_new(job, strip) : NULL,
            .next = team->rows ? buffer_new(job, strip) : NULL,
        };
        if (i == 0 || team->own_communicators)
            MPI_Comm_dup(MPI_COMM_WORLD, &team->comms[i]);
        if (team->kind == KERNEL_THREADS && i > 0
            && pthread_create(&team->handles[i], NULL, work, member) != 0)
            job_fail(job, "cannot start %d threads", team->threads);
    }
    if (team->kind == OWN_THREADS)
        open_own(team);
}

static void close_team(struct team *team)
{
    if (team->kind == OWN_THREADS)
        close_own(team);
    else
        call_team(team, -1);
    for (int i = 0; i < team->threads; i++) {
        if (team->kind == KERNEL_THREADS && i > 0)
            pthread_join(team->handles[i], NULL);
        if (i == 0 || team->own_communicators)
            MPI_Comm_free(&team->comms[i]);
        free(team->members[i].buffer);
        free(team->members[i].requests);
        free(team->members[i].now);
        free(team->members[i].next);
    }
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->mutex);
}

static struct team team_of(struct job *job, const struct row *row, int window)
{
    int half = job->size / 2;
    return (struct team){
        .job = job,
        .act = exchange,
        .threads = (int)row->value,
        .peer = job->rank < half ? job->rank + half : job->rank - half,
        .sends = job->rank < half,
        .window = window,
        .bytes = (int)row->bytes,
        .seed = (unsigned)row->value,
    };
}

/* Measures teams of `row.value` threads in each process, in alternation. */
static void measure_teams(struct job *job, const struct row *row, struct team *teams, int count,
                          struct timing *timings)
{
    struct operation operations[OPERATIONS_TOGETHER];
    double seconds = job->options.batch_seconds;
    job_describe(job, row->benchmark, row->variant, row->bytes);
    for (int i = 0; i < count; i++) {
        open_team(&teams[i]);
        operations[i] = (struct operation){
            .run = run_team,
            .check = teams[i].rows ? check_strips : check_team,
            .state = &teams[i],
            .comm = MPI_COMM_WORLD,
            .clock = CLOCK_SLOWEST,
            .share = 1.0,
        };
    }
    if (seconds < BATCH_SECONDS_MIN)
        job->options.batch_seconds = BATCH_SECONDS_MIN;
    measure(job, operations, count, timings);
    job->options.batch_seconds = seconds;
    for (int i = 0; i < count; i++)
        close_team(&teams[i]);
}

/* Measures a team of kernel threads. */
static void measure_team(struct job *job, struct row row, int window, bool own_communicators)
{
    static struct team team;
    team = team_of(job, &row, window);
    team.own_communicators = own_communicators;
    row.processes = job->size;
    row.parameter = "threads";
    row.bytes_total = row.bytes * (size_t)(window * (job->size / 2)) * (size_t)row.value;
    measure_teams(job, &row, &team, 1, &row.timing);
    report_row(job, &row);
}

static bool can_run(const struct job *job, const char *benchmark, const struct list *counts)
{
    char note[128];
    int provided;
    bool several = false;
    MPI_Query_thread(&provided);
    for (int i = 0; i < counts->length; i++)
        several = several || counts->values[i] > 1;
    bool allowed = !several || provided == MPI_THREAD_MULTIPLE;
    if (allowed && job->size % 2 == 0)
        return true;
    snprintf(note, sizeof note, "%s left out: it needs %s", benchmark,
             allowed ? "an even number of processes"
                     : "MPI_THREAD_MULTIPLE, which --multiple asks for");
    report_note(job, note);
    return false;
}

void bench_threads(struct job *job)
{
    static const char *const variants[] = {"one communicator", "own communicators"};
    report_section(job, "threads",
                   "each thread sends a window of messages to its peer, which answers; time of all",
                   false);
    struct list sizes = list_or_powers(&job->options.sizes, 8, 2, 8);
    struct list counts = list_or_powers(&job->options.threads, 1, 2, 8);
    if (!can_run(job, "threads", &counts))
        return;
    for (int i = 0; i < sizes.length; i++)
        for (int own = 1; own >= 0; own--)
            for (int k = 0; k < counts.length; k++) {
                struct row row = {.benchmark = "threads", .bytes = (size_t)sizes.values[i],
                                  .value = counts.values[k],
                                  .messages = job->options.window * counts.values[k]
                                              * (job->size / 2)};
                snprintf(row.variant, sizeof row.variant, "%s", variants[own]);
                measure_team(job, row, (int)job->options.window, own);
            }
}

void bench_saturation(struct job *job)
{
    enum { WINDOW = 4 };
    report_section(job, "saturation",
                   "each thread of the first half of the processes sends 4 messages to its peer "
                   "in the other half; time of all",
                   true);
    struct list sizes = list_or_powers(&job->options.sizes, 1 << 10, 32, 1 << 20);
    struct list counts = list_or_powers(&job->options.threads, 1, 2, 1);
    if (!can_run(job, "saturation", &counts))
        return;
    for (int i = 0; i < sizes.length; i++)
        for (int k = 0; k < counts.length; k++) {
            struct row row = {.benchmark = "saturation", .bytes = (size_t)sizes.values[i],
                              .value = counts.values[k]};
            snprintf(row.variant, sizeof row.variant, "%d × %ld", job->size / 2,
                     counts.values[k]);
            measure_team(job, row, WINDOW, true);
        }
}

/* One exchange by both kinds of threads in alternation, each thread with its communicator. */
static void compare_kinds(struct job *job, long threads, int window)
{
    static struct team teams[KINDS];
    struct timing timings[KINDS];
    struct row row = {.benchmark = "own_threads", .bytes = 8, .value = threads,
                      .processes = job->size, .parameter = "threads",
                      .messages = window * threads * (job->size / 2)};
    const char *what = window > 1 ? "windows" : "one by one";
    snprintf(row.variant, sizeof row.variant, "%s", what);
    for (int kind = 0; kind < KINDS; kind++) {
        teams[kind] = team_of(job, &row, window);
        teams[kind].kind = (enum kind)kind;
        teams[kind].own_communicators = true;
    }
    measure_teams(job, &row, teams, KINDS, timings);
    for (int kind = 0; kind < KINDS; kind++) {
        bool own = kind == OWN_THREADS;
        snprintf(row.variant, sizeof row.variant, "%s, %s", what, own ? "own" : "kernel");
        row.timing = timings[kind];
        row.ratio = own ? timings[kind].median / timings[KERNEL_THREADS].median : 0;
        row.twin = own ? "kernel threads" : NULL;
        report_row(job, &row);
    }
}

void bench_own_threads(struct job *job)
{
    report_section(job, "own_threads",
                   "each thread sends a window of messages, or one, to its peer, which answers: "
                   "threads of the library beside kernel threads; time of all",
                   false);
    struct list counts = list_or_powers(&job->options.threads, 1, 4, 64);
    if (!can_run(job, "own_threads", &counts))
        return;
#if HAS_OWN_THREADS
    if (combray_threads_start(0, 0, NULL) != 0)
        job_fail(job, "cannot start the workers of the library's threads");
    for (int single = 0; single <= 1; single++)
        for (int k = 0; k < counts.length; k++)
            compare_kinds(job, counts.values[k], single ? 1 : (int)job->options.window);
    combray_threads_stop();
#else
    report_note(job, "own_threads left out: this library has no combray_threads.h");
#endif
}

#if HAS_OWN_THREADS

/* Strips of one plane: without messages, with the library's threads and with the system's, several
 * for each core, and with one thread for each core. */
static void compare_strips(struct job *job)
{
    enum { ALONE, OWN, KERNEL, FEW, WAYS, EACH = 4, ROWS = 1024, REQUESTS = 4 };
    static const char *const names[WAYS] = {"computing alone", "own", "kernel", "own"};
    static struct team teams[WAYS];
    struct timing timings[WAYS];
    int cores = combray_threads_count();
    struct row row = {.benchmark = "hidden_halo", .bytes = COLUMNS * sizeof(double),
                      .value = cores * EACH, .processes = job->size, .parameter = "threads"};
    for (int way = 0; way < WAYS; way++) {
        struct team *team = &teams[way];
        *team = team_of(job, &row, REQUESTS);
        team->act = relax;
        team->kind = way == KERNEL ? KERNEL_THREADS : OWN_THREADS;
        team->threads = way == FEW ? cores : cores * EACH;
        team->rows = way == FEW ? ROWS * EACH : ROWS;
        team->talks = way != ALONE;
    }
    measure_teams(job, &row, teams, WAYS, timings);
    for (int way = 0; way < WAYS; way++) {
        snprintf(row.variant, sizeof row.variant, "%s", names[way]);
        row.value = teams[way].threads;
        row.timing = timings[way];
        row.ratio = way == ALONE ? 0 : timings[way].median / timings[ALONE].median;
        row.twin = way == ALONE ? NULL : "computing alone";
        report_row(job, &row);
    }
}

#endif

void bench_hidden_halo(struct job *job)
{
    report_section(job, "hidden_halo",
                   "strips of a plane that tell each other their edges before each is computed, four "
                   "threads for each core, or one; beside computing alone; time of a step",
                   false);
    struct list several = {.values = {4}, .length = 1};
    if (!can_run(job, "hidden_halo", &several))
        return;
#if HAS_OWN_THREADS
    if (combray_threads_start(0, 0, NULL) != 0)
        job_fail(job, "cannot start the workers of the library's threads");
    compare_strips(job);
    combray_threads_stop();
#else
    report_note(job, "hidden_halo left out: this library has no combray_threads.h");
#endif
}
