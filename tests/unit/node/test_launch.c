/*
 * What a process learns from its launcher's variables, and the sentence for each thing that can be
 * wrong with them.
 *
 * Every case states the whole environment: variables that launch.c knows and the case does not name
 * are unset.
 */
#include "node/launch.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- The environment ------------------------------------------------------------------------- */

static const char *const known[] = {
    "TERN_NODE",
    "TERN_NODES",
    "TERN_COORDINATOR",
    "TERN_LISTEN",
    "TERN_TOKEN",
    "TERN_CERTIFICATE",
    "TERN_KEY",
    "TERN_AUTHORITY",
    "TERN_INSECURE",
    "TERN_DEADLINE",
    "TERN_JOIN_DEADLINE",
    "TERN_SHARDS",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_ess_base_jobid",
    "PMIX_NAMESPACE",
    "TMPDIR",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
};

/* Sets the environment from "NAME=value" strings, up to NULL. */
static void environment(const char *const *settings)
{
    for (size_t i = 0; i < COUNT(known); i++)
        unsetenv(known[i]);
    for (; *settings != NULL; settings++) {
        const char *equals = strchr(*settings, '=');
        assert_non_null(equals);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(equals - *settings), *settings);
        bool is_known = false;
        for (size_t i = 0; i < COUNT(known); i++)
            is_known |= strcmp(known[i], name) == 0;
        assert_true(is_known);
        assert_int_equal(setenv(name, equals + 1, 1), 0);
    }
}

/* The token is the job's name and a secret of 32 hexadecimal digits. */
static void assert_secret(const char *token, const char *job)
{
    size_t n = strlen(job);
    assert_memory_equal(token, job, n);
    assert_int_equal(token[n], '-');
    assert_int_equal(strlen(token + n + 1), 32);
    assert_int_equal(strspn(token + n + 1, "0123456789abcdef"), 32);
}

static struct launch check_found(const char *file, int line, const char *const *settings)
{
    struct launch launch;
    environment(settings);
    enum tern_status status = launch_find(&launch);
    if (status != TERN_OK) {
        print_error("launch_find is %s: %s\n", tern_status_name(status), tern_error());
        _fail(file, line);
    }
    return launch;
}

static void check_refused(const char *file, int line, const char *word, const char *other,
                          const char *const *settings)
{
    struct launch launch, before;
    memset(&launch, 0xa5, sizeof launch);
    before = launch;
    environment(settings);
    enum tern_status status = launch_find(&launch);
    const char *sentence = status == TERN_OK ? "" : tern_error();
    bool refused = status == TERN_INVALID || status == TERN_NETWORK;
    if (!refused || strstr(sentence, word) == NULL || strstr(sentence, other) == NULL ||
        memcmp(&launch, &before, sizeof launch) != 0) {
        print_error("wanted a refusal with '%s' and '%s', got %s: %s\n", word, other,
                    tern_status_name(status), sentence);
        _fail(file, line);
    }
}

/* What the settings give. */
#define found(...) check_found(__FILE__, __LINE__, (const char *const[]){__VA_ARGS__, NULL})

/* The settings are refused, as invalid or as no address, with a sentence that holds both words; the
 * output is untouched. */
#define refused(word, other, ...) \
    check_refused(__FILE__, __LINE__, word, other, (const char *const[]){__VA_ARGS__, NULL})

static void assert_alone(struct launch launch)
{
    assert_int_equal(launch.node, 0);
    assert_int_equal(launch.n_nodes, 1);
    assert_string_equal(launch.coordinator, "");
    assert_string_equal(launch.listen, "");
}

static void assert_place(struct launch launch, uint32_t node, uint32_t n_nodes,
                         const char *coordinator, const char *listen)
{
    assert_int_equal(launch.node, node);
    assert_int_equal(launch.n_nodes, n_nodes);
    assert_string_equal(launch.coordinator, coordinator);
    assert_string_equal(launch.listen, listen);
}

/* ---- Alone ----------------------------------------------------------------------------------- */

static void nothing_is_alone(void **state)
{
    (void)state;
    const char *const none[] = {NULL};
    struct launch launch = check_found(__FILE__, __LINE__, none);
    assert_alone(launch);
    assert_string_equal(launch.token, "tern");
    assert_string_equal(launch.certificate, "");
    assert_string_equal(launch.key, "");
    assert_string_equal(launch.authority, "");
    assert_false(launch.insecure);
    assert_int_equal(launch.deadline_ns, UINT64_C(10000000000));
}

