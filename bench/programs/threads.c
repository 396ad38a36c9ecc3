/* Processes whose threads all communicate at once: message rate, and bandwidth of hybrid programs. */
#define _POSIX_C_SOURCE 200112L
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>

enum { TAG_ACKNOWLEDGE = 1000, TAG_DATA = 2000 };

/* Threads are woken and awaited once per batch: it must be long beside that, and long beside the
 * time slices that threads get where they outnumber cores. */
static const double BATCH_SECONDS_MIN = 0.02;

struct team;

/* One thread, and the memory of its messages. */
struct member {
    struct team *team;
    int number;
    char *buffer;
    MPI_Request *requests;
};

/* The threads of one process, each with its counterpart in the peer; the first is the thread that
 * calls the team, the others sleep until there is something to do. */
struct team {
    const struct job *job;
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
        exchange(member, iterations);
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

static void run_team(void *state, long iterations)
{
    struct team *team = state;
    call_team(team, iterations);
    exchange(&team->members[0], iterations);
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

static void open_team(struct team *team)
{
    const struct job *job = team->job;
    size_t total = (size_t)team->window * (size_t)team->bytes;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->changed, NULL);
    for (int i = 0; i < team->threads; i++) {
        struct member *member = &team->members[i];
        *member = (struct member){team, i, buffer_new(job, total),
                                  buffer_new(job, (size_t)team->window * sizeof(MPI_Request))};
        if (i == 0 || team->own_communicators)
            MPI_Comm_dup(MPI_COMM_WORLD, &team->comms[i]);
        if (i > 0 && pthread_create(&team->handles[i], NULL, work, member) != 0)
            job_fail(job, "cannot start %d threads", team->threads);
    }
}

static void close_team(struct team *team)
{
    call_team(team, -1);
    for (int i = 0; i < team->threads; i++) {
        if (i > 0)
            pthread_join(team->handles[i], NULL);
        if (i == 0 || team->own_communicators)
            MPI_Comm_free(&team->comms[i]);
        free(team->members[i].buffer);
        free(team->members[i].requests);
    }
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->mutex);
}

/* Measures a team of `row.value` threads in each process. */
static void measure_team(struct job *job, struct row row, int window, bool own_communicators)
{
    static struct team team;
    double seconds = job->options.batch_seconds;
    int half = job->size / 2;
    job_describe(job, row.benchmark, row.variant, row.bytes);
    team = (struct team){
        .job = job,
        .threads = (int)row.value,
        .own_communicators = own_communicators,
        .peer = job->rank < half ? job->rank + half : job->rank - half,
        .sends = job->rank < half,
        .window = window,
        .bytes = (int)row.bytes,
        .seed = (unsigned)row.value,
    };
    open_team(&team);
    if (seconds < BATCH_SECONDS_MIN)
        job->options.batch_seconds = BATCH_SECONDS_MIN;
    struct operation operation = {.run = run_team, .check = check_team, .state = &team,
                                  .comm = MPI_COMM_WORLD, .clock = CLOCK_SLOWEST, .share = 1.0};
    row.processes = job->size;
    row.parameter = "threads";
    row.bytes_total = row.bytes * (size_t)(window * half) * (size_t)row.value;
    measure(job, &operation, 1, &row.timing);
    job->options.batch_seconds = seconds;
    report_row(job, &row);
    close_team(&team);
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
