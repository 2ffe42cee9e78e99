/*
 * The sparse index: whatever 64-bit keys it holds, each leads to its own entry and no other, while it
 * grows and while others look things up.
 */
#include "support/check.h"

#include <pthread.h>

#include "store/sparse.h"

#ifdef UNDER_SANITIZER
enum { N_MANY = 20000 };
#else
enum { N_MANY = 300000 };
#endif

static int index_open(void **state)
{
    struct sparse *sparse = aligned_alloc(_Alignof(struct sparse), sizeof *sparse);
    assert_non_null(sparse);
    sparse_init(sparse, 0, false);
    *state = sparse;
    return 0;
}

static int index_close(void **state)
{
    sparse_fini(*state);
    free(*state);
    return 0;
}

/* Kinds of keys that a weak hash would put in one place. */
static uint64_t key_of(unsigned kind, uint64_t i)
{
    switch (kind) {
    case 0:
        return i;
    case 1:
        return i << 32;
    case 2:
        return i << 44;
    case 3:
        return UINT64_MAX - i;
    case 4:
        return i * 4096;
    case 5:
        return i << 32 | (i & 7);
    default:
        return scattered(i);
    }
}

enum { N_KINDS = 7 };

/* Gives an entry a slot to be recognised by. */
static void label(struct entry *entry, uint32_t slot)
{
    uint64_t word;
    entry_latch(entry, NULL, &word);
    entry_release(entry, word, ENTRY_OWNED, slot);
}

static bool has_label(struct entry *entry, uint32_t slot)
{
    return entry && entry_state(entry_read(entry)) == ENTRY_OWNED &&
           entry_slot(entry_read(entry)) == slot;
}

static void an_empty_index_has_no_key(void **state)
{
    struct sparse *sparse = *state;
    for (unsigned kind = 0; kind < N_KINDS; kind++)
        for (uint64_t i = 0; i < 1000; i++)
            assert_null(sparse_find(sparse, key_of(kind, i)));
}

static void a_key_that_was_never_inserted_has_no_row(void **state)
{
    struct sparse *sparse = *state;
    for (uint64_t i = 1; i < 5000; i++)
        assert_non_null(sparse_insert(sparse, i, UINT64_MAX, NULL));
    for (uint64_t i = 5000; i < 10000; i++)
        assert_null(sparse_find(sparse, i));
    struct entry *zero = sparse_find(sparse, 0);
    assert_true(!zero || entry_state(entry_read(zero)) == ENTRY_NONE);
}

static void key_zero_is_a_key_like_others(void **state)
{
    struct sparse *sparse = *state;
    struct entry *entry = sparse_insert(sparse, 0, UINT64_MAX, NULL);
    assert_non_null(entry);
    assert_int_equal(entry_state(entry_read(entry)), ENTRY_NONE);
    label(entry, 77);
    assert_ptr_equal(sparse_insert(sparse, 0, UINT64_MAX, NULL), entry);
    for (uint64_t i = 1; i < 50000; i++)
        label(sparse_insert(sparse, i, UINT64_MAX, NULL), 1);
    assert_true(has_label(sparse_find(sparse, 0), 77));
    assert_true(has_label(sparse_search(sparse, 0), 77));
}

static void keys_of_any_kind_are_found_again(void **state)
{
    struct sparse *sparse = *state;
    for (unsigned kind = 0; kind < N_KINDS; kind++) {
        sparse_fini(sparse);
        sparse_init(sparse, 0, false);
        for (uint32_t i = 0; i < 20000; i++)
            label(sparse_insert(sparse, key_of(kind, i), UINT64_MAX, NULL), i);
        for (uint32_t i = 0; i < 20000; i++) {
            assert_true(has_label(sparse_find(sparse, key_of(kind, i)), i));
            assert_true(has_label(sparse_search(sparse, key_of(kind, i)), i));
        }
    }
}

/* How many keys were visited, and the sum of their labels. */
struct visit {
    uint64_t n, sum;
};

static void count_labels(void *context, uint64_t key, uint64_t word)
{
    struct visit *visit = context;
    (void)key;
    if (entry_state(word) != ENTRY_OWNED)
        return;
    visit->n++;
    visit->sum += entry_slot(word);
}

