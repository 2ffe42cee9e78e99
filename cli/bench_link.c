/* bench_link - see bench_link.h. */
#include "bench_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "command.h"

enum {
    CHUNK_BYTES = 64 << 10, /* of a stream, per call of the system or of OpenSSL: the quickest */
    LOCAL_ROOM_BYTES = 1 << 20, /* as src/net/tcp.c gives its Unix sockets */
};

/* A request to the other end. */
struct order {
    uint64_t request_bytes, reply_bytes, count;
};

/* ---- Bytes ------------------------------------------------------------------------------------- */

static ssize_t read_some(const struct link *link, char *bytes, size_t n)
{
    return link->ssl != NULL ? SSL_read(link->ssl, bytes, (int)n) : read(link->fd, bytes, n);
}

static ssize_t write_some(const struct link *link, const char *bytes, size_t n)
{
    return link->ssl != NULL ? SSL_write(link->ssl, bytes, (int)n)
                             : send(link->fd, bytes, n, MSG_NOSIGNAL);
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* Receives n bytes, each chunk over the one before. */
static bool receive(const struct link *link, size_t n)
{
    while (n > 0) {
        ssize_t got = read_some(link, link->bytes, at_most(n, CHUNK_BYTES));
        if (got <= 0)
            return false;
        n -= (size_t)got;
    }
    return true;
}

static bool transmit(const struct link *link, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t put = write_some(link, bytes, at_most(n, CHUNK_BYTES));
        if (put <= 0)
            return false;
        n -= (size_t)put;
    }
    return true;
}

/* Sends n bytes, chunk by chunk from the same place. */
static bool transmit_any(const struct link *link, size_t n)
{
    for (size_t chunk; n > 0; n -= chunk) {
        chunk = at_most(n, CHUNK_BYTES);
        if (!transmit(link, link->bytes, chunk))
            return false;
    }
    return true;
}

static bool broken(void)
{
    complain("the raw connection broke: %s", strerror(errno));
    return false;
}

bool link_announce(struct link *link, size_t request_bytes, size_t reply_bytes, size_t count)
{
    struct order order = {request_bytes, reply_bytes, count};
    return transmit(link, (const char *)&order, sizeof order) || broken();
}

bool link_exchange(struct link *link, size_t request_bytes, size_t reply_bytes)
{
    return (transmit_any(link, request_bytes) && receive(link, reply_bytes)) || broken();
}

/* ---- Both ends --------------------------------------------------------------------------------- */

static bool complain_openssl(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    complain("the raw TLS connection failed: %s", reason != NULL ? reason : "unknown cause");
    return false;
}

/* Puts TLS on the socket. */
static bool secure(struct link *link, const struct cluster *cluster, bool accepts)
{
    char certificate[128], key[128];
    cluster_path(cluster, "node.crt", certificate);
    cluster_path(cluster, "node.key", key);
    link->context = SSL_CTX_new(TLS_method());
    if (link->context == NULL ||
        SSL_CTX_set_min_proto_version(link->context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(link->context, "TLS_AES_128_GCM_SHA256") != 1 ||
        SSL_CTX_set_num_tickets(link->context, 0) != 1 ||
        SSL_CTX_use_certificate_file(link->context, certificate, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(link->context, key, SSL_FILETYPE_PEM) != 1)
        return complain_openssl();
    link->ssl = SSL_new(link->context);
    if (link->ssl == NULL || SSL_set_fd(link->ssl, link->fd) != 1 ||
        (accepts ? SSL_accept(link->ssl) : SSL_connect(link->ssl)) != 1)
        return complain_openssl();
    return true;
}

/* Makes a link of a connected socket and takes ownership of it. */
static bool begin(struct link *link, const struct cluster *cluster, int fd, bool accepts)
{
    link->fd = fd;
    link->bytes = malloc(CHUNK_BYTES);
    if (link->bytes == NULL) {
        complain("no memory for a raw connection");
        return false;
    }
    memset(link->bytes, 0, CHUNK_BYTES);
    if (cluster->transport == TRANSPORT_UNIX) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){LOCAL_ROOM_BYTES}, sizeof(int));
        return true;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", strlen("cubic"));
    return cluster->transport != TRANSPORT_TLS || secure(link, cluster, accepts);
}

void link_close(struct link *link)
{
    if (link->bytes == NULL)
        return;
    SSL_free(link->ssl);
    SSL_CTX_free(link->context);
    free(link->bytes);
    close(link->fd);
}

/* ---- The other end ----------------------------------------------------------------------------- */

struct far_end {
    const struct cluster *cluster;
    int fd;      /* the listener, or the socket itself */
    int near_fd; /* the near end's, to be closed; or -1 */
};

/* Serves requests until the near end closes. */
static int far_main(void *context)
{
    const struct far_end *end = context;
    struct link link = {0};
    struct order order;
    if (end->near_fd >= 0)
        close(end->near_fd);
    int fd = end->near_fd >= 0 ? end->fd : accept(end->fd, NULL, NULL);
    if (fd < 0 || !begin(&link, end->cluster, fd, true))
        return EXIT_FAILED;
    for (;;) {
        for (size_t at = 0; at < sizeof order;) {
            ssize_t n = read_some(&link, (char *)&order + at, sizeof order - at);
            if (n <= 0)
                return EXIT_OK;
            at += (size_t)n;
        }
        for (; order.count > 0; order.count--)
            if (!receive(&link, order.request_bytes) || !transmit_any(&link, order.reply_bytes))
                return EXIT_FAILED;
    }
}

static bool open_local(struct link *link, struct cluster *cluster)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        complain("cannot open a pair of sockets: %s", strerror(errno));
        return false;
    }
    struct far_end far = {.cluster = cluster, .fd = ends[1], .near_fd = ends[0]};
    bool forked = cluster_fork(cluster, far_main, &far);
    close(ends[1]);
    return begin(link, cluster, ends[0], false) && forked;
}

/* Listens at a free port of loopback, which is set in `address`. */
static bool listen_near(int fd, struct sockaddr_in *address)
{
    socklen_t n_bytes = sizeof *address;
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return fd >= 0 && bind(fd, (struct sockaddr *)address, sizeof *address) == 0 &&
           getsockname(fd, (struct sockaddr *)address, &n_bytes) == 0 && listen(fd, 1) == 0;
}

static bool open_internet(struct link *link, struct cluster *cluster)
{
    struct sockaddr_in address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct far_end far = {.cluster = cluster, .fd = listener, .near_fd = -1};
    int fd = -1;
    bool connected = listen_near(listener, &address) && cluster_fork(cluster, far_main, &far) &&
                     (fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0 &&
                     connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (!connected)
        complain("cannot open a raw connection: %s", strerror(errno));
    if (listener >= 0)
        close(listener);
    if (connected)
        return begin(link, cluster, fd, false);
    if (fd >= 0)
        close(fd);
    return false;
}

bool link_open(struct link *link, struct cluster *cluster)
{
    return cluster->transport == TRANSPORT_UNIX ? open_local(link, cluster)
                                                : open_internet(link, cluster);
}
