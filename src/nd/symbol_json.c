/*
 * symbol_json - a symbol as JSON (symbol.h):
 *
 *   {"format": "tern-symbol 1", "nodes": [
 *     {"name": "data"},
 *     {"name": "fc1", "op": "fully_connected", "attributes": "hidden=64", "inputs": [0, 1, 2]}, ...]}
 *
 * A node without "op" is a variable; "label": 1 says that it is no parameter. Inputs are numbers of earlier nodes, so there
 * can be no circle. The last node is the symbol.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/symbol.h"
#include "wire/json.h"

static const char format[] = "tern-symbol 1";

/* ---- Writing ------------------------------------------------------------------------------------- */

static uint32_t place_of(const struct node_list *list, uint32_t before, const struct node *node)
{
    uint32_t i = before;
    while (i-- > 0)
        if (list->nodes[i] == node)
            return i;
    return 0;
}

static bool write_node(const struct node_list *list, uint32_t i, struct buffer *out)
{
    const struct node *node = list->nodes[i];
    bool ok = json_put(out, "%s\n  {\"name\": ", i ? "," : "") && json_put_string(out, node->name);
    if (node->op) {
        char attributes[1024];
        struct text text = {attributes, sizeof attributes, 0};
        attributes[0] = 0;
        op_print_attributes(node->op, &node->attributes, &text);
        ok = ok && json_put(out, ", \"op\": \"%s\", \"attributes\": ", node->op->name) &&
             json_put_string(out, attributes) && json_put(out, ", \"inputs\": [");
        for (uint32_t k = 0; k < node->n_inputs; k++)
            ok = ok && json_put(out, k ? ", %u" : "%u", place_of(list, i, node->inputs[k]));
        ok = ok && json_put(out, "]");
    } else if (node->is_label) {
        ok = ok && json_put(out, ", \"label\": 1");
    }
    return ok && json_put(out, "}");
}

bool symbol_write(const struct tern_symbol *symbol, struct buffer *out)
{
    bool ok = json_put(out, "{\"format\": \"%s\", \"nodes\": [", format);
    for (uint32_t i = 0; i < symbol->list.n && ok; i++)
        ok = write_node(&symbol->list, i, out);
    return ok && json_put(out, "]}\n");
}

/* ---- Reading ------------------------------------------------------------------------------------- */

struct reader {
    struct json json;
    struct node **nodes;
    uint32_t n, capacity;
};

/* What the text says of one node. */
struct draft {
    char name[SYMBOL_NAME], op[SYMBOL_NAME], attributes[1024];
    uint64_t inputs[OP_MAX_INPUTS], is_label;
    unsigned n_inputs;
};

static bool read_inputs(struct json *json, struct draft *draft)
{
    size_t n = 0;
    if (!json_open(json, '['))
        return false;
    while (json_next(json, ']', &n)) {
        if (draft->n_inputs == OP_MAX_INPUTS)
            return json_refuse(json, "a node has too many inputs");
        if (!json_number(json, &draft->inputs[draft->n_inputs++]))
            return false;
    }
    return !json->wrong;
}

static bool read_draft(struct json *json, struct draft *draft)
{
    size_t n = 0;
    char member[32];
    *draft = (struct draft){0};
    if (!json_open(json, '{'))
        return false;
    while (json_next(json, '}', &n)) {
        if (!json_name(json, member, sizeof member))
            return false;
        if (!strcmp(member, "name"))
            json_string(json, draft->name, sizeof draft->name);
        else if (!strcmp(member, "op"))
            json_string(json, draft->op, sizeof draft->op);
        else if (!strcmp(member, "attributes"))
            json_string(json, draft->attributes, sizeof draft->attributes);
        else if (!strcmp(member, "inputs"))
            read_inputs(json, draft);
        else if (!strcmp(member, "label"))
            json_number(json, &draft->is_label);
        else
            json_skip(json);
    }
    return !json->wrong;
}

static enum tern_status make_node(struct reader *reader, const struct draft *draft,
                                  struct node **node)
{
    if (!draft->op[0]) {
        enum tern_status status = symbol_node(NULL, NULL, draft->name, NULL, 0, node);
        if (!status)
            (*node)->is_label = draft->is_label == 1;
        return status;
    }
    const struct op *op;
    struct attributes attributes;
    struct node *inputs[OP_MAX_INPUTS];
    enum tern_status status = op_find(draft->op, &op);
    if (!status)
        status = op_read_attributes(op, draft->attributes, &attributes);
    if (!status &&
        (op->n_inputs >= 0 ? draft->n_inputs != (unsigned)op->n_inputs : !draft->n_inputs))
        status = fail(TERN_INVALID, "node '%s': %s does not take %u inputs", draft->name, op->name,
                      draft->n_inputs);
    for (unsigned i = 0; i < draft->n_inputs && !status; i++) {
        if (draft->inputs[i] >= reader->n)
            status = fail(TERN_INVALID, "node '%s': its input %llu does not come before it",
                          draft->name, (unsigned long long)draft->inputs[i]);
        else
            inputs[i] = reader->nodes[draft->inputs[i]];
    }
    return status ? status
                  : symbol_node(op, &attributes, draft->name, inputs, draft->n_inputs, node);
}

static enum tern_status read_nodes(struct reader *reader)
{
    struct json *json = &reader->json;
    size_t n = 0;
    if (!json_open(json, '['))
        return TERN_OK;
    while (json_next(json, ']', &n)) {
        struct draft draft;
        if (!read_draft(json, &draft))
            return TERN_OK;
        if (reader->n == SYMBOL_MAX_NODES)
            return fail(TERN_LIMIT, "a symbol has at most %d nodes", SYMBOL_MAX_NODES);
        if (reader->n == reader->capacity) {
            const uint32_t capacity = reader->capacity ? 2 * reader->capacity : 64;
            struct node **nodes = realloc(reader->nodes, capacity * sizeof(struct node *));
            if (!nodes)
                return fail(TERN_NO_MEMORY, "there is no memory for a symbol of %u nodes",
                            capacity);
            reader->nodes = nodes;
            reader->capacity = capacity;
        }
        enum tern_status status = make_node(reader, &draft, &reader->nodes[reader->n]);
        if (status)
            return status;
        reader->n++;
    }
    return TERN_OK;
}

static enum tern_status read_all(struct reader *reader)
{
    struct json *json = &reader->json;
    char member[32], found[32] = "";
    size_t n = 0;
    enum tern_status status = TERN_OK;
    json_open(json, '{');
    while (!status && !json->wrong && json_next(json, '}', &n)) {
        if (!json_name(json, member, sizeof member))
            break;
        if (!strcmp(member, "format"))
            json_string(json, found, sizeof found);
        else if (!strcmp(member, "nodes") && !reader->n)
            status = read_nodes(reader);
        else
            json_skip(json);
    }
    if (!status && (json->wrong || !json_end(json)))
        status = fail(TERN_INVALID, "the text is no symbol: %s", json->wrong);
    if (!status && (strcmp(found, format) || !reader->n))
        status =
            fail(TERN_INVALID, "the text is no symbol: it has no format '%s' or no nodes", format);
    return status;
}

enum tern_status symbol_read(const char *text, size_t n, struct node **node)
{
    struct reader reader = {.json = {.at = text, .end = text + n}};
    enum tern_status status = read_all(&reader);
    if (!status)
        *node = node_keep(reader.nodes[reader.n - 1]);
    for (uint32_t i = 0; i < reader.n; i++)
        node_drop(reader.nodes[i]);
    free(reader.nodes);
    return status;
}
