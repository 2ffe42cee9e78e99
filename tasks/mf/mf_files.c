/* mf_files - a factorization as files of a folder. See mf_files.h. */
#include "mf/mf_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/input.h"
#include "common/outputs.h"
#include "common/vectors.h"
#include "mf/factors.h"

enum { BLOCK_ROWS = 256, N_PIECES = 3 };

/* A part of each row of parameters that has a file of its own. */
struct piece {
    const char *ending;
    size_t first, n;
};

static void list_pieces(size_t rank, struct piece pieces[N_PIECES])
{
    size_t width = factors_width(rank);
    pieces[0] = (struct piece){".npy", 0, rank};
    pieces[1] = (struct piece){"_sums.npy", width, rank};
    pieces[2] = (struct piece){"_biases.npy", 2 * width, 2};
}

/* At most a block of numbers from `first` on, as keys. */
static size_t list_keys(const struct mf_side *side, uint64_t first, uint64_t keys[BLOCK_ROWS])
{
    uint64_t left = side->names->n - first;
    size_t n = left < BLOCK_ROWS ? (size_t)left : BLOCK_ROWS;
    for (size_t i = 0; i < n; i++)
        keys[i] = side->key_of != NULL ? side->key_of[first + i] : first + i;
    return n;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The files of one side; text and binary may be NULL. */
struct side_files {
    struct outfile *pieces[N_PIECES], *names, *text, *binary;
};

static bool add_file(struct outputs *outputs, const char *kind, const char *ending,
                     struct outfile **file)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", kind, ending);
    *file = outputs_add(outputs, name);
    return *file != NULL;
}

static bool add_files(struct outputs *outputs, const struct mf_side *side, int formats,
                      const struct piece pieces[N_PIECES], struct side_files *files)
{
    bool ok = add_file(outputs, side->kind, ".txt", &files->names);
    for (size_t i = 0; ok && i < N_PIECES; i++) {
        ok = add_file(outputs, side->kind, pieces[i].ending, &files->pieces[i]);
        if (ok)
            vectors_begin(files->pieces[i], VECTORS_NPY, side->names->n, pieces[i].n);
    }
    if (ok && formats & MF_FILES_TEXT && (ok = add_file(outputs, side->kind, ".vec", &files->text)))
        vectors_begin(files->text, VECTORS_TEXT, side->names->n, pieces[0].n);
    if (ok && formats & MF_FILES_BINARY &&
        (ok = add_file(outputs, side->kind, ".bin", &files->binary)))
        vectors_begin(files->binary, VECTORS_BINARY, side->names->n, pieces[0].n);
    return ok;
}

static void write_row(const struct side_files *files, const struct piece pieces[N_PIECES],
                      const char *name, const float *row)
{
    outfile_print(files->names, "%s\n", name);
    for (size_t i = 0; i < N_PIECES; i++)
        vectors_add(files->pieces[i], VECTORS_NPY, NULL, row + pieces[i].first, pieces[i].n);
    if (files->text != NULL)
        vectors_add(files->text, VECTORS_TEXT, name, row, pieces[0].n);
    if (files->binary != NULL)
        vectors_add(files->binary, VECTORS_BINARY, name, row, pieces[0].n);
}

static bool write_rows(const struct side_files *files, const struct piece pieces[N_PIECES],
                       const struct mf_side *side, struct tern_worker *worker, float *space)
{
    uint64_t keys[BLOCK_ROWS];
    const float *rows[BLOCK_ROWS];
    size_t n;
    for (uint64_t first = 0; first < side->names->n; first += n) {
        n = list_keys(side, first, keys);
        if (!params_read(side->params, worker, keys, n, space, rows))
            return false;
        for (size_t i = 0; i < n; i++)
            write_row(files, pieces, names_at(side->names, (uint32_t)(first + i)), rows[i]);
    }
    return true;
}

static bool write_side(struct outputs *outputs, size_t rank, int formats,
                       const struct mf_side *side, struct tern_worker *worker)
{
    struct piece pieces[N_PIECES];
    struct side_files files = {0};
    list_pieces(rank, pieces);
    if (!add_files(outputs, side, formats, pieces, &files))
        return false;
    float *space = malloc(BLOCK_ROWS * side->params->length * sizeof *space);
    if (space == NULL)
        return task_fail_memory("the model's files");
    bool ok = write_rows(&files, pieces, side, worker, space);
    free(space);
    return ok;
}

static bool write_facts(struct outputs *outputs, const struct mf_facts *facts)
{
    struct outfile *out = outputs_add(outputs, "model.txt");
    if (out == NULL)
        return false;
    outfile_print(out,
                  "rank %" PRIu64 "\nepochs %" PRIu64 "\nusers %" PRIu64 "\nitems %" PRIu64
                  "\nmean %.9g\nlow %.9g\nhigh %.9g\nseed %" PRIu64 "\ntest-share %.9g\n",
                  facts->rank, facts->n_epochs, facts->n_users, facts->n_items, facts->mean,
                  facts->low, facts->high, facts->seed, facts->test_share);
    return true;
}

