/*
 * Memory: accesses to existing keys ask for none, and wherever it runs out the call says so, changes
 * nothing, and works when tried again.
 */
#include "support/check.h"
#include "support/alloc.h"

/* ---- No allocation on the fast path ---------------------------------------------------------- */

enum { N_KEYS = 5000, LENGTH = 4 };

static void access_existing(struct place *place, struct tern_table *table, const uint64_t *keys,
                            float *values)
{
    static const size_t batches[] = {1, 100, N_KEYS};
    for (int call = 0; call < 1000; call++) {
        /* Few of the large ones: each touches every key. */
        size_t n = batches[call % 50 == 0 ? 2 : call % 2];
        size_t first = (size_t)call * 7 % (N_KEYS - n + 1);
        ok(tern_pull(place->worker, table, keys + first, n, values));
        ok(tern_push(place->worker, table, keys + first, n, values));
        ok(tern_set(place->worker, table, keys + first, n, values));
    }
}

/* With values in rows, with an updater, and in the entries, also beside a second worker, when areas are latched. */
static void access_to_existing_keys_allocates_nothing(void **state)
{
    struct place *place = *state;
    enum { ROWS, STATEFUL, NUMBERS, SHARED_NUMBERS, KINDS };
    struct tern_worker *other = NULL;
    uint64_t *keys = array_of(N_KEYS, sizeof *keys);
    float *values = array_of((size_t)N_KEYS * LENGTH, sizeof *values);
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        for (int kind = ROWS; kind < KINDS; kind++) {
            struct tern_table_options options =
                shape((enum tern_index)index, TERN_F32, N_KEYS, kind < NUMBERS ? LENGTH : 1);
            if (kind == SHARED_NUMBERS)
                ok(tern_worker_open(place->node, &other));
            if (kind == STATEFUL)
                options.updater = tern_updater_adam(0.01, 0.9, 0.999, 1e-8);
            struct tern_table *table = table_of(place->node, "warm", options);
            for (uint64_t i = 0; i < N_KEYS; i++) {
                keys[i] = index == TERN_DENSE ? i : scattered(i);
                ok(tern_push(place->worker, table, &keys[i], 1, values));
            }
            uint64_t before = alloc_count();
            access_existing(place, table, keys, values);
            assert_int_equal(alloc_count() - before, 0);
            ok(tern_table_close(table));
            if (kind == SHARED_NUMBERS)
                ok(tern_worker_close(other));
        }
    }
    free(values);
    free(keys);
}

static void reading_missing_keys_of_initial_value_zero_allocates_nothing(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "bare", shape(TERN_SPARSE, TERN_F32, 0, 1));
    uint64_t keys[500];
    float values[500];
    for (uint64_t i = 0; i < 500; i++)
        keys[i] = scattered(i);
    uint64_t before = alloc_count();
    for (int i = 0; i < 1000; i++)
        ok(tern_pull(place->worker, table, keys, COUNT(keys), values));
    assert_int_equal(alloc_count() - before, 0);
    ok(tern_table_close(table));
}

/* ---- Memory that runs out -------------------------------------------------------------------- */

/* The scenario's state: what must be in its sparse table, and how often a call ran out of memory. */
struct run {
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table *dense, *sparse, *trained, *numbers;
    size_t n_pushed; /* keys 0 .. n_pushed-1 of the sparse table hold 1, the others do not exist */
    size_t n_refused;
};

enum { N_NEW = 3000, N_DENSE = 500 };

static uint64_t new_keys[N_NEW];
static float ones[N_NEW * LENGTH];
static const float zeros[N_NEW * LENGTH];
static float seen[(N_NEW + 1) * LENGTH];
static uint64_t seen_keys[N_NEW + 1];

/* Allocations work again: asserts that nothing of a failed call is to be seen. */
static void assert_as_before(struct run *run)
{
    if (run->sparse == NULL || run->worker == NULL)
        return;
    ok(tern_pull(run->worker, run->sparse, new_keys, N_NEW, seen));
    for (size_t i = 0; i < N_NEW * LENGTH; i++)
        assert_true(seen[i] == (i / LENGTH < run->n_pushed ? 1 : 0));
}

