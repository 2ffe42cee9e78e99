/*
 * sample - the public calls on distributions and samples. See tern.h; core/draw.h chooses the keys.
 *
 * A worker keeps a sampler for every distribution it has used, and a row of seats for the samples it has
 * prepared; both are used by its own thread alone. The lower bits of a sample's number say which seat it
 * has, the upper ones how often that seat has been taken, so that the number of an ended sample is
 * recognised.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/draw.h"
#include "core/manager.h"

struct tern_dist {
    struct handle handle;
    struct tern_node *node;
    struct tern_table *table;
    uint32_t id;     /* its place in node->dists and in struct sampling */
    uint64_t stream; /* from which the workers' random streams are made */
    enum tern_conformity conformity;
    uint32_t pool_keys, pool_uses;
    struct target target;
};

enum { SEAT_BITS = 20 };
_Static_assert(TERN_MAX_SAMPLES == 1 << SEAT_BITS,
               "the bits of a number that say which seat it is");

/* Room for a sample. */
struct seat {
    struct sample sample;
    struct tern_dist *dist; /* NULL: free */
    uint64_t n_taken;       /* how often */
    uint32_t next_free;     /* 1 + the number of the next free one; 0: none */
};

struct sampling {
    struct sampler *samplers[TERN_MAX_DISTS];
    _Atomic uint32_t n_open[TERN_MAX_DISTS]; /* samples of each distribution */
    struct seat *seats;
    uint32_t n_seats, free; /* 1 + the first free one; 0: none */
};

/* ---- Distributions ----------------------------------------------------------------------------- */

/* Gives a distribution a place and what names its random numbers: those that are open at the same time have different
 * ones, and one that is opened in place of another, with the same seed, has the same. */
static enum tern_status add_dist(struct tern_dist *dist, uint64_t seed)
{
    struct tern_node *node = dist->node;
    uint64_t self = node->engine ? node->engine->core.node : 0;
    enum tern_status status = TERN_OK;
    uint32_t id = 0;
    lock_take(&node->lock);
    while (id < TERN_MAX_DISTS && node->dists[id])
        id++;
    if (id == TERN_MAX_DISTS) {
        status = fail(TERN_LIMIT,
                      "a distribution on table '%s' would be one more than the %d a node can have",
                      dist->table->core.store.name, TERN_MAX_DISTS);
    } else {
        dist->id = id;
        dist->stream = rand_at(rand_at(hash_u64(seed), self), id);
        dist->table->n_dists++;
        node->dists[id] = dist;
    }
    lock_release(&node->lock);
    return status;
}

enum tern_status tern_dist_open(struct tern_table *table, const struct tern_target *target,
                                enum tern_conformity conformity, struct tern_dist **dist)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    const struct store *store = &table->core.store;
    if (!target)
        return fail(TERN_INVALID, "table '%s': the target is NULL", store->name);
    if (!dist)
        return fail(TERN_INVALID, "tern_dist_open: the pointer `dist` for the result is NULL");
    if ((unsigned)conformity > TERN_NON_CONFORM)
        return fail(TERN_INVALID, "table '%s': conformity %d is unknown", store->name,
                    (int)conformity);
    struct tern_dist *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "no memory for a distribution on table '%s'", store->name);
    enum tern_status status = target_init(&made->target, target, store->name, store->last_key);
    if (status) {
        free(made);
        return status;
    }
    made->node = table->node;
    made->table = table;
    made->conformity = conformity;
    made->pool_keys = target->pool_keys;
    made->pool_uses = target->pool_uses;
    status = add_dist(made, target->seed);
    if (status) {
        target_fini(&made->target);
        free(made);
        return status;
    }
    handle_init(&made->handle, HANDLE_DIST);
    *dist = made;
    return TERN_OK;
}

/* Forgets a distribution of which no sample is open. The caller holds the node's lock. */
static void end_dist(struct tern_dist *dist)
{
    struct tern_node *node = dist->node;
    for (struct tern_worker *worker = node->workers; worker; worker = worker->next)
        if (worker->sampling) {
            sampler_free(worker->sampling->samplers[dist->id]);
            worker->sampling->samplers[dist->id] = NULL;
        }
    node->dists[dist->id] = NULL;
    dist->table->n_dists--;
    target_fini(&dist->target);
    handle_close(&dist->handle);
}

