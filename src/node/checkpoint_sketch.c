/*
 * checkpoint_sketch - sketches in checkpoints. See checkpoint.h.
 *
 * A sketch is written as rows of one number: a part with the words of a head, and parts with cells. The head says of which shape the
 * cells are, and has the counters of the heaviest keys. A word is one row of an i64 table and two of an i32 table, the lower half
 * first.
 *
 *   rows from 0 on        version, seed, width, depth, conservative, number of counters; each counter: key, count, least
 *   rows from 2^32 on     the cells, row by row
 *
 * As many nodes as wrote the checkpoint, one part of the cells each, take their own. Otherwise each memory takes the sums of all
 * parts: a key's cells are then right wherever it is at home now, and the estimates are within epsilon of the sum of all counts, as
 * they were. The heaviest keys go to their homes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "node/checkpoint.h"

#define CELLS_AT (UINT64_C(1) << 32)

enum { VERSION = 1, BLOCK = 4096, FILE_CELLS = 4 << 20 };
enum {
    HEAD_VERSION,
    HEAD_SEED,
    HEAD_WIDTH,
    HEAD_DEPTH,
    HEAD_CONSERVATIVE,
    HEAD_COUNTERS,
    HEAD_WORDS
};
enum { COUNTER_WORDS = 3 };

static uint64_t n_cells(const struct sketch *sketch)
{
    return sketch->width * sketch->depth;
}

static size_t rows_per_word(const struct store *store)
{
    return sizeof(uint64_t) / type_bytes(store->type);
}

static void make_head(const struct sketch *sketch, uint64_t head[HEAD_WORDS])
{
    head[HEAD_VERSION] = VERSION;
    head[HEAD_SEED] = sketch->seed;
    head[HEAD_WIDTH] = sketch->width;
    head[HEAD_DEPTH] = sketch->depth;
    head[HEAD_CONSERVATIVE] = sketch->is_conservative;
    head[HEAD_COUNTERS] = 0;
}

/* ---- Writing ------------------------------------------------------------------------------------ */

/* Room for a part of n rows; *data is where they go. */
static enum tern_status add_rows(struct checkpointing *cut, const struct store *store,
                                 struct manifest_part *part, uint64_t first, size_t n, char **data)
{
    struct part layout = {0};
    part->n_rows = n;
    part->has_keys = false;
    part->first_key = first;
    part_add(&layout, "values", part_type_of(store->type), n, 1);
    if (!cut_add_image(cut, &layout, part, data))
        return fail(TERN_NO_MEMORY, "no memory to copy %zu cells of table '%s'", n, store->name);
    part->number++;
    cut->manifest.tables[part->table].n_rows += n;
    return TERN_OK;
}

static enum tern_status add_head(struct checkpointing *cut, struct store *store,
                                 struct manifest_part *part)
{
    struct sketch *sketch = store->sketch;
    uint64_t head[HEAD_WORDS], words[COUNTER_WORDS];
    size_t n = 0;
    struct top_counter *top = calloc(sketch->n_counters + 1, sizeof *top);
    if (!top)
        return fail(TERN_NO_MEMORY, "no memory for the heaviest keys of table '%s'", store->name);
    enum tern_status status = TERN_OK;
    if (sketch->n_counters && !sketch_heaviest(sketch, sketch->n_counters, top, &n, store->watch))
        status = store_check_lost(store);
    char *data;
    const size_t n_words = HEAD_WORDS + n * COUNTER_WORDS;
    if (!status)
        status = add_rows(cut, store, part, 0, n_words * rows_per_word(store), &data);
    if (!status) {
        make_head(sketch, head);
        head[HEAD_COUNTERS] = n;
        memcpy(data, head, sizeof head);
        data += sizeof head;
        for (size_t i = 0; i < n; i++, data += sizeof words) {
            words[0] = top[i].key;
            words[1] = top[i].count;
            words[2] = top[i].least;
            memcpy(data, words, sizeof words);
        }
    }
    free(top);
    return status;
}

