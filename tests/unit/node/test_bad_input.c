/*
 * Everything a program can get wrong: each is a status with a sentence that names the culprit, and
 * leaves everything as it was.
 *
 * Most tests run on a scene of a dense and a sparse table. Its teardown checks that every value, every
 * row and every count is what it was, and that all can be closed.
 */
#include "support/check.h"

#include <math.h>
#include <pthread.h>

/* ---- The scene ------------------------------------------------------------------------------- */

enum { N_DENSE = 100, N_SPARSE = 50, LENGTH = 3 };

struct scene {
    struct place place;
    struct tern_table *weights; /* dense, 100 keys */
    struct tern_table *grams;   /* sparse, keys 0, 1000, 2000 ... */
    struct tern_table_stats stats[2];
};

static float dense_value(size_t i)
{
    return (float)i + 1;
}

static float sparse_value(size_t i)
{
    return -(float)i - 1;
}

static uint64_t dense_keys[N_DENSE];
static uint64_t sparse_keys[N_SPARSE];

static int scene_open(void **state)
{
    struct scene *scene = array_of(1, sizeof *scene);
    *state = scene;
    ok(tern_node_open(NULL, &scene->place.node));
    ok(tern_worker_open(scene->place.node, &scene->place.worker));
    scene->weights =
        table_of(scene->place.node, "weights", shape(TERN_DENSE, TERN_F32, N_DENSE, LENGTH));
    scene->grams = table_of(scene->place.node, "grams", shape(TERN_SPARSE, TERN_F32, 0, LENGTH));
    float values[N_DENSE * LENGTH];
    for (size_t i = 0; i < COUNT(values); i++) {
        dense_keys[i / LENGTH] = i / LENGTH;
        values[i] = dense_value(i);
    }
    ok(tern_set(scene->place.worker, scene->weights, dense_keys, N_DENSE, values));
    for (size_t i = 0; i < N_SPARSE * LENGTH; i++) {
        sparse_keys[i / LENGTH] = i / LENGTH * 1000;
        values[i] = sparse_value(i);
    }
    ok(tern_set(scene->place.worker, scene->grams, sparse_keys, N_SPARSE, values));
    scene->stats[0] = stats_of(scene->weights);
    scene->stats[1] = stats_of(scene->grams);
    return 0;
}

static void assert_same_stats(struct tern_table_stats now, struct tern_table_stats then)
{
    assert_int_equal(now.pulled_keys, then.pulled_keys);
    assert_int_equal(now.pushed_keys, then.pushed_keys);
    assert_int_equal(now.set_keys, then.set_keys);
    assert_int_equal(now.rows, then.rows);
    assert_int_equal(now.value_bytes, then.value_bytes);
    assert_int_equal(now.memory_bytes, then.memory_bytes);
}

static int scene_close(void **state)
{
    struct scene *scene = *state;
    struct tern_worker *worker = scene->place.worker;
    assert_same_stats(stats_of(scene->weights), scene->stats[0]);
    assert_same_stats(stats_of(scene->grams), scene->stats[1]);
    float values[(N_DENSE + 1) * LENGTH];
    ok(tern_pull(worker, scene->weights, dense_keys, N_DENSE, values));
    for (size_t i = 0; i < N_DENSE * LENGTH; i++)
        assert_true(values[i] == dense_value(i));
    uint64_t keys[N_SPARSE + 1];
    size_t n;
    ok(tern_pull_range(worker, scene->grams, 0, UINT64_MAX, N_SPARSE + 1, keys, values, &n));
    assert_int_equal(n, N_SPARSE);
    assert_memory_equal(keys, sparse_keys, sizeof sparse_keys);
    for (size_t i = 0; i < N_SPARSE * LENGTH; i++)
        assert_true(values[i] == sparse_value(i));
    ok(tern_table_close(scene->weights));
    ok(tern_table_close(scene->grams));
    ok(tern_worker_close(worker));
    ok(tern_node_close(scene->place.node));
    free(scene);
    return 0;
}

#define on_scene(test) cmocka_unit_test_setup_teardown(test, scene_open, scene_close)

/* ---- Every call, for what may be wrong with its handles --------------------------------------- */

typedef enum tern_status one_call(struct tern_worker *worker, struct tern_table *table);

