// A random program of endpoints against a model: processes connect to each other, send in order and
// without, in bursts, keep and return messages, read, write and deregister memory, disconnect,
// close and open their endpoints, and are killed. Started by tests/scenarios/endpoints.py and
// tests/random/endpoints:
//   endpoint_random FOLDER NUMBER PROCESSES SEED STEPS KILL
// The URI of process N is in FOLDER/N. KILL is the step at which the process kills itself, or -1.
// combray.h
#include "check.h"

#include <combray.h>
#include <signal.h>

enum { URI = 256, TIES = 24, SLOT = 150000, KEPT = 32, LONGEST = 100000, LOOSE_MAX = 4096, SECONDS = 90 };
enum { DATA, NAME, WRITTEN, SEEN, LOOSE };

// One end of a connection, and what must be true of it.
typedef struct {
    combray_connection handle;
    enum { FREE, ASKING, OPEN, ENDING } state;
    int is_mine, notified;
    uint32_t sent, received;
    // Messages without order: how many were sent, and which have arrived.
    uint32_t loose;
    unsigned char has_come[LOOSE_MAX];
    // At the accepting end: the memory for the other one. At the connecting end: its model.
    unsigned char slot[SLOT];
    combray_memory name;
    int has_name;
    // At the connecting end: the operation that is underway, and whether its message was not seen.
    enum { NOTHING, READS, WRITES } operation;
    int awaits;
    size_t offset, bytes;
    unsigned char *buffer;
} tie;

typedef struct {
    uint32_t kind, number;
    uint64_t offset, bytes, seed;
    combray_memory name;
} head;

static combray_endpoint endpoint;
static tie ties[TIES];
static combray_event kept[KEPT];
static int keeps, step, ends, received, operations, process, processes;
static const char *folder;
static Random state;
static unsigned char bytes[LONGEST];

#define SURE(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d, process %d, step %d: " #condition " is false: ", __LINE__,    \
                    process, step);                                                                \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *text_of(int code) {
    static char text[MPI_MAX_ERROR_STRING];
    combray_error_string(code, text, sizeof text);
    return text;
}
#define DO(call)                                                                                   \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        SURE(code_ == MPI_SUCCESS, "%s", text_of(code_));                                          \
    } while (0)

// A call about a connection that may have ended, with an event in the queue: whether it succeeded.
static int done(tie *of, int code) {
    if (code == MPI_SUCCESS) return 1;
    if (class_of(code) == MPI_ERR_PENDING) return 0;
    SURE(class_of(code) == MPI_ERR_ARG, "%s", text_of(code));
    of->state = ENDING;
    return 0;
}

static void open_endpoint(void) {
    char name[4000], draft[4096], uri[URI];
    static const char *const options[] = {NULL, "memory=200000", "encrypt"};
    DO(combray_endpoint_open(options[random_below(&state, 3)], &endpoint));
    DO(combray_endpoint_uri(endpoint, uri, sizeof uri));
    snprintf(name, sizeof name, "%s/%d", folder, process);
    snprintf(draft, sizeof draft, "%s.draft", name);
    FILE *out = fopen(draft, "w");
    SURE(out && fputs(uri, out) >= 0 && fclose(out) == 0 && rename(draft, name) == 0, "%s", draft);
}

static tie *free_tie(void) {
    for (int at = 0; at < TIES; at++)
        if (ties[at].state == FREE) return &ties[at];
    return NULL;
}

static void forget(tie *of) {
    free(of->buffer);
    unsigned char *end = (unsigned char *)(of + 1), *begin = (unsigned char *)of;
    memset(begin, 0, (size_t)(end - begin));
}

static void send_message(tie *to, uint32_t kind, size_t payload) {
    head first = {.kind = kind, .number = to->sent, .name = to->name};
    memcpy(bytes, &first, sizeof first);
    pattern_fill(bytes + sizeof first, payload, to->sent);
    int notify = random_below(&state, 4) == 0 && payload < 1000;
    // The memory of a notified message is in use until its event: it is never changed.
    static const head constant = {.kind = DATA, .number = UINT32_MAX};
    if (notify && kind == DATA) {
        to->notified += done(to, combray_send(to->handle, &constant, sizeof constant, to, COMBRAY_NOTIFY));
        return;
    }
    to->sent += (uint32_t)done(to, combray_send(to->handle, bytes, sizeof first + payload, NULL, 0));
}

