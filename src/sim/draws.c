/* draws - see draws.h. */
#include "sim/draws.h"

#include <inttypes.h>
#include <stdlib.h>

/* Whom a sampler asks about keys. */
struct asker {
    struct draws *draws;
    const struct dist *dist;
    struct drawn *drawn; /* the sample whose keys are being handed out; NULL: none is */
};

static uint64_t below(const struct draws *draws, uint64_t n)
{
    return rand_below(sim_random(draws->site->sim), n);
}

static const struct dist *dist_of(const struct draws *draws, enum tern_conformity level)
{
    return &draws->site->dists->of[level];
}

static bool reuses(enum tern_conformity level)
{
    return level == TERN_BOUNDED || level == TERN_LONG_TERM;
}

/* ---- Opening and closing ------------------------------------------------------------------------ */

enum tern_status draws_open(struct draws *draws, struct site *site, struct plans *plans,
                            uint64_t stream)
{
    *draws = (struct draws){.site = site, .plans = plans};
    for (int i = 0; i < N_LEVELS; i++) {
        const struct dist *dist = &site->dists->of[i];
        const struct sampler_options options = {.target = &dist->target,
                                                .conformity = (enum tern_conformity)i,
                                                .stream = rand_at(stream, (uint64_t)i),
                                                .pool_keys = dist->pool_keys,
                                                .pool_uses = dist->pool_uses};
        draws->samplers[i] = sampler_new(&options);
        draws->forecasts[i].stream.name = rand_at(options.stream, 0);
        if (!draws->samplers[i]) {
            draws_close(draws);
            return fail(TERN_NO_MEMORY, "no memory for the samples of a worker");
        }
    }
    return TERN_OK;
}

static void end_sample(struct draws *draws, struct drawn *drawn)
{
    draws->site->figures->n_postponed += drawn->sample.n_put_off;
    sample_finish(&drawn->sample, draws->plans->clock);
    drawn->used = false;
}

void draws_close(struct draws *draws)
{
    for (int i = 0; i < MAX_SAMPLES; i++) {
        if (draws->drawn[i].used)
            end_sample(draws, &draws->drawn[i]);
        free(draws->drawn[i].sample.keys);
    }
    for (int i = 0; i < N_LEVELS; i++)
        sampler_free(draws->samplers[i]);
    *draws = (struct draws){.site = draws->site, .plans = draws->plans};
}

/* ---- What a sampler knows of its node ----------------------------------------------------------- */

static bool is_here(const struct site *site, const struct dist *dist, size_t place)
{
    bool is_replica;
    return site_has(site, dist->table, dist->first + (uint32_t)place, &is_replica);
}

static void say_what_is_here(void *context, const uint64_t *keys, size_t n, bool *here)
{
    struct asker *asker = context;
    for (size_t i = 0; i < n; i++) {
        size_t place = dist_find(asker->dist, keys[i]);
        here[i] = place < asker->dist->n && is_here(asker->draws->site, asker->dist, place);
    }
    if (asker->drawn)
        asker->drawn->n_asked += n;
}

static void bring(void *context, const uint64_t *keys, size_t n, uint64_t until)
{
    struct asker *asker = context;
    uint32_t indexes[DIST_KEYS];
    for (size_t i = 0; i < n; i++) {
        size_t place = dist_find(asker->dist, keys[i]);
        if (n > DIST_KEYS || place == asker->dist->n) {
            check_that(asker->draws->site->check, false, "a sampler wants keys it cannot draw");
            return;
        }
        indexes[i] = asker->dist->first + (uint32_t)place;
    }
    plans_want(asker->draws->plans, asker->dist->table, keys, indexes, n, until);
}

