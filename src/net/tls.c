/*
 * tls - TLS 1.3 on a TCP stream, with certificates on both sides.
 *
 * Either side accepts whoever shows a valid certificate of the common authority, and nobody else; the
 * system's own authorities do not count. Host names in certificates are not compared: nodes are found
 * by address, and every certificate of the authority is a node's. A certificate may be bound to numbers of nodes, by
 * the URI "tern:node:3" or "tern:node:0-7" among its alternative names; tls_check_node compares them when the other
 * side has said which node it is. There are no sessions to resume.
 *
 * The handshake, like everything else, does what it can now and goes on when the socket allows. In TLS
 * 1.3 the side that connected finishes first: what it writes then is read by the other only after its
 * certificate has been found good, but that it was refused, and why, it learns from its first read.
 *
 * Writing. OpenSSL seals several records into memory, and they go to the socket at once: a call of the
 * system for each would cost as much as sealing it. Bytes count as taken only when the socket has all of
 * `sealed`; until then nothing else is sealed. `n_untold` of them are not yet reported as taken: they
 * are the first that the caller offers next, in one call or several.
 *
 * Reading. OpenSSL reads ahead, so bytes may wait in memory when the socket has none. `drained` is set
 * when it found no whole record there; until then a stream with anything in memory is pending.
 */
#include "net/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/buffer.h"
#include "base/log.h"

enum {
    RECORD_BYTES = 16384,
    READ_AHEAD_BYTES = 8 * RECORD_BYTES,
    SEAL_BYTES = 4 * RECORD_BYTES, /* at a time */
};

struct tls {
    SSL_CTX *context;
    BIO_METHOD *socket; /* unlike OpenSSL's own, raises no SIGPIPE */
};

struct tls_session {
    SSL *ssl;
    int fd;
    int error; /* errno of the socket's last failure */
    bool ended;
    bool connected;
    bool drained;
    bool seals; /* OpenSSL writes to `sealed`, not to the socket */
    struct buffer sealed;
    size_t n_untold;
    char staged[RECORD_BYTES]; /* plain bytes of a record, brought together from several parts */
};

/* ---- The socket as OpenSSL sees it ------------------------------------------------------------ */

static int socket_bio_write(BIO *bio, const char *bytes, int n_bytes)
{
    struct tls_session *session = BIO_get_data(bio);
    struct iovec part = {.iov_base = (char *)(uintptr_t)bytes, .iov_len = (size_t)n_bytes};
    BIO_clear_retry_flags(bio);
    if (session->seals || buffer_size(&session->sealed) > 0) {
        if (buffer_append(&session->sealed, bytes, (size_t)n_bytes))
            return n_bytes;
        session->error = ENOMEM;
        return -1;
    }
    ssize_t n = socket_send(session->fd, &part, 1);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    else if (n < 0)
        session->error = errno;
    return (int)n;
}

static int socket_bio_read(BIO *bio, char *bytes, int n_bytes)
{
    struct tls_session *session = BIO_get_data(bio);
    struct iovec part = {.iov_base = bytes, .iov_len = (size_t)n_bytes};
    BIO_clear_retry_flags(bio);
    ssize_t n = socket_receive(session->fd, &part, 1);
    if (n == 0)
        session->ended = true;
    else if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    else if (n < 0)
        session->error = errno;
    return (int)n;
}

static long socket_bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    const struct tls_session *session = BIO_get_data(bio);
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return session->ended;
    default:
        return 0;
    }
}

static BIO_METHOD *socket_bio_method(void)
{
    BIO_METHOD *method =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "tern");
    if (method != NULL && BIO_meth_set_write(method, socket_bio_write) &&
        BIO_meth_set_read(method, socket_bio_read) && BIO_meth_set_ctrl(method, socket_bio_control))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- Sentences -------------------------------------------------------------------------------- */

/* What is wrong with a certificate, after "a certificate". */
static const char *certificate_fault(long verdict)
{
    switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "that has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "that is not valid yet (is a clock wrong?)";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return "of another authority";
    case X509_V_ERR_INVALID_PURPOSE:
        return "that is not for clients and servers both (extendedKeyUsage)";
    default:
        return NULL;
    }
}

