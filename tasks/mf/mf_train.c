/*
 * mf_train - trains a matrix factorization. See mf.h.
 *
 * Every node reads all ratings and learns from those of its rows. Each of its threads is a worker that
 * has rows of its own (plan.h). It borrows the rows of a band at the beginning of the band and the
 * columns of a batch at the beginning of the batch (loan.h), learns from the cells (factors.h), and
 * gives them back. A batch is a step of the worker's clock; what it will need is known ahead (feed.h,
 * loader.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/loader.h"
#include "common/team.h"
#include "mf/feed.h"
#include "mf/loan.h"
#include "mf/mf.h"
#include "mf/mf_files.h"

enum { TESTS_AT_ONCE = 256, KEYS_AT_ONCE = 256 };

static const double SHARE_PRECISION = 1e-8; /* of a share that was written to a file and read */

struct model;

/* One thread's part in the training. */
struct trainer {
    struct model *model;
    struct tern_worker *worker; /* NULL with --plain */
    struct feed feed;
    struct loader loader;
    uint64_t *row_keys; /* of the band */
    struct loan rows, columns;
    double squared_error; /* of its tests */
};

struct model {
    const struct mf_options *options;
    struct train *train;
    struct ratings ratings;
    struct plan plan;
    struct factors factors;
    struct factors_start row_start, column_start;
    struct params *rows, *columns;
    uint32_t *row_nodes;      /* with --placement: the node of each row */
    uint64_t *column_uses;    /* how many ratings each column has */
    struct trainer *trainers; /* one per thread */
};

/* ---- Preparing ------------------------------------------------------------------------------- */

/* The number that a name is: rows and keys of a placement are numbers. */
static bool number_of(const struct names *names, uint32_t i, const char *folder, uint64_t *number)
{
    const char *name = names_at(names, i);
    char *end;
    *number = strtoull(name, &end, 10);
    return (name[0] >= '0' && name[0] <= '9' && *end == '\0') ||
           task_fail(
               "--placement %s: '%s' is not a number, as the rows and keys of a partition are",
               folder, name);
}

/* The node of each row. Rows that only the test has go anywhere. */
static bool place_rows(struct model *model)
{
    const struct placement *placement = &model->train->placement;
    const struct names *rows = &model->ratings.rows;
    if (placement->folder == NULL)
        return true;
    model->row_nodes = malloc((rows->n + (size_t)1) * sizeof *model->row_nodes);
    if (model->row_nodes == NULL)
        return task_fail_memory("the rows");
    for (uint32_t i = 0; i < rows->n; i++) {
        uint64_t number;
        if (!number_of(rows, i, placement->folder, &number))
            return false;
        if (number >= placement->n_rows && i < model->ratings.n_trained_rows)
            return task_fail("--placement %s: it has %" PRIu64
                             " rows, but the data have row %" PRIu64
                             "; it is the partition of other data",
                             placement->folder, placement->n_rows, number);
        model->row_nodes[i] = number < placement->n_rows ? placement_row(placement, number)
                                                         : i % model->train->n_nodes;
    }
    return true;
}

/* Those of this node among all that are present. */
static struct plan_workers own_workers(const struct model *model)
{
    const struct train *train = model->train;
    return (struct plan_workers){train->rank * train->n_threads, train->n_threads,
                                 train->n_present * train->n_threads, model->row_nodes};
}

/* Columns are used by all nodes, as often as they have ratings; a row is used at one. */
static bool count_columns(struct model *model)
{
    const struct ratings *ratings = &model->ratings;
    model->column_uses = calloc(ratings->columns.n + (size_t)1, sizeof *model->column_uses);
    for (size_t i = 0; model->column_uses != NULL && i < ratings->train.n; i++)
        model->column_uses[ratings->train.at[i].column]++;
    return model->column_uses != NULL || task_fail_memory("the frequencies of columns");
}

