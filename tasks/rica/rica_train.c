/* rica_train - learns filters by RICA: workers with rows of W, a table with W^T W. See rica.h. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/checkpoints.h"
#include "common/rng.h"
#include "rica/rica.h"
#include "rica/rica_files.h"

/* What a thread needs. */
struct rica_worker {
    struct rica_space space;
    double *gram, *change; /* p x p: W^T W as read, and how it changes */
};

struct model {
    const struct rica_options *options;
    struct train *train;
    struct rica_data data;
    struct tern_table *table;  /* row k is that of W^T W; NULL with --plain */
    double *gram;              /* with --plain */
    pthread_mutex_t lock;      /* of it */
    pthread_barrier_t barrier; /* of the threads, with --plain */
    bool has_barrier;
    int64_t first_epoch; /* with scales of 1: that of a resumed model, else 0 */
    double *filters;     /* W: the rows of this node are current */
    double *scales;      /* H, by filter */
    double *all_filters; /* W as of the last evaluation */
    uint64_t *keys;      /* 0 .. p - 1 */
    struct rica_worker *workers;
};

static const struct train_measure measures[] = {{"objective", "objective", false},
                                                {"error", "error", false}};

/* ---- W^T W ------------------------------------------------------------------------------------ */

static bool read_gram(struct model *model, size_t thread)
{
    const size_t p = model->data.p;
    double *gram = model->workers[thread].gram;
    if (model->table != NULL)
        return !tern_pull(train_worker(model->train, thread), model->table, model->keys, p, gram) ||
               task_fail_tern("cannot pull");
    pthread_mutex_lock(&model->lock);
    memcpy(gram, model->gram, p * p * sizeof *gram);
    pthread_mutex_unlock(&model->lock);
    return true;
}

static bool add_gram(struct model *model, size_t thread)
{
    const size_t p = model->data.p;
    const double *change = model->workers[thread].change;
    if (model->table != NULL)
        return !tern_push(train_worker(model->train, thread), model->table, model->keys, p,
                          change) ||
               task_fail_tern("cannot push");
    pthread_mutex_lock(&model->lock);
    for (size_t i = 0; i < p * p; i++)
        model->gram[i] += change[i];
    pthread_mutex_unlock(&model->lock);
    return true;
}

/* Adds the outer product of a filter. */
static void add_product(const double *w, size_t p, double factor, double *gram)
{
    for (size_t i = 0; i < p; i++)
        for (size_t j = 0; j < p; j++)
            gram[i * p + j] += factor * w[i] * w[j];
}

/* ---- Steps ------------------------------------------------------------------------------------ */

/* Filters are dealt out to the workers of all nodes. */
static bool is_of(const struct model *model, size_t thread, size_t filter)
{
    const struct train *train = model->train;
    return filter % (train->n_nodes * train->n_threads) == train->self * train->n_threads + thread;
}

/* One step of a worker's filters. */
static bool step_filters(struct model *model, size_t thread)
{
    const struct rica_options *options = model->options;
    struct rica_worker *worker = &model->workers[thread];
    const size_t p = model->data.p;
    const double gamma = options->rate / model->data.largest;
    bool ok = true;
    rica_slopes(&model->data, worker->gram, &worker->space);
    memset(worker->change, 0, p * p * sizeof *worker->change);
    for (size_t f = 0; ok && f < (size_t)options->n_filters; f++) {
        double *w = model->filters + f * p;
        if (!is_of(model, thread, f))
            continue;
        add_product(w, p, -1, worker->change);
        ok = rica_step(&model->data, &worker->space, gamma, options->lambda,
                       (size_t)options->n_admm, w, model->scales + f * p) ||
             task_fail("the steps diverge: try a lower --rate");
        add_product(w, p, 1, worker->change);
    }
    return ok;
}

/*
 * The first steps are long, since the scales are still small. Workers that make them from products which lack what the others
 * do at the same time all correct the same error, and together overshoot: with a delay of 4 the objective could grow tenfold in
 * the first epoch. And which of several minima is found is decided there. So the steps of the first epochs are *joint*: all
 * workers make them from the same products, as with --plain.
 */
static bool is_joint(const struct model *model)
{
    return model->table != NULL &&
           model->train->n_epochs_done - model->first_epoch < RICA_JOINT_EPOCHS;
}

