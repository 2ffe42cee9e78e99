/*
 * draw - see draw.h.
 *
 * Pools are made ahead of their use, so that their keys have arrived by then. How far ahead follows from
 * how long keys take to arrive, measured on some keys of a pool, and from how fast samples are used:
 * another pool is made while fewer samples are prepared than will be used in twice that time (NuPS,
 * Section 4.4). Making one means to draw G keys and to say that they are wanted, some microseconds for
 * U * G samples; the worker does it itself, and moving the keys is the work of the manager's threads.
 *
 * How long keys are wanted is told by the worker's clock. The end is not known when a sample is prepared,
 * so it is taken to be open as long as the latest ones were, or as long as it takes to end those that are
 * open at the pace of late, whichever is longer: the former is too short while a program fills its queue
 * of samples, the latter if it ends many at once. The keys of a pool are wanted for as long as pools were
 * in use lately, and the samples chosen from it at the end are open. To all that half of it is added;
 * what lasts longer still says so once more, before it is too late. Until anything is known, everything
 * is taken to last long: keys that stay for some clocks too many cost less than keys that go too soon.
 *
 * Local sampling draws from the target and keeps what is here. It does not try until it succeeds: after
 * two draws it falls back on a set of keys that were here lately, kept from its earlier successes, then
 * on keys near home, then on a search through the target that each call carries on by one step. Only
 * when all that has not brought up a single key that is here, it takes one that is elsewhere.
 */
#include "core/draw.h"

#include <stdlib.h>

#include "core/defect.h"

enum {
    POOLS = 16,     /* prepared at one time, at most */
    N_WATCHED = 16, /* keys of a pool whose arrival is awaited, to learn how long it takes */
    N_WATCHED_AT_ONCE = 4,
    N_KNOWN = 1024,  /* keys remembered by local sampling */
    FIRST_LIFE = 64, /* clocks that samples and pools are taken to last while nothing is known */
    N_PACED = 8,     /* samples that end while the pace is measured once */
    FIRST_PREPARE_NS = 1000000,
};

struct pool {
    uint64_t *keys;
    uint64_t until; /* the clock until which its keys were said to be used */
};

/* Measures how long the keys of a pool take to arrive. */
struct watch {
    uint64_t keys[N_WATCHED];
    uint32_t waiting; /* a bit for each that has not arrived; 0: nothing is measured */
    uint64_t pool;    /* its number */
    uint64_t since_ns;
};

/* Pool number i is ring[i % POOLS]; n_used is the one in use. */
struct pools {
    struct pool ring[POOLS];
    uint64_t n_made, n_used;
    uint32_t use, at; /* of the one in use: how often it was gone through, and where it is */
    uint64_t since;   /* the clock when it came into use */
    uint64_t n_taken; /* samples from this time on: */
    uint64_t since_ns;
    double taken_per_ns; /* lately; 0: not known yet */
    double prepare_ns;   /* how long keys take to arrive */
    struct watch watch;
    uint64_t *keys; /* the memory of all */
};

/* What local sampling remembers: keys that were here when they were last looked at. */
struct known {
    uint64_t keys[N_KNOWN];
    uint32_t n;
    uint32_t oldest;   /* once there are N_KNOWN */
    uint64_t searched; /* the position in the target where the search goes on */
};

/* How many clocks something took the last two times. */
struct span {
    uint64_t last[2];
};

/* What is known of how long samples are open. */
struct lives {
    struct span life; /* from the beginning to the end */
    struct span pace; /* from one end to the N_PACED-th after it */
    uint64_t n_open, n_ended;
    uint64_t paced_since; /* the clock when the pace began to be measured */
};

