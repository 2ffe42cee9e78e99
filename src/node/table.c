/* table - opening, closing and counting tables. See node.h. */
#include "node/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bounded.h"
#include "core/doubling.h"
#include "core/manager.h"
#include "core/replica.h"
#include "node/bound.h"
#include "node/why.h"
#include "wire/bytes.h"

enum { SHAPE_BYTES = 512 };

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

/* The policy asked for, and what goes with it. */
static enum tern_status check_policy(const char *name, const struct tern_table_options *options)
{
    struct policy policy;
    if (!policy_find(options->policy, &policy))
        return fail(TERN_INVALID, "table '%s': there is no policy '%.40s'; there are: %s", name,
                    options->policy, policy_names());
    if (options->n_replicated && !options->replicated)
        return fail(TERN_INVALID, "table '%s': the pointer `replicated` is NULL", name);
    bool is_listed = options->n_replicated || options->frequencies;
    if (is_listed && policy.replica != REPLICA_OF_LISTED)
        return fail(TERN_INVALID, "table '%s': keys are listed, but policy '%s' takes no list",
                    name, policy.name);
    if (options->frequencies && (options->n_replicated || options->index != TERN_DENSE))
        return fail(TERN_INVALID,
                    "table '%s': `frequencies` are for dense tables without a list of keys", name);
    for (size_t i = 0; options->index == TERN_DENSE && i < options->n_replicated; i++)
        if (options->replicated[i] >= options->n_keys)
            return fail(TERN_RANGE, "listed key %" PRIu64 " is outside table '%s' of %" PRIu64 " keys",
                        options->replicated[i], name, options->n_keys);
    /* What a replica shows before its home has run the updater would not be what was promised. */
    if (options->updater.apply && policy_is_bounded(&policy))
        return fail(TERN_INVALID,
                    "table '%s': policy '%s' is for tables that are added to, not for updater '%s', "
                    "which runs at the main copy alone",
                    name, policy.name, options->updater.name);
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
    enum tern_status status = check_policy(name, options);
    if (!status)
        status = check_size(name, options);
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
    const char *name = table->core.store.name;
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
    struct policy policy;
    if (!policy_find(now->policy, &policy) || strcmp(policy.name, table->policy.name) != 0)
        return fail(TERN_MISMATCH, "table '%s' is open with policy '%s'", name, table->policy.name);
    if (then->memory_limit_bytes != now->memory_limit_bytes)
        return fail(TERN_MISMATCH, "table '%s' is open with memory_limit_bytes %" PRIu64, name,
                    then->memory_limit_bytes);
    return TERN_OK;
}

/* Which keys of a sparse table are at home here. */
static bool is_at_home(const void *context, uint64_t key)
{
    const struct core *core = context;
    return ring_home(core->ring, key) == core->node;
}

static struct store_home home_of(const struct core *core, const struct tern_table_options *options,
                                 const struct policy *policy, const struct piece *piece)
{
    uint64_t begin = range_begin(core->node, options->n_keys, core->n_nodes);
    uint64_t end = range_begin(core->node + 1, options->n_keys, core->n_nodes);
    if (piece)
        return (struct store_home){.end = options->n_keys, .common = piece->memory};
    if (policy_is_tracked(policy))
        return (struct store_home){
            .tracked = true,
            .end = options->n_keys,
            .main_begin = begin,
            .main_end = end,
            .has = is_at_home,
            .context = core,
        };
    return (struct store_home){
        .managed = policy_is_managed(policy),
        .begin = begin,
        .end = end,
        .has = is_at_home,
        .context = core,
        .n_shards = core->n_shards,
    };
}

/* Makes what a table needs whose keys are not all at home for good; false when memory is used up. */
static bool manage(struct engine *engine, struct core_table *table)
{
    if (policy_is_bounded(table->policy))
        table->bounded = bounded_new(&engine->core, &table->store, table->policy);
    else if (doubling_is_for(&engine->core, &table->store, table->policy))
        table->doubling = doubling_new(&engine->core, &table->store);
    else if (table->store.home.tracked)
        table->replication = replication_new(&engine->core, &table->store);
    if (table->store.home.managed)
        manager_new_all(&engine->core, table, ++engine->n_generations);
    for (uint32_t i = 0; core_is_managed(table) && i < table->store.n_shards; i++)
        why_begin(table->managers[i]);
    return (table->replication || table->doubling || table->bounded ||
            !table->store.home.tracked) &&
           (core_is_managed(table) || !table->store.home.managed);
}

