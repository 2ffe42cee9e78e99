/*
 * task - tasks between the nodes of a cluster; a case by its name. Run by tests/cluster/test_task.sh.
 *
 * task CASE [N]      the last line is "node K: CASE holds"
 *
 *   order      N tasks for all nodes under each delay: none starts before those it waits for have ended
 *   change     the delay is raised and lowered while tasks run
 *   groups     who runs what, and with which keys
 *   failures   functions that fail, are missing or say too much
 *   opening    a table is opened beside a barrier that waits for a task at that node
 *   bounded    functions add to a table with bounded reads, and hold nobody back afterwards
 *   sums       every node has N tasks run at all nodes: each runs once, and the sums are exact
 *   kill       waits for a task that does not end, until the node it is at dies; prints "ready", then
 *              "error" with the status and the sentence of the wait, "again" with those of one more task,
 *              and "closed" with those of tern_node_close
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { N_KEYS = 1000, GATE = 999, MAX_NODES = 8, MAX_N = 2000, HANGS_S = 100 };

static struct tern_node *node;
static struct tern_table *table;
static struct tern_worker *worker;
static uint32_t self, n_nodes;
static atomic_uint_fast64_t n_run; /* functions run here */
static atomic_int n_met;

/* The call fails with this status, and the sentence has this word. */
static void refused(enum tern_status status, enum tern_status wanted, const char *word)
{
    if (status == wanted && strstr(tern_error(), word))
        return;
    fprintf(stderr, "%s, not %s with '%s': %s\n", tern_status_name(status),
            tern_status_name(wanted), word, tern_error());
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- Functions ---------------------------------------------------------------------------------- */

/* When a task began and ended, by the one clock of this host. */
struct span {
    uint64_t begin_ns, end_ns;
};

/* Takes up to a millisecond; the result is its span. */
static enum tern_status note(void *context, struct tern_task *task)
{
    (void)context;
    struct span span = {.begin_ns = now_ns()};
    usleep((useconds_t)((task->id * 7919 + self * 104729) % 1000));
    span.end_ns = now_ns();
    memcpy(task->result, &span, sizeof span);
    task->result_bytes = sizeof span;
    return TERN_OK;
}

/* Ends when a second one has begun at this node. */
static enum tern_status meet(void *context, struct tern_task *task)
{
    (void)context;
    atomic_fetch_add(&n_met, 1);
    for (int i = 0; i < 20000; i++) {
        if (atomic_load(&n_met) >= 2)
            return TERN_OK;
        usleep(1000);
    }
    snprintf(task->trouble, sizeof task->trouble, "nobody came");
    return TERN_CONFLICT;
}

/* Ends when the key GATE is not 0 any more. */
static enum tern_status pass_gate(void *context, struct tern_task *task)
{
    (void)context;
    uint64_t key = GATE;
    int64_t value = 0;
    enum tern_status status = TERN_OK;
    while (!status && !value) {
        usleep(1000);
        status = tern_pull(task->worker, table, &key, 1, &value);
    }
    return status;
}

/* Adds 1 to a key that the argument names, and counts. */
static enum tern_status add(void *context, struct tern_task *task)
{
    (void)context;
    uint64_t key;
    int64_t one = 1;
    memcpy(&key, task->argument, sizeof key);
    atomic_fetch_add(&n_run, 1);
    memcpy(task->result, &key, sizeof key);
    task->result_bytes = sizeof key;
    return tern_push(task->worker, table, &key, 1, &one);
}

/* What a node was given, and how many of the keys were at other nodes when they were pulled. */
struct share {
    uint64_t begin, end, n_remote;
    uint32_t node, caller;
};

static enum tern_status tell_share(void *context, struct tern_task *task)
{
    (void)context;
    struct tern_table_stats before = {.struct_size = sizeof before}, after = before;
    uint64_t keys[N_KEYS];
    int64_t values[N_KEYS];
    size_t n = 0;
    enum tern_status status = tern_table_get_stats(table, &before);
    if (!status && task->end <= N_KEYS)
        status =
            tern_pull_range(task->worker, table, task->begin, task->end, N_KEYS, keys, values, &n);
    if (!status)
        status = tern_table_get_stats(table, &after);
    struct share share = {task->begin, task->end, after.remote_keys - before.remote_keys, self,
                          task->caller};
    memcpy(task->result, &share, sizeof share);
    task->result_bytes = sizeof share;
    return status;
}

/* Has all other nodes add to key 5, and waits for that. */
static enum tern_status spread(void *context, struct tern_task *task)
{
    (void)context;
    uint64_t key = 5, id, results[MAX_NODES];
    struct tern_task_options options = {.struct_size = sizeof options,
                                        .function = "add",
                                        .group = TERN_GROUP_OTHERS,
                                        .argument = &key,
                                        .argument_bytes = sizeof key,
                                        .results = results,
                                        .result_bytes = sizeof key};
    enum tern_status status = tern_task_submit(task->worker, &options, &id);
    return status ? status : tern_task_wait(task->worker, id, 0);
}

static enum tern_status fail_at_two(void *context, struct tern_task *task)
{
    (void)context;
    if (self != 2)
        return TERN_OK;
    snprintf(task->trouble, sizeof task->trouble, "the well is dry");
    return TERN_CONFLICT;
}

static enum tern_status boast(void *context, struct tern_task *task)
{
    (void)context;
    task->result_bytes = task->result_room + 1;
    return TERN_OK;
}

static enum tern_status doze(void *context, struct tern_task *task)
{
    (void)context;
    (void)task;
    sleep(self == 2 ? HANGS_S : 0);
    return TERN_OK;
}

static void open_all(void)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = N_KEYS,
                                         .length = 1,
                                         .policy = "static"};
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    check(tern_table_open(node, "numbers", &options, &table));
    check(tern_worker_open(node, &worker));
    check(tern_function_register(node, "note", note, NULL));
    check(tern_function_register(node, "meet", meet, NULL));
    check(tern_function_register(node, "pass_gate", pass_gate, NULL));
    check(tern_function_register(node, "add", add, NULL));
    check(tern_function_register(node, "share", tell_share, NULL));
    check(tern_function_register(node, "spread", spread, NULL));
    check(tern_function_register(node, "fail_at_two", fail_at_two, NULL));
    check(tern_function_register(node, "boast", boast, NULL));
    check(tern_function_register(node, "doze", doze, NULL));
    if (self == 0)
        check(tern_function_register(node, "only_at_0", doze, NULL));
    check(tern_barrier(node));
}

