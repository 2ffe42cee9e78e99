/*
 * symbol - the public calls on symbols.
 *
 * A symbol is a handle of a node that has names instead of values. It never changes, so any thread may use it; symbols share
 * the nodes below them.
 */
#include "nd/symbol.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define CHECK(symbol)                                                 \
    do {                                                              \
        const struct handle *given = (const struct handle *)(symbol); \
        if (!handle_is(given, HANDLE_SYMBOL))                         \
            return handle_refuse(given, HANDLE_SYMBOL);               \
    } while (0)

/* node_list_make uses the nodes' indices, which symbols share. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static enum tern_status check_name(const char *name)
{
    const size_t n = name ? strlen(name) : 0;
    if (n < 1 || n >= SYMBOL_NAME ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != n)
        return fail(TERN_INVALID, "'%.70s' is no name: 1 to 63 letters, digits, '_', '.' and '-'",
                    name ? name : "");
    return TERN_OK;
}

enum tern_status symbol_node(const struct op *op, const struct attributes *attributes,
                             const char *name, struct node *const *inputs, unsigned n,
                             struct node **node)
{
    struct node *made;
    enum tern_status status = check_name(name);
    if (!status)
        status = node_new(op, attributes, inputs, n, &made);
    if (status)
        return status;
    made->name = strdup(name);
    if (!made->name) {
        node_drop(made);
        return fail(TERN_NO_MEMORY, "there is no memory for the name of a symbol");
    }
    *node = made;
    return TERN_OK;
}

enum tern_status symbol_of(struct node *node, struct tern_symbol **symbol)
{
    struct tern_symbol *made = calloc(1, sizeof *made);
    enum tern_status status =
        made ? TERN_OK : fail(TERN_NO_MEMORY, "there is no memory for a symbol");
    if (!status) {
        pthread_mutex_lock(&lock);
        status = node_list_make(&node, 1, &made->list);
        for (uint32_t i = 0; i < made->list.n; i++)
            made->list.nodes[i]->index = GRAPH_NONE;
        pthread_mutex_unlock(&lock);
    }
    if (!status && made->list.n > SYMBOL_MAX_NODES)
        status = fail(TERN_LIMIT, "a symbol has at most %d nodes", SYMBOL_MAX_NODES);
    if (status) {
        if (made)
            free(made->list.nodes);
        free(made);
        node_drop(node);
        return status;
    }
    made->node = node;
    handle_init(&made->handle, HANDLE_SYMBOL);
    *symbol = made;
    return TERN_OK;
}

enum tern_status tern_symbol_variable(const char *name, struct tern_symbol **symbol)
{
    struct node *node = NULL;
    enum tern_status status = symbol ? symbol_node(NULL, NULL, name, NULL, 0, &node)
                                     : fail(TERN_INVALID, "the result is NULL");
    return status ? status : symbol_of(node, symbol);
}

/* The inputs that are left out become variables. */
static enum tern_status complete(const struct op *op, const char *name, struct node **inputs,
                                 unsigned *n)
{
    enum tern_status status = TERN_OK;
    while (!status && op->n_inputs > 0 && *n < (unsigned)op->n_inputs) {
        char own[2 * SYMBOL_NAME];
        snprintf(own, sizeof own, "%s_%s", name, op->input_names[*n]);
        status = symbol_node(NULL, NULL, own, NULL, 0, &inputs[*n]);
        if (!status)
            inputs[*n]->is_label = op->label && (unsigned)op->label == *n;
        *n += !status;
    }
    return status;
}

