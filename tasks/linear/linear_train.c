/* linear_train - trains a linear model: reads data, runs a solver, measures, saves. See linear.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/checkpoints.h"
#include "common/feature_names.h"
#include "linear/coordinate.h"
#include "linear/dbpg.h"
#include "linear/linear_files.h"
#include "common/loss.h"
#include "linear/online.h"
#include "common/scores.h"

const char *const linear_solvers[] = {"dbpg", "online", "emso-cd", "emso-gd", NULL};
const char *const linear_updaters[] = {
    "ftrl", "adagrad",  "asyncadagrad", "adadelay", "adaptiverevision",
    "adam", "momentum", "sgd",          NULL};
const char *const linear_intercepts[] = {"none", "free", "penalised", NULL};

enum { MAX_MEASURES = 8 };

struct model {
    const struct linear_options *options;
    struct train *train;
    struct examples_options reading; /* of the training examples */
    enum examples_format format;     /* that was found */
    bool is_online;
    struct dbpg dbpg;
    struct online online;
    double n_examples, n_positive, n_pairs; /* of all nodes; online: 0 */
    double first_violation;
    double setup_s; /* dbpg: what it took to put the examples in order, after reading them */
    double waiting; /* dbpg: share of the last epochs that nodes have waited for others */
    double waited_s, lasted_s; /* until the last evaluation */
    bool is_converged;
    bool is_recalled; /* dbpg goes on from a checkpoint as if there had been no break */
    struct train_task task;
    struct train_measure measures[MAX_MEASURES];
    struct scores *scores; /* by thread */
    double *losses;        /* by thread: the sum of losses of the examples that were scored */
    uint64_t next_key;     /* of what is saved */
    size_t next_feature;
    struct feature_names names; /* that are known at node 0 */
};

/* ---- Reading ---------------------------------------------------------------------------------- */

static void weigh_classes(const struct linear_options *options, struct examples *list)
{
    for (size_t i = 0; i < list->n; i++)
        list->weights[i] *= list->labels[i] > 0 ? (float)options->positive_weight : 1;
}

/* Sums over all nodes: examples, positive ones, features. */
static bool count_examples(struct model *model, const struct examples *lists, size_t n_lists)
{
    double sums[3] = {0};
    for (size_t i = 0; i < n_lists; i++) {
        sums[0] += (double)lists[i].n;
        sums[2] += (double)lists[i].n_features;
        for (size_t k = 0; k < lists[i].n; k++)
            sums[1] += lists[i].labels[k] > 0;
    }
    if (!train_sum(model->train, 3, sums))
        return false;
    model->n_examples = sums[0];
    model->n_positive = sums[1];
    model->n_pairs = sums[2];
    return sums[0] > 0 || task_fail("%s: there is no example", model->train->options->data);
}

static bool check_classes(const struct model *model)
{
    if (!loss_is_binary(model->options->loss) ||
        (model->n_positive > 0 && model->n_positive < model->n_examples))
        return true;
    return task_fail("%s: all %.0f examples have a %s label: there is nothing to tell apart",
                     model->train->options->data, model->n_examples,
                     model->n_positive > 0 ? "positive" : "negative");
}

static size_t count_blocks(const struct model *model)
{
    const size_t least = (size_t)model->options->delay + 2;
    size_t n = model->options->n_blocks > 0
                   ? (size_t)model->options->n_blocks
                   : columns_choose_blocks(model->n_pairs / model->n_examples,
                                           (uint64_t)model->options->delay);
    return n > least ? n : least;
}

static bool read_lists(struct model *model, struct examples *lists)
{
    struct examples_source source;
    if (!examples_open(&source, model->train->options->data, &model->reading))
        return false;
    bool ok = examples_read_all(&source, model->train->n_threads, lists);
    model->format = source.format;
    examples_close(&source);
    return ok;
}

