/* fm_files - a factorization machine as files of a folder. See fm_files.h. */
#include "fm/fm_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/feature_names.h"
#include "common/input.h"
#include "common/modelfile.h"
#include "common/outputs.h"
#include "common/vectors.h"

enum { N_LINES = 13 };

static const char INTERCEPT[] = "intercept";

static void list_lines(struct fm_info *info, struct model_line lines[N_LINES])
{
    const struct model_line all[N_LINES] = {
        {"epochs", MODEL_WHOLE, .value = &info->n_epochs},
        {"weights", MODEL_WHOLE, .value = &info->n_weights},
        {"embeddings", MODEL_WHOLE, .value = &info->n_embeddings},
        {"entries", MODEL_WHOLE, .value = &info->n_entries},
        {"loss", MODEL_CHOICE, .value = &info->loss, .choices = loss_names},
        {"format", MODEL_CHOICE, .value = &info->format, .choices = examples_formats},
        {"hash-bits", MODEL_WHOLE, .value = &info->hash_bits},
        {"ngrams", MODEL_WHOLE, .value = &info->n_grams},
        {"tiers", MODEL_WHOLE, .value = &info->n_tiers},
        {"tier-1", MODEL_WHOLE, .value = &info->n_dims[0]},
        {"tier-2", MODEL_WHOLE, .value = &info->n_dims[1]},
        {"tier-3", MODEL_WHOLE, .value = &info->n_dims[2]},
        {"tier-4", MODEL_WHOLE, .value = &info->n_dims[3]},
    };
    memcpy(lines, all, sizeof all);
}

size_t fm_info_dims(const struct fm_info *info, size_t n)
{
    size_t sum = 0;
    for (size_t t = 0; t < n; t++)
        sum += (size_t)info->n_dims[t];
    return sum;
}

/* ---- Writing ---------------------------------------------------------------------------------- */

struct writing {
    struct fm_info *info;
    struct outfile *file;
    float *row; /* of embeddings.npy */
};

static bool write_line(void *context, const struct fm_feature *feature)
{
    struct writing *writing = context;
    struct fm_info *info = writing->info;
    const size_t n = fm_info_dims(info, feature->n_tiers);
    if (feature->weight == 0 && n == 0)
        return true;
    if (feature->key == FM_INTERCEPT_KEY)
        outfile_print(writing->file, "%s", INTERCEPT);
    else
        outfile_print(writing->file, "%" PRIu64, feature->key);
    outfile_print(writing->file, " %.9g", (double)feature->weight);
    for (size_t j = 0; j < n; j++)
        outfile_print(writing->file, " %.9g", (double)feature->vectors[j]);
    outfile_print(writing->file, "\n");
    info->n_weights += feature->weight != 0;
    info->n_embeddings += n > 0;
    info->n_entries += n;
    return true;
}

static bool write_vector(void *context, const struct fm_feature *feature)
{
    struct writing *writing = context;
    const size_t n = fm_info_dims(writing->info, feature->n_tiers);
    const size_t n_all = fm_info_dims(writing->info, (size_t)writing->info->n_tiers);
    if (n == 0)
        return true;
    memset(writing->row, 0, n_all * sizeof *writing->row);
    memcpy(writing->row, feature->vectors, n * sizeof *writing->row);
    vectors_add(writing->file, VECTORS_NPY, NULL, writing->row, n_all);
    return true;
}

static bool write_files(struct outputs *outputs, struct writing *writing, fm_source *source,
                        void *context)
{
    const size_t n_dims = fm_info_dims(writing->info, (size_t)writing->info->n_tiers);
    writing->file = outputs_add(outputs, "weights.txt");
    if (writing->file == NULL || !source(context, write_line, writing))
        return false;
    if (n_dims == 0)
        return true;
    writing->row = calloc(n_dims, sizeof *writing->row);
    if (writing->row == NULL)
        return task_fail_memory("the model's files");
    writing->file = outputs_add(outputs, "embeddings.npy");
    bool ok = writing->file != NULL;
    if (ok)
        vectors_begin(writing->file, VECTORS_NPY, writing->info->n_embeddings, n_dims);
    ok = ok && source(context, write_vector, writing);
    free(writing->row);
    return ok;
}

