/* sketch_query - asks files of sketches, and merges them. See sketch.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"
#include "sketch/sketch.h"
#include "sketch/sketch_lines.h"
#include "sketch/sketch_node.h"

/* ---- tern sketch query ----------------------------------------------------------------------- */

static bool estimate(struct sketch_node *node, const char *text, size_t length)
{
    uint64_t key;
    int64_t count;
    bool is_number;
    if (!sketch_key(text, length, &key, &is_number) || length == 0)
        return task_fail("'%.*s' is not a key: it is empty, or has a blank or a control character",
                         (int)length, text);
    if (tern_pull(node->worker, node->table, &key, 1, &count) != TERN_OK)
        return task_fail_tern("cannot ask a sketch");
    printf("%.*s\t%" PRId64 "\n", (int)length, text, count);
    return true;
}

static bool estimate_lines(struct sketch_node *node)
{
    struct input input;
    enum input_result result;
    char *line;
    size_t length;
    bool ok = true;
    if (!input_open(&input, "/dev/stdin"))
        return false;
    while (ok && (result = input_line(&input, &line, &length)) != INPUT_END)
        ok = result == INPUT_LINE && estimate(node, line, length);
    input_close(&input);
    return ok;
}

static bool estimate_all(const struct sketch_view *view, const char *const *keys, size_t n_keys)
{
    struct sketch_node node;
    bool ok = sketch_node_open(&node, 0, 1, &view->shape, 0) && sketch_node_add(&node, view) &&
              (n_keys > 0 || estimate_lines(&node));
    for (size_t i = 0; ok && i < n_keys; i++)
        ok = estimate(&node, keys[i], strlen(keys[i]));
    return sketch_node_close(&node) && ok;
}

static bool print_top(const struct sketch_view *view, size_t n)
{
    struct sketch_heavy *heavy = malloc((view->n_heavy + 1) * sizeof *heavy);
    if (!heavy)
        return task_fail_memory("the heaviest keys");
    sketch_view_heavy(view, heavy);
    sketch_print_heavy(heavy, n < view->n_heavy ? n : view->n_heavy);
    free(heavy);
    return true;
}

bool sketch_query(const char *path, const char *const *keys, size_t n_keys, size_t n_top)
{
    struct sketch_view view;
    uint8_t *bytes;
    bool ok = sketch_read_file(path, &bytes, &view);
    if (ok && n_top > 0)
        ok = print_top(&view, n_top);
    if (ok && (n_keys > 0 || n_top == 0))
        ok = estimate_all(&view, keys, n_keys);
    free(bytes);
    return ok;
}

/* ---- tern sketch merge ----------------------------------------------------------------------- */

/* The files that are merged. */
struct merging {
    struct sketch_node node;
    size_t n;
    uint8_t **bytes;
    struct sketch_view *views;
    int64_t sum;
    struct sketch_heavy *heavy; /* of all files, and then what is left of them */
    size_t n_heavy, most;       /* keys that the result has at most: as many as the longest list */
};

static bool same_shape(const struct sketch_shape *a, const struct sketch_shape *b)
{
    return a->width == b->width && a->depth == b->depth && a->seed == b->seed &&
           a->is_conservative == b->is_conservative;
}

static bool load(struct merging *merging, const char *const *paths, size_t i)
{
    struct sketch_view *view = &merging->views[i];
    const struct sketch_shape *first = &merging->views[0].shape, *shape = &view->shape;
    if (!sketch_read_file(paths[i], &merging->bytes[i], view))
        return false;
    if (i == 0 && !sketch_node_open(&merging->node, 0, 1, first, 0))
        return false;
    if (!same_shape(first, shape))
        return task_fail("%s has %" PRIu32 " rows of %" PRIu64 " cells, seed %" PRIu64 "%s, and %s "
                         "%" PRIu32 " of %" PRIu64 ", seed %" PRIu64
                         "%s: sketches of other shapes cannot be merged",
                         paths[i], shape->depth, shape->width, shape->seed,
                         shape->is_conservative ? ", conservative update" : "", paths[0],
                         first->depth, first->width, first->seed,
                         first->is_conservative ? ", conservative update" : "");
    if (view->sum > INT64_MAX - merging->sum)
        return task_fail("%s: the counts of all files add up to more than 2^63", paths[i]);
    merging->sum += view->sum;
    merging->n_heavy += view->n_heavy;
    merging->most = view->n_heavy > merging->most ? view->n_heavy : merging->most;
    return sketch_node_add(&merging->node, view);
}

