// What bench/frames measures: how fast one host can send to another through packet sockets, without
// a protocol that repeats what is lost. The receiver acknowledges each 256 KiB, and at most four
// of these are underway.
//     frames send|receive INTERFACE PEER_MAC frames|datagrams SECONDS CORE
// `frames`: Ethernet frames of 1,514 bytes, 32 in each call. `datagrams`: UDP over IP, 64 KiB in
// each packet with a virtio header, which the kernel cuts only for interfaces that cannot.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

enum {
    FRAME_BYTES = 1514,
    TOGETHER = 32,
    ACKNOWLEDGED_BYTES = 256 << 10,
    UNDERWAY_BYTES = 4 * ACKNOWLEDGED_BYTES,
    HEADER_BYTES = 14 + 20 + 8,
    SEGMENT_BYTES = FRAME_BYTES - HEADER_BYTES,
    DATAGRAM_BYTES = HEADER_BYTES + 44 * SEGMENT_BYTES,
    ROOM_BYTES = 16 << 20,
    FRAME_TYPE = 0x88b5,
    ACKNOWLEDGEMENT_TYPE = 0x88b6,
    ACKNOWLEDGEMENT_BYTES = 60,
};

static uint8_t peer[6], own[6];
static int is_datagram;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int open_socket(const char *interface, uint16_t type, int has_header) {
    int sock = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(type));
    if (sock < 0)
        fail("socket");
    struct ifreq request = {0};
    strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    if (ioctl(sock, SIOCGIFHWADDR, &request))
        fail(interface);
    memcpy(own, request.ifr_hwaddr.sa_data, sizeof own);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(type),
                                  .sll_ifindex = (int)if_nametoindex(interface)};
    int one = 1, room = ROOM_BYTES;
    if (has_header && setsockopt(sock, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one))
        fail("PACKET_VNET_HDR");
    setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(sock, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    if (bind(sock, (struct sockaddr *)&address, sizeof address))
        fail("bind");
    return sock;
}

static void put_ethernet(uint8_t *out, uint16_t type) {
    memcpy(out, peer, 6);
    memcpy(out + 6, own, 6);
    out[12] = (uint8_t)(type >> 8);
    out[13] = (uint8_t)type;
}

// Addresses of no host: the receiver's kernel drops the packet after the packet socket has it.
static void put_datagram(uint8_t *out) {
    static const uint8_t ip[20] = {0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0,
                                   192, 0, 2, 1, 192, 0, 2, 2};
    uint16_t length = htons(DATAGRAM_BYTES - 14), udp[4] = {htons(9), htons(9), 0, 0};
    put_ethernet(out, ETHERTYPE_IP);
    memcpy(out + 14, ip, sizeof ip);
    memcpy(out + 16, &length, sizeof length);
    uint32_t sum = 0;
    for (int at = 14; at < 34; at += 2)
        sum += (uint32_t)out[at] << 8 | out[at + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    out[24] = (uint8_t)(~sum >> 8);
    out[25] = (uint8_t)~sum;
    udp[2] = htons(DATAGRAM_BYTES - 34);
    memcpy(out + 34, udp, sizeof udp);
}

// Sends the next frames, or datagram; returns the bytes that were accepted.
static long send_some(int sock) {
    static uint8_t data[DATAGRAM_BYTES];
    static struct virtio_net_hdr header;
    static struct mmsghdr messages[TOGETHER];
    static struct iovec slices[TOGETHER][1];
    if (is_datagram) {
        put_datagram(data);
        header = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
            .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4, .hdr_len = HEADER_BYTES,
            .gso_size = SEGMENT_BYTES, .csum_start = 34, .csum_offset = 6};
        struct iovec both[2] = {{&header, sizeof header}, {data, sizeof data}};
        struct msghdr message = {.msg_iov = both, .msg_iovlen = 2};
        long sent = sendmsg(sock, &message, 0);
        return sent < 0 ? 0 : DATAGRAM_BYTES;
    }
    put_ethernet(data, FRAME_TYPE);
    for (int at = 0; at < TOGETHER; at++) {
        slices[at][0] = (struct iovec){data, FRAME_BYTES};
        messages[at].msg_hdr = (struct msghdr){.msg_iov = slices[at], .msg_iovlen = 1};
    }
    int sent = sendmmsg(sock, messages, TOGETHER, 0);
    return sent < 0 ? 0 : (long)sent * FRAME_BYTES;
}

static void send_all(int sock, int answers, double seconds) {
    uint8_t answer[ACKNOWLEDGEMENT_BYTES];
    long sent = 0, acknowledged = 0;
    double start = now(), heard = start;
    while (now() - start < seconds) {
        if (sent - acknowledged < UNDERWAY_BYTES)
            sent += send_some(sock);
        while (recv(answers, answer, sizeof answer, 0) > 0) {
            acknowledged += ACKNOWLEDGED_BYTES;
            heard = now();
        }
        if (now() - heard > 0.1) {
            // Something was lost, or the receiver has not begun.
            acknowledged = sent;
            heard = now();
        }
    }
    printf("%.2f\n", (double)acknowledged / (now() - start) / 1e9);
}

static void receive_all(int sock, int answers, double seconds) {
    static uint8_t data[TOGETHER][FRAME_BYTES + 64], large[DATAGRAM_BYTES + 64];
    static struct mmsghdr messages[TOGETHER];
    static struct iovec slices[TOGETHER];
    uint8_t answer[ACKNOWLEDGEMENT_BYTES] = {0};
    long received = 0;
    double start = now();
    put_ethernet(answer, ACKNOWLEDGEMENT_TYPE);
    for (int at = 0; at < TOGETHER; at++) {
        slices[at] = (struct iovec){data[at], sizeof data[at]};
        messages[at].msg_hdr = (struct msghdr){.msg_iov = &slices[at], .msg_iovlen = 1};
    }
    while (now() - start < seconds) {
        if (is_datagram) {
            long count = recv(sock, large, sizeof large, 0);
            received += count > 1000 ? count : 0;
        } else {
            int count = recvmmsg(sock, messages, TOGETHER, 0, NULL);
            received += count > 0 ? (long)count * FRAME_BYTES : 0;
        }
        for (; received >= ACKNOWLEDGED_BYTES; received -= ACKNOWLEDGED_BYTES)
            send(answers, answer, sizeof answer, 0);
    }
}

int main(int count, char **words) {
    if (count != 7 || sscanf(words[3], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &peer[0], &peer[1],
                             &peer[2], &peer[3], &peer[4], &peer[5]) != 6) {
        fprintf(stderr, "usage: frames send|receive INTERFACE PEER_MAC frames|datagrams "
                        "SECONDS CORE\n");
        return 2;
    }
    is_datagram = strcmp(words[4], "datagrams") == 0;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((unsigned)atoi(words[6]), &cores);
    sched_setaffinity(0, sizeof cores, &cores);
    int answers = open_socket(words[2], ACKNOWLEDGEMENT_TYPE, 0);
    int sock = open_socket(words[2], is_datagram ? ETHERTYPE_IP : FRAME_TYPE, is_datagram);
    (strcmp(words[1], "send") ? receive_all : send_all)(sock, answers, atof(words[5]));
    return 0;
}
