/*
 * What pull, push and set do, seen by one worker: against a plain array that does the same, for every
 * index, type and a spread of lengths; the forms that finish later; the clock; the statistics.
 */
#include "support/check.h"

static const uint32_t lengths[] = {1, 2, 3, 7, 8, 32, 100, 513};
static const size_t batches[] = {0, 1, 1, 2, 3, 5, 17, 64, 100, 300, 1000, 3000};

#ifdef UNDER_TSAN
enum { N_OPERATIONS = 12 };
#else
enum { N_OPERATIONS = 60 };
#endif
enum { N_KEYS = 64, MAX_BATCH = 3000 };

/* ---- The model ------------------------------------------------------------------------------- */

/* A table, and what must be in it. Values are quarters of small integers for floating types, so that
 * sums are exact in any order. */
struct model {
    struct tern_worker *worker;
    struct tern_table *table;
    enum tern_type type;
    uint32_t length;
    uint64_t keys[N_KEYS];
    double *values;
    struct dice dice;
    /* One batch. */
    size_t n;
    size_t picks[MAX_BATCH];
    uint64_t batch_keys[MAX_BATCH];
    void *batch_values;
};

/* Ends of the key space, keys that differ only in high bits, neighbours, and scattered ones. */
static void choose_sparse_keys(uint64_t *keys)
{
    static const uint64_t special[] = {0, 1, UINT64_MAX, UINT64_MAX - 1};
    size_t n = 0;
    for (size_t i = 0; i < COUNT(special); i++)
        keys[n++] = special[i];
    for (unsigned bit = 40; bit < 64; bit++)
        keys[n++] = (UINT64_C(1) << bit) | 5;
    for (uint64_t i = 0; i < 12; i++)
        keys[n++] = 1000 + i;
    for (uint64_t i = 0; n < N_KEYS; i++)
        keys[n++] = scattered(i);
}

static void choose_batch(struct model *m)
{
    m->n = batches[dice_below(&m->dice, COUNT(batches))];
    for (size_t i = 0; i < m->n; i++) {
        m->picks[i] = dice_below(&m->dice, N_KEYS);
        m->batch_keys[i] = m->keys[m->picks[i]];
    }
}

static double element_of_model(struct model *m)
{
    double small = (double)dice_below(&m->dice, 33) - 16;
    return m->type == TERN_F32 || m->type == TERN_F64 ? small / 4 : small;
}

static void pull_and_compare(struct model *m)
{
    size_t length = m->length;
    memset(m->batch_values, 0xa5, m->n * length * element_size(m->type));
    ok(tern_pull(m->worker, m->table, m->batch_keys, m->n, m->batch_values));
    for (size_t i = 0; i < m->n; i++) {
        for (size_t j = 0; j < length; j++) {
            double got = element_get(m->type, m->batch_values, i * length + j);
            double wanted = m->values[m->picks[i] * length + j];
            if (got != wanted)
                fail_msg("%s, length %zu, key %llu, element %zu: %g, not %g", type_name(m->type),
                         length, (unsigned long long)m->batch_keys[i], j, got, wanted);
        }
    }
}

static void push_batch(struct model *m)
{
    size_t length = m->length;
    for (size_t i = 0; i < m->n; i++) {
        for (size_t j = 0; j < length; j++) {
            double x = element_of_model(m);
            element_put(m->type, m->batch_values, i * length + j, x);
            m->values[m->picks[i] * length + j] += x;
        }
    }
    ok(tern_push(m->worker, m->table, m->batch_keys, m->n, m->batch_values));
}

static void set_batch(struct model *m)
{
    size_t length = m->length;
    for (size_t i = 0; i < m->n; i++) {
        for (size_t j = 0; j < length; j++) {
            double x = element_of_model(m);
            element_put(m->type, m->batch_values, i * length + j, x);
            m->values[m->picks[i] * length + j] = x;
        }
    }
    ok(tern_set(m->worker, m->table, m->batch_keys, m->n, m->batch_values));
}

static void pull_everything(struct model *m)
{
    m->n = N_KEYS;
    for (size_t i = 0; i < N_KEYS; i++) {
        m->picks[i] = i;
        m->batch_keys[i] = m->keys[i];
    }
    pull_and_compare(m);
}

