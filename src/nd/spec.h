/*
 * spec - the type and the shape of a value, and the rules that combine them: numpy's promotion of types and numpy's
 * broadcasting of shapes.
 *
 * Every dimension of a known shape is at least 1, there are at most SPEC_DIMS of them, and the bytes of the value fit into
 * SPEC_MAX_BYTES: spec_check proves it once, and nothing behind it needs to think of overflow. Pure functions.
 */
#ifndef ND_SPEC_H
#define ND_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/nd.h"

enum { SPEC_DIMS = TERN_ND_MAX_DIMS, SPEC_TEXT = 96 };
#define SPEC_MAX_BYTES (UINT64_C(1) << 40)

struct spec {
    enum tern_nd_type type;
    int32_t n_dims; /* -1: not known yet */
    int64_t dims[SPEC_DIMS];
};

static inline bool spec_is_known(const struct spec *spec)
{
    return spec->n_dims >= 0;
}

static inline bool spec_is_real(enum tern_nd_type type)
{
    return type == TERN_ND_F32 || type == TERN_ND_F64;
}

static inline size_t spec_type_bytes(enum tern_nd_type type)
{
    static const uint8_t bytes[] = {4, 8, 4, 8, 1};
    return bytes[type];
}

/* The number of elements of a known shape. */
static inline size_t spec_count(const struct spec *spec)
{
    size_t count = 1;
    for (int i = 0; i < spec->n_dims; i++)
        count *= (size_t)spec->dims[i];
    return count;
}

static inline size_t spec_bytes(const struct spec *spec)
{
    return spec_count(spec) * spec_type_bytes(spec->type);
}

static inline bool spec_same_shape(const struct spec *a, const struct spec *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* Refuses unknown types, too many dimensions, dimensions below 1 and values that are too large. */
enum tern_status spec_check(const struct spec *spec);

/* The type that holds the values of both, as numpy chooses it. */
enum tern_nd_type spec_promote(enum tern_nd_type a, enum tern_nd_type b);

/* Makes the shape of `into` the one to which it and `other` broadcast. TERN_MISMATCH if there is none. */
enum tern_status spec_broadcast(struct spec *into, const struct spec *other);

/* The strides, in elements, of an array without gaps. */
void spec_strides(const struct spec *spec, int64_t *strides);

/* "(2, 3)"; `text` has SPEC_TEXT bytes. */
const char *spec_print(const struct spec *spec, char *text);

/* "f32" and its like, and back; false if there is no such type. */
const char *spec_type_name(enum tern_nd_type type);
bool spec_type_find(const char *name, enum tern_nd_type *type);

#endif