/* With backups the ratings stay, to be shared out anew. */
static bool load(struct model *model)
{
    const struct train *train = model->train;
    uint64_t seed = (uint64_t)train->options->seed;
    const struct ratings_source source = {train->options->data, model->options->test_share, seed,
                                          model->options->unknown};
    if (!ratings_read(&model->ratings, &source) || !place_rows(model) ||
        !plan_make(&model->plan, &model->ratings, own_workers(model), seed))
        return false;
    if (!count_columns(model))
        return false;
    if (train->options->backups == 0)
        ratings_forget(&model->ratings);
    return true;
}

/* Of what was read: keys are numbers of names. */
static uint64_t digest(const struct model *model)
{
    const struct ratings *ratings = &model->ratings;
    const uint32_t *key_of_row = model->plan.key_of_row;
    uint64_t shape = rng_mix((uint64_t)model->options->rank);
    /* Seed and placement say which key a row has. */
    for (uint32_t i = 0; key_of_row != NULL && i < model->plan.n_rows; i++)
        shape = rng_mix(shape + key_of_row[i]);
    return names_digest(&ratings->columns, names_digest(&ratings->rows, ratings->train.n ^ shape));
}

/* What became of users and items that the test file has and train lacks. */
static void print_unknown(const struct model *model)
{
    const struct ratings *ratings = &model->ratings;
    if (ratings->n_unknown > 0 && model->options->unknown == RATINGS_SKIP)
        fprintf(stderr,
                "--unknown skip: left out %zu ratings of users or items that are not in train\n",
                ratings->n_unknown);
    else if (ratings->n_unknown > 0)
        fprintf(stderr, "--unknown add: %u users, %u items (%zu ratings) are not in train\n",
                ratings->rows.n - ratings->n_trained_rows,
                ratings->columns.n - ratings->n_trained_columns, ratings->n_unknown);
}

static void introduce(const struct model *model)
{
    const struct ratings *ratings = &model->ratings;
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json)
        return;
    fprintf(stderr, "%u users, %u items; ratings: %zu training, %zu test\n", ratings->rows.n,
            ratings->columns.n, ratings->train.n, ratings->test.n);
    print_unknown(model);
    fprintf(stderr, "rank %" PRId64 ", penalty %.3g; %u node%s with %zu thread%s%s\n",
            model->options->rank, (double)model->factors.penalty, train->n_nodes,
            train->n_nodes == 1 ? "" : "s", train->n_threads, train->n_threads == 1 ? "" : "s",
            train->node == NULL ? ", plain arrays" : "");
}

double mf_penalty(size_t n_ratings, size_t n_users, size_t n_items)
{
    double n_each = (double)n_ratings / (double)(n_users + n_items);
    return 0.05 * cbrt(100 / n_each);
}

static void set_factors(struct model *model)
{
    const struct ratings *ratings = &model->ratings;
    const struct mf_options *options = model->options;
    uint64_t seed = (uint64_t)model->train->options->seed;
    size_t rank = (size_t)options->rank;
    model->factors =
        (struct factors){.rank = rank,
                         .width = factors_width(rank),
                         .mean = (float)ratings->mean,
                         .low = ratings->low,
                         .high = ratings->high,
                         .scale = ratings->deviation > 0 ? (float)ratings->deviation : 1,
                         .rate = (float)options->rate,
                         .penalty = (float)options->penalty};
    if (options->penalty <= 0)
        model->factors.penalty = (float)mf_penalty(ratings->train.n, ratings->n_trained_rows,
                                                   ratings->n_trained_columns);
    model->row_start = (struct factors_start){2 * seed, rank};
    model->column_start = (struct factors_start){2 * seed + 1, rank};
}

