/*
 * The intents of one worker: each begins when it is time, in the order of starts, ends when the clock has
 * reached its end, in the order of ends, and never the one without the other; the worker appends while
 * rounds read.
 */
#include "core/intents.h"

#include <pthread.h>

#include "support/check.h"
#include "support/alloc.h"

enum { ROUND_NS = 1000000 }; /* from one round to the next, */
static uint64_t n_rounds;    /* of which there were so many */

enum { TABLE = 3, GENERATION = 17, MAX_SEEN = 4096 };

/* What a round has reported: the first key of each intent. */
struct seen {
    uint64_t begun[MAX_SEEN], ended[MAX_SEEN];
    size_t n_begun, n_ended;
};

static void note_begin(void *context, const struct intent *intent)
{
    struct seen *seen = context;
    assert_int_equal(intent->table, TABLE);
    assert_int_equal(intent->generation, GENERATION);
    assert_true(seen->n_begun < MAX_SEEN);
    seen->begun[seen->n_begun++] = intent->keys[0];
}

static void note_end(void *context, const struct intent *intent)
{
    struct seen *seen = context;
    assert_true(seen->n_ended < MAX_SEEN);
    seen->ended[seen->n_ended++] = intent->keys[0];
}

static struct intents *fresh(void)
{
    struct intents *intents = intents_new();
    assert_non_null(intents);
    assert_false(intents_are_open(intents));
    return intents;
}

static void say(struct intents *intents, enum intent_kind kind, uint64_t key, uint64_t start,
                uint64_t end)
{
    assert_true(intents_add(intents, kind, TABLE, GENERATION, &key, 1, start, end));
}

/* A round at a clock, after which only its own reports are in `seen`. */
static void round_at(struct intents *intents, uint64_t clock, struct seen *seen)
{
    atomic_store(&intents->clock, clock);
    seen->n_begun = seen->n_ended = 0;
    assert_true(
        intents_round(intents, ROUND_NS * ++n_rounds, 2 * ROUND_NS, note_begin, note_end, seen));
}

static void close_worker(struct intents *intents, struct seen *seen)
{
    atomic_store(&intents->is_over, true);
    seen->n_begun = seen->n_ended = 0;
    assert_true(
        intents_round(intents, ROUND_NS * ++n_rounds, 2 * ROUND_NS, note_begin, note_end, seen));
    assert_int_equal(intents->active.n, 0);
}

#define assert_keys(list, n, ...)                                 \
    do {                                                          \
        const uint64_t expected_[] = {__VA_ARGS__};               \
        assert_int_equal((n), COUNT(expected_));                  \
        assert_memory_equal((list), expected_, sizeof expected_); \
    } while (0)

static void intents_begin_by_start_and_end_by_end(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    say(intents, INTENT_TIMED, 1, 9, 30);
    say(intents, INTENT_TIMED, 2, 3, 40);
    say(intents, INTENT_TIMED, 3, 6, 20);
    round_at(intents, 0, &seen);
    assert_keys(seen.begun, seen.n_begun, 2, 3, 1);
    assert_int_equal(seen.n_ended, 0);
    round_at(intents, 19, &seen);
    assert_int_equal(seen.n_begun + seen.n_ended, 0);
    round_at(intents, 20, &seen);
    assert_keys(seen.ended, seen.n_ended, 3);
    assert_true(intents_are_open(intents));
    round_at(intents, 100, &seen);
    assert_keys(seen.ended, seen.n_ended, 1, 2);
    assert_false(intents_are_open(intents));
    intents_free(intents);
}

/* An intent for a distant clock waits; a worker that goes on steadily never reaches its start first. */
static void intents_wait_until_it_is_time(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    say(intents, INTENT_TIMED, 1, 1000, 1001);
    uint64_t begun_at = 0;
    for (uint64_t clock = 0; clock < 1000; clock += 7) {
        round_at(intents, clock, &seen);
        assert_int_equal(seen.n_ended, 0);
        if (seen.n_begun)
            begun_at = clock;
    }
    assert_true(begun_at > 900 && begun_at < 1000);
    round_at(intents, 1001, &seen);
    assert_keys(seen.ended, seen.n_ended, 1);
    intents_free(intents);
}

static void at_once_waits_for_nothing(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    say(intents, INTENT_TIMED, 1, 1000000, 1000001);
    say(intents, INTENT_AT_ONCE, 2, 1000000, 1000001);
    round_at(intents, 0, &seen);
    assert_keys(seen.begun, seen.n_begun, 2);
    round_at(intents, 5, &seen);
    assert_int_equal(seen.n_begun + seen.n_ended, 0);
    close_worker(intents, &seen);
    assert_keys(seen.ended, seen.n_ended, 2);
    intents_free(intents);
}

static void a_start_in_the_past_means_now(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    round_at(intents, 50, &seen);
    say(intents, INTENT_TIMED, 1, 10, 60);
    round_at(intents, 50, &seen);
    assert_keys(seen.begun, seen.n_begun, 1);
    close_worker(intents, &seen);
    intents_free(intents);
}

