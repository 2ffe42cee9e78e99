/* sketch_file - see sketch_file.h. */
#include "sketch/sketch_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/input.h"
#include "common/interrupt.h"
#include "common/sentence.h"

static const char magic[8] = {'T', 'E', 'R', 'N', 'S', 'K', 'E', '1'};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they are");

static uint64_t u64_at(const uint8_t *bytes)
{
    uint64_t number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

static uint32_t u32_at(const uint8_t *bytes)
{
    uint32_t number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

uint64_t sketch_n_cells(const struct sketch_shape *shape)
{
    return shape->width * shape->depth;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const char *decode_header(const uint8_t *bytes, size_t n, struct sketch_view *view)
{
    if (n < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return "it is not the file of a sketch";
    if (n < SKETCH_HEADER_BYTES + SKETCH_CHECKSUM_BYTES)
        return "it is too short";
    view->shape = (struct sketch_shape){.width = u64_at(bytes + 8),
                                        .seed = u64_at(bytes + 16),
                                        .depth = u32_at(bytes + 32),
                                        .is_conservative = u32_at(bytes + 36) == 1};
    const struct sketch_shape *shape = &view->shape;
    const uint64_t sum = u64_at(bytes + 24), heavy = u64_at(bytes + 40), names = u64_at(bytes + 48);
    if (shape->width < 1 || shape->width > TERN_MAX_SKETCH_WIDTH || shape->depth < 1 ||
        shape->depth > TERN_MAX_SKETCH_DEPTH || shape->seed == 0 || u32_at(bytes + 36) > 1 ||
        sum > INT64_MAX || u64_at(bytes + 56) != 0)
        return "its header makes no sense";
    /* Below 2^44 cells, and the others are compared before they are multiplied. */
    const uint64_t cells = sketch_n_cells(shape) * sizeof(int64_t);
    uint64_t left = n - SKETCH_HEADER_BYTES - SKETCH_CHECKSUM_BYTES;
    if (cells > left || heavy > (left - cells) / SKETCH_HEAVY_BYTES ||
        names != left - cells - heavy * SKETCH_HEAVY_BYTES)
        return "its size does not fit its header";
    view->sum = (int64_t)sum;
    view->cells = bytes + SKETCH_HEADER_BYTES;
    view->heavy = view->cells + cells;
    view->n_heavy = (size_t)heavy;
    view->names = view->heavy + heavy * SKETCH_HEAVY_BYTES;
    view->names_bytes = (size_t)names;
    return NULL;
}

static const char *check_heavy(const struct sketch_view *view)
{
    uint64_t named = 0, before = (uint64_t)view->sum;
    for (size_t i = 0; i < view->n_heavy; i++) {
        const uint8_t *at = view->heavy + i * SKETCH_HEAVY_BYTES;
        const uint64_t count = u64_at(at + 8), error = u64_at(at + 16), name = u64_at(at + 24);
        if (count > before || error > count || name > view->names_bytes - named)
            return "its list of heaviest keys makes no sense";
        before = count;
        named += name;
    }
    if (named != view->names_bytes)
        return "its names do not fit its heaviest keys";
    for (size_t i = 0; i < view->names_bytes; i++)
        if (view->names[i] <= ' ' || view->names[i] == 127)
            return "it has a name with a blank or a control character";
    return NULL;
}

const char *sketch_decode(const uint8_t *bytes, size_t n, struct sketch_view *view)
{
    const char *flaw = decode_header(bytes, n, view);
    if (flaw)
        return flaw;
    if (XXH3_64bits(bytes, n - SKETCH_CHECKSUM_BYTES) != u64_at(bytes + n - SKETCH_CHECKSUM_BYTES))
        return "it is damaged: its checksum is another";
    const uint64_t n_cells = sketch_n_cells(&view->shape);
    for (uint64_t i = 0; i < n_cells; i++)
        if (u64_at(view->cells + i * sizeof(int64_t)) > (uint64_t)view->sum)
            return "it has a cell above the sum of all counts";
    return check_heavy(view);
}

void sketch_view_cells(const struct sketch_view *view, uint64_t first, size_t n, int64_t *cells)
{
    memcpy(cells, view->cells + first * sizeof *cells, n * sizeof *cells);
}

void sketch_view_heavy(const struct sketch_view *view, struct sketch_heavy *heavy)
{
    const char *name = (const char *)view->names;
    for (size_t i = 0; i < view->n_heavy; i++) {
        const uint8_t *at = view->heavy + i * SKETCH_HEAVY_BYTES;
        heavy[i] = (struct sketch_heavy){.key = u64_at(at),
                                         .count = (int64_t)u64_at(at + 8),
                                         .error = (int64_t)u64_at(at + 16),
                                         .name = name,
                                         .name_bytes = (size_t)u64_at(at + 24)};
        name += heavy[i].name_bytes;
    }
}

/* All bytes of a file, which may be compressed. */
static bool read_all(struct input *input, uint8_t **bytes, size_t *n)
{
    size_t capacity = 0, got = 1;
    *n = 0;
    while (got > 0) {
        if (*n == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 20;
            uint8_t *larger = realloc(*bytes, capacity);
            if (!larger)
                return task_fail_memory("a sketch");
            *bytes = larger;
        }
        if (!input_bytes(input, *bytes + *n, capacity - *n, &got))
            return false;
        *n += got;
    }
    return true;
}

bool sketch_read_file(const char *path, uint8_t **bytes, struct sketch_view *view)
{
    struct input input;
    size_t n;
    *bytes = NULL;
    if (!input_open(&input, path))
        return false;
    bool ok = read_all(&input, bytes, &n);
    input_close(&input);
    const char *flaw = ok ? sketch_decode(*bytes, n, view) : NULL;
    if (flaw)
        return task_fail("%s: %s", path, flaw);
    return ok;
}

/* ---- Writing --------------------------------------------------------------------------------- */

bool sketch_writer_open(struct sketch_writer *writer, const char *path)
{
    *writer = (struct sketch_writer){.path = strdup(path), .hash = XXH3_createState()};
    if (!writer->path || !writer->hash || asprintf(&writer->temporary, "%s.new", path) < 0) {
        sketch_writer_discard(writer);
        return task_fail_memory("a sketch");
    }
    XXH3_64bits_reset(writer->hash);
    writer->file = fopen(writer->temporary, "wb");
    if (writer->file) {
        interrupt_begin();
        interrupt_remove_file(0, writer->temporary);
        return true;
    }
    (void)task_fail("cannot write %s: %s", path, strerror(errno));
    sketch_writer_discard(writer);
    return false;
}

void sketch_writer_discard(struct sketch_writer *writer)
{
    if (writer->file) {
        fclose(writer->file);
        if (writer->temporary)
            unlink(writer->temporary);
        interrupt_remove_file(0, NULL);
        interrupt_end();
    }
    XXH3_freeState(writer->hash);
    free(writer->path);
    free(writer->temporary);
    *writer = (struct sketch_writer){0};
}

static void put(struct sketch_writer *writer, const void *bytes, size_t n)
{
    XXH3_64bits_update(writer->hash, bytes, n);
    if (!writer->error && n > 0 && fwrite(bytes, 1, n, writer->file) != n)
        writer->error = errno;
}

bool sketch_writer_commit(struct sketch_writer *writer)
{
    const uint64_t checksum = XXH3_64bits_digest(writer->hash);
    put(writer, &checksum, sizeof checksum);
    if (!writer->error && (fflush(writer->file) != 0 || fsync(fileno(writer->file)) != 0))
        writer->error = errno;
    if (!writer->error && rename(writer->temporary, writer->path) != 0)
        writer->error = errno;
    const bool ok = !writer->error;
    if (ok) { /* there is no temporary file any more */
        interrupt_remove_file(0, NULL);
        free(writer->temporary);
        writer->temporary = NULL;
    } else {
        (void)task_fail("cannot write %s: %s", writer->path, strerror(writer->error));
    }
    sketch_writer_discard(writer);
    return ok;
}

void sketch_write_header(struct sketch_writer *writer, const struct sketch_shape *shape,
                         int64_t sum, const struct sketch_heavy *heavy, size_t n_heavy)
{
    uint64_t names = 0, none = 0;
    for (size_t i = 0; i < n_heavy; i++)
        names += heavy[i].name_bytes;
    const uint64_t numbers[] = {
        shape->width,  shape->seed,
        (uint64_t)sum, shape->depth | (uint64_t)shape->is_conservative << 32,
        n_heavy,       names,
        none};
    _Static_assert(sizeof magic + sizeof numbers == SKETCH_HEADER_BYTES, "the header");
    put(writer, magic, sizeof magic);
    put(writer, numbers, sizeof numbers);
}

void sketch_write_cells(struct sketch_writer *writer, const int64_t *cells, size_t n)
{
    put(writer, cells, n * sizeof *cells);
}

void sketch_write_heavy(struct sketch_writer *writer, const struct sketch_heavy *heavy, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t numbers[] = {heavy[i].key, (uint64_t)heavy[i].count,
                                    (uint64_t)heavy[i].error, heavy[i].name_bytes};
        _Static_assert(sizeof numbers == SKETCH_HEAVY_BYTES, "a heaviest key");
        put(writer, numbers, sizeof numbers);
    }
    for (size_t i = 0; i < n; i++)
        put(writer, heavy[i].name, heavy[i].name_bytes);
}
