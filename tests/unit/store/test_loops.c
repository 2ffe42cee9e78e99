/*
 * The loops over many keys, in the instances of every instruction set this machine has: they read and
 * change exactly the rows of the keys they are given, and report the positions of keys without a row.
 */
#include "support/check.h"

#undef fail /* cmocka's; status.h has another */
#include "kernel/kernel.h"
#include "store/store.h"

enum { N_KEYS = 700, MAX_BATCH = 300, MAX_LENGTH = 512, N_ROUNDS = 30 };

/* A store and what it should hold: row i is that of key(i). */
struct model {
    struct store store;
    uint64_t keys[N_KEYS];
    bool exists[N_KEYS];
    float *rows;
    float *values; /* of one call, perhaps not aligned */
    char *memory;
};

/* Keys that share lines of the index, key 0, and scattered ones. */
static uint64_t sparse_key(size_t i)
{
    return i < N_KEYS / 2 ? i : scattered(i);
}

static void model_open(struct model *m, enum tern_index index, uint32_t length,
                       const struct kernel *kernel)
{
    struct tern_table_options options = shape(index, TERN_F32, N_KEYS, length);
    *m = (struct model){0};
    ok(store_init(&m->store, "model", &options, NULL));
    m->store.kernel = kernel;
    m->store.pull = pull_loops_for(&m->store);
    m->store.add = push_add_for(&m->store);
    for (size_t i = 0; i < N_KEYS; i++)
        m->keys[i] = index == TERN_DENSE ? i : sparse_key(i);
    m->rows = array_of((size_t)N_KEYS * length, sizeof(float));
    m->memory = array_of((size_t)MAX_BATCH * length + 1, sizeof(float));
    m->values = (float *)m->memory;
}

static void model_close(struct model *m)
{
    store_fini(&m->store);
    free(m->rows);
    free(m->memory);
}

/* Draws the keys of a call: positions in the model, with repetitions. */
static size_t draw(struct dice *dice, size_t *drawn)
{
    static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 48, 100, MAX_BATCH};
    size_t n = sizes[dice_below(dice, COUNT(sizes))];
    for (size_t i = 0; i < n; i++)
        drawn[i] = dice_below(dice, dice_below(dice, 2) ? N_KEYS : 20);
    return n;
}

/* A call that writes random values to keys: a push or a set. */
typedef size_t write_function(struct store *store, const uint64_t *keys, size_t n,
                              struct entry *const *entries, const void *values, uint32_t *missed);

static void write_random(struct model *m, const uint64_t *keys, size_t n, write_function *call,
                         struct dice *dice)
{
    struct entry *entries[MAX_BATCH];
    uint32_t missed[MAX_BATCH];
    for (size_t i = 0; i < n * m->store.length; i++)
        m->values[i] = (float)dice_below(dice, 100);
    ok(store_reserve(&m->store, keys, n, entries));
    assert_int_equal(call(&m->store, keys, n, entries, m->values, missed), 0);
}

static void push(struct model *m, const uint64_t *keys, const size_t *drawn, size_t n,
                 bool exclusive, struct dice *dice)
{
    const uint32_t length = m->store.length;
    write_random(m, keys, n, exclusive ? store_push_exclusive : store_push, dice);
    for (size_t i = 0; i < n; i++) {
        m->exists[drawn[i]] = true;
        for (uint32_t j = 0; j < length; j++)
            m->rows[drawn[i] * length + j] += m->values[i * length + j];
    }
}

static void set(struct model *m, const uint64_t *keys, const size_t *drawn, size_t n,
                bool exclusive, struct dice *dice)
{
    const uint32_t length = m->store.length;
    write_random(m, keys, n, exclusive ? store_set_exclusive : store_set, dice);
    for (size_t i = 0; i < n; i++) {
        m->exists[drawn[i]] = true;
        memcpy(m->rows + drawn[i] * length, m->values + i * length, length * sizeof(float));
    }
}

