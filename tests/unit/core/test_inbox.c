/* What comes twice is taken once; what is too much is told so; the order is kept. */
#include "core/inbox.h"

#include "support/check.h"
#include "support/view.h"

enum { NODES = 3 };

static struct task_message message_of(uint64_t begin, uint64_t end)
{
    return (struct task_message){
        .worker = 5, .begin = begin, .end = end, .name = "step!", .name_bytes = 4};
}

/* A connection that breaks: a run of the last messages comes again, then new ones. */
static void what_is_sent_again_is_taken_once(void **state)
{
    (void)state;
    enum { MESSAGES = 4000 };
    struct inbox *inbox = inbox_new(view_of(NODES));
    struct dice dice = {3};
    static struct task_message sent[MESSAGES];
    uint64_t n_sent = 0, n_taken = 0, n_again = 0;
    while (n_sent < MESSAGES) {
        uint64_t back = dice_below(&dice, 30) == 0 ? dice_below(&dice, 50) : 0;
        for (uint64_t i = back < n_sent ? n_sent - back : 0; i < n_sent; i++, n_again++)
            ok(inbox_put(inbox, 1, i + 1, i, &sent[i]));
        uint64_t begin = dice_below(&dice, 100);
        sent[n_sent] = message_of(begin, begin + 1 + dice_below(&dice, 100));
        ok(inbox_put(inbox, 1, n_sent + 1, n_sent, &sent[n_sent]));
        n_sent++;
        for (struct inbox_task *task; dice_below(&dice, 3) && (task = inbox_next(inbox));) {
            assert_int_equal(task->id, n_taken);
            assert_int_equal(task->begin, sent[n_taken].begin);
            assert_int_equal(task->end, sent[n_taken].end);
            assert_int_equal(task->from, 1);
            assert_string_equal(task->name, "step");
            n_taken++;
            free(task);
        }
    }
    assert_int_equal(n_taken + inbox_count(inbox), MESSAGES);
    assert_true(n_again > 1000);
    inbox_free(inbox);
}

/* More ranges than a clock has room for. */
static void many_ranges_are_no_matter(void **state)
{
    (void)state;
    enum { MESSAGES = 20000 };
    struct inbox *inbox = inbox_new(view_of(NODES));
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < MESSAGES; i++) {
            struct task_message message = message_of(7 * i, 7 * i + 3);
            ok(inbox_put(inbox, 0, i + 1, i, &message));
            if (i > 100) {
                message = message_of(7 * (i - 100), 7 * (i - 100) + 3);
                ok(inbox_put(inbox, 0, i - 99, i - 100, &message));
            }
        }
    assert_int_equal(inbox_count(inbox), MESSAGES);
    inbox_free(inbox);
}

static void nodes_do_not_disturb_each_other(void **state)
{
    (void)state;
    struct inbox *inbox = inbox_new(view_of(NODES));
    const struct task_message message = message_of(0, UINT64_MAX);
    for (uint32_t node = 0; node < NODES; node++)
        for (int again = 0; again < 3; again++)
            ok(inbox_put(inbox, node, 1, 1, &message));
    assert_int_equal(inbox_count(inbox), NODES);
    inbox_free(inbox);
}

static void of_too_many_only_that_is_kept(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    struct inbox *inbox = inbox_new(view_of(NODES));
    struct task_message message = message_of(0, 9);
    message.argument = array_of(BYTES, 1);
    message.argument_bytes = BYTES;
    uint64_t n = INBOX_MAX_BYTES / BYTES + 5, n_too_many = 0, n_bytes = 0;
    for (uint64_t i = 1; i <= n; i++)
        ok(inbox_put(inbox, 2, i, i, &message));
    uint64_t id = 0;
    for (struct inbox_task *task; (task = inbox_next(inbox)); free(task)) {
        assert_int_equal(task->id, ++id);
        n_too_many += task->is_one_too_many;
        n_bytes += task->argument_bytes;
    }
    assert_int_equal(id, n);
    assert_int_equal(n_too_many, 6);
    assert_true(n_bytes <= INBOX_MAX_BYTES);
    /* There is room again. */
    ok(inbox_put(inbox, 2, n + 1, n + 1, &message));
    struct inbox_task *task = inbox_next(inbox);
    assert_false(task->is_one_too_many);
    free(task);
    free((void *)(uintptr_t)message.argument);
    inbox_free(inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_again_is_taken_once),
        cmocka_unit_test(many_ranges_are_no_matter),
        cmocka_unit_test(nodes_do_not_disturb_each_other),
        cmocka_unit_test(of_too_many_only_that_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
