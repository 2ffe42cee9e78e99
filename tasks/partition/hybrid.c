/* hybrid - see hybrid.h. */
#include "partition/hybrid.h"

#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/sentence.h"

static const double allowed_excess = 0.05; /* of a part's load over the mean */

struct hybrid {
    const struct block *block;
    const struct hybrid_options *options;
    uint16_t *parts, *homes; /* of rows and keys */
    double *loads, *n_homes,
        *traffic; /* of parts: rows or entries, keys, and remote uses by its rows */
    double mean_load, mean_homes;
    double row_weight, key_weight, traffic_weight; /* alpha, beta and gamma of (4) */
};

static double link_cost(const struct hybrid *hybrid, uint32_t from, uint32_t to)
{
    const uint32_t n = hybrid->options->n_per_host;
    if (from == to)
        return 0;
    if (hybrid->options->costs != NULL)
        return hybrid->options->costs[(size_t)from * hybrid->options->n_parts + to];
    return n == 0 || from / n == to / n ? 1 : LINK_COST;
}

static double mean_traffic(const struct hybrid *hybrid)
{
    double sum = 0;
    for (uint32_t p = 0; p < hybrid->options->n_parts; p++)
        sum += hybrid->traffic[p];
    return sum / hybrid->options->n_parts;
}

/* Counts the uses of a row's keys by their homes; of a key by the parts of its rows. */
static void count_homes(const struct hybrid *hybrid, uint32_t row, uint32_t *counts)
{
    const struct block *block = hybrid->block;
    memset(counts, 0, hybrid->options->n_parts * sizeof *counts);
    for (uint32_t i = block->row_begin[row]; i < block->row_begin[row + 1]; i++)
        counts[hybrid->homes[block->row_keys[i]]]++;
}

static void count_users(const struct hybrid *hybrid, uint32_t key, uint32_t *counts)
{
    const struct block *block = hybrid->block;
    memset(counts, 0, hybrid->options->n_parts * sizeof *counts);
    for (uint32_t i = block->key_begin[key]; i < block->key_begin[key + 1]; i++)
        counts[hybrid->parts[block->key_rows[i]]]++;
}

/* The cost of links from `part` to the parts counted. */
static double sum_costs(const struct hybrid *hybrid, uint32_t part, uint64_t n,
                        const uint32_t *counts)
{
    double cost = 0;
    if (hybrid->options->n_per_host == 0 && hybrid->options->costs == NULL)
        return (double)(n - counts[part]);
    for (uint32_t p = 0; p < hybrid->options->n_parts; p++)
        cost += counts[p] * link_cost(hybrid, part, p);
    return cost;
}

/* The part of the lowest score, of those that are allowed; `own` if none is. */
struct choice {
    uint32_t best;
    double score;
    bool is_made;
};

static void consider(struct choice *choice, uint32_t part, double score)
{
    if (choice->is_made && score >= choice->score)
        return;
    *choice = (struct choice){part, score, true};
}

static void place_row(struct hybrid *hybrid, uint32_t row, double traffic)
{
    const struct hybrid_options *options = hybrid->options;
    const double load = (double)row_load(hybrid->block, row, options->balance);
    const double most = (1 + allowed_excess) * hybrid->mean_load;
    const uint32_t degree = block_degree(hybrid->block, row), own = hybrid->parts[row];
    uint32_t counts[MAX_PARTS];
    struct choice choice = {.best = own};
    count_homes(hybrid, row, counts);
    hybrid->loads[own] -= load;
    hybrid->traffic[own] -= degree - counts[own];
    for (uint32_t p = 0; p < options->n_parts; p++)
        if (hybrid->loads[p] + load <= most)
            consider(&choice, p,
                     sum_costs(hybrid, p, degree, counts) +
                         hybrid->row_weight * (hybrid->loads[p] - hybrid->mean_load) +
                         hybrid->traffic_weight * (hybrid->traffic[p] - traffic));
    hybrid->parts[row] = (uint16_t)choice.best;
    hybrid->loads[choice.best] += load;
    hybrid->traffic[choice.best] += degree - counts[choice.best];
}

