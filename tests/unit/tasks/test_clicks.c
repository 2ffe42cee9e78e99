/*
 * Examples of `tern data clicks`: features and labels have the promised frequencies, the planted model is worth learning,
 * and the same seed makes the same files.
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

#include "common/clicks.h"
#include "common/examples.h"

enum { N_ROWS = 4000, N_FEATURES = 1000, N_EACH = 10 };

struct made {
    struct examples list;
    enum examples_format format;
    double log_loss;
};

static void read_file(const char *path, struct made *made)
{
    struct examples_source source;
    const struct examples_options options = {.n_parts = 1, .needs_labels = true, .is_binary = true};
    assert_true(examples_open(&source, path, &options));
    assert_true(examples_read_all(&source, 1, &made->list));
    made->format = source.format;
    examples_close(&source);
}

static struct made make(const struct clicks *clicks)
{
    char folder[] = "/tmp/test_clicks_XXXXXX", path[64];
    struct made made = {0};
    assert_non_null(mkdtemp(folder));
    assert_true(clicks_make(clicks, folder, &made.log_loss));
    snprintf(path, sizeof path, "%s/test.txt", folder);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/train.txt", folder);
    read_file(path, &made);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    return made;
}

static const struct clicks plain = {.n_rows = N_ROWS,
                                    .n_test_rows = N_ROWS,
                                    .n_features = N_FEATURES,
                                    .n_each = N_EACH,
                                    .skew = 1,
                                    .share = 0.5,
                                    .strength = 2,
                                    .positive = 0.25,
                                    .seed = 1};

static void check_labels(const struct made *made)
{
    double n_positive = 0;
    for (size_t i = 0; i < made->list.n; i++)
        n_positive += made->list.labels[i] > 0;
    assert_int_equal(made->list.n, N_ROWS);
    assert_true(fabs(n_positive / N_ROWS - 0.25) < 0.03);
    /* A model that knows the share of positive labels alone has 0.562. */
    assert_true(made->log_loss > 0.3 && made->log_loss < 0.45);
}

static void features_follow_zipf(void **state)
{
    size_t counts[N_FEATURES + 1] = {0};
    struct made made = make(&plain);
    (void)state;
    assert_int_equal(made.format, EXAMPLES_LIBSVM);
    check_labels(&made);
    for (size_t row = 0; row < made.list.n; row++) {
        assert_int_equal(made.list.start[row + 1] - made.list.start[row], N_EACH);
        for (size_t i = made.list.start[row]; i < made.list.start[row + 1]; i++) {
            assert_in_range(made.list.keys[i], 1, N_FEATURES);
            assert_true(i == made.list.start[row] || made.list.keys[i] > made.list.keys[i - 1]);
            counts[made.list.keys[i]]++;
        }
    }
    assert_true(counts[1] > counts[4] && counts[4] > counts[16] && counts[16] > counts[64]);
    /* Among rare features, which are seldom drawn twice, frequencies are inverse to the rank. */
    double near = 0, far = 0;
    for (size_t k = 50; k < 100; k++) {
        near += (double)counts[k];
        far += (double)counts[4 * k] + (double)counts[4 * k + 1] + (double)counts[4 * k + 2] +
               (double)counts[4 * k + 3];
    }
    assert_true(fabs(near / far - 1) < 0.1);
    examples_fini(&made.list);
}

static void pairs_have_one_feature_of_each_field(void **state)
{
    struct clicks clicks = plain;
    clicks.has_pairs = true;
    struct made made = make(&clicks);
    (void)state;
    assert_int_equal(made.format, EXAMPLES_LIBFFM);
    check_labels(&made);
    examples_fini(&made.list);
}

static void a_seed_makes_the_same_examples(void **state)
{
    struct clicks other = plain;
    other.seed = 2;
    struct made a = make(&plain), b = make(&plain), c = make(&other);
    const size_t n_bytes = N_ROWS * N_EACH * sizeof *a.list.keys;
    (void)state;
    assert_memory_equal(a.list.keys, b.list.keys, n_bytes);
    assert_memory_equal(a.list.labels, b.list.labels, N_ROWS * sizeof *a.list.labels);
    assert_memory_not_equal(a.list.keys, c.list.keys, n_bytes);
    examples_fini(&a.list);
    examples_fini(&b.list);
    examples_fini(&c.list);
}

static void too_few_features_are_refused(void **state)
{
    struct clicks clicks = plain;
    double log_loss;
    (void)state;
    clicks.n_features = 2 * N_EACH - 1;
    assert_false(clicks_make(&clicks, "/tmp/test_clicks_refused", &log_loss));
    assert_int_not_equal(access("/tmp/test_clicks_refused", F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_follow_zipf),
        cmocka_unit_test(pairs_have_one_feature_of_each_field),
        cmocka_unit_test(a_seed_makes_the_same_examples),
        cmocka_unit_test(too_few_features_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
