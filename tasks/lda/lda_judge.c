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

static bool judge_row(struct trainee *trainee, uint64_t word, const int32_t *row)
{
    const struct model *model = trainee->model;
    for (size_t k = 0; k < model->n_topics; k++) {
        if (row[k] < 0)
            return task_fail("'%s' was counted %d times with topic %zu: counts were lost",
                             names_at(&model->bags.words, (uint32_t)word), row[k], k);
        trainee->sums[k] += row[k];
        if (row[k] > 0)
            trainee->log_probability += riser_at(&model->risers[RISER_BETA], (uint64_t)row[k]);
    }
    return true;
}

/* Reads the rows first .. end-1. */
static bool judge_words(struct trainee *trainee, uint64_t first, uint64_t end)
{
    const struct model *model = trainee->model;
    uint64_t keys[BATCH_VISITS];
    size_t most = lda_feed_visits(model->n_topics), n;
    for (; first < end; first += n) {
        n = end - first < most ? (size_t)(end - first) : most;
        for (size_t i = 0; i < n; i++)
            keys[i] = first + i;
        if (!counts_get(&model->rows, trainee->worker, keys, n, trainee->rows))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!judge_row(trainee, keys[i], trainee->rows + i * model->n_topics))
                return false;
    }
    return true;
}

static void judge_documents(struct trainee *trainee)
{
    const struct model *model = trainee->model;
    const struct part *part = &trainee->part;
    unsigned topic_bits = gibbs_topic_bits(model->n_topics);
    for (uint32_t i = 0; i < part->n_documents; i++) {
        for (uint32_t j = 0; j < part->mixtures.of[i].n; j++)
            trainee->log_probability +=
                riser_at(&model->risers[RISER_ALPHA],
                         gibbs_count(&part->mixtures, i, model->n_topics, topic_bits, j));
        trainee->log_probability -= riser_at(&model->risers[RISER_ALPHA_SUM],
                                             bags_length(&model->bags, part->first_document + i));
    }
}

/* The share of one worker: some of the words, and its own documents. */
static bool judge_part(void *context, size_t thread)
{
    struct model *model = context;
    const struct train *train = model->train;
    struct trainee *trainee = &model->trainees[thread];
    uint64_t n_words = model->bags.words.n, n_workers = train->n_nodes * train->n_threads;
    uint64_t number = train->self * train->n_threads + thread;
    memset(trainee->sums, 0, model->n_topics * sizeof *trainee->sums);
    trainee->log_probability = 0;
    judge_documents(trainee);
    return judge_words(trainee, n_words * number / n_workers, n_words * (number + 1) / n_workers);
}

/* Adds the terms of topics; sums[k] is what the rows of all words have of topic k. */
static bool judge_topics(struct model *model, const double *sums, double *log_probability)
{
    int32_t *totals = model->trainees[0].totals_before;
    double all = 0, beta_sum = model->beta * model->bags.words.n;
    if (!counts_get(&model->totals, model->trainees[0].worker, &totals_key, 1, totals))
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
            sums[k] += model->trainees[i].sums[k];
        sums[model->n_topics] += model->trainees[i].log_probability;
    }
    return train_sum(train, model->n_topics + 1, sums);
}

bool lda_judge(void *context, struct train *train, struct train_quality *quality)
{
    struct model *model = context;
    double *sums = malloc((model->n_topics + 1) * sizeof *sums);
    bool ok = sums != NULL ? team_run(train->n_threads, judge_part, NULL, model)
                           : task_fail_memory("the sums of topics");
    ok = train_agree(train, ok) && add_up(model, sums) &&
         judge_topics(model, sums, &sums[model->n_topics]);
    if (ok) {
        quality->value = sums[model->n_topics] / (double)model->bags.n_tokens;
        snprintf(quality->text, sizeof quality->text, "log-likelihood %.4f per word",
                 quality->value);
    }
    free(sums);
    return ok;
}