/* What the peer did, for an error in OpenSSL's queue that stands for it; NULL for others. */
static const char *peer_fault(int reason)
{
    switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return "showed no certificate";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "refused this node, which has no certificate";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "refused this node's certificate: it is of another authority";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "refused this node's certificate: it has expired";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
        return "refused this node's certificate";
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
        return "does not speak TLS 1.3";
    case SSL_R_BAD_PACKET_LENGTH:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_WRONG_VERSION_NUMBER:
        return "does not speak TLS";
    default:
        return NULL;
    }
}

static const char *library_reason(unsigned long code)
{
    const char *reason = ERR_reason_error_string(code);
    return reason != NULL ? reason : "unknown cause";
}

static ssize_t fail_for_protocol(struct stream *stream)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return stream_fail(stream, stream->established
                                       ? "ended without closing the connection"
                                       : "closed the connection before it was established");
    if (stream->accepted && !stream->established)
        atomic_fetch_add_explicit(&stream->net->n_refused, 1, memory_order_relaxed); /* a count */
    const char *fault = peer_fault(reason);
    if (fault != NULL)
        return stream_fail(stream, "%s", fault);
    if (reason != SSL_R_CERTIFICATE_VERIFY_FAILED)
        return stream_fail(stream, "broke the rules of TLS: %s", library_reason(code));
    long verdict = SSL_get_verify_result(stream->session->ssl);
    fault = certificate_fault(verdict);
    if (fault != NULL)
        return stream_fail(stream, "showed a certificate %s", fault);
    return stream_fail(stream, "showed a certificate that is not trusted: %s",
                       X509_verify_cert_error_string(verdict));
}

/* After a call of OpenSSL that did not succeed: 0 when it has to wait, else -1 with the stream
 * failed. */
