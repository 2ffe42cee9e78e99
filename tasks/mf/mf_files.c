/* mf_files - a factorization as files of a folder. See mf_files.h. */
#include "mf/mf_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/modelfile.h"
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

/* The lines of model.txt. */
enum { N_LINES = 11 };

static void list_lines(struct mf_info *info, struct model_line lines[N_LINES])
{
    const struct model_line all[N_LINES] = {
        {"rank", MODEL_WHOLE, .value = &info->rank},
        {"epochs", MODEL_WHOLE, .value = &info->n_epochs},
        {"users", MODEL_WHOLE, .value = &info->n_users},
        {"items", MODEL_WHOLE, .value = &info->n_items},
        {"mean", MODEL_REAL, .value = &info->mean},
        {"scale", MODEL_REAL, .value = &info->scale, .is_optional = true},
        {"low", MODEL_REAL, .value = &info->low},
        {"high", MODEL_REAL, .value = &info->high},
        {"penalty", MODEL_REAL, .value = &info->penalty, .is_optional = true},
        {"seed", MODEL_WHOLE, .value = &info->seed, .is_optional = true},
        {"test-share", MODEL_REAL, .value = &info->test_share, .is_optional = true},
    };
    memcpy(lines, all, sizeof all);
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

/* Drops the formats that an earlier run was asked for and this one is not. */
static void drop_formats(struct outputs *outputs, int formats)
{
    static const struct {
        int format;
        const char *name;
    } all[] = {{MF_FILES_TEXT, "users.vec"},
               {MF_FILES_TEXT, "items.vec"},
               {MF_FILES_BINARY, "users.bin"},
               {MF_FILES_BINARY, "items.bin"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(formats & all[i].format))
            outputs_drop(outputs, all[i].name);
}

bool mf_files_write(const char *folder, const struct mf_info *info, const char *settings,
                    int formats, const struct mf_side sides[2], struct tern_worker *worker)
{
    struct outputs outputs;
    struct mf_info copy = *info;
    struct model_line lines[N_LINES];
    list_lines(&copy, lines);
    if (!outputs_open(&outputs, folder))
        return false;
    drop_formats(&outputs, formats);
    if (modelfile_write(&outputs, "mf", lines, N_LINES, settings) &&
        write_side(&outputs, info->rank, formats, &sides[0], worker) &&
        write_side(&outputs, info->rank, formats, &sides[1], worker))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool mf_files_read_info(const char *folder, struct mf_info *info)
{
    struct model_line lines[N_LINES];
    *info = (struct mf_info){.test_share = -1, .scale = 1};
    list_lines(info, lines);
    if (!modelfile_read(folder, "mf", lines, N_LINES))
        return false;
    return (info->rank > 0 && factors_length(info->rank) <= TERN_MAX_VALUE_BYTES / 4) ||
           task_fail("%s/model.txt has an impossible rank: %" PRIu64, folder, info->rank);
}

static bool open_piece(const char *folder, const struct mf_side *side, const struct piece *piece,
                       struct npy *npy)
{
    char *path = model_path(folder, side->kind, piece->ending);
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
    bool ok = model_check_names(folder, side->kind, side->names, "other ratings");
    for (size_t i = 0; ok && i < N_PIECES; i++)
        ok = open_piece(folder, side, &pieces[i], &files[i]);
    ok = ok && read_rows(files, pieces, side, worker, rows);
    for (size_t i = 0; i < N_PIECES; i++)
        npy_close(&files[i]);
    free(rows);
    return ok;
}