/* The call succeeds, or fails for want of memory, leaves all as it was, and succeeds when memory is
 * there again. */
#define eventually(run, call)                                             \
    do {                                                                  \
        enum tern_status status_ = (call);                                \
        if (status_ == TERN_OK)                                           \
            break;                                                        \
        alloc_fail_at(0);                                                 \
        check_refused(status_, TERN_NO_MEMORY, #call, __FILE__, __LINE__, \
                      (const char *const[]){"memory", NULL});             \
        (run)->n_refused++;                                               \
        assert_as_before(run);                                            \
        ok(call);                                                         \
    } while (0)

static void open_all(struct run *run)
{
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, N_DENSE, LENGTH);
    eventually(run, tern_node_open(NULL, &run->node));
    eventually(run, tern_table_open(run->node, "dense", &options, &run->dense));
    options.updater = tern_updater_adagrad(0.5, 1);
    eventually(run, tern_table_open(run->node, "trained", &options, &run->trained));
    options = shape(TERN_DENSE, TERN_F32, N_DENSE, 1);
    eventually(run, tern_table_open(run->node, "numbers", &options, &run->numbers));
    options = shape(TERN_SPARSE, TERN_F32, 0, LENGTH);
    eventually(run, tern_table_open(run->node, "sparse", &options, &run->sparse));
    eventually(run, tern_worker_open(run->node, &run->worker));
}

/* Grows the sparse table from nothing. */
static void push_new_keys(struct run *run)
{
    static const size_t batches[] = {1, 10, 489, 1000, 1500};
    for (size_t b = 0; b < COUNT(batches); b++) {
        eventually(run,
                   tern_push(run->worker, run->sparse, new_keys + run->n_pushed, batches[b], ones));
        run->n_pushed += batches[b];
    }
    assert_int_equal(run->n_pushed, N_NEW);
}

static void use_dense_tables(struct run *run)
{
    uint64_t keys[] = {7, 499, 7, 0};
    float values[COUNT(keys) * LENGTH];
    eventually(run, tern_push(run->worker, run->dense, keys, COUNT(keys), ones));
    eventually(run, tern_set(run->worker, run->trained, keys, COUNT(keys), ones));
    eventually(run, tern_push(run->worker, run->trained, keys + 1, 1, ones));
    eventually(run, tern_pull(run->worker, run->dense, keys, COUNT(keys), values));
    static const float pushed[] = {2, 1, 2, 1};
    for (size_t i = 0; i < COUNT(values); i++)
        assert_true(values[i] == pushed[i / LENGTH]);
    void *number;
    eventually(run, tern_push(run->worker, run->numbers, keys, COUNT(keys), ones));
    eventually(run, tern_pin(run->worker, run->numbers, keys, 1, &number));
    assert_true(*(float *)number == 2);
    eventually(run, tern_unpin(run->worker, run->numbers, keys, 1));
    eventually(run, tern_pull(run->worker, run->trained, keys, COUNT(keys), values));
    static const float trained[] = {1, 0.75f, 1, 1};
    for (size_t i = 0; i < COUNT(values); i++)
        assert_true(values[i] == trained[i / LENGTH]);
}

static void use_ranges_pins_and_tickets(struct run *run)
{
    size_t n = 0;
    eventually(run, tern_pull_range(run->worker, run->sparse, 0, UINT64_MAX, N_NEW + 1, seen_keys,
                                    seen, &n));
    assert_int_equal(n, N_NEW);
    eventually(run, tern_push_range(run->worker, run->sparse, 0, UINT64_MAX, N_NEW, zeros));
    void *rows[50];
    eventually(run, tern_pin(run->worker, run->sparse, new_keys, 50, rows));
    for (size_t i = 0; i < 50; i++)
        assert_true(((float *)rows[i])[0] == 1);
    eventually(run, tern_unpin(run->worker, run->sparse, new_keys, 50));
    uint64_t ticket = 0;
    eventually(run, tern_pull_start(run->worker, run->sparse, new_keys, 50, seen, &ticket));
    eventually(run, tern_wait(run->worker, ticket));
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    eventually(run, tern_table_get_stats(run->sparse, &stats));
    assert_int_equal(stats.rows, N_NEW);
}

