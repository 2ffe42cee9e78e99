/* predict - asks a model that was written for the missing part of a fact. See kge.h. */
#include <math.h>
#include <stdlib.h>

#include "common/dense.h"
#include "common/quoted.h"
#include "common/vectors.h"
#include "kge/files.h"
#include "kge/kge.h"

struct scored {
    uint32_t entity;
    float score;
};

/* A question with its names resolved. */
struct query {
    struct model_facts facts;
    struct names entities, relations;
    enum side side;
    uint32_t given, relation;
    float *question;     /* facts.dim numbers */
    struct scored *best; /* in descending order of scores */
    size_t n_best, n_wanted;
};

/* ---- Names and vectors ----------------------------------------------------------------------- */

static bool read_names(const char *folder, const char *kind, uint64_t n, struct names *names)
{
    char *path = files_path(folder, kind, ".txt");
    bool ok = path != NULL && names_read(names, path);
    if (ok && names->n != n)
        ok = task_fail("%s has %u names, but the model has %llu", path, names->n,
                       (unsigned long long)n);
    free(path);
    return ok;
}

static bool resolve(const char *folder, const char *kind, const struct names *names,
                    const char *name, uint32_t *number)
{
    *number = names_find(names, name, strlen(name));
    return *number != NAMES_NONE ||
           task_fail("the model in %s does not know '%s'; its %s are listed in %s/%s.txt", folder,
                     name, kind, folder, kind);
}

static bool open_vectors(const char *folder, const char *kind, uint64_t n, size_t length,
                         struct npy *npy)
{
    char *path = files_path(folder, kind, ".npy");
    bool ok = path != NULL && npy_open(npy, path);
    if (ok && (npy->n_rows != n || npy->n_columns != length)) {
        ok = task_fail("%s does not have the rows and columns that model.txt names", path);
        npy_close(npy);
    }
    free(path);
    return ok;
}

/* One row of a file. */
static bool read_vector(const char *folder, const char *kind, uint64_t n, size_t length,
                        uint32_t row, float *vector)
{
    struct npy npy;
    if (!open_vectors(folder, kind, n, length, &npy))
        return false;
    long offset = (long)(row * length * sizeof *vector);
    bool ok = fseek(npy.file, offset, SEEK_CUR) == 0 ? npy_read(&npy, 1, vector)
                                                     : task_fail("cannot read %s", npy.path);
    npy_close(&npy);
    return ok;
}

static bool make_question(struct query *query, const char *folder)
{
    size_t n = query->facts.dim;
    size_t n_relation = model_relation_length(query->facts.model, n);
    float *vectors = malloc((n + n_relation) * sizeof *vectors);
    query->question = malloc(n * sizeof *query->question);
    bool ok = vectors != NULL && query->question != NULL ? true : task_fail_memory("a vector");
    ok = ok && read_vector(folder, "entities", query->facts.n_entities, n, query->given, vectors) &&
         read_vector(folder, "relations", query->facts.n_relations, n_relation, query->relation,
                     vectors + n);
    if (ok)
        model_question(query->facts.model, query->side, vectors, vectors + n, n, query->question);
    free(vectors);
    return ok;
}

/* ---- The best -------------------------------------------------------------------------------- */

/* Keeps an answer if it is among the best so far. */
static void consider(struct query *query, struct scored answer)
{
    if (query->n_best == query->n_wanted && !(answer.score > query->best[query->n_best - 1].score))
        return;
    size_t at = query->n_best < query->n_wanted ? query->n_best++ : query->n_best - 1;
    for (; at > 0 && query->best[at - 1].score < answer.score; at--)
        query->best[at] = query->best[at - 1];
    query->best[at] = answer;
}

static bool find_best(struct query *query, const char *folder)
{
    struct npy npy;
    size_t n = query->facts.dim;
    if (!open_vectors(folder, "entities", query->facts.n_entities, n, &npy))
        return false;
    float *vector = malloc(n * sizeof *vector);
    query->best = calloc(query->n_wanted, sizeof *query->best);
    bool ok = vector != NULL && query->best != NULL ? true : task_fail_memory("the answers");
    for (uint32_t i = 0; ok && i < npy.n_rows; i++) {
        ok = npy_read(&npy, 1, vector);
        float score = ok ? dense_dot(query->question, vector, n) : 0;
        if (ok && !isfinite(score))
            ok = task_fail("%s:%u: the score is not a finite number", npy.path, i);
        else if (ok)
            consider(query, (struct scored){i, score});
    }
    free(vector);
    npy_close(&npy);
    return ok;
}

/* ---- Printing -------------------------------------------------------------------------------- */

/* Whether the model has learned this answer. */
static bool is_known(const struct query *query, const struct graph *graph,
                     const struct known *known, uint32_t answer)
{
    const char *given = names_at(&query->entities, query->given);
    const char *relation = names_at(&query->relations, query->relation);
    const char *name = names_at(&query->entities, answer);
    uint32_t g = names_find(&graph->entities, given, strlen(given));
    uint32_t r = names_find(&graph->relations, relation, strlen(relation));
    uint32_t a = names_find(&graph->entities, name, strlen(name));
    size_t n = 0;
    const struct answer *answers = known_answers(known, query->side, g, r, &n);
    for (size_t i = 0; i < n; i++)
        if (answers[i].entity == a)
            return true;
    return false;
}

static void print_answers(const struct query *query, const struct kge_question *question,
                          const struct graph *graph, const struct known *known)
{
    for (size_t i = 0; i < query->n_best; i++) {
        const char *name = names_at(&query->entities, query->best[i].entity);
        bool marked = is_known(query, graph, known, query->best[i].entity);
        double score = (double)query->best[i].score;
        if (question->json) {
            printf("{\"rank\":%zu,\"score\":%.6g,\"name\":", i + 1, score);
            print_quoted(name);
            printf(question->data != NULL ? ",\"known\":%s}\n" : "}\n", marked ? "true" : "false");
        } else
            printf("%4zu  %10.4f  %s%s\n", i + 1, score, name, marked ? "  (known)" : "");
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool open_query(struct query *query, const struct kge_question *question)
{
    const char *folder = question->folder;
    query->side = question->subject != NULL ? ASK_OBJECT : ASK_SUBJECT;
    query->n_wanted = (size_t)question->n_answers;
    return files_read_facts(folder, &query->facts) &&
           read_names(folder, "entities", query->facts.n_entities, &query->entities) &&
           read_names(folder, "relations", query->facts.n_relations, &query->relations) &&
           resolve(folder, "entities", &query->entities,
                   question->subject != NULL ? question->subject : question->object,
                   &query->given) &&
           resolve(folder, "relations", &query->relations, question->relation, &query->relation);
}

bool kge_predict(const struct kge_question *question)
{
    struct query query = {0};
    struct graph graph = {0};
    struct known known = {0};
    bool ok = open_query(&query, question) && make_question(&query, question->folder) &&
              find_best(&query, question->folder) &&
              (question->data == NULL || graph_read_train(&graph, question->data)) &&
              known_init(&known, &graph);
    if (ok)
        print_answers(&query, question, &graph, &known);
    known_fini(&known);
    graph_fini(&graph);
    names_fini(&query.entities);
    names_fini(&query.relations);
    free(query.question);
    free(query.best);
    return ok;
}
