// Clients and one server over active messages of UCX, or over connected endpoints of libfabric's
// provider of TCP, as bench/endpoints.c has them over endpoints of combray.h and over sockets.
// Compiled with WITH_UCX or WITH_LIBFABRIC. Started by bench/endpoints:
//   endpoints-others WAY WHAT server|client FILE CONNECTIONS MESSAGES
// WHAT is `trip` or `rate`. All processes call the library while they wait.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "endpoints.h"

static char bytes[BYTES];

static void publish_port(const char *file, int port) {
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    publish(file, text);
}

static struct sockaddr_in address_in(const char *file) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    FILE *in;
    int port;
    while (!(in = fopen(file, "r"))) usleep(1000);
    SURE(fscanf(in, "%d", &port) == 1);
    fclose(in);
    address.sin_port = htons((uint16_t)port);
    return address;
}

// What the server and the clients do, over these functions of a library.
static void begin(const char *file, int serves, long connections);
static void make_progress(void);
// Sends this many bytes; returns 0 if that is impossible now.
static int send_to(long connection, int length);
static void end(void);

// How many messages have arrived, and how many connections there are.
static long got, made;
static double first;
// Whether the server sends what arrives back to its one client.
static int answers;

static void take(void) {
    if (got++ == 0) first = now();
    if (answers) SURE(send_to(0, BYTES));
}

static void wait_for(long messages) {
    while (got < messages) make_progress();
}

static void start_all(void) {
    for (long one = 0; one < made; one++)
        while (!send_to(one, 1)) make_progress();
}

static void serve(int is_trip, long connections, long messages) {
    answers = is_trip;
    while (made < connections) make_progress();
    if (!is_trip) start_all();
    long all = is_trip ? messages + messages / 10 : connections * messages;
    wait_for(all);
    if (!is_trip) printf("%.0f\n", all / (now() - first));
    answers = 0;
    // The clients wait for this before they end.
    if (!is_trip) start_all();
}

static void use(int is_trip, long connections, long messages) {
    if (is_trip) {
        double begun = 0;
        for (long round = -messages / 10; round < messages; round++) {
            if (round == 0) begun = now();
            long before = got;
            while (!send_to(0, BYTES)) make_progress();
            wait_for(before + 1);
        }
        printf("%.2f\n", (now() - begun) / messages * 1e6);
        return;
    }
    static long sent[CONNECTIONS_MAX];
    wait_for(connections);
    for (long left = connections * messages; left > 0;) {
        long before = left;
        for (long one = 0; one < connections; one++)
            if (sent[one] < messages && send_to(one, BYTES)) sent[one]++, left--;
        if (left == before) make_progress();
    }
    wait_for(2 * connections);
}

#ifdef WITH_UCX
#include <ucp/api/ucp.h>

enum { UNDERWAY_MAX = 256 };

static ucp_worker_h worker;
static ucp_ep_h all[CONNECTIONS_MAX];
static long underway;

static ucs_status_t take_message(void *argument, const void *header, size_t header_length, void *data, size_t length,
                                 const ucp_am_recv_param_t *parameters) {
    (void)argument, (void)header, (void)header_length, (void)data, (void)length, (void)parameters;
    take();
    return UCS_OK;
}

static void note_sent(void *request, ucs_status_t status, void *data) {
    (void)data;
    SURE(status == UCS_OK);
    ucp_request_free(request);
    underway--;
}

static int send_to(long connection, int length) {
    ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = note_sent};
    if (underway >= UNDERWAY_MAX) return 0;
    ucs_status_ptr_t request = ucp_am_send_nbx(all[connection], 1, NULL, 0, bytes, (size_t)length, &how);
    SURE(!UCS_PTR_IS_ERR(request));
    underway += request != NULL;
    return 1;
}

static void make_progress(void) { ucp_worker_progress(worker); }

static void note_loss(void *argument, ucp_ep_h endpoint, ucs_status_t status) {
    (void)argument, (void)endpoint, (void)status;
}

static void make_endpoint(ucp_ep_params_t *how) {
    how->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    how->err_mode = UCP_ERR_HANDLING_MODE_PEER;
    how->err_handler.cb = note_loss;
    SURE(made < CONNECTIONS_MAX && ucp_ep_create(worker, how, &all[made]) == UCS_OK);
    made++;
}

static void accept_one(ucp_conn_request_h request, void *argument) {
    (void)argument;
    ucp_ep_params_t how = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request};
    make_endpoint(&how);
}

static void begin(const char *file, int serves, long connections) {
    ucp_params_t features = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    ucp_worker_params_t threads = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = 1, .cb = take_message};
    ucp_context_h context;
    SURE(ucp_init(&features, NULL, &context) == UCS_OK);
    SURE(ucp_worker_create(context, &threads, &worker) == UCS_OK);
    SURE(ucp_worker_set_am_recv_handler(worker, &handler) == UCS_OK);
    if (!serves) {
        struct sockaddr_in address = address_in(file);
        for (long one = 0; one < connections; one++) {
            ucp_ep_params_t how = {.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
                                   .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                                   .sockaddr = {(struct sockaddr *)&address, sizeof address}};
            make_endpoint(&how);
        }
        return;
    }
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t how = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                 .sockaddr = {(struct sockaddr *)&any, sizeof any},
                                 .conn_handler.cb = accept_one};
    ucp_listener_attr_t listener_is = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_listener_h listener;
    SURE(ucp_listener_create(worker, &how, &listener) == UCS_OK);
    SURE(ucp_listener_query(listener, &listener_is) == UCS_OK);
    publish_port(file, ntohs(((struct sockaddr_in *)&listener_is.sockaddr)->sin_port));
}

