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
#include "common/negatives.h"
#include "wordvec/skipgram.h"
#include "wordvec/wordfiles.h"
#include "wordvec/wordtest.h"

struct model;

/* One thread's part in the training. */
struct trainer {
    struct model *model;
    struct tern_worker *worker; /* NULL with --plain */
    struct excerpts *excerpts;
    struct loader loader;
    uint64_t *pool; /* of the excerpt at hand: keys of its negatives */
    float **rows;
    float *copies; /* of a table: the rows, and what they were when they were borrowed */
    float *before;
};

struct model {
    const struct wordvec_options *options;
    struct train *train;
    struct text text;
    struct vocab vocab;
    struct wordtest test;
    struct params *params; /* keys as in excerpt.h */
    struct negatives negatives;
    struct trainer *trainers; /* one per thread */
};

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Words that a node keeps of the text at most: 1 GB. */
enum { MOST_KEPT = 1 << 28 };

/* Nodes that learn a frequent word for long without each other's updates overshoot; what few excerpts change may wait, which
 * saves most of the bytes (docs/adaptive.md, Freshness). */
enum { RARE_STALENESS_MS = 100 };
static const double RARE_FACTOR = 5;

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
    if (!text_init(&model->text, train->options->data))
        return false;
    model->text.placement = train->placement.folder != NULL ? &train->placement : NULL;
    model->text.n_threads = train->n_threads;
    return text_can_be_reread(&model->text) && vocab_read(&model->vocab, &model->text, &settings) &&
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

/* Negatives are predicted rows, drawn by the frequencies of their words. Their stream begins anew with each checkpoint. */
static bool open_negatives(struct model *model)
{
    const struct train *train = model->train;
    const uint32_t n_words = model->vocab.names.n;
    uint64_t *keys = malloc(n_words * sizeof *keys);
    if (keys == NULL)
        return task_fail_memory("the negatives");
    for (uint32_t i = 0; i < n_words; i++)
        keys[i] = predicted_key(i);
    const struct tern_target target = {.struct_size = sizeof target,
                                       .kind = TERN_TARGET_COUNTS,
                                       .end = n_words,
                                       .keys = keys,
                                       .counts = model->vocab.counts,
                                       .seed =
                                           (uint64_t)(train->options->seed + train->n_epochs_done)};
    bool ok = negatives_open(&model->negatives, model->params, &target, model->options->sampling);
    free(keys);
    return ok;
}

/* Both rows of a word have their home where the placement says. */
static bool place_words(const struct model *model, struct placing *placing)
{
    const struct names *names = &model->vocab.names;
    if (!placing_init(placing, &model->train->placement, 2 * (size_t)names->n, 2))
        return false;
    for (uint32_t i = 0; i < names->n; i++) {
        const char *name = names_at(names, i);
        const uint64_t key = placement_name_key(name, strlen(name));
        placing_add(placing, predicting_key(i), key);
        placing_add(placing, predicted_key(i), key);
    }
    return placing_check(placing, "words");
}

/* How often the rows of each word are used, about: those of words that are left out are not. NULL after task_fail(). */
static uint64_t *count_uses(const struct model *model)
{
    const struct vocab *vocab = &model->vocab;
    const uint64_t n_negatives = (uint64_t)model->options->n_negatives;
    uint64_t *uses = malloc(2 * (size_t)vocab->names.n * sizeof *uses);
    for (uint32_t i = 0; uses != NULL && i < vocab->names.n; i++) {
        const uint64_t kept = (uint64_t)((double)vocab->counts[i] * vocab->keep[i] * 0x1p-32);
        uses[predicting_key(i)] = kept;
        uses[predicted_key(i)] = kept + n_negatives * kept;
    }
    if (uses == NULL)
        (void)task_fail_memory("the frequencies of words");
    return uses;
}

static bool open_params(struct model *model)
{
    static struct first_value first; /* as long as the table */
    size_t dim = (size_t)model->options->dim;
    struct placing placing = {0};
    const bool is_placed = model->train->placement.folder != NULL;
    /* Words are numbered from the most frequent one down. */
    uint64_t *uses = count_uses(model);
    const struct train_keys keys = {.placement = is_placed ? &placing.placement : NULL,
                                    .is_ranked = true,
                                    .frequencies = uses,
                                    .rare_staleness_ms = RARE_STALENESS_MS,
                                    .rare_factor = RARE_FACTOR};
    first = (struct first_value){(uint64_t)model->train->options->seed, dim};
    model->params =
        uses != NULL && (!is_placed || place_words(model, &placing))
            ? train_params_with(model->train, &keys, "words", 2 * (uint64_t)model->vocab.names.n,
                                skipgram_width(dim), first_value, &first)
            : NULL;
    placing_fini(&placing);
    free(uses);
    return model->params != NULL && open_negatives(model);
}

/* Of what was read: keys are numbers of names. */
static uint64_t digest(const struct model *model)
{
    return names_digest(&model->vocab.names, model->vocab.n_words ^
                                                 rng_mix((uint64_t)model->options->dim) ^
                                                 model->train->placement.digest);
}

