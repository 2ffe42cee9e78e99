/* checkpoint_read - an open checkpoint: its tables, rows and notes. See checkpoint.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/checkpoint.h"
#include "wire/bytes.h"

enum { MANIFEST_MAX_BYTES = 1 << 30 };

static enum tern_status check(const struct tern_checkpoint *checkpoint)
{
    if (handle_is((const struct handle *)checkpoint, HANDLE_CHECKPOINT))
        return TERN_OK;
    return handle_refuse((const struct handle *)checkpoint, HANDLE_CHECKPOINT);
}

/* ---- Opening ------------------------------------------------------------------------------------ */

/* Every row of a dense table is in a checkpoint. */
static const char *find_missing(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->n_tables; i++)
        if (manifest->tables[i].index == TERN_DENSE &&
            manifest->tables[i].n_rows != manifest->tables[i].n_keys)
            return "rows of a dense table are missing";
    return NULL;
}

static enum tern_status read_manifest(const char *path, struct manifest *manifest)
{
    char *text;
    size_t n;
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/manifest.json", path);
    if (access(path, F_OK) == 0 && access(file, F_OK) != 0 && errno == ENOENT)
        return fail(TERN_INVALID, "'%s' is no checkpoint: it has no manifest.json", path);
    enum tern_status status = files_read(path, "manifest.json", MANIFEST_MAX_BYTES, &text, &n);
    if (status)
        return status;
    const char *wrong = manifest_decode(text, n, manifest);
    free(text);
    if (!wrong)
        wrong = find_missing(manifest);
    if (wrong == manifest_no_memory)
        return fail(TERN_NO_MEMORY, "no memory to read '%s/manifest.json'", path);
    return wrong ? fail(TERN_INVALID, "'%s/manifest.json' is no manifest of Tern: %s", path, wrong)
                 : files_check_sizes(path, manifest);
}

enum tern_status tern_checkpoint_open(const char *path, struct tern_checkpoint **checkpoint)
{
    if (!path || !checkpoint)
        return fail(TERN_INVALID, "tern_checkpoint_open: the path or the pointer for the result is "
                                  "NULL");
    struct tern_checkpoint *made = calloc(1, sizeof *made);
    struct manifest *manifest = calloc(1, sizeof *manifest);
    char *copy = strdup(path);
    enum tern_status status = TERN_OK;
    if (!made || !manifest || !copy)
        status = fail(TERN_NO_MEMORY, "no memory to open checkpoint '%s'", path);
    if (!status)
        status = read_manifest(path, manifest);
    if (status) {
        if (manifest)
            manifest_free(manifest);
        free(manifest);
        free(copy);
        free(made);
        return status;
    }
    made->path = copy;
    made->manifest = manifest;
    handle_init(&made->handle, HANDLE_CHECKPOINT);
    *checkpoint = made;
    return TERN_OK;
}

enum tern_status tern_checkpoint_close(struct tern_checkpoint *checkpoint)
{
    enum tern_status status = check(checkpoint);
    if (status)
        return status;
    layers_free(checkpoint->live);
    manifest_free(checkpoint->manifest);
    free(checkpoint->manifest);
    free(checkpoint->path);
    handle_close(&checkpoint->handle);
    return TERN_OK;
}

/* ---- What is in it ------------------------------------------------------------------------------ */

static enum tern_status check_struct(const char *call, const void *output, size_t given,
                                     size_t expected)
{
    if (!output)
        return fail(TERN_INVALID, "%s: the pointer for the result is NULL", call);
    if (given != expected)
        return fail(TERN_INVALID, "%s: struct_size is %zu; set it to sizeof, which is %zu", call,
                    given, expected);
    return TERN_OK;
}

