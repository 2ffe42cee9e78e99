/* node - see node.h. */
#include "nd/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum tern_status node_new(const struct op *op, const struct attributes *attributes,
                          struct node *const *inputs, unsigned n, struct node **node)
{
    struct node *made = calloc(1, sizeof *made + n * sizeof made->inputs[0]);
    if (!made)
        return fail(TERN_NO_MEMORY, "there is no memory for a node of a graph");
    atomic_init(&made->refs, 1);
    made->op = op;
    if (attributes)
        made->attributes = *attributes;
    made->spec.n_dims = -1;
    made->index = GRAPH_NONE;
    made->n_inputs = n;
    for (unsigned i = 0; i < n; i++)
        made->inputs[i] = node_keep(inputs[i]);
    *node = made;
    return TERN_OK;
}

struct node *node_keep(struct node *node)
{
    if (node)
        atomic_fetch_add(&node->refs, 1);
    return node;
}

/* Adds the node to the list of those to be freed, if this was the last reference. */
static void drop_into(struct node *node, struct node **list)
{
    if (!node || atomic_fetch_sub(&node->refs, 1) != 1)
        return;
    node->next = *list;
    *list = node;
}

/* A list instead of recursion: expressions may be deep. */
static void free_list(struct node *list)
{
    while (list) {
        struct node *node = list;
        list = node->next;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            drop_into(node->inputs[i], &list);
        storage_drop(node->storage);
        free(node->name);
        free(node);
    }
}

void node_drop(struct node *node)
{
    struct node *list = NULL;
    drop_into(node, &list);
    free_list(list);
}

void node_drop_inputs(struct node *node)
{
    struct node *list = NULL;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        drop_into(node->inputs[i], &list);
    node->n_inputs = 0;
    free_list(list);
}

/* ---- Lists in the order of computation ----------------------------------------------------------- */

/* Of a node whose inputs are being listed. */
#define OPEN (GRAPH_NONE - 1)

struct frame {
    struct node *node;
    uint32_t next_input;
};

struct stack {
    struct frame *frames;
    size_t n, capacity;
};

static bool push(struct stack *stack, struct node *node)
{
    if (stack->n == stack->capacity) {
        const size_t capacity = stack->capacity ? 2 * stack->capacity : 64;
        struct frame *frames = realloc(stack->frames, capacity * sizeof *frames);
        if (!frames)
            return false;
        stack->frames = frames;
        stack->capacity = capacity;
    }
    stack->frames[stack->n++] = (struct frame){node, 0};
    node->index = OPEN;
    return true;
}

static bool append(struct node_list *list, struct node *node)
{
    if (list->n == list->capacity) {
        const uint32_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct node **nodes = realloc(list->nodes, capacity * sizeof(struct node *));
        if (!nodes)
            return false;
        list->nodes = nodes;
        list->capacity = capacity;
    }
    node->index = list->n;
    list->nodes[list->n++] = node;
    return true;
}

/* Lists what is below `root`, which may be listed already. */
static bool list_below(struct node *root, struct stack *stack, struct node_list *list)
{
    if (root->index != GRAPH_NONE)
        return true;
    if (!push(stack, root))
        return false;
    while (stack->n) {
        struct frame *top = &stack->frames[stack->n - 1];
        if (top->next_input < top->node->n_inputs) {
            struct node *input = top->node->inputs[top->next_input++];
            if (input->index == GRAPH_NONE && !push(stack, input))
                return false;
            continue;
        }
        if (!append(list, top->node))
            return false;
        stack->n--;
    }
    return true;
}

enum tern_status node_list_make(struct node *const *roots, uint32_t n, struct node_list *list)
{
    struct stack stack = {0};
    bool ok = true;
    *list = (struct node_list){0};
    for (uint32_t i = 0; i < n && ok; i++)
        ok = list_below(roots[i], &stack, list);
    if (!ok) {
        for (size_t i = 0; i < stack.n; i++)
            stack.frames[i].node->index = GRAPH_NONE;
        node_list_end(list);
    }
    free(stack.frames);
    return ok ? TERN_OK : fail(TERN_NO_MEMORY, "there is no memory to order the nodes of a graph");
}

void node_list_end(struct node_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        list->nodes[i]->index = GRAPH_NONE;
    free(list->nodes);
    *list = (struct node_list){0};
}