static void introduce(const struct model *model)
{
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json)
        return;
    fprintf(stderr,
            "%" PRIu64 " words of text, %u different ones with at least %" PRId64 " occurrences\n",
            model->vocab.n_words, model->vocab.names.n, model->options->min_count);
    fprintf(stderr, "skip-gram, dimension %" PRId64 "; %u node%s with %zu thread%s%s\n",
            model->options->dim, train->n_nodes, train->n_nodes == 1 ? "" : "s", train->n_threads,
            train->n_threads == 1 ? "" : "s", train->node == NULL ? ", plain arrays" : "");
}

/* ---- Trainees -------------------------------------------------------------------------------- */

static bool prepare(void *context, void *excerpt, uint64_t clock)
{
    struct trainer *trainer = context;
    struct excerpt *own = excerpt;
    return excerpts_next(trainer->excerpts, own) &&
           negatives_order(&trainer->model->negatives, trainer->worker, own->n_pool, &own->order) &&
           params_intend(trainer->model->params, trainer->worker, own->keys, own->n_keys, clock,
                         clock + 1);
}

static bool init_excerpt(void *context, void *excerpt)
{
    const struct trainer *trainer = context;
    return excerpt_init(excerpt, (size_t)trainer->model->options->n_negatives);
}

static void fini_excerpt(void *excerpt)
{
    excerpt_fini(excerpt);
}

static const struct loader_batches batches = {.bytes = sizeof(struct excerpt),
                                              .init = init_excerpt,
                                              .fini = fini_excerpt,
                                              .prepare = prepare};

static bool make_rows(struct trainer *trainer, size_t n_rows)
{
    const struct params *params = trainer->model->params;
    size_t bytes = (n_rows * params->length * sizeof(float) + 63) / 64 * 64;
    trainer->rows = malloc(n_rows * sizeof *trainer->rows);
    trainer->pool = malloc(excerpt_max_pool((size_t)trainer->model->options->n_negatives) *
                           sizeof *trainer->pool);
    if (params->values == NULL) {
        trainer->copies = aligned_alloc(64, bytes);
        trainer->before = aligned_alloc(64, bytes);
    }
    return (trainer->rows != NULL && trainer->pool != NULL &&
            (params->values != NULL || (trainer->copies != NULL && trainer->before != NULL))) ||
           task_fail_memory("a worker");
}

/* The share of a thread from this epoch on. */
static bool open_excerpts(struct trainer *trainer, size_t thread)
{
    const struct model *model = trainer->model;
    const struct train *train = model->train;
    const struct excerpts_settings settings = {
        .window = (size_t)model->options->window,
        .n_negatives = (size_t)model->options->n_negatives,
        .worker = train->rank * train->n_threads + thread,
        .n_workers = train->n_present * train->n_threads,
        .seed = (uint64_t)train->options->seed,
        .n_epochs = train->options->n_epochs,
        .n_epochs_done = train->n_epochs_done,
    };
    return excerpts_init(trainer->excerpts, &model->text, &model->vocab, &settings);
}

static bool trainer_init(struct trainer *trainer, struct model *model, size_t thread)
{
    const struct train *train = model->train;
    *trainer = (struct trainer){.model = model,
                                .worker = train_worker(train, thread),
                                .excerpts = calloc(1, sizeof *trainer->excerpts)};
    if (trainer->excerpts == NULL)
        return task_fail_memory("a worker");
    return open_excerpts(trainer, thread) &&
           loader_init(&trainer->loader, &batches, trainer, train_ahead_s(train)) &&
           make_rows(trainer, excerpt_max_keys((size_t)model->options->n_negatives)) &&
           (trainer->excerpts->n_own == 0 || loader_fill(&trainer->loader));
}

static void trainer_fini(struct trainer *trainer)
{
    if (trainer->excerpts != NULL)
        excerpts_fini(trainer->excerpts);
    free(trainer->excerpts);
    loader_fini(&trainer->loader);
    free(trainer->pool);
    free(trainer->rows);
    free(trainer->copies);
    free(trainer->before);
}

static bool make_trainers(struct model *model)
{
    size_t n_threads = model->train->n_threads;
    model->trainers = calloc(n_threads, sizeof *model->trainers);
    if (model->trainers == NULL)
        return task_fail_memory("the workers");
    bool ok = true;
    for (size_t i = 0; ok && i < n_threads; i++)
        ok = trainer_init(&model->trainers[i], model, i);
    return ok;
}

/* ---- Learning -------------------------------------------------------------------------------- */

