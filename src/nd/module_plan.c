/* module_plan - the memory that a module would need, from its symbol alone. */
#include <stdlib.h>
#include <time.h>

#include "base/status.h"
#include "nd/module.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The nodes that a module would run. */
static enum tern_status make_graph(struct tern_module *module, struct graph *graph)
{
    const bool training = !module->options.predicting;
    const size_t n = 2 * (size_t)module->n_parameters + 1;
    uint32_t output, *of_value = malloc(n * sizeof *of_value);
    enum tern_status status =
        of_value ? module_graph(module, training, graph, &output, of_value + module->n_learned)
                 : fail(TERN_NO_MEMORY, "there is no memory to plan a module");
    if (!status && training)
        status = module_add_gradients(module, graph, output, of_value);
    free(of_value);
    return status;
}

enum tern_status tern_symbol_plan(struct tern_symbol *symbol, size_t n, const char *const *names,
                                  const struct tern_nd_shape *shapes, bool predicting,
                                  struct tern_nd_plan *result)
{
    if (!handle_is((const struct handle *)symbol, HANDLE_SYMBOL))
        return handle_refuse((const struct handle *)symbol, HANDLE_SYMBOL);
    if (!result || result->struct_size != sizeof *result)
        return fail(TERN_INVALID, "the result is NULL, or has another struct_size");
    struct tern_module module = {.options = {.predicting = predicting},
                                 .node = node_keep(symbol->node)};
    struct graph graph = {0};
    struct plan plan = {0};
    const double begin = seconds();
    enum tern_status status = module_start(&module, symbol, n, names, shapes);
    if (!status)
        status = make_graph(&module, &graph);
    if (!status)
        status = graph_fuse(&graph, true);
    if (!status)
        status = plan_make(&graph, true, 1, &plan);
    if (!status) {
        *result = (struct tern_nd_plan){.struct_size = sizeof *result,
                                        .n_nodes = graph.n_nodes,
                                        .planned_bytes = plan.arena_bytes,
                                        .separate_bytes = plan.separate_bytes,
                                        .alive_bytes = plan.alive_bytes,
                                        .seconds = seconds() - begin};
        for (uint32_t i = 0; i < module.n_parameters; i++)
            result->parameter_bytes += spec_bytes(&module.parameters[i].spec);
    }
    plan_fini(&plan);
    graph_fini(&graph);
    module_fini(&module);
    return status;
}