// Sends a message that arrives in any order, or perhaps not at all.
static void send_loose(tie *to, size_t payload) {
    if (to->loose == LOOSE_MAX) return;
    head first = {.kind = LOOSE, .number = to->loose};
    memcpy(bytes, &first, sizeof first);
    pattern_fill(bytes + sizeof first, payload, to->loose);
    int how = random_below(&state, 2) ? COMBRAY_UNORDERED : COMBRAY_UNRELIABLE;
    int code = combray_send(to->handle, bytes, sizeof first + payload, NULL, how);
    SURE(how == COMBRAY_UNORDERED || class_of(code) != MPI_ERR_PENDING, "%s", text_of(code));
    to->loose += (uint32_t)done(to, code);
}

// So many short messages that the queue to the other process may become full.
static void send_burst(tie *to) {
    for (int left = random_below(&state, 2500); left > 0 && to->state == OPEN; left--) {
        if (random_below(&state, 8) == 0) send_loose(to, (size_t)random_below(&state, 500));
        else send_message(to, DATA, (size_t)random_below(&state, 100));
    }
}

static void connect_somewhere(void) {
    char name[4096], uri[URI];
    tie *to = free_tie();
    snprintf(name, sizeof name, "%s/%d", folder, random_below(&state, processes));
    FILE *in = fopen(name, "r");
    if (!in) return;
    SURE(fgets(uri, URI, in), "%s is empty", name);
    fclose(in);
    if (!to) return;
    int timeout = random_below(&state, 10) ? -1 : 1 + random_below(&state, 20);
    int code = combray_connect(endpoint, uri, "request", 8, to, timeout, &to->handle);
    SURE(code == MPI_SUCCESS || class_of(code) == MPI_ERR_NO_SPACE, "%s", text_of(code));
    if (code == MPI_SUCCESS) to->state = ASKING, to->is_mine = 1;
}

// Reads or writes the memory of the other end.
static void access_memory(tie *of) {
    if (!of->is_mine || !of->has_name || of->operation != NOTHING || of->awaits) return;
    of->bytes = (size_t)random_below(&state, random_below(&state, 8) ? 3000 : SLOT);
    of->offset = (size_t)random_below(&state, (int)(SLOT - of->bytes) + 1);
    of->buffer = realloc(of->buffer, of->bytes + 1);
    uint64_t seed = random_next(&state);
    if (random_below(&state, 2)) {
        memset(of->buffer, 0xee, of->bytes);
        if (done(of, combray_memory_read(of->handle, &of->name, of->offset, of->buffer, of->bytes, of, COMBRAY_NOTIFY)))
            of->operation = READS;
        return;
    }
    pattern_fill(of->buffer, of->bytes, seed);
    head after = {.kind = WRITTEN, .number = UINT32_MAX, .offset = of->offset, .bytes = of->bytes, .seed = seed};
    int says = random_below(&state, 2);
    if (done(of, combray_memory_write(of->handle, &of->name, of->offset, of->buffer, of->bytes, says ? &after : NULL,
                                      says ? sizeof after : 0, of, COMBRAY_NOTIFY)))
        of->operation = WRITES, of->awaits = says;
}

static void note_end_of_operation(tie *of, int status) {
    operations++;
    SURE(of->operation != NOTHING, "no operation is underway");
    if (status != MPI_SUCCESS) {
        SURE(class_of(status) == MPI_ERR_BASE, "%s", text_of(status));
        of->has_name = of->awaits = 0;
    } else if (of->operation == READS) {
        SURE(memcmp(of->buffer, of->slot + of->offset, of->bytes) == 0, "%zu bytes at %zu", of->bytes, of->offset);
    } else {
        memcpy(of->slot + of->offset, of->buffer, of->bytes);
    }
    of->operation = NOTHING;
}