static struct tern_task_options of(const char *function)
{
    return (struct tern_task_options){.struct_size = sizeof(struct tern_task_options),
                                      .function = function};
}

/* ---- Order --------------------------------------------------------------------------------------- */

static struct span spans[MAX_N + 1][MAX_NODES];

static uint64_t submit_note(uint64_t expected)
{
    uint64_t id;
    struct tern_task_options options = of("note");
    options.results = spans[expected];
    options.result_bytes = sizeof spans[0][0];
    check(tern_task_submit(worker, &options, &id));
    hold(id == expected);
    return id;
}

static uint64_t first_begin(uint64_t id)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < n_nodes; i++)
        first = spans[id][i].begin_ns < first ? spans[id][i].begin_ns : first;
    return first;
}

static uint64_t last_end(uint64_t id)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < n_nodes; i++)
        last = spans[id][i].end_ns > last ? spans[id][i].end_ns : last;
    return last;
}

/* Tasks [from, to] began, at every node, after all up to delay + 1 before them, from `base` on, had ended at
 * every node. */
static void check_spans(uint64_t base, uint64_t from, uint64_t to, uint64_t delay)
{
    uint64_t ended = 0, next = base;
    for (uint64_t id = from; id <= to; id++) {
        for (; next < id && id - next > delay; next++)
            ended = last_end(next) > ended ? last_end(next) : ended;
        hold(first_begin(id) >= ended);
    }
}

