/* min_clock - see min_clock.h. */
#include "core/min_clock.h"

#include <stdlib.h>

static void look(struct min_clock *min)
{
    min->lowest = CLOCK_RESTS;
    min->n_lowest = 0;
    for (uint32_t i = 0; i < min->n; i++) {
        if (min->values[i] < min->lowest) {
            min->lowest = min->values[i];
            min->n_lowest = 0;
            min->slowest = i;
        }
        min->n_lowest += min->values[i] == min->lowest;
    }
}

bool min_clock_init(struct min_clock *min, uint32_t n, uint64_t value)
{
    *min = (struct min_clock){.lowest = CLOCK_RESTS};
    for (uint32_t i = 0; i < n; i++) {
        if (!min_clock_add(min)) {
            min_clock_fini(min);
            return false;
        }
        min->values[i] = value;
    }
    look(min);
    return true;
}

void min_clock_fini(struct min_clock *min)
{
    free(min->values);
    *min = (struct min_clock){.lowest = CLOCK_RESTS};
}

bool min_clock_add(struct min_clock *min)
{
    if (min->n == min->max) {
        uint32_t max = min->max ? 2 * min->max : 8;
        uint64_t *values = realloc(min->values, max * sizeof *values);
        if (!values)
            return false;
        min->values = values;
        min->max = max;
    }
    min->values[min->n++] = CLOCK_RESTS;
    min->n_lowest += min->lowest == CLOCK_RESTS;
    return true;
}

void min_clock_set(struct min_clock *min, uint32_t index, uint64_t value)
{
    uint64_t before = min->values[index];
    min->values[index] = value;
    if (value == before)
        return;
    if (value < min->lowest) {
        min->lowest = value;
        min->n_lowest = 1;
        min->slowest = index;
    } else if (value == min->lowest) {
        min->n_lowest++;
    } else if (before == min->lowest && --min->n_lowest == 0) {
        look(min);
    }
}

uint32_t min_clock_slowest(struct min_clock *min)
{
    if (min->lowest == CLOCK_RESTS)
        return min->n;
    if (min->values[min->slowest] != min->lowest)
        look(min);
    return min->slowest;
}
