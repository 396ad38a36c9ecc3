// Programs that never call MPI_Init: a service with an endpoint, and its clients, which were
// started separately. The first argument chooses the part, the second is the file for the URI of
// the service.
// Started by tests/scenarios/endpoints.py.
// combray.h
#include "check.h"

#include <combray.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

enum { URI = 256, ROUNDS = 300, LONG = 200000, AT_ONCE = 8, CROWD_MAX = 2048 };

static combray_endpoint endpoint;

static void require(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    if (code == MPI_SUCCESS) return;
    combray_error_string(code, text, sizeof text);
    fprintf(stderr, "%s: %s\n", call, text);
    exit(1);
}
#define DO(call) require(call, #call)
#define SURE(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: " #condition " is false: ", __LINE__);                       \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void write_uri(const char *file) {
    char draft[4096], uri[URI];
    DO(combray_endpoint_uri(endpoint, uri, sizeof uri));
    snprintf(draft, sizeof draft, "%s.draft", file);
    FILE *out = fopen(draft, "w");
    SURE(out, "%s", draft);
    fputs(uri, out);
    fclose(out);
    rename(draft, file);
}

static void read_uri(const char *file, char *uri) {
    FILE *in;
    while (!(in = fopen(file, "r"))) usleep(1000);
    SURE(fgets(uri, URI, in), "%s", file);
    fclose(in);
}

// Waits by the descriptor, as a program with a loop of its own does.
static combray_event next(int waits_by_descriptor) {
    combray_event event;
    DO(combray_endpoint_poll(endpoint, &event, 0));
    while (event.type == COMBRAY_EVENT_NONE) {
        if (waits_by_descriptor) {
            struct pollfd one = {.events = POLLIN};
            DO(combray_endpoint_descriptor(endpoint, &one.fd));
            SURE(poll(&one, 1, 60000) == 1, "no event in 60 s");
        }
        DO(combray_endpoint_poll(endpoint, &event, waits_by_descriptor ? 0 : 60000));
        SURE(waits_by_descriptor || event.type != COMBRAY_EVENT_NONE, "no event in 60 s");
    }
    return event;
}

// Echoes messages until so many clients have gone, and prints how they went.
static void serve(const char *file, int clients, int waits_by_descriptor) {
    int closed = 0, lost = 0, code;
    write_uri(file);
    while (closed + lost < clients) {
        combray_event event = next(waits_by_descriptor);
        char text[MPI_MAX_ERROR_STRING] = "";
        combray_error_string(event.status, text, sizeof text);
        switch (event.type) {
        case COMBRAY_CONNECT_REQUEST:
            SURE(event.bytes == 6 && strcmp(event.data, "hello") == 0, "%zu", event.bytes);
            DO(combray_accept(event.connection, NULL));
            break;
        case COMBRAY_RECEIVED:
            // Each client waits for each answer. A killed one is gone before its last event.
            code = combray_send(event.connection, event.data, event.bytes, NULL, 0);
            SURE(code == MPI_SUCCESS || class_of(code) == MPI_ERR_ARG, "%d", class_of(code));
            break;
        case COMBRAY_CLOSED: closed++; break;
        case COMBRAY_LOST:
            SURE(strstr(text, "has ended"), "%s", text);
            lost++;
            break;
        default: SURE(0, "event %d: %s", event.type, text);
        }
        DO(combray_return(endpoint, &event));
    }
    printf("%d closed, %d lost\n", closed, lost);
}

static void use(const char *file, int waits_by_descriptor, int dies) {
    char uri[URI];
    static unsigned char bytes[LONG];
    combray_connection connection;
    read_uri(file, uri);
    DO(combray_connect(endpoint, uri, "hello", 6, NULL, -1, &connection));
    combray_event first = next(waits_by_descriptor);
    char text[MPI_MAX_ERROR_STRING] = "";
    combray_error_string(first.status, text, sizeof text);
    SURE(first.type == COMBRAY_CONNECTED, "event %d: %s", first.type, text);
    for (int round = 0; round < ROUNDS; round++) {
        size_t length = round % 50 == 49 ? LONG : 1 + (size_t)round * 37 % 5000;
        pattern_fill(bytes, length, round);
        DO(combray_send(connection, bytes, length, NULL, 0));
        if (dies && round == ROUNDS / 2) raise(SIGKILL);
        combray_event event = next(waits_by_descriptor);
        SURE(event.type == COMBRAY_RECEIVED && event.bytes == length, "event %d", event.type);
        SURE(memcmp(event.data, bytes, length) == 0, "round %d", round);
        DO(combray_return(endpoint, &event));
    }
    DO(combray_disconnect(connection));
    SURE(next(waits_by_descriptor).type == COMBRAY_CLOSED, "not closed");
    printf("client is done\n");
}

// Connects many times, eight connections at a time, and counts the descriptors that are left.
static int descriptors(void) {
    int count = 0;
    for (int number = 0; number < 1000; number++) count += fcntl(number, F_GETFD) != -1;
    return count;
}

