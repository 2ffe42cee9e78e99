/*
 * bench_train - runs a training as a separate process and reads its figures per epoch.
 */
#ifndef CLI_BENCH_TRAIN_H
#define CLI_BENCH_TRAIN_H

#include <stdbool.h>
#include <stddef.h>

enum { TRAINING_MAX_EPOCHS = 200, TRAINING_MAX_WORKERS = 64, TRAINING_MAX_NODES = 16 };

/* What `tern train --json` prints about an epoch. */
enum epoch_figure {
    EPOCH_SECONDS,
    EPOCH_CPU_SECONDS, /* of all nodes */
    EPOCH_LOSS,
    EPOCH_QUALITY, /* NAN: not measured */
    EPOCH_ACCESSES,
    EPOCH_REMOTE_SHARE,
    EPOCH_BYTES,
    EPOCH_STALENESS_MS,
    EPOCH_REQUEST_BYTES,
    EPOCH_REPLY_BYTES,
    EPOCH_MEMORY_BYTES,
    EPOCH_ACTIVE, /* these of tern train linear --solver dbpg alone */
    EPOCH_WAITING,
    EPOCH_SETUP_S,
    EPOCH_N_FIGURES,
};

struct training_epoch {
    double figures[EPOCH_N_FIGURES];
    size_t n_workers;
    double waited[TRAINING_MAX_WORKERS]; /* share of the epoch */
};

struct training {
    /* Bytes of all epochs: row i uses keys that column j has; 0 with more nodes or none. */
    double traffic[TRAINING_MAX_NODES][TRAINING_MAX_NODES];
    size_t n_epochs;
    struct training_epoch epochs[TRAINING_MAX_EPOCHS];
};

/* Runs a command line: "tern", "train", ..., "--json", ..., NULL. False after an error message, also if it takes
 * longer than limit_s; then it is ended. */
bool training_run(char *const *words, double limit_s, struct training *training);

/* What a command line prints, of the caller; false after an error message. */
bool training_output(char *const *words, double limit_s, char **text);

/* The number in a field of a line of JSON; NAN if there is none. */
double training_number(const char *line, const char *field);

/* A training to run: `tern train MODEL --json` with these options. */
struct training_order {
    const char *model, *data;
    size_t n_epochs, n_nodes, n_threads;
    bool is_plain;        /* on ordinary arrays */
    const char *policy;   /* of a cluster; NULL: one process */
    const char *link;     /* of a cluster; or NULL */
    char *const *further; /* words that go to `tern train` as they are */
    size_t n_further;     /* up to LIST_MAX */
    double limit_s;
};

bool training_run_order(const struct training_order *order, struct training *training);

#endif
