/*
 * Sampling as a program sees it, on one node: keys with their values in one part or several, the same
 * under every policy; levels that hold across workers; what is closed in which order; and a sentence
 * for everything that can be wrong.
 *
 * Statistics have fixed seeds; a right implementation fails one seed in 10,000 (ALPHA) for each.
 */
#include "support/check.h"

#include <pthread.h>

#include "support/alloc.h"
#include "support/statistics.h"

enum { N_KEYS = 1000, LENGTH = 3 };

/* NULL is the default. */
static const char *const policies[] = {
    NULL,       "static", "replicate",          "adaptive",
    "relocate", "multi",  "adaptive-replicate", "adaptive-relocate"};

static const enum tern_conformity levels[] = {TERN_CONFORM, TERN_BOUNDED, TERN_LONG_TERM,
                                              TERN_NON_CONFORM};

static struct tern_target uniform(uint64_t begin, uint64_t end)
{
    return (struct tern_target){
        .struct_size = sizeof(struct tern_target), .begin = begin, .end = end};
}

static struct tern_dist *dist_of(struct tern_table *table, struct tern_target target,
                                 enum tern_conformity level)
{
    struct tern_dist *dist = NULL;
    target.struct_size = sizeof target;
    ok(tern_dist_open(table, &target, level, &dist));
    assert_non_null(dist);
    return dist;
}

/* Prepares n keys and pulls them without values. */
static void draw(struct tern_worker *worker, struct tern_dist *dist, uint64_t *keys, size_t n)
{
    uint64_t sample = 0;
    ok(tern_sample_prepare(worker, dist, n, &sample));
    ok(tern_sample_pull(worker, sample, n, keys, NULL));
}

/* A table of one policy whose keys hold their own numbers. */
static struct tern_table *table_with(struct place *place, enum tern_index index, const char *policy)
{
    struct tern_table_options options = shape(index, TERN_F64, N_KEYS, LENGTH);
    options.policy = policy;
    struct tern_table *table = table_of(place->node, "numbers", options);
    for (uint64_t key = 0; key < N_KEYS; key++) {
        double value[LENGTH] = {(double)key, (double)key + 0.25, (double)key + 0.5};
        ok(tern_set(place->worker, table, &key, 1, value));
    }
    return table;
}

/* ---- What samples are ------------------------------------------------------------------------ */

/* A sample of 100 in parts of 1, 39, 0 and 60, prepared while another is open. */
static void pull_in_parts(struct place *place, struct tern_table *table, struct tern_dist *dist)
{
    static const size_t parts[] = {1, 39, 0, 60};
    uint64_t samples[2], keys[100];
    double values[100][LENGTH];
    ok(tern_sample_prepare(place->worker, dist, 100, &samples[0]));
    ok(tern_sample_prepare(place->worker, dist, 100, &samples[1]));
    for (size_t s = 0; s < 2; s++) {
        size_t done = 0;
        for (size_t p = 0; p < COUNT(parts); done += parts[p++])
            ok(tern_sample_pull(place->worker, samples[s], parts[p], keys + done, values[done]));
        for (size_t i = 0; i < 100; i++) {
            assert_in_range(keys[i], 100, 899);
            assert_true(values[i][0] - (double)keys[i] == 0 &&
                        values[i][2] - (double)keys[i] == 0.5);
        }
    }
    /* Updates go to the keys as usual, once for each time a key was drawn. */
    double updates[100][LENGTH] = {{0}}, before[LENGTH], after[LENGTH], n_drawn = 0;
    for (size_t i = 0; i < 100; i++) {
        updates[i][1] = 1;
        n_drawn += keys[i] == keys[0];
    }
    ok(tern_pull(place->worker, table, keys, 1, before));
    ok(tern_push(place->worker, table, keys, 100, updates));
    ok(tern_pull(place->worker, table, keys, 1, after));
    assert_true(after[1] - before[1] == n_drawn);
}

