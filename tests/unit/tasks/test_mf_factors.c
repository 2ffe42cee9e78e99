/*
 * The model against its formulas in factors.h, written here once more, plainly and in double; borrowed
 * rows; and files from which a model comes back as it was.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/rng.h"
#include "mf/factors.h"
#include "mf/loan.h"
#include "mf/mf.h"
#include "mf/mf_files.h"

enum { N_ROWS = 7, N_CELLS = 100 };

/* ---- Learning -------------------------------------------------------------------------------- */

struct reference {
    double factors[100], sums[100], bias, bias_sum;
};

static struct reference reference_of(const float *row, size_t rank)
{
    struct reference r;
    size_t width = factors_width(rank);
    for (size_t i = 0; i < rank; i++) {
        r.factors[i] = (double)row[i];
        r.sums[i] = (double)row[width + i];
    }
    r.bias = (double)row[2 * width];
    r.bias_sum = (double)row[2 * width + 1];
    return r;
}

static void climb(double *x, double *sum, double gradient, double rate)
{
    *sum += gradient * gradient;
    *x += rate * gradient / sqrt(*sum);
}

static double learn_plainly(const struct factors *model, struct reference *row,
                            struct reference *column, double value)
{
    double scale = (double)model->scale;
    double error = (value - (double)model->mean) / scale - row->bias - column->bias;
    double rate = (double)model->rate, penalty = (double)model->penalty;
    for (size_t i = 0; i < model->rank; i++)
        error -= row->factors[i] * column->factors[i];
    for (size_t i = 0; i < model->rank; i++) {
        double a = row->factors[i], b = column->factors[i];
        climb(&row->factors[i], &row->sums[i], error * b - penalty * a, rate);
        climb(&column->factors[i], &column->sums[i], error * a - penalty * b, rate);
    }
    climb(&row->bias, &row->bias_sum, error - penalty * row->bias, rate);
    climb(&column->bias, &column->bias_sum, error - penalty * column->bias, rate);
    return error * error * scale * scale;
}

static void assert_same(const float *row, const struct reference *wanted, size_t rank)
{
    struct reference got = reference_of(row, rank);
    size_t width = factors_width(rank);
    for (size_t i = 0; i < rank; i++) {
        assert_true(fabs(got.factors[i] - wanted->factors[i]) < 1e-4);
        assert_true(fabs(got.sums[i] / wanted->sums[i] - 1) < 1e-4);
    }
    for (size_t i = rank; i < width; i++)
        assert_true(row[i] == 0);
    assert_true(fabs(got.bias - wanted->bias) < 1e-4);
    assert_true(fabs(got.bias_sum / wanted->bias_sum - 1) < 1e-4);
}

static void check_learning(size_t rank)
{
    const struct factors model = {rank, factors_width(rank), 3.5f, 1, 5, 1.5f, 0.1f, 0.05f};
    struct factors_start start = {9, rank};
    struct cell cells[N_CELLS + FACTORS_AHEAD] = {0};
    struct reference rows[N_ROWS], column;
    struct rng rng = rng_seed(4, rank);
    size_t length = factors_length(rank);
    float *values = malloc((N_ROWS + 1) * length * sizeof *values);
    double loss = 0;
    for (size_t i = 0; i <= N_ROWS; i++)
        factors_start(&start, i, values + i * length, length);
    for (size_t i = 0; i < N_ROWS; i++)
        rows[i] = reference_of(values + i * length, rank);
    column = reference_of(values + N_ROWS * length, rank);
    for (size_t i = 0; i < N_CELLS; i++) {
        cells[i] =
            (struct cell){(uint32_t)rng_below(&rng, N_ROWS), (float)(1 + rng_below(&rng, 5))};
        loss += learn_plainly(&model, &rows[cells[i].row], &column, (double)cells[i].value);
    }
    double got = factors_learn(&model, cells, N_CELLS, values, values + N_ROWS * length);
    assert_true(fabs(got / loss - 1) < 1e-4);
    for (size_t i = 0; i < N_ROWS; i++)
        assert_same(values + i * length, &rows[i], rank);
    assert_same(values + N_ROWS * length, &column, rank);
    free(values);
}

static void learning_follows_the_formulas(void **state)
{
    static const size_t ranks[] = {1, 7, 8, 10, 32, 100};
    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        check_learning(ranks[i]);
}

