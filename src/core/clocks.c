/* clocks - see clocks.h. */
#include "core/clocks.h"

#include <stdlib.h>

static void look(struct clocks *clocks)
{
    clocks->lowest = CLOCK_RESTS;
    clocks->n_lowest = 0;
    for (uint32_t i = 0; i < clocks->n; i++) {
        if (clocks->values[i] < clocks->lowest) {
            clocks->lowest = clocks->values[i];
            clocks->n_lowest = 0;
            clocks->slowest = i;
        }
        clocks->n_lowest += clocks->values[i] == clocks->lowest;
    }
}

bool clocks_init(struct clocks *clocks, uint32_t n, uint64_t value)
{
    *clocks = (struct clocks){.lowest = CLOCK_RESTS};
    for (uint32_t i = 0; i < n; i++) {
        if (!clocks_add(clocks)) {
            clocks_fini(clocks);
            return false;
        }
        clocks->values[i] = value;
    }
    look(clocks);
    return true;
}

void clocks_fini(struct clocks *clocks)
{
    free(clocks->values);
    *clocks = (struct clocks){.lowest = CLOCK_RESTS};
}

bool clocks_add(struct clocks *clocks)
{
    if (clocks->n == clocks->max) {
        uint32_t max = clocks->max ? 2 * clocks->max : 8;
        uint64_t *values = realloc(clocks->values, max * sizeof *values);
        if (!values)
            return false;
        clocks->values = values;
        clocks->max = max;
    }
    clocks->values[clocks->n++] = CLOCK_RESTS;
    clocks->n_lowest += clocks->lowest == CLOCK_RESTS;
    return true;
}

void clocks_set(struct clocks *clocks, uint32_t index, uint64_t value)
{
    uint64_t before = clocks->values[index];
    clocks->values[index] = value;
    if (value == before)
        return;
    if (value < clocks->lowest) {
        clocks->lowest = value;
        clocks->n_lowest = 1;
        clocks->slowest = index;
    } else if (value == clocks->lowest) {
        clocks->n_lowest++;
    } else if (before == clocks->lowest && --clocks->n_lowest == 0) {
        look(clocks);
    }
}

uint32_t clocks_slowest(struct clocks *clocks)
{
    if (clocks->lowest == CLOCK_RESTS)
        return clocks->n;
    if (clocks->values[clocks->slowest] != clocks->lowest)
        look(clocks);
    return clocks->slowest;
}
