/*
 * module - the public calls on modules: a symbol with memory, that computes and learns.
 *
 * Binding makes one graph of the symbol and its gradients and a run of it; the nodes of the symbol come first, so that
 * forward submits the first part of the run and backward the second. Inputs, parameters, gradients and the output have
 * storages of their own; everything else is in the arena of the plan. Nothing is allocated in a step. For prediction there
 * is a second run without gradients, in which dropout is a copy; it uses the same storages.
 */
#include "nd/module.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "base/status.h"
#include "nd/array.h"

/* ---- Binding ------------------------------------------------------------------------------------- */

static bool is_given(const char *name, size_t n, const char *const *names)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static enum tern_status new_value(struct module_value *value, const char *name,
                                  const struct spec *spec)
{
    value->name = name;
    value->spec = *spec;
    enum tern_status status = storage_new(spec_bytes(spec), &value->storage);
    if (!status)
        memset(value->storage->data, 0, spec_bytes(spec));
    return status;
}

/* Makes the values of all variables: inputs in the order of `names`, then labels; parameters. */
static enum tern_status make_values(struct tern_module *module, const struct tern_symbol *symbol,
                                    size_t n, const char *const *names, const struct graph *graph,
                                    const uint32_t *of_node)
{
    enum tern_status status = TERN_OK;
    module->inputs = calloc(symbol->list.n + n, sizeof *module->inputs);
    module->parameters = calloc(symbol->list.n, sizeof *module->parameters);
    if (!module->inputs || !module->parameters)
        return fail(TERN_NO_MEMORY, "there is no memory for a module");
    for (size_t k = 0; k < n && !status; k++)
        for (uint32_t i = 0; i < symbol->list.n && !status; i++)
            if (!symbol->list.nodes[i]->op && !strcmp(symbol->list.nodes[i]->name, names[k]))
                status = new_value(&module->inputs[module->n_inputs++], symbol->list.nodes[i]->name,
                                   &graph->nodes[of_node[i]].spec);
    for (uint32_t i = 0; i < symbol->list.n && !status; i++) {
        const struct node *node = symbol->list.nodes[i];
        const struct spec *spec = &graph->nodes[of_node[i]].spec;
        if (node->op || is_given(node->name, n, names))
            continue;
        if (node->is_label)
            status = new_value(&module->inputs[module->n_inputs++], node->name, spec);
        else if (!spec_is_real(spec->type))
            status = fail(TERN_INVALID, "the parameter '%s' is of type %s", node->name,
                          spec_type_name(spec->type));
        else
            status = new_value(&module->parameters[module->n_parameters++], node->name, spec);
    }
    return status;
}

static struct module_value *find(struct module_value *values, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(values[i].name, name))
            return &values[i];
    return NULL;
}

struct module_value *module_parameter(struct tern_module *module, const char *name)
{
    return find(module->parameters, module->n_parameters, name);
}

/* Adds the gradients of all parameters to the graph; of_parameter[i] gets the node of the i-th. */
static enum tern_status add_gradients(struct tern_module *module, struct graph *graph,
                                      uint32_t loss, uint32_t *of_parameter)
{
    uint32_t *leaves = malloc((module->n_parameters + (size_t)1) * sizeof *leaves);
    if (!leaves)
        return fail(TERN_NO_MEMORY, "there is no memory for gradients");
    for (uint32_t i = 0; i < module->n_parameters; i++)
        for (uint32_t v = 0; v <= loss; v++)
            if (!graph->nodes[v].op && !strcmp(graph->nodes[v].name, module->parameters[i].name))
                leaves[i] = v;
    enum tern_status status =
        graph_differentiate(graph, loss, leaves, module->n_parameters, of_parameter);
    for (uint32_t i = 0; i < module->n_parameters && !status; i++) {
        /* Two parameters may have one gradient, and the gradient may be a node that is an output already. */
        if (graph->nodes[of_parameter[i]].is_output)
            of_parameter[i] = graph_call(graph, &op_copy, of_parameter[i]);
        status = graph->status;
        if (!status)
            graph->nodes[of_parameter[i]].is_output = true;
    }
    free(leaves);
    return status;
}

/* Binds leaves and the output of a run to the module's storages. */
static void bind_values(struct tern_module *module, struct run *run, uint32_t n_forward)
{
    const struct graph *graph = run_graph(run);
    for (uint32_t v = 0; v < n_forward; v++) {
        if (graph->nodes[v].op)
            continue;
        struct module_value *value = find(module->inputs, module->n_inputs, graph->nodes[v].name);
        run_bind(run, v, (value ? value : module_parameter(module, graph->nodes[v].name))->storage,
                 0, NULL);
    }
    run_bind(run, n_forward - 1, module->output.storage, 0, NULL);
}

