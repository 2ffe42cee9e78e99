/* checkpoint_cut - this node's rows, copied into images of files. See checkpoint.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "node/checkpoint.h"
#include "node/exclusive.h"

enum { FILE_BYTES = 64 << 20, BLOCK = 1024 };

void cut_free(struct checkpointing *cut)
{
    for (struct image *image = cut->images, *next; image; image = next) {
        next = image->next;
        free(image);
    }
    cut->images = NULL;
    manifest_free(&cut->manifest);
}

struct image *cut_add_image(struct checkpointing *cut, const struct part *layout,
                            const struct manifest_part *part, char **data)
{
    struct buffer header = {0};
    struct image **last = &cut->images, *made = NULL;
    const uint64_t data_bytes = part_data_bytes(layout);
    if (part_encode(layout, &header))
        made = malloc(sizeof *made + buffer_size(&header) + data_bytes);
    if (made) {
        *made = (struct image){.part = *part, .n_bytes = buffer_size(&header) + data_bytes};
        made->part.bytes = made->n_bytes;
        memcpy(made->bytes, buffer_head(&header), buffer_size(&header));
        *data = made->bytes + buffer_size(&header);
        while (*last)
            last = &(*last)->next;
        *last = made;
    }
    buffer_free(&header);
    return made;
}

/* ---- Tables ------------------------------------------------------------------------------------- */

static enum tern_status copy_rows(struct store *store, const struct rows_keys *keys, size_t first,
                                  size_t n, char *values, char *states)
{
    uint64_t block[BLOCK];
    enum tern_status status = TERN_OK;
    for (size_t at = 0; !status && at < n; at += BLOCK) {
        size_t n_block = n - at < BLOCK ? n - at : BLOCK;
        for (size_t i = 0; i < n_block; i++)
            block[i] = keys->keys ? keys->keys[first + at + i] : keys->first + first + at + i;
        status = rows_copy(store, block, n_block, values + at * store->value_bytes,
                           states + at * rows_state_bytes(store));
    }
    return status;
}

/* One part: n rows of those chosen, from the first on. */
static enum tern_status add_part(struct checkpointing *cut, struct store *store,
                                 struct manifest_part *part, const struct changed_rows *rows,
                                 size_t first, size_t n)
{
    const struct rows_keys *keys = &rows->keys;
    struct part layout = {0};
    const enum part_type type = part_type_of(store->type);
    const size_t n_state = rows_state_bytes(store) / type_bytes(store->type);
    part->n_rows = n;
    part->has_keys = keys->keys && keys->keys[first + n - 1] - keys->keys[first] != n - 1;
    part->first_key = keys->keys ? keys->keys[first] : keys->first + first;
    if (part->has_keys)
        part_add(&layout, "keys", PART_U64, n, 0);
    const uint64_t values_at = part_add(&layout, "values", type, n, store->length);
    const uint64_t states_at = n_state ? part_add(&layout, "state", type, n, n_state) : 0;
    char *data;
    if (!cut_add_image(cut, &layout, part, &data))
        return fail(TERN_NO_MEMORY, "no memory to copy %zu rows of table '%s'", n, store->name);
    if (part->has_keys)
        memcpy(data, keys->keys + first, n * sizeof *keys->keys);
    part->number++;
    const enum tern_status status =
        copy_rows(store, keys, first, n, data + values_at, data + states_at);
    if (!status && rows->hashes)
        changes_note(rows, store, first, n, data + values_at, data + states_at);
    return status;
}

static enum tern_status add_table(struct checkpointing *cut, struct tern_table *table,
                                  struct manifest_part *part)
{
    struct store *store = &table->core.store;
    struct rows_keys keys;
    if (store->sketch)
        return sketch_cut(cut, table, part);
    const uint64_t n_removed = changes_n_removed(store);
    enum tern_status status = rows_list(store, table_share(table), &keys);
    if (status)
        return status;
    part->table = (uint32_t)cut->manifest.n_tables;
    struct manifest_table *listed = &cut->manifest.tables[cut->manifest.n_tables++];
    *listed = (struct manifest_table){.index = store->index,
                                      .type = store->type,
                                      .n_keys = store->n_keys,
                                      .length = store->length,
                                      .n_state = rows_state_bytes(store) / type_bytes(store->type),
                                      .n_rows = keys.n};
    if (store->index == TERN_SPARSE)
        listed->n_keys = 0;
    strcpy(listed->name, store->name);
    strcpy(listed->updater, table->options.updater.name ? table->updater_name : "add");
    struct changed_rows rows = {.keys = keys};
    if (cut->written)
        status = changes_choose(cut, store, &keys, n_removed, &rows);
    const size_t row_bytes = sizeof(uint64_t) + store->value_bytes + rows_state_bytes(store);
    const size_t most = row_bytes < FILE_BYTES ? FILE_BYTES / row_bytes : 1, n = rows.keys.n;
    for (size_t first = 0; !status && first < n; first += most)
        status = add_part(cut, store, part, &rows, first, n - first < most ? n - first : most);
    if (cut->written)
        changes_free(&rows);
    else
        free(keys.keys);
    return status;
}

/* ---- Clocks and notes --------------------------------------------------------------------------- */

static enum tern_status add_clocks(struct checkpointing *cut, const struct tern_node *node,
                                   uint32_t self)
{
    bool ok = true;
    for (const struct tern_worker *worker = node->workers; ok && worker; worker = worker->next)
        if (!worker->is_pool_thread)
            ok = manifest_add_clock(&cut->manifest, self, worker->clock);
    return ok ? TERN_OK : fail(TERN_NO_MEMORY, "no memory for the clocks of a checkpoint");
}

static enum tern_status add_notes(struct checkpointing *cut, const struct tern_note *notes,
                                  size_t n_notes, uint32_t self)
{
    const struct manifest_part part = {
        .table = MANIFEST_NOTES, .node = self, .has_keys = true, .n_rows = n_notes};
    struct part layout = {0};
    char *data;
    if (!n_notes)
        return TERN_OK;
    for (size_t i = 0; i < n_notes; i++)
        part_add(&layout, notes[i].name, PART_U8, notes[i].bytes, 0);
    if (!cut_add_image(cut, &layout, &part, &data))
        return fail(TERN_NO_MEMORY, "no memory for the notes of a checkpoint");
    for (size_t i = 0; i < n_notes; data += notes[i++].bytes)
        if (notes[i].bytes)
            memcpy(data, notes[i].data, notes[i].bytes);
    return TERN_OK;
}

/* ---- The whole ---------------------------------------------------------------------------------- */

/* The node's lock keeps tables and workers from coming and going. */
enum tern_status cut_take(struct tern_node *node, const struct tern_note *notes, size_t n_notes,
                          struct checkpointing *to)
{
    uint32_t self = 0;
    tern_node_self(node, &self, &to->manifest.n_nodes);
    struct manifest_part part = {.node = self};
    if (to->written) {
        part.layer = to->written->layer;
        part.number = to->written->n_numbers;
    }
    lock_take(&node->lock);
    enum tern_status status = exclusive_suspend(node);
    for (size_t i = 0; !status && i < TERN_MAX_TABLES; i++)
        if (node->tables[i])
            status = add_table(to, node->tables[i], &part);
    if (!status)
        status = add_clocks(to, node, self);
    exclusive_close(node);
    lock_release(&node->lock);
    if (!status && to->written) {
        to->written->n_numbers = part.number;
        status = changes_keep_files(to);
    }
    return status ? status : add_notes(to, notes, n_notes, self);
}