/* A row is at home where it is learned from, */
static bool open_placed_rows(struct model *model, size_t length)
{
    const uint32_t n_rows = model->ratings.rows.n;
    struct placing placing;
    bool ok = placing_init(&placing, &model->train->placement, n_rows, 0);
    for (uint32_t i = 0; ok && i < n_rows; i++)
        placing_put(&placing, model->plan.key_of_row[i], model->row_nodes[i], 1);
    model->rows =
        ok ? train_params_with(model->train, &(struct train_keys){.placement = &placing.placement},
                               "rows", n_rows, length, factors_start, &model->row_start)
           : NULL;
    placing_fini(&placing);
    return model->rows != NULL;
}

/* A column has its home and its replicas where the placement says. */
static bool open_placed_columns(struct model *model, size_t length)
{
    const struct placement *placement = &model->train->placement;
    const uint32_t n_columns = model->ratings.columns.n;
    struct placing placing;
    bool ok = placing_init(&placing, placement, n_columns, 1);
    for (uint32_t i = 0; ok && i < n_columns; i++) {
        uint64_t number;
        ok = number_of(&model->ratings.columns, i, placement->folder, &number);
        if (ok)
            placing_add(&placing, i, number);
    }
    ok = ok && placing_check(&placing, "items");
    model->columns =
        ok ? train_params_with(model->train,
                               &(struct train_keys){.placement = &placing.placement,
                                                    .is_ranked = true,
                                                    .frequencies = model->column_uses},
                               "columns", n_columns, length, factors_start, &model->column_start)
           : NULL;
    placing_fini(&placing);
    return model->columns != NULL;
}

static bool open_params(struct model *model)
{
    size_t length = factors_length(model->factors.rank);
    if (model->row_nodes != NULL)
        return open_placed_rows(model, length) && open_placed_columns(model, length);
    model->rows = train_params(model->train, "rows", model->ratings.rows.n, length, factors_start,
                               &model->row_start);
    if (model->rows == NULL)
        return false;
    /* Columns are numbered as they are met, so those with many ratings come first. */
    const struct train_keys keys = {.is_ranked = true, .frequencies = model->column_uses};
    model->columns = train_params_with(model->train, &keys, "columns", model->ratings.columns.n,
                                       length, factors_start, &model->column_start);
    return model->columns != NULL;
}

/* ---- Trainees -------------------------------------------------------------------------------- */

static void list_keys(uint64_t first, size_t n, uint64_t *keys)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = first + i;
}

/* Signals intent for the rows of a band, as long as its batches last. */
static bool intend_band(const struct trainer *trainer, const struct mf_batch *batch, uint64_t clock)
{
    uint64_t keys[KEYS_AT_ONCE];
    for (size_t done = 0, n; done < batch->n_rows; done += n) {
        n = batch->n_rows - done < KEYS_AT_ONCE ? batch->n_rows - done : KEYS_AT_ONCE;
        list_keys(batch->first_row + done, n, keys);
        if (!params_intend(trainer->model->rows, trainer->worker, keys, n, clock,
                           clock + batch->n_batches))
            return false;
    }
    return true;
}

static bool prepare(void *context, void *ring_batch, uint64_t clock)
{
    struct trainer *trainer = context;
    struct mf_batch *batch = ring_batch;
    feed_next(&trainer->feed, batch);
    if (batch->n_batches > 0 && !intend_band(trainer, batch, clock))
        return false;
    return params_intend(trainer->model->columns, trainer->worker, batch->columns, batch->n_visits,
                         clock, clock + 1);
}

static const struct loader_batches batches = {.bytes = sizeof(struct mf_batch), .prepare = prepare};

static size_t most_rows(const struct part *part)
{
    size_t most = 0;
    for (size_t i = 0; i < part->n_bands; i++)
        most = part->bands[i].n_rows > most ? part->bands[i].n_rows : most;
    return most;
}

/* The random numbers of a thread from this epoch on. */
static struct rng first_numbers(const struct train *train, size_t thread)
{
    return rng_seed((uint64_t)(train->options->seed + train->n_epochs_done),
                    train->self * train->n_threads + thread);
}

