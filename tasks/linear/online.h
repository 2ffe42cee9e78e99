/*
 * online - learns from a stream of examples in small batches, by an updater of Tern.
 *
 * For each batch (common/batches.h) a thread pulls the weights of all features of the batch, adds up the slopes of the
 * loss, and pushes them; the updater makes a step of each weight. The loss that is reported is progressive: each example
 * is predicted before it is learned from.
 *
 * The solvers emso-cd and emso-gd take large batches, at least --batch examples each, and solve a problem for each of them
 * (emso.h); they push the change of the weights, divided by the number of workers. Workers do not wait for each other.
 *
 * With --plain the weights are an array of 2^bits, and keys are cut to so many bits.
 */
#ifndef TASKS_LINEAR_ONLINE_H
#define TASKS_LINEAR_ONLINE_H

#include "common/batches.h"
#include "linear/linear.h"

struct online {
    const struct linear_options *options;
    struct train *train;
    struct tern_updater updater;
    struct tern_table *table; /* NULL with --plain */
    size_t length;          /* of a row: the weight and, for adaptiverevision, the sum of slopes */
    float *values, *states; /* with --plain; the intercept is the last */
    size_t n_values;
    struct batches batches;
    struct hold hold;            /* its rule may be to keep nothing back */
    struct online_space *spaces; /* by thread */
};

bool online_open(struct online *online, struct train *train, const struct linear_options *options,
                 const struct examples_options *reading);
void online_close(struct online *online);

/* One thread's part of an epoch, after batches_begin(). */
bool online_epoch(struct online *online, size_t thread);

/* The weights of n keys, 0 for those that have none. */
bool online_pull(struct online *online, struct tern_worker *worker, const uint64_t *keys, size_t n,
                 double *weights);

/* Which element of the array a key has, with --plain. */
size_t online_slot(const struct online *online, uint64_t key);

#endif