/* What has expired before it was seen, or while it waited, neither begins nor ends. */
static void what_has_expired_never_begins(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    round_at(intents, 50, &seen);
    say(intents, INTENT_TIMED, 1, 10, 50);
    say(intents, INTENT_AT_ONCE, 2, 10, 50);
    say(intents, INTENT_TIMED, 3, 5000, 5010);
    round_at(intents, 50, &seen);
    assert_int_equal(seen.n_begun, 0);
    assert_true(intents_are_open(intents));
    round_at(intents, 6000, &seen);
    assert_int_equal(seen.n_begun + seen.n_ended, 0);
    assert_false(intents_are_open(intents));
    intents_free(intents);
}

/* The same key may be wanted several times at once, and longer than was said at first. */
static void intents_overlap_and_are_extended(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    say(intents, INTENT_TIMED, 7, 0, 5);
    say(intents, INTENT_TIMED, 7, 0, 5);
    say(intents, INTENT_TIMED, 7, 3, 9);
    round_at(intents, 0, &seen);
    assert_keys(seen.begun, seen.n_begun, 7, 7, 7);
    round_at(intents, 5, &seen);
    assert_keys(seen.ended, seen.n_ended, 7, 7);
    say(intents, INTENT_TIMED, 7, 9, 12);
    round_at(intents, 9, &seen);
    assert_keys(seen.begun, seen.n_begun, 7);
    assert_keys(seen.ended, seen.n_ended, 7);
    round_at(intents, 12, &seen);
    assert_keys(seen.ended, seen.n_ended, 7);
    intents_free(intents);
}

/* What begins and what ends in one round: the new intents come first, so that a key that both concern
 * stays wanted. */
static void begins_come_before_ends(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    say(intents, INTENT_TIMED, 1, 0, 4);
    round_at(intents, 0, &seen);
    say(intents, INTENT_TIMED, 2, 4, 8);
    round_at(intents, 4, &seen);
    assert_keys(seen.begun, seen.n_begun, 2);
    assert_keys(seen.ended, seen.n_ended, 1);
    close_worker(intents, &seen);
    assert_keys(seen.ended, seen.n_ended, 2);
    intents_free(intents);
}

static void closing_ends_what_is_active_and_forgets_the_rest(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    say(intents, INTENT_TIMED, 1, 1, UINT64_MAX);
    say(intents, INTENT_TIMED, 2, 0, 10);
    say(intents, INTENT_TIMED, 3, 100000, UINT64_MAX);
    round_at(intents, 0, &seen);
    assert_keys(seen.begun, seen.n_begun, 2, 1);
    say(intents, INTENT_TIMED, 4, 0, UINT64_MAX);
    close_worker(intents, &seen);
    assert_int_equal(seen.n_begun, 0);
    assert_keys(seen.ended, seen.n_ended, 2, 1);
    intents_free(intents);
}

static void an_intent_to_have_keys_here_has_no_end(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    say(intents, INTENT_HERE, 1, 0, 0);
    round_at(intents, 1000, &seen);
    assert_keys(seen.begun, seen.n_begun, 1);
    assert_false(intents_are_open(intents));
    close_worker(intents, &seen);
    assert_int_equal(seen.n_ended, 0);
    intents_free(intents);
}

/* Intents that are longer than a chunk of the queue, and many that fill several. */
static void any_length_is_kept_whole(void **state)
{
    (void)state;
    enum { LONG = 100000, MANY = 4000 };
    struct intents *intents = fresh();
    struct seen seen;
    uint64_t *keys = array_of(LONG, sizeof *keys);
    for (uint64_t i = 0; i < LONG; i++)
        keys[i] = i * i;
    for (uint64_t i = 0; i < MANY; i++) {
        keys[0] = i;
        assert_true(
            intents_add(intents, INTENT_TIMED, TABLE, GENERATION, keys, 1 + i % 90, 0, i + 1));
    }
    keys[0] = MANY;
    assert_true(intents_add(intents, INTENT_TIMED, TABLE, GENERATION, keys, LONG, 0, MANY + 1));
    round_at(intents, 0, &seen);
    assert_int_equal(seen.n_begun, MANY + 1);
    for (uint64_t i = 0; i <= MANY; i++) {
        const struct intent *intent = intents->active.places[0].intent;
        assert_int_equal(intent->n, i < MANY ? 1 + i % 90 : LONG);
        assert_memory_equal(intent->keys + 1, keys + 1, (intent->n - 1) * sizeof *keys);
        round_at(intents, i + 1, &seen);
        assert_keys(seen.ended, seen.n_ended, i);
    }
    free(keys);
    intents_free(intents);
}

/* Freeing with intents in every state loses no memory; the sanitizer counts. */
static void it_is_freed_in_any_state(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct seen seen;
    uint64_t keys[500] = {0};
    for (uint64_t i = 0; i < 300; i++)
        assert_true(intents_add(intents, INTENT_TIMED, TABLE, GENERATION, keys, 500, i, i + 100));
    round_at(intents, 150, &seen);
    for (uint64_t i = 0; i < 100; i++)
        assert_true(intents_add(intents, INTENT_TIMED, TABLE, GENERATION, keys, 500, i, i + 500));
    assert_true(intents_are_open(intents));
    intents_free(intents);
}

