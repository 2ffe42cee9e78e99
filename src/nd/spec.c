/* spec - see spec.h. */
#include "nd/spec.h"

#include <string.h>

#include "base/status.h"
#include "base/text.h"

static const char *const type_names[] = {"f32", "f64", "i32", "i64", "u8"};

const char *spec_type_name(enum tern_nd_type type)
{
    return type_names[type];
}

bool spec_type_find(const char *name, enum tern_nd_type *type)
{
    for (unsigned i = 0; i < TERN_ND_TYPES; i++) {
        if (!strcmp(name, type_names[i])) {
            *type = (enum tern_nd_type)i;
            return true;
        }
    }
    return false;
}

const char *spec_print(const struct spec *spec, char *text)
{
    struct text line = {text, SPEC_TEXT, 0};
    if (!spec_is_known(spec)) {
        text_add(&line, "(unknown)");
        return text;
    }
    text_add(&line, "(");
    for (int i = 0; i < spec->n_dims; i++)
        text_add(&line, i ? ", %lld" : "%lld", (long long)spec->dims[i]);
    text_add(&line, spec->n_dims == 1 ? ",)" : ")");
    return text;
}

enum tern_status spec_check(const struct spec *spec)
{
    if ((unsigned)spec->type >= TERN_ND_TYPES)
        return fail(TERN_INVALID, "%d is not a type of arrays", (int)spec->type);
    if (spec->n_dims < 0 || spec->n_dims > SPEC_DIMS)
        return fail(TERN_INVALID, "an array has 0 to %d dimensions, not %d", SPEC_DIMS,
                    spec->n_dims);
    uint64_t bytes = spec_type_bytes(spec->type);
    for (int i = 0; i < spec->n_dims; i++) {
        if (spec->dims[i] < 1)
            return fail(TERN_INVALID, "dimension %d is %lld, and must be at least 1", i,
                        (long long)spec->dims[i]);
        if (__builtin_mul_overflow(bytes, (uint64_t)spec->dims[i], &bytes) ||
            bytes > SPEC_MAX_BYTES) {
            char text[SPEC_TEXT];
            return fail(TERN_LIMIT, "an array of shape %s has more than 2^40 bytes",
                        spec_print(spec, text));
        }
    }
    return TERN_OK;
}

enum tern_nd_type spec_promote(enum tern_nd_type a, enum tern_nd_type b)
{
    if (a == b)
        return a;
    if (a == TERN_ND_U8)
        return b;
    if (b == TERN_ND_U8)
        return a;
    /* i32 and i64 have numbers that f32 has not. */
    if (a == TERN_ND_F64 || b == TERN_ND_F64 || a == TERN_ND_F32 || b == TERN_ND_F32)
        return TERN_ND_F64;
    return TERN_ND_I64;
}

enum tern_status spec_broadcast(struct spec *into, const struct spec *other)
{
    struct spec result = *into;
    result.n_dims = into->n_dims > other->n_dims ? into->n_dims : other->n_dims;
    for (int i = 1; i <= result.n_dims; i++) {
        const int64_t a = i <= into->n_dims ? into->dims[into->n_dims - i] : 1;
        const int64_t b = i <= other->n_dims ? other->dims[other->n_dims - i] : 1;
        if (a != b && a != 1 && b != 1) {
            char left[SPEC_TEXT], right[SPEC_TEXT];
            return fail(TERN_MISMATCH, "shapes %s and %s do not broadcast", spec_print(into, left),
                        spec_print(other, right));
        }
        result.dims[result.n_dims - i] = a == 1 ? b : a;
    }
    enum tern_status status = spec_check(&result);
    if (!status)
        *into = result;
    return status;
}

void spec_strides(const struct spec *spec, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = spec->n_dims; i-- > 0;) {
        strides[i] = stride;
        stride *= spec->dims[i];
    }
}