struct sampler {
    struct sampler_options options;
    struct stream draws, orders;
    struct lives lives;
    struct span pool_life; /* how long pools are in use */
    struct pools pools;
    struct known known;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- How long keys are wanted ------------------------------------------------------------------ */

static void span_note(struct span *span, uint64_t n_clocks)
{
    span->last[1] = span->last[0];
    span->last[0] = n_clocks;
}

/* The one that took longer may have been held up by a pause of the program, so the other one counts. */
static uint64_t span_clocks(const struct span *span)
{
    return span->last[0] < span->last[1] ? span->last[0] : span->last[1];
}

static void lives_init(struct lives *lives)
{
    lives->life = (struct span){{FIRST_LIFE, FIRST_LIFE}};
    lives->pace = (struct span){{N_PACED, N_PACED}};
}

/* Learns that a sample that was open since one clock has ended at another. */
static void lives_note(struct lives *lives, uint64_t since, uint64_t end)
{
    if (lives->n_ended++ % N_PACED == 0) {
        if (lives->n_ended > 1)
            span_note(&lives->pace, end - lives->paced_since);
        lives->paced_since = end;
    }
    span_note(&lives->life, end - since);
}

/* How many clocks a sample that is prepared now will be open. */
static uint64_t lives_expect(const struct lives *lives)
{
    bool known = lives->n_ended > (uint64_t)2 * N_PACED;
    uint64_t life = known ? span_clocks(&lives->life) : FIRST_LIFE;
    uint64_t queue = (lives->n_open + 1) * span_clocks(&lives->pace) / N_PACED;
    return life > queue ? life : queue;
}

/* The clock before which what lasts about so many will be over; not before the next. */
static uint64_t over_after(const struct surroundings *around, uint64_t n_clocks)
{
    return around->clock + 2 + n_clocks + n_clocks / 2;
}

/* Until when the keys of a sample that is prepared, or goes on, now will be wanted. */
static uint64_t sample_horizon(const struct sampler *sampler, const struct surroundings *around)
{
    return over_after(around, lives_expect(&sampler->lives));
}

/* Until when the keys of a pool will be wanted, if n other pools are used before it. */
static uint64_t pool_horizon(const struct sampler *sampler, uint64_t n_before,
                             const struct surroundings *around)
{
    return over_after(around, (n_before + 1) * span_clocks(&sampler->pool_life) +
                                  lives_expect(&sampler->lives));
}

/* ---- Samplers ---------------------------------------------------------------------------------- */

static bool reuses(const struct sampler *sampler)
{
    return sampler->options.conformity == TERN_BOUNDED ||
           sampler->options.conformity == TERN_LONG_TERM;
}

static bool init_pools(struct sampler *sampler)
{
    struct pools *pools = &sampler->pools;
    uint32_t n_keys = sampler->options.pool_keys;
    sampler->pool_life = (struct span){{FIRST_LIFE, FIRST_LIFE}};
    pools->prepare_ns = FIRST_PREPARE_NS;
    pools->keys = malloc(POOLS * n_keys * sizeof *pools->keys);
    for (size_t i = 0; pools->keys && i < POOLS; i++)
        pools->ring[i].keys = pools->keys + i * n_keys;
    return pools->keys;
}

struct sampler *sampler_new(const struct sampler_options *options)
{
    struct sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return NULL;
    sampler->options = *options;
    sampler->draws.name = rand_at(options->stream, 0);
    sampler->orders.name = rand_at(options->stream, 1);
    if (!sampler->options.pool_keys)
        sampler->options.pool_keys = DRAW_POOL_KEYS;
    if (!sampler->options.pool_uses)
        sampler->options.pool_uses = DRAW_POOL_USES;
    lives_init(&sampler->lives);
    if (reuses(sampler) && !init_pools(sampler)) {
        free(sampler);
        return NULL;
    }
    return sampler;
}

void sampler_free(struct sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->pools.keys);
    free(sampler);
}

/* ---- Reuse ------------------------------------------------------------------------------------- */

/* Asks which of n keys are here; the answer has a bit for each. */
static uint32_t ask(const struct surroundings *around, const uint64_t *keys, size_t n)
{
    bool here[N_WATCHED];
    uint32_t answer = 0;
    around->here(around->context, keys, n, here);
    for (size_t i = 0; i < n; i++)
        answer |= (uint32_t)here[i] << i;
    return answer;
}

/* Begins to measure how long the keys of a new pool take, unless another is being measured. */
static void watch_begin(struct sampler *sampler, uint64_t number, const struct surroundings *around)
{
    struct watch *watch = &sampler->pools.watch;
    if (watch->waiting)
        return;
    size_t n = least(N_WATCHED, sampler->options.pool_keys);
    for (size_t i = 0; i < n; i++)
        watch->keys[i] = sampler->pools.ring[number % POOLS].keys[i];
    watch->waiting = ~ask(around, watch->keys, n) & (uint32_t)((UINT64_C(1) << n) - 1);
    watch->pool = number;
    watch->since_ns = around->now_ns;
}

