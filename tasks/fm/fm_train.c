/* fm_train - trains a factorization machine: reads a stream, learns, measures, saves. See fm.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/batches.h"
#include "common/feature_names.h"
#include "common/scores.h"
#include "fm/fm_files.h"
#include "fm/fm_rows.h"

enum { MAX_MEASURES = 4, KEYS_AT_ONCE = 1 << 20, SAVED_AT_ONCE = 4096, SCORED_AT_ONCE = 1024 };

/* What a thread needs. */
struct worker_space {
    struct fm_step step;
    struct rng rng; /* of dropout */
    struct scores scores;
};

struct model {
    const struct fm_options *options;
    struct train *train;
    struct examples_options reading;
    struct fm_rows rows;
    struct batches batches;
    struct worker_space *spaces; /* by thread */
    struct train_task task;
    struct train_measure measures[MAX_MEASURES];
    struct feature_names names; /* that are known at node 0 */
};

/* ---- Options ---------------------------------------------------------------------------------- */

static bool read_tier(const char **text, long *n_dims, long *threshold)
{
    char *end;
    *n_dims = strtol(*text, &end, 10);
    if (end == *text)
        return false;
    *threshold = 0;
    if (*end == '@') {
        const char *digits = end + 1;
        *threshold = strtol(digits, &end, 10);
        if (end == digits)
            return false;
    }
    *text = end;
    return *end == '\0' || *end == ',';
}

bool fm_read_tiers(const char *text, struct fm_options *options)
{
    const char *at = text;
    long n_before = 0, before = -1, n_dims, threshold;
    options->n_tiers = 0;
    if (strcmp(text, "0") == 0)
        return true;
    for (;; at++) {
        if (!read_tier(&at, &n_dims, &threshold))
            return task_fail("--dims '%s' is none: it must be dimensions and an occurrence count, "
                             "such as 16@10 or 8@10,64@1000",
                             text);
        if (n_dims <= n_before || threshold <= before)
            return task_fail("--dims %s: dimensions and occurrences must rise from tier to tier",
                             text);
        if (n_dims > FM_MAX_DIMS || threshold > TERN_MAX_ADMIT || options->n_tiers == FM_MAX_TIERS)
            return task_fail("--dims %s: there may be %d tiers, %d dimensions and a count of %d",
                             text, FM_MAX_TIERS, FM_MAX_DIMS, TERN_MAX_ADMIT);
        options->tiers[options->n_tiers++] =
            (struct fm_tier){(uint32_t)(n_dims - n_before), (uint32_t)threshold};
        n_before = n_dims;
        before = threshold;
        if (*at == '\0')
            return true;
    }
}

bool fm_counts(const struct fm_options *options)
{
    return options->min_count > 1 ||
           (options->n_tiers > 0 && options->tiers[options->n_tiers - 1].threshold > 0);
}

/* ---- Learning --------------------------------------------------------------------------------- */

/* Leaves out negative examples, and gives those that stay more weight. What stays depends on seed, epoch, and where an
 * example stands. */
static void thin(void *context, struct examples *list, uint64_t chunk)
{
    struct model *model = context;
    const double share = model->options->negatives;
    struct rng rng = rng_seed((uint64_t)model->train->options->seed +
                                  ((uint64_t)model->train->n_epochs_done << 32),
                              chunk);
    size_t n = 0, at = 0;
    for (size_t row = 0; row < list->n; row++) {
        const bool is_kept = rng_unit(&rng) < share || list->labels[row] > 0;
        const size_t from = list->start[row], n_features = list->start[row + 1] - from;
        if (!is_kept)
            continue;
        list->labels[n] = list->labels[row];
        list->weights[n] = list->weights[row] / (list->labels[row] > 0 ? 1 : (float)share);
        list->start[n++] = at;
        memmove(list->keys + at, list->keys + from, n_features * sizeof *list->keys);
        memmove(list->values + at, list->values + from, n_features * sizeof *list->values);
        memmove(list->fields + at, list->fields + from, n_features * sizeof *list->fields);
        at += n_features;
    }
    if (list->n > 0)
        list->start[n] = at;
    list->n = n;
    list->n_features = at;
}

static bool learn(void *context, size_t thread, const struct examples *list, size_t first,
                  size_t end, double *loss)
{
    struct model *model = context;
    struct worker_space *space = &model->spaces[thread];
    struct tern_worker *worker = train_worker(model->train, thread);
    if (!fm_step_list(&space->step, list, first, end) ||
        !fm_rows_pull(&model->rows, worker, &space->step))
        return false;
    *loss = fm_step_learn(&space->step, model->options, list, first, &space->rng);
    return fm_rows_push(&model->rows, worker, &space->step);
}

