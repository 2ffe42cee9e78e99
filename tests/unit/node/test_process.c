/* The library in a process with signals, forks and an environment of its own. */
#include "support/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* A node of two in this process, so that it has all of the library's threads but the crew's. */
static void *open_other(void *context)
{
    struct tern_node_options options = {
        .struct_size = sizeof options, .group = "process", .node = 1, .n_nodes = 2};
    tern_node_open(&options, context);
    return NULL;
}

static struct tern_node *nodes[2];
static struct tern_worker *worker;
static struct tern_table *table;
static struct tern_dist *dist;

static void open_cluster(void)
{
    pthread_t thread;
    struct tern_node_options options = {
        .struct_size = sizeof options, .group = "process", .node = 0, .n_nodes = 2};
    assert_int_equal(pthread_create(&thread, NULL, open_other, &nodes[1]), 0);
    ok(tern_node_open(&options, &nodes[0]));
    pthread_join(thread, NULL);
    assert_non_null(nodes[1]);
    struct tern_table_options shape = {.struct_size = sizeof shape, .n_keys = 100, .length = 2};
    struct tern_target target = {.struct_size = sizeof target, .end = 100};
    ok(tern_table_open(nodes[0], "t", &shape, &table));
    ok(tern_worker_open(nodes[0], &worker));
    ok(tern_dist_open(table, &target, TERN_CONFORM, &dist));
}

static enum tern_status do_nothing(void *context, struct tern_task *task)
{
    (void)context, (void)task;
    return TERN_OK;
}

static void *close_other(void *context)
{
    tern_node_close(context);
    return NULL;
}

static void close_cluster(void)
{
    ok(tern_dist_close(dist));
    ok(tern_worker_close(worker));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_other, nodes[1]), 0);
    ok(tern_node_close(nodes[0]));
    pthread_join(thread, NULL);
}

