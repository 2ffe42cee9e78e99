/*
 * learner.h - sparse multinomial logistic regression on a Tern table.
 *
 * The model is one sparse table: a row of weights, one per kind of meaning, for each feature. A
 * thread takes a few definitions, pulls the rows of their features, computes the gradient and
 * pushes it to the same rows; FTRL runs inside the table and keeps weights that earn nothing at
 * exactly zero. Nobody declares the vocabulary: rows appear when they are first pushed to.
 *
 * It is a header so that each example stays one file to compile.
 */
#ifndef EXAMPLES_LEARNER_H
#define EXAMPLES_LEARNER_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include <tern/tern.h>

#include "wordnet.h"

#define BATCH 16 /* definitions per pull and push */
#define MAX_THREADS 64
#define BIAS_KEY 0 /* a feature that every definition has */

struct model {
    struct tern_node *node;
    struct tern_table *table;
};

/* What a walk over definitions found. */
struct score {
    size_t n, n_right, n_updates;
    double loss;
    size_t n_of_kind[N_KINDS], n_right_of_kind[N_KINDS];
};

/* One walk over a list of definitions, shared by all threads. */
struct walk {
    const struct model *model;
    const struct definitions *list;
    bool learn;
    atomic_size_t next; /* the first definition nobody has taken */
};

struct runner {
    struct walk *walk;
    pthread_t thread;
    struct score score;
    bool failed;
};

/* The keys of a batch with their rows and the updates for them. */
struct batch {
    size_t n_keys;
    uint64_t keys[BATCH * (MAX_FEATURES + 1)];
    float rows[BATCH * (MAX_FEATURES + 1)][N_KINDS];
    float updates[BATCH * (MAX_FEATURES + 1)][N_KINDS];
};

static bool complain(const char *doing)
{
    fprintf(stderr, "logistic: cannot %s: %s\n", doing, tern_error());
    return false;
}

/* ---- The model ------------------------------------------------------------------------------- */

static bool model_open(struct model *model)
{
    struct tern_table_options options = {
        .struct_size = sizeof options,
        .index = TERN_SPARSE,
        .length = N_KINDS,
        .updater = tern_updater_ftrl(4, 1, 0.4, 0),
    };
    if (tern_node_open(NULL, &model->node) != TERN_OK)
        return complain("open a node");
    if (tern_table_open(model->node, "weights", &options, &model->table) != TERN_OK) {
        complain("open the table");
        tern_node_close(model->node);
        return false;
    }
    return true;
}

/* The probability of each kind, from the rows of a definition's features. */
static void predict(size_t n, float (*rows)[N_KINDS], float *probability)
{
    float scale = 1 / sqrtf((float)n), most = -INFINITY, sum = 0;
    for (int k = 0; k < N_KINDS; k++) {
        float score = 0;
        for (size_t i = 0; i < n; i++)
            score += rows[i][k];
        probability[k] = score * scale;
        most = fmaxf(most, probability[k]);
    }
    for (int k = 0; k < N_KINDS; k++)
        sum += probability[k] = expf(probability[k] - most);
    for (int k = 0; k < N_KINDS; k++)
        probability[k] /= sum;
}

static int likeliest(const float *probability)
{
    int best = 0;
    for (int k = 1; k < N_KINDS; k++)
        best = probability[k] > probability[best] ? k : best;
    return best;
}

/* The gradient of the loss for each of the n rows. */
static void gradient(size_t n, const float *probability, int kind, float (*updates)[N_KINDS])
{
    float scale = 1 / sqrtf((float)n);
    for (int k = 0; k < N_KINDS; k++)
        updates[0][k] = scale * (probability[k] - (float)(k == kind));
    for (size_t i = 1; i < n; i++)
        memcpy(updates[i], updates[0], sizeof updates[0]);
}

static size_t append_keys(const struct definition *definition, uint64_t *keys)
{
    keys[0] = BIAS_KEY;
    memcpy(keys + 1, definition->features, definition->n_features * sizeof *keys);
    return definition->n_features + 1;
}

