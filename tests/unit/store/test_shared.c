/*
 * A table in shared memory: two stores in it, as two processes have them, are one table. What a process had latched when it
 * died or was stopped is never seen by others: they get what was there before, or an error, and wait for a bounded time.
 */
#include "support/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#undef fail /* cmocka's; status.h has another */
#include "base/segment.h"
#include "store/shared.h"

enum { N_KEYS = 3000, N_PUSHES = 20000, HANGS_S = 60 };

#define PATIENCE_NS UINT64_C(300000000)

/* Two stores in one memory, at different addresses. */
struct both {
    struct segment *memory[2];
    struct store stores[2];
};

/* All keys are at home in every process. */
static const struct store_home at_home = {.hash_seed = 77};

static void open_both(struct both *both, const struct tern_table_options *options)
{
    uint64_t bytes = shared_bytes(options, &at_home);
    ok(segment_new(bytes, 0, &both->memory[0]));
    shared_format(both->memory[0]->memory, options, &at_home, PATIENCE_NS);
    ok(segment_map(segment_descriptor(both->memory[0]->number), bytes, both->memory[0]->number,
                   &both->memory[1]));
    for (int i = 0; i < 2; i++) {
        struct store_home home = {.end = options->n_keys, .shared = both->memory[i]->memory};
        ok(store_init(&both->stores[i], "both", options, &home));
    }
}

static void close_both(struct both *both)
{
    for (int i = 0; i < 2; i++) {
        store_fini(&both->stores[i]);
        segment_close(both->memory[i]);
    }
}

static uint64_t key_at(const struct store *store, uint64_t i)
{
    return store->index == TERN_DENSE ? i : scattered(i);
}

static void see_each_other(enum tern_index index, uint32_t length)
{
    struct tern_table_options options = shape(index, TERN_F32, N_KEYS, length);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 2};
    struct both both;
    open_both(&both, &options);
    float ones[256], values[256];
    for (uint32_t i = 0; i < length; i++)
        ones[i] = 1;
    for (uint64_t i = 0; i < N_KEYS; i++) {
        struct store *one = &both.stores[i % 2], *other = &both.stores[1 - i % 2];
        uint64_t key = key_at(one, i);
        ok(store_create(one, key));
        assert_true(store_push_one(other, key, ones));
        assert_true(store_pull_one(one, key, values));
        for (uint32_t k = 0; k < length; k++)
            assert_true(values[k] == 3);
    }
    assert_int_equal(store_rows(&both.stores[0]), N_KEYS);
    assert_int_equal(store_rows(&both.stores[1]), N_KEYS);
    /* One that is pinned leaves its entry, if it was there, for the same place at both. */
    float *row, *same;
    uint64_t key = key_at(&both.stores[0], 17);
    ok(store_pin(&both.stores[0], key, (void **)&row));
    ok(store_pin(&both.stores[1], key, (void **)&same));
    row[0] = 5;
    assert_true(same[0] == 5);
    assert_true(store_unpin(&both.stores[0], key) && store_unpin(&both.stores[1], key));
    close_both(&both);
}

static void what_one_does_the_other_sees(void **state)
{
    (void)state;
    for (uint32_t length = 1; length < 200; length = 3 * length + 1) {
        see_each_other(TERN_DENSE, length);
        see_each_other(TERN_SPARSE, length);
    }
}

struct pusher {
    struct store *store;
    uint64_t seed;
};

static void *push_ones(void *context)
{
    const struct pusher *pusher = context;
    struct dice dice = {pusher->seed};
    const int64_t ones[4] = {1, 1, 1, 1};
    for (int i = 0; i < N_PUSHES; i++) {
        /* Few keys that all push to, and many that make a sparse index grow. */
        uint64_t key =
            key_at(pusher->store, i % 2 ? dice_below(&dice, 10) : dice_below(&dice, N_KEYS));
        holds(store_create(pusher->store, key) == TERN_OK);
        holds(store_push_one(pusher->store, key, ones));
    }
    return NULL;
}

