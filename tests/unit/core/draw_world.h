/*
 * draw_world - a world around a sampler, where keys are as a test likes: for the tests of core/draw.h.
 */
#ifndef CORE_DRAW_WORLD_H
#define CORE_DRAW_WORLD_H

#include "core/draw.h" /* before cmocka, whose macro fail() would hide the function */

#include "support/check.h"

enum { N_KEYS = 5000, N_CLASSES = 20 };

struct world {
    /* Whether a key is here now. */
    bool (*is_here)(struct world *world, uint64_t key);
    uint64_t clock, now_ns;
    uint64_t n_asked, n_wanted, n_here;
    /* Keys that come when they are wanted. */
    uint64_t travel_ns, arrives_ns[N_KEYS], until[N_KEYS];
    /* What was handed out, by class, and how often. */
    uint64_t counts[N_CLASSES], n_handed_out;
};

static inline void world_here(void *context, const uint64_t *keys, size_t n, bool *here)
{
    struct world *world = context;
    assert_true(n <= DRAW_ASK);
    for (size_t i = 0; i < n; i++)
        here[i] = world->is_here(world, keys[i]);
    world->n_asked += n;
}

static inline void world_want(void *context, const uint64_t *keys, size_t n, uint64_t until)
{
    struct world *world = context;
    assert_true(until > world->clock);
    world->n_wanted += n;
    for (size_t i = 0; i < n && world->travel_ns; i++) {
        if (world->until[keys[i]] <= world->clock)
            world->arrives_ns[keys[i]] = world->now_ns + world->travel_ns;
        if (until > world->until[keys[i]])
            world->until[keys[i]] = until;
    }
}

static inline struct surroundings around(struct world *world)
{
    return (struct surroundings){.here = world_here,
                                 .want = world_want,
                                 .context = world,
                                 .clock = world->clock,
                                 .now_ns = world->now_ns};
}

static inline struct world *world_new(bool (*is_here)(struct world *world, uint64_t key))
{
    struct world *world = array_of(1, sizeof *world);
    world->is_here = is_here;
    world->now_ns = 1;
    return world;
}

static inline bool everything(struct world *world, uint64_t key)
{
    (void)world;
    (void)key;
    return true;
}

static inline bool nothing(struct world *world, uint64_t key)
{
    (void)world;
    (void)key;
    return false;
}

/* Six classes of twenty are never here. */
static inline bool not_six_classes(struct world *world, uint64_t key)
{
    (void)world;
    return key % N_CLASSES >= 6;
}

/* Changes with every question. */
static inline bool fickle(struct world *world, uint64_t key)
{
    return scattered(key + world->n_asked * N_KEYS) % 3 == 0;
}

/* Hides what has been handed out more often than it should have been, and shows the rest. */
static inline bool resentful(struct world *world, uint64_t key)
{
    return world->counts[key % N_CLASSES] * N_CLASSES >= world->n_handed_out;
}

/* Arrived, and still wanted. */
static inline bool arrived(struct world *world, uint64_t key)
{
    return world->clock < world->until[key] && world->arrives_ns[key] <= world->now_ns;
}

#endif
