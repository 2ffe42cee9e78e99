/*
 * The value a key has before anything was written to it: its distribution, and that it depends on
 * the seed and the key alone.
 *
 * The tolerances of statistical checks are five standard errors of the estimate for the number of
 * samples drawn; with fixed seeds a check that passes once passes always.
 */
#include "support/check.h"

#include <float.h>
#include <math.h>
#include <pthread.h>

enum { N_KEYS = 4000, LENGTH = 24, N_SAMPLES = N_KEYS * LENGTH };

static struct tern_table_options initialised(enum tern_index index, enum tern_type type,
                                             enum tern_init_kind kind, double a, double b)
{
    struct tern_table_options options = shape(index, type, N_KEYS, LENGTH);
    options.init = (struct tern_init){.kind = kind, .seed = 42, .a = a, .b = b};
    return options;
}

/* The initial values of keys 0 .. N_KEYS-1, from a table that lives only for this. */
static void *draw(struct place *place, struct tern_table_options options)
{
    struct tern_table *table = table_of(place->node, "drawn", options);
    uint64_t *keys = array_of(N_KEYS, sizeof *keys);
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = i;
    void *values = array_of((size_t)N_KEYS * options.length, element_size(options.type));
    ok(tern_pull(place->worker, table, keys, N_KEYS, values));
    free(keys);
    ok(tern_table_close(table));
    return values;
}

/* The samples as doubles. */
static double *draw_doubles(struct place *place, struct tern_table_options options)
{
    void *values = draw(place, options);
    size_t n = (size_t)N_KEYS * options.length;
    double *doubles = array_of(n, sizeof *doubles);
    for (size_t i = 0; i < n; i++)
        doubles[i] = element_get(options.type, values, i);
    free(values);
    return doubles;
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* The mean of (x - mean)^power. */
static double moment_of(const double *x, size_t n, double mean, int power)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += pow(x[i] - mean, power);
    return sum / (double)n;
}

/* The correlation of x[i] and y[i] over n pairs; its standard error is 1/sqrt(n) if there is none. */
static double correlation_of(const double *x, const double *y, size_t n)
{
    double mean_x = mean_of(x, n);
    double mean_y = mean_of(y, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (x[i] - mean_x) * (y[i] - mean_y);
    return sum / (double)n / sqrt(moment_of(x, n, mean_x, 2) * moment_of(y, n, mean_y, 2));
}

static void assert_near(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%.9g, not %.9g within %.3g", got, wanted, tolerance);
}

/* ---- Distributions --------------------------------------------------------------------------- */

static void zero_and_constant_fill_every_element(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        for (int type = TERN_F32; type <= TERN_I64; type++) {
            struct tern_table_options options =
                initialised((enum tern_index)index, (enum tern_type)type, TERN_INIT_ZERO, 7, 7);
            double *values = draw_doubles(place, options);
            for (size_t i = 0; i < N_SAMPLES; i++)
                assert_true(values[i] == 0);
            free(values);
            options.init.kind = TERN_INIT_CONSTANT;
            options.init.a = -3;
            values = draw_doubles(place, options);
            for (size_t i = 0; i < N_SAMPLES; i++)
                assert_true(values[i] == -3);
            free(values);
        }
    }
}

static void uniform_has_its_bounds_and_moments(void **state)
{
    for (int type = TERN_F32; type <= TERN_F64; type++) {
        const double a = -0.5, b = 1.5, width = b - a;
        double *x = draw_doubles(
            *state, initialised(TERN_DENSE, (enum tern_type)type, TERN_INIT_UNIFORM, a, b));
        for (size_t i = 0; i < N_SAMPLES; i++)
            assert_true(x[i] >= a && x[i] < b);
        double variance = width * width / 12;
        assert_near(mean_of(x, N_SAMPLES), (a + b) / 2, 5 * sqrt(variance / N_SAMPLES));
        /* Of (x - mean)^2 the variance is width^4 (1/80 - 1/144). */
        assert_near(moment_of(x, N_SAMPLES, (a + b) / 2, 2), variance,
                    5 * width * width * sqrt((1.0 / 80 - 1.0 / 144) / N_SAMPLES));
        /* All sixteenths of the interval are equally likely. */
        size_t counts[16] = {0};
        for (size_t i = 0; i < N_SAMPLES; i++)
            counts[(size_t)((x[i] - a) / width * 16)]++;
        for (size_t i = 0; i < 16; i++)
            assert_near((double)counts[i], N_SAMPLES / 16.0, 5 * sqrt(N_SAMPLES / 16.0));
        free(x);
    }
}