enum tern_status tern_dist_close(struct tern_dist *dist)
{
    if (!handle_is((const struct handle *)dist, HANDLE_DIST))
        return handle_refuse((const struct handle *)dist, HANDLE_DIST);
    struct tern_node *node = dist->node;
    enum tern_status status = TERN_OK;
    uint64_t n_open = 0;
    lock_take(&node->lock);
    for (const struct tern_worker *worker = node->workers; worker; worker = worker->next)
        if (worker->sampling)
            /* Acquire: partner of the release in end_sample. */
            n_open +=
                atomic_load_explicit(&worker->sampling->n_open[dist->id], memory_order_acquire);
    if (n_open)
        status =
            fail(TERN_BUSY,
                 "%" PRIu64 " sample%s of a distribution on table '%s' %s still open; pull or end "
                 "%s first",
                 n_open, n_open == 1 ? "" : "s", dist->table->core.store.name,
                 n_open == 1 ? "is" : "are", n_open == 1 ? "it" : "them");
    else
        end_dist(dist);
    lock_release(&node->lock);
    return status;
}

void sample_end_table(struct tern_table *table)
{
    for (size_t i = 0; table->n_dists && i < TERN_MAX_DISTS; i++)
        if (table->node->dists[i] && table->node->dists[i]->table == table)
            end_dist(table->node->dists[i]);
}

void sample_end_worker(struct tern_worker *worker)
{
    struct sampling *sampling = worker->sampling;
    if (!sampling)
        return;
    for (size_t i = 0; i < TERN_MAX_DISTS; i++)
        sampler_free(sampling->samplers[i]);
    for (size_t i = 0; i < sampling->n_seats; i++)
        free(sampling->seats[i].sample.keys);
    free(sampling->seats);
    free(sampling);
}

/* ---- Where keys are ---------------------------------------------------------------------------- */

/* Whom a sampler asks about the keys of a table. */
struct asker {
    struct tern_worker *worker;
    struct tern_table *table;
    uint64_t clock; /* the worker's */
};

/* A key can be reached without the network if its row is here, or will be made
 * here when it is used. */
static bool is_here(const struct store *store, uint64_t key)
{
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    return entry_has_row(word) || (entry_state(word) == ENTRY_NONE && store_is_home(store, key));
}

static void prefetch(const struct store *store, uint64_t key)
{
    if (store->index == TERN_DENSE)
        __builtin_prefetch(&store->dense[key]);
    else
        __builtin_prefetch(sparse_line(store->sparse, key));
}

static void say_what_is_here(void *context, const uint64_t *keys, size_t n, bool *here)
{
    const struct store *store = &((const struct asker *)context)->table->core.store;
    for (size_t i = 0; i < n; i++)
        prefetch(store, keys[i]);
    for (size_t i = 0; i < n; i++)
        here[i] = is_here(store, keys[i]);
}

static uint64_t clock_of(struct tern_worker *worker)
{
    uint64_t clock = 0;
    (void)tern_worker_clock(worker, &clock);
    return clock;
}

/* Has keys brought here, as the table's policy does it. Both ways are hints: what cannot be kept is no
 * failure, because keys can also be reached where they are. */
static void bring(void *context, const uint64_t *keys, size_t n, uint64_t until)
{
    const struct asker *asker = context;
    struct tern_worker *worker = asker->worker;
    enum intent_kind kind = intent_kind_of(asker->table, BY_LOCALIZE);
    if (kind)
        (void)intent_add(worker, asker->table, kind, keys, n, 0, 0);
    else
        (void)tern_intent(worker, asker->table, keys, n, asker->clock, until);
}

/* On a single node everything is here. */
static void say_all_is_here(void *context, const uint64_t *keys, size_t n, bool *here)
{
    (void)context;
    (void)keys;
    memset(here, true, n);
}

static void bring_nothing(void *context, const uint64_t *keys, size_t n, uint64_t until)
{
    (void)context;
    (void)keys;
    (void)n;
    (void)until;
}

