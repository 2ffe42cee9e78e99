/*
 * Tables that are sketches: what pushes, pulls and tern_top do at one node and at several, and what is refused.
 */
#include <pthread.h>

#include "support/check.h"

enum { N_NODES = 3, N_KEYS = 3000, N_EACH = 20000, AT_ONCE = 700, WANTED = 20 };

static struct tern_table_options sketch(enum tern_type type)
{
    struct tern_table_options options = shape(TERN_SKETCH, type, 0, 1);
    options.policy = "static";
    options.sketch = (struct tern_sketch){.epsilon = 0.001, .delta = 0.01, .counters = 500};
    return options;
}

/* The i-th key that a node counts: low numbers more often. */
static uint64_t draw(uint64_t node, uint64_t i)
{
    uint64_t x = (i * 3 + node + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 31;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return (x >> 33) % (1 + (x >> 11) % N_KEYS);
}

static uint64_t key_of(uint64_t number)
{
    return number % 2 ? number : number * UINT64_C(0x9e3779b97f4a7c15);
}

static bool count_all(struct tern_worker *worker, struct tern_table *table, uint64_t node)
{
    uint64_t keys[AT_ONCE];
    int64_t counts[AT_ONCE];
    for (uint64_t i = 0; i < N_EACH;) {
        size_t n = 0;
        for (; n < AT_ONCE && i < N_EACH; i++, n++) {
            keys[n] = key_of(draw(node, i));
            counts[n] = 1 + (int64_t)(i % 2) * 200; /* one byte on the wire, and two */
        }
        if (!holds(tern_push(worker, table, keys, n, counts) == TERN_OK))
            return false;
    }
    return true;
}

/* Compares all estimates and the heaviest keys with the truth. */
static void check_all(struct tern_worker *worker, struct tern_table *table, uint64_t n_nodes)
{
    int64_t *truth = calloc(N_KEYS, sizeof *truth), *found = calloc(N_KEYS, sizeof *found), sum = 0;
    uint64_t *keys = calloc(N_KEYS, sizeof *keys);
    for (uint64_t node = 0; node < n_nodes; node++)
        for (uint64_t i = 0; i < N_EACH; i++)
            truth[draw(node, i)] += 1 + (int64_t)(i % 2) * 200;
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = key_of(i);
    holds(tern_pull(worker, table, keys, N_KEYS, found) == TERN_OK);
    for (size_t i = 0; i < N_KEYS; i++)
        sum += truth[i];
    size_t n_far = 0, n = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        holds(found[i] >= truth[i]);
        n_far += (double)(found[i] - truth[i]) > 0.001 * (double)sum;
    }
    holds(n_far <= N_KEYS / 100);
    uint64_t heavy[WANTED];
    int64_t counts[WANTED], errors[WANTED], least = INT64_MAX;
    holds(tern_top(worker, table, WANTED, heavy, counts, errors, &n) == TERN_OK && n == WANTED);
    for (size_t i = 0; i < n; i++) {
        size_t number = 0;
        while (number < N_KEYS && keys[number] != heavy[i])
            number++;
        if (!holds(number < N_KEYS))
            break;
        holds(counts[i] >= truth[number] && counts[i] - errors[i] <= truth[number]);
        least = truth[number] < least ? truth[number] : least;
    }
    size_t n_heavier = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        n_heavier += truth[i] > least;
    holds(n_heavier < WANTED);
    free(truth);
    free(found);
    free(keys);
}

static void one_node_counts(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "t", sketch(TERN_I64));
    count_all(place->worker, table, 0);
    check_all(place->worker, table, 1);
    struct tern_worker *second; /* from now on nobody is alone */
    ok(tern_worker_open(place->node, &second));
    count_all(second, table, 1);
    check_all(place->worker, table, 2);
    ok(tern_worker_close(second));
    all_held();
}

