/*
 * intents - the keys that one worker has said it will use, from the call until the intent is over.
 *
 * The worker, or a loader thread on its behalf, appends, one at a time (node/intent.c); the rounds of its node
 * (manager.h) take over from there. They are the only other side, so they need no lock:
 *
 *  1. The worker writes an intent into the last chunk of its queue and publishes it by a release of
 *     the chunk's `used`; a chunk that is full is left by a release of its `next`.
 *  2. The rounds read up to `used`. An intent stays in its chunk until it has ended; a chunk is freed
 *     when it was left by both sides and all its intents have ended.
 *  3. Intents wait, ordered by start, until it is time to act (timing.h), and are then ordered by end.
 *     Other nodes hear only of the latter, so an intent costs 8 bytes a key while it waits.
 */
#ifndef CORE_INTENTS_H
#define CORE_INTENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/timing.h"

enum intent_kind {
    INTENT_NONE,    /* not acted on */
    INTENT_TIMED,   /* acted on when it is time */
    INTENT_AT_ONCE, /* acted on as soon as it is seen */
    INTENT_HERE,    /* tern_localize: the keys are wanted here once, at once */
};

struct intent {
    struct intent_chunk *chunk;
    uint64_t start, end;
    uint32_t n;
    uint16_t table;
    uint8_t kind;
    uint32_t generation; /* of the table: another one may get its number */
    uint64_t keys[];
};

/* Intents ordered by a clock, the smallest first. */
struct intent_heap {
    struct intent_place {
        uint64_t clock;
        struct intent *intent;
    } * places;
    size_t n, max;
};

struct intents {
    struct intents *next;   /* of the node's; a list */
    _Atomic uint64_t clock; /* the worker's; it alone writes */
    atomic_bool is_over;    /* the worker is closed: the rounds free this */
    _Atomic uint64_t until; /* the last round acted on what starts before: a later intent is late */
    struct intent_chunk *tail; /* the worker's end */
    struct intent_chunk *head; /* the rounds' end, and all below */
    size_t n_read;             /* bytes of the head */
    struct intent_heap waiting, active;
    struct timing timing;
    uint64_t last_start; /* of the intent that was signalled last, */
    uint64_t ahead_ns;   /* and how long the worker takes until then; UINT64_MAX: nothing waits */
};

/* NULL when memory runs out. */
struct intents *intents_new(void);
void intents_free(struct intents *intents);

/* The worker's side: appends an intent for n keys, which are copied. False when memory runs out. */
bool intents_add(struct intents *intents, enum intent_kind kind, uint16_t table,
                 uint32_t generation, const uint64_t *keys, size_t n, uint64_t start, uint64_t end);

/* Whether an intent that is added now should have been acted on in the last round. */
static inline bool intents_are_late(struct intents *intents, enum intent_kind kind, uint64_t start)
{
    return kind != INTENT_TIMED ||
           start < atomic_load_explicit(&intents->until, memory_order_relaxed);
}

/* Something that happens to an intent in a round. */
typedef void intents_visit(void *context, const struct intent *intent);

/* The rounds' side, once a round: calls `begin` for the intents it is time for, because the worker may reach them within
 * horizon_ns, then `end` for those that are over. Of an INTENT_HERE only `begin` is called. False when memory runs out: what could
 * not be noted is taken up in the next round. */
bool intents_round(struct intents *intents, uint64_t now_ns, uint64_t horizon_ns,
                   intents_visit *begin, intents_visit *end, void *context);

/* Whether there is anything that has not ended. */
bool intents_are_open(const struct intents *intents);

#endif
