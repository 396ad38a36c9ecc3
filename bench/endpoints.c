// Clients and one server, over endpoints of combray.h and over plain sockets with epoll. Started by
// bench/endpoints:
//   endpoints WAY WHAT server FILE CONNECTIONS MESSAGES
//   endpoints WAY WHAT client FILE CONNECTIONS MESSAGES
// WAY is `endpoints`, `tcp` or `unix`. The server has all connections, each client CONNECTIONS of
// them, with so many messages on each. WHAT is
//   trip    messages of 64 bytes are sent back; a process that waits calls the library, or reads
//           from the socket
//   epoll   the same; both processes wait by epoll
//   rate    messages of 64 bytes to the server
//   idle    connections on which nothing is sent
//   connect CONNECTIONS connections, one after the other, each closed as soon as it is accepted
//   read    a client reads MESSAGES blocks of 4 KiB of the server's memory, 16 at a time
//   write   a client writes them
#include <arpa/inet.h>
#include <combray.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "endpoints.h"

enum { URI = 256, READ = 65536, BLOCK = 4096, BLOCKS = 1024, AT_ONCE = 16 };

static char bytes[READ], blocks[BLOCKS][BLOCK], taken[AT_ONCE][BLOCK];

static int is(const char *what, const char *name) { return strcmp(what, name) == 0; }

static void find(const char *file, char *text) {
    FILE *in;
    while (!(in = fopen(file, "r"))) usleep(1000);
    SURE(fgets(text, URI, in));
    fclose(in);
}

static long resident(void) {
    long pages = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    SURE(in && fscanf(in, "%*d %ld", &pages) == 1);
    fclose(in);
    return pages * sysconf(_SC_PAGESIZE);
}

static void report(const char *what, double first, long messages, long before, long connections) {
    if (is(what, "idle")) printf("%ld\n", (resident() - before) / connections);
    else printf("%.0f\n", messages / (now() - first));
}

// Endpoints.

static combray_endpoint endpoint;
// The descriptor by which the process waits, or -1.
static int waits_by = -1;

static int epoll_of(int descriptor) {
    int epoll = epoll_create1(0);
    struct epoll_event one = {.events = EPOLLIN, .data.fd = descriptor};
    SURE(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &one) == 0);
    return epoll;
}

static void open_endpoint(const char *what) {
    int descriptor;
    SURE(combray_endpoint_open(NULL, &endpoint) == MPI_SUCCESS);
    if (!is(what, "epoll")) return;
    SURE(combray_endpoint_descriptor(endpoint, &descriptor) == MPI_SUCCESS);
    waits_by = epoll_of(descriptor);
}

