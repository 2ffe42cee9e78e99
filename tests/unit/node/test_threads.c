/*
 * Many threads, each with its own worker: no update is lost, a value is read and written as a whole,
 * and tables, workers and rows may come and go beside the work.
 */
#include "support/check.h"

#include <math.h>
#include <pthread.h>

#ifdef UNDER_TSAN
enum { SCALE = 1 };
#elif defined(UNDER_ASAN)
enum { SCALE = 10 };
#else
enum { SCALE = 40 };
#endif

enum { N_THREADS = 8, N_CALLS = 400 * SCALE, MAX_BATCH = 16, N_KEYS = 1500, MAX_LENGTH = 32 };

static void run_threads(void *(*run)(void *), void *arguments, size_t size)
{
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (char *)arguments + i * size), 0);
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    all_held();
}

/* ---- Pushing ones ---------------------------------------------------------------------------- */

struct subject {
    enum tern_index index;
    enum tern_type type;
    uint32_t length;
    bool skewed; /* a few keys get most of the accesses */
};

struct pusher {
    struct tern_node *node;
    struct tern_table *tables[2];
    const struct subject *subject;
    uint64_t seed;
    uint64_t counts[2][N_KEYS]; /* what this thread pushed, by table and key */
};

/* The i-th key of a test. */
static uint64_t key_at(const struct subject *subject, size_t i)
{
    return subject->index == TERN_DENSE ? i : scattered(i);
}

static size_t choose(const struct subject *subject, struct dice *dice)
{
    double u = dice_unit(dice);
    return (size_t)((subject->skewed ? pow(u, 12) : u) * N_KEYS);
}

/* All elements of a row get the same updates, so they are equal whenever it is read as a whole. */
static void check_whole_rows(const struct subject *subject, const void *values, size_t n)
{
    size_t size = element_size(subject->type);
    const char *bytes = values;
    for (size_t i = 0; i < n; i++, bytes += subject->length * size)
        for (size_t j = 1; j < subject->length; j++)
            holds(memcmp(bytes, bytes + j * size, size) == 0);
}

static void *push_ones(void *argument)
{
    struct pusher *pusher = argument;
    const struct subject *subject = pusher->subject;
    struct tern_worker *worker;
    if (!holds(tern_worker_open(pusher->node, &worker) == TERN_OK))
        return NULL;
    struct dice dice = {pusher->seed};
    double ones[MAX_BATCH * MAX_LENGTH];
    double values[MAX_BATCH * MAX_LENGTH];
    element_fill(subject->type, ones, COUNT(ones), 1);
    for (size_t call = 0; call < N_CALLS; call++) {
        size_t t = call % 2;
        size_t n = 1 + dice_below(&dice, MAX_BATCH);
        uint64_t keys[MAX_BATCH];
        for (size_t i = 0; i < n; i++) {
            size_t chosen = choose(subject, &dice);
            keys[i] = key_at(subject, chosen);
            pusher->counts[t][chosen]++;
        }
        holds(tern_push(worker, pusher->tables[t], keys, n, ones) == TERN_OK);
        if (call % 3 != 0)
            continue;
        holds(tern_pull(worker, pusher->tables[t], keys, n, values) == TERN_OK);
        check_whole_rows(subject, values, n);
        holds(element_get(subject->type, values, 0) >= 1); /* it sees its own push */
    }
    holds(tern_worker_close(worker) == TERN_OK);
    return NULL;
}

static void check_sums(struct place *place, const struct pusher *pushers, size_t t)
{
    const struct subject *subject = pushers[0].subject;
    uint64_t n_pushed = 0;
    uint64_t n_rows = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        uint64_t wanted = 0;
        for (size_t p = 0; p < N_THREADS; p++)
            wanted += pushers[p].counts[t][i];
        n_pushed += wanted;
        n_rows += wanted > 0;
        double value[MAX_LENGTH];
        uint64_t key = key_at(subject, i);
        ok(tern_pull(place->worker, pushers[0].tables[t], &key, 1, value));
        for (size_t j = 0; j < subject->length; j++)
            assert_true(element_get(subject->type, value, j) == (double)wanted);
    }
    struct tern_table_stats stats = stats_of(pushers[0].tables[t]);
    assert_int_equal(stats.pushed_keys, n_pushed);
    if (subject->index == TERN_SPARSE)
        assert_int_equal(stats.rows, n_rows);
}

