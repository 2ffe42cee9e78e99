/*
 * integers - managers of a table of integers, whose sums must be exact: for the tests of core/manager.h.
 */
#ifndef CORE_INTEGERS_H
#define CORE_INTEGERS_H

#include "managers.h"

enum { N_KEYS = 30, LENGTH = 3, KEY = 2 /* at home at node 0 */ };

static inline struct managers integers(uint32_t n, const char *policy)
{
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, LENGTH);
    return managers_new(n, policy, &options);
}

/* Pushes to a row that is here. */
static inline void push(struct member *member, uint64_t key, int64_t x)
{
    const int64_t update[LENGTH] = {x, 10 * x, -x};
    assert_true(store_push_one(&member->store, key, update));
}

/* The sum of what was pushed to the row that is here. */
static inline int64_t value(const struct member *member, uint64_t key)
{
    int64_t values[LENGTH] = {0};
    assert_true(store_pull_one(&member->store, key, values));
    assert_true(values[1] == 10 * values[0] && values[2] == -values[0]);
    return values[0];
}

static inline void create(struct managers *all, uint64_t key, int64_t x)
{
    struct member *home =
        &all->members[core_home(&all->members[0].core, &all->members[0].store, key)];
    ok(store_create(&home->store, key));
    push(home, key, x);
}

static inline const struct manager_counts *counts_of(const struct managers *all, uint32_t node)
{
    return manager_counts(all->members[node].manager);
}

static inline uint32_t location_at(const struct managers *all, uint32_t node, uint64_t key)
{
    uint32_t location = UINT32_MAX;
    assert_true(store_location(&all->members[node].store, key, &location));
    return location;
}

/* Managers of a table in which node 0 owns KEY, with the value x. */
static inline struct managers one_key(uint32_t n, const char *policy, int64_t x)
{
    struct managers all = integers(n, policy);
    create(&all, KEY, x);
    return all;
}

/* The same, and node 1 has a replica of it, because both want it. */
static inline struct managers shared_by_two(uint32_t n, int64_t x)
{
    struct managers all = one_key(n, "adaptive", x);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    return all;
}

/* Nodes `first` and later want KEY, and each has its round before the next one wants it. */
static inline void want_in_turn(struct managers *all, uint32_t first)
{
    for (uint32_t i = first; i < all->n; i++) {
        want(&all->members[i], KEY);
        round_of(all, i);
    }
}

#endif
