/* params - the rows of a model, in a table or in an array. See params.h. */
#include "common/params.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_KEYS = 1024 };

static bool open_table(struct params *params, struct tern_node *node,
                       const struct params_management *management, const char *name,
                       tern_init_function *init, void *context)
{
    const char *policy = management->policy;
    const bool is_multi = policy != NULL && strcmp(policy, "multi") == 0;
    const bool has_rare = management->rare_staleness_ms > 0 && management->frequencies != NULL &&
                          (policy == NULL || strcmp(policy, "adaptive") == 0 ||
                           strcmp(policy, "adaptive-apart") == 0);
    const struct tern_table_options options = {
        .struct_size = sizeof options,
        .n_keys = params->n_keys,
        .length = (uint32_t)params->length,
        .init = {.kind = TERN_INIT_FUNCTION, .function = init, .context = context},
        .policy = management->policy,
        .filters = management->filters,
        .placement = management->placement,
        .scatter = management->is_ranked && management->backups == 0,
        .backups = management->backups,
        .recover = management->recover,
        .frequencies = is_multi || has_rare ? management->frequencies : NULL,
        .hot_factor = is_multi   ? management->hot_factor
                      : has_rare ? management->rare_factor
                                 : 0,
        .rare_staleness_ms = has_rare ? management->rare_staleness_ms : 0,
        .staleness_ms = management->staleness_ms,
    };
    return !tern_table_open(node, name, &options, &params->table) ||
           task_fail_tern("cannot open a table");
}

static bool make_array(struct params *params, tern_init_function *init, void *context)
{
    size_t bytes = params->length * sizeof(float);
    if (params->n_keys <= SIZE_MAX / bytes)
        params->values = aligned_alloc(64, (params->n_keys * bytes + 63) / 64 * 64);
    if (params->values == NULL)
        return task_fail_memory("the parameters");
    for (uint64_t key = 0; key < params->n_keys; key++)
        init(context, key, params->values + key * params->length, params->length);
    return true;
}

bool params_open_managed(struct params *params, struct tern_node *node,
                         const struct params_management *management, const char *name,
                         uint64_t n_keys, size_t length, tern_init_function *init, void *context)
{
    *params = (struct params){.n_keys = n_keys, .length = length};
    return node != NULL ? open_table(params, node, management, name, init, context)
                        : make_array(params, init, context);
}

bool params_open(struct params *params, struct tern_node *node, const char *policy,
                 const char *name, uint64_t n_keys, size_t length, tern_init_function *init,
                 void *context)
{
    const struct params_management management = {.policy = policy};
    return params_open_managed(params, node, &management, name, n_keys, length, init, context);
}

void params_close(struct params *params)
{
    if (params->table != NULL)
        (void)tern_table_close(params->table);
    free(params->values);
    *params = (struct params){0};
}

/* At most a block of keys from `first` on. */
static size_t next_block(uint64_t first, size_t n, uint64_t *keys)
{
    n = n < BLOCK_KEYS ? n : BLOCK_KEYS;
    for (size_t i = 0; i < n; i++)
        keys[i] = first + i;
    return n;
}

bool params_get(const struct params *params, struct tern_worker *worker, uint64_t first, size_t n,
                float *values)
{
    uint64_t keys[BLOCK_KEYS];
    if (params->values != NULL) {
        memcpy(values, params->values + first * params->length,
               n * params->length * sizeof *values);
        return true;
    }
    for (size_t done = 0, step; done < n; done += step) {
        step = next_block(first + done, n - done, keys);
        if (tern_pull(worker, params->table, keys, step, values + done * params->length))
            return task_fail_tern("cannot pull");
    }
    return true;
}

bool params_set(const struct params *params, struct tern_worker *worker, uint64_t first, size_t n,
                const float *values)
{
    uint64_t keys[BLOCK_KEYS];
    if (params->values != NULL) {
        memcpy(params->values + first * params->length, values,
               n * params->length * sizeof *values);
        return true;
    }
    for (size_t done = 0, step; done < n; done += step) {
        step = next_block(first + done, n - done, keys);
        if (tern_set(worker, params->table, keys, step, values + done * params->length))
            return task_fail_tern("cannot set");
    }
    return true;
}
