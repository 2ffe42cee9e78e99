/*
 * tern bench sample - the cost of sampling: drawing keys against a raw generator, and a mix of direct and
 * sampled accesses on two nodes under each level of conformity.
 *
 * The mix is that of knowledge graph embeddings: in each step the data gives two thirds of the keys, here drawn
 * from a Zipf distribution, and one third are negative samples, which Tern draws uniformly from all keys. Both
 * are pulled and pushed, and both are known some steps ahead, by tern_intent and tern_sample_prepare. Direct
 * and sampled accesses have separate tables, so that a table's statistics show the cost of samples alone. Node 0
 * is this process, node 1 another one; both work, and the figures are their sum.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tern/tern.h>

#include "bench_cluster.h"
#include "command.h"
#include "keys.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

enum {
    MAX_SAMPLE_REPEATS = 101,
    N_LEVELS = 4,
    N_NODES = 2,
    N_DIRECT = 200, /* keys of a step */
    N_SAMPLED = 100,
    N_PART = 20, /* keys of a sample pulled at once */
    N_STREAM = 1 << 18,
    MAX_AHEAD = 1000,
    DRAW_BATCH = 100,
    DRAW_ROUNDS = 200, /* batches between two looks at the clock */
};

static const char *const part_names[] = {"draw", "mix", NULL};
enum part { PART_DRAW, PART_MIX };

/* In the order of enum tern_conformity. */
static const char *const level_names[] = {"CONFORM", "BOUNDED", "LONG_TERM", "NON_CONFORM", NULL};

static struct {
    bool json;
    struct string_list parts, levels;
    const char *policy;
    int64_t n_keys, length, ahead, repeats;
    double seconds_per_point;
} args;

static const struct option options[] = {
    {"part", OPTION_STRINGS, &args.parts, "draw,mix", "LIST", "what to measure: draw, mix",
     .choices = part_names},
    {"level", OPTION_STRINGS, &args.levels, "CONFORM,BOUNDED,LONG_TERM,NON_CONFORM", "LIST",
     "levels of conformity in the mix", .choices = level_names},
    {"policy", OPTION_STRING, &args.policy, "adaptive", "NAME",
     .help = "policy of the tables of the mix, except bsp, ssp:S and essp:S"},
    {"keys", OPTION_INT, &args.n_keys, "1000000", "N", "keys to sample from", .min = 2, .max = 4e9},
    {"len", OPTION_INT, &args.length, "32", "N", "floats of a value in the mix", .min = 1,
     .max = 4096},
    {"ahead", OPTION_INT, &args.ahead, "100", "N", "steps between intent and use", .min = 0,
     .max = MAX_AHEAD},
    {"repeats", OPTION_INT, &args.repeats, "5", "N", "measurements of each", .min = 1,
     .max = MAX_SAMPLE_REPEATS},
    {"seconds-per-point", OPTION_DOUBLE, &args.seconds_per_point, "2", "S",
     "time for one line, shared by its measurements", .min = 0.001, .max = 3600},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object per line instead of tables"},
};

