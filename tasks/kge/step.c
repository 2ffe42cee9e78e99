/* step - one step of learning. See step.h. */
#include "kge/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/dense.h"
#include "common/sentence.h"

#define NEVER (-1e30f) /* the score of what is no answer at all */

/* A step under way: the arguments of kge_step(). */
struct work {
    const struct step_settings *settings;
    const struct batch *batch;
    const float *const *entities, *const *relations;
    struct step_space *space;
    float *entity_gradients, *relation_gradients;
};

/* ---- Memory ---------------------------------------------------------------------------------- */

bool step_space_init(struct step_space *space, size_t n, size_t n_triples, size_t n_negatives,
                     size_t n_relations, size_t relation_length)
{
    size_t n_questions = 2 * n_triples, n_entities = 2 * n_triples + n_negatives;
    *space = (struct step_space){
        .questions = malloc(n_questions * n * sizeof(float)),
        .question_gradients = malloc(n_questions * n * sizeof(float)),
        .negatives = malloc(n_negatives * n * sizeof(float)),
        .negative_gradients = malloc(n_negatives * n * sizeof(float)),
        .scores = malloc(n_questions * n_negatives * sizeof(float)),
        .turned = malloc(n_questions * n_negatives * sizeof(float)),
        .gradients = malloc((n_entities * n + n_relations * relation_length) * sizeof(float)),
    };
    if (space->questions != NULL && space->question_gradients != NULL && space->negatives != NULL &&
        space->negative_gradients != NULL && space->scores != NULL && space->turned != NULL &&
        space->gradients != NULL)
        return true;
    step_space_fini(space);
    return task_fail_memory("a step");
}

void step_space_fini(struct step_space *space)
{
    free(space->questions);
    free(space->question_gradients);
    free(space->negatives);
    free(space->negative_gradients);
    free(space->scores);
    free(space->turned);
    free(space->gradients);
    *space = (struct step_space){0};
}

/* ---- Questions: 2i asks for the object of triple i, 2i + 1 for its subject ---------------------- */

static size_t n_questions(const struct work *work)
{
    return 2 * work->batch->n_triples;
}

static enum side side_of(size_t question)
{
    return question % 2 == 0 ? ASK_OBJECT : ASK_SUBJECT;
}

static uint32_t given_of(const struct work *work, size_t question)
{
    const struct triple *triple = &work->batch->triples[question / 2];
    return side_of(question) == ASK_OBJECT ? triple->subject : triple->object;
}

static uint32_t answer_of(const struct work *work, size_t question)
{
    const struct triple *triple = &work->batch->triples[question / 2];
    return side_of(question) == ASK_OBJECT ? triple->object : triple->subject;
}

static size_t relation_length(const struct work *work)
{
    return model_relation_length(work->settings->model, work->settings->n);
}

static uint32_t relation_of(const struct work *work, size_t question)
{
    return work->batch->triples[question / 2].relation;
}

/* ---- Forward --------------------------------------------------------------------------------- */

static void ask(struct work *work)
{
    size_t n = work->settings->n;
    for (size_t i = 0; i < n_questions(work); i++)
        model_question(work->settings->model, side_of(i), work->entities[given_of(work, i)],
                       work->relations[relation_of(work, i)], n, work->space->questions + i * n);
    for (size_t j = 0; j < work->batch->n_negatives; j++)
        memcpy(work->space->negatives + j * n, work->entities[work->batch->negatives[j]],
               n * sizeof(float));
    dense_rows_by_rows(work->space->questions, n_questions(work), work->space->negatives,
                       work->batch->n_negatives, n, work->space->scores);
}

/* A right answer that was drawn as a wrong one does not count. */
static void exclude(const struct work *work, uint32_t answer, float *scores)
{
    for (size_t j = 0; j < work->batch->n_negatives; j++)
        if (work->batch->negatives[j] == answer)
            scores[j] = NEVER;
}

/* Turn scores into the loss's derivatives by them, for the wrong answers in place and for the right one
 * in *right; return the loss. */
static double softmax(float negative_weight, float *scores, size_t n, float *right)
{
    float largest = dense_largest(scores, n);
    largest = *right > largest ? *right : largest;
    float mine = expf(*right - largest);
    float sum = mine + negative_weight * dense_exp(scores, largest, n);
    float factor = negative_weight / sum;
    for (size_t j = 0; j < n; j++)
        scores[j] *= factor;
    double loss = (double)logf(sum) - (double)(*right - largest);
    *right = mine / sum - 1;
    return loss;
}

