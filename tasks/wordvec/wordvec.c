/*
 * wordvec - trains word vectors. See wordvec.h.
 *
 * Every node reads the text once for the vocabulary (vocab.h) and, if it is a long one, in each epoch once more. Each
 * of its threads is a worker with a stream of excerpts of its share of the text (excerpt.h), prepared ahead
 * (loader.h). It borrows the rows of an excerpt, learns on them in place (skipgram.h) and gives them
 * back: what has changed is added to the table. With --plain the rows are those of the array.
 */
#include "wordvec/wordvec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/loader.h"
#include "wordvec/skipgram.h"
#include "wordvec/wordfiles.h"
#include "wordvec/wordtest.h"

struct model;

/* One thread's part in the training. */
struct trainee {
    struct model *model;
    struct tern_worker *worker; /* NULL with --plain */
    struct excerpts *excerpts;
    struct excerpt *ring;
    size_t n_ring;
    struct loader loader;
    float **rows;  /* of the excerpt at hand */
    float *copies; /* of a table: the rows, and what they were when they were borrowed */
    float *before;
};

struct model {
    const struct wordvec_options *options;
    struct train *train;
    struct text text;
    struct vocab vocab;
    struct wordtest test;
    struct params *params;    /* keys as in excerpt.h */
    struct trainee *trainees; /* one per thread */
};

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Words that a node keeps of the text at most: 1 GB. */
enum { MOST_KEPT = 1 << 28 };

static bool load(struct model *model)
{
    const struct wordvec_options *options = model->options;
    const struct train *train = model->train;
    const struct vocab_settings settings = {.min_count = (uint64_t)options->min_count,
                                            .sample = options->sample,
                                            .n_workers = train->n_nodes * train->n_threads,
                                            .first_own = train->self * train->n_threads,
                                            .n_own = train->n_threads,
                                            .most_kept = MOST_KEPT};
    return text_init(&model->text, train->options->data) && text_can_be_reread(&model->text) &&
           vocab_read(&model->vocab, &model->text, &settings) &&
           wordtest_read(&model->test, &model->vocab.names, options->questions, options->similarity,
                         (uint64_t)options->n_candidates);
}

struct first_value {
    uint64_t seed;
    size_t dim;
};

/* Predicting rows begin with small numbers, predicted ones with zeros. */
static void first_value(void *context, uint64_t key, void *value, size_t length)
{
    const struct first_value *first = context;
    struct rng rng = rng_seed(first->seed, key);
    float *row = value;
    memset(row, 0, length * sizeof *row);
    for (size_t i = 0; key % 2 == 0 && i < first->dim; i++)
        row[i] = (rng_unit_float(&rng) - 0.5f) / (float)first->dim;
}

static bool open_params(struct model *model)
{
    static struct first_value first; /* as long as the table */
    size_t dim = (size_t)model->options->dim;
    first = (struct first_value){(uint64_t)model->train->options->seed, dim};
    model->params = train_params(model->train, "words", 2 * (uint64_t)model->vocab.names.n,
                                 skipgram_width(dim), first_value, &first);
    return model->params != NULL;
}

/* Of what was read: keys are numbers of names. */
static uint64_t digest(const struct model *model)
{
    return names_digest(&model->vocab.names, model->vocab.n_words);
}

static void introduce(const struct model *model)
{
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json)
        return;
    fprintf(stderr,
            "%" PRIu64 " words of text, %u different ones with at least %" PRId64 " occurrences\n",
            model->vocab.n_words, model->vocab.names.n, model->options->min_count);
    fprintf(stderr, "skip-gram, %" PRId64 " numbers per vector; %u node%s with %zu thread%s%s\n",
            model->options->dim, train->n_nodes, train->n_nodes == 1 ? "" : "s", train->n_threads,
            train->n_threads == 1 ? "" : "s", train->node == NULL ? ", plain arrays" : "");
}

/* ---- Trainees -------------------------------------------------------------------------------- */