static void no_push_is_lost_or_seen_by_half(void **state)
{
    struct place *place = *state;
    static const struct subject subjects[] = {
        {TERN_DENSE, TERN_F32, 1, false},           {TERN_DENSE, TERN_F32, MAX_LENGTH, false},
        {TERN_DENSE, TERN_I64, 2, false},           {TERN_SPARSE, TERN_F32, 1, false},
        {TERN_SPARSE, TERN_F32, MAX_LENGTH, false}, {TERN_SPARSE, TERN_I64, 2, false},
        {TERN_DENSE, TERN_F32, MAX_LENGTH, true},   {TERN_SPARSE, TERN_F32, MAX_LENGTH, true},
        {TERN_SPARSE, TERN_I64, 2, true},
    };
    for (size_t s = 0; s < COUNT(subjects); s++) {
        const struct subject *subject = &subjects[s];
        struct tern_table_options options =
            shape(subject->index, subject->type, N_KEYS, subject->length);
        struct tern_table *tables[] = {table_of(place->node, "one", options),
                                       table_of(place->node, "two", options)};
        struct pusher *pushers = array_of(N_THREADS, sizeof *pushers);
        for (size_t i = 0; i < N_THREADS; i++) {
            pushers[i].node = place->node;
            pushers[i].tables[0] = tables[0];
            pushers[i].tables[1] = tables[1];
            pushers[i].subject = subject;
            pushers[i].seed = i;
        }
        run_threads(push_ones, pushers, sizeof *pushers);
        for (size_t t = 0; t < 2; t++) {
            check_sums(place, pushers, t);
            ok(tern_table_close(tables[t]));
        }
        free(pushers);
    }
}

/* ---- Setting whole rows ---------------------------------------------------------------------- */

struct setter {
    struct tern_node *node;
    struct tern_table *table;
    const struct subject *subject;
    size_t number;
};

static void *set_own_number(void *argument)
{
    struct setter *setter = argument;
    struct tern_worker *worker;
    if (!holds(tern_worker_open(setter->node, &worker) == TERN_OK))
        return NULL;
    struct dice dice = {setter->number};
    double values[MAX_LENGTH];
    for (size_t call = 0; call < N_CALLS; call++) {
        uint64_t key = key_at(setter->subject, dice_below(&dice, 5));
        element_fill(setter->subject->type, values, MAX_LENGTH, (double)setter->number + 1);
        holds(tern_set(worker, setter->table, &key, 1, values) == TERN_OK);
        holds(tern_pull(worker, setter->table, &key, 1, values) == TERN_OK);
        check_whole_rows(setter->subject, values, 1);
        double seen = element_get(setter->subject->type, values, 0);
        holds(seen >= 1 && seen <= N_THREADS);
    }
    holds(tern_worker_close(worker) == TERN_OK);
    return NULL;
}

static void no_set_is_seen_by_half(void **state)
{
    struct place *place = *state;
    static const struct subject subjects[] = {
        {TERN_DENSE, TERN_F32, MAX_LENGTH, false},
        {TERN_SPARSE, TERN_F64, MAX_LENGTH, false},
        {TERN_DENSE, TERN_I32, 3, false},
    };
    for (size_t s = 0; s < COUNT(subjects); s++) {
        struct tern_table *table =
            table_of(place->node, "set",
                     shape(subjects[s].index, subjects[s].type, N_KEYS, subjects[s].length));
        struct setter setters[N_THREADS];
        for (size_t i = 0; i < N_THREADS; i++)
            setters[i] = (struct setter){place->node, table, &subjects[s], i};
        run_threads(set_own_number, setters, sizeof setters[0]);
        ok(tern_table_close(table));
    }
}

/* ---- Rows that appear, ranges beside them ---------------------------------------------------- */

enum { N_NEW = 1500 * SCALE };