static enum tern_status add_cells(struct checkpointing *cut, struct store *store,
                                  struct manifest_part *part, uint64_t first, size_t n)
{
    int64_t cells[BLOCK];
    char *data;
    enum tern_status status = add_rows(cut, store, part, CELLS_AT + first, n, &data);
    for (size_t at = 0; !status && at < n; at += BLOCK) {
        const size_t n_block = n - at < BLOCK ? n - at : BLOCK;
        sketch_read(store->sketch, first + at, n_block, cells);
        for (size_t i = 0; i < n_block; i++, data += store->value_bytes) {
            const int32_t narrow = (int32_t)cells[i];
            memcpy(data, store->type == TERN_I64 ? (void *)&cells[i] : (void *)&narrow,
                   store->value_bytes);
        }
    }
    return status;
}

enum tern_status sketch_cut(struct checkpointing *cut, struct tern_table *table,
                            struct manifest_part *part)
{
    struct store *store = &table->core.store;
    if (!table->options.sketch.seed)
        return fail(TERN_INVALID,
                    "table '%s' is a sketch without `sketch.seed`, of which no other process could "
                    "read the cells: give it a seed",
                    store->name);
    if (cut->written)
        return fail(TERN_INVALID,
                    "table '%s' is a sketch, which checkpoints of changes cannot hold",
                    store->name);
    part->table = (uint32_t)cut->manifest.n_tables;
    struct manifest_table *listed = &cut->manifest.tables[cut->manifest.n_tables++];
    *listed = (struct manifest_table){
        .index = TERN_SKETCH, .type = store->type, .length = 1, .updater = "add"};
    strcpy(listed->name, store->name);
    /* One process writes for all that share it. */
    if (table_share(table).i)
        return TERN_OK;
    enum tern_status status = add_head(cut, store, part);
    const uint64_t n = n_cells(store->sketch);
    for (uint64_t first = 0; !status && first < n; first += FILE_CELLS)
        status = add_cells(cut, store, part, first,
                           n - first < FILE_CELLS ? (size_t)(n - first) : FILE_CELLS);
    return status;
}

/* ---- Restoring ---------------------------------------------------------------------------------- */

struct loading {
    struct tern_table *table;
    const struct tern_checkpoint *checkpoint;
    size_t place;  /* of the table in the manifest */
    bool own_only; /* the parts of this node alone */
};

/* Reads n rows of one number from the one of number `first` on; as words or, of cells, as numbers. */
static enum tern_status read_rows(const struct part_reader *reader, const struct store *store,
                                  uint64_t first, size_t n, void *to)
{
    enum tern_status status = reader_rows(reader, first, n, NULL, to, NULL);
    if (status || store->type == TERN_I64)
        return status;
    /* From the last to the first, since they lie in the same place. */
    for (size_t i = n; i-- > 0;) {
        int32_t narrow;
        memcpy(&narrow, (char *)to + i * sizeof narrow, sizeof narrow);
        const int64_t wide = narrow;
        memcpy((char *)to + i * sizeof wide, &wide, sizeof wide);
    }
    return TERN_OK;
}

static enum tern_status refuse(const struct loading *loading, const char *why)
{
    return fail(TERN_MISMATCH, "table '%s' is a sketch %s in the checkpoint",
                loading->table->core.store.name, why);
}

static enum tern_status check_head(const struct loading *loading, const struct part_reader *reader)
{
    const struct store *store = &loading->table->core.store;
    const struct sketch *sketch = store->sketch;
    uint64_t head[HEAD_WORDS], own[HEAD_WORDS];
    const size_t per_word = rows_per_word(store);
    if (reader->listed->n_rows < HEAD_WORDS * per_word)
        return refuse(loading, "without a head");
    enum tern_status status = reader_rows(reader, 0, HEAD_WORDS * per_word, NULL, head, NULL);
    if (status)
        return status;
    make_head(sketch, own);
    const uint64_t n_words = HEAD_WORDS + COUNTER_WORDS * head[HEAD_COUNTERS];
    if (head[HEAD_VERSION] != VERSION || head[HEAD_COUNTERS] > UINT32_MAX ||
        reader->listed->n_rows != n_words * per_word)
        return refuse(loading, "of another version");
    own[HEAD_COUNTERS] = head[HEAD_COUNTERS];
    return memcmp(head, own, sizeof head)
               ? refuse(loading, "of another width, depth, seed or kind of update")
               : TERN_OK;
}

static bool is_head(const struct manifest_part *part)
{
    return part->first_key < CELLS_AT;
}