static void samples_come_with_their_values_in_parts(void **state)
{
    struct place *place = *state;
    for (size_t p = 0; p < COUNT(policies); p++)
        for (enum tern_index index = TERN_DENSE; index <= TERN_SPARSE; index++) {
            struct tern_table *table = table_with(place, index, policies[p]);
            for (size_t l = 0; l < COUNT(levels); l++) {
                struct tern_dist *dist = dist_of(table, uniform(100, 900), levels[l]);
                for (int i = 0; i < 100; i++) {
                    pull_in_parts(place, table, dist);
                    ok(tern_worker_advance(place->worker, NULL));
                }
                ok(tern_dist_close(dist));
            }
            ok(tern_table_close(table));
        }
}

/* Keys of 64 bits with counts: word2vec on a sparse table. */
static void keys_of_sparse_tables_can_be_listed(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "words", shape(TERN_SPARSE, TERN_F32, 0, 1));
    uint64_t list[100], counts[100], seen[100] = {0}, keys[1000];
    double probabilities[100], sum = 0;
    for (uint64_t i = 0; i < 100; i++) {
        list[i] = scattered(i);
        counts[i] = 1 + i * i;
        sum += probabilities[i] = pow((double)counts[i], 0.75);
    }
    for (uint64_t i = 0; i < 100; i++)
        probabilities[i] /= sum;
    struct tern_dist *dist =
        dist_of(table,
                (struct tern_target){
                    .kind = TERN_TARGET_COUNTS, .end = 100, .keys = list, .counts = counts},
                TERN_CONFORM);
    for (int i = 0; i < 100; i++) {
        draw(place->worker, dist, keys, COUNT(keys));
        for (size_t j = 0; j < COUNT(keys); j++) {
            size_t at = 0;
            while (list[at] != keys[j])
                assert_true(++at < 100);
            seen[at]++;
        }
    }
    assert_true(fit_p(seen, probabilities, 100) >= ALPHA);
    ok(tern_dist_close(dist));
}

/* ---- Levels ---------------------------------------------------------------------------------- */

enum { N_CLASSES = 20, N_DRAWN = 200000 };

/* The classes of what two workers drew, and chi-square of each alone and of both together. */
static double levels_p(struct place *place, struct tern_table *table, enum tern_conformity level)
{
    static uint64_t keys[2][N_DRAWN];
    double probabilities[N_CLASSES];
    struct tern_worker *other;
    ok(tern_worker_open(place->node, &other));
    struct tern_dist *dist = dist_of(table, uniform(0, N_KEYS), level);
    for (size_t i = 0; i < N_DRAWN; i += 50) {
        draw(place->worker, dist, keys[0] + i, 50);
        draw(other, dist, keys[1] + i, 50);
    }
    struct pairs pairs = pairs_new(N_CLASSES);
    uint64_t counts[2][N_CLASSES] = {{0}};
    for (size_t i = 0; i < N_CLASSES; i++)
        probabilities[i] = 1.0 / N_CLASSES;
    for (size_t i = 0; i < N_DRAWN; i++) {
        pairs_add(&pairs, keys[0][i] % N_CLASSES, keys[1][i] % N_CLASSES);
        counts[0][keys[0][i] % N_CLASSES]++;
        counts[1][keys[1][i] % N_CLASSES]++;
    }
    double p = fmin(fit_p(counts[0], probabilities, N_CLASSES),
                    fit_p(counts[1], probabilities, N_CLASSES));
    ok(tern_dist_close(dist));
    ok(tern_worker_close(other));
    return fmin(p, pairs_p(&pairs, probabilities));
}