static void follow_the_model(struct place *place, enum tern_index index, enum tern_type type,
                             uint32_t length)
{
    struct model *m = array_of(1, sizeof *m);
    *m = (struct model){.worker = place->worker, .type = type, .length = length};
    m->dice.state = 1000 * (uint64_t)index + 100 * (uint64_t)type + length;
    m->values = array_of((size_t)N_KEYS * length, sizeof *m->values);
    m->batch_values = array_of((size_t)MAX_BATCH * length, element_size(type));

    /* Every second shape starts from a value other than zero. */
    struct tern_table_options options = shape(index, type, N_KEYS, length);
    if (length % 2 == 1) {
        options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 3};
        for (size_t i = 0; i < (size_t)N_KEYS * length; i++)
            m->values[i] = 3;
    }
    m->table = table_of(place->node, "model", options);
    for (uint64_t i = 0; i < N_KEYS; i++)
        m->keys[i] = i;
    if (index == TERN_SPARSE)
        choose_sparse_keys(m->keys);

    for (int i = 0; i < N_OPERATIONS; i++) {
        choose_batch(m);
        switch (dice_below(&m->dice, 5)) {
        case 0:
            set_batch(m);
            break;
        case 1:
        case 2:
            push_batch(m);
            break;
        default:
            pull_and_compare(m);
        }
    }
    pull_everything(m);
    ok(tern_table_close(m->table));
    free(m->batch_values);
    free(m->values);
    free(m);
}

#define MODEL_TEST(name, index, type)                          \
    static void name(void **state)                             \
    {                                                          \
        for (size_t i = 0; i < COUNT(lengths); i++)            \
            follow_the_model(*state, index, type, lengths[i]); \
    }

MODEL_TEST(dense_f32_behaves_as_an_array, TERN_DENSE, TERN_F32)
MODEL_TEST(dense_f64_behaves_as_an_array, TERN_DENSE, TERN_F64)
MODEL_TEST(dense_i32_behaves_as_an_array, TERN_DENSE, TERN_I32)
MODEL_TEST(dense_i64_behaves_as_an_array, TERN_DENSE, TERN_I64)
MODEL_TEST(sparse_f32_behaves_as_a_map, TERN_SPARSE, TERN_F32)
MODEL_TEST(sparse_f64_behaves_as_a_map, TERN_SPARSE, TERN_F64)
MODEL_TEST(sparse_i32_behaves_as_a_map, TERN_SPARSE, TERN_I32)
MODEL_TEST(sparse_i64_behaves_as_a_map, TERN_SPARSE, TERN_I64)

/* ---- Particular promises --------------------------------------------------------------------- */

static void each_duplicate_in_a_call_counts(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "twice", shape((enum tern_index)index, TERN_I64, 10, 2));
        uint64_t keys[] = {7, 3, 7, 7, 3};
        int64_t updates[] = {1, 10, 2, 20, 4, 40, 8, 80, 16, 160};
        int64_t values[10];
        ok(tern_push(place->worker, table, keys, 5, updates));
        ok(tern_pull(place->worker, table, keys, 5, values));
        const int64_t after_push[] = {13, 130, 18, 180, 13, 130, 13, 130, 18, 180};
        assert_memory_equal(values, after_push, sizeof values);

        ok(tern_set(place->worker, table, keys, 5, updates));
        ok(tern_pull(place->worker, table, keys, 5, values));
        const int64_t after_set[] = {8, 80, 16, 160, 8, 80, 8, 80, 16, 160};
        assert_memory_equal(values, after_set, sizeof values);
        ok(tern_table_close(table));
    }
}

static void a_call_with_no_keys_does_nothing(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "none", shape((enum tern_index)index, TERN_F32, 4, 1));
        uint64_t key = 99; /* not even in the key space of the dense table */
        float value = 5;
        void *row = NULL;
        uint64_t ticket;
        ok(tern_pull(place->worker, table, &key, 0, &value));
        ok(tern_push(place->worker, table, &key, 0, &value));
        ok(tern_set(place->worker, table, &key, 0, &value));
        ok(tern_pin(place->worker, table, &key, 0, &row));
        ok(tern_unpin(place->worker, table, &key, 0));
        ok(tern_pull_start(place->worker, table, &key, 0, &value, &ticket));
        ok(tern_wait(place->worker, ticket));
        assert_true(value == 5);
        assert_null(row);
        struct tern_table_stats stats = stats_of(table);
        assert_int_equal(stats.pulled_keys + stats.pushed_keys + stats.set_keys + stats.pinned_keys,
                         0);
        ok(tern_table_close(table));
    }
}