static struct surroundings look_around(struct asker *asker)
{
    return (struct surroundings){.here = say_what_is_here,
                                 .want = bring,
                                 .context = asker,
                                 .clock = asker->draws->plans->clock,
                                 .now_ns = sim_now_ns(asker->draws->site->sim)};
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
static void note_chosen(struct draws *draws, struct drawn *drawn)
{
    const struct site *site = draws->site;
    const struct dist *dist = dist_of(draws, drawn->level);
    for (size_t i = 0; drawn->level != TERN_NON_CONFORM && i < drawn->n; i++) {
        const uint64_t key = drawn->sample.keys[i];
        size_t place = dist_find(dist, key);
        check_that(site->check, was_due(&draws->forecasts[drawn->level], dist, drawn->level, key),
                   "at node %" PRIu32 " key %" PRIu64
                   " was chosen for a sample of level %d of table '%s', and was not due",
                   site->core->node, key, (int)drawn->level, table_name(dist->table));
        if (place < dist->n)
            drawn->away[place] |= !is_here(site, dist, place);
        drawn->left[i] = key;
    }
}

void draws_prepare(struct draws *draws)
{
    int i = 0;
    while (i < MAX_SAMPLES && draws->drawn[i].used)
        i++;
    if (i == MAX_SAMPLES)
        return;
    struct drawn *drawn = &draws->drawn[i];
    const enum tern_conformity level = (enum tern_conformity)below(draws, N_LEVELS);
    const size_t n = 1 + below(draws, SAMPLE_KEYS);
    *drawn = (struct drawn){.level = level, .sample = drawn->sample, .n = n, .n_left = n};
    struct asker asker = {.draws = draws, .dist = dist_of(draws, level)};
    struct surroundings around = look_around(&asker);
    enum tern_status status = sample_begin(&drawn->sample, draws->samplers[level], n, &around);
    check_that(draws->site->check, !status, "a sample was not prepared: %s", tern_error());
    if (status)
        return;
    drawn->used = true;
    note_chosen(draws, drawn);
}

/* ---- What is handed out ------------------------------------------------------------------------- */

/* Whether a key was still to be handed out; it is not then. */
static bool take_left(struct drawn *drawn, uint64_t key)
{
    for (size_t i = 0; i < drawn->n_left; i++)
        if (drawn->left[i] == key) {
            drawn->left[i] = drawn->left[drawn->n_left - 1];
            return true;
        }
    return false;
}

/* Checks one key that was handed out and counts it; false if it is none of the distribution. */
static bool note_handed_out(struct draws *draws, struct drawn *drawn, uint64_t key, uint32_t *index)
{
    const struct site *site = draws->site;
    const struct dist *dist = dist_of(draws, drawn->level);
    const size_t place = dist_find(dist, key);
    sim_note(site->sim, key);
    check_that(site->check, place < dist->n && dist->weights[place] > 0,
               "key %" PRIu64 " was handed out, which is none of its distribution of table '%s'",
               key, table_name(dist->table));
    check_that(site->check, drawn->level == TERN_NON_CONFORM || take_left(drawn, key),
               "key %" PRIu64 " was handed out of a sample of level %d of table '%s' that did not "
               "have it, or not any more",
               key, (int)drawn->level, table_name(dist->table));
    drawn->n_left--;
    if (place == dist->n)
        return false;
    site->figures->n_sampled++;
    site->figures->n_brought += drawn->away[place] && is_here(site, dist, place);
    *index = dist->first + (uint32_t)place;
    return true;
}

/* Local sampling looks through the whole of so small a target before it takes a key from elsewhere. */
static void check_local(const struct draws *draws, const uint64_t *keys, size_t n)
{
    const struct site *site = draws->site;
    const struct dist *dist = dist_of(draws, TERN_NON_CONFORM);
    size_t n_here = 0, n_handed_out = 0;
    for (size_t i = 0; i < dist->target.n; i++)
        n_here += target_has(&dist->target, i) && is_here(site, dist, i);
    for (size_t i = 0; i < n; i++)
        n_handed_out += is_here(site, dist, dist_find(dist, keys[i]));
    check_that(site->check, n_handed_out >= (n_here < n ? n_here : n),
               "at node %" PRIu32 " local sampling handed out %zu keys of %zu that are here, of "
               "table '%s' with %zu here",
               site->core->node, n_handed_out, n, table_name(dist->table), n_here);
}

static struct drawn *choose_drawn(struct draws *draws)
{
    struct drawn *chosen = NULL;
    uint64_t n = 0;
    for (int i = 0; i < MAX_SAMPLES; i++)
        if (draws->drawn[i].used && below(draws, ++n) == 0)
            chosen = &draws->drawn[i];
    return chosen;
}

struct drawn *draws_take(struct draws *draws, enum sim_table *table, uint32_t *indexes,
                         uint64_t *keys, size_t *n)
{
    struct drawn *drawn = choose_drawn(draws);
    if (!drawn)
        return NULL;
    struct check *check = draws->site->check;
    struct asker asker = {.draws = draws, .dist = dist_of(draws, drawn->level), .drawn = drawn};
    struct surroundings around = look_around(&asker);
    *table = asker.dist->table;
    *n = 1 + below(draws, drawn->n_left);
    bool good = !sample_take(&drawn->sample, keys, *n, &around);
    for (size_t i = 0; good && i < *n; i++)
        good = note_handed_out(draws, drawn, keys[i], &indexes[i]);
    check_that(check, good && drawn->sample.n_left == drawn->n_left,
               "a sample of %zu keys has %zu left, not %zu", drawn->n, drawn->sample.n_left,
               drawn->n_left);
    check_that(check, drawn->level != TERN_LONG_TERM || drawn->n_asked <= drawn->n,
               "of %zu keys of a sample, %zu were looked for to be put off", drawn->n,
               drawn->n_asked);
    if (good && drawn->level == TERN_NON_CONFORM)
        check_local(draws, keys, *n);
    return good ? drawn : NULL;
}

void draws_used(struct draws *draws, struct drawn *drawn)
{
    if (!drawn->n_left)
        end_sample(draws, drawn);
}

void draws_return(struct drawn *drawn, const uint64_t *keys, size_t n)
{
    sample_return(&drawn->sample, keys, n);
    for (size_t i = 0; i < n; i++)
        drawn->left[drawn->n_left++] = keys[i];
}