/* Where rounding is coarse: only four f32 numbers lie in [1, 1 + 4 epsilon). */
static void uniform_never_reaches_its_upper_bound(void **state)
{
    const double a = 1, b = 1 + 4 * (double)FLT_EPSILON;
    double *x = draw_doubles(*state, initialised(TERN_DENSE, TERN_F32, TERN_INIT_UNIFORM, a, b));
    for (size_t i = 0; i < N_SAMPLES; i++)
        assert_true(x[i] >= a && x[i] < b);
    free(x);
    const double low = 9007199254740992, high = low + 2; /* 2^53: every other whole number */
    for (int type = TERN_F64; type <= TERN_I64; type += TERN_I64 - TERN_F64) {
        x = draw_doubles(
            *state, initialised(TERN_DENSE, (enum tern_type)type, TERN_INIT_UNIFORM, low, high));
        for (size_t i = 0; i < N_SAMPLES; i++)
            assert_true(x[i] >= low && x[i] < high);
        free(x);
    }
}

static void integers_are_uniform_from_a_to_b_minus_1(void **state)
{
    for (int type = TERN_I32; type <= TERN_I64; type++) {
        double *x = draw_doubles(
            *state, initialised(TERN_SPARSE, (enum tern_type)type, TERN_INIT_UNIFORM, -3, 4));
        size_t counts[7] = {0};
        for (size_t i = 0; i < N_SAMPLES; i++) {
            assert_true(x[i] >= -3 && x[i] <= 3);
            counts[(size_t)(x[i] + 3)]++;
        }
        for (size_t i = 0; i < 7; i++)
            assert_near((double)counts[i], N_SAMPLES / 7.0, 5 * sqrt(N_SAMPLES / 7.0));
        free(x);
    }
}

static void normal_has_its_mean_deviation_and_tails(void **state)
{
    for (int type = TERN_F32; type <= TERN_F64; type++) {
        const double mean = 2, deviation = 0.25;
        double *x = draw_doubles(*state, initialised(TERN_DENSE, (enum tern_type)type,
                                                     TERN_INIT_NORMAL, mean, deviation));
        for (size_t i = 0; i < N_SAMPLES; i++) {
            assert_true(isfinite(x[i]));
            x[i] = (x[i] - mean) / deviation;
        }
        /* Standard errors of the first four moments of a standard normal: 1, 2, 15, 96 over n. */
        assert_near(mean_of(x, N_SAMPLES), 0, 5 * sqrt(1.0 / N_SAMPLES));
        assert_near(moment_of(x, N_SAMPLES, 0, 2), 1, 5 * sqrt(2.0 / N_SAMPLES));
        assert_near(moment_of(x, N_SAMPLES, 0, 3), 0, 5 * sqrt(15.0 / N_SAMPLES));
        assert_near(moment_of(x, N_SAMPLES, 0, 4), 3, 5 * sqrt(96.0 / N_SAMPLES));
        static const struct {
            double beyond, share;
        } tails[] = {{1, 0.317310508}, {2, 0.045500264}, {3, 0.002699796}};
        for (size_t t = 0; t < COUNT(tails); t++) {
            size_t n = 0;
            for (size_t i = 0; i < N_SAMPLES; i++)
                n += fabs(x[i]) > tails[t].beyond;
            double expected = tails[t].share * N_SAMPLES;
            assert_near((double)n, expected, 5 * sqrt(expected));
        }
        free(x);
    }
}

static void elements_of_a_row_are_independent(void **state)
{
    const double tolerance = 5 / sqrt(N_KEYS);
    for (int kind = TERN_INIT_UNIFORM; kind <= TERN_INIT_NORMAL; kind++) {
        double *x = draw_doubles(
            *state, initialised(TERN_DENSE, TERN_F64, (enum tern_init_kind)kind, -1, 1));
        /* By element: elements[j] holds element j of all keys. */
        static double elements[LENGTH][N_KEYS];
        for (size_t i = 0; i < N_SAMPLES; i++)
            elements[i % LENGTH][i / LENGTH] = x[i];
        for (size_t i = 0; i < LENGTH; i++) {
            for (size_t j = 0; j < i; j++)
                assert_near(correlation_of(elements[i], elements[j], N_KEYS), 0, tolerance);
        }
        for (size_t i = 0; i < N_SAMPLES; i++)
            for (size_t j = i + 1; j < (i / LENGTH + 1) * LENGTH; j++)
                assert_true(x[i] != x[j]);
        /* And rows of neighbouring keys. */
        assert_near(correlation_of(x, x + LENGTH, N_SAMPLES - LENGTH), 0, 5 / sqrt(N_SAMPLES));
        assert_near(correlation_of(x, x + 1, N_SAMPLES - 1), 0, 5 / sqrt(N_SAMPLES));
        free(x);
    }
}