/* On one node everything is here, so local sampling has nothing to choose. */
static void conform_samples_are_independent_and_reused_ones_are_not(void **state)
{
    struct place *place = *state;
    for (size_t p = 0; p < COUNT(policies); p++) {
        struct tern_table *table = table_with(place, TERN_DENSE, policies[p]);
        assert_true(levels_p(place, table, TERN_CONFORM) >= ALPHA);
        assert_true(levels_p(place, table, TERN_NON_CONFORM) >= ALPHA);
        assert_true(levels_p(place, table, TERN_BOUNDED) < 1e-9);
        assert_true(levels_p(place, table, TERN_LONG_TERM) < 1e-9);
        ok(tern_table_close(table));
    }
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* 250 keys 16 times each, unless the program says otherwise. */
static void pools_have_the_size_asked_for(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    static const uint32_t sizes[][2] = {{0, 0}, {10, 3}, {1, 1}};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        struct tern_target target = uniform(0, N_KEYS);
        target.pool_keys = sizes[s][0];
        target.pool_uses = sizes[s][1];
        size_t g = sizes[s][0] ? sizes[s][0] : 250, u = sizes[s][1] ? sizes[s][1] : 16;
        struct tern_dist *dist = dist_of(table, target, TERN_BOUNDED);
        uint64_t *keys = array_of(2 * g * u, sizeof *keys);
        for (size_t i = 0; i < 2 * u; i++)
            draw(place->worker, dist, keys + i * g, g);
        for (size_t i = 0; i < 2 * u; i++)
            qsort(keys + i * g, g, sizeof *keys, by_size);
        for (size_t i = 0; i < 2 * u; i++)
            assert_memory_equal(keys + i * g, keys + i / u * g * u, g * sizeof *keys);
        if (g > 1)
            assert_memory_not_equal(keys, keys + g * u, g * sizeof *keys);
        free(keys);
        ok(tern_dist_close(dist));
    }
    ok(tern_table_close(table));
}

/* ---- Seeds ----------------------------------------------------------------------------------- */

enum { N_SEEDED = 500 };

/* A node of its own, two distributions with two workers each. */
static void draw_seeded(uint64_t seed, enum tern_conformity level, uint64_t keys[4][N_SEEDED])
{
    struct tern_node *node;
    struct tern_worker *workers[2];
    ok(tern_node_open(NULL, &node));
    struct tern_table *table = table_of(node, "t", shape(TERN_DENSE, TERN_F32, 1000000, 1));
    struct tern_target target = uniform(0, 1000000);
    target.seed = seed;
    struct tern_dist *dists[] = {dist_of(table, target, level), dist_of(table, target, level)};
    for (size_t i = 0; i < 2; i++)
        ok(tern_worker_open(node, &workers[i]));
    for (size_t i = 0; i < 4; i++)
        draw(workers[i % 2], dists[i / 2], keys[i], N_SEEDED);
    for (size_t i = 0; i < 2; i++)
        ok(tern_worker_close(workers[i]));
    ok(tern_node_close(node));
}

static void seeds_decide(void **state)
{
    (void)state;
    static uint64_t first[4][N_SEEDED], again[4][N_SEEDED], other[4][N_SEEDED];
    for (size_t l = 0; l < COUNT(levels); l++) {
        draw_seeded(7, levels[l], first);
        draw_seeded(7, levels[l], again);
        draw_seeded(8, levels[l], other);
        assert_memory_equal(first, again, sizeof first);
        for (size_t i = 0; i < 4; i++) {
            assert_memory_not_equal(first[i], other[i], sizeof first[i]);
            for (size_t j = 0; j < i; j++)
                assert_memory_not_equal(first[i], first[j], sizeof first[i]);
        }
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

enum { N_THREADS = 4 };

struct job {
    struct tern_node *node;
    struct tern_dist *dists[COUNT(levels)];
    uint64_t n_pulled;
};

static void *pull_many(void *context)
{
    struct job *job = context;
    struct tern_worker *worker = NULL;
    if (!holds(tern_worker_open(job->node, &worker) == TERN_OK))
        return NULL;
    for (size_t step = 0; step < 500; step++) {
        uint64_t keys[50], sample;
        double values[50][LENGTH];
        struct tern_dist *dist = job->dists[step % COUNT(levels)];
        if (!holds(tern_sample_prepare(worker, dist, 50, &sample) == TERN_OK) ||
            !holds(tern_sample_pull(worker, sample, 20, keys, values) == TERN_OK) ||
            !holds(tern_sample_pull(worker, sample, 30, keys + 20, values + 20) == TERN_OK))
            break;
        for (size_t i = 0; i < 50; i++)
            job->n_pulled += holds(values[i][0] - (double)keys[i] == 0);
        holds(tern_worker_advance(worker, NULL) == TERN_OK);
    }
    holds(tern_worker_close(worker) == TERN_OK);
    return NULL;
}

static void workers_draw_beside_each_other(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    struct tern_dist *dists[COUNT(levels)];
    for (size_t l = 0; l < COUNT(levels); l++)
        dists[l] = dist_of(table, uniform(0, N_KEYS), levels[l]);
    pthread_t threads[N_THREADS];
    struct job jobs[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        jobs[i] = (struct job){.node = place->node};
        memcpy(jobs[i].dists, dists, sizeof dists);
        assert_int_equal(pthread_create(&threads[i], NULL, pull_many, &jobs[i]), 0);
    }
    /* Distributions come and go meanwhile. */
    for (size_t i = 0; i < 100; i++)
        ok(tern_dist_close(dist_of(table, uniform(0, N_KEYS), levels[i % COUNT(levels)])));
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].n_pulled, 500 * 50);
    }
    all_held();
    for (size_t l = 0; l < COUNT(levels); l++)
        ok(tern_dist_close(dists[l]));
    ok(tern_table_close(table));
}

