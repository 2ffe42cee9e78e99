/* linear_files - a linear model as files of a folder. See linear_files.h. */
#include "linear/linear_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/feature_names.h"
#include "common/input.h"
#include "common/modelfile.h"
#include "common/npy.h"
#include "common/outputs.h"

enum { N_LINES = 7, AT_ONCE = 1 << 14 };

static const char INTERCEPT[] = "intercept";

static void list_lines(struct linear_info *info, struct model_line lines[N_LINES])
{
    const struct model_line all[N_LINES] = {
        {"epochs", MODEL_WHOLE, .value = &info->n_epochs},
        {"weights", MODEL_WHOLE, .value = &info->n_weights},
        {"loss", MODEL_CHOICE, .value = &info->loss, .choices = loss_names},
        {"format", MODEL_CHOICE, .value = &info->format, .choices = examples_formats},
        {"hash-bits", MODEL_WHOLE, .value = &info->hash_bits},
        {"first-violation", MODEL_REAL, .value = &info->first_violation},
        {"ngrams", MODEL_WHOLE, .value = &info->n_grams},
    };
    memcpy(lines, all, sizeof all);
}

/* ---- Writing ---------------------------------------------------------------------------------- */

/* Room for some weights. */
struct portion {
    uint64_t keys[AT_ONCE];
    double weights[AT_ONCE];
};

/* The files of the weights: text, and two arrays in the same order. */
struct weight_files {
    struct outfile *text, *keys, *values;
};

static void write_weight(const struct weight_files *files, uint64_t key, double weight)
{
    if (key == LINEAR_INTERCEPT_KEY)
        outfile_print(files->text, "%s %.9g\n", INTERCEPT, weight);
    else
        outfile_print(files->text, "%" PRIu64 " %.9g\n", key, weight);
    outfile_write(files->keys, &key, sizeof key);
    outfile_write(files->values, &weight, sizeof weight);
}

static void write_heads(const struct weight_files *files, uint64_t n)
{
    rewind(files->keys->file);
    rewind(files->values->file);
    npy_write_head(files->keys, "<u8", n, 1);
    npy_write_head(files->values, "<f8", n, 1);
}

static bool write_weights(const struct weight_files *files, linear_source *source, void *context,
                          uint64_t *n_written)
{
    struct portion *portion = malloc(sizeof *portion);
    size_t n = 1;
    bool ok = portion != NULL || task_fail_memory("the model's files");
    write_heads(files, 0);
    while (ok && n > 0) {
        ok = source(context, AT_ONCE, portion->keys, portion->weights, &n);
        for (size_t i = 0; ok && i < n; i++) {
            if (portion->weights[i] == 0)
                continue;
            write_weight(files, portion->keys[i], portion->weights[i]);
            ++*n_written;
        }
    }
    write_heads(files, *n_written);
    free(portion);
    return ok;
}

static bool write_files(struct outputs *outputs, linear_source *source, void *context,
                        uint64_t *n_written)
{
    struct weight_files files = {.text = outputs_add(outputs, "weights.txt")};
    files.keys = files.text != NULL ? outputs_add(outputs, "keys.npy") : NULL;
    files.values = files.keys != NULL ? outputs_add(outputs, "weights.npy") : NULL;
    return files.values != NULL && write_weights(&files, source, context, n_written);
}

bool linear_files_write(const char *folder, const struct linear_info *info, const char *settings,
                        linear_source *source, void *context)
{
    struct outputs outputs;
    struct linear_info copy = *info;
    struct model_line lines[N_LINES];
    copy.n_weights = 0;
    list_lines(&copy, lines);
    if (!outputs_open(&outputs, folder))
        return false;
    if (write_files(&outputs, source, context, &copy.n_weights) &&
        modelfile_write(&outputs, "linear", lines, N_LINES, settings))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading ---------------------------------------------------------------------------------- */

bool linear_files_read_info(const char *folder, struct linear_info *info)
{
    struct model_line lines[N_LINES];
    *info = (struct linear_info){0};
    list_lines(info, lines);
    return modelfile_read(folder, "linear", lines, N_LINES);
}

/* A line of weights.txt. */
static bool read_weight(const struct input *input, char *line, uint64_t *key, double *weight)
{
    char *fields[2], *end;
    (void)feature_names_cut(line);
    if (input_fields(line, " ", fields, 2) != 2)
        return input_fail(input, "the line is not a key and a weight");
    if (strcmp(fields[0], INTERCEPT) == 0)
        *key = LINEAR_INTERCEPT_KEY;
    else {
        *key = strtoull(fields[0], &end, 10);
        if (*end != '\0' || fields[0][0] < '0' || fields[0][0] > '9')
            return input_fail(input, "'%s' is no key", fields[0]);
    }
    return input_real(input, fields[1], weight);
}

static bool read_lines(struct input *input, linear_sink *sink, void *context)
{
    struct portion *portion = malloc(sizeof *portion);
    enum input_result result = INPUT_LINE;
    size_t n = 0, length;
    bool ok = portion != NULL || task_fail_memory("the model");
    while (ok && result == INPUT_LINE) {
        char *line;
        result = input_line(input, &line, &length);
        if (result == INPUT_LINE) {
            ok = read_weight(input, line, &portion->keys[n], &portion->weights[n]);
            n++;
        }
        if (ok && (n == AT_ONCE || result == INPUT_END)) {
            ok = sink(context, portion->keys, portion->weights, n);
            n = 0;
        }
    }
    free(portion);
    return ok && result == INPUT_END;
}

bool linear_files_read_weights(const char *folder, linear_sink *sink, void *context)
{
    char *path = model_path(folder, "weights", ".txt");
    struct input input;
    bool ok = path != NULL && input_open(&input, path);
    if (ok) {
        ok = read_lines(&input, sink, context);
        input_close(&input);
    }
    free(path);
    return ok;
}
