/* evaluate - filtered mean reciprocal rank and hits. See evaluate.h. */
#include "kge/evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "common/dense.h"
#include "common/team.h"

enum {
    BLOCK_ENTITIES = 240,
    BLOCK_QUESTIONS = 256,
    SUM_AT_ONCE = 1 << 16, /* numbers in one sum over the nodes */
};

/* Entities that score higher than the right answer, and as high. */
struct count {
    uint32_t higher, equal;
};

/* The known answers to a question, ascending. */
struct answers {
    const struct answer *at;
    size_t n;
};

struct evaluation {
    struct train *train;
    enum kge_model model;
    size_t n;
    const struct params *entities, *relations;
    const struct triples *triples;
    const struct known *known;
    size_t n_questions;      /* 2i asks for the object of triple i, 2i + 1 for its subject */
    float *questions;        /* n_questions x n */
    float *right;            /* the scores of the right answers */
    struct answers *answers; /* to each question */
    struct count *counts;    /* of each thread, n_questions one behind the other */
};

static enum side side_of(size_t question)
{
    return question % 2 == 0 ? ASK_OBJECT : ASK_SUBJECT;
}

static uint32_t given_of(const struct evaluation *e, size_t question)
{
    const struct triple *triple = &e->triples->at[question / 2];
    return side_of(question) == ASK_OBJECT ? triple->subject : triple->object;
}

/* ---- Questions ------------------------------------------------------------------------------- */

static void find_answers(struct evaluation *e, size_t question)
{
    struct answers *answers = &e->answers[question];
    answers->at = known_answers(e->known, side_of(question), given_of(e, question),
                                e->triples->at[question / 2].relation, &answers->n);
}

/* Makes the questions of one thread; all nodes make all. */
static bool ask(void *context, size_t thread)
{
    struct evaluation *e = context;
    struct tern_worker *worker = train_worker(e->train, thread);
    size_t length = e->entities->length, n_threads = e->train->n_threads;
    float *rows = malloc((2 * length + e->relations->length) * sizeof *rows);
    float *object = rows + length, *relation = object + length;
    if (rows == NULL)
        return task_fail_memory("the evaluation");
    bool ok = true;
    for (size_t i = thread * e->triples->n / n_threads;
         ok && i < (thread + 1) * e->triples->n / n_threads; i++) {
        struct triple triple = e->triples->at[i];
        ok = params_get(e->entities, worker, triple.subject, 1, rows) &&
             params_get(e->entities, worker, triple.object, 1, object) &&
             params_get(e->relations, worker, triple.relation, 1, relation);
        float *question = e->questions + 2 * i * e->n;
        model_question(e->model, ASK_OBJECT, rows, relation, e->n, question);
        model_question(e->model, ASK_SUBJECT, object, relation, e->n, question + e->n);
        find_answers(e, 2 * i);
        find_answers(e, 2 * i + 1);
        /* As all others are scored, so that those of equal vectors are equal to the last bit. */
        dense_rows_by_rows(question, 1, object, 1, e->n, &e->right[2 * i]);
        dense_rows_by_rows(question + e->n, 1, rows, 1, e->n, &e->right[2 * i + 1]);
    }
    free(rows);
    return ok;
}

/* ---- Counting -------------------------------------------------------------------------------- */

/* A block of entities and what it is compared with. */
struct block {
    uint64_t first;
    size_t n_entities;
    float *vectors; /* n_entities x n */
    float *rows;    /* as they are stored */
    float *scores;  /* BLOCK_QUESTIONS x n_entities */
};

static bool load_block(const struct evaluation *e, struct tern_worker *worker, struct block *block)
{
    size_t length = e->entities->length;
    if (!params_get(e->entities, worker, block->first, block->n_entities, block->rows))
        return false;
    for (size_t i = 0; i < block->n_entities; i++)
        memcpy(block->vectors + i * e->n, block->rows + i * length, e->n * sizeof(float));
    return true;
}

/* A score that is not a number counts as higher: such a model is no good. */
static struct count compare(const float *scores, size_t n, float right)
{
    uint32_t not_higher = 0, equal = 0;
    for (size_t i = 0; i < n; i++) {
        not_higher += scores[i] <= right;
        equal += scores[i] == right;
    }
    return (struct count){(uint32_t)n - not_higher, equal};
}

