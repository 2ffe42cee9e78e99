/* wordfiles - word vectors as files of a folder. See wordfiles.h. */
#include "wordvec/wordfiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/modelfile.h"
#include "common/outputs.h"
#include "common/vectors.h"

enum { BLOCK_WORDS = 256 };

/* The lines of model.txt. */
struct info {
    uint64_t dim, n_epochs, n_words;
};

enum { N_LINES = 3 };

static void list_lines(struct info *info, struct model_line lines[N_LINES])
{
    const struct model_line all[N_LINES] = {
        {"dim", MODEL_WHOLE, .value = &info->dim},
        {"epochs", MODEL_WHOLE, .value = &info->n_epochs},
        {"words", MODEL_WHOLE, .value = &info->n_words},
    };
    memcpy(lines, all, sizeof all);
}

/* ---- Writing --------------------------------------------------------------------------------- */

struct open_files {
    struct outfile *names, *words, *contexts;
    struct outfile *text, *binary; /* NULL: not asked for */
};

static bool open_all(struct outputs *outputs, int formats, struct open_files *out)
{
    *out = (struct open_files){.names = outputs_add(outputs, "words.txt"),
                               .words = outputs_add(outputs, "words.npy"),
                               .contexts = outputs_add(outputs, "contexts.npy")};
    bool ok = out->names != NULL && out->words != NULL && out->contexts != NULL;
    if (ok && formats & WORDFILES_TEXT)
        ok = (out->text = outputs_add(outputs, "words.vec")) != NULL;
    if (ok && formats & WORDFILES_BINARY)
        ok = (out->binary = outputs_add(outputs, "words.bin")) != NULL;
    return ok;
}

static void write_heads(const struct wordfiles *files, const struct open_files *out)
{
    uint64_t n = files->names->n, dim = files->dim;
    vectors_begin(out->words, VECTORS_NPY, n, dim);
    vectors_begin(out->contexts, VECTORS_NPY, n, dim);
    if (out->text != NULL)
        vectors_begin(out->text, VECTORS_TEXT, n, dim);
    if (out->binary != NULL)
        vectors_begin(out->binary, VECTORS_BINARY, n, dim);
}

static void write_word(const struct open_files *out, const char *name, const float *word,
                       const float *context, size_t dim)
{
    outfile_print(out->names, "%s\n", name);
    vectors_add(out->words, VECTORS_NPY, NULL, word, dim);
    vectors_add(out->contexts, VECTORS_NPY, NULL, context, dim);
    if (out->text != NULL)
        vectors_add(out->text, VECTORS_TEXT, name, word, dim);
    if (out->binary != NULL)
        vectors_add(out->binary, VECTORS_BINARY, name, word, dim);
}

static bool write_words(const struct wordfiles *files, const struct open_files *out)
{
    size_t length = files->params->length, n_words = files->names->n;
    float *rows = malloc(2 * BLOCK_WORDS * length * sizeof *rows);
    bool ok = rows != NULL || task_fail_memory("the model's files");
    for (size_t first = 0; ok && first < n_words; first += BLOCK_WORDS) {
        size_t n = n_words - first < BLOCK_WORDS ? n_words - first : BLOCK_WORDS;
        ok = params_get(files->params, files->worker, 2 * first, 2 * n, rows);
        for (size_t i = 0; ok && i < n; i++)
            write_word(out, names_at(files->names, (uint32_t)(first + i)), rows + 2 * i * length,
                       rows + (2 * i + 1) * length, files->dim);
    }
    free(rows);
    return ok;
}

bool wordfiles_write(const struct wordfiles *files, const char *folder, int64_t n_epochs)
{
    struct outputs outputs;
    struct open_files out;
    struct info info = {files->dim, (uint64_t)n_epochs, files->names->n};
    struct model_line lines[N_LINES];
    list_lines(&info, lines);
    if (!outputs_open(&outputs, folder))
        return false;
    if (!(files->formats & WORDFILES_TEXT))
        outputs_drop(&outputs, "words.vec");
    if (!(files->formats & WORDFILES_BINARY))
        outputs_drop(&outputs, "words.bin");
    if (modelfile_write(&outputs, "wordvec", lines, N_LINES, files->settings) &&
        open_all(&outputs, files->formats, &out)) {
        write_heads(files, &out);
        if (write_words(files, &out))
            return outputs_commit(&outputs);
    }
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads the vectors of one file into every other row, from row `offset` on. */
static bool read_vectors(const struct wordfiles *files, struct npy *npy, uint64_t offset)
{
    size_t length = files->params->length, dim = files->dim;
    float *vector = calloc(length, sizeof *vector);
    bool ok = vector != NULL || task_fail_memory("the model");
    if (npy->n_rows != files->names->n || npy->n_columns != dim)
        ok = task_fail("%s has %" PRIu64 " vectors of %" PRIu64 " numbers, not %u of %zu",
                       npy->path, npy->n_rows, npy->n_columns, files->names->n, dim);
    for (uint64_t i = 0; ok && i < npy->n_rows; i++)
        ok = npy_read(npy, 1, vector) &&
             params_set(files->params, files->worker, 2 * i + offset, 1, vector);
    free(vector);
    return ok;
}

static bool read_part(const struct wordfiles *files, const char *folder, const char *stem,
                      uint64_t offset)
{
    struct npy npy;
    char *path = model_path(folder, stem, ".npy");
    bool ok = path != NULL && npy_open(&npy, path);
    free(path);
    if (!ok)
        return false;
    ok = read_vectors(files, &npy, offset);
    npy_close(&npy);
    return ok;
}

bool wordfiles_read(const struct wordfiles *files, const char *folder, int64_t *n_epochs)
{
    struct info info = {0};
    struct model_line lines[N_LINES];
    list_lines(&info, lines);
    if (!modelfile_read(folder, "wordvec", lines, N_LINES))
        return false;
    if (info.dim != files->dim)
        return task_fail("the vectors in %s have dimension %" PRIu64 ", not %zu (--dim)", folder,
                         info.dim, files->dim);
    *n_epochs = (int64_t)info.n_epochs;
    return model_check_names(folder, "words", files->names, "another text or --min-count") &&
           read_part(files, folder, "words", 0) && read_part(files, folder, "contexts", 1);
}
