/* Arrays from C: wrong arguments, closed handles, threads, and every allocation failing in turn. */
#include <pthread.h>

#include "support/check.h"
#include "support/alloc.h"
#include "tern/nd.h"

static struct tern_array *array_from(int64_t rows, int64_t columns, float first)
{
    struct tern_nd_shape shape = {.type = TERN_ND_F32, .n_dims = 2, .dims = {rows, columns}};
    float *data = array_of((size_t)(rows * columns), sizeof *data);
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = first + (float)i;
    struct tern_array *array;
    ok(tern_array_new(&shape, data, &array));
    free(data);
    return array;
}

static void test_bad_input(void **state)
{
    (void)state;
    struct tern_array *a = array_from(2, 3, 0), *b = array_from(3, 2, 0), *out = NULL,
                      *both[] = {a, b};
    struct tern_nd_shape shape = {.type = 9}, empty = {.n_dims = 1}, deep = {.n_dims = 9},
                         large = {.n_dims = 2, .dims = {INT64_MAX, INT64_MAX}};
    float number = 0;
    refused(tern_array_new(NULL, NULL, &out), TERN_INVALID, "shape is NULL");
    refused(tern_array_new(&shape, NULL, &out), TERN_INVALID, "9 is not a type");
    refused(tern_array_new(&empty, NULL, &out), TERN_INVALID, "dimension 0 is 0");
    refused(tern_array_new(&deep, NULL, &out), TERN_INVALID, "9");
    refused(tern_array_new(&large, NULL, &out), TERN_LIMIT, "2^40");
    refused(tern_array_apply("add", NULL, both, 2, &out), TERN_MISMATCH, "add: ", "(2, 3)",
            "(3, 2)");
    refused(tern_array_apply("ad", NULL, both, 2, &out), TERN_INVALID, "no operator 'ad'");
    refused(tern_array_apply("add", NULL, both, 1, &out), TERN_INVALID, "add does not take 1");
    refused(tern_array_apply("add", NULL, NULL, 2, &out), TERN_INVALID, "NULL");
    refused(tern_array_apply("sum", "axis=2", both, 1, &out), TERN_INVALID, "sum: axis 2");
    refused(tern_array_apply("sum", "axis", both, 1, &out), TERN_INVALID, "name=value");
    refused(tern_array_apply("sum", "axis=x", both, 1, &out), TERN_INVALID, "'x' is no value",
            "'axis'");
    refused(tern_array_apply("sum", "axis=0 axis=1", both, 1, &out), TERN_INVALID, "twice");
    refused(tern_array_apply("reshape", NULL, both, 1, &out), TERN_INVALID,
            "needs the attribute 'shape'");
    refused(tern_array_apply("reshape", "shape=5,-1", both, 1, &out), TERN_MISMATCH, "6 elements");
    refused(tern_array_read(a, &number, sizeof number), TERN_INVALID, "24 bytes", "4");
    refused(tern_array_slice(a, 1, (int64_t[]){1}, (int64_t[]){1}, NULL, &out), TERN_INVALID,
            "1:1:1");
    refused(tern_array_assign(a, b), TERN_MISMATCH, "(2, 3)");
    assert_null(out);
    ok(tern_array_close(b));
    refused(tern_array_close(b), TERN_CLOSED, "array was closed");
    refused(tern_array_apply("exp", NULL, &b, 1, &out), TERN_CLOSED, "array was closed");
    refused(tern_array_close(NULL), TERN_INVALID, "array is NULL");
    ok(tern_array_close(a));
}

/* c = (a * b + c) @ c^T, then rows of it by index; returns the first status that is not TERN_OK. */
static enum tern_status compute(struct tern_array *a, struct tern_array *b, struct tern_array *c,
                                float *result)
{
    struct tern_array *t = NULL, *u = NULL, *v = NULL, *view = NULL;
    enum tern_status status =
        tern_array_apply("multiply", NULL, (struct tern_array *[]){a, b}, 2, &t);
    if (!status)
        status = tern_array_apply("add", NULL, (struct tern_array *[]){t, c}, 2, &u);
    if (!status)
        status = tern_array_assign(c, u);
    if (!status)
        status = tern_array_transpose(c, NULL, &view);
    if (!status)
        status = tern_array_apply("dot", NULL, (struct tern_array *[]){c, view}, 2, &v);
    if (!status)
        status = tern_array_read(v, result, 9 * sizeof *result);
    struct tern_array *all[] = {t, u, v, view};
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i])
            ok(tern_array_close(all[i]));
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    ok(tern_nd_set_threads(1));
    float expected[9], found[9];
    uint64_t n_failed = 0;
    for (uint64_t n = 0;; n++) {
        struct tern_array *a = array_from(3, 4, 1), *b = array_from(3, 4, 2),
                          *c = array_from(3, 4, 3);
        alloc_fail_at(n);
        enum tern_status status = compute(a, b, c, n ? found : expected);
        alloc_fail_at(0);
        if (n && !status) {
            assert_memory_equal(found, expected, sizeof found);
            ok(tern_array_close(a));
            ok(tern_array_close(b));
            ok(tern_array_close(c));
            break;
        }
        if (n) {
            assert_int_equal(status, TERN_NO_MEMORY);
            assert_true(strlen(tern_error()) > 10);
            n_failed++;
        }
        ok(tern_array_wait_all());
        ok(tern_array_close(a));
        ok(tern_array_close(b));
        ok(tern_array_close(c));
    }
    assert_true(n_failed > 20);
}

/* Threads use arrays of their own, and read one in common. */
static void *work(void *context)
{
    struct tern_array *common = context;
    for (int round = 0; round < 40; round++) {
        struct tern_nd_shape one = {.type = TERN_ND_F32};
        struct tern_array *sum = NULL;
        const float zero = 0;
        float total = 0;
        holds(!tern_array_new(&one, &zero, &sum));
        for (int i = 0; i < 10; i++) {
            struct tern_array *part = NULL, *next = NULL;
            holds(!tern_array_apply("sum", NULL, &common, 1, &part));
            holds(!tern_array_apply("add", NULL, (struct tern_array *[]){sum, part}, 2, &next));
            holds(!tern_array_close(sum) && !tern_array_close(part));
            sum = next;
        }
        holds(!tern_array_read(sum, &total, sizeof total) && total == 10 * 276);
        holds(!tern_array_close(sum));
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    ok(tern_nd_set_threads(3));
    struct tern_array *common = array_from(4, 6, 0);
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, common), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    all_held();
    ok(tern_array_close(common));
}

/* 1000 calls without reading are carried out in parts. */
static void test_many_pending(void **state)
{
    (void)state;
    struct tern_array *x = array_from(2, 2, 0), *one = array_from(1, 1, 1), *next;
    float result[4];
    for (int i = 0; i < 1000; i++) {
        ok(tern_array_apply("add", NULL, (struct tern_array *[]){x, one}, 2, &next));
        ok(tern_array_close(x));
        x = next;
    }
    ok(tern_array_read(x, result, sizeof result));
    assert_true(result[0] == 1000 && result[3] == 1003);
    ok(tern_array_close(x));
    ok(tern_array_close(one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_many_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
