/*
 * prediction - what the commands that predict from examples have in common: they read a stream, print a margin or probability
 * for each example, or with json one line that says how well the labels were predicted.
 *
 * One thread.
 */
#ifndef TASKS_PREDICTION_H
#define TASKS_PREDICTION_H

#include "common/examples.h"
#include "common/loss.h"
#include "common/scores.h"

struct prediction {
    enum loss_kind loss;
    bool json, margins; /* what is printed */
    struct scores scores;
    double n_labelled;
};

/* prediction_fini() is due in any case. */
bool prediction_init(struct prediction *prediction, enum loss_kind loss, bool json, bool margins);
void prediction_fini(struct prediction *prediction);

/* Reads the examples of a file, or of standard input if the path is "-", list by list. */
typedef bool prediction_answer(void *context, const struct examples *list);
bool prediction_read(const char *path, const struct examples_options *reading,
                     prediction_answer *answer, void *context);

/* Takes the margin that was predicted for a row of a list. */
void prediction_add(struct prediction *prediction, const struct examples *list, size_t row,
                    double margin);

/* Prints the line of json, if that is wanted. */
void prediction_end(const struct prediction *prediction);

#endif
