/* backup_internal - what the parts of the backups share: backup.c makes batches, backup_take.c takes them. Included by these
 * alone. */
#ifndef CORE_BACKUP_INTERNAL_H
#define CORE_BACKUP_INTERNAL_H

#include "core/backup.h"
#include "core/service.h"

enum {
    KEEP_BYTES = 1 << 20, /* buffers of longer batches are freed */
    SECTION_BYTES = 12,   /* without its rows */
    RECORD_BYTES = 36,    /* without its void numbers */
};

static inline uint32_t backup_self(const struct backup *backup)
{
    return backup->service->server.core->node;
}

static inline uint32_t backup_shard(const struct backup *backup)
{
    return backup->service->server.shard;
}

/* The i-th open table with backups that has a shard; NULL: none. */
static inline struct core_table *backup_table(const struct core *core, size_t i, uint32_t shard)
{
    struct core_table *table = atomic_load_explicit(&core->tables[i], memory_order_acquire);
    return table && table->backup && shard < table->store.n_shards ? table : NULL;
}

/* Bytes of a row in a batch: key, value, updater state, and the count of its updates where they are counted. */
size_t backup_row_bytes(const struct core_table *table);

/* The copies of an arc, made if there are none; NULL when memory runs out. */
struct kept_rows *backup_need_kept(struct table_backup *table, uint32_t shard, uint32_t arc);

static inline void backup_drop_kept(struct table_backup *table, uint32_t shard, uint32_t arc)
{
    kept_drop(&table->shards[shard].kept, arc);
}

/* A lane's record goes with the next batch. */
void backup_note(struct backup *backup, struct server_lane *lane);

/* Finds the peers under the present view. `anew`: there are rows and records that they may not have, also if they are the same. */
void backup_form(struct backup *backup, bool anew);

#endif
