/*
 * train - trains any model: nodes, threads, epochs, evaluation, saving, ending.
 *
 * A task opens a train, opens its parameters, and calls train_loop() with the functions of its model.
 * Every node runs the same program. The main thread of each node calls the collective functions (opening, the
 * loop, evaluation) in the same order. train_agree() makes a failure of one node known to all. The first
 * node that failed keeps its sentence; that of the others is empty, and they print nothing.
 *
 *   train.c    opens and closes nodes and workers; collective functions
 *   epochs.c   the loop
 *   checkpoints.c   training that continues from disk
 *   report.c   what it prints
 *   traffic.c  the bytes between each two nodes
 */
#ifndef TASKS_TRAIN_H
#define TASKS_TRAIN_H

#include <stdatomic.h>

#include "common/params.h"
#include "common/placement.h"
#include "common/progress.h"
#include "common/straggler.h"
#include "common/team.h"

enum { TRAIN_MAX_PARAMS = 8, TRAIN_ALIKE_BYTES = 2048 };

/* What the user may choose for every task. */
struct train_options {
    int64_t n_nodes;   /* that were asked for, if more than 1: others are refused */
    int64_t n_threads; /* of each node */
    int64_t seed;
    int64_t n_epochs;
    int64_t eval_every;    /* epochs between evaluations; the last epoch is always evaluated */
    int64_t patience;      /* evaluations without improvement until training ends; 0: never */
    double ahead_s;        /* of work that is prepared before it is used (loader.h) */
    int64_t n_clocks;      /* of an epoch, for policies with bounds; 0: one for each batch */
    int64_t slow;          /* a node of stragglers (straggler.h); -1: none. Only with n_clocks */
    double time_limit_s;   /* 0: none */
    bool json;             /* a line per epoch on standard output */
    bool plain;            /* arrays instead of tables */
    bool overwrite;        /* `out` may be a model of another run */
    const char *task;      /* "kge" */
    const char *policy;    /* of the tables; NULL: Tern's default */
    const char *filters;   /* of the tables' messages; NULL: none */
    double hot_factor;     /* of policy `multi`; 0: Tern's default */
    int64_t staleness_ms;  /* age that replicas may have; 0: Tern's default */
    int64_t backups;       /* of the tables: nodes that may die (docs/survive.md) */
    const char *data;      /* a file or folder */
    const char *out;       /* the folder of the model; NULL: it is not kept */
    const char *placement; /* the folder of a partition of the data (placement.h); NULL: none */
    const char *resume;    /* the folder of a model or checkpoint to go on with; NULL: begin anew */
    const char *checkpoints;  /* the folder of the checkpoints of this run */
    int64_t checkpoint_every; /* epochs between them; 0: there are none */
    const char *settings; /* the options of the model, for model.txt: lines of a name and a value */
    const char *json_settings; /* all options as a JSON object */
    /* What all nodes must have alike, in lines: "has --epochs 20", "was not given --out". */
    char alike[TRAIN_ALIKE_BYTES];
};

struct train {
    const struct train_options *options;
    struct tern_node *node; /* NULL with --plain */
    uint32_t self, n_nodes;
    bool *is_present; /* by node: whether it was there when all last agreed; NULL: one node */
    uint32_t n_present, rank;     /* how many were, and how many of those have lower numbers */
    uint32_t n_sharing;           /* nodes that the data was shared out among */
    size_t n_threads;             /* of this node */
    struct tern_worker **workers; /* one per thread; NULL with --plain */
    struct params params[TRAIN_MAX_PARAMS];
    size_t n_params;
    struct placement placement; /* its folder is NULL: there is none */
    int64_t n_epochs_done;      /* set by a task that resumes, or by the checkpoint */
    bool
        is_converged; /* set by evaluate() at all nodes alike: further epochs would change nothing */
    bool has_saved;   /* what is in options->out was written by this run */
    int64_t saved_epoch;          /* the epoch after which it was */
    double *waited_s;             /* by each worker until the last epoch's end */
    struct straggler *stragglers; /* one per thread; NULL: this node is none of --slow */
    uint64_t epoch_clock; /* of the workers at the begin of this epoch; only with n_clocks */
    struct progress progress;
    struct tern_worker *reporter; /* tells node 0 how far this node is, for its bar; or NULL */
    struct tern_table *n_done;    /* by node; with a reporter */
    double n_epoch_examples;      /* of all nodes */
    double evaluation_s;          /* how long the last one took */
    atomic_bool stopping;
    double started_s;
    struct tern_checkpoint *checkpoint; /* to go on from; NULL: none */
    struct checkpoint_mark *mark;       /* of that checkpoint; NULL: none */
    uint64_t digest;                    /* of the data */
    int64_t writing_epoch;              /* of the checkpoint that is being written; 0: none */
    int64_t written_epoch;              /* of the last one that is on disk */
};

