/* pace - see pace.h. */
#include "core/pace.h"

#include <stdlib.h>

void pace_init(struct pace *pace)
{
    *pace = (struct pace){.clocks = {.lowest = CLOCK_RESTS}};
}

void pace_fini(struct pace *pace)
{
    clocks_fini(&pace->clocks);
    free(pace->numbers);
    free(pace->used);
    pace_init(pace);
}

/* The index of a clock that nobody uses; false when memory is used up. */
static bool find_free(struct pace *pace, uint32_t *index)
{
    for (*index = 0; *index < pace->clocks.n; ++*index)
        if (!pace->used[*index])
            return true;
    uint32_t *numbers = realloc(pace->numbers, (*index + 1) * sizeof *numbers);
    if (numbers)
        pace->numbers = numbers;
    bool *used = realloc(pace->used, (*index + 1) * sizeof *used);
    if (used)
        pace->used = used;
    return numbers && used && clocks_add(&pace->clocks);
}

bool pace_open(struct pace *pace, uint32_t number, uint64_t clock, uint32_t *index)
{
    if (!find_free(pace, index))
        return false;
    pace->used[*index] = true;
    pace->numbers[*index] = number;
    pace->has_begun = true;
    pace_set(pace, *index, clock);
    return true;
}

void pace_close(struct pace *pace, uint32_t index)
{
    pace_set(pace, index, CLOCK_RESTS);
    pace->used[index] = false;
}

bool pace_set(struct pace *pace, uint32_t index, uint64_t clock)
{
    uint64_t before = pace->clocks.lowest;
    clocks_set(&pace->clocks, index, clock);
    if (clock != CLOCK_RESTS && clock > pace->highest)
        pace->highest = clock;
    return pace->clocks.lowest != before;
}

struct node_clock pace_now(struct pace *pace)
{
    uint32_t slowest = clocks_slowest(&pace->clocks);
    return (struct node_clock){
        .clock = pace->has_begun ? pace->clocks.lowest : 0,
        .highest = pace->highest,
        .slowest = slowest < pace->clocks.n ? pace->numbers[slowest] : NO_WORKER,
    };
}
