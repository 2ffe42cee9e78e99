/*
 * The tasks of a caller: what may start when, against the rule taken literally, in random orders of
 * finishing; what is reported of them; and progress against a time per key.
 */
#include "core/schedule.h"

#include "support/check.h"
#include "support/view.h"

enum { NODES = 4, KEYS = 16 };

static struct task_order order_of(const struct task_part *parts, size_t n_parts)
{
    return (struct task_order){.name = "step", .parts = parts, .n_parts = n_parts};
}

static uint64_t submit_to(struct schedule *schedule, uint32_t node)
{
    const struct task_part part = {.node = node, .begin = 0, .end = UINT64_MAX};
    struct task_order order = order_of(&part, 1);
    uint64_t id;
    ok(schedule_submit(schedule, &order, &id));
    return id;
}

static uint64_t next_id(struct schedule *schedule)
{
    const struct task *task = schedule_next(schedule);
    return task ? task->id : 0;
}

static void finish(struct schedule *schedule, uint64_t id, uint32_t node)
{
    schedule_finish(schedule, id, node, TERN_OK, NULL, 0);
}

/* How a task that has finished ended. */
static enum tern_status outcome_of(struct schedule *schedule, uint64_t id)
{
    enum tern_status status;
    assert_true(schedule_ended(schedule, id, &status));
    return status;
}

/* ---- The three patterns ------------------------------------------------------------------------- */

static void sequential_tasks_start_one_after_the_other(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    for (int i = 0; i < 5; i++)
        submit_to(schedule, 0);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(next_id(schedule), id);
        assert_int_equal(next_id(schedule), 0);
        finish(schedule, id, 0);
    }
    assert_true(schedule_is_idle(schedule));
    schedule_free(schedule);
}

static void eventual_tasks_start_at_once(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    schedule_set_delay(schedule, TERN_EVENTUAL);
    for (int i = 0; i < 5; i++)
        submit_to(schedule, 0);
    for (uint64_t id = 1; id <= 5; id++)
        assert_int_equal(next_id(schedule), id);
    assert_int_equal(next_id(schedule), 0);
    schedule_free(schedule);
}

static void delay_bounds_and_may_change(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    schedule_set_delay(schedule, 2);
    for (int i = 0; i < 12; i++)
        submit_to(schedule, 0);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(next_id(schedule), id);
    assert_int_equal(next_id(schedule), 0);
    /* Task 4 waits for task 1, whatever else has finished. */
    finish(schedule, 2, 0);
    finish(schedule, 3, 0);
    assert_int_equal(next_id(schedule), 0);
    finish(schedule, 1, 0);
    for (uint64_t id = 4; id <= 6; id++)
        assert_int_equal(next_id(schedule), id);
    assert_int_equal(next_id(schedule), 0);
    schedule_set_delay(schedule, 4);
    assert_int_equal(next_id(schedule), 7);
    assert_int_equal(next_id(schedule), 8);
    assert_int_equal(next_id(schedule), 0);
    schedule_set_delay(schedule, 0);
    for (uint64_t id = 4; id <= 7; id++)
        finish(schedule, id, 0);
    assert_int_equal(next_id(schedule), 0);
    finish(schedule, 8, 0);
    assert_int_equal(next_id(schedule), 9);
    assert_int_equal(next_id(schedule), 0);
    schedule_free(schedule);
}

/* ---- Random tasks against the rule --------------------------------------------------------------- */

enum { TASKS = 60, MAX_AFTER = 3 };

/* A schedule belongs to one thread: under ThreadSanitizer a few are enough. */
#ifdef UNDER_TSAN
enum { N_RANDOM = 12 };
#else
enum { N_RANDOM = 60 };
#endif

struct model {
    struct schedule *schedule;
    struct dice dice;
    uint64_t delay;
    uint64_t n;
    struct {
        struct task_part parts[NODES];
        size_t n_parts;
        uint64_t after[MAX_AFTER];
        size_t n_after;
        bool has_started, has_finished[NODES], has_failed[NODES];
    } tasks[TASKS + 1];
};