static const struct option_set option_set = {
    .program = "tern bench sample",
    .about = "Measures the cost of sampling: drawing keys, against a raw random generator; and a "
             "mix of direct and sampled accesses (2 to 1) on two nodes of this host that share no "
             "memory.",
    .notes = "  draw  tern_sample_prepare and tern_sample_pull of 100 keys without values, "
             "CONFORM, one thread, from a uniform target and from weights (alias method). Raw: "
             "splitmix64 fills an array with numbers below N. Both in CPU time\n"
             "  mix  in each step every node accesses 200 keys drawn by Zipf(1.1) and 100 sampled "
             "uniformly, with a pull and a push each; samples are pulled in parts of 20. `sampled` "
             "counts the accesses to sampled keys alone\n"
             "\n"
             "Figures are medians of the repeats; the contenders of a part take turns.\n"
             "\n"
             "JSON fields: bench, part; draw: target, keys, batch, ns_per_key, raw_ns_per_key, "
             "ratio, repeats; mix: level, policy, nodes, keys, len, ahead, accesses_s, "
             "speed_to_conform, remote_share, bytes_per_access, sampled_remote_share, "
             "sampled_bytes_per_access, sampled_bytes_to_conform (null if it was not measured in "
             "this run, or if there were no bytes), repeats.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

/* Complains; false, as what failed returns. */
static bool failed(const char *doing)
{
    complain_tern(doing);
    return false;
}

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now_s(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static uint64_t splitmix(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t below(uint64_t random, uint64_t n)
{
    return (uint64_t)((unsigned __int128)random * n >> 64);
}

/* ---- Drawing ----------------------------------------------------------------------------------- */

struct drawing {
    struct tern_worker *worker;
    struct tern_dist *dist;
    uint64_t random; /* the state of the raw generator */
    uint64_t keys[DRAW_BATCH];
};

/* DRAW_ROUNDS batches of either kind. */
static bool draw_tern(struct drawing *drawing)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < DRAW_ROUNDS && status == TERN_OK; i++) {
        uint64_t sample;
        status = tern_sample_prepare(drawing->worker, drawing->dist, DRAW_BATCH, &sample);
        if (status == TERN_OK)
            status = tern_sample_pull(drawing->worker, sample, DRAW_BATCH, drawing->keys, NULL);
    }
    return status == TERN_OK || failed("cannot draw");
}

static bool draw_raw(struct drawing *drawing)
{
    for (size_t i = 0; i < DRAW_ROUNDS; i++) {
        for (size_t j = 0; j < DRAW_BATCH; j++)
            drawing->keys[j] = below(splitmix(&drawing->random), (uint64_t)args.n_keys);
        /* The array must be written each time. */
        __asm__ volatile("" : : "r"(drawing->keys) : "memory");
    }
    return true;
}

/* Nothing waits here, so CPU time counts, which other programs disturb less. */
static bool measure_drawing(struct drawing *drawing, bool (*draw)(struct drawing *), double seconds,
                            double *ns_per_key)
{
    double end = now_s() + seconds, start = read_clock(CLOCK_THREAD_CPUTIME_ID);
    size_t n_keys = 0;
    do {
        if (!draw(drawing))
            return false;
        n_keys += (size_t)DRAW_ROUNDS * DRAW_BATCH;
    } while (now_s() < end);
    *ns_per_key = (read_clock(CLOCK_THREAD_CPUTIME_ID) - start) * 1e9 / (double)n_keys;
    return true;
}

static void print_drawing(const char *target, double ns, double raw_ns)
{
    if (args.json)
        printf(
            "{\"bench\":\"sample\",\"part\":\"draw\",\"target\":\"%s\",\"keys\":%lld,\"batch\":%d,"
            "\"ns_per_key\":%.3f,\"raw_ns_per_key\":%.3f,\"ratio\":%.4f,\"repeats\":%lld}\n",
            target, (long long)args.n_keys, DRAW_BATCH, ns, raw_ns, raw_ns / ns,
            (long long)args.repeats);
    else
        printf("  %-8s  %10lld  %8.2f  %8.2f  %6.3f\n", target, (long long)args.n_keys, ns, raw_ns,
               raw_ns / ns);
}

static bool draw_from(struct tern_worker *worker, struct tern_table *table, const char *name,
                      const struct tern_target *target)
{
    double ns[MAX_SAMPLE_REPEATS], raw_ns[MAX_SAMPLE_REPEATS];
    size_t repeats = (size_t)args.repeats;
    double seconds = args.seconds_per_point / (double)(2 * repeats);
    struct drawing drawing = {.worker = worker};
    if (tern_dist_open(table, target, TERN_CONFORM, &drawing.dist) != TERN_OK)
        return failed("cannot open a distribution");
    bool ok = true;
    steps_next("drawing, %s", name);
    for (size_t i = 0; i < repeats && ok; i++)
        ok = measure_drawing(&drawing, draw_tern, seconds, &ns[i]) &&
             measure_drawing(&drawing, draw_raw, seconds, &raw_ns[i]);
    steps_end();
    if (ok)
        print_drawing(name, median(ns, repeats), median(raw_ns, repeats));
    tern_dist_close(drawing.dist);
    return ok && flush_output();
}

/* Weights 1/1, 1/2, 1/3 ... in random order. */
static double *make_weights(void)
{
    double *weights = malloc((size_t)args.n_keys * sizeof *weights);
    uint64_t random = 1;
    for (int64_t i = 0; weights != NULL && i < args.n_keys; i++)
        weights[i] = 1 / (1 + (double)below(splitmix(&random), (uint64_t)args.n_keys));
    if (weights == NULL)
        complain("no memory for %lld weights", (long long)args.n_keys);
    return weights;
}

static bool run_draw(void)
{
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    /* Sparse: only keys are drawn, so it takes no memory. */
    struct tern_table_options shape = {
        .struct_size = sizeof shape, .index = TERN_SPARSE, .length = 1, .policy = "static"};
    if (tern_node_open(NULL, &node) != TERN_OK ||
        tern_table_open(node, "drawn from", &shape, &table) != TERN_OK ||
        tern_worker_open(node, &worker) != TERN_OK)
        return failed("cannot open a node");
    double *weights = make_weights();
    struct tern_target target = {.struct_size = sizeof target, .end = (uint64_t)args.n_keys};
    struct tern_target weighted = target;
    weighted.kind = TERN_TARGET_WEIGHTS;
    weighted.weights = weights;
    if (!args.json)
        printf("Drawing keys, %d at a time, one thread\n\n"
               "  target          keys   Tern ns    raw ns   ratio\n",
               DRAW_BATCH);
    bool ok = weights != NULL && draw_from(worker, table, "uniform", &target) &&
              draw_from(worker, table, "alias", &weighted);
    free(weights);
    return tern_worker_close(worker) == TERN_OK && tern_node_close(node) == TERN_OK && ok;
}

/* ---- The mix ----------------------------------------------------------------------------------- */

struct mix {
    struct cluster cluster;
    size_t index; /* of this node */
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table *direct, *sampled;
    struct tern_dist *dists[N_LEVELS];
    struct keys keys;       /* of the direct accesses */
    float *values;          /* of a step */
    uint64_t *sampled_keys; /* of a step */
};

/* Counters of a table, as numbers that can be summed over nodes. */
struct usage {
    double accesses, remote, bytes;
};

/* Of both nodes together. */
struct figures {
    double accesses_s;
    struct usage direct, sampled;
};

/* The bytes that this node's accesses to a table and the management of its keys sent over the network;
 * what it received is counted by the node that sent it. */
static double travelled_bytes(const struct tern_table_stats *stats)
{
    return (double)(stats->remote_bytes + stats->sent_bytes);
}

static bool usage_of(struct tern_table *table, struct usage *usage)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    if (tern_table_get_stats(table, &stats) != TERN_OK)
        return failed("cannot read statistics");
    *usage = (struct usage){.accesses = (double)(stats.pulled_keys + stats.pushed_keys),
                            .remote = (double)stats.remote_keys,
                            .bytes = travelled_bytes(&stats)};
    return true;
}