/* The batches of a thread from this epoch on. */
static bool begin_feed(struct trainer *trainer, size_t thread)
{
    const struct model *model = trainer->model;
    feed_fini(&trainer->feed);
    return feed_init(&trainer->feed, &model->plan, thread, (uint64_t)model->train->n_epochs_done,
                     first_numbers(model->train, thread));
}

/* What a trainer needs for its part of the plan. */
static bool trainer_open_part(struct trainer *trainer, size_t thread)
{
    const struct model *model = trainer->model;
    const size_t n_rows = most_rows(&model->plan.parts[thread]);
    trainer->row_keys = malloc((n_rows + 1) * sizeof *trainer->row_keys);
    return (trainer->row_keys != NULL || task_fail_memory("a worker")) &&
           begin_feed(trainer, thread) && loan_init(&trainer->rows, model->rows, n_rows);
}

static bool trainer_init(struct trainer *trainer, struct model *model, size_t thread)
{
    const struct train *train = model->train;
    const struct part *part = &model->plan.parts[thread];
    *trainer = (struct trainer){.model = model, .worker = train_worker(train, thread)};
    return trainer_open_part(trainer, thread) &&
           loader_init(&trainer->loader, &batches, trainer, train_ahead_s(train)) &&
           loan_init(&trainer->columns, model->columns, BATCH_VISITS) &&
           (part->n_cells == 0 || loader_fill(&trainer->loader));
}

/* The part of a thread has become another one. */
static bool trainer_take(struct trainer *trainer, size_t thread)
{
    free(trainer->row_keys);
    loan_fini(&trainer->rows);
    trainer->rows = (struct loan){0};
    return trainer_open_part(trainer, thread) && loader_renew(&trainer->loader, NULL);
}

static void trainer_fini(struct trainer *trainer)
{
    feed_fini(&trainer->feed);
    loader_fini(&trainer->loader);
    free(trainer->row_keys);
    loan_fini(&trainer->rows);
    loan_fini(&trainer->columns);
}

static bool make_trainers(struct model *model)
{
    model->trainers = calloc(model->train->n_threads, sizeof *model->trainers);
    if (model->trainers == NULL)
        return task_fail_memory("the workers");
    for (size_t i = 0; i < model->train->n_threads; i++)
        if (!trainer_init(&model->trainers[i], model, i))
            return false;
    return true;
}

/* ---- Training -------------------------------------------------------------------------------- */

static bool borrow_band(struct trainer *trainer, const struct mf_batch *batch)
{
    list_keys(batch->first_row, batch->n_rows, trainer->row_keys);
    return loan_begin(&trainer->rows, trainer->worker, trainer->row_keys, batch->n_rows);
}

/* Visits the columns of a batch; returns the sum of squared errors. */
static double visit_columns(struct trainer *trainer, const struct mf_batch *batch)
{
    const struct cell *cells = batch->cells;
    float *rows = loan_row(&trainer->rows, 0);
    double loss = 0;
    for (size_t i = 0; i < batch->n_visits; i++) {
        loss += factors_learn(&trainer->model->factors, cells, batch->n_cells_of[i], rows,
                              loan_row(&trainer->columns, i));
        cells += batch->n_cells_of[i];
    }
    return loss;
}

static bool learn(struct trainer *trainer, const struct mf_batch *batch, double *loss)
{
    if (batch->n_batches > 0 && !borrow_band(trainer, batch))
        return false;
    if (!loan_begin(&trainer->columns, trainer->worker, batch->columns, batch->n_visits))
        return false;
    *loss = visit_columns(trainer, batch);
    return loan_end(&trainer->columns, trainer->worker) &&
           (!batch->ends_band || loan_end(&trainer->rows, trainer->worker));
}

