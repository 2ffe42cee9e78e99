/*
 * With TLS nobody gets in without a valid certificate of the authority, and everybody concerned is told
 * why. That bytes pass unharmed is tested with the other transports in test_stream.c.
 */
#include "unit/net/ends.h"

#include <pthread.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

static void test_bad_credentials(void **state)
{
    (void)state;
    struct net *net = NULL;
    struct net_options good = credentials_of(&node_a), options;
    const char **const fields[] = {&options.certificate, &options.key, &options.authority};
    const char *const names[] = {"certificate", "key", "authority"};
    for (size_t i = 0; i < COUNT(fields); i++) {
        options = good;
        *fields[i] = NULL;
        refused(net_open(&options, &net), TERN_NETWORK, names[i], "missing");
        *fields[i] = "/nowhere.pem";
        refused(net_open(&options, &net), TERN_NETWORK, names[i], "/nowhere.pem", "No such file");
        *fields[i] = "/dev/null";
        refused(net_open(&options, &net), TERN_NETWORK, names[i], "/dev/null");
    }
    options = good;
    options.key = node_b.key_path;
    refused(net_open(&options, &net), TERN_NETWORK, node_b.key_path, "does not belong");
    options = credentials_of(&expired);
    refused(net_open(&options, &net), TERN_NETWORK, expired.certificate_path, "expired");
    options = credentials_of(&other_node);
    refused(net_open(&options, &net), TERN_NETWORK, other_node.certificate_path,
            "another authority");
    static const char *const usages[] = {"serverAuth", "clientAuth"};
    for (size_t i = 0; i < COUNT(usages); i++) {
        struct issued half = issue_for(usages[i], folder, usages[i], &authority, -DAY_S, DAY_S);
        options = credentials_of(&half);
        refused(net_open(&options, &net), TERN_NETWORK, half.certificate_path, "extendedKeyUsage");
        unlink(half.certificate_path);
        unlink(half.key_path);
        issued_free(&half);
    }
    assert_null(net);
}

/* A peer that keeps no rules but OpenSSL's: with any certificate, or none, and trusting everybody. */
struct stranger {
    const struct issued *issued;
    int highest_version;
    int fd;
    bool accepts;
    pthread_t thread;
};

static void *meet_stranger(void *argument)
{
    struct stranger *stranger = argument;
    int fd = stranger->fd;
    if (stranger->accepts)
        fd = accept(stranger->fd, NULL, NULL);
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (stranger->highest_version != 0)
        SSL_CTX_set_max_proto_version(context, stranger->highest_version);
    if (stranger->issued != NULL) {
        holds(SSL_CTX_use_certificate(context, stranger->issued->certificate) == 1);
        holds(SSL_CTX_use_PrivateKey(context, stranger->issued->key) == 1);
    }
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    char byte;
    if ((stranger->accepts ? SSL_accept(ssl) : SSL_connect(ssl)) == 1)
        holds(SSL_read(ssl, &byte, 1) <= 0); /* nothing is ever said to it */
    SSL_free(ssl);
    SSL_CTX_free(context);
    if (stranger->accepts)
        close(fd);
    ERR_clear_error();
    return NULL;
}

static int internet_socket(struct address *address, const char *text, bool to_listen)
{
    struct address found[ADDRESS_FOUND_MAX];
    int n_found = 0;
    ok(address_find(text, to_listen, found, &n_found));
    *address = found[0];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static int raw_connect(const char *text)
{
    struct address address;
    int fd = internet_socket(&address, text, false);
    assert_int_equal(connect(fd, &address.any, address.n_bytes), 0);
    return fd;
}

static int raw_listen(char text[ADDRESS_TEXT_BYTES])
{
    struct address address;
    int fd = internet_socket(&address, "127.0.0.1:0", true);
    assert_int_equal(bind(fd, &address.any, address.n_bytes), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, &address.any, &address.n_bytes), 0);
    address_text(&address, text);
    return fd;
}

/* A stranger connects to us; it must be refused for this reason, and counted. */
static void refuses_client(struct stranger stranger, const char *words)
{
    struct net *net = net_for(TLS);
    struct listener *listener;
    ok(listener_open(net, "127.0.0.1:0", &listener));
    stranger.fd = raw_connect(listener_address(listener));
    assert_int_equal(pthread_create(&stranger.thread, NULL, meet_stranger, &stranger), 0);
    struct stream *server = accept_one(listener);
    ends_with_sentence(server, words);
    assert_false(stream_established(server));
    assert_int_equal(net_refused(net), 1);
    stream_close(server);
    pthread_join(stranger.thread, NULL);
    all_held();
    close(stranger.fd);
    listener_close(listener);
    net_close(net);
}

static void test_client_without_certificate(void **state)
{
    (void)state;
    refuses_client((struct stranger){.issued = NULL}, "showed no certificate");
}

static void test_client_of_another_authority(void **state)
{
    (void)state;
    refuses_client((struct stranger){.issued = &other_node}, "another authority");
}

static void test_client_with_authority_of_its_own(void **state)
{
    (void)state;
    refuses_client((struct stranger){.issued = &other_authority}, "another authority");
}

static void test_client_with_expired_certificate(void **state)
{
    (void)state;
    refuses_client((struct stranger){.issued = &expired}, "expired");
}