static bool intend(void *context, size_t thread, const uint64_t *keys, size_t n, uint64_t clock)
{
    struct model *model = context;
    return fm_rows_intend(&model->rows, train_worker(model->train, thread), keys, n, clock);
}

/* Random numbers of dropout begin anew with each checkpoint. */
static bool renew(void *context, struct train *train)
{
    struct model *model = context;
    for (size_t i = 0; i < train->n_threads; i++)
        model->spaces[i].rng = rng_seed((uint64_t)(train->options->seed + train->n_epochs_done),
                                        train->self * train->n_threads + i);
    return true;
}

/* Occurrences are counted in the first epoch. */
static bool begin(void *context, struct train *train)
{
    struct model *model = context;
    return fm_rows_begin(&model->rows, train->n_epochs_done == 0) && batches_begin(&model->batches);
}

static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct model *model = context;
    (void)train;
    (void)number;
    return batches_epoch(&model->batches, thread);
}

/* The nodes that are left read the files of all. */
static bool share_out(void *context, struct train *train)
{
    struct model *model = context;
    batches_deal(train, &model->reading);
    batches_deal(train, &model->batches.reading);
    return true;
}

static uint64_t n_examples(void *context)
{
    (void)context;
    return 0;
}

/* ---- Measuring -------------------------------------------------------------------------------- */

static bool score_list(void *context, size_t thread, const struct examples *list)
{
    struct model *model = context;
    struct worker_space *space = &model->spaces[thread];
    bool ok = true;
    for (size_t first = 0, end; ok && first < list->n; first = end) {
        end = list->n - first < SCORED_AT_ONCE ? list->n : first + SCORED_AT_ONCE;
        ok = fm_step_list(&space->step, list, first, end) &&
             fm_rows_pull(&model->rows, train_worker(model->train, thread), &space->step);
        if (ok)
            fm_step_prepare(&space->step);
        for (size_t row = first; ok && row < end; row++)
            scores_add(&space->scores, fm_step_margin(&space->step, row - first),
                       (double)list->labels[row], (double)list->weights[row]);
    }
    return ok;
}

static enum examples_format format_of(const struct model *model)
{
    return model->batches.is_open ? model->batches.source.format : model->reading.format;
}

static double value_of(const char *name, const struct scores *scores)
{
    if (strcmp(name, "auc") == 0)
        return scores_auc(scores);
    if (strcmp(name, "accuracy") == 0)
        return scores_accuracy(scores);
    return strcmp(name, "rmse") == 0 ? scores_rmse(scores) : scores_log_loss(scores);
}

static bool evaluate(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    struct scores *all = &model->spaces[0].scores;
    struct examples_options reading = model->reading;
    reading.format = format_of(model);
    reading.placement = NULL;
    for (size_t i = 0; i < train->n_threads; i++)
        memset(model->spaces[i].scores.sums, 0, (SCORES_SUMS + 2 * SCORES_BINS) * sizeof(double));
    bool ok = examples_visit(model->options->test, &reading, train->n_threads, score_list, model);
    for (size_t i = 1; ok && i < train->n_threads; i++)
        scores_merge(all, &model->spaces[i].scores);
    ok = train_agree(train, ok) && scores_share(all, train);
    for (size_t i = 0; ok && i < model->task.n_measures; i++)
        quality->values[i] = value_of(model->measures[i].name, all);
    return ok;
}

/* Lists what is measured; the metric that was asked for comes first. */
static bool choose_measures(struct model *model)
{
    static const struct train_measure binary[] = {{"log_loss", "log loss", false},
                                                  {"auc", "AUC", false},
                                                  {"accuracy", "accuracy", false}},
                                      squared[] = {{"rmse", "RMSE", false}};
    const bool is_binary = loss_is_binary(model->options->loss);
    const struct train_measure *all = is_binary ? binary : squared;
    const size_t n = is_binary ? sizeof binary / sizeof *binary : 1;
    const char *wanted = model->options->metric;
    size_t first = 0;
    while (wanted != NULL && first < n && strcmp(wanted, all[first].name) != 0)
        first++;
    if (first == n)
        return task_fail("there is no metric '%s' for this loss", wanted);
    model->measures[0] = all[first];
    for (size_t i = 0, k = 1; i < n; i++)
        if (i != first)
            model->measures[k++] = all[i];
    model->task.measures = model->measures;
    model->task.n_measures = n;
    model->task.lower_is_better = first == 0 || !is_binary;
    return true;
}