static void seeds_give_different_and_independent_values(void **state)
{
    struct tern_table_options options = initialised(TERN_DENSE, TERN_F64, TERN_INIT_UNIFORM, -1, 1);
    double *x = draw_doubles(*state, options);
    static const uint64_t others[] = {0, 41, 43, UINT64_C(42) << 32, UINT64_MAX};
    for (size_t s = 0; s < COUNT(others); s++) {
        options.init.seed = others[s];
        double *y = draw_doubles(*state, options);
        size_t n_equal = 0;
        for (size_t i = 0; i < N_SAMPLES; i++)
            n_equal += x[i] == y[i];
        assert_int_equal(n_equal, 0);
        /* Nor is seed + 1 the same sequence moved by a key, or by an element. */
        static const size_t shifts[] = {0, 1, LENGTH};
        for (size_t k = 0; k < COUNT(shifts); k++) {
            size_t n = N_SAMPLES - shifts[k];
            assert_near(correlation_of(x + shifts[k], y, n), 0, 5 / sqrt((double)n));
            assert_near(correlation_of(x, y + shifts[k], n), 0, 5 / sqrt((double)n));
        }
        free(y);
    }
    free(x);
}

/* ---- It depends on seed and key alone -------------------------------------------------------- */

/* What the function initialiser below writes. */
static double function_value(uint64_t key, size_t j)
{
    return (double)(key % 1000) * 4 + (double)(j % 4) + 1;
}

static void write_by_key(void *context, uint64_t key, void *value, size_t length)
{
    const enum tern_type *type = context;
    for (size_t j = 0; j < length; j++)
        element_put(*type, value, j, function_value(key, j));
}

static enum tern_type types[] = {TERN_F32, TERN_F64, TERN_I32, TERN_I64};

static const struct tern_init kinds[] = {
    {.kind = TERN_INIT_CONSTANT, .a = 5},
    {.kind = TERN_INIT_UNIFORM, .seed = 9, .a = -100, .b = 100},
    {.kind = TERN_INIT_NORMAL, .seed = 9, .a = 0, .b = 1},
    {.kind = TERN_INIT_FUNCTION, .function = write_by_key},
};

/* Calls `check` for each type with each initialiser it may have. */
static void for_each_init(struct place *place,
                          void (*check)(struct place *place, struct tern_table_options options))
{
    for (size_t t = 0; t < COUNT(types); t++) {
        for (size_t k = 0; k < COUNT(kinds); k++) {
            if (kinds[k].kind == TERN_INIT_NORMAL && types[t] >= TERN_I32)
                continue;
            struct tern_table_options options = shape(TERN_DENSE, types[t], N_KEYS, LENGTH);
            options.init = kinds[k];
            if (options.init.kind == TERN_INIT_FUNCTION)
                options.init.context = &types[t];
            check(place, options);
        }
    }
}

static struct tern_table_options as_sparse(struct tern_table_options options)
{
    options.index = TERN_SPARSE;
    options.n_keys = 0;
    return options;
}

static void check_index(struct place *place, struct tern_table_options options)
{
    size_t bytes = N_SAMPLES * element_size(options.type);
    void *dense = draw(place, options);
    void *sparse = draw(place, as_sparse(options));
    void *again = draw(place, options);
    assert_memory_equal(dense, sparse, bytes);
    assert_memory_equal(dense, again, bytes);
    free(again);
    free(sparse);
    free(dense);
}

static void dense_and_sparse_tables_start_alike(void **state)
{
    for_each_init(*state, check_index);
}

