/* invariant - see invariant.h. */
#include "base/invariant.h"

#ifdef TERN_INVARIANTS

#include <stdio.h>
#include <stdlib.h>

enum { MAX_HELD = 64 };

struct held {
    enum lock_rank rank;
    unsigned number;
};

static _Thread_local struct held held[MAX_HELD];
static _Thread_local int n_held;

void invariant_broken(const char *condition, const char *file, int line)
{
    fprintf(stderr, "tern: %s:%d: broken invariant: %s\n", file, line, condition);
    abort();
}

void rank_waits(enum lock_rank rank, unsigned number)
{
    for (int i = 0; i < n_held; i++)
        invariant(held[i].rank < rank || (held[i].rank == rank && held[i].number < number));
}

void rank_took(enum lock_rank rank, unsigned number)
{
    invariant(n_held < MAX_HELD);
    held[n_held++] = (struct held){rank, number};
}

void rank_released(enum lock_rank rank, unsigned number)
{
    int at = n_held - 1;
    while (at >= 0 && (held[at].rank != rank || held[at].number != number))
        at--;
    invariant(at >= 0);
    held[at] = held[--n_held];
}

#endif
