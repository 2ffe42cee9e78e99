/*
 * train - what the commands of `tern train` share: general options, and starting nodes.
 *
 * A command `tern train MODEL` describes its own options, adds train_general, and calls train_begin() and,
 * after its work, train_end().
 */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "common/train.h"
#include "options.h"

/* Where the general options go. `data`, `n_epochs` and what else depends on the model are filled in by
 * the command's own options. */
extern struct train_options train_args;

/* --nodes, --threads, --link, --policy, --hot, --filters, --backups, --plain, --ahead, --seed, --time-limit, --eval-every, --clocks, --slow,
 * --json, --out, --overwrite, --resume, --checkpoint-every, --checkpoints. */
enum { TRAIN_N_GENERAL = 21 };
extern const struct option train_general[TRAIN_N_GENERAL];

/* --patience, whose default depends on the model. */
#define TRAIN_PATIENCE(default_patience)                                                   \
    {                                                                                      \
        "patience", OPTION_INT, &train_args.patience, default_patience, "N",               \
            "end after N evaluations without improvement; 0: go on", .min = 0, .max = 1e9, \
                                                                     .group = "Training"   \
    }

/* --placement, for models that take one. */
#define TRAIN_PLACEMENT                                                                            \
    {                                                                                              \
        "placement", OPTION_STRING, &train_args.placement,                                         \
            .takes = "DIR",                                                                        \
            .help = "a folder of 'tern partition' for this data: each row is learned from at the " \
                    "node of its part, and keys are at home where it says",                        \
            .group = "Cluster"                                                                     \
    }

/*
 * Reads the command line. When it returns false the command is over with *status: there was something
 * wrong with it, or this process was to start nodes and has waited for them. Else it is one node, and
 * goes on.
 */
bool train_begin(const struct option_set *set, int argc, char **argv, int *status);

/* The exit status of a task that has come to its end; says why if it did not go well. */
int train_end(bool ok);

#endif
