/* sample_check - see sample_check.h. */
#include "sim/sample_check.h"

#include <inttypes.h>
#include <stdlib.h>

/* Whom a sampler asks about keys. */
struct asker {
    struct sample_check *samples;
    const struct dist *dist;
    struct open_sample *drawn; /* the sample whose keys are being handed out; NULL: none is */
};

static uint64_t below(const struct sample_check *samples, uint64_t n)
{
    return rand_below(sim_random(samples->sim_node->sim), n);
}

static const struct dist *dist_of(const struct sample_check *samples, enum tern_conformity level)
{
    return &samples->sim_node->dists->of[level];
}

static bool reuses(enum tern_conformity level)
{
    return level == TERN_BOUNDED || level == TERN_LONG_TERM;
}

/* ---- Opening and closing ------------------------------------------------------------------------ */

enum tern_status sample_check_open(struct sample_check *samples, struct sim_node *sim_node,
                                   struct plans *plans, uint64_t stream)
{
    *samples = (struct sample_check){.sim_node = sim_node, .plans = plans};
    for (int i = 0; i < N_LEVELS; i++) {
        const struct dist *dist = &sim_node->dists->of[i];
        const struct sampler_options options = {.target = &dist->target,
                                                .conformity = (enum tern_conformity)i,
                                                .stream = rand_at(stream, (uint64_t)i),
                                                .pool_keys = dist->pool_keys,
                                                .pool_uses = dist->pool_uses};
        samples->samplers[i] = sampler_new(&options);
        samples->forecasts[i].stream.name = rand_at(options.stream, 0);
        if (!samples->samplers[i]) {
            sample_check_close(samples);
            return fail(TERN_NO_MEMORY, "no memory for the samples of a worker");
        }
    }
    return TERN_OK;
}

static void end_sample(struct sample_check *samples, struct open_sample *drawn)
{
    samples->sim_node->figures->n_postponed += drawn->sample.n_put_off;
    sample_finish(&drawn->sample, samples->plans->clock);
    drawn->used = false;
}

void sample_check_close(struct sample_check *samples)
{
    for (int i = 0; i < MAX_SAMPLES; i++) {
        if (samples->drawn[i].used)
            end_sample(samples, &samples->drawn[i]);
        free(samples->drawn[i].sample.keys);
    }
    for (int i = 0; i < N_LEVELS; i++)
        sampler_free(samples->samplers[i]);
    *samples = (struct sample_check){.sim_node = samples->sim_node, .plans = samples->plans};
}

/* ---- What a sampler knows of its node ----------------------------------------------------------- */

static bool is_here(const struct sim_node *sim_node, const struct dist *dist, size_t position)
{
    bool is_replica;
    return sim_node_has(sim_node, dist->table, dist->first + (uint32_t)position, &is_replica);
}

static void say_what_is_here(void *context, const uint64_t *keys, size_t n, bool *here)
{
    struct asker *asker = context;
    for (size_t i = 0; i < n; i++) {
        size_t position = dist_find(asker->dist, keys[i]);
        here[i] =
            position < asker->dist->n && is_here(asker->samples->sim_node, asker->dist, position);
    }
    if (asker->drawn)
        asker->drawn->n_asked += n;
}

static void bring(void *context, const uint64_t *keys, size_t n, uint64_t until)
{
    struct asker *asker = context;
    uint32_t indexes[DIST_KEYS];
    for (size_t i = 0; i < n; i++) {
        size_t position = dist_find(asker->dist, keys[i]);
        if (n > DIST_KEYS || position == asker->dist->n) {
            check_that(asker->samples->sim_node->check, false,
                       "a sampler wants keys it cannot draw");
            return;
        }
        indexes[i] = asker->dist->first + (uint32_t)position;
    }
    plans_want(asker->samples->plans, BY_INTENT, asker->dist->table, keys, indexes, n, until);
}

