/*
 * checkpoint_changes - which rows are as in the last checkpoint, so that its files serve again. See checkpoint.h.
 *
 * A node keeps a hash of each row that it has written, and the list of its files. The next checkpoint of changes begins with
 * hard links to these files; a row whose hash is the same is left out, and all others are in new files, a layer above. The
 * hash is always that of the bytes in the file: a row that is written while it is copied is compared with what the file has.
 *
 * A table is written as a whole if rows have left it, since a lower layer would bring them back, or if its files would have
 * more than twice as many rows as the table. Then its earlier files are not part of the checkpoint.
 *
 * Keys that move: a node leaves out only rows of which it was the last to write the main copy, so a row that came from
 * another node is written anew.
 */
#include <stdlib.h>
#include <string.h>

#include "node/checkpoint.h"

enum { BLOCK = 1024, MOST_PER_ROW = 2 };

void written_free(struct written *written)
{
    if (!written)
        return;
    for (size_t i = 0; i < written->n_tables; i++) {
        free(written->tables[i].keys.keys);
        free(written->tables[i].hashes);
    }
    free(written->parts);
    free(written->path);
    free(written);
}

/* ---- Files -------------------------------------------------------------------------------------- */

/* Unlinks the first n files of the last checkpoint from the new folder. */
static void unlink_files(const struct checkpointing *writing, const struct written *last, size_t n)
{
    char name[MANIFEST_FILE_BYTES];
    for (size_t i = 0; i < n; i++) {
        manifest_file_name(&last->parts[i], name);
        files_unlink(writing->folder, name);
    }
}

static bool link_files(const struct checkpointing *writing, const struct written *last)
{
    char name[MANIFEST_FILE_BYTES];
    for (size_t i = 0; i < last->n_parts; i++) {
        manifest_file_name(&last->parts[i], name);
        if (!files_link(last->path, writing->folder, name)) {
            unlink_files(writing, last, i);
            return false;
        }
    }
    return true;
}

enum tern_status changes_begin(const struct tern_node *node, struct checkpointing *writing)
{
    const struct written *last = node->written;
    struct written *made = calloc(1, sizeof *made);
    writing->written = made;
    if (made)
        made->path = strdup(writing->path);
    if (!made || !made->path)
        return fail(TERN_NO_MEMORY, "no memory to write a checkpoint");
    if (!last)
        return TERN_OK;
    made->layer = last->layer + 1;
    made->n_numbers = last->n_numbers;
    if (link_files(writing, last))
        writing->before = last;
    return TERN_OK;
}

static const struct written_table *find(const struct written *written, const char *name)
{
    for (size_t i = 0; written && i < written->n_tables; i++)
        if (!strcmp(written->tables[i].name, name))
            return &written->tables[i];
    return NULL;
}

/* The place of a table whose earlier files serve again; n_tables if they do not. */
static size_t kept_as(const struct checkpointing *cut, uint32_t table)
{
    const struct written_table *last = &cut->before->tables[table];
    size_t i = 0;
    while (i < cut->written->n_tables && (strcmp(cut->written->tables[i].name, last->name) != 0 ||
                                          !cut->written->tables[i].is_layered))
        i++;
    return i;
}

enum tern_status changes_keep_files(struct checkpointing *cut)
{
    for (size_t i = 0; cut->before && i < cut->before->n_parts; i++) {
        struct manifest_part part = cut->before->parts[i];
        const size_t table = kept_as(cut, part.table);
        if (table == cut->written->n_tables) {
            char name[MANIFEST_FILE_BYTES];
            manifest_file_name(&part, name);
            files_unlink(cut->folder, name);
            continue;
        }
        part.table = (uint32_t)table;
        if (!manifest_add_part(&cut->manifest, &part))
            return fail(TERN_NO_MEMORY, "no memory for the list of a checkpoint's files");
    }
    return TERN_OK;
}

void changes_end(struct tern_node *node, struct checkpointing *writing)
{
    struct written *made = writing->written;
    uint32_t self;
    size_t n = 0;
    tern_node_self(node, &self, NULL);
    made->parts = malloc((writing->manifest.n_parts + 1) * sizeof *made->parts);
    for (size_t i = 0; made->parts && i < writing->manifest.n_parts; i++)
        if (writing->manifest.parts[i].node == self &&
            writing->manifest.parts[i].table != MANIFEST_NOTES)
            made->parts[n++] = writing->manifest.parts[i];
    if (!made->parts) /* the next one begins anew, a layer above all others */
        for (; made->n_tables; made->n_tables--) {
            free(made->tables[made->n_tables - 1].keys.keys);
            free(made->tables[made->n_tables - 1].hashes);
        }
    made->n_parts = n;
    written_free(node->written);
    node->written = made;
    writing->written = NULL;
}

/* ---- Rows --------------------------------------------------------------------------------------- */

static uint64_t key_at(const struct rows_keys *keys, size_t i)
{
    return keys->keys ? keys->keys[i] : keys->first + i;
}

