/*
 * dbpg - the delayed block proximal gradient method (M. Li, Algorithm 5), for objectives
 *
 *   sum of weight * loss(example)  +  l1 |w|_1  +  l2 / 2 |w|_2^2
 *
 * whose loss is smooth. An epoch visits every block of features once, in random order; a visit is a job, and jobs are
 * numbered over all epochs. In job t a node
 *
 *   1. fetches the weights of job t - delay - 1, and adds their changes to the margins of its examples,
 *   2. computes slopes and bounds of the curvature of its examples in the block,
 *   3. pushes them, and the last node's push makes each weight take its step (coordinate.h).
 *
 * Job t starts when job t - delay - 1 is done at all nodes. Node 0 submits jobs as tasks of Tern, whose delay says just
 * that. The weights that a job sees depend on the delay, not on which node was faster, so a run can be repeated exactly.
 *
 * A thread does not wait for its pushes: it confirms a job when they have arrived, and meanwhile works on later jobs that
 * have started. Weights are asked for as soon as Tern has started the job that needs them. So with a delay the messages of
 * several jobs are under way at a time.
 *
 * The curvature bound holds for all changes that the radii of the block allow at once: an example that has n active features
 * of the block counts n times, because |x . d|^2 <= n * sum (x_j d_j)^2, and the second derivative of its loss is the largest
 * within n times the largest radius. So without a delay no step raises the objective, and there is no learning rate to
 * choose. With a delay, the features of jobs under way also count.
 *
 * Between epochs, one step changes all weights at once (subspace.h).
 *
 * All threads of a node do the same jobs, each on its own examples; between 1, 2 and 3 they wait for each other.
 */
#ifndef TASKS_LINEAR_DBPG_H
#define TASKS_LINEAR_DBPG_H

#include <pthread.h>
#include <stdatomic.h>

#include "linear/columns.h"
#include "linear/subspace.h"

enum {
    DBPG_MAX_DELAY = 15,
    DBPG_AT_ONCE = 1 << 14, /* rows that the first thread can push or pull at a time */
};

struct dbpg_job {
    size_t block;
    bool is_full; /* inactive features are also visited */
};

/* Rows of a job that a thread has asked for, or sent. */
struct dbpg_flight {
    uint32_t *features;
    uint64_t *keys;
    double *rows;
    size_t n;
    uint64_t ticket; /* 0: nothing is under way */
};

/* What a thread needs for a job. */
struct dbpg_space {
    uint32_t *features; /* the active ones of the block */
    uint64_t *keys;     /* of its share of them, for pulls and pushes that wait */
    double *rows;
    struct dbpg_flight *asked, *sent; /* job t at t % (delay + 1) */
    uint64_t n_asked;                 /* what jobs up to here need was asked for */
    uint64_t n_sent, n_confirmed;     /* jobs that were sent; that have arrived at all owners */
    uint64_t n_told;                  /* n_confirmed, as the gate knows it, under its lock */
    double *partials;   /* slope and curvature of each active feature, from the thread's examples */
    uint32_t *n_active; /* by row: active features of the block; 0 between jobs */
    uint32_t *n_flying; /* by row: features of jobs that are not fetched yet; with a delay */
    uint32_t *touched;  /* rows that have some */
    float *logistic;    /* by touched row */
    struct dbpg_slope *slopes; /* by row */
};

/* Jobs that Tern has started, and the last one that this node has done. */
struct dbpg_gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t started[DBPG_MAX_DELAY + 1]; /* job t at t % (DBPG_MAX_DELAY + 1) */
    uint64_t n_done;                      /* that all threads have confirmed */
    bool has_failed;
};

struct dbpg {
    const struct linear_options *options;
    struct train *train;
    struct columns columns;
    struct tern_updater updater;
    struct tern_table *table;                       /* NULL with --plain */
    double *rows, *states;                          /* with --plain: those of a table */
    double *weights, *radii, *violations, *changes; /* by feature, as fetched last */
    float *n_sharers;                               /* by feature: nodes that have it */
    uint64_t n_jobs, n_fetched;                     /* submitted so far; fetched so far */
    struct dbpg_job recent[2 * DBPG_MAX_DELAY + 2]; /* job t at t % their number */
    uint64_t *last_job;                             /* by block */
    struct dbpg_job *jobs;                          /* of this epoch */
    struct dbpg_space *spaces;
    pthread_barrier_t barrier; /* of the threads */
    bool has_barrier;
    double waited_s, lasted_s; /* of all epochs: of the first thread, for other nodes; in all */
    bool is_settled;           /* since the last epoch: the step between epochs was made */
    atomic_bool has_failed;    /* a thread has: the others go on without doing anything */
    struct dbpg_gate gate;
    struct subspace subspace;
};

/* What all nodes together know of the weights. */
struct dbpg_sums {
    double penalty, n_nonzero, n_active, n_features, violation;
};

/* The features and examples are in dbpg->columns already. Opens the table; called by all nodes. dbpg_close() is due in
 * any case, after the node has been closed. */
bool dbpg_open(struct dbpg *dbpg, struct train *train, const struct linear_options *options);

/* Joins the features, whose weights may have been set since; called by all nodes. */
bool dbpg_begin(struct dbpg *dbpg);
void dbpg_close(struct dbpg *dbpg);

/* One thread's part of an epoch. */
bool dbpg_epoch(struct dbpg *dbpg, size_t thread, int64_t epoch);

/* Fetches what is left to be fetched, so that weights and margins are current, and makes the step between epochs
 * (subspace.h); called by all nodes after an epoch. More calls do nothing. */
bool dbpg_settle(struct dbpg *dbpg);

/* What this node keeps outside of the table, after dbpg_settle(); and back, from the checkpoint that training goes on
 * from: *n_fit is 1 if it was written by as many nodes and threads with the same data, otherwise 0, and nothing is taken
 * but the first violation. */
bool dbpg_note(struct dbpg *dbpg, double first_violation, struct train_note *note);
bool dbpg_recall(struct dbpg *dbpg, double *first_violation, double *n_fit);

/* Whether all features were visited in an epoch. */
bool dbpg_is_full(const struct linear_options *options, int64_t epoch);

/* This node's share of the sums. */
void dbpg_sum(const struct dbpg *dbpg, struct dbpg_sums *sums);

/* The sum of losses of a thread's examples. */
double dbpg_loss(const struct dbpg *dbpg, size_t thread);

/* The weights of n keys, 0 for those that have none. */
bool dbpg_pull(struct dbpg *dbpg, struct tern_worker *worker, const uint64_t *keys, size_t n,
               double *weights);

#endif