enum tern_status tern_checkpoint_get_info(struct tern_checkpoint *checkpoint,
                                          struct tern_checkpoint_info *info)
{
    enum tern_status status = check(checkpoint);
    if (!status)
        status = check_struct("tern_checkpoint_get_info", info, info ? info->struct_size : 0,
                              sizeof *info);
    if (status)
        return status;
    const struct manifest *manifest = checkpoint->manifest;
    *info = (struct tern_checkpoint_info){.struct_size = sizeof *info,
                                          .n_nodes = manifest->n_nodes,
                                          .n_tables = manifest->n_tables,
                                          .n_files = manifest->n_parts};
    for (size_t i = 0; i < manifest->n_parts; i++)
        info->bytes += manifest->parts[i].bytes;
    for (size_t i = 0; i < manifest->n_clocks; i++) {
        const uint64_t clock = manifest->clocks[i].clock;
        if (!i || clock < info->lowest_clock)
            info->lowest_clock = clock;
        if (clock > info->highest_clock)
            info->highest_clock = clock;
    }
    return TERN_OK;
}

enum tern_status tern_checkpoint_get_table(struct tern_checkpoint *checkpoint, size_t number,
                                           struct tern_checkpoint_table *table)
{
    enum tern_status status = check(checkpoint);
    if (!status)
        status = check_struct("tern_checkpoint_get_table", table, table ? table->struct_size : 0,
                              sizeof *table);
    if (status)
        return status;
    if (number >= checkpoint->manifest->n_tables)
        return fail(TERN_INVALID, "checkpoint '%s' has %zu tables, and none of number %zu",
                    checkpoint->path, checkpoint->manifest->n_tables, number);
    const struct manifest_table *listed = &checkpoint->manifest->tables[number];
    *table = (struct tern_checkpoint_table){.struct_size = sizeof *table,
                                            .name = listed->name,
                                            .updater = listed->updater,
                                            .index = listed->index,
                                            .type = listed->type,
                                            .n_keys = listed->n_keys,
                                            .n_rows = listed->n_rows,
                                            .length = (uint32_t)listed->length,
                                            .state_length = (uint32_t)listed->n_state};
    return TERN_OK;
}

enum tern_status tern_checkpoint_verify(struct tern_checkpoint *checkpoint)
{
    enum tern_status status = check(checkpoint);
    for (size_t i = 0; !status && i < checkpoint->manifest->n_parts; i++)
        status = files_check(checkpoint->path, &checkpoint->manifest->parts[i]);
    return status;
}

/* ---- Rows --------------------------------------------------------------------------------------- */

static enum tern_status refuse_part(const struct tern_checkpoint *checkpoint,
                                    const struct part_reader *reader, const char *wrong)
{
    return fail(TERN_INVALID, "'%s/%s' is no part of a checkpoint: %s", checkpoint->path,
                reader->name, wrong);
}

static bool read_at(const struct part_reader *reader, void *bytes, size_t n, uint64_t offset)
{
    char *at = bytes;
    while (n) {
        const ssize_t got = pread(reader->fd, at, n, (off_t)offset);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        const size_t taken = got > 0 ? (size_t)got : 0;
        at += taken;
        offset += taken;
        n -= taken;
    }
    return true;
}

static const char no_memory[] = "there is no memory for its header";

/* The header of a file that is open. NULL, or what is wrong with it. */
static const char *read_header(const struct part_reader *reader, struct part *layout,
                               uint64_t *data_at)
{
    uint8_t length[8];
    const uint64_t bytes = reader->listed->bytes;
    if (bytes < sizeof length || !read_at(reader, length, sizeof length, 0))
        return "it is too short";
    const uint64_t n = get_u64(length);
    if (n > PART_MAX_HEADER_BYTES || n > bytes - sizeof length)
        return "its header is too long";
    char *text = malloc(n ? n : 1);
    if (!text)
        return no_memory;
    const char *wrong = read_at(reader, text, n, sizeof length)
                            ? part_decode(text, n, bytes - sizeof length - n, layout)
                            : "it is too short";
    free(text);
    *data_at = sizeof length + n;
    return wrong;
}

static bool fits(const struct part_tensor *tensor, enum part_type type, uint64_t n_rows,
                 uint64_t n_columns)
{
    return tensor && tensor->type == type && tensor->n_rows == n_rows &&
           tensor->n_columns == n_columns;
}

