/*
 * A manifest that is read is within the limits, names files in its own folder alone, and is written again as text that is
 * read as the same; one that is refused leaves nothing behind.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "wire/manifest.h"

static void check_read(const struct manifest *manifest)
{
    require(manifest->n_nodes >= 1 && manifest->n_nodes <= MANIFEST_MAX_NODES);
    require(manifest->n_tables <= TERN_MAX_TABLES);
    for (size_t i = 0; i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        char name[MANIFEST_FILE_BYTES];
        manifest_file_name(part, name);
        require(!strchr(name, '/') && name[0] != '.');
        require(part->table < manifest->n_tables || part->table == MANIFEST_NOTES);
        require(part->node < manifest->n_nodes);
        require(part->bytes <= INT64_MAX);
    }
}

static bool is_same_table(const struct manifest_table *a, const struct manifest_table *b)
{
    return !strcmp(a->name, b->name) && !strcmp(a->updater, b->updater) && a->index == b->index &&
           a->type == b->type && a->n_keys == b->n_keys && a->length == b->length &&
           a->n_state == b->n_state && a->n_rows == b->n_rows;
}

static bool is_same_part(const struct manifest_part *a, const struct manifest_part *b)
{
    return a->table == b->table && a->node == b->node && a->number == b->number &&
           a->has_keys == b->has_keys && a->layer == b->layer && a->first_key == b->first_key &&
           a->n_rows == b->n_rows && a->bytes == b->bytes && a->hash == b->hash;
}

static bool is_same(const struct manifest *a, const struct manifest *b)
{
    bool same = a->n_nodes == b->n_nodes && a->n_tables == b->n_tables &&
                a->n_parts == b->n_parts && a->n_clocks == b->n_clocks;
    for (size_t i = 0; same && i < a->n_tables; i++)
        same = is_same_table(&a->tables[i], &b->tables[i]);
    for (size_t i = 0; same && i < a->n_parts; i++)
        same = is_same_part(&a->parts[i], &b->parts[i]);
    for (size_t i = 0; same && i < a->n_clocks; i++)
        same = a->clocks[i].node == b->clocks[i].node && a->clocks[i].clock == b->clocks[i].clock;
    return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct manifest manifest, again;
    if (manifest_decode((const char *)data, size, &manifest)) {
        require(!manifest.parts && !manifest.clocks && !manifest.n_tables);
        return 0;
    }
    check_read(&manifest);
    struct buffer text = {0};
    require(manifest_encode(&manifest, &text));
    require(!manifest_decode((const char *)buffer_head(&text), buffer_size(&text), &again));
    require(is_same(&manifest, &again));
    buffer_free(&text);
    manifest_free(&manifest);
    manifest_free(&again);
    return 0;
}