static void check_order(struct place *place, struct tern_table_options options)
{
    size_t row_bytes = LENGTH * element_size(options.type);
    char *wanted = draw(place, options);
    char *got = array_of(N_KEYS, row_bytes);
    uint64_t keys[N_KEYS];
    for (int sparse = 0; sparse <= 1; sparse++) {
        struct tern_table *table =
            table_of(place->node, "order", sparse ? as_sparse(options) : options);
        struct dice dice = {3};
        for (uint64_t i = 0; i < N_KEYS; i++)
            keys[i] = i;
        for (size_t i = N_KEYS - 1; i > 0; i--) {
            size_t j = dice_below(&dice, i + 1);
            uint64_t key = keys[i];
            keys[i] = keys[j];
            keys[j] = key;
        }
        for (size_t done = 0, n; done < N_KEYS; done += n) {
            n = 1 + dice_below(&dice, 99);
            n = n < N_KEYS - done ? n : N_KEYS - done;
            ok(tern_pull(place->worker, table, keys + done, n, got + done * row_bytes));
        }
        for (size_t i = 0; i < N_KEYS; i++)
            assert_memory_equal(got + i * row_bytes, wanted + keys[i] * row_bytes, row_bytes);
        ok(tern_table_close(table));
    }
    free(got);
    free(wanted);
}

static void order_and_batch_do_not_matter(void **state)
{
    for_each_init(*state, check_order);
}

static void check_first_access(struct place *place, struct tern_table_options options)
{
    enum { N = 300 };
    double *initial = draw_doubles(place, options);
    size_t size = element_size(options.type);
    void *values = array_of((size_t)N * LENGTH, size);
    uint64_t keys[N];
    void *rows[N];
    for (uint64_t i = 0; i < N; i++)
        keys[i] = (i * 7) % N_KEYS;
    for (int sparse = 0; sparse <= 1; sparse++) {
        struct tern_table *table =
            table_of(place->node, "first", sparse ? as_sparse(options) : options);
        element_fill(options.type, values, (size_t)N * LENGTH, 2);
        ok(tern_push(place->worker, table, keys, N / 2, values));
        ok(tern_pull(place->worker, table, keys, N / 2, values));
        ok(tern_pin(place->worker, table, keys + N / 2, N / 2, rows + N / 2));
        for (size_t i = 0; i < N; i++) {
            for (size_t j = 0; j < LENGTH; j++) {
                double was = initial[keys[i] * LENGTH + j];
                if (i >= N / 2)
                    assert_true(element_get(options.type, rows[i], j) == was);
                else if (options.type == TERN_F32)
                    assert_true(((float *)values)[i * LENGTH + j] == (float)was + 2.0f);
                else
                    assert_true(element_get(options.type, values, i * LENGTH + j) == was + 2);
            }
        }
        ok(tern_unpin(place->worker, table, keys + N / 2, N / 2));
        ok(tern_table_close(table));
    }
    free(values);
    free(initial);
}

static void a_first_push_adds_to_and_a_first_pin_shows_the_initial_value(void **state)
{
    for_each_init(*state, check_first_access);
}

static void check_set(struct place *place, struct tern_table_options options)
{
    double *initial = draw_doubles(place, options);
    void *values = array_of(LENGTH, element_size(options.type));
    for (int sparse = 0; sparse <= 1; sparse++) {
        struct tern_table *table =
            table_of(place->node, "set", sparse ? as_sparse(options) : options);
        uint64_t key = 10;
        element_fill(options.type, values, LENGTH, 1);
        ok(tern_set(place->worker, table, &key, 1, values));
        ok(tern_pull(place->worker, table, &key, 1, values));
        for (size_t j = 0; j < LENGTH; j++)
            assert_true(element_get(options.type, values, j) == 1);
        key = 11; /* its neighbour still starts as it should */
        ok(tern_pull(place->worker, table, &key, 1, values));
        for (size_t j = 0; j < LENGTH; j++)
            assert_true(element_get(options.type, values, j) == initial[11 * LENGTH + j]);
        ok(tern_table_close(table));
    }
    free(values);
    free(initial);
}

static void a_first_set_replaces_the_initial_value(void **state)
{
    for_each_init(*state, check_set);
}

static void keys_at_the_ends_of_the_key_space_have_values_of_their_own(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = initialised(TERN_SPARSE, TERN_F64, TERN_INIT_UNIFORM, 0, 1);
    struct tern_table *table = table_of(place->node, "ends", options);
    uint64_t keys[] = {0,          1,           UINT64_MAX,       UINT64_MAX - 1,
                       1ULL << 63, 42ULL << 32, (1ULL << 32) | 1, 1ULL << 32};
    double values[COUNT(keys)][LENGTH];
    ok(tern_pull(place->worker, table, keys, COUNT(keys), values));
    for (size_t i = 0; i < COUNT(keys); i++)
        for (size_t j = 0; j < i; j++)
            for (size_t k = 0; k < LENGTH; k++)
                assert_true(values[i][k] != values[j][k]);
    ok(tern_table_close(table));
}