static void push_beside_each_other(enum tern_index index)
{
    struct tern_table_options options = shape(index, TERN_I64, N_KEYS, 4);
    struct both both;
    open_both(&both, &options);
    pthread_t threads[4];
    struct pusher pushers[4];
    for (uint64_t i = 0; i < 4; i++) {
        pushers[i] = (struct pusher){&both.stores[i % 2], i};
        assert_int_equal(pthread_create(&threads[i], NULL, push_ones, &pushers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    all_held();
    int64_t sum = 0, value[4];
    for (uint64_t i = 0; i < N_KEYS; i++)
        if (store_pull_one(&both.stores[i % 2], key_at(&both.stores[0], i), value))
            sum += value[0];
    assert_int_equal(sum, 4 * N_PUSHES);
    close_both(&both);
}

static void latches_are_shared(void **state)
{
    (void)state;
    push_beside_each_other(TERN_DENSE);
#ifndef UNDER_TSAN /* which takes an entry that has moved at the other address for one that nobody has ordered */
    push_beside_each_other(TERN_SPARSE);
#endif
}

/* What a process may leave behind: the latch of a row, of a stripe of inline values, of a part of the index. */
enum left { LEFT_ROW, LEFT_STRIPE, LEFT_INDEX };

static void leave(struct store *store, enum left left, uint64_t key)
{
    uint64_t word;
    if (left == LEFT_ROW)
        store_latch(store, key, &word);
    else if (left == LEFT_STRIPE)
        stripe_latch(store_stripe(store, key), NULL);
    else
        latch_take(
            &store->sparse->stripes[sparse_hash(store->sparse, key) >> (64 - SPARSE_STRIPE_BITS)]
                 .latch,
            RANK_INDEX_STRIPE, NULL);
}

/* A child attaches the memory, takes a latch and stops or dies: the rest of the test has certainty. */
static pid_t leave_in_child(struct both *both, enum left left, uint64_t key, int signal)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        leave(&both->stores[1], left, key);
        raise(signal);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status) || WIFSIGNALED(status));
    return child;
}

static void end_child(pid_t child, int signal)
{
    if (signal == SIGKILL)
        return;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* All that waits for `key` fails; another key is as it was. `loss` is what is known of the loss, or 0. */
static void give_up(enum tern_index index, uint32_t length, enum left left, int signal,
                    uint32_t loss)
{
    struct tern_table_options options = shape(index, TERN_I32, N_KEYS, length);
    struct both both;
    const int32_t ones[2] = {1, 1};
    int32_t value[2];
    bool here;
    void *row;
    open_both(&both, &options);
    struct store *store = &both.stores[0];
    const uint64_t key = key_at(store, 5), whole = key_at(store, 2000);
    const bool is_new = left == LEFT_INDEX;
    for (int i = 0; i < 2; i++) {
        ok(store_create(store, i || is_new ? whole : key));
        assert_true(store_push_one(store, i || is_new ? whole : key, ones));
    }
    pid_t child = leave_in_child(&both, left, key, signal);
    if (loss)
        watch_lose(store->watch, loss);
    if (left == LEFT_ROW && length > 1) {
        assert_false(store_pull_one(store, key, value));
        refused(store_pull_new(store, key, value, &here), TERN_PEER, "table 'both' is lost");
        refused(store_pin(store, key, &row), TERN_PEER, "table 'both' is lost");
    }
    if (is_new)
        refused(store_create(store, key), TERN_PEER, "table 'both' is lost");
    else
        assert_false(store_push_one(store, key, ones));
    uint32_t missed[N_KEYS];
    uint64_t keys[100];
    struct entry *entries[100];
    static int32_t many[200];
    for (uint64_t i = 0; i < 100; i++) {
        keys[i] = i % 2 ? whole : key;
        entries[i] = store_find(store, keys[i]);
    }
    size_t n_missed = is_new ? 0 : store_push(store, keys, 100, entries, many, missed);
    assert_true(is_new || n_missed >= 50);
    for (size_t i = 0; i < n_missed && left == LEFT_ROW; i++)
        assert_int_equal(keys[missed[i]], key);
    refused(store_check_lost(store), TERN_PEER, "table 'both' is lost",
            loss ? "node 3" : "latched for 0.3 s");
    assert_true(store_pull_one(store, whole, value));
    assert_int_equal(value[0], is_new ? 2 : 1);
    end_child(child, signal);
    close_both(&both);
}

static void waits_for_lost_processes_end(void **state)
{
    (void)state;
    static const int signals[] = {SIGKILL, SIGSTOP};
    alarm(HANGS_S);
    for (int i = 0; i < 2; i++)
        for (uint32_t loss = 0; loss <= 4; loss += 4)
            for (uint32_t length = 1; length <= 2; length++) {
                give_up(TERN_DENSE, length, LEFT_ROW, signals[i], loss);
                give_up(TERN_SPARSE, length, LEFT_ROW, signals[i], loss);
                give_up(TERN_SPARSE, length, LEFT_INDEX, signals[i], loss);
                if (length == 1) {
                    give_up(TERN_DENSE, length, LEFT_STRIPE, signals[i], loss);
                    give_up(TERN_SPARSE, length, LEFT_STRIPE, signals[i], loss);
                }
            }
    alarm(0);
}

/* A dense table's unused index is not touched when a process is lost. */
static void a_loss_touches_no_memory(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_I32, 100000000, 1);
    struct both both;
    open_both(&both, &options);
    ok(store_create(&both.stores[0], 7));
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    watch_lose(both.stores[0].watch, 2);
    refused(store_check_lost(&both.stores[1]), TERN_PEER, "node 1");
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_minflt - before.ru_minflt < 100);
    close_both(&both);
}

