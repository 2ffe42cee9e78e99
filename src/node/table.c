/* table - opening and closing tables. See node.h. */
#include "node/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backup.h"
#include "core/follower.h"
#include "node/admit.h"
#include "node/explain.h"
#include "store/evict.h"
#include "wire/bytes.h"

enum { SHAPE_BYTES = 576 }; /* a name, and what follows it in less than 512 */

/* The processes of this node's member. */
static uint32_t n_sharing(const struct core *core)
{
    return view_n_sharing(core->view, view_leader(core->view, core->node));
}

/* The options of a shared-memory table: its limit is what all processes grant. */
static struct tern_table_options shared_options(const struct tern_table_options *options,
                                                uint32_t n_processes)
{
    struct tern_table_options shared = *options;
    if (shared.memory_limit_bytes > UINT64_MAX / n_processes)
        shared.memory_limit_bytes = 0;
    shared.memory_limit_bytes *= n_processes;
    return shared;
}

bool table_needs_all(const struct tern_table *table)
{
    const struct watch *watch = table->core.store.watch;
    return table->core.technique->rows == ROWS_EVERYWHERE ||
           (table->segment && (!table->core.member || watch_lost(watch)));
}

struct rows_share table_share(const struct tern_table *table)
{
    struct rows_share share = {0, 1};
    if (!table->segment)
        return share;
    const struct core *core = &table->node->engine->core;
    const uint32_t leader = view_leader(core->view, core->node);
    share.n = n_sharing(core);
    view_each_while (i, core->view, i < core->node)
        share.i += view_leader(core->view, i) == leader;
    return share;
}

/* The seed of a table's hash: a secret of this node's. */
static uint64_t hash_seed(const struct tern_node *node, const char *name)
{
    uint64_t seed = node->hash_seed;
    for (; *name; name++)
        seed = hash_u64(seed ^ (unsigned char)*name);
    return seed;
}

/* How processes of a host have a table. */
enum sharing {
    SHARE_NOTHING, /* each its own */
    SHARE_ALL,     /* all nodes in one memory */
    SHARE_HOST,    /* those of each host in one memory, as one member */
};

/* Whether the processes of a host share a table when other hosts have it as well. */
static bool is_for_members(const struct policy *policy, const struct tern_table_options *options)
{
    const bool is_evicted =
        evict_has_rule(options) && technique_find(policy, false)->rows != ROWS_AT_HOME;
    return follower_is_for(policy) && options->index != TERN_SKETCH && !options->admit &&
           !is_evicted;
}

/* All nodes decide alike. */
static enum sharing find_sharing(const struct tern_node *node,
                                 const struct tern_table_options *options)
{
    struct policy policy;
    policy_find(options->policy, &policy);
    if (!node->engine || policy.is_apart || options->n_keys > TERN_MAX_ROWS)
        return SHARE_NOTHING;
    const struct view *view = node->engine->core.view;
    if (view_n_members(view) == 1)
        return SHARE_ALL;
    return view_n_members(view) < view_n_nodes(view) && is_for_members(&policy, options) &&
                   !options->backups
               ? SHARE_HOST
               : SHARE_NOTHING;
}

/* As whom this node has the keys of a table; NULL at a single node. */
static struct core *core_of(const struct tern_node *node, const struct tern_table_options *options)
{
    if (!node->engine)
        return NULL;
    return find_sharing(node, options) == SHARE_HOST ? &node->engine->member : &node->engine->core;
}

/* The policy of a table, as it is where the table's rows have backups at other nodes, or leave: their homes must know of all
 * copies. */
static void policy_of(const struct tern_node *node, const struct tern_table_options *options,
                      struct policy *policy)
{
    policy_find(options->policy, policy);
    if ((options->backups || evict_has_rule(options)) && node->engine &&
        find_sharing(node, options) != SHARE_ALL)
        policy_keep_home(policy);
}

/* Which keys are at home here. */
static struct store_home home_of(const struct tern_node *node, const char *name,
                                 const struct tern_table_options *options,
                                 const struct placed *placed, const struct table_backup *backup,
                                 bool is_whole)
{
    struct policy policy;
    policy_of(node, options, &policy);
    struct store_home home = {.end = options->n_keys};
    if (node->engine && !is_whole)
        home = technique_home(core_of(node, options), &policy, options, placed, backup);
    home.hash_seed = hash_seed(node, name);
    return home;
}