static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct model *model = context;
    struct trainer *trainer = &model->trainers[thread];
    const struct mf_batch *batch = NULL;
    (void)number;
    while (model->plan.parts[thread].n_cells > 0 && (batch == NULL || !batch->ends_epoch)) {
        double loss = 0;
        batch = loader_next(&trainer->loader);
        if (batch == NULL || !learn(trainer, batch, &loss))
            return false;
        if (!train_done(train, thread, batch->n_cells, loss))
            return batch->ends_band || loan_end(&trainer->rows, trainer->worker);
    }
    return true;
}

static bool renew(void *context, struct train *train)
{
    struct model *model = context;
    bool ok = true;
    plan_sort(&model->plan);
    for (size_t i = 0; ok && i < train->n_threads; i++)
        ok = begin_feed(&model->trainers[i], i);
    return ok;
}

/* The rows of all, with their ratings, are dealt out to the workers that are left. */
static bool share_out(void *context, struct train *train)
{
    struct model *model = context;
    bool ok = plan_share_out(&model->plan, &model->ratings, own_workers(model));
    for (size_t i = 0; ok && i < train->n_threads; i++)
        ok = trainer_take(&model->trainers[i], i);
    return ok;
}

static uint64_t n_examples(void *context)
{
    struct model *model = context;
    uint64_t n = 0;
    for (size_t i = 0; i < model->train->n_threads; i++)
        n += model->plan.parts[i].n_cells;
    return n;
}

/* ---- Testing --------------------------------------------------------------------------------- */

/* Rows and columns of some tests. */
struct examination {
    uint64_t row_keys[TESTS_AT_ONCE], column_keys[TESTS_AT_ONCE];
    const float *rows[TESTS_AT_ONCE], *columns[TESTS_AT_ONCE];
    float *row_space, *column_space;
};

static bool examine(const struct model *model, struct tern_worker *worker, struct examination *exam,
                    const struct rating *tests, size_t n, double *squared_error)
{
    for (size_t i = 0; i < n; i++) {
        exam->row_keys[i] = tests[i].row;
        exam->column_keys[i] = tests[i].column;
    }
    if (!params_read(model->rows, worker, exam->row_keys, n, exam->row_space, exam->rows) ||
        !params_read(model->columns, worker, exam->column_keys, n, exam->column_space,
                     exam->columns))
        return false;
    for (size_t i = 0; i < n; i++) {
        float value = factors_predict(&model->factors, exam->rows[i], exam->columns[i]);
        double error = (double)tests[i].value - (double)value;
        *squared_error += error * error;
    }
    return true;
}

/* Makes the tests of one thread. */
static bool test(void *context, size_t thread)
{
    struct model *model = context;
    const struct part *part = &model->plan.parts[thread];
    struct trainer *trainer = &model->trainers[thread];
    struct examination exam;
    size_t length = model->rows->length;
    float *space = malloc(2 * TESTS_AT_ONCE * length * sizeof *space);
    if (space == NULL)
        return task_fail_memory("the tests");
    exam.row_space = space;
    exam.column_space = space + TESTS_AT_ONCE * length;
    trainer->squared_error = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < part->n_tests; i += TESTS_AT_ONCE) {
        size_t n = part->n_tests - i < TESTS_AT_ONCE ? part->n_tests - i : TESTS_AT_ONCE;
        ok = examine(model, trainer->worker, &exam, part->tests + i, n, &trainer->squared_error);
        progress_add(&model->train->progress, thread, n, 0);
    }
    free(space);
    return ok;
}

