/*
 * checkpoint_recover - rows that are lost, because more nodes died than there are backups, out of a checkpoint. See core/backup.h.
 *
 * The node to which an arc falls reads the rows of that arc, and of one shard, from the newest checkpoint that the table's option
 * `recover` names. It holds the locks of all shards meanwhile, as it does when it puts copies into the table: nobody sees a row
 * that is not there yet. A checkpoint that is damaged, or of a table of another shape, is not used: the keys stay lost.
 */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "core/backup.h"
#include "node/checkpoint.h"

enum { BLOCK_ROWS = 4096 };

/* ---- Which checkpoint --------------------------------------------------------------------------- */

/* When the checkpoint in a folder was completed; false: there is none. */
static bool is_complete(const char *folder, struct timespec *when)
{
    char file[PATH_MAX];
    struct stat status;
    const int n = snprintf(file, sizeof file, "%s/manifest.json", folder);
    if (n >= (int)sizeof file || stat(file, &status) != 0)
        return false;
    *when = status.st_mtim;
    return true;
}

static bool is_later(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec > other->tv_sec ||
           (one->tv_sec == other->tv_sec && one->tv_nsec > other->tv_nsec);
}

static bool is_temporary(const char *name)
{
    const size_t n = strlen(name);
    return name[0] == '.' || (n > 4 && !strcmp(name + n - 4, ".new"));
}

/* The checkpoint at a path, or the one in the folder there that was completed last. */
static bool find_newest(const char *path, char found[PATH_MAX])
{
    struct timespec latest = {0}, when;
    snprintf(found, PATH_MAX, "%s", path);
    if (is_complete(path, &when))
        return true;
    DIR *folder = opendir(path);
    bool has_one = false;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char inside[PATH_MAX];
        const int n = snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (n >= (int)sizeof inside || is_temporary(entry->d_name) || !is_complete(inside, &when) ||
            (has_one && !is_later(&when, &latest)))
            continue;
        latest = when;
        has_one = true;
        memcpy(found, inside, (size_t)n + 1);
    }
    if (folder)
        closedir(folder);
    return has_one;
}

/* ---- Its rows ----------------------------------------------------------------------------------- */

/* What is read of a checkpoint: the rows of an arc that are in a shard. */
struct recovery {
    struct tern_table *table;
    const struct tern_checkpoint *checkpoint;
    uint32_t arc, shard;
    uint64_t n_rows; /* put so far, each counted once */
    uint64_t *keys;
    char *values, *states;
};

static bool is_wanted(const struct recovery *recovery, uint64_t key)
{
    const struct core_table *core = &recovery->table->core;
    return key <= core->store.last_key && store_shard(&core->store, key) == recovery->shard &&
           backup_arc(core->backup, key) == recovery->arc;
}

static enum tern_status put_rows(struct recovery *recovery, size_t n)
{
    struct store *store = &recovery->table->core.store;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n; i++) {
        const uint64_t key = recovery->keys[i];
        struct entry *entry;
        if (!is_wanted(recovery, key))
            continue;
        recovery->n_rows += !entry_has_row(store_look(store, key, &entry));
        status = rows_put(store, key, recovery->values + i * store->value_bytes,
                          recovery->states + i * rows_state_bytes(store), false);
    }
    return status;
}

static enum tern_status put_part(struct recovery *recovery, size_t part)
{
    struct part_reader reader;
    const uint64_t n_rows = recovery->checkpoint->manifest->parts[part].n_rows;
    enum tern_status status = reader_open(recovery->checkpoint, part, &reader);
    if (status)
        return status;
    for (uint64_t at = 0; !status && at < n_rows; at += BLOCK_ROWS) {
        const size_t n = n_rows - at < BLOCK_ROWS ? (size_t)(n_rows - at) : BLOCK_ROWS;
        bool any = false;
        status = reader_rows(&reader, at, n, recovery->keys, NULL, NULL);
        for (size_t i = 0; !status && !any && i < n; i++)
            any = is_wanted(recovery, recovery->keys[i]);
        if (!status && any)
            status = reader_rows(&reader, at, n, NULL, recovery->values, recovery->states);
        if (!status && any)
            status = put_rows(recovery, n);
    }
    reader_close(&reader);
    return status;
}

/* All parts of the table, from the lowest layer on. Files are compared with their hashes first. */
static enum tern_status put_all(struct recovery *recovery, size_t table)
{
    const struct manifest *manifest = recovery->checkpoint->manifest;
    enum tern_status status = checkpoint_check_shape(recovery->table, &manifest->tables[table]);
    for (size_t i = 0; !status && i < manifest->n_parts; i++)
        if (manifest->parts[i].table == table)
            status = files_check(recovery->checkpoint->path, &manifest->parts[i]);
    for (uint64_t layer = 0; !status && (layer = layers_next(manifest, table, layer)) != UINT64_MAX;
         layer++)
        for (size_t i = 0; !status && i < manifest->n_parts; i++)
            if (manifest->parts[i].table == table && manifest->parts[i].layer == layer)
                status = put_part(recovery, i);
    return status;
}

static enum tern_status read_checkpoint(struct recovery *recovery)
{
    const struct store *store = &recovery->table->core.store;
    const size_t place = manifest_find(recovery->checkpoint->manifest, store->name);
    if (place == recovery->checkpoint->manifest->n_tables)
        return fail(TERN_MISMATCH, "checkpoint '%s' has no table '%s'", recovery->checkpoint->path,
                    store->name);
    recovery->keys = malloc(BLOCK_ROWS * sizeof *recovery->keys);
    recovery->values = malloc(BLOCK_ROWS * store->value_bytes);
    recovery->states = malloc(BLOCK_ROWS * rows_state_bytes(store) + 1);
    const enum tern_status status =
        recovery->keys && recovery->values && recovery->states
            ? put_all(recovery, place)
            : fail(TERN_NO_MEMORY, "no memory to read checkpoint '%s'", recovery->checkpoint->path);
    free(recovery->keys);
    free(recovery->values);
    free(recovery->states);
    return status;
}

bool recover_lost(struct core_table *core, uint32_t arc, uint32_t shard)
{
    char path[PATH_MAX];
    struct tern_checkpoint *checkpoint;
    struct recovery recovery = {.table = table_around(core), .arc = arc, .shard = shard};
    const char *wanted = recovery.table->recover, *name = core->store.name;
    if (!find_newest(wanted, path)) {
        log_notice("table '%s': there is no complete checkpoint in '%s' for keys that are lost",
                   name, wanted);
        return false;
    }
    enum tern_status status = tern_checkpoint_open(path, &checkpoint);
    if (!status) {
        recovery.checkpoint = checkpoint;
        status = read_checkpoint(&recovery);
        status_aside();
        (void)tern_checkpoint_close(checkpoint);
        status_back();
    }
    if (status) {
        log_notice("table '%s': keys that are lost cannot be read from a checkpoint: %s", name,
                   tern_error());
        return false;
    }
    atomic_fetch_add_explicit(&recovery.table->n_recovered, recovery.n_rows, memory_order_relaxed);
    log_notice("table '%s': %" PRIu64 " keys of node %" PRIu32
               ", whose backups died with it, are as in '%s' again",
               name, recovery.n_rows, arc, path);
    return true;
}
