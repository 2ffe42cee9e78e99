/*
 * crowd - many connections to one node of a cluster at once.
 *
 * crowd silent SECONDS COUNT ADDRESS
 *     Keeps COUNT connections open and says nothing on them; prints "connected" when they are.
 * crowd slow SECONDS COUNT ADDRESS
 *     Keeps COUNT connections open and sends a byte on each every 0.9 s, the beginning of a TLS handshake or of a
 *     frame. Those that the node closes are opened again. Prints "connected" when all are.
 * crowd descriptors COUNT ADDRESS
 *     Calls a Unix socket COUNT times and sends two descriptors with the first byte each time.
 * crowd welcome COUNT TOKEN NODES CALLED ADDRESS
 *     Somebody who means well, COUNT times at once: each says HELLO in two pieces, the second when all have said
 *     the first, as in handshakes that take their time. Exits 1 unless all are welcomed. CALLED is the number of the
 *     node at ADDRESS. A node ends a handshake after five seconds; a caller that was so slow, on a busy machine,
 *     calls once more.
 * crowd hold SECONDS COUNT TOKEN NODES CALLED ADDRESS
 *     COUNT connections of a process that has the token and never joins. Prints "connected", and after SECONDS how
 *     many of them the node still holds.
 */
#include "talk.h"

#include <sys/resource.h>

static int be_silent(double seconds, uint32_t count, const char *address)
{
    uint32_t n_open = 0;
    for (uint32_t i = 0; i < count; i++)
        n_open += dial(address) >= 0; /* they are closed with the process */
    puts("connected");
    fflush(stdout);
    usleep((useconds_t)(seconds * 1e6));
    printf("%u connections said nothing\n", n_open);
    return n_open == 0;
}

/* ---- Slow ones -------------------------------------------------------------------------------- */

/* The beginning of a TLS record of 16,000 bytes, or of a frame; then zeros. */
static uint8_t slow_byte(bool tls, uint32_t at)
{
    static const uint8_t record[] = {0x16, 0x03, 0x01, 0x3e, 0x80, 0x01,
                                     0x00, 0x3e, 0x7c, 0x03, 0x03};
    static const uint8_t frame[] = {0xd7, 2, HELLO};
    if (tls)
        return at < sizeof record ? record[at] : 0;
    return at < sizeof frame ? frame[at] : 0;
}

static int be_slow(double seconds, uint32_t count, const char *address)
{
    enum { EVERY_US = 900000, PARTS = 30 };
    int *fds = calloc(count, sizeof *fds);
    uint32_t *sent = calloc(count, sizeof *sent), n_again = 0;
    if (!fds || !sent)
        return 2;
    for (uint32_t i = 0; i < count; i++)
        fds[i] = dial(address);
    puts("connected");
    fflush(stdout);
    const double end = now_s() + seconds;
    for (uint32_t part = 0; now_s() < end; part = (part + 1) % PARTS) {
        for (uint32_t i = part; i < count; i += PARTS) {
            uint8_t byte = slow_byte(true, sent[i]++);
            if (fds[i] >= 0 && send(fds[i], &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
                continue;
            if (fds[i] >= 0)
                close(fds[i]);
            fds[i] = dial(address);
            sent[i] = 0;
            n_again++;
        }
        usleep(EVERY_US / PARTS);
    }
    printf("%u slow connections, opened again %u times\n", count, n_again);
    free(fds);
    free(sent);
    return 0;
}

/* ---- Descriptors ------------------------------------------------------------------------------ */

static bool send_two_descriptors(int fd)
{
    int two[2] = {fd, fd};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof two)];
    } beside = {.header = {.cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS,
                           .cmsg_len = CMSG_LEN(sizeof two)}};
    memcpy(CMSG_DATA(&beside.header), two, sizeof two);
    char byte = 'M';
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = beside.bytes,
                             .msg_controllen = sizeof beside.bytes};
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    return sendmsg(fd, &message, MSG_NOSIGNAL) == 1 && poll(&readable, 1, 5000) == 1;
}

static int send_descriptors(uint32_t count, const char *address)
{
    uint32_t n_sent = 0;
    for (uint32_t i = 0; i < count; i++) {
        int fd = dial(address);
        n_sent += fd >= 0 && send_two_descriptors(fd);
        if (fd >= 0)
            close(fd);
    }
    printf("%u messages with two descriptors\n", n_sent);
    return n_sent < count;
}

/* ---- Who has the token ------------------------------------------------------------------------- */

