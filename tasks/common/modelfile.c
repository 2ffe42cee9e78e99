/* modelfile - model.txt and the names of a model's files. See modelfile.h. */
#include "common/modelfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/input.h"
#include "common/outputs.h"
#include "common/sentence.h"
#include "common/similar.h"
#include "common/vectors.h"

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_line(struct outfile *out, const struct model_line *line)
{
    if (line->kind == MODEL_WHOLE)
        outfile_print(out, "%s %" PRIu64 "\n", line->name, *(const uint64_t *)line->value);
    else if (line->kind == MODEL_REAL)
        outfile_print(out, "%s %.9g\n", line->name, *(const double *)line->value);
    else
        outfile_print(out, "%s %s\n", line->name, line->choices[*(const int *)line->value]);
}

static bool is_listed(const char *name, size_t length, const struct model_line *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(lines[i].name) == length && memcmp(lines[i].name, name, length) == 0)
            return true;
    return false;
}

bool modelfile_write(struct outputs *outputs, const char *task, const struct model_line *lines,
                     size_t n, const char *settings)
{
    struct outfile *out = outputs_add(outputs, "model.txt");
    if (out == NULL)
        return false;
    outfile_print(out, "task %s\n", task);
    for (size_t i = 0; i < n; i++)
        write_line(out, &lines[i]);
    while (settings != NULL && *settings != '\0') {
        size_t length = strcspn(settings, "\n");
        if (!is_listed(settings, strcspn(settings, " \n"), lines, n))
            outfile_print(out, "%.*s\n", (int)length, settings);
        settings += length + (settings[length] == '\n');
    }
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_choice(struct input *input, const struct model_line *line, const char *text)
{
    int i = 0;
    while (line->choices[i] != NULL && strcmp(text, line->choices[i]) != 0)
        i++;
    if (line->choices[i] == NULL)
        return input_fail(input, "there is no %s '%s'", line->name, text);
    *(int *)line->value = i;
    return true;
}

static bool read_value(struct input *input, const struct model_line *line, const char *text)
{
    if (line->kind == MODEL_WHOLE)
        return input_whole(input, text, line->value);
    if (line->kind == MODEL_REAL)
        return input_real(input, text, line->value);
    return read_choice(input, line, text);
}

/* *seen gets the bit of a line that the task reads. */
static bool read_line(struct input *input, char *text, const char *task,
                      const struct model_line *lines, size_t n, uint64_t *seen)
{
    char *value = strchr(text, ' ');
    if (value == NULL)
        return input_fail(input, "expected a name and a value");
    *value++ = '\0';
    if (strcmp(text, "task") == 0 && strcmp(value, task) != 0)
        return task_fail("%s describes a model of 'tern train %s', not of 'tern train %s'",
                         input->path, value, task);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, lines[i].name) != 0)
            continue;
        *seen |= UINT64_C(1) << i;
        return read_value(input, &lines[i], value);
    }
    return true;
}

static bool check_complete(const char *path, const char *task, const struct model_line *lines,
                           size_t n, uint64_t seen)
{
    for (size_t i = 0; i < n; i++)
        if ((seen >> i & 1) == 0 && !lines[i].is_optional)
            return task_fail("%s does not describe a model of 'tern train %s': it lacks '%s'", path,
                             task, lines[i].name);
    return true;
}

bool modelfile_read(const char *folder, const char *task, const struct model_line *lines, size_t n)
{
    struct input input;
    enum input_result result = INPUT_FAILED;
    char *text, *path = model_path(folder, "model", ".txt");
    size_t length;
    uint64_t seen = 0;
    outputs_recover(folder);
    bool ok = path != NULL && input_open(&input, path);
    if (!ok) {
        free(path);
        return false;
    }
    while (ok && (result = input_line(&input, &text, &length)) == INPUT_LINE)
        ok = read_line(&input, text, task, lines, n, &seen);
    ok = ok && result == INPUT_END && check_complete(path, task, lines, n, seen);
    input_close(&input);
    free(path);
    return ok;
}

/* ---- Names ----------------------------------------------------------------------------------- */

char *model_path(const char *folder, const char *stem, const char *ending)
{
    char *path;
    if (asprintf(&path, "%s/%s%s", folder, stem, ending) >= 0)
        return path;
    task_fail_memory("the name of a file");
    return NULL;
}

bool model_read_names(const char *folder, const char *stem, uint64_t n, struct names *names)
{
    char *path = model_path(folder, stem, ".txt");
    bool ok = path != NULL && names_read(names, path);
    if (ok && names->n != n)
        ok = task_fail("%s has %u names, but the model has %" PRIu64, path, names->n, n);
    free(path);
    return ok;
}

bool model_check_names(const char *folder, const char *stem, const struct names *names,
                       const char *source)
{
    struct names saved = {0};
    char *path = model_path(folder, stem, ".txt");
    bool ok = path != NULL && names_read(&saved, path);
    uint32_t i = 0;
    while (ok && i < saved.n && i < names->n &&
           strcmp(names_at(&saved, i), names_at(names, i)) == 0)
        i++;
    if (ok && (i < saved.n || i < names->n))
        ok = task_fail("%s:%u: the %s are not those of the data: the model was made from %s", path,
                       i + 1, stem, source);
    names_fini(&saved);
    free(path);
    return ok;
}

bool model_find_name(const char *folder, const char *stem, const struct names *names,
                     const char *name, uint32_t *number)
{
    char hint[256];
    *number = names_find(names, name, strlen(name));
    if (*number != NAMES_NONE)
        return true;
    similar_hint(names, name, hint, sizeof hint);
    return task_fail("the model in %s does not know '%s'%s%s %s are listed in %s/%s.txt", folder,
                     name, hint, hint[0] != '\0' ? "? Its" : "; its", stem, folder, stem);
}

/* ---- Vectors --------------------------------------------------------------------------------- */

bool model_open_vectors(const char *folder, const char *stem, const char *ending, uint64_t n_rows,
                        uint64_t n_columns, struct npy *npy)
{
    char *path = model_path(folder, stem, ending);
    bool ok = path != NULL && npy_open(npy, path);
    if (ok && (npy->n_rows != n_rows || npy->n_columns != n_columns)) {
        ok = task_fail("%s does not have the rows and columns that model.txt tells of", path);
        npy_close(npy);
    }
    free(path);
    return ok;
}

bool model_read_vector(const char *folder, const char *stem, const char *ending, uint64_t n_rows,
                       uint64_t n_columns, uint64_t row, float *vector)
{
    struct npy npy;
    if (!model_open_vectors(folder, stem, ending, n_rows, n_columns, &npy))
        return false;
    bool ok = npy_skip(&npy, row) && npy_read(&npy, 1, vector);
    npy_close(&npy);
    return ok;
}
