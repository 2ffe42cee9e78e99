/* cost_node - see cost_node.h. What the node says to others is in cost_talk.c. */
#include "sim/cost_node.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cost_internal.h"

#define DRIVE_NS UINT64_C(40000)    /* as in node/worker.c */
#define DRIVEN_NS UINT64_C(2000000) /* after which a node's threads help, as in node/shard.c */
#define START_NS UINT64_C(30000000) /* from the first intent to the first step */
#define RETRY_NS UINT64_C(1000000)  /* the longest sleep of a worker that waits */

/* ---- Making and ending ------------------------------------------------------------------------ */

static enum tern_status open_table(struct cost_node *node)
{
    struct cost_run *run = node->run;
    const struct tern_sim_workload *workload = run->workload;
    const struct tern_table_options options = {
        .struct_size = sizeof options,
        .index = workload->is_sparse ? TERN_SPARSE : TERN_DENSE,
        .type = TERN_F32,
        .n_keys = workload->is_sparse ? 0 : workload->n_keys,
        .length = workload->length,
        .policy = workload->policy,
        .staleness_ms = run->inner->collect ? workload->staleness_ms : 0};
    struct core_table *table = &node->table;
    table->policy = &run->policy;
    struct store_home home = technique_home(&node->core, table->policy, &options, NULL, NULL);
    home.hash_seed = 1;
    enum tern_status status = technique_check(table->policy, "workload", &options);
    if (!status)
        status = store_init(&table->store, "workload", &options, &home);
    if (status)
        return status;
    node->has_store = true;
    const struct technique_setup setup = {.name = "workload", .options = &options, .generation = 1};
    if (!technique_open(&node->core, table, &setup))
        return fail(TERN_NO_MEMORY, "no memory to manage a table");
    table->technique = &run->counted;
    atomic_store_explicit(&node->core.tables[0], table, memory_order_release);
    return TERN_OK;
}

static size_t batches_kept(const struct tern_sim_workload *workload)
{
    return (size_t)workload->ahead + 1;
}

enum tern_status cost_node_init(struct cost_run *run, uint32_t number)
{
    const struct tern_sim_workload *workload = run->workload;
    struct cost_node *node = &run->nodes[number];
    const size_t batch = workload->batch;
    node->run = run;
    node->core.node = number;
    node->core.view = run->view;
    node->core.n_shards = 1;
    node->core.incarnation = run->peers.incarnations[number];
    node->batches = malloc(batches_kept(workload) * batch * sizeof *node->batches);
    node->values = malloc(batch * workload->length * sizeof *node->values);
    node->away = malloc(batch * sizeof *node->away);
    node->intents = intents_new();
    if (!node->batches || !node->values || !node->away || !node->intents)
        return fail(TERN_NO_MEMORY, "no memory for a worker");
    const enum tern_status status = cost_callers_init(node);
    return status ? status : open_table(node);
}

void cost_node_fini(struct cost_node *node)
{
    if (!node->run)
        return;
    cost_callers_fini(node);
    status_aside();
    if (node->state == PULLING || node->state == PUSHING)
        (void)op_end(&node->op);
    status_back();
    if (node->has_store) {
        node->table.technique = node->run->inner;
        technique_close(&node->table);
        store_fini(&node->table.store);
    }
    if (node->intents)
        intents_free(node->intents);
    free(node->batches);
    free(node->values);
    free(node->away);
}

/* ---- Figures ---------------------------------------------------------------------------------- */

static struct cost_marks marks_of(const struct cost_node *node)
{
    struct tern_table_stats stats = {0};
    const struct technique *inner = node->run->inner;
    const struct timeline_link *link = &node->run->timeline.links[node->core.node];
    if (inner->stats && node->table.state)
        inner->stats(&node->table, 0, &stats);
    struct cost_marks marks = {
        .at_ns = cost_now_ns(node),
        .bytes = stats.sent_bytes - node->table.savings[0].sent +
                 node->n_remote * (sizeof(uint64_t) + node->table.store.value_bytes),
        .remote = node->n_remote,
        .letters = node->n_letters,
        .rounds = stats.rounds,
        .link_busy_ns = {link->busy_ns[0], link->busy_ns[1]},
        .staleness_ns = stats.staleness_ms_mean * 1e6,
    };
    for (int i = 0; i < TERN_STALENESS_STEPS; i++)
        marks.n_staleness += (double)stats.staleness_ms[i];
    memcpy(marks.amounts, node->amounts, sizeof marks.amounts);
    return marks;
}

/* The worker has ended a step. */
static void note_step(struct cost_node *node)
{
    struct cost_run *run = node->run;
    const struct tern_sim_workload *workload = run->workload;
    run->n_done++;
    if (node->step == workload->n_warm_up) {
        node->begun = marks_of(node);
        run->n_begun++;
    }
    if (node->step == workload->n_warm_up + workload->n_steps) {
        node->ended = marks_of(node);
        run->n_measured++;
    }
}

