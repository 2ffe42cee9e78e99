/*
 * talk.h - how the programs that attack a cluster talk to its nodes. It knows the protocol from docs/PROTOCOL.md alone,
 * and uses nothing of the library.
 */
#ifndef TESTS_CLUSTER_TALK_H
#define TESTS_CLUSTER_TALK_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    VERSION = 8,
    HEADER_BYTES = 56,
    NONCE_BYTES = 16,
    PROOF_BYTES = 32,
    MAX_FRAME_BYTES = 64 << 10,
    REFUSED_MS = 8000, /* a connection that may be closed late is by then */
    LANES = 16,
    KEYS = 10000,
    RING_HEAD_BYTES = 192,
    MEMORY_BYTES = 4096 + 2 * (1 << 20),
};

enum kind {
    HELLO = 1,
    PULL,
    PUSH,
    SET,
    RANGE,
    JOIN,
    TABLE,
    BARRIER,
    REDUCE,
    BROADCAST,
    ROUND,
    PING,
    BYE,
    TASK,
    FINISHED,
    WELCOME,
    VALUES,
    DONE,
    ROSTER,
    MOVED,
    ROUND_REPLY,
    ERROR,
    HOLD,
    CHALLENGE,
    PROOF,
    KINDS
};

struct header {
    uint8_t kind, flags;
    uint16_t table;
    uint32_t epoch, count, keys_bytes, body_bytes;
    uint64_t number, a, b;
};

static uint64_t random_state;
static const char *token;
static uint32_t n_nodes, called_node;

static inline uint64_t next_random(void)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = random_state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint32_t below(uint32_t n)
{
    return (uint32_t)(next_random() % n);
}

static inline void fill(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)next_random();
}

static inline double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Connections ------------------------------------------------------------------------------ */

static inline int dial(const char *text)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    bool local_one = !strncmp(text, "unix:", 5);
    if (local_one) {
        snprintf(local.sun_path, sizeof local.sun_path, "%s", text + 5);
    } else {
        char host[64] = "";
        unsigned port = 0;
        if (sscanf(text, "%63[0-9.]:%u", host, &port) != 2 ||
            inet_pton(AF_INET, host, &v4.sin_addr) != 1)
            exit(2);
        v4.sin_port = htons((uint16_t)port);
    }
    int fd = socket(local_one ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *address =
        local_one ? (const struct sockaddr *)&local : (const struct sockaddr *)&v4;
    if (fd >= 0 && connect(fd, address, local_one ? sizeof local : sizeof v4)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Sends a byte, and a descriptor if it is not -1, and reads the answer; 0 if there is none. */
static inline char offer(int fd, char byte, int memory_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } beside = {.header = {.cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS,
                           .cmsg_len = CMSG_LEN(sizeof(int))}};
    memcpy(CMSG_DATA(&beside.header), &memory_fd, sizeof memory_fd);
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (memory_fd >= 0) {
        message.msg_control = beside.bytes;
        message.msg_controllen = sizeof beside.bytes;
    }
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    char answer;
    bool answered = sendmsg(fd, &message, MSG_NOSIGNAL) == 1 && poll(&readable, 1, 5000) == 1 &&
                    recv(fd, &answer, 1, 0) == 1;
    return answered ? answer : 0;
}

static inline bool is_local(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof address;
    return !getsockname(fd, (struct sockaddr *)&address, &n) && address.ss_family == AF_UNIX;
}

/* Dials, and has it the socket where there is a choice. */
static inline int call(const char *text)
{
    int fd = dial(text);
    if (fd >= 0 && is_local(fd) && offer(fd, 'S', -1) != 'S') {
        close(fd);
        return -1;
    }
    return fd;
}

static inline void send_all(int fd, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0)
            return; /* refused already */
        bytes += sent;
        n -= (size_t)sent;
    }
}

/* Reads up to n bytes within a time; fewer when the other side has closed or says no more. *closed
 * tells which. */
static inline size_t receive(int fd, uint8_t *bytes, size_t n, int timeout_ms, bool *closed)
{
    size_t got = 0;
    *closed = false;
    while (got < n) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (poll(&readable, 1, timeout_ms) <= 0)
            return got;
        ssize_t now = recv(fd, bytes + got, n - got, 0);
        if (now <= 0) {
            *closed = true;
            return got;
        }
        got += (size_t)now;
    }
    return got;
}