static bool has_ended(const struct model *model, uint64_t id)
{
    for (size_t i = 0; i < model->tasks[id].n_parts; i++)
        if (!model->tasks[id].has_finished[i])
            return false;
    return true;
}

/* The rule of tern.h, word by word. */
static bool may_start(const struct model *model, uint64_t id)
{
    for (uint64_t earlier = 1; earlier < id; earlier++)
        if (id - earlier > model->delay && !has_ended(model, earlier))
            return false;
    for (size_t i = 0; i < model->tasks[id].n_after; i++)
        if (!has_ended(model, model->tasks[id].after[i]))
            return false;
    return true;
}

static void submit_random(struct model *model)
{
    uint64_t id = ++model->n;
    struct dice *dice = &model->dice;
    for (uint32_t node = 0; node < NODES; node++) {
        if (dice_below(dice, 2) && !(node == NODES - 1 && !model->tasks[id].n_parts))
            continue;
        uint64_t begin = dice_below(dice, KEYS);
        model->tasks[id].parts[model->tasks[id].n_parts++] = (struct task_part){
            .node = node, .begin = begin, .end = begin + 1 + dice_below(dice, KEYS - begin)};
    }
    while (id > 1 && model->tasks[id].n_after < dice_below(dice, MAX_AFTER + 1))
        model->tasks[id].after[model->tasks[id].n_after++] = 1 + dice_below(dice, id - 1);
    struct task_order order = order_of(model->tasks[id].parts, model->tasks[id].n_parts);
    order.after = model->tasks[id].after;
    order.n_after = model->tasks[id].n_after;
    uint64_t given;
    ok(schedule_submit(model->schedule, &order, &given));
    assert_int_equal(given, id);
}

/* Everything that may start does, and nothing else. */
static void start_all(struct model *model)
{
    uint64_t id;
    while ((id = next_id(model->schedule))) {
        assert_false(model->tasks[id].has_started);
        assert_true(may_start(model, id));
        model->tasks[id].has_started = true;
    }
    for (id = 1; id <= model->n; id++)
        assert_true(model->tasks[id].has_started || !may_start(model, id));
}

static void finish_random(struct model *model)
{
    uint64_t id = 1 + dice_below(&model->dice, model->n);
    size_t i = dice_below(&model->dice, model->tasks[id].n_parts);
    uint32_t node = model->tasks[id].parts[i].node;
    bool fails = dice_below(&model->dice, 8) == 0;
    bool fresh = model->tasks[id].has_started && !model->tasks[id].has_finished[i];
    bool ended = schedule_finish(model->schedule, id, node, fails ? TERN_RANGE : TERN_OK, "why",
                                 fails ? 3 : 0);
    /* What was reported before, or has not started, is ignored. */
    if (fresh) {
        model->tasks[id].has_finished[i] = true;
        model->tasks[id].has_failed[i] = fails;
    }
    assert_int_equal(ended, fresh && has_ended(model, id));
}

/* The last task of which all before it, at this node, have finished; for a key that it succeeded for. */
static uint64_t progress_by_key(const struct model *model, uint32_t node, uint64_t key)
{
    uint64_t last = 0;
    for (uint64_t id = 1; id <= model->n; id++) {
        for (size_t i = 0; i < model->tasks[id].n_parts; i++) {
            const struct task_part *part = &model->tasks[id].parts[i];
            if (part->node != node)
                continue;
            if (!model->tasks[id].has_finished[i])
                return last;
            if (!model->tasks[id].has_failed[i] && part->begin <= key && key < part->end)
                last = id;
        }
    }
    return last;
}

static void check_progress(const struct model *model)
{
    uint64_t begin = 3, end = 11, least_of_all = UINT64_MAX;
    for (uint32_t node = 0; node < NODES; node++) {
        uint64_t least = UINT64_MAX;
        for (uint64_t key = 0; key < KEYS; key++) {
            uint64_t time = progress_by_key(model, node, key);
            assert_int_equal(schedule_progress(model->schedule, node, key, key + 1), time);
            if (key >= begin && key < end && time < least)
                least = time;
        }
        assert_int_equal(schedule_progress(model->schedule, node, begin, end), least);
        least_of_all = least < least_of_all ? least : least_of_all;
    }
    assert_int_equal(schedule_progress(model->schedule, TERN_ALL_NODES, begin, end), least_of_all);
}

