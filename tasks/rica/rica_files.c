/*
 * rica_files - see rica_files.h.
 *
 * The picture is a PNG of 8-bit grey: filters side by side, each scaled so that its largest weight is white or black.
 */
#include "rica/rica_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "common/modelfile.h"
#include "common/outputs.h"
#include "common/sentence.h"
#include "common/vectors.h"
#include "rica/rica.h"

enum { N_LINES = 3, MARGIN = 1, SCALE = 4, MIDDLE = 128 };

/* ---- Examples --------------------------------------------------------------------------------- */

static void normalise(struct rica_data *data)
{
    double squares = 0;
    for (size_t i = 0; i < data->n; i++) {
        double *row = data->x + i * data->p, mean = 0;
        for (size_t j = 0; j < data->p; j++)
            mean += row[j] / (double)data->p;
        for (size_t j = 0; j < data->p; j++) {
            row[j] -= mean;
            squares += row[j] * row[j];
        }
    }
    const double scale = squares > 0 ? sqrt((double)(data->n * data->p) / squares) : 0;
    for (size_t i = 0; i < data->n * data->p; i++)
        data->x[i] *= scale;
}

static bool read_rows(struct npy *npy, const char *path, struct rica_data *data)
{
    float row[RICA_MAX_PIXELS];
    for (size_t i = 0; i < data->n; i++) {
        if (!npy_read(npy, 1, row))
            return false;
        for (size_t j = 0; j < data->p; j++) {
            if (!isfinite(row[j]))
                return task_fail("%s: example %zu has a number that is not finite", path, i);
            data->x[i * data->p + j] = (double)row[j];
        }
    }
    return true;
}

bool rica_files_read(const char *path, struct rica_data *data)
{
    struct npy npy;
    if (!npy_open(&npy, path))
        return false;
    bool ok = (npy.n_columns >= 2 && npy.n_columns <= RICA_MAX_PIXELS) ||
              task_fail("%s: an example has %" PRIu64 " numbers; it must have 2 to %d", path,
                        npy.n_columns, RICA_MAX_PIXELS);
    ok = ok && (npy.n_rows > 0 || task_fail("%s: there is no example", path));
    if (ok) {
        *data = (struct rica_data){.n = npy.n_rows, .p = npy.n_columns};
        data->x = malloc(data->n * data->p * sizeof *data->x);
        ok = (data->x != NULL || task_fail_memory("the examples")) && read_rows(&npy, path, data);
    }
    npy_close(&npy);
    if (ok)
        normalise(data);
    return ok;
}

/* ---- The picture ------------------------------------------------------------------------------ */

size_t rica_width(size_t n_pixels, size_t wanted)
{
    const size_t root = (size_t)(sqrt((double)n_pixels) + 0.5);
    if (wanted > 0)
        return wanted;
    return root * root == n_pixels ? root : n_pixels;
}

static void put_word(uint8_t bytes[4], uint32_t word)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(word >> (24 - 8 * i));
}

static void write_chunk(struct outfile *file, const char *kind, const uint8_t *bytes, size_t n)
{
    uint8_t word[4];
    put_word(word, (uint32_t)n);
    outfile_write(file, word, sizeof word);
    outfile_write(file, kind, 4);
    outfile_write(file, bytes, n);
    uLong check = crc32(crc32(0, NULL, 0), (const Bytef *)kind, 4);
    if (n > 0)
        check = crc32(check, bytes, (uInt)n);
    put_word(word, (uint32_t)check);
    outfile_write(file, word, sizeof word);
}

/* `rows` are those of the picture, each behind a byte 0, which says that it is not filtered. */
static bool write_png(struct outfile *file, const uint8_t *rows, size_t width, size_t height)
{
    const size_t n = height * (width + 1);
    uint8_t head[13] = {0};
    uLongf n_packed = compressBound(n);
    uint8_t *packed = malloc(n_packed);
    if (packed == NULL || compress(packed, &n_packed, rows, n) != Z_OK) {
        free(packed);
        return task_fail_memory("the picture");
    }
    put_word(head, (uint32_t)width);
    put_word(head + 4, (uint32_t)height);
    head[8] = 8; /* bits of grey */
    outfile_write(file, "\x89PNG\r\n\x1a\n", 8);
    write_chunk(file, "IHDR", head, sizeof head);
    write_chunk(file, "IDAT", packed, n_packed);
    write_chunk(file, "IEND", NULL, 0);
    free(packed);
    return true;
}