static void wait_for(uint64_t from, uint64_t to)
{
    for (uint64_t id = from; id <= to; id++)
        check(tern_task_wait(worker, id, 0));
}

/* Two tasks that end only together. */
static void meet_twice(uint64_t *last)
{
    struct tern_task_options options = of("meet");
    for (int i = 0; i < 2; i++) {
        check(tern_task_submit(worker, &options, last));
        hold(*last <= MAX_N);
    }
    wait_for(*last - 1, *last);
}

static void order(uint64_t n)
{
    static const uint64_t delays[] = {0, 1, 3, 10, TERN_EVENTUAL};
    uint64_t last = 0, progress;
    for (size_t i = 0; self == 0 && i < sizeof delays / sizeof delays[0]; i++) {
        check(tern_task_delay(worker, delays[i]));
        uint64_t first = last + 1;
        for (uint64_t k = 0; k < n; k++)
            last = submit_note(last + 1);
        wait_for(first, last);
        check_spans(first, first, last, delays[i]);
        check(tern_task_progress(worker, TERN_ALL_NODES, 0, 0, &progress));
        hold(progress == last);
    }
    if (self == 0)
        meet_twice(&last);
}

static void change(uint64_t n)
{
    if (self != 0)
        return;
    /* Raised: the second of the two starts only then, and the first ends only then. */
    struct tern_task_options options = of("meet");
    uint64_t last;
    check(tern_task_submit(worker, &options, &last));
    check(tern_task_submit(worker, &options, &last));
    refused(tern_task_wait(worker, last, 50), TERN_BUSY, "because task 1 has not finished");
    check(tern_task_delay(worker, 1));
    wait_for(1, last);

    /* Lowered, while a task holds up the others: what had not started follows the new delay. */
    enum { HIGH = 8 };
    uint64_t gate = last + 1, key = GATE;
    int64_t open = 1;
    check(tern_task_delay(worker, HIGH));
    options = of("pass_gate");
    check(tern_task_submit(worker, &options, &last));
    for (uint64_t k = 0; k < n; k++)
        last = submit_note(last + 1);
    check(tern_task_delay(worker, 0));
    check(tern_push(worker, table, &key, 1, &open));
    wait_for(gate, last);
    check_spans(gate + 1, gate + 1 + HIGH, last, 0);
}

/* ---- Groups -------------------------------------------------------------------------------------- */

static struct share shares[MAX_NODES];
static size_t sizes[MAX_NODES];

static uint64_t run_shares(struct tern_task_options options)
{
    uint64_t id;
    memset(shares, 0, sizeof shares);
    options.results = shares;
    options.result_bytes = sizeof shares[0];
    options.result_sizes = sizes;
    check(tern_task_submit(worker, &options, &id));
    check(tern_task_wait(worker, id, 0));
    for (uint32_t i = 0; i < n_nodes; i++) {
        hold(sizes[i] == 0 || sizes[i] == sizeof shares[0]);
        hold(!sizes[i] || (shares[i].node == i && shares[i].caller == self));
    }
    return id;
}