static void again(const char *file, int times) {
    char uri[URI];
    int before = 0, after;
    read_uri(file, uri);
    for (int time = 0; time < times; time += AT_ONCE) {
        combray_connection connections[AT_ONCE];
        int connected = 0, received = 0, closed = 0;
        for (int one = 0; one < AT_ONCE; one++)
            DO(combray_connect(endpoint, uri, "hello", 6, NULL, 20000, &connections[one]));
        while (closed < AT_ONCE) {
            combray_event event = next(0);
            if (event.type == COMBRAY_CONNECTED) {
                connected++;
                DO(combray_send(event.connection, &time, sizeof time, NULL, 0));
            } else if (event.type == COMBRAY_RECEIVED) {
                SURE(event.bytes == sizeof time && *(int *)event.data == time, "%zu", event.bytes);
                received++;
                DO(combray_disconnect(event.connection));
            } else {
                char text[MPI_MAX_ERROR_STRING] = "";
                combray_error_string(event.status, text, sizeof text);
                SURE(event.type == COMBRAY_CLOSED, "event %d at %d: %s", event.type, time, text);
                closed++;
            }
            DO(combray_return(endpoint, &event));
        }
        SURE(connected == AT_ONCE && received == AT_ONCE, "%d %d", connected, received);
        if (time == AT_ONCE) before = descriptors();
    }
    after = descriptors();
    // The gates of the last connections may not be closed yet.
    SURE(after <= before + AT_ONCE, "%d descriptors after %d", after, before);
    printf("client is done\n");
}

// The service is killed: the client gets an event, and goes on.
static void survive(const char *file) {
    char uri[URI];
    combray_connection connection;
    read_uri(file, uri);
    DO(combray_connect(endpoint, uri, "hello", 6, NULL, -1, &connection));
    SURE(next(0).type == COMBRAY_CONNECTED, "not connected");
    printf("connected\n");
    fflush(stdout);
    SURE(next(1).type == COMBRAY_LOST, "not lost");
    DO(combray_connect(endpoint, uri, "hello", 6, NULL, -1, &connection));
    SURE(next(0).type == COMBRAY_REJECTED, "not rejected");
    printf("client is done\n");
}

// Both ends of a connection with which something between them tampers. Prints how it was lost.
static void lose(const char *file, int is_client) {
    char uri[URI];
    combray_connection connection;
    if (is_client) {
        read_uri(file, uri);
        DO(combray_connect(endpoint, uri, "hello", 6, NULL, -1, &connection));
        SURE(next(0).type == COMBRAY_CONNECTED, "not connected");
        printf("connected\n");
        fflush(stdout);
    } else {
        write_uri(file);
        combray_event event = next(0);
        SURE(event.type == COMBRAY_CONNECT_REQUEST, "event %d", event.type);
        DO(combray_accept(event.connection, NULL));
        DO(combray_return(endpoint, &event));
    }
    combray_event last = next(0);
    SURE(last.type == COMBRAY_LOST, "event %d", last.type);
    int class = class_of(last.status);
    printf("%s\n", class == MPI_ERR_ACCESS ? "access" : class == MPIX_ERR_PROC_FAILED ? "failed" : "other");
}

// A client sends a long message and short ones, and is killed. The service, which looks at them
// only then, gets the first ones or none, and no message after one that is missing.
static void gap(const char *file, int is_client) {
    char uri[URI], dead[4096];
    static int bytes[LONG / sizeof(int)];
    combray_connection connection;
    combray_event event;
    if (is_client) {
        read_uri(file, uri);
        DO(combray_connect(endpoint, uri, "hello", 6, NULL, -1, &connection));
        SURE(next(0).type == COMBRAY_CONNECTED, "not connected");
        for (bytes[0] = 0; bytes[0] < 8; bytes[0]++)
            DO(combray_send(connection, bytes, bytes[0] == 3 ? sizeof bytes : sizeof(int), NULL, 0));
        raise(SIGKILL);
    }
    write_uri(file);
    event = next(0);
    SURE(event.type == COMBRAY_CONNECT_REQUEST, "event %d", event.type);
    DO(combray_accept(event.connection, NULL));
    DO(combray_return(endpoint, &event));
    snprintf(dead, sizeof dead, "%s.dead", file);
    while (access(dead, F_OK) != 0) usleep(1000);
    for (int expected = 0; (event = next(0)).type == COMBRAY_RECEIVED; expected++) {
        int number = *(int *)event.data;
        SURE(number == expected, "message %d after %d", number, expected - 1);
        DO(combray_return(endpoint, &event));
    }
    SURE(event.type == COMBRAY_LOST, "event %d", event.type);
    printf("service is done\n");
}

static combray_event next_but_silent(void) {
    combray_event event;
    do event = next(0);
    while (event.type == COMBRAY_SILENT);
    return event;
}

