/* repeats - see repeats.h. */
#include "store/repeats.h"

#include <string.h>

enum {
    TRIAL = 24, /* so many keys first; if hardly one of them comes twice, no more are looked at */
    FEW_HASHES = 256,   /* for so many keys at the most, */
    MANY_HASHES = 1024, /* and for more; powers of two */
};

/* Goes on from position `begin`, which is not 0, to `end`. `last` has where a key with a hash was seen last: a repeat
 * is overlooked if another key with the same hash came between, and its row is latched twice. */
static void note(struct repeats *repeats, uint16_t *last, size_t n_hashes, const uint64_t *keys,
                 size_t begin, size_t end)
{
    size_t n = repeats->n;
    for (size_t i = begin; i < end; i++) {
        uint16_t *seen = &last[keys[i] * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (n_hashes - 1)];
        size_t before = *seen;
        repeats->next[i] = 0;
        if (keys[before] == keys[i])
            repeats->next[before] = (uint16_t)i;
        else
            repeats->first[n++] = (uint16_t)i;
        *seen = (uint16_t)i;
    }
    repeats->n = n;
}

bool repeats_find(struct repeats *repeats, const uint64_t *keys, size_t n)
{
    if (n <= TRIAL || n > REPEATS_KEYS)
        return false;
    uint16_t last[MANY_HASHES]; /* the first key is where no other was seen */
    size_t n_hashes = n <= FEW_HASHES ? FEW_HASHES : MANY_HASHES;
    memset(last, 0, n_hashes * sizeof *last);
    repeats->n = 1;
    repeats->first[0] = 0;
    repeats->next[0] = 0;
    note(repeats, last, n_hashes, keys, 1, TRIAL);
    if (repeats->n + 1 >= TRIAL)
        return false;
    note(repeats, last, n_hashes, keys, TRIAL, n);
    return true;
}
