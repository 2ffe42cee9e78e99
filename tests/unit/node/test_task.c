/*
 * Tasks on a node that is alone: functions run on threads of their own, in the order that was asked for;
 * results, failures and limits. tests/cluster/test_task.sh has several nodes.
 */
#include <pthread.h>
#include <time.h>

#include "support/check.h"

enum { KEYS = 1000 };

/* ---- Functions ---------------------------------------------------------------------------------- */

/* What several threads of Tern's write, and the test reads when they have finished. */
struct journal {
    struct tern_table *table;
    pthread_t main_thread;
    atomic_int n_running, most_running, gate;
    atomic_uint_fast64_t n_done;
    uint64_t order[4096]; /* numbers of tasks in the order of their starts */
};

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* Notes its number, waits while the gate is closed. */
static enum tern_status note(void *context, struct tern_task *task)
{
    struct journal *journal = context;
    int n = atomic_fetch_add(&journal->n_running, 1) + 1;
    for (int most = atomic_load(&journal->most_running); most < n;)
        atomic_compare_exchange_weak(&journal->most_running, &most, n);
    holds(!pthread_equal(pthread_self(), journal->main_thread));
    journal->order[atomic_fetch_add(&journal->n_done, 1)] = task->id;
    while (atomic_load(&journal->gate))
        sleep_ms(1);
    atomic_fetch_sub(&journal->n_running, 1);
    return TERN_OK;
}

/* Adds the argument to every key of the range; the result is their sum. */
static enum tern_status add_to_range(void *context, struct tern_task *task)
{
    struct journal *journal = context;
    int64_t sum = 0;
    for (uint64_t key = task->begin; key < task->end; key++) {
        int64_t value;
        if (tern_push(task->worker, journal->table, &key, 1, task->argument) ||
            tern_pull(task->worker, journal->table, &key, 1, &value))
            return TERN_INVALID;
        sum += value;
    }
    memcpy(task->result, &sum, sizeof sum);
    task->result_bytes = sizeof sum;
    return TERN_OK;
}

static enum tern_status echo(void *context, struct tern_task *task)
{
    (void)context;
    if (task->argument_bytes)
        memcpy(task->result, task->argument, task->argument_bytes);
    task->result_bytes = task->argument_bytes;
    return TERN_OK;
}

static enum tern_status break_down(void *context, struct tern_task *task)
{
    (void)context;
    if (!task->argument_bytes)
        return tern_pull(task->worker, NULL, NULL, 0, NULL);
    snprintf(task->trouble, sizeof task->trouble, "%.*s", (int)task->argument_bytes,
             (const char *)task->argument);
    return TERN_CONFLICT;
}

static enum tern_status boast(void *context, struct tern_task *task)
{
    (void)context;
    task->result_bytes = task->result_room + 1;
    return TERN_OK;
}

/* Submits tasks of its own, which run while it waits, or, without an argument, after it has returned. */
static enum tern_status delegate(void *context, struct tern_task *task)
{
    (void)context;
    struct tern_task_options options = {.struct_size = sizeof options, .function = "note"};
    uint64_t id;
    enum tern_status status = tern_task_delay(task->worker, TERN_EVENTUAL);
    for (int i = 0; !status && i < 3; i++)
        status = tern_task_submit(task->worker, &options, &id);
    if (!status && task->argument_bytes)
        status = tern_task_wait(task->worker, id, 0);
    options.function = "break_down";
    if (!status && task->argument_bytes > 4)
        status = tern_task_submit(task->worker, &options, &id);
    return status;
}

/* Submits its successor, as long as that is possible, and counts. */
static enum tern_status chain(void *context, struct tern_task *task)
{
    struct journal *journal = context;
    struct tern_task_options options = {.struct_size = sizeof options, .function = "chain"};
    uint64_t id;
    atomic_fetch_add(&journal->n_done, 1);
    enum tern_status status = tern_task_submit(task->worker, &options, &id);
    return status == TERN_LIMIT ? TERN_OK : status;
}

static enum tern_status leave_pinned(void *context, struct tern_task *task)
{
    struct journal *journal = context;
    uint64_t key = 7;
    void *row;
    return tern_pin(task->worker, journal->table, &key, 1, &row);
}

/* ---- The scene ----------------------------------------------------------------------------------- */

struct scene {
    struct place place;
    struct journal journal;
};

