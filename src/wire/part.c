/* part - see part.h. */
#include "wire/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/bytes.h"
#include "wire/json.h"

static const struct {
    const char *name;
    unsigned bytes;
} types[] = {
    [PART_F32] = {"F32", 4}, [PART_F64] = {"F64", 8}, [PART_I32] = {"I32", 4},
    [PART_I64] = {"I64", 8}, [PART_U64] = {"U64", 8}, [PART_U8] = {"U8", 1},
};

enum { N_TYPES = sizeof types / sizeof *types, TYPE_NAME_BYTES = 8 };

const char *part_type_name(enum part_type type)
{
    return types[type].name;
}

bool part_type_find(const char *name, enum part_type *type)
{
    for (unsigned i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].name, name)) {
            *type = (enum part_type)i;
            return true;
        }
    return false;
}

enum part_type part_type_of(enum tern_type type)
{
    return type == TERN_F32   ? PART_F32
           : type == TERN_F64 ? PART_F64
           : type == TERN_I32 ? PART_I32
                              : PART_I64;
}

uint64_t part_add(struct part *part, const char *name, enum part_type type, uint64_t n_rows,
                  uint64_t n_columns)
{
    struct part_tensor *made = &part->tensors[part->n];
    *made = (struct part_tensor){.type = type,
                                 .n_rows = n_rows,
                                 .n_columns = n_columns,
                                 .begin = part_data_bytes(part),
                                 .bytes = n_rows * (n_columns ? n_columns : 1) * types[type].bytes};
    snprintf(made->name, sizeof made->name, "%s", name);
    part->n++;
    return made->begin;
}

uint64_t part_data_bytes(const struct part *part)
{
    const struct part_tensor *last = part->n ? &part->tensors[part->n - 1] : NULL;
    return last ? last->begin + last->bytes : 0;
}

const struct part_tensor *part_find(const struct part *part, const char *name)
{
    for (size_t i = 0; i < part->n; i++)
        if (!strcmp(part->tensors[i].name, name))
            return &part->tensors[i];
    return NULL;
}

/* ---- Writing ------------------------------------------------------------------------------------ */

static bool put_tensor(struct buffer *out, const struct part_tensor *tensor)
{
    bool ok = json_put_string(out, tensor->name) &&
              json_put(out, ":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, types[tensor->type].name,
                       tensor->n_rows);
    if (tensor->n_columns)
        ok = ok && json_put(out, ",%" PRIu64, tensor->n_columns);
    return ok && json_put(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", tensor->begin,
                          tensor->begin + tensor->bytes);
}

bool part_encode(const struct part *part, struct buffer *out)
{
    static const uint8_t room[8];
    const size_t first = buffer_size(out);
    bool ok = buffer_append(out, room, sizeof room) &&
              json_put(out, "{\"__metadata__\":{\"format\":\"tern checkpoint 1\"}");
    for (size_t i = 0; ok && i < part->n; i++)
        ok = buffer_append(out, ",", 1) && put_tensor(out, &part->tensors[i]);
    ok = ok && buffer_append(out, "}", 1);
    while (ok && (buffer_size(out) - first) % 8)
        ok = buffer_append(out, " ", 1);
    if (ok)
        put_u64(buffer_head(out) + first, buffer_size(out) - first - sizeof room);
    return ok;
}

/* ---- Reading ------------------------------------------------------------------------------------ */

static bool take_shape(struct json *json, struct part_tensor *tensor)
{
    size_t n = 0;
    if (!json_open(json, '['))
        return false;
    while (json_next(json, ']', &n)) {
        uint64_t *dimension = n == 1 ? &tensor->n_rows : &tensor->n_columns;
        if (n > 2)
            return json_refuse(json, "a tensor has more than two dimensions");
        if (!json_number(json, dimension))
            return false;
        if (n == 2 && !*dimension)
            return json_refuse(json, "a tensor has rows of no elements");
    }
    return !json->wrong && (n > 0 || json_refuse(json, "a tensor has no dimension"));
}

static bool take_offsets(struct json *json, struct part_tensor *tensor)
{
    uint64_t offsets[2];
    size_t n = 0;
    if (!json_open(json, '['))
        return false;
    while (json_next(json, ']', &n))
        if (n > 2 || !json_number(json, &offsets[n - 1]))
            return json_refuse(json, "data_offsets are not two numbers");
    if (json->wrong || n != 2 || offsets[0] > offsets[1])
        return json_refuse(json, "data_offsets are not two ascending numbers");
    tensor->begin = offsets[0];
    tensor->bytes = offsets[1] - offsets[0];
    return true;
}

static bool take_type(struct json *json, enum part_type *type)
{
    char name[TYPE_NAME_BYTES];
    return json_string(json, name, sizeof name) &&
           (part_type_find(name, type) || json_refuse(json, "a tensor has an unknown type"));
}

static bool take_tensor(struct json *json, struct part_tensor *tensor)
{
    enum { TYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = 7 };
    unsigned seen = 0;
    size_t n = 0;
    char name[16];
    if (!json_open(json, '{'))
        return false;
    while (json_next(json, '}', &n) && json_name(json, name, sizeof name)) {
        unsigned member = !strcmp(name, "dtype")          ? TYPE
                          : !strcmp(name, "shape")        ? SHAPE
                          : !strcmp(name, "data_offsets") ? OFFSETS
                                                          : 0;
        if (!member || (seen & member))
            return json_refuse(json, "a tensor has an unknown member, or one twice");
        seen |= member;
        if (!(member == TYPE    ? take_type(json, &tensor->type)
              : member == SHAPE ? take_shape(json, tensor)
                                : take_offsets(json, tensor)))
            return false;
    }
    return !json->wrong &&
           (seen == ALL || json_refuse(json, "a tensor lacks its type, shape or place"));
}

/* Whether a tensor's size follows from its shape. */
static bool has_size(const struct part_tensor *tensor)
{
    uint64_t bytes;
    return !__builtin_mul_overflow(tensor->n_rows, tensor->n_columns ? tensor->n_columns : 1,
                                   &bytes) &&
           !__builtin_mul_overflow(bytes, (uint64_t)types[tensor->type].bytes, &bytes) &&
           bytes == tensor->bytes;
}

const char *part_decode(const char *text, size_t n, uint64_t data_bytes, struct part *part)
{
    struct json json = {.at = text, .end = text + n};
    struct part_tensor made;
    size_t n_members = 0;
    uint64_t end = 0;
    part->n = 0;
    json_open(&json, '{');
    while (json_next(&json, '}', &n_members)) {
        made = (struct part_tensor){0};
        if (!json_name(&json, made.name, sizeof made.name))
            break;
        if (!strcmp(made.name, "__metadata__")) {
            json_skip(&json);
            continue;
        }
        if (!take_tensor(&json, &made))
            break;
        if (part->n == TERN_MAX_NOTES)
            return "there are too many tensors";
        if (part_find(part, made.name))
            return "two tensors have the same name";
        if (!has_size(&made))
            return "the size of a tensor is not that of its shape";
        if (made.begin != end || made.bytes > data_bytes - end)
            return "tensors overlap, leave a gap or reach beyond the end of the file";
        end += made.bytes;
        part->tensors[part->n++] = made;
    }
    if (json_end(&json) && end != data_bytes)
        return "there are bytes behind the last tensor";
    return json.wrong;
}