static void close_all(struct run *run)
{
    assert_as_before(run);
    eventually(run, tern_table_close(run->dense));
    eventually(run, tern_table_close(run->sparse));
    run->sparse = NULL;
    eventually(run, tern_worker_close(run->worker));
    eventually(run, tern_node_close(run->node)); /* and the tables still open */
}

/* Returns how often a call ran out of memory. */
static size_t run_scenario(void)
{
    struct run run = {0};
    open_all(&run);
    push_new_keys(&run);
    use_dense_tables(&run);
    use_ranges_pins_and_tickets(&run);
    close_all(&run);
    alloc_fail_at(0);
    return run.n_refused;
}

static int prepare(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < N_NEW; i++)
        new_keys[i] = scattered(i);
    element_fill(TERN_F32, ones, COUNT(ones), 1);
    return 0;
}

static uint64_t count_allocations(void)
{
    run_scenario(); /* what is allocated once per process is by then */
    uint64_t before = alloc_count();
    assert_int_equal(run_scenario(), 0);
    uint64_t n = alloc_count() - before;
    assert_true(n > 0);
    return n;
}

static void any_single_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t n_allocations = count_allocations();
    size_t n_refused = 0;
    for (uint64_t n = 1; n <= n_allocations; n++) {
        alloc_fail_at(n);
        size_t refused_now = run_scenario();
        assert_true(refused_now <= 1);
        n_refused += refused_now;
    }
    /* A library may do without some of them, but not without most. */
    print_message("%llu allocations, %zu calls refused\n", (unsigned long long)n_allocations,
                  n_refused);
    assert_true(n_refused > n_allocations / 2);
}

static void memory_may_run_out_at_any_point(void **state)
{
    (void)state;
    uint64_t n_allocations = count_allocations();
    for (uint64_t n = 1; n <= n_allocations; n++) {
        alloc_fail_from(n);
        assert_int_equal(run_scenario(), 1);
    }
}

/* ---- Rows that leave ------------------------------------------------------------------------- */

enum { N_CHURNED = 40000, AT_ONCE = 1000 };

static bool is_odd(void *context, uint64_t key, const void *value)
{
    (void)context;
    (void)value;
    return key % 2;
}

/* The call succeeds, or fails for want of memory and succeeds when memory is there again. */
#define in_the_end(n_refused, call)                                       \
    do {                                                                  \
        enum tern_status status_ = (call);                                \
        if (status_ == TERN_OK)                                           \
            break;                                                        \
        alloc_fail_at(0);                                                 \
        check_refused(status_, TERN_NO_MEMORY, #call, __FILE__, __LINE__, \
                      (const char *const[]){"memory", NULL});             \
        ++*(n_refused);                                                   \
        ok(call);                                                         \
    } while (0)

/* Pushes more new keys than a table has room for, sweeps it, and pushes again. A push that was refused may be done in part
 * (tern.h), so that the keys of the last one hold 1 or 2. */
static void churn(struct place *place, size_t *n_refused)
{
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, LENGTH);
    options.memory_limit_bytes = TERN_MIN_EVICT_BYTES;
    options.evict_at_limit = true;
    struct tern_table *table = NULL;
    uint64_t keys[AT_ONCE], n = 0;
    bool present[AT_ONCE];
    in_the_end(n_refused, tern_table_open(place->node, "churned", &options, &table));
    for (int half = 0; half < 2; half++) {
        for (uint64_t first = 0; first < N_CHURNED; first += AT_ONCE) {
            for (uint64_t i = 0; i < AT_ONCE; i++)
                keys[i] = first + i;
            in_the_end(n_refused, tern_push(place->worker, table, keys, AT_ONCE, ones));
        }
        ok(tern_pull_present(place->worker, table, keys, AT_ONCE, seen, present));
        for (size_t i = 0; i < AT_ONCE; i++)
            assert_true(present[i] &&
                        (seen[i * LENGTH] == 1 || (*n_refused && seen[i * LENGTH] == 2)));
        in_the_end(n_refused, tern_sweep(place->worker, table, is_odd, NULL, &n));
        ok(tern_pull_present(place->worker, table, keys, AT_ONCE, seen, present));
        for (size_t i = 0; i < AT_ONCE; i++)
            assert_true(present[i] == (keys[i] % 2 == 0));
        assert_true(stats_of(table).memory_bytes <= TERN_MIN_EVICT_BYTES);
    }
    alloc_fail_at(0);
    ok(tern_table_close(table));
}