static int scene_open(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    *state = s;
    s->journal.main_thread = pthread_self();
    ok(tern_node_open(NULL, &s->place.node));
    ok(tern_worker_open(s->place.node, &s->place.worker));
    s->journal.table = table_of(s->place.node, "numbers", shape(TERN_DENSE, TERN_I64, KEYS, 1));
    static const struct {
        const char *name;
        tern_task_function *function;
    } all[] = {
        {"note", note},   {"add", add_to_range},  {"echo", echo},   {"break_down", break_down},
        {"boast", boast}, {"delegate", delegate}, {"chain", chain}, {"leave_pinned", leave_pinned}};
    for (size_t i = 0; i < COUNT(all); i++)
        ok(tern_function_register(s->place.node, all[i].name, all[i].function, &s->journal));
    return 0;
}

static int scene_close(void **state)
{
    struct scene *s = *state;
    ok(tern_worker_close(s->place.worker));
    ok(tern_node_close(s->place.node));
    free(s);
    all_held();
    return 0;
}

static struct tern_task_options of(const char *function)
{
    return (struct tern_task_options){.struct_size = sizeof(struct tern_task_options),
                                      .function = function};
}

static uint64_t submit(struct scene *s, struct tern_task_options options)
{
    uint64_t id = 0;
    ok(tern_task_submit(s->place.worker, &options, &id));
    return id;
}

/* ---- Order --------------------------------------------------------------------------------------- */

static void sequential_by_default(void **state)
{
    struct scene *s = *state;
    enum { TASKS = 300 };
    for (uint64_t i = 1; i <= TASKS; i++)
        assert_int_equal(submit(s, of("note")), i);
    ok(tern_task_wait(s->place.worker, TASKS, 0));
    assert_int_equal(s->journal.n_done, TASKS);
    assert_int_equal(s->journal.most_running, 1);
    for (uint64_t i = 0; i < TASKS; i++)
        assert_int_equal(s->journal.order[i], i + 1);
}

static void wait_for_running(struct journal *journal, int n)
{
    while (atomic_load(&journal->n_running) < n)
        sleep_ms(1);
    sleep_ms(20); /* for one that should not start */
    assert_int_equal(journal->n_running, n);
}

static void eventual_tasks_run_beside_each_other(void **state)
{
    struct scene *s = *state;
    s->journal.gate = 1;
    ok(tern_task_delay(s->place.worker, TERN_EVENTUAL));
    for (int i = 0; i < TERN_MAX_TASK_THREADS + 5; i++)
        submit(s, of("note"));
    wait_for_running(&s->journal, TERN_MAX_TASK_THREADS);
    s->journal.gate = 0;
    ok(tern_task_wait(s->place.worker, 0, 0));
    assert_int_equal(s->journal.n_done, TERN_MAX_TASK_THREADS + 5);
    assert_int_equal(s->journal.most_running, TERN_MAX_TASK_THREADS);
}

static void delay_is_kept_and_may_change(void **state)
{
    struct scene *s = *state;
    s->journal.gate = 1;
    ok(tern_task_delay(s->place.worker, 2));
    for (int i = 0; i < 10; i++)
        submit(s, of("note"));
    wait_for_running(&s->journal, 3);
    ok(tern_task_delay(s->place.worker, 5));
    wait_for_running(&s->journal, 6);
    ok(tern_task_delay(s->place.worker, 0));
    s->journal.gate = 0;
    ok(tern_task_wait(s->place.worker, 10, 0));
    for (uint64_t i = 6; i < 10; i++)
        assert_int_equal(s->journal.order[i], i + 1);
}

static void after_orders_what_delay_does_not(void **state)
{
    struct scene *s = *state;
    ok(tern_task_delay(s->place.worker, TERN_EVENTUAL));
    s->journal.gate = 1;
    uint64_t first = submit(s, of("note"));
    struct tern_task_options later = of("note");
    later.after = &first;
    later.n_after = 1;
    uint64_t second = submit(s, later);
    uint64_t third = submit(s, of("note"));
    wait_for_running(&s->journal, 2);
    refused(tern_task_wait(s->place.worker, second, 5), TERN_BUSY, "task 2", "5 ms",
            "because task 1");
    refused(tern_task_wait(s->place.worker, third, 5), TERN_BUSY, "runs at 1 node", "node 0");
    s->journal.gate = 0;
    ok(tern_task_wait(s->place.worker, second, 0));
    assert_int_equal(s->journal.order[2], second);
    ok(tern_task_wait(s->place.worker, third, 0));
}

