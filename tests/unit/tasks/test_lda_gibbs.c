/*
 * The sampler against its formula in gibbs.h, written here once more, plainly and in double; what it
 * changes adds up; and the likelihood against the chain rule.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lda/gibbs.h"
#include "lda/likelihood.h"

enum { N_WORDS = 50 };

static const double alpha = 0.3, beta = 0.07;

/* Counts to sample with: one word, one document, and the totals of the rest. */
struct scene {
    size_t n_topics;
    int32_t *row, *totals;
    uint32_t *of_document;
};

/* The document has few topics, so that it may have a list, or as many as it likes. */
static struct scene scene_make(size_t n_topics, uint64_t seed, bool few)
{
    struct rng rng = rng_seed(seed, n_topics);
    struct scene scene = {n_topics, calloc(n_topics, 4), calloc(n_topics, 4), calloc(n_topics, 4)};
    for (size_t k = 0; k < n_topics; k++) {
        if (few ? k % 13 == 5 : rng_below(&rng, 3) == 0)
            scene.of_document[k] = (uint32_t)rng_below(&rng, few ? 3 : 9);
        scene.row[k] = (int32_t)rng_below(&rng, 4) * (int32_t)rng_below(&rng, 10);
        scene.totals[k] = scene.row[k] + (int32_t)rng_below(&rng, 200);
    }
    return scene;
}

static void scene_free(struct scene *scene)
{
    free(scene->row);
    free(scene->totals);
    free(scene->of_document);
}

/* The probability of each topic, up to a factor; returns their sum. */
static double weigh(const struct scene *scene, double *weights)
{
    double sum = 0;
    for (size_t k = 0; k < scene->n_topics; k++)
        sum += weights[k] = (scene->of_document[k] + alpha) * (scene->row[k] + beta) /
                            (scene->totals[k] + N_WORDS * beta);
    return sum;
}

/* A sampler with the counts of a scene and one word more, which has `topic`. */
struct stage {
    struct gibbs gibbs;
    struct mixture mixture;
    struct mixtures mixtures;
    int32_t *row;
    size_t n_words; /* the document is made for */
};

static void stage_init(struct stage *stage, size_t n_topics, size_t n_words)
{
    assert_true(gibbs_init(&stage->gibbs, n_topics, N_WORDS, alpha, beta, rng_seed(7, n_topics)));
    stage->n_words = n_words;
    stage->mixtures = (struct mixtures){&stage->mixture, malloc(gibbs_room(n_topics, n_words) * 4)};
    stage->row = malloc(n_topics * 4);
}

static void stage_fini(struct stage *stage)
{
    gibbs_fini(&stage->gibbs);
    free(stage->mixtures.entries);
    free(stage->row);
}

static void stage_set(struct stage *stage, const struct scene *scene, uint32_t topic)
{
    memcpy(stage->row, scene->row, scene->n_topics * 4);
    memcpy(stage->gibbs.totals, scene->totals, scene->n_topics * 4);
    stage->row[topic]++;
    stage->gibbs.totals[topic]++;
    stage->mixture = (struct mixture){0};
    gibbs_clear(&stage->mixtures, 0, scene->n_topics, stage->n_words);
    for (uint32_t k = 0; k < scene->n_topics; k++)
        for (uint32_t i = 0; i < scene->of_document[k] + (k == topic); i++)
            gibbs_add(&stage->mixtures, 0, scene->n_topics, k);
}

static void check_draws(size_t n_topics, bool few, size_t n_draws)
{
    const uint32_t document = 0;
    struct scene scene = scene_make(n_topics, 3, few);
    struct stage stage;
    double *weights = calloc(n_topics, sizeof *weights);
    size_t *drawn = calloc(n_topics, sizeof *drawn);
    double sum = weigh(&scene, weights);
    size_t n_words = few ? 1 : n_topics;
    for (size_t k = 0; k < n_topics; k++)
        n_words += scene.of_document[k];
    stage_init(&stage, n_topics, n_words);
    for (size_t i = 0; i < n_draws; i++) {
        uint16_t topic = (uint16_t)(i % n_topics);
        stage_set(&stage, &scene, topic);
        assert_true(gibbs_is_dense(&stage.mixture, n_topics) != few || n_topics > GIBBS_DENSE);
        double logarithm =
            gibbs_visit(&stage.gibbs, stage.row, &document, &topic, 1, &stage.mixtures);
        assert_true(fabs(logarithm - log(sum)) < 1e-4);
        assert_in_range(topic, 0, n_topics - 1);
        assert_int_equal(stage.row[topic], scene.row[topic] + 1);
        assert_int_equal(stage.gibbs.totals[topic], scene.totals[topic] + 1);
        drawn[topic]++;
    }
    for (size_t k = 0; k < n_topics; k++) {
        double expected = (double)n_draws * weights[k] / sum;
        assert_true(fabs((double)drawn[k] - expected) < 6 * sqrt(expected) + 6);
    }
    stage_fini(&stage);
    scene_free(&scene);
    free(weights);
    free(drawn);
}

static void draws_follow_the_formula(void **state)
{
    static const size_t numbers[] = {1, 2, 3, 7, 8, 31, 32, 33, 64, 100};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        check_draws(numbers[i], false, 20000);
    check_draws(40, true, 20000);
    check_draws(100, true, 20000);
    check_draws(GIBBS_DENSE + 5, false, 40000);
}