static struct surroundings look_around(struct asker *asker, uint64_t now_ns)
{
    bool alone = !asker->worker->remote;
    return (struct surroundings){
        .here = alone ? say_all_is_here : say_what_is_here,
        .want = alone ? bring_nothing : bring,
        .context = asker,
        .clock = asker->clock,
        .now_ns = now_ns,
    };
}

/* ---- Samples ----------------------------------------------------------------------------------- */

/* The positions in a target of the keys that are at home here, where they are a range. */
static void find_near(const struct tern_dist *dist, uint64_t *begin, uint64_t *end)
{
    const struct store *store = &dist->table->core.store;
    const struct target *target = &dist->target;
    *begin = *end = 0;
    if (store->index != TERN_DENSE || target->keys || target->function)
        return;
    uint64_t first = store->home.begin > target->begin ? store->home.begin : target->begin;
    uint64_t last = target->begin + target->n;
    last = store->home.end < last ? store->home.end : last;
    if (first >= last)
        return;
    *begin = first - target->begin;
    *end = last - target->begin;
}

static enum tern_status out_of_memory(const struct tern_dist *dist)
{
    return fail(TERN_NO_MEMORY, "no memory to draw samples of table '%s'",
                dist->table->core.store.name);
}

/* What a worker needs to draw, made when it first does. Others look at it under the lock. */
static enum tern_status find_sampling(struct tern_worker *worker, const struct tern_dist *dist)
{
    if (worker->sampling)
        return TERN_OK;
    struct sampling *made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory(dist);
    lock_take(&worker->node->lock);
    worker->sampling = made;
    lock_release(&worker->node->lock);
    return TERN_OK;
}

/* This worker's sampler for a distribution, likewise. */
static enum tern_status find_sampler(struct tern_worker *worker, const struct tern_dist *dist,
                                     struct sampler **sampler)
{
    enum tern_status status = find_sampling(worker, dist);
    if (status)
        return status;
    struct sampler **slot = &worker->sampling->samplers[dist->id];
    if (!*slot) {
        struct sampler_options options = {
            .target = &dist->target,
            .conformity = dist->conformity,
            .stream = rand_at(dist->stream, worker->number),
            .pool_keys = dist->pool_keys,
            .pool_uses = dist->pool_uses,
        };
        find_near(dist, &options.near_begin, &options.near_end);
        *slot = sampler_new(&options);
    }
    *sampler = *slot;
    return *slot ? TERN_OK : out_of_memory(dist);
}

/* Makes sure that there is a free seat. */
static enum tern_status make_seats(struct sampling *sampling)
{
    if (sampling->free)
        return TERN_OK;
    if (sampling->n_seats == TERN_MAX_SAMPLES)
        return fail(TERN_LIMIT, "the worker has %d samples open and cannot have more",
                    TERN_MAX_SAMPLES);
    uint32_t n = sampling->n_seats ? 2 * sampling->n_seats : 16;
    struct seat *seats = realloc(sampling->seats, n * sizeof *seats);
    if (!seats)
        return fail(TERN_NO_MEMORY, "no memory for another sample beside %" PRIu32 " open ones",
                    sampling->n_seats);
    for (uint32_t i = sampling->n_seats; i < n; i++)
        seats[i] = (struct seat){.next_free = i + 1 < n ? i + 2 : 0};
    sampling->free = sampling->n_seats + 1;
    sampling->seats = seats;
    sampling->n_seats = n;
    return TERN_OK;
}

static enum tern_status check_prepare(const struct tern_worker *worker,
                                      const struct tern_dist *dist, size_t n,
                                      const uint64_t *sample)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!handle_is((const struct handle *)dist, HANDLE_DIST))
        return handle_refuse((const struct handle *)dist, HANDLE_DIST);
    if (worker->node != dist->node)
        return fail(TERN_MISMATCH,
                    "a distribution on table '%s' belongs to another node than the worker",
                    dist->table->core.store.name);
    if (!n)
        return fail(TERN_INVALID, "a sample of table '%s' of 0 keys was asked for",
                    dist->table->core.store.name);
    if (!sample)
        return fail(TERN_INVALID,
                    "tern_sample_prepare: the pointer `sample` for the result is NULL");
    return TERN_OK;
}

