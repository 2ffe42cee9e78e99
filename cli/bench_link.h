/*
 * bench_link - what an expert without Tern would do: a socket to another process, with blocking reads
 * and writes, for the baselines of `tern bench net`.
 *
 * The sockets have the options that matter of Tern's own: no delay and cubic for TCP, the same buffer
 * for Unix sockets. TLS is OpenSSL's own stream on such a TCP socket: version 1.3, AES-128-GCM.
 */
#ifndef CLI_BENCH_LINK_H
#define CLI_BENCH_LINK_H

#include "bench_cluster.h"

struct ssl_ctx_st; /* OpenSSL's names for SSL_CTX and SSL */
struct ssl_st;

struct link {
    int fd;
    struct ssl_ctx_st *context; /* of TLS; else NULL */
    struct ssl_st *ssl;
    char *bytes; /* what is sent and where it is received */
};

/* Connects to a process that it starts in the cluster; false after a complaint. A zeroed link may be
 * closed. */
bool link_open(struct link *link, struct cluster *cluster);
void link_close(struct link *link);

/* Announces `count` exchanges, each of request_bytes from here and then reply_bytes from there. */
bool link_announce(struct link *link, size_t request_bytes, size_t reply_bytes, size_t count);

/* One of them. */
bool link_exchange(struct link *link, size_t request_bytes, size_t reply_bytes);

#endif
