/*
 * bench_compare - compares trainings of one model: how long they took, and how good it got.
 *
 * Figures are medians over repeats. The speed of a way is the time of the first one divided by its own,
 * of the same repeat. The goal is a quality within 90 % of the best that the first one reached: 0.9 of
 * it, or 1/0.9 where less is better. When no training measured a quality, the loss stands in for it.
 */
#ifndef CLI_BENCH_COMPARE_H
#define CLI_BENCH_COMPARE_H

#include "bench_train.h"

enum { COMPARISON_MAX_REPEATS = 9, COMPARISON_MAX_WAYS = 66 };

/* One way to train, and what it took in each repeat. */
struct way {
    const char *system; /* "plain", "one-node" or the policy */
    bool is_cluster;
    struct training runs[COMPARISON_MAX_REPEATS];
};

struct comparison {
    const char *task;
    const char *measure; /* of quality */
    bool lower_is_better;
    size_t n_workers, n_repeats;
    struct way *ways;
    size_t n_ways;
};

/* Prints a table, or a JSON object per way. */
void comparison_print(struct comparison *comparison, bool json);

#endif
