/* node - opening and closing nodes. See node.h. */
#include "node/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "kernel/kernel.h"
#include "node/admit.h"
#include "node/checkpoint.h"
#include "node/tasks.h"

#define STRING(x) #x
#define VERSION(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

const char *tern_version(void)
{
    return VERSION(TERN_VERSION_MAJOR, TERN_VERSION_MINOR, TERN_VERSION_PATCH);
}

static void free_views(struct tern_node *node)
{
    view_free(node->views[0]);
    view_free(node->views[1]);
    view_free(node->views[2]);
}

/* Joins the cluster that `launch` describes. */
static enum tern_status join(struct tern_node *node, const struct launch *launch)
{
    node->engine = calloc(1, sizeof *node->engine);
    if (!node->engine)
        return fail(TERN_NO_MEMORY, "no memory to join a cluster");
    enum tern_status status = engine_start(node->engine, launch, node->views);
    if (status) {
        free(node->engine);
        node->engine = NULL;
        return status;
    }
    node->engine->clocks = &node->clocks;
    node->engine->clocks_lock = &node->clocks_lock;
    status = remote_init_shard(&node->control, node->engine, 0);
    if (!status) {
        status = remote_init_shard(&node->opening, node->engine, 0);
        if (status)
            remote_fini(&node->control);
    }
    if (status) {
        engine_leave(node->engine);
        engine_end(node->engine);
        free(node->engine);
        node->engine = NULL;
    }
    return status;
}

/* Ends a node's part in tasks, and in its cluster. */
static void end_parts(struct tern_node *node)
{
    if (node->tasks)
        tasks_free(node->tasks);
    if (node->engine) {
        remote_fini(&node->control);
        remote_fini(&node->opening);
        engine_end(node->engine);
        free(node->engine);
        node->engine = NULL;
    }
}

/* The same, in the end: others may use its rows and have functions run here until they also leave. */
static enum tern_status leave(struct tern_node *node)
{
    enum tern_status status = node->engine ? engine_leave(node->engine) : TERN_OK;
    end_parts(node);
    return status;
}

/* A secret, from which the hashes of its tables are made. */
static uint64_t random_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = clock_now_ns();
    return seed;
}

/* Where this node is in a cluster, by its options or the environment. */
static enum tern_status find_place(const struct tern_node_options *options, struct launch *launch)
{
    if (options && options->group)
        return launch_in_group(options->group, options->node, options->n_nodes, launch);
    enum tern_status status = launch_find(launch);
    if (!status && launch->n_nodes > 1 && handle_was_forked())
        return fail(TERN_INVALID,
                    "this process was forked from one that has opened node %" PRIu32
                    " of this cluster; a launcher must start each node",
                    launch->node);
    return status;
}

enum tern_status tern_node_open(const struct tern_node_options *options, struct tern_node **node)
{
    if (!node)
        return fail(TERN_INVALID, "tern_node_open: the pointer `node` for the result is NULL");
    if (options && options->struct_size != sizeof *options)
        return fail(TERN_INVALID,
                    "tern_node_options.struct_size is %zu; set it to sizeof, which is %zu",
                    options->struct_size, sizeof *options);
    struct launch launch;
    enum tern_status status = kernel_check();
    if (!status)
        status = log_check();
    if (!status)
        status = find_place(options, &launch);
    if (status)
        return status;
    struct tern_node *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "no memory to open a node");
    made->deadline_ns = launch.deadline_ns;
    admit_init(made);
    member_init(&made->member, launch.n_nodes, launch.deadline_ns);
    made->hash_seed = random_seed();
    lock_init(&made->lock, RANK_NODE, 0);
    lock_init(&made->control_lock, RANK_CONTROL, 0);
    if (launch.n_nodes > 1)
        status = join(made, &launch);
    if (!status && made->engine)
        made->member.n_processes =
            view_n_sharing(made->engine->core.view, made->engine->member.node);
    if (!status) {
        made->tasks = tasks_new(made);
        status = made->tasks ? TERN_OK : TERN_NO_MEMORY;
        if (status)
            leave(made);
    }
    if (status) {
        free_views(made);
        member_fini(&made->member);
        admit_fini(made);
        lock_fini(&made->control_lock);
        lock_fini(&made->lock);
        free(made);
        return status;
    }
    handle_init(&made->handle, HANDLE_NODE);
    *node = made;
    return TERN_OK;
}