/* Whether a part has cells that the table has as well. */
static enum tern_status check_cells(const struct loading *loading, const struct manifest_part *part)
{
    const uint64_t n = n_cells(loading->table->core.store.sketch);
    const uint64_t first = part->first_key - CELLS_AT;
    return first <= n && part->n_rows <= n - first ? TERN_OK : refuse(loading, "of more cells");
}

static enum tern_status check_parts(const struct loading *loading, uint64_t *n_heads)
{
    const struct manifest *manifest = loading->checkpoint->manifest;
    enum tern_status status = TERN_OK;
    uint64_t n_listed = 0;
    for (size_t i = 0; !status && i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        struct part_reader reader;
        if (part->table != loading->place)
            continue;
        if (part->has_keys || part->layer)
            return refuse(loading, "with keys");
        if (!is_head(part)) {
            status = check_cells(loading, part);
            n_listed += part->n_rows;
            continue;
        }
        status = reader_open(loading->checkpoint, i, &reader);
        if (!status) {
            status = check_head(loading, &reader);
            reader_close(&reader);
            ++*n_heads;
        }
    }
    if (!status && n_listed != *n_heads * n_cells(loading->table->core.store.sketch))
        status = refuse(loading, "of which cells are missing");
    return status;
}

static enum tern_status load_head(const struct loading *loading, const struct part_reader *reader)
{
    const struct store *store = &loading->table->core.store;
    uint64_t head[HEAD_WORDS], words[COUNTER_WORDS];
    const size_t per_word = rows_per_word(store);
    enum tern_status status = reader_rows(reader, 0, HEAD_WORDS * per_word, NULL, head, NULL);
    for (uint64_t i = 0; !status && i < head[HEAD_COUNTERS]; i++) {
        status = reader_rows(reader, (HEAD_WORDS + i * COUNTER_WORDS) * per_word,
                             COUNTER_WORDS * per_word, NULL, words, NULL);
        if (!status && store_is_home(store, words[0]) &&
            !sketch_put_heaviest(
                store->sketch,
                (struct top_counter){.key = words[0], .count = words[1], .least = words[2]},
                store->watch))
            status = store_check_lost(store);
    }
    return status;
}

static enum tern_status load_cells(const struct loading *loading, const struct part_reader *reader)
{
    const struct store *store = &loading->table->core.store;
    const uint64_t n = reader->listed->n_rows, first = reader->listed->first_key - CELLS_AT;
    int64_t cells[BLOCK];
    enum tern_status status = TERN_OK;
    for (uint64_t at = 0; !status && at < n; at += BLOCK) {
        const size_t n_block = n - at < BLOCK ? (size_t)(n - at) : BLOCK;
        status = read_rows(reader, store, at, n_block, cells);
        for (size_t i = 0; !status && i < n_block; i++)
            if (cells[i] < 0)
                status = refuse(loading, "with a negative count");
        if (!status)
            sketch_merge(store->sketch, first + at, n_block, cells);
    }
    return status;
}

static enum tern_status load_all(const struct loading *loading, uint32_t self)
{
    const struct manifest *manifest = loading->checkpoint->manifest;
    enum tern_status status = TERN_OK;
    sketch_clear(loading->table->core.store.sketch);
    for (size_t i = 0; !status && i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        struct part_reader reader;
        if (part->table != loading->place || (loading->own_only && part->node != self))
            continue;
        status = reader_open(loading->checkpoint, i, &reader);
        if (status)
            break;
        status = is_head(part) ? load_head(loading, &reader) : load_cells(loading, &reader);
        reader_close(&reader);
    }
    return status;
}

enum tern_status sketch_restore(struct tern_table *table, const struct tern_checkpoint *checkpoint,
                                size_t place, const struct meeting *meeting)
{
    struct loading loading = {.table = table, .checkpoint = checkpoint, .place = place};
    struct tern_node *node = table->node;
    uint32_t self = 0, n_nodes;
    uint64_t n_heads = 0;
    tern_node_self(node, &self, &n_nodes);
    const struct rows_share share = table_share(table);
    enum tern_status status = checkpoint_agree(node, check_parts(&loading, &n_heads));
    loading.own_only = n_heads == meeting->n && share.n == 1 && !table->placed;
    if (!status)
        status = checkpoint_agree(node, share.i ? TERN_OK : load_all(&loading, self));
    return status;
}