static combray_event next(void) {
    combray_event event;
    struct epoll_event one;
    SURE(combray_endpoint_poll(endpoint, &event, waits_by < 0 ? 60000 : 0) == MPI_SUCCESS);
    while (waits_by >= 0 && event.type == COMBRAY_EVENT_NONE) {
        SURE(epoll_wait(waits_by, &one, 1, 60000) == 1);
        SURE(combray_endpoint_poll(endpoint, &event, 0) == MPI_SUCCESS);
    }
    if (event.status != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "";
        combray_error_string(event.status, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    SURE(event.type != COMBRAY_EVENT_NONE && event.type != COMBRAY_LOST && event.type != COMBRAY_REJECTED);
    return event;
}

static void endpoints_server(const char *what, const char *file, long connections, long messages) {
    char uri[URI];
    open_endpoint(what);
    SURE(combray_endpoint_uri(endpoint, uri, URI) == MPI_SUCCESS);
    publish(file, uri);
    long got = 0, open = 0, closed = 0, before = resident();
    double first = 0;
    int answers = (is(what, "trip") || is(what, "epoll")), starts = is(what, "rate");
    static combray_connection all[CONNECTIONS_MAX];
    combray_memory name;
    while (closed < connections) {
        combray_event event = next();
        if (event.type == COMBRAY_CONNECT_REQUEST) {
            SURE(combray_accept(event.connection, NULL) == MPI_SUCCESS);
            all[open % CONNECTIONS_MAX] = event.connection;
            if (is(what, "read") || is(what, "write")) {
                int may = COMBRAY_MAY_READ | COMBRAY_MAY_WRITE;
                SURE(combray_memory_register(endpoint, blocks, sizeof blocks, may, &name) == MPI_SUCCESS);
                SURE(combray_send(event.connection, &name, sizeof name, NULL, 0) == MPI_SUCCESS);
            }
            if (++open == connections && is(what, "idle")) report(what, 0, 0, before, connections);
            for (long one = 0; open == connections && starts && one < open; one++)
                SURE(combray_send(all[one], bytes, 1, NULL, 0) == MPI_SUCCESS);
        } else if (event.type == COMBRAY_RECEIVED) {
            if (got++ == 0) first = now();
            if (answers) SURE(combray_send(event.connection, event.data, event.bytes, NULL, 0) == MPI_SUCCESS);
            if (got == connections * messages && !answers) report(what, first, got, 0, 1);
        } else if (event.type == COMBRAY_CLOSED) {
            closed++;
        }
        SURE(combray_return(endpoint, &event) == MPI_SUCCESS);
    }
    SURE(combray_endpoint_close(&endpoint) == MPI_SUCCESS);
}

static void connect_often(const char *uri, long connections) {
    double first = now();
    combray_connection connection;
    for (long one = 0; one < connections; one++) {
        SURE(combray_connect(endpoint, uri, NULL, 0, NULL, 60000, &connection) == MPI_SUCCESS);
        SURE(next().type == COMBRAY_CONNECTED);
        SURE(combray_disconnect(connection) == MPI_SUCCESS);
        SURE(next().type == COMBRAY_CLOSED);
    }
    printf("%.0f\n", connections / (now() - first));
    SURE(combray_endpoint_close(&endpoint) == MPI_SUCCESS);
}

// Which block is used at a step.
static size_t place_of(long step) { return (size_t)step * 619 % BLOCKS; }

static void move_blocks(combray_connection connection, int reads, long count) {
    combray_event event = next();
    SURE(event.type == COMBRAY_RECEIVED && event.bytes == sizeof(combray_memory));
    combray_memory name = *(combray_memory *)event.data;
    double first = now();
    for (long begun = 0, ended = 0; ended < count;) {
        while (begun < count && begun - ended < AT_ONCE) {
            char *block = taken[begun % AT_ONCE];
            size_t place = place_of(begun++) * BLOCK;
            if (reads) SURE(combray_memory_read(connection, &name, place, block, BLOCK, NULL, COMBRAY_NOTIFY) == MPI_SUCCESS);
            else SURE(combray_memory_write(connection, &name, place, block, BLOCK, NULL, 0, NULL, COMBRAY_NOTIFY) == MPI_SUCCESS);
        }
        ended += next().type == COMBRAY_COMPLETED;
    }
    printf("%.0f\n", count / (now() - first));
}

static void endpoints_client(const char *what, const char *file, long connections, long messages) {
    static combray_connection all[CONNECTIONS_MAX];
    static long sent[CONNECTIONS_MAX];
    char uri[URI];
    combray_event event;
    find(file, uri);
    open_endpoint(what);
    if (is(what, "connect")) return connect_often(uri, connections);
    for (long one = 0; one < connections; one++)
        SURE(combray_connect(endpoint, uri, NULL, 0, &sent[one], 60000, &all[one]) == MPI_SUCCESS);
    for (long open = 0; open < connections; open++) SURE(next().type == COMBRAY_CONNECTED);
    if (is(what, "idle")) sleep(2);
    if ((is(what, "trip") || is(what, "epoll"))) {
        double begun = 0;
        for (long round = -messages / 10; round < messages; round++) {
            if (round == 0) begun = now();
            SURE(combray_send(all[0], bytes, BYTES, NULL, 0) == MPI_SUCCESS);
            event = next();
            SURE(event.type == COMBRAY_RECEIVED && event.bytes == BYTES);
            SURE(combray_return(endpoint, &event) == MPI_SUCCESS);
        }
        printf("%.2f\n", (now() - begun) / messages * 1e6);
    }
    if (is(what, "read") || is(what, "write")) move_blocks(all[0], is(what, "read"), messages);
    if (is(what, "rate")) {
        for (long one = 0; one < connections; one++) SURE(next().type == COMBRAY_RECEIVED);
        for (long left = connections * messages; left > 0;) {
            long before = left;
            for (long one = 0; one < connections; one++)
                if (sent[one] < messages && combray_send(all[one], bytes, BYTES, NULL, 0) == MPI_SUCCESS)
                    sent[one]++, left--;
            if (left == before) SURE(next().type == COMBRAY_WRITABLE);
        }
    }
    for (long one = 0; one < connections; one++) SURE(combray_disconnect(all[one]) == MPI_SUCCESS);
    for (long closed = 0; closed < connections;) closed += next().type == COMBRAY_CLOSED;
    SURE(combray_endpoint_close(&endpoint) == MPI_SUCCESS);
}

// Plain sockets.

static int is_tcp;

static struct sockaddr_storage address_of(const char *file, int port, socklen_t *length) {
    struct sockaddr_storage all = {0};
    if (is_tcp) {
        struct sockaddr_in *in = (struct sockaddr_in *)&all;
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *length = sizeof *in;
    } else {
        struct sockaddr_un *un = (struct sockaddr_un *)&all;
        un->sun_family = AF_UNIX;
        snprintf(un->sun_path, sizeof un->sun_path, "%s.socket", file);
        *length = sizeof *un;
    }
    return all;
}

static void without_delay(int socket) {
    int yes = 1;
    if (is_tcp) setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static void read_all(int from, void *into, size_t length) {
    for (size_t got = 0; got < length;) {
        ssize_t part = read(from, (char *)into + got, length - got);
        SURE(part > 0);
        got += (size_t)part;
    }
}

static void write_all(int to, const void *data, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t part = write(to, (const char *)data + done, length - done);
        SURE(part > 0);
        done += (size_t)part;
    }
}

// The server of blocks has one connection, so it need not wait for others.
static void serve_blocks(int client, int reads, long count) {
    size_t place;
    char ack = 1;
    for (long step = 0; step < count; step++) {
        read_all(client, &place, sizeof place);
        SURE(place < BLOCKS);
        if (reads) {
            write_all(client, blocks[place], BLOCK);
        } else {
            read_all(client, blocks[place], BLOCK);
            write_all(client, &ack, 1);
        }
    }
}

static void use_blocks(int server, int reads, long count) {
    static char request[sizeof(size_t) + BLOCK];
    double first = now();
    for (long begun = 0, ended = 0; ended < count; ended++) {
        while (begun < count && begun - ended < AT_ONCE) {
            size_t place = place_of(begun++);
            memcpy(request, &place, sizeof place);
            write_all(server, request, reads ? sizeof place : sizeof request);
        }
        read_all(server, taken[ended % AT_ONCE], reads ? BLOCK : 1);
    }
    printf("%.0f\n", count / (now() - first));
}

static void sockets_server(const char *what, const char *file, long connections, long messages) {
    char text[URI];
    socklen_t length;
    struct sockaddr_storage address = address_of(file, 0, &length);
    int listener = socket(address.ss_family, SOCK_STREAM, 0), epoll = epoll_create1(0);
    SURE(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 4096) == 0);
    SURE(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    snprintf(text, sizeof text, "%d", is_tcp ? ntohs(((struct sockaddr_in *)&address)->sin_port) : 1);
    struct epoll_event events[256], one = {.events = EPOLLIN, .data.fd = listener};
    SURE(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &one) == 0);
    publish(file, text);
    long got = 0, open = 0, closed = 0, before = resident();
    int answers = (is(what, "trip") || is(what, "epoll")), starts = is(what, "rate");
    static int all[CONNECTIONS_MAX];
    double first = 0;
    while (closed < connections) {
        int count = epoll_wait(epoll, events, 256, 60000);
        SURE(count > 0);
        for (int place = 0; place < count; place++) {
            int from = events[place].data.fd;
            if (from == listener) {
                one.data.fd = accept(listener, NULL, NULL);
                SURE(one.data.fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, one.data.fd, &one) == 0);
                without_delay(one.data.fd);
                all[open % CONNECTIONS_MAX] = one.data.fd;
                if (is(what, "connect")) SURE(write(one.data.fd, bytes, 1) == 1);
                if (is(what, "read") || is(what, "write")) {
                    serve_blocks(one.data.fd, is(what, "read"), messages);
                    return;
                }
                if (++open == connections && is(what, "idle")) report(what, 0, 0, before, connections);
                for (long to = 0; open == connections && starts && to < open; to++)
                    SURE(write(all[to], bytes, 1) == 1);
                continue;
            }
            ssize_t bytes_got = read(from, bytes, READ);
            SURE(bytes_got >= 0);
            if (bytes_got == 0) {
                close(from);
                closed++;
                continue;
            }
            if (got == 0) first = now();
            got += bytes_got;
            if (answers) SURE(write(from, bytes, bytes_got) == bytes_got);
            if (got == connections * messages * BYTES && !answers) report(what, first, got / BYTES, 0, 1);
        }
    }
}

