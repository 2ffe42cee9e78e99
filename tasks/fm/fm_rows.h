/*
 * fm_rows - the weights and vectors of features: rows of tables or, with --plain, of arrays.
 *
 * The table `weights` has a row for each feature, or for those that have occurred --min-count times. Each tier of
 * dimensions is a table of its own, which admits features by the number of their occurrences (docs/tables.md). Occurrences
 * are counted in the first epoch alone, so that the count of a feature is the number of examples that have it (10.8).
 *
 * With --plain, arrays have 2^bits rows, and keys are cut to so many bits. All threads change them without any order.
 */
#ifndef TASKS_FM_FM_ROWS_H
#define TASKS_FM_FM_ROWS_H

#include "fm/fm_step.h"

/* Rows in arrays. */
struct fm_array {
    size_t length;
    uint32_t threshold;
    float *values, *states;
    uint32_t *counts;   /* NULL: every row is there */
    unsigned char *has; /* whether a row has its initial value */
};

struct fm_rows {
    const struct fm_options *options;
    struct train *train;
    struct tern_updater weight_updater, vector_updater;
    struct tern_table *weights, *tiers[FM_MAX_TIERS]; /* NULL with --plain */
    struct fm_array weight_array, tier_arrays[FM_MAX_TIERS];
    size_t n_slots; /* of arrays; the intercept is the last */
    bool is_counting;
    bool knows_absent; /* occurrences are not counted any more, and asking takes a message */
};

/* fm_rows_close() is due in any case. */
bool fm_rows_open(struct fm_rows *rows, struct train *train, const struct fm_options *options);
void fm_rows_close(struct fm_rows *rows);

/* An epoch begins, in which occurrences are counted or not. */
bool fm_rows_begin(struct fm_rows *rows, bool is_counting);

/* Fills in weights and vectors of a step's features. A feature has vectors in use if its weight is not 0 (--no-shrink: in
 * any case) and it is frequent enough. */
bool fm_rows_pull(struct fm_rows *rows, struct tern_worker *worker, struct fm_step *step);

/* Pushes what a step has learned, and counts its features in the first epoch. */
bool fm_rows_push(struct fm_rows *rows, struct tern_worker *worker, struct fm_step *step);

/* Says that n keys will be used at a clock. */
bool fm_rows_intend(struct fm_rows *rows, struct tern_worker *worker, const uint64_t *keys,
                    size_t n, uint64_t clock);

/* Sets a feature: its weight, and the vectors of n_tiers tiers, one behind the other. */
bool fm_rows_set(struct fm_rows *rows, struct tern_worker *worker, uint64_t key, float weight,
                 const float *vectors, size_t n_tiers);

/* The next keys that have a weight, at least *next; at most `capacity`. *n is 0 at the end. */
bool fm_rows_keys(struct fm_rows *rows, struct tern_worker *worker, uint64_t *next, size_t capacity,
                  uint64_t *keys, size_t *n);

#endif