/* ---- Saving and resuming ---------------------------------------------------------------------- */

/* Hands the features of a step, which has been pulled, to a sink. */
static bool give_features(const struct fm_step *step, float *vectors, fm_sink *sink, void *context)
{
    bool ok = true;
    for (size_t i = 0; ok && i < step->features.n_keys; i++) {
        struct fm_feature feature = {
            .key = step->features.keys[i], .weight = step->weights[i], .vectors = vectors};
        size_t at = 0;
        for (size_t t = 0; t < step->n_tiers && step->tiers[t].rows[i] != FM_NONE; t++) {
            const struct fm_vectors *tier = &step->tiers[t];
            memcpy(vectors + at, tier->values + tier->rows[i] * tier->n_dims,
                   tier->n_dims * sizeof *vectors);
            at += tier->n_dims;
            feature.n_tiers++;
        }
        ok = sink(context, &feature);
    }
    return ok;
}

/* Hands n features to a sink, some at a time. */
static bool give_keys(struct model *model, const uint64_t *keys, size_t n, fm_sink *sink,
                      void *context)
{
    struct tern_worker *worker = train_worker(model->train, 0);
    struct fm_step *step = &model->spaces[0].step;
    float *vectors = calloc(FM_MAX_DIMS, sizeof *vectors);
    bool ok = vectors != NULL || task_fail_memory("the model's files");
    for (size_t first = 0, some; ok && first < n; first += some) {
        some = n - first < SAVED_AT_ONCE ? n - first : SAVED_AT_ONCE;
        ok = fm_step_keys(step, keys + first, some) && fm_rows_pull(&model->rows, worker, step) &&
             give_features(step, vectors, sink, context);
    }
    free(vectors);
    return ok;
}

/* A table looks at its whole index to list keys, so many are listed at a time. */
static bool each_feature(void *context, fm_sink *sink, void *sink_context)
{
    struct model *model = context;
    uint64_t *keys = malloc(KEYS_AT_ONCE * sizeof *keys), next = 0;
    size_t n = 1;
    bool ok = keys != NULL || task_fail_memory("the model's files");
    while (ok && n > 0)
        ok = fm_rows_keys(&model->rows, train_worker(model->train, 0), &next, KEYS_AT_ONCE, keys,
                          &n) &&
             give_keys(model, keys, n, sink, sink_context);
    free(keys);
    return ok;
}

static bool save(void *context, struct train *train)
{
    struct model *model = context;
    struct fm_info info = {.n_epochs = (uint64_t)train->n_epochs_done,
                           .hash_bits = model->reading.hash_bits,
                           .n_grams = model->reading.n_grams,
                           .n_tiers = model->options->n_tiers,
                           .loss = (int)model->options->loss,
                           .format = (int)format_of(model)};
    for (size_t t = 0; t < model->options->n_tiers; t++)
        info.n_dims[t] = model->options->tiers[t].n_dims;
    return fm_files_write(train->options->out, &info, train->options->settings, each_feature,
                          model);
}

static bool set_feature(void *context, const struct fm_feature *feature)
{
    struct model *model = context;
    return fm_rows_set(&model->rows, train_worker(model->train, 0), feature->key, feature->weight,
                       feature->vectors, feature->n_tiers);
}

/* Whether a model can be gone on with. */
static bool check_info(const struct model *model, const char *folder, const struct fm_info *info)
{
    const struct fm_options *options = model->options;
    bool same = info->n_tiers == options->n_tiers;
    for (size_t t = 0; same && t < options->n_tiers; t++)
        same = info->n_dims[t] == options->tiers[t].n_dims;
    if (!same)
        return task_fail("the model in %s has other dimensions (%zu in %zu tiers): give the --dims "
                         "that it was trained with",
                         folder, fm_info_dims(info, (size_t)info->n_tiers), (size_t)info->n_tiers);
    return info->loss == (int)options->loss ||
           task_fail("the model in %s was trained with --loss %s", folder, loss_names[info->loss]);
}

static bool resume(struct model *model)
{
    struct train *train = model->train;
    const char *folder = train_resumed_model(train);
    struct fm_info info = {0};
    if (folder == NULL)
        return true;
    bool ok = train->self != 0 ||
              (fm_files_read_info(folder, &info) && check_info(model, folder, &info) &&
               fm_files_read(folder, &info, set_feature, model) &&
               feature_names_load(&model->names, folder));
    if (!train_share_saved(train, ok, sizeof info, &info))
        return false;
    train->n_epochs_done = (int64_t)info.n_epochs;
    return true;
}