static ssize_t wait_or_fail(struct stream *stream, int result)
{
    struct tls_session *session = stream->session;
    switch (SSL_get_error(session->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        return stream_fail(stream, "closed the connection");
    case SSL_ERROR_SSL:
        return fail_for_protocol(stream);
    default:
        if (session->error == 0)
            return stream_fail(stream, "closed the connection");
        return stream_fail(stream, "%s: %s", socket_verdict(session->error),
                           strerror(session->error));
    }
}

/* ---- Streams ---------------------------------------------------------------------------------- */

static void tls_advance(struct stream *stream)
{
    struct tls_session *session = stream->session;
    if (!session->connected)
        session->connected = socket_connected(stream);
    if (!session->connected)
        return;
    ERR_clear_error();
    int result = SSL_do_handshake(session->ssl);
    stream->heard = BIO_number_read(SSL_get_rbio(session->ssl)) > 0;
    if (result == 1)
        stream->established = true;
    else
        wait_or_fail(stream, result);
}

static short tls_advance_events(const struct stream *stream)
{
    if (!stream->session->connected)
        return POLLIN | POLLOUT;
    return SSL_want_write(stream->session->ssl) ? POLLOUT : POLLIN;
}

static ssize_t tls_read(struct stream *stream, const struct iovec *parts, int n_parts)
{
    struct tls_session *session = stream->session;
    size_t n_read = 0;
    for (int i = 0; i < n_parts; i++) {
        for (size_t at = 0, n = 0; at < parts[i].iov_len; at += n, n_read += n) {
            ERR_clear_error();
            session->drained = false;
            int result = SSL_read_ex(session->ssl, (char *)parts[i].iov_base + at,
                                     parts[i].iov_len - at, &n);
            if (result == 1)
                continue;
            /* A failure after some bytes is reported by the next call. */
            ssize_t outcome = wait_or_fail(stream, result);
            session->drained = outcome == 0;
            return n_read > 0 ? (ssize_t)n_read : outcome;
        }
    }
    return (ssize_t)n_read;
}

static bool tls_pending(const struct stream *stream)
{
    const struct tls_session *session = stream->session;
    return stream->established && !session->drained && SSL_has_pending(session->ssl);
}

/* Where a write has got to in what it was offered. */
struct cursor {
    const struct iovec *parts;
    int n_parts;
    size_t offset; /* into the first part */
};

/* Copies up to n bytes, or passes over them when `to` is NULL, and returns how many there were. */
static size_t cursor_take(struct cursor *cursor, char *to, size_t n)
{
    size_t n_taken = 0;
    while (n_taken < n && cursor->n_parts > 0) {
        size_t left = cursor->parts->iov_len - cursor->offset;
        size_t now = left < n - n_taken ? left : n - n_taken;
        if (to != NULL && now > 0)
            memcpy(to + n_taken, (const char *)cursor->parts->iov_base + cursor->offset, now);
        n_taken += now;
        cursor->offset += now;
        if (cursor->offset == cursor->parts->iov_len) {
            cursor->parts++;
            cursor->n_parts--;
            cursor->offset = 0;
        }
    }
    return n_taken;
}

/* A write failed because the peer is gone. If it left a word why, that is the failure; what else it
 * left may still be read. */
static ssize_t fail_write(struct stream *stream)
{
    struct tls_session *session = stream->session;
    int error = session->error;
    char byte;
    size_t n;
    ERR_clear_error();
    int result = SSL_peek_ex(session->ssl, &byte, 1, &n);
    if (result != 1 && SSL_get_error(session->ssl, result) == SSL_ERROR_SSL)
        return fail_for_protocol(stream);
    fail(TERN_PEER, "node at %s %s: %s", stream->peer, socket_verdict(error), strerror(error));
    return -1;
}

/* The next bytes for a record: where they are if they lie together, else copied to `staged`. */
static size_t take_record(struct tls_session *session, struct cursor *cursor, const char **bytes)
{
    size_t left = cursor->n_parts > 0 ? cursor->parts->iov_len - cursor->offset : 0;
    bool together = left >= RECORD_BYTES || cursor->n_parts == 1;
    *bytes = together ? (const char *)cursor->parts->iov_base + cursor->offset : session->staged;
    return cursor_take(cursor, together ? NULL : session->staged, RECORD_BYTES);
}

/* Seals up to SEAL_BYTES; false if OpenSSL fails, and then the stream has failed. */
static bool seal(struct stream *stream, struct cursor *cursor)
{
    struct tls_session *session = stream->session;
    const char *bytes;
    size_t n, n_sealed;
    int result = 1;
    ERR_clear_error();
    session->seals = true;
    while (result == 1 && session->n_untold < SEAL_BYTES &&
           (n = take_record(session, cursor, &bytes)) > 0) {
        result = SSL_write_ex(session->ssl, bytes, n, &n_sealed);
        session->n_untold += n;
    }
    session->seals = false;
    if (result != 1 && wait_or_fail(stream, result) == 0)
        stream_fail(stream, "cannot be written to now, which TLS 1.3 does not know");
    return result == 1;
}

/* Hands sealed records to the socket, as far as it takes them; false if it fails. */
static bool flush_sealed(struct tls_session *session)
{
    while (buffer_size(&session->sealed) > 0) {
        struct iovec part = {.iov_base = buffer_head(&session->sealed),
                             .iov_len = buffer_size(&session->sealed)};
        ssize_t n = socket_send(session->fd, &part, 1);
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n < 0) {
            session->error = errno;
            return false;
        }
        buffer_consume(&session->sealed, (size_t)n);
    }
    return true;
}

static ssize_t tls_write(struct stream *stream, const struct iovec *parts, int n_parts)
{
    struct tls_session *session = stream->session;
    struct cursor told = {.parts = parts, .n_parts = n_parts}; /* up to what is reported */
    struct cursor cursor = told;                               /* up to what is sealed */
    size_t n_written = 0;
    cursor_take(&cursor, NULL, session->n_untold);
    for (;;) {
        if (!flush_sealed(session))
            return fail_write(stream);
        if (buffer_size(&session->sealed) > 0)
            return (ssize_t)n_written;
        size_t n = cursor_take(&told, NULL, session->n_untold);
        session->n_untold -= n;
        n_written += n;
        if (session->n_untold > 0 || cursor.n_parts == 0)
            return (ssize_t)n_written;
        if (!seal(stream, &cursor))
            return -1;
        if (session->n_untold == 0)
            return (ssize_t)n_written;
    }
}