static void the_function_gets_its_key_length_and_context(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, 3);
    enum tern_type type = TERN_I64;
    options.init =
        (struct tern_init){.kind = TERN_INIT_FUNCTION, .function = write_by_key, .context = &type};
    struct tern_table *table = table_of(place->node, "made", options);
    uint64_t keys[] = {UINT64_MAX, 12, 7001};
    int64_t values[9];
    ok(tern_pull(place->worker, table, keys, 3, values));
    for (size_t i = 0; i < 9; i++)
        assert_true((double)values[i] == function_value(keys[i / 3], i % 3));
    assert_int_equal(stats_of(table).rows, 3);
    ok(tern_table_close(table));
}

/* ---- Threads --------------------------------------------------------------------------------- */

enum { N_THREADS = 6, N_SHARED = 500 };

struct reader {
    pthread_t thread;
    struct tern_node *node;
    struct tern_table *table;
    const float *wanted;
    uint64_t seed;
};

static void *read_in_own_order(void *argument)
{
    struct reader *reader = argument;
    struct tern_worker *worker;
    if (!holds(tern_worker_open(reader->node, &worker) == TERN_OK))
        return NULL;
    struct dice dice = {reader->seed};
    for (size_t i = 0; i < 4 * N_SHARED; i++) {
        uint64_t keys[] = {dice_below(&dice, N_SHARED), dice_below(&dice, N_SHARED)};
        float values[2 * LENGTH];
        holds(tern_pull(worker, reader->table, keys, 2, values) == TERN_OK);
        for (size_t k = 0; k < 2; k++)
            holds(memcmp(values + k * LENGTH, reader->wanted + keys[k] * LENGTH,
                         LENGTH * sizeof(float)) == 0);
    }
    holds(tern_worker_close(worker) == TERN_OK);
    return NULL;
}

static void read_by_threads(struct place *place, struct tern_table_options options,
                            const float *wanted)
{
    struct reader readers[N_THREADS];
    struct tern_table *table = table_of(place->node, "raced", options);
    for (size_t i = 0; i < N_THREADS; i++) {
        readers[i] =
            (struct reader){.node = place->node, .table = table, .wanted = wanted, .seed = i};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_in_own_order, &readers[i]),
                         0);
    }
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(readers[i].thread, NULL);
    all_held();
    ok(tern_table_close(table));
}

static void all_threads_see_the_same_initial_values(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = initialised(TERN_DENSE, TERN_F32, TERN_INIT_NORMAL, 0, 1);
    float *wanted = draw(place, options);
    read_by_threads(place, options, wanted);
    read_by_threads(place, as_sparse(options), wanted);
    free(wanted);
}

static atomic_int inside[N_SHARED];

static void write_alone(void *context, uint64_t key, void *value, size_t length)
{
    (void)context;
    holds(atomic_fetch_add(&inside[key], 1) == 0);
    for (size_t j = 0; j < length; j++)
        ((float *)value)[j] = (float)(key + j);
    atomic_fetch_sub(&inside[key], 1);
}

static void the_function_runs_once_per_key_at_a_time(void **state)
{
    static float wanted[N_SHARED * LENGTH];
    for (size_t i = 0; i < COUNT(wanted); i++)
        wanted[i] = (float)(i / LENGTH + i % LENGTH);
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, LENGTH);
    options.init = (struct tern_init){.kind = TERN_INIT_FUNCTION, .function = write_alone};
    read_by_threads(*state, options, wanted);
    options.index = TERN_DENSE;
    options.n_keys = N_SHARED;
    read_by_threads(*state, options, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(zero_and_constant_fill_every_element),
        placed(uniform_has_its_bounds_and_moments),
        placed(uniform_never_reaches_its_upper_bound),
        placed(integers_are_uniform_from_a_to_b_minus_1),
        placed(normal_has_its_mean_deviation_and_tails),
        placed(elements_of_a_row_are_independent),
        placed(seeds_give_different_and_independent_values),
        placed(dense_and_sparse_tables_start_alike),
        placed(order_and_batch_do_not_matter),
        placed(a_first_push_adds_to_and_a_first_pin_shows_the_initial_value),
        placed(a_first_set_replaces_the_initial_value),
        placed(keys_at_the_ends_of_the_key_space_have_values_of_their_own),
        placed(the_function_gets_its_key_length_and_context),
        placed(all_threads_see_the_same_initial_values),
        placed(the_function_runs_once_per_key_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
