/* best - the n numbers with the highest scores, highest first. */
#ifndef TASKS_BEST_H
#define TASKS_BEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scored {
    uint32_t number;
    float score;
};

struct best {
    size_t n, n_wanted;
    struct scored *at;
};

/* best_fini() is due in any case. */
bool best_init(struct best *best, size_t n_wanted);
void best_fini(struct best *best);

/* Keeps a number if it is among the best so far; of equal scores the first stays ahead. */
void best_offer(struct best *best, uint32_t number, float score);

#endif