/* Advances by so many clocks that the next read waits for all workers. */
static bool pass_bound(const struct model *model, size_t thread, int64_t n_clocks)
{
    bool ok = true;
    for (int64_t i = 0; ok && i < n_clocks; i++)
        ok = !tern_worker_advance(train_worker(model->train, thread), NULL) ||
             task_fail_tern("cannot advance");
    return ok;
}

/* Waits until all workers have read the products for a joint step, before anybody changes them. */
static bool await_readers(const struct model *model, size_t thread)
{
    if (!is_joint(model))
        return true;
    double *row = model->workers[thread].change;
    return pass_bound(model, thread, model->options->delay + 1) &&
           (!tern_pull(train_worker(model->train, thread), model->table, model->keys, 1, row) ||
            task_fail_tern("cannot pull"));
}

/* The clock advances with each step, and with a joint one past the bound. */
static bool end_step(const struct model *model, size_t thread)
{
    const bool ok = !is_joint(model) || pass_bound(model, thread, model->options->delay);
    (void)train_done(model->train, thread, thread == 0 ? model->data.n : 0, 0);
    return ok;
}

/* With --plain threads meet before and after they read; tables wait by their bound. */
static void meet(struct model *model)
{
    if (model->table == NULL)
        pthread_barrier_wait(&model->barrier);
}

/* Workers rested between the epochs. Nobody waits for them until their clocks advance, so they do before the first of them
 * begins a joint step. */
static bool begin(void *context, struct train *train)
{
    const struct model *model = context;
    bool ok = true;
    for (size_t thread = 0; ok && is_joint(model) && thread < train->n_threads; thread++)
        ok = pass_bound(model, thread, 1);
    return ok;
}

static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct model *model = context;
    bool ok = true;
    (void)train;
    (void)number;
    for (int i = 0; i < RICA_STEPS; i++) {
        ok = ok && read_gram(model, thread) && await_readers(model, thread);
        meet(model);
        ok = ok && step_filters(model, thread);
        ok = ok && add_gram(model, thread);
        meet(model);
        ok = end_step(model, thread) && ok;
    }
    return ok;
}

static uint64_t n_examples(void *context)
{
    const struct model *model = context;
    return RICA_STEPS * (uint64_t)model->data.n;
}

/* ---- Measuring and saving --------------------------------------------------------------------- */

/* Brings the filters of all nodes together. */
static bool collect(struct model *model)
{
    const size_t p = model->data.p, n = (size_t)model->options->n_filters;
    memset(model->all_filters, 0, n * p * sizeof *model->all_filters);
    for (size_t f = 0; f < n; f++)
        for (size_t thread = 0; thread < model->train->n_threads; thread++)
            if (is_of(model, thread, f))
                memcpy(model->all_filters + f * p, model->filters + f * p, p * sizeof(double));
    return train_sum(model->train, n * p, model->all_filters);
}

static bool evaluate(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    const size_t p = model->data.p;
    double *gram = model->workers[0].gram, sums[2] = {0};
    if (!collect(model))
        return false;
    memset(gram, 0, p * p * sizeof *gram);
    for (size_t f = 0; f < (size_t)model->options->n_filters; f++) {
        add_product(model->all_filters + f * p, p, 1, gram);
        if (f % train->n_nodes == train->self)
            sums[1] += rica_answers(&model->data, model->all_filters + f * p);
    }
    sums[0] = train->self == 0 ? rica_loss(&model->data, gram) : 0;
    if (!train_sum(train, 2, sums))
        return false;
    quality->values[0] = sums[0] + model->options->lambda * sums[1];
    quality->values[1] = 2 * sums[0] / (double)(model->data.n * p);
    return isfinite(quality->values[0]) ||
           task_fail("the objective is not finite: try a lower --rate");
}

static bool save(void *context, struct train *train)
{
    struct model *model = context;
    const struct rica_info info = {.n_epochs = (uint64_t)train->n_epochs_done,
                                   .n_filters = (uint64_t)model->options->n_filters,
                                   .n_pixels = model->data.p};
    return rica_files_write(train->options->out, &info, train->options->settings,
                            model->all_filters,
                            rica_width(model->data.p, (size_t)model->options->n_width));
}

