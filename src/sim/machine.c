/* machine - see machine.h. */
#include "sim/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "base/rand.h"
#include "core/technique.h"
#include "store/shared.h"
#include "sim/ownership_check.h"

#define MS UINT64_C(1000000)

enum { TICK_MS = 100 };

/* Timers; those of workers are numbered from TAG_WORKERS and TAG_CALLERS on, those of shards from TAG_ROUNDS on. */
enum {
    TAG_CONTROL,
    TAG_PULSE,
    TAG_PULSE_SLEEP,
    TAG_TICK,
    TAG_ROUNDS_PAUSE, /* nothing to do: the rounds look at the time */
    TAG_WORKERS,
    TAG_CALLERS = 16,
    TAG_ROUNDS = 32,
    TAG_BACKUPS = 48,
};

/* ---- Making and ending ------------------------------------------------------------------------ */

static void set_caller(struct machine *machine, struct caller *caller, uint32_t id, uint64_t tag)
{
    *caller =
        (struct caller){.id = id, .tag = tag, .n_redirected = &machine->run->figures.n_redirected};
}

static enum tern_status init_caller(struct machine *machine, struct caller *caller, uint32_t id,
                                    uint64_t tag)
{
    set_caller(machine, caller, id, tag);
    return caller_init(caller, machine->run->sim, &machine->core, &machine->peers);
}

static enum tern_status init_rounds(struct machine *machine, uint32_t shard)
{
    struct sim_rounds *rounds = &machine->rounds[shard];
    rounds->sim_node = &machine->sim_node;
    rounds->callee = &machine->callees[shard];
    rounds->shard = shard;
    rounds->tag = TAG_ROUNDS_PAUSE;
    set_caller(machine, &rounds->caller, 2 + WORKERS, TAG_ROUNDS + shard);
    enum tern_status status = caller_init_shard(&rounds->caller, machine->run->sim, &machine->core,
                                                &machine->peers, shard);
    if (!status)
        sim_rounds_init(rounds);
    struct caller *caller = &machine->backups[shard].caller;
    set_caller(machine, caller, 3 + WORKERS, TAG_BACKUPS + shard);
    caller->patient = true;
    if (!status)
        status =
            caller_init_shard(caller, machine->run->sim, &machine->core, &machine->peers, shard);
    return status;
}

static enum tern_status init_callers(struct machine *machine)
{
    enum tern_status status = init_caller(machine, &machine->control, 0, TAG_CONTROL);
    if (!status)
        status = init_caller(machine, &machine->pulse_caller, 1, TAG_PULSE);
    pulse_init(&machine->pulse, &machine->pulse_caller.lanes);
    for (uint32_t i = 0; !status && i < machine->core.n_shards; i++)
        status = init_rounds(machine, i);
    for (uint32_t i = 0; !status && i < WORKERS; i++) {
        struct worker *worker = &machine->workers[i];
        worker->sim_node = &machine->sim_node;
        worker->index = machine->core.node * WORKERS + i;
        worker->tag = TAG_WORKERS + i;
        worker->stream = rand_at(rand_at(machine->run->seed, 1), worker->index);
        status = worker_open(worker);
        if (!status && !worker_clocks_open(&machine->sim_node.clocks, i, 0, &worker->clock_index))
            status = fail(TERN_NO_MEMORY, "no memory for a worker");
        if (!status)
            status = init_caller(machine, &worker->caller, 2 + i, TAG_CALLERS + i);
    }
    return status;
}

static enum tern_status init_callees(struct machine *machine)
{
    struct run *run = machine->run;
    struct group *group = NULL;
    if (machine->core.node == 0)
        group = group_new(machine->view, SIM_DEADLINE_NS, sim_now_ns(run->sim));
    if (machine->core.node == 0 && !group)
        return TERN_NO_MEMORY;
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < machine->core.n_shards; i++)
        status = callee_init(machine->callees, i, run->sim, &machine->core, &machine->peers,
                             i == 0 ? group : NULL, &machine->sim_node.round_soon, &run->check);
    for (uint32_t i = 0; !status && i < machine->core.n_shards; i++)
        machine->callees[i].service.backup.piece_bytes = run->check.tables.piece_bytes;
    return status;
}