static void any_allocation_may_fail_while_rows_leave(void **state)
{
    struct place *place = *state;
    size_t n_refused = 0;
    churn(place, &n_refused);
    assert_int_equal(n_refused, 0);
    const uint64_t before = alloc_count();
    churn(place, &n_refused);
    const uint64_t n_allocations = alloc_count() - before;
    for (uint64_t n = 1; n <= n_allocations; n++) {
        size_t refused_now = 0;
        alloc_fail_at(n);
        churn(place, &refused_now);
        assert_true(refused_now <= 1);
        n_refused += refused_now;
    }
    print_message("%llu allocations, %zu calls refused\n", (unsigned long long)n_allocations,
                  n_refused);
    assert_true(n_refused > 0);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

static enum tern_status save(struct tern_node *node, const char *path)
{
    const enum tern_status status = tern_checkpoint_start_changes(node, path, NULL, 0);
    return status ? status : tern_checkpoint_wait(node);
}

/* Three checkpoints of changes, the last of which is read; the n-th allocation of these calls fails. Returns how many they
 * ask for. */
static uint64_t save_thrice(uint64_t nth, size_t *n_refused)
{
    const struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, LENGTH);
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table *table;
    struct tern_checkpoint *checkpoint = NULL;
    char folder[] = "/tmp/tern-alloc-XXXXXX", path[64];
    size_t n;
    assert_non_null(mkdtemp(folder));
    ok(tern_node_open(NULL, &node));
    ok(tern_table_open(node, "saved", &options, &table));
    ok(tern_worker_open(node, &worker));
    ok(tern_push(worker, table, new_keys, 50, ones));
    alloc_fail_at(nth);
    const uint64_t before = alloc_count();
    for (int i = 0; i < 3; i++) {
        ok(tern_push(worker, table, new_keys + i, 1, ones));
        snprintf(path, sizeof path, "%s/%d", folder, i);
        in_the_end(n_refused, save(node, path));
    }
    in_the_end(n_refused, tern_checkpoint_open(path, &checkpoint));
    in_the_end(n_refused, tern_checkpoint_read(checkpoint, 0, 0, 60, seen_keys, seen, NULL, &n));
    size_t n_read = n;
    while (n) {
        in_the_end(n_refused,
                   tern_checkpoint_read(checkpoint, 0, n_read, 60, seen_keys, seen, NULL, &n));
        n_read += n;
    }
    assert_int_equal(n_read, 50);
    in_the_end(n_refused, tern_checkpoint_verify(checkpoint));
    const uint64_t n_allocations = alloc_count() - before;
    alloc_fail_at(0);
    ok(tern_checkpoint_close(checkpoint));
    ok(tern_worker_close(worker));
    ok(tern_node_close(node));
    snprintf(path, sizeof path, "rm -r %s", folder);
    assert_int_equal(system(path), 0);
    return n_allocations;
}

static void any_allocation_may_fail_while_checkpoints_are_written(void **state)
{
    size_t n_refused = 0;
    (void)state;
    const uint64_t n_allocations = save_thrice(0, &n_refused);
    assert_int_equal(n_refused, 0);
    for (uint64_t n = 1; n <= n_allocations; n++) {
        size_t refused_now = 0;
        save_thrice(n, &refused_now);
        assert_true(refused_now <= 1);
        n_refused += refused_now;
    }
    print_message("%llu allocations, %zu calls refused\n", (unsigned long long)n_allocations,
                  n_refused);
    assert_true(n_refused > 0);
}

