/* module_lookup - the `embedding` nodes of a module whose weights are in tables (embedding.h). */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/module.h"

struct module_value *module_lookup(const struct tern_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->n_lookups; i++)
        if (!strcmp(module->lookups[i].value.name, name))
            return &module->lookups[i].value;
    return NULL;
}

/* The number of the table that is given for a variable; n_tables if there is none. */
static size_t table_of(const struct tern_module *module, const char *name)
{
    size_t i = 0;
    while (i < module->options.n_tables && strcmp(module->options.table_names[i], name) != 0)
        i++;
    return i;
}

bool module_has_table(const struct tern_module *module, const char *name)
{
    return table_of(module, name) < module->options.n_tables;
}

/* Makes the lookup of node v, whose weights are in `embedding`. */
static enum tern_status make_lookup(struct tern_module *module, uint32_t v,
                                    struct tern_embedding *embedding)
{
    const struct graph_node *node = &module->forward.nodes[v];
    const struct graph_node *ids = &module->forward.nodes[graph_inputs(&module->forward, v)[0]];
    const int64_t rows = node->attributes.integers[0], length = node->attributes.integers[1];
    struct module_value *input = ids->op ? NULL : module_input(module, ids->name);
    EMBEDDING_CHECK(embedding);
    if (!input)
        return fail(TERN_INVALID,
                    "'%s' has its weights in a table, so its ids must be an input of type i64",
                    node->name);
    if (node->spec.type != TERN_ND_F32 || length != embedding->length ||
        (embedding->n_rows && (uint64_t)rows != embedding->n_rows))
        return fail(TERN_MISMATCH,
                    "'%s' has %lld rows of %lld f32, and its table %llu (0: any) of %u", node->name,
                    (long long)rows, (long long)length, (unsigned long long)embedding->n_rows,
                    embedding->length);
    struct module_lookup *made = &module->lookups[module->n_lookups++];
    enum tern_status status = module_new_value(&made->value, node->name, &node->spec);
    if (!status && !module->options.predicting)
        status = storage_new(spec_bytes(&node->spec), &made->value.gradient);
    return status
               ? status
               : lookup_init(&made->lookup, embedding, node->name, input->storage,
                             spec_count(&input->spec), made->value.storage, made->value.gradient);
}

enum tern_status module_make_lookups(struct tern_module *module)
{
    const struct graph *graph = &module->forward;
    size_t n = 0, n_used = 0;
    for (uint32_t v = 0; v < graph->n_nodes; v++)
        n += graph->nodes[v].op == &op_embedding;
    module->lookups = calloc(n + 1, sizeof *module->lookups);
    if (!module->lookups)
        return fail(TERN_NO_MEMORY, "there is no memory for a module");
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < module->options.n_tables && !status; i++, n_used = module->n_lookups) {
        const char *name = module->options.table_names[i];
        for (uint32_t v = 0; v < graph->n_nodes && !status; v++) {
            if (graph->nodes[v].op != &op_embedding)
                continue;
            const struct graph_node *weight = &graph->nodes[graph_inputs(graph, v)[1]];
            if (!weight->op && !strcmp(weight->name, name))
                status = make_lookup(module, v, module->options.tables[i]);
        }
        if (!status && module->n_lookups == n_used)
            status = fail(TERN_INVALID, "no embedding of the symbol has the weights '%.70s'", name);
    }
    return status;
}
