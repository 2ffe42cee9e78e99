/* test_common - threads, their progress, batches ahead of time, and parameters that are in a table or in an array. */
#include "support/check.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/loader.h"
#include "common/params.h"
#include "common/progress.h"
#include "common/rng.h"
#include "common/team.h"

/* ---- Teams ----------------------------------------------------------------------------------- */

struct together {
    atomic_uint n_called;
    atomic_uint bits;
};

static bool count_me(void *context, size_t thread)
{
    struct together *together = context;
    atomic_fetch_add(&together->n_called, 1);
    atomic_fetch_or(&together->bits, 1u << thread);
    return true;
}

static bool fail_third(void *context, size_t thread)
{
    (void)context;
    return thread != 2 || task_fail("thread %zu has failed", thread);
}

static void a_team_runs_every_thread_once(void **state)
{
    struct together together = {0};
    (void)state;
    assert_true(team_run(5, count_me, NULL, &together));
    assert_int_equal(together.n_called, 5);
    assert_int_equal(together.bits, 31);
}

static void a_team_carries_the_sentence_of_a_failure(void **state)
{
    (void)state;
    assert_false(team_run(4, fail_third, NULL, NULL));
    assert_string_equal(task_error(), "thread 2 has failed");
}

/* ---- Progress -------------------------------------------------------------------------------- */

static double count_others(void *context)
{
    (void)context;
    return 2750;
}

/* Draws a bar on a terminal of so many columns, ten seconds after the begin of an epoch of which this node
 * has done 250 of 1000 examples; the line without its control characters. */
static void draw(unsigned short n_columns, double n_all, char line[512])
{
    struct progress progress;
    struct winsize size = {.ws_row = 24, .ws_col = n_columns};
    int outer = dup(STDERR_FILENO), master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(outer >= 0 && master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    assert_true(progress_init(&progress, 1, true));
    const struct progress_phase phase = {.title = "epoch 3/20",
                                         .unit = "triples",
                                         .n_total = 1000,
                                         .n_all = n_all,
                                         .n_later = 17,
                                         .later_s = 36000};
    progress.others = n_all > 0 ? count_others : NULL;
    progress_begin(&progress, &phase);
    progress.started_s -= 10;
    progress_add(&progress, 0, 250, 500);
    assert_int_equal(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
    progress_draw(&progress);
    assert_int_equal(dup2(outer, STDERR_FILENO), STDERR_FILENO);
    ssize_t n = read(master, line, 511);
    line[n > 0 ? n : 0] = '\0';
    assert_memory_equal(line, "\r\033[K", 4);
    memmove(line, line + 4, strlen(line + 4) + 1);
    progress_fini(&progress);
    close(terminal);
    close(master);
    close(outer);
}

static void a_bar_keeps_to_one_line(void **state)
{
    char line[512];
    (void)state;
    draw(40, 0, line);
    assert_string_equal(line, "epoch 3/20 [####            ]  25%  25 ");
    draw(80, 0, line);
    assert_true(strlen(line) < 80);
    assert_non_null(strstr(line, " left"));
}

/* A quarter of an epoch in 10 s: 30 s are left of it, 17 epochs of 40 s follow, and 10 hours of evaluations. */
static void a_bar_tells_the_time_until_the_job_ends(void **state)
{
    char line[512];
    (void)state;
    draw(200, 0, line);
    assert_non_null(strstr(line, "]  25%  25 triples/s  loss 2.0000  10 h 11 min left"));
}

/* With those of the others it is 3000 of 4000 examples in 10 s. */
static void a_bar_counts_all_nodes(void **state)
{
    char line[512];
    (void)state;
    draw(200, 4000, line);
    assert_non_null(strstr(line, "]  75%  300 triples/s  loss 2.0000  10 h 3 min left"));
}

/* ---- Loader ---------------------------------------------------------------------------------- */

struct stream {
    uint64_t n_prepared;
    uint64_t fail_at;
};

static bool prepare(void *context, void *batch, uint64_t clock)
{
    struct stream *stream = context;
    if (clock == stream->fail_at)
        return task_fail("no batch %d", (int)clock);
    *(uint64_t *)batch = 100 * clock;
    stream->n_prepared++;
    return true;
}

static double test_now_s;

static double test_now(void)
{
    return test_now_s;
}

/* Takes n batches, each of which takes so long. */
static void take(struct loader *loader, size_t n, double batch_s)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t clock = loader->n_taken;
        const uint64_t *batch = loader_next(loader);
        assert_non_null(batch);
        assert_int_equal(*batch, 100 * clock);
        test_now_s += batch_s;
    }
}

static struct loader begin_loading(struct stream *stream, double ahead_s)
{
    static const struct loader_batches batches = {.bytes = sizeof(uint64_t), .prepare = prepare};
    struct loader loader;
    assert_true(loader_init(&loader, &batches, stream, ahead_s));
    loader.now = test_now;
    return loader;
}

