/* board - see board.h. */
#include "core/board.h"

void board_tell(struct board *board, uint32_t node, struct node_clock clock)
{
    struct board_line *line = &board->lines[node];
    atomic_store_explicit(&line->slowest, clock.slowest, memory_order_relaxed);
    atomic_store(&line->highest, clock.highest);
    atomic_store(&line->clock, clock.clock);
    atomic_store_explicit(&line->is_open, 1, memory_order_relaxed);
}

void board_leave(struct board *board, uint32_t node)
{
    atomic_store(&board->lines[node].clock, CLOCK_RESTS);
}

struct node_clock board_slowest(const struct board *board, const struct view *view, uint32_t *node)
{
    struct node_clock found = {.clock = CLOCK_RESTS, .slowest = NO_WORKER};
    view_each (i, view) {
        const struct board_line *line = &board->lines[i];
        const uint64_t clock = atomic_load(&line->clock), highest = atomic_load(&line->highest);
        if (highest > found.highest)
            found.highest = highest;
        if (clock >= found.clock)
            continue;
        found.clock = clock;
        found.slowest = atomic_load_explicit(&line->is_open, memory_order_relaxed)
                            ? atomic_load_explicit(&line->slowest, memory_order_relaxed)
                            : NO_WORKER;
        if (node)
            *node = i;
    }
    return found;
}

bool board_awaits_opening(const struct board *board, const struct view *view)
{
    bool awaits = false;
    view_each (i, view)
        awaits |= !atomic_load_explicit(&board->lines[i].is_open, memory_order_relaxed);
    return awaits;
}
