/*
 * test_kge - scores, gradients, batches and ranks of knowledge graphs, against plain definitions.
 */
#include "support/check.h"

#include <math.h>

#include "kge/batch.h"
#include "kge/divide.h"
#include "kge/evaluate.h"
#include "kge/model.h"
#include "kge/step.h"

enum { N = 6 }; /* numbers of a vector */

static void close_to(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        print_error("%.9g is not %.9g\n", got, wanted);
    assert_true(fabs(got - wanted) <= tolerance);
}

static void fill(struct dice *dice, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * dice_unit(dice) - 1);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* As the papers define it. */
static double score(enum kge_model model, const float *s, const float *r, const float *o)
{
    double sum = 0;
    if (model == KGE_RESCAL) {
        for (size_t i = 0; i < N * N; i++)
            sum += (double)s[i / N] * (double)r[i] * (double)o[i % N];
        return sum;
    }
    if (model == KGE_DISTMULT) {
        for (size_t i = 0; i < N; i++)
            sum += (double)s[i] * (double)r[i] * (double)o[i];
        return sum;
    }
    for (size_t i = 0; i < N / 2; i++) {
        double s_re = (double)s[i], s_im = (double)s[N / 2 + i];
        double r_re = (double)r[i], r_im = (double)r[N / 2 + i];
        double o_re = (double)o[i], o_im = (double)o[N / 2 + i];
        sum += (s_re * r_re - s_im * r_im) * o_re + (s_re * r_im + s_im * r_re) * o_im;
    }
    return sum;
}

static void questions_give_the_score(void **state)
{
    struct dice dice = {1};
    float s[N], r[N * N], o[N], question[N];
    (void)state;
    fill(&dice, s, N), fill(&dice, r, N * N), fill(&dice, o, N);
    for (int model = 0; model < 3; model++) {
        double for_object = 0, for_subject = 0, wanted = score((enum kge_model)model, s, r, o);
        model_question((enum kge_model)model, ASK_OBJECT, s, r, N, question);
        for (size_t i = 0; i < N; i++)
            for_object += (double)question[i] * (double)o[i];
        model_question((enum kge_model)model, ASK_SUBJECT, o, r, N, question);
        for (size_t i = 0; i < N; i++)
            for_subject += (double)question[i] * (double)s[i];
        close_to(for_object, wanted, 1e-6);
        close_to(for_subject, wanted, 1e-6);
    }
}

static double penalty(enum kge_model model, int power, const float *x)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        double size = fabs((double)x[i]);
        if (model == KGE_COMPLEX && power == 3)
            size = i < N / 2 ? hypot((double)x[i], (double)x[N / 2 + i]) : 0;
        sum += pow(size, power);
    }
    return sum;
}

static void penalties_have_their_gradient(void **state)
{
    struct dice dice = {2};
    float x[N];
    (void)state;
    fill(&dice, x, N);
    for (int model = 0; model < 2; model++) {
        for (int power = 2; power <= 3; power++) {
            float gradient[N] = {0}, h = 1e-3f;
            model_penalty_back((enum kge_model)model, power, 0.5f, x, N, gradient);
            for (size_t i = 0; i < N; i++) {
                float up[N], down[N];
                memcpy(up, x, sizeof x), memcpy(down, x, sizeof x);
                up[i] += h, down[i] -= h;
                double slope = (penalty((enum kge_model)model, power, up) -
                                penalty((enum kge_model)model, power, down)) /
                               ((double)up[i] - (double)down[i]);
                close_to((double)gradient[i], 0.5 * slope, 1e-4);
            }
        }
    }
}

/* ---- The step -------------------------------------------------------------------------------- */

enum { N_FACTS = 5, N_NEGATIVES = 7, N_ENTITIES = 6, N_RELATIONS = 2 };

/* A step on random rows; entity 0 is subject and object of a triple, and negatives repeat. */
struct trial {
    struct step_settings settings;
    struct batch batch;
    struct step_space space;
    size_t n_relation; /* values of a relation */
    float entities[N_ENTITIES][2 * N], relations[N_RELATIONS][2 * N * N];
    const float *entity_rows[N_ENTITIES], *relation_rows[N_RELATIONS];
    float entity_differences[N_ENTITIES][2 * N], relation_differences[N_RELATIONS * 2 * N * N];
};

