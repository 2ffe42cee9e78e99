/*
 * hold - keeps gradients back by so many updates, as if many workers computed them at the same time, some of them slowly.
 *
 * Every gradient that is kept back has a worker of Tern of its own, which pulled the weights and will push the gradient.
 * So the table counts the delay of each update as it would count that of a worker on another host. Delays are numbers of
 * updates, not times: one thread makes everything happen, and a run with the same seed is the same run.
 *
 *   uniform:T    a delay is any of 0 to 2 T
 *   scaled:T     the same, but at most half as many as there have been updates so far
 *   half-slow:T  T + 1 workers, of which every other one is slowed down by a factor of 1 to 4 for each gradient; the mean
 *                of all delays is T, whatever the workers do: each waits while the others push
 *
 * For each gradient the model calls hold_begin(), pulls with the worker that it returns, computes, and calls hold_keep().
 */
#ifndef TASKS_LINEAR_HOLD_H
#define TASKS_LINEAR_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rng.h"
#include "tern/tern.h"

enum hold_kind { HOLD_NONE, HOLD_UNIFORM, HOLD_SCALED, HOLD_HALF_SLOW };

struct hold_rule {
    enum hold_kind kind;
    uint64_t mean; /* T */
};

enum { HOLD_MAX_MEAN = 10000 };

/* Reads "uniform:T" and so on; false if the text is none of them. */
bool hold_parse(const char *text, struct hold_rule *rule);

struct held;

struct hold {
    struct hold_rule rule;
    struct tern_node *node;
    struct tern_table *table;
    size_t length; /* of a row */
    struct rng rng;
    struct held *slots;
    size_t n_slots;
    size_t current; /* the slot of the gradient that is being computed */
    uint64_t n_begun;
    double now; /* a gradient is pushed when its time has come */
};

/* hold_fini() is due in any case. */
bool hold_init(struct hold *hold, struct hold_rule rule, struct tern_node *node,
               struct tern_table *table, size_t length, uint64_t seed);
void hold_fini(struct hold *hold);

/* Pushes what is due; *worker is to pull the weights for the next gradient. */
bool hold_begin(struct hold *hold, struct tern_worker **worker);

/* Keeps the next gradient back: n rows. */
bool hold_keep(struct hold *hold, const uint64_t *keys, size_t n, const float *rows);

/* Ends an epoch: pushes all that is left if all is well so far, and closes the workers. */
bool hold_end(struct hold *hold, bool ok);

#endif