static void pull(struct model *m, const uint64_t *keys, const size_t *drawn, size_t n)
{
    uint32_t missed[MAX_BATCH], length = m->store.length;
    memset(m->values, 0xff, n * length * sizeof(float));
    size_t n_missed = store_pull(&m->store, keys, n, m->values, missed), met = 0;
    for (size_t i = 0; i < n; i++) {
        if (met < n_missed && missed[met] == i) {
            met++;
            assert_false(m->exists[drawn[i]]);
            continue;
        }
        assert_true(m->exists[drawn[i]]);
        assert_memory_equal(m->values + i * length, m->rows + drawn[i] * length,
                            length * sizeof(float));
    }
    assert_int_equal(met, n_missed);
}

/* One key, which may have no row. */
static void pull_and_push_one(struct model *m, size_t drawn, bool exclusive)
{
    uint32_t length = m->store.length;
    bool exists = m->exists[drawn];
    assert_int_equal(store_pull_one(&m->store, m->keys[drawn], m->values), exists);
    if (exists)
        assert_memory_equal(m->values, m->rows + drawn * length, length * sizeof(float));
    for (uint32_t j = 0; j < length; j++)
        m->values[j] = 3;
    assert_int_equal((exclusive ? store_push_one_exclusive
                                : store_push_one)(&m->store, m->keys[drawn], m->values),
                     exists);
    for (uint32_t j = 0; exists && j < length; j++)
        m->rows[drawn * length + j] += 3;
}

static void behaves_as_the_model(enum tern_index index, uint32_t length,
                                 const struct kernel *kernel)
{
    struct model *m = array_of(1, sizeof *m);
    struct dice dice = {length};
    model_open(m, index, length, kernel);
    for (int round = 0; round < N_ROUNDS; round++) {
        uint64_t keys[MAX_BATCH];
        size_t drawn[MAX_BATCH], n = draw(&dice, drawn);
        for (size_t i = 0; i < n; i++)
            keys[i] = m->keys[drawn[i]];
        pull(m, keys, drawn, n);
        if (round % 3 == 0)
            push(m, keys, drawn, n, round % 2, &dice);
        pull(m, keys, drawn, n);
        if (round % 3 == 1)
            set(m, keys, drawn, n, round % 2, &dice);
        pull(m, keys, drawn, n);
        pull_and_push_one(m, dice_below(&dice, N_KEYS), round % 2);
    }
    model_close(m);
    free(m);
}

static void for_all_kernels_and_lengths(enum tern_index index)
{
    static const uint32_t lengths[] = {1, 2, 3, 8, 16, 20, 32, 64, 100, 128, MAX_LENGTH};
    for (size_t k = 0; kernel_at(k); k++)
        for (size_t i = 0; i < COUNT(lengths); i++)
            behaves_as_the_model(index, lengths[i], kernel_at(k));
}

static void dense_loops_behave_as_a_map(void **state)
{
    (void)state;
    for_all_kernels_and_lengths(TERN_DENSE);
}

static void sparse_loops_behave_as_a_map(void **state)
{
    (void)state;
    for_all_kernels_and_lengths(TERN_SPARSE);
}

/* Values that come in a frame are not aligned; the loops that add must not need it. */
static void pushed_values_of_the_adding_loops_need_no_alignment(void **state)
{
    (void)state;
    for (size_t k = 0; kernel_at(k); k++) {
        for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
            struct model *m = array_of(1, sizeof *m);
            model_open(m, (enum tern_index)index, 32, kernel_at(k));
            assert_non_null(m->store.add.many);
            struct entry *entry;
            uint32_t missed;
            float ones[32], row[32];
            for (size_t i = 0; i < COUNT(ones); i++)
                ones[i] = 1;
            memcpy(m->memory + 1, ones, sizeof ones);
            ok(store_reserve(&m->store, &m->keys[5], 1, &entry));
            assert_int_equal(store_push(&m->store, &m->keys[5], 1, &entry, m->memory + 1, &missed),
                             0);
            assert_true(store_push_one(&m->store, m->keys[5], m->memory + 1));
            assert_true(store_pull_one(&m->store, m->keys[5], row));
            for (size_t i = 0; i < COUNT(row); i++)
                assert_true(row[i] == 2);
            model_close(m);
            free(m);
        }
    }
}