/* Reads this node's share of the examples for dbpg. */
static bool load(struct model *model)
{
    const size_t n = model->train->n_threads;
    struct examples *lists = calloc(n, sizeof *lists);
    bool ok = lists != NULL || task_fail_memory("the examples");
    ok = train_agree(model->train, ok && read_lists(model, lists));
    ok = ok && train_agree_on(model->train, true, (uint64_t)model->format);
    ok = ok && train_agree(model->train, count_examples(model, lists, n) && check_classes(model));
    for (size_t i = 0; ok && i < n; i++)
        weigh_classes(model->options, &lists[i]);
    const double started_s = seconds_now();
    ok = ok && train_agree(model->train,
                           columns_make(&model->dbpg.columns, lists, n, count_blocks(model)));
    model->setup_s = seconds_now() - started_s;
    for (size_t i = 0; lists != NULL && i < n; i++)
        examples_fini(&lists[i]);
    free(lists);
    return ok;
}

static void introduce(const struct model *model)
{
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json)
        return;
    if (!model->is_online)
        fprintf(stderr, "%.0f examples, %.0f of them positive; %.1f features each; %zu blocks\n",
                model->n_examples, model->n_positive, model->n_pairs / model->n_examples,
                model->dbpg.columns.n_blocks);
    fprintf(stderr, "%s loss by %s, l1 %g, l2 %g; %u node%s with %zu thread%s%s\n",
            loss_names[model->options->loss], linear_solvers[model->options->solver],
            model->options->l1, model->options->l2, train->n_nodes, train->n_nodes == 1 ? "" : "s",
            train->n_threads, train->n_threads == 1 ? "" : "s",
            train->node == NULL ? ", plain arrays" : "");
}

/* The format of the training examples, which is also that of the test examples. */
static enum examples_format format_of(const struct model *model)
{
    return model->is_online && model->online.batches.is_open ? model->online.batches.source.format
                                                             : model->format;
}

/* ---- Weights ---------------------------------------------------------------------------------- */

static bool pull_weights(struct model *model, size_t thread, const uint64_t *keys, size_t n,
                         double *weights)
{
    struct tern_worker *worker = train_worker(model->train, thread);
    return model->is_online ? online_pull(&model->online, worker, keys, n, weights)
                            : dbpg_pull(&model->dbpg, worker, keys, n, weights);
}

/* Sets weights of a resumed model. */
static bool set_weights(void *context, const uint64_t *keys, const double *weights, size_t n)
{
    struct model *model = context;
    struct tern_table *table = model->is_online ? model->online.table : model->dbpg.table;
    for (size_t i = 0; i < n; i++) {
        double row[COORDINATE_LENGTH] = {[COORDINATE_WEIGHT] = weights[i]};
        const float values[2] = {(float)weights[i], 0};
        const void *set = model->is_online ? (const void *)values : row;
        if (table != NULL) {
            if (tern_set(train_worker(model->train, 0), table, &keys[i], 1, set))
                return task_fail_tern("cannot set");
            continue;
        }
        size_t feature = model->is_online ? 0 : columns_find(&model->dbpg.columns, keys[i]);
        if (model->is_online)
            model->online.values[online_slot(&model->online, keys[i])] = values[0];
        else if (feature < model->dbpg.columns.n_features)
            model->dbpg.rows[feature * COORDINATE_LENGTH] = weights[i];
    }
    return true;
}

/* Node 0 sets the weights that a checkpoint of other nodes or threads has. */
static bool recall_weights(struct model *model)
{
    enum { BLOCK = 1024 };
    struct train *train = model->train;
    static double rows[BLOCK * COORDINATE_LENGTH];
    double weights[BLOCK];
    uint64_t keys[BLOCK];
    size_t n = 1, table = 0;
    bool ok = train->self != 0 || checkpoints_find_table(train, "weights", &table);
    for (uint64_t first = 0; ok && n > 0 && train->self == 0; first += n) {
        ok = !tern_checkpoint_read(train->checkpoint, table, first, BLOCK, keys, rows, NULL, &n) ||
             task_fail_tern("cannot go on from the checkpoint");
        for (size_t i = 0; ok && i < n; i++)
            weights[i] = rows[i * COORDINATE_LENGTH + COORDINATE_WEIGHT];
        ok = ok && set_weights(model, keys, weights, n);
    }
    return train_agree(train, ok) && train_quiesce(train);
}

