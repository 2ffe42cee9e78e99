/*
 * What every technique must have for the rest of the system to use it through its functions alone; and `cached`, the
 * example in HACKING.md: misses fill the cache, which keeps no more keys than it may.
 */
#include "core/manager_internal.h" /* before cmocka, whose macro fail() would hide the function */

#include "support/alloc.h"
#include "support/check.h"
#include "support/view.h"

enum { N_KEYS = 100, CACHED_KEYS = 8 };

/* A table of node 0 of 2. */
struct site {
    struct core core;
    struct policy policy;
    struct core_table table;
    struct tern_table_options options;
};

static bool site_open(struct site *site, const struct policy *policy)
{
    *site = (struct site){.core = {.view = view_of(2)}, .policy = *policy};
    site->options = shape(TERN_DENSE, TERN_I64, N_KEYS, 1);
    struct store_home home = technique_home(&site->core, &site->policy, &site->options, NULL, NULL);
    if (store_init(&site->table.store, "rows", &site->options, &home))
        return false;
    site->table.policy = &site->policy;
    if (technique_open(&site->core, &site->table,
                       &(struct technique_setup){.options = &site->options, .generation = 1}))
        return true;
    technique_close(&site->table);
    store_fini(&site->table.store);
    return false;
}

static void site_close(struct site *site)
{
    technique_close(&site->table);
    store_fini(&site->table.store);
}

/* What belongs together is there together. */
static void check_functions(const struct technique *technique)
{
    assert_non_null(technique->where);
    assert_non_null(technique->explain);
    assert_non_null(technique->copy);
    assert_true(!technique->open == !technique->close);
    assert_true(!technique->open == !technique->stats);
    if (technique->ask) {
        assert_non_null(technique->has_question);
        assert_non_null(technique->answer);
        assert_non_null(technique->end);
    }
    if (technique->intent) {
        assert_non_null(technique->want);
        assert_non_null(technique->unwant);
        assert_non_null(technique->localize);
        assert_non_null(technique->learn);
    }
    if (technique->admit) {
        assert_non_null(technique->fetch);
        assert_non_null(technique->size);
        assert_non_null(technique->admit_update);
        assert_non_null(technique->updated);
        assert_non_null(technique->awaits_workers);
        assert_non_null(technique->settle);
        assert_non_null(technique->inquire);
        assert_non_null(technique->blame);
    }
    if (technique->rows == ROWS_MOVE) {
        assert_non_null(technique->find);
        assert_non_null(technique->is_idle);
    }
}

static void every_preset_has_a_whole_technique(void **state)
{
    (void)state;
    struct policy policy;
    size_t n = 0;
    for (; policy_at(n, &policy); n++) {
        struct site site;
        char text[512];
        struct text out = {.bytes = text, .size = sizeof text};
        struct tern_table_stats stats = {0};
        assert_true(site_open(&site, &policy));
        const struct technique *technique = site.table.technique;
        check_functions(technique);
        technique->explain(&site.core, &site.table, 3, &out);
        assert_non_null(strstr(text, policy.name));
        if (technique->stats)
            technique->stats(&site.table, 0, &stats);
        site_close(&site);
    }
    assert_true(n >= 10);
}

static void opening_fails_whole_when_memory_runs_out(void **state)
{
    (void)state;
    struct policy policy;
    for (size_t i = 0; policy_at(i, &policy); i++) {
        struct site site;
        bool opened = false;
        for (uint64_t n = 1; !opened; n++) {
            alloc_fail_at(n);
            opened = site_open(&site, &policy);
            alloc_fail_at(0);
        }
        site_close(&site);
    }
}

static uint32_t n_intents(const struct site *site, uint64_t key)
{
    struct key_facts facts;
    manager_facts(managed_shard(&site->table, 0), key, &facts);
    return facts.n_intents;
}

static void a_cache_keeps_the_latest_misses(void **state)
{
    (void)state;
    struct policy policy;
    struct site site;
    assert_true(policy_find("cached", &policy));
    assert_true(site_open(&site, &policy));
    const struct technique *technique = site.table.technique;
    assert_int_equal(technique->intent(&policy, BY_MISS), INTENT_AT_ONCE);
    assert_int_equal(technique->intent(&policy, BY_INTENT), INTENT_NONE);
    for (uint64_t key = N_KEYS / 2; key < N_KEYS; key++) {
        technique->want(&site.table, 0, &key, 1);
        for (uint64_t before = N_KEYS / 2; before <= key; before++)
            assert_int_equal(n_intents(&site, before), before + CACHED_KEYS > key);
    }
    /* Displaced keys have gone before their time is over; the others go then, in any order. */
    for (uint64_t key = N_KEYS; key-- > N_KEYS / 2;) {
        technique->unwant(&site.table, 0, &key, 1);
        assert_int_equal(n_intents(&site, key), 0);
    }
    site_close(&site);
}

/* A user who misspells a policy is told all names. */
static void every_preset_has_its_name_in_the_sentence(void **state)
{
    (void)state;
    struct policy policy;
    size_t i = 0;
    for (; policy_at(i, &policy); i++)
        assert_non_null(strstr(policy_names(), policy.name));
    assert_true(i > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_has_its_name_in_the_sentence),
        cmocka_unit_test(every_preset_has_a_whole_technique),
        cmocka_unit_test(opening_fails_whole_when_memory_runs_out),
        cmocka_unit_test(a_cache_keeps_the_latest_misses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
