/*
 * tern bench net - pulls and pushes between two nodes on this host against a raw connection.
 *
 * Node 0 is this process and measures; node 1 is another process that only serves. Its half of the dense table,
 * the upper one, has all keys that are used. A third process is the far end of the raw connection. Tern and the
 * raw connection take turns, so that a disturbance of the machine affects both; the other one sleeps.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include "bench_cluster.h"
#include "bench_link.h"
#include "command.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

enum {
    MAX_NET_REPEATS = 1001,
    MANY_KEYS = 10000, /* in one call */
    WINDOW = 512,      /* one-key pushes under way */
    STREAM_KEYS = 1 << 18,
    MAX_SAMPLES = 1 << 20,
    /* What Tern sends besides values: a frame header, and keys as differences between adjacent keys, of one
     * byte each if there are many keys and three bytes if there is one. */
    HEADER_BYTES = 56,
    ONE_KEY_BYTES = 3,
};

/* How an operation is measured. */
enum manner {
    MANNER_LATENCY, /* one call after the other, each timed */
    MANNER_WINDOW,  /* many one-key calls under way */
    MANNER_BULK,    /* one call of many keys after the other */
};

struct op {
    const char *name;
    enum manner manner;
    bool is_push;
    uint32_t length;
    double quantile; /* of the latencies */
    const char *unit;
    double per_key; /* units in one key of a rate */
};

/* In the order of op_names. */
static const struct op ops[] = {
    {"pull1_p50", MANNER_LATENCY, false, 32, 0.50, "us", 0},
    {"pull1_p99", MANNER_LATENCY, false, 32, 0.99, "us", 0},
    {"push1_rate", MANNER_WINDOW, true, 32, 0, "pushes/s", 1},
    {"pull_bulk", MANNER_BULK, false, 128, 0, "MB/s", 512e-6},
    {"push_bulk", MANNER_BULK, true, 128, 0, "MB/s", 512e-6},
    {"pull_len1", MANNER_BULK, false, 1, 0, "keys/s", 1},
    {"push_len1", MANNER_BULK, true, 1, 0, "keys/s", 1},
};

static const char *const op_names[] = {"pull1_p50", "pull1_p99", "push1_rate", "pull_bulk",
                                       "push_bulk", "pull_len1", "push_len1",  NULL};

static const uint32_t lengths[] = {32, 128, 1};

enum { N_TABLES = sizeof lengths / sizeof *lengths };

static struct {
    bool json, sorted;
    struct string_list ops, transports;
    int64_t n_keys, repeats;
    double seconds_per_point;
} args;