/* The nodes that wrote a checkpoint go on with what each of them noted; others take its weights. */
static bool recall(struct model *model)
{
    struct train *train = model->train;
    double n_fit = 0;
    if (!train_agree(train, dbpg_recall(&model->dbpg, &model->first_violation, &n_fit)) ||
        !train_sum(train, 1, &n_fit))
        return false;
    model->is_recalled = n_fit >= (double)train->n_nodes;
    if (!model->is_recalled && n_fit > 0)
        return task_fail("the checkpoint in %s was made from other data", train->options->resume);
    return model->is_recalled ? checkpoints_restore(train, model->dbpg.table, true)
                              : recall_weights(model);
}

static bool note(void *context, struct train *train, struct train_note *note)
{
    struct model *model = context;
    (void)train;
    return dbpg_note(&model->dbpg, model->first_violation, note);
}

static bool resume(struct model *model)
{
    struct train *train = model->train;
    const char *folder = train_resumed_model(train);
    struct linear_info info = {0};
    if (train->checkpoint != NULL && !model->is_online)
        return recall(model);
    if (folder == NULL)
        return true;
    bool ok = train->self != 0 || linear_files_read_info(folder, &info);
    if (ok && train->self == 0 && info.loss != (int)model->options->loss)
        ok = task_fail("the model in %s was trained with --loss %s", folder, loss_names[info.loss]);
    ok = ok && (train->self != 0 || (linear_files_read_weights(folder, set_weights, model) &&
                                     feature_names_load(&model->names, folder)));
    if (!train_share_saved(train, ok, sizeof info, &info))
        return false;
    train->n_epochs_done = (int64_t)info.n_epochs;
    model->first_violation = info.first_violation;
    return true;
}

/* ---- All weights ------------------------------------------------------------------------------- */

/* The next weights of a table. */
static bool next_of_table(struct model *model, struct tern_table *table, size_t capacity,
                          uint64_t *keys, double *weights, size_t *n)
{
    const size_t length = model->is_online ? model->online.length : COORDINATE_LENGTH;
    double *rows = malloc(capacity * length * sizeof *rows);
    if (rows == NULL)
        return task_fail_memory("the model's files");
    *n = 0;
    bool ok = model->next_key == UINT64_MAX ||
              !tern_pull_range(train_worker(model->train, 0), table, model->next_key, UINT64_MAX,
                               capacity, keys, rows, n) ||
              task_fail_tern("cannot pull");
    for (size_t i = 0; ok && i < *n; i++)
        weights[i] =
            model->is_online ? (double)((const float *)rows)[i * length] : rows[i * length];
    if (ok && *n > 0)
        model->next_key = keys[*n - 1] + 1;
    free(rows);
    return ok;
}

static bool next_weights(void *context, size_t capacity, uint64_t *keys, double *weights, size_t *n)
{
    struct model *model = context;
    struct tern_table *table = model->is_online ? model->online.table : model->dbpg.table;
    if (table != NULL)
        return next_of_table(model, table, capacity, keys, weights, n);
    const size_t n_all =
        model->is_online ? model->online.n_values + 1 : model->dbpg.columns.n_features;
    for (*n = 0; *n < capacity && model->next_feature < n_all; ++*n, model->next_feature++) {
        const size_t at = model->next_feature;
        keys[*n] = !model->is_online ? model->dbpg.columns.keys[at]
                   : at + 1 == n_all ? LINEAR_INTERCEPT_KEY
                                     : at;
        weights[*n] = model->is_online ? (double)model->online.values[at] : model->dbpg.weights[at];
    }
    return true;
}

/* ---- Measuring -------------------------------------------------------------------------------- */

static void add_scores(struct scores *scores, const struct slice *slice)
{
    for (size_t i = 0; i < slice->n_rows; i++)
        scores_add(scores, slice->margins[i], (double)slice->labels[i], (double)slice->weights[i]);
}