static void report_random(struct model *model)
{
    uint64_t id = 1 + dice_below(&model->dice, model->n);
    enum tern_status status = TERN_OK;
    assert_int_equal(schedule_ended(model->schedule, id, &status), has_ended(model, id));
}

static void random_tasks_follow_the_rule(void **state)
{
    (void)state;
    static const uint64_t delays[] = {0, 1, 3, 10, TERN_EVENTUAL};
    for (uint64_t seed = 0; seed < N_RANDOM; seed++) {
        struct model model = {.schedule = schedule_new(view_of(NODES)), .dice = {seed}};
        assert_non_null(model.schedule);
        while (!schedule_is_idle(model.schedule) || model.n < TASKS) {
            size_t what = dice_below(&model.dice, 100);
            if (what < 20 && model.n < TASKS) {
                submit_random(&model);
            } else if (what < 25) {
                model.delay = delays[dice_below(&model.dice, COUNT(delays))];
                schedule_set_delay(model.schedule, model.delay);
            } else if (model.n && what < 30) {
                report_random(&model);
            } else if (model.n) {
                finish_random(&model);
            }
            start_all(&model);
            check_progress(&model);
        }
        schedule_free(model.schedule);
    }
}

/* ---- Reports -------------------------------------------------------------------------------------- */

static void results_go_to_their_places(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    const struct task_part parts[] = {{.node = 1, .end = 9}, {.node = 3, .end = 9}};
    char results[NODES * 4] = "";
    size_t sizes[NODES] = {0};
    struct task_order order = order_of(parts, 2);
    order.result_bytes = 4;
    order.results = results;
    order.result_sizes = sizes;
    uint64_t id;
    enum tern_status status;
    ok(schedule_submit(schedule, &order, &id));
    assert_int_equal(next_id(schedule), 1);
    assert_false(schedule_finish(schedule, 1, 3, TERN_OK, "drei", 4));
    assert_false(schedule_finish(schedule, 1, 3, TERN_OK, "vier", 4));
    assert_false(schedule_ended(schedule, 1, &status));
    assert_true(schedule_finish(schedule, 1, 1, TERN_OK, "un", 2));
    assert_true(schedule_ended(schedule, 1, &status));
    ok(status);
    assert_memory_equal(results + 12, "drei", 4);
    assert_memory_equal(results + 4, "un\0\0", 4);
    assert_int_equal(sizes[1], 2);
    assert_int_equal(sizes[3], 4);
    schedule_free(schedule);
}

static void a_result_that_is_too_long_is_a_failure(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    submit_to(schedule, 2);
    assert_int_equal(next_id(schedule), 1);
    assert_true(schedule_finish(schedule, 1, 2, TERN_OK, "long", 4));
    refused(outcome_of(schedule, 1), TERN_LIMIT, "4 bytes", "room for 0", "node 2");
    schedule_free(schedule);
}

static void a_failure_is_reported_once_and_names_all(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    enum tern_status status;
    submit_to(schedule, 2);
    submit_to(schedule, 2);
    assert_int_equal(next_id(schedule), 1);
    assert_true(schedule_finish(schedule, 1, 2, TERN_CONFLICT, "no water", 8));
    /* A task that failed has finished: the next one starts. */
    assert_int_equal(next_id(schedule), 2);
    assert_true(schedule_ended(schedule, 1, &status));
    assert_int_equal(status, TERN_CONFLICT);
    assert_string_equal(tern_error(), "task 1 ('step') at node 2: no water");
    assert_true(schedule_ended(schedule, 1, &status));
    ok(status);
    assert_int_equal(schedule_progress(schedule, 2, 0, UINT64_MAX), 0);
    schedule_free(schedule);
}

