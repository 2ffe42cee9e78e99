/*
 * fm_step - margins and gradients of a batch of examples.
 *
 * fm_step_list() lists the distinct features of a batch. The caller fills in weights, and for each tier the vectors of the
 * features that have one. fm_step_learn() then predicts the examples and adds up the gradients, which the
 * caller pushes. A step belongs to one thread, which uses it batch after batch.
 *
 * The gradient of V_i is slope * (x_i V x - x_i^2 V_i), summed over examples (10.16). The second part is a
 * number times V_i, so it is gathered as a number for each feature, and costs one vector operation for each
 * feature and not for each occurrence.
 */
#ifndef TASKS_FM_FM_STEP_H
#define TASKS_FM_FM_STEP_H

#include "common/distinct.h"
#include "common/key_set.h"
#include "common/rng.h"
#include "fm/fm.h"

#define FM_NONE UINT32_MAX

/* The vectors of one tier. Arrays grow with the batch. */
struct fm_vectors {
    size_t n_dims;
    uint32_t *rows; /* by feature: its row, or FM_NONE */
    size_t n_rows;
    uint64_t *keys;     /* by row */
    uint32_t *features; /* by row: the feature's number */
    float *values, *slopes;
    float *squares;        /* by row: |V_i|^2 */
    float *own;            /* by row: the sum of slope * x_i^2 */
    float *sum;            /* V x of one example */
    struct key_set absent; /* features that will never have a vector: of fm_rows.c alone */
};

/* A feature of an example. */
struct fm_entry {
    uint32_t feature;
    float value;
};

/* All zero is a step without tiers. */
struct fm_step {
    struct distinct features;
    size_t capacity;  /* of arrays by feature */
    uint32_t *counts; /* by feature: examples of the batch that have it */
    size_t *last;     /* by feature with a count: its last entry */
    bool *present;    /* by feature: whether it has a weight */
    float *weights, *slopes;
    bool *found; /* scratch, by feature: of fm_rows.c alone */
    uint64_t *some_keys;
    uint32_t *some_counts;
    struct fm_entry *entries; /* of all examples; a repeated feature of an example is one */
    size_t entry_capacity;
    size_t *starts; /* by example of the batch, and one more */
    size_t n_examples;
    size_t start_capacity;
    struct fm_vectors tiers[FM_MAX_TIERS];
    size_t n_tiers;
};

/* fm_step_fini() is due in any case. */
bool fm_step_init(struct fm_step *step, const struct fm_options *options);
void fm_step_fini(struct fm_step *step);

/* Lists the features of the examples first .. end - 1. */
bool fm_step_list(struct fm_step *step, const struct examples *list, size_t first, size_t end);

/* Lists features by their keys, without examples. */
bool fm_step_keys(struct fm_step *step, const uint64_t *keys, size_t n);

/* After the vectors were filled in: what margins need of them. */
void fm_step_prepare(struct fm_step *step);

/* The margin of an example of the batch; leaves V x in the tiers' sums. */
double fm_step_margin(struct fm_step *step, size_t example);

/* Predicts all examples, and makes the slopes of weights and vectors; returns the sum of losses. */
double fm_step_learn(struct fm_step *step, const struct fm_options *options,
                     const struct examples *list, size_t first, struct rng *rng);

#endif