static void predictions_are_possible_ratings(void **state)
{
    const struct factors model = {1, 8, 3, 1, 5, 1, 0.1f, 0};
    float row[18] = {2}, column[18] = {0.5f};
    (void)state;
    assert_true(fabsf(factors_predict(&model, row, column) - 4) < 1e-6f);
    row[16] = 0.25f;
    column[16] = -0.5f;
    assert_true(fabsf(factors_predict(&model, row, column) - 3.75f) < 1e-6f);
    row[0] = 100;
    assert_true(factors_predict(&model, row, column) == 5);
    row[0] = -100;
    assert_true(factors_predict(&model, row, column) == 1);
    const struct factors wide = {1, 8, 30, 10, 50, 10, 0.1f, 0};
    row[0] = 2;
    assert_true(fabsf(factors_predict(&wide, row, column) - 37.5f) < 1e-5f);
}

/* Ratings on another scale give the same factors, so one rate and one penalty suit all. */
static void the_scale_of_ratings_does_not_matter(void **state)
{
    enum { N = 4, ROWS = 2 };
    const struct factors small = {2, 8, 3, 1, 5, 1.25f, 0.1f, 0.05f};
    const struct factors large = {2, 8, 30, 10, 50, 12.5f, 0.1f, 0.05f};
    struct cell cells[N + FACTORS_AHEAD] = {{0, 5}, {1, 1}, {0, 4}, {1, 2}};
    struct cell tenfold[N + FACTORS_AHEAD] = {{0, 50}, {1, 10}, {0, 40}, {1, 20}};
    struct factors_start start = {3, 2};
    size_t length = factors_length(2);
    float a[3 * 18], b[3 * 18];
    (void)state;
    for (size_t i = 0; i <= ROWS; i++)
        factors_start(&start, i, a + i * length, length);
    memcpy(b, a, sizeof a);
    double loss = factors_learn(&small, cells, N, a, a + ROWS * length);
    double tenfold_loss = factors_learn(&large, tenfold, N, b, b + ROWS * length);
    assert_true(fabs(tenfold_loss / loss - 100) < 1e-3);
    for (size_t i = 0; i < 3 * length; i++)
        assert_true(fabsf(a[i] - b[i]) < 1e-6f);
}

/* About 100 ratings each, as in MovieLens 1M, need 0.05; fewer need more. */
static void the_penalty_follows_the_number_of_ratings(void **state)
{
    (void)state;
    assert_true(fabs(mf_penalty(200000, 1000, 1000) - 0.05) < 1e-9);
    assert_true(fabs(mf_penalty(25000, 1000, 1000) - 0.1) < 1e-9);
}

/* ---- Loans ----------------------------------------------------------------------------------- */

static void zero(void *context, uint64_t key, void *value, size_t length)
{
    (void)context;
    (void)key;
    memset(value, 0, length * sizeof(float));
}

/* Two workers borrow the same rows at the same time; what both did counts. */
static void loans_add_up(void **state)
{
    struct tern_node *node;
    struct tern_worker *workers[2];
    struct params params;
    struct loan loans[2];
    const uint64_t keys[2] = {3, 5};
    float rows[2 * 4];
    (void)state;
    assert_int_equal(tern_node_open(NULL, &node), TERN_OK);
    assert_true(params_open(&params, node, NULL, "rows", 10, 4, zero, NULL));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tern_worker_open(node, &workers[i]), TERN_OK);
        assert_true(loan_init(&loans[i], &params, 2));
        assert_true(loan_begin(&loans[i], workers[i], keys, 2));
        loan_row(&loans[i], 1)[2] += i == 0 ? 1 : 10;
    }
    for (size_t i = 0; i < 2; i++)
        assert_true(loan_end(&loans[i], workers[i]));
    assert_int_equal(tern_pull(workers[0], params.table, keys, 2, rows), TERN_OK);
    for (size_t i = 0; i < 8; i++)
        assert_true(rows[i] == (i == 6 ? 11 : 0));
    for (size_t i = 0; i < 2; i++) {
        loan_fini(&loans[i]);
        assert_int_equal(tern_worker_close(workers[i]), TERN_OK);
    }
    params_close(&params);
    assert_int_equal(tern_node_close(node), TERN_OK);
}

static void loans_of_an_array_are_its_rows(void **state)
{
    struct params params;
    struct loan loan;
    const uint64_t keys[2] = {3, 4};
    (void)state;
    assert_true(params_open(&params, NULL, NULL, "rows", 10, 4, zero, NULL));
    assert_true(loan_init(&loan, &params, 2));
    assert_true(loan_begin(&loan, NULL, keys, 2));
    loan_row(&loan, 0)[5] = 2;
    assert_true(params.values[4 * 4 + 1] == 2);
    assert_true(loan_end(&loan, NULL));
    assert_true(params.values[4 * 4 + 1] == 2);
    loan_fini(&loan);
    params_close(&params);
}