/* Pushes `x` to every element of a row that holds `from`; it must then hold `to`. */
static void check_wrap(struct place *place, struct tern_table *table, enum tern_type type,
                       size_t length, int64_t from, int64_t x, int64_t to)
{
    uint64_t key = 0;
    int64_t values64[37] = {0};
    int32_t values32[37] = {0};
    void *values = type == TERN_I64 ? (void *)values64 : (void *)values32;
    for (size_t i = 0; i < length; i++) {
        values64[i] = from;
        values32[i] = (int32_t)from;
    }
    ok(tern_set(place->worker, table, &key, 1, values));
    element_fill(type, values, length, (double)x);
    ok(tern_push(place->worker, table, &key, 1, values));
    ok(tern_pull(place->worker, table, &key, 1, values));
    for (size_t i = 0; i < length; i++)
        assert_true((type == TERN_I64 ? values64[i] : values32[i]) == to);
}

static void integers_wrap_around(void **state)
{
    struct place *place = *state;
    static const uint32_t wrapped_lengths[] = {1, 2, 37};
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        for (size_t l = 0; l < COUNT(wrapped_lengths); l++) {
            uint32_t length = wrapped_lengths[l];
            struct tern_table *narrow =
                table_of(place->node, "i32", shape((enum tern_index)index, TERN_I32, 1, length));
            struct tern_table *wide =
                table_of(place->node, "i64", shape((enum tern_index)index, TERN_I64, 1, length));
            check_wrap(place, narrow, TERN_I32, length, INT32_MAX, 1, INT32_MIN);
            check_wrap(place, narrow, TERN_I32, length, INT32_MIN, -1, INT32_MAX);
            check_wrap(place, wide, TERN_I64, length, INT64_MAX, 1, INT64_MIN);
            check_wrap(place, wide, TERN_I64, length, INT64_MIN, -1, INT64_MAX);
            ok(tern_table_close(narrow));
            ok(tern_table_close(wide));
        }
    }
}

static void what_was_set_comes_back_bit_for_bit(void **state)
{
    struct place *place = *state;
    struct dice dice = {17};
    for (int type = TERN_F32; type <= TERN_I64; type++) {
        size_t bytes = 100 * element_size((enum tern_type)type);
        struct tern_table *table =
            table_of(place->node, "bits", shape(TERN_SPARSE, (enum tern_type)type, 0, 100));
        uint64_t sent[100]; /* any bits: NaNs with payloads, infinities, denormals, minus zero */
        uint64_t got[100];
        for (size_t i = 0; i < 100; i++)
            sent[i] = dice_roll(&dice) | (i % 3 == 0 ? UINT64_C(0x7ff000007f800000) : 0);
        uint64_t key = 12;
        ok(tern_set(place->worker, table, &key, 1, sent));
        ok(tern_pull(place->worker, table, &key, 1, got));
        assert_memory_equal(sent, got, bytes);
        ok(tern_table_close(table));
    }
}

static void values_outside_the_batch_are_not_touched(void **state)
{
    struct place *place = *state;
    for (size_t l = 0; l < COUNT(lengths); l++) {
        size_t length = lengths[l];
        struct tern_table *table =
            table_of(place->node, "edges", shape(TERN_DENSE, TERN_F32, 3, lengths[l]));
        float *values = array_of(5 * length, sizeof *values);
        element_fill(TERN_F32, values, 5 * length, 1);
        uint64_t keys[] = {0, 1, 2};
        uint64_t middle = 1;
        ok(tern_push(place->worker, table, &middle, 1, values));
        element_fill(TERN_F32, values, 5 * length, -9);
        ok(tern_pull(place->worker, table, keys, 3, values + length));
        for (size_t i = 0; i < 5 * length; i++) {
            static const float wanted[] = {-9, 0, 1, 0, -9};
            assert_true(values[i] == wanted[i / length]);
        }
        free(values);
        ok(tern_table_close(table));
    }
}