static void groups(uint64_t n)
{
    (void)n;
    struct tern_task_options options = of("share");
    uint64_t id, progress;
    run_shares(options);
    for (uint32_t i = 0; i < n_nodes; i++)
        hold(sizes[i] && shares[i].begin == 0 && shares[i].end == UINT64_MAX);
    options.group = TERN_GROUP_OTHERS;
    run_shares(options);
    for (uint32_t i = 0; i < n_nodes; i++)
        hold(!sizes[i] == (i == self));
    uint32_t listed[] = {3, 1};
    options.group = TERN_GROUP_LISTED;
    options.nodes = listed;
    options.n_nodes = 2;
    options.begin = 17;
    options.end = 19;
    id = run_shares(options);
    for (uint32_t i = 0; i < n_nodes; i++)
        hold(!sizes[i] == !(i % 2) && (!sizes[i] || shares[i].end == 19));
    check(tern_task_progress(worker, 3, 17, 19, &progress));
    hold(progress == id);

    /* Each node gets what is at home with it, and has it there. Nobody pulls anything else meanwhile. */
    check(tern_barrier(node));
    options = of("share");
    options.table = table;
    options.begin = 100;
    options.end = 600;
    run_shares(options);
    uint64_t at = 100;
    for (uint32_t i = 0; i < n_nodes; i++) {
        hold(!sizes[i] || (shares[i].begin == at && shares[i].n_remote == 0));
        at = sizes[i] ? shares[i].end : at;
    }
    hold(at == 600 && sizes[0] && !sizes[3]);
    check(tern_barrier(node));

    /* Tasks of tasks. */
    options = of("spread");
    options.group = TERN_GROUP_LISTED;
    options.nodes = listed;
    options.n_nodes = 1;
    check(tern_task_submit(worker, &options, &id));
    check(tern_task_wait(worker, id, 0));
    check(tern_barrier(node));
    uint64_t key = 5;
    int64_t value;
    check(tern_pull(worker, table, &key, 1, &value));
    hold(value == (int64_t)n_nodes * (n_nodes - 1));
}

/* ---- Failures ------------------------------------------------------------------------------------- */

static enum tern_status run_of(const char *function)
{
    struct tern_task_options options = of(function);
    uint64_t id;
    check(tern_task_submit(worker, &options, &id));
    return tern_task_wait(worker, id, 0);
}

static void failures(uint64_t n)
{
    (void)n;
    if (self == 0) {
        refused(run_of("fail_at_two"), TERN_CONFLICT, "('fail_at_two') at node 2: the well is dry");
        refused(run_of("boast"), TERN_LIMIT, "1 bytes, but the caller has room for 0");
        refused(run_of("only_at_0"), TERN_INVALID, "no function of this name is registered there");
    }
}

/* ---- Exactly once ---------------------------------------------------------------------------------- */

static void sums(uint64_t n)
{
    enum { AT_ONCE = 40 };
    static uint64_t keys[MAX_N], ids[MAX_N], results[MAX_N][MAX_NODES];
    check(tern_task_delay(worker, self % 2 ? TERN_EVENTUAL : 7));
    for (uint64_t i = 0; i < n + AT_ONCE; i++) {
        if (i >= AT_ONCE) {
            check(tern_task_wait(worker, ids[i - AT_ONCE], 0));
            for (uint32_t k = 0; k < n_nodes; k++)
                hold(results[i - AT_ONCE][k] == keys[i - AT_ONCE]);
        }
        if (i >= n)
            continue;
        keys[i] = (i * 37 + self * 11) % N_KEYS;
        struct tern_task_options options = of("add");
        options.argument = &keys[i];
        options.argument_bytes = sizeof keys[i];
        options.begin = keys[i] / 100 * 100;
        options.end = options.begin + 100;
        options.results = results[i];
        options.result_bytes = sizeof results[i][0];
        check(tern_task_submit(worker, &options, &ids[i]));
    }
    check(tern_barrier(node));
    static int64_t wanted[N_KEYS], found[N_KEYS];
    static uint64_t all[N_KEYS];
    for (uint64_t i = 0; i < n; i++)
        wanted[keys[i]] += n_nodes;
    check(tern_all_reduce(node, TERN_I64, N_KEYS, wanted));
    for (uint64_t i = 0; i < N_KEYS; i++)
        all[i] = i;
    check(tern_pull(worker, table, all, N_KEYS, found));
    uint64_t n_wrong = 0;
    for (uint64_t i = 0; i < N_KEYS; i++)
        n_wrong += found[i] != wanted[i];
    printf("node %" PRIu32 " ran %" PRIu64 " functions of %" PRIu64 ", %" PRIu64 " wrong sums\n",
           self, (uint64_t)atomic_load(&n_run), n * n_nodes, n_wrong);
    hold(n_wrong == 0 && atomic_load(&n_run) == n * n_nodes);
}