enum tern_status tern_sample_prepare(struct tern_worker *worker, struct tern_dist *dist, size_t n,
                                     uint64_t *sample)
{
    struct sampler *sampler = NULL;
    enum tern_status status = check_prepare(worker, dist, n, sample);
    if (!status)
        status = find_sampler(worker, dist, &sampler);
    if (!status)
        status = make_seats(worker->sampling);
    if (status)
        return status;
    struct sampling *sampling = worker->sampling;
    uint32_t number = sampling->free - 1;
    struct seat *seat = &sampling->seats[number];
    struct asker asker = {worker, dist->table, clock_of(worker)};
    struct surroundings around = look_around(&asker, clock_now_ns());
    status = sample_begin(&seat->sample, sampler, n, &around);
    if (status)
        return status;
    sampling->free = seat->next_free;
    atomic_fetch_add_explicit(&sampling->n_open[dist->id], 1, memory_order_relaxed);
    seat->dist = dist;
    seat->n_taken++;
    *sample = seat->n_taken << SEAT_BITS | number;
    return TERN_OK;
}

/* The seat of an open sample. */
static enum tern_status find_sample(const struct tern_worker *worker, uint64_t sample,
                                    struct seat **seat)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    uint64_t number = sample % TERN_MAX_SAMPLES, n_taken = sample >> SEAT_BITS;
    const struct sampling *sampling = worker->sampling;
    if (!sampling || number >= sampling->n_seats || !n_taken ||
        n_taken > sampling->seats[number].n_taken)
        return fail(TERN_INVALID, "sample %" PRIu64 " was not prepared by this worker", sample);
    *seat = &sampling->seats[number];
    if (n_taken < (*seat)->n_taken || !(*seat)->dist)
        return fail(TERN_CLOSED,
                    "sample %" PRIu64 " is over: all its keys were pulled, or it was ended",
                    sample);
    return TERN_OK;
}

static void end_sample(struct tern_worker *worker, struct seat *seat)
{
    struct sampling *sampling = worker->sampling;
    uint32_t dist = seat->dist->id;
    sample_finish(&seat->sample, clock_of(worker));
    seat->dist = NULL;
    seat->next_free = sampling->free;
    sampling->free = (uint32_t)(seat - sampling->seats) + 1;
    /* Release: what the sampler of this distribution was used for is over, and it may be freed. */
    atomic_fetch_sub_explicit(&sampling->n_open[dist], 1, memory_order_release);
}

void sample_end_open(struct tern_worker *worker)
{
    struct sampling *sampling = worker->sampling;
    for (uint32_t i = 0; sampling && i < sampling->n_seats; i++)
        if (sampling->seats[i].dist)
            end_sample(worker, &sampling->seats[i]);
}

enum tern_status tern_sample_pull(struct tern_worker *worker, uint64_t sample, size_t n,
                                  uint64_t *keys, void *values)
{
    struct seat *seat = NULL;
    enum tern_status status = find_sample(worker, sample, &seat);
    if (status || !n)
        return status;
    struct tern_table *table = seat->dist->table;
    if (!keys)
        return fail(TERN_INVALID, "table '%s': the pointer `keys` is NULL", table->core.store.name);
    if (n > seat->sample.n_left)
        return fail(TERN_INVALID,
                    "%zu keys were asked for of sample %" PRIu64 " of table '%s', which has %zu of "
                    "%zu left",
                    n, sample, table->core.store.name, seat->sample.n_left, seat->sample.n);
    struct asker asker = {worker, table, clock_of(worker)};
    struct surroundings around = look_around(&asker, 0);
    status = sample_take(&seat->sample, keys, n, &around);
    if (status)
        return status;
    if (values)
        status = tern_pull(worker, table, keys, n, values);
    if (status)
        sample_return(&seat->sample, keys, n);
    else if (!seat->sample.n_left)
        end_sample(worker, seat);
    return status;
}

enum tern_status tern_sample_end(struct tern_worker *worker, uint64_t sample)
{
    struct seat *seat = NULL;
    enum tern_status status = find_sample(worker, sample, &seat);
    if (!status)
        end_sample(worker, seat);
    return status;
}