/* Completes the excerpt with its negatives. */
static bool add_negatives(struct trainer *trainer, struct excerpt *excerpt)
{
    const struct model *model = trainer->model;
    if (!negatives_are_managed(&model->negatives))
        excerpts_draw(trainer->excerpts, excerpt, trainer->pool);
    else if (!negatives_receive(trainer->worker, excerpt->order, excerpt->n_pool, trainer->pool))
        return false;
    excerpts_complete(trainer->excerpts, excerpt, trainer->pool);
    /* Keys that just happen to be here are asked to stay until the step is done. */
    const uint64_t clock = trainer->loader.n_taken - 1;
    return model->options->sampling != TERN_NON_CONFORM ||
           params_intend(model->params, trainer->worker, trainer->pool, excerpt->n_pool, clock,
                         clock + 1);
}

static bool borrow(struct trainer *trainer, const struct excerpt *excerpt)
{
    const struct params *params = trainer->model->params;
    size_t n = excerpt->n_keys, length = params->length;
    if (params->values != NULL) {
        for (size_t i = 0; i < n; i++)
            trainer->rows[i] = params->values + excerpt->keys[i] * length;
        return true;
    }
    if (!params_pull(params, trainer->worker, excerpt->keys, n, trainer->before))
        return false;
    memcpy(trainer->copies, trainer->before, n * length * sizeof(float));
    for (size_t i = 0; i < n; i++)
        trainer->rows[i] = trainer->copies + i * length;
    return true;
}

static bool give_back(struct trainer *trainer, const struct excerpt *excerpt)
{
    const struct params *params = trainer->model->params;
    if (params->values != NULL)
        return true;
    for (size_t i = 0; i < excerpt->n_keys * params->length; i++)
        trainer->before[i] = trainer->copies[i] - trainer->before[i];
    return params_add(params, trainer->worker, excerpt->keys, excerpt->n_keys, trainer->before);
}

static float rate_at(const struct wordvec_options *options, float progress)
{
    float rate = (float)options->rate * (1 - progress);
    return rate > (float)options->min_rate ? rate : (float)options->min_rate;
}

static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct model *model = context;
    struct trainer *trainer = &model->trainers[thread];
    struct excerpt *excerpt = NULL;
    (void)number;
    while (trainer->excerpts->n_own > 0 && (excerpt == NULL || !excerpt->ends_epoch)) {
        excerpt = loader_next(&trainer->loader);
        if (excerpt == NULL || !add_negatives(trainer, excerpt) || !borrow(trainer, excerpt))
            return false;
        double loss = skipgram_learn(excerpt, trainer->rows, model->params->length,
                                     rate_at(model->options, excerpt->progress));
        if (!give_back(trainer, excerpt))
            return false;
        if (!train_done(train, thread, excerpt->n_read, loss * (double)excerpt->n_read))
            break;
    }
    return true;
}

static bool renew(void *context, struct train *train)
{
    struct model *model = context;
    (void)train;
    return negatives_close(&model->negatives) && open_negatives(model);
}

/* Ends the order of negatives of an excerpt that was prepared in vain. */
static bool drop(void *context, void *excerpt)
{
    const struct trainer *trainer = context;
    return negatives_cancel(&trainer->model->negatives, trainer->worker,
                            ((const struct excerpt *)excerpt)->order);
}

/* The text is cut into shares for the workers that are left. */
static bool share_out(void *context, struct train *train)
{
    struct model *model = context;
    bool ok = vocab_share_out(&model->vocab, &model->text, train->n_present * train->n_threads);
    for (size_t i = 0; ok && i < train->n_threads; i++) {
        struct trainer *trainer = &model->trainers[i];
        excerpts_fini(trainer->excerpts);
        ok = open_excerpts(trainer, i) && loader_renew(&trainer->loader, drop);
    }
    return ok;
}

static uint64_t n_examples(void *context)
{
    const struct model *model = context;
    uint64_t n = 0;
    for (size_t i = 0; i < model->train->n_threads; i++)
        n += model->trainers[i].excerpts->n_own;
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
                              .worker = train_worker(model->train, 0),
                              .settings = model->train->options->settings};
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
    if (train_resumed_model(train) == NULL)
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
        .measures = model->test.measures,
        .n_measures = model->test.n_measures,
        .epoch = epoch,
        .n_examples = n_examples,
        .evaluate = wordtest_is_empty(&model->test) ? NULL : evaluate,
        .renew = renew,
        .share_out = share_out,
        .save = save,
    };
    introduce(model);
    return train_agree(train, open_params(model)) && resume(model) &&
           train_agree(train, make_trainers(model)) && train_loop(train, &task, model);
}

bool wordvec_train(const struct train_options *train_options, const struct wordvec_options *options)
{
    struct train train;
    if (!train_open(&train, train_options))
        return false;
    struct model model = {.options = options, .train = &train};
    bool ok = load(&model);
    ok = train_agree_on(&train, ok, digest(&model)) && run(&model);
    for (size_t i = 0; model.trainers != NULL && i < train.n_threads; i++)
        trainer_fini(&model.trainers[i]);
    free(model.trainers);
    wordtest_fini(&model.test);
    vocab_fini(&model.vocab);
    text_fini(&model.text);
    return train_close(&train, ok);
}