struct machine *machine_new(struct run *run, uint32_t node, uint64_t incarnation, bool again)
{
    struct machine *machine = calloc(1, sizeof *machine);
    if (!machine)
        return NULL;
    machine->run = run;
    machine->again = again;
    machine->core.view = machine->view = view_new(run->epoch, run->n_machines, run->leaders);
    machine->leaders = machine->view ? view_of_leaders(machine->view) : NULL;
    machine->core.node = node;
    machine->core.n_shards = run->n_shards;
    machine->core.incarnation = incarnation;
    machine->sim_node = (struct sim_node){.sim = run->sim,
                                          .check = &run->check,
                                          .blame = &run->blame,
                                          .dists = &run->dists,
                                          .figures = &run->figures,
                                          .core = &machine->core,
                                          .tables = machine->tables};
    worker_clocks_init(&machine->sim_node.clocks);
    if (machine->leaders)
        machine->member = (struct core){.node = view_leader(machine->view, node),
                                        .view = machine->leaders,
                                        .n_shards = run->n_shards,
                                        .incarnation = incarnation};
    if (!machine->leaders || peers_init(&machine->peers, machine->view, SIM_DEADLINE_NS) ||
        init_callees(machine) || init_callers(machine)) {
        machine_free(machine);
        return NULL;
    }
    sim_timer(run->sim, node, 1 + rand_below(sim_random(run->sim), 2 * MS), TAG_PULSE_SLEEP);
    sim_timer(run->sim, node, TICK_MS * MS, TAG_TICK);
    return machine;
}

static void drop_call(struct op *op, bool under_way)
{
    if (!under_way)
        return;
    op_end(op);
    buffer_free(&op->answer_body);
}

/* Closes a table; what its technique has done is added up, for nothing more will come. */
static void close_store(struct machine *machine, struct core_table *table)
{
    struct figures *figures = &machine->run->figures;
    struct tern_table_stats stats = {0};
    for (uint32_t i = 0; table->state && table->technique->stats && i < table->store.n_shards; i++)
        table->technique->stats(table, i, &stats);
    figures->n_moves += stats.moved_here;
    figures->n_replicas += stats.replicas_made;
    figures->n_redirected += stats.redirected;
    technique_close(table);
    store_fini(&table->store);
    backup_free(table->backup);
}

static void free_intents(struct intents *intents)
{
    for (struct intents *next; intents; intents = next) {
        next = intents->next;
        intents_free(intents);
    }
}

void machine_free(struct machine *machine)
{
    if (!machine)
        return;
    for (int i = 0; i < WORKERS; i++)
        worker_fini(&machine->workers[i]);
    machine->run->check.limited[machine->core.node] = NULL;
    machine->run->check.graphs[machine->core.node] = NULL;
    machine->run->check.sparse[machine->core.node] = NULL;
    for (int i = 0; i < SIM_MAX_SHARDS; i++)
        free_intents(machine->sim_node.intents[i]);
    caller_fini(&machine->control);
    caller_fini(&machine->pulse_caller);
    for (uint32_t i = 0; i < machine->core.n_shards; i++) {
        sim_rounds_fini(&machine->rounds[i]);
        caller_fini(&machine->backups[i].caller);
        drop_call(&machine->backups[i].op, machine->backups[i].is_sending);
    }
    drop_call(&machine->call, machine->calling);
    drop_call(&machine->pulse.op, machine->pulse.is_asking);
    for (uint32_t i = 0; i < machine->core.n_shards; i++)
        callee_fini(&machine->callees[i]);
    for (int i = 0; i < N_SIM_TABLES; i++)
        if (machine->opened[i])
            close_store(machine, &machine->tables[i]);
    for (int i = 0; i < N_SIM_TABLES; i++)
        placed_free(machine->placed[i]);
    worker_clocks_fini(&machine->sim_node.clocks);
    peers_fini(&machine->peers);
    view_free(machine->view);
    view_free(machine->leaders);
    free(machine);
}

