/*
 * cluster - see cluster.h.
 *
 * Faults strike after random events until a number of them is used up. Restarts and outages, after
 * which operations may fail, belong to one seed of four each; the other faults are short enough for
 * everything to succeed in spite of them.
 */
#include "sim/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/pages.h"
#include "base/rand.h"
#include "core/technique.h"
#include "sim/ownership_check.h"

#define MS UINT64_C(1000000)

enum {
    LONGEST_MS = 60, /* of a fault that must be survived */
    MAX_STRIKES = 16,
    GHOST_LANES = 1000, /* the lanes of stale processes are numbered from here on */
};

struct cluster {
    struct run run;
    struct machine **machines;
    uint32_t faults;    /* those of this seed */
    uint32_t n_strikes; /* left */
    uint32_t events_per_strike;
    bool was_backed; /* all backups were complete, at some time */
    uint64_t n_ghosts;
    uint64_t fired[TERN_SIM_FAULTS];
};

static uint64_t below(struct cluster *cluster, uint64_t n)
{
    return rand_below(sim_random(cluster->run.sim), n);
}

static bool has_leaves(const struct cluster *cluster)
{
    return cluster->faults >> TERN_SIM_LEAVE & 1;
}

/* ---- Faults ----------------------------------------------------------------------------------- */

/* A process that is no member pushes to a key: one of an earlier epoch, which has not heard that it was left behind, or
 * one that has not joined. It does not wait for a welcome, since that would take an epoch that is right. */
static void strike_stale(struct cluster *cluster)
{
    struct machine *machine = cluster->machines[below(cluster, cluster->run.n_machines)];
    uint32_t index = (uint32_t)below(cluster, KEYS);
    if (machine->state != WORKING)
        return;
    struct core *core = &machine->core;
    const enum sim_table table = DENSE_COUNTS;
    const struct store *store = &machine->tables[table].store;
    uint64_t key = table_key(table, index);
    const struct core *as = core_for(core, &machine->tables[table]);
    uint32_t node = core_home(as, store, key), shard = store_shard(store, key), position = 0;
    if (node == as->node)
        return;
    int64_t *ones = malloc(store->value_bytes);
    struct client client;
    struct op op = {0};
    struct buffer out = {0};
    if (!ones || client_init(&client, core)) {
        free(ones);
        return;
    }
    for (uint32_t i = 0; i < store->length; i++)
        ones[i] = 1;
    const bool is_behind = cluster->n_ghosts % 2;
    const uint64_t incarnation = core->incarnation;
    struct view *earlier =
        view_new(cluster->run.epoch - 1, cluster->run.n_machines, cluster->run.leaders);
    if (is_behind && earlier)
        core->view = earlier;
    core->incarnation += is_behind ? 0 : GHOST_LANES + cluster->n_ghosts;
    if (caller_hello(core, (uint32_t)(GHOST_LANES + cluster->n_ghosts++), shard, &out) &&
        !client_start(&client, &op, FRAME_PUSH, &machine->tables[table], &key, ones, &position,
                      1) &&
        lane_send(&client, &client.lanes[node * client.n_shards + shard], SIZE_MAX, &out)) {
        struct sim_end *end = sim_connect(cluster->run.sim, core->node, node);
        if (end) {
            sim_write(cluster->run.sim, end, buffer_head(&out), buffer_size(&out));
            cluster->fired[TERN_SIM_STALE]++;
        }
    }
    core->view = machine->view;
    core->incarnation = incarnation;
    lane_fail(&client, &client.lanes[node * client.n_shards + shard], TERN_PEER, "left behind");
    op_end(&op);
    client_fini(&client);
    view_free(earlier);
    buffer_free(&out);
    free(ones);
}

/* Whether all backups are complete: all that are left know who is, and have nothing to copy. */
static bool are_all_backed(const struct cluster *cluster)
{
    const struct run *run = &cluster->run;
    const struct view *view = cluster->machines[0]->core.view;
    bool are_backed = true;
    for (uint32_t i = 0; are_backed && i < run->n_machines; i++) {
        struct machine *machine = cluster->machines[i];
        are_backed = machine_is_gone(machine)
                         ? !view_is_present(view, i)
                         : view_epoch(machine->core.view) == view_epoch(view) &&
                               machine->n_opened == N_SIM_TABLES && machine_is_backed(machine);
    }
    return are_backed;
}

