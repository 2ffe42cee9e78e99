/* graph - triples to learn from, to choose by and to test. See graph.h. */
#include "kge/graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/input.h"
#include "common/list.h"
#include "common/sentence.h"

/* ---- Triples ----------------------------------------------------------------------------------- */

bool triples_add(struct triples *triples, struct triple triple)
{
    struct triple *at =
        list_grow(triples->at, sizeof *at, triples->n, &triples->capacity, "the triples");
    if (at == NULL)
        return false;
    triples->at = at;
    triples->at[triples->n++] = triple;
    return true;
}

/* The number of a name; *is_unknown is set when train lacks it. */
static bool read_name(struct input *input, struct names *names, uint32_t n_trained,
                      const char *name, enum graph_unknown unknown, uint32_t *number,
                      bool *is_unknown)
{
    size_t length = strlen(name);
    *number = names_find(names, name, length);
    *is_unknown |= *number >= n_trained;
    if (*number != NAMES_NONE || unknown == GRAPH_SKIP)
        return true;
    if (unknown == GRAPH_ADD)
        return names_add(names, name, length, number);
    return input_fail(input,
                      "'%s' does not occur in the training triples (--unknown add takes it all "
                      "the same, --unknown skip leaves such triples out)",
                      name);
}

static bool read_triple(struct input *input, char *line, struct graph *graph,
                        struct triples *triples, enum graph_unknown unknown)
{
    char *names[3] = {0};
    struct triple triple = {0};
    bool is_unknown = false;
    size_t n = input_fields(line, "\t", names, 3);
    if (n != 3)
        return input_fail(
            input,
            "a triple is subject, relation and object separated by tabs, but this line "
            "has %zu field%s",
            n, n == 1 ? "" : "s");
    for (size_t i = 0; i < 3; i++) {
        const char *flaw = names_flaw(names[i], strlen(names[i]));
        if (names[i][0] == '\0')
            return input_fail(input, "field %zu of the triple is empty", i + 1);
        if (flaw != NULL)
            return input_fail(
                input,
                "field %zu of the triple has %s in it, which a name cannot have; lines "
                "end with LF or CRLF",
                i + 1, flaw);
    }
    if (!read_name(input, &graph->entities, graph->n_trained_entities, names[0], unknown,
                   &triple.subject, &is_unknown) ||
        !read_name(input, &graph->relations, graph->n_trained_relations, names[1], unknown,
                   &triple.relation, &is_unknown) ||
        !read_name(input, &graph->entities, graph->n_trained_entities, names[2], unknown,
                   &triple.object, &is_unknown))
        return false;
    graph->n_unknown += is_unknown && triples != &graph->train;
    return (is_unknown && unknown == GRAPH_SKIP) || triples_add(triples, triple);
}