/* Where the tensors of a table's part are. NULL, or what is wrong with them. */
static const char *find_tensors(struct part_reader *reader, const struct part *layout,
                                uint64_t data_at, const struct manifest_table *table)
{
    const struct part_tensor *keys = part_find(layout, "keys"),
                             *values = part_find(layout, "values"),
                             *states = part_find(layout, "state");
    const enum part_type type = part_type_of(table->type);
    const uint64_t n = reader->listed->n_rows;
    if (reader->listed->has_keys ? !fits(keys, PART_U64, n, 0) : keys != NULL)
        return "its keys are not as the manifest says";
    if (!fits(values, type, n, table->length))
        return "its values are not as the manifest says";
    if (table->n_state ? !fits(states, type, n, table->n_state) : states != NULL)
        return "its state is not as the manifest says";
    if (table->index == TERN_DENSE && !reader->listed->has_keys &&
        (reader->listed->first_key > table->n_keys ||
         n > table->n_keys - reader->listed->first_key))
        return "its keys are outside the table";
    reader->keys_at = data_at + (keys ? keys->begin : 0);
    reader->values_at = data_at + values->begin;
    reader->states_at = data_at + (states ? states->begin : 0);
    reader->value_bytes = table->length * type_bytes(table->type);
    reader->state_bytes = table->n_state * type_bytes(table->type);
    return NULL;
}

enum tern_status reader_open(const struct tern_checkpoint *checkpoint, size_t part,
                             struct part_reader *reader)
{
    char path[PATH_MAX];
    struct stat there;
    uint64_t data_at = 0;
    *reader = (struct part_reader){.fd = -1, .listed = &checkpoint->manifest->parts[part]};
    manifest_file_name(reader->listed, reader->name);
    snprintf(path, sizeof path, "%s/%s", checkpoint->path, reader->name);
    struct part *layout = calloc(1, sizeof *layout);
    if (!layout)
        return fail(TERN_NO_MEMORY, "no memory to read '%s'", path);
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    const char *wrong = NULL;
    if (reader->fd < 0 || fstat(reader->fd, &there) != 0)
        wrong = strerror(errno);
    else if ((uint64_t)there.st_size != reader->listed->bytes)
        wrong = "its length is not that of the manifest";
    else
        wrong = read_header(reader, layout, &data_at);
    if (!wrong && reader->listed->table != MANIFEST_NOTES)
        wrong = find_tensors(reader, layout, data_at,
                             &checkpoint->manifest->tables[reader->listed->table]);
    free(layout);
    if (!wrong)
        return TERN_OK;
    enum tern_status status = wrong == no_memory
                                  ? fail(TERN_NO_MEMORY, "no memory to read '%s'", path)
                                  : refuse_part(checkpoint, reader, wrong);
    reader_close(reader);
    return status;
}

void reader_close(struct part_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    reader->fd = -1;
}

enum tern_status reader_rows(const struct part_reader *reader, uint64_t first, size_t n,
                             uint64_t *keys, void *values, void *states)
{
    bool ok = true;
    if (keys && reader->listed->has_keys)
        ok = read_at(reader, keys, n * sizeof *keys, reader->keys_at + first * sizeof *keys);
    for (size_t i = 0; keys && !reader->listed->has_keys && i < n; i++)
        keys[i] = reader->listed->first_key + first + i;
    if (ok && values)
        ok = read_at(reader, values, n * reader->value_bytes,
                     reader->values_at + first * reader->value_bytes);
    if (ok && states && reader->state_bytes)
        ok = read_at(reader, states, n * reader->state_bytes,
                     reader->states_at + first * reader->state_bytes);
    return ok ? TERN_OK : fail(TERN_INVALID, "cannot read the rows of '%s'", reader->name);
}

