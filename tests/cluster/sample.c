/*
 * sample - every node draws samples of every level of conformity, pulls their values in parts and pushes
 * to them; the levels hold over all nodes, what should stay local does, and every sum is exact.
 *
 * sample [dense|sparse] [policy] [steps]
 *
 * The seeds are fixed. Each of the statistics rejects a right implementation for one seed in 10,000
 * (ALPHA); frequencies are allowed 5 standard errors. What must be told apart from the level above has
 * to fail its test with p below 10^-9.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

#include "support/statistics.h"

enum {
    N_KEYS = 20000,
    N_CLASSES = 100, /* of keys; what is rare is tested with the coarse ones that they fall into */
    N_COARSE = 4,
    HANDLE = 50,
    PART = 25,
    G = 10,
    U = 16,
    HANGS_S = 200
};

static struct tern_node *node;
static struct tern_table *table;
static struct tern_worker *worker;
static uint32_t self, n_nodes;
static size_t n_steps, n_drawn;
static uint8_t *classes, *others;                /* of the keys drawn here, and at node 0 */
static double fine[N_CLASSES], coarse[N_COARSE]; /* the probabilities of the classes */
static int64_t n_pushed;
static int n_wrong;

static void expect(bool held, const char *level, const char *what, double figure)
{
    if (held)
        return;
    fprintf(stderr, "%s: %s: %g\n", level, what, figure);
    n_wrong++;
}

static uint64_t remote_keys(void)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    return stats.remote_keys;
}

/* Pulls a part of a sample, checks that its values are whole, and pushes one to each of its keys. */
static void use_part(uint64_t sample, uint64_t *keys)
{
    int64_t values[PART][2], ones[PART][2];
    check(tern_sample_pull(worker, sample, PART, keys, values));
    for (size_t i = 0; i < PART; i++) {
        expect(values[i][0] == values[i][1], "any level", "a value is torn", (double)values[i][0]);
        expect(keys[i] < N_KEYS, "any level", "a key is outside the target", (double)keys[i]);
        ones[i][0] = ones[i][1] = 1;
    }
    check(tern_push(worker, table, keys, PART, ones));
    n_pushed += PART;
}

/* Draws at this node, two steps ahead; returns the share of pulled keys that were remote. */
static double draw(enum tern_conformity level)
{
    struct tern_target target = {.struct_size = sizeof target,
                                 .end = N_KEYS,
                                 .seed = (uint64_t)level + 1,
                                 .pool_keys = G,
                                 .pool_uses = U};
    struct tern_dist *dist;
    uint64_t samples[3], n_remote = 0;
    check(tern_dist_open(table, &target, level, &dist));
    for (size_t step = 0; step < n_steps + 2; step++) {
        if (step < n_steps)
            check(tern_sample_prepare(worker, dist, HANDLE, &samples[step % 3]));
        for (size_t part = 0; step >= 2 && part < HANDLE; part += PART) {
            uint64_t keys[PART], before = remote_keys();
            use_part(samples[(step - 2) % 3], keys);
            n_remote += remote_keys() - before;
            for (size_t i = 0; i < PART; i++)
                classes[(step - 2) * HANDLE + part + i] = (uint8_t)(keys[i] % N_CLASSES);
        }
        check(tern_worker_advance(worker, NULL));
    }
    check(tern_dist_close(dist));
    return (double)n_remote / (double)n_drawn / 2;
}

/* How well what all nodes drew follows the target. */
static double whole_p(void)
{
    int64_t counts[N_CLASSES] = {0};
    uint64_t sums[N_CLASSES];
    for (size_t i = 0; i < n_drawn; i++)
        counts[classes[i]]++;
    check(tern_all_reduce(node, TERN_I64, N_CLASSES, counts));
    for (size_t i = 0; i < N_CLASSES; i++)
        sums[i] = (uint64_t)counts[i];
    return fit_p(sums, fine, N_CLASSES);
}

/* How well every stride-th key that this node drew follows it. */
static double first_order_p(size_t stride)
{
    uint64_t counts[N_COARSE] = {0};
    for (size_t i = 0; i < n_drawn; i += stride)
        counts[classes[i] % N_COARSE]++;
    return fit_p(counts, coarse, N_COARSE);
}

