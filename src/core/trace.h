/*
 * trace - what happens to the keys of a managed table at one node: a ring of the last events, which is
 * always kept, and a recording of everything that happens to chosen keys, while there is one.
 *
 *  1. An event is 24 bytes that are copied; nothing is allocated for the ring after trace_init, and for
 *     the recording only when it grows.
 *  2. Time comes from outside, as a function that is asked once per message, not per event: what a
 *     message does happens at one time. Without one, time stands still.
 *  3. A recording belongs to whoever made it. A trace that ends while one is attached hands it back by
 *     its `release`.
 *  4. A recording that cannot grow counts what it loses; nobody waits or fails for its sake.
 *
 * Pure. Used by one thread at a time: the caller locks.
 */
#ifndef CORE_TRACE_H
#define CORE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/keymap.h"

enum trace_kind {
    TRACE_MAIN_CAME = 0, /* the main copy came here from `node` */
    TRACE_MAIN_LEFT,     /* it left for `node` */
    TRACE_REPLICA_MADE,  /* a replica was made here; `node` is the owner */
    TRACE_REPLICA_ENDED, /* it ended here */
    TRACE_OTHER_WANTS,   /* the main copy is here, and `node` began to want the key beside others */
    TRACE_OTHER_LEAVES,  /* `node` does not want it any more */
    TRACE_INTENT_BEGAN,  /* this node began to want the key: its first active intent */
    TRACE_INTENT_ENDED,  /* this node's last active intent for it is over */
};

struct trace_event {
    uint64_t time_ns, key;
    uint32_t node; /* the other one, where the kind names one */
    uint32_t kind; /* enum trace_kind */
};

/* Some events in the order of time. */
struct trace_events {
    struct trace_event *events;
    size_t n, max;
};

/* Everything that happens to chosen keys. */
struct recording {
    uint64_t filter[64]; /* a bit for each chosen key, by which most others are told apart */
    struct keymap keys;  /* the chosen ones: 1 each */
    struct trace_events events;
    uint64_t n_lost; /* for want of memory */
    void (*release)(struct recording *recording);
};

enum { TRACE_RING = 4096 }; /* events; a power of two */

struct trace {
    uint64_t (*clock)(void); /* the present time; NULL: there is none */
    uint64_t now_ns;
    struct trace_event *ring;
    uint64_t n;                  /* events so far; the last TRACE_RING of them are in the ring */
    struct recording *recording; /* NULL: none */
};

/* False when memory runs out. */
bool trace_init(struct trace *trace);
void trace_fini(struct trace *trace);

/* A message begins to be handled: this is the time of what it does. */
static inline void trace_tick(struct trace *trace)
{
    if (trace->clock)
        trace->now_ns = trace->clock();
}

/* The bit of a key in the filter. One multiplication, since this is asked of every event. */
static inline uint64_t recording_bit(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15) >> 52;
}

static inline bool recording_may_have(const struct recording *recording, uint64_t key)
{
    uint64_t bit = recording_bit(key);
    return recording->filter[bit / 64] >> bit % 64 & 1;
}

/* Adds an event to a recording, if its key is one of the chosen. */
void recording_add(struct recording *recording, const struct trace_event *event);

/* Notes what happens now to a key. */
static inline void trace_note(struct trace *trace, enum trace_kind kind, uint64_t key,
                              uint32_t node)
{
    struct trace_event *event = &trace->ring[trace->n++ % TRACE_RING];
    *event = (struct trace_event){trace->now_ns, key, node, kind};
    if (trace->recording && recording_may_have(trace->recording, key))
        recording_add(trace->recording, event);
}

/* Notes that this node begins or ceases to want a key. That is too frequent for the ring. */
static inline void trace_note_intent(struct trace *trace, enum trace_kind kind, uint64_t key)
{
    if (trace->recording && recording_may_have(trace->recording, key))
        recording_add(trace->recording, &(struct trace_event){trace->now_ns, key, 0, kind});
}

/* Copies the last events of a key, at most `most`, the newest first; returns how many. */
size_t trace_last(const struct trace *trace, uint64_t key, struct trace_event *events, size_t most);

/* Chooses the keys of a recording that is all zero; false when memory runs out. */
bool recording_init(struct recording *recording, const uint64_t *keys, size_t n);
void recording_fini(struct recording *recording);

/* Exchanges what was recorded for an empty list, so that it can be written at leisure. */
void recording_take(struct recording *recording, struct trace_events *events);

enum { TRACE_LINE = 96 }; /* bytes that hold any line */

/* Writes the line of an event at node `self`, if it has one: its time, the node, the key and the word.
 * Returns its length. */
size_t trace_line(const struct trace_event *event, uint32_t self, char line[TRACE_LINE]);

#endif