static bool evaluate(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    double squared_error = 0;
    const struct progress_phase phase = {.title = "evaluating",
                                         .unit = "ratings",
                                         .n_total = model->ratings.test.n / train->n_nodes,
                                         .n_all = (double)model->ratings.test.n,
                                         .n_later = -1};
    if (!train_agree(train, train_team(train, &phase, test, model)))
        return false;
    for (size_t i = 0; i < train->n_threads; i++)
        squared_error += model->trainers[i].squared_error;
    if (!train_sum(train, 1, &squared_error))
        return false;
    quality->values[0] = sqrt(squared_error / (double)model->ratings.test.n);
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void sides_of(const struct model *model, struct mf_side sides[2])
{
    sides[0] = (struct mf_side){"users", &model->ratings.rows, model->rows, model->plan.key_of_row};
    sides[1] = (struct mf_side){"items", &model->ratings.columns, model->columns, NULL};
}

static bool save(void *context, struct train *train)
{
    struct model *model = context;
    struct mf_side sides[2];
    sides_of(model, sides);
    const struct mf_info info = {.rank = model->factors.rank,
                                 .n_epochs = (uint64_t)train->n_epochs_done,
                                 .n_users = model->ratings.rows.n,
                                 .n_items = model->ratings.columns.n,
                                 .mean = (double)model->factors.mean,
                                 .scale = (double)model->factors.scale,
                                 .low = (double)model->factors.low,
                                 .high = (double)model->factors.high,
                                 .penalty = (double)model->factors.penalty,
                                 .seed = (uint64_t)train->options->seed,
                                 .test_share = model->ratings.drawn_share};
    return mf_files_write(train->options->out, &info, train->options->settings,
                          model->options->formats, sides, train_worker(train, 0));
}

/* Whether the ratings that are drawn for the test are those that the model has not learned from. */
static bool check_split(const struct model *model, const char *folder, const struct mf_info *info)
{
    double share = model->ratings.drawn_share;
    bool same = info->seed == (uint64_t)model->train->options->seed &&
                fabs(info->test_share - share) < SHARE_PRECISION;
    if (share == 0 || info->test_share < 0 || same)
        return true;
    if (info->test_share == 0)
        return task_fail("the model in %s has learned from all ratings, so none of them can test "
                         "it: give --test-share 0, or a file of other ratings to test",
                         folder);
    return task_fail("the model in %s has learned from ratings that would test it now: give the "
                     "--seed %" PRIu64 " and --test-share %g that it was trained with",
                     folder, info->seed, info->test_share);
}

/* Sets the rows for all nodes. */
static bool read_model(const struct model *model, const char *folder, struct mf_info *info)
{
    struct mf_side sides[2];
    sides_of(model, sides);
    if (!mf_files_read_info(folder, info))
        return false;
    if (info->rank != model->factors.rank)
        return task_fail("the model in %s has --rank %" PRIu64, folder, info->rank);
    if (!check_split(model, folder, info))
        return false;
    for (size_t i = 0; i < 2; i++)
        if (!mf_files_read_side(folder, info->rank, &sides[i], train_worker(model->train, 0)))
            return false;
    return true;
}

static bool resume(struct model *model)
{
    struct train *train = model->train;
    struct mf_info info = {0};
    if (train_resumed_model(train) == NULL)
        return true;
    bool ok = train->self != 0 || read_model(model, train->options->resume, &info);
    if (!train_share_saved(train, ok, sizeof info, &info))
        return false;
    train->n_epochs_done = (int64_t)info.n_epochs;
    model->factors.mean = (float)info.mean;
    model->factors.scale = (float)info.scale;
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool run(struct model *model)
{
    struct train *train = model->train;
    static const struct train_measure measures[] = {{.name = "rmse", .title = "RMSE"}};
    struct train_task task = {.unit = "ratings",
                              .measures = measures,
                              .n_measures = 1,
                              .lower_is_better = true,
                              .epoch = epoch,
                              .n_examples = n_examples,
                              .evaluate = model->ratings.test.n > 0 ? evaluate : NULL,
                              .save = save,
                              .renew = renew,
                              .share_out = share_out};
    set_factors(model);
    introduce(model);
    return train_agree(train, open_params(model) && make_trainers(model)) && resume(model) &&
           train_loop(train, &task, model);
}

bool mf_train(const struct train_options *train_options, const struct mf_options *options)
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
    free(model.row_nodes);
    free(model.column_uses);
    plan_fini(&model.plan);
    ratings_fini(&model.ratings);
    return train_close(&train, ok);
}
