/*
 * predict - asks a saved model for the missing part of a triple, or for the score of a whole one. See kge.h.
 *
 * Either way all entities are scored as answers to the question (subject, relation, ?) or (?, relation,
 * object). For a whole triple both questions are asked, and its answers are ranked among all.
 */
#include <math.h>
#include <stdlib.h>

#include "common/best.h"
#include "common/dense.h"
#include "common/modelfile.h"
#include "common/quoted.h"
#include "common/vectors.h"
#include "kge/files.h"
#include "kge/kge.h"

/* A model, and the numbers of the names that are asked for. */
struct query {
    const struct kge_question *question;
    struct model_info info;
    struct names entities, relations;
    uint32_t subject, relation, object; /* NAMES_NONE: asked for */
    struct graph graph;                 /* of the training, if the user has named it */
    struct known known;
};

/* ---- Names ----------------------------------------------------------------------------------- */

static bool find_entity(const struct query *query, const char *name, uint32_t *number)
{
    *number = NAMES_NONE;
    return name == NULL ||
           model_find_name(query->question->folder, "entities", &query->entities, name, number);
}

static bool open_query(struct query *query)
{
    const struct kge_question *question = query->question;
    const char *folder = question->folder;
    return files_read_info(folder, &query->info) &&
           model_read_names(folder, "entities", query->info.n_entities, &query->entities) &&
           model_read_names(folder, "relations", query->info.n_relations, &query->relations) &&
           find_entity(query, question->subject, &query->subject) &&
           find_entity(query, question->object, &query->object) &&
           model_find_name(folder, "relations", &query->relations, question->relation,
                           &query->relation) &&
           (question->data == NULL || graph_read_train(&query->graph, question->data)) &&
           known_init(&query->known, &query->graph);
}

static void close_query(struct query *query)
{
    known_fini(&query->known);
    graph_fini(&query->graph);
    names_fini(&query->entities);
    names_fini(&query->relations);
}

/* The number that a name of the model has in the graph. */
static uint32_t number_in(const struct names *names, const char *name)
{
    return names_find(names, name, strlen(name));
}

