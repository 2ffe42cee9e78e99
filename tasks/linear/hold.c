/* hold - keeps gradients back by so many updates. See hold.h. */
#include "linear/hold.h"

#include <stdlib.h>
#include <string.h>

#include "common/distinct.h"
#include "common/sentence.h"

/* A worker, and the gradient that it keeps back. */
struct held {
    struct tern_worker *worker; /* NULL: none is open */
    bool is_held;
    double due;
    uint64_t *keys;
    float *rows;
    size_t n, capacity;
};

bool hold_parse(const char *text, struct hold_rule *rule)
{
    static const char *const names[] = {
        [HOLD_UNIFORM] = "uniform:", [HOLD_SCALED] = "scaled:", [HOLD_HALF_SLOW] = "half-slow:"};
    for (int kind = HOLD_UNIFORM; kind <= HOLD_HALF_SLOW; kind++) {
        const size_t n = strlen(names[kind]);
        if (strncmp(text, names[kind], n) != 0)
            continue;
        char *end;
        const double mean = strtod(text + n, &end);
        if (end == text + n || *end != '\0' || !(mean >= 1 && mean <= HOLD_MAX_MEAN) ||
            mean > (double)(uint64_t)mean)
            return false;
        *rule = (struct hold_rule){(enum hold_kind)kind, (uint64_t)mean};
        return true;
    }
    return false;
}

bool hold_init(struct hold *hold, struct hold_rule rule, struct tern_node *node,
               struct tern_table *table, size_t length, uint64_t seed)
{
    const size_t n = rule.kind == HOLD_HALF_SLOW ? rule.mean + 1 : 2 * rule.mean + 2;
    *hold = (struct hold){.rule = rule,
                          .node = node,
                          .table = table,
                          .length = length,
                          .rng = rng_seed(seed, 0),
                          .slots = calloc(n, sizeof *hold->slots),
                          .n_slots = n};
    return hold->slots != NULL || task_fail_memory("gradients that are kept back");
}

void hold_fini(struct hold *hold)
{
    for (size_t i = 0; hold->slots != NULL && i < hold->n_slots; i++) {
        free(hold->slots[i].keys);
        free(hold->slots[i].rows);
    }
    free(hold->slots);
    *hold = (struct hold){0};
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* How long the gradient takes that is being computed now. */
static double draw_time(struct hold *hold)
{
    uint64_t most = 2 * hold->rule.mean;
    if (hold->rule.kind == HOLD_HALF_SLOW) {
        const double slowness = hold->current % 2 != 0 ? 1 + 3 * rng_unit(&hold->rng) : 1;
        return slowness * (0.5 + rng_unit(&hold->rng));
    }
    if (hold->rule.kind == HOLD_SCALED && most > hold->n_begun / 2)
        most = hold->n_begun / 2;
    return (double)rng_below(&hold->rng, most + 1) + 1;
}

/* The gradient that is pushed next, or NULL. */
static struct held *first_due(const struct hold *hold)
{
    struct held *first = NULL;
    for (size_t i = 0; i < hold->n_slots; i++)
        if (hold->slots[i].is_held && (first == NULL || hold->slots[i].due < first->due))
            first = &hold->slots[i];
    return first;
}

static size_t find_free(const struct hold *hold)
{
    size_t i = 0;
    while (i < hold->n_slots && hold->slots[i].is_held)
        i++;
    return i;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static bool push_held(const struct hold *hold, struct held *held)
{
    held->is_held = false;
    return !tern_push(held->worker, hold->table, held->keys, held->n, held->rows) ||
           task_fail_tern("cannot push");
}

bool hold_begin(struct hold *hold, struct tern_worker **worker)
{
    const bool is_paced = hold->rule.kind != HOLD_HALF_SLOW; /* a gradient begins at each moment */
    hold->n_begun++;
    hold->now += is_paced ? 1 : 0;
    struct held *first;
    while ((first = first_due(hold)) != NULL &&
           (is_paced ? first->due <= hold->now : find_free(hold) == hold->n_slots)) {
        hold->now = is_paced ? hold->now : first->due;
        if (!push_held(hold, first))
            return false;
    }
    hold->current = find_free(hold);
    struct held *held = &hold->slots[hold->current];
    if (held->worker == NULL && tern_worker_open(hold->node, &held->worker))
        return task_fail_tern("cannot open a worker");
    *worker = held->worker;
    return true;
}

bool hold_keep(struct hold *hold, const uint64_t *keys, size_t n, const float *rows)
{
    struct held *held = &hold->slots[hold->current];
    if (n > held->capacity) {
        held->capacity = 0;
        if (!array_renew(&held->keys, n, sizeof *held->keys) ||
            !array_renew(&held->rows, n * hold->length, sizeof *held->rows))
            return false;
        held->capacity = n;
    }
    memcpy(held->keys, keys, n * sizeof *keys);
    memcpy(held->rows, rows, n * hold->length * sizeof *rows);
    held->n = n;
    held->due = hold->now + draw_time(hold);
    held->is_held = true;
    return true;
}

bool hold_end(struct hold *hold, bool ok)
{
    for (struct held *first; ok && (first = first_due(hold)) != NULL;)
        ok = push_held(hold, first);
    for (size_t i = 0; i < hold->n_slots; i++) {
        struct held *held = &hold->slots[i];
        if (held->worker != NULL)
            (void)tern_worker_close(held->worker);
        held->worker = NULL;
        held->is_held = false;
    }
    return ok;
}