/* What a task keeps outside of tables: malloc'ed. */
struct train_note {
    void *data;
    size_t bytes;
};

/* A figure that tells how good a model is. */
struct train_measure {
    const char *name;  /* in JSON: "hits_10" */
    const char *title; /* for people: "Hits@10" */
    bool is_detail;    /* has no column; printed at the end of training */
};

enum { TRAIN_MAX_MEASURES = 24 };

/* The values of a task's measures, in their order. The first one decides which model is the best. */
struct train_quality {
    bool is_measured;
    double values[TRAIN_MAX_MEASURES];
};

/* How good a model is now; called by all nodes. */
typedef bool train_evaluate_function(void *model, struct train *train,
                                     struct train_quality *quality);

/* A model. `model` is the task's own. */
struct train_task {
    const char *unit; /* what is counted: "triples" */
    bool lower_is_better;
    const struct train_measure *measures; /* what evaluate() fills in */
    size_t n_measures;
    /* Called before each epoch by the main thread of each node. NULL: there is nothing to do. */
    bool (*begin)(void *model, struct train *train);
    /* One thread's share of one epoch. It calls train_done() after each batch and ends early when that
     * returns false. Returns false after task_fail(). */
    bool (*epoch)(void *model, struct train *train, size_t thread, int64_t epoch);
    /* Called after each epoch by the main thread of each node; the epoch's time includes it. NULL: there is nothing to
     * do. */
    bool (*end)(void *model, struct train *train);
    /* Examples of this node in an epoch, for the progress bar. */
    uint64_t (*n_examples)(void *model);
    train_evaluate_function *evaluate; /* NULL: it is not measured */
    /* Brings to node 0 what it needs to save the model; called by all nodes. NULL: it has all. */
    bool (*gather)(void *model, struct train *train);
    /* Writes the model to options->out; called at node 0 alone. */
    bool (*save)(void *model, struct train *train);
    /* What this node keeps outside of tables, for a checkpoint; called by all nodes. NULL: nothing. */
    bool (*note)(void *model, struct train *train, struct train_note *note);
    /* Makes the order of the data and the random numbers what they are in a run that begins with a checkpoint of
     * n_epochs_done epochs. Called where nothing is prepared ahead. NULL: they are so already. */
    bool (*renew)(void *model, struct train *train);
    /* A node was given up: takes this node's part of the data anew, as number train->rank of train->n_present. Called before
     * the next epoch or evaluation. NULL: the model cannot do that, and so has no --backups. */
    bool (*share_out)(void *model, struct train *train);
};

/* Opens the node and its workers; fails everywhere when nodes were started with different options. */
bool train_open(struct train *train, const struct train_options *options);

/* Closes workers, parameters and node; `ok` says whether all went well so far, and so does the result.
 * Where there are several nodes, a failure is said here, and the sentence is empty afterwards. */
bool train_close(struct train *train, bool ok);

/* Leaves the other nodes, which continue without this one, and ends the process. False after task_fail(): then this node can only be
 * closed. */
bool train_leave(struct train *train);

/* Opens parameters that train_close() closes, with the rows of the checkpoint that training goes on from; NULL after
 * task_fail(). */
struct params *train_params(struct train *train, const char *name, uint64_t n_keys, size_t length,
                            tern_init_function *init, void *context);

