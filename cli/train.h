/*
 * train - what the commands of `tern train` share: their common options, and starting nodes.
 *
 * A command `tern train MODEL` describes its own options, names train_common as the common ones, and
 * calls train_begin() and, after its work, train_end().
 */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "common/train.h"
#include "options.h"

/* Where the common options go. `data`, `n_epochs` and what else depends on the model are filled in by
 * the command's own options. */
extern struct train_options train_args;

/* --nodes, --threads, --link, --policy, --plain, --seed, --time-limit, --eval-every, --patience, --json, --out,
 * --resume. */
enum { TRAIN_N_COMMON = 13 };
extern const struct option train_common[TRAIN_N_COMMON];

/*
 * Reads the command line. When it returns false the command is over with *status: there was something
 * wrong with it, or this process was to start nodes and has waited for them. Else it is one node, and
 * goes on.
 */
bool train_begin(const struct option_set *set, int argc, char **argv, int *status);

/* The exit status of a task that has come to its end; says why if it did not go well. */
int train_end(bool ok);

#endif