static void unaligned_arrays_are_fine(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "odd", shape(TERN_DENSE, TERN_F32, 4, 33));
    float values[33 * 4 + 1];
    uint64_t keys[] = {3, 1, 2};
    for (size_t i = 0; i < COUNT(values); i++)
        values[i] = (float)i;
    ok(tern_push(place->worker, table, keys, 3, values + 1));
    memset(values, 0, sizeof values);
    ok(tern_pull(place->worker, table, keys, 3, values + 1));
    for (size_t i = 1; i <= 99; i++)
        assert_true(values[i] == (float)i);
    ok(tern_table_close(table));
}

static void reading_a_missing_key_of_initial_value_zero_creates_nothing(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "bare", shape(TERN_SPARSE, TERN_F32, 0, 4));
    uint64_t keys[500];
    float values[500 * 4];
    for (uint64_t i = 0; i < 500; i++)
        keys[i] = scattered(i);
    memset(values, 0xff, sizeof values);
    ok(tern_pull(place->worker, table, keys, 500, values));
    for (size_t i = 0; i < COUNT(values); i++)
        assert_true(values[i] == 0);
    assert_int_equal(stats_of(table).rows, 0);
    ok(tern_table_close(table));
}

static void reading_a_missing_key_of_another_initial_value_creates_it(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, 4);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = -2};
    struct tern_table *table = table_of(place->node, "born", options);
    uint64_t keys[500];
    float values[500 * 4];
    for (uint64_t i = 0; i < 500; i++)
        keys[i] = scattered(i / 2); /* each twice */
    ok(tern_pull(place->worker, table, keys, 500, values));
    for (size_t i = 0; i < COUNT(values); i++)
        assert_true(values[i] == -2);
    assert_int_equal(stats_of(table).rows, 250);
    ok(tern_table_close(table));
}

static void a_sparse_table_grows_without_losing_keys(void **state)
{
    enum { N = 200000 };
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "grown", shape(TERN_SPARSE, TERN_I64, 0, 1));
    uint64_t *keys = array_of(N, sizeof *keys);
    int64_t *values = array_of(N, sizeof *values);
    for (uint64_t i = 0; i < N; i++) {
        /* Blocks of neighbours, keys that share their low bits, and scattered keys. */
        uint64_t pattern[] = {i, i << 40, scattered(i)};
        keys[i] = pattern[i % 3];
        values[i] = (int64_t)i;
    }
    for (size_t done = 0, n = 1; done < N; done += n, n = n * 2 + 1) {
        if (n > N - done)
            n = N - done;
        ok(tern_push(place->worker, table, keys + done, n, values + done));
    }
    memset(values, 0, N * sizeof *values);
    ok(tern_pull(place->worker, table, keys, N, values));
    for (int64_t i = 0; i < N; i++)
        assert_true(values[i] == i);
    assert_int_equal(stats_of(table).rows, N);
    free(values);
    free(keys);
    ok(tern_table_close(table));
}

static void a_pinned_row_stays_in_place_while_the_table_grows(void **state)
{
    enum { N_PINNED = 100, N = 50000, MAX_LENGTH = 8 };
    struct place *place = *state;
    static const uint32_t pinned_lengths[] = {1, 2, MAX_LENGTH};
    for (int type = TERN_F32; type <= TERN_I64; type++) {
        for (size_t l = 0; l < COUNT(pinned_lengths); l++) {
            uint32_t length = pinned_lengths[l];
            struct tern_table_options options = shape(TERN_SPARSE, (enum tern_type)type, 0, length);
            struct tern_table *table = table_of(place->node, "held", options);
            uint64_t keys[N_PINNED];
            void *rows[N_PINNED];
            double ones[N_PINNED * MAX_LENGTH];
            element_fill((enum tern_type)type, ones, COUNT(ones), 1);
            for (uint64_t i = 0; i < N_PINNED; i++)
                keys[i] = scattered(i);
            /* Half of them exist before they are pinned. */
            ok(tern_push(place->worker, table, keys, N_PINNED / 2, ones));
            ok(tern_pin(place->worker, table, keys, N_PINNED, rows));
            for (uint64_t i = N_PINNED; i < N; i++) {
                uint64_t key = scattered(i);
                ok(tern_push(place->worker, table, &key, 1, ones));
            }
            for (size_t i = 0; i < N_PINNED; i++) {
                double was = element_get((enum tern_type)type, rows[i], length - 1);
                assert_true(was == (i < N_PINNED / 2 ? 1 : 0));
                element_put((enum tern_type)type, rows[i], length - 1, (double)i);
            }
            /* Pushes and pulls reach the same memory, pinned or not. */
            ok(tern_push(place->worker, table, keys, N_PINNED, ones));
            for (size_t i = 0; i < N_PINNED; i++)
                assert_true(element_get((enum tern_type)type, rows[i], length - 1) ==
                            (double)i + 1);
            ok(tern_unpin(place->worker, table, keys, N_PINNED));
            ok(tern_push(place->worker, table, keys, N_PINNED, ones));
            ok(tern_pull(place->worker, table, keys, N_PINNED, ones));
            for (size_t i = 0; i < N_PINNED; i++)
                assert_true(element_get((enum tern_type)type, ones, (i + 1) * length - 1) ==
                            (double)i + 2);
            ok(tern_table_close(table));
        }
    }
}