/* ---- What is closed in which order ----------------------------------------------------------- */

static void open_samples_keep_what_they_need_open(void **state)
{
    struct place *place = *state;
    for (size_t l = 0; l < COUNT(levels); l++) {
        struct tern_table *table = table_with(place, TERN_DENSE, NULL);
        struct tern_dist *dist = dist_of(table, uniform(0, N_KEYS), levels[l]);
        uint64_t samples[3], keys[10];
        for (size_t i = 0; i < 3; i++)
            ok(tern_sample_prepare(place->worker, dist, 10, &samples[i]));
        refused(tern_table_close(table), TERN_BUSY, "1 distribution on", "'numbers'");
        refused(tern_dist_close(dist), TERN_BUSY, "3 samples of", "'numbers'");
        ok(tern_sample_pull(place->worker, samples[1], 10, keys, NULL));
        ok(tern_sample_end(place->worker, samples[0]));
        refused(tern_dist_close(dist), TERN_BUSY, "1 sample of", "'numbers'");
        ok(tern_sample_pull(place->worker, samples[2], 4, keys, NULL));
        ok(tern_sample_end(place->worker, samples[2]));
        ok(tern_dist_close(dist));
        refused(tern_dist_close(dist), TERN_CLOSED, "distribution");
        refused(tern_sample_prepare(place->worker, dist, 10, samples), TERN_CLOSED, "distribution");
        ok(tern_table_close(table));
    }
}

static void closing_a_worker_ends_its_samples(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    struct tern_dist *dist = dist_of(table, uniform(0, N_KEYS), TERN_BOUNDED);
    struct tern_worker *worker;
    uint64_t sample;
    ok(tern_worker_open(place->node, &worker));
    ok(tern_sample_prepare(worker, dist, 10, &sample));
    refused(tern_dist_close(dist), TERN_BUSY, "1 sample of");
    ok(tern_worker_close(worker));
    ok(tern_dist_close(dist));
    ok(tern_table_close(table));
}

static void closing_a_node_ends_its_distributions(void **state)
{
    (void)state;
    struct tern_node *node;
    ok(tern_node_open(NULL, &node));
    struct tern_table *table = table_of(node, "t", shape(TERN_DENSE, TERN_F32, 10, 1));
    struct tern_dist *first = dist_of(table, uniform(0, 10), TERN_CONFORM);
    struct tern_dist *second = dist_of(table, uniform(0, 10), TERN_NON_CONFORM);
    ok(tern_node_close(node));
    refused(tern_dist_close(first), TERN_CLOSED, "distribution");
    refused(tern_dist_close(second), TERN_CLOSED, "distribution");
}