static bool is_welcomed(int fd, struct said *said)
{
    uint8_t bytes[256];
    bool closed;
    if (is_local(fd))
        receive(fd, bytes, 1, REFUSED_MS, &closed); /* the answer to the offer */
    if (!take_challenge(fd, said))
        return false;
    send_all(fd, bytes, make_proof(bytes, said, token));
    return receive(fd, bytes, HEADER_BYTES, REFUSED_MS, &closed) == HEADER_BYTES &&
           bytes[2] == WELCOME;
}

/* Whether the node may have ended a handshake that began at `began_s` because its five seconds were over. A node that pushed the
 * caller out earlier cannot be told from that once the crowd itself is so slow; on a quiet machine it never is. */
static bool was_slow(double began_s)
{
    return now_s() - began_s >= 5;
}

static bool is_welcomed_alone(const char *address, struct said *said)
{
    uint8_t bytes[256];
    bool closed;
    int fd = call(address);
    bool welcomed = fd >= 0 && introduce(fd, said, token) &&
                    receive(fd, bytes, HEADER_BYTES, REFUSED_MS, &closed) == HEADER_BYTES &&
                    bytes[2] == WELCOME;
    if (fd >= 0)
        close(fd);
    return welcomed;
}

static int be_crowd(uint32_t count, const char *address)
{
    enum { MAX = 1000, FIRST_BYTES = 20 };
    static int fds[MAX];
    static double began_s[MAX];
    static uint8_t hellos[MAX][HEADER_BYTES + 64];
    static struct said said[MAX];
    size_t n_bytes = 0;
    uint32_t n_welcomed = 0;
    if (count > MAX)
        return 2;
    for (uint32_t i = 0; i < count; i++) {
        said[i] = (struct said){
            .nodes = n_nodes, .called = called_node, .lane = i, .incarnation = next_random()};
        n_bytes = make_hello(hellos[i], &said[i]);
        began_s[i] = now_s();
        fds[i] = dial(address);
        if (is_local(fds[i]))
            send_all(fds[i], (const uint8_t *)"S", 1);
        send_all(fds[i], hellos[i], FIRST_BYTES);
    }
    usleep(500000); /* for the node to take as many as it will */
    for (uint32_t i = 0; i < count; i++)
        send_all(fds[i], hellos[i] + FIRST_BYTES, n_bytes - FIRST_BYTES);
    for (uint32_t i = 0; i < count; i++)
        n_welcomed += is_welcomed(fds[i], &said[i]) ||
                      (was_slow(began_s[i]) && is_welcomed_alone(address, &said[i]));
    printf("%u of %u were welcomed\n", n_welcomed, count);
    return n_welcomed < count;
}

static bool is_open(int fd)
{
    uint8_t bytes[256];
    for (ssize_t n; fd >= 0;) {
        n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        if (n < 0)
            return true;
    }
    return false;
}

static int be_held(double seconds, uint32_t count, const char *address)
{
    int *fds = calloc(count, sizeof *fds);
    uint32_t n_held = 0;
    for (uint32_t i = 0; fds && i < count; i++) {
        struct said said = {.node = 1,
                            .nodes = n_nodes,
                            .called = called_node,
                            .lane = i,
                            .incarnation = next_random() | 1};
        fds[i] = call(address);
        if (fds[i] >= 0)
            introduce(fds[i], &said, token);
    }
    puts("connected");
    fflush(stdout);
    usleep((useconds_t)(seconds * 1e6));
    for (uint32_t i = 0; fds && i < count; i++)
        n_held += is_open(fds[i]);
    printf("%u of %u connections are held\n", n_held, count);
    free(fds);
    return 0;
}

/* Many connections need many descriptors. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    random_state = (uint64_t)getpid() * 1000003 + (uint64_t)time(NULL);
    raise_limit();
    alarm(180);
    if (argc == 5 && !strcmp(how, "silent"))
        return be_silent(atof(argv[2]), number(argv[3]), argv[4]);
    if (argc == 5 && !strcmp(how, "slow"))
        return be_slow(atof(argv[2]), number(argv[3]), argv[4]);
    if (argc == 4 && !strcmp(how, "descriptors"))
        return send_descriptors(number(argv[2]), argv[3]);
    if (argc == 7 && !strcmp(how, "welcome")) {
        token = argv[3];
        n_nodes = number(argv[4]);
        called_node = number(argv[5]);
        return be_crowd(number(argv[2]), argv[6]);
    }
    if (argc == 8 && !strcmp(how, "hold")) {
        token = argv[4];
        n_nodes = number(argv[5]);
        called_node = number(argv[6]);
        return be_held(atof(argv[2]), number(argv[3]), argv[7]);
    }
    return 2;
}
