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

static enum tern_status allocate(struct module_value *value)
{
    enum tern_status status = storage_new(spec_bytes(&value->spec), &value->storage);
    if (!status)
        memset(value->storage->data, 0, spec_bytes(&value->spec));
    return status;
}

enum tern_status module_new_value(struct module_value *value, const char *name,
                                  const struct spec *spec)
{
    value->name = name;
    value->spec = *spec;
    return allocate(value);
}

/* The numbers that a parameter has before it is set: zeros, but scales and variances are ones. */
static void fill_first(const struct module_value *value, enum module_role role)
{
    const size_t n = spec_count(&value->spec), ones = role == MODULE_ONES ? 0 : n / 2;
    memset(value->storage->data, 0, spec_bytes(&value->spec));
    for (size_t i = ones; i < n && role != MODULE_LEARNED; i++) {
        if (value->spec.type == TERN_ND_F32)
            ((float *)value->storage->data)[i] = 1;
        else
            ((double *)value->storage->data)[i] = 1;
    }
}

/* Names the parameters with, or those without, gradients. */
static enum tern_status list_parameters(struct tern_module *module,
                                        const struct tern_symbol *symbol, size_t n,
                                        const char *const *names, const uint32_t *of_node,
                                        const enum module_role *roles, bool learned)
{
    for (uint32_t i = 0; i < symbol->list.n; i++) {
        const struct node *node = symbol->list.nodes[i];
        const struct spec *spec = &module->forward.nodes[of_node[i]].spec;
        const enum module_role role = roles[of_node[i]];
        if (node->op || node->is_label || is_given(node->name, n, names) ||
            module_has_table(module, node->name) || learned != (role != MODULE_STATISTICS))
            continue;
        if (!spec_is_real(spec->type))
            return fail(TERN_INVALID, "the parameter '%s' is of type %s", node->name,
                        spec_type_name(spec->type));
        module->parameters[module->n_parameters++] =
            (struct module_value){.name = node->name, .spec = *spec, .role = role};
    }
    return TERN_OK;
}

/* Names the variables: inputs in the order of `names`, then labels; parameters. */
static enum tern_status list_values(struct tern_module *module, const struct tern_symbol *symbol,
                                    size_t n, const char *const *names, const uint32_t *of_node)
{
    const struct graph *graph = &module->forward;
    enum module_role *roles = malloc((graph->n_nodes + (size_t)1) * sizeof *roles);
    module->inputs = calloc(symbol->list.n + n, sizeof *module->inputs);
    module->parameters = calloc(symbol->list.n, sizeof *module->parameters);
    if (!module->inputs || !module->parameters || !roles) {
        free(roles);
        return fail(TERN_NO_MEMORY, "there is no memory for a module");
    }
    module_roles(module, roles);
    for (size_t k = 0; k < n + 1; k++)
        for (uint32_t i = 0; i < symbol->list.n; i++) {
            const struct node *node = symbol->list.nodes[i];
            /* Behind the names come the labels that have none. */
            if (!node->op && (k < n ? !strcmp(node->name, names[k])
                                    : node->is_label && !is_given(node->name, n, names)))
                module->inputs[module->n_inputs++] = (struct module_value){
                    .name = node->name, .spec = graph->nodes[of_node[i]].spec};
        }
    enum tern_status status = list_parameters(module, symbol, n, names, of_node, roles, true);
    module->n_learned = module->n_parameters;
    if (!status)
        status = list_parameters(module, symbol, n, names, of_node, roles, false);
    free(roles);
    return status;
}

/* Gives inputs, parameters and the output their memory. */
static enum tern_status allocate_values(struct tern_module *module)
{
    const struct graph *forward = &module->forward;
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; i < module->n_inputs && !status; i++)
        status = allocate(&module->inputs[i]);
    for (uint32_t i = 0; i < module->n_parameters && !status; i++) {
        status = allocate(&module->parameters[i]);
        if (!status)
            fill_first(&module->parameters[i], module->parameters[i].role);
    }
    if (!status)
        status =
            module_new_value(&module->output, "output", &forward->nodes[forward->n_nodes - 1].spec);
    return status ? status : module_make_lookups(module);
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