/* What is known of keys before the first step. */
struct train_keys {
    const struct tern_placement *placement; /* NULL: none; copied */
    bool is_ranked;              /* frequent ones come first: their homes are scattered */
    const uint64_t *frequencies; /* how often each is used; NULL: not known; copied */
    uint32_t
        rare_staleness_ms; /* of keys used at most rare_factor times as often as the average, under */
    double rare_factor;    /* `adaptive` without --staleness; 0: as others */
};

/* The same with what is known of the keys. */
struct params *train_params_with(struct train *train, const struct train_keys *keys,
                                 const char *name, uint64_t n_keys, size_t length,
                                 tern_init_function *init, void *context);

/* Counts the accesses to a table that the task has opened itself; the table ends with the node. */
void train_watch(struct train *train, struct tern_table *table);

/* Whether all nodes are well. All learn alike which of them are present: is_present, n_present and rank. */
bool train_agree(struct train *train, bool ok);

/* Whether all are, and have read the same data, of which `digest` tells: a key means the same at all nodes. */
bool train_agree_on(struct train *train, bool ok, uint64_t digest);

/* Sums over all nodes; without effect when there is one. */
bool train_sum(struct train *train, size_t n, double *values);

/*
 * After node 0 has read a saved model and set its rows for all, which went well if `ok`: all get so many
 * bytes of what it knows of the model, and wait until they see the rows. Other nodes need not have the
 * folder, and their `ok` is true.
 */
bool train_share_saved(struct train *train, bool ok, size_t bytes, void *facts);

/* The folder of a model to go on with; NULL: none, or training goes on from a checkpoint. */
static inline const char *train_resumed_model(const struct train *train)
{
    return train->checkpoint == NULL ? train->options->resume : NULL;
}

/* Whether this node prints: node 0 does. */
static inline bool train_speaks(const struct train *train)
{
    return train->self == 0;
}

/* How far ahead batches are prepared. On one node there is nothing to bring. */
static inline double train_ahead_s(const struct train *train)
{
    return train->n_nodes > 1 ? train->options->ahead_s : 0;
}

/* The worker of a thread; NULL with --plain. */
static inline struct tern_worker *train_worker(const struct train *train, size_t thread)
{
    return train->workers != NULL ? train->workers[thread] : NULL;
}

/*
 * Runs `work` in all threads of this node, as team_run() does, and shows a bar meanwhile. Threads report
 * what they have done with progress_add(), and with a loss of 0. Called by all nodes.
 */
bool train_team(struct train *train, const struct progress_phase *phase, team_function *work,
                void *context);

/* Draws the bar, for which other nodes tell node 0 how far they are; called about five times a second by
 * the main thread. */
void train_tick(struct train *train);

/* Waits until replicas agree, so that all nodes measure and save the same model, and until the rows of
 * the first batches have come. */
bool train_quiesce(struct train *train);

/* Advances the clock of a thread's worker to where it should be after the examples it has done. */
void train_keep_clock(struct train *train, size_t thread);

/* A batch of n examples is done, with this sum of losses: advances the worker's clock. False when the
 * thread should end its epoch now. */
static inline bool train_done(struct train *train, size_t thread, uint64_t n, double loss)
{
    progress_add(&train->progress, thread, n, loss);
    if (train->workers != NULL && train->options->n_clocks > 0)
        train_keep_clock(train, thread);
    else if (train->workers != NULL)
        (void)tern_worker_advance(train->workers[thread], NULL);
    return !atomic_load_explicit(&train->stopping, memory_order_relaxed);
}

/* Measures a model, with the same outcome at all nodes. If a node was given up meanwhile, its part of the sums is missing, and
 * all measure again. */
bool train_evaluate(struct train *train, train_evaluate_function *evaluate, void *model,
                    struct train_quality *quality);

/* Trains until the epochs, the time or the patience run out. The model is saved whenever it is the
 * best so far, or in the end when it is not measured. A resumed model is measured first, so that no worse one takes
 * its place. */
bool train_loop(struct train *train, const struct train_task *task, void *model);

#endif
