/*
 * checkpoints - writes training to disk every few epochs, and continues from there. See train.h.
 *
 * A checkpoint DIR/epoch-N has the tables, and two notes of each node: "mark", how far training is, and "model", what the
 * task keeps outside of tables. Everything else that an epoch depends on (the order of the data, random numbers) is a
 * function of the seed and of the epochs done: a task makes it so when it begins, and again after each checkpoint (`renew`
 * in train.h). So one worker that continues from a checkpoint computes what it would have computed without a break.
 *
 * The main thread of each node calls these functions, all nodes together.
 */
#ifndef TASKS_CHECKPOINTS_H
#define TASKS_CHECKPOINTS_H

#include "common/train.h"

/* What is known of the course of training. */
struct checkpoint_mark {
    uint64_t bytes;  /* of this struct */
    uint64_t digest; /* of the data */
    int64_t n_epochs_done, best_epoch, n_since_best;
    int64_t saved_epoch; /* of the model in `out`; 0: none was saved */
    int64_t is_measured;
    double best[TRAIN_MAX_MEASURES];
    char task[16];
    char out[4096]; /* without symbolic links */
};

/* `recover` of the tables (tern.h): if a run has backups and writes checkpoints, keys that are lost are as in the last one. */
static inline const char *checkpoints_recover(const struct train *train)
{
    const struct train_options *options = train->options;
    return options->backups > 0 && options->checkpoint_every > 0 ? options->checkpoints : NULL;
}

/* Looks whether --resume names a checkpoint, or a folder of which it takes the newest, and opens it. Refuses a folder of
 * --checkpoints that has newer ones. */
bool checkpoints_open(struct train *train);
void checkpoints_close(struct train *train);

/* Whether the data are those of the checkpoint, if there is one. */
bool checkpoints_check_data(struct train *train, uint64_t digest);

/* Gives a table, which was just opened if `ok`, the rows of the checkpoint, if there is one. */
bool checkpoints_restore(struct train *train, struct tern_table *table, bool ok);

/* The number of a table in the checkpoint. */
bool checkpoints_find_table(struct train *train, const char *name, size_t *number);

/* The note "model" of a node that wrote the checkpoint; the caller frees it. NULL after task_fail(). */
void *checkpoints_recall(struct train *train, uint32_t node, size_t *bytes);

/* Whether a checkpoint is due after an epoch. */
bool checkpoints_is_due(const struct train *train);

/* Waits for the checkpoint that is being written, if there is one. */
bool checkpoints_finish(struct train *train);

/* Takes a checkpoint, and lets it be written while training goes on. */
bool checkpoints_write(struct train *train, const struct train_task *task, void *model,
                       const struct checkpoint_mark *mark);

#endif