static void a_node_has_256_distributions(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    struct tern_target target = uniform(0, 10);
    struct tern_dist *dists[TERN_MAX_DISTS], *one_more = NULL;
    for (size_t i = 0; i < TERN_MAX_DISTS; i++)
        dists[i] = dist_of(table, target, TERN_CONFORM);
    refused(tern_dist_open(table, &target, TERN_CONFORM, &one_more), TERN_LIMIT, "256");
    ok(tern_dist_close(dists[100]));
    ok(tern_dist_open(table, &target, TERN_CONFORM, &dists[100]));
    for (size_t i = 0; i < TERN_MAX_DISTS; i++)
        ok(tern_dist_close(dists[i]));
    ok(tern_table_close(table));
}

/* ---- What is wrong --------------------------------------------------------------------------- */

static void more_than_was_prepared_is_refused(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    for (size_t l = 0; l < COUNT(levels); l++) {
        struct tern_dist *dist = dist_of(table, uniform(0, N_KEYS), levels[l]);
        uint64_t sample, keys[100];
        double values[100][LENGTH];
        ok(tern_sample_prepare(place->worker, dist, 100, &sample));
        refused(tern_sample_pull(place->worker, sample, 101, keys, values), TERN_INVALID, "101",
                "100 of 100 left", "'numbers'");
        ok(tern_sample_pull(place->worker, sample, 70, keys, values));
        refused(tern_sample_pull(place->worker, sample, 31, keys, values), TERN_INVALID, "31",
                "30 of 100 left");
        ok(tern_sample_pull(place->worker, sample, 30, keys, values));
        refused(tern_sample_pull(place->worker, sample, 1, keys, values), TERN_CLOSED,
                "all its keys");
        refused(tern_sample_end(place->worker, sample), TERN_CLOSED, "all its keys");
        uint64_t next;
        ok(tern_sample_prepare(place->worker, dist, 10, &next));
        assert_true(next != sample);
        refused(tern_sample_pull(place->worker, sample, 1, keys, values), TERN_CLOSED,
                "all its keys");
        ok(tern_sample_end(place->worker, next));
        ok(tern_dist_close(dist));
    }
    ok(tern_table_close(table));
}

static void numbers_that_are_no_samples_are_refused(void **state)
{
    struct place *place = *state;
    struct tern_worker *other;
    ok(tern_worker_open(place->node, &other));
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    struct tern_dist *dist = dist_of(table, uniform(0, N_KEYS), TERN_CONFORM);
    uint64_t sample, keys[10];
    static const uint64_t nonsense[] = {
        0, 1, UINT64_MAX, UINT64_MAX << 20, 5 << 20, (1 << 20) + 99};
    for (int prepared = 0; prepared <= 1; prepared++) {
        for (size_t i = 0; i < COUNT(nonsense); i++) {
            if (prepared && nonsense[i] == sample)
                continue;
            refused(tern_sample_pull(place->worker, nonsense[i], 1, keys, NULL), TERN_INVALID,
                    "not prepared by this worker");
            refused(tern_sample_end(place->worker, nonsense[i]), TERN_INVALID,
                    "not prepared by this worker");
        }
        if (!prepared)
            ok(tern_sample_prepare(place->worker, dist, 10, &sample));
    }
    refused(tern_sample_pull(other, sample, 1, keys, NULL), TERN_INVALID,
            "not prepared by this worker");
    ok(tern_sample_pull(place->worker, sample, 10, keys, NULL));
    ok(tern_worker_close(other));
    ok(tern_dist_close(dist));
    ok(tern_table_close(table));
}

/* Half of them are ended in between, and all are told apart. */
static void a_worker_may_have_many_samples_open(void **state)
{
    struct place *place = *state;
    enum { N = 3000 };
    static uint64_t samples[N];
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    struct tern_dist *dist = dist_of(table, uniform(0, N_KEYS), TERN_CONFORM);
    uint64_t keys[2];
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++)
            if (round == 0 || i % 2 == 0)
                ok(tern_sample_prepare(place->worker, dist, 1 + i % 2, &samples[i]));
        for (size_t i = 0; i < N; i += 2)
            ok(tern_sample_pull(place->worker, samples[i], 1, keys, NULL));
        for (size_t i = 0; i < N; i += 2)
            refused(tern_sample_pull(place->worker, samples[i], 1, keys, NULL), TERN_CLOSED,
                    "is over");
    }
    refused(tern_dist_close(dist), TERN_BUSY, "1500 samples of");
    for (size_t i = 1; i < N; i += 2)
        ok(tern_sample_pull(place->worker, samples[i], 2, keys, NULL));
    ok(tern_dist_close(dist));
    ok(tern_table_close(table));
}