static void place_key(struct hybrid *hybrid, uint32_t key)
{
    const uint32_t n_parts = hybrid->options->n_parts, own = hybrid->homes[key];
    const uint32_t degree = hybrid->block->key_begin[key + 1] - hybrid->block->key_begin[key];
    uint32_t counts[MAX_PARTS];
    struct choice choice = {.best = own};
    count_users(hybrid, key, counts);
    hybrid->n_homes[own]--;
    for (uint32_t p = 0; p < n_parts; p++)
        consider(&choice, p,
                 sum_costs(hybrid, p, degree, counts) +
                     hybrid->key_weight * (hybrid->n_homes[p] - hybrid->mean_homes));
    hybrid->homes[key] = (uint16_t)choice.best;
    hybrid->n_homes[choice.best]++;
    for (uint32_t p = 0; choice.best != own && p < n_parts; p++)
        hybrid->traffic[p] +=
            (p == own ? counts[p] : 0) - (p == choice.best ? (double)counts[p] : 0);
}

/* Random parts to begin with; and the weights of the balance, such that a part which has a twentieth too much is as bad
 * as one more remote use. */
static void begin(struct hybrid *hybrid)
{
    const struct block *block = hybrid->block;
    const uint32_t n_parts = hybrid->options->n_parts;
    struct rng rng = rng_seed(hybrid->options->seed, 0);
    for (uint32_t k = 0; k < block->n_keys; k++)
        hybrid->n_homes[hybrid->homes[k] = (uint16_t)rng_below(&rng, n_parts)]++;
    for (uint32_t r = 0; r < block->n_rows; r++) {
        hybrid->parts[r] = (uint16_t)rng_below(&rng, n_parts);
        hybrid->loads[hybrid->parts[r]] += (double)row_load(block, r, hybrid->options->balance);
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++)
            hybrid->traffic[hybrid->parts[r]] +=
                hybrid->homes[block->row_keys[i]] != hybrid->parts[r];
    }
    for (uint32_t p = 0; p < n_parts; p++)
        hybrid->mean_load += hybrid->loads[p] / n_parts;
    hybrid->mean_homes = (double)block->n_keys / n_parts;
    hybrid->row_weight = 1 / (allowed_excess * hybrid->mean_load + 1);
    hybrid->key_weight = 1 / (allowed_excess * hybrid->mean_homes + 1);
    hybrid->traffic_weight = 1 / (allowed_excess * mean_traffic(hybrid) + 1);
}

bool hybrid_assign(const struct block *block, const struct hybrid_options *options, uint16_t *parts)
{
    struct hybrid hybrid = {.block = block,
                            .options = options,
                            .parts = parts,
                            .homes = malloc((block->n_keys + 1) * sizeof *hybrid.homes),
                            .loads = calloc(options->n_parts, sizeof *hybrid.loads),
                            .n_homes = calloc(options->n_parts, sizeof *hybrid.n_homes),
                            .traffic = calloc(options->n_parts, sizeof *hybrid.traffic)};
    bool ok = (hybrid.homes != NULL && hybrid.loads != NULL && hybrid.n_homes != NULL &&
               hybrid.traffic != NULL) ||
              task_fail_memory("the parts");
    if (ok)
        begin(&hybrid);
    for (uint64_t i = 0; ok && i < options->n_rounds; i++) {
        double traffic = mean_traffic(&hybrid);
        for (uint32_t k = 0; k < block->n_keys; k++)
            place_key(&hybrid, k);
        for (uint32_t r = 0; r < block->n_rows; r++)
            place_row(&hybrid, r, traffic);
    }
    free(hybrid.homes);
    free(hybrid.loads);
    free(hybrid.n_homes);
    free(hybrid.traffic);
    return ok;
}