/* Whether the model was trained on this answer. */
static bool is_known(const struct query *query, enum side side, uint32_t given, uint32_t answer)
{
    const struct graph *graph = &query->graph;
    uint32_t g = number_in(&graph->entities, names_at(&query->entities, given));
    uint32_t r = number_in(&graph->relations, names_at(&query->relations, query->relation));
    uint32_t a = number_in(&graph->entities, names_at(&query->entities, answer));
    size_t n = 0;
    const struct answer *answers = known_answers(&query->known, side, g, r, &n);
    for (size_t i = 0; i < n; i++)
        if (answers[i].entity == a)
            return true;
    return false;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* The vector whose products with those of the entities are their scores; to be freed, NULL after
 * task_fail(). */
static float *make_question(const struct query *query, enum side side, uint32_t given)
{
    const struct model_info *info = &query->info;
    const char *folder = query->question->folder;
    size_t n = info->dim;
    enum kge_model model = (enum kge_model)info->model;
    size_t n_relation = model_relation_length(model, n);
    float *vectors = malloc((2 * n + n_relation) * sizeof *vectors);
    if (vectors == NULL) {
        task_fail_memory("a vector");
        return NULL;
    }
    float *entity = vectors + n, *relation = entity + n;
    if (model_read_vector(folder, "entities", ".npy", info->n_entities, n, given, entity) &&
        model_read_vector(folder, "relations", ".npy", info->n_relations, n_relation,
                          query->relation, relation)) {
        model_question(model, side, entity, relation, n, vectors);
        return vectors;
    }
    free(vectors);
    return NULL;
}

/* Fills in the score of each entity. */
static bool score_all(const struct query *query, enum side side, uint32_t given, float *scores)
{
    struct npy npy;
    size_t n = query->info.dim;
    float *question = make_question(query, side, given), *vector = malloc(n * sizeof *vector);
    bool ok = question != NULL && (vector != NULL || task_fail_memory("a vector")) &&
              model_open_vectors(query->question->folder, "entities", ".npy",
                                 query->info.n_entities, n, &npy);
    if (ok) {
        for (uint64_t i = 0; ok && i < npy.n_rows; i++) {
            ok = npy_read(&npy, 1, vector);
            scores[i] = ok ? dense_dot(question, vector, n) : 0;
            if (ok && !isfinite(scores[i]))
                ok = task_fail("%s:%llu: the score is not a finite number", npy.path,
                               (unsigned long long)i);
        }
        npy_close(&npy);
    }
    free(question);
    free(vector);
    return ok;
}

/* ---- The missing part ------------------------------------------------------------------------ */

static void print_answers(const struct query *query, enum side side, uint32_t given,
                          const struct best *best)
{
    for (size_t i = 0; i < best->n; i++) {
        const char *name = names_at(&query->entities, best->at[i].number);
        bool marked = is_known(query, side, given, best->at[i].number);
        double score = (double)best->at[i].score;
        if (query->question->json) {
            printf("{\"rank\":%zu,\"score\":%.6g,\"name\":", i + 1, score);
            print_quoted(name);
            if (query->question->data != NULL)
                printf(",\"known\":%s", marked ? "true" : "false");
            printf("}\n");
        } else
            printf("%4zu  %10.4f  %s%s\n", i + 1, score, name, marked ? "  (known)" : "");
    }
}

static bool answer(const struct query *query, float *scores)
{
    enum side side = query->object == NAMES_NONE ? ASK_OBJECT : ASK_SUBJECT;
    uint32_t given = side == ASK_OBJECT ? query->subject : query->object;
    struct best best;
    bool ok = best_init(&best, (size_t)query->question->n_answers) &&
              score_all(query, side, given, scores);
    for (uint32_t i = 0; ok && i < query->entities.n; i++)
        best_offer(&best, i, scores[i]);
    if (ok)
        print_answers(query, side, given, &best);
    best_fini(&best);
    return ok;
}

/* ---- A whole triple -------------------------------------------------------------------------- */

/* The rank of the answer among all entities but those that are other known answers; ties share their mean
 * rank. */
static bool find_rank(const struct query *query, enum side side, float *scores, double *rank,
                      double *score)
{
    uint32_t given = side == ASK_OBJECT ? query->subject : query->object;
    uint32_t right = side == ASK_OBJECT ? query->object : query->subject;
    size_t n_higher = 0, n_equal = 0;
    if (!score_all(query, side, given, scores))
        return false;
    for (uint32_t i = 0; i < query->entities.n; i++) {
        if (i == right || scores[i] < scores[right] || is_known(query, side, given, i))
            continue;
        n_higher += scores[i] > scores[right];
        n_equal += !(scores[i] > scores[right]);
    }
    *rank = 1 + (double)n_higher + (double)n_equal / 2;
    *score = (double)scores[right];
    return true;
}

static bool judge(const struct query *query, float *scores)
{
    double score, as_object, as_subject;
    if (!find_rank(query, ASK_SUBJECT, scores, &as_subject, &score) ||
        !find_rank(query, ASK_OBJECT, scores, &as_object, &score))
        return false;
    bool marked = is_known(query, ASK_OBJECT, query->subject, query->object);
    if (query->question->json) {
        printf("{\"score\":%.6g,\"subject_rank\":%.10g,\"object_rank\":%.10g,\"entities\":%u",
               score, as_subject, as_object, query->entities.n);
        if (query->question->data != NULL)
            printf(",\"known\":%s", marked ? "true" : "false");
        printf("}\n");
    } else
        printf("score %.4f%s\nas subject it ranks %.10g of %u, as object %.10g\n", score,
               marked ? "  (known)" : "", as_subject, query->entities.n, as_object);
    return true;
}

bool kge_predict(const struct kge_question *question)
{
    struct query query = {.question = question};
    bool ok = open_query(&query);
    float *scores = ok ? malloc((query.entities.n + (size_t)1) * sizeof *scores) : NULL;
    if (ok && scores == NULL)
        ok = task_fail_memory("the scores");
    ok = ok && (question->subject != NULL && question->object != NULL ? judge(&query, scores)
                                                                      : answer(&query, scores));
    free(scores);
    close_query(&query);
    return ok;
}
