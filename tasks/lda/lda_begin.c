/*
 * lda_begin - what a model begins with: its priors, and the topics of its words. See lda_model.h.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/checkpoints.h"
#include "common/modelfile.h"
#include "common/team.h"
#include "lda/lda_files.h"
#include "lda/lda_model.h"

static double first_above_0(double told, double resumed, double otherwise)
{
    return told > 0 ? told : resumed > 0 ? resumed : otherwise;
}

bool lda_choose_priors(struct model *model)
{
    const struct lda_options *options = model->options;
    const char *folder = train_resumed_model(model->train);
    struct lda_info info = {0};
    if (folder != NULL && !lda_files_read_info(folder, &info))
        return false;
    model->alpha = first_above_0(options->alpha, info.alpha, 50.0 / (double)model->n_topics);
    model->beta = first_above_0(options->beta, info.beta, 0.01);
    return true;
}

/* Topics at random, which depend on the seed and the document alone, not on whose it is. */
static void draw_topics(const struct model *model, const struct part *part, uint16_t *topics)
{
    uint64_t seed = rng_mix((uint64_t)model->train->options->seed + 1);
    for (uint32_t i = 0; i < part->n_documents; i++) {
        uint32_t document = part->first_document + i;
        struct rng rng = rng_seed(seed, bags_number(&model->bags, document));
        for (uint64_t n = bags_length(&model->bags, document); n > 0; n--)
            *topics++ = (uint16_t)rng_below(&rng, model->n_topics);
    }
}

/* The topics of a part out of a checkpoint: each node that wrote it has noted its own, one behind the other. */
static bool recall_topics(const struct model *model, const struct part *part, uint16_t *topics)
{
    const uint64_t first = part->first_token, end = first + part->n_tokens;
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    uint64_t at = 0, n;
    if (tern_checkpoint_get_info(model->train->checkpoint, &info))
        return task_fail_tern("cannot go on from the checkpoint");
    for (uint32_t node = 0; node < info.n_nodes; node++, at += n) {
        size_t bytes;
        uint16_t *noted = checkpoints_recall(model->train, node, &bytes);
        if (noted == NULL)
            return false;
        n = bytes / sizeof *noted;
        for (uint64_t i = at > first ? at : first; i < at + n && i < end; i++)
            topics[i - first] =
                noted[i - at] < model->n_topics ? noted[i - at] : (uint16_t)(model->n_topics - 1);
        free(noted);
    }
    return at == model->bags.n_tokens ||
           task_fail("the checkpoint has the topics of %" PRIu64 " words, but there are %" PRIu64,
                     at, model->bags.n_tokens);
}

/* The topics of a part out of the files of a model, which are in the order of the file of documents. */
static bool read_topics(const struct model *model, const struct part *part, const char *folder,
                        uint16_t *topics)
{
    const struct bags *bags = &model->bags;
    struct lda_info info;
    if (!lda_files_read_info(folder, &info))
        return false;
    if (bags->positions == NULL)
        return lda_files_read_assignments(folder, &info, part->first_token, part->n_tokens, topics);
    uint16_t *all = malloc((bags->n_tokens + 1) * sizeof *all), *next = all;
    bool ok = all != NULL ? lda_files_read_assignments(folder, &info, 0, bags->n_tokens, all)
                          : task_fail_memory("the topics");
    for (uint32_t i = 0; ok && i < bags->n_documents; i++) {
        const uint32_t position = bags->positions[i];
        const uint64_t n = bags_length(bags, position);
        if (position - part->first_document < part->n_documents)
            memcpy(topics + (bags->first_token[position] - part->first_token), next,
                   n * sizeof *next);
        next += n;
    }
    free(all);
    return ok;
}

/* The topics of a part as they were saved, or at random. */
static bool choose_topics(const struct model *model, struct part *part, uint16_t *topics)
{
    const char *folder = train_resumed_model(model->train);
    if (model->train->checkpoint != NULL) {
        if (!recall_topics(model, part, topics))
            return false;
    } else if (folder == NULL)
        draw_topics(model, part, topics);
    else if (!read_topics(model, part, folder, topics))
        return false;
    return part_set_topics(part, topics);
}

/* Adds the words of some visits to their rows. */
static bool add_visits(struct trainer *trainer, const struct visit *visits, size_t n)
{
    const struct part *part = &trainer->part;
    size_t n_topics = trainer->model->n_topics;
    uint64_t keys[BATCH_VISITS];
    memset(trainer->rows, 0, n * n_topics * sizeof *trainer->rows);
    for (size_t i = 0; i < n; i++) {
        keys[i] = visits[i].word;
        for (uint32_t j = 0; j < visits[i].n; j++)
            trainer->rows[i * n_topics + part->topics[visits[i].first + j]]++;
    }
    return counts_add(&trainer->model->rows, trainer->worker, keys, n, trainer->rows);
}

static bool add_part(struct trainer *trainer)
{
    const struct part *part = &trainer->part;
    size_t step, most = lda_feed_visits(trainer->model->n_topics);
    for (size_t i = 0; i < part->n_visits; i += step) {
        step = part->n_visits - i < most ? part->n_visits - i : most;
        if (!add_visits(trainer, part->visits + i, step))
            return false;
    }
    memset(trainer->totals_before, 0, trainer->model->n_topics * sizeof *trainer->totals_before);
    for (uint32_t i = 0; i < part->n_tokens; i++)
        trainer->totals_before[part->topics[i]]++;
    return counts_add(&trainer->model->totals, trainer->worker, &totals_key, 1,
                      trainer->totals_before);
}

static bool begin_part(void *context, size_t thread)
{
    struct model *model = context;
    struct trainer *trainer = &model->trainers[thread];
    uint16_t *topics = malloc(((size_t)trainer->part.n_tokens + 1) * sizeof *topics);
    bool ok = topics != NULL ? choose_topics(model, &trainer->part, topics)
                             : task_fail_memory("the topics");
    free(topics);
    /* A checkpoint also has the counts. */
    return ok && (model->train->checkpoint != NULL || add_part(trainer)) &&
           loader_fill(&trainer->loader);
}

/* Whether the model that is to go on fits, and how far it is. */
static bool check_resumed(struct model *model)
{
    struct lda_info info;
    const char *folder = train_resumed_model(model->train);
    if (folder == NULL)
        return true;
    if (!lda_files_read_info(folder, &info) ||
        !model_check_names(folder, "words", &model->bags.words, "other documents"))
        return false;
    if (info.n_topics != model->n_topics)
        return task_fail("the model in %s has --topics %" PRIu64, folder, info.n_topics);
    if (info.n_documents != model->bags.n_documents || info.n_tokens != model->bags.n_tokens)
        return task_fail("the model in %s was made from %" PRIu64 " documents with %" PRIu64
                         " words, but there are %u with %" PRIu64,
                         folder, info.n_documents, info.n_tokens, model->bags.n_documents,
                         model->bags.n_tokens);
    model->train->n_epochs_done = (int64_t)info.n_epochs;
    return true;
}

bool lda_begin(struct model *model)
{
    struct train *train = model->train;
    return train_agree(train, check_resumed(model)) &&
           train_agree(train, team_run(train->n_threads, begin_part, NULL, model));
}