/* When memory is used up a round says so, and the next one takes up what was left. */
static void nothing_is_lost_when_memory_is_used_up(void **state)
{
    (void)state;
    enum { N = 500 };
    for (uint64_t at = 1; at <= 12; at++) {
        struct intents *intents = fresh();
        struct seen seen = {.n_begun = 0};
        for (uint64_t i = 0; i < N; i++)
            say(intents, i % 10 ? INTENT_TIMED : INTENT_HERE, i, 0, N);
        alloc_fail_at(at);
        bool complete = intents_round(intents, ROUND_NS * ++n_rounds, 2 * ROUND_NS, note_begin,
                                      note_end, &seen);
        alloc_fail_at(0);
        assert_true(complete == (at > 8));
        assert_true(intents_round(intents, ROUND_NS * ++n_rounds, 2 * ROUND_NS, note_begin,
                                  note_end, &seen));
        assert_int_equal(seen.n_begun, N);
        bool found[N] = {false};
        for (size_t i = 0; i < N; i++) {
            assert_false(found[seen.begun[i]]);
            found[seen.begun[i]] = true;
        }
        intents_free(intents);
    }
    alloc_fail_from(1);
    assert_null(intents_new());
    alloc_fail_from(0);
    struct intents *intents = fresh();
    uint64_t keys[10000] = {0};
    alloc_fail_from(1);
    assert_false(intents_add(intents, INTENT_TIMED, TABLE, GENERATION, keys, 10000, 0, 1));
    alloc_fail_from(0);
    assert_true(intents_add(intents, INTENT_TIMED, TABLE, GENERATION, keys, 10000, 0, 1));
    intents_free(intents);
}

/* ---- Two threads --------------------------------------------------------------------------------- */

enum { STEPS = 20000 };

/* The worker's side: an intent per step, of some keys that follow each other, for a later step. */
static void *add_and_advance(void *context)
{
    struct intents *intents = context;
    struct dice dice = {3};
    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t keys[40], n = 1 + dice_below(&dice, 40), start = step + dice_below(&dice, 100);
        for (uint64_t i = 0; i < n; i++)
            keys[i] = step + i;
        holds(intents_add(intents, INTENT_TIMED, TABLE, GENERATION, keys, n, start, start + 5));
        atomic_store_explicit(&intents->clock, step + 1, memory_order_relaxed);
    }
    atomic_store_explicit(&intents->is_over, true, memory_order_release);
    return NULL;
}

/* The state of each step's intent: 0 new, 1 begun, 2 ended. */
struct steps {
    uint8_t states[STEPS];
    size_t n_begun, n_ended;
};

static void check_whole(const struct intent *intent)
{
    for (uint32_t i = 0; i < intent->n; i++)
        holds(intent->keys[i] == intent->keys[0] + i);
}

static void step_begins(void *context, const struct intent *intent)
{
    struct steps *steps = context;
    check_whole(intent);
    holds(intent->keys[0] < STEPS && steps->states[intent->keys[0]]++ == 0);
    steps->n_begun++;
}

static void step_ends(void *context, const struct intent *intent)
{
    struct steps *steps = context;
    check_whole(intent);
    holds(steps->states[intent->keys[0]]++ == 1);
    steps->n_ended++;
}

static void a_worker_appends_while_rounds_read(void **state)
{
    (void)state;
    struct intents *intents = fresh();
    struct steps *steps = array_of(1, sizeof *steps);
    pthread_t worker;
    assert_int_equal(pthread_create(&worker, NULL, add_and_advance, intents), 0);
    bool is_over = false;
    while (!is_over) {
        is_over = atomic_load_explicit(&intents->is_over, memory_order_acquire);
        holds(intents_round(intents, ROUND_NS * ++n_rounds, 2 * ROUND_NS, step_begins, step_ends,
                            steps));
    }
    pthread_join(worker, NULL);
    all_held();
    assert_int_equal(intents->active.n, 0);
    assert_int_equal(steps->n_begun, steps->n_ended);
    intents_free(intents);
    free(steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intents_begin_by_start_and_end_by_end),
        cmocka_unit_test(intents_wait_until_it_is_time),
        cmocka_unit_test(at_once_waits_for_nothing),
        cmocka_unit_test(a_start_in_the_past_means_now),
        cmocka_unit_test(what_has_expired_never_begins),
        cmocka_unit_test(intents_overlap_and_are_extended),
        cmocka_unit_test(begins_come_before_ends),
        cmocka_unit_test(closing_ends_what_is_active_and_forgets_the_rest),
        cmocka_unit_test(an_intent_to_have_keys_here_has_no_end),
        cmocka_unit_test(any_length_is_kept_whole),
        cmocka_unit_test(it_is_freed_in_any_state),
        cmocka_unit_test(nothing_is_lost_when_memory_is_used_up),
        cmocka_unit_test(a_worker_appends_while_rounds_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