static void a_world_of_one_is_alone(void **state)
{
    (void)state;
    assert_alone(found("TERN_NODE=0", "TERN_NODES=1"));
    assert_alone(found("TERN_NODE=0", "TERN_NODES=1", "TERN_COORDINATOR=unix:/tmp/x"));
    assert_alone(found("RANK=0", "WORLD_SIZE=1"));
    assert_alone(found("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"));
    assert_alone(found("SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0",
                       "SLURM_JOB_NODELIST=a"));
}

static void empty_variables_are_none(void **state)
{
    (void)state;
    assert_alone(found("TERN_NODE=", "TERN_NODES=", "TERN_COORDINATOR=", "TERN_TOKEN=",
                       "TERN_CERTIFICATE=", "TERN_INSECURE=", "TERN_DEADLINE=", "RANK="));
}

/* ---- TERN_* ---------------------------------------------------------------------------------- */

static void by_hand(void **state)
{
    (void)state;
    assert_place(found("TERN_NODE=0", "TERN_NODES=3", "TERN_COORDINATOR=unix:/tmp/t/c"), 0, 3,
                 "unix:/tmp/t/c", "unix:/tmp/t/c");
    assert_place(found("TERN_NODE=2", "TERN_NODES=3", "TERN_COORDINATOR=unix:/tmp/t/c"), 2, 3,
                 "unix:/tmp/t/c", "unix:/tmp/t/c.2");
    assert_place(found("TERN_NODE=0", "TERN_NODES=2", "TERN_COORDINATOR=127.0.0.1:4711"), 0, 2,
                 "127.0.0.1:4711", "127.0.0.1:4711");
    assert_place(found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=127.0.0.1:4711"), 1, 2,
                 "127.0.0.1:4711", "127.0.0.1:0");
    assert_place(found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=127.0.1.1:4711"), 1, 2,
                 "127.0.1.1:4711", "127.0.0.1:0");
    assert_place(found("TERN_NODE=65535", "TERN_NODES=65536", "TERN_COORDINATOR=unix:/c"), 65535,
                 65536, "unix:/c", "unix:/c.65535");
    assert_string_equal(
        found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=unix:/c", "SLURM_JOB_ID=7").token,
        "tern");
}

static void listening_elsewhere(void **state)
{
    (void)state;
    assert_place(found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=127.0.0.1:4711",
                       "TERN_LISTEN=127.0.0.9:0"),
                 1, 2, "127.0.0.1:4711", "127.0.0.9:0");
    assert_place(found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=127.0.0.1:4711",
                       "TERN_LISTEN=unix:/tmp/mine"),
                 1, 2, "127.0.0.1:4711", "unix:/tmp/mine");
    assert_place(found("TERN_NODE=0", "TERN_NODES=2", "TERN_COORDINATOR=127.0.0.1:4711",
                       "TERN_LISTEN=127.0.0.9:0"),
                 0, 2, "127.0.0.1:4711", "127.0.0.1:4711");
    assert_place(found("TERN_NODE=0", "TERN_NODES=2", "TERN_COORDINATOR=0.0.0.0:4711"), 0, 2,
                 "0.0.0.0:4711", "0.0.0.0:4711");
}

/* 192.0.2.0/24 belongs to nobody, so only a route to it matters, not an answer. */
static void listening_towards_a_distant_coordinator(void **state)
{
    (void)state;
    struct launch launch = found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=192.0.2.1:4711");
    size_t n = strlen(launch.listen);
    assert_true(n > 2);
    assert_string_equal(launch.listen + n - 2, ":0");
    assert_null(strstr(launch.listen, "127."));
}