static bool prepare(void *context, void *excerpt, uint64_t clock)
{
    struct trainee *trainee = context;
    const struct excerpt *own = excerpt;
    return excerpts_next(trainee->excerpts, excerpt) &&
           params_intend(trainee->model->params, trainee->worker, own->keys, own->n_keys, clock,
                         clock + 1);
}

static bool make_ring(struct trainee *trainee, size_t n_ring, size_t n_negatives)
{
    trainee->ring = calloc(n_ring, sizeof *trainee->ring);
    if (trainee->ring == NULL)
        return task_fail_memory("a worker");
    for (; trainee->n_ring < n_ring; trainee->n_ring++)
        if (!excerpt_init(&trainee->ring[trainee->n_ring], n_negatives))
            return false;
    loader_init(&trainee->loader, trainee->ring, sizeof *trainee->ring, n_ring - 1, prepare,
                trainee);
    return true;
}

static bool make_rows(struct trainee *trainee, size_t n_rows)
{
    const struct params *params = trainee->model->params;
    size_t bytes = (n_rows * params->length * sizeof(float) + 63) / 64 * 64;
    trainee->rows = malloc(n_rows * sizeof *trainee->rows);
    if (params->values == NULL) {
        trainee->copies = aligned_alloc(64, bytes);
        trainee->before = aligned_alloc(64, bytes);
    }
    return (trainee->rows != NULL &&
            (params->values != NULL || (trainee->copies != NULL && trainee->before != NULL))) ||
           task_fail_memory("a worker");
}

static bool trainee_init(struct trainee *trainee, struct model *model, size_t thread)
{
    const struct train *train = model->train;
    size_t n_negatives = (size_t)model->options->n_negatives;
    const struct excerpts_settings settings = {
        .window = (size_t)model->options->window,
        .n_negatives = n_negatives,
        .worker = train->self * train->n_threads + thread,
        .n_workers = train->n_nodes * train->n_threads,
        .seed = (uint64_t)train->options->seed,
        .n_epochs = train->options->n_epochs,
        .n_epochs_done = train->n_epochs_done,
    };
    *trainee = (struct trainee){.model = model,
                                .worker = train_worker(train, thread),
                                .excerpts = calloc(1, sizeof *trainee->excerpts)};
    if (trainee->excerpts == NULL)
        return task_fail_memory("a worker");
    return excerpts_init(trainee->excerpts, &model->text, &model->vocab, &settings) &&
           make_ring(trainee, (size_t)model->options->ahead + 1, n_negatives) &&
           make_rows(trainee, excerpt_max_keys(n_negatives)) &&
           (trainee->excerpts->n_own == 0 || loader_fill(&trainee->loader));
}

static void trainee_fini(struct trainee *trainee)
{
    if (trainee->excerpts != NULL)
        excerpts_fini(trainee->excerpts);
    free(trainee->excerpts);
    for (size_t i = 0; i < trainee->n_ring; i++)
        excerpt_fini(&trainee->ring[i]);
    free(trainee->ring);
    free(trainee->rows);
    free(trainee->copies);
    free(trainee->before);
}

static bool make_trainees(struct model *model)
{
    size_t n_threads = model->train->n_threads;
    model->trainees = calloc(n_threads, sizeof *model->trainees);
    if (model->trainees == NULL)
        return task_fail_memory("the workers");
    bool ok = true;
    for (size_t i = 0; ok && i < n_threads; i++)
        ok = trainee_init(&model->trainees[i], model, i);
    return ok;
}

/* ---- Learning -------------------------------------------------------------------------------- */

static bool borrow(struct trainee *trainee, const struct excerpt *excerpt)
{
    const struct params *params = trainee->model->params;
    size_t n = excerpt->n_keys, length = params->length;
    if (params->values != NULL) {
        for (size_t i = 0; i < n; i++)
            trainee->rows[i] = params->values + excerpt->keys[i] * length;
        return true;
    }
    if (!params_pull(params, trainee->worker, excerpt->keys, n, trainee->before))
        return false;
    memcpy(trainee->copies, trainee->before, n * length * sizeof(float));
    for (size_t i = 0; i < n; i++)
        trainee->rows[i] = trainee->copies + i * length;
    return true;
}

