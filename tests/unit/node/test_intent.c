/*
 * Intent, localize and flush on a node that is alone: what makes no sense is refused with a sentence, and
 * everything else is accepted and changes nothing. What they do in a cluster is in tests/cluster.
 */
#include "support/check.h"

static const char *const policies[] = {"adaptive",          "adaptive-replicate",
                                       "adaptive-relocate", "adaptive-at-once",
                                       "relocate",          "static"};

static struct tern_table *managed(struct place *place, enum tern_index index, const char *policy)
{
    struct tern_table_options options = shape(index, TERN_I64, 100, 2);
    options.policy = policy;
    return table_of(place->node, policy, options);
}

static void intents_of_any_time_are_accepted(void **state)
{
    struct place *place = *state;
    const uint64_t keys[] = {0, 99, 0, 50};
    const uint64_t times[][2] = {
        {0, 1}, {0, 0}, {5, 5}, {0, UINT64_MAX}, {10, 20}, {1000, 1001}, {UINT64_MAX, UINT64_MAX}};
    for (int i = 0; i < 10; i++)
        ok(tern_worker_advance(place->worker, NULL));
    for (size_t p = 0; p < COUNT(policies); p++) {
        struct tern_table *table = managed(place, TERN_DENSE, policies[p]);
        for (size_t i = 0; i < COUNT(times); i++) {
            ok(tern_intent(place->worker, table, keys, COUNT(keys), times[i][0], times[i][1]));
            ok(tern_intent(place->worker, table, NULL, 0, times[i][0], times[i][1]));
        }
        ok(tern_localize(place->worker, table, keys, COUNT(keys)));
        ok(tern_localize(place->worker, table, NULL, 0));
        ok(tern_flush(place->worker));
        assert_int_equal(stats_of(table).rows, 0);
        assert_int_equal(stats_of(table).moved_here, 0);
        ok(tern_table_close(table));
    }
}

static void an_end_before_the_start_is_refused(void **state)
{
    struct place *place = *state;
    const uint64_t key = 1;
    for (size_t p = 0; p < COUNT(policies); p++) {
        struct tern_table *table = managed(place, TERN_SPARSE, policies[p]);
        refused(tern_intent(place->worker, table, &key, 1, 8, 7), TERN_INVALID, policies[p], "8",
                "7");
        refused(tern_intent(place->worker, table, NULL, 0, UINT64_MAX, 0), TERN_INVALID,
                policies[p]);
        ok(tern_table_close(table));
    }
}

static void keys_outside_the_table_are_refused(void **state)
{
    struct place *place = *state;
    const uint64_t keys[] = {3, 99, 100}, largest = UINT64_MAX;
    for (size_t p = 0; p < COUNT(policies); p++) {
        struct tern_table *table = managed(place, TERN_DENSE, policies[p]);
        refused(tern_intent(place->worker, table, keys, 3, 0, 1), TERN_RANGE, "100", policies[p]);
        refused(tern_localize(place->worker, table, keys, 3), TERN_RANGE, "100", "position 2");
        refused(tern_intent(place->worker, table, &largest, 1, 0, 1), TERN_RANGE,
                "18446744073709551615");
        ok(tern_table_close(table));
    }
    struct tern_table *sparse = managed(place, TERN_SPARSE, "adaptive");
    ok(tern_intent(place->worker, sparse, &largest, 1, 0, 1));
}

static void handles_and_arrays_are_checked(void **state)
{
    struct place *place = *state;
    const uint64_t key = 1;
    struct tern_table *table = managed(place, TERN_DENSE, "adaptive");
    refused(tern_intent(NULL, table, &key, 1, 0, 1), TERN_INVALID, "NULL");
    refused(tern_intent(place->worker, NULL, &key, 1, 0, 1), TERN_INVALID, "NULL");
    refused(tern_intent(place->worker, table, NULL, 1, 0, 1), TERN_INVALID, "keys");
    refused(tern_localize(place->worker, table, NULL, 1), TERN_INVALID, "keys");
    refused(tern_localize(NULL, table, &key, 1), TERN_INVALID, "NULL");
    refused(tern_flush(NULL), TERN_INVALID, "NULL");
    refused(tern_flush((struct tern_worker *)table), TERN_INVALID, "worker");
    struct tern_worker *closed;
    ok(tern_worker_open(place->node, &closed));
    ok(tern_worker_close(closed));
    refused(tern_intent(closed, table, &key, 1, 0, 1), TERN_CLOSED, "closed");
    refused(tern_flush(closed), TERN_CLOSED, "closed");
    ok(tern_table_close(table));
    refused(tern_intent(place->worker, table, &key, 1, 0, 1), TERN_CLOSED, "closed");
}

/* A worker may close, and a table, with intents open. */
static void nothing_waits_for_an_intent_to_end(void **state)
{
    struct place *place = *state;
    const uint64_t key = 1;
    struct tern_table *table = managed(place, TERN_DENSE, "adaptive");
    struct tern_worker *worker;
    ok(tern_worker_open(place->node, &worker));
    for (int i = 0; i < 1000; i++)
        ok(tern_intent(worker, table, &key, 1, 0, UINT64_MAX));
    ok(tern_table_close(table));
    ok(tern_worker_close(worker));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(intents_of_any_time_are_accepted),   placed(an_end_before_the_start_is_refused),
        placed(keys_outside_the_table_are_refused), placed(handles_and_arrays_are_checked),
        placed(nothing_waits_for_an_intent_to_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