static int by_key(const void *a, const void *b)
{
    const struct sketch_heavy *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static int by_count(const void *a, const void *b)
{
    const struct sketch_heavy *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return by_key(a, b);
}

/* Makes one of the n counts of a key, in n of the files. A file that does not list the key may have counted it, so that the
 * estimate of all cells is the count then. */
static bool join(struct merging *merging, const struct sketch_heavy *from, size_t n,
                 struct sketch_heavy *to)
{
    uint64_t most = 0, least = 0; /* they wrap if a file lists a key twice, which nobody writes */
    int64_t count;
    struct sketch_heavy joined = from[0];
    for (size_t i = 0; i < n; i++) {
        most += (uint64_t)from[i].count;
        least += (uint64_t)(from[i].count - from[i].error);
        if (from[i].name_bytes) {
            joined.name = from[i].name;
            joined.name_bytes = from[i].name_bytes;
        }
    }
    if (tern_pull(merging->node.worker, merging->node.table, &joined.key, 1, &count) != TERN_OK)
        return task_fail_tern("cannot ask a sketch");
    if (n == merging->n && most < (uint64_t)count)
        count = (int64_t)most;
    joined.count = count;
    joined.error = (uint64_t)count > least ? count - (int64_t)least : 0;
    *to = joined;
    return true;
}

/* Joins the heaviest keys of all files. */
static bool join_heavy(struct merging *merging)
{
    size_t at = 0, n_joined = 0;
    struct sketch_heavy *heavy = merging->heavy =
        malloc((merging->n_heavy + 1) * sizeof *merging->heavy);
    if (!heavy)
        return task_fail_memory("the heaviest keys");
    for (size_t i = 0; i < merging->n; at += merging->views[i++].n_heavy)
        sketch_view_heavy(&merging->views[i], heavy + at);
    qsort(heavy, merging->n_heavy, sizeof *heavy, by_key);
    for (size_t i = 0, n; i < merging->n_heavy; i += n) {
        for (n = 1; i + n < merging->n_heavy && heavy[i + n].key == heavy[i].key; n++)
            continue;
        if (!join(merging, heavy + i, n, &heavy[n_joined++]))
            return false;
    }
    qsort(heavy, n_joined, sizeof *heavy, by_count);
    merging->n_heavy = n_joined < merging->most ? n_joined : merging->most;
    return true;
}

static bool merge_to(struct merging *merging, const char *const *paths,
                     struct sketch_writer *writer)
{
    for (size_t i = 0; i < merging->n; i++)
        if (!load(merging, paths, i))
            return false;
    if (!join_heavy(merging))
        return false;
    const struct sketch_shape *shape = &merging->views[0].shape;
    sketch_write_header(writer, shape, merging->sum, merging->heavy, merging->n_heavy);
    if (!sketch_node_write_cells(&merging->node, shape, writer))
        return false;
    sketch_write_heavy(writer, merging->heavy, merging->n_heavy);
    return true;
}

bool sketch_merge(const char *const *paths, size_t n, const char *out)
{
    struct merging merging = {.n = n};
    struct sketch_writer writer;
    if (!sketch_writer_open(&writer, out))
        return false;
    merging.bytes = calloc(n, sizeof *merging.bytes);
    merging.views = calloc(n, sizeof *merging.views);
    bool ok = (merging.bytes && merging.views) || task_fail_memory("files of sketches");
    ok = ok && merge_to(&merging, paths, &writer);
    if (ok)
        ok = sketch_writer_commit(&writer);
    else
        sketch_writer_discard(&writer);
    ok = sketch_node_close(&merging.node) && ok;
    for (size_t i = 0; merging.bytes && i < n; i++)
        free(merging.bytes[i]);
    free(merging.bytes);
    free(merging.views);
    free(merging.heavy);
    return ok;
}