static struct usage usage_since(struct usage now, struct usage then)
{
    return (struct usage){now.accesses - then.accesses, now.remote - then.remote,
                          now.bytes - then.bytes};
}

/* The direct keys of a step; the stream starts again at its end. */
static const uint64_t *direct_keys(const struct mix *mix, uint64_t step)
{
    return mix->keys.rows + step % (N_STREAM / N_DIRECT) * N_DIRECT;
}

/* Computes with the values, and leaves the updates in their place. */
static void compute(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = 0x1p-10f - 0x1p-10f * values[i];
}

/* Pulls and pushes the direct keys of a step, and a sample. */
static enum tern_status access_step(const struct mix *mix, uint64_t step, uint64_t sample)
{
    const uint64_t *keys = direct_keys(mix, step);
    size_t length = (size_t)args.length;
    enum tern_status status = tern_pull(mix->worker, mix->direct, keys, N_DIRECT, mix->values);
    compute(mix->values, N_DIRECT * length);
    if (status == TERN_OK)
        status = tern_push(mix->worker, mix->direct, keys, N_DIRECT, mix->values);
    for (size_t i = 0; i < N_SAMPLED && status == TERN_OK; i += N_PART)
        status = tern_sample_pull(mix->worker, sample, N_PART, mix->sampled_keys + i,
                                  mix->values + i * length);
    compute(mix->values, N_SAMPLED * length);
    if (status == TERN_OK)
        status = tern_push(mix->worker, mix->sampled, mix->sampled_keys, N_SAMPLED, mix->values);
    return status;
}