static struct surroundings look_around(struct asker *asker)
{
    return (struct surroundings){.here = say_what_is_here,
                                 .want = bring,
                                 .context = asker,
                                 .clock = asker->samples->plans->clock,
                                 .now_ns = sim_now_ns(asker->samples->sim_node->sim)};
}

/* ---- What must be chosen ------------------------------------------------------------------------ */

/* Whether a pool has the key in its present turn, which is then over for it. */
static bool take_from_pool(struct forecast *forecast, const struct dist *dist, uint64_t key)
{
    if (!forecast->n_left) {
        if (forecast->n_turns++ % dist->pool_uses == 0)
            target_draw(&dist->target, &forecast->stream, forecast->pool, dist->pool_keys);
        forecast->n_left = dist->pool_keys;
    }
    for (size_t i = 0; i < forecast->n_left; i++)
        if (forecast->pool[i] == key) {
            forecast->pool[i] = forecast->pool[--forecast->n_left];
            forecast->pool[forecast->n_left] = key;
            return true;
        }
    return false;
}

static bool was_due(struct forecast *forecast, const struct dist *dist, enum tern_conformity level,
                    uint64_t key)
{
    if (reuses(level))
        return take_from_pool(forecast, dist, key);
    uint64_t next;
    target_draw(&dist->target, &forecast->stream, &next, 1);
    return next == key;
}

/* Notes the keys of a new sample, which must be those that were due. */
static void note_chosen(struct sample_check *samples, struct open_sample *drawn)
{
    const struct sim_node *sim_node = samples->sim_node;
    const struct dist *dist = dist_of(samples, drawn->level);
    for (size_t i = 0; drawn->level != TERN_NON_CONFORM && i < drawn->n; i++) {
        const uint64_t key = drawn->sample.keys[i];
        size_t position = dist_find(dist, key);
        check_that(sim_node->check,
                   was_due(&samples->forecasts[drawn->level], dist, drawn->level, key),
                   "at node %" PRIu32 " key %" PRIu64
                   " was chosen for a sample of level %d of table '%s', and was not due",
                   sim_node->core->node, key, (int)drawn->level, table_name(dist->table));
        if (position < dist->n)
            drawn->away[position] |= !is_here(sim_node, dist, position);
        drawn->left[i] = key;
    }
}

void sample_check_prepare(struct sample_check *samples)
{
    int i = 0;
    while (i < MAX_SAMPLES && samples->drawn[i].used)
        i++;
    if (i == MAX_SAMPLES)
        return;
    struct open_sample *drawn = &samples->drawn[i];
    const enum tern_conformity level = (enum tern_conformity)below(samples, N_LEVELS);
    const size_t n = 1 + below(samples, SAMPLE_KEYS);
    *drawn = (struct open_sample){.level = level, .sample = drawn->sample, .n = n, .n_left = n};
    struct asker asker = {.samples = samples, .dist = dist_of(samples, level)};
    struct surroundings around = look_around(&asker);
    enum tern_status status = sample_begin(&drawn->sample, samples->samplers[level], n, &around);
    check_that(samples->sim_node->check, !status, "a sample was not prepared: %s", tern_error());
    if (status)
        return;
    drawn->used = true;
    note_chosen(samples, drawn);
}

/* ---- What is handed out ------------------------------------------------------------------------- */

/* Whether a key was still to be handed out; it is not then. */
static bool take_left(struct open_sample *drawn, uint64_t key)
{
    for (size_t i = 0; i < drawn->n_left; i++)
        if (drawn->left[i] == key) {
            drawn->left[i] = drawn->left[drawn->n_left - 1];
            return true;
        }
    return false;
}