static void *take_part(void *arg)
{
    const uint32_t index = *(uint32_t *)arg;
    const struct tern_node_options options = {
        .struct_size = sizeof options, .group = "sketch", .node = index, .n_nodes = N_NODES};
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table *table;
    const struct tern_table_options shape_of = sketch(TERN_I64);
    struct tern_table_options adaptive = shape_of;
    adaptive.policy = "adaptive";
    if (!holds(tern_node_open(&options, &node) == TERN_OK))
        return NULL;
    holds(tern_table_open(node, "wrong", &adaptive, &table) == TERN_INVALID &&
          strstr(tern_error(), "static"));
    holds(tern_worker_open(node, &worker) == TERN_OK);
    holds(tern_table_open(node, "t", &shape_of, &table) == TERN_OK);
    count_all(worker, table, index);
    holds(tern_barrier(node) == TERN_OK);
    check_all(worker, table, N_NODES);
    holds(tern_barrier(node) == TERN_OK);
    holds(tern_worker_close(worker) == TERN_OK);
    holds(tern_node_close(node) == TERN_OK);
    return NULL;
}

static void several_nodes_count_each_key_at_its_home(void **state)
{
    (void)state;
    pthread_t threads[N_NODES];
    uint32_t numbers[N_NODES];
    for (uint32_t i = 0; i < N_NODES; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, take_part, &numbers[i]), 0);
    }
    for (int i = 0; i < N_NODES; i++)
        pthread_join(threads[i], NULL);
    all_held();
}

/* The sum of two sketches of one shape estimates what both have counted, and a cell stops at the largest number. */
static void cells_are_read_and_added(void **state)
{
    enum { WIDTH = 50, DEPTH = 3, N = WIDTH * DEPTH };
    struct place *place = *state;
    struct tern_table_options options = sketch(TERN_I32);
    options.sketch = (struct tern_sketch){.width = WIDTH, .depth = DEPTH, .seed = 5};
    struct tern_table *a = table_of(place->node, "a", options),
                      *b = table_of(place->node, "b", options);
    const uint64_t keys[] = {3, UINT64_MAX};
    const int32_t more[] = {7, INT32_MAX};
    int64_t cells[N], sum = 0;
    int32_t found[2];
    ok(tern_push(place->worker, a, keys, 2, (int32_t[]){5, 1}));
    ok(tern_push(place->worker, b, keys, 2, more));
    ok(tern_sketch_read_cells(place->worker, a, 0, N, cells));
    for (size_t i = 0; i < N; i++)
        sum += cells[i];
    assert_int_equal(sum, DEPTH * 6);
    ok(tern_sketch_add_cells(place->worker, b, 0, 10, cells));
    ok(tern_sketch_add_cells(place->worker, b, 10, N - 10, cells + 10));
    ok(tern_pull(place->worker, b, keys, 2, found));
    assert_true(found[0] == 12 && found[1] == INT32_MAX);
    refused(tern_sketch_read_cells(place->worker, a, 1, N, cells), TERN_RANGE, "'a'", "150");
    refused(tern_sketch_add_cells(place->worker, a, UINT64_MAX, 2, cells), TERN_RANGE, "'a'");
    refused(tern_sketch_read_cells(place->worker, a, 0, 1, NULL), TERN_INVALID, "`cells`");
    cells[1] = -1;
    refused(tern_sketch_add_cells(place->worker, a, 4, 2, cells), TERN_INVALID, "cell 5",
            "negative");
    struct tern_table *rows = table_of(place->node, "rows", shape(TERN_SPARSE, TERN_I64, 0, 1));
    refused(tern_sketch_read_cells(place->worker, rows, 0, 1, cells), TERN_INVALID, "not a sketch");
    options.sketch.seed = 6;
    refused(tern_table_open(place->node, "a", &options, &a), TERN_MISMATCH, "another size");
}