/* ---- Death ------------------------------------------------------------------------------------------ */

static void say(const char *what, enum tern_status status)
{
    printf("%s %s %s\n", what, tern_status_name(status), status ? tern_error() : "");
    fflush(stdout);
}

static void *open_another(void *context)
{
    struct tern_table_options options = {.struct_size = sizeof options, .n_keys = 10, .length = 1};
    usleep(100000); /* the barrier is waited for by then */
    check(tern_table_open(node, "another", &options, context));
    return NULL;
}

/* Node 0 waits at a barrier, and opens a table in another thread; the others have it run a task before they come
 * to the barrier. */
static void opening(uint64_t n)
{
    (void)n;
    struct tern_table *another;
    pthread_t thread;
    if (self == 0) {
        hold(!pthread_create(&thread, NULL, open_another, &another));
    } else {
        usleep(200000);
        struct tern_task_options options = of("note");
        struct span results[MAX_NODES];
        uint64_t id;
        options.results = results;
        options.result_bytes = sizeof results[0];
        check(tern_task_submit(worker, &options, &id));
        check(tern_task_wait(worker, id, 0));
        open_another(&another);
    }
    check(tern_barrier(node));
    if (self == 0)
        pthread_join(thread, NULL);
    check(tern_barrier(node));
    check(tern_table_close(another));
}

/* Adds one to the first key of the table in the context. */
static enum tern_status add_one(void *context, struct tern_task *task)
{
    const uint64_t key = 0;
    const int64_t one = 1;
    return tern_push(task->worker, *(struct tern_table **)context, &key, 1, &one);
}

static void bounded(uint64_t n)
{
    (void)n;
    static struct tern_table *counts;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = 10,
                                         .length = 1,
                                         .policy = "bsp"};
    struct tern_task_options task = of("add_one");
    const uint64_t key = 0;
    int64_t value;
    uint64_t id;
    check(tern_table_open(node, "counts", &options, &counts));
    check(tern_function_register(node, "add_one", add_one, &counts));
    check(tern_barrier(node));
    check(tern_task_submit(worker, &task, &id));
    check(tern_task_wait(worker, id, 0));
    check(tern_barrier(node));
    for (int clock = 0; clock < 5; clock++) {
        check(tern_worker_advance(worker, NULL));
        check(tern_pull(worker, counts, &key, 1, &value));
    }
    check(tern_quiesce(node));
    check(tern_pull(worker, counts, &key, 1, &value));
    hold(value == (int64_t)n_nodes * n_nodes);
    check(tern_barrier(node));
    check(tern_table_close(counts));
}

static int until_death(void)
{
    struct tern_task_options options = of("doze");
    uint64_t id;
    check(tern_task_submit(worker, &options, &id));
    say("ready", TERN_OK);
    enum tern_status status = tern_task_wait(worker, id, 0);
    say("error", status);
    /* A further one fails as well, and at once. */
    if (!tern_task_submit(worker, &options, &id))
        say("again", tern_task_wait(worker, id, 0));
    check(tern_worker_close(worker));
    enum tern_status closed = tern_node_close(node);
    say("closed", closed);
    return status == TERN_PEER && closed == TERN_PEER ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(uint64_t n);
    } cases[] = {{"order", order},       {"change", change},   {"groups", groups},
                 {"failures", failures}, {"opening", opening}, {"bounded", bounded},
                 {"sums", sums}};
    const char *name = argc > 1 ? argv[1] : "";
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    hang_after(HANGS_S);
    if (n > (strcmp(name, "sums") ? MAX_N / 6 : MAX_N))
        return 2;
    open_all();
    if (!strcmp(name, "kill"))
        return until_death();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (!strcmp(name, cases[i].name)) {
            cases[i].run(n);
            check(tern_worker_close(worker));
            check(tern_node_close(node));
            printf("node %" PRIu32 ": %s holds\n", self, name);
            return 0;
        }
    return 2;
}
