/*
 * linear - sparse linear models: a weight for each feature, and the sum of weights times values predicts the label.
 *
 *   linear_train.c   reads data, opens the solver, measures, saves
 *   columns.c        a thread's examples by feature, for dbpg
 *   dbpg.c           the batch solver: delayed block proximal gradient (M. Li, Algorithm 5)
 *   subspace.c       its step over all weights, between epochs
 *   coordinate.c     its step, which happens where a weight is
 *   online.c         the solvers that read a stream
 *   hold.c           gradients that are kept back, for trials of late updates
 *   emso.c           the minibatch step of two of them (M. Li, Algorithms 6 to 9)
 *   linear_files.c   the folder of a model
 */
#ifndef TASKS_LINEAR_LINEAR_H
#define TASKS_LINEAR_LINEAR_H

#include "common/examples.h"
#include "common/loss.h"
#include "common/train.h"
#include "linear/hold.h"

enum linear_solver { LINEAR_DBPG, LINEAR_ONLINE, LINEAR_EMSO_CD, LINEAR_EMSO_GD };
enum linear_updater {
    LINEAR_FTRL,
    LINEAR_ADAGRAD,
    LINEAR_ASYNCADAGRAD,
    LINEAR_ADADELAY,
    LINEAR_ADAPTIVEREVISION,
    LINEAR_ADAM,
    LINEAR_MOMENTUM,
    LINEAR_SGD,
};
enum linear_intercept { LINEAR_NO_INTERCEPT, LINEAR_FREE, LINEAR_PENALISED };

/* The names of the enumerators above, in their order; NULL past the last. */
extern const char *const linear_solvers[], *const linear_updaters[], *const linear_intercepts[];

/* The key of the intercept, which every example has with the value 1. */
#define LINEAR_INTERCEPT_KEY (UINT64_MAX - 1)

struct linear_options {
    enum linear_solver solver;
    enum loss_kind loss;
    enum linear_intercept intercept;
    double l1,
        l2; /* dbpg: penalties of the sum of losses; online: ftrl's, other updaters have none */
    double positive_weight; /* of examples with a positive label, beside their own */
    struct examples_options examples;
    bool no_names;      /* the model has keys alone */
    const char *test;   /* files of test examples, or NULL */
    const char *metric; /* that decides which model is the best; NULL: the solver's */
    int64_t n_blocks, delay;
    double kkt, tolerance;
    enum linear_updater updater; /* online */
    double rate, beta;
    struct hold_rule hold; /* online: one node, one thread */
    double gamma;          /* emso: how conservative a step is */
    int64_t n_batch;
};

bool linear_train(const struct train_options *train_options, const struct linear_options *options);

struct linear_question {
    const char *folder; /* of the model */
    const char *data;   /* "-": standard input */
    struct examples_options examples;
    bool margins; /* instead of probabilities */
    bool json;    /* the quality on labelled examples, instead of predictions */
};

/* Prints a prediction per example. */
bool linear_predict(const struct linear_question *question);

#endif