static void take_message(tie *from, combray_event *event) {
    head first;
    SURE(event->bytes >= sizeof first && !((uintptr_t)event->data & 7), "%zu bytes", event->bytes);
    memcpy(&first, event->data, sizeof first);
    if (first.kind == LOOSE) {
        SURE(first.number < LOOSE_MAX && !from->has_come[first.number]++, "%u came again", first.number);
        long long wrong = pattern_wrong_at((char *)event->data + sizeof first, event->bytes - sizeof first, first.number);
        SURE(wrong < 0, "byte %lld of loose message %u", wrong, first.number);
    } else if (first.number != UINT32_MAX) {
        SURE(first.number == from->received, "%u instead of %u", first.number, from->received);
        long long wrong = pattern_wrong_at((char *)event->data + sizeof first, event->bytes - sizeof first, first.number);
        SURE(wrong < 0, "byte %lld of message %u", wrong, first.number);
        from->received++;
    }
    received++;
    if (first.kind == NAME && from->is_mine) {
        from->name = first.name;
        from->has_name = 1;
        memset(from->slot, 0, SLOT);
    } else if (first.kind == WRITTEN) {
        SURE(!from->is_mine, " ");
        long long wrong = pattern_wrong_at(from->slot + first.offset, first.bytes, first.seed);
        SURE(wrong < 0, "byte %lld of %llu that were written", wrong, (unsigned long long)first.bytes);
        // The other end writes again when it has got this; if there is no room now, it does not.
        send_message(from, SEEN, 0);
    } else if (first.kind == SEEN) {
        from->awaits = 0;
    }
}

static void take_request(combray_event *event) {
    tie *to = free_tie();
    SURE(event->bytes == 8 && strcmp(event->data, "request") == 0, "%zu bytes", event->bytes);
    if (!to || random_below(&state, 6) == 0) {
        // It may have given up.
        int code = combray_reject(event->connection, "no", 3);
        SURE(code == MPI_SUCCESS || class_of(code) == MPI_ERR_ARG, "%s", text_of(code));
        return;
    }
    to->handle = event->connection;
    int code = combray_accept(to->handle, to);
    SURE(code == MPI_SUCCESS || class_of(code) == MPI_ERR_ARG, "%s", text_of(code));
    if (code != MPI_SUCCESS) return forget(to);
    to->state = OPEN;
    DO(combray_memory_register(endpoint, to->slot, SLOT, COMBRAY_MAY_READ | COMBRAY_MAY_WRITE, &to->name));
    to->has_name = 1;
    send_message(to, NAME, 0);
}

static void note_end(tie *of, combray_event *event) {
    ends++;
    // The other end had given up before this one could accept.
    if (!of) {
        SURE(event->type == COMBRAY_LOST, "%d", event->type);
        return;
    }
    SURE(event->type != COMBRAY_REJECTED || of->is_mine, "%d", of->state);
    SURE(event->type != COMBRAY_CLOSED || event->status == MPI_SUCCESS, "%s", text_of(event->status));
    if (!of->is_mine && of->has_name) DO(combray_memory_deregister(endpoint, &of->name));
    forget(of);
}

// Takes the next event; returns whether there was one.
static int take_event(int timeout) {
    combray_event event;
    DO(combray_endpoint_poll(endpoint, &event, timeout));
    tie *of = event.context;
    if (event.type == COMBRAY_EVENT_NONE) return 0;
    if (event.type != COMBRAY_CONNECT_REQUEST && of)
        SURE(of->state != FREE && of->handle == event.connection, "event %d after the end", event.type);
    switch (event.type) {
    case COMBRAY_CONNECT_REQUEST: take_request(&event); break;
    case COMBRAY_CONNECTED:
        SURE(of->state == ASKING || of->state == ENDING, "%d", of->state);
        if (of->state == ASKING) of->state = OPEN;
        break;
    case COMBRAY_RECEIVED: take_message(of, &event); break;
    case COMBRAY_SENT: SURE(of->notified-- > 0, " "); break;
    case COMBRAY_WRITABLE:
    case COMBRAY_SILENT:
    case COMBRAY_WOKEN: break;
    case COMBRAY_COMPLETED: note_end_of_operation(of, event.status); break;
    case COMBRAY_REJECTED:
    case COMBRAY_CLOSED:
    case COMBRAY_LOST: note_end(of, &event); break;
    default: SURE(0, "event %d", event.type);
    }
    if (event.lent && event.type == COMBRAY_RECEIVED && keeps < KEPT && random_below(&state, 3) == 0)
        kept[keeps++] = event;
    else DO(combray_return(endpoint, &event));
    return 1;
}

