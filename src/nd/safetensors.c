/*
 * safetensors - see format.h: u64 length of the header, JSON, data. {"name": {"dtype": "F32", "shape": [2, 3],
 * "data_offsets": [0, 24]}, "__metadata__": {...}}
 */
#include <string.h>

#include "base/status.h"
#include "nd/format.h"
#include "wire/json.h"

static const char *const type_names[TERN_ND_TYPES] = {"F32", "F64", "I32", "I64", "U8"};

static bool read_type(struct json *json, struct safetensor *tensor)
{
    char name[16];
    if (!json_string(json, name, sizeof name))
        return false;
    for (unsigned i = 0; i < TERN_ND_TYPES; i++) {
        if (!strcmp(name, type_names[i])) {
            tensor->spec.type = (enum tern_nd_type)i;
            return true;
        }
    }
    return json_refuse(json, "a type other than F32, F64, I32, I64 and U8");
}

static bool read_shape(struct json *json, struct safetensor *tensor)
{
    size_t n = 0;
    uint64_t dim;
    tensor->spec.n_dims = 0;
    if (!json_open(json, '['))
        return false;
    while (json_next(json, ']', &n)) {
        if (!json_number(json, &dim))
            return false;
        if (tensor->spec.n_dims == SPEC_DIMS || dim > INT64_MAX)
            return json_refuse(json, "a shape has more than 8 dimensions or one that is too large");
        tensor->spec.dims[tensor->spec.n_dims++] = (int64_t)dim;
    }
    return !json->wrong;
}

static bool read_offsets(struct json *json, struct safetensor *tensor)
{
    size_t n = 0;
    uint64_t *const offsets[] = {&tensor->begin, &tensor->end};
    if (!json_open(json, '['))
        return false;
    while (json_next(json, ']', &n)) {
        if (n > 2)
            return json_refuse(json, "a tensor has more than two offsets");
        if (!json_number(json, offsets[n - 1]))
            return false;
    }
    return n == 2 || json_refuse(json, "a tensor needs two offsets");
}

static bool read_tensor(struct json *json, struct safetensor *tensor)
{
    char member[32];
    size_t n = 0;
    unsigned seen = 0;
    if (!json_open(json, '{'))
        return false;
    while (json_next(json, '}', &n)) {
        if (!json_name(json, member, sizeof member))
            return false;
        if (!strcmp(member, "dtype"))
            seen |= read_type(json, tensor) ? 1 : 0;
        else if (!strcmp(member, "shape"))
            seen |= read_shape(json, tensor) ? 2 : 0;
        else if (!strcmp(member, "data_offsets"))
            seen |= read_offsets(json, tensor) ? 4 : 0;
        else
            json_skip(json);
    }
    return !json->wrong &&
           (seen == 7 || json_refuse(json, "a tensor lacks dtype, shape or data_offsets"));
}

static enum tern_status check_tensor(const struct safetensor *tensor, uint64_t data_bytes)
{
    enum tern_status status = spec_check(&tensor->spec);
    if (!status && (tensor->begin > tensor->end || tensor->end > data_bytes ||
                    tensor->end - tensor->begin != spec_bytes(&tensor->spec)))
        status = fail(TERN_INVALID,
                      "the tensor '%s' does not lie in the data, or its shape needs other bytes",
                      tensor->name);
    return status;
}

enum tern_status format_safetensors(const char *text, size_t n, uint64_t data_bytes,
                                    struct safetensor *tensors, uint32_t *n_tensors)
{
    struct json json = {.at = text, .end = text + n};
    size_t count = 0;
    enum tern_status status = TERN_OK;
    *n_tensors = 0;
    json_open(&json, '{');
    while (!status && !json.wrong && json_next(&json, '}', &count)) {
        struct safetensor tensor = {0};
        if (!json_name(&json, tensor.name, sizeof tensor.name))
            break;
        if (!strcmp(tensor.name, "__metadata__")) {
            json_skip(&json);
            continue;
        }
        if (*n_tensors == SAFETENSORS_MAX)
            return fail(TERN_LIMIT, "a file has at most %d tensors", SAFETENSORS_MAX);
        if (!read_tensor(&json, &tensor))
            break;
        status = check_tensor(&tensor, data_bytes);
        tensors[(*n_tensors)++] = tensor;
    }
    if (!status && (json.wrong || !json_end(&json)))
        status = fail(TERN_INVALID, "the header of the safetensors file is wrong: %s", json.wrong);
    return status;
}

bool format_put_safetensors(const struct safetensor *tensors, uint32_t n, struct buffer *out)
{
    uint8_t length[8] = {0};
    bool ok = buffer_append(out, length, sizeof length) && json_put(out, "{");
    for (uint32_t i = 0; i < n && ok; i++) {
        const struct safetensor *tensor = &tensors[i];
        ok = json_put(out, i ? ", " : "") && json_put_string(out, tensor->name) &&
             json_put(out, ": {\"dtype\": \"%s\", \"shape\": [", type_names[tensor->spec.type]);
        for (int d = 0; d < tensor->spec.n_dims; d++)
            ok = ok && json_put(out, d ? ", %lld" : "%lld", (long long)tensor->spec.dims[d]);
        ok = ok && json_put(out, "], \"data_offsets\": [%llu, %llu]}",
                            (unsigned long long)tensor->begin, (unsigned long long)tensor->end);
    }
    ok = ok && json_put(out, "}");
    while (ok && buffer_size(out) % 8)
        ok = json_put(out, " ");
    for (unsigned i = 0; ok && i < 8; i++)
        buffer_head(out)[i] = (uint8_t)((buffer_size(out) - 8) >> 8 * i);
    return ok;
}