/* ---- A step ----------------------------------------------------------------------------------- */

static uint64_t *batch_at(const struct cost_node *node, uint64_t step)
{
    const struct tern_sim_workload *workload = node->run->workload;
    return node->batches + step % batches_kept(workload) * workload->batch;
}

static void draw(struct cost_node *node, uint64_t step)
{
    const struct tern_sim_workload *workload = node->run->workload;
    workload->draw(workload->context, node->core.node, step, batch_at(node, step));
}

/* As tern_intent does. */
static void signal_intent(struct cost_node *node, uint64_t start)
{
    const struct cost_run *run = node->run;
    const enum intent_kind kind =
        run->inner->intent ? run->inner->intent(&run->policy, BY_INTENT) : INTENT_NONE;
    const uint32_t batch = run->workload->batch;
    if (kind == INTENT_NONE || start <= node->step)
        return;
    const uint64_t begin_ns = cost_measure_begin(node);
    cost_count(node, TERN_COST_SIGNAL, batch);
    if (!intents_add(node->intents, kind, node->table.number, node->table.generation,
                     batch_at(node, start), batch, start, start + 1))
        node->run->status = fail(TERN_NO_MEMORY, "no memory for an intent");
    cost_measure_end(node, begin_ns);
    if (intents_are_late(node->intents, kind, start))
        rounds_hurry(&node->rounds);
}

/* What is here; returns how many keys are not, with their positions in node->away. */
static size_t pull_here(struct cost_node *node, const uint64_t *keys)
{
    const struct tern_sim_workload *workload = node->run->workload;
    struct store *store = &node->table.store;
    uint32_t missed[TERN_SIM_COST_MAX_BATCH];
    size_t n_away = 0;
    const size_t n_missed = store_pull(store, keys, workload->batch, node->values, missed);
    for (size_t i = 0; i < n_missed; i++) {
        bool here = store_is_home(store, keys[missed[i]]);
        if (here && store_pull_new(store, keys[missed[i]],
                                   node->values + missed[i] * workload->length, &here))
            node->run->status = fail(TERN_NO_MEMORY, "no memory for rows");
        if (!here)
            node->away[n_away++] = missed[i];
    }
    return n_away;
}

static size_t push_here(struct cost_node *node, const uint64_t *keys)
{
    const size_t n = node->run->workload->batch;
    struct store *store = &node->table.store;
    struct entry *entries[TERN_SIM_COST_MAX_BATCH];
    if (store_reserve(store, keys, n, entries)) {
        node->run->status = fail(TERN_NO_MEMORY, "no memory for rows");
        return 0;
    }
    return store_push(store, keys, n, entries, node->run->updates, node->away);
}

/* Pulls or pushes the batch. True if some of its keys are asked for elsewhere. */
static bool access_batch(struct cost_node *node, enum frame_kind kind)
{
    const uint64_t *keys = batch_at(node, node->step);
    struct cost_caller *caller = &node->callers[BY_WORKER];
    const bool is_pull = kind == FRAME_PULL;
    const uint64_t begin_ns = cost_measure_begin(node);
    cost_count(node, TERN_COST_ACCESS, (is_pull ? 0.4 : 0.6) * node->run->workload->batch);
    const size_t n_away = is_pull ? pull_here(node, keys) : push_here(node, keys);
    cost_measure_end(node, begin_ns);
    if (!n_away)
        return false;
    node->n_remote += n_away;
    cost_count(node, TERN_COST_KEY, (double)n_away);
    const enum tern_status status =
        client_start(&caller->client, &node->op, kind, &node->table, keys,
                     is_pull ? node->values : node->run->updates, node->away, n_away);
    if (status) {
        node->run->status = status;
        return false;
    }
    lanes_advance(&caller->lanes);
    return true;
}

/* Drives, unless that was done a moment ago. */
static void drive(struct cost_node *node)
{
    const uint64_t now_ns = cost_now_ns(node);
    if (now_ns < node->drive_ns)
        return;
    cost_drive(node);
    node->drive_ns = now_ns + DRIVE_NS;
}

static void plan(struct cost_node *node, uint64_t from_ns, double work_ns)
{
    struct timeline *timeline = &node->run->timeline;
    timeline_plan(timeline, node->core.node, ++node->generation,
                  timeline_done_ns(timeline, node->core.node, from_ns, (uint64_t)work_ns));
}

/* The first half of a step, up to the pull. */
static void begin_step(struct cost_node *node)
{
    const uint64_t ahead = node->run->workload->ahead;
    draw(node, node->step + ahead);
    signal_intent(node, node->step + ahead);
    drive(node);
    node->state = access_batch(node, FRAME_PULL) ? PULLING : TO_PUSH;
}