struct machine *machine_wreck(struct run *run, uint32_t node)
{
    struct machine *machine = calloc(1, sizeof *machine);
    if (!machine)
        return NULL;
    machine->run = run;
    machine->core.node = node;
    machine->core.view = machine->view = view_new(run->epoch, run->n_machines, NULL);
    machine->state = ENDED;
    worker_clocks_init(&machine->sim_node.clocks);
    return machine;
}

bool machine_is_gone(const struct machine *machine)
{
    return machine->state == PARTING || machine->has_parted ||
           machine->run->check.gone[machine->core.node * WORKERS];
}

/* ---- Tables ----------------------------------------------------------------------------------- */

/* Keys at home here that have been away often. */
static void let_travel(struct machine *machine, enum sim_table table)
{
    const struct tables *tables = &machine->run->check.tables;
    struct store *store = &machine->tables[table].store;
    for (uint32_t i = 0; i < KEYS; i++) {
        const uint64_t key = table_key(table, i);
        struct entry *entry;
        if (tables_travelled(tables, table, i) && store_is_home(store, key) &&
            !store_create(store, key))
            atomic_store_explicit(
                &store_facts(store, entry_slot(store_look(store, key, &entry)))->location,
                tables->n_moves, memory_order_relaxed);
    }
}

/* The memory of a table that this node's host shares, made by the first to open it; NULL: there is none, or no memory. */
static struct shared_table *share(struct machine *machine, enum sim_table table,
                                  const struct tern_table_options *options,
                                  const struct store_home *home, bool *is_first)
{
    enum { LIMIT_BYTES = 1 << 24 }; /* of a sparse table: far more than its keys need */
    const uint32_t leader = machine->member.node;
    struct memory *memory = &machine->run->memories[leader * N_SIM_TABLES + table];
    struct tern_table_options limited = *options;
    limited.memory_limit_bytes = LIMIT_BYTES;
    *is_first = !memory->shared;
    if (!*is_first || view_n_sharing(machine->view, leader) == 1)
        return memory->shared;
    memory->bytes = shared_bytes(&limited, home);
    memory->shared = pages_new(memory->bytes);
    if (memory->shared)
        shared_format(memory->shared, &limited, home, SIM_DEADLINE_NS);
    return memory->shared;
}

/* The rows of an arc are lost: they are as in the checkpoint again. */
static bool recover(struct core_table *table, uint32_t arc, uint32_t shard)
{
    struct core *core = table->backup->core;
    struct machine *machine = (struct machine *)((char *)core - offsetof(struct machine, core));
    struct run *run = machine->run;
    const enum sim_table which = (enum sim_table)(table - machine->tables);
    check_that(&run->check, run->n_victims > run->check.tables.n_backups,
               "node %" PRIu32 " finds keys of node %" PRIu32 " lost after the deaths of %" PRIu32
               " nodes",
               core->node, arc, run->n_victims);
    for (uint32_t i = 0; i < KEYS; i++) {
        const uint64_t key = table_key(which, i);
        if (store_shard(&table->store, key) == shard && backup_arc(table->backup, key) == arc)
            check_recover(&run->check, which, i, &table->store);
    }
    return true;
}