static enum tern_status init_store(const struct tern_node *node, const char *name,
                                   struct tern_table *table, const struct placed *placed)
{
    struct tern_table_options options = table->options;
    const bool is_whole = table->segment && find_sharing(node, &options) == SHARE_ALL;
    struct store_home home = home_of(node, name, &options, placed, table->core.backup, is_whole);
    if (table->segment) {
        home.shared = table->segment->shared;
        home.process = node->engine->core.node;
        options = shared_options(&options, n_sharing(&node->engine->core));
    }
    return store_init(&table->core.store, name, &options, &home);
}

/* Makes what a table's technique needs. The options are the caller's. */
static enum tern_status open_technique(struct tern_table *table,
                                       const struct tern_table_options *options)
{
    struct engine *engine = table->node->engine;
    const bool is_member = find_sharing(table->node, options) == SHARE_HOST;
    const struct technique_setup setup = {
        .options = options,
        .is_whole = !engine || (table->segment && !is_member),
        .board = table->segment && !is_member ? table->segment->board : NULL,
        .is_member = is_member,
        .is_follower = is_member && engine->member.node != engine->core.node,
        .generation = engine ? ++engine->n_generations : 0,
        .time_ns = explain_time_ns,
    };
    if (technique_open(core_of(table->node, options), &table->core, &setup))
        return TERN_OK;
    technique_close(&table->core);
    return fail(TERN_NO_MEMORY, "no memory to manage table '%s'", table->core.store.name);
}

/* In a cluster, what a table with backups has beside its rows: copies at other nodes, or, where all rows are in the memory of one
 * host, somebody who looks after those who die. */
static enum tern_status make_backup(struct tern_table *table, const struct placed *placed)
{
    struct engine *engine = table->node->engine;
    if (!engine || !table->options.backups)
        return TERN_OK;
    if (table->segment)
        return watcher_start(&engine->watcher, &table->node->member);
    enum tern_status status = engine_start_backups(engine);
    if (status)
        return status;
    table->core.backup = backup_new(&engine->core, &table->options, placed);
    if (!table->core.backup)
        return fail(TERN_NO_MEMORY, "no memory for backups of a table");
    table->core.backup->recover = table->recover ? recover_lost : NULL;
    return TERN_OK;
}

/* In a cluster, what it serves to each node is counted. */
static enum tern_status count_served(struct tern_table *table)
{
    const struct engine *engine = table->node->engine;
    if (engine)
        table->core.served = calloc(view_n_nodes(engine->core.view), sizeof *table->core.served);
    return !engine || table->core.served ? TERN_OK
                                         : fail(TERN_NO_MEMORY, "no memory to open a table");
}

/* Keeps `placed` if it succeeds. */
static enum tern_status make(struct tern_node *node, uint32_t id, const char *name,
                             const struct tern_table_options *options, struct placed *placed,
                             struct table_segment *segment, struct tern_table **table)
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
    policy_of(node, options, &made->policy);
    made->core.policy = &made->policy;
    made->options.policy = made->policy.name;
    /* The caller's; needed while the table is opened only. */
    made->options.replicated = made->options.frequencies = NULL;
    made->options.placement = NULL;
    made->placement_digest = placed_digest(options);
    made->options.filters = made->options.recover = NULL;
    made->segment = segment;
    made->recover = options->recover ? strdup(options->recover) : NULL;
    enum tern_status status = count_served(made);
    if (!status && options->recover && !made->recover)
        status = fail(TERN_NO_MEMORY, "no memory to open table '%s'", name);
    if (!status)
        status = make_backup(made, placed);
    if (!status)
        status = init_store(node, name, made, placed);
    if (!status) {
        status = open_technique(made, options);
        if (status)
            store_fini(&made->core.store);
    }
    if (status) {
        backup_free(made->core.backup);
        free((void *)made->core.served);
        free(made->recover);
        free(made);
        return status;
    }
    made->is_admitted = made->core.technique->admit;
    made->is_counted = made->core.technique->counting;
    made->is_special = made->is_admitted || made->is_counted || options->index == TERN_SKETCH ||
                       options->updater.asks_age;
    if (!made->is_special) /* the very last 64-bit key takes the long way */
        atomic_init(&made->n_straight, made->core.store.last_key + (options->index == TERN_DENSE));
    if (options->evict_age)
        atomic_store_explicit(&node->has_ages, true, memory_order_relaxed);
    made->placed = placed;
    handle_init(&made->handle, HANDLE_TABLE);
    member_use(&node->member, segment);
    *table = made;
    return TERN_OK;
}

