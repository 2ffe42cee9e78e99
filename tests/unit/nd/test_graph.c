/*
 * Random graphs with their gradients give the same bits with fusion and memory plan on and off, with 1 and 4 threads, and
 * when they are run twice without allocating.
 */
#include "support/check.h"
#include "support/alloc.h"
#undef fail

#include "nd/run.h"

enum { N_LEAVES = 4, ROWS = 7, COLUMNS = 90, MAX_OUTPUTS = 8 };

static const struct spec shapes[] = {
    {.type = TERN_ND_F32, .n_dims = 2, .dims = {ROWS, COLUMNS}},
    {.type = TERN_ND_F32, .n_dims = 2, .dims = {ROWS, 1}},
    {.type = TERN_ND_F32, .n_dims = 1, .dims = {COLUMNS}},
    {.type = TERN_ND_F32, .n_dims = 2, .dims = {COLUMNS, COLUMNS}},
};

struct made {
    struct graph graph;
    uint32_t leaves[N_LEAVES], outputs[MAX_OUTPUTS];
    unsigned n_outputs;
};

static uint32_t pick(struct dice *dice, const struct graph *graph, int n_dims)
{
    for (;;) {
        const uint32_t v = (uint32_t)dice_below(dice, graph->n_nodes);
        if ((n_dims < 0 || graph->nodes[v].spec.n_dims == n_dims) &&
            graph->nodes[v].spec.type == TERN_ND_F32)
            return v;
    }
}

/* Adds a random node; one that does not fit is left out. */
static void add_node(struct dice *dice, struct graph *graph)
{
    static const struct op *const unary[] = {&op_exp,    &op_sigmoid, &op_negative,
                                             &op_square, &op_sqrt,    &op_softmax};
    static const struct op *const binary[] = {&op_add, &op_subtract, &op_multiply, &op_greater};
    const uint32_t a = pick(dice, graph, -1), b = pick(dice, graph, -1);
    struct spec both = graph->nodes[a].spec;
    struct attributes attributes;
    switch (dice_below(dice, 6)) {
    case 0:
    case 1:
        if (graph->nodes[a].spec.n_dims > 0)
            graph_call(graph, unary[dice_below(dice, COUNT(unary))], a);
        return;
    case 2:
    case 3:
        if (!spec_broadcast(&both, &graph->nodes[b].spec))
            graph_call2(graph, binary[dice_below(dice, COUNT(binary))], a, b);
        return;
    case 4:
        op_default_attributes(&op_dropout, &attributes);
        attributes.numbers[0] = 0.3;
        attributes.integers[0] = (int64_t)graph->n_nodes;
        graph_add(graph, &op_dropout, &attributes, &a, 1, NULL, NULL);
        return;
    default:
        if (graph->nodes[a].spec.n_dims == 2 && graph->nodes[a].spec.dims[1] == COLUMNS)
            graph_call2(graph, &op_dot, a, 3);
        else
            graph_call(graph, &op_sum, a);
    }
}

static void make(uint64_t seed, struct made *made)
{
    struct dice dice = {seed};
    *made = (struct made){0};
    for (unsigned i = 0; i < N_LEAVES; i++)
        made->leaves[i] = graph_leaf(&made->graph, &shapes[i], NULL, NULL);
    const size_t n = 3 + dice_below(&dice, 40);
    for (size_t i = 0; i < n; i++)
        add_node(&dice, &made->graph);
    ok(made->graph.status);
    /* Some values, and the gradients of one of them with respect to three leaves. */
    for (unsigned i = 0; i < 3; i++)
        made->outputs[made->n_outputs++] = pick(&dice, &made->graph, -1);
    ok(graph_differentiate(&made->graph, made->outputs[0], made->leaves, 3,
                           &made->outputs[made->n_outputs]));
    made->n_outputs += 3;
    for (unsigned i = 0; i < made->n_outputs; i++)
        if (made->graph.nodes[made->outputs[i]].op)
            made->graph.nodes[made->outputs[i]].is_output = true;
}