static void open_store(struct machine *machine, enum sim_table table, uint16_t number)
{
    struct core *core = &machine->core;
    struct check *check = &machine->run->check;
    const bool is_member = machine->run->per_host > 1 && tables_shared(&check->tables, table);
    struct core *as = is_member ? &machine->member : core;
    bool is_first = true;
    struct tern_table_options options = tables_options(&check->tables, table);
    struct core_table *made = &machine->tables[table];
    made->number = number;
    made->policy = &check->tables.policies[table];
    struct placed **placed = &machine->placed[table];
    enum tern_status status = placed_new(core, as, table_name(table), &options, placed);
    if (options.backups)
        made->backup = backup_new(core, &options, *placed);
    if (made->backup && check->tables.recovers)
        made->backup->recover = recover;
    struct store_home home = technique_home(as, made->policy, &options, *placed, made->backup);
    home.hash_seed = machine->run->seed;
    if (is_member)
        home.shared = share(machine, table, &options, &home, &is_first);
    if (!status)
        status = store_init(&made->store, table_name(table), &options, &home);
    bool fresh = number < N_SIM_TABLES && !core->tables[number];
    check_that(check, !status && fresh, "table '%s' got number %" PRIu16 ": %s", table_name(table),
               number, status ? tern_error() : "in use");
    machine->opened[table] = !status;
    if (status || !fresh)
        return;
    const struct technique_setup setup = {.options = &options,
                                          .generation = 1,
                                          .round_bytes = check->tables.round_bytes,
                                          .is_member = is_member,
                                          .is_follower = as->node != core->node};
    check_that(check, technique_open(as, made, &setup), "no memory to manage a table");
    if (is_first)
        let_travel(machine, table);
    if (table == LIMITED_COUNTS)
        check->limited[core->node] = made;
    if (table == GRAPH_COUNTS)
        check->graphs[core->node] = made;
    if (table == SPARSE_COUNTS)
        check->sparse[core->node] = made;
    atomic_store_explicit(&core->tables[number], made, memory_order_release);
    for (uint32_t i = 0; i < core->n_shards; i++)
        service_retry(&machine->callees[i].service);
}

/* Every node opens the tables in an order of its own. */
static enum sim_table next_table(const struct machine *machine)
{
    return (enum sim_table)((machine->n_opened + machine->core.node + machine->run->seed) %
                            N_SIM_TABLES);
}

/* ---- Calls to the coordinator ----------------------------------------------------------------- */

enum meeting { AT_BARRIER, AT_REDUCTION, AT_BROADCAST };

/* What all do after a phase. From the last one with operations on it is a barrier, so that what each
 * has done until then is done before the others go on. */
static enum meeting meeting_after(const struct run *run, uint32_t phase)
{
    return phase >= WORK_PHASES ? AT_BARRIER : (enum meeting)(rand_at(run->seed, phase) % 3);
}

/* A node that cannot crash, where some may. */
static uint32_t root_of(const struct run *run, uint32_t phase)
{
    if (run->check.tables.are_backed)
        return 0;
    return (uint32_t)(rand_at(run->seed, phase + PHASES) % run->n_machines);
}

static void begin_call(struct machine *machine, enum frame_kind kind)
{
    machine->control.patient = lanes_is_patient(kind);
    machine->calling = !client_call(&machine->control.client, 0, &machine->call, kind);
    lanes_advance(&machine->control.lanes);
}

static void call_join(struct machine *machine)
{
    machine->run->joining[machine->core.node] = true;
    machine->call = (struct op){
        .fields.join.incarnation = machine->core.incarnation, .payload = "sim", .payload_bytes = 3};
    begin_call(machine, FRAME_JOIN);
}

static void call_table(struct machine *machine)
{
    const char *name = table_name(next_table(machine));
    const size_t length = strlen(name);
    machine->shape[0] = (uint8_t)length;
    machine->shape[1] = 0;
    memcpy(machine->shape + 2, name, length);
    machine->call = (struct op){.payload = machine->shape,
                                .payload_bytes = (uint32_t)(2 + length),
                                .table = machine->run->check.tables.are_backed};
    begin_call(machine, FRAME_TABLE);
}

static void call_meeting(struct machine *machine)
{
    static const enum frame_kind kinds[] = {FRAME_BARRIER, FRAME_REDUCE, FRAME_BROADCAST};
    struct run *run = machine->run;
    const enum meeting meeting = meeting_after(run, machine->phase);
    const uint32_t node = machine->core.node, root = root_of(run, machine->phase);
    run->phase[node] = machine->phase;
    machine->given[0] = node + 1;
    machine->given[1] = (int64_t)machine->phase * (meeting == AT_BROADCAST ? root + 1 : node + 1);
    machine->call = (struct op){.fields.collective.number = ++machine->numbers[meeting]};
    if (meeting == AT_REDUCTION)
        machine->call.fields.reduce.type = TERN_I64;
    if (meeting == AT_BROADCAST)
        machine->call.fields.broadcast.root = root;
    if (meeting == AT_REDUCTION || (meeting == AT_BROADCAST && node == root)) {
        machine->call.payload = machine->given;
        machine->call.payload_bytes = sizeof machine->given;
    }
    begin_call(machine, kinds[meeting]);
}

