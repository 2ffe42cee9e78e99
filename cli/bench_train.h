/*
 * bench_train - one training as a process of its own, and what it said of its epochs.
 */
#ifndef CLI_BENCH_TRAIN_H
#define CLI_BENCH_TRAIN_H

#include <stdbool.h>
#include <stddef.h>

enum { TRAINING_MAX_EPOCHS = 200, TRAINING_MAX_WORKERS = 64 };

/* What `tern train --json` says of an epoch. */
enum epoch_figure {
    EPOCH_SECONDS,
    EPOCH_LOSS,
    EPOCH_QUALITY, /* NAN: not measured */
    EPOCH_ACCESSES,
    EPOCH_REMOTE_SHARE,
    EPOCH_BYTES,
    EPOCH_STALENESS_MS,
    EPOCH_N_FIGURES,
};

struct training_epoch {
    double figures[EPOCH_N_FIGURES];
    size_t n_workers;
    double waited[TRAINING_MAX_WORKERS]; /* share of the epoch */
};

struct training {
    size_t n_epochs;
    struct training_epoch epochs[TRAINING_MAX_EPOCHS];
};

/* Runs a command line, "tern", "train", ... and NULL, with --json in it. False after a complaint, also when
 * it takes longer than limit_s, which ends it. */
bool training_run(char *const *words, double limit_s, struct training *training);

#endif
