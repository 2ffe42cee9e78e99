/*
 * What users of streams rely on, for every transport: bytes arrive whole and in order, waits end, each
 * failure has a sentence that names the peer, and nothing leaves the machine in the clear by accident.
 */
#include "unit/net/ends.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "support/alloc.h"

/* ---- Bytes ------------------------------------------------------------------------------------ */

/* Cuts n bytes into up to three parts, some of them empty. */
static int cut(struct dice *dice, char *bytes, size_t n_bytes, struct iovec parts[3])
{
    size_t first = dice_below(dice, n_bytes + 1);
    size_t second = dice_below(dice, n_bytes - first + 1);
    parts[0] = (struct iovec){.iov_base = bytes, .iov_len = first};
    parts[1] = (struct iovec){.iov_base = bytes + first, .iov_len = second};
    parts[2] =
        (struct iovec){.iov_base = bytes + first + second, .iov_len = n_bytes - first - second};
    return 3;
}

static size_t piece(struct dice *dice, size_t left)
{
    size_t limit = (size_t)1 << (1 + dice_below(dice, 20));
    size_t n = 1 + dice_below(dice, limit);
    return n < left ? n : left;
}

/* The other thread: sends back what it gets until the stream ends. */
static void *echo(void *argument)
{
    struct stream *stream = argument;
    struct dice dice = {.state = 77};
    static char bytes[1 << 20];
    struct iovec parts[3];
    for (;;) {
        int n_parts = cut(&dice, bytes, piece(&dice, sizeof bytes), parts);
        ssize_t n = stream_read(stream, parts, n_parts);
        if (n < 0)
            break;
        if (n == 0 && !holds(stream_wait(stream, false, PATIENCE_MS)))
            return NULL;
        if (!holds(write_all(stream, bytes, (size_t)n)))
            return NULL;
    }
    holds(strstr(tern_error(), "closed the connection") != NULL);
    return NULL;
}

/* Sends a message and reads it back at the same time, in random pieces, waiting with poll. */
static void exchange(struct stream *stream, struct dice *dice, char *sent, char *got,
                     size_t n_bytes)
{
    size_t n_sent = 0, n_got = 0;
    struct iovec parts[3];
    while (n_got < n_bytes) {
        ssize_t n = 0, m;
        if (n_sent < n_bytes) {
            int n_parts = cut(dice, sent + n_sent, piece(dice, n_bytes - n_sent), parts);
            n = stream_write(stream, parts, n_parts);
            assert_true(n >= 0);
            n_sent += (size_t)n;
        }
        int n_parts = cut(dice, got + n_got, piece(dice, n_bytes - n_got), parts);
        m = stream_read(stream, parts, n_parts);
        assert_true(m >= 0);
        n_got += (size_t)m;
        if (n > 0 || m > 0 || stream_pending(stream))
            continue;
        stream_flush(stream);
        struct pollfd waiting = {.fd = stream_fd(stream),
                                 .events = stream_events(stream, true, n_sent < n_bytes)};
        assert_int_equal(poll(&waiting, 1, PATIENCE_MS), 1);
    }
}

static void check_echo(enum transport transport)
{
    enum { LARGEST = 4 << 20 };
    struct dice dice = {.state = (uint64_t)transport};
    struct ends ends = connect_ends(transport);
    char *sent = array_of(LARGEST, 1), *got = array_of(LARGEST, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, echo, ends.server), 0);
    for (int i = 0; i < 24; i++) {
        size_t n_bytes = i == 0 ? LARGEST : 1 + dice_below(&dice, (size_t)1 << (i % 23));
        for (size_t j = 0; j < n_bytes; j += 8) {
            uint64_t bits = dice_roll(&dice);
            memcpy(sent + j, &bits, n_bytes - j < 8 ? n_bytes - j : 8);
        }
        memset(got, 0, n_bytes);
        exchange(ends.client, &dice, sent, got, n_bytes);
        assert_memory_equal(sent, got, n_bytes);
    }
    stream_close(ends.client);
    ends.client = NULL;
    pthread_join(thread, NULL);
    all_held();
    free(sent);
    free(got);
    close_ends(&ends);
}

static void test_echo(void **state)
{
    (void)state;
    every_transport(check_echo);
}