/* The steps of one measurement. */
struct walk {
    const struct mix *mix;
    struct tern_dist *dist;
    uint64_t step, announced;        /* those done, and those whose keys have intent */
    uint64_t samples[MAX_AHEAD + 1]; /* of the latter */
};

static uint64_t *sample_of(struct walk *walk, uint64_t step)
{
    return &walk->samples[step % ((uint64_t)args.ahead + 1)];
}

/* Signals intent for the keys of the next step. */
static enum tern_status announce_step(struct walk *walk)
{
    const struct mix *mix = walk->mix;
    uint64_t clock;
    enum tern_status status = tern_worker_clock(mix->worker, &clock);
    uint64_t start = clock + walk->announced - walk->step;
    if (status == TERN_OK)
        status = tern_intent(mix->worker, mix->direct, direct_keys(mix, walk->announced), N_DIRECT,
                             start, start + 1);
    if (status == TERN_OK)
        status = tern_sample_prepare(mix->worker, walk->dist, N_SAMPLED,
                                     sample_of(walk, walk->announced));
    walk->announced += status == TERN_OK;
    return status;
}

/* Runs steps for some seconds. */
static bool walk_for(struct walk *walk, double seconds)
{
    double end = now_s() + seconds;
    enum tern_status status = TERN_OK;
    do {
        while (status == TERN_OK && walk->announced <= walk->step + (uint64_t)args.ahead)
            status = announce_step(walk);
        if (status == TERN_OK)
            status = access_step(walk->mix, walk->step, *sample_of(walk, walk->step));
        if (status == TERN_OK)
            status = tern_worker_advance(walk->mix->worker, NULL);
        walk->step++;
    } while (status == TERN_OK && now_s() < end);
    return status == TERN_OK || failed("an access failed");
}

/* Drops samples that were prepared and will not be used. */
static bool end_walk(struct walk *walk)
{
    enum tern_status status = TERN_OK;
    for (; status == TERN_OK && walk->step < walk->announced; walk->announced--)
        status = tern_sample_end(walk->mix->worker, *sample_of(walk, walk->announced - 1));
    return status == TERN_OK || failed("cannot end a sample");
}

/* One measurement at this node, and the sum over all nodes. The first third of the time is a warm-up, in which
 * the intents of the level before end and this one settles. */
static bool measure_mix(const struct mix *mix, struct tern_dist *dist, double seconds,
                        struct figures *figures)
{
    struct usage direct[2] = {{0}}, sampled[2] = {{0}};
    struct walk walk = {.mix = mix, .dist = dist};
    if (tern_quiesce(mix->node) != TERN_OK)
        return failed("the nodes do not come together");
    if (!walk_for(&walk, seconds / 3) || !usage_of(mix->direct, &direct[0]) ||
        !usage_of(mix->sampled, &sampled[0]))
        return false;
    uint64_t n_before = walk.step;
    double start = now_s();
    if (!walk_for(&walk, seconds * 2 / 3))
        return false;
    double took = now_s() - start;
    if (!usage_of(mix->direct, &direct[1]) || !usage_of(mix->sampled, &sampled[1]) ||
        !end_walk(&walk))
        return false;
    *figures = (struct figures){
        .accesses_s = (double)(walk.step - n_before) * 2 * (N_DIRECT + N_SAMPLED) / took,
        .direct = usage_since(direct[1], direct[0]),
        .sampled = usage_since(sampled[1], sampled[0]),
    };
    return tern_all_reduce(mix->node, TERN_F64, sizeof *figures / sizeof(double), figures) ==
               TERN_OK ||
           failed("cannot add up the figures");
}

/* The medians of one level. */
struct line {
    bool measured;
    double accesses_s, remote_share, bytes, sampled_remote_share, sampled_bytes;
};

static double median_of(const struct figures *figures, double (*value)(const struct figures *))
{
    double values[MAX_SAMPLE_REPEATS];
    for (int64_t i = 0; i < args.repeats; i++)
        values[i] = value(&figures[i]);
    return median(values, (size_t)args.repeats);
}

static double accesses_s(const struct figures *f)
{
    return f->accesses_s;
}

