/* counts - rows of whole numbers. See counts.h. */
#include "lda/counts.h"

#include <stdlib.h>

static bool open_table(struct counts *counts, struct train *train, const char *name,
                       uint64_t n_keys)
{
    const struct tern_table_options options = {
        .struct_size = sizeof options,
        .type = TERN_I32,
        .n_keys = n_keys,
        .length = (uint32_t)counts->length,
        .policy = train->options->policy,
    };
    if (tern_table_open(train->node, name, &options, &counts->table))
        return task_fail_tern("cannot open a table");
    train_watch(train, counts->table);
    return true;
}

bool counts_open(struct counts *counts, struct train *train, const char *name, uint64_t n_keys,
                 size_t length)
{
    *counts = (struct counts){.length = length};
    if (train->node != NULL)
        return open_table(counts, train, name, n_keys);
    if (n_keys <= SIZE_MAX / length / sizeof *counts->values)
        counts->values = calloc(n_keys * length, sizeof *counts->values);
    return counts->values != NULL || task_fail_memory("the counts");
}

void counts_close(struct counts *counts)
{
    free(counts->values);
    *counts = (struct counts){0};
}

bool counts_get(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                size_t n, int32_t *rows)
{
    if (counts->values == NULL)
        return !tern_pull(worker, counts->table, keys, n, rows) || task_fail_tern("cannot pull");
    for (size_t i = 0; i < n; i++) {
        _Atomic int32_t *row = counts->values + keys[i] * counts->length;
        for (size_t j = 0; j < counts->length; j++)
            *rows++ = atomic_load_explicit(&row[j], memory_order_relaxed);
    }
    return true;
}

bool counts_add(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                size_t n, const int32_t *differences)
{
    if (counts->values == NULL)
        return !tern_push(worker, counts->table, keys, n, differences) ||
               task_fail_tern("cannot push");
    for (size_t i = 0; i < n; i++) {
        _Atomic int32_t *row = counts->values + keys[i] * counts->length;
        for (size_t j = 0; j < counts->length; j++, differences++)
            if (*differences != 0)
                atomic_fetch_add_explicit(&row[j], *differences, memory_order_relaxed);
    }
    return true;
}

bool counts_intend(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                   size_t n, uint64_t begin, uint64_t end)
{
    return counts->values != NULL || !tern_intent(worker, counts->table, keys, n, begin, end) ||
           task_fail_tern("cannot signal intent");
}