static void half_a_place(void **state)
{
    (void)state;
    refused("no TERN_NODES", "TERN_NODE='1'", "TERN_NODE=1");
    refused("no TERN_NODE", "TERN_NODES='2'", "TERN_NODES=2");
    refused("no TERN_NODE", "TERN_COORDINATOR='unix:/c'", "TERN_COORDINATOR=unix:/c");
    refused("no TERN_COORDINATOR", "TERN_NODES='2'", "TERN_NODE=1", "TERN_NODES=2");
    refused("no WORLD_SIZE", "RANK='1'", "RANK=1");
    refused("no RANK", "WORLD_SIZE='2'", "WORLD_SIZE=2");
    refused("no MASTER_ADDR", "WORLD_SIZE='2'", "RANK=1", "WORLD_SIZE=2", "MASTER_PORT=1");
    refused("no MASTER_PORT", "WORLD_SIZE='2'", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1");
    refused("no OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK='0'", "OMPI_COMM_WORLD_RANK=0");
    refused("no OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE='4'", "OMPI_COMM_WORLD_SIZE=4");
    refused("no SLURM_JOB_ID", "SLURM_NTASKS='2'", "SLURM_PROCID=0", "SLURM_NTASKS=2",
            "SLURM_STEP_ID=0");
    refused("no SLURM_JOB_NODELIST", "SLURM_NTASKS='2'", "SLURM_PROCID=0", "SLURM_NTASKS=2",
            "SLURM_STEP_ID=0", "SLURM_JOB_ID=7");
}

static void bad_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "x", "-1", "+1", " 1", "1 ", "1.0", "0x1", "1e0", "99999999999999999999999999"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char node[64], n_nodes[64], quoted[64];
        snprintf(node, sizeof node, "TERN_NODE=%s", bad[i]);
        snprintf(n_nodes, sizeof n_nodes, "TERN_NODES=%s", bad[i]);
        snprintf(quoted, sizeof quoted, "'%s'", bad[i]);
        refused("TERN_NODE ", quoted, node, "TERN_NODES=4", "TERN_COORDINATOR=unix:/c");
        refused("TERN_NODES ", quoted, "TERN_NODE=1", n_nodes, "TERN_COORDINATOR=unix:/c");
    }
    refused("TERN_NODES", "'0'", "TERN_NODE=0", "TERN_NODES=0");
    refused("TERN_NODES", "'65537'", "TERN_NODE=0", "TERN_NODES=65537");
    refused("TERN_NODE is '4'", "TERN_NODES is '4'", "TERN_NODE=4", "TERN_NODES=4",
            "TERN_COORDINATOR=unix:/c");
    refused("TERN_NODE is '1'", "TERN_NODES is '1'", "TERN_NODE=1", "TERN_NODES=1");
    refused("RANK is '2'", "WORLD_SIZE is '2'", "RANK=2", "WORLD_SIZE=2");
    refused("OMPI_COMM_WORLD_SIZE", "'two'", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=two");
    refused("SLURM_NTASKS", "'many'", "SLURM_PROCID=0", "SLURM_NTASKS=many", "SLURM_STEP_ID=0");
}

static void bad_addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {"nowhere",         "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
                                      "127.0.0.1:65536", ":4711",     "unix:",      "::1:4711"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char coordinator[64], listen[64];
        snprintf(coordinator, sizeof coordinator, "TERN_COORDINATOR=%s", bad[i]);
        snprintf(listen, sizeof listen, "TERN_LISTEN=%s", bad[i]);
        refused("TERN_COORDINATOR", bad[i], "TERN_NODE=0", "TERN_NODES=2", coordinator);
        refused("TERN_COORDINATOR", bad[i], "TERN_NODE=1", "TERN_NODES=2", coordinator);
        refused("TERN_LISTEN", bad[i], "TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=unix:/c",
                listen);
    }
    refused("TERN_COORDINATOR", "port 0", "TERN_NODE=0", "TERN_NODES=2",
            "TERN_COORDINATOR=127.0.0.1:0");
    refused("TERN_COORDINATOR", "'0.0.0.0:4711'", "TERN_NODE=1", "TERN_NODES=2",
            "TERN_COORDINATOR=0.0.0.0:4711");
}