/* Paints a filter with its upper left corner at `at`; a row of the picture has `stride` bytes. */
static void paint(const double *filter, size_t n_pixels, size_t width, uint8_t *at, size_t stride)
{
    double largest = 0;
    for (size_t j = 0; j < n_pixels; j++)
        largest = fmax(largest, fabs(filter[j]));
    for (size_t j = 0; j < n_pixels; j++) {
        const double share = largest > 0 ? filter[j] / largest : 0;
        uint8_t *corner = at + j / width * SCALE * stride + j % width * SCALE;
        for (size_t i = 0; i < SCALE; i++)
            memset(corner + i * stride, (int)(MIDDLE + 127 * share), SCALE);
    }
}

static bool write_picture(struct outputs *outputs, const struct rica_info *info,
                          const double *filters, size_t width)
{
    const size_t n = info->n_filters, n_pixels = info->n_pixels;
    const size_t across = (size_t)ceil(sqrt((double)n)), down = (n + across - 1) / across;
    const size_t tile_width = SCALE * (width + MARGIN),
                 tile_height = SCALE * ((n_pixels + width - 1) / width + MARGIN);
    const size_t stride = across * tile_width + 1, height = down * tile_height;
    struct outfile *file = outputs_add(outputs, "filters.png");
    uint8_t *rows = file != NULL ? calloc(height, stride) : NULL;
    if (rows == NULL)
        return file != NULL && task_fail_memory("the picture");
    for (size_t i = 0; i < n; i++)
        paint(filters + i * n_pixels, n_pixels, width,
              rows + i / across * tile_height * stride + i % across * tile_width + 1, stride);
    bool ok = write_png(file, rows, stride - 1, height);
    free(rows);
    return ok;
}

/* ---- The model -------------------------------------------------------------------------------- */

static void list_lines(struct rica_info *info, struct model_line lines[N_LINES])
{
    const struct model_line all[N_LINES] = {
        {"epochs", MODEL_WHOLE, .value = &info->n_epochs},
        {"filters", MODEL_WHOLE, .value = &info->n_filters},
        {"pixels", MODEL_WHOLE, .value = &info->n_pixels},
    };
    memcpy(lines, all, sizeof all);
}

static bool write_filters(struct outputs *outputs, const struct rica_info *info,
                          const double *filters)
{
    struct outfile *file = outputs_add(outputs, "filters.npy");
    float row[RICA_MAX_PIXELS];
    if (file == NULL)
        return false;
    vectors_begin(file, VECTORS_NPY, info->n_filters, info->n_pixels);
    for (size_t i = 0; i < info->n_filters; i++) {
        for (size_t j = 0; j < info->n_pixels; j++)
            row[j] = (float)filters[i * info->n_pixels + j];
        vectors_add(file, VECTORS_NPY, NULL, row, info->n_pixels);
    }
    return true;
}

bool rica_files_write(const char *folder, const struct rica_info *info, const char *settings,
                      const double *filters, size_t width)
{
    struct outputs outputs;
    struct rica_info copy = *info;
    struct model_line lines[N_LINES];
    list_lines(&copy, lines);
    if (!outputs_open(&outputs, folder))
        return false;
    if (modelfile_write(&outputs, "rica", lines, N_LINES, settings) &&
        write_filters(&outputs, info, filters) && write_picture(&outputs, info, filters, width))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

bool rica_files_resume(const char *folder, struct rica_info *info, double *filters)
{
    struct rica_info found = {0};
    struct model_line lines[N_LINES];
    struct npy npy;
    float row[RICA_MAX_PIXELS];
    list_lines(&found, lines);
    if (!modelfile_read(folder, "rica", lines, N_LINES))
        return false;
    if (found.n_filters != info->n_filters || found.n_pixels != info->n_pixels)
        return task_fail("the model in %s has %" PRIu64 " filters of %" PRIu64
                         " pixels, not %" PRIu64 " of %" PRIu64,
                         folder, found.n_filters, found.n_pixels, info->n_filters, info->n_pixels);
    if (!model_open_vectors(folder, "filters", ".npy", info->n_filters, info->n_pixels, &npy))
        return false;
    bool ok = true;
    for (size_t i = 0; ok && i < info->n_filters; i++) {
        ok = npy_read(&npy, 1, row);
        for (size_t j = 0; ok && j < info->n_pixels; j++)
            filters[i * info->n_pixels + j] = (double)row[j];
    }
    npy_close(&npy);
    info->n_epochs = found.n_epochs;
    return ok;
}
