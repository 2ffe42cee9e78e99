/*
 * graph - prints a made-up graph of rows and the keys they use, a row per line, for tern partition --format lists.
 *
 *   bench/graph ROWS KEYS EACH [SEED]
 *
 * Rows belong to groups, a thousand keys to each. Four of five keys of a row are of its group, the others are any; the
 * density of a key falls as (its number in its group, or among all) ^ (-2/3).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/rng.h"

enum { KEYS_PER_GROUP = 1000 };

/* One of n, small ones more often. */
static uint64_t draw(struct rng *rng, uint64_t n)
{
    const double x = (double)rng_below(rng, UINT64_C(1) << 32) / 4294967296.0;
    return (uint64_t)((double)n * x * x * x);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "graph: bench/graph ROWS KEYS EACH [SEED]\n");
        return 2;
    }
    const uint64_t n_rows = strtoull(argv[1], NULL, 10), n_keys = strtoull(argv[2], NULL, 10),
                   n_each = strtoull(argv[3], NULL, 10);
    const uint64_t n_groups = n_keys / KEYS_PER_GROUP + 1;
    struct rng rng = rng_seed(argc > 4 ? strtoull(argv[4], NULL, 10) : 1, 0);
    for (uint64_t row = 0; row < n_rows; row++) {
        const uint64_t group = rng_below(&rng, n_groups);
        printf("%" PRIu64, row);
        for (uint64_t i = 0; i < n_each; i++) {
            uint64_t key = rng_below(&rng, 5) == 0
                               ? draw(&rng, n_keys)
                               : group * KEYS_PER_GROUP + draw(&rng, KEYS_PER_GROUP);
            printf(" %" PRIu64, key < n_keys ? key : n_keys - 1);
        }
        printf("\n");
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
