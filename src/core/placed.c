/* placed - see placed.h. */
#include "core/placed.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/core.h"
#include "core/defect.h"

/* The numbers of all items are added, so their order does not count. */
uint64_t placed_digest(const struct tern_table_options *options)
{
    static const uint64_t home_salt = UINT64_C(0x686f6d6573), copy_salt = UINT64_C(0x636f70696573),
                          scatter_salt = UINT64_C(0x73636174746572);
    const struct tern_placement *placement = options->placement;
    uint64_t sum = options->scatter ? hash_u64(scatter_salt) : 0;
    if (!placement)
        return sum;
    for (size_t i = 0; i < placement->n_keys; i++)
        sum += hash_u64(hash_u64(placement->keys[i] + home_salt) + placement->homes[i] +
                        (placement->frequencies ? hash_u64(placement->frequencies[i]) : 0));
    for (size_t i = 0; i < placement->n_replicas; i++)
        sum += hash_u64(hash_u64(placement->replica_keys[i] + copy_salt) +
                        placement->replica_nodes[i]);
    return sum ? sum : 1;
}

/* Whether all keys are in the table and all nodes in the cluster. */
static enum tern_status check_list(const struct view *view, const char *name,
                                   const struct tern_table_options *options, const char *what,
                                   const uint64_t *keys, const uint32_t *nodes, size_t n)
{
    if (n && (!keys || !nodes))
        return fail(TERN_INVALID, "table '%s': a pointer to the %s of `placement` is NULL", name,
                    what);
    for (size_t i = 0; i < n; i++) {
        if (options->index == TERN_DENSE && keys[i] >= options->n_keys)
            return fail(TERN_RANGE,
                        "table '%s' of %" PRIu64 " keys: `placement` has the %s of key %" PRIu64,
                        name, options->n_keys, what, keys[i]);
        if (!view_has(view, nodes[i]))
            return fail(TERN_RANGE,
                        "table '%s': `placement` has the %s of key %" PRIu64 " at node %" PRIu32
                        ", but the cluster has %" PRIu32 " node%s",
                        name, what, keys[i], nodes[i], view_n_nodes(view),
                        view_n_nodes(view) == 1 ? "" : "s");
    }
    return TERN_OK;
}

/* The node that is the home of keys which were given to this one. */
static uint32_t home_in(const struct placed *placed, const struct view *view, uint32_t node)
{
    const bool has_leaders = placed->core && placed->core->view != view;
    return has_leaders && !defect(DEFECT_PLACED_AT_FOLLOWER) ? view_leader(view, node) : node;
}

/* Copies the homes. */
static enum tern_status fill(struct placed *placed, const struct view *view, const char *name,
                             const struct tern_placement *placement)
{
    if (!keymap_reserve(&placed->homes, placement->n_keys))
        return fail(TERN_NO_MEMORY, "no memory for the placement of table '%s'", name);
    for (size_t i = 0; i < placement->n_keys; i++) {
        if (keymap_get(&placed->homes, placement->keys[i]))
            return fail(TERN_INVALID, "table '%s': `placement` names key %" PRIu64 " twice", name,
                        placement->keys[i]);
        keymap_set(&placed->homes, placement->keys[i],
                   home_in(placed, view, placement->homes[i]) + 1);
    }
    return TERN_OK;
}

/* The home of a key that no placement names. */
static uint32_t home_unnamed(const struct placed *placed, uint64_t key)
{
    const struct view *view = placed->core->view;
    if (placed->scatters)
        return scattered_home(view, key);
    return placed->index == TERN_DENSE ? range_home(view, key, placed->n_keys)
                                       : ring_home(view, key);
}

/* How many keys of a dense table are at home at this node. `placement` may be NULL. */
static uint64_t count_here(const struct placed *placed, const struct view *view,
                           const struct tern_placement *placement)
{
    const struct core *core = placed->core;
    uint64_t n = placed->scatters ? scattered_count(core->view, core->node, placed->n_keys)
                                  : range_end(core->view, core->node, placed->n_keys) -
                                        range_begin(core->view, core->node, placed->n_keys);
    for (size_t i = 0; placement && i < placement->n_keys; i++) {
        n += home_in(placed, view, placement->homes[i]) == core->node;
        n -= home_unnamed(placed, placement->keys[i]) == core->node;
    }
    return n;
}

/* Whether the options of a table about homes can be. */
static enum tern_status check_homes(const struct view *view, const char *name,
                                    const struct tern_table_options *options)
{
    const struct tern_placement *placement = options->placement;
    if (options->scatter && options->index != TERN_DENSE)
        return fail(TERN_INVALID,
                    "table '%s': `scatter` is for dense tables; the homes of other keys are "
                    "scattered in any case",
                    name);
    enum tern_status status = TERN_OK;
    if (placement)
        status = check_list(view, name, options, "home", placement->keys, placement->homes,
                            placement->n_keys);
    if (placement && !status)
        status = check_list(view, name, options, "replica", placement->replica_keys,
                            placement->replica_nodes, placement->n_replicas);
    return status;
}

enum tern_status placed_new(const struct core *core, const struct core *as, const char *name,
                            const struct tern_table_options *options, struct placed **placed)
{
    const struct tern_placement *placement = options->placement;
    const struct view *view = core ? core->view : &view_alone;
    *placed = NULL;
    enum tern_status status = check_homes(view, name, options);
    if (status || (!placement && !options->scatter))
        return status;
    struct placed *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "no memory for the placement of table '%s'", name);
    *made = (struct placed){.core = as,
                            .index = options->index,
                            .scatters = options->scatter,
                            .n_keys = options->n_keys};
    status = placement ? fill(made, view, name, placement) : TERN_OK;
    if (status) {
        placed_free(made);
        return status;
    }
    if (core && options->index == TERN_DENSE)
        made->n_here = count_here(made, view, placement);
    *placed = made;
    return TERN_OK;
}

void placed_free(struct placed *placed)
{
    if (!placed)
        return;
    keymap_free(&placed->homes);
    free(placed);
}

uint32_t placed_home(const struct placed *placed, uint64_t key)
{
    const uint32_t named = keymap_get(&placed->homes, key);
    if (named && !(defect(DEFECT_PLACEMENT_FORGOTTEN) && key % 8 == placed->core->node))
        return named - 1;
    if (defect(DEFECT_SCATTER_FORGOTTEN) && key % 8 == placed->core->node &&
        placed->index == TERN_DENSE)
        return range_home(placed->core->view, key, placed->n_keys);
    return home_unnamed(placed, key);
}

bool placed_has(const void *context, uint64_t key)
{
    const struct placed *placed = context;
    return placed_home(placed, key) == placed->core->node;
}