struct creator {
    struct tern_node *node;
    struct tern_table *table;
    size_t number;
};

/* All threads create the same keys, each in its own order, and read ranges meanwhile. */
static void *create_rows(void *argument)
{
    struct creator *creator = argument;
    struct tern_worker *worker;
    if (!holds(tern_worker_open(creator->node, &worker) == TERN_OK))
        return NULL;
    for (size_t i = 0; i < N_NEW; i++) {
        uint64_t key = (i * 2 * creator->number + i + creator->number) % N_NEW;
        int64_t one[2] = {1, 1};
        holds(tern_push(worker, creator->table, &key, 1, one) == TERN_OK);
        if (i % 500 != 0)
            continue;
        uint64_t keys[64];
        int64_t values[128];
        size_t n = 0;
        uint64_t begin = N_NEW / 4;
        holds(tern_pull_range(worker, creator->table, begin, N_NEW, 64, keys, values, &n) ==
              TERN_OK);
        holds(n <= 64);
        for (size_t k = 0; k < n; k++) {
            holds(keys[k] >= begin && keys[k] < N_NEW && (k == 0 || keys[k - 1] < keys[k]));
            holds(values[2 * k] == values[2 * k + 1]);
        }
    }
    holds(tern_worker_close(worker) == TERN_OK);
    return NULL;
}

static void rows_may_be_created_by_all_threads_at_once(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "grown", shape(TERN_SPARSE, TERN_I64, 0, 2));
    struct creator creators[N_THREADS];
    int64_t total = 0;
    for (size_t i = 0; i < N_THREADS; i++)
        creators[i] = (struct creator){place->node, table, i};
    run_threads(create_rows, creators, sizeof creators[0]);
    for (uint64_t key = 0; key < N_NEW; key++) {
        int64_t value[2];
        ok(tern_pull(place->worker, table, &key, 1, value));
        assert_true(value[0] == value[1]);
        total += value[0];
    }
    assert_int_equal(total, N_THREADS * N_NEW);
    assert_int_equal(stats_of(table).rows, N_NEW); /* thread 0 creates them all */
    ok(tern_table_close(table));
}

/* ---- Pins ------------------------------------------------------------------------------------ */

enum { N_PINNED = 40, N_TURNS = 50 * SCALE };

struct owner {
    struct tern_node *node;
    struct tern_table *table;
    const struct subject *subject;
    size_t number;
};

/* Writes rows of its own in place, while everybody makes the table grow. */
static void *write_in_place(void *argument)
{
    struct owner *owner = argument;
    struct tern_worker *worker;
    if (!holds(tern_worker_open(owner->node, &worker) == TERN_OK))
        return NULL;
    uint64_t keys[N_PINNED];
    void *rows[N_PINNED];
    for (size_t i = 0; i < N_PINNED; i++)
        keys[i] = key_at(owner->subject, i * N_THREADS + owner->number);
    for (size_t turn = 0; turn < N_TURNS; turn++) {
        if (!holds(tern_pin(worker, owner->table, keys, N_PINNED, rows) == TERN_OK))
            break;
        uint64_t other =
            key_at(owner->subject, N_PINNED * N_THREADS + turn % (N_KEYS - N_PINNED * N_THREADS));
        float ones[MAX_LENGTH];
        element_fill(TERN_F32, ones, MAX_LENGTH, 1);
        holds(tern_push(worker, owner->table, &other, 1, ones) == TERN_OK);
        for (size_t i = 0; i < N_PINNED; i++)
            for (size_t j = 0; j < owner->subject->length; j++)
                ((float *)rows[i])[j] += 1;
        holds(tern_unpin(worker, owner->table, keys, N_PINNED) == TERN_OK);
        /* And by push, in turn: both reach the same row. */
        holds(tern_push(worker, owner->table, keys, 1, ones) == TERN_OK);
    }
    holds(tern_worker_close(worker) == TERN_OK);
    return NULL;
}