/* Predicts the examples of a list. */
static bool score_list(void *context, size_t thread, const struct examples *list)
{
    struct model *model = context;
    double *weights = malloc((list->n_features + 1) * sizeof *weights);
    bool ok = weights != NULL || task_fail_memory("the test");
    ok = ok && pull_weights(model, thread, list->keys, list->n_features, weights);
    for (size_t row = 0; ok && row < list->n; row++) {
        double margin = 0;
        for (size_t i = list->start[row]; i < list->start[row + 1]; i++)
            margin += weights[i] * (double)list->values[i];
        const double label = (double)list->labels[row], weight = (double)list->weights[row];
        scores_add(&model->scores[thread], margin, label, weight);
        model->losses[thread] += weight * loss_value(model->options->loss, margin, label) *
                                 (label > 0 ? model->options->positive_weight : 1);
    }
    free(weights);
    return ok;
}

static bool score_all(struct model *model)
{
    const size_t n = model->train->n_threads;
    for (size_t i = 0; i < n; i++)
        memset(model->scores[i].sums, 0, (SCORES_SUMS + 2 * SCORES_BINS) * sizeof(double));
    memset(model->losses, 0, n * sizeof *model->losses);
    if (model->options->test == NULL && !model->is_online) {
        for (size_t i = 0; i < n; i++)
            add_scores(&model->scores[0], &model->dbpg.columns.slices[i]);
        return true;
    }
    struct examples_options reading = model->reading;
    reading.format = format_of(model);
    reading.placement = NULL;
    const char *paths =
        model->options->test != NULL ? model->options->test : model->train->options->data;
    bool ok = examples_visit(paths, &reading, n, score_list, model);
    for (size_t i = 1; i < n; i++)
        scores_merge(&model->scores[0], &model->scores[i]);
    return ok;
}

/* Whether the solver has come to its end: judged by an epoch that has visited all features. */
static bool has_converged(struct model *model, double violation)
{
    const int64_t epoch = model->train->n_epochs_done;
    if (!dbpg_is_full(model->options, epoch) || model->dbpg.n_jobs == 0)
        return false;
    if (model->first_violation <= 0)
        model->first_violation = violation;
    return violation <= model->options->tolerance * model->first_violation;
}

/* The value of a measure, by its name. */
static double value_of(const struct model *model, const char *name, const struct dbpg_sums *sums,
                       double objective)
{
    const struct scores *scores = &model->scores[0];
    if (strcmp(name, "setup_s") == 0)
        return model->setup_s;
    if (strcmp(name, "waiting") == 0)
        return model->waiting;
    if (strcmp(name, "objective") == 0)
        return objective;
    if (strcmp(name, "nonzeros") == 0)
        return sums->n_nonzero;
    if (strcmp(name, "active") == 0)
        return sums->n_active / sums->n_features;
    if (strcmp(name, "auc") == 0)
        return scores_auc(scores);
    if (strcmp(name, "accuracy") == 0)
        return scores_accuracy(scores);
    return strcmp(name, "rmse") == 0 ? scores_rmse(scores) : scores_log_loss(scores);
}

/* The share of the epochs since the last call that the nodes have waited for others. */
static bool share_waiting(struct model *model)
{
    double sums[2] = {model->dbpg.waited_s - model->waited_s,
                      model->dbpg.lasted_s - model->lasted_s};
    model->waited_s = model->dbpg.waited_s;
    model->lasted_s = model->dbpg.lasted_s;
    bool ok = train_sum(model->train, 2, sums);
    model->waiting = sums[1] > 0 ? sums[0] / sums[1] : 0;
    return ok;
}

/* The penalties of all weights, at node 0. */
static bool sum_penalties(struct model *model, double *sum)
{
    enum { AT_ONCE = 4096 };
    const struct linear_options *options = model->options;
    uint64_t keys[AT_ONCE];
    double weights[AT_ONCE];
    size_t n = 1;
    bool ok = true;
    model->next_key = 0;
    model->next_feature = 0;
    while (ok && n > 0) {
        ok = next_weights(model, AT_ONCE, keys, weights, &n);
        for (size_t i = 0; ok && i < n; i++)
            if (keys[i] != LINEAR_INTERCEPT_KEY || options->intercept == LINEAR_PENALISED)
                *sum += options->l1 * fabs(weights[i]) + options->l2 / 2 * weights[i] * weights[i];
    }
    return ok;
}