static void what_a_sketch_cannot_do_gets_a_sentence(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "t", sketch(TERN_I32));
    const uint64_t keys[] = {1, 2};
    const int32_t negative[] = {1, -1};
    int32_t values[2];
    int64_t counts[2];
    bool present[2];
    void *rows[2];
    size_t n;
    refused(tern_push(place->worker, table, keys, 2, negative), TERN_INVALID, "key 2", "position 1",
            "negative");
    ok(tern_pull(place->worker, table, keys, 2, values));
    assert_true(values[0] == 0 && values[1] == 0);
    refused(tern_set(place->worker, table, keys, 2, values), TERN_INVALID, "'t'", "sketch");
    refused(tern_pin(place->worker, table, keys, 2, rows), TERN_INVALID, "sketch");
    refused(tern_pull_present(place->worker, table, keys, 2, values, present), TERN_INVALID,
            "sketch");
    refused(tern_pull_if_local(place->worker, table, keys, 2, values, NULL, NULL), TERN_INVALID,
            "sketch");
    refused(tern_pull_range(place->worker, table, 0, 9, 2, (uint64_t[2]){0}, values, &n),
            TERN_INVALID, "sketch");
    refused(tern_push_range(place->worker, table, 0, 9, 2, values), TERN_INVALID, "sketch");
    refused(tern_count(place->worker, table, keys, 2, NULL), TERN_INVALID, "admit");
    refused(tern_top(place->worker, table, 2, NULL, counts, NULL, &n), TERN_INVALID, "keys");
    refused(tern_top(place->worker, table, 2, (uint64_t[2]){0}, counts, NULL, NULL), TERN_INVALID,
            "`n`");
    ok(tern_top(place->worker, table, 2, (uint64_t[2]){0}, counts, NULL, &n));
    assert_int_equal(n, 0);
}

/* A sketch of these options is refused with a sentence that has the word. */
static void refuse(struct place *place, struct tern_table_options options, enum tern_status status,
                   const char *word)
{
    struct tern_table *table;
    refused(tern_table_open(place->node, "bad", &options, &table), status, "'bad'", word);
}

static void bad_options_get_a_sentence(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = sketch(TERN_I64);
    options.type = TERN_F32;
    refuse(place, options, TERN_INVALID, "i32");
    options = sketch(TERN_I64), options.length = 2;
    refuse(place, options, TERN_INVALID, "length 1");
    options = sketch(TERN_I64), options.n_keys = 2;
    refuse(place, options, TERN_INVALID, "n_keys");
    static const double wrong[] = {0, 1, -0.5, 2};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        options = sketch(TERN_I64), options.sketch.epsilon = wrong[i];
        refuse(place, options, TERN_INVALID, "epsilon");
        options = sketch(TERN_I64), options.sketch.delta = wrong[i];
        refuse(place, options, TERN_INVALID, "delta");
    }
    options = sketch(TERN_I64), options.sketch.width = 5;
    refuse(place, options, TERN_INVALID, "not both");
    options = sketch(TERN_I64), options.sketch.delta = 1e-9;
    refuse(place, options, TERN_LIMIT, "rows");
    options = sketch(TERN_I64), options.sketch.epsilon = 1e-13;
    refuse(place, options, TERN_LIMIT, "2^40");
    options = sketch(TERN_I64), options.memory_limit_bytes = 1000;
    refuse(place, options, TERN_NO_MEMORY, "smaller");
    options = sketch(TERN_I64), options.policy = "ssp:2";
    refuse(place, options, TERN_INVALID, "static");
    options = shape(TERN_SPARSE, TERN_I64, 0, 1), options.sketch.width = 5;
    refuse(place, options, TERN_INVALID, "TERN_SKETCH");
    options = sketch(TERN_I64);
    struct tern_table *table = table_of(place->node, "good", options);
    options.sketch.counters++;
    refused(tern_table_open(place->node, "good", &options, &table), TERN_MISMATCH, "another size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(one_node_counts),
        cmocka_unit_test(several_nodes_count_each_key_at_its_home),
        placed(cells_are_read_and_added),
        placed(what_a_sketch_cannot_do_gets_a_sentence),
        placed(bad_options_get_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
