/*
 * Two processes, a plain TCP connection that both sides poll, beside equal messages by MPI:
 * what a library adds to the kernel's own cost.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { TAG = 8, ADDRESSES_MAX = 16, CONNECT_SECONDS = 1 };

struct line {
    const struct job *job;
    int socket;
    char *send_buffer, *receive_buffer;
    size_t bytes;
    int peer;
    bool first;
    unsigned seed;
};

/* Addresses of this machine, those of real interfaces before the loopback's. */
static int own_addresses(struct in_addr *addresses)
{
    struct ifaddrs *interfaces = NULL;
    int count = 0;
    if (getifaddrs(&interfaces) != 0)
        return 0;
    for (int loopback = 0; loopback < 2; loopback++) {
        for (struct ifaddrs *i = interfaces; i && count < ADDRESSES_MAX; i = i->ifa_next) {
            if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) ||
                !!(i->ifa_flags & IFF_LOOPBACK) != loopback)
                continue;
            struct sockaddr_in address;
            memcpy(&address, i->ifa_addr, sizeof address);
            addresses[count++] = address.sin_addr;
        }
    }
    freeifaddrs(interfaces);
    return count;
}

/* Both ends give up after a while: an address may belong to a network of one machine only. */
static void limit_waiting(int descriptor)
{
    struct timeval limit = {.tv_sec = CONNECT_SECONDS};
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

/* The connected socket, or -1. */
static int connect_to(struct in_addr address, in_port_t port)
{
    struct sockaddr_in target = {.sin_family = AF_INET, .sin_port = port, .sin_addr = address};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    limit_waiting(descriptor);
    if (connect(descriptor, (struct sockaddr *)&target, sizeof target) == 0)
        return descriptor;
    close(descriptor);
    return -1;
}

int plain_connect(const struct job *job)
{
    struct in_addr addresses[ADDRESSES_MAX] = {{0}};
    struct sockaddr_in local = {.sin_family = AF_INET};
    socklen_t length = sizeof local;
    int descriptor = -1, listener = -1, count = 0;
    if (job->rank == 1) {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        limit_waiting(listener);
        if (bind(listener, (struct sockaddr *)&local, length) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, (struct sockaddr *)&local, &length) == 0)
            count = own_addresses(addresses);
    }
    MPI_Bcast(&count, 1, MPI_INT, 1, job->pair);
    MPI_Bcast(addresses, sizeof addresses, MPI_BYTE, 1, job->pair);
    MPI_Bcast(&local.sin_port, sizeof local.sin_port, MPI_BYTE, 1, job->pair);
    if (job->rank == 0)
        for (int i = 0; i < count && descriptor < 0; i++)
            descriptor = connect_to(addresses[i], local.sin_port);
    int connected = descriptor >= 0;
    MPI_Bcast(&connected, 1, MPI_INT, 0, job->pair);
    if (job->rank == 1) {
        if (connected)
            descriptor = accept(listener, NULL, NULL);
        close(listener);
    }
    int one = 1;
    if (descriptor >= 0)
        setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int worse;
    MPI_Allreduce(&descriptor, &worse, 1, MPI_INT, MPI_MIN, job->pair);
    if (worse < 0 && descriptor >= 0) {
        close(descriptor);
        descriptor = -1;
    }
    return descriptor;
}

static void expect_progress(const struct job *job, ssize_t moved)
{
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR))
        job_fail(job, "the plain connection failed: %s", moved ? strerror(errno) : "closed");
}

void plain_send(const struct job *job, int socket, const char *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t moved = send(socket, from + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (moved > 0)
            done += (size_t)moved;
        else
            expect_progress(job, moved);
    }
}

void plain_receive(const struct job *job, int socket, char *into, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t moved = recv(socket, into + done, bytes - done, MSG_DONTWAIT);
        if (moved > 0)
            done += (size_t)moved;
        else
            expect_progress(job, moved);
    }
}

static void send_plain(const struct line *line)
{
    plain_send(line->job, line->socket, line->send_buffer, line->bytes);
}

static void receive_plain(const struct line *line)
{
    plain_receive(line->job, line->socket, line->receive_buffer, line->bytes);
}

static void send_mpi(const struct line *line)
{
    MPI_Send(line->send_buffer, (int)line->bytes, MPI_BYTE, line->peer, TAG, line->job->pair);
}

static void receive_mpi(const struct line *line)
{
    MPI_Recv(line->receive_buffer, (int)line->bytes, MPI_BYTE, line->peer, TAG, line->job->pair,
             MPI_STATUS_IGNORE);
}

static void there_and_back(const struct line *line, long iterations,
                           void (*send)(const struct line *), void (*receive)(const struct line *))
{
    for (long i = 0; i < iterations; i++) {
        if (line->first)
            send(line);
        receive(line);
        if (!line->first)
            send(line);
    }
}

static void run_plain(void *state, long iterations)
{
    there_and_back(state, iterations, send_plain, receive_plain);
}

static void run_mpi(void *state, long iterations)
{
    there_and_back(state, iterations, send_mpi, receive_mpi);
}

static void check_line(struct line *line, void (*run)(void *, long))
{
    pattern_fill(line->send_buffer, line->bytes, line->seed + (unsigned)line->first);
    pattern_fill(line->receive_buffer, line->bytes, line->seed + 100);
    run(line, 1);
    pattern_expect(line->job, line->receive_buffer, line->bytes,
                   line->seed + (unsigned)!line->first);
    line->seed += 2;
}

static void check_plain(void *state) { check_line(state, run_plain); }
static void check_mpi(void *state) { check_line(state, run_mpi); }

static void measure_line(struct job *job, int socket, size_t bytes)
{
    struct line line = {.job = job, .socket = socket, .send_buffer = buffer_new(job, bytes),
                        .receive_buffer = buffer_new(job, bytes), .bytes = bytes,
                        .peer = 1 - job->rank, .first = job->rank == 0, .seed = (unsigned)bytes};
    struct operation operations[2] = {
        {.run = run_plain, .check = check_plain, .state = &line, .comm = job->pair,
         .clock = CLOCK_FIRST, .share = 0.5},
        {.run = run_mpi, .check = check_mpi, .state = &line, .comm = job->pair,
         .clock = CLOCK_FIRST, .share = 0.5},
    };
    struct timing timings[2] = {{0}};
    job_describe(job, "sockets", "", bytes);
    measure(job, operations, 2, timings);
    struct row row = {.benchmark = "sockets", .variant = "plain sockets", .processes = 2,
                      .bytes = bytes, .bytes_total = bytes, .timing = timings[0]};
    report_row(job, &row);
    snprintf(row.variant, sizeof row.variant, "MPI");
    row.timing = timings[1];
    row.twin = "plain sockets";
    row.ratio = timings[0].min > 0 ? timings[1].min / timings[0].min : 0;
    report_row(job, &row);
    free(line.send_buffer);
    free(line.receive_buffer);
}

void bench_sockets(struct job *job)
{
    report_section(job, "sockets",
                   "a ping-pong over a plain TCP connection that both sides poll, beside MPI; "
                   "time of one way",
                   true);
    if (job->pair == MPI_COMM_NULL)
        return;
    int socket = plain_connect(job);
    if (socket < 0) {
        report_note(job, "sockets left out: ranks 0 and 1 found no address to connect by");
        return;
    }
    struct list sizes = list_or_powers(&job->options.sizes, 8, 1L << 20, 8L << 20);
    for (int i = 0; i < sizes.length; i++)
        if (sizes.values[i] > 0)
            measure_line(job, socket, (size_t)sizes.values[i]);
    close(socket);
}
