/*
 * placed - the homes of keys that a program chose (tern_table_options.placement), or of a dense table whose homes are scattered.
 * A key that a placement does not name is at home where it would be without: on the ring, in a range or scattered (placement.h).
 *
 * It is made before its table and freed after it, and does not change: any thread may call anything else here.
 */
#ifndef CORE_PLACED_H
#define CORE_PLACED_H

#include "base/keymap.h"
#include "base/status.h"
#include "core/view.h"

struct core;

struct placed {
    const struct core *core;
    enum tern_index index;
    bool scatters;
    uint64_t n_keys;     /* dense */
    struct keymap homes; /* of the keys that are named: node + 1 */
    uint64_t n_here;     /* dense: how many keys are at home at this node, whether named or not */
};

/* What the options of a table say of homes as a number, whatever the order of a placement: nodes that give different ones
 * notice. 0: nothing. */
uint64_t placed_digest(const struct tern_table_options *options);

/* Checks the placement of a table's options against the table and the cluster, and copies its homes. `core` is NULL at a single
 * node; `as` is the same, or that of the member as whom the keys are here (core.h): homes are then leaders. *placed is NULL, and the status TERN_OK, if homes are as ever. */
enum tern_status placed_new(const struct core *core, const struct core *as, const char *name,
                            const struct tern_table_options *options, struct placed **placed);
void placed_free(struct placed *placed);

uint32_t placed_home(const struct placed *placed, uint64_t key);

/* Whether a key is at home at this node: `has` of a store, whose context is the placement. */
bool placed_has(const void *context, uint64_t key);

#endif
