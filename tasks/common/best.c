/* best - the n numbers with the highest scores. See best.h. */
#include "common/best.h"

#include <stdlib.h>

#include "common/sentence.h"

bool best_init(struct best *best, size_t n_wanted)
{
    *best = (struct best){.n_wanted = n_wanted, .at = calloc(n_wanted + 1, sizeof *best->at)};
    return best->at != NULL || task_fail_memory("the answers");
}

void best_fini(struct best *best)
{
    free(best->at);
    *best = (struct best){0};
}

void best_offer(struct best *best, uint32_t number, float score)
{
    if (best->n == best->n_wanted && (best->n == 0 || !(score > best->at[best->n - 1].score)))
        return;
    size_t at = best->n < best->n_wanted ? best->n++ : best->n - 1;
    for (; at > 0 && best->at[at - 1].score < score; at--)
        best->at[at] = best->at[at - 1];
    best->at[at] = (struct scored){number, score};
}