static void tls_stream_close(struct stream *stream)
{
    struct tls_session *session = stream->session;
    if (stream->established && !stream->failed && buffer_size(&session->sealed) == 0) {
        ERR_clear_error();
        SSL_shutdown(session->ssl); /* a word to the peer, if the socket takes it now */
    }
    SSL_free(session->ssl);
    buffer_free(&session->sealed);
    free(session);
}

static const struct stream_ops tls_ops = {
    .read = tls_read,
    .write = tls_write,
    .advance = tls_advance,
    .advance_events = tls_advance_events,
    .pending = tls_pending,
    .close = tls_stream_close,
};

enum tern_status tls_wrap(struct stream *stream)
{
    const struct tls *tls = stream->net->tls;
    struct tls_session *session = calloc(1, sizeof *session);
    SSL *ssl = SSL_new(tls->context);
    BIO *bio = BIO_new(tls->socket);
    if (session == NULL || ssl == NULL || bio == NULL) {
        free(session);
        SSL_free(ssl);
        BIO_free(bio);
        return fail(TERN_NO_MEMORY, "no memory for TLS with %s", stream->peer);
    }
    session->ssl = ssl;
    session->fd = stream->fd;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    if (stream->accepted)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    stream->session = session;
    stream->ops = &tls_ops;
    stream->established = false;
    tls_advance(stream);
    return TERN_OK;
}

/* ---- Whom a certificate may be ----------------------------------------------------------------- */

enum binding { UNBOUND, BOUND_HERE, BOUND_ELSEWHERE };

/* Whether the text after "tern:node:" has the node's number. */
static bool has_node(const char *text, uint32_t node)
{
    char *end;
    unsigned long first = strtoul(text, &end, 10), last = first;
    if (*end == '-')
        last = strtoul(end + 1, &end, 10);
    return *end == '\0' && first <= node && node <= last;
}

static enum binding binding_of(const X509 *certificate, uint32_t node)
{
    static const char prefix[] = "tern:node:";
    enum binding found = UNBOUND;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char text[64] = "";
        if (name->type != GEN_URI)
            continue;
        int n = ASN1_STRING_length(name->d.uniformResourceIdentifier);
        if (n <= 0 || (size_t)n >= sizeof text)
            continue;
        memcpy(text, ASN1_STRING_get0_data(name->d.uniformResourceIdentifier), (size_t)n);
        if (strncmp(text, prefix, sizeof prefix - 1) != 0)
            continue;
        if (has_node(text + sizeof prefix - 1, node))
            found = BOUND_HERE;
        else if (found == UNBOUND)
            found = BOUND_ELSEWHERE;
    }
    GENERAL_NAMES_free(names);
    return found;
}

enum tern_status tls_check_node(const struct stream *stream, uint32_t node)
{
    const X509 *theirs = SSL_get0_peer_certificate(stream->session->ssl);
    const X509 *own = SSL_CTX_get0_certificate(stream->net->tls->context);
    enum binding binding = theirs != NULL ? binding_of(theirs, node) : BOUND_ELSEWHERE;
    if (binding == BOUND_ELSEWHERE)
        return fail(TERN_PEER, "the certificate of %s is not one of node %u", stream->peer,
                    (unsigned)node);
    if (binding == UNBOUND && own != NULL && binding_of(own, 0) != UNBOUND)
        return fail(TERN_PEER,
                    "the certificate of %s names no node, but this node's own does: make all with "
                    "'tern ca node --nodes', or none",
                    stream->peer);
    return TERN_OK;
}

/* ---- Credentials ------------------------------------------------------------------------------ */

/* A file that cannot be read is a plainer cause than any OpenSSL would give. */
static enum tern_status check_file(const char *what, const char *path)
{
    if (access(path, R_OK) == 0)
        return TERN_OK;
    return fail(TERN_NETWORK, "the %s %s cannot be read: %s", what, path, strerror(errno));
}

static enum tern_status bad_file(const char *what, const char *path)
{
    return fail(TERN_NETWORK, "the %s %s is not one in PEM form: %s", what, path,
                library_reason(ERR_peek_last_error()));
}