/* The last node of a graph is its output; a variable alone becomes a copy. */
static uint32_t mark_output(struct graph *graph)
{
    uint32_t last = graph->n_nodes - 1;
    if (!graph->nodes[last].op)
        last = graph_call(graph, &op_copy, last);
    if (last != GRAPH_NONE)
        graph->nodes[last].is_output = true;
    return last;
}

static enum tern_status make_training(struct tern_module *module, struct graph *graph)
{
    const uint32_t output = graph->n_nodes - 1;
    uint32_t *gradients = malloc((module->n_parameters + (size_t)1) * sizeof *gradients);
    enum tern_status status =
        gradients ? TERN_OK : fail(TERN_NO_MEMORY, "there is no memory for gradients");
    module->n_forward = output + 1;
    if (!status && !module->options.predicting)
        status = add_gradients(module, graph, output, gradients);
    if (!status)
        status = run_make(graph,
                          (struct run_options){.fusing = !module->options.unfused,
                                               .sharing = !module->options.unshared},
                          &module->training);
    if (!status)
        status =
            new_value(&module->output, "output", &run_graph(module->training)->nodes[output].spec);
    if (!status)
        bind_values(module, module->training, module->n_forward);
    for (uint32_t i = 0; i < module->n_parameters && !status && !module->options.predicting; i++) {
        struct module_value *value = &module->parameters[i];
        status = storage_new(spec_bytes(&value->spec), &value->gradient);
        if (!status) {
            memset(value->gradient->data, 0, spec_bytes(&value->spec));
            run_bind(module->training, gradients[i], value->gradient, 0, NULL);
        }
    }
    free(gradients);
    return status;
}

static void free_values(struct module_value *values, uint32_t n)
{
    for (uint32_t i = 0; values && i < n; i++) {
        storage_drop(values[i].storage);
        storage_drop(values[i].gradient);
    }
    free(values);
}

static void destroy(struct tern_module *module)
{
    module_drop_updates(module);
    for (uint32_t i = 0; module->copies && i < module->n_inputs; i++)
        nd_engine_wait_for(&module->copies[i].left);
    free(module->copies);
    run_free(module->training);
    run_free(module->predicting);
    free_values(module->inputs, module->n_inputs);
    free_values(module->parameters, module->n_parameters);
    storage_drop(module->output.storage);
    node_drop(module->node);
}

/* Fills in a module whose options and node are set. */
static enum tern_status bind(struct tern_module *module, struct tern_symbol *symbol, size_t n,
                             const char *const *names, const struct tern_nd_shape *shapes)
{
    struct graph graph = {0};
    uint32_t *of_node = malloc(symbol->list.n * sizeof *of_node);
    enum tern_status status = of_node ? symbol_graph(symbol, n, names, shapes, &graph, of_node)
                                      : fail(TERN_NO_MEMORY, "there is no memory for a module");
    if (!status && mark_output(&graph) == GRAPH_NONE)
        status = graph.status;
    if (!status)
        status =
            make_values(module, symbol, n - module->options.n_parameters, names, &graph, of_node);
    if (!status)
        status = make_training(module, &graph);
    graph_fini(&graph);
    free(of_node);
    if (!status && !(module->copies = calloc(module->n_inputs + (size_t)1, sizeof *module->copies)))
        status = fail(TERN_NO_MEMORY, "there is no memory for a module");
    return status;
}

enum tern_status tern_module_bind(struct tern_symbol *symbol, size_t n, const char *const *names,
                                  const struct tern_nd_shape *shapes,
                                  const struct tern_module_options *options,
                                  struct tern_module **module)
{
    if (!handle_is((const struct handle *)symbol, HANDLE_SYMBOL))
        return handle_refuse((const struct handle *)symbol, HANDLE_SYMBOL);
    if (!module ||
        (options && (options->struct_size != sizeof *options || options->n_parameters > n)))
        return fail(
            TERN_INVALID,
            "the result is NULL, or the options have another struct_size or too many parameters");
    struct tern_module *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "there is no memory for a module");
    if (options)
        made->options = *options;
    made->node = node_keep(symbol->node);
    enum tern_status status = bind(made, symbol, n, names, shapes);
    if (status) {
        destroy(made);
        free(made);
        return status;
    }
    handle_init(&made->handle, HANDLE_MODULE);
    *module = made;
    return TERN_OK;
}

