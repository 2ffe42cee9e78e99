/*
 * tern_set_interrupt: calls that wait end when the thread's check says so, and what waited can be used further. Each
 * test lets a call wait for something that does not come; a call that is not interrupted would hang.
 */
#include <pthread.h>

#include "support/check.h"

enum { N_CHECKS = 3 }; /* of a wait that go by before it is ended */

struct checks {
    int n;
};

static bool third_time(void *context)
{
    struct checks *checks = context;
    return ++checks->n >= N_CHECKS;
}

static const char *group_name(const char *test)
{
    static char name[48];
    snprintf(name, sizeof name, "interrupt-%s-%ld", test, (long)getpid());
    return name;
}

struct other {
    pthread_t thread;
    const char *group;
    pthread_barrier_t *meet;
};

/* Node 1 opens, lets node 0 be interrupted, then makes the calls node 0 has made. */
static void *run_other(void *context)
{
    struct other *other = context;
    struct tern_node_options options = {
        .struct_size = sizeof options, .group = other->group, .node = 1, .n_nodes = 2};
    struct tern_node *node;
    if (!holds(tern_node_open(&options, &node) == TERN_OK))
        return NULL;
    pthread_barrier_wait(other->meet);
    holds(tern_barrier(node) == TERN_OK); /* node 0 was interrupted in this one */
    double sum = 1;
    holds(tern_all_reduce(node, TERN_F64, 1, &sum) == TERN_OK && sum == 3);
    holds(tern_node_close(node) == TERN_OK);
    return NULL;
}

static void test_barrier(void **state)
{
    (void)state;
    struct checks checks = {0};
    pthread_barrier_t meet;
    pthread_barrier_init(&meet, NULL, 2);
    struct other other = {.group = group_name("barrier"), .meet = &meet};
    struct tern_node_options options = {
        .struct_size = sizeof options, .group = other.group, .n_nodes = 2};
    assert_int_equal(pthread_create(&other.thread, NULL, run_other, &other), 0);
    struct tern_node *node;
    ok(tern_node_open(&options, &node));
    tern_set_interrupt(third_time, &checks);
    refused(tern_barrier(node), TERN_INTERRUPTED, "interrupted");
    tern_set_interrupt(NULL, NULL);
    assert_true(checks.n >= N_CHECKS);
    pthread_barrier_wait(&meet);
    double sum = 2;
    ok(tern_all_reduce(node, TERN_F64, 1, &sum));
    assert_true(sum == 3);
    ok(tern_node_close(node));
    pthread_join(other.thread, NULL);
    pthread_barrier_destroy(&meet);
    all_held();
}

static void test_open(void **state)
{
    (void)state;
    struct checks checks = {0};
    struct tern_node_options options = {
        .struct_size = sizeof options, .group = group_name("open"), .n_nodes = 2};
    struct tern_node *node;
    tern_set_interrupt(third_time, &checks);
    refused(tern_node_open(&options, &node), TERN_INTERRUPTED, "interrupted");
    tern_set_interrupt(NULL, NULL);
}

static void test_bounded_read(void **state)
{
    (void)state;
    struct checks checks = {0};
    struct tern_table_options options = {
        .struct_size = sizeof options, .n_keys = 10, .length = 1, .policy = "bsp"};
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *fast, *slow;
    uint64_t key = 3;
    float value;
    ok(tern_node_open(NULL, &node));
    ok(tern_table_open(node, "bounded", &options, &table));
    ok(tern_worker_open(node, &slow));
    ok(tern_worker_open(node, &fast));
    ok(tern_worker_advance(fast, NULL));
    tern_set_interrupt(third_time, &checks);
    refused(tern_pull(fast, table, &key, 1, &value), TERN_INTERRUPTED, "interrupted");
    tern_set_interrupt(NULL, NULL);
    ok(tern_worker_advance(slow, NULL));
    ok(tern_pull(fast, table, &key, 1, &value));
    ok(tern_worker_close(slow));
    ok(tern_worker_close(fast));
    ok(tern_node_close(node));
}

/* A task that waits until the test lets it go. */
static enum tern_status hold(void *context, struct tern_task *task)
{
    (void)task;
    pthread_barrier_wait(context);
    return TERN_OK;
}

static void test_task(void **state)
{
    (void)state;
    struct checks checks = {0};
    pthread_barrier_t let_go;
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_task_options options = {.struct_size = sizeof options, .function = "hold"};
    uint64_t id;
    pthread_barrier_init(&let_go, NULL, 2);
    ok(tern_node_open(NULL, &node));
    ok(tern_worker_open(node, &worker));
    ok(tern_function_register(node, "hold", hold, &let_go));
    ok(tern_task_submit(worker, &options, &id));
    tern_set_interrupt(third_time, &checks);
    refused(tern_task_wait(worker, id, 0), TERN_INTERRUPTED, "interrupted");
    tern_set_interrupt(NULL, NULL);
    pthread_barrier_wait(&let_go);
    ok(tern_task_wait(worker, id, 0));
    ok(tern_worker_close(worker));
    ok(tern_node_close(node));
    pthread_barrier_destroy(&let_go);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_bounded_read),
        cmocka_unit_test(test_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
