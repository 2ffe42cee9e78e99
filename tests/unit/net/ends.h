/*
 * ends - what the tests of streams share: a folder with certificates for the run, and two connected ends
 * of every transport with ways to use them.
 */
#ifndef NET_ENDS_H
#define NET_ENDS_H

#include "net/address.h" /* before cmocka.h, whose fail() is a macro */
#include "net/stream.h"

#include <poll.h>

#include "support/check.h"
#include "unit/net/certificates.h"

enum {
    PATIENCE_MS = 20000, /* for what should happen at once */
    DAY_S = 86400,
};

/* ---- The folder and the certificates of the run ------------------------------------------------ */

static char folder[64];
static char both_authorities[128]; /* a file with ours and the other one */
static struct issued authority, node_a, node_b, expired, other_authority, other_node;

static inline struct net_options credentials_of(const struct issued *issued)
{
    return (struct net_options){.certificate = issued->certificate_path,
                                .key = issued->key_path,
                                .authority = authority.certificate_path};
}

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tern-net-XXXXXX");
    assert_non_null(mkdtemp(folder));
    authority = issue(folder, "authority", NULL, -DAY_S, DAY_S);
    node_a = issue(folder, "a", &authority, -DAY_S, DAY_S);
    node_b = issue(folder, "b", &authority, -DAY_S, DAY_S);
    expired = issue(folder, "expired", &authority, -2 * DAY_S, -DAY_S);
    other_authority = issue(folder, "other", NULL, -DAY_S, DAY_S);
    other_node = issue(folder, "stranger", &other_authority, -DAY_S, DAY_S);
    snprintf(both_authorities, sizeof both_authorities, "%s/both.crt", folder);
    FILE *file = fopen(both_authorities, "w");
    assert_non_null(file);
    PEM_write_X509(file, authority.certificate);
    PEM_write_X509(file, other_authority.certificate);
    fclose(file);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    struct issued *all[] = {&authority, &node_a, &node_b, &expired, &other_authority, &other_node};
    for (size_t i = 0; i < COUNT(all); i++) {
        unlink(all[i]->certificate_path);
        unlink(all[i]->key_path);
        issued_free(all[i]);
    }
    unlink(both_authorities);
    return rmdir(folder); /* fails when a test left a socket behind */
}

/* ---- Two connected ends, of every transport ---------------------------------------------------- */

enum transport { TCP4, TCP6, LOCAL, PAIR, TLS, N_TRANSPORTS };

static inline struct net *net_of(struct net_options options)
{
    struct net *net = NULL;
    ok(net_open(&options, &net));
    return net;
}

static inline struct net *net_for(enum transport transport)
{
    return net_of(transport == TLS ? credentials_of(&node_a) : (struct net_options){0});
}

static inline const char *address_for(enum transport transport)
{
    static char local[128];
    snprintf(local, sizeof local, "unix:%s/socket", folder);
    return transport == TCP6 ? "[::1]:0" : transport == LOCAL ? local : "127.0.0.1:0";
}

static inline bool exists(enum transport transport)
{
    struct net *net = net_of((struct net_options){0});
    struct listener *listener = NULL;
    bool there = transport != TCP6 || listener_open(net, "[::1]:0", &listener) == TERN_OK;
    listener_close(listener);
    net_close(net);
    return there;
}

static inline struct stream *accept_one(struct listener *listener)
{
    struct pollfd waiting = {.fd = listener_fd(listener), .events = POLLIN};
    struct stream *stream = NULL;
    while (stream == NULL) {
        assert_int_equal(poll(&waiting, 1, PATIENCE_MS), 1);
        stream = listener_accept(listener);
    }
    return stream;
}

/* Carries the handshakes of both on until both are over or one has failed. */
static inline void shake_hands(struct stream *client, struct stream *server)
{
    for (int waited = 0; waited < PATIENCE_MS; waited++) {
        bool done = stream_established(client);
        if ((stream_established(server) && done) || stream_pending(client) ||
            stream_pending(server))
            return;
        poll(NULL, 0, 1);
    }
    fail_msg("the handshake does not end");
}

struct ends {
    struct net *net;
    struct listener *listener;
    struct stream *client, *server;
};

static inline struct ends connect_ends(enum transport transport)
{
    struct ends ends = {.net = net_for(transport)};
    if (transport == PAIR) {
        struct stream *pair[2];
        ok(stream_pair(65536, pair));
        ends.client = pair[0];
        ends.server = pair[1];
        return ends;
    }
    ok(listener_open(ends.net, address_for(transport), &ends.listener));
    ok(stream_connect(ends.net, listener_address(ends.listener), &ends.client));
    ends.server = accept_one(ends.listener);
    shake_hands(ends.client, ends.server);
    assert_true(stream_established(ends.client));
    assert_true(stream_established(ends.server));
    return ends;
}

static inline void close_ends(struct ends *ends)
{
    stream_close(ends->client);
    stream_close(ends->server);
    listener_close(ends->listener);
    net_close(ends->net);
}

/* Runs the check on every transport this machine has, and returns on how many. */
static inline int on_each(void (*check)(enum transport transport))
{
    int n = 0;
    for (enum transport transport = TCP4; transport < N_TRANSPORTS; transport++) {
        if (!exists(transport))
            continue;
        check(transport);
        n++;
    }
    return n;
}

static inline void every_transport(void (*check)(enum transport transport))
{
    assert_true(on_each(check) >= N_TRANSPORTS - 1); /* ::1 may be missing */
}

/* Writes or reads all of it, waiting as needed; false when the stream fails first. */
static inline bool write_all(struct stream *stream, const void *bytes, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes;) {
        struct iovec part = {.iov_base = (char *)(uintptr_t)bytes + at, .iov_len = n_bytes - at};
        ssize_t n = stream_write(stream, &part, 1);
        if (n < 0 || (n == 0 && !stream_wait(stream, true, PATIENCE_MS)))
            return false;
        at += (size_t)n;
    }
    stream_flush(stream);
    return true;
}

static inline bool read_all(struct stream *stream, void *bytes, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes;) {
        struct iovec part = {.iov_base = (char *)bytes + at, .iov_len = n_bytes - at};
        ssize_t n = stream_read(stream, &part, 1);
        if (n < 0 || (n == 0 && !stream_wait(stream, false, PATIENCE_MS)))
            return false;
        at += (size_t)n;
    }
    return true;
}

/* Reads until the stream ends; what it still delivered does not matter. */
static inline void read_to_end(struct stream *stream)
{
    char bytes[4096];
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    ssize_t n;
    while ((n = stream_read(stream, &part, 1)) >= 0)
        if (n == 0)
            assert_true(stream_wait(stream, false, PATIENCE_MS));
    assert_int_equal(n, -1);
}

static inline void sentence_has(const char *words)
{
    if (strstr(tern_error(), words) == NULL)
        fail_msg("'%s' is not in: %s", words, tern_error());
}

static inline void ends_with_sentence(struct stream *stream, const char *words)
{
    for (int again = 0; again < 2; again++) {
        check_forget();
        read_to_end(stream);
        sentence_has(words);
        sentence_has(stream_peer(stream));
    }
}

#endif
