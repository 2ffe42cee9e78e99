/* refine - see refine.h. */
#include "partition/refine.h"

#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

/* A key that a part uses already counts so much more than one that is at home there. The first is what remote pairs
 * count, the second what remote accesses do; among parts that are as good in one, the other decides. */
enum { PAIR_WEIGHT = 16 };

/* What a row pays for its place in a part that is full, as remote pairs. */
static const double full_price = 8;

struct refiner {
    const struct block *block;
    uint32_t n_parts;
    size_t n_words;
    enum balance balance;
    const uint64_t *max_loads;
    int32_t *counts;
    uint64_t *sets;  /* of the keys: the parts whose count is above 0 */
    uint16_t *homes; /* of the keys: the parts with the highest count, when the pass began */
    uint64_t *loads;
    uint16_t *parts;
    double mean_load, mean_row; /* of a part, of a row of the block */
    double *prices;             /* of the parts, for a mean row; NULL: places cost nothing */
};

/* Fills in the sets and homes. */
static void look_at_keys(struct refiner *refiner)
{
    for (uint32_t k = 0; k < refiner->block->n_keys; k++) {
        const int32_t *counts = refiner->counts + (size_t)k * refiner->n_parts;
        uint32_t home = 0;
        for (uint32_t p = 0; p < refiner->n_parts; p++) {
            home = counts[p] > counts[home] ? p : home;
            if (counts[p] > 0)
                set_add(refiner->sets + k * refiner->n_words, p);
        }
        refiner->homes[k] = (uint16_t)home;
    }
}

/* The price grows from the mean load to the highest one. */
static void set_price(struct refiner *refiner, uint32_t part)
{
    const double excess = (double)refiner->loads[part] - refiner->mean_load;
    const double room = (double)refiner->max_loads[part] - refiner->mean_load;
    if (refiner->prices != NULL)
        refiner->prices[part] =
            excess > 0 && room > 0 ? full_price * PAIR_WEIGHT * excess / room : 0;
}

static double price_of(const struct refiner *refiner, uint32_t part, uint64_t load)
{
    return refiner->prices != NULL ? refiner->prices[part] * (double)load / refiner->mean_row : 0;
}

/* The part that a row is best in; its own unless another one is better. */
static uint32_t best_part(const struct refiner *refiner, uint32_t row)
{
    const struct block *block = refiner->block;
    const uint32_t own = refiner->parts[row];
    const uint64_t load = row_load(block, row, refiner->balance);
    uint32_t used[MAX_PARTS], at_home[MAX_PARTS], n_own = 0;
    double scores[MAX_PARTS];
    for (uint32_t i = block->row_begin[row]; i < block->row_begin[row + 1]; i++)
        n_own += refiner->counts[(size_t)block->row_keys[i] * refiner->n_parts + own] == 1;
    if (n_own == 0 && price_of(refiner, own, load) <= 0) /* nothing can be saved by moving it */
        return own;
    memset(used, 0, refiner->n_parts * sizeof *used);
    memset(at_home, 0, refiner->n_parts * sizeof *at_home);
    for (uint32_t i = block->row_begin[row]; i < block->row_begin[row + 1]; i++) {
        const size_t key = block->row_keys[i];
        at_home[refiner->homes[key]]++;
        set_count(refiner->sets + key * refiner->n_words, refiner->n_words, used);
    }
    /* In its own part a row shares what others there use. */
    used[own] = block_degree(block, row) - n_own;
    for (uint32_t p = 0; p < refiner->n_parts; p++)
        scores[p] = PAIR_WEIGHT * (double)used[p] + at_home[p] - price_of(refiner, p, load);
    uint32_t best = own;
    for (uint32_t p = 0; p < refiner->n_parts; p++) {
        if (p == own || refiner->loads[p] + load > refiner->max_loads[p])
            continue;
        if (scores[p] > scores[best])
            best = p;
    }
    return best;
}

static void move(struct refiner *refiner, uint32_t row, uint32_t to)
{
    const struct block *block = refiner->block;
    const uint32_t from = refiner->parts[row];
    const uint64_t load = row_load(block, row, refiner->balance);
    for (uint32_t i = block->row_begin[row]; i < block->row_begin[row + 1]; i++) {
        const size_t key = block->row_keys[i];
        int32_t *counts = refiner->counts + key * refiner->n_parts;
        if (--counts[from] == 0)
            set_remove(refiner->sets + key * refiner->n_words, from);
        if (counts[to]++ == 0)
            set_add(refiner->sets + key * refiner->n_words, to);
    }
    refiner->parts[row] = (uint16_t)to;
    refiner->loads[from] -= load;
    refiner->loads[to] += load;
    set_price(refiner, from);
    set_price(refiner, to);
}

/* Gives the parts their prices; false when memory runs out. */
static bool set_prices(struct refiner *refiner)
{
    uint64_t rows = 0;
    refiner->prices = malloc(refiner->n_parts * sizeof *refiner->prices);
    if (refiner->prices == NULL)
        return task_fail_memory("the prices of parts");
    for (uint32_t r = 0; r < refiner->block->n_rows; r++)
        rows += row_load(refiner->block, r, refiner->balance);
    refiner->mean_row = rows ? (double)rows / refiner->block->n_rows : 1;
    for (uint32_t p = 0; p < refiner->n_parts; p++)
        refiner->mean_load += (double)refiner->loads[p] / refiner->n_parts;
    for (uint32_t p = 0; p < refiner->n_parts; p++)
        set_price(refiner, p);
    return true;
}

bool refine_pass(const struct block *block, uint32_t n_parts, enum balance balance,
                 const uint64_t *max_loads, int32_t *counts, uint64_t *loads, uint16_t *parts,
                 bool has_prices, uint64_t *n_moved)
{
    struct refiner refiner = {.block = block,
                              .n_parts = n_parts,
                              .n_words = set_words(n_parts),
                              .balance = balance,
                              .max_loads = max_loads,
                              .counts = counts,
                              .loads = loads,
                              .parts = parts};
    refiner.sets = calloc(block->n_keys * refiner.n_words + 1, sizeof *refiner.sets);
    refiner.homes = malloc((block->n_keys + 1) * sizeof *refiner.homes);
    bool ok =
        (refiner.sets != NULL && refiner.homes != NULL) || task_fail_memory("the parts of keys");
    ok = ok && (!has_prices || set_prices(&refiner));
    *n_moved = 0;
    if (ok)
        look_at_keys(&refiner);
    for (uint32_t r = 0; ok && r < block->n_rows; r++) {
        uint32_t best = best_part(&refiner, r);
        if (best == parts[r])
            continue;
        move(&refiner, r, best);
        (*n_moved)++;
    }
    free(refiner.sets);
    free(refiner.homes);
    free(refiner.prices);
    return ok;
}