static uint64_t some_keys[] = {1, 2};
static float some_values[2 * LENGTH];
static uint64_t some_ticket;

static enum tern_status call_pull(struct tern_worker *worker, struct tern_table *table)
{
    return tern_pull(worker, table, some_keys, 2, some_values);
}

static enum tern_status call_push(struct tern_worker *worker, struct tern_table *table)
{
    return tern_push(worker, table, some_keys, 2, some_values);
}

static enum tern_status call_set(struct tern_worker *worker, struct tern_table *table)
{
    return tern_set(worker, table, some_keys, 2, some_values);
}

static enum tern_status call_pull_start(struct tern_worker *worker, struct tern_table *table)
{
    return tern_pull_start(worker, table, some_keys, 2, some_values, &some_ticket);
}

static enum tern_status call_push_start(struct tern_worker *worker, struct tern_table *table)
{
    return tern_push_start(worker, table, some_keys, 2, some_values, &some_ticket);
}

static enum tern_status call_set_start(struct tern_worker *worker, struct tern_table *table)
{
    return tern_set_start(worker, table, some_keys, 2, some_values, &some_ticket);
}

static enum tern_status call_pull_range(struct tern_worker *worker, struct tern_table *table)
{
    size_t n;
    uint64_t keys[2];
    return tern_pull_range(worker, table, 1, 3, 2, keys, some_values, &n);
}

static enum tern_status call_push_range(struct tern_worker *worker, struct tern_table *table)
{
    return tern_push_range(worker, table, 1, 3, 2, some_values);
}

static enum tern_status call_pin(struct tern_worker *worker, struct tern_table *table)
{
    void *rows[2];
    return tern_pin(worker, table, some_keys, 2, rows);
}

static enum tern_status call_unpin(struct tern_worker *worker, struct tern_table *table)
{
    return tern_unpin(worker, table, some_keys, 2);
}

static enum tern_status call_test(struct tern_worker *worker, struct tern_table *table)
{
    (void)table;
    bool done;
    return tern_test(worker, 1, &done);
}

static enum tern_status call_wait(struct tern_worker *worker, struct tern_table *table)
{
    (void)table;
    return tern_wait(worker, 1);
}

static enum tern_status call_advance(struct tern_worker *worker, struct tern_table *table)
{
    (void)table;
    return tern_worker_advance(worker, NULL);
}

static enum tern_status call_clock(struct tern_worker *worker, struct tern_table *table)
{
    (void)table;
    uint64_t clock;
    return tern_worker_clock(worker, &clock);
}

static enum tern_status call_worker_close(struct tern_worker *worker, struct tern_table *table)
{
    (void)table;
    return tern_worker_close(worker);
}

static enum tern_status call_stats(struct tern_worker *worker, struct tern_table *table)
{
    (void)worker;
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    return tern_table_get_stats(table, &stats);
}

static enum tern_status call_table_close(struct tern_worker *worker, struct tern_table *table)
{
    (void)worker;
    return tern_table_close(table);
}

static one_call *const calls_on_both[] = {
    call_pull,      call_push,       call_set,        call_pull_start, call_push_start,
    call_set_start, call_pull_range, call_push_range, call_pin,        call_unpin,
};
static one_call *const calls_on_worker[] = {
    call_test, call_wait, call_advance, call_clock, call_worker_close,
};
static one_call *const calls_on_table[] = {call_stats, call_table_close};

/* Every call that takes a worker refuses this one; every call that takes a table, that one. */
static void refuse_worker(struct tern_worker *worker, struct tern_table *good,
                          enum tern_status status)
{
    for (size_t i = 0; i < COUNT(calls_on_both); i++)
        refused(calls_on_both[i](worker, good), status, "worker");
    for (size_t i = 0; i < COUNT(calls_on_worker); i++)
        refused(calls_on_worker[i](worker, good), status, "worker");
}

static void refuse_table(struct tern_worker *good, struct tern_table *table,
                         enum tern_status status)
{
    for (size_t i = 0; i < COUNT(calls_on_both); i++)
        refused(calls_on_both[i](good, table), status, "table");
    for (size_t i = 0; i < COUNT(calls_on_table); i++)
        refused(calls_on_table[i](good, table), status, "table");
}

