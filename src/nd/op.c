/* op - see op.h. The list of operators, and their attributes as text. */
#include "nd/op.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/op_list.h"

#define OPERATOR(name) extern const struct op op_##name;
OP_LIST(OPERATOR)
#undef OPERATOR

#define OPERATOR(name) &op_##name,
static const struct op *const operators[] = {OP_LIST(OPERATOR) NULL};
#undef OPERATOR

const struct op *const *op_list(void)
{
    return operators;
}

enum tern_status op_find(const char *name, const struct op **op)
{
    for (const struct op *const *each = operators; name && *each; each++) {
        if (!strcmp((*each)->name, name)) {
            *op = *each;
            return TERN_OK;
        }
    }
    return fail(TERN_INVALID, "there is no operator '%.60s'", name ? name : "(NULL)");
}

/* ---- Attributes ---------------------------------------------------------------------------------- */

unsigned op_slot(const struct op *op, unsigned k)
{
    unsigned slot = 0;
    const bool is_integer =
        op->attributes[k].kind == ATTRIBUTE_INTEGER || op->attributes[k].kind == ATTRIBUTE_TYPE;
    for (unsigned i = 0; i < k; i++) {
        const enum attribute_kind kind = op->attributes[i].kind;
        slot += is_integer ? kind == ATTRIBUTE_INTEGER || kind == ATTRIBUTE_TYPE
                           : kind == op->attributes[k].kind;
    }
    return slot;
}

void op_default_attributes(const struct op *op, struct attributes *attributes)
{
    memset(attributes, 0, sizeof *attributes);
    for (unsigned i = 0; i < 3; i++)
        attributes->lists[i].n = -1;
    for (unsigned k = 0; k < OP_MAX_ATTRIBUTES && op->attributes[k].name; k++) {
        const struct attribute *attribute = &op->attributes[k];
        if (attribute->kind == ATTRIBUTE_NUMBER)
            attributes->numbers[op_slot(op, k)] = attribute->usual;
        else if (attribute->kind != ATTRIBUTE_LIST)
            attributes->integers[op_slot(op, k)] = (int64_t)attribute->usual;
    }
}