struct module_value *module_input(struct tern_module *module, const char *name)
{
    return find(module->inputs, module->n_inputs, name);
}

/* The i-th value that has a gradient: learned parameters, then lookups. */
static struct module_value *learned(struct tern_module *module, uint32_t i)
{
    return i < module->n_learned ? &module->parameters[i]
                                 : &module->lookups[i - module->n_learned].value;
}

enum tern_status module_add_gradients(struct tern_module *module, struct graph *graph,
                                      uint32_t loss, uint32_t *of_value)
{
    const uint32_t n = module->n_learned + module->n_lookups;
    uint32_t *leaves = calloc(n + (size_t)1, sizeof *leaves);
    if (!leaves)
        return fail(TERN_NO_MEMORY, "there is no memory for gradients");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t v = 0; v <= loss; v++)
            if (!graph->nodes[v].op && !strcmp(graph->nodes[v].name, learned(module, i)->name))
                leaves[i] = v;
    enum tern_status status = graph_differentiate(graph, loss, leaves, n, of_value);
    for (uint32_t i = 0; i < n && !status; i++) {
        /* Two parameters may have one gradient, and the gradient may be a node that is an output already. */
        if (graph->nodes[of_value[i]].is_output)
            of_value[i] = graph_call(graph, &op_copy, of_value[i]);
        status = graph->status;
        if (!status)
            graph->nodes[of_value[i]].is_output = true;
    }
    free(leaves);
    return status;
}

/* Binds leaves and the output of a run to the module's storages. */
static void bind_values(struct tern_module *module, struct run *run, uint32_t output)
{
    const struct graph *graph = run_graph(run);
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        if (graph->nodes[v].op)
            continue;
        const char *name = graph->nodes[v].name;
        struct module_value *value = module_input(module, name);
        value = value ? value : module_parameter(module, name);
        run_bind(run, v, (value ? value : module_lookup(module, name))->storage, 0, NULL);
    }
    run_bind(run, output, module->output.storage, 0, NULL);
}

/* The last node of a graph is its output; a variable alone becomes a copy. */
static enum tern_status end_with_operator(struct graph *graph)
{
    if (!graph->nodes[graph->n_nodes - 1].op)
        (void)graph_call(graph, &op_copy, graph->n_nodes - 1);
    return graph->status;
}

static struct run_options run_options(const struct tern_module *module)
{
    return (struct run_options){.fusing = !module->options.unfused,
                                .sharing = !module->options.unshared};
}

/* Gives gradients their storages, and the next values of statistics those of the present ones. */
static enum tern_status bind_parameters(struct tern_module *module, const uint32_t *gradients,
                                        const uint32_t *states)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; i < module->n_parameters && !status; i++) {
        struct module_value *value = &module->parameters[i];
        if (states[i] != GRAPH_NONE)
            run_bind(module->training, states[i], value->storage, 0, NULL);
        if (i >= module->n_learned)
            continue;
        status = storage_new(spec_bytes(&value->spec), &value->gradient);
        if (!status) {
            memset(value->gradient->data, 0, spec_bytes(&value->spec));
            run_bind(module->training, gradients[i], value->gradient, 0, NULL);
        }
    }
    for (uint32_t i = 0; i < module->n_lookups && !status; i++)
        run_bind(module->training, gradients[module->n_learned + i],
                 module->lookups[i].value.gradient, 0, NULL);
    return status;
}

static enum tern_status make_training(struct tern_module *module)
{
    struct graph graph = {0};
    const size_t n = 2 * (size_t)module->n_parameters + module->n_lookups + 1;
    uint32_t output = 0, *gradients = malloc(n * sizeof *gradients);
    if (!gradients)
        return fail(TERN_NO_MEMORY, "there is no memory for gradients");
    uint32_t *states = gradients + module->n_learned + module->n_lookups;
    enum tern_status status = module_graph(module, true, &graph, &output, states);
    module->n_forward = graph.n_nodes;
    if (!status)
        status = module_add_gradients(module, &graph, output, gradients);
    if (!status)
        status = run_make(&graph, run_options(module), &module->training);
    graph_fini(&graph);
    if (!status) {
        bind_values(module, module->training, output);
        status = bind_parameters(module, gradients, states);
    }
    free(gradients);
    return status;
}