enum tern_status tern_module_close(struct tern_module *module)
{
    MODULE_CHECK(module);
    destroy(module);
    handle_close(&module->handle);
    return TERN_OK;
}

/* ---- Parameters ---------------------------------------------------------------------------------- */

/* The numbers of one parameter: a stream of its own for each. */
static void fill(const struct module_value *value, const char *kind, double a, double b,
                 uint64_t stream)
{
    const size_t n = spec_count(&value->spec);
    const bool is_normal = !strcmp(kind, "normal"), is_xavier = !strcmp(kind, "xavier");
    if (is_xavier) {
        const double outputs = value->spec.n_dims ? (double)value->spec.dims[0] : 1;
        b = value->spec.n_dims < 2 ? 0 : sqrt(6 / ((double)n / outputs + outputs));
        a = -b;
    }
    for (size_t i = 0; i < n; i++) {
        double x = a + (b - a) * rand_unit(rand_at(stream, 2 * i));
        if (is_normal)
            x = a + b * sqrt(-2 * log(1 - rand_unit(rand_at(stream, 2 * i)))) *
                        cos(6.283185307179586 * rand_unit(rand_at(stream, 2 * i + 1)));
        if (value->spec.type == TERN_ND_F32)
            ((float *)value->storage->data)[i] = (float)x;
        else
            ((double *)value->storage->data)[i] = x;
    }
}

enum tern_status tern_module_init(struct tern_module *module, const char *kind, double a, double b,
                                  uint64_t seed)
{
    MODULE_CHECK(module);
    static const char *const kinds[] = {"zeros", "uniform", "normal", "xavier"};
    bool known = false;
    for (size_t i = 0; kind && i < sizeof kinds / sizeof kinds[0]; i++)
        known = known || !strcmp(kind, kinds[i]);
    if (!known || !isfinite(a) || !isfinite(b))
        return fail(TERN_INVALID,
                    "parameters begin as zeros, uniform, normal or xavier, with finite numbers, "
                    "not '%.40s'",
                    kind ? kind : "(NULL)");
    if (!strcmp(kind, "zeros"))
        a = b = 0;
    for (uint32_t i = 0; i < module->n_parameters; i++) {
        enum tern_status status = nd_engine_wait_idle(&module->parameters[i].storage->variable);
        if (status)
            return status;
        fill(&module->parameters[i], kind, a, b, rand_at(hash_u64(seed), i));
    }
    return TERN_OK;
}

enum tern_status tern_module_name(struct tern_module *module, size_t i, const char **name)
{
    MODULE_CHECK(module);
    if (!name)
        return fail(TERN_INVALID, "the result is NULL");
    *name = i < module->n_parameters ? module->parameters[i].name : NULL;
    return TERN_OK;
}

static enum tern_status give(struct tern_module *module, const char *name, bool is_gradient,
                             struct tern_array **array)
{
    MODULE_CHECK(module);
    struct module_value *value = name ? module_parameter(module, name) : NULL;
    if (!array || !value)
        return fail(TERN_INVALID, "the module has no parameter '%.70s'", name ? name : "(NULL)");
    if (is_gradient && !value->gradient)
        return fail(TERN_INVALID, "the module was bound for predicting and has no gradients");
    return array_of(&value->spec, is_gradient ? value->gradient : value->storage, array);
}

enum tern_status tern_module_parameter(struct tern_module *module, const char *name,
                                       struct tern_array **array)
{
    return give(module, name, false, array);
}

enum tern_status tern_module_gradient(struct tern_module *module, const char *name,
                                      struct tern_array **array)
{
    return give(module, name, true, array);
}

enum tern_status tern_module_output(struct tern_module *module, struct tern_array **array)
{
    MODULE_CHECK(module);
    if (!array)
        return fail(TERN_INVALID, "the result is NULL");
    return array_of(&module->output.spec, module->output.storage, array);
}

enum tern_status tern_module_memory(struct tern_module *module, uint64_t *planned,
                                    uint64_t *separate)
{
    MODULE_CHECK(module);
    const struct plan *plan = run_plan(module->training);
    if (planned)
        *planned = plan->arena_bytes;
    if (separate)
        *separate = plan->separate_bytes;
    return TERN_OK;
}

/* ---- Computing ----------------------------------------------------------------------------------- */

static enum tern_status copy_run(void *context)
{
    const struct module_copy *copy = context;
    elementwise_run(&copy->program, &copy->spec, &copy->from, &copy->to, 0);
    return TERN_OK;
}

static void copy_ended(void *context)
{
    struct module_copy *copy = context;
    struct storage *source = copy->source;
    copy->source = NULL;
    storage_drop(source);
    atomic_fetch_sub(&copy->left, 1);
}

