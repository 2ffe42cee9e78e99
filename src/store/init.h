/*
 * init - the value a key has before anything was written to it: a function of (seed, key) alone.
 */
#ifndef STORE_INIT_H
#define STORE_INIT_H

#include "base/status.h"

static inline size_t type_bytes(enum tern_type type)
{
    return type == TERN_F64 || type == TERN_I64 ? 8 : 4;
}

/* Whether `init` makes sense for elements of `type`; `name` is the table's. */
enum tern_status init_check(const struct tern_init *init, enum tern_type type, const char *name);

/* Writes `length` elements of `type`: the initial value of `key`. */
void init_value(const struct tern_init *init, enum tern_type type, uint64_t key, size_t length,
                void *value);

#endif
