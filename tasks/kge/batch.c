/* batch - what one step learns from. See batch.h. */
#include "kge/batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

/* ---- Batches --------------------------------------------------------------------------------- */

bool batch_init(struct batch *batch, size_t n_triples, size_t n_negatives)
{
    *batch = (struct batch){
        .triples = calloc(n_triples, sizeof *batch->triples),
        .negatives = calloc(n_negatives, sizeof *batch->negatives),
        .entities.keys = calloc(2 * n_triples + n_negatives, sizeof *batch->entities.keys),
        .relations.keys = calloc(n_triples, sizeof *batch->relations.keys),
    };
    if (batch->triples != NULL && batch->negatives != NULL && batch->entities.keys != NULL &&
        batch->relations.keys != NULL)
        return true;
    batch_fini(batch);
    return task_fail_memory("a batch");
}

void batch_fini(struct batch *batch)
{
    free(batch->triples);
    free(batch->negatives);
    free(batch->entities.keys);
    free(batch->relations.keys);
    *batch = (struct batch){0};
}

/* ---- Positions of keys ----------------------------------------------------------------------- */

static bool index_init(struct key_index *index, size_t n_keys)
{
    size_t n_slots = 16;
    while (n_slots < 2 * n_keys)
        n_slots *= 2;
    *index = (struct key_index){n_slots, calloc(n_slots, sizeof *index->slots), 0};
    return index->slots != NULL;
}

static void index_clear(struct key_index *index)
{
    if (++index->stamp == 0) {
        memset(index->slots, 0, index->n_slots * sizeof *index->slots);
        index->stamp = 1;
    }
}

/* The position of a key in the list, where it is put unless it is there. */
static uint32_t position_of(struct key_index *index, uint64_t key, struct key_list *list)
{
    size_t mask = index->n_slots - 1;
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
    struct key_slot *slot = &index->slots[at];
    for (; slot->stamp == index->stamp; slot = &index->slots[at = (at + 1) & mask])
        if (slot->key == key)
            return slot->position;
    *slot = (struct key_slot){key, index->stamp, (uint32_t)list->n};
    list->keys[list->n] = key;
    return (uint32_t)list->n++;
}

/* ---- The stream ------------------------------------------------------------------------------ */

bool source_take(struct source *source, const struct triples *triples, size_t part, size_t n_parts)
{
    const size_t begin = triples->n * part / n_parts, end = triples->n * (part + 1) / n_parts;
    struct triple *space = realloc(source->triples, (end - begin + 1) * sizeof *space);
    if (space == NULL)
        return task_fail_memory("the triples of a worker");
    source->triples = space;
    source->first = triples->at + begin;
    source->n = end - begin;
    source->part = part;
    source->next = source->n; /* so that the next batch begins an epoch */
    return true;
}

bool source_init(struct source *source, const struct triples *triples, size_t part, size_t n_parts,
                 size_t n_triples_per_batch, size_t n_negatives, uint64_t seed, int64_t epoch)
{
    *source = (struct source){.seed = seed, .epoch = (uint64_t)epoch};
    if (source_take(source, triples, part, n_parts) &&
        index_init(&source->entity_index, 2 * n_triples_per_batch + n_negatives) &&
        index_init(&source->relation_index, n_triples_per_batch))
        return true;
    source_fini(source);
    return task_fail_memory("the triples of a worker");
}

void source_fini(struct source *source)
{
    free(source->triples);
    free(source->entity_index.slots);
    free(source->relation_index.slots);
    *source = (struct source){0};
}

/* The order of an epoch depends on its number alone, so that a run can go on with any epoch. */
static void shuffle(struct source *source)
{
    struct rng rng = rng_seed(source->seed + source->epoch++, source->part);
    if (source->n > 0)
        memcpy(source->triples, source->first, source->n * sizeof *source->triples);
    for (size_t i = source->n; i > 1; i--) {
        size_t j = rng_below(&rng, i);
        struct triple other = source->triples[j];
        source->triples[j] = source->triples[i - 1];
        source->triples[i - 1] = other;
    }
}

static void begin_epoch_if_due(struct source *source)
{
    if (source->next < source->n)
        return;
    shuffle(source);
    source->next = 0;
}

void source_next(struct source *source, size_t n_triples, struct batch *batch)
{
    begin_epoch_if_due(source);
    index_clear(&source->entity_index);
    index_clear(&source->relation_index);
    batch->n_negatives = batch->entities.n = batch->relations.n = 0;
    batch->n_triples = source->n - source->next < n_triples ? source->n - source->next : n_triples;
    for (size_t i = 0; i < batch->n_triples; i++) {
        struct triple triple = source->triples[source->next++];
        batch->triples[i] = (struct triple){
            .subject = position_of(&source->entity_index, triple.subject, &batch->entities),
            .relation = position_of(&source->relation_index, triple.relation, &batch->relations),
            .object = position_of(&source->entity_index, triple.object, &batch->entities),
        };
    }
}

void source_add_negatives(struct source *source, const uint64_t *keys, size_t n,
                          struct batch *batch)
{
    /* Other batches have been prepared since, so the index is filled anew. */
    size_t n_known = batch->entities.n;
    index_clear(&source->entity_index);
    batch->entities.n = 0;
    for (size_t i = 0; i < n_known; i++)
        position_of(&source->entity_index, batch->entities.keys[i], &batch->entities);
    batch->n_negatives = n;
    for (size_t i = 0; i < n; i++)
        batch->negatives[i] = position_of(&source->entity_index, keys[i], &batch->entities);
}