static void end(void) {
    double begun = now();
    while (underway > 0 && now() < begun + 5) make_progress();
    // Short messages are complete before they have left.
    while (now() < begun + 0.1) make_progress();
    _exit(fflush(stdout));
}
#endif

#ifdef WITH_LIBFABRIC
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

enum { POSTED = 32 };

typedef struct {
    struct fid_ep *endpoint;
    char places[POSTED][BYTES];
} connection;

typedef struct {
    connection *of;
    int place;
} receive;

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *events;
static struct fid_cq *completions;
static connection *all[CONNECTIONS_MAX];
static long opened;

static int send_to(long number, int length) {
    ssize_t code = fi_inject(all[number]->endpoint, bytes, (size_t)length, 0);
    SURE(code == 0 || code == -FI_EAGAIN);
    return code == 0;
}

static void post(receive *one) {
    SURE(fi_recv(one->of->endpoint, one->of->places[one->place], BYTES, NULL, 0, one) == 0);
}

static void open_connection(struct fi_info *info) {
    connection *one = calloc(1, sizeof *one);
    SURE(one && opened < CONNECTIONS_MAX);
    SURE(fi_endpoint(domain, info, &one->endpoint, NULL) == 0);
    SURE(fi_ep_bind(one->endpoint, &events->fid, 0) == 0);
    SURE(fi_ep_bind(one->endpoint, &completions->fid, FI_TRANSMIT | FI_RECV) == 0);
    SURE(fi_enable(one->endpoint) == 0);
    for (int place = 0; place < POSTED; place++) {
        receive *next = malloc(sizeof *next);
        SURE(next);
        *next = (receive){one, place};
        post(next);
    }
    all[opened++] = one;
}

static void take_events(void) {
    struct fi_eq_cm_entry entry;
    uint32_t event;
    if (fi_eq_read(events, &event, &entry, sizeof entry, 0) < 0) return;
    if (event == FI_CONNREQ) {
        open_connection(entry.info);
        SURE(fi_accept(all[opened - 1]->endpoint, NULL, 0) == 0);
        fi_freeinfo(entry.info);
    }
    made += event == FI_CONNECTED;
}

static void make_progress(void) {
    struct fi_cq_entry entries[64];
    static long rounds;
    ssize_t count = fi_cq_read(completions, entries, 64);
    for (ssize_t place = 0; place < count; place++) {
        take();
        post(entries[place].op_context);
    }
    // Looking for connections costs a system call.
    if (count <= 0 && rounds++ % 64 == 0) take_events();
}

static void begin(const char *file, int serves, long connections) {
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_eq_attr queue = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr format = {.format = FI_CQ_FORMAT_CONTEXT, .size = 65536};
    SURE(hints);
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup("tcp");
    hints->addr_format = FI_SOCKADDR_IN;
    SURE(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, serves ? FI_SOURCE : 0, hints, &info) == 0);
    SURE(info->tx_attr->inject_size >= BYTES);
    SURE(fi_fabric(info->fabric_attr, &fabric, NULL) == 0 && fi_eq_open(fabric, &queue, &events, NULL) == 0);
    SURE(fi_domain(fabric, info, &domain, NULL) == 0 && fi_cq_open(domain, &format, &completions, NULL) == 0);
    if (serves) {
        struct fid_pep *listener;
        struct sockaddr_in own;
        size_t length = sizeof own;
        SURE(fi_passive_ep(fabric, info, &listener, NULL) == 0 && fi_pep_bind(listener, &events->fid, 0) == 0);
        SURE(fi_listen(listener) == 0 && fi_getname(&listener->fid, &own, &length) == 0);
        publish_port(file, ntohs(own.sin_port));
        return;
    }
    struct sockaddr_in address = address_in(file);
    for (long one = 0; one < connections; one++) {
        open_connection(info);
        SURE(fi_connect(all[one]->endpoint, &address, NULL, 0) == 0);
        while (made <= one) make_progress();
    }
}

static void end(void) {
    double begun = now();
    while (now() < begun + 0.1) make_progress();
    _exit(fflush(stdout));
}
#endif

int main(int argc, char **argv) {
    SURE(argc == 7);
    int is_trip = strcmp(argv[2], "trip") == 0, serves = strcmp(argv[3], "server") == 0;
    long connections = atol(argv[5]), messages = atol(argv[6]);
    SURE(connections <= CONNECTIONS_MAX);
    begin(argv[4], serves, connections);
    (serves ? serve : use)(is_trip, connections, messages);
    end();
}