static void test_client_with_old_tls(void **state)
{
    (void)state;
    refuses_client((struct stranger){.issued = &node_b, .highest_version = TLS1_2_VERSION},
                   "TLS 1.3");
}

/* We connect to a stranger, and must refuse it for this reason. */
static void refuses_server(const struct issued *issued, const char *words)
{
    char address[ADDRESS_TEXT_BYTES];
    struct stranger stranger = {.issued = issued, .accepts = true, .fd = raw_listen(address)};
    assert_int_equal(pthread_create(&stranger.thread, NULL, meet_stranger, &stranger), 0);
    struct net *net = net_for(TLS);
    struct stream *client;
    ok(stream_connect(net, address, &client));
    ends_with_sentence(client, words);
    assert_false(stream_established(client));
    assert_int_equal(net_refused(net), 0);
    stream_close(client);
    pthread_join(stranger.thread, NULL);
    all_held();
    close(stranger.fd);
    net_close(net);
}

static void test_bad_servers(void **state)
{
    (void)state;
    refuses_server(&other_node, "another authority");
    refuses_server(&expired, "expired");
}

/* The one who was refused is told why, by its reads and by its writes. */
static void test_refused_client_is_told(void **state)
{
    (void)state;
    struct net_options stranger = {.certificate = other_node.certificate_path,
                                   .key = other_node.key_path,
                                   .authority = both_authorities};
    struct net *net = net_for(TLS), *its_net = net_of(stranger);
    struct listener *listener;
    ok(listener_open(net, "127.0.0.1:0", &listener));
    for (int writes = 0; writes < 2; writes++) {
        struct stream *client;
        ok(stream_connect(its_net, listener_address(listener), &client));
        struct stream *server = accept_one(listener);
        shake_hands(client, server);
        if (writes)
            write_all(client, "hello", 5);
        ends_with_sentence(server, "another authority");
        stream_close(server);
        static char bytes[1 << 16];
        check_forget();
        while (writes && write_all(client, bytes, sizeof bytes))
            ;
        if (writes)
            sentence_has("refused this node's certificate");
        ends_with_sentence(client, "refused this node's certificate");
        stream_close(client);
    }
    assert_int_equal(net_refused(net), 2);
    listener_close(listener);
    net_close(net);
    net_close(its_net);
}

static void test_plain_bytes_to_tls(void **state)
{
    (void)state;
    static const char *const greetings[] = {"GET / HTTP/1.1\r\n\r\n", "TERN0123456789abcdef",
                                            "\x16\x03\x01\xff\xff garbage garbage garbage"};
    struct net *net = net_for(TLS), *plain = net_of((struct net_options){0});
    struct listener *listener;
    ok(listener_open(net, "127.0.0.1:0", &listener));
    for (size_t i = 0; i < COUNT(greetings); i++) {
        struct stream *client;
        ok(stream_connect(plain, listener_address(listener), &client));
        struct stream *server = accept_one(listener);
        assert_true(write_all(client, greetings[i], strlen(greetings[i])));
        ends_with_sentence(server, "TLS");
        assert_int_equal(net_refused(net), i + 1);
        stream_close(server);
        read_to_end(client);
        stream_close(client);
    }
    listener_close(listener);
    net_close(net);
    net_close(plain);
}

/* A connection that comes and goes without a word is nobody's failure to show a certificate. */
static void test_silent_client(void **state)
{
    (void)state;
    struct net *net = net_for(TLS);
    struct listener *listener;
    ok(listener_open(net, "127.0.0.1:0", &listener));
    int fd = raw_connect(listener_address(listener));
    struct stream *server = accept_one(listener);
    assert_false(stream_wait(server, false, 20));
    assert_false(stream_established(server));
    close(fd);
    ends_with_sentence(server, "before it was established");
    assert_int_equal(net_refused(net), 0);
    stream_close(server);
    listener_close(listener);
    net_close(net);
}

static void test_tls_to_plain(void **state)
{
    (void)state;
    struct net *net = net_for(TLS), *plain = net_of((struct net_options){0});
    struct listener *listener;
    struct stream *client;
    ok(listener_open(plain, "127.0.0.1:0", &listener));
    ok(stream_connect(net, listener_address(listener), &client));
    struct stream *server = accept_one(listener);
    assert_false(stream_wait(client, false, 50));
    assert_false(stream_established(client));
    assert_true(write_all(server, "TERN is not TLS", 15));
    ends_with_sentence(client, "does not speak TLS");
    stream_close(client);
    stream_close(server);
    listener_close(listener);
    net_close(plain);
    net_close(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_credentials),
        cmocka_unit_test(test_client_without_certificate),
        cmocka_unit_test(test_client_of_another_authority),
        cmocka_unit_test(test_client_with_authority_of_its_own),
        cmocka_unit_test(test_client_with_expired_certificate),
        cmocka_unit_test(test_client_with_old_tls),
        cmocka_unit_test(test_bad_servers),
        cmocka_unit_test(test_refused_client_is_told),
        cmocka_unit_test(test_plain_bytes_to_tls),
        cmocka_unit_test(test_silent_client),
        cmocka_unit_test(test_tls_to_plain),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
