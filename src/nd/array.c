/*
 * array - the public calls on arrays, and the graph of pending calls.
 *
 * An array is a handle of a node. A call makes a pending node and returns. `pending` lists the arrays whose nodes are
 * pending; carrying out makes one graph of all that is below them, in which the arrays' nodes are outputs, submits it to
 * the engine and turns these nodes into leaves. Nodes that no array refers to are inside the graph: they are fused, share
 * memory, or vanish.
 *
 * Writing. If nothing else shares the memory of an array, assigning gives it another node. Otherwise everything pending is
 * carried out first, since it may depend on the old content, and the engine writes in place.
 *
 * One lock guards the list, the nodes' storages and the order in which graphs are submitted.
 */
#include "nd/array.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "nd/gemm.h"
#include "nd/onednn.h"
#include "nd/run.h"

enum { PENDING_NODES = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tern_array *pending;
static uint32_t n_pending_arrays, n_pending_nodes;
static bool is_fusing = true;

#define CHECK(array)                                                 \
    do {                                                             \
        const struct handle *given = (const struct handle *)(array); \
        if (!handle_is(given, HANDLE_ARRAY))                         \
            return handle_refuse(given, HANDLE_ARRAY);               \
    } while (0)

/* ---- The pending graph; all of this with the lock ------------------------------------------------ */

static void list_pending(struct tern_array *array)
{
    array->before = NULL;
    array->next = pending;
    if (pending)
        pending->before = array;
    pending = array;
    n_pending_arrays++;
    array->node->n_handles++;
}

static void unlist_pending(struct tern_array *array)
{
    if (array->node->storage)
        return;
    *(array->before ? &array->before->next : &pending) = array->next;
    if (array->next)
        array->next->before = array->before;
    n_pending_arrays--;
    array->node->n_handles--;
}

/* Makes a graph of the listed nodes. A node with a storage is a leaf. */
static enum tern_status make_graph(const struct node_list *list, struct graph *graph)
{
    for (uint32_t i = 0; i < list->n; i++) {
        struct node *node = list->nodes[i];
        uint32_t inputs[OP_MAX_INPUTS];
        for (uint32_t k = 0; k < node->n_inputs; k++)
            inputs[k] = node->inputs[k]->index;
        /* From here on the index is that in the graph. Inputs come first, and have theirs. */
        node->index = node->storage ? graph_leaf(graph, &node->spec, node, NULL)
                                    : graph_add(graph, node->op, &node->attributes, inputs,
                                                node->n_inputs, node, NULL);
        if (node->index == GRAPH_NONE)
            return graph->status;
        graph->nodes[node->index].is_output = node->n_handles > 0;
    }
    return TERN_OK;
}

/* The memory of an input that nobody but the elementwise node `v` of the run reads any more, such as that of c in c = a * b + c;
 * NULL if there is none. `n_reads` says how often the run's nodes read each, `n_users` how many nodes have each as an input. */
static struct storage *inherited(const struct run *run, uint32_t v, const uint32_t *n_reads,
                                 const uint32_t *n_users)
{
    const struct graph *graph = run_graph(run);
    unsigned n;
    const uint32_t *sources = graph_sources(graph, v, &n);
    for (unsigned i = 0; i < n && graph->nodes[v].program; i++) {
        const struct node *node = graph->nodes[sources[i]].origin;
        if (graph->nodes[sources[i]].op || !node || n_reads[sources[i]] != 1 || node->has_strides ||
            node->offset || !spec_same_shape(&node->spec, &graph->nodes[v].spec) ||
            node->spec.type != graph->nodes[v].spec.type)
            continue;
        if (atomic_load(&node->refs) == n_users[sources[i]] &&
            atomic_load(&node->storage->refs) == 1 && !atomic_load(&node->storage->is_exposed))
            return node->storage;
    }
    return NULL;
}

/* Counts for `inherited`, for each node of the run's graph. */
static void count_readers(const struct node_list *list, const struct run *run, uint32_t *n_reads,
                          uint32_t *n_users)
{
    const struct graph *graph = run_graph(run);
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        unsigned n = 0;
        const uint32_t *sources = graph_is_run(graph, v) ? graph_sources(graph, v, &n) : NULL;
        for (unsigned i = 0; i < n; i++)
            n_reads[sources[i]]++;
    }
    for (uint32_t i = 0; i < list->n; i++)
        for (uint32_t k = 0; k < list->nodes[i]->n_inputs; k++)
            n_users[list->nodes[i]->inputs[k]->index]++;
}