static void call_bye(struct machine *machine)
{
    if (machine->state == PARTING) {
        machine->call = (struct op){.fields.bye.alone = 1};
        begin_call(machine, FRAME_BYE);
        return;
    }
    for (int i = 0; i < N_SIM_TABLES; i++)
        machine->run->blame.unopened[i] |= (uint64_t)!machine->opened[i] << machine->core.node;
    for (uint32_t i = 0; i < machine->core.n_shards; i++) {
        service_leave(&machine->callees[i].service);
        service_settle(&machine->callees[i].service);
    }
    machine->call = (struct op){0};
    begin_call(machine, FRAME_BYE);
}

/* ---- Their answers ---------------------------------------------------------------------------- */

static void joined(struct machine *machine)
{
    struct run *run = machine->run;
    bool all = true;
    for (uint32_t i = 0; i < run->n_machines; i++)
        all &= run->joining[i];
    check_that(&run->check, all, "node %" PRIu32 " has joined before all were there",
               machine->core.node);
    check_that(&run->check, !machine->again,
               "node %" PRIu32 " has joined a second time, as another process", machine->core.node);
    const struct buffer *roster = &machine->call.answer_body;
    enum tern_status status =
        peers_read_roster(&machine->peers, buffer_head(roster), buffer_size(roster));
    check_that(&run->check, !status, "node %" PRIu32 " has joined: %s", machine->core.node,
               tern_error());
}

static void met(struct machine *machine)
{
    struct run *run = machine->run;
    struct check *check = &run->check;
    const enum meeting meeting = meeting_after(run, machine->phase);
    const uint32_t node = machine->core.node, n = run->n_machines;
    const uint32_t root = root_of(run, machine->phase);
    const int64_t phase = machine->phase;
    int64_t got[2] = {0, 0},
            expected[2] = {(int64_t)n * (n + 1) / 2, (int64_t)n * (n + 1) / 2 * phase};
    if (meeting == AT_BROADCAST) {
        expected[0] = root + 1;
        expected[1] = phase * (root + 1);
    }
    int64_t absent[2] = {0, 0}; /* of nodes that may or may not have given their part */
    for (uint32_t i = 0; meeting == AT_REDUCTION && i < n; i++)
        if (machine_is_gone(run->machines[i])) {
            absent[0] += i + 1;
            absent[1] += phase * (i + 1);
        }
    for (uint32_t i = 0; meeting != AT_BROADCAST && i < n; i++)
        check_that(check, run->phase[i] >= machine->phase || machine_is_gone(run->machines[i]),
                   "node %" PRIu32 " has passed the end of phase %" PRIu32 " before node %" PRIu32
                   " came to it",
                   node, machine->phase, i);
    if (meeting == AT_BARRIER)
        return;
    const struct buffer *body = &machine->call.answer_body;
    if (buffer_size(body) == sizeof got)
        memcpy(got, buffer_head(body), sizeof got);
    check_that(check,
               got[0] <= expected[0] && got[0] >= expected[0] - absent[0] &&
                   got[1] <= expected[1] && got[1] >= expected[1] - absent[1],
               "node %" PRIu32 " got %" PRId64 " and %" PRId64 " of a %s, not %" PRId64
               " and %" PRId64,
               node, got[0], got[1], meeting == AT_BROADCAST ? "broadcast" : "reduction",
               expected[0], expected[1]);
}

static void begin_phase(struct machine *machine)
{
    machine->phase++;
    if (machine->phase == CLOSED_PHASE)
        admit_settle(&machine->core);
    for (uint32_t i = 0; machine->waits && i < machine->core.n_shards; i++)
        rounds_end_flush(machine->sim_node.rounds[i]);
    machine->waits = false;
    machine->state = WORKING;
    for (int i = 0; i < WORKERS; i++) {
        if (machine->phase <= WORK_PHASES)
            worker_begin(&machine->workers[i],
                         (machine->run->n_steps + WORK_PHASES - 1) / WORK_PHASES);
        if (machine->phase == CLOSED_PHASE)
            worker_close(&machine->workers[i]);
    }
}