static void a_table_opened_twice_is_one_table(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, 2);
    struct tern_table *first = table_of(place->node, "shared", options);
    struct tern_table *second = table_of(place->node, "shared", options);
    uint64_t key = 4;
    float value[2] = {1, 2};
    ok(tern_push(place->worker, first, &key, 1, value));
    ok(tern_push(place->worker, second, &key, 1, value));
    ok(tern_table_close(first));
    ok(tern_pull(place->worker, second, &key, 1, value));
    assert_true(value[0] == 2 && value[1] == 4);
    ok(tern_table_close(second));

    /* The last close ended it: the name is free for another shape, with nothing in it. */
    options.length = 1;
    first = table_of(place->node, "shared", options);
    ok(tern_pull(place->worker, first, &key, 1, value));
    assert_true(value[0] == 0);
    ok(tern_table_close(first));
}

static void names_and_options_are_copied(void **state)
{
    struct place *place = *state;
    char name[] = "copied";
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 3, 1);
    options.updater = tern_updater_sgd(0.5);
    struct tern_table *table;
    ok(tern_table_open(place->node, name, &options, &table));
    memset(name, 'x', sizeof name - 1);
    memset(&options, 0xff, sizeof options);
    uint64_t key = 2;
    float value = 8;
    ok(tern_push(place->worker, table, &key, 1, &value));
    ok(tern_pull(place->worker, table, &key, 1, &value));
    assert_true(value == -4);
    options = shape(TERN_DENSE, TERN_F32, 3, 1);
    options.updater = tern_updater_sgd(0.5);
    struct tern_table *again = table_of(place->node, "copied", options);
    ok(tern_pull(place->worker, again, &key, 1, &value));
    assert_true(value == -4);
    ok(tern_table_close(again));
    ok(tern_table_close(table));
}

static void nodes_of_one_process_do_not_share_tables(void **state)
{
    struct place *place = *state;
    void *other_state;
    place_open(&other_state);
    struct place *other = other_state;
    struct tern_table *here = table_of(place->node, "same", shape(TERN_DENSE, TERN_F32, 1, 1));
    struct tern_table *there = table_of(other->node, "same", shape(TERN_DENSE, TERN_F32, 1, 1));
    uint64_t key = 0;
    float value = 3;
    ok(tern_push(place->worker, here, &key, 1, &value));
    ok(tern_pull(other->worker, there, &key, 1, &value));
    assert_true(value == 0);
    place_close(&other_state); /* closes its table, too */
    ok(tern_pull(place->worker, here, &key, 1, &value));
    assert_true(value == 3);
    ok(tern_table_close(here));
}

/* ---- Started now, finished later ------------------------------------------------------------- */

static void wait_until_tested_done(struct tern_worker *worker, uint64_t ticket)
{
    bool done = false;
    for (int i = 0; i < 1000000 && !done; i++)
        ok(tern_test(worker, ticket, &done));
    assert_true(done);
}

