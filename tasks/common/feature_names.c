/* feature_names - names of features in weights.txt. See feature_names.h. */
#include "common/feature_names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/batches.h"
#include "common/input.h"
#include "common/modelfile.h"
#include "common/outputs.h"
#include "common/sentence.h"

void feature_names_fini(struct feature_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->at[i].text);
    free(names->at);
    *names = (struct feature_names){0};
}

const char *feature_names_cut(char *line)
{
    char *tab = strchr(line, '\t');
    if (tab == NULL)
        return "";
    *tab = '\0';
    return tab + 1;
}

/* ---- Keys ------------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const struct feature_name *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

static struct feature_name *find(const struct feature_names *names, uint64_t key)
{
    const struct feature_name wanted = {.key = key};
    return names->n > 0 ? bsearch(&wanted, names->at, names->n, sizeof wanted, compare) : NULL;
}

/* Appends a key; the text may be empty. The order is restored by sort(). */
static bool append(struct feature_names *names, uint64_t key, const char *text)
{
    if (names->n == names->capacity) {
        const size_t capacity = names->capacity > 0 ? 2 * names->capacity : 1024;
        struct feature_name *larger = realloc(names->at, capacity * sizeof *larger);
        if (larger == NULL)
            return task_fail_memory("the names of features");
        names->at = larger;
        names->capacity = capacity;
    }
    char *copy = text[0] != '\0' ? strdup(text) : NULL;
    if (text[0] != '\0' && copy == NULL)
        return task_fail_memory("the names of features");
    names->at[names->n++] = (struct feature_name){key, copy};
    return true;
}

static void sort(struct feature_names *names)
{
    if (names->n > 0)
        qsort(names->at, names->n, sizeof *names->at, compare);
}

/* The key of a line of weights.txt; false if it has none, as that of the intercept. */
static bool key_of(const char *line, uint64_t *key)
{
    char *end;
    *key = strtoull(line, &end, 10);
    return line[0] >= '0' && line[0] <= '9' && *end == ' ';
}

/* Lists the keys of a model: with their names those that have one, or without those that are not known yet. */
static bool list_lines(struct feature_names *names, struct input *input, bool with_names)
{
    const size_t n_known = names->n;
    enum input_result result = INPUT_LINE;
    char *line;
    size_t length;
    bool ok = true;
    while (ok && (result = input_line(input, &line, &length)) == INPUT_LINE) {
        const struct feature_names known = {.n = n_known, .at = names->at};
        const char *text = feature_names_cut(line);
        uint64_t key;
        if (key_of(line, &key) && (with_names ? text[0] != '\0' : find(&known, key) == NULL))
            ok = append(names, key, with_names ? text : "");
    }
    sort(names);
    return ok && result == INPUT_END;
}

static bool open_weights(const char *folder, struct input *input)
{
    char *path = model_path(folder, "weights", ".txt");
    bool ok = path != NULL && input_open(input, path);
    free(path);
    return ok;
}

static bool list_keys(struct feature_names *names, const char *folder, bool with_names)
{
    struct input input;
    if (!open_weights(folder, &input))
        return false;
    bool ok = list_lines(names, &input, with_names);
    input_close(&input);
    return ok;
}

bool feature_names_load(struct feature_names *names, const char *folder)
{
    return list_keys(names, folder, true);
}

/* ---- Names ------------------------------------------------------------------------------------ */

struct search {
    struct feature_names *names;
    pthread_mutex_t lock; /* of the texts */
};

static bool take_name(void *context, uint64_t key, const char *name, size_t length)
{
    struct search *search = context;
    struct feature_name *found = find(search->names, key);
    bool ok = true;
    if (found == NULL || __atomic_load_n(&found->text, __ATOMIC_RELAXED) != NULL)
        return true;
    pthread_mutex_lock(&search->lock);
    if (found->text == NULL) {
        char *copy = strndup(name, length);
        ok = copy != NULL || task_fail_memory("the names of features");
        __atomic_store_n(&found->text, copy, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&search->lock);
    return ok;
}

static bool ignore_list(void *context, size_t thread, const struct examples *list)
{
    (void)context;
    (void)thread;
    (void)list;
    return true;
}

static bool search_files(struct feature_names *names, const char *data,
                         const struct examples_options *reading, size_t n_threads)
{
    struct search search = {.names = names};
    struct examples_options all = *reading;
    pthread_mutex_init(&search.lock, NULL);
    all.n_parts = 0;
    all.placement = NULL;
    all.namer = take_name;
    all.namer_context = &search;
    bool ok = examples_visit(data, &all, n_threads, ignore_list, NULL);
    pthread_mutex_destroy(&search.lock);
    return ok;
}

/* Whether all files can be read again. */
static bool are_regular(const char *data)
{
    bool ok = true;
    for (size_t length; ok && *data != '\0'; data += length + (data[length] == ',')) {
        struct stat about;
        length = strcspn(data, ",");
        char *path = strndup(data, length);
        ok = path != NULL && stat(path, &about) == 0 && S_ISREG(about.st_mode);
        free(path);
    }
    return ok;
}

static bool copy_lines(const struct feature_names *names, struct input *input, struct outfile *file)
{
    enum input_result result;
    char *line;
    size_t length;
    while ((result = input_line(input, &line, &length)) == INPUT_LINE) {
        uint64_t key = 0;
        const struct feature_name *found = key_of(line, &key) ? find(names, key) : NULL;
        const bool has_name = found != NULL && found->text != NULL;
        (void)feature_names_cut(line);
        outfile_print(file, "%s%s%s\n", line, has_name ? "\t" : "", has_name ? found->text : "");
    }
    return result == INPUT_END;
}

/* Writes weights.txt again; the other files of the folder stay. */
static bool write_names(const struct feature_names *names, const char *folder)
{
    struct outputs outputs;
    struct input input;
    if (!open_weights(folder, &input))
        return false;
    const bool is_open = outputs_open(&outputs, folder);
    struct outfile *file = is_open ? outputs_add(&outputs, "weights.txt") : NULL;
    const bool ok = file != NULL && copy_lines(names, &input, file);
    input_close(&input);
    if (ok)
        return outputs_commit(&outputs);
    if (is_open)
        outputs_discard(&outputs);
    return false;
}

bool feature_names_complete(struct feature_names *names, const char *folder, const char *data,
                            const struct examples_options *reading, size_t n_threads)
{
    if (reading->format == EXAMPLES_LIBSVM || reading->format == EXAMPLES_LIBFFM)
        return true;
    return list_keys(names, folder, false) &&
           (!are_regular(data) || search_files(names, data, reading, n_threads)) &&
           write_names(names, folder);
}