/* Nothing that is too long is cut short in silence. */
static void long_values(void **state)
{
    (void)state;
    char text[2048] = "TERN_COORDINATOR=unix:/";
    size_t n = strlen(text);
    memset(text + n, 'a', sizeof text - n - 1);
    refused("TERN_COORDINATOR", "aaaa", "TERN_NODE=0", "TERN_NODES=2", text);
    text[n + 150] = '\0';
    refused("TERN_COORDINATOR", "at most 107", "TERN_NODE=0", "TERN_NODES=2", text);
    /* Node 0's path fits, that of node 12345 does not. */
    text[n + 103] = '\0';
    found("TERN_NODE=0", "TERN_NODES=20000", text);
    refused("TERN_COORDINATOR", "at most 107", "TERN_NODE=12345", "TERN_NODES=20000", text);

    memset(text, 'a', sizeof text - 1);
    memcpy(text, "TERN_LISTEN=", 12);
    refused("TERN_LISTEN", "aaaa", "TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=unix:/c", text);
    memcpy(text, "TERN_CERTIFICATE=", 17);
    refused("TERN_CERTIFICATE", "1023", text, "TERN_KEY=k", "TERN_AUTHORITY=a");
    memcpy(text, "MASTER_ADDR=", 12);
    refused("MASTER_ADDR", "aaaa", "RANK=0", "WORLD_SIZE=2", "MASTER_PORT=1", text);
    memcpy(text, "SLURM_JOB_NODELIST=", 19);
    refused("SLURM_JOB_NODELIST", "aaaa", "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0",
            "SLURM_JOB_ID=7", text);
    memcpy(text, "TMPDIR=", 7);
    refused("TMPDIR", "TERN_COORDINATOR", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2",
            "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=n", text);
}

/* ---- What is the same under every launcher --------------------------------------------------- */

/* On loopback TCP the user's secret follows the job's name; on Unix sockets and with certificates it need not. */
static void secrets(void **state)
{
    (void)state;
    char token[65];
    snprintf(token, sizeof token, "%s",
             found("TERN_NODE=0", "TERN_NODES=2", "TERN_COORDINATOR=127.0.0.1:4711").token);
    assert_secret(token, "tern");
    assert_string_equal(
        found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=localhost:4711").token, token);
    assert_string_equal(found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=unix:/c").token,
                        "tern");
    assert_string_equal(
        found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=127.0.0.1:4711", "TERN_TOKEN=mine")
            .token,
        "mine");
    assert_string_equal(found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=192.0.2.1:4711",
                              "TERN_CERTIFICATE=c", "TERN_KEY=k", "TERN_AUTHORITY=a")
                            .token,
                        "tern");
    refused("TERN_TOKEN", "openssl rand", "TERN_NODE=1", "TERN_NODES=2",
            "TERN_COORDINATOR=192.0.2.1:4711", "TERN_INSECURE=1");
    assert_string_equal(found("TERN_NODE=1", "TERN_NODES=2", "TERN_COORDINATOR=192.0.2.1:4711",
                              "TERN_INSECURE=1", "TERN_TOKEN=mine")
                            .token,
                        "mine");
}

static void tokens(void **state)
{
    (void)state;
    assert_string_equal(found("TERN_TOKEN=night-run/7").token, "night-run/7");
    assert_string_equal(
        found("TERN_TOKEN=0123456789012345678901234567890123456789012345678901234567890123").token,
        "0123456789012345678901234567890123456789012345678901234567890123");
    refused("TERN_TOKEN", "64",
            "TERN_TOKEN=01234567890123456789012345678901234567890123456789012345678901234");
    refused("TERN_TOKEN", "'two words'", "TERN_TOKEN=two words");
    refused("TERN_TOKEN", "blanks", "TERN_TOKEN=a\nb");
}

static void credentials(void **state)
{
    (void)state;
    struct launch launch = found("TERN_CERTIFICATE=c.pem", "TERN_KEY=k.pem", "TERN_AUTHORITY=a.pem",
                                 "TERN_INSECURE=0");
    assert_string_equal(launch.certificate, "c.pem");
    assert_string_equal(launch.key, "k.pem");
    assert_string_equal(launch.authority, "a.pem");
    assert_false(launch.insecure);
    refused("TERN_KEY is set", "TERN_AUTHORITY is not", "TERN_CERTIFICATE=c", "TERN_KEY=k");
    refused("TERN_AUTHORITY is set", "TERN_KEY is not", "TERN_CERTIFICATE=c", "TERN_AUTHORITY=a");
    refused("TERN_AUTHORITY is set", "TERN_CERTIFICATE is not", "TERN_KEY=k", "TERN_AUTHORITY=a");
    refused("TERN_KEY is set", "TERN_AUTHORITY is not", "TERN_KEY=k");
}