/* Gives memory to all outputs. After a failure, none of them keeps any. */
static enum tern_status give_storages(const struct node_list *list, const struct run *run)
{
    enum tern_status status = TERN_OK;
    uint32_t *counts = calloc(2 * (size_t)run_graph(run)->n_nodes, sizeof *counts);
    uint32_t *n_users = counts + run_graph(run)->n_nodes;
    if (!counts)
        return fail(TERN_NO_MEMORY, "there is no memory to carry out %u calls", n_pending_arrays);
    count_readers(list, run, counts, n_users);
    for (uint32_t i = 0; i < list->n && !status; i++) {
        struct node *node = list->nodes[i];
        if (!node->n_handles)
            continue;
        struct storage *storage = inherited(run, node->index, counts, n_users);
        if (storage)
            node->storage = storage_keep(storage);
        else
            status = storage_new(spec_bytes(&node->spec), &node->storage);
    }
    free(counts);
    for (uint32_t i = 0; i < list->n && status; i++) {
        if (list->nodes[i]->n_handles > 0) {
            storage_drop(list->nodes[i]->storage);
            list->nodes[i]->storage = NULL;
        }
    }
    return status;
}

static void bind_all(const struct node_list *list, struct run *run)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->nodes[i]->storage)
            run_bind(run, list->nodes[i]->index, list->nodes[i]->storage, list->nodes[i]->offset,
                     list->nodes[i]->has_strides ? list->nodes[i]->strides : NULL);
}

/* The nodes of all pending arrays, each once. */
static enum tern_status list_roots(struct node_list *list)
{
    struct node **roots = malloc((n_pending_arrays + (size_t)1) * sizeof(struct node *));
    if (!roots)
        return fail(TERN_NO_MEMORY, "there is no memory to carry out %u calls", n_pending_arrays);
    uint32_t n = 0;
    /* The list has the latest first; the program's order is the other one. */
    for (struct tern_array *array = pending; array; array = array->next)
        roots[n_pending_arrays - ++n] = array->node;
    enum tern_status status = node_list_make(roots, n, list);
    free(roots);
    return status;
}

/* Carries out everything that is pending. After a failure it is still pending. */
static enum tern_status flush(void)
{
    if (!pending)
        return TERN_OK;
    struct node_list list;
    struct graph graph = {0};
    struct run *run = NULL;
    enum tern_status status = list_roots(&list);
    if (status)
        return status;
    status = make_graph(&list, &graph);
    const uint32_t n_nodes = graph.n_nodes;
    if (!status)
        status = run_make(
            &graph, (struct run_options){.fusing = is_fusing, .sharing = true, .is_single = true},
            &run);
    if (!status)
        status = give_storages(&list, run);
    if (status) {
        run_free(run);
        graph_fini(&graph);
        node_list_end(&list);
        return status;
    }
    bind_all(&list, run);
    for (uint32_t i = 0; i < list.n; i++)
        list.nodes[i]->n_handles = 0;
    for (uint32_t i = 0; i < list.n; i++)
        node_keep(list.nodes[i]);
    run_submit(run, 0, n_nodes, 0);
    for (struct tern_array *array = pending; array; array = array->next)
        node_drop_inputs(array->node);
    pending = NULL;
    n_pending_arrays = n_pending_nodes = 0;
    for (uint32_t i = 0; i < list.n; i++)
        list.nodes[i]->index = GRAPH_NONE;
    for (uint32_t i = 0; i < list.n; i++)
        node_drop(list.nodes[i]);
    free(list.nodes);
    return TERN_OK;
}

/* ---- Making arrays ------------------------------------------------------------------------------- */

/* A handle of a node, which it takes over, also when it fails. */
static enum tern_status make_array(struct node *node, struct tern_array **array)
{
    struct tern_array *made = calloc(1, sizeof *made);
    if (!made) {
        node_drop(node);
        return fail(TERN_NO_MEMORY, "there is no memory for an array");
    }
    made->node = node;
    handle_init(&made->handle, HANDLE_ARRAY);
    *array = made;
    return TERN_OK;
}