static const struct option options[] = {
    {"op", OPTION_STRINGS, &args.ops,
     "pull1_p50,pull1_p99,push1_rate,pull_bulk,push_bulk,pull_len1,push_len1", "LIST", "operations",
     .choices = op_names},
    {"transport", OPTION_STRINGS, &args.transports, "tcp,unix,tls", "LIST", "kinds of connection",
     .choices = transport_names},
    {"keys", OPTION_INT, &args.n_keys, "200000", "N", "keys in a table, half of them at each node",
     .min = 2, .max = 1e8},
    {"sorted", OPTION_FLAG, &args.sorted, .help = "sort the keys of each call"},
    {"repeats", OPTION_INT, &args.repeats, "5", "N", "measurements of each", .min = 1,
     .max = MAX_NET_REPEATS},
    {"seconds-per-point", OPTION_DOUBLE, &args.seconds_per_point, "1", "S",
     "time for one operation, shared by its measurements", .min = 0.001, .max = 3600},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object per line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench net",
    .about = "Measures pulls and pushes between two nodes of this host against a raw connection of "
             "the same kind between two processes, in the same run.",
    .notes =
        "  pull1_*  time to pull one key of 32 floats; raw: the same number of bytes there and "
        "back. All processes run on one core, because the time to wake another core varies more "
        "than the result\n"
        "  push1_rate  pushes of one key of 32 floats per second, 512 under way\n"
        "  *_bulk  calls with 10,000 keys of 128 floats; bytes of values per second\n"
        "  *_len1  calls with 10,000 keys of one float; keys per second\n"
        "\n"
        "The raw rate is a one-way stream of the same bytes in chunks of 64 KiB, in the same unit; "
        "for tls, a stream through OpenSSL. Keys are drawn uniformly. Figures are medians of the "
        "repeats. A ratio of 1 means as fast as the raw connection; higher is better.\n"
        "\n"
        "JSON fields: bench, op, transport, len, value, unit, raw, ratio, then ratio_min, "
        "ratio_max, repeats, keys, sorted.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

struct bench {
    struct cluster cluster;
    struct link link;
    struct tern_node *node;
    struct tern_table *tables[N_TABLES];
    struct tern_worker *worker;
    uint64_t *keys; /* a stream of STREAM_KEYS, all at node 1 */
    float *values;  /* of MANY_KEYS keys */
    double *samples;
    size_t at; /* in the stream */
};

struct figures {
    double value, raw, ratio, ratio_min, ratio_max;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Output ------------------------------------------------------------------------------------ */

static void print_json(const struct op *op, const char *transport, const struct figures *f)
{
    printf("{\"bench\":\"net\",\"op\":\"%s\",\"transport\":\"%s\",\"len\":%u,\"value\":%.3f,"
           "\"unit\":\"%s\",\"raw\":%.3f,\"ratio\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f,"
           "\"repeats\":%lld,\"keys\":%lld,\"sorted\":%s}\n",
           op->name, transport, op->length, f->value, op->unit, f->raw, f->ratio, f->ratio_min,
           f->ratio_max, (long long)args.repeats, (long long)args.n_keys,
           args.sorted ? "true" : "false");
}

static void print_row(const struct op *op, const char *transport, const struct figures *f)
{
    double scale = f->value >= 1e5 ? 1e-3 : 1;
    printf("  %-5s %-10s %4u %9.1f %9.1f  %s%-8s %6.3f  %.3f..%.3f\n", transport, op->name,
           op->length, f->value * scale, f->raw * scale, scale < 1 ? "k " : "  ", op->unit,
           f->ratio, f->ratio_min, f->ratio_max);
}

static void print_heading(void)
{
    if (!args.json)
        printf("  %-5s %-10s %4s %9s %9s    %-8s %6s  %s\n", "over", "op", "len", "Tern", "raw",
               "unit", "ratio", "spread");
}

static void print_legend(void)
{
    if (!args.json)
        printf("\nMedians of %lld. At a ratio of 1 Tern costs no more than the raw connection;\n"
               "higher is better, also for times. spread = the ratios of single repeats.\n",
               (long long)args.repeats);
}

/* ---- Tern's turn ------------------------------------------------------------------------------- */

static struct tern_table *table_of(const struct bench *bench, const struct op *op)
{
    size_t i = 0;
    while (lengths[i] != op->length)
        i++;
    return bench->tables[i];
}

static size_t keys_per_call(const struct op *op)
{
    return op->manner == MANNER_BULK ? MANY_KEYS : 1;
}

/* The next n keys of the stream; it starts again at its end. */
static const uint64_t *next_keys(struct bench *bench, size_t n)
{
    size_t at = bench->at + n <= STREAM_KEYS ? bench->at : 0;
    bench->at = at + n;
    return bench->keys + at;
}

static bool call_tern(struct bench *bench, const struct op *op, struct tern_table *table)
{
    size_t n = keys_per_call(op);
    const uint64_t *keys = next_keys(bench, n);
    enum tern_status status = op->is_push ? tern_push(bench->worker, table, keys, n, bench->values)
                                          : tern_pull(bench->worker, table, keys, n, bench->values);
    return status == TERN_OK;
}

static bool call_window(struct bench *bench, struct tern_table *table, size_t n_calls)
{
    uint64_t tickets[WINDOW] = {0};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < n_calls + WINDOW && status == TERN_OK; i++) {
        uint64_t *ticket = &tickets[i % WINDOW];
        if (*ticket != 0)
            status = tern_wait(bench->worker, *ticket);
        *ticket = 0;
        if (status == TERN_OK && i < n_calls)
            status = tern_push_start(bench->worker, table, next_keys(bench, 1), 1, bench->values,
                                     ticket);
    }
    return status == TERN_OK;
}

/* Makes n_calls and sets *seconds. Stores latencies in the samples. */
static bool run_tern(struct bench *bench, const struct op *op, size_t n_calls, double *seconds)
{
    struct tern_table *table = table_of(bench, op);
    double start = now_s(), last = start;
    bool ok = true;
    if (op->manner == MANNER_WINDOW)
        ok = call_window(bench, table, n_calls);
    for (size_t i = 0; i < n_calls && op->manner != MANNER_WINDOW && ok; i++) {
        ok = call_tern(bench, op, table);
        if (op->manner != MANNER_LATENCY)
            continue;
        double now = now_s();
        bench->samples[i] = now - last;
        last = now;
    }
    *seconds = now_s() - start;
    if (!ok)
        complain_tern("a call failed while it was measured");
    return ok;
}

/* ---- The raw connection's turn ----------------------------------------------------------------- */

/* The bytes that one call of Tern sends in the direction of its values. */
static size_t bytes_per_call(const struct op *op)
{
    size_t n = keys_per_call(op);
    size_t keys_bytes = !op->is_push ? 0 : n == 1 ? ONE_KEY_BYTES : n;
    return HEADER_BYTES + keys_bytes + n * op->length * sizeof(float);
}

/* The same with the raw connection: n_calls there and back, or one stream as long. */
static bool run_raw(struct bench *bench, const struct op *op, size_t n_calls, double *seconds)
{
    size_t request_bytes = HEADER_BYTES + ONE_KEY_BYTES, reply_bytes = bytes_per_call(op);
    if (op->manner != MANNER_LATENCY) {
        request_bytes = op->is_push ? n_calls * bytes_per_call(op) : 1;
        reply_bytes = op->is_push ? 1 : n_calls * bytes_per_call(op);
        n_calls = 1;
    }
    if (!link_announce(&bench->link, request_bytes, reply_bytes, n_calls))
        return false;
    double start = now_s(), last = start;
    for (size_t i = 0; i < n_calls; i++) {
        if (!link_exchange(&bench->link, request_bytes, reply_bytes))
            return false;
        double now = now_s();
        bench->samples[i] = now - last;
        last = now;
    }
    *seconds = now_s() - start;
    return true;
}

/* ---- Measurements ------------------------------------------------------------------------------ */

typedef bool run_function(struct bench *bench, const struct op *op, size_t n_calls,
                          double *seconds);

/* One measurement, in the unit of the operation. */
static bool measure(struct bench *bench, const struct op *op, run_function *run, size_t n_calls,
                    double *value)
{
    double seconds;
    if (!run(bench, op, n_calls, &seconds))
        return false;
    if (op->manner == MANNER_LATENCY)
        *value = quantile(bench->samples, n_calls, op->quantile) * 1e6;
    else
        *value = (double)(n_calls * keys_per_call(op)) * op->per_key / seconds;
    return true;
}

/* Finds how many calls take `target` seconds. */
static bool calibrate(struct bench *bench, const struct op *op, run_function *run, double target,
                      size_t *n_calls)
{
    double seconds;
    size_t n = 1;
    for (;; n *= 2) {
        if (!run(bench, op, n, &seconds))
            return false;
        if (seconds >= target / 4 || n >= MAX_SAMPLES / 2)
            break;
    }
    double scaled = (double)n * target / seconds;
    *n_calls = scaled < 1 ? 1 : scaled > MAX_SAMPLES ? MAX_SAMPLES : (size_t)scaled;
    return true;
}

static double ratio_of(const struct op *op, double value, double raw)
{
    return op->manner == MANNER_LATENCY ? raw / value : value / raw;
}

static bool measure_op(struct bench *bench, const struct op *op, struct figures *f)
{
    double values[MAX_NET_REPEATS], raws[MAX_NET_REPEATS];
    size_t repeats = (size_t)args.repeats, n_calls, n_raw;
    double target = args.seconds_per_point / (double)(2 * repeats);
    if (!calibrate(bench, op, run_tern, target, &n_calls) ||
        !calibrate(bench, op, run_raw, target, &n_raw))
        return false;
    for (size_t i = 0; i < repeats; i++) {
        if (!measure(bench, op, run_tern, n_calls, &values[i]) ||
            !measure(bench, op, run_raw, n_raw, &raws[i]))
            return false;
        double ratio = ratio_of(op, values[i], raws[i]);
        f->ratio_min = i == 0 || ratio < f->ratio_min ? ratio : f->ratio_min;
        f->ratio_max = i == 0 || ratio > f->ratio_max ? ratio : f->ratio_max;
    }
    f->value = quantile(values, repeats, 0.5);
    f->raw = quantile(raws, repeats, 0.5);
    f->ratio = ratio_of(op, f->value, f->raw);
    return true;
}

/* ---- Nodes ------------------------------------------------------------------------------------- */

static bool open_node(struct bench *bench, size_t index)
{
    cluster_enter(&bench->cluster, index);
    const char *policy = cluster_share_nothing("static");
    if (tern_node_open(NULL, &bench->node) != TERN_OK) {
        complain_tern("cannot open a node");
        return false;
    }
    for (size_t i = 0; i < N_TABLES; i++) {
        char name[32];
        struct tern_table_options shape = {.struct_size = sizeof shape,
                                           .n_keys = (uint64_t)args.n_keys,
                                           .length = lengths[i],
                                           .policy = policy};
        snprintf(name, sizeof name, "length %u", lengths[i]);
        if (tern_table_open(bench->node, name, &shape, &bench->tables[i]) != TERN_OK) {
            complain_tern("cannot open a table");
            return false;
        }
    }
    return true;
}

/* Node 1 serves until node 0 closes. */
static int serve_main(void *context)
{
    struct bench *bench = context;
    if (!open_node(bench, 1))
        return EXIT_FAILED;
    return tern_node_close(bench->node) == TERN_OK ? EXIT_OK : complain_tern("node 1 failed");
}

/* Touches every row of node 1 and opens the connection. */
static bool fill_tables(struct bench *bench)
{
    uint64_t begin = (uint64_t)args.n_keys / 2, end = (uint64_t)args.n_keys;
    uint64_t *keys = malloc(MANY_KEYS * sizeof *keys);
    enum tern_status status = TERN_OK;
    memset(bench->values, 0, MANY_KEYS * 128 * sizeof *bench->values);
    for (uint64_t key = begin, n; keys != NULL && key < end && status == TERN_OK; key += n) {
        n = end - key < MANY_KEYS ? end - key : MANY_KEYS;
        for (uint64_t i = 0; i < n; i++)
            keys[i] = key + i;
        for (size_t i = 0; i < N_TABLES && status == TERN_OK; i++)
            status = tern_push(bench->worker, bench->tables[i], keys, n, bench->values);
    }
    free(keys);
    if (status != TERN_OK)
        complain_tern("cannot fill the tables");
    return keys != NULL && status == TERN_OK;
}

static bool run_ops(struct bench *bench)
{
    if (tern_worker_open(bench->node, &bench->worker) != TERN_OK) {
        complain_tern("cannot open a worker");
        return false;
    }
    bool ok = fill_tables(bench);
    for (size_t i = 0; i < args.ops.n && ok; i++) {
        const struct op *op = &ops[args.ops.choice[i]];
        struct figures figures;
        steps_next("%s over %s", op->name, transport_names[bench->cluster.transport]);
        cluster_share_core(&bench->cluster, op->manner == MANNER_LATENCY);
        ok = measure_op(bench, op, &figures);
        cluster_share_core(&bench->cluster, false);
        if (!ok)
            break;
        steps_end();
        (args.json ? print_json : print_row)(op, transport_names[bench->cluster.transport],
                                             &figures);
        ok = flush_output();
    }
    return tern_worker_close(bench->worker) == TERN_OK && ok;
}

static bool run_transport(struct bench *bench, enum transport transport)
{
    bench->link = (struct link){0};
    if (!cluster_open(&bench->cluster, transport, 2))
        return false;
    bool ok = cluster_fork(&bench->cluster, serve_main, bench) &&
              link_open(&bench->link, &bench->cluster) && open_node(bench, 0);
    if (ok) {
        ok = run_ops(bench);
        if (tern_node_close(bench->node) != TERN_OK && ok) {
            complain_tern("cannot close the node");
            ok = false;
        }
    }
    link_close(&bench->link);
    return cluster_close(&bench->cluster, ok);
}

/* ---- The command ------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Draws keys of the upper half, which node 1 owns. */
static void draw_keys(uint64_t *keys)
{
    uint64_t begin = (uint64_t)args.n_keys / 2, n = (uint64_t)args.n_keys - begin, state = 1;
    for (size_t i = 0; i < STREAM_KEYS; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        keys[i] = begin + (state >> 33) % n;
    }
    for (size_t i = 0; i + MANY_KEYS <= STREAM_KEYS && args.sorted; i += MANY_KEYS)
        qsort(keys + i, MANY_KEYS, sizeof *keys, by_key);
}

int bench_net_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    struct bench bench = {.keys = malloc(STREAM_KEYS * sizeof(uint64_t)),
                          .values = malloc(MANY_KEYS * 128 * sizeof(float)),
                          .samples = malloc(MAX_SAMPLES * sizeof(double))};
    bool ok = bench.keys != NULL && bench.values != NULL && bench.samples != NULL;
    if (ok) {
        draw_keys(bench.keys);
        print_heading();
        steps_begin(args.transports.n * args.ops.n);
    } else {
        complain("no memory for keys and values");
    }
    for (size_t i = 0; i < args.transports.n && ok; i++)
        ok = run_transport(&bench, (enum transport)args.transports.choice[i]);
    if (ok)
        print_legend();
    free(bench.samples);
    free(bench.values);
    free(bench.keys);
    return ok ? EXIT_OK : EXIT_FAILED;
}