/* A pause of the program can make one preparation seem endless, so it counts for four times the others at
 * most. */
static void note_preparation(struct pools *pools, double ns)
{
    double most = 4 * pools->prepare_ns;
    pools->prepare_ns += ((ns < most ? ns : most) - pools->prepare_ns) / 4;
}

/* Looks whether keys that are awaited have arrived. When all have, the time is known; when the pool
 * is in use before, it is at least as long as until now. */
static void watch_step(struct pools *pools, const struct surroundings *around)
{
    struct watch *watch = &pools->watch;
    uint64_t keys[N_WATCHED_AT_ONCE];
    uint32_t bits[N_WATCHED_AT_ONCE];
    size_t n = 0;
    for (uint32_t waiting = watch->waiting; waiting && n < N_WATCHED_AT_ONCE; n++) {
        bits[n] = waiting & -waiting;
        keys[n] = watch->keys[__builtin_ctz(waiting)];
        waiting ^= bits[n];
    }
    if (!n)
        return;
    uint32_t here = ask(around, keys, n);
    for (size_t i = 0; i < n; i++)
        if (here >> i & 1)
            watch->waiting ^= bits[i];
    if (watch->pool <= pools->n_used)
        watch->waiting = 0;
    if (!watch->waiting)
        note_preparation(pools, (double)(around->now_ns - watch->since_ns));
}

static enum tern_status make_pool(struct sampler *sampler, const struct surroundings *around)
{
    struct pools *pools = &sampler->pools;
    uint32_t n_keys = sampler->options.pool_keys;
    struct pool *pool = &pools->ring[pools->n_made % POOLS];
    enum tern_status status =
        target_draw(sampler->options.target, &sampler->draws, pool->keys, n_keys);
    if (status)
        return status;
    if (pools->n_made == pools->n_used)
        pools->since = around->clock;
    pool->until = pool_horizon(sampler, pools->n_made - pools->n_used, around);
    watch_begin(sampler, pools->n_made, around);
    around->want(around->context, pool->keys, n_keys, pool->until);
    pools->n_made++;
    return TERN_OK;
}

/* The pool in use has been gone through for the last time. */
static void leave_pool(struct sampler *sampler, const struct surroundings *around)
{
    struct pools *pools = &sampler->pools;
    span_note(&sampler->pool_life, around->clock - pools->since);
    pools->since = around->clock;
    pools->n_used++;
    pools->use = 0;
    if (around->now_ns > pools->since_ns) {
        if (pools->since_ns)
            pools->taken_per_ns =
                (double)pools->n_taken / (double)(around->now_ns - pools->since_ns);
        pools->since_ns = around->now_ns;
        pools->n_taken = 0;
    }
}

/* Takes at most n keys from the pool in use and returns their number. The order is fresh each time: the
 * next key is a random one of those that have not had their turn. */
static size_t take_from_pool(struct sampler *sampler, uint64_t *keys, size_t n,
                             const struct surroundings *around)
{
    struct pools *pools = &sampler->pools;
    uint32_t n_keys = sampler->options.pool_keys;
    uint64_t *pool = pools->ring[pools->n_used % POOLS].keys;
    n = least(n, n_keys - pools->at);
    for (size_t i = 0; i < n; i++) {
        uint32_t at = pools->at + (uint32_t)i;
        uint64_t other = at + rand_below(stream_next(&sampler->orders), n_keys - at);
        keys[i] = pool[other];
        pool[other] = pool[at];
        pool[at] = keys[i];
    }
    pools->at += (uint32_t)n;
    pools->n_taken += n;
    if (pools->at == n_keys) {
        pools->at = 0;
        if (++pools->use == sampler->options.pool_uses + defect(DEFECT_POOL_OVERUSED))
            leave_pool(sampler, around);
    }
    return n;
}

size_t sampler_ahead(const struct sampler *sampler)
{
    double ahead = 2 * sampler->pools.prepare_ns * sampler->pools.taken_per_ns;
    double most = (double)POOLS * sampler->options.pool_keys * sampler->options.pool_uses;
    size_t n = ahead < most ? (size_t)ahead : (size_t)most;
    return n > sampler->options.pool_keys ? n : sampler->options.pool_keys;
}