/* 50 ms are 50 batches of 1 ms, 1000 of 50 us, and 2, the least, of 100 ms. */
static void a_loader_is_ahead_by_a_time(void **state)
{
    struct stream stream = {0, UINT64_MAX};
    struct loader loader = begin_loading(&stream, 0.05);
    (void)state;
    take(&loader, 200, 0.001);
    assert_in_range(loader.n_prepared - loader.n_taken, 49, 52);
    take(&loader, 400, 0.00005);
    assert_in_range(loader.n_prepared - loader.n_taken, 990, 1010);
    take(&loader, 2000, 0.1);
    assert_int_equal(loader.n_prepared - loader.n_taken, 2);
    take(&loader, 400, 1e-9);
    assert_int_equal(loader.n_prepared - loader.n_taken, 4096);
    loader_fini(&loader);
}

/* What happens between two epochs is no batch. */
static void an_evaluation_does_not_shorten_the_look_ahead(void **state)
{
    struct stream stream = {0, UINT64_MAX};
    struct loader loader = begin_loading(&stream, 0.05);
    (void)state;
    take(&loader, 200, 0.001);
    test_now_s += 60;
    take(&loader, 1, 0.001);
    assert_in_range(loader.n_prepared - loader.n_taken, 40, 52);
    loader_fini(&loader);
}

static void a_loader_without_look_ahead(void **state)
{
    struct stream stream = {0, 50};
    struct loader loader = begin_loading(&stream, 0);
    (void)state;
    take(&loader, 50, 0.001);
    assert_int_equal(loader.n_prepared, loader.n_taken);
    assert_null(loader_next(&loader));
    assert_string_equal(task_error(), "no batch 50");
    loader_fini(&loader);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

enum { N_KEYS = 3000, LENGTH = 3 };

static void first_value(void *context, uint64_t key, void *value, size_t length)
{
    (void)context;
    for (size_t i = 0; i < length; i++)
        ((float *)value)[i] = (float)(10 * key + i);
}

static void use_params(struct tern_node *node, struct tern_worker *worker)
{
    struct params params;
    float space[2 * LENGTH], all[N_KEYS * LENGTH];
    const float *rows[2] = {space, space};
    const uint64_t keys[2] = {7, 2999};
    const float differences[2 * LENGTH] = {1, 2, 3, 4, 5, 6};
    assert_true(params_open(&params, node, NULL, "params", N_KEYS, LENGTH, first_value, NULL));
    assert_true(params_intend(&params, worker, keys, 2, 0, 1));
    assert_true(params_read(&params, worker, keys, 2, space, rows));
    assert_true(rows[0][1] == 71 && rows[1][2] == 29992);
    assert_true(params_add(&params, worker, keys, 2, differences));
    assert_true(params_read(&params, worker, keys, 2, space, rows));
    assert_true(rows[0][1] == 73 && rows[1][2] == 29998);
    assert_true(params_get(&params, worker, 0, N_KEYS, all));
    assert_true(all[7 * LENGTH + 1] == 73 && all[1500 * LENGTH] == 15000);
    all[0] = -1;
    assert_true(params_set(&params, worker, 0, N_KEYS, all));
    assert_true(params_read(&params, worker, (const uint64_t[]){0}, 1, space, rows));
    assert_true(rows[0][0] == -1 && rows[0][1] == 1);
    params_close(&params);
}

static void params_in_an_array(void **state)
{
    (void)state;
    use_params(NULL, NULL);
}

static void params_in_a_table(void **state)
{
    struct place *place = *state;
    use_params(place->node, place->worker);
}

/* ---- Random numbers -------------------------------------------------------------------------- */

static void streams_differ_and_repeat(void **state)
{
    struct rng a = rng_seed(1, 0), b = rng_seed(1, 1), again = rng_seed(1, 0);
    size_t counts[10] = {0};
    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t number = rng_next(&a);
        assert_true(number == rng_next(&again));
        assert_true(number != rng_next(&b));
        counts[rng_below(&b, 10)]++;
    }
    for (size_t i = 0; i < 10; i++)
        assert_in_range(counts[i], 9500, 10500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_team_runs_every_thread_once),
        cmocka_unit_test(a_team_carries_the_sentence_of_a_failure),
        cmocka_unit_test(a_bar_keeps_to_one_line),
        cmocka_unit_test(a_bar_tells_the_time_until_the_job_ends),
        cmocka_unit_test(a_bar_counts_all_nodes),
        cmocka_unit_test(a_loader_is_ahead_by_a_time),
        cmocka_unit_test(an_evaluation_does_not_shorten_the_look_ahead),
        cmocka_unit_test(a_loader_without_look_ahead),
        cmocka_unit_test(params_in_an_array),
        placed(params_in_a_table),
        cmocka_unit_test(streams_differ_and_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
