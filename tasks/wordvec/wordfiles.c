/* wordfiles - word vectors as files of a folder. See wordfiles.h. */
#include "wordvec/wordfiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/input.h"
#include "common/outputs.h"
#include "common/vectors.h"

enum { BLOCK_WORDS = 256 };

/* ---- Writing --------------------------------------------------------------------------------- */

struct open_files {
    struct outfile *facts, *names, *words, *contexts;
    struct outfile *text, *binary; /* NULL: not asked for */
};

static bool open_all(struct outputs *outputs, int formats, struct open_files *out)
{
    *out = (struct open_files){.facts = outputs_add(outputs, "model.txt"),
                               .names = outputs_add(outputs, "words.txt"),
                               .words = outputs_add(outputs, "words.npy"),
                               .contexts = outputs_add(outputs, "contexts.npy")};
    bool ok =
        out->facts != NULL && out->names != NULL && out->words != NULL && out->contexts != NULL;
    if (ok && formats & WORDFILES_TEXT)
        ok = (out->text = outputs_add(outputs, "words.vec")) != NULL;
    if (ok && formats & WORDFILES_BINARY)
        ok = (out->binary = outputs_add(outputs, "words.bin")) != NULL;
    return ok;
}

static void write_heads(const struct wordfiles *files, int64_t n_epochs,
                        const struct open_files *out)
{
    uint64_t n = files->names->n, dim = files->dim;
    outfile_print(out->facts, "dim %" PRIu64 "\nepochs %" PRId64 "\nwords %" PRIu64 "\n", dim,
                  n_epochs, n);
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
    if (!outputs_open(&outputs, folder))
        return false;
    if (open_all(&outputs, files->formats, &out)) {
        write_heads(files, n_epochs, &out);
        if (write_words(files, &out))
            return outputs_commit(&outputs);
    }
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

enum fact { FACT_DIM, FACT_EPOCHS, FACT_WORDS, N_FACTS };

static const char *const fact_names[N_FACTS] = {"dim", "epochs", "words"};

/* The path of a file, to be freed; NULL after task_fail(). */
static char *path_of(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0) {
        task_fail_memory("the name of a file");
        return NULL;
    }
    return path;
}

/* One line of model.txt. */
static bool read_fact(struct input *input, char *line, uint64_t facts[N_FACTS], unsigned *seen)
{
    char *fields[2] = {0};
    if (input_fields(line, " ", fields, 2) != 2)
        return input_fail(input, "expected a name and a value");
    size_t i = 0;
    while (i < N_FACTS && strcmp(fields[0], fact_names[i]) != 0)
        i++;
    if (i == N_FACTS)
        return input_fail(input, "unknown name '%s'; is this a model of 'tern train wordvec'?", fields[0]);
    *seen |= 1u << i;
    return input_whole(input, fields[1], &facts[i]);
}

static bool read_facts(const char *folder, uint64_t facts[N_FACTS])
{
    struct input input;
    enum input_result result = INPUT_FAILED;
    char *line, *path = path_of(folder, "model.txt");
    size_t length;
    unsigned seen = 0;
    bool ok = path != NULL && input_open(&input, path);
    free(path);
    if (!ok)
        return false;
    while (ok && (result = input_line(&input, &line, &length)) == INPUT_LINE)
        ok = read_fact(&input, line, facts, &seen);
    ok =
        ok && result == INPUT_END &&
        (seen == (1u << N_FACTS) - 1 || task_fail("%s does not describe word vectors", input.path));
    input_close(&input);
    return ok;
}

/* Whether words.txt has the words of the text in their order. */
static bool check_names(const struct wordfiles *files, const char *folder)
{
    struct names names = {0};
    char *path = path_of(folder, "words.txt");
    bool ok = path != NULL && names_read(&names, path);
    bool same = ok && names.n == files->names->n;
    for (uint32_t i = 0; same && i < names.n; i++)
        same = strcmp(names_at(&names, i), names_at(files->names, i)) == 0;
    if (ok && !same)
        ok = task_fail("%s has other words than the text and --min-count give", path);
    names_fini(&names);
    free(path);
    return ok;
}

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

static bool read_part(const struct wordfiles *files, const char *folder, const char *name,
                      uint64_t offset)
{
    struct npy npy;
    char *path = path_of(folder, name);
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
    uint64_t facts[N_FACTS] = {0};
    if (!read_facts(folder, facts))
        return false;
    if (facts[FACT_DIM] != files->dim)
        return task_fail("the vectors in %s have %" PRIu64 " numbers, not %zu (--dim)", folder,
                         facts[FACT_DIM], files->dim);
    *n_epochs = (int64_t)facts[FACT_EPOCHS];
    return check_names(files, folder) && read_part(files, folder, "words.npy", 0) &&
           read_part(files, folder, "contexts.npy", 1);
}