static void wrong_arguments_are_refused(void **state)
{
    struct place *place = *state;
    struct tern_worker *worker = place->worker, *stranger;
    struct tern_node *elsewhere;
    ok(tern_node_open(NULL, &elsewhere));
    ok(tern_worker_open(elsewhere, &stranger));
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    struct tern_target target = uniform(0, N_KEYS), empty = uniform(5, 5),
                       beyond = uniform(0, N_KEYS + 1);
    struct tern_dist *dist = dist_of(table, target, TERN_BOUNDED), *none = NULL;
    uint64_t sample = 0, keys[10];
    refused(tern_dist_open(NULL, &target, TERN_CONFORM, &none), TERN_INVALID, "table is NULL");
    refused(tern_dist_open((struct tern_table *)worker, &target, TERN_CONFORM, &none), TERN_INVALID,
            "worker was given");
    refused(tern_dist_open(table, NULL, TERN_CONFORM, &none), TERN_INVALID, "target is NULL",
            "'numbers'");
    refused(tern_dist_open(table, &target, TERN_CONFORM, NULL), TERN_INVALID, "`dist`");
    refused(tern_dist_open(table, &target, (enum tern_conformity)4, &none), TERN_INVALID,
            "conformity 4");
    refused(tern_dist_open(table, &empty, TERN_CONFORM, &none), TERN_INVALID, "no keys",
            "'numbers'");
    refused(tern_dist_open(table, &beyond, TERN_CONFORM, &none), TERN_RANGE, "key 1000",
            "'numbers'");
    target.struct_size = 8;
    refused(tern_dist_open(table, &target, TERN_CONFORM, &none), TERN_INVALID, "struct_size");
    assert_null(none);
    refused(tern_dist_close(NULL), TERN_INVALID, "distribution is NULL");
    refused(tern_dist_close((struct tern_dist *)table), TERN_INVALID, "table was given");
    refused(tern_sample_prepare(NULL, dist, 1, &sample), TERN_INVALID, "worker is NULL");
    refused(tern_sample_prepare(worker, NULL, 1, &sample), TERN_INVALID, "distribution is NULL");
    refused(tern_sample_prepare(stranger, dist, 1, &sample), TERN_MISMATCH, "another node",
            "'numbers'");
    refused(tern_sample_prepare(worker, dist, 0, &sample), TERN_INVALID, "0 keys");
    refused(tern_sample_prepare(worker, dist, 1, NULL), TERN_INVALID, "`sample`");
    refused(tern_sample_prepare(worker, dist, SIZE_MAX, &sample), TERN_NO_MEMORY, "memory");
    assert_int_equal(sample, 0);
    ok(tern_sample_prepare(worker, dist, 10, &sample));
    refused(tern_sample_pull(NULL, sample, 1, keys, NULL), TERN_INVALID, "worker is NULL");
    refused(tern_sample_pull(worker, sample, 1, NULL, NULL), TERN_INVALID, "`keys`");
    refused(tern_sample_end(NULL, sample), TERN_INVALID, "worker is NULL");
    ok(tern_sample_end(worker, sample));
    ok(tern_dist_close(dist));
    ok(tern_table_close(table));
    ok(tern_worker_close(stranger));
    ok(tern_node_close(elsewhere));
}

static uint64_t draw_outside(void *context, uint64_t random)
{
    (void)context;
    (void)random;
    return N_KEYS + 7;
}

