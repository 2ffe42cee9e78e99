/* repeats - see repeats.h. */
#include "store/repeats.h"

enum {
    TRIAL = 24, /* so many keys first; if hardly one of them comes twice, no more are looked at */
    HASHES = 1024, /* a power of two */
};

/* Goes on from position `begin` to `end`. `last` has where a key with a hash was seen last: a repeat is overlooked if
 * another key with the same hash came between, and its row is latched twice. Without branches, since none could be
 * foretold. */
static void note(struct repeats *repeats, uint16_t *last, const uint64_t *keys, size_t begin,
                 size_t end)
{
    size_t n = repeats->n;
    for (size_t i = begin; i < end; i++) {
        uint16_t *seen = &last[keys[i] * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (HASHES - 1)];
        bool again = i > 0 && keys[*seen] == keys[i];
        repeats->next[again ? *seen : REPEATS_KEYS] = (uint16_t)i;
        repeats->next[i] = 0;
        repeats->first[n] = (uint16_t)i;
        n += !again;
        *seen = (uint16_t)i;
    }
    repeats->n = n;
}

bool repeats_find(struct repeats *repeats, const uint64_t *keys, size_t n)
{
    if (n <= TRIAL || n > REPEATS_KEYS)
        return false;
    uint16_t last[HASHES] = {0};
    repeats->n = 0;
    note(repeats, last, keys, 0, TRIAL);
    if (repeats->n + 1 >= TRIAL)
        return false;
    note(repeats, last, keys, TRIAL, n);
    return true;
}
