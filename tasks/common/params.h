/*
 * params - the rows of a model: in a table of Tern or, with --plain, in an ordinary array.
 *
 * A step reads rows through pointers and adds differences to them. In a table the pointers lead to
 * copies that were pulled, and the differences are pushed. In an array they lead to the rows
 * themselves, which all threads change without any order: Hogwild, the efficient program for one
 * machine that a parameter manager is compared with. These races are deliberate, and `--plain` is the
 * one place that has them.
 *
 * A row is `length` floats. What belongs to a parameter, such as AdaGrad's sums of squares, stands in
 * the same row, so that every policy can manage it: all changes are additions.
 */
#ifndef TASKS_PARAMS_H
#define TASKS_PARAMS_H

#include <string.h>

#include <tern/tern.h>

#include "common/sentence.h"

struct params {
    struct tern_table *table; /* NULL: the array */
    float *values;            /* NULL: the table */
    uint64_t n_keys;
    size_t length;
};

/* How the nodes manage the table of parameters; NULL: Tern's default, no filters, no placement. */
struct params_management {
    const char *policy, *filters;
    const struct tern_placement *placement;
    bool is_ranked;              /* frequent keys come first: their homes are scattered */
    const uint64_t *frequencies; /* of each key, for policy `multi`; NULL: not known */
    double hot_factor;           /* of policy `multi`; 0: the default */
    uint32_t staleness_ms;       /* age that replicas may have; 0: the default */
    uint32_t
        rare_staleness_ms; /* with `adaptive`: the same of keys used at most rare_factor times as */
    double rare_factor;    /* often as the average; 0: as others */
    uint32_t backups;
    const char *recover; /* as in struct tern_table_options */
};

/* Opens the table `name` at `node`, or makes an array when `node` is NULL. `init` gives the first value
 * of each row, by its key alone. */
bool params_open(struct params *params, struct tern_node *node, const char *policy,
                 const char *name, uint64_t n_keys, size_t length, tern_init_function *init,
                 void *context);

/* The same with all that may be chosen; what `management` points to is copied. */
bool params_open_managed(struct params *params, struct tern_node *node,
                         const struct params_management *management, const char *name,
                         uint64_t n_keys, size_t length, tern_init_function *init, void *context);
void params_close(struct params *params);

/* Copies n rows of a table. Policies that leave it to the program where rows are (`relocate`) are told to
 * bring them first; the others have been told by params_intend(). */
static inline bool params_pull(const struct params *params, struct tern_worker *worker,
                               const uint64_t *keys, size_t n, float *copies)
{
    return (!tern_localize(worker, params->table, keys, n) &&
            !tern_pull(worker, params->table, keys, n, copies)) ||
           task_fail_tern("cannot pull");
}

/* Fills in a pointer to each of n rows. `space` has room for n rows; it is used for a table only. Rows
 * may change under the reader's eyes in an array. */
static inline bool params_read(const struct params *params, struct tern_worker *worker,
                               const uint64_t *keys, size_t n, float *space, const float **rows)
{
    const float *base = params->values;
    if (base != NULL) {
        for (size_t i = 0; i < n; i++)
            rows[i] = base + keys[i] * params->length;
        return true;
    }
    if (!params_pull(params, worker, keys, n, space))
        return false;
    for (size_t i = 0; i < n; i++)
        rows[i] = space + i * params->length;
    return true;
}

/* Adds n differences, one behind the other, to n rows. */
static inline bool params_add(const struct params *params, struct tern_worker *worker,
                              const uint64_t *keys, size_t n, const float *differences)
{
    if (params->values == NULL)
        return !tern_push(worker, params->table, keys, n, differences) ||
               task_fail_tern("cannot push");
    for (size_t i = 0; i < n; i++) {
        float *row = params->values + keys[i] * params->length;
        const float *difference = differences + i * params->length;
        for (size_t j = 0; j < params->length; j++)
            row[j] += difference[j];
    }
    return true;
}

/* Says that the worker will use n rows while begin <= its clock < end. */
static inline bool params_intend(const struct params *params, struct tern_worker *worker,
                                 const uint64_t *keys, size_t n, uint64_t begin, uint64_t end)
{
    return params->values != NULL || !tern_intent(worker, params->table, keys, n, begin, end) ||
           task_fail_tern("cannot signal intent");
}

/* Copies the rows with first <= key < first + n; and replaces them. For evaluating, saving, resuming. */
bool params_get(const struct params *params, struct tern_worker *worker, uint64_t first, size_t n,
                float *values);
bool params_set(const struct params *params, struct tern_worker *worker, uint64_t first, size_t n,
                const float *values);

#endif
