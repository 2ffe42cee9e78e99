/* lists - see lists.h. */
#include "wire/lists.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/rand.h"
#include "wire/bytes.h"

struct list_digest list_digest(const uint8_t *coded, size_t bytes, uint32_t count, uint8_t flags,
                               uint64_t seed)
{
    const XXH128_hash_t hash =
        XXH3_128bits_withSeed(coded, bytes, rand_at(seed, (uint64_t)count << 8 | flags));
    return (struct list_digest){hash.low64, hash.high64};
}

void list_digest_put(struct list_digest digest, uint8_t out[FRAME_DIGEST_BYTES])
{
    put_u64(out, digest.low);
    put_u64(out + 8, digest.high);
}

struct list_digest list_digest_get(const uint8_t in[FRAME_DIGEST_BYTES])
{
    return (struct list_digest){get_u64(in), get_u64(in + 8)};
}

const struct key_list *lists_find(const struct key_lists *lists, struct list_digest digest)
{
    const uint32_t slot = keymap_get(&lists->slots, digest.low);
    const struct key_list *list = slot ? &lists->ring[slot - 1] : NULL;
    return list && list->digest.high == digest.high ? list : NULL;
}

static void drop_oldest(struct key_lists *lists)
{
    struct key_list *oldest = &lists->ring[lists->first];
    keymap_set(&lists->slots, oldest->digest.low, 0);
    lists->bytes -= oldest->bytes;
    free(oldest->coded);
    oldest->coded = NULL;
    lists->first = (lists->first + 1) % LISTS_MOST;
    lists->n--;
}

bool lists_add(struct key_lists *lists, const struct key_list *list)
{
    const uint32_t most = lists->most ? lists->most : LISTS_MOST;
    /* Two lists with the same half of a digest never meet; if they did, only one of them would be known. */
    if (keymap_get(&lists->slots, list->digest.low) || list->bytes > LISTS_BYTES)
        return false;
    if (!lists->ring)
        lists->ring = calloc(LISTS_MOST, sizeof *lists->ring);
    uint8_t *coded = list->coded ? malloc(list->bytes) : NULL;
    if (!lists->ring || (list->coded && !coded) || !keymap_reserve(&lists->slots, 1)) {
        free(coded);
        return false;
    }
    while (lists->n && (lists->n >= most || lists->bytes + list->bytes > LISTS_BYTES))
        drop_oldest(lists);
    if (coded)
        memcpy(coded, list->coded, list->bytes);
    const uint32_t at = (lists->first + lists->n) % LISTS_MOST;
    lists->ring[at] = *list;
    lists->ring[at].coded = coded;
    lists->bytes += list->bytes;
    lists->n++;
    keymap_set(&lists->slots, list->digest.low, 1 + at);
    return true;
}

void lists_clear(struct key_lists *lists)
{
    while (lists->n)
        drop_oldest(lists);
    free(lists->ring);
    keymap_free(&lists->slots);
    *lists = (struct key_lists){.most = lists->most};
}