/* A comparison of the rows of a store with those that were written. */
struct comparison {
    struct store *store;
    const struct written_table *last;
    const struct rows_keys *all;
    struct changed_rows *rows;
    size_t at;        /* in the keys of the last checkpoint */
    size_t n_changed; /* whose places are in rows->places */
    uint64_t keys[BLOCK];
    char *values, *states; /* room for a block */
};

static enum tern_status compare_block(struct comparison *c, size_t first, size_t n)
{
    const size_t value_bytes = c->store->value_bytes, state_bytes = rows_state_bytes(c->store);
    for (size_t i = 0; i < n; i++)
        c->keys[i] = key_at(c->all, first + i);
    const enum tern_status status = rows_copy(c->store, c->keys, n, c->values, c->states);
    for (size_t i = 0; !status && i < n; i++) {
        const uint64_t hash = files_hash_row(c->values + i * value_bytes, value_bytes,
                                             c->states + i * state_bytes, state_bytes);
        while (c->at < c->last->keys.n && key_at(&c->last->keys, c->at) < c->keys[i])
            c->at++;
        if (c->at < c->last->keys.n && key_at(&c->last->keys, c->at) == c->keys[i] &&
            c->last->hashes[c->at] == hash)
            c->rows->hashes[first + i] = hash;
        else
            c->rows->places[c->n_changed++] = first + i;
    }
    return status;
}

static enum tern_status compare(struct comparison *c)
{
    enum tern_status status = TERN_OK;
    c->values = malloc(BLOCK * c->store->value_bytes);
    c->states = malloc(BLOCK * rows_state_bytes(c->store) + 1);
    c->rows->places = malloc((c->all->n + 1) * sizeof *c->rows->places);
    if (!c->values || !c->states || !c->rows->places)
        status =
            fail(TERN_NO_MEMORY, "no memory to compare the rows of table '%s'", c->store->name);
    for (size_t first = 0; !status && first < c->all->n; first += BLOCK)
        status = compare_block(c, first, c->all->n - first < BLOCK ? c->all->n - first : BLOCK);
    free(c->values);
    free(c->states);
    return status;
}

/* Leaves in `rows` those that have changed, or all if files would have too many rows. */
static enum tern_status leave_out(struct comparison *c)
{
    struct changed_rows *rows = c->rows;
    const enum tern_status status = compare(c);
    if (status || c->last->n_rows + c->n_changed > MOST_PER_ROW * (uint64_t)c->all->n) {
        free(rows->places);
        rows->places = NULL;
        return status;
    }
    uint64_t *keys = malloc((c->n_changed + 1) * sizeof *keys);
    rows->keys = (struct rows_keys){.keys = keys, .n = keys ? c->n_changed : 0};
    for (size_t i = 0; keys && i < c->n_changed; i++)
        keys[i] = key_at(c->all, rows->places[i]);
    return keys ? TERN_OK
                : fail(TERN_NO_MEMORY, "no memory for the keys of table '%s'", c->store->name);
}

uint64_t changes_n_removed(const struct store *store)
{
    return atomic_load_explicit(&store->counts->eviction.n_removed, memory_order_relaxed);
}

enum tern_status changes_choose(struct checkpointing *cut, struct store *store,
                                const struct rows_keys *keys, uint64_t n_removed,
                                struct changed_rows *rows)
{
    const struct written_table *last = find(cut->before, store->name);
    struct written_table *made = &cut->written->tables[cut->written->n_tables++];
    *made = (struct written_table){.row_bytes = store->value_bytes + rows_state_bytes(store),
                                   .keys = *keys,
                                   .n_removed = n_removed,
                                   .hashes = malloc((keys->n + 1) * sizeof *made->hashes)};
    strcpy(made->name, store->name);
    *rows = (struct changed_rows){.keys = *keys, .hashes = made->hashes};
    if (!made->hashes)
        return fail(TERN_NO_MEMORY, "no memory to know the rows of table '%s' again", store->name);
    enum tern_status status = TERN_OK;
    if (last && last->row_bytes == made->row_bytes && last->n_removed == n_removed) {
        struct comparison *c = calloc(1, sizeof *c);
        if (!c)
            return fail(TERN_NO_MEMORY, "no memory to compare the rows of table '%s'", store->name);
        c->store = store;
        c->last = last;
        c->all = &made->keys;
        c->rows = rows;
        status = leave_out(c);
        free(c);
    }
    made->is_layered = rows->places;
    made->n_rows = rows->keys.n + (made->is_layered ? last->n_rows : 0);
    return status;
}

void changes_note(const struct changed_rows *rows, const struct store *store, size_t first,
                  size_t n, const char *values, const char *states)
{
    const size_t value_bytes = store->value_bytes, state_bytes = rows_state_bytes(store);
    for (size_t i = 0; i < n; i++)
        rows->hashes[rows->places ? rows->places[first + i] : first + i] = files_hash_row(
            values + i * value_bytes, value_bytes, states + i * state_bytes, state_bytes);
}

void changes_free(struct changed_rows *rows)
{
    if (rows->places)
        free(rows->keys.keys);
    free(rows->places);
}
