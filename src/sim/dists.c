/* dists - see dists.h. */
#include "sim/dists.h"

/* Draws all keys alike, whatever their weights. */
static uint64_t draw_any(void *context, uint64_t random)
{
    const struct dist *dist = context;
    return dist->keys[rand_below(random, dist->n)];
}

/* Gives each key a weight, and the first and the last one that is not 0, so that what lies beside them
 * would be seen. */
static void choose_weights(struct dist *dist, enum tern_target_kind kind, struct stream *random)
{
    const bool weighted = kind == TERN_TARGET_WEIGHTS || kind == TERN_TARGET_COUNTS;
    for (size_t i = 0; i < dist->n; i++) {
        const bool inner = i && i + 1 < dist->n;
        uint64_t weight = rand_below(stream_next(random), 4) + !inner;
        dist->weights[i] = weighted ? (double)weight : 1;
    }
}

/* A dense table's keys are given as a range, those of a sparse one as a list. */
static bool make_target(struct dist *dist, enum tern_target_kind kind)
{
    const bool dense = dist->keys[0] == dist->first;
    uint64_t counts[DIST_KEYS];
    for (size_t i = 0; i < dist->n; i++)
        counts[i] = (uint64_t)dist->weights[i];
    const struct tern_target description = {.struct_size = sizeof description,
                                            .kind = kind,
                                            .begin = dense ? dist->first : 0,
                                            .end = dense ? dist->first + dist->n : dist->n,
                                            .keys = dense ? NULL : dist->keys,
                                            .weights = dist->weights,
                                            .counts = counts,
                                            .function = draw_any,
                                            .context = dist};
    return !target_init(&dist->target, &description, table_name(dist->table), UINT64_MAX);
}

static bool choose_dist(struct dist *dist, const struct tables *tables, struct stream *random)
{
    static const enum sim_table managed[] = {ADAPTIVE_COUNTS, MANAGED_COUNTS, UPDATED_COUNTS};
    static const size_t n_managed = sizeof managed / sizeof *managed;
    const enum tern_target_kind kind =
        (enum tern_target_kind)rand_below(stream_next(random), TERN_TARGET_FUNCTION + 1);
    dist->table = managed[rand_below(stream_next(random), n_managed)];
    dist->n = 2 + rand_below(stream_next(random), DIST_KEYS - 1);
    dist->first = (uint32_t)rand_below(stream_next(random), KEYS - dist->n + 1);
    for (size_t i = 0; i < dist->n; i++)
        dist->keys[i] = table_key(dist->table, dist->first + (uint32_t)i);
    dist->pool_keys = 1 + (uint32_t)rand_below(stream_next(random), MAX_POOL);
    dist->pool_uses = 1 + (uint32_t)rand_below(stream_next(random), 3);
    choose_weights(dist, kind, random);
    return (tables_managed(tables, dist->table) || tables->are_backed) && make_target(dist, kind);
}

bool dists_init(struct dists *dists, const struct tables *tables, uint64_t seed)
{
    struct stream random = {.name = seed};
    bool ready = true;
    for (int i = 0; ready && i < N_LEVELS; i++)
        ready = choose_dist(&dists->of[i], tables, &random);
    return ready;
}

void dists_fini(struct dists *dists)
{
    for (int i = 0; i < N_LEVELS; i++)
        target_fini(&dists->of[i].target);
}

size_t dist_find(const struct dist *dist, uint64_t key)
{
    size_t i = 0;
    while (i < dist->n && dist->keys[i] != key)
        i++;
    return i;
}