/* Whether the other side closes the connection, whatever it says before. */
static inline bool is_closed(int fd)
{
    uint8_t bytes[4096];
    bool closed = false;
    double end = now_s() + REFUSED_MS / 1000.0;
    while (!closed && now_s() < end)
        receive(fd, bytes, sizeof bytes, 500, &closed);
    return closed;
}

/* ---- Frames ----------------------------------------------------------------------------------- */

static inline void put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t get(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static inline void encode(const struct header *header, uint8_t *at)
{
    memset(at, 0, HEADER_BYTES);
    at[0] = 0xd7;
    at[1] = VERSION;
    at[2] = header->kind;
    at[3] = header->flags;
    put(at + 4, header->table, 2);
    put(at + 8, header->number, 8);
    put(at + 16, header->a, 8);
    put(at + 24, header->b, 8);
    put(at + 32, header->epoch, 4);
    put(at + 36, header->count, 4);
    put(at + 40, header->keys_bytes, 4);
    put(at + 44, header->body_bytes, 4);
    put(at + 52, (uint32_t)XXH3_64bits(at, 52), 4);
}

/* ---- The handshake ---------------------------------------------------------------------------- */

/* What is said in it, and of which the proof is made. */
struct said {
    uint32_t node, nodes, shard, called;
    uint64_t lane, incarnation;
    uint8_t nonces[2][NONCE_BYTES];
};

/* HELLO, with a fresh nonce. */
static inline size_t make_hello(uint8_t *at, struct said *said)
{
    struct header header = {.kind = HELLO,
                            .table = (uint16_t)said->shard,
                            .epoch = 1,
                            .body_bytes = 8 + NONCE_BYTES,
                            .b = said->lane};
    encode(&header, at);
    fill(said->nonces[0], NONCE_BYTES);
    put(at + HEADER_BYTES, said->node, 4);
    put(at + HEADER_BYTES + 4, said->nodes, 4);
    memcpy(at + HEADER_BYTES + 8, said->nonces[0], NONCE_BYTES);
    return HEADER_BYTES + 8 + NONCE_BYTES;
}

/* PROOF, under a token. */
static inline size_t make_proof(uint8_t *at, const struct said *said, const char *as)
{
    uint8_t text[33 + 2 * NONCE_BYTES] = {'c'};
    struct header header = {
        .kind = PROOF, .epoch = 1, .body_bytes = PROOF_BYTES, .a = said->incarnation};
    encode(&header, at);
    put(text + 1, said->node, 4);
    put(text + 5, said->nodes, 4);
    put(text + 9, said->shard, 4);
    put(text + 13, said->called, 4);
    put(text + 17, said->lane, 8);
    put(text + 25, said->incarnation, 8);
    memcpy(text + 33, said->nonces, 2 * NONCE_BYTES);
    unsigned n = 0;
    HMAC(EVP_sha256(), as, (int)strlen(as), text, sizeof text, at + HEADER_BYTES, &n);
    return HEADER_BYTES + PROOF_BYTES;
}

/* Takes the CHALLENGE; false if it does not come. */
static inline bool take_challenge(int fd, struct said *said)
{
    uint8_t bytes[HEADER_BYTES + NONCE_BYTES + PROOF_BYTES];
    bool closed;
    if (receive(fd, bytes, sizeof bytes, REFUSED_MS, &closed) < sizeof bytes ||
        bytes[2] != CHALLENGE)
        return false;
    memcpy(said->nonces[1], bytes + HEADER_BYTES, NONCE_BYTES);
    return true;
}

/* Says HELLO, and answers the CHALLENGE with a proof under `as`. False if it was not challenged. */
static inline bool introduce(int fd, struct said *said, const char *as)
{
    uint8_t bytes[256];
    send_all(fd, bytes, make_hello(bytes, said));
    if (!take_challenge(fd, said))
        return false;
    send_all(fd, bytes, make_proof(bytes, said, as));
    return true;
}

/* A push of ones to one key of a table of four 64-bit integers. */
static inline size_t make_push(uint8_t *at, uint64_t number, uint64_t key)
{
    struct header header = {.kind = PUSH,
                            .epoch = 1,
                            .number = number,
                            .count = 1,
                            .keys_bytes = 8,
                            .body_bytes = 8 + 32};
    encode(&header, at);
    put(at + HEADER_BYTES, key, 8);
    for (int i = 0; i < 4; i++)
        put(at + HEADER_BYTES + 8 + 8 * i, 1, 8);
    return HEADER_BYTES + header.body_bytes;
}

#endif
