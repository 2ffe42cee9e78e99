/*
 * placement - reads the folder of `tern partition` for training: which node learns from which row of the data, and where the
 * keys are at home. Parts may be a multiple of the nodes; parts that follow each other go to one node, so that parts
 * of one host (--hosts) stay together.
 *
 * A row is named by its number in the data, from 0 on, and a key as in the data; where the data have names instead of numbers,
 * by placement_name_key().
 */
#ifndef TASKS_PLACEMENT_H
#define TASKS_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tern/tern.h>

struct placement {
    const char *folder; /* NULL: there is no placement */
    uint32_t n_parts;
    uint64_t n_rows, n_keys, n_replicas;
    uint64_t digest;     /* of the parts of all rows */
    uint32_t *row_parts; /* by row */
    uint32_t n_parts_per_node;
    uint64_t *keys;          /* ascending, */
    uint32_t *homes;         /* and their nodes, */
    uint64_t *frequencies;   /* and how many entries of the data have each */
    uint64_t *replica_keys;  /* keys with replicas, ascending, */
    uint32_t *replica_nodes; /* and a node that has one */
};

/* placement_fini() is due in any case. */
bool placement_read(struct placement *placement, const char *folder, uint32_t n_nodes);
void placement_fini(struct placement *placement);

/* The node that learns from a row. */
static inline uint32_t placement_row(const struct placement *placement, uint64_t row)
{
    return placement->row_parts[row] / placement->n_parts_per_node;
}

/* The key that stands for a name, such as a word. */
uint64_t placement_name_key(const char *name, size_t length);

/* The position of a key among `keys`; false if the placement does not name the key. */
bool placement_find(const struct placement *placement, uint64_t key, uint64_t *position);

/* The nodes that have replicas of a key, n of them; a node may come twice, if it has several parts. */
const uint32_t *placement_replicas(const struct placement *placement, uint64_t key, uint64_t *n);

/* The placement of a table whose keys are not those of the data, in arrays of its own. */
struct placing {
    const struct placement *source;
    uint64_t *keys, *frequencies, *replica_keys;
    uint32_t *homes, *replica_nodes;
    struct tern_placement placement;
};

/* For at most n_keys keys of the table, of which n_per_key belong to each key of the data. placing_fini() is due in any case. */
bool placing_init(struct placing *placing, const struct placement *source, size_t n_keys,
                  size_t n_per_key);
void placing_fini(struct placing *placing);

/* A key of the table has this home. */
void placing_put(struct placing *placing, uint64_t key, uint32_t home, uint64_t frequency);

/* A key of the table has its home, its frequency and its replicas where the placement has those of a key of the data, if it names it. */
void placing_add(struct placing *placing, uint64_t key, uint64_t data_key);

/* Whether the placement names any key; `what` says what the keys are. */
bool placing_check(const struct placing *placing, const char *what);

/* All keys of the placement, for a table that has the keys of the data. */
struct tern_placement placement_of_keys(const struct placement *placement);

#endif
