/*
 * trace_read - reads trace files, and makes spans of their lines. See trace.h, and tern.h for the lines.
 *
 * The files may come from anywhere: a line that cannot be read is an error that names it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "trace.h"

/* One line of a file. */
struct change {
    uint64_t time_ns, key;
    size_t number; /* among all, to keep the order of lines of one time */
    uint32_t node;
    int word; /* an index of `words` */
};

static const char *const words[] = {"main", "replica", "none", "intent", "idle"};
enum { WORD_MAIN, WORD_REPLICA, WORD_NONE, WORD_INTENT, WORD_IDLE, N_WORDS };

struct changes {
    struct change *at;
    size_t n, max;
};

/* ---- Lines -------------------------------------------------------------------------------------- */

/* Reads a number and the character after it; leaves *text behind both. */
static bool read_number(const char **text, uint64_t most, char after, uint64_t *number)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    if (errno != 0 || *number > most || *end != after)
        return false;
    *text = end + (after != '\0');
    return true;
}

/* Reads "TIME NODE KEY WORD". */
static bool read_change(const char *text, struct change *change)
{
    uint64_t node;
    if (!read_number(&text, UINT64_MAX, ' ', &change->time_ns) ||
        !read_number(&text, UINT32_MAX, ' ', &node) ||
        !read_number(&text, UINT64_MAX, ' ', &change->key))
        return false;
    change->node = (uint32_t)node;
    for (change->word = 0; change->word < N_WORDS; change->word++)
        if (strcmp(text, words[change->word]) == 0)
            return true;
    return false;
}

static bool skip(const char **text, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(*text, prefix, n) != 0)
        return false;
    *text += n;
    return true;
}

/* Reads "# tern trace 1, node NODE of COUNT, table NAME". */
static bool read_head(const char *text, struct trace_file *file, char table[64])
{
    uint64_t node, count;
    if (!skip(&text, "# tern trace 1, node ") || !read_number(&text, UINT32_MAX, ' ', &node) ||
        !skip(&text, "of ") || !read_number(&text, UINT32_MAX, ',', &count) ||
        !skip(&text, " table "))
        return false;
    file->node = (uint32_t)node;
    snprintf(table, 64, "%s", text);
    return true;
}

static bool append(struct changes *changes, struct change change)
{
    if (changes->n == changes->max) {
        size_t max = changes->max > 0 ? 2 * changes->max : 1024;
        struct change *at = realloc(changes->at, max * sizeof *at);
        if (at == NULL) {
            complain("no memory for the traces");
            return false;
        }
        changes->at = at;
        changes->max = max;
    }
    change.number = changes->n;
    changes->at[changes->n++] = change;
    return true;
}

/* Takes one line after the first. */
static bool take_line(struct trace_file *file, const char *text, size_t number,
                      struct changes *changes)
{
    struct change change = {0};
    const char *end = text;
    bool is_end = skip(&end, "# end ") && read_number(&end, UINT64_MAX, '\0', &change.time_ns);
    if (file->is_complete || (!is_end && !read_change(text, &change)) ||
        (!is_end && change.node != file->node)) {
        complain("%s, line %zu: '%.60s' is not a line of the trace of node %" PRIu32, file->path,
                 number, text, file->node);
        return false;
    }
    file->is_complete = is_end;
    if (change.time_ns < file->begin_ns)
        file->begin_ns = change.time_ns;
    if (change.time_ns > file->end_ns)
        file->end_ns = change.time_ns;
    return is_end || append(changes, change);
}