static void operations_take_effect_in_the_order_they_were_started(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "later", shape((enum tern_index)index, TERN_F32, 10, 2));
        uint64_t keys[] = {1, 9};
        float first[] = {1, 2, 3, 4};
        float second[] = {10, 20, 30, 40};
        float between[4];
        float after[4];
        uint64_t tickets[5];
        ok(tern_set_start(place->worker, table, keys, 2, first, &tickets[0]));
        ok(tern_pull_start(place->worker, table, keys, 2, between, &tickets[1]));
        ok(tern_push_start(place->worker, table, keys, 2, second, &tickets[2]));
        ok(tern_push_start(place->worker, table, keys, 1, second, &tickets[3]));
        ok(tern_pull_start(place->worker, table, keys, 2, after, &tickets[4]));
        wait_until_tested_done(place->worker, tickets[4]);
        ok(tern_wait(place->worker, tickets[1]));
        for (size_t i = 0; i < 5; i++) {
            ok(tern_wait(place->worker, tickets[i]));
            ok(tern_wait(place->worker, tickets[i])); /* again, without effect */
            wait_until_tested_done(place->worker, tickets[i]);
        }
        assert_memory_equal(between, first, sizeof first);
        const float wanted[] = {21, 42, 33, 44};
        assert_memory_equal(after, wanted, sizeof wanted);
        struct tern_table_stats stats = stats_of(table);
        assert_int_equal(stats.pulled_keys, 4);
        assert_int_equal(stats.pushed_keys, 3);
        assert_int_equal(stats.set_keys, 2);
        ok(tern_table_close(table));
    }
}

static void thousands_of_operations_may_be_under_way(void **state)
{
    enum { N = 5000 };
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "many", shape(TERN_SPARSE, TERN_I32, 0, 1));
    uint64_t *tickets = array_of(N, sizeof *tickets);
    uint64_t *keys = array_of(N, sizeof *keys);
    int32_t *values = array_of(N, sizeof *values);
    for (size_t i = 0; i < N; i++) {
        keys[i] = i % 100;
        values[i] = 1;
        ok(tern_push_start(place->worker, table, &keys[i], 1, &values[i], &tickets[i]));
    }
    for (size_t i = 0; i < N; i++)
        ok(tern_wait(place->worker, tickets[(i * 7) % N]));
    ok(tern_pull(place->worker, table, keys, 100, values));
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(values[i], N / 100);
    free(values);
    free(keys);
    free(tickets);
    ok(tern_table_close(table));
}

static void a_ticket_that_was_never_given_is_refused(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "odd", shape(TERN_DENSE, TERN_F32, 1, 1));
    uint64_t key = 0;
    float value = 0;
    uint64_t ticket;
    ok(tern_pull_start(place->worker, table, &key, 1, &value, &ticket));
    bool done = false;
    refused(tern_wait(place->worker, UINT64_MAX - 6), TERN_INVALID, "ticket",
            "18446744073709551609");
    refused(tern_test(place->worker, UINT64_MAX - 6, &done), TERN_INVALID, "ticket",
            "18446744073709551609");
    assert_false(done);
    refused(tern_wait(place->worker, ticket + 1), TERN_INVALID, "ticket");
    ok(tern_wait(place->worker, ticket));
    ok(tern_table_close(table));
}

static void a_start_that_fails_gives_no_ticket(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "small", shape(TERN_DENSE, TERN_F32, 5, 1));
    uint64_t keys[] = {0, 5};
    float values[2] = {1, 1};
    uint64_t ticket = 77;
    refused(tern_pull_start(place->worker, table, keys, 2, values, &ticket), TERN_RANGE, "5");
    refused(tern_push_start(place->worker, table, keys, 2, values, &ticket), TERN_RANGE, "5");
    refused(tern_set_start(place->worker, table, keys, 2, values, &ticket), TERN_RANGE, "5");
    assert_int_equal(ticket, 77);
    ok(tern_pull(place->worker, table, keys, 1, values));
    assert_true(values[0] == 0);
    ok(tern_table_close(table));
}

/* ---- Clock and statistics -------------------------------------------------------------------- */