/* Those of the program. */
static size_t count_workers(const struct tern_node *node)
{
    size_t n = 0;
    for (const struct tern_worker *worker = node->workers; worker; worker = worker->next)
        n += !worker->is_pool_thread;
    return n;
}

/* Whether a node can be closed. */
static enum tern_status check_closable(struct tern_node *node)
{
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    lock_take(&node->lock);
    size_t n_workers = count_workers(node);
    lock_release(&node->lock);
    if (n_workers)
        return fail(TERN_BUSY, "%zu worker%s of the node %s still open; close %s first", n_workers,
                    n_workers == 1 ? "" : "s", n_workers == 1 ? "is" : "are",
                    n_workers == 1 ? "it" : "them");
    return TERN_OK;
}

/* Frees a node that is in no cluster any more. */
static void end_node(struct tern_node *node)
{
    for (size_t i = 0; i < TERN_MAX_TABLES; i++)
        if (node->tables[i])
            table_end(node->tables[i]);
    for (struct generation *generation = node->generations, *next; generation; generation = next) {
        next = generation->next;
        free(generation);
    }
    free_views(node);
    member_fini(&node->member);
    admit_fini(node);
    lock_fini(&node->control_lock);
    lock_fini(&node->lock);
    handle_close(&node->handle);
}

enum tern_status tern_node_close(struct tern_node *node)
{
    enum tern_status status = check_closable(node);
    if (status)
        return status;
    checkpoint_give_up(node);
    written_free(node->written);
    status = leave(node);
    end_node(node);
    return status;
}

/* A simulated cluster in which keys were read from a checkpoint lost a later push when a node left. */
static enum tern_status check_leavable(struct tern_node *node)
{
    const struct tern_table *found = NULL;
    lock_take(&node->lock);
    for (size_t i = 0; i < TERN_MAX_TABLES && !found; i++) {
        const struct tern_table *table = node->tables[i];
        if (table && table->core.backup && table->core.backup->recover)
            found = table;
    }
    lock_release(&node->lock);
    return found ? fail(TERN_INVALID,
                        "node %" PRIu32 " cannot leave before the others: table '%s' has `recover`",
                        node->engine->core.node, found->core.store.name)
                 : TERN_OK;
}

enum tern_status tern_node_leave(struct tern_node *node)
{
    enum tern_status status = check_closable(node);
    if (status)
        return status;
    if (!node->engine)
        return tern_node_close(node);
    status = check_leavable(node);
    if (status)
        return status;
    if (node->checkpoint)
        return fail(TERN_BUSY, "a checkpoint is being written; call tern_checkpoint_wait first");
    const uint32_t self = node->engine->core.node;
    tasks_hold(node->tasks);
    status = engine_wait(node->engine);
    if (!status) {
        member_part(&node->member, self, true);
        status = engine_part(node->engine);
    }
    if (status) {
        member_part(&node->member, self, false);
        tasks_release(node->tasks);
        return status;
    }
    written_free(node->written);
    end_parts(node);
    end_node(node);
    return TERN_OK;
}

enum tern_status node_call(struct tern_node *node, struct op *op, enum frame_kind kind)
{
    lock_take(&node->control_lock);
    enum tern_status status = engine_call(&node->control, 0, op, kind);
    lock_release(&node->control_lock);
    return status;
}

enum tern_status tern_node_get_stats(struct tern_node *node, struct tern_node_stats *stats)
{
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    if (!stats)
        return fail(TERN_INVALID, "tern_node_get_stats: the pointer `stats` is NULL");
    if (stats->struct_size != sizeof *stats)
        return fail(TERN_INVALID,
                    "tern_node_stats.struct_size is %zu; set it to sizeof, which is %zu",
                    stats->struct_size, sizeof *stats);
    *stats = (struct tern_node_stats){.struct_size = sizeof *stats};
    if (node->engine) {
        stats->refused_connections =
            atomic_load_explicit(&node->engine->n_refused, memory_order_relaxed);
        engine_backup_bytes(node->engine, &stats->backup_bytes, &stats->taken_bytes);
    }
    return TERN_OK;
}