/* A leaf with a storage, which it takes over. `strides` NULL: no gaps. */
static enum tern_status make_leaf(const struct spec *spec, struct storage *storage, int64_t offset,
                                  const int64_t *strides, struct tern_array **array)
{
    struct node *node;
    enum tern_status status = node_new(NULL, NULL, NULL, 0, &node);
    if (status) {
        storage_drop(storage);
        return status;
    }
    node->spec = *spec;
    node->storage = storage;
    node->offset = offset;
    if (strides) {
        int64_t dense[SPEC_DIMS];
        spec_strides(spec, dense);
        for (int i = 0; i < spec->n_dims; i++)
            node->has_strides = node->has_strides || (spec->dims[i] > 1 && strides[i] != dense[i]);
        memcpy(node->strides, strides, (size_t)spec->n_dims * sizeof *strides);
    }
    return make_array(node, array);
}

enum tern_status array_of(const struct spec *spec, struct storage *storage,
                          struct tern_array **array)
{
    atomic_store(&storage->is_exposed, true);
    return make_leaf(spec, storage_keep(storage), 0, NULL, array);
}

static enum tern_status spec_of(const struct tern_nd_shape *shape, struct spec *spec)
{
    if (!shape)
        return fail(TERN_INVALID, "the shape is NULL");
    *spec = (struct spec){.type = shape->type, .n_dims = shape->n_dims};
    memcpy(spec->dims, shape->dims, sizeof spec->dims);
    return spec_check(spec);
}

enum tern_status tern_array_new(const struct tern_nd_shape *shape, const void *data,
                                struct tern_array **array)
{
    struct spec spec;
    struct storage *storage;
    enum tern_status status =
        array ? spec_of(shape, &spec) : fail(TERN_INVALID, "the result is NULL");
    if (!status)
        status = storage_new(spec_bytes(&spec), &storage);
    if (status)
        return status;
    if (data)
        memcpy(storage->data, data, spec_bytes(&spec));
    else
        memset(storage->data, 0, spec_bytes(&spec));
    return make_leaf(&spec, storage, 0, NULL, array);
}

enum tern_status tern_array_wrap(const struct tern_nd_shape *shape, const int64_t *strides,
                                 void *data, void (*release)(void *context), void *context,
                                 struct tern_array **array)
{
    struct spec spec;
    struct storage *storage;
    enum tern_status status = array && data ? spec_of(shape, &spec)
                                            : fail(TERN_INVALID, "the data or the result is NULL");
    if (!status && (uintptr_t)data % spec_type_bytes(spec.type))
        status = fail(TERN_INVALID, "the data is not aligned to its elements");
    if (!status)
        status = storage_wrap(data, release, context, &storage);
    return status ? status : make_leaf(&spec, storage, 0, strides, array);
}

enum tern_status tern_array_close(struct tern_array *array)
{
    CHECK(array);
    pthread_mutex_lock(&lock);
    unlist_pending(array);
    pthread_mutex_unlock(&lock);
    node_drop(array->node);
    array->node = NULL;
    handle_close(&array->handle);
    return TERN_OK;
}

enum tern_status tern_array_shape(struct tern_array *array, struct tern_nd_shape *shape)
{
    CHECK(array);
    if (!shape)
        return fail(TERN_INVALID, "the result is NULL");
    const struct spec *spec = &array->node->spec;
    *shape = (struct tern_nd_shape){.type = spec->type, .n_dims = spec->n_dims};
    memcpy(shape->dims, spec->dims, sizeof shape->dims);
    return TERN_OK;
}

/* ---- Operators ----------------------------------------------------------------------------------- */

/* A node of an operator, with one reference. Inserts casts, and copies of views where the operator needs no gaps. */
static enum tern_status apply(const struct op *op, const struct attributes *attributes,
                              struct node *const *inputs, unsigned n, struct node **out)
{
    struct node *own[OP_MAX_INPUTS] = {0};
    struct spec specs[OP_MAX_INPUTS] = {{0}}, spec;
    enum tern_nd_type types[OP_MAX_INPUTS];
    enum tern_status status = TERN_OK;
    if (n > OP_MAX_INPUTS || (op->n_inputs >= 0 ? (unsigned)op->n_inputs != n : n < 1))
        return fail(TERN_INVALID, "%s does not take %u inputs", op->name, n);
    for (unsigned i = 0; i < n; i++)
        specs[i] = inputs[i]->spec;
    op_input_types(op, specs, n, types);
    for (unsigned i = 0; i < n && !status; i++) {
        if (specs[i].type != types[i]) {
            struct attributes cast;
            op_default_attributes(&op_cast, &cast);
            cast.integers[0] = types[i];
            status = apply(&op_cast, &cast, &inputs[i], 1, &own[i]);
            specs[i].type = types[i];
        } else if (!op->body && inputs[i]->has_strides) {
            status = apply(&op_copy, NULL, &inputs[i], 1, &own[i]);
        } else {
            own[i] = node_keep(inputs[i]);
        }
    }
    if (!status)
        status = op_infer(op, attributes, specs, n, &spec);
    if (!status)
        status = node_new(op, attributes, own, n, out);
    if (!status)
        (*out)->spec = spec;
    for (unsigned i = 0; i < n; i++)
        node_drop(own[i]);
    return status;
}

