/* strangers - see strangers.h. */
#include "node/strangers.h"

#include <string.h>

#include "base/hash.h"

#define MIN_NS (STRANGER_MIN_MS * UINT64_C(1000000))

enum { N_COUNTS = 4 * STRANGERS_MAX }; /* a power of two, and never full */

/* How many strangers each source has, by its hash. */
struct counts {
    uint64_t sources[N_COUNTS];
    uint16_t n[N_COUNTS];
};

static uint16_t *count_of(struct counts *counts, uint64_t source)
{
    size_t at = hash_u64(source) % N_COUNTS;
    while (counts->n[at] && counts->sources[at] != source)
        at = (at + 1) % N_COUNTS;
    counts->sources[at] = source;
    return &counts->n[at];
}

void strangers_add(struct strangers *strangers, struct stranger *stranger)
{
    stranger->before = NULL;
    stranger->next = strangers->first;
    if (stranger->next)
        stranger->next->before = stranger;
    strangers->first = stranger;
    strangers->n++;
}

void strangers_remove(struct strangers *strangers, struct stranger *stranger)
{
    *(stranger->before ? &stranger->before->next : &strangers->first) = stranger->next;
    if (stranger->next)
        stranger->next->before = stranger->before;
    stranger->next = stranger->before = NULL;
    strangers->n--;
}

struct stranger *strangers_choose(struct strangers *strangers, uint64_t now_ns)
{
    struct counts counts;
    memset(counts.n, 0, sizeof counts.n);
    for (const struct stranger *at = strangers->first; at; at = at->next)
        ++*count_of(&counts, at->source);
    struct stranger *chosen = NULL;
    uint32_t n_alike = 0, most = 0;
    uint64_t chance = hash_u64(now_ns ^ hash_u64(strangers->n_chosen++));
    for (struct stranger *at = strangers->first; at; at = at->next) {
        uint32_t n = *count_of(&counts, at->source);
        if (now_ns < at->since_ns + MIN_NS || n < most ||
            (chosen && n == most && at->stage > chosen->stage))
            continue;
        if (!chosen || n > most || at->stage < chosen->stage)
            n_alike = 0;
        most = n;
        /* Each of those that are alike is the last one taken equally often. */
        chance = hash_u64(chance);
        if (chance % ++n_alike == 0)
            chosen = at;
    }
    return chosen;
}