static void a_visit_meets_every_key_once(void **state)
{
    struct sparse *sparse = *state;
    struct visit none = {0}, all = {0};
    sparse_visit(sparse, count_labels, &none, NULL);
    assert_int_equal(none.n, 0);
    for (uint32_t i = 0; i < N_MANY; i++)
        label(sparse_insert(sparse, scattered(i), UINT64_MAX, NULL), i);
    sparse_visit(sparse, count_labels, &all, NULL);
    assert_int_equal(all.n, N_MANY);
    assert_int_equal(all.sum, (uint64_t)N_MANY * (N_MANY - 1) / 2);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static unsigned match_avx2(const struct index_line *line,
                                                           uint64_t key)
{
    return sparse_match_avx2(line, key);
}

static void both_comparisons_agree(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx2"))
        skip();
    struct dice dice = {5};
    for (int round = 0; round < 10000; round++) {
        struct index_line line = {0};
        for (int i = 0; i < SPARSE_CELLS; i++)
            atomic_init(&line.keys[i], dice_below(&dice, 3) << 62);
        uint64_t key = dice_below(&dice, 3) << 62;
        assert_int_equal(match_avx2(&line, key), sparse_match(&line, key));
    }
}
#endif

static void an_index_stays_within_its_limit(void **state)
{
    struct sparse *sparse = *state;
    uint64_t limit = 1 << 20, n = 0;
    assert_null(sparse_insert(sparse, 1, sizeof(struct index_line), NULL));
    while (sparse_insert(sparse, scattered(n), limit, NULL))
        n++;
    assert_true(atomic_load(&sparse->bytes) <= limit);
    assert_true(n > limit / sizeof(struct index_line));
    for (uint64_t i = 0; i < n; i++)
        assert_non_null(sparse_find(sparse, scattered(i)));
}

static void an_index_of_many_keys_is_more_than_a_third_full(void **state)
{
    struct sparse *sparse = *state;
    for (uint64_t i = 0; i < N_MANY; i++) {
        assert_non_null(sparse_insert(sparse, scattered(i), UINT64_MAX, NULL));
        if (i > 10000)
            assert_true(atomic_load(&sparse->bytes) <= 3 * 16 * (i + 1));
    }
}

/* ---- Look-ups beside growth ------------------------------------------------------------------ */

struct growth {
    struct sparse *sparse;
    _Atomic uint32_t n_there; /* keys 0 .. n_there-1 of the test are there */
};

/* Looks for keys that are there. An entry may move while it is read, and is then looked up again. */
static void *look_up(void *argument)
{
    struct growth *growth = argument;
    struct dice dice = {9};
    for (uint32_t n = 0; n < N_MANY;) {
        n = atomic_load_explicit(&growth->n_there, memory_order_acquire);
        if (!n)
            continue;
        uint32_t i = (uint32_t)dice_below(&dice, n);
        uint64_t word = 0;
        while (!word || entry_state(word) == ENTRY_MOVED || word & ENTRY_LATCHED) {
            struct entry *entry = sparse_find(growth->sparse, scattered(i));
            if (!holds(entry != NULL))
                return NULL;
            word = entry_read(entry);
        }
        if (!holds(entry_slot(word) == i))
            return NULL;
    }
    return NULL;
}

static void no_key_is_missed_while_the_index_grows(void **state)
{
    struct growth growth = {.sparse = *state};
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_up, &growth), 0);
    for (uint32_t i = 0; i < N_MANY; i++) {
        label(sparse_insert(growth.sparse, scattered(i), UINT64_MAX, NULL), i);
        atomic_store_explicit(&growth.n_there, i + 1, memory_order_release);
    }
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    all_held();
}

#define indexed(test) cmocka_unit_test_setup_teardown(test, index_open, index_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        indexed(an_empty_index_has_no_key),
        indexed(a_key_that_was_never_inserted_has_no_row),
        indexed(key_zero_is_a_key_like_others),
        indexed(keys_of_any_kind_are_found_again),
        indexed(a_visit_meets_every_key_once),
#if defined(__x86_64__)
        cmocka_unit_test(both_comparisons_agree),
#endif
        indexed(an_index_stays_within_its_limit),
        indexed(an_index_of_many_keys_is_more_than_a_third_full),
        indexed(no_key_is_missed_while_the_index_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