static double remote_share(const struct figures *f)
{
    return (f->direct.remote + f->sampled.remote) / (f->direct.accesses + f->sampled.accesses);
}

static double bytes_per_access(const struct figures *f)
{
    return (f->direct.bytes + f->sampled.bytes) / (f->direct.accesses + f->sampled.accesses);
}

static double sampled_remote_share(const struct figures *f)
{
    return f->sampled.remote / f->sampled.accesses;
}

static double sampled_bytes(const struct figures *f)
{
    return f->sampled.bytes / f->sampled.accesses;
}

static struct line line_of(const struct figures *figures)
{
    return (struct line){.measured = true,
                         .accesses_s = median_of(figures, accesses_s),
                         .remote_share = median_of(figures, remote_share),
                         .bytes = median_of(figures, bytes_per_access),
                         .sampled_remote_share = median_of(figures, sampled_remote_share),
                         .sampled_bytes = median_of(figures, sampled_bytes)};
}

/* A ratio as text: `none` where there is nothing to compare with. */
static const char *ratio_text(char text[32], bool measured, double a, double b, const char *none)
{
    if (!measured || b <= 0)
        return none;
    snprintf(text, 32, "%.4f", a / b);
    return text;
}

static void print_line(const char *level, const struct line *line, const struct line *conform)
{
    char speed[32], bytes[32];
    const char *none = args.json ? "null" : "-";
    const char *to_speed =
        ratio_text(speed, conform->measured, line->accesses_s, conform->accesses_s, none);
    const char *to_bytes =
        ratio_text(bytes, conform->measured, line->sampled_bytes, conform->sampled_bytes, none);
    if (args.json)
        printf("{\"bench\":\"sample\",\"part\":\"mix\",\"level\":\"%s\",\"policy\":\"%s\","
               "\"nodes\":%d,\"keys\":%lld,\"len\":%lld,\"ahead\":%lld,\"accesses_s\":%.0f,"
               "\"speed_to_conform\":%s,\"remote_share\":%.6f,\"bytes_per_access\":%.3f,"
               "\"sampled_remote_share\":%.6f,\"sampled_bytes_per_access\":%.3f,"
               "\"sampled_bytes_to_conform\":%s,\"repeats\":%lld}\n",
               level, args.policy, N_NODES, (long long)args.n_keys, (long long)args.length,
               (long long)args.ahead, line->accesses_s, to_speed, line->remote_share, line->bytes,
               line->sampled_remote_share, line->sampled_bytes, to_bytes, (long long)args.repeats);
    else
        printf("  %-11s %10.0f %10s  %.5f %6.2f   %.5f %6.2f %10s\n", level, line->accesses_s,
               to_speed, line->remote_share, line->bytes, line->sampled_remote_share,
               line->sampled_bytes, to_bytes);
}

static void print_mix(struct figures (*figures)[MAX_SAMPLE_REPEATS])
{
    struct line conform = {0};
    for (size_t i = 0; i < args.levels.n; i++)
        if (args.levels.choice[i] == TERN_CONFORM)
            conform = line_of(figures[i]);
    if (!args.json)
        printf("\nTwo nodes without shared memory, policy %s, %lld keys of\n%lld floats, intent "
               "%lld steps ahead\n\n"
               "              all accesses                           sampled accesses\n"
               "  level       accesses/s to CONFORM   remote  bytes    remote  bytes to CONFORM\n",
               args.policy, (long long)args.n_keys, (long long)args.length, (long long)args.ahead);
    for (size_t i = 0; i < args.levels.n; i++) {
        struct line line = line_of(figures[i]);
        print_line(level_names[args.levels.choice[i]], &line, &conform);
    }
}

/* All levels take turns, so that a disturbance of the machine affects all. */
static bool measure_levels(const struct mix *mix)
{
    static struct figures figures[LIST_MAX][MAX_SAMPLE_REPEATS];
    double seconds = args.seconds_per_point / (double)args.repeats;
    for (int64_t r = 0; r < args.repeats; r++)
        for (size_t i = 0; i < args.levels.n; i++) {
            if (mix->index == 0)
                steps_next("%s, repeat %lld", level_names[args.levels.choice[i]], (long long)r + 1);
            if (!measure_mix(mix, mix->dists[args.levels.choice[i]], seconds, &figures[i][r]))
                return false;
        }
    steps_end();
    if (mix->index == 0)
        print_mix(figures);
    return flush_output();
}