/* Reads from the part that has row `first` of the table, and no further than its end. */
static enum tern_status read_rows(const struct tern_checkpoint *checkpoint, size_t table,
                                  uint64_t first, size_t capacity, uint64_t *keys, void *values,
                                  void *states, size_t *n)
{
    const struct manifest *manifest = checkpoint->manifest;
    for (size_t i = 0; i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        if (part->table != table)
            continue;
        if (first >= part->n_rows) {
            first -= part->n_rows;
            continue;
        }
        struct part_reader reader;
        const uint64_t left = part->n_rows - first;
        const size_t n_read = left < capacity ? (size_t)left : capacity;
        enum tern_status status = reader_open(checkpoint, i, &reader);
        if (status)
            return status;
        status = reader_rows(&reader, first, n_read, keys, values, states);
        reader_close(&reader);
        if (!status)
            *n = n_read;
        return status;
    }
    *n = 0;
    return TERN_OK;
}

enum tern_status tern_checkpoint_read(struct tern_checkpoint *checkpoint, size_t table,
                                      uint64_t first, size_t capacity, uint64_t *keys, void *values,
                                      void *states, size_t *n)
{
    enum tern_status status = check(checkpoint);
    if (status)
        return status;
    if (!keys || !n)
        return fail(TERN_INVALID, "tern_checkpoint_read: the pointer `keys` or `n` is NULL");
    if (table >= checkpoint->manifest->n_tables)
        return fail(TERN_INVALID, "checkpoint '%s' has no table of number %zu", checkpoint->path,
                    table);
    return layers_next(checkpoint->manifest, table, 1) == UINT64_MAX
               ? read_rows(checkpoint, table, first, capacity, keys, values, states, n)
               : layers_read(checkpoint, table, first, capacity, keys, values, states, n);
}

/* ---- Notes -------------------------------------------------------------------------------------- */

static const struct manifest_part *find_notes(const struct manifest *manifest, uint32_t node)
{
    for (size_t i = 0; i < manifest->n_parts; i++)
        if (manifest->parts[i].table == MANIFEST_NOTES && manifest->parts[i].node == node)
            return &manifest->parts[i];
    return NULL;
}

/* The note in the bytes of a file, whose hash was compared; NULL if there is none. */
static const char *find_note(const char *bytes, size_t n, const char *name, size_t *n_bytes)
{
    struct part *layout = calloc(1, sizeof *layout);
    const char *found = NULL;
    const uint64_t header = n < 8 ? n : get_u64((const uint8_t *)bytes);
    if (layout && n >= 8 && header <= n - 8 &&
        !part_decode(bytes + 8, header, n - 8 - header, layout)) {
        const struct part_tensor *tensor = part_find(layout, name);
        if (tensor) {
            found = bytes + 8 + header + tensor->begin;
            *n_bytes = tensor->bytes;
        }
    }
    free(layout);
    return found;
}

enum tern_status tern_checkpoint_get_note(struct tern_checkpoint *checkpoint, uint32_t node,
                                          const char *name, void *data, size_t capacity,
                                          size_t *bytes)
{
    enum tern_status status = check(checkpoint);
    if (status)
        return status;
    if (!name || !bytes)
        return fail(TERN_INVALID,
                    "tern_checkpoint_get_note: the pointer `name` or `bytes` is NULL");
    const struct manifest_part *part = find_notes(checkpoint->manifest, node);
    char *file = NULL, file_name[MANIFEST_FILE_BYTES];
    size_t n = 0, n_found = 0;
    const char *found = NULL;
    if (part) {
        manifest_file_name(part, file_name);
        status = files_read(checkpoint->path, file_name, part->bytes, &file, &n);
        if (!status && files_hash(file, n) != part->hash)
            status = fail(TERN_INVALID, "'%s/%s' is damaged: its hash is not that of the manifest",
                          checkpoint->path, file_name);
        if (!status)
            found = find_note(file, n, name, &n_found);
    }
    if (!status && !found)
        status = fail(TERN_INVALID, "checkpoint '%s' has no note '%s' of node %" PRIu32,
                      checkpoint->path, name, node);
    if (!status && data && n_found > capacity)
        status = fail(TERN_LIMIT, "note '%s' has %zu bytes, but there is room for %zu", name,
                      n_found, capacity);
    if (!status && data && n_found)
        memcpy(data, found, n_found);
    if (!status)
        *bytes = n_found;
    free(file);
    return status;
}
