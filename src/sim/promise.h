/*
 * promise - what the reads of bounded tables must show, exactly as their policies promise it.
 *
 * By clocks (essp.txt, "SSP Bounded-Staleness"): a read of a worker at clock c, with bound s, shows every
 * update that any worker has made at a clock up to c - s - 1. So each update to a key is noted with the
 * clock of its worker.
 *
 * By value: when a worker begins an update, its earlier ones that some node does not show, where it can read
 * the key, add up to at most the bound, in each element. So all nodes are looked at.
 *
 * (That a worker sees its own updates, and nothing twice, is checked with all other tables: check.h.)
 */
#ifndef SIM_PROMISE_H
#define SIM_PROMISE_H

#include "sim/tables.h"

struct promise {
    struct noted {
        uint32_t element;
        uint64_t clock;
    } * all;
    size_t n, max;
};

/* One worker has added to an element of a key, at a clock. False when memory runs out. */
bool promise_note(struct promise *promise, uint32_t element, uint64_t clock);

/* Counts, by element, the updates that a read at `clock` must show. */
void promise_count(const struct promise *promise, const struct policy *policy, uint64_t clock,
                   uint32_t length, int64_t *counts);

/* What a node shows of a key to its workers, now; false if they would have to wait. */
bool promise_shown(const struct core_table *table, uint64_t key, int64_t *row);

#endif