static void subtasks_belong_to_their_task(void **state)
{
    struct scene *s = *state;
    for (int i = 0; i < 5; i++)
        submit(s, of("delegate"));
    ok(tern_task_wait(s->place.worker, 5, 0));
    assert_int_equal(s->journal.n_done, 15);
    struct tern_task_options options = of("delegate");
    options.argument = "wait";
    options.argument_bytes = 4;
    ok(tern_task_delay(s->place.worker, TERN_EVENTUAL));
    for (int i = 0; i < 3 * TERN_MAX_TASK_THREADS; i++)
        submit(s, options);
    for (uint64_t id = 6; id <= 5 + 3 * TERN_MAX_TASK_THREADS; id++)
        ok(tern_task_wait(s->place.worker, id, 0));
    assert_int_equal(s->journal.n_done, 15 + 9 * TERN_MAX_TASK_THREADS);
    /* One of them fails, and nobody waits for it. */
    options.argument = "no wait";
    options.argument_bytes = 7;
    refused(tern_task_wait(s->place.worker, submit(s, options), 0), TERN_INVALID, "delegate",
            "break_down");
}

/* Every function of the chain waits for the next one; that none can follow is said before all threads wait. */
static void chains_come_to_an_end(void **state)
{
    struct scene *s = *state;
    ok(tern_task_wait(s->place.worker, submit(s, of("chain")), 0));
    /* Some may have submitted the next before the one before began to wait. */
    assert_in_range(s->journal.n_done, TERN_MAX_TASK_DEPTH,
                    TERN_MAX_TASK_DEPTH + TERN_MAX_TASK_THREADS);
    ok(tern_task_wait(s->place.worker, submit(s, of("note")), 0));
}

/* ---- What goes in and comes out -------------------------------------------------------------------- */

static void functions_use_the_rows_of_their_node(void **state)
{
    struct scene *s = *state;
    int64_t three = 3, sum = 0;
    size_t size = 0;
    struct tern_task_options options = of("add");
    options.table = s->journal.table;
    options.argument = &three;
    options.argument_bytes = sizeof three;
    options.results = &sum;
    options.result_bytes = sizeof sum;
    options.result_sizes = &size;
    ok(tern_task_wait(s->place.worker, submit(s, options), 0));
    assert_int_equal(sum, 3 * KEYS);
    assert_int_equal(size, sizeof sum);
    options.begin = 10;
    options.end = 20;
    ok(tern_task_wait(s->place.worker, submit(s, options), 0));
    assert_int_equal(sum, 60);
    uint64_t key = 10;
    int64_t value;
    ok(tern_pull(s->place.worker, s->journal.table, &key, 1, &value));
    assert_int_equal(value, 6);
}

static void arguments_and_results_of_every_size(void **state)
{
    struct scene *s = *state;
    static const size_t sizes[] = {0, 1, 7, 8, 255, 256, 257, 5000, TERN_MAX_TASK_BYTES};
    char *argument = array_of(TERN_MAX_TASK_BYTES, 1), *result = array_of(TERN_MAX_TASK_BYTES, 1);
    struct dice dice = {1};
    for (size_t i = 0; i < TERN_MAX_TASK_BYTES; i++)
        argument[i] = (char)dice_roll(&dice);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        size_t size = 99;
        struct tern_task_options options = of("echo");
        options.argument = argument;
        options.argument_bytes = sizes[i];
        options.results = result;
        options.result_bytes = TERN_MAX_TASK_BYTES;
        options.result_sizes = &size;
        ok(tern_task_wait(s->place.worker, submit(s, options), 0));
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(result, argument, sizes[i]);
    }
    free(argument);
    free(result);
}

