/* placement - see placement.h. */
#include "common/placement.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/npy.h"
#include "common/rng.h"
#include "common/sentence.h"

enum { MAX_PARTS = 4096, MAX_PATH = 4096 };

static FILE *open_text(const char *folder, const char *name, char path[MAX_PATH])
{
    snprintf(path, MAX_PATH, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        task_fail("cannot open %s: %s", path, strerror(errno));
    return file;
}

/* partition.txt: "name value" per line. */
static bool read_facts(struct placement *placement)
{
    char path[MAX_PATH], name[64];
    double value;
    FILE *file = open_text(placement->folder, "partition.txt", path);
    if (file == NULL)
        return false;
    while (fscanf(file, "%63s %lf", name, &value) == 2) {
        if (strcmp(name, "parts") == 0 && value >= 1 && value <= MAX_PARTS)
            placement->n_parts = (uint32_t)value;
        if (strcmp(name, "rows") == 0 && value >= 1 && value < 1e12)
            placement->n_rows = (uint64_t)value;
    }
    fclose(file);
    return (placement->n_parts && placement->n_rows) ||
           task_fail("%s does not say how many parts and rows there are", path);
}

/* rows.txt: the part of each row. */
static bool read_rows(struct placement *placement)
{
    char path[MAX_PATH];
    placement->row_parts = malloc(placement->n_rows * sizeof *placement->row_parts);
    if (placement->row_parts == NULL)
        return task_fail_memory("the placement");
    FILE *file = open_text(placement->folder, "rows.txt", path);
    if (file == NULL)
        return false;
    bool ok = true;
    for (uint64_t i = 0; ok && i < placement->n_rows; i++) {
        uint32_t part;
        ok = (fscanf(file, "%" SCNu32, &part) == 1 && part < placement->n_parts) ||
             task_fail("%s:%" PRIu64 ": this is not a part below %" PRIu32, path, i + 1,
                       placement->n_parts);
        if (!ok)
            break;
        placement->row_parts[i] = part;
        placement->digest = rng_mix(placement->digest + part);
    }
    fclose(file);
    return ok;
}

static bool read_frequencies(struct placement *placement)
{
    uint64_t n;
    void *read = NULL;
    if (!npy_read_array(placement->folder, "frequencies.npy", "<u8", sizeof *placement->frequencies,
                        1, &n, &read))
        return false;
    placement->frequencies = read;
    return n == placement->n_keys ||
           task_fail("%s: keys.npy and frequencies.npy are not of one partition",
                     placement->folder);
}

/* Reads keys and, for each, a part, which becomes the part's node. */
static bool read_keys(const struct placement *placement, const char *keys_name,
                      const char *parts_name, uint32_t per_node, uint64_t *n, uint64_t **keys,
                      uint32_t **nodes)
{
    uint64_t n_parts = 0;
    void *read = NULL;
    if (!npy_read_array(placement->folder, keys_name, "<u8", sizeof **keys, 1, n, &read))
        return false;
    *keys = read;
    if (!npy_read_array(placement->folder, parts_name, "<u2", sizeof(uint16_t), 1, &n_parts, &read))
        return false;
    const uint16_t *parts = read;
    *nodes = malloc((*n + 1) * sizeof **nodes);
    bool ok = (n_parts == *n || task_fail("%s: %s and %s are not of one partition",
                                          placement->folder, keys_name, parts_name)) &&
              (*nodes != NULL || task_fail_memory("the placement"));
    for (uint64_t i = 0; ok && i < *n; i++) {
        ok = parts[i] < placement->n_parts ||
             task_fail("%s/%s: item %" PRIu64 " is part %u of %" PRIu32, placement->folder,
                       parts_name, i, parts[i], placement->n_parts);
        (*nodes)[i] = parts[i] / per_node;
    }
    free(read);
    return ok;
}

struct replica {
    uint64_t key;
    uint32_t node;
};

static int compare_replicas(const void *left, const void *right)
{
    const struct replica *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static bool sort_replicas(struct placement *placement)
{
    const uint64_t n = placement->n_replicas;
    struct replica *all = malloc((n + 1) * sizeof *all);
    if (all == NULL)
        return task_fail_memory("the placement");
    for (uint64_t i = 0; i < n; i++)
        all[i] = (struct replica){placement->replica_keys[i], placement->replica_nodes[i]};
    qsort(all, n, sizeof *all, compare_replicas);
    for (uint64_t i = 0; i < n; i++) {
        placement->replica_keys[i] = all[i].key;
        placement->replica_nodes[i] = all[i].node;
    }
    free(all);
    return true;
}

/* The first of n ascending keys that is not below `key`. */
static uint64_t find_key(const uint64_t *keys, uint64_t n, uint64_t key)
{
    uint64_t low = 0, high = n;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool placement_read(struct placement *placement, const char *folder, uint32_t n_nodes)
{
    *placement = (struct placement){.folder = folder};
    if (!read_facts(placement))
        return false;
    if (placement->n_parts % n_nodes)
        return task_fail("%s is a partition into %" PRIu32
                         " parts, which is no multiple of the %" PRIu32
                         " nodes; use 'tern partition --parts %" PRIu32 "'",
                         folder, placement->n_parts, n_nodes, n_nodes);
    const uint32_t per_node = placement->n_parts_per_node = placement->n_parts / n_nodes;
    bool ok =
        read_rows(placement) &&
        read_keys(placement, "keys.npy", "homes.npy", per_node, &placement->n_keys,
                  &placement->keys, &placement->homes) &&
        read_frequencies(placement) &&
        read_keys(placement, "replica_keys.npy", "replica_parts.npy", per_node,
                  &placement->n_replicas, &placement->replica_keys, &placement->replica_nodes) &&
        sort_replicas(placement);
    for (uint64_t i = 1; ok && i < placement->n_keys; i++)
        ok = placement->keys[i - 1] < placement->keys[i] ||
             task_fail("%s/keys.npy: keys do not ascend", folder);
    return ok;
}

void placement_fini(struct placement *placement)
{
    free(placement->row_parts);
    free(placement->keys);
    free(placement->homes);
    free(placement->frequencies);
    free(placement->replica_keys);
    free(placement->replica_nodes);
    *placement = (struct placement){0};
}

uint64_t placement_name_key(const char *name, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return rng_mix(hash);
}

bool placement_find(const struct placement *placement, uint64_t key, uint64_t *position)
{
    *position = find_key(placement->keys, placement->n_keys, key);
    return *position < placement->n_keys && placement->keys[*position] == key;
}

const uint32_t *placement_replicas(const struct placement *placement, uint64_t key, uint64_t *n)
{
    const uint64_t at = find_key(placement->replica_keys, placement->n_replicas, key);
    *n = 0;
    while (at + *n < placement->n_replicas && placement->replica_keys[at + *n] == key)
        ++*n;
    return placement->replica_nodes + at;
}

struct tern_placement placement_of_keys(const struct placement *placement)
{
    return (struct tern_placement){.keys = placement->keys,
                                   .homes = placement->homes,
                                   .n_keys = placement->n_keys,
                                   .frequencies = placement->frequencies,
                                   .replica_keys = placement->replica_keys,
                                   .replica_nodes = placement->replica_nodes,
                                   .n_replicas = placement->n_replicas};
}

/* ---- Tables with keys of their own ----------------------------------------------------------- */

bool placing_init(struct placing *placing, const struct placement *source, size_t n_keys,
                  size_t n_per_key)
{
    const size_t n_replicas = source->n_replicas * n_per_key;
    *placing = (struct placing){
        .source = source,
        .keys = malloc((n_keys + 1) * sizeof *placing->keys),
        .homes = malloc((n_keys + 1) * sizeof *placing->homes),
        .frequencies = malloc((n_keys + 1) * sizeof *placing->frequencies),
        .replica_keys = malloc((n_replicas + 1) * sizeof *placing->replica_keys),
        .replica_nodes = malloc((n_replicas + 1) * sizeof *placing->replica_nodes)};
    placing->placement = (struct tern_placement){.keys = placing->keys,
                                                 .frequencies = placing->frequencies,
                                                 .homes = placing->homes,
                                                 .replica_keys = placing->replica_keys,
                                                 .replica_nodes = placing->replica_nodes};
    return (placing->keys != NULL && placing->homes != NULL && placing->frequencies != NULL &&
            placing->replica_keys != NULL && placing->replica_nodes != NULL) ||
           task_fail_memory("the placement");
}

void placing_fini(struct placing *placing)
{
    free(placing->keys);
    free(placing->homes);
    free(placing->frequencies);
    free(placing->replica_keys);
    free(placing->replica_nodes);
}

void placing_put(struct placing *placing, uint64_t key, uint32_t home, uint64_t frequency)
{
    const size_t n = placing->placement.n_keys++;
    placing->keys[n] = key;
    placing->homes[n] = home;
    placing->frequencies[n] = frequency;
}

void placing_add(struct placing *placing, uint64_t key, uint64_t data_key)
{
    struct tern_placement *placed = &placing->placement;
    uint64_t n_nodes, at;
    if (placement_find(placing->source, data_key, &at))
        placing_put(placing, key, placing->source->homes[at], placing->source->frequencies[at]);
    const uint32_t *nodes = placement_replicas(placing->source, data_key, &n_nodes);
    for (uint64_t k = 0; k < n_nodes; k++) {
        placing->replica_keys[placed->n_replicas] = key;
        placing->replica_nodes[placed->n_replicas++] = nodes[k];
    }
}

bool placing_check(const struct placing *placing, const char *what)
{
    return placing->placement.n_keys > 0 ||
           task_fail("--placement %s names none of the %s; it is the partition of other data",
                     placing->source->folder, what);
}
