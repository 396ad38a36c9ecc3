// A piece of network between two interfaces that damages traffic as networks do: of a thousand
// frames, so many are lost, doubled, or overtaken by the frames of the next millisecond.
//
//     weather ONE OTHER LOST DOUBLED LATE
//
// Prints its counts when it is ended by SIGTERM.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_BYTES = 10240, TOGETHER = 64, LATE_MAX = 256, ROOM = 32 << 20 };

static const int64_t late_ns = 1000000;

struct late {
    int64_t at;
    int to;
    size_t length;
    char bytes[FRAME_BYTES];
};

static struct late held[LATE_MAX];
static int first_held, held_count;
static unsigned long passed, lost, doubled, late, refused;
static volatile sig_atomic_t is_over;

static void end(int number) { is_over = number; }

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

// A fixed seed, so that every run is equal.
static int happens(unsigned per_mille) {
    static uint64_t state = 0x9e3779b97f4a7c15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % 1000 < per_mille;
}

static int open_interface(const char *name) {
    const int on = 1, room = ROOM, all = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(name)};
    struct packet_mreq everything = {.mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
    if (all < 0 || address.sll_ifindex == 0) fail(name);
    if (setsockopt(all, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
        setsockopt(all, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &everything, sizeof everything) != 0 ||
        setsockopt(all, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0 ||
        bind(all, (struct sockaddr *)&address, sizeof address) != 0)
        fail(name);
    return all;
}

static void pass(int to, const char *bytes, size_t length) {
    if (send(to, bytes, length, 0) < 0) refused++;
    else passed++;
}

static void hold(int to, const char *bytes, size_t length) {
    if (held_count == LATE_MAX) {
        pass(to, bytes, length);
        return;
    }
    struct late *place = &held[(first_held + held_count++) % LATE_MAX];
    *place = (struct late){.at = now() + late_ns, .to = to, .length = length};
    memcpy(place->bytes, bytes, length);
    late++;
}

static void pass_held(void) {
    while (held_count > 0 && now() >= held[first_held].at) {
        pass(held[first_held].to, held[first_held].bytes, held[first_held].length);
        first_held = (first_held + 1) % LATE_MAX;
        held_count--;
    }
}

int main(int argc, char **argv) {
    static char frames[TOGETHER][FRAME_BYTES];
    if (argc != 6) return 2;
    const unsigned chances[] = {atoi(argv[3]), atoi(argv[4]), atoi(argv[5])};
    const int ends[] = {open_interface(argv[1]), open_interface(argv[2])};
    struct pollfd readable[] = {{.fd = ends[0], .events = POLLIN}, {.fd = ends[1], .events = POLLIN}};
    struct iovec slices[TOGETHER];
    struct mmsghdr messages[TOGETHER];
    signal(SIGTERM, end);
    while (!is_over) {
        poll(readable, 2, held_count > 0 ? 1 : 100);
        pass_held();
        for (int from = 0; from < 2; from++) {
            for (int i = 0; i < TOGETHER; i++) {
                slices[i] = (struct iovec){frames[i], FRAME_BYTES};
                messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &slices[i], .msg_iovlen = 1}};
            }
            const int count = recvmmsg(ends[from], messages, TOGETHER, 0, NULL);
            for (int i = 0; i < count; i++) {
                const int to = ends[1 - from];
                if (happens(chances[0])) {
                    lost++;
                    continue;
                }
                if (happens(chances[2])) hold(to, frames[i], messages[i].msg_len);
                else pass(to, frames[i], messages[i].msg_len);
                if (happens(chances[1])) {
                    pass(to, frames[i], messages[i].msg_len);
                    doubled++;
                }
            }
        }
    }
    unsigned dropped = 0;
    for (int i = 0; i < 2; i++) {
        struct tpacket_stats told = {0};
        socklen_t length = sizeof told;
        getsockopt(ends[i], SOL_PACKET, PACKET_STATISTICS, &told, &length);
        dropped += told.tp_drops;
    }
    printf("weather: %lu frames passed, %lu lost, %lu doubled, %lu late, %lu refused by the system, %u for which there "
           "was no room\n", passed, lost, doubled, late, refused, dropped);
    return 0;
}