static void of_all_the_first_failure_is_reported(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    enum tern_status status = TERN_RANGE;
    assert_true(schedule_all_ended(schedule, &status));
    ok(status);
    schedule_set_delay(schedule, TERN_EVENTUAL);
    for (uint64_t id = 1; id <= 4; id++) {
        submit_to(schedule, 1);
        assert_int_equal(next_id(schedule), id);
    }
    for (uint64_t id = 4; id >= 1; id--) {
        assert_false(schedule_all_ended(schedule, &status));
        schedule_finish(schedule, id, 1, id % 2 ? TERN_OK : TERN_CONFLICT, "ebb", id % 2 ? 0 : 3);
    }
    assert_true(schedule_all_ended(schedule, &status));
    assert_int_equal(status, TERN_CONFLICT);
    assert_string_equal(tern_error(), "task 2 ('step') at node 1: ebb");
    assert_true(schedule_all_ended(schedule, &status));
    ok(status);
    schedule_free(schedule);
}

static void a_dead_node_fails_what_is_under_way_there(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    enum tern_status status;
    schedule_set_delay(schedule, 2);
    for (uint32_t node = 0; node < NODES; node++)
        submit_to(schedule, node % 2);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(next_id(schedule), id);
    finish(schedule, 3, 0);
    assert_true(schedule_waits_for(schedule, 1));
    assert_false(schedule_waits_for(schedule, 2));
    schedule_fail_node(schedule, 1, "it has died");
    assert_false(schedule_waits_for(schedule, 1));
    refused(outcome_of(schedule, 2), TERN_PEER, "task 2", "node 1", "it has died");
    assert_false(schedule_ended(schedule, 1, &status));
    schedule_fail_node(schedule, 0, "it has died");
    assert_int_equal(next_id(schedule), 4);
    schedule_fail_node(schedule, 1, "it has died");
    assert_true(schedule_is_idle(schedule));
    schedule_free(schedule);
}

static void unknown_tasks_cannot_be_waited_for(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    const struct task_part part = {.node = 0, .end = 1};
    const uint64_t after[] = {1, 2};
    struct task_order order = order_of(&part, 1);
    uint64_t id;
    submit_to(schedule, 0);
    order.after = after;
    order.n_after = 2;
    refused(schedule_submit(schedule, &order, &id), TERN_INVALID, "after task 2", "1 to 1");
    assert_int_equal(schedule_last(schedule), 1);
    schedule_free(schedule);
}

static void there_is_a_limit(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    const struct task_part part = {.node = 0, .end = 1};
    struct task_order order = order_of(&part, 1);
    uint64_t id;
    for (int i = 0; i < TERN_MAX_TASKS; i++)
        submit_to(schedule, 1);
    refused(schedule_submit(schedule, &order, &id), TERN_LIMIT, "1024", "wait for some");
    assert_int_equal(next_id(schedule), 1);
    finish(schedule, 1, 1);
    ok(schedule_submit(schedule, &order, &id));
    assert_int_equal(id, TERN_MAX_TASKS + 1);
    schedule_free(schedule);
}

static void what_is_waited_for_is_explained(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_new(view_of(NODES));
    char text[128];
    submit_to(schedule, 3);
    submit_to(schedule, 1);
    assert_int_equal(next_id(schedule), 1);
    for (uint64_t id = 0; id < 2; id++) {
        schedule_explain(schedule, id, text, sizeof text);
        assert_string_equal(text, "task 1 runs at 1 node, of which node 3 is the first");
    }
    schedule_explain(schedule, 2, text, sizeof text);
    assert_string_equal(text, "task 2 has not started, because task 1 has not finished");
    schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequential_tasks_start_one_after_the_other),
        cmocka_unit_test(eventual_tasks_start_at_once),
        cmocka_unit_test(delay_bounds_and_may_change),
        cmocka_unit_test(random_tasks_follow_the_rule),
        cmocka_unit_test(results_go_to_their_places),
        cmocka_unit_test(a_result_that_is_too_long_is_a_failure),
        cmocka_unit_test(a_failure_is_reported_once_and_names_all),
        cmocka_unit_test(of_all_the_first_failure_is_reported),
        cmocka_unit_test(a_dead_node_fails_what_is_under_way_there),
        cmocka_unit_test(unknown_tasks_cannot_be_waited_for),
        cmocka_unit_test(there_is_a_limit),
        cmocka_unit_test(what_is_waited_for_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