/* What all nodes must agree on, as bytes. Functions cannot be compared between processes; their
 * names and parameters stand for them. */
static size_t shape_bytes(const char *name, const struct tern_table_options *options, bool shares,
                          uint8_t bytes[SHAPE_BYTES])
{
    size_t length = strlen(name);
    put_u16(bytes, (uint16_t)length);
    memcpy(bytes + 2, name, length);
    struct policy policy;
    policy_find(options->policy, &policy);
    struct filters filters = {0};
    char filters_named[FILTERS_TEXT_BYTES];
    (void)filters_parse(name, options->filters, options->type, &filters);
    filters_text(&filters, filters_named);
    int n = snprintf((char *)bytes + 2 + length, SHAPE_BYTES - 2 - length,
                     "index %d type %d keys %" PRIu64 " length %" PRIu32 " init %d %" PRIu64
                     " %a %a updater %s %a %a %a %a %a state %" PRIu32 " %" PRIu32 " admit %" PRIu32
                     " of %" PRIu64 " placement %" PRIx64 " filters %s policy %s%s",
                     (int)options->index, (int)options->type, options->n_keys, options->length,
                     (int)options->init.kind, options->init.seed, options->init.a, options->init.b,
                     options->updater.name ? options->updater.name : "add",
                     options->updater.parameters[0], options->updater.parameters[1],
                     options->updater.parameters[2], options->updater.parameters[3],
                     options->updater.parameters[4], options->updater.state_per_element,
                     options->updater.state_per_row, options->admit, options->expected_keys,
                     placed_digest(options), filters_named, policy.name,
                     shares ? " in shared memory" : "");
    return 2 + length + (size_t)n;
}

/* Whether homes know which nodes have replicas of a row: a home may remove only a row that has none. */
static bool knows_copies(const struct policy *policy)
{
    struct policy kept = *policy;
    policy_keep_home(&kept);
    return kept.replica != REPLICA_OF_EVERY_KEY &&
           (policy->main == MAIN_AT_HOME || kept.replica != REPLICA_NEVER);
}

/* A sketch has no copies: the table is at one node, or in one memory, or its keys stay at home. Rows that leave must not have
 * any for good. */
static enum tern_status check_at_home(const struct tern_node *node, const char *name,
                                      const struct tern_table_options *options)
{
    struct policy policy;
    const bool is_sketch = options->index == TERN_SKETCH;
    if ((!is_sketch && !evict_has_rule(options)) || !policy_find(options->policy, &policy))
        return TERN_OK;
    const struct technique *technique =
        technique_find(&policy, !node->engine || find_sharing(node, options) == SHARE_ALL);
    if (technique->rows == ROWS_AT_HOME && !technique->admit)
        return TERN_OK;
    if (is_sketch)
        return fail(TERN_INVALID,
                    "table '%s' is a sketch, which has no copies: use policy 'static', not '%s'",
                    name, policy.name);
    if (technique->rows == ROWS_MOVE && knows_copies(&policy))
        return TERN_OK;
    return fail(TERN_INVALID,
                "table '%s' has a rule of eviction, and under policy '%s' %s: use 'static', "
                "'adaptive' or 'multi'",
                name, policy.name,
                technique->rows == ROWS_MOVE ? "rows have no other place than where they moved"
                                             : "rows that are copied would never leave");
}

static struct generation *find_generation(struct tern_node *node, const char *name)
{
    struct generation *generation = node->generations;
    while (generation && strcmp(generation->name, name))
        generation = generation->next;
    if (generation)
        return generation;
    generation = calloc(1, sizeof *generation);
    if (!generation)
        return NULL;
    strcpy(generation->name, name);
    generation->next = node->generations;
    node->generations = generation;
    return generation;
}