static void sockets_client(const char *what, const char *file, long connections, long messages) {
    static int all[CONNECTIONS_MAX];
    char text[URI];
    socklen_t length;
    find(file, text);
    struct sockaddr_storage address = address_of(file, atoi(text), &length);
    if (is(what, "connect")) {
        double begun = now();
        for (long one = 0; one < connections; one++) {
            int made = socket(address.ss_family, SOCK_STREAM, 0);
            SURE(connect(made, (struct sockaddr *)&address, length) == 0 && read(made, bytes, 1) == 1);
            close(made);
        }
        printf("%.0f\n", connections / (now() - begun));
        return;
    }
    for (long one = 0; one < connections; one++) {
        all[one] = socket(address.ss_family, SOCK_STREAM, 0);
        SURE(connect(all[one], (struct sockaddr *)&address, length) == 0);
        without_delay(all[one]);
    }
    if (is(what, "idle")) sleep(2);
    if ((is(what, "trip") || is(what, "epoll"))) {
        double begun = 0;
        if (is(what, "epoll")) waits_by = epoll_of(all[0]);
        for (long round = -messages / 10; round < messages; round++) {
            if (round == 0) begun = now();
            struct epoll_event event;
            SURE(write(all[0], bytes, BYTES) == BYTES);
            SURE(waits_by < 0 || epoll_wait(waits_by, &event, 1, 60000) == 1);
            SURE(read(all[0], bytes, BYTES) == BYTES);
        }
        printf("%.2f\n", (now() - begun) / messages * 1e6);
    }
    if (is(what, "read") || is(what, "write")) use_blocks(all[0], is(what, "read"), messages);
    for (long one = 0; is(what, "rate") && one < connections; one++)
        SURE(read(all[one], bytes, 1) == 1);
    if (is(what, "rate"))
        for (long round = 0; round < messages; round++)
            for (long one = 0; one < connections; one++) SURE(write(all[one], bytes, BYTES) == BYTES);
}

int main(int argc, char **argv) {
    SURE(argc == 7);
    const char *way = argv[1], *what = argv[2], *file = argv[4];
    int serves = strcmp(argv[3], "server") == 0;
    long connections = atol(argv[5]), messages = atol(argv[6]);
    SURE(serves || is(what, "connect") || connections <= CONNECTIONS_MAX);
    is_tcp = strcmp(way, "tcp") == 0;
    if (strcmp(way, "endpoints") == 0) (serves ? endpoints_server : endpoints_client)(what, file, connections, messages);
    else (serves ? sockets_server : sockets_client)(what, file, connections, messages);
    return 0;
}
