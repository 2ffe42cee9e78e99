/*
 * checkpoint_layers - rows of a checkpoint whose parts replace rows of each other. See checkpoint.h.
 *
 * The rows of a table in their order are those of its parts, in the order of the manifest, without the rows whose keys are
 * also in a higher layer. The keys of all layers above the lowest are kept in memory, with the highest layer of each; a
 * cursor remembers where the last read ended, so that reading a table from its beginning to its end reads each part once.
 */
#include <stdlib.h>
#include <string.h>

#include "node/checkpoint.h"

enum { SKIP_ROWS = 4096 };

struct layered_key {
    uint64_t key;
    uint32_t layer;
};

struct live_rows {
    size_t table;
    struct layered_key *keys; /* in ascending order, each once */
    size_t n_keys, capacity;
    /* The row of number `first` is this row of this part, or a later one. */
    uint64_t first, row;
    size_t part;
};

uint64_t layers_next(const struct manifest *manifest, size_t table, uint64_t from)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        if (part->table == table && part->layer >= from && part->layer < next)
            next = part->layer;
    }
    return next;
}

void layers_free(struct live_rows *live)
{
    if (live)
        free(live->keys);
    free(live);
}

/* ---- Which rows are replaced -------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    const struct layered_key *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->layer < y->layer) - (x->layer > y->layer);
}

/* Keeps the highest layer of each key. */
static void sort_keys(struct live_rows *live)
{
    size_t n = 0;
    if (live->n_keys)
        qsort(live->keys, live->n_keys, sizeof *live->keys, compare_keys);
    for (size_t i = 0; i < live->n_keys; i++)
        if (!n || live->keys[n - 1].key != live->keys[i].key)
            live->keys[n++] = live->keys[i];
    live->n_keys = n;
}

static enum tern_status add_keys(const struct tern_checkpoint *checkpoint, size_t part,
                                 struct live_rows *live)
{
    const struct manifest_part *listed = &checkpoint->manifest->parts[part];
    struct part_reader reader;
    uint64_t keys[SKIP_ROWS];
    enum tern_status status = reader_open(checkpoint, part, &reader);
    if (status)
        return status;
    struct layered_key *grown =
        realloc(live->keys, (live->n_keys + listed->n_rows + 1) * sizeof *grown);
    if (!grown)
        status = fail(TERN_NO_MEMORY, "no memory for the keys of '%s'", reader.name);
    else
        live->keys = grown;
    for (uint64_t at = 0; !status && at < listed->n_rows; at += SKIP_ROWS) {
        const size_t n =
            listed->n_rows - at < SKIP_ROWS ? (size_t)(listed->n_rows - at) : SKIP_ROWS;
        status = reader_rows(&reader, at, n, keys, NULL, NULL);
        for (size_t i = 0; !status && i < n; i++)
            live->keys[live->n_keys++] = (struct layered_key){keys[i], listed->layer};
    }
    reader_close(&reader);
    return status;
}

static enum tern_status make_live(const struct tern_checkpoint *checkpoint, size_t table,
                                  struct live_rows **made)
{
    const struct manifest *manifest = checkpoint->manifest;
    const uint64_t lowest = layers_next(manifest, table, 0);
    struct live_rows *live = calloc(1, sizeof *live);
    if (!live)
        return fail(TERN_NO_MEMORY, "no memory to read checkpoint '%s'", checkpoint->path);
    live->table = table;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < manifest->n_parts; i++)
        if (manifest->parts[i].table == table && manifest->parts[i].layer > lowest)
            status = add_keys(checkpoint, i, live);
    if (status) {
        layers_free(live);
        return status;
    }
    sort_keys(live);
    *made = live;
    return TERN_OK;
}

/* Whether no higher layer has the key of a row of this layer. */
static bool is_live(const struct live_rows *live, uint64_t key, uint32_t layer)
{
    size_t low = 0, high = live->n_keys;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (live->keys[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low == live->n_keys || live->keys[low].key != key || live->keys[low].layer == layer;
}

/* ---- Reading ------------------------------------------------------------------------------------ */

/* Moves the rows that are live to the front of n rows; their number. */
static size_t pick(const struct live_rows *live, const struct part_reader *reader, size_t n,
                   uint64_t *keys, char *values, char *states)
{
    size_t n_live = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_live(live, keys[i], reader->listed->layer))
            continue;
        keys[n_live] = keys[i];
        if (values)
            memmove(values + n_live * reader->value_bytes, values + i * reader->value_bytes,
                    reader->value_bytes);
        if (states)
            memmove(states + n_live * reader->state_bytes, states + i * reader->state_bytes,
                    reader->state_bytes);
        n_live++;
    }
    return n_live;
}

/* Reads up to `capacity` rows at the cursor and leaves those that are live, perhaps none; *is_end at the end of the table. */
static enum tern_status read_block(const struct tern_checkpoint *checkpoint, struct live_rows *live,
                                   size_t capacity, uint64_t *keys, void *values, void *states,
                                   size_t *n, bool *is_end)
{
    const struct manifest *manifest = checkpoint->manifest;
    while (live->part < manifest->n_parts && (manifest->parts[live->part].table != live->table ||
                                              live->row == manifest->parts[live->part].n_rows)) {
        live->part++;
        live->row = 0;
    }
    *n = 0;
    *is_end = live->part == manifest->n_parts;
    if (*is_end)
        return TERN_OK;
    struct part_reader reader;
    const uint64_t left = manifest->parts[live->part].n_rows - live->row;
    const size_t n_read = left < capacity ? (size_t)left : capacity;
    enum tern_status status = reader_open(checkpoint, live->part, &reader);
    if (status)
        return status;
    status = reader_rows(&reader, live->row, n_read, keys, values, states);
    reader_close(&reader);
    if (status)
        return status;
    *n = pick(live, &reader, n_read, keys, values, states);
    live->row += n_read;
    live->first += *n;
    return TERN_OK;
}

/* Brings the cursor to the row of number `first`. */
static enum tern_status seek(const struct tern_checkpoint *checkpoint, struct live_rows *live,
                             uint64_t first)
{
    uint64_t keys[SKIP_ROWS];
    enum tern_status status = TERN_OK;
    bool is_end = false;
    size_t n;
    if (first < live->first) {
        live->first = live->row = 0;
        live->part = 0;
    }
    while (!status && !is_end && live->first < first) {
        const uint64_t left = first - live->first;
        status = read_block(checkpoint, live, left < SKIP_ROWS ? (size_t)left : SKIP_ROWS, keys,
                            NULL, NULL, &n, &is_end);
    }
    return status;
}

enum tern_status layers_read(struct tern_checkpoint *checkpoint, size_t table, uint64_t first,
                             size_t capacity, uint64_t *keys, void *values, void *states, size_t *n)
{
    enum tern_status status = TERN_OK;
    bool is_end = false;
    if (!checkpoint->live || checkpoint->live->table != table) {
        layers_free(checkpoint->live);
        checkpoint->live = NULL;
        status = make_live(checkpoint, table, &checkpoint->live);
    }
    if (!status)
        status = seek(checkpoint, checkpoint->live, first);
    size_t n_live = 0;
    while (!status && !is_end && !n_live && capacity)
        status = read_block(checkpoint, checkpoint->live, capacity, keys, values, states, &n_live,
                            &is_end);
    if (!status)
        *n = n_live;
    return status;
}
