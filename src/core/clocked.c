/*
 * clocked - the technique of bounded tables whose rows are all in one memory: `ssp`, `essp` and `vap` on a single node, and
 * where all processes share a table. An update is seen by all as soon as it is made, so nothing is sent, no value is fetched
 * and a bound on values always holds. Workers wait for each other all the same: a read at clock c, with a bound of s clocks,
 * waits until no worker is below c - s. Processes tell each other their clocks on a board beside the table (board.h).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "core/board.h"
#include "core/technique.h"

/* Where several processes share the table; a single node has none. */
struct clocked {
    struct board *board;
    uint32_t node;
    const struct core *core; /* may end before the table is closed */
};

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    if (!setup->board)
        return true;
    struct clocked *made = calloc(1, sizeof *made);
    table->state = made;
    if (made)
        *made = (struct clocked){.board = setup->board, .node = core->node, .core = core};
    return made;
}

static struct bell *told(const struct core_table *table, struct node_clock clock)
{
    const struct clocked *clocked = table->state;
    if (!clocked)
        return NULL;
    board_tell(clocked->board, clocked->node, clock);
    return &clocked->board->bell;
}

static void close_table(struct core_table *table)
{
    struct clocked *clocked = table->state;
    board_leave(clocked->board, clocked->node);
    bell_ring(&clocked->board->bell);
    free(clocked);
}

/* ---- What workers wait for ---------------------------------------------------------------------- */

static struct bell *bell(const struct core_table *table)
{
    const struct clocked *clocked = table->state;
    return clocked ? &clocked->board->bell : NULL;
}

static bool admit(const struct core_table *table, struct access *access)
{
    const struct clocked *clocked = table->state;
    uint64_t lowest = access->min_clock, behind = 0;
    if (clocked) {
        const uint64_t all = board_slowest(clocked->board, clocked->core->view, NULL).clock;
        lowest = all < lowest ? all : lowest;
    }
    if (table->policy->bound == BOUND_CLOCKS && access->clock > lowest)
        behind = access->clock - lowest;
    access->n_stale = 0;
    for (int i = 0; i < TERN_CLOCK_STEPS; i++)
        access->ages[i] = 0;
    if (behind > table->policy->clocks)
        return false;
    access->ages[behind < TERN_CLOCK_STEPS ? behind : TERN_CLOCK_STEPS - 1] += (uint32_t)access->n;
    return true;
}

static double size(const struct core_table *table, const uint64_t *keys, size_t n,
                   const void *updates)
{
    (void)table;
    (void)keys;
    (void)n;
    (void)updates;
    return 0;
}

static bool admit_update(const struct core_table *table, const struct unseen *unseen,
                         uint64_t clock, double more)
{
    (void)table;
    (void)unseen;
    (void)clock;
    (void)more;
    return true;
}

static void updated(const struct core_table *table, struct unseen *unseen, double more)
{
    (void)table;
    (void)unseen;
    (void)more;
}

/* The others see this node's line. It was written before, unless all of its workers rested until now. */
static bool awaits_workers(const struct core_table *table, uint64_t *clock)
{
    const struct clocked *clocked = table->state;
    if (!clocked)
        return true;
    const struct board_line *own = &clocked->board->lines[clocked->node];
    const bool is_seen = atomic_load(&own->clock) != CLOCK_RESTS;
    const uint64_t highest = board_slowest(clocked->board, clocked->core->view, NULL).highest;
    if (highest > *clock)
        *clock = highest;
    return is_seen;
}

static bool awaits_opening(const struct core_table *table)
{
    const struct clocked *clocked = table->state;
    return clocked && board_awaits_opening(clocked->board, clocked->core->view);
}

static enum tern_status blame(const struct core *core, struct core_table *table,
                              const struct access *access, struct node_clock now, double seconds)
{
    const struct clocked *clocked = table->state;
    uint32_t node = core ? core->node : 0;
    if (clocked)
        now = board_slowest(clocked->board, core->view, &node);
    return admit_fail_slow(table, access, now, node, seconds);
}

const struct technique technique_clocked = {
    .rows = ROWS_AT_HOME,
    .open = open_table,
    .close = close_table,
    .where = technique_where_home,
    .told = told,
    .bell = bell,
    .admit = admit,
    .size = size,
    .admit_update = admit_update,
    .updated = updated,
    .awaits_workers = awaits_workers,
    .awaits_opening = awaits_opening,
    .blame = blame,
};
