/*
 * Parts: every word of every document belongs to one worker, whose stream visits it once in each pass;
 * topics are saved in an order that does not depend on who has them. Counts add up; first words are first.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/team.h"
#include "lda/counts.h"
#include "lda/lda_feed.h"
#include "lda/topwords.h"

enum { N_DOCUMENTS = 300, N_WORDS = 40, N_TOPICS = 20 };

/* ---- Documents ------------------------------------------------------------------------------- */

/* Documents of 0 to 9 different words; word 0 is everywhere and frequent. */
static void make_bags(struct bags *bags)
{
    struct rng rng = rng_seed(2, 2);
    uint32_t number;
    *bags = (struct bags){.n_documents = N_DOCUMENTS};
    bags->first_pair = calloc(N_DOCUMENTS + 1, sizeof *bags->first_pair);
    bags->first_token = calloc(N_DOCUMENTS + 1, sizeof *bags->first_token);
    bags->pairs = calloc(N_DOCUMENTS * 10, sizeof *bags->pairs);
    for (uint32_t i = 0; i < N_WORDS; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%u", i);
        assert_true(names_add(&bags->words, name, strlen(name), &number));
    }
    for (uint32_t i = 0; i < N_DOCUMENTS; i++) {
        uint64_t n = rng_below(&rng, 10);
        for (uint64_t j = 0; j < n; j++) {
            uint32_t word = (uint32_t)(j == 0 ? 0 : j * 4 + rng_below(&rng, 4));
            struct bag_word pair = {word, (uint32_t)(j == 0 ? 30 : 1 + rng_below(&rng, 3))};
            bags->pairs[bags->n_pairs++] = pair;
            bags->n_tokens += pair.n;
        }
        bags->first_pair[i + 1] = bags->n_pairs;
        bags->first_token[i + 1] = bags->n_tokens;
    }
}

static void check_part(const struct part *part, const struct bags *bags, uint32_t seen[][N_WORDS])
{
    for (uint32_t i = 0; i < part->n_bands; i++)
        for (uint32_t j = 1; j < part->bands[i].n; j++)
            assert_true(part->visits[part->bands[i].first + j - 1].word <=
                        part->visits[part->bands[i].first + j].word);
    for (uint32_t i = 0; i < part->n_visits; i++) {
        const struct visit *visit = &part->visits[i];
        assert_in_range(visit->n, 1, MAX_VISIT);
        for (uint32_t j = 0; j < visit->n; j++)
            seen[part->first_document + part->documents[visit->first + j]][visit->word]++;
    }
    assert_int_equal(part->first_token, bags->first_token[part->first_document]);
}

static void every_word_has_one_worker(void **state)
{
    struct bags bags;
    (void)state;
    make_bags(&bags);
    for (size_t n_workers = 1; n_workers <= 7; n_workers += 2) {
        static uint32_t seen[N_DOCUMENTS][N_WORDS];
        memset(seen, 0, sizeof seen);
        for (size_t i = 0; i < n_workers; i++) {
            struct part part;
            assert_true(part_make(&part, &bags, i, n_workers, N_TOPICS));
            assert_in_range(part.n_tokens * n_workers, bags.n_tokens * 8 / 10,
                            bags.n_tokens * 12 / 10);
            check_part(&part, &bags, seen);
            part_fini(&part);
        }
        for (uint32_t i = 0; i < N_DOCUMENTS; i++)
            for (uint64_t j = bags.first_pair[i]; j < bags.first_pair[i + 1]; j++)
                seen[i][bags.pairs[j].word] -= bags.pairs[j].n;
        for (uint32_t i = 0; i < N_DOCUMENTS; i++)
            for (uint32_t j = 0; j < N_WORDS; j++)
                assert_int_equal(seen[i][j], 0);
    }
    bags_fini(&bags);
}

/* Saved by some workers, set by others, the topics of each document's words stay. */
static void saved_topics_fit_other_workers(void **state)
{
    struct bags bags;
    (void)state;
    make_bags(&bags);
    uint16_t *saved = malloc(bags.n_tokens * sizeof *saved);
    uint16_t *again = malloc(bags.n_tokens * sizeof *again);
    for (uint64_t i = 0; i < bags.n_tokens; i++)
        saved[i] = (uint16_t)(i * 7 % N_TOPICS);
    for (size_t i = 0; i < 3; i++) {
        struct part part;
        assert_true(part_make(&part, &bags, i, 3, N_TOPICS));
        assert_true(part_set_topics(&part, saved + part.first_token));
        assert_true(part_get_topics(&part, again + part.first_token));
        part_fini(&part);
    }
    assert_memory_equal(saved, again, bags.n_tokens * sizeof *saved);
    /* The first 30 words of a document are its occurrences of word 0. */
    struct part all;
    assert_true(part_make(&all, &bags, 0, 1, N_TOPICS));
    assert_true(part_set_topics(&all, saved));
    for (uint32_t i = 0; i < all.n_tokens && i < all.visits[0].n; i++)
        assert_int_equal(all.topics[i], saved[bags.first_token[all.documents[i]] + i % 30]);
    part_fini(&all);
    free(saved);
    free(again);
    bags_fini(&bags);
}

/* Takes one pass; returns the number of batches, and what depends on their order. */
static uint32_t take_pass(struct lda_feed *feed, uint32_t *n_seen, uint64_t *order)
{
    struct lda_batch *batch = malloc(sizeof *batch);
    uint32_t n_batches = 0;
    do {
        uint32_t n_tokens = 0;
        lda_feed_next(feed, batch);
        for (size_t i = 0; i < batch->n_visits; i++) {
            assert_int_equal(batch->words[i], batch->visits[i].word);
            n_tokens += batch->visits[i].n;
            *order = *order * 31 + batch->visits[i].first;
            for (uint32_t j = 0; j < batch->visits[i].n; j++)
                n_seen[batch->visits[i].first + j]++;
        }
        assert_int_equal(n_tokens, batch->n_tokens);
        assert_in_range(n_tokens, 0, BATCH_TOKENS);
        n_batches++;
    } while (!batch->ends_pass);
    free(batch);
    return n_batches;
}

