/*
 * hostile - somebody who talks to the nodes of a running cluster and means no good. It knows the
 * protocol from docs/PROTOCOL.md alone.
 *
 * hostile stranger SECONDS TOKEN NODES ADDRESS...
 *     Random bytes, memory that is none or has nonsense in it, frames cut off, headers with monstrous counts, frames before HELLO, HELLO with a
 *     wrong token, node or number of nodes, pushes of a process that has not joined, bytes that trickle
 *     in: one after another at random. All that can be told to be wrong must be refused: the connection
 *     is closed. Prints how many of each were tried; exits 1 if one was not refused.
 * hostile insider SECONDS TOKEN NODES ADDRESS...
 *     Somebody with the token and the name of a node that joined sends frames with a right header and
 *     random contents. (What it does to the rows is up to it.)
 * hostile silent SECONDS COUNT ADDRESS
 *     Keeps COUNT connections open and says nothing on them; prints "connected" when they are.
 * hostile crowd COUNT TOKEN NODES ADDRESS
 *     Somebody who means well, COUNT times at once: each says HELLO in two pieces, the second when all have said
 *     the first, as in handshakes that take their time. Exits 1 unless all are welcomed.
 * hostile replay ADDRESS FILE...
 *     Sends the bytes of each file on a connection of its own. Prints the bytes answered.
 */
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

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    HEADER_BYTES = 56,
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
    SYNC,
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
    NEWS,
    ERROR,
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
static uint32_t n_nodes;

static uint64_t next_random(void)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = random_state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(next_random() % n);
}

static void fill(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)next_random();
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Connections ------------------------------------------------------------------------------ */

static int dial(const char *text)
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
static char offer(int fd, char byte, int memory_fd)
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

static bool is_local(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof address;
    return !getsockname(fd, (struct sockaddr *)&address, &n) && address.ss_family == AF_UNIX;
}

/* Dials, and has it the socket where there is a choice. */
static int call(const char *text)
{
    int fd = dial(text);
    if (fd >= 0 && is_local(fd) && offer(fd, 'S', -1) != 'S') {
        close(fd);
        return -1;
    }
    return fd;
}

static void send_all(int fd, const uint8_t *bytes, size_t n)
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
static size_t receive(int fd, uint8_t *bytes, size_t n, int timeout_ms, bool *closed)
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
static bool is_closed(int fd)
{
    uint8_t bytes[4096];
    bool closed = false;
    double end = now_s() + REFUSED_MS / 1000.0;
    while (!closed && now_s() < end)
        receive(fd, bytes, sizeof bytes, 500, &closed);
    return closed;
}

/* ---- Frames ----------------------------------------------------------------------------------- */

