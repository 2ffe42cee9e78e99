/* lists - see lists.h. */
#include "wire/lists.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/rand.h"
#include "wire/bytes.h"
#include "wire/number.h"

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

/* ---- Parts ------------------------------------------------------------------------------------ */

void list_base_set(struct list_base *base, struct list_digest digest, const uint64_t *keys,
                   size_t n)
{
    base->n = 0;
    if (n > base->capacity) {
        uint64_t *more = realloc(base->keys, n * sizeof *keys);
        if (!more)
            return;
        base->keys = more;
        base->capacity = n;
    }
    memcpy(base->keys, keys, n * sizeof *keys);
    base->n = n;
    base->digest = digest;
}

void list_base_free(struct list_base *base)
{
    free(base->keys);
    *base = (struct list_base){.n = 0};
}

/* The position in the base of the first key that is at least `key`, from `at` on. */
static size_t seek(const struct list_base *base, size_t at, uint64_t key)
{
    while (at < base->n && base->keys[at] < key)
        at++;
    return at;
}

/* The positions in the base of the first and the last of n keys; false if they are no part. */
static bool find_part(const struct list_base *base, const uint64_t *keys, size_t n, size_t *first,
                      size_t *last)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        at = seek(base, at, keys[i]);
        if (at == base->n || base->keys[at] != keys[i])
            return false;
        if (i == 0)
            *first = at;
        *last = at++;
    }
    return n > 0;
}

bool list_is_part(const struct list_base *base, const uint64_t *keys, size_t n)
{
    size_t first, last;
    return find_part(base, keys, n, &first, &last);
}

size_t list_part_encode(const struct list_base *base, const uint64_t *keys, size_t n, size_t most,
                        uint8_t *out)
{
    size_t first, last;
    if (n >= base->n || !find_part(base, keys, n, &first, &last))
        return 0;
    uint8_t number[NUMBER_MAX_BYTES];
    const size_t number_bytes = (size_t)(number_put_slowly(first, number) - number);
    const size_t bits_bytes = frame_bits_bytes(last - first + 1);
    const size_t bytes = FRAME_DIGEST_BYTES + number_bytes + bits_bytes;
    if (bytes >= most)
        return 0;
    list_digest_put(base->digest, out);
    memcpy(out + FRAME_DIGEST_BYTES, number, number_bytes);
    uint8_t *bits = out + FRAME_DIGEST_BYTES + number_bytes;
    memset(bits, 0, bits_bytes);
    for (size_t i = 0, at = first; i < n; i++) {
        at = seek(base, at, keys[i]);
        bits[(at - first) / 8] |= (uint8_t)(1 << (at - first) % 8);
        at++;
    }
    return bytes;
}

bool list_part_decode(const uint8_t *in, size_t bytes, size_t n, size_t n_base, uint64_t *keys)
{
    const uint8_t *const end = in + bytes;
    uint64_t first;
    size_t n_chosen = 0;
    in = number_get_slowly(in, end, &first);
    if (!in || in == end || !(*in & 1) || !end[-1] || first >= n_base || n >= n_base)
        return false; /* or not in the shortest form */
    for (; in < end; in++, first += 8)
        for (unsigned bits = *in; bits; bits &= bits - 1) {
            const uint64_t at = first + (unsigned)__builtin_ctz(bits);
            if (at >= n_base || n_chosen == n)
                return false;
            keys[n_chosen++] = keys[at];
        }
    return n_chosen == n;
}