static void a_pass_visits_every_word_once(void **state)
{
    struct bags bags;
    struct part part;
    struct lda_feed feed;
    uint64_t orders[2] = {0};
    (void)state;
    make_bags(&bags);
    assert_true(part_make(&part, &bags, 0, 1, N_TOPICS));
    assert_true(lda_feed_init(&feed, &part, N_TOPICS, rng_seed(1, 1)));
    uint32_t n_batches = feed.n_batches + 2;
    assert_true(feed.n_batches > 1);
    lda_feed_extend(&feed, n_batches);
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t *n_seen = calloc(part.n_tokens, sizeof *n_seen);
        assert_int_equal(take_pass(&feed, n_seen, &orders[pass]), n_batches);
        for (uint32_t i = 0; i < part.n_tokens; i++)
            assert_int_equal(n_seen[i], 1);
        free(n_seen);
    }
    assert_true(orders[0] != orders[1]);
    assert_int_equal(lda_feed_visits(1), BATCH_VISITS);
    assert_int_equal(lda_feed_visits(GIBBS_MAX_TOPICS), 1);
    lda_feed_fini(&feed);
    part_fini(&part);
    bags_fini(&bags);
}

static void more_workers_than_documents(void **state)
{
    struct bags bags;
    uint64_t n_tokens = 0;
    (void)state;
    make_bags(&bags);
    for (size_t i = 0; i < 1000; i++) {
        struct part part;
        assert_true(part_make(&part, &bags, i, 1000, N_TOPICS));
        n_tokens += part.n_tokens;
        part_fini(&part);
    }
    assert_int_equal(n_tokens, bags.n_tokens);
    bags_fini(&bags);
}

static void a_document_can_be_too_long(void **state)
{
    struct bags bags;
    struct part part;
    (void)state;
    make_bags(&bags);
    bags.first_token[1] = bags.first_token[0] + (1 << 16);
    assert_false(part_make(&part, &bags, 0, 1, GIBBS_MAX_TOPICS));
    assert_non_null(strstr(task_error(), "document 1 has 65536 words"));
    part_fini(&part);
    bags_fini(&bags);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

enum { N_KEYS = 3, N_ROUNDS = 2000 };

static bool count_up_and_down(void *context, size_t thread)
{
    const struct counts *counts = context;
    const uint64_t keys[N_KEYS] = {0, 1, 2};
    int32_t rows[N_KEYS * 4], differences[N_KEYS * 4];
    for (int i = 0; i < N_ROUNDS; i++) {
        for (int j = 0; j < N_KEYS * 4; j++)
            differences[j] = (int)thread * 5 - 5 + j % 3;
        if (!counts_get(counts, NULL, keys, N_KEYS, rows) ||
            !counts_add(counts, NULL, keys, N_KEYS, differences))
            return false;
    }
    return true;
}

static void no_count_is_lost(void **state)
{
    const struct train_options options = {.n_threads = 3, .plain = true};
    const uint64_t keys[N_KEYS] = {0, 1, 2};
    struct train train;
    struct counts counts;
    int32_t rows[N_KEYS * 4];
    (void)state;
    assert_true(train_open(&train, &options));
    assert_true(counts_open(&counts, &train, NULL, "counts", N_KEYS, 4));
    assert_true(team_run(3, count_up_and_down, NULL, &counts));
    assert_true(counts_get(&counts, NULL, keys, N_KEYS, rows));
    for (int j = 0; j < N_KEYS * 4; j++)
        assert_int_equal(rows[j], 3 * N_ROUNDS * (j % 3));
    counts_close(&counts);
    assert_true(train_close(&train, true));
}

static void first_words_are_the_most_frequent(void **state)
{
    const struct train_options options = {.n_threads = 1, .plain = true};
    const uint64_t keys[] = {0, 1, 2, 3};
    const int32_t rows[] = {5, 0, 7, 1, 0, 0, 7, 1};
    struct train train;
    struct counts counts;
    struct names names = {0};
    struct topwords top;
    uint32_t number;
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_true(names_add(&names, &"abcd"[i], 1, &number));
    assert_true(train_open(&train, &options));
    assert_true(counts_open(&counts, &train, NULL, "counts", 4, 2));
    assert_true(counts_add(&counts, NULL, keys, 4, rows));
    assert_true(topwords_find(&top, &counts, NULL, &names, 3));
    assert_string_equal(topwords_at(&top, 0, 0), "b");
    assert_string_equal(topwords_at(&top, 0, 1), "d");
    assert_string_equal(topwords_at(&top, 0, 2), "a");
    assert_null(topwords_at(&top, 0, 3));
    assert_string_equal(topwords_at(&top, 1, 1), "d");
    assert_null(topwords_at(&top, 1, 2));
    assert_int_equal(top.totals[0], 19);
    assert_int_equal(top.n_tokens, 21);
    topwords_fini(&top);
    counts_close(&counts);
    names_fini(&names);
    assert_true(train_close(&train, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_has_one_worker),
        cmocka_unit_test(saved_topics_fit_other_workers),
        cmocka_unit_test(a_pass_visits_every_word_once),
        cmocka_unit_test(more_workers_than_documents),
        cmocka_unit_test(a_document_can_be_too_long),
        cmocka_unit_test(no_count_is_lost),
        cmocka_unit_test(first_words_are_the_most_frequent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