static double logistic(float *scores, size_t n, float *right)
{
    float wrong = -*right;
    double loss = (double)dense_logistic(scores, n) + (double)dense_logistic(&wrong, 1);
    *right = -wrong;
    return loss;
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* Scores become derivatives; the right answers, and questions by them, get their gradients. */
static double judge(struct work *work)
{
    const struct step_settings *settings = work->settings;
    size_t n = settings->n, n_negatives = work->batch->n_negatives;
    double loss = 0;
    for (size_t i = 0; i < n_questions(work); i++) {
        uint32_t answer = answer_of(work, i);
        float *scores = work->space->scores + i * n_negatives;
        const float *question = work->space->questions + i * n;
        float *question_gradient = work->space->question_gradients + i * n;
        float right = dense_dot(question, work->entities[answer], n);
        exclude(work, answer, scores);
        loss += settings->loss == KGE_SOFTMAX
                    ? softmax(settings->negative_weight, scores, n_negatives, &right)
                    : logistic(scores, n_negatives, &right);
        memset(question_gradient, 0, n * sizeof *question_gradient);
        dense_axpy(right, work->entities[answer], question_gradient, n);
        dense_axpy(right, question, work->entity_gradients + answer * n, n);
    }
    return loss;
}

static void turn(const float *restrict from, size_t n_rows, size_t n_columns, float *restrict to)
{
    enum { BLOCK = 16 };
    for (size_t row = 0; row < n_rows; row += BLOCK)
        for (size_t j = 0; j < n_columns; j++)
            for (size_t i = row; i < n_rows && i < row + BLOCK; i++)
                to[j * n_rows + i] = from[i * n_columns + j];
}

static void spread_from_scores(struct work *work)
{
    struct step_space *space = work->space;
    size_t n = work->settings->n, n_negatives = work->batch->n_negatives;
    dense_add_weighted(space->scores, space->negatives, n_questions(work), n_negatives, n,
                       space->question_gradients);
    turn(space->scores, n_questions(work), n_negatives, space->turned);
    memset(space->negative_gradients, 0, n_negatives * n * sizeof(float));
    dense_add_weighted(space->turned, space->questions, n_negatives, n_questions(work), n,
                       space->negative_gradients);
    for (size_t j = 0; j < n_negatives; j++)
        dense_axpy(1, space->negative_gradients + j * n,
                   work->entity_gradients + work->batch->negatives[j] * n, n);
}

static void spread_from_questions(struct work *work)
{
    size_t n = work->settings->n;
    for (size_t i = 0; i < n_questions(work); i++) {
        uint32_t given = given_of(work, i), relation = relation_of(work, i);
        model_question_back(work->settings->model, side_of(i), work->entities[given],
                            work->relations[relation], work->space->question_gradients + i * n, n,
                            work->entity_gradients + given * n,
                            work->relation_gradients + relation * relation_length(work));
    }
}

static void penalize(const struct work *work, const float *row, size_t n, float weight,
                     float *gradient)
{
    if (weight > 0)
        model_penalty_back(work->settings->model, work->settings->penalty_power, weight, row, n,
                           gradient);
}

static void spread_from_penalties(struct work *work)
{
    const struct step_settings *settings = work->settings;
    size_t n = settings->n, n_relation = relation_length(work);
    for (size_t i = 0; i < work->batch->n_triples; i++) {
        struct triple triple = work->batch->triples[i];
        penalize(work, work->entities[triple.subject], n, settings->entity_penalty,
                 work->entity_gradients + triple.subject * n);
        penalize(work, work->entities[triple.object], n, settings->entity_penalty,
                 work->entity_gradients + triple.object * n);
        penalize(work, work->relations[triple.relation], n_relation, settings->relation_penalty,
                 work->relation_gradients + triple.relation * n_relation);
    }
}

/* ---- The step -------------------------------------------------------------------------------- */

static void update(const struct work *work, const float *const *rows, const float *gradients,
                   size_t n_rows, size_t n, float *differences)
{
    for (size_t i = 0; i < n_rows; i++)
        dense_adagrad(rows[i], gradients + i * n, work->settings->rate, n, differences + i * 2 * n);
}

double kge_step(const struct step_settings *settings, const struct batch *batch,
                const float *const *entities, const float *const *relations,
                struct step_space *space, float *entity_differences, float *relation_differences)
{
    struct work work = {
        .settings = settings,
        .batch = batch,
        .entities = entities,
        .relations = relations,
        .space = space,
        .entity_gradients = space->gradients,
        .relation_gradients = space->gradients + batch->entities.n * settings->n,
    };
    size_t n = settings->n, n_relation = relation_length(&work);
    memset(space->gradients, 0,
           (batch->entities.n * n + batch->relations.n * n_relation) * sizeof(float));
    ask(&work);
    double loss = judge(&work);
    spread_from_scores(&work);
    spread_from_questions(&work);
    spread_from_penalties(&work);
    update(&work, entities, work.entity_gradients, batch->entities.n, n, entity_differences);
    update(&work, relations, work.relation_gradients, batch->relations.n, n_relation,
           relation_differences);
    return loss;
}
