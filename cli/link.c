/* link - see link.h. */
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

enum {
    NETWORK = 10 << 24 | 211 << 16, /* 10.211.0.0/16; host k is number k + 1 */
    IP_HEADER_BYTES = 20,
    MIN_MTU = 1500,
    MAX_MTU = 65000,
    PACKET_NS = 72000,   /* duration of a full packet: short packets do not wait long behind it */
    BEHIND_NS = 1000000, /* how far behind a link may be before its host is no longer read */
    QUEUE_NS = 50000000, /* how much may be queued for a host before packets are dropped */
};

/* ---- Speeds ------------------------------------------------------------------------------------ */

struct unit {
    const char *name;
    double value;
};

/* A number with a unit from *text on, which is set behind it; false if there is none. */
static bool parse_quantity(const char **text, const struct unit *units, size_t n, double *value)
{
    char *end;
    double number = strtod(*text, &end);
    if (end == *text || !(number >= 0))
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(units[i].name);
        if (strncmp(end, units[i].name, length) == 0 &&
            (end[length] == '\0' || end[length] == ',')) {
            *value = number * units[i].value;
            *text = end + length;
            return true;
        }
    }
    return false;
}

bool link_parse(const char *text, struct link_speed *speed)
{
    static const struct unit rates[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
    static const struct unit times[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    const char *at = text;
    double bits = 0, delay_ns = 0;
    bool ok = parse_quantity(&at, rates, 3, &bits) &&
              (*at != ',' || (at++, parse_quantity(&at, times, 3, &delay_ns))) && *at == '\0';
    if (!ok || !(bits >= 1e6 && bits <= 1e11) || !(delay_ns <= 1e9)) {
        complain(
            "--link takes a rate from 1mbit to 100gbit and a delay of up to 1s, such as 1gbit or "
            "1gbit,0.1ms, not '%s'",
            text);
        return false;
    }
    *speed = (struct link_speed){.ns_per_byte = 8e9 / bits, .delay_ns = (uint64_t)delay_ns};
    return true;
}

/* ---- Hosts ------------------------------------------------------------------------------------- */

static int mtu_of(const struct link_speed *speed)
{
    double bytes = PACKET_NS / speed->ns_per_byte;
    return bytes < MIN_MTU ? MIN_MTU : bytes > MAX_MTU ? MAX_MTU : (int)bytes;
}

/* Gives a device of this namespace an address, unless it is 0, and switches it on. */
static bool set_up(const char *device, uint32_t address, int mtu)
{
    struct ifreq request = {0};
    struct sockaddr_in *value = (struct sockaddr_in *)(void *)&request.ifr_addr;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
    if (address != 0) {
        *value = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
        ok = ok && ioctl(fd, SIOCSIFADDR, &request) == 0;
        value->sin_addr.s_addr = htonl(0xffff0000);
        ok = ok && ioctl(fd, SIOCSIFNETMASK, &request) == 0;
        request.ifr_mtu = mtu;
        ok = ok && ioctl(fd, SIOCSIFMTU, &request) == 0;
    }
    ok = ok && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags |= IFF_UP;
    ok = ok && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Makes this process's namespace, a new one, a host. Returns its device, or -1. */
static int make_host(size_t host, int mtu)
{
    struct ifreq request = {.ifr_name = "link", .ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0 && set_up("lo", 0, 0) &&
        set_up("link", NETWORK + (uint32_t)host + 1, mtu))
        return fd;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

static int open_namespace(void)
{
    return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* Makes the hosts and comes back. The devices that are made are in `devices`; false, with errno, if one is not. */
static bool make_hosts(struct links *links, size_t n_hosts, int mtu, int *devices)
{
    int here = open_namespace(), error = 0;
    for (size_t i = 0; here >= 0 && error == 0 && i < n_hosts; i++) {
        links->namespaces[i] = -1;
        devices[i] = unshare(CLONE_NEWNET) == 0 ? make_host(i, mtu) : -1;
        if (devices[i] >= 0)
            links->namespaces[i] = open_namespace();
        error = devices[i] < 0 || links->namespaces[i] < 0 ? errno : 0;
        links->n_hosts = i + 1;
    }
    if (here < 0 || setns(here, CLONE_NEWNET) != 0)
        error = errno;
    if (here >= 0)
        close(here);
    errno = error;
    return error == 0;
}

bool links_enter(const struct links *links, size_t host)
{
    if (getenv("TERN_CERTIFICATE") == NULL)
        setenv("TERN_INSECURE", "1", 1);
    return setns(links->namespaces[host], CLONE_NEWNET) == 0;
}

/* ---- The relay --------------------------------------------------------------------------------- */

struct packet {
    struct packet *next;
    uint64_t due_ns;
    size_t bytes;
    uint8_t content[];
};

struct host {
    int device;
    uint64_t out_free_ns, in_free_ns; /* when its link is free again, each way */
    struct packet *first, **last;     /* on their way to it */
};

struct relay {
    struct link_speed speed;
    size_t n_hosts;
    struct host hosts[LINK_MAX_HOSTS];
    uint8_t content[MAX_MTU + 1];
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The host that a packet is for; NULL if it is none of ours. */
static struct host *receiver(struct relay *relay, size_t bytes)
{
    uint32_t address;
    if (bytes < IP_HEADER_BYTES || relay->content[0] >> 4 != 4)
        return NULL;
    memcpy(&address, relay->content + 16, sizeof address);
    size_t host = (size_t)ntohl(address) - NETWORK - 1;
    return host < relay->n_hosts ? &relay->hosts[host] : NULL;
}

/* Queues a packet. It is dropped if the receiver's queue is full or memory runs out. */
static void take(struct relay *relay, struct host *from, size_t bytes, uint64_t now)
{
    uint64_t takes_ns = (uint64_t)((double)bytes * relay->speed.ns_per_byte);
    from->out_free_ns = later(from->out_free_ns, now) + takes_ns;
    struct host *to = receiver(relay, bytes);
    uint64_t arrives_ns = from->out_free_ns + relay->speed.delay_ns;
    bool has_room = to != NULL && to->in_free_ns < arrives_ns + QUEUE_NS;
    struct packet *packet = has_room ? malloc(sizeof *packet + bytes) : NULL;
    if (packet == NULL)
        return;
    to->in_free_ns = later(arrives_ns, to->in_free_ns + takes_ns);
    packet->next = NULL;
    packet->due_ns = to->in_free_ns;
    packet->bytes = bytes;
    memcpy(packet->content, relay->content, bytes);
    *to->last = packet;
    to->last = &packet->next;
}

static bool is_behind(const struct host *host, uint64_t now)
{
    return host->out_free_ns > now + BEHIND_NS;
}

/* Reads packets from a host, as many as its link can take. */
static void read_host(struct relay *relay, struct host *host)
{
    uint64_t now = now_ns();
    for (ssize_t n; !is_behind(host, now) &&
                    (n = read(host->device, relay->content, sizeof relay->content)) > 0;)
        take(relay, host, (size_t)n, now);
}

/* Delivers the packets whose time has come. */
static void write_host(struct host *host, uint64_t now)
{
    while (host->first != NULL && host->first->due_ns <= now) {
        struct packet *packet = host->first;
        host->first = packet->next;
        if (host->first == NULL)
            host->last = &host->first;
        if (write(host->device, packet->content, packet->bytes) < 0 && errno == EBADFD)
            _exit(EXIT_OK); /* the host is gone */
        free(packet);
    }
}

/* The time of the next event: a packet arrives, or a link that was behind can take more. */
static uint64_t next_event_ns(const struct relay *relay, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < relay->n_hosts; i++) {
        const struct host *host = &relay->hosts[i];
        if (host->first != NULL && host->first->due_ns < next)
            next = host->first->due_ns;
        if (is_behind(host, now) && host->out_free_ns - BEHIND_NS < next)
            next = host->out_free_ns - BEHIND_NS;
    }
    return next;
}

static void relay_turn(struct relay *relay)
{
    struct pollfd polls[LINK_MAX_HOSTS];
    uint64_t now = now_ns(), next = next_event_ns(relay, now);
    uint64_t wait_ns = next > now ? next - now : 0;
    struct timespec wait = {.tv_sec = (time_t)(wait_ns / UINT64_C(1000000000)),
                            .tv_nsec = (long)(wait_ns % UINT64_C(1000000000))};
    for (size_t i = 0; i < relay->n_hosts; i++)
        polls[i] = (struct pollfd){.fd = relay->hosts[i].device,
                                   .events = is_behind(&relay->hosts[i], now) ? 0 : POLLIN};
    ppoll(polls, relay->n_hosts, next == UINT64_MAX ? NULL : &wait, NULL);
    for (size_t i = 0; i < relay->n_hosts; i++)
        if (polls[i].revents & POLLIN)
            read_host(relay, &relay->hosts[i]);
    now = now_ns();
    for (size_t i = 0; i < relay->n_hosts; i++)
        write_host(&relay->hosts[i], now);
}

/* Runs until its parent kills it or dies. It has its own process group, so that Ctrl-C leaves the nodes their network
 * until they have ended, and a high priority, since a wire does not wait for a core. */
static _Noreturn void relay_main(const struct links *links, const int *devices,
                                 const struct link_speed *speed, pid_t parent)
{
    static struct relay relay;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "tern-links");
    prctl(PR_SET_TIMERSLACK, 1);
    if (getppid() != parent || setpgid(0, 0) != 0)
        _exit(EXIT_FAILED);
    setpriority(PRIO_PROCESS, 0, -20);
    relay.speed = *speed;
    relay.n_hosts = links->n_hosts;
    for (size_t i = 0; i < relay.n_hosts; i++) {
        relay.hosts[i].device = devices[i];
        relay.hosts[i].last = &relay.hosts[i].first;
    }
    for (;;)
        relay_turn(&relay);
}

/* ---- Beginning and end ------------------------------------------------------------------------- */

bool links_open(struct links *links, size_t n_hosts, const struct link_speed *speed)
{
    int devices[LINK_MAX_HOSTS];
    *links = (struct links){0};
    if (n_hosts > LINK_MAX_HOSTS) {
        complain("--link joins at most %d nodes", LINK_MAX_HOSTS);
        return false;
    }
    bool ok = make_hosts(links, n_hosts, mtu_of(speed), devices);
    pid_t parent = getpid();
    if (ok && (links->relay = fork()) == 0)
        relay_main(links, devices, speed, parent);
    ok = ok && links->relay > 0;
    if (!ok)
        complain("cannot make a network of hosts: %s; --link takes root and /dev/net/tun",
                 strerror(errno));
    for (size_t i = 0; i < links->n_hosts; i++)
        if (devices[i] >= 0)
            close(devices[i]);
    if (!ok)
        links_close(links);
    return ok;
}

void links_close(struct links *links)
{
    for (size_t i = 0; i < links->n_hosts; i++)
        if (links->namespaces[i] >= 0)
            close(links->namespaces[i]);
    if (links->relay > 0) {
        kill(links->relay, SIGKILL);
        waitpid(links->relay, NULL, 0);
    }
    *links = (struct links){0};
}
