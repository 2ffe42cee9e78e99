/*
 * Values that are in their entries: calls on many keys, which latch areas, and on few, which latch entries, lose nothing
 * beside each other, nor beside rows that are pinned and an index that grows; and behave alike.
 */
#include "support/check.h"

#include <pthread.h>

#undef fail /* cmocka's; status.h has another */
#include "store/store.h"

#ifdef UNDER_SANITIZER
enum { SCALE = 1 };
#else
enum { SCALE = 100 };
#endif

enum { N_THREADS = 6, N_KEYS = 3000, MAX_BATCH = 2500, N_CALLS = 60 * SCALE };

struct pusher {
    struct store *store;
    uint64_t seed;
    uint64_t counts[N_KEYS]; /* of ones that this thread has pushed */
};

static uint64_t key_at(const struct store *store, size_t i)
{
    return store->index == TERN_DENSE ? i : scattered(i);
}

static void open_store(struct store *store, enum tern_index index, enum tern_type type)
{
    struct tern_table_options options = shape(index, type, N_KEYS, 1);
    ok(store_init(store, "words", &options, NULL));
    assert_true(store->inlined);
}

/* Pins and unpins a key: its value is no longer in its entry then. */
static void pin(struct store *store, uint64_t key)
{
    void *row;
    if (holds(store_pin(store, key, &row) == TERN_OK) && row)
        holds(store_unpin(store, key));
}

static void *push_ones(void *context)
{
    static const size_t sizes[] = {1, 1, 1, 10, 70, 300, MAX_BATCH};
    struct pusher *p = context;
    struct store *store = p->store;
    struct dice dice = {p->seed};
    uint64_t keys[MAX_BATCH];
    struct entry *entries[MAX_BATCH];
    uint32_t ones[MAX_BATCH], missed[MAX_BATCH];
    const float one = 1;
    for (size_t i = 0; i < MAX_BATCH; i++) {
        ones[i] = 1;
        if (store->type == TERN_F32)
            memcpy(&ones[i], &one, sizeof one);
    }
    for (size_t call = 0; call < N_CALLS; call++) {
        /* A few keys at first, then more and more, so that the index grows all the time. */
        size_t n = sizes[dice_below(&dice, COUNT(sizes))],
               range = 20 + call * (N_KEYS - 20) / N_CALLS;
        for (size_t i = 0; i < n; i++) {
            size_t drawn = dice_below(&dice, range);
            keys[i] = key_at(store, drawn);
            p->counts[drawn]++;
        }
        holds(store_reserve(store, keys, n, entries) == TERN_OK);
        holds(n == 1 ? store_push_one(store, keys[0], ones)
                     : store_push(store, keys, n, entries, ones, missed) == 0);
        if (call % 30 == 0)
            pin(store, keys[0]);
    }
    return NULL;
}

static void no_push_is_lost(enum tern_index index, enum tern_type type)
{
    struct store store;
    open_store(&store, index, type);
    struct pusher *pushers = array_of(N_THREADS, sizeof *pushers);
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        pushers[i].store = &store;
        pushers[i].seed = 7 * i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, push_ones, &pushers[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    all_held();
    for (size_t k = 0; k < N_KEYS; k++) {
        uint64_t count = 0;
        for (size_t i = 0; i < N_THREADS; i++)
            count += pushers[i].counts[k];
        union {
            float f;
            uint32_t i;
        } value = {.i = 0};
        assert_true(store_pull_one(&store, key_at(&store, k), &value) || count == 0);
        assert_int_equal(type == TERN_F32 ? (uint64_t)value.f : value.i, count);
    }
    free(pushers);
    store_fini(&store);
}

static void no_push_to_a_dense_table_is_lost(void **state)
{
    (void)state;
    no_push_is_lost(TERN_DENSE, TERN_F32);
    no_push_is_lost(TERN_DENSE, TERN_I32);
}

static void no_push_to_a_sparse_table_is_lost(void **state)
{
    (void)state;
    no_push_is_lost(TERN_SPARSE, TERN_F32);
    no_push_is_lost(TERN_SPARSE, TERN_I32);
}

static bool is_at_home(const void *context, uint64_t key)
{
    (void)context;
    return key % 3 != 0;
}

/* Keys of other nodes are reported, each as often as it comes; of several sets of the others the last one stays. */
static void many_keys_are_set_in_their_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {5, 63, 64, 1023, 1024, 1025, MAX_BATCH};
    for (size_t s = 0; s < 2 * COUNT(sizes); s++) {
        size_t n = sizes[s / 2];
        struct store store;
        struct tern_table_options options =
            shape(s % 2 ? TERN_SPARSE : TERN_DENSE, TERN_I32, N_KEYS, 1);
        struct store_home home = {.begin = 0, .end = N_KEYS / 2, .has = is_at_home};
        ok(store_init(&store, "home", &options, &home));
        struct dice dice = {s};
        uint64_t keys[MAX_BATCH];
        struct entry *entries[MAX_BATCH];
        uint32_t values[MAX_BATCH], missed[MAX_BATCH];
        bool is_missed[MAX_BATCH] = {0};
        for (size_t i = 0; i < n; i++) {
            keys[i] = key_at(&store, dice_below(&dice, N_KEYS));
            values[i] = (uint32_t)i + 1;
        }
        ok(store_reserve(&store, keys, n, entries));
        void *row; /* a value in the slabs, among those in entries */
        ok(store_pin(&store, keys[n / 2], &row));
        size_t n_missed = store_set(&store, keys, n, entries, values, missed);
        for (size_t i = 0; i < n_missed; i++) {
            assert_false(is_missed[missed[i]]);
            is_missed[missed[i]] = true;
        }
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(is_missed[i], !store_is_home(&store, keys[i]));
            size_t last = i;
            for (size_t j = i + 1; j < n; j++)
                last = keys[j] == keys[i] ? j : last;
            uint32_t value;
            if (!is_missed[i]) {
                assert_true(store_pull_one(&store, keys[i], &value));
                assert_int_equal(value, last + 1);
            }
        }
        store_fini(&store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_push_to_a_dense_table_is_lost),
        cmocka_unit_test(no_push_to_a_sparse_table_is_lost),
        cmocka_unit_test(many_keys_are_set_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
