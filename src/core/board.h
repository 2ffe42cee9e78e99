/*
 * board - where processes that share a bounded table tell each other how far their workers are. It lies beside the table, in
 * the memory that they share, and is zeroed when it is made.
 *
 *  1. A process writes its own line only, one thread at a time; any thread of any process reads.
 *  2. A process that has still to open the table is at clock 0, as one that has not had a worker yet (worker_clocks.h), and
 *     one that has closed it rests.
 *  3. A line's clock is written after everything that its workers changed before, and so is read before it.
 *  4. A process writes its line before it looks at the others' lines. So of a worker that advances and one that returns
 *     from a rest at the same time, one sees the other: the second continues at a clock that the first has not passed, or
 *     the first waits for the second.
 *
 * Pure; whoever changes a line rings the bell.
 */
#ifndef CORE_BOARD_H
#define CORE_BOARD_H

#include "base/bell.h"
#include "core/view.h"
#include "core/worker_clocks.h"

struct board_line {
    _Alignas(64) _Atomic uint64_t clock;
    _Atomic uint64_t highest;
    _Atomic uint32_t slowest;
    _Atomic uint32_t is_open; /* the process has opened the table, now or before */
};

struct board {
    struct bell bell;
    struct board_line lines[]; /* by number of node */
};

/* For nodes whose numbers are below n. */
static inline size_t board_bytes(uint32_t n)
{
    return sizeof(struct board) + n * sizeof(struct board_line);
}

void board_tell(struct board *board, uint32_t node, struct node_clock clock);

/* A node has closed the table: it rests. */
void board_leave(struct board *board, uint32_t node);

/* The slowest of all nodes of the view. `highest` is that of all, and *node, unless it is NULL, which node is the slowest. */
struct node_clock board_slowest(const struct board *board, const struct view *view, uint32_t *node);

/* Whether a node has still to open the table. */
bool board_awaits_opening(const struct board *board, const struct view *view);

#endif
