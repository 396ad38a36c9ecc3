// Performance variables count real messages: each handle begins at zero, counts between start and
// stop, and is reset alone; watermarks follow the queue of unexpected messages; levels are what
// there is.
// run: 1 2 3
// hosts
#include "check.h"

typedef unsigned long long Value;

enum { MESSAGES = 10, BYTES = 40, LARGE = 1 << 20 };

static MPI_T_pvar_session session;

// The library asks processes that are late, with short messages that are counted too. An attempt
// that such a message disturbs is repeated, so one of several must count exactly.
enum { ATTEMPTS = 20 };
static int attempt, is_disturbed;

#define EXPECT(actual, expected)                                                                   \
    do {                                                                                           \
        Value found = (actual);                                                                    \
        is_disturbed |= found != (Value)(expected);                                                \
        if (attempt == ATTEMPTS) CHECK_EQ(found, expected);                                        \
    } while (0)

static MPI_T_pvar_handle handle_of(const char *name, int class) {
    int index, count;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_get_index(name, class, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    return handle;
}

static MPI_T_pvar_handle counter(const char *name) {
    return handle_of(name, MPI_T_PVAR_CLASS_COUNTER);
}

static MPI_T_pvar_handle level(const char *name) {
    return handle_of(name, MPI_T_PVAR_CLASS_LEVEL);
}

static MPI_T_pvar_handle peak(const char *name) {
    return handle_of(name, MPI_T_PVAR_CLASS_HIGHWATERMARK);
}

static Value value_of(MPI_T_pvar_handle handle) {
    Value value = 12345;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

// Ten short messages to the next process and from the one before.
static void exchange(void) {
    char out[BYTES] = {0}, in[BYTES];
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < MESSAGES; i++)
        OK(MPI_Sendrecv(out, BYTES, MPI_CHAR, next, 1, in, BYTES, MPI_CHAR, before, 1,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void count_short_messages(void) {
    MPI_T_pvar_handle sent = counter("eager_sent"), received = counter("eager_received");
    MPI_T_pvar_handle sent_bytes = handle_of("eager_bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE);
    MPI_T_pvar_handle received_bytes =
        handle_of("eager_bytes_received", MPI_T_PVAR_CLASS_AGGREGATE);
    MPI_T_pvar_handle late = counter("eager_sent");
    exchange();
    CHECK_EQ(value_of(sent), 0);
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_stop(session, late));
    exchange();
    EXPECT(value_of(sent), MESSAGES);
    EXPECT(value_of(received), MESSAGES);
    EXPECT(value_of(sent_bytes), MESSAGES * BYTES);
    EXPECT(value_of(received_bytes), MESSAGES * BYTES);
    CHECK_EQ(value_of(late), 0);
    OK(MPI_T_pvar_stop(session, received));
    OK(MPI_T_pvar_start(session, late));
    exchange();
    EXPECT(value_of(sent), 2 * MESSAGES);
    EXPECT(value_of(received), MESSAGES);
    EXPECT(value_of(late), MESSAGES);
    Value value = 0;
    OK(MPI_T_pvar_readreset(session, sent, &value));
    EXPECT(value, 2 * MESSAGES);
    CHECK_EQ(value_of(sent), 0);
    EXPECT(value_of(late), MESSAGES);
    exchange();
    EXPECT(value_of(sent), MESSAGES);
    value = 1000;
    OK(MPI_T_pvar_write(session, sent, &value));
    exchange();
    EXPECT(value_of(sent), 1000 + MESSAGES);
}

static void short_messages(void) {
    is_disturbed = 1;
    for (attempt = 1; attempt <= ATTEMPTS && is_disturbed; attempt++) {
        if (attempt > 1) {
            OK(MPI_T_pvar_session_free(&session));
            OK(MPI_T_pvar_session_create(&session));
        }
        is_disturbed = 0;
        count_short_messages();
        OK(MPI_Allreduce(MPI_IN_PLACE, &is_disturbed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    }
}

static void large_messages(void) {
    MPI_T_pvar_handle announced = counter("announced_sent"), met = counter("announced_received");
    MPI_T_pvar_handle bytes = handle_of("announced_bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE);
    MPI_T_pvar_handle fetched = counter("fetched"), streamed = counter("streamed");
    MPI_T_pvar_handle local = counter("copied_locally");
    char *out = calloc(LARGE, 1), *in = malloc(LARGE);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    for (int i = 0; i < MESSAGES; i++)
        OK(MPI_Sendrecv(out, LARGE, MPI_CHAR, next, 2, in, LARGE, MPI_CHAR, before, 2,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(value_of(announced), MESSAGES);
    CHECK_EQ(value_of(met), MESSAGES);
    CHECK_EQ(value_of(bytes), (Value)MESSAGES * LARGE);
    CHECK_EQ(value_of(fetched) + value_of(streamed) + value_of(local), MESSAGES);
    CHECK_EQ(value_of(local), check_size == 1 ? MESSAGES : 0);
    free(out);
    free(in);
}

static void unexpected_messages(void) {
    MPI_T_pvar_handle now = level("unexpected"), held = level("unexpected_bytes");
    MPI_T_pvar_handle highest = peak("unexpected_highest"), other = peak("unexpected_highest");
    MPI_T_pvar_handle total = counter("unexpected_total");
    char data[BYTES] = {0};
    // Among several, messages of a barrier may be unexpected too.
    if (check_size > 1) return;
    OK(MPI_T_pvar_start(session, total));
    OK(MPI_T_pvar_start(session, highest));
    CHECK_EQ(value_of(now), 0);
    CHECK_EQ(value_of(highest), 0);
    for (int i = 0; i < MESSAGES; i++) OK(MPI_Send(data, BYTES, MPI_CHAR, 0, i, MPI_COMM_SELF));
    // They arrive when this process polls.
    OK(MPI_Probe(0, MESSAGES - 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_EQ(value_of(now), MESSAGES);
    CHECK_EQ(value_of(held), MESSAGES * BYTES);
    CHECK_EQ(value_of(highest), MESSAGES);
    CHECK_EQ(value_of(other), 0);
    for (int i = 0; i < MESSAGES - 2; i++)
        OK(MPI_Recv(data, BYTES, MPI_CHAR, 0, i, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_EQ(value_of(now), 2);
    CHECK_EQ(value_of(highest), MESSAGES);
    // A watch begins at the level of that moment, for one handle only.
    OK(MPI_T_pvar_start(session, other));
    CHECK_EQ(value_of(other), 2);
    OK(MPI_T_pvar_reset(session, highest));
    CHECK_EQ(value_of(highest), 2);
    for (int i = MESSAGES - 2; i < MESSAGES; i++)
        OK(MPI_Recv(data, BYTES, MPI_CHAR, 0, i, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_EQ(value_of(now), 0);
    CHECK_EQ(value_of(held), 0);
    CHECK_EQ(value_of(highest), 2);
    CHECK_EQ(value_of(total), MESSAGES);
}

static void posted_receives(void) {
    MPI_T_pvar_handle posted = level("posted_receives");
    MPI_Request requests[MESSAGES];
    char data[MESSAGES][BYTES], out[BYTES] = {0};
    Value before = value_of(posted);
    for (int i = 0; i < MESSAGES; i++)
        OK(MPI_Irecv(data[i], BYTES, MPI_CHAR, 0, i, MPI_COMM_SELF, &requests[i]));
    CHECK_EQ(value_of(posted) - before, MESSAGES);
    for (int i = 0; i < MESSAGES; i++) OK(MPI_Send(out, BYTES, MPI_CHAR, 0, i, MPI_COMM_SELF));
    OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(value_of(posted), before);
}

// The process that waits long sleeps, and it is counted.
static void sleeping(void) {
    MPI_T_pvar_handle sleeps = counter("sleeps");
    MPI_T_pvar_handle duration = handle_of("sleep_time", MPI_T_PVAR_CLASS_TIMER);
    double seconds = -1;
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) usleep(200000);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) return;
    CHECK(value_of(sleeps) > 0, "%llu", value_of(sleeps));
    OK(MPI_T_pvar_read(session, duration, &seconds));
    CHECK(seconds > 0.05 && seconds < 20, "%g", seconds);
}

static void communicators(void) {
    MPI_T_pvar_handle contexts = level("contexts");
    MPI_Comm copy;
    Value before = value_of(contexts);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(value_of(contexts) > before, "%llu", before);
    OK(MPI_Comm_free(&copy));
}

int main(void) {
    int provided;
    check_begin();
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    if (check_is_combray) {
        void (*parts[])(void) = {short_messages,  large_messages, unexpected_messages,
                                 posted_receives, sleeping,       communicators};
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
            OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_T_pvar_session_create(&session));
            parts[part]();
            OK(MPI_T_pvar_session_free(&session));
        }
    }
    OK(MPI_T_finalize());
    return check_end();
}