/* What the options say, of a table that all nodes have in common: its limit is what all of them grant. */
static struct tern_table_options options_in_common(const struct tern_table_options *options,
                                                   uint32_t n_nodes)
{
    struct tern_table_options common = *options;
    if (common.memory_limit_bytes > UINT64_MAX / n_nodes)
        common.memory_limit_bytes = 0;
    common.memory_limit_bytes *= n_nodes;
    return common;
}

static enum tern_status init_store(const struct tern_node *node, const char *name,
                                   const struct piece *piece, struct tern_table *table)
{
    if (!node->engine)
        return store_init(&table->core.store, name, &table->options, NULL);
    const struct core *core = &node->engine->core;
    struct store_home home = home_of(core, &table->options, &table->policy, piece);
    struct tern_table_options options = table->options;
    if (piece)
        options = options_in_common(&options, core->n_nodes);
    return store_init(&table->core.store, name, &options, &home);
}

static enum tern_status make(struct tern_node *node, uint32_t id, const char *name,
                             const struct tern_table_options *options, struct piece *piece,
                             struct tern_table **table)
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
    policy_find(options->policy, &made->policy);
    made->core.policy = &made->policy;
    made->options.policy = made->policy.name;
    /* The caller's; needed while the table is opened only. */
    made->options.replicated = made->options.frequencies = NULL;
    enum tern_status status = init_store(node, name, piece, made);
    if (!status && node->engine && !manage(node->engine, &made->core)) {
        store_fini(&made->core.store);
        status = fail(TERN_NO_MEMORY, "no memory to manage table '%s'", name);
    }
    if (status) {
        free(made);
        return status;
    }
    if (!policy_is_bounded(&made->policy)) /* the very last 64-bit key takes the long way */
        atomic_init(&made->n_straight, made->core.store.last_key + (options->index == TERN_DENSE));
    handle_init(&made->handle, HANDLE_TABLE);
    made->piece = piece;
    neighbours_use(&node->neighbours, piece, made);
    *table = made;
    return TERN_OK;
}

/* What all nodes must agree on, as bytes. Functions cannot be compared between processes; their
 * names and parameters stand for them. */
static size_t shape_bytes(const char *name, const struct tern_table_options *options,
                          uint8_t bytes[SHAPE_BYTES])
{
    size_t length = strlen(name);
    put_u16(bytes, (uint16_t)length);
    memcpy(bytes + 2, name, length);
    struct policy policy;
    policy_find(options->policy, &policy);
    int n = snprintf((char *)bytes + 2 + length, SHAPE_BYTES - 2 - length,
                     "index %d type %d keys %" PRIu64 " length %" PRIu32 " init %d %" PRIu64
                     " %a %a updater %s %a %a %a %a %a state %" PRIu32 " %" PRIu32 " policy %s",
                     (int)options->index, (int)options->type, options->n_keys, options->length,
                     (int)options->init.kind, options->init.seed, options->init.a, options->init.b,
                     options->updater.name ? options->updater.name : "add",
                     options->updater.parameters[0], options->updater.parameters[1],
                     options->updater.parameters[2], options->updater.parameters[3],
                     options->updater.parameters[4], options->updater.state_per_element,
                     options->updater.state_per_row, policy.name);
    return 2 + length + (size_t)n;
}

/* Whether all nodes are to have a table in common. */
static bool is_common(const struct tern_node *node, const struct tern_table_options *options)
{
    struct policy policy;
    policy_find(options->policy, &policy);
    return policy.neighbours == NEIGHBOURS_SHARE && engine_is_one_host(node->engine) &&
           common_bytes(options);
}

static struct turns *find_turns(struct tern_node *node, const char *name)
{
    struct turns *turns = node->turns;
    while (turns && strcmp(turns->name, name))
        turns = turns->next;
    if (turns)
        return turns;
    turns = calloc(1, sizeof *turns);
    if (!turns)
        return NULL;
    strcpy(turns->name, name);
    turns->next = node->turns;
    node->turns = turns;
    return turns;
}

/* The number by which all nodes of a cluster know a table, and the memory in which all have it: *piece is what this node
 * offers, and then what the first to open the table did. */
