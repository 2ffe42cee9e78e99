/* table - opening, closing and counting tables. See node.h. */
#include "node/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum tern_status check_name(const char *name)
{
    if (!name)
        return fail(TERN_INVALID, "the table's name is NULL");
    size_t length = strnlen(name, TERN_MAX_NAME + 1);
    if (length == 0)
        return fail(TERN_INVALID, "the table's name is empty");
    if (length > TERN_MAX_NAME)
        return fail(TERN_LIMIT, "the table's name '%.20s...' is longer than %d characters", name,
                    TERN_MAX_NAME);
    return TERN_OK;
}

static enum tern_status check_updater(const char *name, const struct tern_updater *updater,
                                      enum tern_type type)
{
    if (!updater->apply) {
        if (updater->name || updater->state_per_element || updater->state_per_row)
            return fail(TERN_INVALID, "table '%s': updater '%s' has no apply function", name,
                        updater->name ? updater->name : "");
        return TERN_OK;
    }
    if (!updater->name || !updater->name[0] || strnlen(updater->name, 32) > 31)
        return fail(TERN_INVALID, "table '%s': updater.name must have 1 to 31 characters", name);
    const char *wrong = updater->check ? updater->check(updater, type) : NULL;
    if (wrong)
        return fail(TERN_INVALID, "table '%s': updater '%s': %s", name, updater->name, wrong);
    return TERN_OK;
}

/* The bytes of one value with its updater's state. */
static enum tern_status check_size(const char *name, const struct tern_table_options *options)
{
    const struct tern_updater *updater = &options->updater;
    double elements = (double)options->length * (1 + (double)updater->state_per_element) +
                      (double)updater->state_per_row;
    if (elements * (double)type_bytes(options->type) > TERN_MAX_VALUE_BYTES)
        return fail(TERN_LIMIT,
                    "table '%s': a value of %" PRIu32 " elements takes more than %d bytes with its "
                    "updater's state",
                    name, options->length, TERN_MAX_VALUE_BYTES);
    return TERN_OK;
}

static enum tern_status check_options(const char *name, const struct tern_table_options *options)
{
    if (!options)
        return fail(TERN_INVALID, "table '%s': the options are NULL", name);
    if (options->struct_size != sizeof *options)
        return fail(
            TERN_INVALID,
            "table '%s': tern_table_options.struct_size is %zu; set it to sizeof, which is %zu",
            name, options->struct_size, sizeof *options);
    if ((unsigned)options->index > TERN_SPARSE)
        return fail(TERN_INVALID, "table '%s': index %d is unknown", name, (int)options->index);
    if ((unsigned)options->type > TERN_I64)
        return fail(TERN_INVALID, "table '%s': type %d is unknown", name, (int)options->type);
    if (!options->length)
        return fail(TERN_INVALID, "table '%s': length is 0", name);
    if (options->index == TERN_DENSE && !options->n_keys)
        return fail(TERN_INVALID, "table '%s': a dense table needs n_keys", name);
    if (options->index == TERN_SPARSE && options->n_keys)
        return fail(TERN_INVALID, "table '%s': n_keys of a sparse table must be 0, not %" PRIu64,
                    name, options->n_keys);
    if (options->n_keys > TERN_MAX_DENSE_KEYS)
        return fail(TERN_LIMIT, "table '%s': n_keys %" PRIu64 " is above the limit of 2^40", name,
                    options->n_keys);
    enum tern_status status = check_size(name, options);
    if (!status)
        status = check_updater(name, &options->updater, options->type);
    if (!status)
        status = init_check(&options->init, options->type, name);
    return status;
}

static bool same_init(const struct tern_init *a, const struct tern_init *b)
{
    return a->kind == b->kind && a->seed == b->seed && a->a == b->a && a->b == b->b &&
           a->function == b->function && a->context == b->context;
}

static bool same_updater(const struct tern_updater *a, const struct tern_updater *b)
{
    return !a->name == !b->name && (!a->name || !strcmp(a->name, b->name)) &&
           a->apply == b->apply && a->state_per_element == b->state_per_element &&
           a->state_per_row == b->state_per_row &&
           !memcmp(a->parameters, b->parameters, sizeof a->parameters) && a->context == b->context;
}

/* Fails with the first option in which a table differs from what is asked for now. */
static enum tern_status check_same(const struct tern_table *table,
                                   const struct tern_table_options *now)
{
    const struct tern_table_options *then = &table->options;
    const char *name = table->store.name;
    if (then->index != now->index)
        return fail(TERN_MISMATCH, "table '%s' is open with another index: %s, not %s", name,
                    then->index == TERN_DENSE ? "dense" : "sparse",
                    now->index == TERN_DENSE ? "dense" : "sparse");
    if (then->type != now->type)
        return fail(TERN_MISMATCH, "table '%s' is open with another type: %d, not %d", name,
                    (int)then->type, (int)now->type);
    if (then->length != now->length)
        return fail(TERN_MISMATCH, "table '%s' is open with length %" PRIu32 ", not %" PRIu32, name,
                    then->length, now->length);
    if (then->n_keys != now->n_keys)
        return fail(TERN_MISMATCH, "table '%s' is open with n_keys %" PRIu64 ", not %" PRIu64, name,
                    then->n_keys, now->n_keys);
    if (!same_init(&then->init, &now->init))
        return fail(TERN_MISMATCH, "table '%s' is open with another init", name);
    if (!same_updater(&then->updater, &now->updater))
        return fail(TERN_MISMATCH, "table '%s' is open with another updater: '%s'", name,
                    then->updater.name ? then->updater.name : "add");
    if (then->memory_limit_bytes != now->memory_limit_bytes)
        return fail(TERN_MISMATCH, "table '%s' is open with memory_limit_bytes %" PRIu64, name,
                    then->memory_limit_bytes);
    return TERN_OK;
}