static bool read_triples(struct graph *graph, const char *path, struct triples *triples,
                         enum graph_unknown unknown)
{
    struct input input;
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length;
    if (!input_open(&input, path))
        return false;
    bool ok = true;
    while (ok && (result = input_line(&input, &line, &length)) == INPUT_LINE)
        ok = length != strlen(line) ? input_fail(&input, "the line has a NUL character")
                                    : read_triple(&input, line, graph, triples, unknown);
    ok = ok && result == INPUT_END;
    if (ok && input.line == 0)
        ok = task_fail("%s is empty: there are no triples in it", path);
    input_close(&input);
    return ok;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool find_files(const char *folder, char *files[3])
{
    if (!input_find(folder, "train", &files[0]) || !input_find(folder, "valid", &files[1]) ||
        !input_find(folder, "test", &files[2]))
        return false;
    return files[0] != NULL ||
           task_fail(
               "there is no file 'train' (.txt, .tsv, .csv or .dat; plain, .gz or .zst) in %s",
               folder);
}

static bool cut_list(const char *list, char *files[3])
{
    char *names[3] = {0}, *copy = strdup(list);
    if (copy == NULL)
        return task_fail_memory("the names of files");
    size_t n = input_fields(copy, ",", names, 3);
    bool ok = n <= 3 || task_fail("'%s' names more than three files", list);
    for (size_t i = 0; ok && i < n; i++)
        ok = (files[i] = strdup(names[i])) != NULL || task_fail_memory("the names of files");
    free(copy);
    return ok;
}

/* The files of train, valid and test, NULL where there is none. forget_files() is due in any case. */
static bool list_files(const char *data, char *files[3])
{
    struct stat status;
    bool is_folder = stat(data, &status) == 0 && S_ISDIR(status.st_mode);
    return is_folder ? find_files(data, files) : cut_list(data, files);
}

static void forget_files(char *files[3])
{
    for (size_t i = 0; i < 3; i++)
        free(files[i]);
}

/* Reads train, which settles what is trained. */
static bool read_train(struct graph *graph, const char *path)
{
    bool ok = read_triples(graph, path, &graph->train, GRAPH_ADD);
    graph->n_trained_entities = graph->entities.n;
    graph->n_trained_relations = graph->relations.n;
    return ok;
}

bool graph_read(struct graph *graph, const char *data, enum graph_unknown unknown)
{
    char *files[3] = {0};
    *graph = (struct graph){0};
    bool ok = list_files(data, files) && read_train(graph, files[0]) &&
              (files[1] == NULL || read_triples(graph, files[1], &graph->valid, unknown)) &&
              (files[2] == NULL || read_triples(graph, files[2], &graph->test, unknown));
    forget_files(files);
    return ok;
}

bool graph_read_train(struct graph *graph, const char *data)
{
    char *files[3] = {0};
    *graph = (struct graph){0};
    bool ok = list_files(data, files) && read_train(graph, files[0]);
    forget_files(files);
    return ok;
}

void graph_fini(struct graph *graph)
{
    names_fini(&graph->entities);
    names_fini(&graph->relations);
    free(graph->train.at);
    free(graph->valid.at);
    free(graph->test.at);
    *graph = (struct graph){0};
}

/* ---- Known answers --------------------------------------------------------------------------- */

static uint64_t question_of(uint32_t given, uint32_t relation)
{
    return (uint64_t)given << 32 | relation;
}

static int compare_answers(const void *left, const void *right)
{
    const struct answer *a = left, *b = right;
    if (a->question != b->question)
        return a->question < b->question ? -1 : 1;
    return (a->entity > b->entity) - (a->entity < b->entity);
}

static void put_answers(struct known *known, const struct triples *triples)
{
    for (size_t i = 0; i < triples->n; i++, known->n++) {
        struct triple triple = triples->at[i];
        known->of[ASK_OBJECT][known->n] =
            (struct answer){question_of(triple.subject, triple.relation), triple.object};
        known->of[ASK_SUBJECT][known->n] =
            (struct answer){question_of(triple.object, triple.relation), triple.subject};
    }
}

static size_t drop_repeated(struct answer *answers, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || compare_answers(&answers[i], &answers[i - 1]) != 0)
            answers[kept++] = answers[i];
    return kept;
}

bool known_init(struct known *known, const struct graph *graph)
{
    size_t n = graph->train.n + graph->valid.n + graph->test.n;
    *known = (struct known){0};
    for (int side = 0; side < 2; side++)
        known->of[side] = malloc((n + 1) * sizeof *known->of[side]);
    if (known->of[0] == NULL || known->of[1] == NULL) {
        known_fini(known);
        return task_fail_memory("the triples");
    }
    put_answers(known, &graph->train);
    put_answers(known, &graph->valid);
    put_answers(known, &graph->test);
    size_t n_all = known->n;
    for (int side = 0; side < 2; side++) {
        qsort(known->of[side], n_all, sizeof *known->of[side], compare_answers);
        known->n = drop_repeated(known->of[side], n_all);
    }
    return true;
}

void known_fini(struct known *known)
{
    free(known->of[0]);
    free(known->of[1]);
    *known = (struct known){0};
}

/* The first answer that is not before (question, entity). */
static size_t lower_bound(const struct known *known, enum side side, struct answer wanted)
{
    size_t low = 0, high = known->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_answers(&known->of[side][middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct answer *known_answers(const struct known *known, enum side side, uint32_t given,
                                   uint32_t relation, size_t *n)
{
    uint64_t question = question_of(given, relation);
    size_t begin = lower_bound(known, side, (struct answer){question, 0});
    size_t end = lower_bound(known, side, (struct answer){question, UINT32_MAX});
    *n = end - begin;
    return known->of[side] + begin;
}
