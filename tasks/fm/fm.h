/*
 * fm - factorization machines whose embeddings are as large as the data can support (M. Li, chapter 10: DiFacto).
 *
 * A feature i has a weight w_i and, once it has occurred often enough, an embedding V_i. The margin of an example x is
 *
 *   g(x) = <w, x> + 1/2 (|V x|^2 - sum_i x_i^2 |V_i|^2)
 *
 * Weights and embeddings are rows of separate sparse tables, each tier of dimensions one more: the table of a tier admits the
 * features that have occurred more than `threshold` times. A tier is used for a feature only if all tiers before it
 * are, so the tiers of a feature are its k_i dimensions, and the term above is a sum over tiers.
 *
 *   fm_train.c     reads data, learns, measures, saves
 *   fm_step.c      margins and gradients of a batch: no tables, no files
 *   fm_rows.c      the rows of a batch, in tables or in arrays
 *   fm_files.c     the folder of a model
 *   fm_predict.c   predictions by a saved model
 */
#ifndef TASKS_FM_FM_H
#define TASKS_FM_FM_H

#include "common/examples.h"
#include "common/loss.h"
#include "common/train.h"

enum { FM_MAX_TIERS = 4, FM_MAX_DIMS = 1024 };

/* The key of the intercept, which every example has with the value 1, and which has no embedding. Linear models have
 * the same. */
#define FM_INTERCEPT_KEY (UINT64_MAX - 1)

struct fm_tier {
    uint32_t n_dims;    /* beyond those of the tiers before */
    uint32_t threshold; /* a feature has them when it has occurred more often */
};

struct fm_options {
    enum loss_kind loss; /* logistic or squared */
    struct fm_tier tiers[FM_MAX_TIERS];
    size_t n_tiers; /* 0: a linear model */
    bool has_intercept;
    bool no_shrink;    /* embeddings are used also where the weight is 0 */
    double rate, beta; /* of weights, by ftrl */
    double l1, l2;     /* of weights, as ftrl takes them */
    double v_rate;     /* of embeddings, by adagrad */
    double v_beta;
    double v_l2;    /* shrinks embeddings of the features of a batch (10.14) */
    double v_scale; /* embeddings start uniformly in [-v_scale, v_scale] */
    double dropout; /* share of the elements of V's gradient that become 0 */
    double clip;    /* bound of the elements of V's gradient; 0: none */
    bool
        normalise; /* V's gradient is the mean over a feature's examples in the batch, not the sum */
    int64_t min_count; /* occurrences from which on a feature has a weight */
    double
        negatives; /* share of negative examples that are learned from, each with the weight 1 / share */
    double positive_weight;
    int64_t n_expected; /* different features, for counters */
    int64_t n_batch;
    struct examples_options examples;
    bool no_names;      /* the model has keys alone */
    const char *test;   /* files of test examples, or NULL */
    const char *metric; /* that decides which model is the best; NULL: log loss or RMSE */
};

/* Reads "16@10", "8@10,64@1000" or "16", which is "16@0"; "0" is no tier. Dimensions and thresholds must rise. */
bool fm_read_tiers(const char *text, struct fm_options *options);

/* Whether features are counted: some get weights or dimensions later. */
bool fm_counts(const struct fm_options *options);

bool fm_train(const struct train_options *train_options, const struct fm_options *options);

struct fm_question {
    const char *folder; /* of the model */
    const char *data;   /* "-": standard input */
    struct examples_options examples;
    bool margins; /* instead of probabilities */
    bool json;    /* the quality on labelled examples, instead of predictions */
};

/* Prints a prediction per example. */
bool fm_predict(const struct fm_question *question);

#endif
