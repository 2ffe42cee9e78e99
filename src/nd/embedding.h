/*
 * embedding - rows of a Tern table as inputs of a module, for the other files of nd/.
 *
 * A module that is bound with a table for the weights of an `embedding` node does not have these weights. The node becomes a
 * lookup: a value that an operation of the engine pulls before each forward, and whose gradient another one pushes at the
 * update. Ids that occur several times in a batch are pulled once, and their gradients are summed and pushed once.
 *
 * All operations of one table write its variable, so that one thread at a time uses its worker. The gradients of a lookup
 * are pushed before its next pull, because that writes what the push reads.
 */
#ifndef ND_EMBEDDING_H
#define ND_EMBEDDING_H

#include "nd/array.h"
#include "nd/engine.h"
#include "nd/storage.h"

struct tern_embedding {
    struct handle handle;
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    struct variable variable;
    uint32_t length;
    uint64_t n_rows;       /* 0: any id */
    atomic_uint n_modules; /* that use it */
    uint64_t
        n_steps; /* steps of training whose pull was submitted: the worker's clock, when it has run */
    bool owns_node;
};

/* The room for the ids of one batch: unique ones, where each is among them, and their rows. */
struct lookup {
    struct tern_embedding *embedding;
    const int64_t *ids;
    size_t n, n_unique;
    float *out, *gradient; /* n rows each */
    double scale;
    bool is_step; /* the pull begins a step of training */
    uint64_t *keys;
    uint32_t *place; /* of each id, in `keys` */
    uint32_t *slots; /* of a hash table of n_slots, a power of 2: places + 1 */
    size_t n_slots;
    float *rows;
    struct operation pull, push;
    struct link pull_links[3], push_links[3];
    atomic_uint left;
};

/* Makes room for n ids whose values and gradients are in these storages; `gradient` may be NULL. */
enum tern_status lookup_init(struct lookup *lookup, struct tern_embedding *embedding,
                             const char *name, struct storage *ids, size_t n, struct storage *out,
                             struct storage *gradient);

/* Waits for its operations. */
void lookup_fini(struct lookup *lookup);

/* Submits a pull; if it begins a step of training, the worker's clock advances. */
void lookup_pull(struct lookup *lookup, bool is_step);

/* Submits the push of scale * gradient. */
void lookup_push(struct lookup *lookup, double scale);

/* This process will pull these ids in the next step of training but `ahead`. */
enum tern_status embedding_intend(struct tern_embedding *embedding, const int64_t *ids, size_t n,
                                  uint64_t ahead);

#define EMBEDDING_CHECK(embedding)                                       \
    do {                                                                 \
        const struct handle *given = (const struct handle *)(embedding); \
        if (!handle_is(given, HANDLE_EMBEDDING))                         \
            return handle_refuse(given, HANDLE_EMBEDDING);               \
    } while (0)

#endif
