// Endpoints inside a job: connections between all processes, messages of many lengths in order,
// lent buffers that are returned late, rejections, refusals of senders, and MPI beside them. With
// "late" also a send to a process that has closed everything, with "silent" only a process that is
// outside of the library, and answers by its helper thread or not (tests/scenarios/endpoints.py).
// run: 1 2 3
// hosts
// combray.h
#include "check.h"

#include <combray.h>
#include <signal.h>

enum { URI = 256, PEERS_MAX = 16, MESSAGES = 200, LONGEST = 300000 };

static combray_endpoint endpoint;
static char uris[PEERS_MAX][URI];

static combray_event next(int type) {
    combray_event event;
    OK(combray_endpoint_poll(endpoint, &event, 60000));
    char text[MPI_MAX_ERROR_STRING] = "";
    combray_error_string(event.status, text, sizeof text);
    REQUIRE(event.type == type, "event %d instead of %d: %s", event.type, type, text);
    return event;
}

// The number of a message is its beginning, so that messages have at least 4 bytes.
static size_t length_of(int number) {
    static const size_t lengths[] = {4, 8, 64, 1000, 5000, 70000, LONGEST};
    return lengths[number % 7];
}

typedef struct {
    combray_connection connection;
    int sent, received, closed;
} peer;

static unsigned char bytes[LONGEST];

static void send_more(peer *to) {
    while (to->sent < MESSAGES) {
        size_t length = length_of(to->sent);
        pattern_fill(bytes + 4, length - 4, to->sent + 1000 * check_rank);
        memcpy(bytes, &to->sent, 4);
        int code = combray_send(to->connection, bytes, length, NULL, 0);
        if (code != MPI_SUCCESS) {
            CHECK_EQ(class_of(code), MPI_ERR_PENDING);
            return;
        }
        to->sent++;
    }
}

// Every process connects to every process, itself included, with its rank as data.
static void all_to_all(void) {
    peer out[PEERS_MAX] = {0}, in[PEERS_MAX] = {0};
    combray_event kept[8];
    int keeps = 0, open = 0, done = 0;
    for (int to = 0; to < check_size; to++)
        OK(combray_connect(endpoint, uris[to], &check_rank, sizeof check_rank, &out[to], -1,
                           &out[to].connection));
    while (done < 2 * check_size) {
        combray_event event;
        OK(combray_endpoint_poll(endpoint, &event, 60000));
        peer *of = event.context;
        int number, from;
        switch (event.type) {
        case COMBRAY_CONNECT_REQUEST:
            CHECK_EQ(event.bytes, sizeof from);
            memcpy(&from, event.data, sizeof from);
            OK(combray_return(endpoint, &event));
            REQUIRE(from >= 0 && from < check_size && !in[from].connection, "%d", from);
            in[from].connection = event.connection;
            OK(combray_accept(event.connection, &in[from]));
            break;
        case COMBRAY_CONNECTED:
            CHECK(event.connection == of->connection, " ");
            open++;
            send_more(of);
            break;
        case COMBRAY_WRITABLE: send_more(of); break;
        case COMBRAY_RECEIVED:
            memcpy(&number, event.data, 4);
            CHECK_EQ(number, of->received);
            CHECK_EQ(event.bytes, length_of(number));
            CHECK_EQ((uintptr_t)event.data % 8, 0);
            CHECK_PATTERN((unsigned char *)event.data + 4, event.bytes - 4, number + 1000 * (of - in));
            if (++of->received == MESSAGES) OK(combray_disconnect(of->connection));
            // Some are returned later, and in another order.
            if (number % 5 == 0 && event.bytes < 100) {
                if (keeps == 8) OK(combray_return(endpoint, &kept[--keeps]));
                kept[keeps++] = event;
            } else {
                OK(combray_return(endpoint, &event));
            }
            break;
        case COMBRAY_CLOSED:
            CHECK(of->sent == MESSAGES || of->received == MESSAGES, "%d %d", of->sent, of->received);
            of->closed++;
            done++;
            break;
        default: {
            char text[MPI_MAX_ERROR_STRING] = "";
            combray_error_string(event.status, text, sizeof text);
            REQUIRE(0, "event %d: %s", event.type, text);
        }
        }
        // A sender goes on when it is told so; the first refusal comes before the first event.
    }
    CHECK_EQ(open, check_size);
    while (keeps > 0) OK(combray_return(endpoint, &kept[--keeps]));
}