static void refuse_node(struct tern_node *node, enum tern_status status)
{
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 1, 1);
    struct tern_table *table = NULL;
    struct tern_worker *worker = NULL;
    refused(tern_table_open(node, "new", &options, &table), status, "node");
    refused(tern_worker_open(node, &worker), status, "node");
    refused(tern_node_close(node), status, "node");
    assert_null(table);
    assert_null(worker);
}

static void a_null_handle_is_refused_by_every_call(void **state)
{
    struct scene *scene = *state;
    refuse_worker(NULL, scene->weights, TERN_INVALID);
    refuse_table(scene->place.worker, NULL, TERN_INVALID);
    refuse_node(NULL, TERN_INVALID);
}

static void a_closed_handle_is_refused_by_every_call(void **state)
{
    struct scene *scene = *state;
    struct tern_worker *worker;
    ok(tern_worker_open(scene->place.node, &worker));
    ok(tern_worker_close(worker));
    refuse_worker(worker, scene->weights, TERN_CLOSED);

    struct tern_table *table =
        table_of(scene->place.node, "gone", shape(TERN_DENSE, TERN_F32, 9, LENGTH));
    ok(tern_table_close(table));
    refuse_table(scene->place.worker, table, TERN_CLOSED);

    struct tern_node *node;
    ok(tern_node_open(NULL, &node));
    ok(tern_node_close(node));
    refuse_node(node, TERN_CLOSED);
}

static void closing_a_node_closes_its_tables(void **state)
{
    struct scene *scene = *state;
    struct tern_node *node;
    ok(tern_node_open(NULL, &node));
    struct tern_table *dense = table_of(node, "dense", shape(TERN_DENSE, TERN_F32, 9, LENGTH));
    struct tern_table *sparse = table_of(node, "sparse", shape(TERN_SPARSE, TERN_F32, 0, LENGTH));
    ok(tern_node_close(node));
    refuse_table(scene->place.worker, dense, TERN_CLOSED);
    refuse_table(scene->place.worker, sparse, TERN_CLOSED);
}

static void closed_handles_stay_known_while_many_more_are_closed(void **state)
{
    struct scene *scene = *state;
    struct tern_worker *worker;
    ok(tern_worker_open(scene->place.node, &worker));
    ok(tern_worker_close(worker));
    for (int i = 0; i < 999; i++) {
        struct tern_worker *more;
        ok(tern_worker_open(scene->place.node, &more));
        ok(tern_worker_close(more));
    }
    refuse_worker(worker, scene->weights, TERN_CLOSED);
}

static void a_handle_of_another_kind_is_refused_by_every_call(void **state)
{
    struct scene *scene = *state;
    struct place *place = &scene->place;
    refuse_worker((struct tern_worker *)scene->weights, scene->weights, TERN_INVALID);
    refuse_worker((struct tern_worker *)place->node, scene->weights, TERN_INVALID);
    refuse_table(place->worker, (struct tern_table *)place->worker, TERN_INVALID);
    refuse_table(place->worker, (struct tern_table *)place->node, TERN_INVALID);
    refuse_node((struct tern_node *)place->worker, TERN_INVALID);
    refuse_node((struct tern_node *)scene->weights, TERN_INVALID);
}

