/*
 * negatives - keys of wrong answers, chosen by Tern's sampling manager.
 *
 * A worker orders them when it prepares a batch and receives them when it uses the batch, so that Tern has time to bring their
 * rows. With --plain there is no manager: negatives_are_managed() says no, and the model draws them itself.
 */
#ifndef TASKS_NEGATIVES_H
#define TASKS_NEGATIVES_H

#include "common/params.h"

struct negatives {
    struct tern_dist *dist; /* NULL with --plain */
};

/* The names of the levels of conformity, in the order of enum tern_conformity. */
extern const char *const negatives_levels[];

/* What it opens ends with the parameters. */
bool negatives_open(struct negatives *negatives, const struct params *params,
                    const struct tern_target *target, enum tern_conformity conformity);

/* Ends them, to open them anew; none may be ordered and not received. */
bool negatives_close(struct negatives *negatives);

static inline bool negatives_are_managed(const struct negatives *negatives)
{
    return negatives->dist != NULL;
}

/* Orders n keys; *order is their number. Does nothing with --plain. */
bool negatives_order(const struct negatives *negatives, struct tern_worker *worker, size_t n,
                     uint64_t *order);

/* Ends an order that is not needed. */
bool negatives_cancel(const struct negatives *negatives, struct tern_worker *worker,
                      uint64_t order);

/* Receives the n keys of an order. */
bool negatives_receive(struct tern_worker *worker, uint64_t order, size_t n, uint64_t *keys);

#endif