static void take_answer(struct machine *machine)
{
    switch (machine->state) {
    case JOINING:
        joined(machine);
        machine->state = OPENING;
        if (machine->core.node == machine->run->late_node)
            machine->opens_ns = sim_now_ns(machine->run->sim) + machine->run->late_ns;
        break;
    case OPENING:
        open_store(machine, next_table(machine), machine->call.answer.table);
        if (++machine->n_opened == N_SIM_TABLES)
            begin_phase(machine);
        break;
    case MEETING:
        met(machine);
        if (machine->phase == QUIET_PHASE)
            ownership_check_quiet(machine);
        if (machine->phase < PHASES)
            begin_phase(machine);
        else
            machine->state = LEAVING;
        break;
    case WORKING:
    case LEAVING:
    case PARTING:
    case ENDED:
        machine->has_parted = machine->state == PARTING;
        machine->state = ENDED;
        break;
    }
}

static void end_call(struct machine *machine)
{
    char what[80];
    snprintf(what, sizeof what, "%s of node %" PRIu32, frame_kind_name(machine->call.kind),
             machine->core.node);
    machine->calling = false;
    enum tern_status status = op_end(&machine->call);
    bool refused = status && machine->again && machine->state == JOINING;
    if (refused)
        check_that(&machine->run->check, tern_error()[0], "node %" PRIu32 " was refused silently",
                   machine->core.node);
    else
        sim_node_ended(&machine->sim_node, status, what);
    if (!status)
        take_answer(machine);
    else
        machine->state =
            machine->state == WORKING || machine->state == MEETING || machine->state == OPENING
                ? LEAVING
                : ENDED;
    buffer_free(&machine->call.answer_body);
}

/* ---- Backups ---------------------------------------------------------------------------------- */

static void run_backup(struct machine *machine, uint32_t shard)
{
    struct sim_backup *sim_backup = &machine->backups[shard];
    struct service *service = &machine->callees[shard].service;
    struct slice payload;
    uint32_t peer;
    uint64_t begin;
    bool is_last;
    if (sim_backup->is_sending && op_is_done(&sim_backup->op)) {
        sim_backup->is_sending = false;
        const struct buffer *answer = &sim_backup->op.answer_body;
        if (!op_end(&sim_backup->op) &&
            backup_confirm(&service->backup, buffer_head(answer), buffer_size(answer)))
            service_retry(service);
        buffer_free(&sim_backup->op.answer_body);
    }
    if (!sim_backup->is_sending &&
        backup_next(&service->backup, &peer, &payload, &begin, &is_last)) {
        sim_backup->op = (struct op){.fields.batch = {begin, is_last},
                                     .payload = payload.bytes,
                                     .payload_bytes = (uint32_t)payload.n};
        sim_backup->is_sending =
            !client_call(&sim_backup->caller.client, peer, &sim_backup->op, FRAME_BATCH);
    }
    lanes_advance(&sim_backup->caller.lanes);
}

bool machine_is_backed(struct machine *machine)
{
    bool is_backed = true;
    for (uint32_t i = 0; is_backed && i < machine->core.n_shards; i++) {
        is_backed = backup_is_flushed(&machine->callees[i].service.backup, 0);
    }
    return is_backed;
}

/* The others go on without a node. */
static void change_view(struct machine *machine, const struct buffer *bytes)
{
    struct service *services[SIM_MAX_SHARDS];
    for (uint32_t i = 0; i < machine->core.n_shards; i++)
        services[i] = &machine->callees[i].service;
    struct view *next = view_read(machine->view, buffer_head(bytes), buffer_size(bytes));
    check_that(&machine->run->check, next, "node %" PRIu32 ": %s", machine->core.node,
               tern_error());
    if (!next)
        return;
    backup_change_view(&machine->core, services, machine->core.n_shards, next);
    machine->view = next;
    const bool is_present = view_is_present(next, machine->core.node);
    const bool may_go =
        machine->sim_node.may_fail || machine->state == PARTING || machine->has_parted;
    check_that(&machine->run->check, is_present || may_go,
               "node %" PRIu32 " was given up without a reason", machine->core.node);
    if (!is_present && machine->sim_node.may_fail)
        peers_give_up(&machine->peers, machine->core.node);
    for (uint32_t i = 0; i < machine->core.n_shards; i++)
        service_retry(services[i]);
}