static void trial_init(struct trial *trial, enum kge_model model, enum kge_loss loss)
{
    struct dice dice = {3};
    *trial = (struct trial){.settings = {.model = model,
                                         .loss = loss,
                                         .n = N,
                                         .rate = 1,
                                         .penalty_power = 3,
                                         .negative_weight = 2.5f}};
    assert_true(batch_init(&trial->batch, N_FACTS, N_NEGATIVES));
    trial->n_relation = model_relation_length(model, N);
    assert_true(
        step_space_init(&trial->space, N, N_FACTS, N_NEGATIVES, N_RELATIONS, trial->n_relation));
    trial->batch.n_triples = N_FACTS;
    trial->batch.n_negatives = N_NEGATIVES;
    trial->batch.entities.n = N_ENTITIES;
    trial->batch.relations.n = N_RELATIONS;
    for (uint32_t i = 0; i < N_FACTS; i++)
        trial->batch.triples[i] = (struct triple){i % 4, i % 2, i == 0 ? 0 : 3 - i % 3};
    for (uint32_t i = 0; i < N_NEGATIVES; i++)
        trial->batch.negatives[i] = i % 5 + 1;
    for (size_t i = 0; i < N_ENTITIES; i++) {
        fill(&dice, trial->entities[i], N);
        trial->entity_rows[i] = trial->entities[i];
    }
    for (size_t i = 0; i < N_RELATIONS; i++) {
        fill(&dice, trial->relations[i], trial->n_relation);
        trial->relation_rows[i] = trial->relations[i];
    }
}

static void trial_fini(struct trial *trial)
{
    batch_fini(&trial->batch);
    step_space_fini(&trial->space);
}

static double trial_run(struct trial *trial)
{
    return kge_step(&trial->settings, &trial->batch, trial->entity_rows, trial->relation_rows,
                    &trial->space, trial->entity_differences[0], trial->relation_differences);
}

/* The loss as step.h defines it, one question after the other. */
static double defined_loss(const struct trial *trial)
{
    double loss = 0;
    for (size_t i = 0; i < 2 * N_FACTS; i++) {
        struct triple triple = trial->batch.triples[i / 2];
        const float *r = trial->relations[triple.relation];
        double right = score(trial->settings.model, trial->entities[triple.subject], r,
                             trial->entities[triple.object]);
        double sum = exp(right), logs = log1p(exp(-right));
        for (size_t j = 0; j < N_NEGATIVES; j++) {
            struct triple wrong = triple;
            *(i % 2 == 0 ? &wrong.object : &wrong.subject) = trial->batch.negatives[j];
            if (memcmp(&wrong, &triple, sizeof triple) == 0)
                continue;
            double x = score(trial->settings.model, trial->entities[wrong.subject], r,
                             trial->entities[wrong.object]);
            sum += (double)trial->settings.negative_weight * exp(x);
            logs += log1p(exp(x));
        }
        loss += trial->settings.loss == KGE_SOFTMAX ? log(sum) - right : logs;
    }
    return loss;
}

/* With sums of zero, AdaGrad's step is the sign of the gradient and its sum of squares the square. */
static void expect_slope(struct trial *trial, float *x, const float *difference, size_t n)
{
    float before = *x, h = 1e-2f;
    *x = before + h;
    double up = defined_loss(trial), distance = (double)*x;
    *x = before - h;
    double slope = (up - defined_loss(trial)) / (distance - (double)*x);
    *x = before;
    close_to(sqrt((double)difference[n]), fabs(slope), 2e-3);
    if (fabs(slope) > 1e-2)
        close_to((double)difference[0], slope > 0 ? -1 : 1, 1e-4);
}

static void the_step_follows_the_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct trial trial;
        trial_init(&trial, (enum kge_model)(i / 2), (enum kge_loss)(i % 2));
        close_to(trial_run(&trial), defined_loss(&trial), 1e-3);
        for (size_t row = 0; row < N_ENTITIES; row++)
            for (size_t k = 0; k < N; k++)
                expect_slope(&trial, &trial.entities[row][k], &trial.entity_differences[row][k], N);
        for (size_t row = 0; row < N_RELATIONS; row++)
            for (size_t k = 0; k < trial.n_relation; k++)
                expect_slope(&trial, &trial.relations[row][k],
                             trial.relation_differences + 2 * row * trial.n_relation + k,
                             trial.n_relation);
        trial_fini(&trial);
    }
}