enum tern_status tern_symbol_apply(const char *operator_name, const char *attributes,
                                   const char *name, struct tern_symbol *const *inputs,
                                   size_t n_inputs, struct tern_symbol **symbol)
{
    static atomic_uint n_unnamed;
    const struct op *op = NULL;
    struct attributes own;
    struct node *nodes[OP_MAX_INPUTS] = {0}, *node = NULL;
    char made[SYMBOL_NAME];
    enum tern_status status = symbol && (inputs || !n_inputs)
                                  ? op_find(operator_name, &op)
                                  : fail(TERN_INVALID, "a symbol is NULL");
    if (!status)
        status = op_read_attributes(op, attributes, &own);
    if (!status &&
        (n_inputs > OP_MAX_INPUTS || (op->n_inputs >= 0 && n_inputs > (size_t)op->n_inputs) ||
         (op->n_inputs && !n_inputs)))
        status = fail(TERN_INVALID, "%s does not take %zu inputs", op->name, n_inputs);
    if (status)
        return status;
    for (size_t i = 0; i < n_inputs; i++)
        CHECK(inputs[i]);
    if (!name) {
        snprintf(made, sizeof made, "%s%u", op->name, atomic_fetch_add(&n_unnamed, 1));
        name = made;
    }
    unsigned n = (unsigned)n_inputs;
    for (size_t i = 0; i < n_inputs; i++)
        nodes[i] = node_keep(inputs[i]->node);
    status = complete(op, name, nodes, &n);
    /* Two nodes of one random operator must differ; the seed is part of what is saved. */
    if (op->is_random && !own.integers[op == &op_dropout ? 0 : 1])
        own.integers[op == &op_dropout ? 0 : 1] = 1 + (int64_t)atomic_fetch_add(&n_unnamed, 1);
    if (!status)
        status = symbol_node(op, &own, name, nodes, n, &node);
    for (unsigned i = 0; i < n; i++)
        node_drop(nodes[i]);
    return status ? status : symbol_of(node, symbol);
}

enum tern_status tern_symbol_close(struct tern_symbol *symbol)
{
    CHECK(symbol);
    free(symbol->list.nodes);
    node_drop(symbol->node);
    handle_close(&symbol->handle);
    return TERN_OK;
}

enum tern_status tern_symbol_argument(struct tern_symbol *symbol, size_t i, const char **name)
{
    CHECK(symbol);
    if (!name)
        return fail(TERN_INVALID, "the result is NULL");
    *name = NULL;
    for (uint32_t k = 0; k < symbol->list.n && !*name; k++)
        if (!symbol->list.nodes[k]->op && i-- == 0)
            *name = symbol->list.nodes[k]->name;
    return TERN_OK;
}

/* ---- Graphs -------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names must differ: parameters are found by them. */
static enum tern_status check_names(const struct tern_symbol *symbol)
{
    const char **names = malloc(symbol->list.n * sizeof *names);
    if (!names)
        return fail(TERN_NO_MEMORY, "there is no memory for the names of a symbol");
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; i < symbol->list.n; i++)
        names[i] = symbol->list.nodes[i]->name;
    qsort(names, symbol->list.n, sizeof *names, compare_names);
    for (uint32_t i = 1; i < symbol->list.n && !status; i++)
        if (!strcmp(names[i - 1], names[i]))
            status = fail(TERN_INVALID, "two nodes of the symbol have the name '%s'", names[i]);
    free(names);
    return status;
}

/* The given shape of a variable; unknown if there is none. */
static struct spec given_shape(const char *name, size_t n, const char *const *names,
                               const struct tern_nd_shape *shapes)
{
    struct spec spec = {.n_dims = -1};
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(names[i], name)) {
            spec.type = shapes[i].type;
            spec.n_dims = shapes[i].n_dims;
            memcpy(spec.dims, shapes[i].dims, sizeof spec.dims);
        }
    }
    return spec;
}

/* Every name is a variable, and every shape is one. */
static enum tern_status check_given(const struct tern_symbol *symbol, size_t n,
                                    const char *const *names, const struct tern_nd_shape *shapes)
{
    if (n && (!names || !shapes))
        return fail(TERN_INVALID, "the names or the shapes are NULL");
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        for (uint32_t k = 0; k < symbol->list.n && names[i]; k++)
            found = found ||
                    (!symbol->list.nodes[k]->op && !strcmp(symbol->list.nodes[k]->name, names[i]));
        if (!found)
            return fail(TERN_INVALID, "the symbol has no variable '%.70s'",
                        names[i] ? names[i] : "(NULL)");
        const struct spec spec = given_shape(names[i], n, names, shapes);
        enum tern_status status = spec_check(&spec);
        if (status)
            return status;
    }
    return TERN_OK;
}