/* The second half, after computing. */
static void end_step(struct cost_node *node)
{
    drive(node);
    node->state = access_batch(node, FRAME_PUSH) ? PUSHING : TO_BEGIN;
}

static void advance(struct cost_node *node)
{
    node->step++;
    atomic_store_explicit(&node->intents->clock, node->step, memory_order_relaxed);
    drive(node);
    note_step(node);
}

/* Goes on while an operation is under way; true when it is done. */
static bool wait_on(struct cost_node *node)
{
    cost_drive(node);
    if (cost_caller_look(&node->callers[BY_WORKER]))
        lanes_advance(&node->callers[BY_WORKER].lanes);
    if (!op_is_done(&node->op))
        return false;
    const enum tern_status status = op_end(&node->op);
    if (status)
        node->run->status = status;
    node->drive_ns = cost_now_ns(node) + DRIVE_NS;
    return true;
}

/* Plans to look again: when a round is due, or a letter comes before. */
static void plan_wait(struct cost_node *node)
{
    const struct cost_run *run = node->run;
    node->free_ns = timeline_done_ns(&run->timeline, node->core.node, run->timeline.now_ns,
                                     (uint64_t)node->spent_ns);
    uint64_t next_ns = node->rounds.round.runs ? UINT64_MAX : rounds_next_ns(&node->rounds, true);
    if (next_ns > node->free_ns + RETRY_NS)
        next_ns = node->free_ns + RETRY_NS;
    plan(node, next_ns > node->free_ns ? next_ns : node->free_ns + DRIVE_NS, 0);
}

static void go_on(struct cost_node *node)
{
    const struct tern_sim_workload *workload = node->run->workload;
    const double own_ns = workload->costs.ns[TERN_COST_STEP];
    const double half_ns[2] = {0.4 * own_ns, 0.6 * own_ns};
    double more_ns = 0;
    if (node->state == TO_START) {
        cost_drive(node);
        more_ns = DRIVE_NS;
        node->state = node->run->timeline.now_ns < START_NS ? TO_START : TO_BEGIN;
        plan(node, node->run->timeline.now_ns, node->spent_ns + more_ns);
        return;
    }
    if (node->state == TO_BEGIN)
        begin_step(node);
    else if (node->state == TO_PUSH)
        end_step(node);
    else if (wait_on(node))
        node->state = node->state == PULLING ? TO_PUSH : TO_BEGIN;
    if (node->state == TO_PUSH)
        more_ns = half_ns[0] + (double)workload->compute_ns;
    if (node->state == TO_BEGIN) {
        node->spent_ns += half_ns[1];
        node->amounts[TERN_COST_STEP]++;
        advance(node);
    }
    if (node->state == PULLING || node->state == PUSHING)
        plan_wait(node);
    else
        plan(node, node->run->timeline.now_ns, node->spent_ns + more_ns);
}

/* ---- Events ----------------------------------------------------------------------------------- */

/* Intent for the first batches is signalled at once, and the worker drives until they have had time to come: a start without them
 * would say nothing of the steps that follow, and take a simulator of many nodes most of its time. */
void cost_node_begin(struct cost_node *node)
{
    for (uint64_t i = 0; i < node->run->workload->ahead; i++) {
        draw(node, i);
        signal_intent(node, i);
    }
    node->state = node->run->workload->ahead ? TO_START : TO_BEGIN;
    plan(node, 0, 0);
}

/* Something has come to a node whose worker does not have its core. Its threads, which have slept, get theirs before. */
static void call_for_help(struct cost_node *node, uint64_t at_ns)
{
    uint64_t since_ns;
    const uint32_t number = node->core.node;
    if (node->is_helped || timeline_has_core(&node->run->timeline, number, at_ns, &since_ns))
        return;
    node->is_helped = true;
    timeline_plan(&node->run->timeline, number, TIMELINE_HELP,
                  at_ns > since_ns + DRIVEN_NS ? at_ns : since_ns + DRIVEN_NS);
}

void cost_node_event(struct cost_node *node, const struct timeline_event *event)
{
    node->spent_ns = 0;
    if (event->letter) {
        *node->inbox_end = event->letter;
        event->letter->next = NULL;
        node->inbox_end = &event->letter->next;
        if (node->state == PULLING || node->state == PUSHING)
            plan(node, event->at_ns > node->free_ns ? event->at_ns : node->free_ns, 0);
        call_for_help(node, event->at_ns);
    } else if (event->generation == TIMELINE_HELP) {
        node->is_helped = false;
        cost_drive(node);
    } else if (event->generation == node->generation) {
        go_on(node);
    }
}