/* Checks one key that was handed out and counts it; false if it is none of the distribution. */
static bool note_handed_out(struct sample_check *samples, struct open_sample *drawn, uint64_t key,
                            uint32_t *index)
{
    const struct sim_node *sim_node = samples->sim_node;
    const struct dist *dist = dist_of(samples, drawn->level);
    const size_t position = dist_find(dist, key);
    sim_note(sim_node->sim, key);
    check_that(sim_node->check, position < dist->n && dist->weights[position] > 0,
               "key %" PRIu64 " was handed out, which is none of its distribution of table '%s'",
               key, table_name(dist->table));
    check_that(sim_node->check, drawn->level == TERN_NON_CONFORM || take_left(drawn, key),
               "key %" PRIu64 " was handed out of a sample of level %d of table '%s' that did not "
               "have it, or not any more",
               key, (int)drawn->level, table_name(dist->table));
    drawn->n_left--;
    if (position == dist->n)
        return false;
    sim_node->figures->n_sampled++;
    sim_node->figures->n_brought += drawn->away[position] && is_here(sim_node, dist, position);
    *index = dist->first + (uint32_t)position;
    return true;
}

/* Local sampling looks through the whole of so small a target before it takes a key from elsewhere. */
static void check_local(const struct sample_check *samples, const uint64_t *keys, size_t n)
{
    const struct sim_node *sim_node = samples->sim_node;
    const struct dist *dist = dist_of(samples, TERN_NON_CONFORM);
    size_t n_here = 0, n_handed_out = 0;
    for (size_t i = 0; i < dist->target.n; i++)
        n_here += target_has(&dist->target, i) && is_here(sim_node, dist, i);
    for (size_t i = 0; i < n; i++)
        n_handed_out += is_here(sim_node, dist, dist_find(dist, keys[i]));
    check_that(sim_node->check, n_handed_out >= (n_here < n ? n_here : n),
               "at node %" PRIu32 " local sampling handed out %zu keys of %zu that are here, of "
               "table '%s' with %zu here",
               sim_node->core->node, n_handed_out, n, table_name(dist->table), n_here);
}

static struct open_sample *choose_drawn(struct sample_check *samples)
{
    struct open_sample *chosen = NULL;
    uint64_t n = 0;
    for (int i = 0; i < MAX_SAMPLES; i++)
        if (samples->drawn[i].used && below(samples, ++n) == 0)
            chosen = &samples->drawn[i];
    return chosen;
}

struct open_sample *sample_check_take(struct sample_check *samples, enum sim_table *table,
                                      uint32_t *indexes, uint64_t *keys, size_t *n)
{
    struct open_sample *drawn = choose_drawn(samples);
    if (!drawn)
        return NULL;
    struct check *check = samples->sim_node->check;
    struct asker asker = {
        .samples = samples, .dist = dist_of(samples, drawn->level), .drawn = drawn};
    struct surroundings around = look_around(&asker);
    *table = asker.dist->table;
    *n = 1 + below(samples, drawn->n_left);
    bool good = !sample_take(&drawn->sample, keys, *n, &around);
    for (size_t i = 0; good && i < *n; i++)
        good = note_handed_out(samples, drawn, keys[i], &indexes[i]);
    check_that(check, good && drawn->sample.n_left == drawn->n_left,
               "a sample of %zu keys has %zu left, not %zu", drawn->n, drawn->sample.n_left,
               drawn->n_left);
    check_that(check, drawn->level != TERN_LONG_TERM || drawn->n_asked <= drawn->n,
               "of %zu keys of a sample, %zu were looked for to be put off", drawn->n,
               drawn->n_asked);
    if (good && drawn->level == TERN_NON_CONFORM)
        check_local(samples, keys, *n);
    return good ? drawn : NULL;
}

void sample_check_used(struct sample_check *samples, struct open_sample *drawn)
{
    if (!drawn->n_left)
        end_sample(samples, drawn);
}

void sample_check_return(struct open_sample *drawn, const uint64_t *keys, size_t n)
{
    sample_return(&drawn->sample, keys, n);
    for (size_t i = 0; i < n; i++)
        drawn->left[drawn->n_left++] = keys[i];
}