static enum tern_status make_predicting(struct tern_module *module)
{
    struct graph graph = {0};
    uint32_t output;
    enum tern_status status = module_graph(module, false, &graph, &output, NULL);
    if (!status)
        status = run_make(&graph, run_options(module), &module->predicting);
    graph_fini(&graph);
    if (!status)
        bind_values(module, module->predicting, output);
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

void module_fini(struct tern_module *module)
{
    module_drop_updates(module);
    for (uint32_t i = 0; module->copies && i < module->n_inputs; i++)
        nd_engine_wait_for(&module->copies[i].left);
    free(module->copies);
    run_free(module->training);
    run_free(module->predicting);
    graph_fini(&module->forward);
    for (uint32_t i = 0; i < module->n_lookups; i++) {
        lookup_fini(&module->lookups[i].lookup);
        storage_drop(module->lookups[i].value.storage);
        storage_drop(module->lookups[i].value.gradient);
    }
    free(module->lookups);
    free_values(module->inputs, module->n_inputs);
    free_values(module->parameters, module->n_parameters);
    storage_drop(module->output.storage);
    node_drop(module->node);
}

enum tern_status module_start(struct tern_module *module, const struct tern_symbol *symbol,
                              size_t n, const char *const *names,
                              const struct tern_nd_shape *shapes)
{
    uint32_t *of_node = malloc(symbol->list.n * sizeof *of_node);
    enum tern_status status =
        of_node ? symbol_graph(symbol, n, names, shapes, &module->forward, of_node)
                : fail(TERN_NO_MEMORY, "there is no memory for a module");
    if (!status)
        status = end_with_operator(&module->forward);
    if (!status)
        status = list_values(module, symbol, n - module->options.n_parameters, names, of_node);
    free(of_node);
    return status;
}

/* Fills in a module whose options and node are set. */
static enum tern_status bind(struct tern_module *module, const struct tern_symbol *symbol, size_t n,
                             const char *const *names, const struct tern_nd_shape *shapes)
{
    enum tern_status status = module_start(module, symbol, n, names, shapes);
    if (!status)
        status = allocate_values(module);
    if (!status)
        status = module->options.predicting ? make_predicting(module) : make_training(module);
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
        (options && (options->struct_size != sizeof *options || options->n_parameters > n ||
                     (options->n_tables && (!options->table_names || !options->tables)))))
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
        module_fini(made);
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
    module_fini(module);
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
        if (module->parameters[i].role != MODULE_LEARNED)
            fill_first(&module->parameters[i], module->parameters[i].role);
        else
            fill(&module->parameters[i], kind, a, b, rand_at(hash_u64(seed), i));
    }
    return TERN_OK;
}

enum tern_status tern_module_name(struct tern_module *module, size_t i, const char **name)
{
    MODULE_CHECK(module);
    if (!name)
        return fail(TERN_INVALID, "the result is NULL");
    *name = i < module->n_learned ? module->parameters[i].name : NULL;
    return TERN_OK;
}

enum tern_status tern_module_state(struct tern_module *module, size_t i, const char **name)
{
    MODULE_CHECK(module);
    if (!name)
        return fail(TERN_INVALID, "the result is NULL");
    *name = i < module->n_parameters - module->n_learned
                ? module->parameters[module->n_learned + i].name
                : NULL;
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
        return fail(TERN_INVALID,
                    module->options.predicting
                        ? "the module was bound for predicting and has no gradients"
                        : "'%.70s' is not learned and has no gradient",
                    name);
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
    const struct plan *plan = run_plan(module->training ? module->training : module->predicting);
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
    for (uint32_t i = 0; i < module->n_lookups; i++)
        lookup_pull(&module->lookups[i].lookup, training);
    struct run *run = training ? module->training : module->predicting;
    run_submit(run, 0, training ? module->n_forward : run_graph(run)->n_nodes, ++module->step);
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