/* ---- Ends and waits --------------------------------------------------------------------------- */

static void check_end(enum transport transport)
{
    struct ends ends = connect_ends(transport);
    char word[5];
    assert_true(write_all(ends.server, "last", 5));
    stream_close(ends.server);
    ends.server = NULL;
    assert_true(read_all(ends.client, word, 5));
    assert_string_equal(word, "last");
    ends_with_sentence(ends.client, "closed the connection");
    close_ends(&ends);
}

static void test_end(void **state)
{
    (void)state;
    every_transport(check_end);
}

/* A write to a peer that is gone fails, by a status and not by SIGPIPE. */
static void check_write_after_end(enum transport transport)
{
    struct ends ends = connect_ends(transport);
    stream_close(ends.server);
    ends.server = NULL;
    static char bytes[1 << 16];
    check_forget();
    bool taken = true;
    for (int i = 0; i < 10000 && taken; i++)
        taken = write_all(ends.client, bytes, sizeof bytes);
    assert_false(taken);
    sentence_has("the connection");
    sentence_has(stream_peer(ends.client));
    close_ends(&ends);
}

static void test_write_after_end(void **state)
{
    (void)state;
    every_transport(check_write_after_end);
}

static void check_waits(enum transport transport)
{
    struct ends ends = connect_ends(transport);
    assert_false(stream_wait(ends.client, false, 0));
    assert_false(stream_wait(ends.client, false, 20));
    assert_true(stream_wait(ends.client, true, 0));
    static char bytes[1 << 16];
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    /* Room may come back once: when the other side's part of it grows. It does not for ever. */
    for (int i = 0; stream_wait(ends.client, true, 50); i++) {
        assert_true(i < 1000);
        while (stream_write(ends.client, &part, 1) > 0)
            ;
    }
    assert_true(stream_wait(ends.server, false, PATIENCE_MS));
    part.iov_len = 0;
    assert_int_equal(stream_read(ends.server, &part, 1), 0);
    close_ends(&ends);
}

static void test_waits(void **state)
{
    (void)state;
    every_transport(check_waits);
}

static void check_many(enum transport transport)
{
    enum { MANY = 100 };
    if (transport == PAIR)
        return;
    struct net *net = net_for(transport);
    struct listener *listener;
    ok(listener_open(net, address_for(transport), &listener));
    struct stream *clients[MANY], *servers[MANY];
    for (int i = 0; i < MANY; i++)
        ok(stream_connect(net, listener_address(listener), &clients[i]));
    for (int i = 0; i < MANY; i++)
        servers[i] = accept_one(listener);
    assert_null(listener_accept(listener));
    for (int waiting = 2 * MANY; waiting > 0;) {
        waiting = 0;
        for (int i = 0; i < MANY; i++)
            waiting += !stream_established(clients[i]) + !stream_established(servers[i]);
    }
    for (int i = 0; i < MANY; i++)
        assert_true(write_all(clients[i], &i, sizeof i));
    bool seen[MANY] = {false};
    for (int i = 0; i < MANY; i++) {
        int number;
        assert_true(read_all(servers[i], &number, sizeof number));
        assert_in_range(number, 0, MANY - 1);
        assert_false(seen[number]);
        seen[number] = true;
        assert_true(write_all(servers[i], &number, sizeof number));
    }
    for (int i = 0; i < MANY; i++) {
        int number = -1;
        assert_true(read_all(clients[i], &number, sizeof number));
        assert_int_equal(number, i);
        stream_close(clients[i]);
        stream_close(servers[i]);
    }
    assert_int_equal(net_refused(net), 0);
    listener_close(listener);
    net_close(net);
}

static void test_many(void **state)
{
    (void)state;
    every_transport(check_many);
}

/* ---- Addresses -------------------------------------------------------------------------------- */

