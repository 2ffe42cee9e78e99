/*
 * A worker that is the only one of its node latches nothing; as soon as there is a second one, or others
 * that may change rows, all latch, and no update is lost.
 */
#include "support/check.h"

#include <pthread.h>

#undef fail /* cmocka's; status.h has another */
#include "base/barrier.h"
#define place node_place /* check.h has another */
#include "node/exclusive.h"
#undef place

#ifdef UNDER_SANITIZER
enum { SCALE = 1 };
#else
enum { SCALE = 10 };
#endif

enum { N_KEYS = 3, MAX_BATCH = 40, MAX_LENGTH = 32, N_TURNS = 100 * SCALE, N_CALLS = 20 };
enum { MAX_PUSHED = 1 << 23 }; /* floats count exactly up to twice that */

/* Whether the worker's next change is made without latches. */
static bool is_exclusive(struct tern_worker *worker)
{
    bool exclusive = exclusive_begin(worker);
    exclusive_end(worker);
    return exclusive;
}

static void only_one_worker_is_exclusive(void **state)
{
    struct place *place = *state;
    bool possible = barrier_prepare();
    struct tern_worker *second, *third;
    assert_int_equal(is_exclusive(place->worker), possible);
    ok(tern_worker_open(place->node, &second));
    assert_false(is_exclusive(place->worker) || is_exclusive(second));
    ok(tern_worker_open(place->node, &third));
    ok(tern_worker_close(second));
    assert_false(is_exclusive(place->worker) || is_exclusive(third));
    ok(tern_worker_close(third));
    assert_int_equal(is_exclusive(place->worker), possible);
    ok(tern_worker_open(place->node, &second));
    ok(tern_worker_close(place->worker));
    assert_int_equal(is_exclusive(second), possible);
    place->worker = second;
}

static enum tern_status note_latching(void *context, struct tern_task *task)
{
    *(bool *)context = !is_exclusive(task->worker);
    return TERN_OK;
}

/* A task's function has a worker of its own. */
static void nobody_is_exclusive_beside_a_task(void **state)
{
    struct place *place = *state;
    bool latches = false;
    uint64_t id;
    struct tern_task_options options = {.struct_size = sizeof options, .function = "look"};
    ok(tern_function_register(place->node, "look", note_latching, &latches));
    ok(tern_task_submit(place->worker, &options, &id));
    ok(tern_task_wait(place->worker, id, 0));
    assert_true(latches);
    assert_false(is_exclusive(place->worker));
}

/* ---- Pushes while workers come and go -------------------------------------------------------- */

struct pusher {
    struct tern_worker *worker;
    struct tern_table *table;
    enum tern_type type;
    uint64_t counts[N_KEYS]; /* what it pushed, by key */
    atomic_bool *stops;
};

/* Pushes ones to keys that everybody uses; gives their number. */
static size_t push_ones(struct pusher *pusher, struct dice *dice)
{
    double ones[MAX_BATCH * MAX_LENGTH];
    uint64_t keys[MAX_BATCH];
    size_t n = dice_below(dice, 2) ? 1 : MAX_BATCH;
    element_fill(pusher->type, ones, COUNT(ones), 1);
    for (size_t i = 0; i < n; i++) {
        keys[i] = dice_below(dice, N_KEYS);
        pusher->counts[keys[i]]++;
    }
    holds(tern_push(pusher->worker, pusher->table, keys, n, ones) == TERN_OK);
    return n;
}

static void *push_until_stopped(void *argument)
{
    struct pusher *pusher = argument;
    struct dice dice = {1};
    size_t n_pushed = 0;
    while (!atomic_load(pusher->stops) && n_pushed < MAX_PUSHED)
        n_pushed += push_ones(pusher, &dice);
    return NULL;
}

static void push_beside(struct place *place, enum tern_index index, enum tern_type type,
                        uint32_t length)
{
    atomic_bool stops = false;
    struct tern_table *table = table_of(place->node, "hot", shape(index, type, N_KEYS, length));
    struct pusher first = {place->worker, table, type, {0}, &stops}, other = first;
    struct dice dice = {2};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, push_until_stopped, &first), 0);
    for (int turn = 0; turn < N_TURNS; turn++) {
        holds(tern_worker_open(place->node, &other.worker) == TERN_OK);
        for (int call = 0; call < N_CALLS; call++)
            push_ones(&other, &dice);
        holds(tern_worker_close(other.worker) == TERN_OK);
    }
    atomic_store(&stops, true);
    pthread_join(thread, NULL);
    all_held();
    for (uint64_t key = 0; key < N_KEYS; key++) {
        double value[MAX_LENGTH];
        ok(tern_pull(place->worker, table, &key, 1, value));
        for (uint32_t j = 0; j < length; j++)
            assert_true(element_get(type, value, j) ==
                        (double)(first.counts[key] + other.counts[key]));
    }
    ok(tern_table_close(table));
}

static void no_push_is_lost_when_a_second_worker_comes(void **state)
{
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        push_beside(*state, (enum tern_index)index, TERN_F32, 1);
        push_beside(*state, (enum tern_index)index, TERN_F32, MAX_LENGTH);
        push_beside(*state, (enum tern_index)index, TERN_I64, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(only_one_worker_is_exclusive),
        placed(nobody_is_exclusive_beside_a_task),
        placed(no_push_is_lost_when_a_second_worker_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