/* Reads all entries: at most `most`, all elements x. */
static size_t count_entries_of(struct place *place, struct tern_table *table, size_t most, float x)
{
    size_t n = 0;
    ok(tern_pull_range(place->worker, table, 0, UINT64_MAX, most + 1, seen_keys, seen, &n));
    assert_true(n <= most);
    for (size_t i = 0; i < n * LENGTH; i++)
        assert_true(seen[i] == x);
    return n;
}

static void entries_left_by_a_refused_write_have_their_initial_value(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, LENGTH);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 5};
    static const size_t batches[] = {10, N_NEW};
    for (size_t b = 0; b < COUNT(batches); b++) {
        bool failed = true;
        for (uint64_t n = 1; failed; n++) {
            struct tern_table *table = table_of(place->node, "short", options);
            alloc_fail_at(n);
            failed = tern_push(place->worker, table, new_keys, batches[b], ones) != TERN_OK;
            alloc_fail_at(0);
            if (failed) {
                count_entries_of(place, table, batches[b], 5);
                ok(tern_push(place->worker, table, new_keys, batches[b], ones));
            }
            assert_int_equal(count_entries_of(place, table, batches[b], 6), batches[b]);
            ok(tern_table_close(table));
        }
    }
}

/* Without memory everything that exists stays usable, and everything can be closed. */
static void without_memory_existing_rows_can_be_used_and_all_be_closed(void **state)
{
    (void)state;
    struct run run = {0};
    open_all(&run);
    push_new_keys(&run);
    memset(seen, 0, sizeof seen);
    alloc_fail_from(1);
    enum tern_status pulled = tern_pull(run.worker, run.sparse, new_keys, N_NEW, seen);
    enum tern_status pushed = tern_push(run.worker, run.sparse, new_keys, N_NEW, ones);
    enum tern_status again = tern_push(run.worker, run.sparse, new_keys, N_NEW, ones);
    enum tern_status closed[] = {tern_table_close(run.sparse), tern_worker_close(run.worker),
                                 tern_node_close(run.node)};
    alloc_fail_at(0);
    ok(pulled);
    ok(pushed);
    ok(again);
    for (size_t i = 0; i < COUNT(closed); i++)
        ok(closed[i]);
    for (size_t i = 0; i < N_NEW * LENGTH; i++)
        assert_true(seen[i] == 1);
}

/* Node 0 of two, whose partner never comes: whatever allocation fails, opening it does, and leaves nothing behind
 * that a second try, or a tool that watches memory, would stumble on. */
static void a_node_of_a_cluster_may_run_out_of_memory_when_it_is_opened(void **state)
{
    (void)state;
    const struct tern_node_options options = {
        .struct_size = sizeof options, .group = "without-memory", .n_nodes = 2};
    enum tern_status status = TERN_NO_MEMORY;
    size_t n_refused = 0;
    setenv("TERN_DEADLINE", "0.1", 1);
    setenv("TERN_JOIN_DEADLINE", "0.1", 1);
    for (; status == TERN_NO_MEMORY; n_refused++) {
        struct tern_node *node = NULL;
        alloc_fail_at(n_refused + 1);
        status = tern_node_open(&options, &node);
        alloc_fail_at(0);
        assert_null(node);
    }
    unsetenv("TERN_DEADLINE");
    unsetenv("TERN_JOIN_DEADLINE");
    assert_int_equal(status, TERN_PEER);
    assert_true(n_refused > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(access_to_existing_keys_allocates_nothing),
        placed(reading_missing_keys_of_initial_value_zero_allocates_nothing),
        cmocka_unit_test(any_single_allocation_may_fail),
        cmocka_unit_test(memory_may_run_out_at_any_point),
        placed(any_allocation_may_fail_while_rows_leave),
        cmocka_unit_test(any_allocation_may_fail_while_checkpoints_are_written),
        placed(entries_left_by_a_refused_write_have_their_initial_value),
        cmocka_unit_test(without_memory_existing_rows_can_be_used_and_all_be_closed),
        cmocka_unit_test(a_node_of_a_cluster_may_run_out_of_memory_when_it_is_opened),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