static bool give_back(struct trainee *trainee, const struct excerpt *excerpt)
{
    const struct params *params = trainee->model->params;
    if (params->values != NULL)
        return true;
    for (size_t i = 0; i < excerpt->n_keys * params->length; i++)
        trainee->before[i] = trainee->copies[i] - trainee->before[i];
    return params_add(params, trainee->worker, excerpt->keys, excerpt->n_keys, trainee->before);
}

static float rate_at(const struct wordvec_options *options, float progress)
{
    float rate = (float)options->rate * (1 - progress);
    return rate > (float)options->min_rate ? rate : (float)options->min_rate;
}

static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct model *model = context;
    struct trainee *trainee = &model->trainees[thread];
    const struct excerpt *excerpt = NULL;
    (void)number;
    while (trainee->excerpts->n_own > 0 && (excerpt == NULL || !excerpt->ends_epoch)) {
        excerpt = loader_next(&trainee->loader);
        if (excerpt == NULL || !borrow(trainee, excerpt))
            return false;
        double loss = skipgram_learn(excerpt, trainee->rows, model->params->length,
                                     rate_at(model->options, excerpt->progress));
        if (!give_back(trainee, excerpt))
            return false;
        if (!train_done(train, thread, excerpt->n_read, loss * (double)excerpt->n_read))
            break;
    }
    return true;
}

static uint64_t n_examples(void *context)
{
    const struct model *model = context;
    uint64_t n = 0;
    for (size_t i = 0; i < model->train->n_threads; i++)
        n += model->trainees[i].excerpts->n_own;
    return n;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool evaluate(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    return wordtest_run(&model->test, train, model->params, (size_t)model->options->dim, quality);
}

static struct wordfiles files_of(const struct model *model)
{
    return (struct wordfiles){.dim = (size_t)model->options->dim,
                              .formats = model->options->formats,
                              .names = &model->vocab.names,
                              .params = model->params,
                              .worker = train_worker(model->train, 0)};
}

static bool save(void *context, struct train *train)
{
    const struct model *model = context;
    struct wordfiles files = files_of(model);
    return wordfiles_write(&files, train->options->out, train->n_epochs_done);
}

/* Node 0 sets the rows of the model that is to go on; all learn how far it is. */
static bool resume(struct model *model)
{
    struct train *train = model->train;
    struct wordfiles files = files_of(model);
    int64_t n_epochs = 0;
    if (train->options->resume == NULL)
        return true;
    bool ok = train->self != 0 || wordfiles_read(&files, train->options->resume, &n_epochs);
    if (!train_share_saved(train, ok, sizeof n_epochs, &n_epochs))
        return false;
    train->n_epochs_done = n_epochs;
    return true;
}

static bool run(struct model *model)
{
    struct train *train = model->train;
    const struct train_task task = {
        .unit = "words",
        .epoch = epoch,
        .n_examples = n_examples,
        .evaluate = wordtest_is_empty(&model->test) ? NULL : evaluate,
        .save = save,
    };
    introduce(model);
    return train_agree(train, open_params(model)) && resume(model) &&
           train_agree(train, make_trainees(model)) && train_loop(train, &task, model);
}

bool wordvec_train(const struct train_options *common, const struct wordvec_options *options)
{
    struct train train;
    if (!train_open(&train, common))
        return false;
    struct model model = {.options = options, .train = &train};
    bool ok = load(&model);
    ok = train_agree_on(&train, ok, digest(&model)) && run(&model);
    for (size_t i = 0; model.trainees != NULL && i < train.n_threads; i++)
        trainee_fini(&model.trainees[i]);
    free(model.trainees);
    wordtest_fini(&model.test);
    vocab_fini(&model.vocab);
    text_fini(&model.text);
    return train_close(&train, ok);
}