static void insecure(void **state)
{
    (void)state;
    assert_true(found("TERN_INSECURE=1").insecure);
    refused("TERN_INSECURE", "'yes'", "TERN_INSECURE=yes");
    refused("TERN_INSECURE", "'11'", "TERN_INSECURE=11");
}

static void deadlines(void **state)
{
    (void)state;
    assert_int_equal(found("TERN_DEADLINE=0.1").deadline_ns, UINT64_C(100000000));
    assert_int_equal(found("TERN_DEADLINE=.25").deadline_ns, UINT64_C(250000000));
    assert_int_equal(found("TERN_DEADLINE=3").deadline_ns, UINT64_C(3000000000));
    assert_int_equal(found("TERN_DEADLINE=3.").deadline_ns, UINT64_C(3000000000));
    assert_int_equal(found("TERN_DEADLINE=1.000000001").deadline_ns, UINT64_C(1000000001));
    assert_int_equal(found("TERN_DEADLINE=1.00000000199999").deadline_ns, UINT64_C(1000000001));
    assert_int_equal(found("TERN_DEADLINE=86400").deadline_ns, UINT64_C(86400000000000));
    static const char *const bad[] = {"0",
                                      "0.0999999999",
                                      "86400.000000001",
                                      "86401",
                                      "-1",
                                      ".",
                                      "inf",
                                      "nan",
                                      "1e3",
                                      "0x10",
                                      "10s",
                                      "1,5",
                                      "1.5.",
                                      "99999999999999999999999999999999999999"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char setting[64], quoted[64];
        snprintf(setting, sizeof setting, "TERN_DEADLINE=%s", bad[i]);
        snprintf(quoted, sizeof quoted, "'%s'", bad[i]);
        refused("TERN_DEADLINE", quoted, setting);
        snprintf(setting, sizeof setting, "TERN_JOIN_DEADLINE=%s", bad[i]);
        refused("TERN_JOIN_DEADLINE", quoted, setting);
    }
}

/* To join takes longer than to answer: hosts are started one after the other. */
static void join_deadlines(void **state)
{
    (void)state;
    assert_int_equal(found("TERN_DEADLINE=3").join_deadline_ns, UINT64_C(300000000000));
    assert_int_equal(found("TERN_DEADLINE=600").join_deadline_ns, UINT64_C(600000000000));
    assert_int_equal(found("TERN_JOIN_DEADLINE=20.5").join_deadline_ns, UINT64_C(20500000000));
    assert_int_equal(found("TERN_JOIN_DEADLINE=1").join_deadline_ns, UINT64_C(10000000000));
}

static void shards(void **state)
{
    (void)state;
    assert_in_range(found("TERN_SHARDS=").n_shards, 1, 8);
    assert_int_equal(found("TERN_SHARDS=1").n_shards, 1);
    assert_int_equal(found("TERN_SHARDS=16").n_shards, 16);
    static const char *const bad[] = {"0", "17", "-1", "2.5", "two", "99999999999999999999"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char setting[64], quoted[64];
        snprintf(setting, sizeof setting, "TERN_SHARDS=%s", bad[i]);
        snprintf(quoted, sizeof quoted, "'%s'", bad[i]);
        refused("TERN_SHARDS", quoted, setting);
    }
}

/* ---- Launchers ------------------------------------------------------------------------------- */