/* ---- The pulse -------------------------------------------------------------------------------- */

static void begin_ping(struct machine *machine)
{
    struct service *services[SIM_MAX_SHARDS];
    for (uint32_t i = 0; i < machine->core.n_shards; i++)
        services[i] = &machine->callees[i].service;
    if (machine->state >= OPENING && machine->state != ENDED &&
        pulse_ask(&machine->pulse, backup_formed(services, machine->core.n_shards)))
        lanes_advance(&machine->pulse_caller.lanes);
}

static void end_ping(struct machine *machine)
{
    uint32_t dead;
    struct buffer view = {0};
    enum tern_status status = pulse_hear(&machine->pulse, &dead, &view);
    if (buffer_size(&view))
        change_view(machine, &view);
    buffer_free(&view);
    if (machine->state != ENDED)
        sim_node_ended(&machine->sim_node, status, "a PING");
    check_that(
        &machine->run->check, !dead || machine->run->check.lenient || machine->sim_node.may_fail,
        "node %" PRIu32 " was told that node %" PRIu32 " is dead", machine->core.node, dead - 1);
}

/* ---- Events ----------------------------------------------------------------------------------- */

/* A node that leaves closes its workers, and waits until what they leave over is told. */
static void close_workers(struct machine *machine)
{
    machine->has_closed = true;
    machine->waits = false;
    admit_settle(&machine->core);
    for (uint32_t i = 0; i < machine->core.n_shards; i++)
        rounds_end_flush(machine->sim_node.rounds[i]);
    for (int i = 0; i < WORKERS; i++)
        worker_close(&machine->workers[i]);
}

/* When the workers are done, waits for two further clean rounds, and until all that owners had to tell has
 * come: then meets the others, or leaves if these do not come. */
static void work(struct machine *machine)
{
    struct sim_node *sim_node = &machine->sim_node;
    bool done = true;
    for (int i = 0; i < WORKERS; i++)
        done &= worker_run(&machine->workers[i]);
    if (done && !machine->waits) {
        machine->waits = true;
        for (uint32_t i = 0; i < machine->core.n_shards; i++)
            machine->enough_rounds[i] = rounds_begin_flush(sim_node->rounds[i]);
        for (uint32_t i = 0; i < machine->core.n_shards; i++)
            machine->enough_batches[i] = backup_last(&machine->callees[i].service.backup);
        machine->enough_sweeps = sim_node_next_sweeps(sim_node);
    }
    const bool is_backed = machine->run->check.tables.are_backed;
    bool flushed = done;
    for (uint32_t i = 0; i < machine->core.n_shards; i++) {
        flushed &= !is_backed || backup_is_flushed(&machine->callees[i].service.backup,
                                                   machine->enough_batches[i]);
        flushed &= !round_is_needed(&sim_node->rounds[i]->round) ||
                   sim_node->rounds[i]->n_clean >= machine->enough_rounds[i];
    }
    if (flushed && !machine->flushed && machine->phase <= WORK_PHASES)
        ownership_check_flushed(machine);
    machine->flushed = flushed;
    for (int i = 0; is_backed && flushed && i < WORKERS; i++)
        check_safe(&machine->run->check, machine->workers[i].index);
    if (flushed && sim_node_is_swept(sim_node, &machine->enough_sweeps)) {
        if (machine->is_to_part && !machine->has_closed)
            close_workers(machine);
        else
            machine->state = machine->is_to_part ? PARTING : MEETING;
    } else if (done && (sim_node->rounds_over || (is_backed && peers_dead(&machine->peers)))) {
        sim_node_ended(sim_node, fail(TERN_PEER, "there are no further rounds"),
                       "waiting for rounds or backups");
        machine->state = LEAVING;
    }
}

