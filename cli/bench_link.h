/*
 * bench_link - the baseline of `tern bench net`: a socket to another process with blocking reads and writes, as
 * an expert without Tern would use it.
 *
 * The sockets have the same relevant options as Tern's: no delay and cubic for TCP, the same buffer size for
 * Unix sockets. TLS is a plain OpenSSL stream on such a TCP socket: version 1.3, AES-128-GCM.
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

/* Starts a process in the cluster and connects to it; false after an error message. A zeroed link may be
 * closed. */
bool link_open(struct link *link, struct cluster *cluster);
void link_close(struct link *link);

/* Announces `count` exchanges, each of request_bytes from here and then reply_bytes from there. */
bool link_announce(struct link *link, size_t request_bytes, size_t reply_bytes, size_t count);

/* One of them. */
bool link_exchange(struct link *link, size_t request_bytes, size_t reply_bytes);

#endif
