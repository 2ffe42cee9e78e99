/* A module from C: a step allocates nothing; every allocation of binding and training fails in turn. */
#include "support/check.h"
#include "support/alloc.h"
#include "tern/nd.h"

static struct tern_array *array_from(enum tern_nd_type type, int64_t rows, int64_t columns)
{
    struct tern_nd_shape shape = {.type = type, .n_dims = columns ? 2 : 1, .dims = {rows, columns}};
    struct tern_array *array;
    ok(tern_array_new(&shape, NULL, &array));
    void *data;
    ok(tern_array_data(array, &data, NULL));
    for (int64_t i = 0; i < rows * (columns ? columns : 1); i++) {
        if (type == TERN_ND_F32)
            ((float *)data)[i] = (float)(i % 7) / 7;
        else
            ((int64_t *)data)[i] = i % 3;
    }
    return array;
}

static enum tern_status make_symbol(struct tern_symbol **symbol)
{
    static const struct {
        const char *op, *attributes, *name;
    } layers[] = {{"reshape", "shape=6,1,5,1", "image"},
                  {"convolution", "kernel=3,1 pad=1,0 filters=4", "conv"},
                  {"batch_norm", NULL, "norm"},
                  {"pool", "kernel=2,1", "pool"},
                  {"fully_connected", "hidden=8", "fc1"},
                  {"tanh", NULL, "act"},
                  {"fully_connected", "hidden=3", "fc2"},
                  {"softmax_output", NULL, "softmax"}};
    struct tern_symbol *last = NULL;
    enum tern_status status = tern_symbol_variable("data", &last);
    for (size_t i = 0; i < COUNT(layers) && !status; i++) {
        struct tern_symbol *next = NULL;
        status =
            tern_symbol_apply(layers[i].op, layers[i].attributes, layers[i].name, &last, 1, &next);
        ok(tern_symbol_close(last));
        last = next;
    }
    *symbol = last;
    return status;
}

static enum tern_status make_module(struct tern_module **module)
{
    const struct tern_nd_shape shape = {.type = TERN_ND_F32, .n_dims = 2, .dims = {6, 5}};
    struct tern_symbol *symbol = NULL;
    *module = NULL;
    enum tern_status status = make_symbol(&symbol);
    if (!status)
        status = tern_module_bind(symbol, 1, (const char *[]){"data"}, &shape, NULL, module);
    if (!status)
        status = tern_module_init(*module, "xavier", 0, 0, 1);
    if (!status)
        status = tern_module_optimizer(*module, "adam", "rate=0.05", 1.0 / 6);
    if (symbol)
        ok(tern_symbol_close(symbol));
    return status;
}

static enum tern_status step(struct tern_module *module, struct tern_array *const *inputs)
{
    enum tern_status status = tern_module_forward(module, true, inputs, 2);
    if (!status)
        status = tern_module_backward(module);
    return status ? status : tern_module_update(module);
}

static void test_no_allocation_in_a_step(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        ok(tern_nd_set_threads(threads));
        struct tern_module *module;
        struct tern_array *inputs[] = {array_from(TERN_ND_F32, 6, 5),
                                       array_from(TERN_ND_I64, 6, 0)},
                          *output;
        float before[18], after[18];
        ok(make_module(&module));
        ok(tern_module_output(module, &output));
        ok(step(module, inputs));
        ok(tern_array_read(output, before, sizeof before));
        const uint64_t n = alloc_count();
        for (int i = 0; i < 50; i++)
            ok(step(module, inputs));
        ok(tern_array_read(output, after, sizeof after));
        assert_int_equal(alloc_count(), n);
        /* The label of the first row is 0. */
        assert_true(after[0] > before[0]);
        ok(tern_array_close(inputs[0]));
        ok(tern_array_close(inputs[1]));
        ok(tern_module_close(module));
        ok(tern_array_close(output));
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    ok(tern_nd_set_threads(1));
    struct tern_array *inputs[] = {array_from(TERN_ND_F32, 6, 5), array_from(TERN_ND_I64, 6, 0)};
    struct tern_iterator_options options = {.struct_size = sizeof options, .batch = 6, .seed = 1};
    uint64_t n = 1;
    for (enum tern_status status = TERN_NO_MEMORY; status; n++) {
        struct tern_module *module = NULL;
        struct tern_iterator *iterator = NULL;
        double accuracy;
        alloc_fail_at(n);
        status = make_module(&module);
        if (!status)
            status = tern_iterator_open(inputs[0], inputs[1], &options, &iterator);
        if (!status)
            status = tern_module_fit(module, iterator);
        if (!status)
            status = tern_module_score(module, iterator, &accuracy, NULL);
        alloc_fail_at(0);
        assert_true(status == TERN_OK || status == TERN_NO_MEMORY);
        ok(tern_array_wait_all());
        if (iterator)
            ok(tern_iterator_close(iterator));
        if (module)
            ok(tern_module_close(module));
    }
    assert_true(n > 60);
    ok(tern_array_close(inputs[0]));
    ok(tern_array_close(inputs[1]));
}

static void test_bad_input(void **state)
{
    (void)state;
    struct tern_symbol *x, *y;
    struct tern_module *module, *other = NULL;
    struct tern_nd_shape shape = {.n_dims = 1, .dims = {0}};
    ok(tern_symbol_variable("x", &x));
    refused(tern_symbol_variable("", &y), TERN_INVALID, "no name");
    refused(tern_symbol_apply("exp", NULL, NULL, &x, 2, &y), TERN_INVALID, "exp does not take 2");
    refused(tern_symbol_apply("exp", NULL, NULL, NULL, 0, &y), TERN_INVALID, "exp does not take 0");
    refused(tern_module_bind(x, 1, (const char *[]){"x"}, &shape, NULL, &other), TERN_INVALID,
            "dimension 0 is 0");
    refused(tern_module_bind(x, 0, NULL, NULL, NULL, &other), TERN_INVALID, "'x'");
    refused(tern_module_bind(NULL, 0, NULL, NULL, NULL, &other), TERN_INVALID, "symbol is NULL");
    refused(tern_module_close((struct tern_module *)x), TERN_INVALID, "a module is needed",
            "symbol was given");
    ok(make_module(&module));
    refused(tern_module_init(module, "nix", 0, 0, 1), TERN_INVALID, "'nix'");
    refused(tern_module_optimizer(module, "sgd", "rate=x", 1), TERN_INVALID, "rate=x");
    refused(tern_module_update(module), TERN_INVALID, "backward");
    refused(tern_module_save(module, "/nowhere/at/all"), TERN_INVALID, "/nowhere/at/all");
    refused(tern_module_load(module, "/nowhere/at/all"), TERN_INVALID, "cannot be opened");
    ok(tern_module_close(module));
    refused(tern_module_close(module), TERN_CLOSED, "module was closed");
    ok(tern_symbol_close(x));
    refused(tern_symbol_close(x), TERN_CLOSED, "symbol was closed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocation_in_a_step),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
