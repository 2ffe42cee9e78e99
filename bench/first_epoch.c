/*
 * first_epoch - what it takes at the least to say which keys of the other node each batch has, where two nodes share no memory: the
 * logarithm of the number of such sets of features. No code that takes all features for equally likely is shorter.
 *
 *   bench/first_epoch libffm-FILE BATCH
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { FEATURES = 5000000, NODES = 2 };

static uint32_t here[FEATURES]; /* the number of the last batch that has it */
static double n_away, set_bits;

/* log2 of the number of sets of n of FEATURES / NODES keys. */
static double bits_of_set(double n)
{
    const double all = (double)FEATURES / NODES;
    return (lgamma(all + 1) - lgamma(n + 1) - lgamma(all - n + 1)) / log(2);
}

int main(int argc, char **argv)
{
    char line[4096];
    FILE *file = argc == 3 ? fopen(argv[1], "r") : NULL;
    const uint64_t batch = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (!file || !batch) {
        fprintf(stderr, "usage: first_epoch FILE BATCH\n");
        return 2;
    }
    double n_in_batch = 0;
    for (uint64_t n = 0; fgets(line, sizeof line, file); n++) {
        const uint32_t number = (uint32_t)(n / batch) + 1;
        for (char *at = strchr(line, ':'); at; at = strchr(at + 1, ':')) {
            const uint64_t key = strtoull(at + 1, &at, 10);
            if (key >= FEATURES || *at != ':')
                return 1;
            n_in_batch += here[key] != number && hash_u64(key) % NODES;
            here[key] = number;
        }
        if ((n + 1) % batch)
            continue;
        n_away += n_in_batch;
        set_bits += bits_of_set(n_in_batch);
        n_in_batch = 0;
    }
    fclose(file);
    printf("%.0f keys of the other node, at least %.0f bytes: %.2f each\n", n_away, set_bits / 8,
           set_bits / 8 / n_away);
    return 0;
}