static enum tern_status agree_on_number(struct tern_node *node, const char *name,
                                        const struct tern_table_options *options, uint64_t turn,
                                        uint16_t *number, uint64_t *piece)
{
    uint8_t shape[SHAPE_BYTES];
    struct op op = {.a = turn,
                    .b = *piece,
                    .payload = shape,
                    .payload_bytes = (uint32_t)shape_bytes(name, options, shape)};
    enum tern_status status = engine_call(&node->opening, 0, &op, FRAME_TABLE);
    if (status)
        return status;
    buffer_free(&op.answer_body);
    *number = op.answer.table;
    *piece = op.answer.a;
    if (core_find_table(&node->engine->core, *number) ||
        core_has_closed(&node->engine->core, *number))
        return fail(TERN_PEER, "the coordinator gave table '%s' a number in use", name);
    return TERN_OK;
}

/* Agrees with the other nodes about a table: its number, and the memory that all have in common, or NULL. */
static enum tern_status agree(struct tern_node *node, const char *name,
                              const struct tern_table_options *options, const struct turns *turns,
                              uint16_t *number, struct piece **piece)
{
    const struct tern_table_options common =
        options_in_common(options, node->engine->core.n_nodes);
    const bool shares = is_common(node, &common);
    struct piece *offered = shares ? neighbours_offer(&node->neighbours, &common) : NULL;
    uint64_t told = offered ? offered->name : 0;
    enum tern_status status = agree_on_number(node, name, options, turns->n_closed, number, &told);
    if (status || !shares)
        told = 0;
    enum tern_status taken = neighbours_take(&node->neighbours, offered, told, &common, piece);
    if (!taken || status)
        return status;
    char why[STATUS_SENTENCE_BYTES];
    snprintf(why, sizeof why, "%s", tern_error());
    return fail(taken, "table '%s': %s; policy 'adaptive-apart' does without", name, why);
}

/* Lets other nodes' requests, and the rounds, reach the table. */
static void publish(struct engine *engine, struct tern_table *table)
{
    engine_lock(engine);
    atomic_store_explicit(&engine->core.tables[table->id], &table->core, memory_order_release);
    engine_unlock(engine);
    engine_wake(engine);
}

/* Lets nobody reach it any more. */
static void withdraw(struct engine *engine, const struct tern_table *table)
{
    engine_lock_rounds(engine);
    engine_lock(engine);
    atomic_store_explicit(&engine->core.tables[table->id], NULL, memory_order_release);
    core_note_closed(&engine->core, table->core.number);
    engine_unlock(engine);
    engine_unlock_rounds(engine);
    engine_wake(engine);
}

void table_want(const struct tern_table *table, const uint64_t *keys, size_t n)
{
    const struct store *store = &table->core.store;
    for (uint32_t i = 0; i < store->n_shards; i++) {
        struct shard *shard = &table->node->engine->shards[i];
        pthread_mutex_lock(&shard->lock);
        for (size_t k = 0; k < n; k++)
            if (store_shard(store, keys[k]) == i)
                manager_want(table->core.managers[i], &keys[k], 1);
        pthread_mutex_unlock(&shard->lock);
    }
}

/* Every node wants the listed keys for good, so each gets a replica. Without a list, they are found as
 * keys are used (intent.c). */
static enum tern_status want_listed(struct tern_table *table,
                                    const struct tern_table_options *options)
{
    const uint64_t *keys = options->replicated;
    uint64_t *hot = NULL;
    size_t n = options->n_replicated;
    if (options->frequencies) {
        /* No more than that can be so much above the mean. */
        size_t most = (size_t)(options->n_keys / HOT_FACTOR) + 1;
        keys = hot = malloc(most * sizeof *hot);
        if (!hot)
            return fail(TERN_NO_MEMORY, "no memory for the hot keys of table '%s'",
                        table->core.store.name);
        n = hot_among(options->frequencies, options->n_keys, hot, most);
    } else if (!options->n_replicated) {
        hot_init(&table->hot, options->n_keys);
        atomic_store_explicit(&table->learns_hot, true, memory_order_relaxed);
    }
    table_want(table, keys, n);
    free(hot);
    return TERN_OK;
}

/* Frees a table that nobody else knows, or knows any more. */
static void unmake(struct tern_table *table)
{
    replication_free(table->core.replication);
    doubling_free(table->core.doubling);
    bounded_free(table->core.bounded);
    manager_free_all(&table->core);
    hot_fini(&table->hot);
    neighbours_leave(&table->node->neighbours, table->piece);
    store_fini(&table->core.store);
    handle_close(&table->handle);
}