/* A program that blocks a signal and waits for it gets it, though the library's threads were started before. */
static void signals_are_the_programs(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        open_cluster();
        ok(tern_function_register(nodes[0], "f", do_nothing, NULL));
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        for (int i = 0; i < 100; i++) {
            kill(getpid(), SIGUSR1); /* ends a process of which any thread would take it */
            struct timespec second = {.tv_sec = 30};
            if (sigtimedwait(&set, NULL, &second) != SIGUSR1)
                _exit(2);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int n_wrong;

/* The call fails, and says that it is the fork's fault. */
#define forked(call)                                                                 \
    do {                                                                             \
        enum tern_status outcome = (call);                                           \
        if (outcome != TERN_CLOSED || !strstr(tern_error(), "forked")) {             \
            fprintf(stderr, "%s\n    is %s: %s\n", #call, tern_status_name(outcome), \
                    tern_error());                                                   \
            n_wrong++;                                                               \
        }                                                                            \
    } while (0)

static void use_tables(void)
{
    const uint64_t keys[2] = {1, 2};
    float values[4] = {1, 1, 1, 1};
    void *rows[2];
    uint64_t ticket, found[2];
    size_t n;
    bool done;
    char text[TERN_WHY_BYTES];
    struct tern_table *other;
    struct tern_dist *made;
    struct tern_target target = {.struct_size = sizeof target, .end = 100};
    struct tern_table_options shape = {.struct_size = sizeof shape, .n_keys = 100, .length = 2};
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    forked(tern_table_open(nodes[0], "u", &shape, &other));
    forked(tern_pull(worker, table, keys, 1, values));
    forked(tern_pull(worker, table, keys, 2, values));
    forked(tern_push(worker, table, keys, 1, values));
    forked(tern_push(worker, table, keys, 2, values));
    forked(tern_set(worker, table, keys, 2, values));
    forked(tern_pull_start(worker, table, keys, 2, values, &ticket));
    forked(tern_push_start(worker, table, keys, 2, values, &ticket));
    forked(tern_set_start(worker, table, keys, 2, values, &ticket));
    forked(tern_wait(worker, 1));
    forked(tern_test(worker, 1, &done));
    forked(tern_pull_range(worker, table, 0, 100, 2, found, values, &n));
    forked(tern_push_range(worker, table, 0, 100, 2, values));
    forked(tern_pin(worker, table, keys, 2, rows));
    forked(tern_unpin(worker, table, keys, 2));
    forked(tern_intent(worker, table, keys, 2, 0, 1));
    forked(tern_localize(worker, table, keys, 2));
    forked(tern_flush(worker));
    forked(tern_why(table, 1, text, sizeof text));
    forked(tern_trace_start(table, keys, 2, "trace"));
    forked(tern_trace_stop(table));
    forked(tern_table_get_stats(table, &stats));
    forked(tern_dist_open(table, &target, TERN_CONFORM, &made));
    forked(tern_dist_close(dist));
    forked(tern_table_close(table));
}

static bool keep_all(void *context, uint64_t key, const void *value)
{
    (void)context, (void)key, (void)value;
    return true;
}

static void use_special_tables(void)
{
    const uint64_t keys[2] = {1, 2};
    const uint32_t weights[2] = {1, 1};
    float values[4] = {1, 1, 1, 1};
    bool are[2];
    uint64_t top[2], ticket, n_swept;
    int64_t cells[2] = {0}, errors[2];
    size_t n;
    forked(tern_localize_start(worker, table, keys, 2, &ticket));
    forked(tern_pull_if_local(worker, table, keys, 2, values, are, &n));
    forked(tern_pull_present(worker, table, keys, 2, values, are));
    forked(tern_count(worker, table, keys, 2, weights));
    forked(tern_sweep(worker, table, keep_all, NULL, &n_swept));
    forked(tern_top(worker, table, 2, top, cells, errors, &n));
    forked(tern_sketch_read_cells(worker, table, 0, 2, cells));
    forked(tern_sketch_add_cells(worker, table, 0, 2, cells));
    forked(tern_table_get_served(table, 0, &n_swept));
    forked(tern_checkpoint_start(nodes[0], "checkpoint", NULL, 0));
    forked(tern_checkpoint_start_changes(nodes[0], "checkpoint", NULL, 0));
    forked(tern_checkpoint_wait(nodes[0]));
    forked(tern_checkpoint_restore(table, NULL));
    forked(tern_checkpoint_restore_clock(worker, NULL));
}

static void use_the_rest(void)
{
    uint32_t self, count;
    uint64_t clock, sample, id;
    double sum = 1;
    bool done;
    struct tern_worker *other;
    struct tern_node_stats node_stats = {.struct_size = sizeof node_stats};
    struct tern_worker_stats worker_stats = {.struct_size = sizeof worker_stats};
    struct tern_task_options task = {.struct_size = sizeof task, .function = "f"};
    forked(tern_node_self(nodes[0], &self, &count));
    forked(tern_worker_open(nodes[0], &other));
    forked(tern_worker_advance(worker, &clock));
    forked(tern_worker_clock(worker, &clock));
    forked(tern_worker_rest(worker));
    forked(tern_sample_prepare(worker, dist, 1, &sample));
    forked(tern_sample_pull(worker, 1, 1, &clock, &sum));
    forked(tern_sample_end(worker, 1));
    forked(tern_function_register(nodes[0], "f", do_nothing, NULL));
    forked(tern_task_submit(worker, &task, &id));
    forked(tern_task_wait(worker, 1, 1));
    forked(tern_task_test(worker, 1, &done));
    forked(tern_task_delay(worker, 1));
    forked(tern_task_progress(worker, 0, 0, 1, &clock));
    forked(tern_barrier(nodes[0]));
    forked(tern_quiesce(nodes[0]));
    forked(tern_all_reduce(nodes[0], TERN_F64, 1, &sum));
    forked(tern_broadcast(nodes[0], 0, sizeof sum, &sum));
    forked(tern_node_get_stats(nodes[0], &node_stats));
    forked(tern_worker_get_stats(worker, &worker_stats));
    forked(tern_worker_close(worker));
    forked(tern_node_leave(nodes[0]));
    forked(tern_node_close(nodes[0]));
}

/* A forked child has none of its parent's handles. The parent goes on as if nothing had been. */
static void children_are_refused(void **state)
{
    (void)state;
    open_cluster();
    const uint64_t key = 3;
    float value[2] = {1, 1};
    ok(tern_push(worker, table, &key, 1, value));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        use_tables();
        use_special_tables();
        use_the_rest();
        /* A node of its own, in no cluster, is allowed; one in the parent's cluster is not. */
        struct tern_node *own;
        n_wrong += tern_node_open(NULL, &own) != TERN_OK || tern_node_close(own) != TERN_OK;
        setenv("TERN_NODE", "1", 1);
        setenv("TERN_NODES", "2", 1);
        setenv("TERN_COORDINATOR", "unix:/nonexistent/socket", 1);
        n_wrong += tern_node_open(NULL, &own) != TERN_INVALID || !strstr(tern_error(), "forked");
        _exit(n_wrong ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    ok(tern_pull(worker, table, &key, 1, value));
    assert_true(value[0] == 1 && value[1] == 1);
    close_cluster();
}

static void unknown_kernels_are_refused(void **state)
{
    (void)state;
    struct tern_node *node;
    setenv("TERN_KERNEL", "foo", 1);
    refused(tern_node_open(NULL, &node), TERN_INVALID, "TERN_KERNEL", "foo", "scalar");
    setenv("TERN_KERNEL", "scalar", 1);
    ok(tern_node_open(NULL, &node));
    ok(tern_node_close(node));
    unsetenv("TERN_KERNEL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_the_programs),
        cmocka_unit_test(children_are_refused),
        cmocka_unit_test(unknown_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