static void a_clock_counts_the_steps_of_its_worker(void **state)
{
    struct place *place = *state;
    struct tern_worker *other;
    ok(tern_worker_open(place->node, &other));
    uint64_t clock = 99;
    ok(tern_worker_clock(place->worker, &clock));
    assert_int_equal(clock, 0);
    for (uint64_t i = 1; i <= 10; i++) {
        ok(tern_worker_advance(place->worker, &clock));
        assert_int_equal(clock, i);
    }
    ok(tern_worker_advance(place->worker, NULL));
    ok(tern_worker_clock(place->worker, &clock));
    assert_int_equal(clock, 11);
    ok(tern_worker_clock(other, &clock));
    assert_int_equal(clock, 0);
    ok(tern_worker_close(other));
}

static void statistics_count_keys_of_all_workers(void **state)
{
    struct place *place = *state;
    struct tern_worker *other;
    ok(tern_worker_open(place->node, &other));
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "seen", shape((enum tern_index)index, TERN_F64, 8, 3));
        uint64_t keys[] = {0, 1, 2, 3, 1};
        double values[15] = {0};
        void *rows[2];
        ok(tern_pull(place->worker, table, keys, 5, values));
        ok(tern_pull(other, table, keys, 2, values));
        ok(tern_push(place->worker, table, keys, 4, values));
        ok(tern_set(other, table, keys, 3, values));
        ok(tern_pin(place->worker, table, keys, 2, rows));
        ok(tern_unpin(place->worker, table, keys, 2));
        struct tern_table_stats stats = stats_of(table);
        assert_int_equal(stats.pulled_keys, 7);
        assert_int_equal(stats.pushed_keys, 4);
        assert_int_equal(stats.set_keys, 3);
        assert_int_equal(stats.pinned_keys, 2);
        ok(tern_table_close(table));
    }
    ok(tern_worker_close(other));
}

static void statistics_tell_rows_and_memory(void **state)
{
    enum { N = 5000, LENGTH = 32 };
    struct place *place = *state;
    uint64_t *keys = array_of(N, sizeof *keys);
    float *values = array_of((size_t)N * LENGTH, sizeof *values);
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        for (int stateful = 0; stateful <= 1; stateful++) {
            struct tern_table_options options = shape((enum tern_index)index, TERN_F32, N, LENGTH);
            if (stateful)
                options.updater = tern_updater_adagrad(0.1, 1e-6);
            struct tern_table *table = table_of(place->node, "sized", options);
            ok(tern_push(place->worker, table, keys, N, values));
            struct tern_table_stats stats = stats_of(table);
            uint64_t value_bytes = (uint64_t)N * LENGTH * sizeof(float);
            uint64_t least = value_bytes << stateful;
            assert_int_equal(stats.rows, N);
            assert_int_equal(stats.value_bytes, value_bytes);
            assert_true(stats.memory_bytes >= least);
            assert_true(stats.memory_bytes <= 2 * least + (16 << 20));
            ok(tern_table_close(table));
        }
    }
    free(values);
    free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(dense_f32_behaves_as_an_array),
        placed(dense_f64_behaves_as_an_array),
        placed(dense_i32_behaves_as_an_array),
        placed(dense_i64_behaves_as_an_array),
        placed(sparse_f32_behaves_as_a_map),
        placed(sparse_f64_behaves_as_a_map),
        placed(sparse_i32_behaves_as_a_map),
        placed(sparse_i64_behaves_as_a_map),
        placed(each_duplicate_in_a_call_counts),
        placed(a_call_with_no_keys_does_nothing),
        placed(integers_wrap_around),
        placed(what_was_set_comes_back_bit_for_bit),
        placed(values_outside_the_batch_are_not_touched),
        placed(unaligned_arrays_are_fine),
        placed(reading_a_missing_key_of_initial_value_zero_creates_nothing),
        placed(reading_a_missing_key_of_another_initial_value_creates_it),
        placed(a_sparse_table_grows_without_losing_keys),
        placed(a_pinned_row_stays_in_place_while_the_table_grows),
        placed(a_table_opened_twice_is_one_table),
        placed(names_and_options_are_copied),
        placed(nodes_of_one_process_do_not_share_tables),
        placed(operations_take_effect_in_the_order_they_were_started),
        placed(thousands_of_operations_may_be_under_way),
        placed(a_ticket_that_was_never_given_is_refused),
        placed(a_start_that_fails_gives_no_ticket),
        placed(a_clock_counts_the_steps_of_its_worker),
        placed(statistics_count_keys_of_all_workers),
        placed(statistics_tell_rows_and_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