bool fm_files_write(const char *folder, const struct fm_info *info, const char *settings,
                    fm_source *source, void *context)
{
    struct outputs outputs;
    struct fm_info copy = *info;
    struct model_line lines[N_LINES];
    struct writing writing = {.info = &copy};
    copy.n_weights = copy.n_embeddings = copy.n_entries = 0;
    list_lines(&copy, lines);
    if (!outputs_open(&outputs, folder))
        return false;
    outputs_drop(&outputs, "embeddings.npy");
    if (write_files(&outputs, &writing, source, context) &&
        modelfile_write(&outputs, "fm", lines, N_LINES, settings))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading ---------------------------------------------------------------------------------- */

bool fm_files_read_info(const char *folder, struct fm_info *info)
{
    struct model_line lines[N_LINES];
    *info = (struct fm_info){0};
    list_lines(info, lines);
    if (!modelfile_read(folder, "fm", lines, N_LINES))
        return false;
    bool ok = info->n_tiers <= FM_MAX_TIERS;
    for (size_t t = 0; ok && t < info->n_tiers; t++)
        ok = info->n_dims[t] > 0 && info->n_dims[t] <= FM_MAX_DIMS;
    return ok || task_fail("%s/model.txt: the tiers are not those of a model", folder);
}

static bool read_key(const struct input *input, const char *field, uint64_t *key)
{
    char *end;
    if (strcmp(field, INTERCEPT) == 0) {
        *key = FM_INTERCEPT_KEY;
        return true;
    }
    *key = strtoull(field, &end, 10);
    return (*end == '\0' && field[0] >= '0' && field[0] <= '9') ||
           input_fail(input, "'%s' is no key", field);
}

/* A line of weights.txt, cut into n fields. */
static bool read_feature(const struct input *input, const struct fm_info *info, char **fields,
                         size_t n, float *vectors, struct fm_feature *feature)
{
    double number = 0;
    size_t n_tiers = 0;
    while (n_tiers < info->n_tiers && 2 + fm_info_dims(info, n_tiers) < n)
        n_tiers++;
    if (n != 2 + fm_info_dims(info, n_tiers))
        return input_fail(input, "the line is not a key, a weight and an embedding of the model's "
                                 "dimensions");
    if (!read_key(input, fields[0], &feature->key) || !input_real(input, fields[1], &number))
        return false;
    feature->weight = (float)number;
    feature->n_tiers = n_tiers;
    feature->vectors = vectors;
    for (size_t j = 2; j < n; j++) {
        if (!input_real(input, fields[j], &number))
            return false;
        vectors[j - 2] = (float)number;
    }
    return true;
}

static bool read_lines(struct input *input, const struct fm_info *info, fm_sink *sink,
                       void *context)
{
    const size_t n_max = 3 + fm_info_dims(info, (size_t)info->n_tiers);
    char **fields = calloc(n_max, sizeof *fields);
    float *vectors = calloc(n_max, sizeof *vectors);
    enum input_result result = INPUT_LINE;
    bool ok = (fields != NULL && vectors != NULL) || task_fail_memory("the model");
    while (ok && result == INPUT_LINE) {
        char *line;
        size_t length;
        struct fm_feature feature = {0};
        result = input_line(input, &line, &length);
        if (result != INPUT_LINE)
            continue;
        (void)feature_names_cut(line);
        const size_t n = input_fields(line, " ", fields, n_max);
        ok = read_feature(input, info, fields, n < n_max ? n : n_max, vectors, &feature) &&
             sink(context, &feature);
    }
    free(fields);
    free(vectors);
    return ok && result == INPUT_END;
}

bool fm_files_read(const char *folder, const struct fm_info *info, fm_sink *sink, void *context)
{
    char *path = model_path(folder, "weights", ".txt");
    struct input input;
    bool ok = path != NULL && input_open(&input, path);
    if (ok) {
        ok = read_lines(&input, info, sink, context);
        input_close(&input);
    }
    free(path);
    return ok;
}