static void test_bad_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *address, *words;
    } bad[] = {
        {NULL, "empty"},
        {"", "empty"},
        {"localhost", "no port"},
        {"4711", "no port"},
        {":4711", "no host"},
        {"127.0.0.1:", "port"},
        {"127.0.0.1:http", "port"},
        {"127.0.0.1:65536", "port"},
        {"127.0.0.1:-1", "port"},
        {"127.0.0.1: 1", "port"},
        {"127.0.0.1:99999999999999999999", "port"},
        {"127.0.0.1:4711x", "port"},
        {"::1:4711", "[v6]:port"},
        {"[::1:4711", "[v6]:port"},
        {"[]:4711", "[v6]:port"},
        {"[127.0.0.1]:4711", "cannot be found"},
        {"256.1.1.1.invalid:4711", "cannot be found"},
        {"unix:", "no path"},
        {"unix:/tmp/a-path-that-is-much-too-long-for-a-socket-0123456789-0123456789-0123456789-"
         "0123456789-0123456789-0123456789",
         "at most 107"},
    };
    struct net *net = net_of((struct net_options){.insecure = true});
    struct stream *stream = NULL;
    struct listener *listener = NULL;
    for (size_t i = 0; i < COUNT(bad); i++) {
        refused(stream_connect(net, bad[i].address, &stream), TERN_NETWORK, bad[i].words);
        refused(listener_open(net, bad[i].address, &listener), TERN_NETWORK, bad[i].words);
    }
    refused(stream_connect(net, "127.0.0.1:0", &stream), TERN_NETWORK, "port 0");
    refused(listener_open(net, "192.0.2.1:0", &listener), TERN_NETWORK, "192.0.2.1:0");
    refused(listener_open(net, "unix:/nowhere/at/all", &listener), TERN_NETWORK, "/nowhere/at/all",
            "No such file");
    assert_null(stream);
    assert_null(listener);
    net_close(net);
}

/* A long host is named in part and overruns nothing. */
static void test_long_host(void **state)
{
    (void)state;
    char address[600];
    memset(address, 'a', sizeof address);
    strcpy(address + sizeof address - 6, ":4711");
    struct net *net = net_of((struct net_options){0});
    struct stream *stream = NULL;
    refused(stream_connect(net, address, &stream), TERN_NETWORK, "longer than");
    net_close(net);
}

static void test_texts(void **state)
{
    (void)state;
    static const struct {
        const char *address, *text;
        bool local;
    } known[] = {
        {"127.0.0.1:4711", "127.0.0.1:4711", true},
        {"127.9.9.9:1", "127.9.9.9:1", true},
        {"10.0.0.2:65535", "10.0.0.2:65535", false},
        {"0.0.0.0:4711", "0.0.0.0:4711", false},
        {"[::1]:4711", "[::1]:4711", true},
        {"[::]:4711", "[::]:4711", false},
        {"[::ffff:127.0.0.1]:4711", "127.0.0.1:4711", true},
        {"[::ffff:10.0.0.2]:4711", "10.0.0.2:4711", false},
        {"[2001:db8::7]:4711", "[2001:db8::7]:4711", false},
        {"unix:/run/tern", "unix:/run/tern", true},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        struct address found[ADDRESS_FOUND_MAX];
        char text[ADDRESS_TEXT_BYTES];
        int n_found = 0;
        ok(address_find(known[i].address, false, found, &n_found));
        assert_int_equal(n_found, 1);
        address_text(&found[0], text);
        assert_string_equal(text, known[i].text);
        assert_int_equal(address_is_local(&found[0]), known[i].local);
    }
}

static void test_names(void **state)
{
    (void)state;
    struct net *net = net_of((struct net_options){0});
    struct listener *listener;
    struct stream *client;
    ok(listener_open(net, "127.0.0.1:0", &listener));
    char address[64];
    snprintf(address, sizeof address, "localhost%s", strchr(listener_address(listener), ':'));
    ok(stream_connect(net, address, &client)); /* ::1, if it comes first, refuses */
    struct stream *server = accept_one(listener);
    shake_hands(client, server);
    assert_string_equal(stream_peer(client), listener_address(listener));
    stream_close(client);
    stream_close(server);
    listener_close(listener);
    net_close(net);
}

/* ---- Refusals --------------------------------------------------------------------------------- */