static void failures_say_why(void **state)
{
    struct scene *s = *state;
    struct tern_task_options options = of("break_down");
    uint64_t id = submit(s, options);
    refused(tern_task_wait(s->place.worker, id, 0), TERN_INVALID, "task 1 ('break_down') at node 0",
            "NULL");
    ok(tern_task_wait(s->place.worker, id, 0));
    options.argument = "the well is dry";
    options.argument_bytes = 15;
    id = submit(s, options);
    bool done = false;
    enum tern_status status = TERN_OK;
    while (!status && !done)
        status = tern_task_test(s->place.worker, id, &done);
    assert_int_equal(status, TERN_CONFLICT);
    assert_non_null(strstr(tern_error(), "the well is dry"));
    assert_false(done);
    ok(tern_task_test(s->place.worker, id, &done));
    assert_true(done);
    refused(tern_task_wait(s->place.worker, submit(s, of("boast")), 0), TERN_LIMIT, "1 bytes",
            "room for 0");
    refused(tern_task_wait(s->place.worker, submit(s, of("leave_pinned")), 0), TERN_BUSY,
            "1 rows pinned");
    ok(tern_table_close(s->journal.table)); /* nobody else could unpin it */
}

static void progress_is_told_by_range(void **state)
{
    struct scene *s = *state;
    uint64_t id;
    ok(tern_task_progress(s->place.worker, TERN_ALL_NODES, 0, 0, &id));
    assert_int_equal(id, 0);
    struct tern_task_options options = of("echo");
    options.begin = 100;
    options.end = 200;
    submit(s, options);
    options.begin = 200;
    options.end = 300;
    ok(tern_task_wait(s->place.worker, submit(s, options), 0));
    ok(tern_task_progress(s->place.worker, 0, 100, 200, &id));
    assert_int_equal(id, 1);
    ok(tern_task_progress(s->place.worker, 0, 150, 300, &id));
    assert_int_equal(id, 1);
    ok(tern_task_progress(s->place.worker, TERN_ALL_NODES, 250, 251, &id));
    assert_int_equal(id, 2);
    ok(tern_task_progress(s->place.worker, 0, 0, 0, &id));
    assert_int_equal(id, 0);
    ok(tern_task_wait(s->place.worker, submit(s, of("echo")), 0));
    ok(tern_task_progress(s->place.worker, 0, 0, 0, &id));
    assert_int_equal(id, 3);
}

/* ---- What is refused --------------------------------------------------------------------------------- */