/* The objective of the batch solver, for the others: the losses of all training examples, which were scored, and the
 * penalties. */
static bool sum_objective(struct model *model, double *objective)
{
    struct train *train = model->train;
    for (size_t i = 0; i < train->n_threads; i++)
        *objective += model->losses[i];
    return train_agree(train, train->self != 0 || sum_penalties(model, objective)) &&
           train_sum(train, 1, objective);
}

static bool evaluate(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    struct dbpg_sums sums = {0};
    double all[6] = {0};
    bool ok = train_agree(train, score_all(model));
    if (ok && !model->is_online) {
        dbpg_sum(&model->dbpg, &sums);
        memcpy(all, &sums, sizeof sums);
        for (size_t i = 0; i < train->n_threads; i++)
            all[5] += dbpg_loss(&model->dbpg, i);
        ok = train_sum(train, 6, all) && share_waiting(model);
        memcpy(&sums, all, sizeof sums);
    }
    if (ok && model->is_online && model->options->test == NULL)
        ok = sum_objective(model, &all[5]);
    ok = ok && scores_share(&model->scores[0], train);
    for (size_t i = 0; ok && i < model->task.n_measures; i++)
        quality->values[i] = value_of(model, model->measures[i].name, &sums, all[5] + sums.penalty);
    if (ok && !model->is_online)
        train->is_converged = model->is_converged = has_converged(model, sums.violation);
    return ok;
}

/* ---- Saving ----------------------------------------------------------------------------------- */

static bool save(void *context, struct train *train)
{
    struct model *model = context;
    const struct linear_info info = {.n_epochs = (uint64_t)train->n_epochs_done,
                                     .hash_bits = model->reading.hash_bits,
                                     .n_grams = model->reading.n_grams,
                                     .first_violation = model->first_violation,
                                     .loss = (int)model->options->loss,
                                     .format = (int)format_of(model)};
    model->next_key = 0;
    model->next_feature = 0;
    return linear_files_write(train->options->out, &info, train->options->settings, next_weights,
                              model);
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

/* Before an epoch, the online solver opens the files again; after it, dbpg has something left to do. */
static bool begin(void *context, struct train *train)
{
    struct model *model = context;
    (void)train;
    return !model->is_online || batches_begin(&model->online.batches);
}

static bool end(void *context, struct train *train)
{
    struct model *model = context;
    (void)train;
    return model->is_online || dbpg_settle(&model->dbpg);
}

static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct model *model = context;
    (void)train;
    return model->is_online ? online_epoch(&model->online, thread)
                            : dbpg_epoch(&model->dbpg, thread, number);
}

/* The nodes that are left read the files of all. */
static bool share_out(void *context, struct train *train)
{
    struct model *model = context;
    batches_deal(train, &model->reading);
    batches_deal(train, &model->online.batches.reading);
    return true;
}

static uint64_t n_examples(void *context)
{
    const struct model *model = context;
    uint64_t n = 0;
    for (size_t i = 0; i < model->dbpg.columns.n_slices; i++)
        n += model->dbpg.columns.slices[i].n_rows;
    return n;
}

