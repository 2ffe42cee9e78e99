/*
 * placement - reads the folder of `tern partition` for training: which node learns from which row of the data, and where the
 * keys are at home. Parts may be a multiple of the nodes; parts that follow each other go to one node, so that parts
 * of one host (--hosts) stay together.
 *
 * A row is named by its number in the data, from 0 on, and a key as in the data.
 */
#ifndef TASKS_PLACEMENT_H
#define TASKS_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <tern/tern.h>

struct placement {
    const char *folder; /* NULL: there is no placement */
    uint32_t n_parts;
    uint64_t n_rows, n_keys, n_replicas;
    uint32_t *row_nodes;     /* by row */
    uint64_t *keys;          /* ascending, */
    uint32_t *homes;         /* and their nodes */
    uint64_t *replica_keys;  /* keys with replicas, ascending, */
    uint32_t *replica_nodes; /* and a node that has one */
};

/* placement_fini() is due in any case. */
bool placement_read(struct placement *placement, const char *folder, uint32_t n_nodes);
void placement_fini(struct placement *placement);

/* The node at which a key is at home; false if the placement does not name the key. */
bool placement_home(const struct placement *placement, uint64_t key, uint32_t *node);

/* The nodes that have replicas of a key, n of them; a node may come twice, if it has several parts. */
const uint32_t *placement_replicas(const struct placement *placement, uint64_t key, uint64_t *n);

/* All keys of the placement, for a table that has the keys of the data. */
struct tern_placement placement_of_keys(const struct placement *placement);

#endif