static void a_step_of_extreme_scores_stays_finite(void **state)
{
    (void)state;
    for (int loss = 0; loss < 2; loss++) {
        struct trial trial;
        trial_init(&trial, KGE_COMPLEX, (enum kge_loss)loss);
        for (size_t i = 0; i < N_ENTITIES; i++)
            for (size_t k = 0; k < N; k++)
                trial.entities[i][k] *= 1000;
        assert_true(isfinite(trial_run(&trial)));
        for (size_t i = 0; i < N_ENTITIES; i++)
            for (size_t k = 0; k < 2 * N; k++)
                assert_true(isfinite(trial.entity_differences[i][k]));
        trial_fini(&trial);
    }
}

/* ---- Batches --------------------------------------------------------------------------------- */

static void a_source_visits_every_triple_once_per_epoch(void **state)
{
    enum { N_ALL = 103, PARTS = 3, PER_BATCH = 10 };
    struct triple all[N_ALL];
    struct triples triples = {N_ALL, N_ALL, all};
    unsigned seen[N_ALL] = {0}, orders_differ = 0;
    (void)state;
    for (uint32_t i = 0; i < N_ALL; i++)
        all[i] = (struct triple){i, i % 4, (i + 1) % N_ALL};
    for (size_t part = 0; part < PARTS; part++) {
        struct source source;
        struct batch batch;
        assert_true(source_init(&source, &triples, part, PARTS, PER_BATCH, 5, 1, 0));
        assert_true(batch_init(&batch, PER_BATCH, 5));
        uint64_t first[2] = {0};
        for (int epoch = 0; epoch < 2; epoch++) {
            for (size_t done = 0; done < source.n; done += PER_BATCH) {
                source_next(&source, PER_BATCH, &batch);
                if (done == 0)
                    first[epoch] = batch.entities.keys[batch.triples[0].subject];
                for (size_t i = 0; i < batch.n_triples; i++) {
                    uint64_t subject = batch.entities.keys[batch.triples[i].subject];
                    assert_int_equal(batch.entities.keys[batch.triples[i].object],
                                     (subject + 1) % N_ALL);
                    assert_int_equal(batch.relations.keys[batch.triples[i].relation], subject % 4);
                    seen[subject]++;
                }
            }
        }
        orders_differ += first[0] != first[1];
        batch_fini(&batch);
        source_fini(&source);
    }
    for (size_t i = 0; i < N_ALL; i++)
        assert_int_equal(seen[i], 2);
    assert_true(orders_differ > 0);
}