/* Names in the model that was saved. */
static bool add_names(struct model *model)
{
    struct train *train = model->train;
    struct examples_options reading = model->reading;
    reading.format = format_of(model);
    return train_agree(train, train->self != 0 || !train->has_saved || model->options->no_names ||
                                  feature_names_complete(&model->names, train->options->out,
                                                         train->options->data, &reading,
                                                         train->n_threads));
}

/* ---- Training --------------------------------------------------------------------------------- */

static void introduce(const struct model *model)
{
    const struct train *train = model->train;
    const struct fm_options *options = model->options;
    if (!train_speaks(train) || train->options->json)
        return;
    fprintf(stderr, "%s loss, weights with l1 %g", loss_names[options->loss], options->l1);
    for (size_t t = 0; t < options->n_tiers; t++)
        fprintf(stderr, ", %s%u dimensions after %u occurrences", t > 0 ? "further " : "",
                options->tiers[t].n_dims, options->tiers[t].threshold);
    fprintf(stderr, "; %u node%s with %zu thread%s%s\n", train->n_nodes,
            train->n_nodes == 1 ? "" : "s", train->n_threads, train->n_threads == 1 ? "" : "s",
            train->node == NULL ? ", plain arrays" : "");
}

static bool open_spaces(struct model *model)
{
    const struct train *train = model->train;
    bool ok = true;
    model->spaces = calloc(train->n_threads, sizeof *model->spaces);
    if (model->spaces == NULL)
        return task_fail_memory("the workers");
    for (size_t i = 0; ok && i < train->n_threads; i++)
        ok = fm_step_init(&model->spaces[i].step, model->options) &&
             scores_init(&model->spaces[i].scores);
    return ok && renew(model, model->train);
}

static void close_model(struct model *model)
{
    feature_names_fini(&model->names);
    for (size_t i = 0; model->spaces != NULL && i < model->train->n_threads; i++) {
        fm_step_fini(&model->spaces[i].step);
        scores_fini(&model->spaces[i].scores);
    }
    free(model->spaces);
    batches_close(&model->batches);
    fm_rows_close(&model->rows);
}

/* Of what a model is: a checkpoint of another one cannot be gone on with. */
static uint64_t digest(const struct fm_options *options)
{
    uint64_t sum = rng_mix((uint64_t)options->min_count * 4 + options->loss);
    for (size_t t = 0; t < options->n_tiers; t++)
        sum =
            rng_mix(sum + options->tiers[t].n_dims + ((uint64_t)options->tiers[t].threshold << 32));
    return sum;
}

static bool open_model(struct model *model)
{
    const struct fm_options *options = model->options;
    const struct batches_task task = {.context = model,
                                      .thin = options->negatives < 1 ? thin : NULL,
                                      .intend = intend,
                                      .learn = learn};
    return train_agree_on(model->train, true, digest(options)) &&
           train_agree(model->train,
                       choose_measures(model) && open_spaces(model) &&
                           batches_open(&model->batches, model->train, &model->reading,
                                        (size_t)options->n_batch, &task)) &&
           train_agree(model->train, fm_rows_open(&model->rows, model->train, options));
}

bool fm_train(const struct train_options *train_options, const struct fm_options *options)
{
    struct train train;
    struct model model = {.options = options, .train = &train, .reading = options->examples};
    if (!train_open(&train, train_options))
        return false;
    batches_deal(&train, &model.reading);
    model.reading.placement = train.placement.folder != NULL ? &train.placement : NULL;
    model.reading.needs_labels = true;
    model.reading.needs_features = true;
    model.reading.is_binary = loss_is_binary(options->loss);
    model.reading.constant = options->has_intercept ? FM_INTERCEPT_KEY : 0;
    model.task = (struct train_task){.unit = "examples",
                                     .begin = begin,
                                     .epoch = epoch,
                                     .n_examples = n_examples,
                                     .evaluate = options->test != NULL ? evaluate : NULL,
                                     .save = save,
                                     .renew = renew,
                                     .share_out = share_out};
    bool ok = open_model(&model) && resume(&model);
    if (ok)
        introduce(&model);
    ok = ok && train_loop(&train, &model.task, &model) && add_names(&model);
    ok = train_close(&train, ok);
    close_model(&model);
    return ok;
}