/* ---- Files ----------------------------------------------------------------------------------- */

enum { RANK = 10, N_USERS = 600, N_ITEMS = 3 };

static void remove_model(const char *folder)
{
    static const char *const files[] = {"model.txt",        "users.npy",        "users_sums.npy",
                                        "users_biases.npy", "users.txt",        "items.npy",
                                        "items_sums.npy",   "items_biases.npy", "items.txt"};
    char path[256];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void add_names(struct names *names, uint32_t n, const char *kind)
{
    char name[32];
    uint32_t number;
    while (names->n < n) {
        int length = snprintf(name, sizeof name, "%s %u", kind, names->n);
        assert_true(names_add(names, name, (size_t)length, &number));
    }
}

/* A row keeps its name, and so its value, when it gets another key. */
static void files_bring_a_model_back(void **state)
{
    char folder[] = "/tmp/test_mf_factors_XXXXXX";
    struct names users = {0}, items = {0};
    struct params written[2], read[2];
    struct factors_start start = {1, RANK}, other = {2, RANK};
    const struct mf_info info = {.rank = RANK,
                                 .n_epochs = 7,
                                 .n_users = N_USERS,
                                 .n_items = N_ITEMS,
                                 .mean = 3.25,
                                 .low = 1,
                                 .high = 5,
                                 .scale = 1.5,
                                 .seed = 9,
                                 .penalty = 0.125,
                                 .test_share = 0.25};
    struct mf_info got;
    uint32_t key_of[2][N_USERS];
    size_t length = factors_length(RANK);
    (void)state;
    assert_non_null(mkdtemp(folder));
    add_names(&users, N_USERS, "user");
    add_names(&items, N_ITEMS, "item");
    for (uint32_t i = 0; i < N_USERS; i++) {
        key_of[0][i] = i * 7 % N_USERS;
        key_of[1][i] = i * 11 % N_USERS;
    }
    assert_true(params_open(&written[0], NULL, NULL, "", N_USERS, length, factors_start, &start));
    assert_true(params_open(&written[1], NULL, NULL, "", N_ITEMS, length, factors_start, &start));
    assert_true(params_open(&read[0], NULL, NULL, "", N_USERS, length, factors_start, &other));
    assert_true(params_open(&read[1], NULL, NULL, "", N_ITEMS, length, factors_start, &other));
    const struct mf_side from[2] = {{"users", &users, &written[0], key_of[0]},
                                    {"items", &items, &written[1], NULL}};
    const struct mf_side to[2] = {{"users", &users, &read[0], key_of[1]},
                                  {"items", &items, &read[1], NULL}};
    assert_true(mf_files_write(folder, &info, "rate 0.1\nseed 8\n", 0, from, NULL));
    assert_true(mf_files_read_info(folder, &got));
    assert_memory_equal(&got, &info, sizeof info);
    assert_true(mf_files_read_side(folder, RANK, &to[0], NULL));
    assert_true(mf_files_read_side(folder, RANK, &to[1], NULL));
    for (size_t i = 0; i < N_USERS; i++)
        assert_memory_equal(read[0].values + key_of[1][i] * length,
                            written[0].values + key_of[0][i] * length, length * sizeof(float));
    assert_memory_equal(read[1].values, written[1].values, N_ITEMS * length * sizeof(float));

    add_names(&items, N_ITEMS + 1, "new");
    assert_false(mf_files_read_side(folder, RANK, &to[1], NULL));
    assert_non_null(strstr(task_error(), "items.txt:4: the items are not those of the data"));
    for (size_t i = 0; i < 2; i++) {
        params_close(&written[i]);
        params_close(&read[i]);
    }
    names_fini(&users);
    names_fini(&items);
    remove_model(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learning_follows_the_formulas),
        cmocka_unit_test(predictions_are_possible_ratings),
        cmocka_unit_test(the_scale_of_ratings_does_not_matter),
        cmocka_unit_test(the_penalty_follows_the_number_of_ratings),
        cmocka_unit_test(loans_add_up),
        cmocka_unit_test(loans_of_an_array_are_its_rows),
        cmocka_unit_test(files_bring_a_model_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