/* Says of keys that are not here that they are wanted: others have taken them, or they are late. */
static void want_missing(struct sampler *sampler, const uint64_t *keys, size_t n,
                         const struct surroundings *around)
{
    for (size_t done = 0, block; done < n; done += block) {
        bool here[DRAW_ASK];
        uint64_t missing[DRAW_ASK];
        size_t n_missing = 0;
        block = least(n - done, DRAW_ASK);
        around->here(around->context, keys + done, block, here);
        for (size_t i = 0; i < block; i++) {
            missing[n_missing] = keys[done + i];
            n_missing += !here[i];
        }
        if (n_missing)
            around->want(around->context, missing, n_missing, sample_horizon(sampler, around));
    }
}

/* Carries on what is prepared ahead by one step. */
static enum tern_status prepare_ahead(struct sampler *sampler, const struct surroundings *around)
{
    struct pools *pools = &sampler->pools;
    uint64_t n_pools = pools->n_made - pools->n_used;
    uint64_t n_keys = sampler->options.pool_keys;
    if (n_pools) {
        struct pool *in_use = &pools->ring[pools->n_used % POOLS];
        uint64_t life = lives_expect(&sampler->lives);
        if (around->clock + life >= in_use->until) {
            in_use->until = pool_horizon(sampler, 0, around);
            around->want(around->context, in_use->keys, n_keys, in_use->until);
        }
    }
    watch_step(pools, around);
    uint64_t prepared =
        n_pools * n_keys * sampler->options.pool_uses - pools->use * n_keys - pools->at;
    if (prepared >= sampler_ahead(sampler) || n_pools == POOLS)
        return TERN_OK;
    return make_pool(sampler, around);
}

static enum tern_status draw_from_pools(struct sampler *sampler, uint64_t *keys, size_t n,
                                        const struct surroundings *around)
{
    struct pools *pools = &sampler->pools;
    if (!pools->since_ns)
        pools->since_ns = around->now_ns;
    for (size_t done = 0; done < n;) {
        enum tern_status status =
            pools->n_made == pools->n_used ? make_pool(sampler, around) : TERN_OK;
        if (status)
            return status;
        done += take_from_pool(sampler, keys + done, n - done, around);
    }
    want_missing(sampler, keys, n, around);
    return prepare_ahead(sampler, around);
}

/* ---- Local sampling ---------------------------------------------------------------------------- */

/* Keys that may be here. */
struct proposal {
    uint64_t keys[DRAW_ASK];
    size_t n;
    bool known;                   /* they were here lately, */
    uint32_t positions[DRAW_ASK]; /* and are remembered in these places */
};

/* Proposes about as many keys as are wanted, at most DRAW_ASK. */
typedef enum tern_status propose_function(struct sampler *sampler, size_t wanted,
                                          struct proposal *proposal);

static enum tern_status from_target(struct sampler *sampler, size_t wanted,
                                    struct proposal *proposal)
{
    proposal->n = wanted;
    return target_draw(sampler->options.target, &sampler->draws, proposal->keys, wanted);
}

static void propose_known(const struct known *known, uint64_t position, struct proposal *proposal)
{
    proposal->known = true;
    proposal->positions[proposal->n] = (uint32_t)position;
    proposal->keys[proposal->n++] = known->keys[position];
}

/* Keys that were here lately. While few are known each is proposed as rarely as if there were many, to
 * leave room for others. */
static enum tern_status from_known(struct sampler *sampler, size_t wanted,
                                   struct proposal *proposal)
{
    for (size_t i = 0; i < wanted; i++) {
        uint64_t position = rand_below(stream_next(&sampler->orders), N_KNOWN);
        if (position < sampler->known.n)
            propose_known(&sampler->known, position, proposal);
    }
    return TERN_OK;
}

static enum tern_status from_few_known(struct sampler *sampler, size_t wanted,
                                       struct proposal *proposal)
{
    const struct known *known = &sampler->known;
    for (size_t i = 0; known->n && i < wanted; i++)
        propose_known(known, rand_below(stream_next(&sampler->orders), known->n), proposal);
    return TERN_OK;
}

static void propose_at(const struct target *target, uint64_t position, struct proposal *proposal)
{
    if (target_has(target, position))
        proposal->keys[proposal->n++] = target_key(target, position);
}