static void a_batch_lists_every_entity_once(void **state)
{
    struct triple all[] = {{5, 0, 5}, {5, 0, 6}, {7, 1, 6}};
    struct triples triples = {3, 3, all};
    const uint64_t negatives[] = {6, 9, 9, 5};
    struct source source;
    struct batch batch;
    (void)state;
    assert_true(source_init(&source, &triples, 0, 1, 3, 4, 1, 0));
    assert_true(batch_init(&batch, 3, 4));
    source_next(&source, 3, &batch);
    assert_int_equal(batch.entities.n, 3);
    assert_int_equal(batch.relations.n, 2);
    source_add_negatives(&source, negatives, 4, &batch);
    assert_int_equal(batch.entities.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(batch.entities.keys[batch.negatives[i]], negatives[i]);
    batch_fini(&batch);
    source_fini(&source);
}

/* ---- Division -------------------------------------------------------------------------------- */

enum { GROUPS = 4, MEMBERS = 60, DIVIDED = 2000, STRAY = 20 };

/* Entities that more than one of equal parts use. */
static size_t count_shared(const struct triples *triples)
{
    uint8_t users[GROUPS * MEMBERS] = {0};
    size_t n = 0;
    for (size_t i = 0; i < triples->n; i++) {
        const uint8_t part = (uint8_t)(1U << i * GROUPS / triples->n);
        users[triples->at[i].subject] |= part;
        users[triples->at[i].object] |= part;
    }
    for (size_t e = 0; e < GROUPS * MEMBERS; e++)
        n += (users[e] & (users[e] - 1)) != 0;
    return n;
}

/* Groups of entities, of which one triple in STRAY leads from one to another. */
static void divided_triples_share_few_entities(void **state)
{
    static struct triple all[DIVIDED], again[DIVIDED];
    struct triples triples = {DIVIDED, DIVIDED, all}, others = {DIVIDED, DIVIDED, again};
    static unsigned seen[DIVIDED];
    struct dice dice = {3};
    (void)state;
    for (uint32_t i = 0; i < DIVIDED; i++) {
        const uint32_t group = (uint32_t)dice_below(&dice, GROUPS);
        const uint32_t other = i % STRAY ? group : (uint32_t)dice_below(&dice, GROUPS);
        again[i] = all[i] =
            (struct triple){(uint32_t)dice_below(&dice, MEMBERS) * GROUPS + group, i,
                            (uint32_t)dice_below(&dice, MEMBERS) * GROUPS + other};
    }
    const size_t before = count_shared(&triples);
    assert_true(divide_triples(&triples, GROUPS * MEMBERS, GROUPS));
    assert_true(divide_triples(&others, GROUPS * MEMBERS, GROUPS));
    assert_memory_equal(all, again, sizeof all);
    for (size_t i = 0; i < DIVIDED; i++) {
        const uint32_t number = all[i].relation;
        seen[number]++;
    }
    for (size_t i = 0; i < DIVIDED; i++)
        assert_int_equal(seen[i], 1);
    assert_true(before > GROUPS * MEMBERS * 9 / 10);
    assert_true(count_shared(&triples) < before / 2);
}

static void triples_are_divided_also_when_there_are_few(void **state)
{
    struct triple all[] = {{0, 0, 0}, {2, 1, 0}};
    struct triples triples = {2, 2, all}, none = {0, 0, all};
    (void)state;
    assert_true(divide_triples(&triples, 3, 5));
    assert_int_equal(all[0].relation + all[1].relation, 1);
    assert_true(divide_triples(&none, 3, 2));
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

enum { MANY = 500, N_TEST = 60 };

struct values {
    float of[MANY][N];
};

static void copy_value(void *context, uint64_t key, void *value, size_t length)
{
    memset(value, 0, length * sizeof(float));
    memcpy(value, ((struct values *)context)->of[key], N * sizeof(float));
}

static bool is_known(const struct graph *graph, struct triple triple)
{
    const struct triples *parts[] = {&graph->train, &graph->valid, &graph->test};
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < parts[i]->n; j++)
            if (memcmp(&parts[i]->at[j], &triple, sizeof triple) == 0)
                return true;
    return false;
}

/* 1 + the entities that are better, half of those that are as good, without known answers. */
static double defined_rank(const struct graph *graph, const struct values *entities,
                           const struct values *relations, struct triple triple, bool ask_object)
{
    double rank = 1;
    const float *r = relations->of[triple.relation];
    double right = score(KGE_COMPLEX, entities->of[triple.subject], r, entities->of[triple.object]);
    for (uint32_t i = 0; i < MANY; i++) {
        struct triple other = triple;
        *(ask_object ? &other.object : &other.subject) = i;
        if (is_known(graph, other))
            continue;
        double x = score(KGE_COMPLEX, entities->of[other.subject], r, entities->of[other.object]);
        rank += x > right ? 1 : x == right ? 0.5 : 0;
    }
    return rank;
}

/* Values are small whole numbers, so that there are ties and every score is exact. */
static void fill_whole(struct dice *dice, struct values *values)
{
    for (size_t i = 0; i < MANY; i++)
        for (size_t k = 0; k < N; k++)
            values->of[i][k] = (float)dice_below(dice, 5) - 2;
}

static struct triple random_triple(struct dice *dice)
{
    return (struct triple){(uint32_t)dice_below(dice, MANY), (uint32_t)dice_below(dice, 3),
                           (uint32_t)dice_below(dice, MANY)};
}

static void ranks(bool plain)
{
    static struct values entities, relations;
    struct triple triples[3][N_TEST];
    struct dice dice = {7};
    fill_whole(&dice, &entities);
    fill_whole(&dice, &relations);
    for (size_t i = 0; i < 3 * N_TEST; i++)
        triples[i / N_TEST][i % N_TEST] = random_triple(&dice);
    /* Some triples of the test share a question with one to learn from. */
    for (size_t i = 0; i < N_TEST; i += 2) {
        triples[0][i].subject = triples[2][i].subject;
        triples[0][i].relation = triples[2][i].relation;
    }
    struct graph graph = {.train = {N_TEST, N_TEST, triples[0]},
                          .valid = {N_TEST, N_TEST, triples[1]},
                          .test = {N_TEST, N_TEST, triples[2]}};
    struct known known;
    struct train train;
    struct train_options options = {.n_threads = 3, .plain = plain, .json = true};
    struct ranking ranking;
    assert_true(known_init(&known, &graph));
    assert_true(train_open(&train, &options));
    struct params *e = train_params(&train, "e", MANY, 2 * N, copy_value, &entities);
    struct params *r = train_params(&train, "r", MANY, 2 * N, copy_value, &relations);
    assert_true(e != NULL && r != NULL);
    assert_true(evaluate(&train, KGE_COMPLEX, N, e, r, &graph.test, &known, &ranking));
    double mrr = 0, hits_10 = 0;
    for (size_t i = 0; i < 2 * N_TEST; i++) {
        double rank = defined_rank(&graph, &entities, &relations, triples[2][i / 2], i % 2 == 0);
        mrr += 1 / rank / (2 * N_TEST);
        hits_10 += (rank <= 10) / (2.0 * N_TEST);
    }
    close_to(ranking.mrr, mrr, 1e-9);
    close_to(ranking.hits_10, hits_10, 1e-9);
    known_fini(&known);
    assert_true(train_close(&train, true));
}

static void ranks_are_as_defined(void **state)
{
    (void)state;
    ranks(true);
    ranks(false);
}

/* Numbers that are rounded in every product and sum, the same in each row. */
static void set_fractions(void *context, uint64_t key, void *value, size_t length)
{
    float *row = value;
    (void)context, (void)key;
    for (size_t i = 0; i < length; i++)
        row[i] = 1 / (3 + (float)i);
}

static void entities_of_equal_vectors_share_a_rank(void **state)
{
    enum { WIDE = 100 };
    struct triple triples[] = {{1, 0, 2}, {3, 0, 4}, {5, 0, 6}, {7, 0, 8}, {9, 0, 10}};
    struct graph graph = {.test = {5, 5, triples}};
    struct known known;
    struct train train;
    struct train_options options = {.n_threads = 1, .plain = true};
    struct ranking ranking;
    (void)state;
    assert_true(known_init(&known, &graph));
    assert_true(train_open(&train, &options));
    struct params *params = train_params(&train, "e", MANY, 2 * WIDE, set_fractions, NULL);
    assert_non_null(params);
    for (int model = 0; model < 2; model++) {
        assert_true(evaluate(&train, (enum kge_model)model, WIDE, params, params, &graph.test,
                             &known, &ranking));
        close_to(ranking.mrr, 2.0 / (MANY + 1), 1e-9);
    }
    known_fini(&known);
    assert_true(train_close(&train, true));
}

static void a_model_that_is_not_a_number_is_no_good(void **state)
{
    static struct values values;
    struct triple triple[] = {{1, 0, 2}};
    struct graph graph = {.test = {1, 1, triple}};
    struct known known;
    struct train train;
    struct train_options options = {.n_threads = 1, .plain = true};
    struct ranking ranking;
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        values.of[i][0] = NAN;
    assert_true(known_init(&known, &graph));
    assert_true(train_open(&train, &options));
    struct params *params = train_params(&train, "e", MANY, 2 * N, copy_value, &values);
    assert_non_null(params);
    assert_true(evaluate(&train, KGE_DISTMULT, N, params, params, &graph.test, &known, &ranking));
    assert_true(ranking.mrr < 0.01);
    known_fini(&known);
    assert_true(train_close(&train, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_give_the_score),
        cmocka_unit_test(penalties_have_their_gradient),
        cmocka_unit_test(the_step_follows_the_gradient),
        cmocka_unit_test(a_step_of_extreme_scores_stays_finite),
        cmocka_unit_test(a_source_visits_every_triple_once_per_epoch),
        cmocka_unit_test(a_batch_lists_every_entity_once),
        cmocka_unit_test(divided_triples_share_few_entities),
        cmocka_unit_test(triples_are_divided_also_when_there_are_few),
        cmocka_unit_test(ranks_are_as_defined),
        cmocka_unit_test(entities_of_equal_vectors_share_a_rank),
        cmocka_unit_test(a_model_that_is_not_a_number_is_no_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
