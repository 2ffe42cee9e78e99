/* counts - rows of whole numbers. See counts.h. */
#include "lda/counts.h"

#include <stdlib.h>

#include "common/checkpoints.h"

static bool open_table(struct counts *counts, struct train *train,
                       const struct tern_placement *placement, const char *name, uint64_t n_keys)
{
    const struct tern_table_options options = {
        .struct_size = sizeof options,
        .type = TERN_I32,
        .n_keys = n_keys,
        .length = (uint32_t)counts->length,
        .policy = train->options->policy,
        .filters = train->options->filters,
        .placement = placement,
        .scatter = true, /* words are numbered as they are met: frequent ones come first */
    };
    if (tern_table_open(train->node, name, &options, &counts->table))
        return task_fail_tern("cannot open a table");
    train_watch(train, counts->table);
    return checkpoints_restore(train, counts->table, true);
}

bool counts_open(struct counts *counts, struct train *train, const struct tern_placement *placement,
                 const char *name, uint64_t n_keys, size_t length)
{
    *counts = (struct counts){.length = length, .shared = train->n_threads > 1};
    if (train->node != NULL)
        return open_table(counts, train, placement, name, n_keys);
    if (n_keys <= SIZE_MAX / length / sizeof *counts->values)
        counts->values = calloc(n_keys * length, sizeof *counts->values);
    return counts->values != NULL || task_fail_memory("the counts");
}

void counts_close(struct counts *counts)
{
    free(counts->values);
    *counts = (struct counts){0};
}

static void copy_row(const struct counts *counts, uint64_t key, int32_t *copy)
{
    const int32_t *row = counts->values + key * counts->length;
    if (!counts->shared) {
        memcpy(copy, row, counts->length * sizeof *copy);
        return;
    }
    for (size_t i = 0; i < counts->length; i++)
        copy[i] = __atomic_load_n(&row[i], __ATOMIC_RELAXED);
}

bool counts_get(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                size_t n, int32_t *rows)
{
    if (counts->values == NULL)
        return !tern_pull(worker, counts->table, keys, n, rows) || task_fail_tern("cannot pull");
    for (size_t i = 0; i < n; i++)
        copy_row(counts, keys[i], rows + i * counts->length);
    return true;
}

static void add_row(const struct counts *counts, uint64_t key, const int32_t *difference)
{
    int32_t *row = counts->values + key * counts->length;
    if (!counts->shared) {
        for (size_t i = 0; i < counts->length; i++)
            row[i] += difference[i];
        return;
    }
    for (size_t i = 0; i < counts->length; i++)
        if (difference[i] != 0)
            __atomic_fetch_add(&row[i], difference[i], __ATOMIC_RELAXED);
}

bool counts_add(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                size_t n, const int32_t *differences)
{
    if (counts->values == NULL)
        return !tern_push(worker, counts->table, keys, n, differences) ||
               task_fail_tern("cannot push");
    for (size_t i = 0; i < n; i++)
        add_row(counts, keys[i], differences + i * counts->length);
    return true;
}

bool counts_intend(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                   size_t n, uint64_t begin, uint64_t end)
{
    return counts->values != NULL || !tern_intent(worker, counts->table, keys, n, begin, end) ||
           task_fail_tern("cannot signal intent");
}