static void a_function_that_leaves_the_table_is_reported(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    for (size_t l = 0; l < COUNT(levels); l++) {
        struct tern_dist *dist = dist_of(
            table, (struct tern_target){.kind = TERN_TARGET_FUNCTION, .function = draw_outside},
            levels[l]);
        uint64_t sample = 0, keys[10];
        if (levels[l] == TERN_NON_CONFORM) {
            ok(tern_sample_prepare(place->worker, dist, 10, &sample));
            refused(tern_sample_pull(place->worker, sample, 10, keys, NULL), TERN_RANGE,
                    "key 1007");
            ok(tern_sample_end(place->worker, sample));
        } else {
            refused(tern_sample_prepare(place->worker, dist, 10, &sample), TERN_RANGE, "key 1007");
        }
        ok(tern_dist_close(dist));
    }
    ok(tern_table_close(table));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void samples_allocate_nothing_once_warm(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_with(place, TERN_DENSE, NULL);
    for (size_t l = 0; l < COUNT(levels); l++) {
        struct tern_dist *dist = dist_of(table, uniform(0, N_KEYS), levels[l]);
        uint64_t samples[5], keys[100], before = 0;
        double values[100][LENGTH];
        for (int i = 0; i < 1000; i++) {
            if (i == 20)
                before = alloc_count();
            for (size_t s = 0; s < COUNT(samples); s++)
                ok(tern_sample_prepare(place->worker, dist, 100, &samples[s]));
            for (size_t s = 0; s < COUNT(samples); s++)
                ok(tern_sample_pull(place->worker, samples[s], 100, keys, values));
        }
        assert_int_equal(alloc_count() - before, 0);
        ok(tern_dist_close(dist));
    }
    ok(tern_table_close(table));
}

/* Every allocation on the way fails in turn; the call says so and works when tried again, and the sample
 * has all its keys then. */
static void any_allocation_may_fail(void **state)
{
    struct place *place = *state;
    static const double weights[] = {1, 2, 3, 4, 5};
    struct tern_target target = {.struct_size = sizeof target,
                                 .kind = TERN_TARGET_WEIGHTS,
                                 .begin = 10,
                                 .end = 15,
                                 .weights = weights};
    for (size_t l = 0; l < COUNT(levels); l++) {
        for (uint64_t n = 1, n_refused = 1; n_refused; n++) {
            struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, 1000);
            options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 5};
            struct tern_table *table = table_of(place->node, "short", options);
            struct tern_dist *dist = NULL;
            struct tern_worker *worker = NULL;
            uint64_t sample = 0, keys[20];
            static float values[20][1000];
            n_refused = 0;
            ok(tern_worker_open(place->node, &worker));
            alloc_fail_at(n);
            for (int step = 0; step < 4; step++) {
                enum tern_status status =
                    step == 0   ? tern_dist_open(table, &target, levels[l], &dist)
                    : step == 1 ? tern_sample_prepare(worker, dist, 20, &sample)
                    : step == 2 ? tern_sample_pull(worker, sample, 5, keys, values)
                                : tern_sample_pull(worker, sample, 15, keys + 5, values + 5);
                if (status == TERN_OK)
                    continue;
                alloc_fail_at(0);
                assert_int_equal(status, TERN_NO_MEMORY);
                n_refused++;
                step--;
            }
            alloc_fail_at(0);
            assert_true(n_refused <= 1);
            for (size_t i = 0; i < 20; i++) {
                assert_in_range(keys[i], 10, 14);
                assert_true(values[i][999] == 5);
            }
            ok(tern_worker_close(worker));
            ok(tern_dist_close(dist));
            ok(tern_table_close(table));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(samples_come_with_their_values_in_parts),
        placed(keys_of_sparse_tables_can_be_listed),
        placed(conform_samples_are_independent_and_reused_ones_are_not),
        placed(pools_have_the_size_asked_for),
        cmocka_unit_test(seeds_decide),
        placed(workers_draw_beside_each_other),
        placed(open_samples_keep_what_they_need_open),
        placed(closing_a_worker_ends_its_samples),
        cmocka_unit_test(closing_a_node_ends_its_distributions),
        placed(a_node_has_256_distributions),
        placed(more_than_was_prepared_is_refused),
        placed(numbers_that_are_no_samples_are_refused),
        placed(a_worker_may_have_many_samples_open),
        placed(wrong_arguments_are_refused),
        placed(a_function_that_leaves_the_table_is_reported),
        placed(samples_allocate_nothing_once_warm),
        placed(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