/* How many nodes may be given up since all backups were complete: as many as there are, and one more where a checkpoint has what is
 * lost. */
static uint32_t max_victims(const struct cluster *cluster)
{
    const struct tables *tables = &cluster->run.check.tables;
    return tables->n_backups + tables->recovers;
}

/* Whether a node may be given up now: one that others can do without. While others leave as many may be as otherwise. */
static bool can_be_given_up(struct cluster *cluster, uint32_t node)
{
    const enum state state = cluster->machines[node]->state;
    if (are_all_backed(cluster)) {
        cluster->was_backed = true;
        cluster->run.n_victims = 0;
    } else if (!cluster->run.n_victims && !(cluster->was_backed && has_leaves(cluster)))
        return false;
    /* The others mostly wait for a node that leaves. */
    const bool can_die =
        state == WORKING || state == PARTING || (state == MEETING && has_leaves(cluster));
    return node != 0 && can_die && !cluster->run.check.gone[node * WORKERS] &&
           cluster->run.n_victims < max_victims(cluster);
}

/* A node's process ends, or goes on after the others have given it up. */
static void strike_node(struct cluster *cluster, enum tern_sim_fault fault, uint32_t node)
{
    struct run *run = &cluster->run;
    if (!can_be_given_up(cluster, node))
        return;
    cluster->run.n_victims++;
    cluster->fired[fault]++;
    for (uint32_t i = 0; i < WORKERS; i++)
        check_gone(&run->check, node * WORKERS + i);
    if (fault == TERN_SIM_FREEZE) {
        cluster->machines[node]->sim_node.may_fail = true;
        sim_pause(run->sim, node, SIM_DEADLINE_NS * 5 / 4 + below(cluster, SIM_DEADLINE_NS));
        return;
    }
    sim_kill(run->sim, node);
    if (below(cluster, 2))
        sim_silence(run->sim, node);
    machine_free(cluster->machines[node]);
    cluster->machines[node] = machine_wreck(run, node);
}

/* The same with up to as many neighbours as there are backups, half of the time. */
/* A checkpoint is taken: of the keys that nothing is under way to. The others are as in the one before. */
static void save_all(struct cluster *cluster)
{
    struct check *check = &cluster->run.check;
    for (int table = 0; table < N_SIM_TABLES; table++)
        for (uint32_t i = 0; cluster->machines[0]->opened[table] && i < KEYS; i++) {
            const struct core *core = &cluster->machines[0]->core;
            const uint32_t arc = tables_home(&check->tables, core, (enum sim_table)table, i);
            struct machine *home = cluster->machines[view_home(core->view, arc)];
            if (!machine_is_gone(home) && home->opened[table])
                check_save(check, (enum sim_table)table, i, &home->tables[table].store);
        }
}

static void strike_for_good(struct cluster *cluster, enum tern_sim_fault fault)
{
    const uint32_t n = cluster->run.n_machines, node = (uint32_t)below(cluster, n);
    const uint64_t n_more = below(cluster, 2) ? below(cluster, max_victims(cluster)) : 0;
    if (cluster->run.check.tables.recovers && below(cluster, 2))
        save_all(cluster);
    for (uint32_t i = 0; i <= n_more; i++)
        strike_node(cluster, fault, (node + i) % n);
}

/* A node leaves when its workers have done what they are at. */
static void strike_leave(struct cluster *cluster)
{
    struct machine *machine = cluster->machines[below(cluster, cluster->run.n_machines)];
    if (machine->core.node == 0 || machine->state != WORKING || machine->is_to_part ||
        machine->phase > WORK_PHASES || machine_is_gone(machine))
        return;
    machine->is_to_part = true;
    cluster->fired[TERN_SIM_LEAVE]++;
}

/* As soon as a node has left, half of the time, neighbours of it crash: those that have its keys now, or whose backups it had. */
static void strike_neighbours(struct cluster *cluster, uint32_t node)
{
    const uint32_t n = cluster->run.n_machines;
    const uint64_t most = cluster->run.check.tables.n_backups;
    if (!(cluster->faults >> TERN_SIM_CRASH & 1) || below(cluster, 2))
        return;
    const uint32_t step = below(cluster, 2) ? 1 : n - 1;
    for (uint64_t i = below(cluster, most) + 1; i > 0; i--) {
        node = (node + step) % n;
        strike_node(cluster, TERN_SIM_CRASH, node);
    }
}