/* Lists an array whose node is new, and carries out what is pending if it has become too much. */
static enum tern_status add_pending(struct tern_array *array)
{
    list_pending(array);
    return ++n_pending_nodes < PENDING_NODES ? TERN_OK : flush();
}

/* Random operators without a seed get one that no other call of this process has. */
static void give_seed(const struct op *op, struct attributes *attributes)
{
    static atomic_uint_fast64_t n_seeds;
    int64_t *seed = &attributes->integers[op == &op_dropout ? 0 : 1];
    if (op->is_random && !*seed)
        *seed = (int64_t)(hash_u64(atomic_fetch_add(&n_seeds, 1) + 1) >> 1);
}

enum tern_status tern_array_apply(const char *operator_name, const char *attributes,
                                  struct tern_array *const *inputs, size_t n_inputs,
                                  struct tern_array **out)
{
    const struct op *op;
    struct attributes own;
    struct node *nodes[OP_MAX_INPUTS], *node;
    struct tern_array *array = NULL;
    enum tern_status status = out && (inputs || !n_inputs) ? op_find(operator_name, &op)
                                                           : fail(TERN_INVALID, "an array is NULL");
    if (!status && n_inputs > OP_MAX_INPUTS)
        status = fail(TERN_LIMIT, "%s takes at most %d inputs", op->name, OP_MAX_INPUTS);
    if (!status)
        status = op_read_attributes(op, attributes, &own);
    if (status)
        return status;
    for (size_t i = 0; i < n_inputs; i++) {
        CHECK(inputs[i]);
        nodes[i] = inputs[i]->node;
    }
    give_seed(op, &own);
    status = apply(op, &own, nodes, (unsigned)n_inputs, &node);
    if (!status)
        status = make_array(node, &array);
    if (status)
        return status;
    pthread_mutex_lock(&lock);
    status = add_pending(array);
    pthread_mutex_unlock(&lock);
    if (status)
        (void)tern_array_close(array);
    else
        *out = array;
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------- */

enum tern_status array_flush(struct tern_array *array)
{
    pthread_mutex_lock(&lock);
    enum tern_status status = array->node->storage ? TERN_OK : flush();
    pthread_mutex_unlock(&lock);
    return status;
}

/* Waits for the value. */
static enum tern_status wait_for(struct tern_array *array)
{
    enum tern_status status = array_flush(array);
    return status ? status : nd_engine_wait(&array->node->storage->variable);
}

static void strides_of(const struct node *node, int64_t *strides)
{
    if (node->has_strides)
        memcpy(strides, node->strides, (size_t)node->spec.n_dims * sizeof *strides);
    else
        spec_strides(&node->spec, strides);
}

static char *first_of(const struct node *node)
{
    return (char *)node->storage->data + node->offset * (int64_t)spec_type_bytes(node->spec.type);
}

enum tern_status array_operand(struct tern_array *array, bool writes, struct operand *operand,
                               struct storage **storage)
{
    pthread_mutex_lock(&lock);
    enum tern_status status = writes || !array->node->storage ? flush() : TERN_OK;
    pthread_mutex_unlock(&lock);
    if (status)
        return status;
    operand->data = first_of(array->node);
    operand->type = array->node->spec.type;
    strides_of(array->node, operand->strides);
    *storage = storage_keep(array->node->storage);
    return TERN_OK;
}

enum tern_status tern_array_data(struct tern_array *array, void **data, int64_t *strides)
{
    CHECK(array);
    if (!data)
        return fail(TERN_INVALID, "the result is NULL");
    /* The program may write there, so everything that reads it is carried out first. */
    pthread_mutex_lock(&lock);
    enum tern_status status = flush();
    pthread_mutex_unlock(&lock);
    if (!status)
        status = nd_engine_wait_idle(&array->node->storage->variable);
    if (status)
        return status;
    atomic_store(&array->node->storage->is_exposed, true);
    *data = first_of(array->node);
    if (strides)
        strides_of(array->node, strides);
    return TERN_OK;
}

enum tern_status tern_array_read(struct tern_array *array, void *data, size_t bytes)
{
    CHECK(array);
    const struct spec *spec = &array->node->spec;
    if (!data || bytes != spec_bytes(spec))
        return fail(TERN_INVALID, "the array has %zu bytes, and the place for it %zu",
                    spec_bytes(spec), bytes);
    enum tern_status status = wait_for(array);
    if (status)
        return status;
    struct program program = {
        .n_inputs = 1,
        .n_steps = 1,
        .steps = {{.op = &op_copy, .type = spec->type, .out_type = spec->type, .n_inputs = 1}}};
    struct operand in = {.data = first_of(array->node), .type = spec->type},
                   out = {.data = data, .type = spec->type};
    strides_of(array->node, in.strides);
    spec_strides(spec, out.strides);
    elementwise_run(&program, spec, &in, &out, 0);
    return TERN_OK;
}

enum tern_status tern_array_wait_all(void)
{
    pthread_mutex_lock(&lock);
    enum tern_status status = flush();
    pthread_mutex_unlock(&lock);
    nd_engine_wait_all();
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------------- */

/* `source` with the type and the shape of `like`. */
static enum tern_status fit(struct node *source, const struct spec *like, struct node **out)
{
    struct attributes attributes;
    struct node *cast;
    op_default_attributes(&op_cast, &attributes);
    attributes.integers[0] = like->type;
    enum tern_status status = apply(&op_cast, &attributes, &source, 1, &cast);
    if (status)
        return status;
    op_default_attributes(&op_broadcast_to, &attributes);
    attributes.lists[0].n = like->n_dims;
    memcpy(attributes.lists[0].at, like->dims, sizeof like->dims);
    if (spec_same_shape(&cast->spec, like)) {
        *out = cast;
        return TERN_OK;
    }
    status = apply(&op_broadcast_to, &attributes, &cast, 1, out);
    node_drop(cast);
    return status;
}

/* Whether no view and no pointer of the program shows the array's memory. Pending calls keep the node that they read. */
static bool is_alone(const struct tern_array *array)
{
    const struct storage *storage = array->node->storage;
    return !storage ||
           !(array->node->has_strides || array->node->offset || atomic_load(&storage->is_exposed));
}

/* Submits the copy of a value into the memory of an array. */
static enum tern_status write_in_place(struct tern_array *array, struct node *source)
{
    struct graph graph = {0};
    struct run *run;
    const uint32_t in = graph_leaf(&graph, &source->spec, NULL, NULL);
    const uint32_t out = graph_call(&graph, &op_copy, in);
    enum tern_status status = graph.status;
    if (status) {
        graph_fini(&graph);
        return status;
    }
    graph.nodes[out].is_output = true;
    status = run_make(&graph, (struct run_options){.is_single = true}, &run);
    if (status)
        return status;
    run_bind(run, in, source->storage, source->offset,
             source->has_strides ? source->strides : NULL);
    run_bind(run, out, array->node->storage, array->node->offset,
             array->node->has_strides ? array->node->strides : NULL);
    run_submit(run, 0, out + 1, 0);
    return TERN_OK;
}

enum tern_status tern_array_assign(struct tern_array *array, struct tern_array *source)
{
    struct node *value;
    CHECK(array);
    CHECK(source);
    enum tern_status status = fit(source->node, &array->node->spec, &value);
    if (status)
        return status;
    pthread_mutex_lock(&lock);
    if (is_alone(array)) {
        struct node *before = array->node;
        unlist_pending(array);
        array->node = value;
        status = add_pending(array);
        pthread_mutex_unlock(&lock);
        node_drop(before);
        return status;
    }
    pthread_mutex_unlock(&lock);
    /* The value gets memory of its own first, which also settles what happens if both overlap. */
    struct tern_array *temporary = NULL;
    status = make_array(value, &temporary);
    if (status)
        return status;
    pthread_mutex_lock(&lock);
    status = add_pending(temporary);
    if (!status)
        status = flush();
    if (!status)
        status = write_in_place(array, temporary->node);
    pthread_mutex_unlock(&lock);
    (void)tern_array_close(temporary);
    return status;
}

/* ---- Views --------------------------------------------------------------------------------------- */

/* A view with another shape. */
static enum tern_status make_view(const struct node *node, const struct spec *spec, int64_t offset,
                                  const int64_t *strides, struct tern_array **view)
{
    atomic_store(&node->storage->is_exposed, true);
    return make_leaf(spec, storage_keep(node->storage), node->offset + offset, strides, view);
}

enum tern_status tern_array_slice(struct tern_array *array, uint32_t n, const int64_t *begin,
                                  const int64_t *end, const int64_t *step, struct tern_array **view)
{
    CHECK(array);
    if (!view || n > SPEC_DIMS || (n && (!begin || !end)))
        return fail(TERN_INVALID, "a slice needs begin and end of at most %d dimensions",
                    SPEC_DIMS);
    struct attributes attributes;
    struct spec spec, own = array->node->spec;
    op_default_attributes(&op_slice, &attributes);
    attributes.lists[0].n = attributes.lists[1].n = attributes.lists[2].n = (int32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        attributes.lists[0].at[i] = begin[i];
        attributes.lists[1].at[i] = end[i];
        attributes.lists[2].at[i] = step ? step[i] : 1;
    }
    enum tern_status status = op_infer(&op_slice, &attributes, &own, 1, &spec);
    if (!status)
        status = array_flush(array);
    if (status)
        return status;
    int64_t strides[SPEC_DIMS], offset = 0;
    strides_of(array->node, strides);
    for (uint32_t i = 0; i < n; i++) {
        offset += begin[i] * strides[i];
        strides[i] *= attributes.lists[2].at[i];
    }
    return make_view(array->node, &spec, offset, strides, view);
}

enum tern_status tern_array_transpose(struct tern_array *array, const int64_t *axes,
                                      struct tern_array **view)
{
    CHECK(array);
    struct attributes attributes;
    struct spec spec, own = array->node->spec;
    op_default_attributes(&op_transpose, &attributes);
    if (axes) {
        attributes.lists[0].n = own.n_dims;
        memcpy(attributes.lists[0].at, axes, (size_t)own.n_dims * sizeof *axes);
    }
    enum tern_status status = view ? op_infer(&op_transpose, &attributes, &own, 1, &spec)
                                   : fail(TERN_INVALID, "the result is NULL");
    if (!status)
        status = array_flush(array);
    if (status)
        return status;
    int64_t strides[SPEC_DIMS], turned[SPEC_DIMS];
    strides_of(array->node, strides);
    for (int i = 0; i < own.n_dims; i++) {
        int64_t axis = own.n_dims - 1 - i;
        if (axes)
            (void)op_axis(axes[i], own.n_dims, &axis);
        turned[i] = strides[axis];
    }
    return make_view(array->node, &spec, 0, turned, view);
}

enum tern_status tern_array_reshape(struct tern_array *array, uint32_t n_dims, const int64_t *dims,
                                    struct tern_array **view)
{
    CHECK(array);
    struct attributes attributes;
    struct spec spec, own = array->node->spec;
    if (!view || n_dims > SPEC_DIMS || (n_dims && !dims))
        return fail(TERN_INVALID, "an array has at most %d dimensions", SPEC_DIMS);
    op_default_attributes(&op_reshape, &attributes);
    attributes.lists[0].n = (int32_t)n_dims;
    if (n_dims)
        memcpy(attributes.lists[0].at, dims, n_dims * sizeof *dims);
    enum tern_status status = op_infer(&op_reshape, &attributes, &own, 1, &spec);
    if (!status)
        status = array_flush(array);
    if (!status && array->node->has_strides)
        status =
            fail(TERN_INVALID,
                 "an array with gaps has no view of another shape; the operator reshape copies it");
    return status ? status : make_view(array->node, &spec, 0, NULL, view);
}

/* ---- The engine ---------------------------------------------------------------------------------- */

enum tern_status tern_nd_set_threads(uint32_t n)
{
    return nd_engine_set_threads(n);
}

enum tern_status tern_nd_set_fusion(bool on)
{
    pthread_mutex_lock(&lock);
    is_fusing = on;
    pthread_mutex_unlock(&lock);
    return TERN_OK;
}

enum tern_status tern_nd_check_nan(bool on)
{
    run_check_nan(on);
    return TERN_OK;
}

const char *tern_nd_operator(size_t i)
{
    size_t n = 0;
    while (op_list()[n])
        n++;
    return i < n ? op_list()[i]->name : NULL;
}

const char *tern_nd_gemm(void)
{
    return gemm_name();
}

const char *tern_nd_convolution(void)
{
    return onednn_name();
}

uint64_t tern_nd_operations(void)
{
    return nd_engine_count();
}
