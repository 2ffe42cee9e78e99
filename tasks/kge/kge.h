/*
 * kge - embeddings of knowledge graphs: a vector for each entity and each relation, learned from triples
 * so that the vectors tell which other triples are likely.
 *
 * kge_train() reads a graph, trains, evaluates and writes a model; kge_predict() asks a model that was
 * written. Both return false after task_fail().
 */
#ifndef TASKS_KGE_KGE_H
#define TASKS_KGE_KGE_H

#include "common/train.h"
#include "kge/graph.h"
#include "kge/model.h"
#include "kge/step.h"

struct kge_options {
    enum kge_model model;
    enum kge_loss loss;
    enum graph_unknown unknown;
    int64_t dim;                   /* numbers of a vector; even for ComplEx */
    int64_t batch;                 /* triples of a step */
    int64_t n_negatives;           /* wrong answers per side of a triple */
    enum tern_conformity sampling; /* what is promised about wrong answers */
    bool divides;                  /* nodes learn from triples that have entities in common */
    double rate;                   /* of AdaGrad */
    double spread;                 /* of the first values */
    int64_t penalty_power;
    double entity_penalty, relation_penalty;
    int formats; /* of files.h, beside .npy */
};

bool kge_train(const struct train_options *train_options, const struct kge_options *options);

struct kge_question {
    const char *folder;                      /* of the model */
    const char *subject, *relation, *object; /* subject or object may be NULL: it is asked for */
    const char *data; /* of the training: answers that it was trained on are marked; or NULL */
    int64_t n_answers;
    bool json;
};

/* Prints the best answers with their scores to standard output; for a whole triple, its score and its
 * ranks. */
bool kge_predict(const struct kge_question *question);

#endif
