/*
 * clicks - makes examples like those of online advertising: each has a few of very many features, whose frequencies follow
 * Zipf's law, and a label that a planted model has drawn.
 *
 * Without pairs, an example has `n_each` different features, and feature k is the k-th most frequent. With pairs, there are
 * `n_each` fields of n_features / n_each features, and an example has one feature of each field.
 *
 * A share of the features matter: they have a weight and, with pairs, a short vector. The margin of an example is the sum
 * of the weights of its features, with pairs also of the inner products of every two vectors, plus a constant; both parts
 * are scaled to the promised standard deviation, and the constant gives the promised share of positive labels. A label is 1
 * with the probability 1 / (1 + e^-margin), else 0. No model can be expected to have a lower log loss than the planted one,
 * which clicks_make() reports.
 *
 * Weights are hashes of seed and feature, so memory does not grow with the data.
 */
#ifndef TASKS_CLICKS_H
#define TASKS_CLICKS_H

#include <stdbool.h>
#include <stdint.h>

enum { CLICKS_MAX_EACH = 1000 };

struct clicks {
    int64_t n_rows, n_test_rows;
    int64_t n_features;
    int64_t n_each; /* features of an example; at most CLICKS_MAX_EACH */
    double skew;
    double share;    /* of the features that matter */
    double strength; /* standard deviation of the margin */
    double positive; /* share of positive labels */
    bool has_pairs;
    int64_t seed;
};

/* Writes train.txt and test.txt to `folder`: lines of libsvm, with pairs of libffm. *log_loss becomes that of the planted
 * model on the test examples; NaN if there are none. False after task_fail(). */
bool clicks_make(const struct clicks *clicks, const char *folder, double *log_loss);

#endif
