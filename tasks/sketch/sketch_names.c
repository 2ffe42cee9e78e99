/* sketch_names - see sketch_names.h. */
#include "sketch/sketch_names.h"

#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

enum { FEWEST_SLOTS = 1024 };

void sketch_names_fini(struct sketch_names *names)
{
    for (size_t i = 0; i < names->n_slots; i++)
        free(names->slots[i].text);
    free(names->slots);
    *names = (struct sketch_names){0};
}

/* The slot of a key, or the free one where it would be. At most half of the slots are taken. */
static struct sketch_name *slot_of(const struct sketch_names *names, uint64_t key)
{
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (names->n_slots - 1);
    while (names->slots[at].text && names->slots[at].key != key)
        at = (at + 1) & (names->n_slots - 1);
    return &names->slots[at];
}

const struct sketch_name *sketch_names_find(const struct sketch_names *names, uint64_t key)
{
    const struct sketch_name *slot = names->n_slots ? slot_of(names, key) : NULL;
    return slot && slot->text ? slot : NULL;
}

/* Moves all texts to so many slots. */
static bool resize(struct sketch_names *names, size_t n_slots)
{
    struct sketch_names larger = {.n = names->n, .n_slots = n_slots};
    larger.slots = calloc(n_slots, sizeof *larger.slots);
    if (!larger.slots)
        return task_fail_memory("names of keys");
    for (size_t i = 0; i < names->n_slots; i++)
        if (names->slots[i].text)
            *slot_of(&larger, names->slots[i].key) = names->slots[i];
    free(names->slots);
    *names = larger;
    return true;
}

bool sketch_names_add(struct sketch_names *names, uint64_t key, const char *text, size_t bytes)
{
    if (2 * names->n >= names->n_slots &&
        !resize(names, names->n_slots ? 2 * names->n_slots : FEWEST_SLOTS))
        return false;
    struct sketch_name *slot = slot_of(names, key);
    if (slot->text)
        return true;
    char *copy = malloc(bytes + 1);
    if (!copy)
        return task_fail_memory("names of keys");
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    *slot = (struct sketch_name){key, copy, bytes};
    names->n++;
    return true;
}

bool sketch_names_keep(struct sketch_names *names, const uint64_t *keys, size_t n)
{
    struct sketch_names kept = {.n_slots = names->n_slots};
    if (!names->n_slots)
        return true;
    kept.slots = calloc(kept.n_slots, sizeof *kept.slots);
    if (!kept.slots)
        return task_fail_memory("names of keys");
    for (size_t i = 0; i < n; i++) {
        struct sketch_name *old = slot_of(names, keys[i]), *slot = slot_of(&kept, keys[i]);
        if (!old->text || slot->text)
            continue;
        /* The slots of `names` stay taken, so that the others are found; their texts are freed below. */
        *slot = (struct sketch_name){keys[i], old->text, old->bytes};
        old->bytes = SIZE_MAX;
        kept.n++;
    }
    for (size_t i = 0; i < names->n_slots; i++)
        if (names->slots[i].bytes != SIZE_MAX)
            free(names->slots[i].text);
    free(names->slots);
    *names = kept;
    return true;
}
