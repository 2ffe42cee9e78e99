/*
 * hostile - somebody who talks to the nodes of a running cluster and means no good.
 *
 * hostile stranger SECONDS TOKEN NODES ADDRESS...
 *     Random bytes, memory that is none or has nonsense in it, frames cut off, headers with monstrous counts, frames
 *     before HELLO, HELLO with a wrong token, node or number of nodes, pushes of a process that has not joined, bytes
 *     that trickle in: one after another at random. All that can be told to be wrong must be refused: the connection
 *     is closed. Prints how many of each were tried; exits 1 if one was not refused.
 * hostile insider SECONDS TOKEN NODES ADDRESS...
 *     Somebody with the token and the name of a node that joined sends frames with a right header and
 *     random contents. (What it does to the rows is up to it.)
 * hostile replay ADDRESS FILE...
 *     Sends the bytes of each file on a connection of its own. Prints the bytes answered.
 */
#include "talk.h"

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
    int memory_fd =
        below(4) ? memfd_create("hostile", MFD_ALLOW_SEALING) : open("/dev/null", O_RDWR);
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
    struct said said = {.node = 1, .nodes = n_nodes, .called = called_node, .lane = 3};
    size_t n = make_hello(bytes, &said);
    send_all(fd, bytes, below((uint32_t)n));
    return false;
}

static bool send_flipped(int fd)
{
    uint8_t bytes[256];
    struct said said = {.node = 1, .nodes = n_nodes, .called = called_node, .lane = 3};
    size_t n = make_hello(bytes, &said);
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
    char wrong[200] = "";
    struct said said = {.node = 1,
                        .nodes = n_nodes,
                        .called = called_node,
                        .lane = below(LANES),
                        .incarnation = next_random()};
    switch (below(5)) {
    case 0:
        snprintf(wrong, sizeof wrong, "%s?", token);
        break;
    case 1: /* empty */
        break;
    case 2:
        snprintf(wrong, sizeof wrong, "%s", token);
        said.node = n_nodes + below(UINT32_MAX - n_nodes);
        break;
    case 3:
        snprintf(wrong, sizeof wrong, "%s", token);
        said.nodes = n_nodes + 1 + below(1000);
        break;
    default:
        snprintf(wrong, sizeof wrong, "%s", token);
        said.shard = 16 + below(1000); /* there never are so many */
    }
    introduce(fd, &said, wrong);
    return true;
}

/* A right HELLO, and then anything but a proof. */
static bool send_wrong_proof(int fd)
{
    uint8_t bytes[512];
    struct said said = {.node = 1, .nodes = n_nodes, .called = called_node, .incarnation = 1};
    send_all(fd, bytes, make_hello(bytes, &said));
    take_challenge(fd, &said);
    if (below(2))
        return send_noise(fd);
    size_t n = make_proof(bytes, &said, token);
    bytes[HEADER_BYTES + below(PROOF_BYTES)] ^= (uint8_t)(1 << below(8));
    send_all(fd, bytes, n);
    return true;
}

/* Has the token, but is not the process that joined. */
static bool send_forged_push(int fd)
{
    uint8_t bytes[4096];
    size_t n = 0;
    struct said said = {.node = 1,
                        .nodes = n_nodes,
                        .called = called_node,
                        .lane = 1000 + below(LANES),
                        .incarnation = next_random() | 1};
    introduce(fd, &said, token);
    for (uint64_t number = 1; number <= 20; number++)
        n += make_push(bytes + n, number, below(KEYS));
    send_all(fd, bytes, n);
    return true;
}

static bool send_trickle(int fd)
{
    uint8_t bytes[256];
    struct said said = {.node = 1, .nodes = n_nodes, .called = called_node, .lane = 3};
    size_t n = make_hello(bytes, &said);
    bytes[2] = PULL;
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
    {"wrong proof", send_wrong_proof},
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
        called_node = below(n_addresses); /* addresses are in the order of the nodes */
        const char *address = addresses[called_node];
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

/* Introduces itself and takes the WELCOME; false if there was none. */
static bool enter(int fd, uint32_t node, uint64_t incarnation, uint64_t lane, uint64_t *theirs,
                  uint64_t *executed)
{
    uint8_t bytes[HEADER_BYTES];
    bool closed;
    struct said said = {.node = node,
                        .nodes = n_nodes,
                        .called = called_node,
                        .lane = lane,
                        .incarnation = incarnation};
    if (!introduce(fd, &said, token) ||
        receive(fd, bytes, HEADER_BYTES, 1000, &closed) < HEADER_BYTES || bytes[2] != WELCOME)
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
    bool has_keys = header.kind <= SET || header.kind == ROUND || !below(10);
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
        called_node = target;
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

/* ---- Echoes ---------------------------------------------------------------------------------- */

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
    if (argc < 6 || argc > 5 + 64)
        return 2;
    token = argv[3];
    n_nodes = (uint32_t)strtoul(argv[4], NULL, 10);
    double end = now_s() + seconds;
    uint32_t n_addresses = (uint32_t)(argc - 5);
    return !strcmp(how, "insider") ? be_insider(end, argv + 5, n_addresses)
                                   : be_stranger(end, argv + 5, n_addresses);
}