static void put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void encode(const struct header *header, uint8_t *at)
{
    memset(at, 0, HEADER_BYTES);
    at[0] = 0xd7;
    at[1] = 1;
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

static size_t make_hello(uint8_t *at, const char *as, uint32_t node, uint32_t nodes,
                         uint64_t incarnation, uint64_t lane)
{
    size_t n = strlen(as);
    struct header header = {
        .kind = HELLO, .epoch = 1, .body_bytes = (uint32_t)(8 + n), .a = incarnation, .b = lane};
    encode(&header, at);
    put(at + HEADER_BYTES, node, 4);
    put(at + HEADER_BYTES + 4, nodes, 4);
    memcpy(at + HEADER_BYTES + 8, as, n);
    return HEADER_BYTES + 8 + n;
}

/* A push of ones to one key of a table of four 64-bit integers. */
static size_t make_push(uint8_t *at, uint64_t number, uint64_t key)
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

/* ---- Strangers -------------------------------------------------------------------------------- */

/* Each sends something; true if the node must close the connection by itself. */
typedef bool attack(int fd);

static bool send_noise(int fd)
{
    uint8_t bytes[4096];
    size_t n = HEADER_BYTES + below(sizeof bytes - HEADER_BYTES);
    fill(bytes, n);
    send_all(fd, bytes, n);
    return true;
}

/* Memory that is too short, or can be cut short, or no memory at all, is not taken; then it is noise. */
static bool offer_nothing(int fd)
{
    static const off_t sizes[] = {0, 4096, MEMORY_BYTES, MEMORY_BYTES + 4096};
    int memory_fd = below(4) ? memfd_create("hostile", MFD_ALLOW_SEALING) : open("/dev/null", O_RDWR);
    off_t size = sizes[below(4)];
    if (is_local(fd) && memory_fd >= 0 && !ftruncate(memory_fd, size) && size != MEMORY_BYTES)
        fcntl(memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    bool taken = is_local(fd) && offer(fd, 'M', memory_fd) == 'M';
    close(memory_fd);
    return taken ? false : send_noise(fd);
}

/* Sound memory, with random numbers and bytes in it. */
static bool offer_nonsense(int fd)
{
    int memory_fd = memfd_create("hostile", MFD_ALLOW_SEALING);
    uint8_t *memory = MAP_FAILED;
    if (memory_fd >= 0 && !ftruncate(memory_fd, MEMORY_BYTES) &&
        !fcntl(memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    if (memory == MAP_FAILED || !is_local(fd) || offer(fd, 'M', memory_fd) != 'M') {
        close(memory_fd);
        return send_noise(fd);
    }
    close(memory_fd);
    fill(memory + 4096, 4096);
    if (below(2))
        fill(memory, 2 * RING_HEAD_BYTES);
    put(memory, below(2) ? 4096 : next_random(), 8);
    send_all(fd, (const uint8_t *)"", 1);
    munmap(memory, MEMORY_BYTES);
    return true;
}

static bool send_cut_off(int fd)
{
    uint8_t bytes[256];
    size_t n = make_hello(bytes, token, 1, n_nodes, next_random(), 3);
    send_all(fd, bytes, below((uint32_t)n));
    return false;
}

static bool send_flipped(int fd)
{
    uint8_t bytes[256];
    size_t n = make_hello(bytes, token, 1, n_nodes, next_random(), 3);
    bytes[below(HEADER_BYTES)] ^= (uint8_t)(1 << below(8));
    send_all(fd, bytes, n);
    return true;
}

static bool send_monster(int fd)
{
    uint8_t bytes[256];
    static const uint32_t monstrous[] = {UINT32_MAX, 1u << 31, 17825793, 65537, 1u << 24};
    struct header header = {.kind = (uint8_t)(1 + below(KINDS - 1)),
                            .flags = (uint8_t)below(4),
                            .epoch = 1,
                            .count = monstrous[below(5)],
                            .keys_bytes = monstrous[below(5)],
                            .body_bytes = monstrous[below(5)]};
    encode(&header, bytes);
    send_all(fd, bytes, HEADER_BYTES);
    return true;
}

static bool send_too_early(int fd)
{
    uint8_t bytes[MAX_FRAME_BYTES] = {0};
    struct header header = {.kind = (uint8_t)(PULL + below(KINDS - PULL)),
                            .epoch = 1,
                            .number = 1,
                            .a = 1,
                            .body_bytes = below(100)};
    encode(&header, bytes);
    send_all(fd, bytes, HEADER_BYTES + header.body_bytes);
    return true;
}

static bool send_wrong_hello(int fd)
{
    uint8_t bytes[512];
    char wrong[200] = "";
    uint32_t node = 1, nodes = n_nodes;
    uint16_t shard = 0;
    switch (below(5)) {
    case 0:
        snprintf(wrong, sizeof wrong, "%s?", token);
        break;
    case 1: /* empty */
        break;
    case 2:
        snprintf(wrong, sizeof wrong, "%s", token);
        node = n_nodes + below(UINT32_MAX - n_nodes);
        break;
    case 3:
        snprintf(wrong, sizeof wrong, "%s", token);
        nodes = n_nodes + 1 + below(1000);
        break;
    default:
        snprintf(wrong, sizeof wrong, "%s", token);
        shard = (uint16_t)(16 + below(1000)); /* there never are so many */
    }
    size_t n = make_hello(bytes, wrong, node, nodes, next_random(), below(LANES));
    struct header header = {.kind = HELLO,
                            .table = shard,
                            .epoch = 1,
                            .body_bytes = (uint32_t)(n - HEADER_BYTES),
                            .a = next_random(),
                            .b = below(LANES)};
    encode(&header, bytes);
    send_all(fd, bytes, n);
    return true;
}

/* Has the token, but is not the process that joined. */
static bool send_forged_push(int fd)
{
    uint8_t bytes[4096];
    size_t n = make_hello(bytes, token, 1, n_nodes, next_random() | 1, 1000 + below(LANES));
    for (uint64_t number = 1; number <= 20; number++)
        n += make_push(bytes + n, number, below(KEYS));
    send_all(fd, bytes, n);
    return true;
}

static bool send_trickle(int fd)
{
    uint8_t bytes[256];
    size_t n = make_hello(bytes, "x", 1, n_nodes, next_random(), 3);
    for (size_t i = 0; i < n; i++) {
        send_all(fd, bytes + i, 1);
        usleep(500);
    }
    return true;
}

static const struct {
    const char *name;
    attack *run;
} attacks[] = {
    {"noise", send_noise},
    {"no memory", offer_nothing},
    {"nonsense in memory", offer_nonsense},
    {"cut off", send_cut_off},
    {"flipped bit", send_flipped},
    {"monstrous counts", send_monster},
    {"before HELLO", send_too_early},
    {"wrong HELLO", send_wrong_hello},
    {"forged pushes", send_forged_push},
    {"trickle", send_trickle},
};

enum { N_ATTACKS = sizeof attacks / sizeof *attacks, SLOWEST_S = 60 };

static int be_stranger(double end, char **addresses, uint32_t n_addresses)
{
    uint64_t n_tried[N_ATTACKS] = {0}, n_refused[N_ATTACKS] = {0}, n_tolerated = 0;
    /* Each is tried once, however slow the machine is, but not for ever. */
    const double last = end + SLOWEST_S;
    for (uint32_t n = 0; now_s() < (n < N_ATTACKS ? last : end);) {
        uint32_t which = n < N_ATTACKS ? n : below(N_ATTACKS);
        bool offers = attacks[which].run == offer_nothing || attacks[which].run == offer_nonsense;
        const char *address = addresses[below(n_addresses)];
        int fd = offers || !below(8) ? dial(address) : call(address);
        if (fd < 0) {
            usleep(1000);
            continue;
        }
        n++;
        n_tried[which]++;
        if (attacks[which].run(fd)) {
            bool closed = is_closed(fd);
            n_refused[which] += closed;
            n_tolerated += !closed;
        }
        close(fd);
    }
    for (uint32_t i = 0; i < N_ATTACKS; i++)
        printf("%s: %llu tried, %llu refused\n", attacks[i].name, (unsigned long long)n_tried[i],
               (unsigned long long)n_refused[i]);
    printf("%llu not refused\n", (unsigned long long)n_tolerated);
    return n_tolerated > 0;
}

/* ---- Insiders --------------------------------------------------------------------------------- */

/* Says HELLO and takes the WELCOME; false if there was none. */
static bool enter(int fd, uint32_t node, uint64_t incarnation, uint64_t lane, uint64_t *theirs,
                  uint64_t *executed)
{
    uint8_t bytes[256];
    bool closed;
    send_all(fd, bytes, make_hello(bytes, token, node, n_nodes, incarnation, lane));
    if (receive(fd, bytes, HEADER_BYTES, 1000, &closed) < HEADER_BYTES || bytes[2] != WELCOME)
        return false;
    *theirs = get(bytes + 16, 8);
    *executed = get(bytes + 24, 8);
    return true;
}

/* A frame with a right header, more or less sensible contents, and never a BYE. */
static size_t make_anything(uint8_t *at, uint64_t number)
{
    struct header header = {.kind = (uint8_t)(1 + below(below(4) ? ROUND : KINDS - 1)),
                            .flags = (uint8_t)(below(8) ? below(2) : 0),
                            .table = (uint16_t)(below(20) ? 0 : below(70000)),
                            .epoch = below(100) ? 1 : below(5),
                            .number = below(50) ? number : next_random(),
                            .count = below(3) ? below(8) : below(200),
                            .a = below(2) ? below(KEYS) : next_random(),
                            .b = below(2) ? below(KEYS) : next_random()};
    if (header.kind == BYE)
        header.kind = PING;
    bool has_keys = header.kind <= SET || header.kind == SYNC || !below(10);
    if (!has_keys && header.kind != RANGE)
        header.count = 0;
    uint32_t per_key = header.flags & 1 ? 1 + below(3) : 8;
    header.keys_bytes = header.kind == RANGE ? 0 : header.count * per_key;
    uint32_t payload = below(4) ? header.count * 32 : below(3000);
    if (header.kind == PULL && below(4))
        payload = 0;
    header.body_bytes = header.keys_bytes + payload;
    encode(&header, at);
    fill(at + HEADER_BYTES, header.body_bytes);
    if (has_keys && !(header.flags & 1) && below(4))
        for (uint32_t i = 0; i < header.count && header.keys_bytes; i++)
            put(at + HEADER_BYTES + 8 * i, below(KEYS + 5), 8);
    return HEADER_BYTES + header.body_bytes;
}

static int be_insider(double end, char **addresses, uint32_t n_addresses)
{
    static uint8_t frame[MAX_FRAME_BYTES], answer[1 << 20];
    uint64_t incarnations[64] = {0}, executed, n_frames = 0, n_connections = 0, n_answers = 0;
    bool closed;
    while (now_s() < end) {
        uint32_t target = below(n_addresses), node = below(n_addresses);
        int fd = call(addresses[target]);
        uint64_t theirs;
        if (fd < 0 ||
            !enter(fd, node, incarnations[node], 1000 + below(LANES), &theirs, &executed)) {
            if (fd >= 0)
                close(fd);
            continue;
        }
        incarnations[target] = theirs;
        n_connections++;
        for (closed = false; !closed && below(30);) {
            uint64_t number = executed + 1;
            send_all(fd, frame, make_anything(frame, number));
            n_frames++;
            if (receive(fd, answer, HEADER_BYTES, 20, &closed) < HEADER_BYTES)
                break;
            n_answers++;
            uint32_t body = (uint32_t)get(answer + 44, 4);
            if (body > sizeof answer ||
                receive(fd, answer + HEADER_BYTES, body, 1000, &closed) < body)
                break;
            if (get(answer + 8, 8) == number)
                executed = number;
        }
        close(fd);
    }
    printf("%llu connections, %llu frames, %llu answers\n", (unsigned long long)n_connections,
           (unsigned long long)n_frames, (unsigned long long)n_answers);
    return n_answers == 0;
}

/* ---- Silence and echoes ----------------------------------------------------------------------- */

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

static bool is_welcomed(int fd)
{
    uint8_t bytes[1 + HEADER_BYTES];
    size_t before = is_local(fd); /* the answer to the offer */
    size_t n = before + HEADER_BYTES;
    bool closed;
    return receive(fd, bytes, n, REFUSED_MS, &closed) == n && bytes[before + 2] == WELCOME;
}

static int be_crowd(uint32_t count, const char *address)
{
    enum { MAX = 1000, FIRST_BYTES = 20 };
    int fds[MAX];
    uint8_t hellos[MAX][HEADER_BYTES + 64];
    size_t n_bytes = 0;
    uint32_t n_welcomed = 0;
    if (count > MAX)
        return 2;
    for (uint32_t i = 0; i < count; i++) {
        n_bytes = make_hello(hellos[i], token, 0, n_nodes, next_random(), i);
        fds[i] = dial(address);
        if (is_local(fds[i]))
            send_all(fds[i], (const uint8_t *)"S", 1);
        send_all(fds[i], hellos[i], FIRST_BYTES);
    }
    usleep(500000); /* for the node to take as many as it will */
    for (uint32_t i = 0; i < count; i++)
        send_all(fds[i], hellos[i] + FIRST_BYTES, n_bytes - FIRST_BYTES);
    for (uint32_t i = 0; i < count; i++)
        n_welcomed += is_welcomed(fds[i]);
    printf("%u of %u were welcomed\n", n_welcomed, count);
    return n_welcomed < count;
}

static int replay(const char *address, char **files, int n_files)
{
    static uint8_t bytes[16 << 20];
    size_t n_sent = 0, n_answered = 0;
    for (int i = 0; i < n_files; i++) {
        int file = open(files[i], O_RDONLY);
        ssize_t n = file < 0 ? -1 : read(file, bytes, sizeof bytes);
        if (n < 0)
            return 1;
        close(file);
        int fd = dial(address);
        if (fd < 0)
            return 1;
        /* Answers may fill the way back, so bytes that do not fit any more are left out. */
        ssize_t sent = send(fd, bytes, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
        n_sent += sent > 0 ? (size_t)sent : 0;
        bool closed;
        n_answered += receive(fd, bytes, sizeof bytes, 100, &closed);
        close(fd);
    }
    printf("%zu bytes sent again, %zu answered\n", n_sent, n_answered);
    return n_sent == 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (argc >= 4 && !strcmp(how, "replay"))
        return replay(argv[2], argv + 3, argc - 3);
    double seconds = argc > 2 ? atof(argv[2]) : 0;
    alarm((unsigned)seconds + 60);
    random_state = (uint64_t)getpid() * 1000003 + (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)random_state);
    if (argc == 5 && !strcmp(how, "silent"))
        return be_silent(seconds, (uint32_t)strtoul(argv[3], NULL, 10), argv[4]);
    if (argc < 6 || argc > 5 + 64)
        return 2;
    token = argv[3];
    n_nodes = (uint32_t)strtoul(argv[4], NULL, 10);
    if (!strcmp(how, "crowd"))
        return be_crowd((uint32_t)strtoul(argv[2], NULL, 10), argv[5]);
    double end = now_s() + seconds;
    uint32_t n_addresses = (uint32_t)(argc - 5);
    return !strcmp(how, "insider") ? be_insider(end, argv + 5, n_addresses)
                                   : be_stranger(end, argv + 5, n_addresses);
}