static void a_table_of_another_node_is_refused_by_every_call(void **state)
{
    struct scene *scene = *state;
    void *other_state;
    place_open(&other_state);
    struct place *other = other_state;
    struct tern_table *foreign =
        table_of(other->node, "foreign", shape(TERN_DENSE, TERN_F32, 9, LENGTH));
    for (size_t i = 0; i < COUNT(calls_on_both); i++) {
        refused(calls_on_both[i](scene->place.worker, foreign), TERN_MISMATCH, "foreign", "node");
        refused(calls_on_both[i](other->worker, scene->weights), TERN_MISMATCH, "weights", "node");
    }
    place_close(&other_state);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void a_null_array_or_result_is_refused(void **state)
{
    struct scene *scene = *state;
    struct tern_worker *worker = scene->place.worker;
    uint64_t ticket = 55;
    uint64_t keys[] = {1, 2};
    float values[2 * LENGTH] = {0};
    void *rows[2] = {NULL, NULL};
    size_t n = 66;
    uint64_t served = 0;
    struct tern_table *tables[] = {scene->weights, scene->grams};
    for (size_t t = 0; t < 2; t++) {
        struct tern_table *table = tables[t];
        refused(tern_pull(worker, table, NULL, 2, values), TERN_INVALID, "keys");
        refused(tern_pull(worker, table, keys, 2, NULL), TERN_INVALID, "values");
        refused(tern_push(worker, table, NULL, 2, values), TERN_INVALID, "keys");
        refused(tern_push(worker, table, keys, 2, NULL), TERN_INVALID, "updates");
        refused(tern_set(worker, table, NULL, 2, values), TERN_INVALID, "keys");
        refused(tern_set(worker, table, keys, 2, NULL), TERN_INVALID, "values");
        refused(tern_pull_start(worker, table, NULL, 2, values, &ticket), TERN_INVALID, "keys");
        refused(tern_pull_start(worker, table, keys, 2, NULL, &ticket), TERN_INVALID, "values");
        refused(tern_pull_start(worker, table, keys, 2, values, NULL), TERN_INVALID, "ticket");
        refused(tern_push_start(worker, table, NULL, 2, values, &ticket), TERN_INVALID, "keys");
        refused(tern_push_start(worker, table, keys, 2, NULL, &ticket), TERN_INVALID, "updates");
        refused(tern_push_start(worker, table, keys, 2, values, NULL), TERN_INVALID, "ticket");
        refused(tern_set_start(worker, table, NULL, 2, values, &ticket), TERN_INVALID, "keys");
        refused(tern_set_start(worker, table, keys, 2, NULL, &ticket), TERN_INVALID, "values");
        refused(tern_set_start(worker, table, keys, 2, values, NULL), TERN_INVALID, "ticket");
        refused(tern_pull_range(worker, table, 0, 9, 2, NULL, values, &n), TERN_INVALID, "keys");
        refused(tern_pull_range(worker, table, 0, 9, 2, keys, values, NULL), TERN_INVALID, "`n`");
        refused(tern_push_range(worker, table, 0, 2, 2, NULL), TERN_INVALID, "updates");
        refused(tern_pin(worker, table, NULL, 2, rows), TERN_INVALID, "keys");
        refused(tern_pin(worker, table, keys, 2, NULL), TERN_INVALID, "rows");
        refused(tern_unpin(worker, table, NULL, 2), TERN_INVALID, "keys");
        refused(tern_table_get_stats(table, NULL), TERN_INVALID, "stats");
        refused(tern_table_get_served(table, 0, NULL), TERN_INVALID, "bytes");
        refused(tern_table_get_served(table, 1, &served), TERN_RANGE, "no node 1");
    }
    refused(tern_test(worker, 1, NULL), TERN_INVALID, "done");
    refused(tern_worker_clock(worker, NULL), TERN_INVALID, "clock");
    refused(tern_worker_open(scene->place.node, NULL), TERN_INVALID, "worker");
    refused(tern_node_open(NULL, NULL), TERN_INVALID, "node");
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 1, 1);
    struct tern_table *table = NULL;
    refused(tern_table_open(scene->place.node, "new", &options, NULL), TERN_INVALID, "table");
    refused(tern_table_open(scene->place.node, "new", NULL, &table), TERN_INVALID, "options");
    assert_null(table);
    assert_null(rows[0]);
    assert_int_equal(ticket, 55);
    assert_int_equal(n, 66);
    assert_int_equal(keys[0], 1);
}

static void check_bad_key(struct scene *scene, uint64_t *keys, size_t n, const char *word)
{
    struct tern_worker *worker = scene->place.worker;
    struct tern_table *table = scene->weights;
    float *values = array_of(n * LENGTH, sizeof *values);
    void **rows = array_of(n, sizeof *rows);
    uint64_t ticket = 55;
    element_fill(TERN_F32, values, n * LENGTH, 1000);
    refused(tern_push(worker, table, keys, n, values), TERN_RANGE, "weights", word);
    refused(tern_set(worker, table, keys, n, values), TERN_RANGE, "weights", word);
    refused(tern_push_start(worker, table, keys, n, values, &ticket), TERN_RANGE, "weights", word);
    refused(tern_set_start(worker, table, keys, n, values, &ticket), TERN_RANGE, "weights", word);
    refused(tern_pin(worker, table, keys, n, rows), TERN_RANGE, "weights", word);
    refused(tern_unpin(worker, table, keys, n), TERN_RANGE, "weights", word);
    refused(tern_pull_start(worker, table, keys, n, values, &ticket), TERN_RANGE, "weights", word);
    refused(tern_pull(worker, table, keys, n, values), TERN_RANGE, "weights", word);
    assert_int_equal(ticket, 55);
    for (size_t i = 0; i < n; i++)
        assert_null(rows[i]);
    free(rows);
    free(values);
}

