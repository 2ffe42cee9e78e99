/* test_strangers - who makes room: never those who open few connections for those who open many. */
#include "node/strangers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { N = 100 };

#define MS UINT64_C(1000000)

static struct stranger all[N];

/* Strangers of one source, at time 0. */
static void add_from(struct strangers *strangers, int first, int n, uint64_t source,
                     enum stage stage)
{
    for (int i = first; i < first + n; i++) {
        all[i] = (struct stranger){.source = source, .stage = stage};
        strangers_add(strangers, &all[i]);
    }
}

static void the_young_stay(void **state)
{
    (void)state;
    struct strangers strangers = {0};
    add_from(&strangers, 0, 10, 7, STAGE_SILENT);
    assert_null(strangers_choose(&strangers, (STRANGER_MIN_MS - 1) * MS));
    assert_non_null(strangers_choose(&strangers, STRANGER_MIN_MS * MS));
    all[3].since_ns = 1;
    for (int i = 0; i < 1000; i++)
        assert_ptr_not_equal(strangers_choose(&strangers, STRANGER_MIN_MS * MS), &all[3]);
}

/* One caller of one host, at whatever stage, outlasts any number of another's. */
static void a_source_with_few_is_spared(void **state)
{
    (void)state;
    for (enum stage stage = STAGE_SILENT; stage <= STAGE_PROVED; stage++) {
        struct strangers strangers = {0};
        add_from(&strangers, 0, 1, 1, STAGE_SILENT);
        add_from(&strangers, 1, N - 1, 2, stage);
        for (int i = 0; i < N - 2; i++) {
            struct stranger *chosen = strangers_choose(&strangers, STRANGER_MIN_MS * MS);
            assert_int_equal(chosen->source, 2);
            strangers_remove(&strangers, chosen);
        }
        assert_int_equal(strangers.n, 2);
    }
}

static void who_has_come_far_is_spared(void **state)
{
    (void)state;
    struct strangers strangers = {0};
    add_from(&strangers, 0, 10, 1, STAGE_CHALLENGED);
    add_from(&strangers, 10, 50, 1, STAGE_HEARD);
    add_from(&strangers, 60, 40, 1, STAGE_SILENT);
    for (int i = 0; i < N; i++) {
        struct stranger *chosen = strangers_choose(&strangers, STRANGER_MIN_MS * MS);
        enum stage expected = i < 40 ? STAGE_SILENT : i < 90 ? STAGE_HEARD : STAGE_CHALLENGED;
        assert_int_equal(chosen->stage, expected);
        strangers_remove(&strangers, chosen);
    }
    assert_null(strangers_choose(&strangers, STRANGER_MIN_MS * MS));
    assert_int_equal(strangers.n, 0);
}

/* Among equals chance decides: in 100 * N draws each is chosen about 100 times. */
static void chance_decides(void **state)
{
    (void)state;
    struct strangers strangers = {0};
    int n_chosen[N] = {0};
    add_from(&strangers, 0, N, 1, STAGE_HEARD);
    for (int i = 0; i < 100 * N; i++)
        n_chosen[strangers_choose(&strangers, STRANGER_MIN_MS * MS + (uint64_t)i) - all]++;
    for (int i = 0; i < N; i++)
        assert_in_range(n_chosen[i], 40, 180);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_young_stay),
        cmocka_unit_test(a_source_with_few_is_spared),
        cmocka_unit_test(who_has_come_far_is_spared),
        cmocka_unit_test(chance_decides),
    };
    return cmocka_run_group_tests_name("strangers", tests, NULL, NULL);
}