static void torchrun(void **state)
{
    (void)state;
    struct launch launch = found("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                                 "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=run 9");
    assert_place(launch, 0, 2, "127.0.0.1:29501", "127.0.0.1:29501");
    assert_secret(launch.token, "torchrun-run_9");
    launch = found("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500");
    assert_place(launch, 1, 2, "127.0.0.1:29501", "127.0.0.1:0");
    assert_secret(launch.token, "tern");
    assert_string_equal(
        found("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=::1", "MASTER_PORT=29500").coordinator,
        "[::1]:29501");
    char coordinator[128], listen[132];
    snprintf(coordinator, sizeof coordinator, "unix:/tmp/tern-%u/torchrun-29500",
             (unsigned)getuid());
    snprintf(listen, sizeof listen, "%s.1", coordinator);
    assert_place(found("RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                       "MASTER_PORT=29500"),
                 1, 2, coordinator, listen);
    assert_place(found("RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                       "MASTER_PORT=29500"),
                 0, 4, "127.0.0.1:29501", "127.0.0.1:29501");
    /* A path too long for a socket. */
    char folder[128] = "TMPDIR=/";
    memset(folder + 8, 'a', 100);
    assert_place(found("RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                       "MASTER_PORT=29500", folder, "TERN_TOKEN=t"),
                 0, 2, "127.0.0.1:29501", "127.0.0.1:29501");
    refused("LOCAL_WORLD_SIZE", "'0'", "RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=0",
            "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500");
    refused("MASTER_PORT", "'65535'", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
            "MASTER_PORT=65535");
    refused("MASTER_PORT", "'x'", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
            "MASTER_PORT=x");
    refused("MASTER_ADDR", "host.invalid", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=host.invalid",
            "MASTER_PORT=1");
}

static void open_mpi(void **state)
{
    (void)state;
    char coordinator[128], listen[132];
    snprintf(coordinator, sizeof coordinator, "unix:/tmp/tern-%u/mpi-93", (unsigned)getuid());
    snprintf(listen, sizeof listen, "%s.3", coordinator);
    struct launch launch = found("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_MCA_ess_base_jobid=93");
    assert_place(launch, 3, 4, coordinator, listen);
    assert_string_equal(launch.token, "mpi-93");

    snprintf(coordinator, sizeof coordinator, "unix:/var/tmp/tern-%u/mpi-prterun-h-1_1",
             (unsigned)getuid());
    launch =
        found("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
              "PMIX_NAMESPACE=prterun-h-1@1", "TMPDIR=/var/tmp");
    assert_place(launch, 0, 4, coordinator, coordinator);

    assert_place(found("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4",
                       "OMPI_COMM_WORLD_LOCAL_SIZE=2", "TERN_COORDINATOR=127.0.0.1:4711"),
                 1, 4, "127.0.0.1:4711", "127.0.0.1:0");
    refused("TERN_COORDINATOR", "hosts", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4",
            "OMPI_COMM_WORLD_LOCAL_SIZE=2", "OMPI_MCA_ess_base_jobid=93");
    refused("TERN_COORDINATOR", "hosts", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4",
            "OMPI_MCA_ess_base_jobid=93");
    refused("TERN_COORDINATOR", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK=1",
            "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4");
    refused("OMPI_COMM_WORLD_LOCAL_SIZE", "'?'", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4",
            "OMPI_COMM_WORLD_LOCAL_SIZE=?");
}

/* Hosts in numbers, so that no name server is asked. */
static void slurm(void **state)
{
    (void)state;
    static const struct {
        const char *list, *first;
    } lists[] = {
        {"SLURM_JOB_NODELIST=localhost", "localhost"},
        {"SLURM_JOB_NODELIST=127.0.0.1,x1", "127.0.0.1"},
        {"SLURM_JOB_NODELIST=127.0.0.[3-5,7],x1", "127.0.0.3"},
        {"SLURM_JOB_NODELIST=127.0.0.[7,3-5]", "127.0.0.7"},
        {"SLURM_JOB_NODELIST=127.0.[0-1].[2-3],x1", "127.0.0.2"},
        {"SLURM_JOB_NODELIST=127.0.0.[4]", "127.0.0.4"},
    };
    for (size_t i = 0; i < COUNT(lists); i++) {
        char coordinator[64];
        snprintf(coordinator, sizeof coordinator, "%s:24567", lists[i].first);
        struct launch launch = found("SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=1234567",
                                     "SLURM_STEP_ID=3", lists[i].list);
        assert_place(launch, 0, 2, coordinator, coordinator);
        assert_secret(launch.token, "slurm-1234567.3");
    }
    assert_place(found("SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0",
                       "SLURM_JOB_NODELIST=x[1-9]", "SLURM_STEP_NODELIST=127.0.0.1"),
                 1, 2, "127.0.0.1:20001", "127.0.0.1:0");
    assert_place(found("SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0",
                       "TERN_COORDINATOR=127.0.0.1:4711"),
                 1, 2, "127.0.0.1:4711", "127.0.0.1:0");

    char coordinator[128];
    snprintf(coordinator, sizeof coordinator, "unix:/tmp/tern-%u/slurm-12.3", (unsigned)getuid());
    assert_place(found("SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=12", "SLURM_STEP_ID=3",
                       "SLURM_STEP_NODELIST=x1", "SLURM_STEP_NUM_NODES=1"),
                 0, 2, coordinator, coordinator);

    /* Leading zeros belong to the host's name; .invalid is never found. */
    refused("SLURM_JOB_NODELIST", "'node03.invalid:20007'", "SLURM_PROCID=1", "SLURM_NTASKS=2",
            "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_JOB_NODELIST=node[03-05,7].invalid,x1");
}

static void bad_slurm_lists(void **state)
{
    (void)state;
    static const char *const bad[] = {",a", "a[",   "a[]",   "a[1",  "a[x]",
                                      "a]", "a[1-", "a[1x]", "a[-2]"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char setting[64], quoted[64];
        snprintf(setting, sizeof setting, "SLURM_JOB_NODELIST=%s", bad[i]);
        snprintf(quoted, sizeof quoted, "'%s'", bad[i]);
        refused("SLURM_JOB_NODELIST", quoted, "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=7",
                "SLURM_STEP_ID=0", setting);
    }
    refused("SLURM_JOB_ID", "'x'", "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=x",
            "SLURM_STEP_ID=0", "SLURM_JOB_NODELIST=127.0.0.1");
}

static void a_batch_scripts_shell_is_alone(void **state)
{
    (void)state;
    assert_alone(
        found("SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=a[1-8]"));
    assert_alone(found("SLURM_NTASKS=8", "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=a[1-8]"));
}

static void long_job_names_are_told_apart_by_their_ends(void **state)
{
    (void)state;
    char setting[200] = "TORCHELASTIC_RUN_ID=";
    memset(setting + 20, 'r', 100);
    strcpy(setting + 120, "-7");
    struct launch launch = found("RANK=0", "WORLD_SIZE=1", setting);
    assert_int_equal(strlen(launch.token), 64);
    assert_string_equal(launch.token + 62, "-7");
}

static void precedence(void **state)
{
    (void)state;
#define TORCHRUN "RANK=1", "WORLD_SIZE=12", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=100"
#define OPEN_MPI                                                                          \
    "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=13", "OMPI_COMM_WORLD_LOCAL_SIZE=13", \
        "OMPI_MCA_ess_base_jobid=93"
#define SLURM                                                                 \
    "SLURM_PROCID=3", "SLURM_NTASKS=14", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", \
        "SLURM_JOB_NODELIST=127.0.0.1"
    assert_int_equal(
        found("TERN_NODE=4", "TERN_NODES=15", "TERN_COORDINATOR=unix:/c", TORCHRUN, OPEN_MPI, SLURM)
            .n_nodes,
        15);
    assert_alone(found("TERN_NODE=0", "TERN_NODES=1", TORCHRUN, OPEN_MPI, SLURM));
    assert_int_equal(found(TORCHRUN, OPEN_MPI, SLURM).n_nodes, 12);
    assert_string_equal(found(TORCHRUN, OPEN_MPI, SLURM).coordinator, "127.0.0.1:101");
    assert_int_equal(found(OPEN_MPI, SLURM).n_nodes, 13);
    assert_int_equal(found(SLURM).n_nodes, 14);
    assert_place(found("TERN_COORDINATOR=unix:/c", TORCHRUN, OPEN_MPI, SLURM), 1, 12, "unix:/c",
                 "unix:/c.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_alone),
        cmocka_unit_test(a_world_of_one_is_alone),
        cmocka_unit_test(empty_variables_are_none),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(listening_elsewhere),
        cmocka_unit_test(listening_towards_a_distant_coordinator),
        cmocka_unit_test(half_a_place),
        cmocka_unit_test(bad_numbers),
        cmocka_unit_test(bad_addresses),
        cmocka_unit_test(long_values),
        cmocka_unit_test(secrets),
        cmocka_unit_test(tokens),
        cmocka_unit_test(credentials),
        cmocka_unit_test(insecure),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(join_deadlines),
        cmocka_unit_test(shards),
        cmocka_unit_test(torchrun),
        cmocka_unit_test(open_mpi),
        cmocka_unit_test(slurm),
        cmocka_unit_test(bad_slurm_lists),
        cmocka_unit_test(a_batch_scripts_shell_is_alone),
        cmocka_unit_test(long_job_names_are_told_apart_by_their_ends),
        cmocka_unit_test(precedence),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
