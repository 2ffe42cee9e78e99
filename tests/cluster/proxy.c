/*
 * proxy - passes connections on to another address, and breaks them.
 *
 * proxy [-c MS] [-f SECONDS] [-r PREFIX] LISTEN TARGET
 *
 *   -c MS       cuts a connection at random moments, MS milliseconds apart on average; what was under
 *               way is lost, so frames end in the middle
 *   -f SECONDS  ... and leaves them alone after so long
 *   -r PREFIX   records what clients send, one file per connection: PREFIX.0, PREFIX.1 ...
 *
 * Addresses are unix:/path or a.b.c.d:port. It ends on SIGTERM and prints how many connections it
 * passed on and how many it cut.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LINKS = 400, BUFFER_BYTES = 64 << 10, HANGS_S = 900 };

/* One direction of a link. */
struct pipe {
    int from, to, record;
    size_t begin, end;
    char bytes[BUFFER_BYTES];
};

struct link {
    struct pipe up, down; /* of the client, to the client */
};

static struct link *links[MAX_LINKS];
static size_t n_links, n_passed, n_cut;
static volatile sig_atomic_t stop;

static void on_term(int number)
{
    (void)number;
    stop = 1;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int make_socket(const char *text, struct sockaddr_storage *address, socklen_t *bytes)
{
    memset(address, 0, sizeof *address);
    if (!strncmp(text, "unix:", 5)) {
        struct sockaddr_un *local = (struct sockaddr_un *)address;
        local->sun_family = AF_UNIX;
        snprintf(local->sun_path, sizeof local->sun_path, "%s", text + 5);
        *bytes = sizeof *local;
    } else {
        struct sockaddr_in *v4 = (struct sockaddr_in *)address;
        char host[64] = "";
        unsigned port = 0;
        if (sscanf(text, "%63[0-9.]:%u", host, &port) != 2)
            exit(2);
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        if (inet_pton(AF_INET, host, &v4->sin_addr) != 1)
            exit(2);
        *bytes = sizeof *v4;
    }
    return socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int listen_at(const char *text)
{
    struct sockaddr_storage address;
    socklen_t bytes;
    int fd = make_socket(text, &address, &bytes), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) || listen(fd, 128)) {
        fprintf(stderr, "proxy: cannot listen at %s: %s\n", text, strerror(errno));
        exit(1);
    }
    return fd;
}

static int connect_to(const char *text)
{
    struct sockaddr_storage address;
    socklen_t bytes;
    int fd = make_socket(text, &address, &bytes);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, bytes)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void drop(size_t i)
{
    struct link *link = links[i];
    close(link->up.from);
    close(link->up.to);
    if (link->up.record >= 0)
        close(link->up.record);
    free(link);
    links[i] = links[--n_links];
}

/* Breaks a connection as a crash does: TCP sends a reset. */
static void cut(size_t i)
{
    struct linger reset = {.l_onoff = 1};
    setsockopt(links[i]->up.from, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    setsockopt(links[i]->up.to, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    drop(i);
    n_cut++;
}

static void pass_on(int listener, const char *target, const char *prefix)
{
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    int server = n_links < MAX_LINKS ? connect_to(target) : -1;
    struct link *link = server >= 0 ? malloc(sizeof *link) : NULL;
    if (!link) {
        if (server >= 0)
            close(server);
        close(client);
        return;
    }
    fcntl(client, F_SETFL, O_NONBLOCK);
    fcntl(server, F_SETFL, O_NONBLOCK);
    link->up.from = link->down.to = client;
    link->up.to = link->down.from = server;
    link->up.begin = link->up.end = link->down.begin = link->down.end = 0;
    link->up.record = link->down.record = -1;
    if (prefix) {
        char path[300];
        snprintf(path, sizeof path, "%s.%zu", prefix, n_passed);
        link->up.record = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    }
    links[n_links++] = link;
    n_passed++;
}

/* Moves bytes; false when the connection has ended. */
static bool move(struct pipe *pipe)
{
    if (pipe->begin == pipe->end) {
        ssize_t n = recv(pipe->from, pipe->bytes, sizeof pipe->bytes, 0);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        pipe->begin = 0;
        pipe->end = (size_t)n;
        if (pipe->record >= 0 && write(pipe->record, pipe->bytes, (size_t)n) != n)
            return false;
    }
    ssize_t n = send(pipe->to, pipe->bytes + pipe->begin, pipe->end - pipe->begin, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    pipe->begin += (size_t)n;
    return true;
}

static void ask(const struct pipe *pipe, struct pollfd *from, struct pollfd *to)
{
    if (pipe->begin == pipe->end)
        from->events |= POLLIN;
    else
        to->events |= POLLOUT;
}

static void run_once(int listener, const char *target, const char *prefix)
{
    static struct pollfd polls[1 + 2 * MAX_LINKS];
    size_t n = n_links;
    polls[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (size_t i = 0; i < n; i++) {
        struct pollfd *client = &polls[1 + 2 * i], *server = client + 1;
        *client = (struct pollfd){.fd = links[i]->up.from};
        *server = (struct pollfd){.fd = links[i]->up.to};
        ask(&links[i]->up, client, server);
        ask(&links[i]->down, server, client);
    }
    if (poll(polls, 1 + 2 * n, 1) <= 0)
        return;
    for (size_t i = n; i-- > 0;) {
        if (!polls[1 + 2 * i].revents && !polls[2 + 2 * i].revents)
            continue;
        if (!move(&links[i]->up) || !move(&links[i]->down))
            drop(i);
    }
    if (polls[0].revents)
        pass_on(listener, target, prefix);
}

int main(int argc, char **argv)
{
    const char *prefix = NULL;
    uint64_t cut_ms = 0, for_ms = UINT64_MAX;
    int option;
    while ((option = getopt(argc, argv, "c:f:r:")) != -1) {
        if (option == 'c')
            cut_ms = strtoull(optarg, NULL, 10);
        else if (option == 'f')
            for_ms = (uint64_t)(atof(optarg) * 1000);
        else if (option == 'r')
            prefix = optarg;
        else
            return 2;
    }
    if (argc - optind != 2)
        return 2;
    alarm(HANGS_S);
    signal(SIGTERM, on_term);
    srand((unsigned)getpid());
    int listener = listen_at(argv[optind]);
    const char *target = argv[optind + 1];
    uint64_t began_ms = 0, next_ms = 0;
    while (!stop) {
        run_once(listener, target, prefix);
        uint64_t now = now_ms();
        if (!began_ms && n_links)
            began_ms = now;
        if (!cut_ms || !n_links || now < next_ms || now - began_ms > for_ms)
            continue;
        cut((size_t)rand() % n_links);
        next_ms = now + (uint64_t)rand() % (2 * cut_ms + 1);
    }
    printf("%zu connections, %zu cut\n", n_passed, n_cut);
    return 0;
}
