/* worker_clocks - see worker_clocks.h. */
#include "core/worker_clocks.h"

#include <stdlib.h>

void worker_clocks_init(struct worker_clocks *clocks)
{
    *clocks = (struct worker_clocks){.min = {.lowest = CLOCK_RESTS}};
}

void worker_clocks_fini(struct worker_clocks *clocks)
{
    min_clock_fini(&clocks->min);
    free(clocks->numbers);
    free(clocks->used);
    worker_clocks_init(clocks);
}

/* The index of a clock that nobody uses; false when memory runs out. */
static bool find_free(struct worker_clocks *clocks, uint32_t *index)
{
    for (*index = 0; *index < clocks->min.n; ++*index)
        if (!clocks->used[*index])
            return true;
    uint32_t *numbers = realloc(clocks->numbers, (*index + 1) * sizeof *numbers);
    if (numbers)
        clocks->numbers = numbers;
    bool *used = realloc(clocks->used, (*index + 1) * sizeof *used);
    if (used)
        clocks->used = used;
    return numbers && used && min_clock_add(&clocks->min);
}

bool worker_clocks_open(struct worker_clocks *clocks, uint32_t number, uint64_t clock,
                        uint32_t *index)
{
    if (!find_free(clocks, index))
        return false;
    clocks->used[*index] = true;
    clocks->numbers[*index] = number;
    clocks->has_begun = true;
    worker_clocks_set(clocks, *index, clock);
    return true;
}

void worker_clocks_close(struct worker_clocks *clocks, uint32_t index)
{
    worker_clocks_set(clocks, index, CLOCK_RESTS);
    clocks->used[index] = false;
}

bool worker_clocks_set(struct worker_clocks *clocks, uint32_t index, uint64_t clock)
{
    uint64_t before = clocks->min.lowest;
    min_clock_set(&clocks->min, index, clock);
    if (clock != CLOCK_RESTS && clock > clocks->highest)
        clocks->highest = clock;
    return clocks->min.lowest != before;
}

struct node_clock worker_clocks_now(struct worker_clocks *clocks)
{
    uint32_t slowest = min_clock_slowest(&clocks->min);
    return (struct node_clock){
        .clock = clocks->has_begun ? clocks->min.lowest : 0,
        .highest = clocks->highest,
        .slowest = slowest < clocks->min.n ? clocks->numbers[slowest] : NO_WORKER,
    };
}