static void rows_written_in_place_keep_every_write(void **state)
{
    struct place *place = *state;
    static const struct subject subjects[] = {
        {TERN_DENSE, TERN_F32, 8, false},
        {TERN_SPARSE, TERN_F32, 8, false},
        {TERN_SPARSE, TERN_F32, 1, false},
    };
    for (size_t s = 0; s < COUNT(subjects); s++) {
        struct tern_table *table = table_of(
            place->node, "pinned", shape(subjects[s].index, TERN_F32, N_KEYS, subjects[s].length));
        struct owner owners[N_THREADS];
        for (size_t i = 0; i < N_THREADS; i++)
            owners[i] = (struct owner){place->node, table, &subjects[s], i};
        run_threads(write_in_place, owners, sizeof owners[0]);
        for (size_t i = 0; i < N_PINNED * N_THREADS; i++) {
            float value[MAX_LENGTH];
            uint64_t key = key_at(&subjects[s], i);
            ok(tern_pull(place->worker, table, &key, 1, value));
            for (size_t j = 0; j < subjects[s].length; j++)
                assert_true(value[j] == (i < N_THREADS ? 2 : 1) * N_TURNS);
        }
        assert_int_equal(stats_of(table).pinned_keys, N_THREADS * N_PINNED * N_TURNS);
        ok(tern_table_close(table));
    }
}

/* ---- Opening and closing beside the work ----------------------------------------------------- */

enum { N_CYCLES = 30 * SCALE };

struct visitor {
    struct tern_node *node;
    struct tern_table *standing;
    size_t number;
};

static void use_own_table(struct visitor *visitor, struct tern_worker *worker, size_t cycle)
{
    char name[32];
    snprintf(name, sizeof name, "visitor %zu", visitor->number);
    struct tern_table_options options =
        shape((cycle + visitor->number) % 2 ? TERN_DENSE : TERN_SPARSE, TERN_I32, 50, 4);
    struct tern_table *table;
    if (!holds(tern_table_open(visitor->node, name, &options, &table) == TERN_OK))
        return;
    uint64_t keys[] = {1, 49, 7};
    int32_t values[12];
    element_fill(TERN_I32, values, 12, 2);
    holds(tern_push(worker, table, keys, 3, values) == TERN_OK);
    holds(tern_pull(worker, table, keys, 3, values) == TERN_OK);
    for (size_t i = 0; i < 12; i++)
        holds(values[i] == 2);
    holds(tern_table_close(table) == TERN_OK);
}

static void *come_and_go(void *argument)
{
    struct visitor *visitor = argument;
    for (size_t cycle = 0; cycle < N_CYCLES; cycle++) {
        struct tern_worker *worker;
        if (!holds(tern_worker_open(visitor->node, &worker) == TERN_OK))
            return NULL;
        use_own_table(visitor, worker, cycle);
        uint64_t key = cycle;
        int32_t one = 1;
        holds(tern_push(worker, visitor->standing, &key, 1, &one) == TERN_OK);
        struct tern_table_stats stats = {.struct_size = sizeof stats};
        holds(tern_table_get_stats(visitor->standing, &stats) == TERN_OK);
        holds(stats.pushed_keys > cycle);
        holds(tern_worker_close(worker) == TERN_OK);
    }
    return NULL;
}

static void tables_and_workers_may_come_and_go_beside_work(void **state)
{
    struct place *place = *state;
    struct tern_table *standing =
        table_of(place->node, "standing", shape(TERN_SPARSE, TERN_I32, 0, 1));
    struct visitor visitors[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++)
        visitors[i] = (struct visitor){place->node, standing, i};
    run_threads(come_and_go, visitors, sizeof visitors[0]);
    for (uint64_t key = 0; key < N_CYCLES; key++) {
        int32_t value;
        ok(tern_pull(place->worker, standing, &key, 1, &value));
        assert_int_equal(value, N_THREADS);
    }
    assert_int_equal(stats_of(standing).pushed_keys, N_THREADS * N_CYCLES);
    ok(tern_table_close(standing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(no_push_is_lost_or_seen_by_half),
        placed(no_set_is_seen_by_half),
        placed(rows_may_be_created_by_all_threads_at_once),
        placed(rows_written_in_place_keep_every_write),
        placed(tables_and_workers_may_come_and_go_beside_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