/* The process of a node that has left ends. */
static void end_parted(struct cluster *cluster, uint32_t node)
{
    struct run *run = &cluster->run;
    struct machine *machine = cluster->machines[node];
    if (!machine || !machine->has_parted || !machine->core.n_shards)
        return;
    sim_kill(run->sim, node);
    machine_free(machine);
    cluster->machines[node] = machine_wreck(run, node);
    if (cluster->machines[node])
        cluster->machines[node]->has_parted = true;
    if (cluster->machines[node])
        strike_neighbours(cluster, node);
}

/* What a node has of a table that stays at home is lost. */
static void lose_table(struct cluster *cluster, const struct machine *machine, enum sim_table table)
{
    struct check *check = &cluster->run.check;
    for (uint32_t i = 0; !tables_managed(&check->tables, table) && i < KEYS; i++)
        check->lost[table][i] |=
            tables_home(&check->tables, &machine->core, table, i) == machine->core.node;
}

/* A process ends, with all that it had in memory, and another takes its place. */
static void strike_restart(struct cluster *cluster)
{
    struct run *run = &cluster->run;
    const uint32_t node = (uint32_t)below(cluster, run->n_machines);
    struct machine *old = cluster->machines[node];
    if (old->state == ENDED)
        return;
    for (int table = 0; table < N_SIM_TABLES; table++)
        lose_table(cluster, old, (enum sim_table)table);
    run->check.lenient = run->check.restarted = true;
    run->blame.nodes |= UINT64_C(1) << node;
    cluster->fired[TERN_SIM_RESTART]++;
    cluster->faults &= ~(1u << TERN_SIM_RESTART);
    const uint64_t incarnation = old->core.incarnation + run->n_machines;
    bool again = old->state > JOINING;
    sim_kill(run->sim, node);
    machine_free(old);
    cluster->machines[node] = machine_new(run, node, incarnation, again);
}

static void strike_outage(struct cluster *cluster)
{
    struct run *run = &cluster->run;
    const uint32_t a = (uint32_t)below(cluster, run->n_machines);
    const uint32_t b = (a + 1 + (uint32_t)below(cluster, run->n_machines - 1)) % run->n_machines;
    run->check.lenient = true;
    run->blame.nodes |= UINT64_C(1) << a | UINT64_C(1) << b;
    cluster->fired[TERN_SIM_OUTAGE]++;
    cluster->faults &= ~(1u << TERN_SIM_OUTAGE);
    sim_cut(run->sim, a, b, SIM_DEADLINE_NS + below(cluster, SIM_DEADLINE_NS));
}

static void strike(struct cluster *cluster, enum tern_sim_fault fault)
{
    static const enum sim_fault faults[] = {[TERN_SIM_DELAY] = SIM_DELAY,
                                            [TERN_SIM_BREAK] = SIM_BREAK,
                                            [TERN_SIM_PAUSE] = SIM_PAUSE,
                                            [TERN_SIM_PARTITION] = SIM_PARTITION};
    if (fault == TERN_SIM_RESTART)
        strike_restart(cluster);
    else if (fault == TERN_SIM_OUTAGE)
        strike_outage(cluster);
    else if (fault == TERN_SIM_STALE)
        strike_stale(cluster);
    else if (fault == TERN_SIM_LEAVE)
        strike_leave(cluster);
    else if (fault == TERN_SIM_CRASH || fault == TERN_SIM_FREEZE)
        strike_for_good(cluster, fault);
    else
        sim_strike(cluster->run.sim, faults[fault], LONGEST_MS * MS);
}

/* Now and then something goes wrong: most often a connection breaks. */
static void strike_now_and_then(struct cluster *cluster)
{
    if (!cluster->n_strikes || !cluster->faults || below(cluster, cluster->events_per_strike))
        return;
    cluster->n_strikes--;
    /* Clusters in which nobody leaves are what they were before nodes could. */
    const uint64_t n_kinds = has_leaves(cluster) ? TERN_SIM_FAULTS : TERN_SIM_LEAVE;
    uint64_t draw = below(cluster, 2 * n_kinds);
    enum tern_sim_fault fault = draw < n_kinds ? (enum tern_sim_fault)draw : TERN_SIM_BREAK;
    while (!(cluster->faults >> fault & 1))
        fault = (enum tern_sim_fault)((fault + 1) % TERN_SIM_FAULTS);
    if (has_leaves(cluster) && !cluster->fired[TERN_SIM_LEAVE])
        fault = TERN_SIM_LEAVE;
    strike(cluster, fault);
}