// A program that returns nothing stops its peer, and no other.
static void hoarder(void) {
    combray_connection from, to;
    combray_event request, events[2000];
    char word[1000] = "word";
    int sent = 0, held = 0, code;
    OK(combray_connect(endpoint, uris[check_rank], NULL, 0, NULL, -1, &from));
    request = next(COMBRAY_CONNECT_REQUEST);
    CHECK_EQ(request.bytes, 0);
    to = request.connection;
    OK(combray_accept(to, &held));
    next(COMBRAY_CONNECTED);
    for (int round = 0; round < 3; round++) {
        while ((code = combray_send(from, word, sizeof word, NULL, 0)) == MPI_SUCCESS) {
            sent++;
            REQUIRE(sent - held <= 300, "nothing stops the sender");
        }
        CHECK_EQ(class_of(code), MPI_ERR_PENDING);
        int before = held;
        for (; held < sent; held++) {
            events[held] = next(COMBRAY_RECEIVED);
            CHECK(events[held].context == &held, " ");
            CHECK(strcmp(events[held].data, "word") == 0, " ");
        }
        OK(combray_endpoint_poll(endpoint, &request, 10));
        CHECK_EQ(request.type, COMBRAY_EVENT_NONE);
        CHECK(request.connection == to, "the connection is named");
        // Last in, first out.
        for (int one = held - 1; one >= before; one--) OK(combray_return(endpoint, &events[one]));
        combray_event again = events[before];
        CHECK_EQ(again.bytes, 0);
        next(COMBRAY_WRITABLE);
        OK(combray_endpoint_poll(endpoint, &request, 0));
        CHECK(request.type == COMBRAY_EVENT_NONE && !request.connection, "%d", request.type);
    }
    CHECK(sent > 300, "%d", sent);
    OK(combray_disconnect(from));
    next(COMBRAY_CLOSED);
    next(COMBRAY_CLOSED);
}

