/*
 * Judging a model: its likelihood is that of the chain rule, and counts that do not add up are found.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lda/lda_model.h"

enum { N_TOPICS = 2, N_WORDS = 3, N_TOKENS = 6 };

/* Two documents, sea sea wind and wind sail sail; the words of both in the order of their numbers. */
static const uint32_t token_words[N_TOKENS] = {0, 0, 1, 1, 2, 2};
static const uint32_t token_documents[N_TOKENS] = {0, 0, 0, 1, 1, 1};
static const uint16_t token_topics[N_TOKENS] = {0, 1, 0, 1, 1, 1};

static const struct train_options train_options = {.n_threads = 1, .plain = true};
static const uint64_t words[N_WORDS] = {0, 1, 2};

struct fixture {
    struct train train;
    struct model model;
    struct trainer trainer;
};

static void make_bags(struct bags *bags)
{
    static const char *const names[N_WORDS] = {"sea", "wind", "sail"};
    static const struct bag_word pairs[] = {{0, 2}, {1, 1}, {1, 1}, {2, 2}};
    uint32_t number;
    for (size_t i = 0; i < N_WORDS; i++)
        assert_true(names_add(&bags->words, names[i], strlen(names[i]), &number));
    bags->n_documents = 2;
    bags->n_tokens = N_TOKENS;
    bags->first_pair = calloc(3, sizeof *bags->first_pair);
    bags->first_token = calloc(3, sizeof *bags->first_token);
    bags->pairs = malloc(sizeof pairs);
    memcpy(bags->pairs, pairs, sizeof pairs);
    for (uint64_t i = 1; i < 3; i++) {
        bags->first_pair[i] = 2 * i;
        bags->first_token[i] = 3 * i;
    }
}

static void fixture_init(struct fixture *f)
{
    int32_t rows[N_WORDS * N_TOPICS] = {0}, totals[N_TOPICS] = {0};
    memset(f, 0, sizeof *f);
    assert_true(train_open(&f->train, &train_options));
    f->model = (struct model){.train = &f->train, .n_topics = N_TOPICS, .alpha = 0.3, .beta = 0.1};
    f->model.trainers = &f->trainer;
    f->model.log_risings = malloc(N_LOG_RISINGS * sizeof *f->model.log_risings);
    log_rising_init(&f->model.log_risings[LOG_RISING_ALPHA], f->model.alpha);
    log_rising_init(&f->model.log_risings[LOG_RISING_ALPHA_SUM], N_TOPICS * f->model.alpha);
    log_rising_init(&f->model.log_risings[LOG_RISING_BETA], f->model.beta);
    make_bags(&f->model.bags);
    f->trainer.model = &f->model;
    f->trainer.rows = malloc(lda_feed_visits(N_TOPICS) * N_TOPICS * sizeof *f->trainer.rows);
    f->trainer.totals_before = malloc(N_TOPICS * sizeof *f->trainer.totals_before);
    f->trainer.sums = malloc(N_TOPICS * sizeof *f->trainer.sums);
    assert_true(part_make(&f->trainer.part, &f->model.bags, 0, 1, N_TOPICS));
    assert_true(part_set_topics(&f->trainer.part, token_topics));
    for (size_t i = 0; i < N_TOKENS; i++) {
        rows[token_words[i] * N_TOPICS + token_topics[i]]++;
        totals[token_topics[i]]++;
    }
    assert_true(counts_open(&f->model.rows, &f->train, NULL, "words", N_WORDS, N_TOPICS));
    assert_true(counts_open(&f->model.totals, &f->train, NULL, "totals", 1, N_TOPICS));
    assert_true(counts_add(&f->model.rows, NULL, words, N_WORDS, rows));
    assert_true(counts_add(&f->model.totals, NULL, &totals_key, 1, totals));
}

static void fixture_fini(struct fixture *f)
{
    counts_close(&f->model.rows);
    counts_close(&f->model.totals);
    part_fini(&f->trainer.part);
    bags_fini(&f->model.bags);
    free(f->model.log_risings);
    free(f->trainer.rows);
    free(f->trainer.totals_before);
    free(f->trainer.sums);
    assert_true(train_close(&f->train, true));
}

/* log p(w, z) as a product of the probabilities of words given those before, per word. */
static double chain(double alpha, double beta)
{
    double of_word[N_WORDS][N_TOPICS] = {{0}}, of_document[2][N_TOPICS] = {{0}};
    double totals[N_TOPICS] = {0}, lengths[2] = {0}, sum = 0;
    for (size_t i = 0; i < N_TOKENS; i++) {
        uint32_t w = token_words[i], d = token_documents[i], k = token_topics[i];
        sum += log((of_word[w][k]++ + beta) / (totals[k]++ + N_WORDS * beta));
        sum += log((of_document[d][k]++ + alpha) / (lengths[d]++ + N_TOPICS * alpha));
    }
    return sum / N_TOKENS;
}

static void likelihood_is_that_of_the_chain_rule(void **state)
{
    struct fixture f;
    struct train_quality quality = {0};
    (void)state;
    fixture_init(&f);
    assert_true(lda_judge(&f.model, &f.train, &quality));
    assert_true(fabs(quality.values[0] - chain(f.model.alpha, f.model.beta)) < 1e-12);
    fixture_fini(&f);
}

/* Adds a difference to a row of `which`, and sees what is said about it. */
static void check_difference(bool of_words, int32_t first, int32_t second, const char *sentence)
{
    struct fixture f;
    struct train_quality quality = {0};
    const int32_t difference[N_TOPICS] = {first, second};
    const uint64_t wind = 1;
    fixture_init(&f);
    assert_true(of_words ? counts_add(&f.model.rows, NULL, &wind, 1, difference)
                         : counts_add(&f.model.totals, NULL, &totals_key, 1, difference));
    assert_false(lda_judge(&f.model, &f.train, &quality));
    if (strstr(task_error(), sentence) == NULL)
        fail_msg("%s", task_error());
    fixture_fini(&f);
}

static void counts_that_were_lost_are_found(void **state)
{
    (void)state;
    check_difference(true, -2, 2, "'wind' was counted -1 times with topic 0");
    check_difference(true, 1, 0, "2 words are counted with topic 0, but the rows of words have 3");
    check_difference(true, -1, 0, "but the rows of words have 1: counts were lost");
    check_difference(false, 0, -1, "3 words are counted with topic 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(likelihood_is_that_of_the_chain_rule),
        cmocka_unit_test(counts_that_were_lost_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
