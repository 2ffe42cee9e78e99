/*
 * lda_train - trains a topic model. See lda.h.
 *
 * Every node reads all documents and samples the topics of its own. Each of its threads is a worker with a
 * part of the documents (part.h). For a batch it copies the counts of the words (counts.h) and the totals
 * of the topics, draws topics (gibbs.h), and adds the changes. A batch is a step of the worker's
 * clock; what it will need is known ahead (lda_feed.h, loader.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lda/lda_files.h"
#include "lda/lda_model.h"
#include "lda/topwords.h"

enum { TOKENS_AT_ONCE = 1 << 18 }; /* that nodes tell each other in one message: 1 MiB */

/* ---- Preparing ------------------------------------------------------------------------------- */

static bool prepare(void *context, void *ring_batch, uint64_t clock)
{
    struct trainer *trainer = context;
    struct lda_batch *batch = ring_batch;
    lda_feed_next(&trainer->feed, batch);
    return counts_intend(&trainer->model->rows, trainer->worker, batch->words, batch->n_visits,
                         clock, clock + 1) &&
           counts_intend(&trainer->model->totals, trainer->worker, &totals_key, 1, clock,
                         clock + 1);
}

static double mean_log_length(const struct model *model, const struct part *part)
{
    double sum = 0;
    for (uint32_t i = 0; i < part->n_documents; i++) {
        double n = (double)bags_length(&model->bags, part->first_document + i);
        sum += n > 0 ? n * log(n - 1 + (double)model->n_topics * model->alpha) : 0;
    }
    return part->n_tokens > 0 ? sum / part->n_tokens : 0;
}

static const struct loader_batches batches = {.bytes = sizeof(struct lda_batch),
                                              .prepare = prepare};

static bool make_space(struct trainer *trainer, size_t n_topics)
{
    size_t n = lda_feed_visits(n_topics) * n_topics;
    trainer->rows = malloc(n * sizeof *trainer->rows);
    trainer->rows_before = malloc(n * sizeof *trainer->rows_before);
    trainer->totals_before = malloc(n_topics * sizeof *trainer->totals_before);
    trainer->sums = malloc(n_topics * sizeof *trainer->sums);
    return (trainer->rows != NULL && trainer->rows_before != NULL &&
            trainer->totals_before != NULL && trainer->sums != NULL) ||
           task_fail_memory("a worker");
}

/* Of the random numbers from this epoch on. */
static uint64_t seed_of(const struct train *train)
{
    return (uint64_t)(train->options->seed + train->n_epochs_done);
}

static bool trainer_init(struct trainer *trainer, struct model *model, size_t thread)
{
    const struct train *train = model->train;
    uint64_t seed = seed_of(train);
    size_t number = train->self * train->n_threads + thread;
    *trainer = (struct trainer){.model = model, .worker = train_worker(train, thread)};
    if (!part_make(&trainer->part, &model->bags, number, train->n_nodes * train->n_threads,
                   model->n_topics) ||
        !lda_feed_init(&trainer->feed, &trainer->part, model->n_topics,
                       rng_seed(seed, 2 * number)) ||
        !gibbs_init(&trainer->gibbs, model->n_topics, model->bags.words.n, model->alpha,
                    model->beta, rng_seed(seed, 2 * number + 1)) ||
        !make_space(trainer, model->n_topics) ||
        !loader_init(&trainer->loader, &batches, trainer, train_ahead_s(train)))
        return false;
    trainer->mean_log_length = mean_log_length(model, &trainer->part);
    return true;
}