/* The first answer that is not before `entity`. */
static size_t first_from(const struct answers *answers, uint64_t entity)
{
    size_t low = 0, high = answers->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (answers->at[middle].entity < entity)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Takes away what known answers have contributed, among them the right one itself. */
static void leave_out_known(const struct evaluation *e, size_t question, const struct block *block,
                            const float *scores, struct count *count)
{
    const struct answers *answers = &e->answers[question];
    uint64_t end = block->first + block->n_entities;
    for (size_t i = first_from(answers, block->first);
         i < answers->n && answers->at[i].entity < end; i++) {
        size_t at = answers->at[i].entity - (size_t)block->first;
        struct count mine = compare(scores + at, 1, e->right[question]);
        count->higher -= mine.higher;
        count->equal -= mine.equal;
    }
}

static void count_block(const struct evaluation *e, const struct block *block, struct count *counts)
{
    for (size_t first = 0; first < e->n_questions; first += BLOCK_QUESTIONS) {
        size_t n =
            e->n_questions - first < BLOCK_QUESTIONS ? e->n_questions - first : BLOCK_QUESTIONS;
        dense_rows_by_rows(e->questions + first * e->n, n, block->vectors, block->n_entities, e->n,
                           block->scores);
        for (size_t i = 0; i < n; i++) {
            const float *scores = block->scores + i * block->n_entities;
            struct count count = compare(scores, block->n_entities, e->right[first + i]);
            if (count.higher + count.equal > 0)
                leave_out_known(e, first + i, block, scores, &count);
            counts[first + i].higher += count.higher;
            counts[first + i].equal += count.equal;
        }
    }
}

/* Compares the questions with one thread's part of the entities. */
static bool count(void *context, size_t thread)
{
    struct evaluation *e = context;
    struct train *train = e->train;
    uint64_t part = train->rank * train->n_threads + thread;
    uint64_t n_parts = train->n_present * train->n_threads, n_entities = e->entities->n_keys;
    uint64_t end = n_entities * (part + 1) / n_parts;
    struct block block = {
        .first = n_entities * part / n_parts,
        .vectors = malloc(BLOCK_ENTITIES * e->n * sizeof(float)),
        .rows = malloc(BLOCK_ENTITIES * e->entities->length * sizeof(float)),
        .scores = malloc(BLOCK_QUESTIONS * BLOCK_ENTITIES * sizeof(float)),
    };
    bool ok = block.vectors != NULL && block.rows != NULL && block.scores != NULL;
    if (!ok)
        task_fail_memory("the evaluation");
    for (; ok && block.first < end; block.first += block.n_entities) {
        block.n_entities =
            end - block.first < BLOCK_ENTITIES ? (size_t)(end - block.first) : BLOCK_ENTITIES;
        ok = load_block(e, train_worker(train, thread), &block);
        if (ok)
            count_block(e, &block, e->counts + thread * e->n_questions);
        progress_add(&train->progress, thread, block.n_entities, 0);
    }
    free(block.vectors);
    free(block.rows);
    free(block.scores);
    return ok;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* The mean rank of each question from the counts of all threads and nodes. */
static bool find_ranks(const struct evaluation *e, double *ranks)
{
    for (size_t i = 0; i < e->n_questions; i++) {
        struct count sum = {0};
        for (size_t thread = 0; thread < e->train->n_threads; thread++) {
            sum.higher += e->counts[thread * e->n_questions + i].higher;
            sum.equal += e->counts[thread * e->n_questions + i].equal;
        }
        ranks[i] = sum.higher + sum.equal / 2.0;
    }
    for (size_t i = 0; i < e->n_questions; i += SUM_AT_ONCE) {
        size_t n = e->n_questions - i < SUM_AT_ONCE ? e->n_questions - i : SUM_AT_ONCE;
        if (!train_sum(e->train, n, ranks + i))
            return false;
    }
    for (size_t i = 0; i < e->n_questions; i++)
        ranks[i] += 1;
    return true;
}

static struct ranking summarize(const double *ranks, size_t n)
{
    struct ranking r = {0};
    for (size_t i = 0; i < n; i++) {
        r.mrr += 1 / ranks[i] / (double)n;
        r.hits_1 += (ranks[i] <= 1) / (double)n;
        r.hits_3 += (ranks[i] <= 3) / (double)n;
        r.hits_10 += (ranks[i] <= 10) / (double)n;
    }
    return r;
}

bool evaluate(struct train *train, enum kge_model model, size_t n, const struct params *entities,
              const struct params *relations, const struct triples *triples,
              const struct known *known, struct ranking *ranking)
{
    size_t n_questions = 2 * triples->n;
    struct evaluation e = {
        .train = train,
        .model = model,
        .n = n,
        .entities = entities,
        .relations = relations,
        .triples = triples,
        .known = known,
        .n_questions = n_questions,
        .questions = malloc(n_questions * n * sizeof(float)),
        .right = malloc(n_questions * sizeof(float)),
        .answers = malloc(n_questions * sizeof *e.answers),
        .counts = calloc(n_questions * train->n_threads, sizeof *e.counts),
    };
    const struct progress_phase phase = {.title = "evaluating",
                                         .unit = "entities",
                                         .n_total = entities->n_keys / train->n_present,
                                         .n_all = (double)entities->n_keys,
                                         .n_later = -1};
    double *ranks = malloc(n_questions * sizeof *ranks);
    bool ok = e.questions != NULL && e.right != NULL && e.answers != NULL && e.counts != NULL &&
              ranks != NULL;
    if (!ok)
        task_fail_memory("the evaluation");
    ok = ok && team_run(train->n_threads, ask, NULL, &e) && train_team(train, &phase, count, &e);
    ok = train_agree(train, ok) && find_ranks(&e, ranks);
    if (ok)
        *ranking = summarize(ranks, n_questions);
    free(e.questions);
    free(e.right);
    free(e.answers);
    free(e.counts);
    free(ranks);
    return ok;
}