/* ---- The end ---------------------------------------------------------------------------------- */

/* Whether a node must have everything under a key in the end: its home; with replicas of every key all of
 * them; and, where its home keeps replicas up to date, those who have got one. */
static bool is_complete(const struct machine *machine, enum sim_table table, uint64_t key,
                        bool is_home)
{
    const struct core_table *core_table = &machine->tables[table];
    int64_t row[LAST_LENGTH];
    if (is_home || !core_table->technique->admit)
        return is_home || core_table->technique->rows == ROWS_EVERYWHERE;
    return core_table->policy->refresh == REFRESH_EACH_CLOCK && promise_shown(core_table, key, row);
}

/* All nodes agree on the home of a key, and it alone has a row of it, unless others may. */
static void check_home(struct cluster *cluster, enum sim_table table, uint32_t index)
{
    struct check *check = &cluster->run.check;
    const bool tracked = tables_tracked(&check->tables, table);
    const uint64_t key = table_key(table, index);
    const struct core_table *any = &cluster->machines[0]->tables[table];
    const struct core *first = core_for(&cluster->machines[0]->core, any);
    const uint32_t arc = tables_home(&check->tables, first, table, index);
    const uint32_t home = view_home(first->view, arc);
    for (uint32_t i = 0; i < cluster->run.n_machines; i++) {
        const struct machine *machine = cluster->machines[i];
        if (!machine->opened[table] || machine_is_gone(machine))
            continue;
        struct store *store = (struct store *)&machine->tables[table].store;
        const struct entry *entry = store_find(store, key);
        bool has_row = entry && entry_has_row(entry_read(entry));
        const struct core *as = core_for(&machine->core, &machine->tables[table]);
        const bool is_here = is_complete(machine, table, key, as->node == home);
        check_that(check,
                   core_home(as, store, key) == arc && (!has_row || as->node == home || tracked),
                   "key %" PRIu32 " of table '%s' is at home at node %" PRIu32
                   " and has a row at node %" PRIu32,
                   index, table_name(table), home, i);
        int64_t row[LAST_LENGTH];
        bool here;
        if (is_here && (store_pull_one(store, key, row) || !store_pull_new(store, key, row, &here)))
            check_stored(check, &(struct stored){
                                    .node = i,
                                    .table = table,
                                    .index = index,
                                    .is_main = !tracked || (check->tables.are_backed && i == home),
                                    .row = row,
                                    .state = has_row && i == home && !tracked
                                                 ? store_state(store, entry_slot(entry_read(entry)))
                                                 : NULL});
    }
}

static void check_end(struct cluster *cluster)
{
    for (int table = 0; table < N_SIM_TABLES; table++) {
        bool stays = !tables_managed(&cluster->run.check.tables, (enum sim_table)table);
        for (uint32_t i = 0; stays && cluster->machines[0]->opened[table] && i < KEYS; i++)
            check_home(cluster, (enum sim_table)table, i);
    }
    ownership_check_end(cluster->machines);
}

/* Looks at one key of a managed table after each event: at all of them in turn. */
static void check_some_owner(struct cluster *cluster)
{
    const struct tables *tables = &cluster->run.check.tables;
    const uint64_t turn = sim_n_events(cluster->run.sim);
    const enum sim_table table = (enum sim_table)(turn % N_SIM_TABLES);
    if (tables_managed(tables, table))
        ownership_check(cluster->machines, table, (uint32_t)(turn / N_SIM_TABLES % KEYS));
}

/* ---- The run ---------------------------------------------------------------------------------- */

static const struct machine *find_busy(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->run.n_machines; i++)
        if (cluster->machines[i]->state != ENDED)
            return cluster->machines[i];
    return NULL;
}

/* Whether nothing has ended for so long that nothing will. */
static bool is_stuck(struct cluster *cluster, uint64_t progress_ns)
{
    struct sim *sim = cluster->run.sim;
    uint64_t since_ns = sim_healed_ns(sim) > progress_ns ? sim_healed_ns(sim) : progress_ns;
    return sim_now_ns(sim) > since_ns + 5 * SIM_DEADLINE_NS;
}

