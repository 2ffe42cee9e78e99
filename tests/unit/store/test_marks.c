/*
 * Marks: what is put in is taken out, once, in order, and is not lost beside others who put more in.
 */
#include <pthread.h>

#include "support/alloc.h"
#include "support/check.h"

#undef fail /* cmocka's; status.h has another */
#include "store/store.h"

enum { N_SLOTS = 10000, N_THREADS = 3, N_TURNS = 2000 };

static void what_is_put_in_is_taken_out_in_order(void **state)
{
    (void)state;
    static const uint32_t put[] = {0, 63, 64, 4095, 4096, 8191, 9999};
    struct marks marks = {0};
    assert_true(marks_init(&marks, N_SLOTS));
    for (size_t turn = 0; turn < 3; turn++) {
        size_t n = 0, word = 0;
        uint64_t bits;
        for (size_t i = COUNT(put); i-- > 0;)
            marks_add(&marks, put[i]);
        for (; (bits = marks_take(&marks, &word, marks.n_words)) != 0; word++)
            for (; bits; bits &= bits - 1)
                assert_int_equal(64 * word + (size_t)__builtin_ctzll(bits), put[n++]);
        assert_int_equal(n, COUNT(put));
    }
    marks_fini(&marks);
}

static void only_words_of_the_range_are_taken(void **state)
{
    (void)state;
    struct marks marks = {0};
    assert_true(marks_init(&marks, N_SLOTS));
    size_t word = 3;
    marks_add(&marks, 64 * 2);
    marks_add(&marks, 64 * 70 + 5);
    assert_int_equal(marks_take(&marks, &word, 70), 0);
    assert_int_equal(marks_take(&marks, &word, 71), 1 << 5);
    assert_int_equal(word, 70);
    word = 0;
    assert_int_equal(marks_take(&marks, &word, 71), 1);
    assert_int_equal(word, 2);
    marks_fini(&marks);
}

/* Few at a time, while the first ones are marked again and again: the last one has its turn, too. */
static void all_get_their_turn(void **state)
{
    (void)state;
    static const uint32_t often[] = {0, 1, 63, 64, 4100}, last = 9999;
    struct marks marks = {0};
    struct marks_turn turn = {0};
    uint32_t slots[3];
    bool is_left = true, was_taken = false;
    assert_true(marks_init(&marks, N_SLOTS));
    marks_add(&marks, last);
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < COUNT(often); k++)
            marks_add(&marks, often[k]);
        size_t n = marks_take_turn(&marks, &turn, marks.n_words, COUNT(slots), slots, &is_left);
        assert_int_equal(n, COUNT(slots));
        assert_true(is_left);
        for (size_t k = 0; k < n; k++)
            was_taken |= slots[k] == last;
    }
    assert_true(was_taken);
    assert_int_equal(turn.n_laps, 1);
    /* What is left are the three of the first turn, which were marked again since. */
    size_t n_left = 0;
    while (is_left)
        n_left += marks_take_turn(&marks, &turn, marks.n_words, COUNT(slots), slots, &is_left);
    assert_int_equal(n_left, COUNT(slots));
    assert_int_equal(marks_take_turn(&marks, &turn, marks.n_words, 3, slots, &is_left), 0);
    marks_fini(&marks);
}

/* Each thread marks its slot again as soon as it was taken: a mark that is lost ends the count. */
struct marker {
    pthread_t thread;
    struct marks *marks;
    uint32_t slot;
    atomic_uint *n_taken;
};

static void *put_many(void *context)
{
    struct marker *marker = context;
    for (unsigned i = 0; i < N_TURNS; i++) {
        marks_add(marker->marks, marker->slot);
        while (atomic_load(marker->n_taken) <= i)
            sched_yield();
    }
    return NULL;
}

static void nothing_is_lost_beside_others(void **state)
{
    (void)state;
    struct marks marks = {0};
    struct marker markers[N_THREADS];
    atomic_uint n_taken[N_THREADS] = {0};
    assert_true(marks_init(&marks, N_SLOTS));
    for (uint32_t i = 0; i < N_THREADS; i++) {
        markers[i] = (struct marker){.marks = &marks, .slot = i, .n_taken = &n_taken[i]};
        assert_int_equal(pthread_create(&markers[i].thread, NULL, put_many, &markers[i]), 0);
    }
    for (size_t n = 0; n < N_THREADS * N_TURNS;) {
        size_t word = 0;
        uint64_t bits = marks_take(&marks, &word, marks.n_words);
        n += (size_t)__builtin_popcountll(bits);
        for (; bits; bits &= bits - 1)
            atomic_fetch_add(&n_taken[__builtin_ctzll(bits)], 1);
    }
    for (uint32_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(markers[i].thread, NULL), 0);
    marks_fini(&marks);
}

/* Slots that have no marks are not given out; to give a slot back needs no memory. */
static void there_are_marks_for_all_slots(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 64, 1);
    struct store_home home = {.begin = 0, .end = 32, .rows_move = true};
    struct store store;
    uint32_t slot;
    ok(store_init(&store, "marked", &options, &home));
    for (int turn = 0; turn < 2; turn++) {
        size_t n = 0;
        for (; n < 100 && store_take_slot(&store, &slot); n++)
            assert_true(slot / 64 < store.changed[0].n_words);
        assert_int_equal(n, 64);
        alloc_fail_at(1);
        for (slot = 0; slot < 64; slot++)
            store_give_slot(&store, slot);
        alloc_fail_at(0);
    }
    store_fini(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_in_is_taken_out_in_order),
        cmocka_unit_test(only_words_of_the_range_are_taken),
        cmocka_unit_test(all_get_their_turn),
        cmocka_unit_test(nothing_is_lost_beside_others),
        cmocka_unit_test(there_are_marks_for_all_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