static void a_key_outside_a_dense_table_is_named_and_nothing_is_written(void **state)
{
    static const size_t sizes[] = {1, 5, 64, 3000};
    static const struct {
        uint64_t key;
        const char *word;
    } bad[] = {{N_DENSE, "key 100"},
               {UINT64_MAX, "18446744073709551615"},
               {UINT64_C(1) << 32, "4294967296"}};
    uint64_t keys[3000];
    for (size_t s = 0; s < COUNT(sizes); s++) {
        size_t n = sizes[s];
        size_t positions[] = {0, n / 2, n - 1};
        for (size_t b = 0; b < COUNT(bad); b++) {
            for (size_t p = 0; p < COUNT(positions); p++) {
                for (size_t i = 0; i < n; i++)
                    keys[i] = i % N_DENSE;
                keys[positions[p]] = bad[b].key;
                check_bad_key(*state, keys, n, bad[b].word);
            }
        }
    }
}

/* ---- Options of nodes and tables ------------------------------------------------------------- */

static void a_wrong_struct_size_is_refused(void **state)
{
    struct scene *scene = *state;
    const size_t node_size = sizeof(struct tern_node_options);
    const size_t node_sizes[] = {0, node_size - 1, 1 << 20, SIZE_MAX};
    for (size_t i = 0; i < COUNT(node_sizes); i++) {
        struct tern_node_options options = {.struct_size = node_sizes[i]};
        struct tern_node *node = NULL;
        refused(tern_node_open(&options, &node), TERN_INVALID, "struct_size");
        assert_null(node);
    }
    const size_t table_sizes[] = {0, sizeof(size_t), sizeof(struct tern_table_options) - 1, 1 << 20,
                                  SIZE_MAX};
    for (size_t i = 0; i < COUNT(table_sizes); i++) {
        struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 1, 1);
        options.struct_size = table_sizes[i];
        struct tern_table *table = NULL;
        refused(tern_table_open(scene->place.node, "new", &options, &table), TERN_INVALID, "new",
                "struct_size");
        assert_null(table);
    }
    const size_t stats_sizes[] = {0, sizeof(struct tern_table_stats) - 1, 1 << 20, SIZE_MAX};
    for (size_t i = 0; i < COUNT(stats_sizes); i++) {
        struct tern_table_stats stats = {.struct_size = stats_sizes[i], .rows = 123};
        refused(tern_table_get_stats(scene->weights, &stats), TERN_INVALID, "struct_size");
        assert_int_equal(stats.rows, 123);
    }
}

static void refuse_options(struct scene *scene, struct tern_table_options options,
                           enum tern_status status, const char *word)
{
    struct tern_table *table = NULL;
    refused(tern_table_open(scene->place.node, "wrong", &options, &table), status, "wrong", word);
    assert_null(table);
}

static void a_shape_that_makes_no_sense_is_refused(void **state)
{
    struct scene *scene = *state;
    struct tern_table_options good = shape(TERN_DENSE, TERN_F32, 10, 4);
    struct tern_table_options options = good;
    options.length = 0;
    refuse_options(scene, options, TERN_INVALID, "length");
    options = good;
    options.n_keys = 0;
    refuse_options(scene, options, TERN_INVALID, "n_keys");
    options = good;
    options.index = TERN_SPARSE;
    refuse_options(scene, options, TERN_INVALID, "n_keys");
    options = good;
    options.index = (enum tern_index)7;
    refuse_options(scene, options, TERN_INVALID, "index");
    options = good;
    options.type = (enum tern_type)77;
    refuse_options(scene, options, TERN_INVALID, "type");
    options = good;
    options.policy = "essp";
    refuse_options(scene, options, TERN_INVALID, "'essp' needs a number");
    options.policy = "bsp:1";
    refuse_options(scene, options, TERN_INVALID, "no policy 'bsp:1'");
}

