/* bench_models - see bench_models.h. */
#include "bench_models.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "run_guard.h"

/* Sizes for which an epoch takes a second or some. To evaluate a graph is costly, so few of its facts are
 * kept for it. */
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

/* The text becomes documents of a line each, of words that are neither rare nor everywhere. */
static bool make_bags(char *folder)
{
    char text[128];
    snprintf(text, sizeof text, "%s/gcide.txt", folder);
    char *words[] = {"data", "bow", "--from", text, "--min-documents", "100", folder};
    return data_command(sizeof words / sizeof *words, words) == EXIT_OK;
}

/* Makes data for a model in a folder; false after a complaint. */
static bool make_data(const struct bench_model *model, char *folder)
{
    char *words[BENCH_DATA_WORDS + 2];
    int n = 0;
    for (; n < BENCH_DATA_WORDS && model->data[n] != NULL; n++)
        words[n] = (char *)model->data[n];
    words[n++] = folder;
    return data_command(n, words) == EXIT_OK && (!model->makes_bags || make_bags(folder));
}

/* A folder that is gone when this process is. */
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