static void run_rounds(struct machine *machine)
{
    const bool works = machine->state == WORKING && !machine->waits;
    for (uint32_t shard = 0; shard < machine->core.n_shards; shard++)
        if (sim_rounds_run(&machine->rounds[shard], works))
            for (int i = 0; i < WORKERS; i++)
                plans_looked(&machine->workers[i].plans, shard);
}

/* Goes on as far as it can now. */
static void advance(struct machine *machine)
{
    if (machine->pulse.is_asking && op_is_done(&machine->pulse.op))
        end_ping(machine);
    if (machine->calling && op_is_done(&machine->call))
        end_call(machine);
    if (machine->state > JOINING && machine->state < ENDED)
        run_rounds(machine);
    for (uint32_t i = 0; machine->state > JOINING && i < machine->core.n_shards; i++)
        run_backup(machine, i);
    /* What the backups have confirmed is told at once. */
    if (machine->run->check.tables.are_backed && machine->sim_node.round_soon &&
        machine->state > JOINING && machine->state < ENDED)
        run_rounds(machine);
    if (machine->state == WORKING)
        work(machine);
    if (!machine->calling && machine->state == JOINING)
        call_join(machine);
    if (!machine->calling && machine->state == OPENING &&
        sim_now_ns(machine->run->sim) >= machine->opens_ns)
        call_table(machine);
    if (!machine->calling && machine->state == MEETING)
        call_meeting(machine);
    if (!machine->calling && (machine->state == LEAVING || machine->state == PARTING))
        call_bye(machine);
    lanes_advance(&machine->control.lanes);
    lanes_advance(&machine->pulse_caller.lanes);
}

/* Whether it was not let in. */
static bool is_turned_away(const struct machine *machine)
{
    return machine->state == ENDED && !machine->n_opened;
}

static void take_timer(struct machine *machine, uint64_t tag)
{
    struct sim *sim = machine->run->sim;
    const uint32_t node = machine->core.node;
    if (tag == TAG_CONTROL) {
        caller_tick(&machine->control);
    } else if (tag == TAG_PULSE) {
        caller_tick(&machine->pulse_caller);
    } else if (tag == TAG_PULSE_SLEEP) {
        begin_ping(machine);
        sim_timer(sim, node, pulse_pause_ns(&machine->peers), TAG_PULSE_SLEEP);
    } else if (tag == TAG_TICK) {
        for (uint32_t i = 0; !is_turned_away(machine) && i < machine->core.n_shards; i++)
            callee_tick(&machine->callees[i]);
        sim_timer(sim, node, TICK_MS * MS, TAG_TICK);
    } else if (tag >= TAG_BACKUPS) {
        caller_tick(&machine->backups[tag - TAG_BACKUPS].caller);
    } else if (tag >= TAG_ROUNDS) {
        caller_tick(&machine->rounds[tag - TAG_ROUNDS].caller);
    } else if (tag >= TAG_CALLERS) {
        caller_tick(&machine->workers[tag - TAG_CALLERS].caller);
    } else if (tag >= TAG_WORKERS) {
        machine->workers[tag - TAG_WORKERS].resting = false;
    }
}

void machine_event(struct machine *machine, const struct sim_event *event)
{
    struct holder *holder = event->end ? event->end->owner : NULL;
    if (!machine->core.n_shards)
        return; /* a wreck */
    if (event->what == SIM_TIMER)
        take_timer(machine, event->tag);
    else if (is_turned_away(machine) && !(holder && holder->caller))
        ; /* its process has ended, and answers nobody */
    else if (event->what == SIM_ACCEPTED)
        callee_accepted(&machine->callees[0], event->end);
    else if (holder && event->what == SIM_BYTES && holder->caller)
        caller_bytes((struct line *)holder, event->bytes, event->n_bytes);
    else if (holder && event->what == SIM_BYTES)
        callee_bytes(holder, event->bytes, event->n_bytes);
    else if (holder && holder->caller)
        caller_closed((struct line *)holder);
    else if (holder)
        callee_closed(holder);
    advance(machine);
}

const char *machine_doing(const struct machine *machine)
{
    static const char *const names[] = {
        "joins",        "opens its tables", "lets its workers work",
        "meets others", "leaves",           "leaves before the others",
        "has ended"};
    return names[machine->state];
}