/* Makes a table of a cluster ready, as far as that may fail: it is not known to others then. */
static enum tern_status prepare(struct tern_table *table, const struct tern_table_options *options)
{
    enum tern_status status = TERN_OK;
    if (table->core.replication || table->core.doubling || core_is_managed(&table->core) ||
        table->core.bounded)
        status = engine_start_rounds(table->node->engine);
    if (!status && table->core.policy->replica == REPLICA_OF_LISTED)
        status = want_listed(table, options);
    return status;
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
        } else if (!strcmp(found->core.store.name, name)) {
            *table = found;
            return check_same(found, options);
        }
    }
    if (free_id == TERN_MAX_TABLES)
        return fail(TERN_LIMIT, "table '%s' would be one more than the %d a node can have", name,
                    TERN_MAX_TABLES);
    enum tern_status status = TERN_OK;
    uint16_t number = 0;
    struct piece *piece = NULL;
    struct turns *turns = node->engine ? find_turns(node, name) : NULL;
    if (turns)
        status = agree(node, name, options, turns, &number, &piece);
    else if (node->engine)
        status = fail(TERN_NO_MEMORY, "no memory to open table '%s'", name);
    if (node->engine && !node->tables[number % TERN_MAX_TABLES])
        free_id = number % TERN_MAX_TABLES;
    if (!status)
        status = make(node, free_id, name, options, piece, table);
    if (status)
        return status;
    (*table)->core.number = number;
    (*table)->turns = turns;
    if (node->engine)
        status = prepare(*table, options);
    if (status) {
        unmake(*table);
        return status;
    }
    node->tables[free_id] = *table;
    if (node->engine)
        publish(node->engine, *table);
    if (policy_is_bounded(&(*table)->policy))
        bound_begin(node);
    return TERN_OK;
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
    sample_end_table(table);
    node->tables[table->id] = NULL;
    if (node->engine) {
        withdraw(node->engine, table);
        table->turns->n_closed++;
    }
    for (struct tern_worker *worker = node->workers; worker; worker = worker->next)
        worker_forget_table(worker, table->id);
    unmake(table);
}

enum tern_status tern_table_close(struct tern_table *table)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    struct tern_node *node = table->node;
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&node->lock);
    uint64_t n_pins = atomic_load_explicit(&table->core.store.n_pins, memory_order_relaxed);
    uint64_t n_under_way = atomic_load_explicit(&table->n_under_way, memory_order_acquire);
    if (table->n_open > 1)
        table->n_open--;
    else if (n_pins)
        status = fail(TERN_BUSY, "%" PRIu64 " row%s of table '%s' %s still pinned; unpin first",
                      n_pins, n_pins == 1 ? "" : "s", table->core.store.name,
                      n_pins == 1 ? "is" : "are");
    else if (n_under_way)
        status = fail(TERN_BUSY,
                      "%" PRIu64 " operation%s on table '%s' %s still under way; wait for %s first",
                      n_under_way, n_under_way == 1 ? "" : "s", table->core.store.name,
                      n_under_way == 1 ? "is" : "are", n_under_way == 1 ? "it" : "them");
    else if (table->n_dists)
        status = fail(TERN_BUSY,
                      "%" PRIu32 " distribution%s on table '%s' %s still open; close first",
                      table->n_dists, table->n_dists == 1 ? "" : "s", table->core.store.name,
                      table->n_dists == 1 ? "is" : "are");
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
    count_add(&sum->remote, atomic_load_explicit(&more->remote, memory_order_relaxed));
    count_add(&sum->remote_bytes, atomic_load_explicit(&more->remote_bytes, memory_order_relaxed));
    count_add(&sum->waited_ns, atomic_load_explicit(&more->waited_ns, memory_order_relaxed));
    for (int i = 0; i < BOUNDED_STEPS; i++)
        count_add(&sum->ages[i], atomic_load_explicit(&more->ages[i], memory_order_relaxed));
}

/* The age that 99 % of the replicas' values did not exceed: the upper end of a step. */
static double staleness_p99(const uint64_t steps[TERN_STALENESS_STEPS], uint64_t n)
{
    uint64_t sum = 0;
    for (int i = 0; i < TERN_STALENESS_STEPS; i++) {
        sum += steps[i];
        if (n && sum * 100 >= n * 99)
            return 0.1 * (double)(UINT64_C(1) << i);
    }
    return 0;
}

