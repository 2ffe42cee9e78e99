/* init - see init.h. */
#include "store/init.h"

#include <math.h>
#include <string.h>

#include "base/rand.h"

static bool is_float(enum tern_type type)
{
    return type == TERN_F32 || type == TERN_F64;
}

/* Whether x converts to an integer type with room for sums of two such numbers. */
static bool fits_integer(double x, enum tern_type type)
{
    double limit = type == TERN_I32 ? 0x1p30 : 0x1p62;
    return x >= -limit && x <= limit && x == floor(x);
}

enum tern_status init_check(const struct tern_init *init, enum tern_type type, const char *name)
{
    if ((unsigned)init->kind > TERN_INIT_FUNCTION)
        return fail(TERN_INVALID, "table '%s': init.kind %d is unknown", name, (int)init->kind);
    if (init->kind == TERN_INIT_FUNCTION)
        return init->function ? TERN_OK
                              : fail(TERN_INVALID, "table '%s': init.function is NULL", name);
    if (init->kind == TERN_INIT_ZERO)
        return TERN_OK;
    if (!isfinite(init->a) || !isfinite(init->b))
        return fail(TERN_INVALID, "table '%s': init.a and init.b must be finite, not %g and %g",
                    name, init->a, init->b);
    if (init->kind == TERN_INIT_NORMAL && (!is_float(type) || init->b < 0))
        return fail(
            TERN_INVALID,
            "table '%s': a normal initialiser needs a floating type and init.b >= 0, not %g", name,
            init->b);
    if (init->kind == TERN_INIT_UNIFORM && (!(init->a < init->b) || !isfinite(init->b - init->a)))
        return fail(
            TERN_INVALID,
            "table '%s': a uniform initialiser needs init.a < init.b, and a difference that is "
            "finite, not %g and %g",
            name, init->a, init->b);
    if (!is_float(type) && !(fits_integer(init->a, type) && fits_integer(init->b, type)))
        return fail(TERN_INVALID,
                    "table '%s': init.a = %g and init.b = %g must be integers of the table's type",
                    name, init->a, init->b);
    return TERN_OK;
}

static void store_number(enum tern_type type, void *value, size_t i, double x)
{
    switch (type) {
    case TERN_F32:
        ((float *)value)[i] = (float)x;
        break;
    case TERN_F64:
        ((double *)value)[i] = x;
        break;
    case TERN_I32:
        ((int32_t *)value)[i] = (int32_t)x;
        break;
    case TERN_I64:
        ((int64_t *)value)[i] = (int64_t)x;
        break;
    }
}

static void uniform(const struct tern_init *init, enum tern_type type, uint64_t stream,
                    size_t length, void *value)
{
    for (size_t i = 0; i < length; i++) {
        double x = init->a + (init->b - init->a) * rand_unit(rand_at(stream, i));
        /* Rounding must not reach the open end. */
        if (x >= init->b || (type == TERN_F32 && (float)x >= (float)init->b))
            x = init->a;
        store_number(type, value, i, is_float(type) ? x : floor(x));
    }
}

/* Box and Muller: two numbers from each pair of uniform ones. */
static void normal(const struct tern_init *init, enum tern_type type, uint64_t stream,
                   size_t length, void *value)
{
    for (size_t i = 0; i < length; i += 2) {
        double radius = sqrt(-2 * log(1 - rand_unit(rand_at(stream, i))));
        double angle = 6.283185307179586 * rand_unit(rand_at(stream, i + 1));
        store_number(type, value, i, init->a + init->b * radius * cos(angle));
        if (i + 1 < length)
            store_number(type, value, i + 1, init->a + init->b * radius * sin(angle));
    }
}

void init_value(const struct tern_init *init, enum tern_type type, uint64_t key, size_t length,
                void *value)
{
    uint64_t stream = hash_u64(hash_u64(init->seed) ^ hash_u64(key + 1));
    switch (init->kind) {
    case TERN_INIT_ZERO:
        memset(value, 0, length * type_bytes(type));
        break;
    case TERN_INIT_CONSTANT:
        for (size_t i = 0; i < length; i++)
            store_number(type, value, i, init->a);
        break;
    case TERN_INIT_UNIFORM:
        uniform(init, type, stream, length, value);
        break;
    case TERN_INIT_NORMAL:
        normal(init, type, stream, length, value);
        break;
    case TERN_INIT_FUNCTION:
        init->function(init->context, key, value, length);
        break;
    }
}