/* Keys with a password are refused instead of asking for it on the terminal. */
static int no_password(char *password, int n_password, int writing, void *context)
{
    (void)password;
    (void)n_password;
    (void)writing;
    (void)context;
    return -1;
}

/* Not refused, because some hosts hand keys to a group on purpose. */
static void note_open_key(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        log_notice("the key %s can be used by others than its owner (mode %03o); make it private "
                   "with chmod 600",
                   path, (unsigned)(about.st_mode & 0777));
}

static enum tern_status load_files(SSL_CTX *context, const struct net_options *options)
{
    enum tern_status status = check_file("certificate", options->certificate);
    if (status == TERN_OK)
        status = check_file("key", options->key);
    if (status == TERN_OK)
        status = check_file("authority", options->authority);
    if (status != TERN_OK)
        return status;
    note_open_key(options->key);
    if (SSL_CTX_use_certificate_chain_file(context, options->certificate) != 1)
        return bad_file("certificate", options->certificate);
    if (SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) != 1) {
        if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
            return fail(TERN_NETWORK, "the key %s does not belong to the certificate %s",
                        options->key, options->certificate);
        return bad_file("key", options->key);
    }
    if (SSL_CTX_load_verify_locations(context, options->authority, NULL) != 1)
        return bad_file("authority", options->authority);
    return TERN_OK;
}

/* What is wrong with our own certificate for a client, or a server; X509_V_OK: nothing. */
static int test_own(SSL_CTX *context, int purpose)
{
    STACK_OF(X509) *chain = NULL;
    SSL_CTX_get0_chain_certs(context, &chain);
    X509_STORE_CTX *test = X509_STORE_CTX_new();
    int verdict = X509_V_ERR_OUT_OF_MEM;
    if (test != NULL &&
        X509_STORE_CTX_init(test, SSL_CTX_get_cert_store(context),
                            SSL_CTX_get0_certificate(context), chain) == 1 &&
        X509_STORE_CTX_set_purpose(test, purpose) == 1)
        verdict = X509_verify_cert(test) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(test);
    X509_STORE_CTX_free(test);
    return verdict;
}

/* Our own certificate must pass the tests that every peer will make of it. */
static enum tern_status check_own(SSL_CTX *context, const struct net_options *options)
{
    int verdict = test_own(context, X509_PURPOSE_SSL_CLIENT);
    if (verdict == X509_V_OK)
        verdict = test_own(context, X509_PURPOSE_SSL_SERVER);
    if (verdict == X509_V_OK)
        return TERN_OK;
    if (verdict == X509_V_ERR_OUT_OF_MEM)
        return fail(TERN_NO_MEMORY, "no memory to check the certificate %s", options->certificate);
    const char *fault = certificate_fault(verdict);
    return fail(TERN_NETWORK, "the certificate %s is one %s (the authority is %s)",
                options->certificate, fault ? fault : X509_verify_cert_error_string(verdict),
                options->authority);
}

static bool set_rules(SSL_CTX *context)
{
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD_BYTES);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(context, 0) == 1 &&
           SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                             "TLS_CHACHA20_POLY1305_SHA256") == 1;
}

enum tern_status tls_open(const struct net_options *options, struct tls **tls)
{
    ERR_clear_error();
    struct tls *made = calloc(1, sizeof *made);
    if (made == NULL)
        return fail(TERN_NO_MEMORY, "no memory for TLS");
    enum tern_status status;
    made->context = SSL_CTX_new(TLS_method());
    made->socket = socket_bio_method();
    if (made->context == NULL || made->socket == NULL || !set_rules(made->context))
        status = fail(TERN_NETWORK, "TLS 1.3 cannot be set up: %s",
                      library_reason(ERR_peek_last_error()));
    else
        status = load_files(made->context, options);
    if (status == TERN_OK)
        status = check_own(made->context, options);
    ERR_clear_error();
    if (status != TERN_OK) {
        tls_close(made);
        return status;
    }
    *tls = made;
    return TERN_OK;
}

void tls_close(struct tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->socket);
    free(tls);
}