static bool read_list(const char *text, struct list *list)
{
    list->n = 0;
    if (!strcmp(text, "()"))
        return true;
    for (;;) {
        char *end;
        errno = 0;
        const long long number = strtoll(text, &end, 10);
        if (end == text || errno || list->n == SPEC_DIMS)
            return false;
        list->at[list->n++] = number;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
}

static bool read_value(const struct op *op, unsigned k, const char *text,
                       struct attributes *attributes)
{
    const unsigned slot = op_slot(op, k);
    char *end = NULL;
    enum tern_nd_type type;
    errno = 0;
    switch (op->attributes[k].kind) {
    case ATTRIBUTE_LIST:
        return read_list(text, &attributes->lists[slot]);
    case ATTRIBUTE_INTEGER:
        attributes->integers[slot] = strtoll(text, &end, 10);
        return end != text && !*end && !errno;
    case ATTRIBUTE_NUMBER:
        attributes->numbers[slot] = strtod(text, &end);
        return end != text && !*end;
    case ATTRIBUTE_TYPE:
        if (!spec_type_find(text, &type))
            return false;
        attributes->integers[slot] = type;
        return true;
    case ATTRIBUTE_NONE:
        break;
    }
    return false;
}

/* Reads one word, "name=value"; `seen` gets the bit of the attribute. */
static enum tern_status read_word(const struct op *op, char *word, struct attributes *attributes,
                                  unsigned *seen)
{
    char *value = strchr(word, '=');
    if (!value)
        return fail(TERN_INVALID, "%s: '%.60s' is not of the form name=value", op->name, word);
    *value++ = 0;
    for (unsigned k = 0; k < OP_MAX_ATTRIBUTES && op->attributes[k].name; k++) {
        if (strcmp(op->attributes[k].name, word))
            continue;
        if (*seen & 1u << k)
            return fail(TERN_INVALID, "%s: the attribute '%s' is given twice", op->name, word);
        *seen |= 1u << k;
        if (!read_value(op, k, value, attributes))
            return fail(TERN_INVALID, "%s: '%.60s' is no value for the attribute '%s'", op->name,
                        value, word);
        return TERN_OK;
    }
    return fail(TERN_INVALID, "%s has no attribute '%.60s'", op->name, word);
}

enum tern_status op_read_attributes(const struct op *op, const char *text,
                                    struct attributes *attributes)
{
    op_default_attributes(op, attributes);
    unsigned seen = 0;
    while (text && *text) {
        char word[256];
        const size_t n = strcspn(text, " ");
        if (n >= sizeof word)
            return fail(TERN_INVALID, "%s: an attribute is longer than 255 characters", op->name);
        memcpy(word, text, n);
        word[n] = 0;
        text += n;
        text += strspn(text, " ");
        if (!n)
            continue;
        enum tern_status status = read_word(op, word, attributes, &seen);
        if (status)
            return status;
    }
    for (unsigned k = 0; k < OP_MAX_ATTRIBUTES && op->attributes[k].name; k++)
        if (op->attributes[k].required && !(seen & 1u << k))
            return fail(TERN_INVALID, "%s needs the attribute '%s'", op->name,
                        op->attributes[k].name);
    return TERN_OK;
}

void op_print_attributes(const struct op *op, const struct attributes *attributes, struct text *out)
{
    const char *gap = "";
    for (unsigned k = 0; k < OP_MAX_ATTRIBUTES && op->attributes[k].name; k++) {
        const struct attribute *attribute = &op->attributes[k];
        const unsigned slot = op_slot(op, k);
        const int64_t integer = slot < 4 ? attributes->integers[slot] : 0;
        if (attribute->kind == ATTRIBUTE_LIST) {
            const struct list *list = &attributes->lists[slot];
            if (list->n < 0)
                continue;
            text_add(out, "%s%s=%s", gap, attribute->name, list->n ? "" : "()");
            for (int i = 0; i < list->n; i++)
                text_add(out, i ? ",%lld" : "%lld", (long long)list->at[i]);
        } else if (attribute->kind == ATTRIBUTE_NUMBER) {
            text_add(out, "%s%s=%.17g", gap, attribute->name, attributes->numbers[slot]);
        } else if (attribute->kind == ATTRIBUTE_TYPE) {
            text_add(out, "%s%s=%s", gap, attribute->name,
                     spec_type_name((enum tern_nd_type)integer));
        } else {
            if (!attribute->required && integer == (int64_t)attribute->usual)
                continue;
            text_add(out, "%s%s=%lld", gap, attribute->name, (long long)integer);
        }
        gap = " ";
    }
}

/* ---- Types and shapes ---------------------------------------------------------------------------- */

void op_input_types(const struct op *op, const struct spec *in, unsigned n,
                    enum tern_nd_type *types)
{
    if (!n)
        return;
    enum tern_nd_type all = in[n > 1 && op->types == TYPES_WHERE ? 1 : 0].type;
    if (op->types == TYPES_SAME || op->types == TYPES_REAL || op->types == TYPES_WHERE)
        for (unsigned i = op->types == TYPES_WHERE; i < n; i++)
            all = spec_promote(all, in[i].type);
    const enum tern_nd_type real = spec_is_real(all) ? all : TERN_ND_F64;
    for (unsigned i = 0; i < n; i++) {
        switch (op->types) {
        case TYPES_ANY:
            types[i] = in[i].type;
            break;
        case TYPES_SAME:
            types[i] = all;
            break;
        case TYPES_REAL:
            types[i] = real;
            break;
        case TYPES_WHERE:
            types[i] = i ? all : TERN_ND_U8;
            break;
        case TYPES_INDEX:
            types[i] = i == 1 ? TERN_ND_I64 : in[0].type;
            break;
        case TYPES_LABEL:
            types[i] = i == 1 ? TERN_ND_I64 : real;
            break;
        case TYPES_I64:
            types[i] = TERN_ND_I64;
            break;
        case TYPES_LOOKUP:
            types[i] = !i ? TERN_ND_I64 : spec_is_real(in[i].type) ? in[i].type : TERN_ND_F32;
            break;
        }
    }
}

enum tern_status op_infer(const struct op *op, const struct attributes *attributes, struct spec *in,
                          unsigned n, struct spec *out)
{
    enum tern_status status = TERN_OK;
    for (unsigned i = 0; i < n && !op->completes && !status; i++)
        if (!spec_is_known(&in[i]))
            status = fail(TERN_INVALID, "the shape of input %u is not known", i);
    if (!status)
        status = op->infer(attributes, in, n, out);
    if (!status)
        status = spec_check(out);
    if (status) {
        char sentence[STATUS_SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence, "%s", tern_error());
        return fail(status, "%s: %.400s", op->name, sentence);
    }
    return TERN_OK;
}

enum tern_status op_axis(int64_t axis, int n_dims, int64_t *result)
{
    if (axis < -n_dims || axis >= n_dims)
        return fail(TERN_INVALID, "axis %lld is not one of %d dimensions", (long long)axis, n_dims);
    *result = axis < 0 ? axis + n_dims : axis;
    return TERN_OK;
}
