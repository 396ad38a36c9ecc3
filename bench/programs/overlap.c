/* How much of the communication is hidden behind computing that calls nothing of MPI. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 60, OVER_TAG = 61, COLLECTIVE_BYTES = 1 << 20 };

/* So many runs of a part follow each other, and so many such batches there are of each at most. */
enum { BATCH = 10, BATCHES_MAX = 40, RUNS_MAX = BATCH * BATCHES_MAX };

/* Computing takes so many times as long as communicating: what programs that hide it do at least. */
static const double computing_share = 4;

/* The timed part: the communication alone, the computing alone, and both at once. */
enum { COMMUNICATION, COMPUTING, TOTAL, PARTS };

struct overlap {
    const struct job *job;
    char *out, *in;
    int bytes;
    long work;                      /* steps of computing */
    int socket;                     /* a plain connection to the peer, or -1 */
};

/* Begins the communication of a process. The first one computes, the second one waits: so there is
   a core that has nothing else to do, even on a machine of two. */
struct pattern {
    const char *name;
    void (*begin)(struct overlap *overlap, MPI_Request *request);
    void (*finish)(struct overlap *overlap, MPI_Request *request);
};

static void wait_for(struct overlap *overlap, MPI_Request *request)
{
    (void)overlap;
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void begin_send(struct overlap *overlap, MPI_Request *request)
{
    const struct job *job = overlap->job;
    if (job->rank == 0)
        MPI_Isend(overlap->out, overlap->bytes, MPI_BYTE, 1, TAG, job->pair, request);
    else
        MPI_Irecv(overlap->in, overlap->bytes, MPI_BYTE, 0, TAG, job->pair, request);
}

static void begin_receive(struct overlap *overlap, MPI_Request *request)
{
    const struct job *job = overlap->job;
    if (job->rank == 0)
        MPI_Irecv(overlap->in, overlap->bytes, MPI_BYTE, 1, TAG, job->pair, request);
    else
        MPI_Isend(overlap->out, overlap->bytes, MPI_BYTE, 0, TAG, job->pair, request);
}

static void begin_alltoall(struct overlap *overlap, MPI_Request *request)
{
    MPI_Ialltoall(overlap->out, overlap->bytes / 2, MPI_BYTE, overlap->in, overlap->bytes / 2,
                  MPI_BYTE, overlap->job->pair, request);
}

static void begin_allreduce(struct overlap *overlap, MPI_Request *request)
{
    MPI_Iallreduce(overlap->out, overlap->in, overlap->bytes / (int)sizeof(int), MPI_INT, MPI_SUM,
                   overlap->job->pair, request);
}

/* What no library without a core of its own can hide: the kernel copies data when the program calls
   it, to send it, or to have what has arrived. */
static void send_plainly(const struct overlap *overlap, int sender)
{
    if (overlap->job->rank == sender)
        plain_send(overlap->job, overlap->socket, overlap->out, (size_t)overlap->bytes);
}

static void receive_plainly(const struct overlap *overlap, int receiver)
{
    if (overlap->job->rank == receiver)
        plain_receive(overlap->job, overlap->socket, overlap->in, (size_t)overlap->bytes);
}

static void begin_plain_send(struct overlap *overlap, MPI_Request *request)
{
    (void)request;
    send_plainly(overlap, 0);
}

static void finish_plain_send(struct overlap *overlap, MPI_Request *request)
{
    (void)request;
    receive_plainly(overlap, 1);
}

static void begin_plain_receive(struct overlap *overlap, MPI_Request *request)
{
    (void)request;
    send_plainly(overlap, 1);
}

static void finish_plain_receive(struct overlap *overlap, MPI_Request *request)
{
    (void)request;
    receive_plainly(overlap, 0);
}

static const struct pattern patterns[] = {
    {"sender computes", begin_send, wait_for},
    {"receiver computes", begin_receive, wait_for},
    {"alltoall", begin_alltoall, wait_for},
    {"allreduce", begin_allreduce, wait_for},
};

enum { PATTERNS = sizeof patterns / sizeof patterns[0], POINT_TO_POINT = 2 };

static const struct pattern plain_patterns[POINT_TO_POINT] = {
    {"sender computes, plain sockets", begin_plain_send, finish_plain_send},
    {"receiver computes, plain sockets", begin_plain_receive, finish_plain_receive},
};

static volatile double sink;

/* Each step waits for the one before: nothing but the core decides how long it takes. */
static void compute(long steps)
{
    double value = 1;
    for (long i = 0; i < steps; i++)
        value = value * 1.0000001 + 1e-9;
    sink = value;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return values[count / 2];
}

/* Both processes are ready at one time; returns the seconds until this one has computed and the
   whole communication is over. The second process sends a message to the first when it has done its
   part, for a send may be complete long before its message has arrived. */
static double run_part(struct overlap *overlap, const struct pattern *pattern, int part)
{
    const struct job *job = overlap->job;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Barrier(job->pair);
    double start = MPI_Wtime();
    if (part != COMPUTING)
        pattern->begin(overlap, &request);
    if (part != COMMUNICATION && job->rank == 0)
        compute(overlap->work);
    if (part != COMPUTING)
        pattern->finish(overlap, &request);
    if (part != COMPUTING && job->rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, OVER_TAG, job->pair, MPI_STATUS_IGNORE);
    if (part != COMPUTING && job->rank == 1)
        MPI_Send(NULL, 0, MPI_BYTE, 0, OVER_TAG, job->pair);
    return MPI_Wtime() - start;
}

/* How many steps of computing take so long; that of the first process counts. */
static long steps_for(const struct overlap *overlap, double seconds)
{
    long steps = 1000;
    double took = 0;
    while (took < 1e-3) {
        steps *= 2;
        double start = MPI_Wtime();
        compute(steps);
        took = MPI_Wtime() - start;
    }
    steps = (long)((double)steps * seconds / took) + 1;
    MPI_Bcast(&steps, 1, MPI_LONG, 0, overlap->job->pair);
    return steps;
}

static int affordable_batches(const struct job *job, double seconds)
{
    double all = BATCH * seconds * (1 + 2 * computing_share);
    double affordable = job->options.limit_seconds / all;
    int batches = affordable < BATCHES_MAX ? (int)affordable : BATCHES_MAX;
    if (batches < 2)
        batches = 2;
    MPI_Bcast(&batches, 1, MPI_INT, 0, job->pair);
    return batches;
}

static void check(struct overlap *overlap, const struct pattern *pattern, unsigned seed)
{
    const struct job *job = overlap->job;
    size_t bytes = (size_t)overlap->bytes;
    pattern_fill(overlap->out, bytes, seed);
    pattern_fill(overlap->in, bytes, seed + 1);
    run_part(overlap, pattern, TOTAL);
    bool to_second = pattern->begin == begin_send || pattern->begin == begin_plain_send;
    bool to_first = pattern->begin == begin_receive || pattern->begin == begin_plain_receive;
    bool receives = job->rank == 1 ? to_second : to_first;
    if (receives)
        pattern_expect(job, overlap->in, bytes, seed);
}

static void measure_overlap(struct job *job, const struct pattern *pattern, size_t bytes,
                            int socket)
{
    struct overlap overlap = {.job = job, .out = buffer_new(job, bytes),
                              .in = buffer_new(job, bytes), .bytes = (int)bytes,
                              .socket = socket};
    double times[PARTS][RUNS_MAX], alone[BATCH], usual[PARTS];
    job_describe(job, "overlap", pattern->name, bytes);
    for (int i = 0; i < BATCH; i++)
        alone[i] = run_part(&overlap, pattern, COMMUNICATION);
    double seconds = median(alone, BATCH);
    overlap.work = steps_for(&overlap, computing_share * seconds);
    check(&overlap, pattern, (unsigned)bytes);
    int batches = affordable_batches(job, seconds);
    for (int batch = 0; batch < batches; batch++)
        for (int part = 0; part < PARTS; part++)
            for (int i = batch * BATCH; i < (batch + 1) * BATCH; i++)
                times[part][i] = run_part(&overlap, pattern, part);
    for (int part = 0; part < PARTS; part++)
        usual[part] = median(times[part], batches * BATCH);
    double shorter = usual[COMMUNICATION] < usual[COMPUTING] ? usual[COMMUNICATION]
                                                             : usual[COMPUTING];
    double hidden = (usual[COMMUNICATION] + usual[COMPUTING] - usual[TOTAL]) / shorter;
    struct row row = {.benchmark = "overlap", .processes = 2, .bytes = bytes,
                      .ratio = hidden < 0.999 ? 1 - hidden : 0.001, .twin = "it is seen"};
    row.timing = (struct timing){.min = times[COMMUNICATION][0], .median = usual[COMMUNICATION],
                                 .iterations = BATCH, .batches = batches};
    snprintf(row.variant, sizeof row.variant, "%s", pattern->name);
    report_row(job, &row);
    free(overlap.out);
    free(overlap.in);
}

static bool is_between_hosts(const struct job *job)
{
    char names[2][MPI_MAX_PROCESSOR_NAME] = {{0}}, own[MPI_MAX_PROCESSOR_NAME] = {0};
    int length;
    MPI_Get_processor_name(own, &length);
    MPI_Allgather(own, sizeof own, MPI_CHAR, names, sizeof own, MPI_CHAR, job->pair);
    return strcmp(names[0], names[1]) != 0;
}

void bench_overlap(struct job *job)
{
    report_section(job, "overlap",
                   "time of the communication, and what of it is seen while the process computes",
                   false);
    if (job->pair == MPI_COMM_NULL)
        return;
    static const struct list usual = {.values = {64L << 10, 1L << 20, 8L << 20}, .length = 3};
    struct list sizes = job->options.sizes.length ? job->options.sizes : usual;
    for (int kind = 0; kind < POINT_TO_POINT; kind++)
        for (int i = 0; i < sizes.length; i++)
            measure_overlap(job, &patterns[kind], (size_t)sizes.values[i], -1);
    int socket = is_between_hosts(job) ? plain_connect(job) : -1;
    for (int kind = 0; kind < POINT_TO_POINT && socket >= 0; kind++)
        for (int i = 0; i < sizes.length; i++)
            measure_overlap(job, &plain_patterns[kind], (size_t)sizes.values[i], socket);
    if (socket >= 0)
        close(socket);
    for (int kind = POINT_TO_POINT; kind < PATTERNS; kind++)
        measure_overlap(job, &patterns[kind], COLLECTIVE_BYTES, -1);
}