enum tern_status symbol_graph(const struct tern_symbol *symbol, size_t n, const char *const *names,
                              const struct tern_nd_shape *shapes, struct graph *graph,
                              uint32_t *of_node)
{
    enum tern_status status = check_names(symbol);
    if (!status)
        status = check_given(symbol, n, names, shapes);
    if (status)
        return status;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < symbol->list.n && !graph->status; i++) {
        struct node *node = symbol->list.nodes[i];
        uint32_t inputs[OP_MAX_INPUTS];
        for (uint32_t k = 0; k < node->n_inputs; k++)
            inputs[k] = node->inputs[k]->index;
        const struct spec spec =
            node->op ? (struct spec){0} : given_shape(node->name, n, names, shapes);
        of_node[i] = node->op ? graph_add(graph, node->op, &node->attributes, inputs,
                                          node->n_inputs, node, node->name)
                              : graph_leaf(graph, &spec, node, node->name);
        node->index = of_node[i];
    }
    for (uint32_t i = 0; i < symbol->list.n; i++)
        symbol->list.nodes[i]->index = GRAPH_NONE;
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < symbol->list.n && !graph->status; i++)
        if (!spec_is_known(&graph->nodes[of_node[i]].spec))
            graph->status =
                fail(TERN_INVALID, "the shape of '%s' is not given and cannot be inferred",
                     symbol->list.nodes[i]->name);
    return graph->status;
}

enum tern_status tern_symbol_infer(struct tern_symbol *symbol, size_t n, const char *const *names,
                                   const struct tern_nd_shape *shapes, const char *name,
                                   struct tern_nd_shape *shape)
{
    CHECK(symbol);
    if (!shape)
        return fail(TERN_INVALID, "the result is NULL");
    struct graph graph = {0};
    uint32_t *of_node = malloc(symbol->list.n * sizeof *of_node), found = GRAPH_NONE;
    enum tern_status status = of_node ? symbol_graph(symbol, n, names, shapes, &graph, of_node)
                                      : fail(TERN_NO_MEMORY, "there is no memory to infer shapes");
    for (uint32_t i = 0; i < symbol->list.n && !status; i++)
        if (name ? !strcmp(symbol->list.nodes[i]->name, name) : i + 1 == symbol->list.n)
            found = of_node[i];
    if (!status && found == GRAPH_NONE)
        status = fail(TERN_INVALID, "the symbol has no node '%.70s'", name);
    if (!status) {
        const struct spec *spec = &graph.nodes[found].spec;
        *shape = (struct tern_nd_shape){.type = spec->type, .n_dims = spec->n_dims};
        memcpy(shape->dims, spec->dims, sizeof shape->dims);
    }
    free(of_node);
    graph_fini(&graph);
    return status;
}

enum tern_status tern_symbol_save(struct tern_symbol *symbol, char **text)
{
    CHECK(symbol);
    struct buffer out = {0};
    if (!text)
        return fail(TERN_INVALID, "the result is NULL");
    if (!symbol_write(symbol, &out) || !buffer_append(&out, "", 1)) {
        buffer_free(&out);
        return fail(TERN_NO_MEMORY, "there is no memory for the text of a symbol");
    }
    *text = (char *)out.bytes;
    return TERN_OK;
}

enum tern_status tern_symbol_load(const char *text, size_t n, struct tern_symbol **symbol)
{
    struct node *node = NULL;
    enum tern_status status = text && symbol ? symbol_read(text, n, &node)
                                             : fail(TERN_INVALID, "the text or the result is NULL");
    return status ? status : symbol_of(node, symbol);
}