/* Pings end for ever, so they do not count as progress. */
static uint64_t n_done(const struct cluster *cluster)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < cluster->run.n_machines; i++) {
        const struct machine *machine = cluster->machines[i];
        n += machine->phase + machine->n_opened + (uint64_t)machine->state;
        for (int j = 0; j < WORKERS; j++)
            n += machine->workers[j].n_started;
    }
    return n;
}

static enum tern_status run_to_end(struct cluster *cluster)
{
    struct sim *sim = cluster->run.sim;
    struct check *check = &cluster->run.check;
    uint64_t progress_ns = 0, n_before = 0;
    struct sim_event event;
    while (!check->n_violations && find_busy(cluster)) {
        if (!sim_next(sim, &event))
            return fail(TERN_NO_MEMORY, "no memory for the simulation");
        machine_event(cluster->machines[event.node], &event);
        end_parted(cluster, event.node);
        strike_now_and_then(cluster);
        if (!cluster->machines[event.node])
            return fail(TERN_NO_MEMORY, "no memory for the simulation");
        check_some_owner(cluster);
        uint64_t n_now = n_done(cluster);
        if (n_now != n_before)
            progress_ns = sim_now_ns(sim);
        n_before = n_now;
        const struct machine *busy = find_busy(cluster);
        if (busy)
            check_that(check, !is_stuck(cluster, progress_ns),
                       "node %" PRIu32 " %s, and does not come to an end", busy->core.node,
                       machine_doing(busy));
    }
    if (!check->n_violations)
        check_end(cluster);
    return TERN_OK;
}

/* One cluster in four has several. */
static uint32_t shards_of(uint64_t seed)
{
    static const uint32_t few[] = {1, 1, 1, 1, 1, 1, 2, 3};
    return few[seed % 8];
}

/* Groups the nodes into hosts: in two runs of four each is one of its own. False when memory runs out. */
static bool share_hosts(struct run *run, uint32_t per_host)
{
    static const uint32_t some[] = {1, 1, 2, 3};
    run->per_host = per_host ? per_host : some[rand_at(run->seed, 3) % 4];
    if (run->per_host >= run->n_machines)
        run->per_host = 1;
    run->leaders = calloc(run->n_machines, sizeof *run->leaders);
    run->memories = calloc((size_t)run->n_machines * N_SIM_TABLES, sizeof *run->memories);
    for (uint32_t i = 0; run->leaders && i < run->n_machines; i++)
        run->leaders[i] = i / run->per_host * run->per_host;
    return run->leaders && run->memories;
}

static void free_hosts(struct run *run)
{
    for (size_t i = 0; run->memories && i < (size_t)run->n_machines * N_SIM_TABLES; i++)
        if (run->memories[i].shared)
            pages_free(run->memories[i].shared, run->memories[i].bytes);
    free(run->memories);
    free(run->leaders);
}

