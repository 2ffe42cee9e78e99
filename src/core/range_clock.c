/*
 * range_clock - see range_clock.h.
 *
 * A node's ranges are an array in the order of keys; each ends where the next begins, the last at
 * UINT64_MAX. A node of which nothing is known yet has no array: it is one range of time 0.
 *
 * Invariants
 *   1. The first range begins at 0, and begins ascend.
 *   2. Neighbours have different times.
 */
#include "core/range_clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MORE_PER_SET = 2 }; /* ranges: each end of what is set may cut one in two */

struct range {
    uint64_t begin;
    uint64_t time;
};

struct node_ranges {
    struct range *ranges; /* NULL: one of time 0 */
    size_t n, capacity;
};

struct range_clock {
    const struct view *view;
    struct node_ranges nodes[];
};

struct range_clock *range_clock_new(const struct view *view)
{
    struct range_clock *clock =
        calloc(1, sizeof *clock + view_capacity(view) * sizeof clock->nodes[0]);
    if (clock)
        clock->view = view;
    return clock;
}

void range_clock_free(struct range_clock *clock)
{
    for (uint32_t i = 0; clock && i < view_capacity(clock->view); i++)
        free(clock->nodes[i].ranges);
    free(clock);
}

size_t range_clock_count(const struct range_clock *clock, uint32_t node)
{
    return clock->nodes[node].ranges ? clock->nodes[node].n : 1;
}

static bool has_room(const struct range_clock *clock, uint32_t node, size_t n)
{
    return n <= (RANGE_CLOCK_MAX - range_clock_count(clock, node)) / MORE_PER_SET;
}

enum tern_status range_clock_reserve(struct range_clock *clock, uint32_t node, size_t n)
{
    struct node_ranges *of = &clock->nodes[node];
    size_t count = range_clock_count(clock, node);
    if (!has_room(clock, node, n))
        return fail(TERN_LIMIT,
                    "the ranges of tasks cut the keys into more than %d parts; use fewer different "
                    "ranges",
                    RANGE_CLOCK_MAX);
    size_t needed = count + MORE_PER_SET * n;
    if (needed <= of->capacity)
        return TERN_OK;
    size_t capacity = 2 * needed < RANGE_CLOCK_MAX ? 2 * needed : RANGE_CLOCK_MAX;
    struct range *ranges = realloc(of->ranges, capacity * sizeof *ranges);
    if (!ranges)
        return fail(TERN_NO_MEMORY, "no memory for the times of %zu ranges of keys", needed);
    if (!of->ranges) {
        ranges[0] = (struct range){0, 0};
        of->n = 1;
    }
    of->ranges = ranges;
    of->capacity = capacity;
    return TERN_OK;
}

/* Joins neighbours whose times differ by at most `most`. */
static void join_within(struct node_ranges *of, uint64_t most)
{
    size_t last = 0;
    for (size_t i = 1; i < of->n; i++) {
        of->ranges[++last] = of->ranges[i];
        /* What is joined has another time, and may go with the one before. */
        for (; last > 0; last--) {
            uint64_t a = of->ranges[last - 1].time, b = of->ranges[last].time;
            if ((a < b ? b - a : a - b) > most)
                break;
            of->ranges[last - 1].time = a < b ? a : b;
        }
    }
    of->n = last + 1;
}

void range_clock_join(struct range_clock *clock, uint32_t node, size_t n)
{
    struct node_ranges *of = &clock->nodes[node];
    if (has_room(clock, node, n))
        return;
    for (uint64_t most = 1; of->n > RANGE_CLOCK_MAX / 2; most *= 2)
        join_within(of, most);
}

/* The number of the range a key is in. */
static size_t find(const struct node_ranges *of, uint64_t key)
{
    size_t low = 0, high = of->n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (of->ranges[middle].begin <= key)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t end_of(const struct node_ranges *of, size_t i)
{
    return i + 1 < of->n ? of->ranges[i + 1].begin : UINT64_MAX;
}

/* Replaces ranges [first, last] by n others. */
static void replace(struct node_ranges *of, size_t first, size_t last, const struct range *others,
                    size_t n)
{
    size_t n_after = of->n - last - 1;
    memmove(of->ranges + first + n, of->ranges + last + 1, n_after * sizeof *others);
    memcpy(of->ranges + first, others, n * sizeof *others);
    of->n = first + n + n_after;
}

/*
 * What Algorithm 3 does range by range, at once: of the ranges that [begin, end) meets, the first keeps
 * what lies before `begin` and the last what lies after `end`; all between becomes one.
 */
void range_clock_set(struct range_clock *clock, uint32_t node, uint64_t begin, uint64_t end,
                     uint64_t time)
{
    struct node_ranges *of = &clock->nodes[node];
    size_t first = find(of, begin), last = find(of, end - 1);
    uint64_t rest_end = end_of(of, last), rest_time = of->ranges[last].time;
    struct range made[3];
    size_t n = 0;
    /* A range before that agrees, be it cut off or whole, takes in the new one. */
    if (of->ranges[first].begin == begin && first > 0 && of->ranges[first - 1].time == time)
        first--;
    if (of->ranges[first].begin < begin)
        made[n++] = of->ranges[first];
    if (n == 0 || made[0].time != time)
        made[n++] = (struct range){begin, time};
    if (end < rest_end && rest_time != time)
        made[n++] = (struct range){end, rest_time};
    else if (end == rest_end && last + 1 < of->n && of->ranges[last + 1].time == time)
        last++;
    replace(of, first, last, made, n);
}

uint64_t range_clock_least(const struct range_clock *clock, uint32_t node, uint64_t begin,
                           uint64_t end)
{
    const struct node_ranges *of = &clock->nodes[node];
    if (!of->ranges)
        return 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = find(of, begin); i < of->n && of->ranges[i].begin < end; i++)
        if (of->ranges[i].time < least)
            least = of->ranges[i].time;
    return least;
}

uint64_t range_clock_least_of_all(const struct range_clock *clock, uint64_t begin, uint64_t end)
{
    uint64_t least = UINT64_MAX;
    view_each (i, clock->view) {
        uint64_t time = range_clock_least(clock, i, begin, end);
        if (time < least)
            least = time;
    }
    return least;
}

bool range_clock_seen(const struct range_clock *clock, uint32_t node, uint64_t begin, uint64_t end,
                      uint64_t time)
{
    return range_clock_least(clock, node, begin, end) >= time;
}