bool mf_files_write(const char *folder, const struct mf_facts *facts, int formats,
                    const struct mf_side sides[2], struct tern_worker *worker)
{
    struct outputs outputs;
    if (!outputs_open(&outputs, folder))
        return false;
    if (write_facts(&outputs, facts) &&
        write_side(&outputs, facts->rank, formats, &sides[0], worker) &&
        write_side(&outputs, facts->rank, formats, &sides[1], worker))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading the facts ----------------------------------------------------------------------- */

static char *path_of(const char *folder, const char *kind, const char *ending)
{
    char *path;
    if (asprintf(&path, "%s/%s%s", folder, kind, ending) >= 0)
        return path;
    task_fail_memory("the name of a file");
    return NULL;
}

/* What read_fact() must have seen, by its names: all but seed and test-share, which older models lack. */
enum { SEEN_NEEDED = 0xef };

/* One line of model.txt. */
static bool read_fact(struct input *input, char *line, struct mf_facts *facts, unsigned *seen)
{
    static const char *const names[] = {"rank", "epochs", "users", "items",     "seed",
                                        "mean", "low",    "high",  "test-share"};
    uint64_t *const whole[] = {&facts->rank, &facts->n_epochs, &facts->n_users, &facts->n_items,
                               &facts->seed};
    double *const real[] = {&facts->mean, &facts->low, &facts->high, &facts->test_share};
    char *words[2] = {0};
    size_t i = 0, n = sizeof names / sizeof *names, n_whole = sizeof whole / sizeof *whole;
    if (input_fields(line, " ", words, 2) != 2)
        return input_fail(input, "expected a name and a value");
    while (i < n && strcmp(words[0], names[i]) != 0)
        i++;
    if (i == n)
        return input_fail(input, "unknown name '%s'; is this a model of 'tern train mf'?", words[0]);
    *seen |= 1u << i;
    return i < n_whole ? input_whole(input, words[1], whole[i])
                       : input_real(input, words[1], real[i - n_whole]);
}

static bool read_facts(struct input *input, struct mf_facts *facts)
{
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length;
    unsigned seen = 0;
    bool ok = true;
    while (ok && (result = input_line(input, &line, &length)) == INPUT_LINE)
        ok = read_fact(input, line, facts, &seen);
    return ok && result == INPUT_END &&
           ((seen & SEEN_NEEDED) == SEEN_NEEDED ||
            task_fail("%s does not describe a factorization", input->path));
}

bool mf_files_read_facts(const char *folder, struct mf_facts *facts)
{
    struct input input;
    char *path = path_of(folder, "model", ".txt");
    *facts = (struct mf_facts){.test_share = -1};
    bool ok = path != NULL && input_open(&input, path);
    free(path);
    if (!ok)
        return false;
    ok = read_facts(&input, facts);
    input_close(&input);
    return ok;
}

/* ---- Reading the rows ------------------------------------------------------------------------ */

static bool check_names(const char *folder, const struct mf_side *side)
{
    struct names names = {0};
    char *path = path_of(folder, side->kind, ".txt");
    bool ok = path != NULL && names_read(&names, path);
    uint32_t i = 0;
    while (ok && i < names.n && i < side->names->n &&
           strcmp(names_at(&names, i), names_at(side->names, i)) == 0)
        i++;
    if (ok && (i < names.n || i < side->names->n))
        ok = task_fail("%s:%u: the %s are not those of the data: the model was made from other "
                       "ratings",
                       path, i + 1, side->kind);
    names_fini(&names);
    free(path);
    return ok;
}

static bool open_piece(const char *folder, const struct mf_side *side, const struct piece *piece,
                       struct npy *npy)
{
    char *path = path_of(folder, side->kind, piece->ending);
    bool ok = path != NULL && npy_open(npy, path);
    if (ok && (npy->n_rows != side->names->n || npy->n_columns != piece->n))
        ok = task_fail("%s has %" PRIu64 " rows of %" PRIu64 " numbers, but %u of %zu are wanted",
                       path, npy->n_rows, npy->n_columns, side->names->n, piece->n);
    free(path);
    return ok;
}

static bool set_rows(const struct params *params, struct tern_worker *worker, const uint64_t *keys,
                     size_t n, const float *rows)
{
    if (params->values == NULL)
        return !tern_set(worker, params->table, keys, n, rows) || task_fail_tern("cannot set");
    for (size_t i = 0; i < n; i++)
        memcpy(params->values + keys[i] * params->length, rows + i * params->length,
               params->length * sizeof *rows);
    return true;
}

/* Reads block after block of all pieces; `rows` has room for one, and says what is in no piece. */
static bool read_rows(struct npy files[N_PIECES], const struct piece pieces[N_PIECES],
                      const struct mf_side *side, struct tern_worker *worker, float *rows)
{
    uint64_t keys[BLOCK_ROWS];
    size_t n, length = side->params->length;
    for (uint64_t first = 0; first < side->names->n; first += n) {
        n = list_keys(side, first, keys);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < N_PIECES; k++)
                if (!npy_read(&files[k], 1, rows + i * length + pieces[k].first))
                    return false;
        if (!set_rows(side->params, worker, keys, n, rows))
            return false;
    }
    return true;
}

bool mf_files_read_side(const char *folder, size_t rank, const struct mf_side *side,
                        struct tern_worker *worker)
{
    struct piece pieces[N_PIECES];
    struct npy files[N_PIECES] = {0};
    struct factors_start start = {.rank = rank};
    list_pieces(rank, pieces);
    size_t length = side->params->length;
    float *rows = malloc(BLOCK_ROWS * length * sizeof *rows);
    if (rows == NULL)
        return task_fail_memory("the model's files");
    for (size_t i = 0; i < BLOCK_ROWS; i++)
        factors_start(&start, i, rows + i * length, length);
    bool ok = check_names(folder, side);
    for (size_t i = 0; ok && i < N_PIECES; i++)
        ok = open_piece(folder, side, &pieces[i], &files[i]);
    ok = ok && read_rows(files, pieces, side, worker, rows);
    for (size_t i = 0; i < N_PIECES; i++)
        npy_close(&files[i]);
    free(rows);
    return ok;
}