/* Runs the graph of a seed, twice, and appends the bytes of all outputs to `bytes`; returns their number. */
static size_t run_graph_of(uint64_t seed, bool fusing, bool sharing, struct storage *const *leaves,
                           char *bytes)
{
    struct made made;
    struct run *run;
    struct storage *outputs[MAX_OUTPUTS] = {0};
    size_t size = 0;
    make(seed, &made);
    const uint32_t n_nodes = made.graph.n_nodes;
    ok(run_make(&made.graph, (struct run_options){.fusing = fusing, .sharing = sharing}, &run));
    for (unsigned i = 0; i < N_LEAVES; i++)
        run_bind(run, made.leaves[i], leaves[i], 0, NULL);
    for (unsigned i = 0; i < made.n_outputs; i++) {
        const struct graph_node *node = &run_graph(run)->nodes[made.outputs[i]];
        if (!node->op)
            continue;
        for (unsigned k = 0; k < i && !outputs[i]; k++)
            if (made.outputs[k] == made.outputs[i])
                outputs[i] = storage_keep(outputs[k]);
        if (!outputs[i])
            ok(storage_new(spec_bytes(&node->spec), &outputs[i]));
        run_bind(run, made.outputs[i], outputs[i], 0, NULL);
    }
    if (sharing)
        assert_true(run_plan(run)->arena_bytes <=
                    run_plan(run)->separate_bytes + 64 * run_plan(run)->n_units);
    run_submit(run, 0, n_nodes, 1);
    const uint64_t before = alloc_count();
    run_submit(run, 0, n_nodes, 2);
    for (unsigned i = 0; i < made.n_outputs; i++)
        if (outputs[i])
            ok(nd_engine_wait(&outputs[i]->variable));
    assert_int_equal(alloc_count(), before);
    for (unsigned i = 0; i < made.n_outputs; i++) {
        const size_t n = spec_bytes(&run_graph(run)->nodes[made.outputs[i]].spec);
        if (outputs[i])
            memcpy(bytes + size, outputs[i]->data, n);
        size += outputs[i] ? n : 0;
    }
    run_free(run);
    for (unsigned i = 0; i < made.n_outputs; i++)
        storage_drop(outputs[i]);
    return size;
}

static void test_same_bits(void **state)
{
    (void)state;
    const char *wanted = getenv("TERN_ND_GRAPHS");
#ifdef UNDER_SANITIZER
    const uint64_t n_graphs = wanted ? strtoull(wanted, NULL, 10) : 60;
#else
    const uint64_t n_graphs = wanted ? strtoull(wanted, NULL, 10) : 300;
#endif
    enum { MAX_BYTES = MAX_OUTPUTS * COLUMNS * COLUMNS * 8 };
    char *expected = array_of(MAX_BYTES, 1), *found = array_of(MAX_BYTES, 1);
    struct storage *leaves[N_LEAVES];
    struct dice dice = {7};
    for (unsigned i = 0; i < N_LEAVES; i++) {
        ok(storage_new(spec_bytes(&shapes[i]), &leaves[i]));
        for (size_t k = 0; k < spec_count(&shapes[i]); k++)
            ((float *)leaves[i]->data)[k] = (float)(0.1 + 0.2 * dice_unit(&dice));
    }
    size_t checked = 0;
    for (uint64_t seed = 1; seed <= n_graphs; seed++) {
        ok(nd_engine_set_threads(1));
        const size_t n = run_graph_of(seed, false, false, leaves, expected);
        checked += n;
        for (unsigned how = 1; how < 8; how++) {
            ok(nd_engine_set_threads(how & 4 ? 4 : 1));
            assert_int_equal(run_graph_of(seed, how & 1, how & 2, leaves, found), n);
            if (memcmp(found, expected, n) != 0)
                print_error("seed %llu: other bits with fusion %u, plan %u, %u threads\n",
                            (unsigned long long)seed, how & 1, how >> 1 & 1, how & 4 ? 4 : 1);
            assert_memory_equal(found, expected, n);
        }
    }
    assert_true(checked > 1000 * n_graphs);
    for (unsigned i = 0; i < N_LEAVES; i++)
        storage_drop(leaves[i]);
    free(expected);
    free(found);
}

/* A chain of n elementwise nodes needs one unit without fusion, in place, and none with it. */
static void test_plan_of_a_chain(void **state)
{
    (void)state;
    for (unsigned fusing = 0; fusing < 2; fusing++) {
        struct graph graph = {0};
        struct run *run;
        uint32_t v = graph_leaf(&graph, &shapes[0], NULL, NULL);
        for (unsigned i = 0; i < 10; i++)
            v = graph_call(&graph, &op_sigmoid, v);
        graph.nodes[v].is_output = true;
        ok(run_make(&graph, (struct run_options){.fusing = fusing, .sharing = true}, &run));
        assert_int_equal(run_plan(run)->n_units, fusing ? 0 : 1);
        run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_plan_of_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