/* ---- Checkpoints ------------------------------------------------------------------------------ */

/* The filters of this node and their scales; zeros for those of others. */
static bool note(void *context, struct train *train, struct train_note *note)
{
    struct model *model = context;
    const size_t p = model->data.p, n = (size_t)model->options->n_filters;
    double *own = calloc(2 * n * p, sizeof *own);
    *note = (struct train_note){own, 2 * n * p * sizeof *own};
    for (size_t f = 0; own != NULL && f < n; f++)
        for (size_t thread = 0; thread < train->n_threads; thread++)
            if (is_of(model, thread, f)) {
                memcpy(own + f * p, model->filters + f * p, p * sizeof *own);
                memcpy(own + (n + f) * p, model->scales + f * p, p * sizeof *own);
            }
    return own != NULL || task_fail_memory("the checkpoint");
}

/* Takes all filters and their scales from what the nodes of a checkpoint noted. */
static bool recall(struct model *model)
{
    struct train *train = model->train;
    const size_t n = (size_t)model->options->n_filters * model->data.p;
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    bool ok = !tern_checkpoint_get_info(train->checkpoint, &info) ||
              task_fail_tern("cannot go on from the checkpoint");
    memset(model->filters, 0, n * sizeof *model->filters);
    memset(model->scales, 0, n * sizeof *model->scales);
    for (uint32_t node = 0; ok && node < info.n_nodes; node++) {
        size_t bytes = 0;
        double *noted = checkpoints_recall(train, node, &bytes);
        ok = noted != NULL &&
             (bytes == 2 * n * sizeof *noted ||
              task_fail("the checkpoint in %s has other filters", train->options->resume));
        for (size_t i = 0; ok && i < n; i++) {
            model->filters[i] += noted[i];
            model->scales[i] += noted[n + i];
        }
        free(noted);
    }
    return ok;
}

/* ---- Opening ---------------------------------------------------------------------------------- */

/* Random directions, so long that W^T W is about the unit matrix. */
static void draw_filters(struct model *model)
{
    const size_t p = model->data.p, n = (size_t)model->options->n_filters;
    for (size_t f = 0; f < n; f++) {
        struct rng rng = rng_seed((uint64_t)model->train->options->seed, f);
        double *w = model->filters + f * p, size = 0;
        for (size_t j = 0; j < p; j++) {
            w[j] = rng_unit(&rng) + rng_unit(&rng) - rng_unit(&rng) - rng_unit(&rng);
            size += w[j] * w[j];
        }
        for (size_t j = 0; j < p; j++)
            w[j] *= sqrt((double)p / (double)n / size);
    }
}

static bool allocate(struct model *model)
{
    const size_t p = model->data.p, n = (size_t)model->options->n_filters;
    const size_t n_threads = model->train->n_threads;
    model->filters = calloc(n * p, sizeof *model->filters);
    model->scales = calloc(n * p, sizeof *model->scales);
    model->all_filters = calloc(n * p, sizeof *model->all_filters);
    model->gram = calloc(p * p, sizeof *model->gram);
    model->keys = calloc(p, sizeof *model->keys);
    model->workers = calloc(n_threads, sizeof *model->workers);
    bool ok = model->filters != NULL && model->scales != NULL && model->all_filters != NULL &&
              model->gram != NULL && model->keys != NULL && model->workers != NULL;
    for (size_t i = 0; ok && i < n_threads; i++) {
        model->workers[i].gram = calloc(p * p, sizeof(double));
        model->workers[i].change = calloc(p * p, sizeof(double));
        ok = rica_space_init(&model->workers[i].space, &model->data) &&
             model->workers[i].gram != NULL && model->workers[i].change != NULL;
    }
    for (size_t k = 0; ok && k < p; k++)
        model->keys[k] = k;
    for (size_t i = 0; ok && i < n * p; i++)
        model->scales[i] = 1;
    return ok || task_fail_memory("the filters");
}