/* Adds what managing the keys of a shard took; the sum of their ages, too. */
static void add_counts(const struct manager_counts *counts, struct tern_table_stats *stats,
                       double *staleness_ns)
{
    if (stats->rounds < counts->rounds)
        stats->rounds = counts->rounds;
    stats->messages += counts->messages;
    stats->sent_bytes += counts->bytes_sent;
    stats->received_bytes += counts->bytes_received;
    stats->moved_here += counts->moved_here;
    stats->moved_away += counts->moved_away;
    stats->replicas_made += counts->replicas_made;
    stats->replicas_ended += counts->replicas_ended;
    stats->deltas_sent += counts->deltas_sent;
    stats->values_received += counts->values_received;
    stats->redirected += counts->redirected;
    for (int i = 0; i < TERN_STALENESS_STEPS; i++)
        stats->staleness_ms[i] += counts->staleness[i];
    *staleness_ns += counts->staleness_ns_sum;
}

static void add_managed(const struct tern_table *table, struct tern_table_stats *stats)
{
    double staleness_ns = 0;
    for (uint32_t i = 0; i < table->core.store.n_shards; i++) {
        struct shard *shard = &table->node->engine->shards[i];
        pthread_mutex_lock(&shard->lock);
        add_counts(manager_counts(table->core.managers[i]), stats, &staleness_ns);
        pthread_mutex_unlock(&shard->lock);
    }
    uint64_t n = 0;
    for (int i = 0; i < TERN_STALENESS_STEPS; i++)
        n += stats->staleness_ms[i];
    stats->staleness_ms_mean = n ? staleness_ns / (double)n / 1e6 : 0;
    stats->staleness_ms_p99 = staleness_p99(stats->staleness_ms, n);
}

/* Adds what the rounds of a table took of which every node has every key. */
static void add_replicated(const struct tern_table *table, struct tern_table_stats *stats)
{
    const struct replication_counts *counts = replication_counts(table->core.replication);
    stats->rounds = counts->rounds;
    stats->messages = counts->messages;
    stats->sent_bytes = counts->bytes_sent;
    stats->received_bytes = counts->bytes_received;
    stats->deltas_sent = counts->deltas_sent;
    stats->values_received = counts->values_received;
}

static void add_doubled(const struct tern_table *table, struct tern_table_stats *stats)
{
    pthread_mutex_t *lock = &table->node->engine->shards[0].lock;
    pthread_mutex_lock(lock);
    const struct doubling_counts counts = table->core.doubling->counts;
    pthread_mutex_unlock(lock);
    stats->rounds = counts.rounds;
    stats->messages = counts.messages;
    stats->sent_bytes = counts.bytes_sent;
    stats->received_bytes = counts.bytes_received;
    stats->deltas_sent = counts.rows_sent;
    stats->values_received = counts.rows_received;
}

/* Adds what the exchanges of a table with bounded reads took. */
static void add_bounded(const struct tern_table *table, struct tern_table_stats *stats)
{
    pthread_mutex_t *lock = &table->node->engine->shards[0].lock;
    pthread_mutex_lock(lock);
    const struct bounded_counts counts = table->core.bounded->counts;
    pthread_mutex_unlock(lock);
    stats->messages = counts.questions + counts.answers;
    stats->sent_bytes = counts.bytes_sent;
    stats->received_bytes = counts.bytes_received;
    stats->deltas_sent = counts.deltas_sent;
    stats->values_received = counts.values_received;
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

    const struct store *store = &table->core.store;
    uint64_t rows = store_rows(store);
    *stats = (struct tern_table_stats){
        .struct_size = sizeof *stats,
        .pulled_keys = sum.pulled,
        .pushed_keys = sum.pushed,
        .set_keys = sum.set,
        .pinned_keys = sum.pinned,
        .remote_keys = sum.remote,
        .remote_bytes = sum.remote_bytes,
        .rows = rows,
        .value_bytes = rows * store->value_bytes,
        .memory_bytes = store_memory_bytes(store),
        .waited_s = (double)sum.waited_ns / 1e9,
    };
    for (int i = 0; i < TERN_CLOCK_STEPS; i++)
        stats->clocks_behind[i] = sum.ages[i];
    if (core_is_managed(&table->core))
        add_managed(table, stats);
    if (table->core.replication)
        add_replicated(table, stats);
    if (table->core.doubling)
        add_doubled(table, stats);
    if (table->core.bounded)
        add_bounded(table, stats);
    return TERN_OK;
}
