/*
 * batch - what one step learns from: some triples, and negatives, which are entities that stand in for wrong answers.
 *
 * Negatives are drawn uniformly from all entities. All triples of the batch share them, and so do both sides of a triple:
 * a negative replaces its object, and its subject. That makes the scores of a batch a product of two matrices.
 *
 * A batch lists each entity and relation it uses once, by key; triples and negatives refer to the lists. A source is one
 * worker's stream of batches: its own triples in a new random order in every epoch. The triples of a batch are known ahead
 * of its use; its negatives (negatives.h) arrive when it is used.
 */
#ifndef TASKS_KGE_BATCH_H
#define TASKS_KGE_BATCH_H

#include "common/rng.h"
#include "kge/graph.h"

/* Distinct keys and where each is found again. */
struct key_list {
    size_t n;
    uint64_t *keys;
};

struct batch {
    size_t n_triples;
    struct triple *triples; /* positions in the lists */
    size_t n_negatives;
    uint32_t *negatives; /* positions in `entities`; one may stand several times */
    struct key_list entities, relations;
    uint64_t order; /* of the negatives (negatives.h) */
};

/* Room for n_triples and n_negatives. */
bool batch_init(struct batch *batch, size_t n_triples, size_t n_negatives);
void batch_fini(struct batch *batch);

struct key_slot {
    uint64_t key;
    uint32_t stamp, position;
};

/* A hash table that is emptied by a new stamp. */
struct key_index {
    size_t n_slots; /* a power of two */
    struct key_slot *slots;
    uint32_t stamp;
};

struct source {
    struct triple *triples; /* the worker's own copy, in the order of this epoch */
    size_t n, next;
    const struct triple *first; /* the worker's part, in its first order */
    uint64_t seed, part, epoch; /* which epoch comes next, from 0 */
    struct key_index entity_index, relation_index;
};

/* The triples `part` of `n_parts`, in equal parts, which must stay; `epoch` epochs were done before. */
bool source_init(struct source *source, const struct triples *triples, size_t part, size_t n_parts,
                 size_t n_triples_per_batch, size_t n_negatives, uint64_t seed, int64_t epoch);
void source_fini(struct source *source);

/* From the next epoch on it has another part; epochs and their order go on. False after task_fail(). */
bool source_take(struct source *source, const struct triples *triples, size_t part, size_t n_parts);

/* The next batch, of at most n_triples and without negatives; an epoch ends with a batch that may be
 * smaller. */
void source_next(struct source *source, size_t n_triples, struct batch *batch);

/* Adds n negatives, by their keys, to a batch that has none. */
void source_add_negatives(struct source *source, const uint64_t *keys, size_t n,
                          struct batch *batch);

#endif