static void count(struct score *score, const struct definition *definition,
                  const float *probability)
{
    bool right = likeliest(probability) == definition->kind;
    score->n++;
    score->n_right += right;
    score->n_of_kind[definition->kind]++;
    score->n_right_of_kind[definition->kind] += right;
    score->loss -= log(fmax((double)probability[definition->kind], 1e-9));
}

/* ---- Training and testing -------------------------------------------------------------------- */

/* Pulls, predicts and, when learning, pushes n definitions. */
static bool do_batch(struct runner *runner, struct tern_worker *worker, struct batch *batch,
                     const struct definition *definitions, size_t n)
{
    struct tern_table *table = runner->walk->model->table;
    batch->n_keys = 0;
    for (size_t i = 0; i < n; i++)
        batch->n_keys += append_keys(&definitions[i], batch->keys + batch->n_keys);
    if (tern_pull(worker, table, batch->keys, batch->n_keys, batch->rows) != TERN_OK)
        return complain("pull");
    for (size_t i = 0, at = 0; i < n; i++) {
        size_t n_rows = definitions[i].n_features + 1;
        float probability[N_KINDS];
        predict(n_rows, batch->rows + at, probability);
        count(&runner->score, &definitions[i], probability);
        gradient(n_rows, probability, definitions[i].kind, batch->updates + at);
        at += n_rows;
    }
    if (!runner->walk->learn)
        return true;
    if (tern_push(worker, table, batch->keys, batch->n_keys, batch->updates) != TERN_OK)
        return complain("push");
    runner->score.n_updates += batch->n_keys;
    return tern_worker_advance(worker, NULL) == TERN_OK || complain("advance the clock");
}

static bool do_share(struct runner *runner, struct tern_worker *worker)
{
    struct walk *walk = runner->walk;
    struct batch *batch = malloc(sizeof *batch);
    if (batch == NULL) {
        fprintf(stderr, "logistic: no memory for a batch\n");
        return false;
    }
    bool ok = true;
    while (ok) {
        size_t from = atomic_fetch_add(&walk->next, BATCH);
        if (from >= walk->list->n)
            break;
        size_t n = walk->list->n - from < BATCH ? walk->list->n - from : BATCH;
        ok = do_batch(runner, worker, batch, walk->list->at + from, n);
    }
    free(batch);
    return ok;
}

static void *runner_main(void *argument)
{
    struct runner *runner = argument;
    struct tern_worker *worker;
    runner->failed = true;
    if (tern_worker_open(runner->walk->model->node, &worker) != TERN_OK) {
        complain("open a worker");
        return NULL;
    }
    bool ok = do_share(runner, worker);
    if (tern_worker_close(worker) != TERN_OK)
        ok = complain("close a worker");
    runner->failed = !ok;
    return NULL;
}

static void add_score(struct score *sum, const struct score *part)
{
    sum->n += part->n;
    sum->n_right += part->n_right;
    sum->n_updates += part->n_updates;
    sum->loss += part->loss;
    for (int k = 0; k < N_KINDS; k++) {
        sum->n_of_kind[k] += part->n_of_kind[k];
        sum->n_right_of_kind[k] += part->n_right_of_kind[k];
    }
}

/* Goes through the list once, with all threads. */
static bool go_through(const struct model *model, const struct definitions *list, bool learn,
                       int n_threads, struct score *score)
{
    struct walk walk = {.model = model, .list = list, .learn = learn};
    struct runner runners[MAX_THREADS];
    int n_started = 0;
    bool ok = true;
    *score = (struct score){0};
    for (; n_started < n_threads; n_started++) {
        runners[n_started] = (struct runner){.walk = &walk};
        if (pthread_create(&runners[n_started].thread, NULL, runner_main, &runners[n_started]) != 0)
            break;
    }
    if (n_started < n_threads) {
        fprintf(stderr, "logistic: cannot start %d threads\n", n_threads);
        ok = false;
    }
    for (int i = 0; i < n_started; i++) {
        pthread_join(runners[i].thread, NULL);
        ok = ok && !runners[i].failed;
        add_score(score, &runners[i].score);
    }
    return ok;
}

#endif
