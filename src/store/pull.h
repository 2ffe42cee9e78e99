/* pull - the choice of loops for reading rows. See pull.c. */
#ifndef STORE_PULL_H
#define STORE_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/tern.h"

struct store;

typedef size_t pull_function(const struct store *store, const uint64_t *keys, size_t n,
                             void *values, uint32_t *missed);

typedef bool pull_one_function(const struct store *store, uint64_t key, char *value);

struct pull_loops {
    pull_one_function *one; /* false if the key has no row */
    pull_function *many;
};

/* The loops for a store, whose other members are set. */
struct pull_loops pull_loops_for(const struct store *store);

/* Lets a store's loops notice that the index was rebuilt while they ran (sparse.h), and read again. */
void pull_guard(struct store *store);

#endif