static bool open_table(struct model *model)
{
    char policy[32];
    snprintf(policy, sizeof policy, "essp:%" PRId64, model->options->delay);
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .n_keys = model->data.p,
                                               .type = TERN_F64,
                                               .length = (uint32_t)model->data.p,
                                               .filters = model->train->options->filters,
                                               .policy = policy};
    if (model->train->node == NULL)
        return true;
    bool ok = !tern_table_open(model->train->node, "gram", &options, &model->table) ||
              task_fail_tern("cannot open a table");
    if (ok)
        train_watch(model->train, model->table);
    return checkpoints_restore(model->train, model->table, ok);
}

/* The first filters: random ones, those of a model, or those of a checkpoint, which also has the table. Otherwise each node
 * pushes the products of its own. */
static bool begin_filters(struct model *model)
{
    struct train *train = model->train;
    const size_t p = model->data.p, n = (size_t)model->options->n_filters;
    struct rica_info info = {.n_filters = n, .n_pixels = p};
    bool ok = true;
    draw_filters(model);
    if (train->checkpoint != NULL)
        return train_agree(train, recall(model)) && train_quiesce(train);
    if (train_resumed_model(train) != NULL) {
        memset(model->filters, 0, n * p * sizeof *model->filters);
        ok = train->self != 0 || rica_files_resume(train->options->resume, &info, model->filters);
        ok = train_share_saved(train, ok, sizeof info, &info) &&
             train_sum(train, n * p, model->filters);
        model->first_epoch = train->n_epochs_done = (int64_t)info.n_epochs;
    }
    double *change = model->workers[0].change;
    for (size_t f = 0; ok && f < n; f++)
        for (size_t thread = 0; thread < train->n_threads; thread++)
            if (is_of(model, thread, f))
                add_product(model->filters + f * p, p, 1, change);
    return train_agree(train, ok && add_gram(model, 0)) && train_quiesce(train);
}

static bool open_model(struct model *model)
{
    struct train *train = model->train;
    bool ok = rica_files_read(train->options->data, &model->data) && rica_prepare(&model->data) &&
              allocate(model);
    model->has_barrier =
        pthread_barrier_init(&model->barrier, NULL, (unsigned)train->n_threads) == 0;
    pthread_mutex_init(&model->lock, NULL);
    ok = ok && (model->has_barrier || task_fail_memory("the threads"));
    const uint64_t digest = rng_mix((uint64_t)model->options->n_filters) ^
                            (ok ? model->data.n * (RICA_MAX_PIXELS + 1) + model->data.p : 0);
    return train_agree_on(train, ok, digest) && train_agree(train, open_table(model)) &&
           begin_filters(model);
}

static void close_model(struct model *model)
{
    for (size_t i = 0; model->workers != NULL && i < model->train->n_threads; i++) {
        rica_space_fini(&model->workers[i].space);
        free(model->workers[i].gram);
        free(model->workers[i].change);
    }
    free(model->workers);
    free(model->filters);
    free(model->scales);
    free(model->all_filters);
    free(model->gram);
    free(model->keys);
    if (model->has_barrier)
        pthread_barrier_destroy(&model->barrier);
    rica_data_fini(&model->data);
}

static void introduce(const struct model *model)
{
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json)
        return;
    fprintf(stderr,
            "%zu examples of %zu numbers; %" PRId64 " filters, lambda %g, delay %" PRId64
            "; %u node%s with %zu thread%s%s\n",
            model->data.n, model->data.p, model->options->n_filters, model->options->lambda,
            model->options->delay, train->n_nodes, train->n_nodes == 1 ? "" : "s", train->n_threads,
            train->n_threads == 1 ? "" : "s", train->node == NULL ? ", plain arrays" : "");
}

bool rica_train(const struct train_options *train_options, const struct rica_options *options)
{
    struct train train;
    struct model model = {.options = options, .train = &train};
    const struct train_task task = {.unit = "examples",
                                    .lower_is_better = true,
                                    .measures = measures,
                                    .n_measures = sizeof measures / sizeof *measures,
                                    .begin = begin,
                                    .epoch = epoch,
                                    .n_examples = n_examples,
                                    .evaluate = evaluate,
                                    .save = save,
                                    .note = note};
    if (!train_open(&train, train_options))
        return false;
    bool ok = open_model(&model);
    if (ok)
        introduce(&model);
    ok = ok && train_loop(&train, &task, &model);
    ok = train_close(&train, ok);
    close_model(&model);
    return ok;
}