static bool is_even(const void *context, uint64_t key)
{
    (void)context;
    return key % 2 == 0;
}

/* Keys that come many times in a call are changed together, and those without a row reported as often as they
 * came. */
static void repeated_keys_without_a_row_are_all_reported(void **state)
{
    (void)state;
    for (size_t k = 0; kernel_at(k); k++)
        for (uint32_t length = 1; length <= 40; length = length == 1 ? 32 : length + 8) {
            struct model *m = array_of(1, sizeof *m);
            model_open(m, TERN_SPARSE, length, kernel_at(k));
            m->store.home.has = is_even;
            uint64_t keys[100];
            struct entry *entries[100];
            uint32_t missed[100];
            bool is_missed[100] = {false};
            for (size_t i = 0; i < COUNT(keys); i++)
                keys[i] = i * i % 7;
            for (size_t i = 0; i < COUNT(keys) * length; i++)
                m->values[i] = 1;
            ok(store_reserve(&m->store, keys, COUNT(keys), entries));
            size_t n = store_push(&m->store, keys, COUNT(keys), entries, m->values, missed);
            for (size_t i = 0; i < n; i++)
                is_missed[missed[i]] = true;
            float n_pushed[7] = {0}, row[40];
            for (size_t i = 0; i < COUNT(keys); i++) {
                assert_int_equal(is_missed[i], keys[i] % 2);
                n -= is_missed[i];
                n_pushed[keys[i]]++;
            }
            assert_int_equal(n, 0);
            for (uint64_t key = 0; key < 7; key += 2)
                if (store_pull_one(&m->store, key, row))
                    assert_true(row[length - 1] == n_pushed[key]);
            model_close(m);
            free(m);
        }
}

static bool is_not_key_0(const void *context, uint64_t key)
{
    (void)context;
    return key != 0;
}

/* The n-th key from 1 on whose first line is the second of the first array: the buddy of key 0's. */
static uint64_t key_beside_0(const struct store *store, size_t n)
{
    uint64_t key = 0;
    while (n)
        n -= sparse_hash(store->sparse, ++key) >> (64 - SPARSE_STRIPE_BITS - 2) == 1;
    return key;
}

/* Free cells look as if they held key 0. One that another key takes is not taken for it. */
static void key_0_at_another_node_is_in_no_free_cell(void **state)
{
    (void)state;
    for (size_t k = 0; kernel_at(k); k++) {
        for (uint32_t length = 1; length <= 32; length += 31) {
            struct model *m = array_of(1, sizeof *m);
            model_open(m, TERN_SPARSE, length, kernel_at(k));
            m->store.home.has = is_not_key_0;
            ok(store_create(&m->store, key_beside_0(&m->store, 1)));
            uint64_t key = 0;
            struct entry *entry;
            ok(store_reserve(&m->store, &key, 1, &entry));
            ok(store_create(&m->store, key_beside_0(&m->store, 2)));
            float ones[32], row[32];
            for (size_t i = 0; i < COUNT(ones); i++)
                ones[i] = 1;
            uint32_t missed;
            assert_int_equal(store_push(&m->store, &key, 1, &entry, ones, &missed), 1);
            assert_true(store_pull_one(&m->store, key_beside_0(&m->store, 2), row));
            for (size_t i = 0; i < length; i++)
                assert_true(row[i] == 0);
            model_close(m);
            free(m);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_loops_behave_as_a_map),
        cmocka_unit_test(sparse_loops_behave_as_a_map),
        cmocka_unit_test(pushed_values_of_the_adding_loops_need_no_alignment),
        cmocka_unit_test(repeated_keys_without_a_row_are_all_reported),
        cmocka_unit_test(key_0_at_another_node_is_in_no_free_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