static enum tern_status from_near(struct sampler *sampler, size_t wanted, struct proposal *proposal)
{
    const struct sampler_options *options = &sampler->options;
    uint64_t n_near = options->near_end - options->near_begin;
    for (size_t i = 0; n_near && i < wanted; i++)
        propose_at(options->target,
                   options->near_begin + rand_below(stream_next(&sampler->orders), n_near),
                   proposal);
    return TERN_OK;
}

/* The next keys of the target, however few are wanted. */
static enum tern_status from_search(struct sampler *sampler, size_t wanted,
                                    struct proposal *proposal)
{
    (void)wanted;
    const struct target *target = sampler->options.target;
    uint64_t *at = &sampler->known.searched;
    for (size_t i = 0; i < DRAW_ASK && i < target->n; i++) {
        propose_at(target, *at, proposal);
        *at = *at + 1 < target->n ? *at + 1 : 0;
    }
    return TERN_OK;
}

static void remember(struct known *known, uint64_t key)
{
    if (known->n < N_KNOWN) {
        known->keys[known->n++] = key;
        return;
    }
    known->keys[known->oldest] = key;
    known->oldest = (known->oldest + 1) % N_KNOWN;
}

/* The key at a position has gone, unless the position has another by now. */
static void forget(struct known *known, uint32_t position, uint64_t key)
{
    if (position < known->n && known->keys[position] == key)
        known->keys[position] = known->keys[--known->n];
}

/* Takes at most n of the proposed keys, those that are here, and returns their number. */
static size_t take_what_is_here(struct sampler *sampler, const struct proposal *proposal,
                                uint64_t *keys, size_t n, const struct surroundings *around)
{
    bool here[DRAW_ASK];
    size_t n_taken = 0;
    around->here(around->context, proposal->keys, proposal->n, here);
    for (size_t i = 0; i < proposal->n; i++) {
        if ((here[i] || defect(DEFECT_LOCAL_ANYWHERE)) && n_taken < n)
            keys[n_taken++] = proposal->keys[i];
        if (here[i] && !proposal->known)
            remember(&sampler->known, proposal->keys[i]);
        if (!here[i] && proposal->known)
            forget(&sampler->known, proposal->positions[i], proposal->keys[i]);
    }
    return n_taken;
}

/* Draws n keys, at most DRAW_ASK. */
static enum tern_status draw_local(struct sampler *sampler, uint64_t *keys, size_t n,
                                   const struct surroundings *around)
{
    static propose_function *const sources[] = {from_target, from_target, from_known,
                                                from_near,   from_search, from_few_known};
    size_t n_taken = 0;
    for (size_t i = 0; n_taken < n && i < sizeof sources / sizeof *sources; i++) {
        struct proposal proposal;
        proposal.n = 0;
        proposal.known = false;
        enum tern_status status = sources[i](sampler, n - n_taken, &proposal);
        if (status)
            return status;
        n_taken += take_what_is_here(sampler, &proposal, keys + n_taken, n - n_taken, around);
    }
    return target_draw(sampler->options.target, &sampler->draws, keys + n_taken, n - n_taken);
}

/* ---- Samples ----------------------------------------------------------------------------------- */

static enum tern_status make_room(struct sample *sample, size_t n)
{
    if (n <= sample->capacity)
        return TERN_OK;
    uint64_t *keys = n > SIZE_MAX / sizeof *keys ? NULL : realloc(sample->keys, n * sizeof *keys);
    if (!keys)
        return fail(TERN_NO_MEMORY, "no memory for a sample of %zu keys", n);
    sample->keys = keys;
    sample->capacity = n;
    return TERN_OK;
}

/* Chooses the n keys of a sample. */
static enum tern_status choose(struct sampler *sampler, uint64_t *keys, size_t n,
                               const struct surroundings *around)
{
    if (reuses(sampler))
        return draw_from_pools(sampler, keys, n, around);
    enum tern_status status = target_draw(sampler->options.target, &sampler->draws, keys, n);
    if (!status)
        around->want(around->context, keys, n, sample_horizon(sampler, around));
    return status;
}

enum tern_status sample_begin(struct sample *sample, struct sampler *sampler, size_t n,
                              const struct surroundings *around)
{
    enum tern_status status = TERN_OK;
    if (sampler->options.conformity != TERN_NON_CONFORM) {
        status = make_room(sample, n);
        if (!status)
            status = choose(sampler, sample->keys, n, around);
    }
    if (status)
        return status;
    *sample = (struct sample){
        .sampler = sampler,
        .n_left = n,
        .keys = sample->keys,
        .n = n,
        .capacity = sample->capacity,
        .since = around->clock,
        .until = sample_horizon(sampler, around),
    };
    sampler->lives.n_open++;
    return TERN_OK;
}