/* Inserts keys until it is killed. */
static void insert_for_ever(struct store *store, uint64_t first)
{
    const int32_t ones[2] = {1, 1};
    for (uint64_t i = first;; i++)
        if (store_create(store, scattered(i)) || !store_push_one(store, scattered(i), ones))
            _exit(1);
}

/* A process is killed while it makes the index grow: those that are left find each key as it was, or fail. */
static void an_index_is_whole_or_lost(void **state)
{
    (void)state;
    enum { KILLS = 40, OURS = 300 };
    struct dice dice = {7};
    alarm(HANGS_S);
    for (int round = 0; round < KILLS; round++) {
        struct tern_table_options options =
            shape(TERN_SPARSE, TERN_I32, 0, 1 + (uint32_t)round % 2);
        options.memory_limit_bytes = 1 << 28;
        struct both both;
        const int32_t ones[2] = {1, 1};
        int32_t value[2];
        open_both(&both, &options);
        struct store *store = &both.stores[0];
        for (uint64_t i = 0; i < OURS; i++) {
            ok(store_create(store, scattered(i)));
            assert_true(store_push_one(store, scattered(i), ones));
        }
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            insert_for_ever(&both.stores[1], 1000000);
        usleep((useconds_t)(500 + dice_below(&dice, 20000)));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        watch_lose(store->watch, 1);
        for (uint64_t i = 0; i < 2 * OURS; i++) {
            if (store_create(store, scattered(i)) || !store_push_one(store, scattered(i), ones) ||
                !store_pull_one(store, scattered(i), value))
                continue;
            assert_int_equal(value[0], i < OURS ? 2 : 1);
        }
        close_both(&both);
    }
    alarm(0);
}

static void some_tables_are_not_for_it(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, N_KEYS, 4);
    assert_true(shared_bytes(&options, &at_home) >= N_KEYS * 24);
    options.n_keys = TERN_MAX_ROWS + 1;
    assert_int_equal(shared_bytes(&options, &at_home), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_does_the_other_sees),
        cmocka_unit_test(latches_are_shared),
        cmocka_unit_test(waits_for_lost_processes_end),
        cmocka_unit_test(a_loss_touches_no_memory),
        cmocka_unit_test(an_index_is_whole_or_lost),
        cmocka_unit_test(some_tables_are_not_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