/* Lists what is measured; the metric that was asked for comes first. */
static bool choose_measures(struct model *model)
{
    static const struct train_measure all[] = {
        {"objective", "objective", false}, {"log_loss", "log loss", false},
        {"rmse", "RMSE", false},           {"auc", "AUC", false},
        {"accuracy", "accuracy", false},   {"nonzeros", "nonzeros", false},
        {"active", "active", true},        {"waiting", "waiting", true},
        {"setup_s", "setup_s", true}};
    const bool is_binary = loss_is_binary(model->options->loss);
    const char *wanted = model->options->metric;
    size_t n = 0, first = 0;
    bool found = wanted == NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const bool is_batch = i == 0 || i >= 5;
        const bool is_asked = i == 0 && wanted != NULL && strcmp(wanted, all[0].name) == 0;
        const bool fits = !is_batch          ? is_binary != (i == 2)
                          : model->is_online ? is_asked && model->options->test == NULL
                                             : true;
        if (!fits)
            continue;
        if (wanted != NULL && strcmp(wanted, all[i].name) == 0) {
            first = n;
            found = true;
        }
        model->measures[n++] = all[i];
    }
    if (!found)
        return task_fail("there is no metric '%s' for this solver and loss", wanted);
    struct train_measure chosen = model->measures[first];
    memmove(model->measures + 1, model->measures, first * sizeof chosen);
    model->measures[0] = chosen;
    model->task.measures = model->measures;
    model->task.n_measures = n;
    model->task.lower_is_better =
        strcmp(chosen.name, "auc") != 0 && strcmp(chosen.name, "accuracy") != 0;
    return true;
}

static bool make_scores(struct model *model)
{
    bool ok = true;
    model->scores = calloc(model->train->n_threads, sizeof *model->scores);
    model->losses = calloc(model->train->n_threads, sizeof *model->losses);
    if (model->scores == NULL || model->losses == NULL)
        return task_fail_memory("the scores");
    for (size_t i = 0; ok && i < model->train->n_threads; i++)
        ok = scores_init(&model->scores[i]);
    return ok;
}

static bool open_online(struct model *model)
{
    return train_agree(model->train,
                       online_open(&model->online, model->train, model->options, &model->reading));
}

static bool open_dbpg(struct model *model)
{
    return load(model) &&
           train_agree(model->train, dbpg_open(&model->dbpg, model->train, model->options));
}

static void close_model(struct model *model)
{
    feature_names_fini(&model->names);
    if (model->is_online)
        online_close(&model->online);
    else
        dbpg_close(&model->dbpg);
    for (size_t i = 0; model->scores != NULL && i < model->train->n_threads; i++)
        scores_fini(&model->scores[i]);
    free(model->scores);
    free(model->losses);
}

static void say_end(const struct model *model)
{
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json || model->is_online)
        return;
    if (!model->is_converged)
        fprintf(stderr, "not converged: the limit of %" PRId64 " epochs is reached (--epochs)\n",
                train->n_epochs_done);
}

bool linear_train(const struct train_options *train_options, const struct linear_options *options)
{
    struct train train;
    struct model model = {.options = options,
                          .train = &train,
                          .reading = options->examples,
                          .is_online = options->solver != LINEAR_DBPG};
    if (!train_open(&train, train_options))
        return false;
    batches_deal(&train, &model.reading);
    model.reading.placement = train.placement.folder != NULL ? &train.placement : NULL;
    model.reading.needs_labels = true;
    model.reading.is_binary = loss_is_binary(options->loss);
    model.reading.constant = options->intercept != LINEAR_NO_INTERCEPT ? LINEAR_INTERCEPT_KEY : 0;
    model.task =
        (struct train_task){.unit = "examples",
                            .begin = begin,
                            .epoch = epoch,
                            .end = end,
                            .n_examples = n_examples,
                            .evaluate = evaluate,
                            .save = save,
                            .note = model.is_online ? NULL : note,
                            .share_out = options->solver == LINEAR_ONLINE ? share_out : NULL};
    bool ok = train_agree(&train, choose_measures(&model) && make_scores(&model));
    if (model.is_online && options->test == NULL &&
        strcmp(model.measures[0].name, "objective") != 0)
        model.task.evaluate = NULL;
    ok = ok && (model.is_online ? open_online(&model) : open_dbpg(&model)) && resume(&model) &&
         (model.is_online || model.is_recalled || dbpg_begin(&model.dbpg));
    if (ok)
        introduce(&model);
    ok = ok && train_loop(&train, &model.task, &model) && add_names(&model);
    if (ok)
        say_end(&model);
    ok = train_close(&train, ok);
    close_model(&model);
    return ok;
}