/* A key of a sample will be handed out when all others have had their turn. */
static void put_off(struct sample *sample, uint64_t key)
{
    if (!defect(DEFECT_POSTPONED_LOST))
        sample->keys[sample->n_put_off] = key;
    sample->n_put_off++;
}

/* Hands out keys in their order, but puts off those that are not here; when all have had their turn,
 * hands out those. */
static void take_postponing(struct sample *sample, uint64_t *keys, size_t n,
                            const struct surroundings *around)
{
    size_t n_taken = 0, n_put_off = sample->n_put_off;
    if (defect(DEFECT_POSTPONED_TWICE) && sample->next == sample->n && !sample->n_late) {
        sample->n = n_put_off;
        sample->next = sample->n_put_off = n_put_off = 0;
    }
    while (n_taken < n && sample->next < sample->n) {
        bool here[DRAW_ASK];
        size_t block = least(least(n - n_taken, sample->n - sample->next), DRAW_ASK);
        around->here(around->context, sample->keys + sample->next, block, here);
        for (size_t i = 0; i < block; i++) {
            uint64_t key = sample->keys[sample->next++];
            if (here[i])
                keys[n_taken++] = key;
            else
                put_off(sample, key);
        }
    }
    if (sample->n_put_off > n_put_off)
        around->want(around->context, sample->keys + n_put_off, sample->n_put_off - n_put_off,
                     sample_horizon(sample->sampler, around));
    sample->last_late = n - n_taken;
    while (n_taken < n)
        keys[n_taken++] = sample->keys[sample->n_late++];
}

static enum tern_status take_local(struct sample *sample, uint64_t *keys, size_t n,
                                   const struct surroundings *around)
{
    enum tern_status status = TERN_OK;
    for (size_t done = 0, block; !status && done < n; done += block) {
        block = least(n - done, DRAW_ASK);
        status = draw_local(sample->sampler, keys + done, block, around);
    }
    return status;
}

/* A sample that is open longer than expected says so: the keys it has still to hand out stay wanted. */
static void want_rest(struct sample *sample, const struct surroundings *around)
{
    if (around->clock + 1 < sample->until || sample->next == sample->n)
        return;
    sample->until = sample_horizon(sample->sampler, around);
    around->want(around->context, sample->keys + sample->next, sample->n - sample->next,
                 sample->until);
}

enum tern_status sample_take(struct sample *sample, uint64_t *keys, size_t n,
                             const struct surroundings *around)
{
    enum tern_conformity conformity = sample->sampler->options.conformity;
    if (conformity == TERN_NON_CONFORM) {
        enum tern_status status = take_local(sample, keys, n, around);
        if (status)
            return status;
    } else if (conformity == TERN_LONG_TERM) {
        take_postponing(sample, keys, n, around);
    } else {
        for (size_t i = 0; i < n; i++)
            keys[i] = sample->keys[sample->next + i];
        sample->next += n;
    }
    if (conformity != TERN_NON_CONFORM)
        want_rest(sample, around);
    sample->n_left -= n;
    return TERN_OK;
}

void sample_return(struct sample *sample, const uint64_t *keys, size_t n)
{
    enum tern_conformity conformity = sample->sampler->options.conformity;
    sample->n_left += n;
    if (conformity == TERN_LONG_TERM) {
        /* Those that had been put off are where they were; the others are put off now. */
        sample->n_late -= sample->last_late;
        for (size_t i = 0; i < n - sample->last_late; i++)
            put_off(sample, keys[defect(DEFECT_GIVEN_BACK_LOST) ? 0 : i]);
    } else if (conformity != TERN_NON_CONFORM) {
        sample->next -= n;
    }
}

void sample_finish(struct sample *sample, uint64_t clock)
{
    struct lives *lives = &sample->sampler->lives;
    lives->n_open--;
    /* One that is given up unused, as the rest of a queue, says nothing about the others. */
    if (sample->n_left < sample->n)
        lives_note(lives, sample->since, clock);
    sample->sampler = NULL;
}