// The service is stopped twice. The client gets an event each time; after the first one the service
// goes on, and the connection with it.
static void watch(const char *file) {
    char uri[URI];
    combray_connection connection;
    combray_event event;
    read_uri(file, uri);
    DO(combray_connect(endpoint, uri, "hello", 6, &connection, -1, &connection));
    SURE(class_of(combray_keepalive(connection, 100)) == MPI_ERR_ARG, "it is not accepted yet");
    SURE(next(0).type == COMBRAY_CONNECTED, "not connected");
    SURE(class_of(combray_keepalive(connection, -1)) == MPI_ERR_ARG, "a negative time");
    DO(combray_keepalive(connection, 150));
    for (int stop = 0; stop < 2; stop++) {
        printf("stop\n");
        fflush(stdout);
        event = next(0);
        SURE(event.type == COMBRAY_SILENT && event.connection == connection, "event %d", event.type);
        SURE(event.context == &connection && event.status == MPI_SUCCESS, "status %d", event.status);
        if (stop) break;
        printf("go on\n");
        fflush(stdout);
        DO(combray_send(connection, "here?", 6, NULL, 0));
        event = next_but_silent();
        SURE(event.type == COMBRAY_RECEIVED && event.bytes == 6, "event %d", event.type);
        DO(combray_return(endpoint, &event));
    }
    // A peer whose silence was reported has no more time than that to close its end.
    DO(combray_disconnect(connection));
    SURE(next_but_silent().type == COMBRAY_CLOSED, "not closed");
    printf("client is done\n");
}

// Serves, and prints how many strangers were refused.
static void guard(const char *file, int clients) {
    size_t refused;
    serve(file, clients, 1);
    DO(combray_endpoint_refused(endpoint, &refused));
    printf("%zu refused\n", refused);
}

// How much memory this process has, in bytes.
static long resident(void) {
    long pages = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    int fields = in ? fscanf(in, "%*d %ld", &pages) : 0;
    SURE(fields == 1, "%d fields", fields);
    fclose(in);
    return pages * sysconf(_SC_PAGESIZE);
}

// Prints by how much a connection lets the memory of the service grow, in bytes: the mean of the
// second half of idle connections, as the first ones let queues and tables grow.
static void crowd(const char *file, int connections) {
    long before = 0;
    combray_connection all[CROWD_MAX];
    SURE(connections <= CROWD_MAX, "%d", connections);
    write_uri(file);
    for (int open = 0; open < connections; open++) {
        if (open == connections / 2) before = resident();
        combray_event event = next(0);
        SURE(event.type == COMBRAY_CONNECT_REQUEST, "event %d", event.type);
        all[open] = event.connection;
        DO(combray_accept(event.connection, NULL));
        DO(combray_return(endpoint, &event));
    }
    printf("%ld\n", (resident() - before) / (connections - connections / 2));
    for (int one = 0; one < connections; one++) DO(combray_disconnect(all[one]));
    for (int closed = 0; closed < connections; closed++) SURE(next(0).type == COMBRAY_CLOSED, "not closed");
}

// Opens connections one after the other, and waits until the service closes them.
static void join_crowd(const char *file, int connections) {
    char uri[URI];
    combray_connection connection;
    int closed = 0;
    read_uri(file, uri);
    for (int made = 0; made < connections; made++) {
        DO(combray_connect(endpoint, uri, "hello", 6, NULL, -1, &connection));
        int type = next(0).type;
        SURE(type == COMBRAY_CONNECTED, "event %d", type);
    }
    for (; closed < connections; closed++) {
        combray_event event = next(0);
        SURE(event.type == COMBRAY_CLOSED, "event %d", event.type);
    }
}

static void fail(const char *file) {
    char uri[URI], text[MPI_MAX_ERROR_STRING] = "";
    combray_connection connection;
    read_uri(file, uri);
    int code = combray_connect(endpoint, uri, "hello", 6, NULL, 20000, &connection);
    if (code == MPI_SUCCESS) {
        combray_event event = next(0);
        SURE(event.type == COMBRAY_REJECTED, "event %d", event.type);
        code = event.status;
    }
    SURE(class_of(code) == MPI_ERR_PORT, "%d", class_of(code));
    combray_error_string(code, text, sizeof text);
    printf("%s\n", text);
}

int main(int argc, char **argv) {
    SURE(argc >= 3, "arguments");
    const char *part = argv[1], *file = argv[2];
    int number = argc > 3 ? atoi(argv[3]) : 0, by_descriptor = argc > 4;
    DO(combray_endpoint_open(getenv("ENDPOINT_OPTIONS"), &endpoint));
    if (strcmp(part, "serve") == 0) serve(file, number, by_descriptor);
    else if (strcmp(part, "guard") == 0) guard(file, number);
    else if (strcmp(part, "fail") == 0) fail(file);
    else if (strcmp(part, "crowd") == 0) crowd(file, number);
    else if (strcmp(part, "join") == 0) join_crowd(file, number);
    else if (strcmp(part, "use") == 0) use(file, by_descriptor, 0);
    else if (strcmp(part, "die") == 0) use(file, by_descriptor, 1);
    else if (strcmp(part, "again") == 0) again(file, number);
    else if (strcmp(part, "survive") == 0) survive(file);
    else if (strcmp(part, "watch") == 0) watch(file);
    else if (strcmp(part, "lose") == 0) lose(file, number);
    else if (strcmp(part, "gap") == 0) gap(file, number);
    else SURE(0, "unknown part %s", part);
    DO(combray_endpoint_close(&endpoint));
    return 0;
}