/* How independent they are of those that node 0 drew. */
static double nodes_p(size_t stride)
{
    struct pairs pairs = pairs_new(N_COARSE);
    memcpy(others, classes, n_drawn);
    check(tern_broadcast(node, 0, n_drawn, others));
    for (size_t i = 0; i < n_drawn; i += stride)
        pairs_add(&pairs, classes[i] % N_COARSE, others[i] % N_COARSE);
    double p = pairs_p(&pairs, coarse);
    return self == 0 ? 1 : p;
}

static double deviation(void)
{
    uint64_t counts[N_CLASSES] = {0};
    for (size_t i = 0; i < n_drawn; i++)
        counts[classes[i]]++;
    return worst_deviation(counts, fine, N_CLASSES, U);
}

static void check_levels(bool moves_keys)
{
    size_t stride = (G * U + HANDLE) / HANDLE * HANDLE;
    draw(TERN_CONFORM);
    double fit = whole_p(), apart = nodes_p(1);
    expect(fit >= ALPHA, "CONFORM", "does not follow the target, p", fit);
    expect(apart >= ALPHA, "CONFORM", "depends on another node, p", apart);

    draw(TERN_BOUNDED);
    double whole = whole_p();
    fit = first_order_p(stride), apart = nodes_p(stride);
    expect(fit >= ALPHA, "BOUNDED", "does not follow the target, p", fit);
    expect(apart >= ALPHA, "BOUNDED", "depends on another node, p", apart);
    expect(whole < 1e-9, "BOUNDED", "seems independent, p", whole);

    draw(TERN_LONG_TERM);
    expect(deviation() < 5, "LONG_TERM", "does not approach the target, standard errors",
           deviation());

    double remote = draw(TERN_NON_CONFORM);
    expect(remote <= (moves_keys ? 0.01 : 0), "NON_CONFORM", "remote share", remote);
}

/* Whether the table holds as much as all nodes have pushed. */
static void check_sums(void)
{
    static uint64_t keys[N_KEYS];
    static int64_t values[N_KEYS][2];
    int64_t sum = 0;
    size_t n = 0;
    check(tern_quiesce(node));
    check(tern_all_reduce(node, TERN_I64, 1, &n_pushed));
    check(tern_pull_range(worker, table, 0, N_KEYS, N_KEYS, keys, values, &n));
    for (size_t i = 0; i < n; i++)
        sum += values[i][0];
    expect(sum == n_pushed, "any level", "the sum of all pushes is off by",
           (double)(sum - n_pushed));
    check(tern_barrier(node));
}

int main(int argc, char **argv)
{
    const char *policy = argc > 2 ? argv[2] : NULL;
    bool sparse = argc > 1 && !strcmp(argv[1], "sparse");
    hang_after(HANGS_S);
    n_steps = argc > 3 ? strtoul(argv[3], NULL, 10) : 500;
    n_drawn = n_steps * HANDLE;
    classes = malloc(n_drawn);
    others = malloc(n_drawn);
    if (!classes || !others)
        return 1;
    for (size_t i = 0; i < N_CLASSES; i++)
        fine[i] = 1.0 / N_CLASSES;
    for (size_t i = 0; i < N_COARSE; i++)
        coarse[i] = 1.0 / N_COARSE;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = sparse ? TERN_SPARSE : TERN_DENSE,
                                         .type = TERN_I64,
                                         .n_keys = sparse ? 0 : N_KEYS,
                                         .length = 2,
                                         .policy = policy};
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    check(tern_table_open(node, "t", &options, &table));
    check(tern_worker_open(node, &worker));
    check(tern_barrier(node));
    /* Where all nodes share the rows, none is away. */
    bool moves_keys = policy && strcmp(policy, "static") && strcmp(policy, "replicate") &&
                      strcmp(policy, "adaptive");
    check_levels(moves_keys);
    check_sums();
    printf("node %" PRIu32 " of %" PRIu32 ": %zu keys of each level, %d wrong\n", self, n_nodes,
           n_drawn, n_wrong);
    check(tern_worker_close(worker));
    check(tern_node_close(node));
    free(classes);
    free(others);
    return n_wrong != 0;
}