static bool read_lines(FILE *in, struct trace_file *file, char table[64], struct changes *changes)
{
    char *line = NULL;
    size_t size = 0, number = 0;
    ssize_t n;
    bool ok = true;
    file->begin_ns = UINT64_MAX;
    while (ok && (n = getline(&line, &size, in)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (++number > 1)
            ok = take_line(file, line, number, changes);
        else if (!(ok = read_head(line, file, table)))
            complain("%s is not a trace of Tern", file->path);
    }
    free(line);
    if (ok && (ferror(in) || number == 0)) {
        complain("%s: %s", file->path, ferror(in) ? strerror(errno) : "the file is empty");
        ok = false;
    }
    return ok;
}

static bool read_file(struct traces *traces, const char *path, struct changes *changes)
{
    struct trace_file *file = &traces->files[traces->n_files];
    char table[64] = "";
    file->path = path;
    FILE *in = fopen(path, "r");
    if (in == NULL) {
        complain("cannot read %s: %s", path, strerror(errno));
        return false;
    }
    bool ok = read_lines(in, file, table, changes);
    fclose(in);
    if (ok && traces->n_files > 0 && strcmp(table, traces->table) != 0) {
        complain("%s is a trace of table '%s', the others are of '%s'", path, table, traces->table);
        ok = false;
    }
    for (size_t i = 0; ok && i < traces->n_files; i++) {
        if (traces->files[i].node != file->node)
            continue;
        complain("%s and %s are both of node %" PRIu32, traces->files[i].path, path, file->node);
        ok = false;
    }
    if (ok && !file->is_complete)
        complain("%s is incomplete: its node did not stop the trace", path);
    memcpy(traces->table, table, sizeof table);
    traces->n_files += ok;
    return ok;
}

/* ---- Spans -------------------------------------------------------------------------------------- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_changes(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    int by_key = compare(a->key, b->key), by_node = compare(a->node, b->node);
    int by_time = compare(a->time_ns, b->time_ns);
    return by_key ? by_key : by_node ? by_node : by_time ? by_time : compare(a->number, b->number);
}

static int compare_files(const void *left, const void *right)
{
    const struct trace_file *a = left, *b = right;
    return compare(a->node, b->node);
}

/* The layer a word turns on; N_LAYERS: none. */
static enum trace_layer layer_of(int word)
{
    switch (word) {
    case WORD_MAIN:
        return LAYER_MAIN;
    case WORD_REPLICA:
        return LAYER_REPLICA;
    case WORD_INTENT:
        return LAYER_INTENT;
    default:
        return N_LAYERS;
    }
}

static uint64_t end_of_node(const struct traces *traces, uint32_t node)
{
    size_t i = 0;
    while (traces->files[i].node != node)
        i++;
    return traces->files[i].end_ns;
}

/* Makes spans of the n changes of one key at one node. A copy and the intent for it go on side by side. */
static void add_spans(struct traces *traces, const struct change *changes, size_t n)
{
    struct span *open[2] = {NULL, NULL}; /* of copies, of intents */
    uint64_t end_ns = end_of_node(traces, changes[0].node);
    for (size_t i = 0; i < n; i++) {
        const struct change *change = &changes[i];
        bool is_intent = change->word == WORD_INTENT || change->word == WORD_IDLE;
        enum trace_layer layer = layer_of(change->word);
        struct span **span = &open[is_intent];
        if (*span != NULL && (*span)->layer == layer)
            continue;
        if (*span != NULL)
            (*span)->end_ns = change->time_ns;
        *span = NULL;
        if (layer == N_LAYERS)
            continue;
        *span = &traces->spans[traces->n_spans++];
        **span = (struct span){.key = change->key,
                               .begin_ns = change->time_ns,
                               .end_ns = end_ns,
                               .node = change->node,
                               .layer = layer,
                               .was_on = change->time_ns == changes[0].time_ns};
    }
}

/* Sorts the changes, lists the keys and makes the spans. */
static bool put_in_order(struct traces *traces, struct changes *changes)
{
    size_t most = changes->n > 0 ? changes->n : 1;
    traces->spans = calloc(most, sizeof *traces->spans);
    traces->keys = calloc(most, sizeof *traces->keys);
    if (traces->spans == NULL || traces->keys == NULL) {
        complain("no memory for the traces");
        return false;
    }
    if (changes->n > 0)
        qsort(changes->at, changes->n, sizeof *changes->at, compare_changes);
    qsort(traces->files, traces->n_files, sizeof *traces->files, compare_files);
    for (size_t i = 0, next; i < changes->n; i = next) {
        const struct change *first = &changes->at[i];
        for (next = i + 1; next < changes->n && changes->at[next].key == first->key &&
                           changes->at[next].node == first->node;)
            next++;
        add_spans(traces, first, next - i);
        if (traces->n_keys == 0 || traces->keys[traces->n_keys - 1] != first->key)
            traces->keys[traces->n_keys++] = first->key;
    }
    traces->begin_ns = UINT64_MAX;
    for (size_t i = 0; i < traces->n_files; i++) {
        if (traces->files[i].begin_ns < traces->begin_ns)
            traces->begin_ns = traces->files[i].begin_ns;
        if (traces->files[i].end_ns > traces->end_ns)
            traces->end_ns = traces->files[i].end_ns;
    }
    if (traces->begin_ns > traces->end_ns)
        traces->begin_ns = traces->end_ns;
    return true;
}

bool traces_read(struct traces *traces, const char *const *paths, size_t n)
{
    struct changes changes = {0};
    *traces = (struct traces){.files = calloc(n, sizeof *traces->files)};
    bool ok = traces->files != NULL;
    if (!ok)
        complain("no memory for the traces");
    for (size_t i = 0; ok && i < n; i++)
        ok = read_file(traces, paths[i], &changes);
    ok = ok && put_in_order(traces, &changes);
    free(changes.at);
    if (!ok)
        traces_free(traces);
    return ok;
}

void traces_free(struct traces *traces)
{
    free(traces->files);
    free(traces->keys);
    free(traces->spans);
    *traces = (struct traces){0};
}

const struct span *traces_of_key(const struct traces *traces, uint64_t key, size_t *n)
{
    size_t begin = 0, end = traces->n_spans;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (traces->spans[middle].key < key)
            begin = middle + 1;
        else
            end = middle;
    }
    for (*n = 0; begin + *n < traces->n_spans && traces->spans[begin + *n].key == key;)
        ++*n;
    return traces->spans + begin;
}
