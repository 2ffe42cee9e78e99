/*
 * tern trace - draws or sums up what nodes have recorded about chosen keys (tern_trace_start).
 */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "options.h"

enum { MAX_BANDS = 64 };

static struct {
    const char *out;
    bool json;
    struct operand_list files;
} args;

static const struct option options[] = {
    {"out", OPTION_STRING, &args.out, .takes = "FILE",
     .help = "write the picture to FILE instead of standard output", .aliases = "o"},
    {"json", OPTION_FLAG, &args.json,
     .help = "print figures, a JSON object per key and node; a picture only with --out"},
};

static const struct option_set option_set = {
    .program = "tern trace",
    .about = "Draws which node had which key when: combines the files that tern_trace_start wrote "
             "on each node into one SVG, with a band for each key and a row in it for each node.",
    .notes =
        "For example:\n"
        "  tern trace /tmp/life.* -o life.svg\n"
        "\n"
        "The picture compares the nodes' clocks as they are, so the clocks of several hosts must "
        "agree. A picture has at most 64 keys, the smallest ones.\n"
        "\n"
        "JSON fields: key, node; main_s, replica_s, intent_s (seconds with the main copy, with a "
        "replica, with active intent), local_s (seconds of active intent with the main copy or a "
        "replica); moves_here, replicas, intents (how many began after the start of the trace).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "FILE...",
    .given = &args.files,
};

/* ---- Figures ------------------------------------------------------------------------------------ */

struct sums {
    double seconds[N_LAYERS], local_s;
    uint64_t began[N_LAYERS];
};

static double overlap_s(const struct span *a, const struct span *b)
{
    uint64_t from = a->begin_ns > b->begin_ns ? a->begin_ns : b->begin_ns;
    uint64_t to = a->end_ns < b->end_ns ? a->end_ns : b->end_ns;
    return to > from ? (double)(to - from) / 1e9 : 0;
}

/* The time for which the node had both intent and a copy; intents and copies are each in order of time. */
static double local_seconds(const struct span *spans, size_t n)
{
    double sum = 0;
    size_t copy = 0;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].layer != LAYER_INTENT)
            continue;
        while (copy < n &&
               (spans[copy].layer == LAYER_INTENT || spans[copy].end_ns <= spans[i].begin_ns))
            copy++;
        for (size_t j = copy; j < n && spans[j].begin_ns < spans[i].end_ns; j++)
            if (spans[j].layer != LAYER_INTENT)
                sum += overlap_s(&spans[i], &spans[j]);
    }
    return sum;
}

/* The figures of one key at one node: n spans in the order of time. */
static struct sums sum_up(const struct span *spans, size_t n)
{
    struct sums sums = {.local_s = local_seconds(spans, n)};
    for (size_t i = 0; i < n; i++) {
        sums.seconds[spans[i].layer] += (double)(spans[i].end_ns - spans[i].begin_ns) / 1e9;
        sums.began[spans[i].layer] += !spans[i].was_on;
    }
    return sums;
}

static void print_figures(const struct traces *traces)
{
    for (size_t k = 0; k < traces->n_keys; k++) {
        size_t n, at = 0;
        const struct span *spans = traces_of_key(traces, traces->keys[k], &n);
        for (size_t f = 0; f < traces->n_files; f++) {
            uint32_t node = traces->files[f].node;
            size_t first = at;
            while (at < n && spans[at].node == node)
                at++;
            struct sums sums = sum_up(spans + first, at - first);
            printf("{\"trace\":\"key\",\"key\":%" PRIu64 ",\"node\":%" PRIu32
                   ",\"main_s\":%.9f,\"replica_s\":%.9f,\"intent_s\":%.9f,\"local_s\":%.9f"
                   ",\"moves_here\":%" PRIu64 ",\"replicas\":%" PRIu64 ",\"intents\":%" PRIu64
                   "}\n",
                   traces->keys[k], node, sums.seconds[LAYER_MAIN], sums.seconds[LAYER_REPLICA],
                   sums.seconds[LAYER_INTENT], sums.local_s, sums.began[LAYER_MAIN],
                   sums.began[LAYER_REPLICA], sums.began[LAYER_INTENT]);
        }
    }
}

/* ---- The command -------------------------------------------------------------------------------- */

static bool draw(const struct traces *traces)
{
    size_t n_keys = traces->n_keys < MAX_BANDS ? traces->n_keys : MAX_BANDS;
    if (n_keys < traces->n_keys)
        complain("the trace has %zu keys; the picture shows the first %d", traces->n_keys,
                 MAX_BANDS);
    if (args.out == NULL) {
        traces_draw(traces, n_keys, stdout);
        return true;
    }
    FILE *out = fopen(args.out, "w");
    bool ok = out != NULL;
    if (ok) {
        traces_draw(traces, n_keys, out);
        ok = !ferror(out);
        ok = fclose(out) == 0 && ok;
    }
    if (!ok)
        complain("cannot write %s: %s", args.out, strerror(errno));
    return ok;
}

int trace_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.files.n == 0) {
        complain("'tern trace' needs the files of a trace; see 'tern trace --help'");
        return EXIT_USAGE;
    }
    struct traces traces;
    if (!traces_read(&traces, args.files.at, args.files.n))
        return EXIT_FAILED;
    bool ok = (args.json && args.out == NULL) || draw(&traces);
    if (args.json)
        print_figures(&traces);
    traces_free(&traces);
    return ok ? EXIT_OK : EXIT_FAILED;
}