static void notified_sends(void) {
    combray_connection from;
    combray_event event;
    int sent = 0, received = 0;
    static unsigned char longer[LONGEST];
    OK(combray_connect(endpoint, uris[(check_rank + 1) % check_size], NULL, 0, NULL, -1, &from));
    for (int made = 0; made < 2; made++) {
        OK(combray_endpoint_poll(endpoint, &event, 60000));
        if (event.type == COMBRAY_CONNECT_REQUEST) OK(combray_accept(event.connection, NULL));
        else REQUIRE(event.type == COMBRAY_CONNECTED, "%d", event.type);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    pattern_fill(longer, sizeof longer, 5);
    OK(combray_send(from, longer, 100, &sent, COMBRAY_NOTIFY));
    OK(combray_send(from, longer, sizeof longer, &sent, COMBRAY_NOTIFY));
    while (sent < 2 || received < 2) {
        OK(combray_endpoint_poll(endpoint, &event, 60000));
        if (event.type == COMBRAY_SENT) {
            CHECK(event.context == &sent && event.connection == from, " ");
            sent++;
        } else {
            REQUIRE(event.type == COMBRAY_RECEIVED, "%d", event.type);
            CHECK_EQ(event.bytes, received ? sizeof longer : 100);
            CHECK_PATTERN(event.data, event.bytes, 5);
            OK(combray_return(endpoint, &event));
            received++;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(combray_disconnect(from));
    next(COMBRAY_CLOSED);
    next(COMBRAY_CLOSED);
}

// What the peer has received of this process, by the kind in the first byte of a message.
enum { ORDERED = 1, UNORDERED, UNRELIABLE, KINDS, PARTS = 16, FLOOD = 3000 };
static int arrived[KINDS], seen[PARTS];

// Handles an event of `deliveries`; returns whether it was the last one of a connection.
static int take_delivery(combray_event event) {
    if (event.type != COMBRAY_RECEIVED) {
        REQUIRE(event.type == COMBRAY_WRITABLE || event.type == COMBRAY_CLOSED, "%d", event.type);
        return event.type == COMBRAY_CLOSED;
    }
    const unsigned char *bytes = event.data;
    REQUIRE(event.bytes > 1 && bytes[0] >= ORDERED && bytes[0] < KINDS, "%d", bytes[0]);
    if (bytes[0] == ORDERED) CHECK_EQ(bytes[1], arrived[ORDERED]);
    if (bytes[0] == UNORDERED) CHECK(!seen[bytes[1]]++, "%d arrived twice", bytes[1]);
    if (bytes[0] != UNRELIABLE) CHECK_PATTERN(bytes + 2, event.bytes - 2, bytes[1]);
    arrived[bytes[0]]++;
    OK(combray_return(endpoint, &event));
    return 0;
}

// Long messages in order, and short ones that need not wait for them; then messages that arrive or
// are dropped, and are counted.
static void deliveries(void) {
    combray_connection from;
    combray_event event;
    size_t dropped;
    int received, code, closed = 0, next_rank = (check_rank + 1) % check_size,
        previous = (check_rank + check_size - 1) % check_size;
    memset(arrived, 0, sizeof arrived);
    memset(seen, 0, sizeof seen);
    OK(combray_connect(endpoint, uris[next_rank], NULL, 0, NULL, -1, &from));
    for (int made = 0; made < 2; made++) {
        OK(combray_endpoint_poll(endpoint, &event, 60000));
        if (event.type == COMBRAY_CONNECT_REQUEST) OK(combray_accept(event.connection, NULL));
        else REQUIRE(event.type == COMBRAY_CONNECTED, "%d", event.type);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int part = 0; part < PARTS; part++) {
        for (int kind = ORDERED; kind <= UNORDERED; kind++) {
            size_t length = kind == ORDERED ? LONGEST : 100;
            pattern_fill(bytes + 2, length - 2, part);
            bytes[0] = (unsigned char)kind, bytes[1] = (unsigned char)part;
            while ((code = combray_send(from, bytes, length, NULL, kind == ORDERED ? 0 : COMBRAY_UNORDERED)) != MPI_SUCCESS) {
                REQUIRE(class_of(code) == MPI_ERR_PENDING, "%d", class_of(code));
                OK(combray_endpoint_poll(endpoint, &event, 60000));
                closed += take_delivery(event);
            }
        }
    }
    CHECK_EQ(class_of(combray_send(from, bytes, 2, NULL, COMBRAY_UNRELIABLE | COMBRAY_NOTIFY)), MPI_ERR_ARG);
    CHECK_EQ(class_of(combray_send(from, bytes, 2, NULL, COMBRAY_UNRELIABLE | COMBRAY_UNORDERED)), MPI_ERR_ARG);
    bytes[0] = UNRELIABLE;
    for (int sent = 0; sent < FLOOD; sent++) OK(combray_send(from, bytes, 1000, NULL, COMBRAY_UNRELIABLE));
    OK(combray_dropped(from, &dropped));
    CHECK(dropped > 0 && dropped < FLOOD, "%zu", dropped);
    OK(combray_disconnect(from));
    while (closed < 2) {
        OK(combray_endpoint_poll(endpoint, &event, 60000));
        closed += take_delivery(event);
    }
    CHECK_EQ(arrived[ORDERED], PARTS);
    CHECK_EQ(arrived[UNORDERED], PARTS);
    received = FLOOD - (int)dropped;
    OK(MPI_Sendrecv_replace(&received, 1, MPI_INT, next_rank, 0, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(arrived[UNRELIABLE], received);
}

static void rejections(void) {
    combray_connection connection;
    char uri[URI];
    OK(combray_connect(endpoint, uris[check_rank], "please", 7, &connection, -1, &connection));
    combray_event event = next(COMBRAY_CONNECT_REQUEST);
    CHECK(strcmp(event.data, "please") == 0, " ");
    OK(combray_reject(event.connection, "no", 3));
    CHECK_EQ(class_of(combray_accept(event.connection, NULL)), MPI_ERR_ARG);
    OK(combray_return(endpoint, &event));
    event = next(COMBRAY_REJECTED);
    CHECK_EQ(event.status, MPI_SUCCESS);
    CHECK(event.context == &connection && strcmp(event.data, "no") == 0, " ");
    OK(combray_return(endpoint, &event));
    CHECK_EQ(class_of(combray_send(connection, "", 1, NULL, 0)), MPI_ERR_ARG);
    // Nobody answers. On a busy machine the time may end before there is a request.
    for (int limit = 300;; limit *= 4) {
        OK(combray_connect(endpoint, uris[check_rank], &limit, sizeof limit, NULL, limit, &connection));
        do OK(combray_endpoint_poll(endpoint, &event, 60000));
        while (event.type == COMBRAY_LOST
               || (event.type == COMBRAY_CONNECT_REQUEST && memcmp(event.data, &limit, sizeof limit) != 0));
        if (event.type == COMBRAY_CONNECT_REQUEST) break;
        REQUIRE(event.type == COMBRAY_REJECTED && limit < 60000, "%d after %d ms", event.type, limit);
    }
    OK(combray_return(endpoint, &event));
    int waits = 1;
    for (int events = 0; events < 2; events++) {
        combray_event end;
        OK(combray_endpoint_poll(endpoint, &end, 60000));
        CHECK(end.type == (end.connection == connection ? COMBRAY_REJECTED : COMBRAY_LOST), "%d", end.type);
        CHECK_EQ(class_of(end.status), MPI_ERR_PORT);
        waits &= end.connection == connection || end.connection == event.connection;
    }
    CHECK(waits, " ");
    // A key that is wrong, and a text that is no URI.
    strcpy(uri, uris[check_rank]);
    uri[12] = uri[12] == '0' ? '1' : '0';
    OK(combray_connect(endpoint, uri, NULL, 0, NULL, 20000, &connection));
    CHECK_EQ(class_of(next(COMBRAY_REJECTED).status), MPI_ERR_PORT);
    CHECK_EQ(class_of(combray_connect(endpoint, "combray://x", NULL, 0, NULL, -1, &connection)),
             MPI_ERR_PORT);
    CHECK_EQ(class_of(combray_connect(endpoint, uri, uri, 1025, NULL, -1, &connection)), MPI_ERR_COUNT);
}

// A process closes its last endpoint while its peer, without a helper, is outside the library and
// learns nothing of it. What the peer sends then has an end, too.
static void a_send_after_the_end(void) {
    combray_connection connection;
    combray_event event;
    if (check_rank == 1) OK(combray_accept(next(COMBRAY_CONNECT_REQUEST).connection, NULL));
    if (check_rank != 0) return;
    OK(combray_connect(endpoint, uris[1], NULL, 0, NULL, -1, &connection));
    next(COMBRAY_CONNECTED);
    // Longer than the other process waits for this end.
    usleep(2500000);
    // If this process was slow, the end may have arrived together with the acceptance.
    int code = combray_send(connection, "late", 5, NULL, COMBRAY_NOTIFY);
    CHECK(code == MPI_SUCCESS || class_of(code) == MPI_ERR_ARG, "%d", class_of(code));
    do OK(combray_endpoint_poll(endpoint, &event, 20000));
    while (event.type == COMBRAY_SENT);
    CHECK(event.type == COMBRAY_CLOSED || event.type == COMBRAY_LOST, "%d", event.type);
}

enum { LIMIT = 1000 };

static volatile sig_atomic_t is_over;

static void end_silence(int number) {
    is_over = number;
}

// Process 1 is outside of the library until process 0, on the same host, has seen enough. Its
// helper thread answers in its place, if it has one.
static void a_silent_process(void) {
    const char *helper = getenv("COMBRAY_HELPER");
    int is_silent = helper && !strcmp(helper, "never"), reported = 0, pid = getpid(), pids[PEERS_MAX];
    combray_connection connection;
    combray_event event;
    signal(SIGUSR1, end_silence);
    OK(MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD));
    if (check_rank == 1) {
        event = next(COMBRAY_CONNECT_REQUEST);
        OK(combray_accept(event.connection, NULL));
        OK(combray_send(event.connection, "begin", 6, NULL, 0));
        // What the library has not sent yet.
        for (int poll = 0; poll < 1000; poll++) OK(combray_endpoint_poll(endpoint, &event, 0));
        while (!is_over) usleep(10000);
    }
    if (check_rank == 0) {
        OK(combray_connect(endpoint, uris[1], NULL, 0, NULL, -1, &connection));
        next(COMBRAY_CONNECTED);
        OK(combray_keepalive(connection, LIMIT));
        event = next(COMBRAY_RECEIVED);
        OK(combray_return(endpoint, &event));
        // On a busy machine the report takes longer. It comes once.
        double begun = MPI_Wtime(), end = begun + 2.0 * LIMIT / 1000;
        while (MPI_Wtime() < end || (is_silent && !reported && MPI_Wtime() < begun + 60)) {
            OK(combray_endpoint_poll(endpoint, &event, 100));
            if (event.type == COMBRAY_EVENT_NONE) continue;
            REQUIRE(event.type == COMBRAY_SILENT, "%d", event.type);
            reported++;
        }
        CHECK(reported == is_silent, "%d reports", reported);
        kill(pids[1], SIGUSR1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all_in_turn(void) {
    combray_event event = {0};
    all_to_all();
    MPI_Barrier(MPI_COMM_WORLD);
    hoarder();
    MPI_Barrier(MPI_COMM_WORLD);
    notified_sends();
    // A request for a connection would otherwise come before the last event of a slower process.
    MPI_Barrier(MPI_COMM_WORLD);
    deliveries();
    MPI_Barrier(MPI_COMM_WORLD);
    rejections();
    for (int wake = 0; wake < 3; wake++) OK(combray_endpoint_wake(endpoint));
    next(COMBRAY_WOKEN);
    OK(combray_endpoint_poll(endpoint, &event, 0));
    CHECK_EQ(event.type, COMBRAY_EVENT_NONE);
    event.lent = 5;
    CHECK_EQ(class_of(combray_return(endpoint, &event)), MPI_ERR_ARG);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    check_begin();
    combray_event event = {0};
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_EQ(class_of(combray_endpoint_open("memory=1", &endpoint)), MPI_ERR_ARG);
    OK(combray_endpoint_open(getenv("ENDPOINT_OPTIONS"), &endpoint));
    OK(combray_endpoint_uri(endpoint, uris[check_rank], URI));
    CHECK_EQ(class_of(combray_endpoint_uri(endpoint, uris[check_rank], 9)), MPI_ERR_COUNT);
    char own[URI];
    OK(combray_endpoint_uri(endpoint, own, URI));
    OK(MPI_Allgather(own, URI, MPI_CHAR, uris, URI, MPI_CHAR, MPI_COMM_WORLD));
    int is_late = argc > 1 && !strcmp(argv[1], "late");
    int is_silent = argc > 1 && !strcmp(argv[1], "silent");
    if (is_silent) a_silent_process(); else all_in_turn();
    if (is_late) a_send_after_the_end();
    OK(combray_endpoint_close(&endpoint));
    if (is_late) MPI_Barrier(MPI_COMM_WORLD);
    CHECK(endpoint == COMBRAY_ENDPOINT_NULL, " ");
    CHECK_EQ(class_of(combray_endpoint_poll(endpoint, &event, 0)), MPI_ERR_ARG);
    return check_end();
}
