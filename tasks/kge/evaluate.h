/*
 * evaluate - how well a model answers questions: filtered mean reciprocal rank (MRR) and Hits@1, 3 and 10.
 *
 * Each triple is two questions. All entities are ranked by their score as an answer; other entities that are known right
 * answers are left out. Entities with the same score share the mean of their ranks. Every node ranks a part of the entities,
 * and every thread a part of those, in products of blocks of questions and blocks of entities. The rank of an answer is the
 * sum of these counts of better entities.
 */
#ifndef TASKS_KGE_EVALUATE_H
#define TASKS_KGE_EVALUATE_H

#include "common/train.h"
#include "kge/graph.h"
#include "kge/model.h"

struct ranking {
    double mrr, hits_1, hits_3, hits_10;
};

/* Rows hold n values first. Called by all nodes. */
bool evaluate(struct train *train, enum kge_model model, size_t n, const struct params *entities,
              const struct params *relations, const struct triples *triples,
              const struct known *known, struct ranking *ranking);

#endif