static enum tern_status make(struct tern_node *node, uint32_t id, const char *name,
                             const struct tern_table_options *options, struct tern_table **table)
{
    struct tern_table *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "no memory to open table '%s'", name);
    made->node = node;
    made->id = id;
    made->options = *options;
    if (options->updater.name) {
        strcpy(made->updater_name, options->updater.name);
        made->options.updater.name = made->updater_name;
    }
    enum tern_status status = store_init(&made->store, name, &made->options);
    if (status) {
        free(made);
        return status;
    }
    handle_init(&made->handle, HANDLE_TABLE);
    *table = made;
    return TERN_OK;
}

/* Finds or makes a table. The caller holds the node's lock. */
static enum tern_status open_locked(struct tern_node *node, const char *name,
                                    const struct tern_table_options *options,
                                    struct tern_table **table)
{
    uint32_t free_id = TERN_MAX_TABLES;
    for (uint32_t i = TERN_MAX_TABLES; i-- > 0;) {
        struct tern_table *found = node->tables[i];
        if (!found) {
            free_id = i;
        } else if (!strcmp(found->store.name, name)) {
            *table = found;
            return check_same(found, options);
        }
    }
    if (free_id == TERN_MAX_TABLES)
        return fail(TERN_LIMIT, "table '%s' would be one more than the %d a node can have", name,
                    TERN_MAX_TABLES);
    enum tern_status status = make(node, free_id, name, options, table);
    if (!status)
        node->tables[free_id] = *table;
    return status;
}

enum tern_status tern_table_open(struct tern_node *node, const char *name,
                                 const struct tern_table_options *options,
                                 struct tern_table **table)
{
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    enum tern_status status = check_name(name);
    if (status)
        return status;
    if (!table)
        return fail(TERN_INVALID, "tern_table_open: the pointer `table` for the result is NULL");
    status = check_options(name, options);
    if (status)
        return status;

    struct tern_table *opened = NULL;
    pthread_mutex_lock(&node->lock);
    status = open_locked(node, name, options, &opened);
    if (!status)
        opened->n_open++;
    pthread_mutex_unlock(&node->lock);
    if (!status)
        *table = opened;
    return status;
}

void table_end(struct tern_table *table)
{
    struct tern_node *node = table->node;
    node->tables[table->id] = NULL;
    for (struct tern_worker *worker = node->workers; worker; worker = worker->next)
        worker->space->counts[table->id] = (struct counts){0};
    store_fini(&table->store);
    handle_close(&table->handle);
}

enum tern_status tern_table_close(struct tern_table *table)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    struct tern_node *node = table->node;
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&node->lock);
    uint64_t n_pins = atomic_load_explicit(&table->store.n_pins, memory_order_relaxed);
    if (table->n_open > 1)
        table->n_open--;
    else if (n_pins)
        status = fail(TERN_BUSY, "%" PRIu64 " row%s of table '%s' still pinned; unpin first",
                      n_pins, n_pins == 1 ? " is" : "s are", table->store.name);
    else
        table_end(table);
    pthread_mutex_unlock(&node->lock);
    return status;
}

void counts_sum(struct counts *sum, const struct counts *more)
{
    count_add(&sum->pulled, atomic_load_explicit(&more->pulled, memory_order_relaxed));
    count_add(&sum->pushed, atomic_load_explicit(&more->pushed, memory_order_relaxed));
    count_add(&sum->set, atomic_load_explicit(&more->set, memory_order_relaxed));
    count_add(&sum->pinned, atomic_load_explicit(&more->pinned, memory_order_relaxed));
}

enum tern_status tern_table_get_stats(struct tern_table *table, struct tern_table_stats *stats)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (!stats)
        return fail(TERN_INVALID, "tern_table_get_stats: the pointer `stats` is NULL");
    if (stats->struct_size != sizeof *stats)
        return fail(TERN_INVALID,
                    "tern_table_stats.struct_size is %zu; set it to sizeof, which is %zu",
                    stats->struct_size, sizeof *stats);
    struct tern_node *node = table->node;
    struct counts sum = {0};
    pthread_mutex_lock(&node->lock);
    counts_sum(&sum, &table->ended);
    for (const struct tern_worker *worker = node->workers; worker; worker = worker->next)
        counts_sum(&sum, &worker->space->counts[table->id]);
    pthread_mutex_unlock(&node->lock);

    const struct store *store = &table->store;
    uint64_t rows = atomic_load_explicit(&store->n_rows, memory_order_relaxed);
    *stats = (struct tern_table_stats){
        .struct_size = sizeof *stats,
        .pulled_keys = sum.pulled,
        .pushed_keys = sum.pushed,
        .set_keys = sum.set,
        .pinned_keys = sum.pinned,
        .rows = rows,
        .value_bytes = rows * store->value_bytes,
        .memory_bytes = store_memory_bytes(store),
    };
    return TERN_OK;
}