/* A document has these counts; in a list each topic stands once, and blanks behind. */
static void assert_document(const struct stage *stage, const uint32_t *counts, size_t n_topics)
{
    unsigned bits = stage->gibbs.topic_bits;
    uint32_t mask = ((uint32_t)1 << bits) - 1, n_expected = 0;
    bool dense = gibbs_is_dense(&stage->mixture, n_topics);
    for (uint32_t i = 0; i < stage->mixture.n; i++) {
        uint32_t topic = dense ? i : stage->mixtures.entries[i] & mask;
        uint32_t n = gibbs_count(&stage->mixtures, 0, n_topics, bits, i);
        assert_true(dense || n > 0);
        assert_int_equal(n, counts[topic]);
    }
    for (size_t k = 0; k < n_topics; k++)
        n_expected += dense || counts[k] > 0;
    assert_int_equal(n_expected, stage->mixture.n);
    for (size_t i = stage->mixture.n; i < gibbs_room(n_topics, stage->n_words); i++)
        assert_int_equal(stage->mixtures.entries[i], dense ? 0 : mask);
}

static void check_sums(size_t n_topics)
{
    enum { N = 300 };
    const uint32_t documents[N] = {0};
    uint16_t topics[N];
    struct scene scene = {n_topics, calloc(n_topics, 4), calloc(n_topics, 4), calloc(n_topics, 4)};
    struct stage stage;
    struct rng rng = rng_seed(1, n_topics);
    stage_init(&stage, n_topics, N);
    for (size_t i = 0; i < N; i++) {
        topics[i] = (uint16_t)rng_below(&rng, n_topics);
        scene.row[topics[i]]++;
        scene.totals[topics[i]]++;
        scene.of_document[topics[i]]++;
    }
    stage_set(&stage, &scene, 0);
    gibbs_clear(&stage.mixtures, 0, n_topics, N);
    for (size_t i = 0; i < N; i++)
        gibbs_add(&stage.mixtures, 0, n_topics, topics[i]);
    stage.row[0]--;
    stage.gibbs.totals[0]--;
    for (int pass = 0; pass < 20; pass++) {
        (void)gibbs_visit(&stage.gibbs, stage.row, documents, topics, N, &stage.mixtures);
        memset(scene.of_document, 0, n_topics * 4);
        for (size_t i = 0; i < N; i++)
            scene.of_document[topics[i]]++;
        for (size_t k = 0; k < n_topics; k++) {
            assert_int_equal(stage.row[k], scene.of_document[k]);
            assert_int_equal(stage.gibbs.totals[k], scene.of_document[k]);
        }
        assert_document(&stage, scene.of_document, n_topics);
    }
    stage_fini(&stage);
    scene_free(&scene);
}

static void what_it_changes_adds_up(void **state)
{
    static const size_t numbers[] = {1, 2, 8, 40, 300, 1000};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        check_sums(numbers[i]);
}

static void entries_have_room_for_every_topic(void **state)
{
    (void)state;
    assert_int_equal(gibbs_topic_bits(1), 1);
    assert_int_equal(gibbs_topic_bits(127), 7);
    assert_int_equal(gibbs_topic_bits(128), 8);
    assert_int_equal(gibbs_topic_bits(GIBBS_MAX_TOPICS), 16);
    assert_int_equal(gibbs_room(100, 3), 8);
    assert_int_equal(gibbs_room(100, 49), 56);
    assert_int_equal(gibbs_room(100, 50), 104);
    assert_int_equal(gibbs_room(1000, 700), 704);
    assert_int_equal(gibbs_room(1000, 5000), 1000);
}

/* Words come one after the other: p(w, z) is a product of their probabilities given those before. */
static void likelihood_is_the_chain_rule(void **state)
{
    enum { N_TOPICS = 4, N_DOCUMENTS = 5, N = 3000 };
    uint64_t of_word[N_WORDS][N_TOPICS] = {0}, totals[N_TOPICS] = {0};
    uint64_t of_document[N_DOCUMENTS][N_TOPICS] = {0}, lengths[N_DOCUMENTS] = {0};
    struct rng rng = rng_seed(5, 5);
    struct log_rising of_beta, of_alpha;
    double chain = 0, sum = 0;
    (void)state;
    for (size_t i = 0; i < N; i++) {
        uint64_t w = rng_below(&rng, N_WORDS) * rng_below(&rng, N_WORDS) / N_WORDS;
        uint64_t k = rng_below(&rng, N_TOPICS), d = rng_below(&rng, N_DOCUMENTS);
        chain += log(((double)of_word[w][k]++ + beta) / ((double)totals[k]++ + N_WORDS * beta));
        chain +=
            log(((double)of_document[d][k]++ + alpha) / ((double)lengths[d]++ + N_TOPICS * alpha));
    }
    log_rising_init(&of_beta, beta);
    log_rising_init(&of_alpha, alpha);
    for (size_t k = 0; k < N_TOPICS; k++) {
        sum -= rise(N_WORDS * beta, totals[k]);
        for (size_t w = 0; w < N_WORDS; w++)
            sum += log_rising_at(&of_beta, of_word[w][k]);
    }
    for (size_t d = 0; d < N_DOCUMENTS; d++) {
        sum -= rise(N_TOPICS * alpha, lengths[d]);
        for (size_t k = 0; k < N_TOPICS; k++)
            sum += log_rising_at(&of_alpha, of_document[d][k]);
    }
    assert_true(fabs(sum / chain - 1) < 1e-10);
    assert_true(fabs(log_rising_at(&of_beta, 5000) / rise(beta, 5000) - 1) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_formula),
        cmocka_unit_test(what_it_changes_adds_up),
        cmocka_unit_test(entries_have_room_for_every_topic),
        cmocka_unit_test(likelihood_is_the_chain_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
