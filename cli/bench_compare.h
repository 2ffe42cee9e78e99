/*
 * bench_compare - compares trainings of one model: how long they took, and how good it got.
 *
 * Figures are medians over repeats. The speed of a way is the time of another one divided by its own,
 * of the same repeat. The goal is a quality within 90 % of the best that the first way reached: 0.9 of
 * it, or 1/0.9 where less is better. If no training measured a quality, the loss takes its place.
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
    double goal; /* set by comparison_judge */
};

/* Of one way, medians over its repeats. */
struct way_figures {
    double seconds, speed, speed_min, speed_max;
    double cpu_speed;           /* the same of the CPU time that all nodes took */
    double seconds_to_goal;     /* of training; infinity if it was not reached */
    double remote_share, bytes; /* of an epoch */
    size_t n_epochs;            /* that all repeats have */
    struct training_epoch epochs[TRAINING_MAX_EPOCHS];
};

/* Finds the goal, and takes the loss for the quality if there is no other. */
void comparison_judge(struct comparison *comparison);

/* The figures of a way; its speed is relative to `base`. */
void comparison_sum_up(const struct comparison *comparison, const struct way *base,
                       const struct way *way, struct way_figures *figures);

/* Prints a number, or null if it is not finite. */
void print_json_number(int n_decimals, double value);

/* Prints a table, or a JSON object per way. */
void comparison_print(struct comparison *comparison, bool json);

#endif
