/*
 * range_clock - when each node last updated each key, kept by ranges of keys: the range vector clock of
 * Li's thesis (3.3.1, Algorithm 3).
 *
 * The clock says for every node i and key k a time vc_i(k), at first 0. Setting the time of a range cuts
 * the ranges that its two ends fall into, and joins adjacent ones that agree, so a node has as many ranges
 * as there are changes of time along its keys: one, if it always updates all of them. The ranges of a node
 * are its own, because nodes that update different ranges would cut each other's for nothing.
 *
 * Keys are 0 .. UINT64_MAX-1, as in tern_pull_range; a range is begin <= key < end, never empty.
 *
 * Memory is bounded: a node has at most RANGE_CLOCK_MAX ranges. Room is asked for before, where a refusal
 * can be reported (range_clock_reserve), so that setting never fails. A caller that can do with times that are too
 * early joins ranges to make room (range_clock_join).
 *
 * Pure; one owner at a time.
 */
#ifndef CORE_RANGE_CLOCK_H
#define CORE_RANGE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "core/view.h"

enum { RANGE_CLOCK_MAX = 4096 };

struct range_clock;

/* A clock for the nodes of a view, which must outlive it; NULL when memory runs out. */
struct range_clock *range_clock_new(const struct view *view);
void range_clock_free(struct range_clock *clock);

/* Makes sure that the times of n ranges of a node can be set. TERN_LIMIT if it might have too many
 * ranges then. What was made sure of before counts among the n. */
enum tern_status range_clock_reserve(struct range_clock *clock, uint32_t node, size_t n);

/* If the times of n more ranges of a node might not find room, joins neighbours at the earlier of their
 * times, the nearest first, until RANGE_CLOCK_MAX / 2 are left. */
void range_clock_join(struct range_clock *clock, uint32_t node, size_t n);

/* Sets the time of a node for a range; there must be room (range_clock_reserve). */
void range_clock_set(struct range_clock *clock, uint32_t node, uint64_t begin, uint64_t end,
                     uint64_t time);

/* The earliest time of a node in a range. */
uint64_t range_clock_least(const struct range_clock *clock, uint32_t node, uint64_t begin,
                           uint64_t end);

/* The earliest time of any node in a range. */
uint64_t range_clock_least_of_all(const struct range_clock *clock, uint64_t begin, uint64_t end);

/* Whether a message of this node, range and time was seen before, if every message that was seen has set
 * the clock and those of a node come in the order of their times. */
bool range_clock_seen(const struct range_clock *clock, uint32_t node, uint64_t begin, uint64_t end,
                      uint64_t time);

/* How many ranges a node has. */
size_t range_clock_count(const struct range_clock *clock, uint32_t node);

#endif