static void a_limit_of_the_header_is_named(void **state)
{
    struct scene *scene = *state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, TERN_MAX_DENSE_KEYS + 1, 1);
    refuse_options(scene, options, TERN_LIMIT, "1099511627777");
    options.n_keys = UINT64_MAX;
    refuse_options(scene, options, TERN_LIMIT, "18446744073709551615");

    options = shape(TERN_SPARSE, TERN_F32, 0, TERN_MAX_VALUE_BYTES / 4 + 1);
    refuse_options(scene, options, TERN_LIMIT, "4194305");
    options.length = UINT32_MAX;
    refuse_options(scene, options, TERN_LIMIT, "4294967295");
    /* With its state, not without. */
    options.length = TERN_MAX_VALUE_BYTES / 8 + 1;
    options.updater = tern_updater_adagrad(0.1, 1e-6);
    refuse_options(scene, options, TERN_LIMIT, "2097153");

    struct tern_table *table;
    uint64_t key = 3;
    options = shape(TERN_SPARSE, TERN_F32, 0, TERN_MAX_VALUE_BYTES / 4);
    ok(tern_table_open(scene->place.node, "largest", &options, &table));
    float *value = array_of(options.length, sizeof *value);
    value[options.length - 1] = 2;
    ok(tern_push(scene->place.worker, table, &key, 1, value));
    value[options.length - 1] = 0;
    ok(tern_pull(scene->place.worker, table, &key, 1, value));
    assert_true(value[options.length - 1] == 2);
    free(value);
    ok(tern_table_close(table));
}

static void a_table_too_large_for_memory_is_refused_with_its_size(void **state)
{
    struct scene *scene = *state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F64, UINT64_C(1) << 39, 1024);
    refuse_options(scene, options, TERN_NO_MEMORY, "GB");
    options.n_keys = TERN_MAX_DENSE_KEYS;
    options.length = TERN_MAX_VALUE_BYTES / 8; /* 2^64 bytes */
    refuse_options(scene, options, TERN_NO_MEMORY, "GB");
    options = shape(TERN_DENSE, TERN_F32, 1000, 1000);
    options.memory_limit_bytes = 1000000;
    refuse_options(scene, options, TERN_NO_MEMORY, "needs 4.0 MB, but its limit is 1.0 MB");
}

static void a_name_that_cannot_be_is_refused(void **state)
{
    struct scene *scene = *state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 1, 1);
    struct tern_table *table = NULL;
    char name[TERN_MAX_NAME + 2];
    memset(name, 'n', sizeof name);
    name[TERN_MAX_NAME + 1] = 0;
    refused(tern_table_open(scene->place.node, NULL, &options, &table), TERN_INVALID, "name");
    refused(tern_table_open(scene->place.node, "", &options, &table), TERN_INVALID, "name");
    refused(tern_table_open(scene->place.node, name, &options, &table), TERN_LIMIT, "nnnnnnnn",
            "63");
    assert_null(table);
    name[TERN_MAX_NAME] = 0;
    ok(tern_table_open(scene->place.node, name, &options, &table));
    ok(tern_table_close(table));
}

static void an_initialiser_that_makes_no_sense_is_refused(void **state)
{
    struct scene *scene = *state;
    static const struct {
        enum tern_type type;
        struct tern_init init;
    } bad[] = {
        {TERN_F32, {.kind = (enum tern_init_kind)9}},
        {TERN_F32, {.kind = TERN_INIT_FUNCTION}},
        {TERN_F32, {.kind = TERN_INIT_CONSTANT, .a = (double)NAN}},
        {TERN_F32, {.kind = TERN_INIT_CONSTANT, .a = (double)INFINITY}},
        {TERN_F64, {.kind = TERN_INIT_UNIFORM, .a = 0, .b = (double)NAN}},
        {TERN_F64, {.kind = TERN_INIT_UNIFORM, .a = 1, .b = 1}},
        {TERN_F64, {.kind = TERN_INIT_UNIFORM, .a = 2, .b = 1}},
        {TERN_F64, {.kind = TERN_INIT_NORMAL, .a = 0, .b = -1}},
        {TERN_F64, {.kind = TERN_INIT_NORMAL, .a = -(double)INFINITY, .b = 1}},
        {TERN_I32, {.kind = TERN_INIT_NORMAL, .a = 0, .b = 1}},
        {TERN_I64, {.kind = TERN_INIT_NORMAL, .a = 0, .b = 1}},
        {TERN_I32, {.kind = TERN_INIT_UNIFORM, .a = 3, .b = 3}},
        {TERN_I32, {.kind = TERN_INIT_CONSTANT, .a = 1e10}},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct tern_table_options options = shape(TERN_DENSE, bad[i].type, 10, 4);
        options.init = bad[i].init;
        refuse_options(scene, options, TERN_INVALID, "init");
    }
}

