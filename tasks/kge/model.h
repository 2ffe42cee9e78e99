/*
 * model - how ComplEx, DistMult and RESCAL score a triple.
 *
 * The score of (s, r, o) is linear in each of the three vectors. So a question, which gives two of them,
 * is a vector q, and the score of an entity x is the product q . x:
 *
 *   DistMult   asked for the object  q = s * r, for the subject  q = o * r, element by element
 *   ComplEx    vectors of n/2 complex numbers, first all real parts, then all imaginary ones; the score
 *              is the real part of sum s r conj(o): for the object  q = s r, for the subject
 *              q = o conj(r)
 *   RESCAL     r is a matrix of n x n numbers, row by row, and the score s r o: for the object  q = s r,
 *              for the subject  q = r o
 */
#ifndef TASKS_KGE_MODEL_H
#define TASKS_KGE_MODEL_H

#include "kge/graph.h"

enum kge_model { KGE_COMPLEX, KGE_DISTMULT, KGE_RESCAL };

/* How users call them: "complex" ..., then NULL. */
extern const char *const model_names[];

/* Numbers of a relation, when vectors of entities have n. */
size_t model_relation_length(enum kge_model model, size_t n);

/* The vector of a question from those of the given entity and the relation. */
void model_question(enum kge_model model, enum side side, const float *given, const float *relation,
                    size_t n, float *question);

/* Adds to the gradients of the given entity and the relation what follows from that of the question. */
void model_question_back(enum kge_model model, enum side side, const float *given,
                         const float *relation, const float *question_gradient, size_t n,
                         float *given_gradient, float *relation_gradient);

/* Adds to `gradient` that of the penalty weight * sum |x|^power over n numbers; |x| is the modulus of a complex number
 * where the model has them. */
void model_penalty_back(enum kge_model model, int power, float weight, const float *x, size_t n,
                        float *gradient);

#endif
