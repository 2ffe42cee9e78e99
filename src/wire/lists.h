/*
 * lists - the lists of keys that were sent on a lane, so that one that is sent again is named by a digest of 16 bytes.
 *
 * The digest is 128 bits of XXH3 over the coded keys, their number and their form, seeded by the incarnation of the lane's
 * process: nobody who only chooses keys can make two lists alike. Both ends of a lane keep its lists by the same rule, the
 * receiver with their bytes: the newest LISTS_MOST, of at most LISTS_BYTES together. A list that is named and not known is
 * asked for (server.h), so the rule decides what is saved, never what is right.
 *
 * A list whose keys are all in another one that was sent before is a *part* of it: the digest of the other one, the position
 * of the first of its keys, and from there on a bit for each. A sender keeps the keys of one list of each lane for this, the
 * last one that was no part itself: that of a table with a row for each feature, for instance, when the next request asks
 * another table for those features that have embeddings.
 *
 * One thread at a time.
 */
#ifndef WIRE_LISTS_H
#define WIRE_LISTS_H

#include <stdbool.h>

#include "base/keymap.h"
#include "wire/frame.h"

enum {
    LISTS_MOST = 4096,
    LISTS_BYTES = 16 << 20,
    LISTS_SHORT = 32, /* coded keys of so many bytes are sent as they are */
};

struct list_digest {
    uint64_t low, high;
};

/* One list: `bytes` of coded keys. */
struct key_list {
    struct list_digest digest;
    uint8_t *coded; /* NULL at the sender */
    uint32_t bytes, count;
    uint8_t flags; /* FRAME_KEYS_DELTA or none */
};

struct key_lists {
    struct key_list *ring; /* the oldest is at `first`; NULL: there was none yet */
    uint32_t first, n;
    uint32_t most; /* that may be kept; 0: LISTS_MOST */
    size_t bytes;
    struct keymap slots; /* 1 + the place in the ring, by the low half of the digest */
};

/* The digest of a list; `seed` is the incarnation of the process that sends it. */
struct list_digest list_digest(const uint8_t *coded, size_t bytes, uint32_t count, uint8_t flags,
                               uint64_t seed);

void list_digest_put(struct list_digest digest, uint8_t out[FRAME_DIGEST_BYTES]);
struct list_digest list_digest_get(const uint8_t in[FRAME_DIGEST_BYTES]);

/* The list with a digest; NULL: it is not known. */
const struct key_list *lists_find(const struct key_lists *lists, struct list_digest digest);

/* Adds a list that is not known, and forgets the oldest if there is no room. The bytes of list->coded, unless it is NULL,
 * are copied. False when memory runs out: it is not known then. */
bool lists_add(struct key_lists *lists, const struct key_list *list);

/* Forgets all. */
void lists_clear(struct key_lists *lists);

/* The keys of a list that others may be parts of; the sender's. */
struct list_base {
    struct list_digest digest;
    uint64_t *keys;
    size_t n, capacity; /* n is 0: there is none */
};

/* Copies n keys. When memory runs out there is no base. */
void list_base_set(struct list_base *base, struct list_digest digest, const uint64_t *keys,
                   size_t n);
void list_base_free(struct list_base *base);

/* Whether each of n ascending keys is in the base, none of them twice. */
bool list_is_part(const struct list_base *base, const uint64_t *keys, size_t n);

/* Writes n ascending keys as a part of the base, and returns the bytes; 0, with nothing written, if they are no part or take
 * `most` bytes or more. */
size_t list_part_encode(const struct list_base *base, const uint64_t *keys, size_t n, size_t most,
                        uint8_t *out);

/* Chooses the n keys of a part, whose digest was read before: `in` is what follows it. They replace the first of the
 * n_base keys. False, with keys unspecified, if the bytes are not a part of n of n_base keys. */
bool list_part_decode(const uint8_t *in, size_t bytes, size_t n, size_t n_base, uint64_t *keys);

#endif