static enum tern_status init_cluster(struct cluster *cluster,
                                     const struct tern_sim_options *options, uint64_t seed)
{
    struct run *run = &cluster->run;
    *cluster = (struct cluster){.faults = options->faults, .n_strikes = MAX_STRIKES};
    run->n_machines = options->n_nodes;
    run->n_steps = options->n_steps;
    run->epoch = 2;
    run->seed = hash_u64(seed);
    run->n_shards = options->n_shards ? options->n_shards : shards_of(run->seed);
    run->sim = sim_new(seed, run->n_machines);
    run->joining = calloc(run->n_machines, sizeof *run->joining);
    run->phase = calloc(run->n_machines, sizeof *run->phase);
    cluster->machines = calloc(run->n_machines, sizeof(struct machine *));
    run->machines = cluster->machines;
    const uint32_t for_good = 1u << TERN_SIM_CRASH | 1u << TERN_SIM_FREEZE | 1u << TERN_SIM_LEAVE;
    const bool are_backed =
        run->n_machines > 1 && cluster->faults & for_good && rand_at(run->seed, 3) % 4 == 0;
    if (rand_at(run->seed, 27) % 3 &&
        cluster->faults & (1u << TERN_SIM_CRASH | 1u << TERN_SIM_FREEZE))
        cluster->faults &= ~(1u << TERN_SIM_LEAVE);
    cluster->faults &= are_backed ? ~(1u << TERN_SIM_RESTART | 1u << TERN_SIM_OUTAGE) : ~for_good;
    bool ready = share_hosts(run, are_backed ? 1 : options->per_host);
    ready = ready && check_init(&run->check, run->n_machines, run->n_machines * WORKERS, are_backed,
                                hash_u64(run->seed));
    if (run->check.tables.recovers) /* tern_node_leave refuses */
        cluster->faults &= ~(1u << TERN_SIM_LEAVE);
    /* Rounds call so often that in one run of a thousand such a refusal meets a node that has just lost its connections to node 0,
     * which gives it up then. */
    if (ready && run->sim && run->check.tables.have_rounds)
        sim_never_refuse(run->sim);
    ready = ready && dists_init(&run->dists, &run->check.tables, rand_at(run->seed, 0));
    if (!ready || !run->sim || !run->joining || !run->phase || !cluster->machines)
        return fail(TERN_NO_MEMORY, "no memory for the simulation");
    /* In one cluster of eight a node opens its tables late. */
    run->late_node =
        rand_at(run->seed, 2) % 8 ? UINT32_MAX : (uint32_t)below(cluster, run->n_machines);
    run->late_ns = SIM_DEADLINE_NS + below(cluster, SIM_DEADLINE_NS * 3 / 2);
    cluster->events_per_strike = 20 + (uint32_t)below(cluster, 200);
    /* Memory that a process leaves half written is tests/sim/test_shared.c's matter. */
    if (below(cluster, 4) || run->per_host > 1)
        cluster->faults &= ~(1u << TERN_SIM_RESTART);
    if (below(cluster, 4))
        cluster->faults &= ~(1u << TERN_SIM_OUTAGE);
    for (uint32_t i = 0; i < run->n_machines; i++) {
        cluster->machines[i] = machine_new(run, i, i + 1, false);
        if (!cluster->machines[i])
            return fail(TERN_NO_MEMORY, "no memory for the simulation");
    }
    return TERN_OK;
}

/* The machines tell what they have done when they end. */
static void free_machines(struct cluster *cluster)
{
    for (uint32_t i = 0; cluster->machines && i < cluster->run.n_machines; i++)
        machine_free(cluster->machines[i]);
    free(cluster->machines);
    cluster->machines = NULL;
}

static void fini_cluster(struct cluster *cluster)
{
    struct run *run = &cluster->run;
    free_machines(cluster);
    if (run->sim)
        sim_free(run->sim);
    dists_fini(&run->dists);
    check_fini(&run->check);
    free(run->joining);
    free_hosts(run);
    free(run->phase);
}

static void add_figures(const struct cluster *cluster, struct tern_sim_result *result)
{
    const struct run *run = &cluster->run;
    static const enum sim_fault counted[] = {SIM_DELAY, SIM_BREAK, SIM_PAUSE, SIM_PARTITION};
    static const enum tern_sim_fault as[] = {TERN_SIM_DELAY, TERN_SIM_BREAK, TERN_SIM_PAUSE,
                                             TERN_SIM_PARTITION};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        result->fired[as[i]] += sim_n_fired(run->sim, counted[i]);
    for (int i = TERN_SIM_STALE; i < TERN_SIM_FAULTS; i++)
        result->fired[i] += cluster->fired[i];
    result->n_seeds++;
    result->n_events += sim_n_events(run->sim);
    result->virtual_ns += sim_now_ns(run->sim);
    result->n_operations += run->figures.n_operations;
    result->n_failed += run->figures.n_failed;
    result->n_moves += run->figures.n_moves;
    result->n_replicas += run->figures.n_replicas;
    result->n_redirected += run->figures.n_redirected;
    result->n_intended += run->figures.n_intended;
    result->n_late += run->figures.n_late;
    result->n_sampled += run->figures.n_sampled;
    result->n_brought += run->figures.n_brought;
    result->n_postponed += run->figures.n_postponed;
    result->n_checks += run->check.n_checks;
    result->n_violations = run->check.n_violations;
    result->trace = hash_u64(result->trace + sim_trace(run->sim));
    snprintf(result->violation, sizeof result->violation, "%s", run->check.violation);
}

enum tern_status cluster_run(const struct tern_sim_options *options, uint64_t seed,
                             struct tern_sim_result *result)
{
    struct cluster cluster;
    enum tern_status status = init_cluster(&cluster, options, seed);
    if (!status)
        status = run_to_end(&cluster);
    free_machines(&cluster);
    if (!status)
        add_figures(&cluster, result);
    fini_cluster(&cluster);
    return status;
}