static bool open_mix(struct mix *mix)
{
    struct tern_table_options shape = {.struct_size = sizeof shape,
                                       .n_keys = (uint64_t)args.n_keys,
                                       .length = (uint32_t)args.length,
                                       .init = {.kind = TERN_INIT_UNIFORM, .a = -1, .b = 1},
                                       .policy = cluster_share_nothing(args.policy)};
    struct tern_target target = {.struct_size = sizeof target, .end = shape.n_keys, .seed = 1};
    cluster_enter(&mix->cluster, mix->index);
    enum tern_status status = tern_node_open(NULL, &mix->node);
    if (status == TERN_OK)
        status = tern_table_open(mix->node, "direct", &shape, &mix->direct);
    if (status == TERN_OK)
        status = tern_table_open(mix->node, "sampled", &shape, &mix->sampled);
    for (size_t i = 0; i < N_LEVELS && status == TERN_OK; i++)
        status = tern_dist_open(mix->sampled, &target, (enum tern_conformity)i, &mix->dists[i]);
    if (status == TERN_OK)
        status = tern_worker_open(mix->node, &mix->worker);
    return status == TERN_OK || failed("cannot open a node");
}

/* What each of the two nodes does. */
static int mix_main(void *context)
{
    struct mix *mix = context;
    size_t n_values = (size_t)N_DIRECT * (size_t)args.length;
    bool ok = keys_init(&mix->keys, KEYS_ZIPF, (size_t)args.n_keys, N_STREAM, mix->index);
    mix->values = malloc(n_values * sizeof *mix->values);
    mix->sampled_keys = malloc(N_SAMPLED * sizeof *mix->sampled_keys);
    if (!ok || mix->values == NULL || mix->sampled_keys == NULL) {
        complain("no memory for keys and values");
        ok = false;
    }
    ok = ok && open_mix(mix) && measure_levels(mix);
    if (ok && (tern_worker_close(mix->worker) != TERN_OK || tern_node_close(mix->node) != TERN_OK))
        ok = failed("cannot close the node");
    free(mix->sampled_keys);
    free(mix->values);
    keys_fini(&mix->keys);
    return ok ? EXIT_OK : EXIT_FAILED;
}

static bool run_mix(void)
{
    struct mix mix = {.index = 1};
    if (!cluster_open(&mix.cluster, TRANSPORT_TCP, N_NODES))
        return false;
    bool ok = cluster_fork(&mix.cluster, mix_main, &mix);
    mix.index = 0;
    ok = ok && mix_main(&mix) == EXIT_OK;
    return cluster_close(&mix.cluster, ok);
}

/* Each node of the mix runs for some time, however many steps that is. The node with fewer steps would stop
 * advancing its clock, and reads bounded by clocks would wait for it for ever. */
static bool check_policy(void)
{
    static const char *const kinds[] = {"bsp", "ssp", "essp"};
    size_t length = strcspn(args.policy, ":");
    bool waits = false, mixes = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        waits |= strlen(kinds[i]) == length && strncmp(args.policy, kinds[i], length) == 0;
    for (size_t i = 0; i < args.parts.n; i++)
        mixes |= args.parts.choice[i] == PART_MIX;
    if (waits && mixes)
        complain("the nodes of the mix run different numbers of steps, so they cannot wait for "
                 "each other's "
                 "clocks under --policy %s; 'tern bench stale' measures such policies",
                 args.policy);
    return !(waits && mixes);
}

int bench_sample_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (!check_policy())
        return EXIT_USAGE;
    bool ok = true;
    size_t n_steps = 0;
    for (size_t i = 0; i < args.parts.n; i++)
        n_steps += args.parts.choice[i] == PART_DRAW ? 2 : args.levels.n * (size_t)args.repeats;
    steps_begin(n_steps);
    for (size_t i = 0; i < args.parts.n && ok; i++)
        ok = args.parts.choice[i] == PART_DRAW ? run_draw() : run_mix();
    return ok ? EXIT_OK : EXIT_FAILED;
}