static void check_refused_connection(enum transport transport)
{
    if (transport == PAIR)
        return;
    struct net *net = net_for(transport);
    struct listener *listener;
    struct stream *stream;
    char address[160];
    ok(listener_open(net, address_for(transport), &listener));
    snprintf(address, sizeof address, "%s", listener_address(listener));
    listener_close(listener);
    ok(stream_connect(net, address, &stream));
    assert_true(stream_wait(stream, false, PATIENCE_MS));
    assert_false(stream_established(stream));
    ends_with_sentence(stream, "refused the connection");
    check_forget();
    assert_int_equal(stream_write(stream, &(struct iovec){.iov_base = address, .iov_len = 1}, 1),
                     -1);
    sentence_has("refused the connection");
    stream_close(stream);
    net_close(net);
}

static void test_refused_connection(void **state)
{
    (void)state;
    every_transport(check_refused_connection);
}

static void test_plain_off_loopback(void **state)
{
    (void)state;
    struct net *net = net_of((struct net_options){0});
    struct stream *stream = NULL;
    struct listener *listener = NULL;
    static const char *const beyond[] = {"192.0.2.1:4711", "[2001:db8::1]:4711", "0.0.0.0:4711",
                                         "[::]:4711", "[::ffff:10.0.0.1]:4711"};
    for (size_t i = 0; i < COUNT(beyond); i++) {
        refused(stream_connect(net, beyond[i], &stream), TERN_NETWORK, "certificate",
                "TERN_INSECURE");
        refused(listener_open(net, beyond[i], &listener), TERN_NETWORK, "certificate",
                "TERN_INSECURE");
    }
    net_close(net);

    net = net_of((struct net_options){.insecure = true});
    ok(listener_open(net, "0.0.0.0:0", &listener));
    assert_null(strstr(listener_address(listener), "0.0.0.0"));
    ok(stream_connect(net, listener_address(listener), &stream));
    struct stream *server = accept_one(listener);
    shake_hands(stream, server);
    assert_true(stream_established(stream));
    stream_close(stream);
    stream_close(server);
    listener_close(listener);
    net_close(net);
}

static void test_busy_port(void **state)
{
    (void)state;
    struct net *net = net_of((struct net_options){0});
    struct listener *listener, *second = NULL;
    ok(listener_open(net, "127.0.0.1:0", &listener));
    refused(listener_open(net, listener_address(listener), &second), TERN_NETWORK,
            listener_address(listener), "in use");
    listener_close(listener);
    net_close(net);
}

/* ---- Socket files ----------------------------------------------------------------------------- */

static void leave_stale_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof address.sun_path);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

static void test_socket_files(void **state)
{
    (void)state;
    struct net *net = net_of((struct net_options){0});
    struct listener *listener, *second = NULL;
    const char *address = address_for(LOCAL), *path = address + strlen("unix:");
    struct stat about;

    leave_stale_socket(path);
    ok(listener_open(net, address, &listener));
    assert_string_equal(listener_address(listener), address);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    refused(listener_open(net, address, &second), TERN_NETWORK, path);
    assert_int_equal(stat(path, &about), 0);
    listener_close(listener);
    assert_int_equal(stat(path, &about), -1);

    int fd = open(path, O_CREAT | O_WRONLY, 0600); /* a file that is no socket stays */
    assert_true(fd >= 0);
    close(fd);
    refused(listener_open(net, address, &second), TERN_NETWORK, path);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(unlink(path), 0);

    ok(listener_open(net, address, &listener)); /* a file put in its place stays too */
    assert_int_equal(unlink(path), 0);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    listener_close(listener);
    assert_int_equal(unlink(path), 0);
    net_close(net);
}

/* ---- Shared memory ----------------------------------------------------------------------------- */

