/*
 * lda_judge - how likely the model is, and whether its counts add up. See lda_model.h, likelihood.h.
 *
 * All counts are read anyway, so every run checks that none was lost: none is below 0, and the rows of all
 * words add up to the totals of the topics, and these to the number of tokens.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/team.h"
#include "lda/lda_model.h"

static bool judge_row(struct trainer *trainer, uint64_t word, const int32_t *row)
{
    const struct model *model = trainer->model;
    for (size_t k = 0; k < model->n_topics; k++) {
        if (row[k] < 0)
            return task_fail("'%s' was counted %d times with topic %zu: counts were lost",
                             names_at(&model->bags.words, (uint32_t)word), row[k], k);
        trainer->sums[k] += row[k];
        if (row[k] > 0)
            trainer->log_probability +=
                log_rising_at(&model->log_risings[LOG_RISING_BETA], (uint64_t)row[k]);
    }
    return true;
}

/* Reads the rows first .. end-1. */
static bool judge_words(struct trainer *trainer, size_t thread, uint64_t first, uint64_t end)
{
    const struct model *model = trainer->model;
    uint64_t keys[BATCH_VISITS];
    size_t most = lda_feed_visits(model->n_topics), n;
    for (; first < end; first += n) {
        n = end - first < most ? (size_t)(end - first) : most;
        for (size_t i = 0; i < n; i++)
            keys[i] = first + i;
        if (!counts_get(&model->rows, trainer->worker, keys, n, trainer->rows))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!judge_row(trainer, keys[i], trainer->rows + i * model->n_topics))
                return false;
        progress_add(&model->train->progress, thread, n, 0);
    }
    return true;
}

static void judge_documents(struct trainer *trainer)
{
    const struct model *model = trainer->model;
    const struct part *part = &trainer->part;
    unsigned topic_bits = gibbs_topic_bits(model->n_topics);
    for (uint32_t i = 0; i < part->n_documents; i++) {
        for (uint32_t j = 0; j < part->mixtures.of[i].n; j++)
            trainer->log_probability +=
                log_rising_at(&model->log_risings[LOG_RISING_ALPHA],
                              gibbs_count(&part->mixtures, i, model->n_topics, topic_bits, j));
        trainer->log_probability -=
            log_rising_at(&model->log_risings[LOG_RISING_ALPHA_SUM],
                          bags_length(&model->bags, part->first_document + i));
    }
}

/* The share of one worker: some of the words, and its own documents. */
static bool judge_part(void *context, size_t thread)
{
    struct model *model = context;
    const struct train *train = model->train;
    struct trainer *trainer = &model->trainers[thread];
    uint64_t n_words = model->bags.words.n, n_workers = train->n_nodes * train->n_threads;
    uint64_t number = train->self * train->n_threads + thread;
    memset(trainer->sums, 0, model->n_topics * sizeof *trainer->sums);
    trainer->log_probability = 0;
    judge_documents(trainer);
    return judge_words(trainer, thread, n_words * number / n_workers,
                       n_words * (number + 1) / n_workers);
}

/* Adds the terms of topics; sums[k] is what the rows of all words have of topic k. */
static bool judge_topics(struct model *model, const double *sums, double *log_probability)
{
    int32_t *totals = model->trainers[0].totals_before;
    double all = 0, beta_sum = model->beta * model->bags.words.n;
    if (!counts_get(&model->totals, model->trainers[0].worker, &totals_key, 1, totals))
        return false;
    for (size_t k = 0; k < model->n_topics; k++) {
        if ((double)totals[k] != sums[k])
            return task_fail(
                "%d words are counted with topic %zu, but the rows of words have %.0f: "
                "counts were lost",
                totals[k], k, sums[k]);
        all += sums[k];
        *log_probability -= rise(beta_sum, (uint64_t)totals[k]);
    }
    return all == (double)model->bags.n_tokens ||
           task_fail("%.0f words have topics, but there are %" PRIu64 ": counts were lost", all,
                     model->bags.n_tokens);
}

/* Adds up over the workers of all nodes: the sums by topic, and behind them the probability. */
static bool add_up(struct model *model, double *sums)
{
    struct train *train = model->train;
    memset(sums, 0, (model->n_topics + 1) * sizeof *sums);
    for (size_t i = 0; i < train->n_threads; i++) {
        for (size_t k = 0; k < model->n_topics; k++)
            sums[k] += model->trainers[i].sums[k];
        sums[model->n_topics] += model->trainers[i].log_probability;
    }
    return train_sum(train, model->n_topics + 1, sums);
}

bool lda_judge(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    double *sums = malloc((model->n_topics + 1) * sizeof *sums);
    const struct progress_phase phase = {.title = "evaluating",
                                         .unit = "words",
                                         .n_total = model->bags.words.n / train->n_nodes,
                                         .n_all = model->bags.words.n,
                                         .n_later = -1};
    bool ok = sums != NULL ? train_team(train, &phase, judge_part, model)
                           : task_fail_memory("the sums of topics");
    ok = train_agree(train, ok) && add_up(model, sums) &&
         judge_topics(model, sums, &sums[model->n_topics]);
    if (ok)
        quality->values[0] = sums[model->n_topics] / (double)model->bags.n_tokens;
    free(sums);
    return ok;
}