static void nothing_apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                          void *value, void *state, const void *update)
{
    (void)updater;
    (void)type;
    (void)length;
    (void)value;
    (void)state;
    (void)update;
}

static const char *refuse_to_serve(const struct tern_updater *updater, enum tern_type type)
{
    (void)updater;
    return type == TERN_F64 ? "f64 is too good for it" : NULL;
}

static void an_updater_that_makes_no_sense_is_refused(void **state)
{
    struct scene *scene = *state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F64, 10, 4);
    options.updater =
        (struct tern_updater){.name = "12345678901234567890123456789012", .apply = nothing_apply};
    refuse_options(scene, options, TERN_INVALID, "updater");
    options.updater = (struct tern_updater){.name = "", .apply = nothing_apply};
    refuse_options(scene, options, TERN_INVALID, "updater");
    options.updater = (struct tern_updater){.apply = nothing_apply};
    refuse_options(scene, options, TERN_INVALID, "updater");
    options.updater = (struct tern_updater){.name = "hollow"};
    refuse_options(scene, options, TERN_INVALID, "hollow");
    options.updater =
        (struct tern_updater){.name = "own", .apply = nothing_apply, .check = refuse_to_serve};
    refuse_options(scene, options, TERN_INVALID, "f64 is too good for it");
    options.updater = (struct tern_updater){
        .name = "own", .apply = nothing_apply, .state_per_element = UINT32_MAX};
    refuse_options(scene, options, TERN_LIMIT, "state");
    options.updater =
        (struct tern_updater){.name = "own", .apply = nothing_apply, .state_per_row = UINT32_MAX};
    refuse_options(scene, options, TERN_LIMIT, "state");
}

static void reopening_a_table_with_other_options_names_the_difference(void **state)
{
    struct scene *scene = *state;
    struct tern_table_options good = shape(TERN_DENSE, TERN_F32, 10, 4);
    good.init = (struct tern_init){.kind = TERN_INIT_UNIFORM, .seed = 1, .a = 0, .b = 1};
    good.updater = tern_updater_momentum(0.1, 0.9);
    struct tern_table *table = table_of(scene->place.node, "model", good);

    struct {
        struct tern_table_options options;
        const char *word;
    } other[10];
    for (size_t i = 0; i < COUNT(other); i++)
        other[i].options = good;
    size_t n = 0;
    other[n].options.length = 5;
    other[n++].word = "length";
    other[n].options.n_keys = 11;
    other[n++].word = "n_keys";
    other[n].options.type = TERN_F64;
    other[n++].word = "type";
    other[n].options.n_keys = 0;
    other[n].options.index = TERN_SPARSE;
    other[n++].word = "index";
    other[n].options.init.seed = 2;
    other[n++].word = "init";
    other[n].options.init.kind = TERN_INIT_NORMAL;
    other[n++].word = "init";
    other[n].options.updater = tern_updater_sgd(0.1);
    other[n++].word = "updater";
    other[n].options.updater = tern_updater_momentum(0.1, 0.8);
    other[n++].word = "updater";
    other[n].options.updater = (struct tern_updater){0};
    other[n++].word = "updater";
    other[n].options.memory_limit_bytes = 1 << 30;
    other[n++].word = "memory_limit_bytes";
    assert_int_equal(n, COUNT(other));
    for (size_t i = 0; i < n; i++) {
        struct tern_table *again = NULL;
        refused(tern_table_open(scene->place.node, "model", &other[i].options, &again),
                TERN_MISMATCH, "model", other[i].word);
        assert_null(again);
    }
    ok(tern_table_close(table));
    refused(tern_table_close(table), TERN_CLOSED, "table"); /* failed openings do not count */
}

