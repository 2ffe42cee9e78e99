/* files - a model as files of a folder. See files.h. */
#include "kge/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/modelfile.h"
#include "common/outputs.h"
#include "common/vectors.h"

enum { BLOCK_ROWS = 256 };

/* The lines of model.txt. */
enum { N_LINES = 5 };

static void list_lines(struct model_info *info, struct model_line lines[N_LINES])
{
    const struct model_line all[N_LINES] = {
        {"model", MODEL_CHOICE, .value = &info->model, .choices = model_names},
        {"dim", MODEL_WHOLE, .value = &info->dim},
        {"epochs", MODEL_WHOLE, .value = &info->n_epochs},
        {"entities", MODEL_WHOLE, .value = &info->n_entities},
        {"relations", MODEL_WHOLE, .value = &info->n_relations},
    };
    memcpy(lines, all, sizeof all);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The files of one part. */
struct part_files {
    struct outfile *values, *sums, *names, *text, *binary; /* the last two may be NULL */
};

/* Drops the formats that an earlier run was asked for and this one is not. */
static void drop_formats(struct outputs *outputs, int formats)
{
    static const struct {
        int format;
        const char *name;
    } all[] = {{FILES_TEXT, "entities.vec"},
               {FILES_TEXT, "relations.vec"},
               {FILES_BINARY, "entities.bin"},
               {FILES_BINARY, "relations.bin"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(formats & all[i].format))
            outputs_drop(outputs, all[i].name);
}

static struct outfile *add(struct outputs *outputs, const char *kind, const char *ending)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", kind, ending);
    return outputs_add(outputs, name);
}

static bool open_files(struct outputs *outputs, const char *kind, int formats,
                       struct part_files *files)
{
    *files =
        (struct part_files){.values = add(outputs, kind, ".npy"),
                            .sums = add(outputs, kind, "_sums.npy"),
                            .names = add(outputs, kind, ".txt"),
                            .text = formats & FILES_TEXT ? add(outputs, kind, ".vec") : NULL,
                            .binary = formats & FILES_BINARY ? add(outputs, kind, ".bin") : NULL};
    return files->values != NULL && files->sums != NULL && files->names != NULL &&
           (files->text != NULL || !(formats & FILES_TEXT)) &&
           (files->binary != NULL || !(formats & FILES_BINARY));
}

static void write_row(const struct part_files *files, const char *name, const float *row, size_t n)
{
    vectors_add(files->values, VECTORS_NPY, NULL, row, n);
    vectors_add(files->sums, VECTORS_NPY, NULL, row + n, n);
    outfile_print(files->names, "%s\n", name);
    if (files->text != NULL)
        vectors_add(files->text, VECTORS_TEXT, name, row, n);
    if (files->binary != NULL)
        vectors_add(files->binary, VECTORS_BINARY, name, row, n);
}

static void write_heads(const struct part_files *files, uint64_t n_rows, size_t n)
{
    vectors_begin(files->values, VECTORS_NPY, n_rows, n);
    vectors_begin(files->sums, VECTORS_NPY, n_rows, n);
    if (files->text != NULL)
        vectors_begin(files->text, VECTORS_TEXT, n_rows, n);
    if (files->binary != NULL)
        vectors_begin(files->binary, VECTORS_BINARY, n_rows, n);
}

static bool write_part(struct outputs *outputs, const struct model_part *part, int formats,
                       struct tern_worker *worker)
{
    struct part_files files;
    size_t length = part->rows->length, n_rows = part->names->n;
    if (!open_files(outputs, part->kind, formats, &files))
        return false;
    float *rows = malloc(BLOCK_ROWS * length * sizeof *rows);
    if (rows == NULL)
        return task_fail_memory("the model's files");
    write_heads(&files, n_rows, length / 2);
    bool ok = true;
    for (size_t first = 0; ok && first < n_rows; first += BLOCK_ROWS) {
        size_t n = n_rows - first < BLOCK_ROWS ? n_rows - first : BLOCK_ROWS;
        ok = params_get(part->rows, worker, first, n, rows);
        for (size_t i = 0; ok && i < n; i++)
            write_row(&files, names_at(part->names, (uint32_t)(first + i)), rows + i * length,
                      length / 2);
    }
    free(rows);
    return ok;
}

bool files_write(const char *folder, const struct model_info *info, const char *settings,
                 int formats, const struct model_part parts[2], struct tern_worker *worker)
{
    struct outputs outputs;
    struct model_info copy = *info;
    struct model_line lines[N_LINES];
    list_lines(&copy, lines);
    if (!outputs_open(&outputs, folder))
        return false;
    drop_formats(&outputs, formats);
    if (modelfile_write(&outputs, "kge", lines, N_LINES, settings) &&
        write_part(&outputs, &parts[0], formats, worker) &&
        write_part(&outputs, &parts[1], formats, worker))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool files_read_info(const char *folder, struct model_info *info)
{
    struct model_line lines[N_LINES];
    *info = (struct model_info){0};
    list_lines(info, lines);
    if (!modelfile_read(folder, "kge", lines, N_LINES))
        return false;
    return (info->dim > 0 && info->dim <= TERN_MAX_VALUE_BYTES / 8) ||
           task_fail("%s/model.txt has an impossible dimension: %" PRIu64, folder, info->dim);
}

static bool open_rows(const char *folder, const struct model_part *part, const char *ending,
                      struct npy *npy)
{
    char *path = model_path(folder, part->kind, ending);
    bool ok = path != NULL && npy_open(npy, path);
    if (ok && (npy->n_rows != part->names->n || 2 * npy->n_columns != part->rows->length)) {
        ok = task_fail("%s has %" PRIu64 " rows of %" PRIu64 " numbers, but %u of %zu are wanted",
                       path, npy->n_rows, npy->n_columns, part->names->n, part->rows->length / 2);
        npy_close(npy);
    }
    free(path);
    return ok;
}

/* Puts values and sums, which were read one behind the other, side by side. */
static bool set_block(const struct model_part *part, struct npy *values, struct npy *sums,
                      uint64_t first, size_t n, float *space, struct tern_worker *worker)
{
    size_t dim = values->n_columns;
    float *rows = space + 2 * BLOCK_ROWS * dim;
    if (!npy_read(values, n, space) || !npy_read(sums, n, space + n * dim))
        return false;
    for (size_t i = 0; i < n; i++) {
        memcpy(rows + 2 * i * dim, space + i * dim, dim * sizeof *rows);
        memcpy(rows + (2 * i + 1) * dim, space + (n + i) * dim, dim * sizeof *rows);
    }
    return params_set(part->rows, worker, first, n, rows);
}

static bool set_rows(const struct model_part *part, struct npy *values, struct npy *sums,
                     struct tern_worker *worker)
{
    float *space = malloc(4 * BLOCK_ROWS * values->n_columns * sizeof *space);
    if (space == NULL)
        return task_fail_memory("the model's files");
    bool ok = true;
    for (uint64_t first = 0; ok && first < values->n_rows; first += BLOCK_ROWS) {
        uint64_t left = values->n_rows - first;
        ok = set_block(part, values, sums, first, left < BLOCK_ROWS ? (size_t)left : BLOCK_ROWS,
                       space, worker);
    }
    free(space);
    return ok;
}

bool files_read_part(const char *folder, const struct model_part *part, struct tern_worker *worker)
{
    struct npy values = {0}, sums = {0};
    bool ok = model_check_names(folder, part->kind, part->names, "another graph") &&
              open_rows(folder, part, ".npy", &values) &&
              open_rows(folder, part, "_sums.npy", &sums) && set_rows(part, &values, &sums, worker);
    npy_close(&values);
    npy_close(&sums);
    return ok;
}