/* However many ranges tasks are about, they run, and progress is never told before it was made. */
static void tasks_may_have_any_number_of_ranges(void **state)
{
    struct scene *s = *state;
    struct tern_worker *worker = s->place.worker;
    enum { N = 5000, AT_A_TIME = 500 };
    ok(tern_task_delay(worker, TERN_EVENTUAL));
    struct tern_task_options options = of("echo");
    for (uint64_t i = 0; i < N; i++) {
        options.begin = 2 * i;
        options.end = 2 * i + 1;
        submit(s, options);
        if (i % AT_A_TIME == 0)
            ok(tern_task_wait(worker, 0, 0));
    }
    ok(tern_task_wait(worker, 0, 0));
    for (uint64_t i = 0, id; i < N; i++) {
        ok(tern_task_progress(worker, 0, 2 * i, 2 * i + 1, &id));
        assert_true(id <= i + 1);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    struct scene *s = *state;
    struct tern_worker *worker = s->place.worker;
    struct tern_node *node = s->place.node;
    uint64_t id = 0;
    bool done;

    refused(tern_function_register(NULL, "f", note, NULL), TERN_INVALID, "node");
    refused(tern_function_register(node, NULL, note, NULL), TERN_INVALID, "name");
    refused(tern_function_register(node, "", note, NULL), TERN_INVALID, "1 to 63");
    refused(tern_function_register(node, "f", NULL, NULL), TERN_INVALID, "'f' is NULL");
    refused(tern_function_register(node, "note", note, NULL), TERN_MISMATCH, "'note'", "already");

    ok(tern_task_wait(worker, 0, 0));
    refused(tern_task_test(worker, 0, &done), TERN_INVALID, "task 0");
    refused(tern_task_wait(worker, 1, 0), TERN_INVALID, "task 1");
    refused(tern_task_wait(NULL, 1, 0), TERN_INVALID, "worker");
    refused(tern_task_test(worker, 1, &done), TERN_INVALID, "task 1");
    refused(tern_task_delay(NULL, 1), TERN_INVALID, "worker");
    refused(tern_task_progress(worker, 1, 0, 0, &id), TERN_INVALID, "node 1");
    refused(tern_task_progress(worker, 0, 2, 1, &id), TERN_INVALID, "[2, 1)");
    refused(tern_task_progress(worker, 0, 0, 0, NULL), TERN_INVALID, "`id`");
    assert_int_equal(submit(s, of("note")), 1);
    refused(tern_task_test(worker, 1, NULL), TERN_INVALID, "`done`");
    ok(tern_task_wait(worker, 1, 0));
}

static void wrong_tasks_are_refused(void **state)
{
    struct scene *s = *state;
    struct tern_worker *worker = s->place.worker;
    struct tern_node *node = s->place.node;
    uint64_t id = 0, unknown = 1;
    uint32_t nodes[] = {0, 0, 1};
    struct tern_task_options options = of("note");

    refused(tern_task_submit(NULL, &options, &id), TERN_INVALID, "worker");
    refused(tern_task_submit(worker, NULL, &id), TERN_INVALID, "options");
    refused(tern_task_submit(worker, &options, NULL), TERN_INVALID, "`id`");
    options.struct_size = 3;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "struct_size is 3");
    options = of(NULL);
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "name is NULL");
    options = of("nonsense");
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "'nonsense'", "every node");
    options = of("note");
    options.group = (enum tern_group)9;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "group 9");
    options.group = TERN_GROUP_OTHERS;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "no node");
    options.group = TERN_GROUP_LISTED;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "no node");
    options.n_nodes = 2;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "NULL");
    options.nodes = nodes;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "node 0 is listed twice");
    options.nodes = nodes + 1;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "node 1 is not one of 1");
    options = of("note");
    options.begin = 5;
    options.end = 5;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "[5, 5)");
    options.end = KEYS + 1;
    options.table = s->journal.table;
    refused(tern_task_submit(worker, &options, &id), TERN_RANGE, "1001", "'numbers'");
    options = of("note");
    options.table = table_of(node, "words", shape(TERN_SPARSE, TERN_F32, 0, 1));
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "'words'", "sparse");
    options = of("note");
    options.argument_bytes = 1;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "NULL");
    options.argument_bytes = TERN_MAX_TASK_BYTES + 1;
    refused(tern_task_submit(worker, &options, &id), TERN_LIMIT, "1048577");
    options = of("note");
    options.result_bytes = 1;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "NULL");
    options = of("note");
    options.after = &unknown;
    options.n_after = 1;
    refused(tern_task_submit(worker, &options, &id), TERN_INVALID, "after task 1");
    assert_int_equal(id, 0);
}

static void limits_are_reported(void **state)
{
    struct scene *s = *state;
    s->journal.gate = 1;
    for (int i = 0; i < TERN_MAX_TASKS; i++)
        submit(s, of("note"));
    struct tern_task_options options = of("note");
    uint64_t id;
    refused(tern_task_submit(s->place.worker, &options, &id), TERN_LIMIT, "1024", "wait");
    refused(tern_worker_close(s->place.worker), TERN_BUSY, "tasks", "wait");
    s->journal.gate = 0;
    ok(tern_task_wait(s->place.worker, TERN_MAX_TASKS, 0));
    char name[16];
    enum tern_status status = TERN_OK;
    for (int i = 0; !status && i <= TERN_MAX_FUNCTIONS; i++) {
        snprintf(name, sizeof name, "f%d", i);
        status = tern_function_register(s->place.node, name, note, NULL);
    }
    assert_int_equal(status, TERN_LIMIT);
}

static void nodes_are_closed_with_a_crew(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        void *scene;
        scene_open(&scene);
        if (i % 2)
            ok(tern_task_wait(((struct scene *)scene)->place.worker, submit(scene, of("note")), 0));
        scene_close(&scene);
    }
}

#define played(test) cmocka_unit_test_setup_teardown(test, scene_open, scene_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        played(sequential_by_default),
        played(eventual_tasks_run_beside_each_other),
        played(delay_is_kept_and_may_change),
        played(after_orders_what_delay_does_not),
        played(subtasks_belong_to_their_task),
        played(chains_come_to_an_end),
        played(functions_use_the_rows_of_their_node),
        played(arguments_and_results_of_every_size),
        played(failures_say_why),
        played(progress_is_told_by_range),
        played(tasks_may_have_any_number_of_ranges),
        played(wrong_arguments_are_refused),
        played(wrong_tasks_are_refused),
        played(limits_are_reported),
        cmocka_unit_test(nodes_are_closed_with_a_crew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