/* Submits the copy of an array into the i-th input. */
static enum tern_status set_input(struct tern_module *module, uint32_t i, struct tern_array *array)
{
    const struct module_value *value = &module->inputs[i];
    struct module_copy *copy = &module->copies[i];
    if (!handle_is((const struct handle *)array, HANDLE_ARRAY))
        return handle_refuse((const struct handle *)array, HANDLE_ARRAY);
    if (!spec_same_shape(&array->node->spec, &value->spec)) {
        char wanted[SPEC_TEXT], found[SPEC_TEXT];
        return fail(TERN_MISMATCH, "the input '%s' has the shape %s, not %s", value->name,
                    spec_print(&value->spec, wanted), spec_print(&array->node->spec, found));
    }
    enum tern_status status = array_flush(array);
    if (status)
        return status;
    nd_engine_wait_for(&copy->left);
    const struct node *node = array->node;
    const enum tern_nd_type type = node->spec.type, to = value->spec.type;
    copy->spec = value->spec;
    copy->program =
        (struct program){.n_inputs = 1,
                         .n_steps = 1,
                         .steps = {{.op = &op_cast, .type = type, .out_type = to, .n_inputs = 1}}};
    copy->from = (struct operand){.data = (char *)node->storage->data +
                                          node->offset * (int64_t)spec_type_bytes(type),
                                  .type = type};
    copy->to = (struct operand){.data = value->storage->data, .type = to};
    elementwise_strides(&value->spec, node->has_strides ? node->strides : NULL, &value->spec,
                        copy->from.strides);
    elementwise_strides(&value->spec, NULL, &value->spec, copy->to.strides);
    copy->source = storage_keep(node->storage);
    copy->links[0] = (struct link){.variable = &node->storage->variable};
    copy->links[1] = (struct link){.variable = &value->storage->variable, .writes = true};
    copy->operation = (struct operation){.run = copy_run,
                                         .ended = copy_ended,
                                         .context = copy,
                                         .name = value->name,
                                         .links = copy->links,
                                         .n_links = 2};
    atomic_store(&copy->left, 1);
    nd_engine_submit(&copy->operation);
    return TERN_OK;
}

/* The graph of `training` up to the output, with copies instead of dropout. */
static enum tern_status make_predicting(struct tern_module *module)
{
    const struct graph *from = run_graph(module->training);
    struct graph graph = {0};
    for (uint32_t v = 0; v < module->n_forward; v++) {
        const struct graph_node *node = &from->nodes[v];
        const bool is_dropout = node->op == &op_dropout;
        if (node->op)
            graph_add(&graph, is_dropout ? &op_copy : node->op,
                      is_dropout ? NULL : &node->attributes, graph_inputs(from, v), node->n_inputs,
                      NULL, node->name);
        else
            graph_leaf(&graph, &node->spec, NULL, node->name);
    }
    if (graph.status) {
        enum tern_status status = graph.status;
        graph_fini(&graph);
        return status;
    }
    graph.nodes[module->n_forward - 1].is_output = true;
    enum tern_status status = run_make(&graph,
                                       (struct run_options){.fusing = !module->options.unfused,
                                                            .sharing = !module->options.unshared},
                                       &module->predicting);
    if (!status)
        bind_values(module, module->predicting, module->n_forward);
    return status;
}

enum tern_status tern_module_forward(struct tern_module *module, bool training,
                                     struct tern_array *const *inputs, size_t n)
{
    MODULE_CHECK(module);
    if (n > module->n_inputs || (n && !inputs))
        return fail(TERN_INVALID, "the module has %u inputs, not %zu", module->n_inputs, n);
    if (training && module->options.predicting)
        return fail(TERN_INVALID, "the module was bound for predicting");
    enum tern_status status = TERN_OK;
    if (!training && !module->predicting)
        status = make_predicting(module);
    for (uint32_t i = 0; i < n && !status; i++)
        if (inputs[i])
            status = set_input(module, i, inputs[i]);
    if (status)
        return status;
    run_submit(training ? module->training : module->predicting, 0, module->n_forward,
               ++module->step);
    module->has_forward = training;
    module->has_backward = false;
    return TERN_OK;
}

enum tern_status tern_module_backward(struct tern_module *module)
{
    MODULE_CHECK(module);
    if (!module->has_forward)
        return fail(TERN_INVALID, "backward needs a forward with training before it");
    run_submit(module->training, module->n_forward, run_graph(module->training)->n_nodes,
               module->step);
    module->has_forward = false;
    module->has_backward = true;
    return TERN_OK;
}