/* What two processes of one host exchange does not pass through the kernel, but for a byte now and then. */
static void test_memory(void **state)
{
    (void)state;
    struct ends ends = connect_ends(LOCAL);
    static char bytes[100000], got[sizeof bytes];
    memset(bytes, 7, sizeof bytes);
    int n_unread = -1;
    for (int i = 0; i < 100; i++) {
        assert_true(write_all(ends.client, bytes, sizeof bytes));
        assert_int_equal(ioctl(stream_fd(ends.server), FIONREAD, &n_unread), 0);
        assert_in_range(n_unread, 1, 2);
        assert_true(read_all(ends.server, got, sizeof got));
        assert_memory_equal(got, bytes, sizeof got);
    }
    close_ends(&ends);
}

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* A descriptor that does not arrive, as behind somebody who passes on bytes alone, leaves the socket. */
static void test_no_shared_memory(void **state)
{
    (void)state;
    static const char *const offers[] = {"M", "S"};
    struct ends ends = {.net = net_for(LOCAL)};
    const char *address = address_for(LOCAL);
    ok(listener_open(ends.net, address, &ends.listener));
    for (size_t i = 0; i < COUNT(offers); i++) {
        int fd = dial(address + strlen("unix:"));
        ends.server = accept_one(ends.listener);
        assert_false(stream_established(ends.server));
        assert_int_equal(write(fd, offers[i], 1), 1);
        assert_true(stream_established(ends.server));
        char word[6] = "";
        assert_int_equal(write(fd, "hello", 5), 5);
        assert_true(read_all(ends.server, word, 5));
        assert_string_equal(word, "hello");
        assert_true(write_all(ends.server, "again", 5));
        assert_int_equal(read(fd, word, 6), 6); /* behind the answer to the offer */
        assert_memory_equal(word, "Sagain", 6);
        close(fd);
        ends_with_sentence(ends.server, "closed the connection");
        stream_close(ends.server);
    }
    int fd = dial(address + strlen("unix:"));
    ends.server = accept_one(ends.listener);
    assert_int_equal(write(fd, "G", 1), 1);
    assert_false(stream_established(ends.server));
    ends_with_sentence(ends.server, "does not speak as a node does");
    close(fd);
    close_ends(&ends);
}

/* ---- Want of descriptors and memory ------------------------------------------------------------ */

/* A connection that comes when descriptors have run out is turned away, and the next one is taken. */
static void test_no_descriptors(void **state)
{
    (void)state;
    struct net *net = net_of((struct net_options){0});
    struct listener *listener;
    struct stream *client;
    ok(listener_open(net, "127.0.0.1:0", &listener));
    ok(stream_connect(net, listener_address(listener), &client));
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)stream_fd(client); /* at least the lowest that is free is above it */
    struct pollfd waiting = {.fd = listener_fd(listener), .events = POLLIN};
    assert_int_equal(poll(&waiting, 1, PATIENCE_MS), 1);
    int fill[64], n_fill = 0;
    while (n_fill < 64 && (fill[n_fill] = dup(0)) >= 0 && fill[n_fill] < stream_fd(client))
        n_fill++;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct stream *taken = listener_accept(listener);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i <= n_fill; i++)
        close(fill[i]);
    assert_null(taken);
    assert_int_equal(poll(&waiting, 1, 0), 0);
    read_to_end(client);
    stream_close(client);
    ok(stream_connect(net, listener_address(listener), &client));
    taken = accept_one(listener);
    stream_close(taken);
    stream_close(client);
    listener_close(listener);
    net_close(net);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct net_options options = credentials_of(&node_a);
    struct net *net = NULL;
    struct listener *listener = NULL;
    struct stream *stream = NULL, *pair[2];
    for (uint64_t n = 1; n <= 2; n++) {
        alloc_fail_at(n);
        enum tern_status status = net_open(&options, &net);
        alloc_fail_at(0);
        assert_int_equal(status, TERN_NO_MEMORY);
    }
    ok(net_open(&options, &net));
    ok(listener_open(net, "127.0.0.1:0", &listener));
    for (uint64_t n = 1; n <= 2; n++) {
        alloc_fail_at(n);
        enum tern_status status = stream_connect(net, listener_address(listener), &stream);
        alloc_fail_at(0);
        assert_int_equal(status, TERN_NO_MEMORY);
        alloc_fail_at(n);
        status = stream_pair(4096, pair);
        alloc_fail_at(0);
        assert_int_equal(status, TERN_NO_MEMORY);
    }
    assert_null(stream);
    struct listener *second = NULL;
    alloc_fail_at(1);
    enum tern_status status = listener_open(net, "127.0.0.1:0", &second);
    alloc_fail_at(0);
    assert_int_equal(status, TERN_NO_MEMORY);
    listener_close(listener);
    net_close(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_write_after_end),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_long_host),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused_connection),
        cmocka_unit_test(test_plain_off_loopback),
        cmocka_unit_test(test_busy_port),
        cmocka_unit_test(test_socket_files),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_no_shared_memory),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