static void return_one(void) {
    if (keeps == 0) return;
    int which = random_below(&state, keeps);
    DO(combray_return(endpoint, &kept[which]));
    kept[which] = kept[--keeps];
}

static void close_endpoint(void) {
    DO(combray_endpoint_close(&endpoint));
    for (int at = 0; at < TIES; at++)
        if (ties[at].state != FREE) forget(&ties[at]);
    keeps = 0;
}

static void act(void) {
    tie *of = &ties[random_below(&state, TIES)];
    int is_open = of->state == OPEN;
    switch (random_below(&state, 40)) {
    case 0:
    case 1:
    case 2: connect_somewhere(); break;
    case 3: if (is_open && done(of, combray_disconnect(of->handle))) of->state = ENDING; break;
    case 4:
        if (is_open && !of->is_mine && of->has_name && random_below(&state, 4) == 0) {
            static unsigned char before[SLOT];
            combray_connection handle = of->handle;
            DO(combray_memory_deregister(endpoint, &of->name));
            of->has_name = 0;
            memcpy(before, of->slot, SLOT);
            for (int events = 0; events < 20 && take_event(1);) events++;
            SURE(of->handle != handle || !memcmp(before, of->slot, SLOT), "written after deregistration");
        }
        break;
    case 5: if (random_below(&state, 30) == 0) close_endpoint(), open_endpoint(); break;
    case 6: if (of->state == ASKING && done(of, combray_disconnect(of->handle))) of->state = ENDING; break;
    case 7: if (is_open && done(of, combray_memory_fence(of->handle, of, 0))) operations++; break;
    case 8: if (is_open) done(of, combray_keepalive(of->handle, random_below(&state, 50))); break;
    case 9: DO(combray_endpoint_wake(endpoint)); break;
    case 10: if (is_open && random_below(&state, 10) == 0) send_burst(of); break;
    case 11:
    case 12:
    case 13:
        if (is_open) send_loose(of, (size_t)random_below(&state, random_below(&state, 10) ? 300 : LONGEST - 200));
        break;
    default:
        if (!is_open) break;
        if (random_below(&state, 2)) access_memory(of);
        else send_message(of, DATA, (size_t)random_below(&state, random_below(&state, 10) ? 300 : LONGEST - 200));
    }
}

int main(int argc, char **argv) {
    SURE(argc == 7, "arguments");
    folder = argv[1], process = atoi(argv[2]), processes = atoi(argv[3]);
    int steps = atoi(argv[5]), kill_at = atoi(argv[6]);
    state = random_from(strtoull(argv[4], NULL, 0) * 64 + (uint64_t)process);
    open_endpoint();
    for (; step < steps; step++) {
        if (step == kill_at) raise(SIGKILL);
        act();
        if (random_below(&state, 3) == 0) return_one();
        for (int events = random_below(&state, 4); events > 0 && take_event(random_below(&state, 8) ? 0 : 1);) events--;
    }
    // All connections end, and nothing is left.
    for (int at = 0; at < TIES; at++)
        if (ties[at].state == OPEN || ties[at].state == ASKING) {
            done(&ties[at], combray_disconnect(ties[at].handle));
            ties[at].state = ENDING;
        }
    double begun = MPI_Wtime();
    for (int at = 0; at < TIES; at++)
        while (ties[at].state != FREE) {
            take_event(100);
            return_one();
            SURE(MPI_Wtime() - begun < SECONDS, "connection %d does not end (state %d)", at, ties[at].state);
        }
    DO(combray_endpoint_close(&endpoint));
    printf("%d ends, %d messages, %d operations\n", ends, received, operations);
    return 0;
}
