/* bench_models - see bench_models.h. */
#include "bench_models.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "run_guard.h"
#include "suggest.h"

/* Sizes for which an epoch takes a few seconds. Evaluating a graph is costly, so its test set is small. */
static const struct bench_model models[] = {
    {"kge", "MRR", false, {"data", "wordnet", "--share", "0.005"}, false, false},
    {"wordvec", "accuracy", false, {"data", "gcide"}, false, false},
    {"mf",
     "RMSE",
     true,
     {"data", "zipf-matrix", "--rows", "50000", "--columns", "5000", "--cells", "3000000"},
     false,
     true},
    {"lda", NULL, false, {"data", "gcide"}, true, true},
};

const struct bench_model *bench_model_find(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

/* Each line of the text becomes a document, without very rare and very frequent words. */
static bool make_bags(char *folder)
{
    char text[128];
    snprintf(text, sizeof text, "%s/gcide.txt", folder);
    char *words[] = {"data", "bow", "--from", text, "--min-documents", "100", folder};
    return data_command(sizeof words / sizeof *words, words) == EXIT_OK;
}

/* Makes data for a model in a folder, unless it has no command for that; false after a complaint. */
static bool make_data(const struct bench_model *model, char *folder)
{
    if (model->data[0] == NULL)
        return true;
    char *words[BENCH_DATA_WORDS + 2];
    int n = 0;
    for (; n < BENCH_DATA_WORDS && model->data[n] != NULL; n++)
        words[n] = (char *)model->data[n];
    words[n++] = folder;
    return data_command(n, words) == EXIT_OK && (!model->makes_bags || make_bags(folder));
}

/* A folder that is removed when this process ends. */
struct scratch {
    char folder[96];
    struct guard guard;
};

static bool scratch_open(struct scratch *scratch)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0' || strlen(parent) > 64)
        parent = "/tmp";
    snprintf(scratch->folder, sizeof scratch->folder, "%s/tern-XXXXXX", parent);
    if (mkdtemp(scratch->folder) != NULL && guard_start(&scratch->guard, scratch->folder))
        return true;
    complain("cannot make a folder in %s: %s", parent, strerror(errno));
    return false;
}

int bench_on_data(const struct bench_model *model, const char *data,
                  int (*run)(void *bench, const char *data), void *bench)
{
    struct scratch scratch;
    if (data != NULL)
        return run(bench, data);
    if (!scratch_open(&scratch))
        return EXIT_FAILED;
    int status = make_data(model, scratch.folder) ? run(bench, scratch.folder) : EXIT_FAILED;
    guard_finish(&scratch.guard);
    return status;
}

int bench_own_words(int argc, char **argv)
{
    int i = 1;
    while (i < argc && strcmp(argv[i], "--") != 0)
        i++;
    return i;
}

void bench_complain_task(const char *program, const char *given, const char *known)
{
    enum { MAX_TASKS = 8 };
    char words[128], *rest = words;
    const char *names[MAX_TASKS];
    size_t n = 0;
    snprintf(words, sizeof words, "%s", known);
    for (char *word; n < MAX_TASKS && (word = strsep(&rest, ", ")) != NULL;)
        if (word[0] != '\0' && strcmp(word, "or") != 0)
            names[n++] = word;
    const char *close = given[0] != '\0' ? suggest(given, names, n, sizeof *names) : NULL;
    if (close != NULL)
        complain("'%s' does not know '%s'; did you mean '%s'?", program, given, close);
    else
        complain("'%s' needs one of its tasks: %s", program, known);
}