static void a_node_has_a_limited_number_of_tables(void **state)
{
    (void)state;
    struct tern_node *node;
    struct tern_table *tables[TERN_MAX_TABLES];
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, 1);
    ok(tern_node_open(NULL, &node));
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%zu", i);
        tables[i] = table_of(node, name, options);
    }
    struct tern_table *more = NULL;
    refused(tern_table_open(node, "one more", &options, &more), TERN_LIMIT, "one more", "256");
    assert_null(more);
    ok(tern_table_open(node, "t17", &options, &more)); /* again, so not one more */
    ok(tern_table_close(more));
    ok(tern_table_close(tables[17]));
    ok(tern_table_open(node, "one more", &options, &more));
    ok(tern_node_close(node));
}

/* ---- Closing what is in use ------------------------------------------------------------------ */

static void a_node_with_open_workers_stays_open(void **state)
{
    struct scene *scene = *state;
    refused(tern_node_close(scene->place.node), TERN_BUSY, "worker");
    struct tern_worker *worker;
    ok(tern_worker_open(scene->place.node, &worker));
    refused(tern_node_close(scene->place.node), TERN_BUSY, "2", "worker");
    ok(tern_worker_close(worker));
}

/* ---- Sentences ------------------------------------------------------------------------------- */

static void *fail_elsewhere(void *argument)
{
    (void)argument;
    holds(strcmp(tern_error(), "") == 0);
    holds(tern_worker_close(NULL) == TERN_INVALID);
    holds(strstr(tern_error(), "worker") != NULL);
    return NULL;
}

static void each_thread_has_its_own_sentence(void **state)
{
    struct scene *scene = *state;
    uint64_t key = 123456;
    float value[LENGTH];
    assert_int_equal(tern_pull(scene->place.worker, scene->weights, &key, 1, value), TERN_RANGE);
    char before[1024];
    snprintf(before, sizeof before, "%s", tern_error());
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    all_held();
    assert_string_equal(tern_error(), before);
    assert_non_null(strstr(before, "123456"));
    uint64_t clock;
    ok(tern_worker_clock(scene->place.worker, &clock)); /* success leaves it alone */
    assert_string_equal(tern_error(), before);
}

static void every_status_and_version_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(tern_status_name(TERN_OK), "TERN_OK");
    assert_string_equal(tern_status_name(TERN_RANGE), "TERN_RANGE");
    assert_string_equal(tern_status_name(TERN_CONFLICT), "TERN_CONFLICT");
    assert_non_null(tern_status_name((enum tern_status)999));
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", TERN_VERSION_MAJOR, TERN_VERSION_MINOR,
             TERN_VERSION_PATCH);
    assert_string_equal(tern_version(), version);
    static const char *const kernels[] = {"scalar", "avx2", "avx512", "neon"};
    size_t n_equal = 0;
    for (size_t i = 0; i < COUNT(kernels); i++)
        n_equal += strcmp(tern_kernel_name(), kernels[i]) == 0;
    assert_int_equal(n_equal, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_scene(a_null_handle_is_refused_by_every_call),
        on_scene(a_closed_handle_is_refused_by_every_call),
        on_scene(closing_a_node_closes_its_tables),
        on_scene(closed_handles_stay_known_while_many_more_are_closed),
        on_scene(a_handle_of_another_kind_is_refused_by_every_call),
        on_scene(a_table_of_another_node_is_refused_by_every_call),
        on_scene(a_null_array_or_result_is_refused),
        on_scene(a_key_outside_a_dense_table_is_named_and_nothing_is_written),
        on_scene(a_wrong_struct_size_is_refused),
        on_scene(a_shape_that_makes_no_sense_is_refused),
        on_scene(a_limit_of_the_header_is_named),
        on_scene(a_table_too_large_for_memory_is_refused_with_its_size),
        on_scene(a_name_that_cannot_be_is_refused),
        on_scene(an_initialiser_that_makes_no_sense_is_refused),
        on_scene(an_updater_that_makes_no_sense_is_refused),
        on_scene(reopening_a_table_with_other_options_names_the_difference),
        cmocka_unit_test(a_node_has_a_limited_number_of_tables),
        on_scene(a_node_with_open_workers_stays_open),
        on_scene(each_thread_has_its_own_sentence),
        cmocka_unit_test(every_status_and_version_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