/* What they must agree on of a sketch, or of rules of eviction, as text behind the rest. */
static size_t special_text(const struct tern_table_options *options, uint8_t *bytes, size_t room)
{
    const struct tern_sketch *sketch = &options->sketch;
    int n = 0;
    if (options->index == TERN_SKETCH)
        n = snprintf((char *)bytes, room,
                     " sketch %" PRIu64 " %" PRIu32 " %a %a %" PRIu32 " %d %" PRIu64, sketch->width,
                     sketch->depth, sketch->epsilon, sketch->delta, sketch->counters,
                     (int)sketch->conservative, sketch->seed);
    else if (evict_has_rule(options))
        n = snprintf((char *)bytes, room, " evict %" PRIu32 " %d %" PRIu64, options->evict_age,
                     (int)options->evict_at_limit, options->evict_floor);
    return (size_t)n < room ? (size_t)n : room;
}

/* The number by which all nodes of a cluster know a table, and the memory in which all have it: *segment is what this node
 * offers, and then what the first to open the table did. */
static enum tern_status agree_on_number(struct tern_node *node, const char *name,
                                        const struct tern_table_options *options, bool shares,
                                        uint64_t generation, uint16_t *number, uint64_t *segment)
{
    uint8_t shape[SHAPE_BYTES];
    size_t n_bytes = shape_bytes(name, options, shares, shape);
    n_bytes += special_text(options, shape + n_bytes, sizeof shape - n_bytes);
    struct op op = {.fields.table = {generation, *segment},
                    .table = (uint16_t)options->backups,
                    .payload = shape,
                    .payload_bytes = (uint32_t)n_bytes};
    enum tern_status status = engine_call(&node->opening, 0, &op, FRAME_TABLE);
    if (status)
        return status;
    buffer_free(&op.answer_body);
    *number = op.answer.table;
    *segment = op.answer.fields.table_done.segment;
    if (core_find_table(&node->engine->core, *number) ||
        core_has_closed(&node->engine->core, *number))
        return fail(TERN_PEER, "the coordinator gave table '%s' a number in use", name);
    return TERN_OK;
}

/* Agrees with the other nodes about a table: its number, and the memory that processes share, or NULL. */
static enum tern_status agree(struct tern_node *node, const char *name,
                              const struct tern_table_options *options, const struct placed *placed,
                              const struct generation *generation, uint16_t *number,
                              struct table_segment **segment)
{
    const struct core *core = &node->engine->core;
    const struct tern_table_options shared = shared_options(options, n_sharing(core));
    const enum sharing sharing = find_sharing(node, options);
    const bool shares = sharing == SHARE_ALL || (sharing == SHARE_HOST && n_sharing(core) > 1);
    const struct store_home home = home_of(node, name, options, placed, NULL, sharing == SHARE_ALL);
    struct table_segment *offered =
        shares ? member_offer(&node->member, core->node, &shared, &home) : NULL;
    uint64_t told = offered ? offered->segment->number : 0;
    enum tern_status status = agree_on_number(node, name, options, sharing != SHARE_NOTHING,
                                              generation->n_closed, number, &told);
    if (status || !shares)
        told = 0;
    enum tern_status taken =
        member_take(&node->member, offered, told, node->engine, &shared, &home, segment);
    if (!status && !taken && shares && sharing == SHARE_HOST && !*segment)
        taken =
            fail(TERN_NO_MEMORY, "there is no memory that the processes of this host can share");
    if (!taken || status)
        return status;
    char why[STATUS_SENTENCE_BYTES];
    snprintf(why, sizeof why, "%s", tern_error());
    return fail(taken, "table '%s': %s%s", name, why,
                taken == TERN_PEER ? "" : "; TERN_SHARE=0 does without");
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
    admit_end(table->node);
}

/* Frees a table that nobody else knows, or knows any more. */
static void unmake(struct tern_table *table)
{
    technique_close(&table->core);
    member_leave(&table->node->member, table->segment);
    store_fini(&table->core.store);
    backup_free(table->core.backup);
    free((void *)table->core.served);
    free(table->recover);
    table->recover = NULL;
    placed_free(table->placed);
    handle_close(&table->handle);
}

