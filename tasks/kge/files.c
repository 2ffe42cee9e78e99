/* files - a model as files of a folder. See files.h. */
#include "kge/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/input.h"
#include "common/outputs.h"
#include "common/vectors.h"

enum { BLOCK_ROWS = 256 };

char *files_path(const char *folder, const char *kind, const char *ending)
{
    char *path;
    if (asprintf(&path, "%s/%s%s", folder, kind, ending) < 0) {
        task_fail_memory("the name of a file");
        return NULL;
    }
    return path;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The files of one part. */
struct part_files {
    struct outfile *values, *sums, *names, *text, *binary; /* the last two may be NULL */
};

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

static bool write_facts(struct outputs *outputs, const struct model_facts *facts)
{
    struct outfile *out = outputs_add(outputs, "model.txt");
    if (out == NULL)
        return false;
    outfile_print(out,
                  "model %s\ndim %" PRIu64 "\nepochs %" PRIu64 "\nentities %" PRIu64
                  "\nrelations %" PRIu64 "\n",
                  model_names[facts->model], facts->dim, facts->n_epochs, facts->n_entities,
                  facts->n_relations);
    return true;
}

bool files_write(const char *folder, const struct model_facts *facts, int formats,
                 const struct model_part parts[2], struct tern_worker *worker)
{
    struct outputs outputs;
    if (!outputs_open(&outputs, folder))
        return false;
    if (write_facts(&outputs, facts) && write_part(&outputs, &parts[0], formats, worker) &&
        write_part(&outputs, &parts[1], formats, worker))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* One line of model.txt. */
static bool read_line(struct input *input, char *line, struct model_facts *facts, unsigned *seen)
{
    char *words[2] = {0};
    const char *const keys[] = {"model", "dim", "epochs", "entities", "relations"};
    uint64_t *const numbers[] = {NULL, &facts->dim, &facts->n_epochs, &facts->n_entities,
                                 &facts->n_relations};
    if (input_fields(line, " ", words, 2) != 2)
        return input_fail(input, "expected a name and a value");
    size_t i = 0;
    while (i < 5 && strcmp(words[0], keys[i]) != 0)
        i++;
    if (i == 5)
        return input_fail(input, "unknown name '%s'; is this a model of 'tern train kge'?", words[0]);
    *seen |= 1u << i;
    if (i > 0)
        return input_whole(input, words[1], numbers[i]);
    for (i = 0; model_names[i] != NULL && strcmp(words[1], model_names[i]) != 0; i++)
        ;
    facts->model = (enum kge_model)i;
    return model_names[i] != NULL || input_fail(input, "there is no model '%s'", words[1]);
}

bool files_read_facts(const char *folder, struct model_facts *facts)
{
    struct input input;
    enum input_result result = INPUT_FAILED;
    char *line, *path = files_path(folder, "model", ".txt");
    size_t length;
    unsigned seen = 0;
    *facts = (struct model_facts){0};
    if (path == NULL)
        return false;
    bool ok = input_open(&input, path);
    free(path);
    if (!ok)
        return false;
    while (ok && (result = input_line(&input, &line, &length)) == INPUT_LINE)
        ok = read_line(&input, line, facts, &seen);
    ok = ok && result == INPUT_END;
    if (ok && (seen != 31 || facts->dim == 0 || facts->dim > TERN_MAX_VALUE_BYTES / 8))
        ok = task_fail("%s does not describe a model", input.path);
    input_close(&input);
    return ok;
}

static bool check_names(const char *folder, const struct model_part *part)
{
    struct names names = {0};
    char *path = files_path(folder, part->kind, ".txt");
    bool ok = path != NULL && names_read(&names, path);
    uint32_t i = 0;
    while (ok && i < names.n && i < part->names->n &&
           strcmp(names_at(&names, i), names_at(part->names, i)) == 0)
        i++;
    if (ok && (i < names.n || i < part->names->n))
        ok = task_fail("%s:%u: the %s are not those of the data: the model was made from another "
                       "graph",
                       path, i + 1, part->kind);
    names_fini(&names);
    free(path);
    return ok;
}

static bool open_rows(const char *folder, const struct model_part *part, const char *ending,
                      struct npy *npy)
{
    char *path = files_path(folder, part->kind, ending);
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
    bool ok = check_names(folder, part) && open_rows(folder, part, ".npy", &values) &&
              open_rows(folder, part, "_sums.npy", &sums) && set_rows(part, &values, &sums, worker);
    npy_close(&values);
    npy_close(&sums);
    return ok;
}
