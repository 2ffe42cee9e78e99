/*
 * step - one training step, as a function of the rows that a batch uses.
 *
 * A row holds values (n of an entity, model_relation_length() of a relation) and then as many sums of squared gradients
 * for AdaGrad. The step reads rows through pointers and writes what is to be added to them. It changes nothing else, so it
 * does not matter where rows are kept.
 *
 * For each triple two questions are asked, for its object and for its subject. The score of the right answer shall exceed
 * those of the negatives:
 *
 *   softmax    the loss is the cross entropy of the right answer among itself and the negatives. These represent
 *              all entities, so each counts n_entities / n_negatives times.
 *   logistic   the loss is log(1 + e^-score) of the right answer and log(1 + e^score) of each negative
 */
#ifndef TASKS_KGE_STEP_H
#define TASKS_KGE_STEP_H

#include "kge/batch.h"
#include "kge/model.h"

enum kge_loss { KGE_SOFTMAX, KGE_LOGISTIC };

struct step_settings {
    enum kge_model model;
    enum kge_loss loss;
    size_t n; /* values of a vector */
    float rate;
    int penalty_power;                      /* 2 or 3 */
    float entity_penalty, relation_penalty; /* weights of the penalties, per triple */
    float negative_weight;                  /* how often each wrong answer counts in the softmax */
};

/* Memory of one worker's steps. */
struct step_space {
    float *questions, *question_gradients; /* 2 n_triples x n */
    float *negatives, *negative_gradients; /* n_negatives x n */
    float *scores, *turned;                /* 2 n_triples x n_negatives, and the other way round */
    float *gradients;                      /* of entities, then of relations */
};

/* For batches of so many triples and negatives, and relations of n_relations x relation_length numbers. */
bool step_space_init(struct step_space *space, size_t n, size_t n_triples, size_t n_negatives,
                     size_t n_relations, size_t relation_length);
void step_space_fini(struct step_space *space);

/* entities[i] and relations[i] are the rows of the batch's lists; the differences stand one behind the
 * other in the same order, as long as the rows. Returns the sum of the losses of the triples. */
double kge_step(const struct step_settings *settings, const struct batch *batch,
                const float *const *entities, const float *const *relations,
                struct step_space *space, float *entity_differences, float *relation_differences);

#endif