/* Finds or makes a table. The caller holds the node's lock. *placed is NULL from then on if the table has it. */
static enum tern_status open_locked(struct tern_node *node, const char *name,
                                    const struct tern_table_options *options,
                                    struct placed **placed, struct tern_table **table)
{
    uint32_t free_id = TERN_MAX_TABLES;
    for (uint32_t i = TERN_MAX_TABLES; i-- > 0;) {
        struct tern_table *found = node->tables[i];
        if (!found) {
            free_id = i;
        } else if (!strcmp(found->core.store.name, name)) {
            *table = found;
            return table_check_same(found, options);
        }
    }
    if (free_id == TERN_MAX_TABLES)
        return fail(TERN_LIMIT, "table '%s' would be one more than the %d a node can have", name,
                    TERN_MAX_TABLES);
    enum tern_status status = TERN_OK;
    uint16_t number = 0;
    struct table_segment *segment = NULL;
    struct generation *generation = node->engine ? find_generation(node, name) : NULL;
    if (generation)
        status = agree(node, name, options, *placed, generation, &number, &segment);
    else if (node->engine)
        status = fail(TERN_NO_MEMORY, "no memory to open table '%s'", name);
    if (node->engine && !node->tables[number % TERN_MAX_TABLES])
        free_id = number % TERN_MAX_TABLES;
    if (!status)
        status = make(node, free_id, name, options, *placed, segment, table);
    if (status)
        return status;
    *placed = NULL;
    (*table)->core.number = number;
    (*table)->generation = generation;
    if (node->engine && technique_has_rounds(&(*table)->core, 0))
        status = engine_start_rounds(node->engine);
    if (status) {
        unmake(*table);
        return status;
    }
    node->tables[free_id] = *table;
    if (node->engine)
        publish(node->engine, *table);
    if ((*table)->is_admitted)
        admit_begin(node);
    return TERN_OK;
}

enum tern_status tern_table_open(struct tern_node *node, const char *name,
                                 const struct tern_table_options *options,
                                 struct tern_table **table)
{
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    enum tern_status status = table_check_name(name);
    if (status)
        return status;
    if (!table)
        return fail(TERN_INVALID, "tern_table_open: the pointer `table` for the result is NULL");
    status = table_check_options(name, options);
    if (status)
        return status;

    status = check_at_home(node, name, options);
    if (status)
        return status;

    struct tern_table *opened = NULL;
    struct placed *placed;
    status = placed_new(node->engine ? &node->engine->core : NULL, core_of(node, options), name,
                        options, &placed);
    if (status)
        return status;
    lock_take(&node->lock);
    status = open_locked(node, name, options, &placed, &opened);
    if (!status)
        opened->n_open++;
    lock_release(&node->lock);
    placed_free(placed);
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
        table->generation->n_closed++;
    }
    for (struct tern_worker *worker = node->workers; worker; worker = worker->next)
        worker_forget_table(worker, table->id);
    unmake(table);
}

/* Lets others know that the table is closed here, where they do something for it. */
static void retire(struct tern_table *table)
{
    struct engine *engine = table->node->engine;
    for (uint32_t i = 0; table->core.technique->retire && i < core_shards(&engine->core); i++)
        round_driver_retire(&engine->shards[i].round_driver, &table->core);
}

enum tern_status tern_table_close(struct tern_table *table)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    struct tern_node *node = table->node;
    enum tern_status status = TERN_OK;
    lock_take(&node->lock);
    uint64_t n_pins = atomic_load_explicit(&table->core.store.n_pins, memory_order_relaxed);
    uint64_t n_under_way = atomic_load_explicit(&table->n_under_way, memory_order_acquire);
    if (table->n_open > 1)
        table->n_open--;
    else if (n_pins)
        status =
            fail(TERN_BUSY, "%" PRIu64 " row%s of table '%s' %s still pinned; unpin first", n_pins,
                 n_pins == 1 ? "" : "s", table->core.store.name, n_pins == 1 ? "is" : "are");
    else if (n_under_way)
        status = fail(TERN_BUSY,
                      "%" PRIu64 " operation%s on table '%s' %s still under way; wait for %s first",
                      n_under_way, n_under_way == 1 ? "" : "s", table->core.store.name,
                      n_under_way == 1 ? "is" : "are", n_under_way == 1 ? "it" : "them");
    else if (table->n_dists)
        status =
            fail(TERN_BUSY, "%" PRIu32 " distribution%s on table '%s' %s still open; close first",
                 table->n_dists, table->n_dists == 1 ? "" : "s", table->core.store.name,
                 table->n_dists == 1 ? "is" : "are");
    else {
        retire(table);
        table_end(table);
    }
    lock_release(&node->lock);
    return status;
}