static void trainer_fini(struct trainer *trainer)
{
    part_fini(&trainer->part);
    lda_feed_fini(&trainer->feed);
    gibbs_fini(&trainer->gibbs);
    loader_fini(&trainer->loader);
    free(trainer->rows);
    free(trainer->rows_before);
    free(trainer->totals_before);
    free(trainer->sums);
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

static bool make_log_risings(struct model *model)
{
    model->log_risings = malloc(N_LOG_RISINGS * sizeof *model->log_risings);
    if (model->log_risings == NULL)
        return task_fail_memory("the model");
    log_rising_init(&model->log_risings[LOG_RISING_ALPHA], model->alpha);
    log_rising_init(&model->log_risings[LOG_RISING_ALPHA_SUM],
                    model->alpha * (double)model->n_topics);
    log_rising_init(&model->log_risings[LOG_RISING_BETA], model->beta);
    return true;
}

/* Puts the documents of each node together: a row of the placement is a document. */
static bool place_documents(struct model *model)
{
    const struct placement *placement = &model->train->placement;
    const struct bags *bags = &model->bags;
    if (placement->folder == NULL)
        return true;
    uint32_t *parts = calloc(bags->n_documents + (size_t)1, sizeof *parts);
    bool ok = parts != NULL || task_fail_memory("the documents");
    for (uint32_t i = 0; ok && i < bags->n_documents; i++) {
        const bool is_known = i < placement->n_rows;
        ok = is_known || bags_length(bags, i) == 0 ||
             task_fail("--placement %s has %" PRIu64
                       " rows, but there is a document %u; it is the partition of other data",
                       placement->folder, placement->n_rows, i + 1);
        parts[i] = is_known ? placement->row_parts[i] : 0;
    }
    ok = ok && bags_arrange(&model->bags, parts, placement->n_parts, model->train->n_nodes);
    free(parts);
    return ok;
}

static bool load(struct model *model)
{
    if (!lda_choose_priors(model) ||
        !bags_read(&model->bags, model->train->options->data, model->options->vocab) ||
        !place_documents(model) || !make_log_risings(model) || !make_trainers(model))
        return false;
    bags_forget(&model->bags);
    return true;
}

/* Gives all workers of all nodes as many batches in a pass as the one that needs most. */
static bool extend_feeds(struct model *model)
{
    struct train *train = model->train;
    double *most = calloc(train->n_nodes, sizeof *most); /* by node */
    uint32_t n_batches = 1;
    if (!train_agree(train, most != NULL || task_fail_memory("the nodes"))) {
        free(most);
        return false;
    }
    for (size_t i = 0; i < train->n_threads; i++)
        most[train->self] = fmax(most[train->self], model->trainers[i].feed.n_batches);
    bool ok = train_sum(train, train->n_nodes, most);
    for (uint32_t i = 0; i < train->n_nodes; i++)
        n_batches = most[i] > n_batches ? (uint32_t)most[i] : n_batches;
    for (size_t i = 0; i < train->n_threads; i++)
        lda_feed_extend(&model->trainers[i].feed, n_batches);
    free(most);
    return ok;
}

/* Of what was read: keys are numbers of names. */
static uint64_t digest(const struct model *model)
{
    return names_digest(&model->bags.words, model->bags.n_tokens ^ model->train->placement.digest);
}

static void introduce(const struct model *model)
{
    const struct train *train = model->train;
    if (!train_speaks(train) || train->options->json)
        return;
    fprintf(stderr, "%u documents, %u different words, %" PRIu64 " in all\n",
            model->bags.n_documents, model->bags.words.n, model->bags.n_tokens);
    fprintf(stderr, "%zu topics, alpha %g, beta %g; %u node%s with %zu thread%s%s\n",
            model->n_topics, model->alpha, model->beta, train->n_nodes,
            train->n_nodes == 1 ? "" : "s", train->n_threads, train->n_threads == 1 ? "" : "s",
            train->node == NULL ? ", plain arrays" : "");
}

/* With a placement, words have their homes where it says. */
static bool open_words(struct model *model)
{
    const struct placement *placement = &model->train->placement;
    const uint32_t n_words = model->bags.words.n;
    const bool is_placed = placement->folder != NULL;
    struct placing placing = {0};
    bool ok = !is_placed || placing_init(&placing, placement, n_words, 1);
    for (uint32_t i = 0; ok && is_placed && i < n_words; i++)
        placing_add(&placing, i, i);
    ok = ok && (!is_placed || placing_check(&placing, "words")) &&
         counts_open(&model->rows, model->train, is_placed ? &placing.placement : NULL, "words",
                     n_words, model->n_topics);
    placing_fini(&placing);
    return ok;
}

static bool open_counts(struct model *model)
{
    return open_words(model) &&
           counts_open(&model->totals, model->train, NULL, "totals", 1, model->n_topics);
}

/* ---- Sampling -------------------------------------------------------------------------------- */

static bool borrow(struct trainer *trainer, const struct lda_batch *batch)
{
    const struct model *model = trainer->model;
    size_t row_bytes = model->n_topics * sizeof *trainer->rows;
    if (!counts_get(&model->rows, trainer->worker, batch->words, batch->n_visits,
                    trainer->rows_before) ||
        !counts_get(&model->totals, trainer->worker, &totals_key, 1, trainer->totals_before))
        return false;
    memcpy(trainer->rows, trainer->rows_before, batch->n_visits * row_bytes);
    memcpy(trainer->gibbs.totals, trainer->totals_before, row_bytes);
    return true;
}

static bool give_back(struct trainer *trainer, const struct lda_batch *batch)
{
    const struct model *model = trainer->model;
    for (size_t i = 0; i < batch->n_visits * model->n_topics; i++)
        trainer->rows_before[i] = trainer->rows[i] - trainer->rows_before[i];
    for (size_t k = 0; k < model->n_topics; k++)
        trainer->totals_before[k] = trainer->gibbs.totals[k] - trainer->totals_before[k];
    return counts_add(&model->rows, trainer->worker, batch->words, batch->n_visits,
                      trainer->rows_before) &&
           counts_add(&model->totals, trainer->worker, &totals_key, 1, trainer->totals_before);
}

/* The loss is what a word's probability, given all others, was when its topic was drawn; minus its
 * logarithm. */
static double sample(struct trainer *trainer, const struct lda_batch *batch)
{
    struct part *part = &trainer->part;
    double logarithm = 0;
    for (size_t i = 0; i < batch->n_visits; i++) {
        const struct visit *visit = &batch->visits[i];
        logarithm += gibbs_visit(&trainer->gibbs, trainer->rows + i * trainer->model->n_topics,
                                 part->documents + visit->first, part->topics + visit->first,
                                 visit->n, &part->mixtures);
    }
    return trainer->mean_log_length * batch->n_tokens - logarithm;
}

static bool do_batch(struct trainer *trainer, const struct lda_batch *batch, double *loss)
{
    if (batch->n_visits == 0)
        return true;
    if (!borrow(trainer, batch))
        return false;
    *loss = sample(trainer, batch);
    return give_back(trainer, batch);
}

/* A thread that is to end early leaves batches out, but its clock goes on as that of the others. */
static bool epoch(void *context, struct train *train, size_t thread, int64_t number)
{
    struct trainer *trainer = &((struct model *)context)->trainers[thread];
    const struct lda_batch *batch = NULL;
    bool goes_on = true;
    (void)number;
    while (batch == NULL || !batch->ends_pass) {
        double loss = 0;
        batch = loader_next(&trainer->loader);
        if (batch == NULL || (goes_on && !do_batch(trainer, batch, &loss)))
            return false;
        goes_on = train_done(train, thread, goes_on ? batch->n_tokens : 0, loss);
    }
    return true;
}

static uint64_t n_examples(void *context)
{
    const struct model *model = context;
    uint64_t n = 0;
    for (size_t i = 0; i < model->train->n_threads; i++)
        n += model->trainers[i].part.n_tokens;
    return n;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* The topics of this node's tokens, in the order in which they are saved; NULL after task_fail(). */
static uint16_t *own_topics(struct model *model)
{
    uint16_t *topics = malloc((n_examples(model) + 1) * sizeof *topics), *next = topics;
    bool ok = topics != NULL || task_fail_memory("the topics");
    for (size_t i = 0; ok && i < model->train->n_threads; i++) {
        ok = part_get_topics(&model->trainers[i].part, next);
        next += model->trainers[i].part.n_tokens;
    }
    if (ok)
        return topics;
    free(topics);
    return NULL;
}

static bool note(void *context, struct train *train, struct train_note *note)
{
    (void)train;
    note->data = own_topics(context);
    note->bytes = n_examples(context) * sizeof(uint16_t);
    return note->data != NULL;
}

/* Documents keep their topics in the order in which these came; so it begins anew, as in a run that recalls them. */
static bool renew_trainer(struct trainer *trainer, uint64_t seed, size_t number)
{
    struct part *part = &trainer->part;
    uint16_t *topics = malloc(((size_t)part->n_tokens + 1) * sizeof *topics);
    bool ok = topics != NULL || task_fail_memory("the topics");
    ok = ok && part_get_topics(part, topics) && part_set_topics(part, topics);
    free(topics);
    lda_feed_fini(&trainer->feed);
    trainer->gibbs.rng = rng_seed(seed, 2 * number + 1);
    return ok && lda_feed_init(&trainer->feed, part, trainer->model->n_topics,
                               rng_seed(seed, 2 * number));
}

static bool renew(void *context, struct train *train)
{
    struct model *model = context;
    bool ok = true;
    for (size_t i = 0; ok && i < train->n_threads; i++)
        ok = renew_trainer(&model->trainers[i], seed_of(train), i);
    return ok && extend_feeds(model);
}

/* Nodes add what they know of the tokens begin .. end-1 to zeros. */
static bool tell(struct model *model, const uint16_t *own, uint64_t begin, uint64_t end,
                 int32_t *block)
{
    struct train *train = model->train;
    uint64_t first = model->trainers[0].part.first_token, last = first + n_examples(model);
    memset(block, 0, TOKENS_AT_ONCE * sizeof *block);
    for (uint64_t i = begin > first ? begin : first; i < end && i < last; i++)
        block[i - begin] = own[i - first];
    if (train->n_nodes > 1 && tern_all_reduce(train->node, TERN_I32, end - begin, block))
        return task_fail_tern("cannot gather the topics");
    for (uint64_t i = begin; train->self == 0 && i < end; i++)
        model->assignments[i] = (uint16_t)block[i - begin];
    return true;
}

/* Brings the topics of all tokens to node 0. */
static bool gather(void *context, struct train *train)
{
    struct model *model = context;
    uint64_t n_tokens = model->bags.n_tokens;
    uint16_t *own = own_topics(model);
    int32_t *block = malloc(TOKENS_AT_ONCE * sizeof *block);
    bool ok = own != NULL && (block != NULL || task_fail_memory("the topics"));
    if (ok && train->self == 0 && model->assignments == NULL) {
        model->assignments = malloc(n_tokens * sizeof *model->assignments);
        ok = model->assignments != NULL || task_fail_memory("the topics");
    }
    ok = train_agree(train, ok);
    for (uint64_t begin = 0, end; ok && begin < n_tokens; begin = end) {
        end = n_tokens - begin < TOKENS_AT_ONCE ? n_tokens : begin + TOKENS_AT_ONCE;
        ok = tell(model, own, begin, end, block);
    }
    free(own);
    free(block);
    return ok;
}

static bool save(void *context, struct train *train)
{
    const struct model *model = context;
    const struct lda_model files = {.info = {.n_topics = model->n_topics,
                                             .n_epochs = (uint64_t)train->n_epochs_done,
                                             .n_documents = model->bags.n_documents,
                                             .n_words = model->bags.words.n,
                                             .n_tokens = model->bags.n_tokens,
                                             .alpha = model->alpha,
                                             .beta = model->beta},
                                    .bags = &model->bags,
                                    .rows = &model->rows,
                                    .worker = train_worker(train, 0),
                                    .assignments = model->assignments,
                                    .n_top = (size_t)model->options->n_top,
                                    .settings = train->options->settings};
    return lda_files_write(train->options->out, &files);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Node 0 tells what the topics are about. */
static bool print_topics(struct model *model)
{
    const struct train *train = model->train;
    struct topwords top;
    if (!train_speaks(train) || model->options->n_top == 0)
        return true;
    bool ok = topwords_find(&top, &model->rows, train_worker(train, 0), &model->bags.words,
                            (size_t)model->options->n_top);
    if (ok)
        topwords_print(&top, train->options->json);
    topwords_fini(&top);
    return ok;
}

static bool run(struct model *model)
{
    struct train *train = model->train;
    static const struct train_measure measures[] = {
        {.name = "log_likelihood", .title = "log-likelihood"}};
    const struct train_task task = {.unit = "words",
                                    .measures = measures,
                                    .n_measures = 1,
                                    .epoch = epoch,
                                    .n_examples = n_examples,
                                    .evaluate = lda_judge,
                                    .gather = gather,
                                    .save = save,
                                    .note = note,
                                    .renew = renew};
    introduce(model);
    return train_agree(train, open_counts(model)) && extend_feeds(model) && lda_begin(model) &&
           train_loop(train, &task, model) && train_agree(train, print_topics(model));
}

bool lda_train(const struct train_options *train_options, const struct lda_options *options)
{
    struct train train;
    if (!train_open(&train, train_options))
        return false;
    struct model model = {
        .options = options, .train = &train, .n_topics = (size_t)options->n_topics};
    bool ok = load(&model);
    ok = train_agree_on(&train, ok, digest(&model)) && run(&model);
    for (size_t i = 0; model.trainers != NULL && i < train.n_threads; i++)
        trainer_fini(&model.trainers[i]);
    free(model.trainers);
    free(model.assignments);
    free(model.log_risings);
    counts_close(&model.rows);
    counts_close(&model.totals);
    bags_fini(&model.bags);
    return train_close(&train, ok);
}
