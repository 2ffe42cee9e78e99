/* machine - see machine.h. */
#include "sim/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "core/bounded.h"
#include "core/doubling.h"
#include "core/managed.h"
#include "core/replica.h"
#include "sim/owners.h"

#define MS UINT64_C(1000000)

enum { TICK_MS = 100 };

/* Timers; those of workers are numbered from TAG_WORKERS and TAG_CALLERS on, those of shards from TAG_ROUNDS on. */
enum {
    TAG_CONTROL,
    TAG_PULSE,
    TAG_PULSE_SLEEP,
    TAG_GROUP,
    TAG_ROUNDS_PAUSE, /* nothing to do: the rounds look at the time */
    TAG_WORKERS,
    TAG_CALLERS = 16,
    TAG_ROUNDS = 32,
};

/* ---- Making and ending ------------------------------------------------------------------------ */

static void set_caller(struct machine *machine, struct caller *caller, uint32_t id, uint64_t tag,
                       bool patient)
{
    *caller = (struct caller){.id = id,
                              .tag = tag,
                              .deadline_ns = SIM_DEADLINE_NS,
                              .dead = &machine->dead,
                              .n_redirected = &machine->run->figures.n_redirected,
                              .patient = patient};
}

static enum tern_status init_caller(struct machine *machine, struct caller *caller, uint32_t id,
                                    uint64_t tag, bool patient)
{
    set_caller(machine, caller, id, tag, patient);
    return caller_init(caller, machine->run->sim, &machine->core);
}

static enum tern_status init_rounds(struct machine *machine, uint32_t shard)
{
    struct rounds *rounds = &machine->rounds[shard];
    rounds->site = &machine->site;
    rounds->service = &machine->services[shard];
    rounds->shard = shard;
    rounds->tag = TAG_ROUNDS_PAUSE;
    set_caller(machine, &rounds->caller, 2 + WORKERS, TAG_ROUNDS + shard, false);
    enum tern_status status =
        caller_init_shard(&rounds->caller, machine->run->sim, &machine->core, shard);
    if (!status)
        rounds_init(rounds);
    return status;
}

static enum tern_status init_callers(struct machine *machine)
{
    enum tern_status status = init_caller(machine, &machine->control, 0, TAG_CONTROL, true);
    if (!status)
        status = init_caller(machine, &machine->pulse, 1, TAG_PULSE, false);
    for (uint32_t i = 0; !status && i < machine->core.n_shards; i++)
        status = init_rounds(machine, i);
    for (uint32_t i = 0; !status && i < WORKERS; i++) {
        struct worker *worker = &machine->workers[i];
        worker->site = &machine->site;
        worker->index = machine->core.node * WORKERS + i;
        worker->tag = TAG_WORKERS + i;
        worker->stream = rand_at(rand_at(machine->run->seed, 1), worker->index);
        status = worker_open(worker);
        if (!status && !pace_open(&machine->site.pace, i, 0, &worker->pace_index))
            status = fail(TERN_NO_MEMORY, "no memory for a worker");
        if (!status)
            status = init_caller(machine, &worker->caller, 2 + i, TAG_CALLERS + i, false);
    }
    return status;
}

static enum tern_status init_services(struct machine *machine)
{
    struct run *run = machine->run;
    struct group *group = NULL;
    machine->core.ring = ring_new(run->n_nodes);
    if (machine->core.node == 0)
        group = group_new(run->n_nodes, run->epoch, SIM_DEADLINE_NS, sim_now_ns(run->sim));
    if (!machine->core.ring || (machine->core.node == 0 && !group)) {
        group_free(group);
        return fail(TERN_NO_MEMORY, "no memory for a simulated node");
    }
    enum tern_status status =
        service_init(machine->services, 0, run->sim, &machine->core, group, &run->check);
    if (status)
        group_free(group);
    for (uint32_t i = 1; !status && i < machine->core.n_shards; i++)
        status = service_init(machine->services, i, run->sim, &machine->core, NULL, &run->check);
    return status;
}

struct machine *machine_new(struct run *run, uint32_t node, uint64_t incarnation, bool again)
{
    struct machine *machine = calloc(1, sizeof *machine);
    if (!machine)
        return NULL;
    machine->run = run;
    machine->again = again;
    machine->core.node = node;
    machine->core.n_nodes = run->n_nodes;
    machine->core.n_shards = run->n_shards;
    machine->core.epoch = run->epoch;
    machine->core.incarnation = incarnation;
    machine->site = (struct site){.sim = run->sim,
                                  .check = &run->check,
                                  .dists = &run->dists,
                                  .figures = &run->figures,
                                  .core = &machine->core,
                                  .tables = machine->tables};
    pace_init(&machine->site.pace);
    if (init_services(machine) || init_callers(machine)) {
        machine_free(machine);
        return NULL;
    }
    sim_timer(run->sim, node, 1 + rand_below(sim_random(run->sim), 2 * MS), TAG_PULSE_SLEEP);
    if (node == 0)
        sim_timer(run->sim, node, TICK_MS * MS, TAG_GROUP);
    return machine;
}

static void drop_call(struct op *op, bool under_way)
{
    if (!under_way)
        return;
    op_end(op);
    buffer_free(&op->answer_body);
}

/* Adds up what the manager of a table has done; nothing more will come. */
static void count_managed(struct run *run, const struct manager *manager)
{
    const struct manager_counts *counts = manager_counts(manager);
    run->figures.n_moves += counts->moved_here;
    run->figures.n_replicas += counts->replicas_made;
    run->figures.n_redirected += counts->redirected;
}

static void close_store(struct machine *machine, struct core_table *table)
{
    replication_free(table->replication);
    doubling_free(table->doubling);
    bounded_free(table->bounded);
    for (uint32_t i = 0; core_is_managed(table) && i < table->store.n_shards; i++)
        count_managed(machine->run, table->managers[i]);
    manager_free_all(table);
    store_fini(&table->store);
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
    for (int i = 0; i < SIM_MAX_SHARDS; i++)
        free_intents(machine->site.intents[i]);
    caller_fini(&machine->control);
    caller_fini(&machine->pulse);
    for (uint32_t i = 0; i < machine->core.n_shards; i++)
        rounds_fini(&machine->rounds[i]);
    drop_call(&machine->call, machine->calling);
    drop_call(&machine->ping, machine->pinging);
    for (uint32_t i = 0; i < machine->core.n_shards; i++)
        service_fini(&machine->services[i]);
    for (int i = 0; i < N_SIM_TABLES; i++)
        if (machine->opened[i])
            close_store(machine, &machine->tables[i]);
    pace_fini(&machine->site.pace);
    ring_free(machine->core.ring);
    free(machine);
}

/* ---- Tables ----------------------------------------------------------------------------------- */

static bool is_at_home(const void *context, uint64_t key)
{
    const struct core *core = context;
    return ring_home(core->ring, key) == core->node;
}

static struct store_home home_of(const struct core *core, const struct policy *policy,
                                 uint64_t n_keys)
{
    uint64_t begin = range_begin(core->node, n_keys, core->n_nodes);
    uint64_t end = range_begin(core->node + 1, n_keys, core->n_nodes);
    if (policy_is_tracked(policy))
        return (struct store_home){.tracked = true,
                                   .end = n_keys,
                                   .main_begin = begin,
                                   .main_end = end,
                                   .has = is_at_home,
                                   .context = core};
    return (struct store_home){.begin = begin,
                               .end = end,
                               .has = is_at_home,
                               .context = core,
                               .managed = policy_is_managed(policy),
                               .n_shards = core->n_shards};
}

/* Makes what a table needs whose keys are not all at home for good; false when memory is used up. */
static bool manage(struct core *core, struct core_table *made, size_t round_bytes,
                   const struct tern_table_options *options)
{
    if (policy_is_bounded(made->policy))
        made->bounded = bounded_new(core, &made->store, made->policy);
    else if (doubling_is_for(core, &made->store, made->policy))
        made->doubling = doubling_new(core, &made->store);
    else if (made->store.home.tracked)
        made->replication = replication_new(core, &made->store);
    if (made->doubling)
        doubling_limit(made->doubling, round_bytes);
    if (made->bounded)
        made->bounded->round_bytes = round_bytes;
    if (made->replication)
        replication_limit(made->replication, round_bytes);
    if (made->store.home.managed)
        manager_new_all(core, made, 1);
    for (uint32_t i = 0; core_is_managed(made) && i < made->store.n_shards; i++)
        made->managers[i]->round_bytes = round_bytes;
    if (core_is_managed(made) && made->policy->replica == REPLICA_OF_LISTED)
        for (size_t i = 0; i < options->n_replicated; i++) {
            const uint64_t *key = &options->replicated[i];
            manager_want(made->managers[store_shard(&made->store, *key)], key, 1);
        }
    return (made->replication || made->doubling || made->bounded || !made->store.home.tracked) &&
           (core_is_managed(made) || !made->store.home.managed);
}

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

static void open_store(struct machine *machine, enum sim_table table, uint16_t number)
{
    struct core *core = &machine->core;
    struct check *check = &machine->run->check;
    struct tern_table_options options = tables_options(&check->tables, table);
    struct core_table *made = &machine->tables[table];
    made->number = number;
    made->policy = &check->tables.policies[table];
    struct store_home home = home_of(core, made->policy, options.n_keys);
    enum tern_status status = store_init(&made->store, table_name(table), &options, &home);
    bool fresh = number < N_SIM_TABLES && !core->tables[number];
    check_that(check, !status && fresh, "table '%s' got number %" PRIu16 ": %s", table_name(table),
               number, status ? tern_error() : "in use");
    machine->opened[table] = !status;
    if (status || !fresh)
        return;
    check_that(check, manage(core, made, check->tables.round_bytes, &options),
               "no memory to manage a table");
    let_travel(machine, table);
    if (table == LIMITED_COUNTS)
        check->limited[core->node] = made;
    atomic_store_explicit(&core->tables[number], made, memory_order_release);
    for (uint32_t i = 0; i < core->n_shards; i++)
        service_retry(&machine->services[i]);
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

static uint32_t root_of(const struct run *run, uint32_t phase)
{
    return (uint32_t)(rand_at(run->seed, phase + PHASES) % run->n_nodes);
}

static void begin_call(struct machine *machine, enum frame_kind kind)
{
    machine->calling = !client_call(&machine->control.client, 0, &machine->call, kind);
    caller_pump(&machine->control);
}

static void call_join(struct machine *machine)
{
    machine->run->joining[machine->core.node] = true;
    machine->call =
        (struct op){.a = machine->core.incarnation, .payload = "sim", .payload_bytes = 3};
    begin_call(machine, FRAME_JOIN);
}

static void call_table(struct machine *machine)
{
    const char *name = table_name(next_table(machine));
    const size_t length = strlen(name);
    machine->shape[0] = (uint8_t)length;
    machine->shape[1] = 0;
    memcpy(machine->shape + 2, name, length);
    machine->call = (struct op){.payload = machine->shape, .payload_bytes = (uint32_t)(2 + length)};
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
    machine->call = (struct op){.a = ++machine->numbers[meeting]};
    if (meeting == AT_REDUCTION)
        machine->call.b = TERN_I64;
    if (meeting == AT_BROADCAST)
        machine->call.b = root;
    if (meeting == AT_REDUCTION || (meeting == AT_BROADCAST && node == root)) {
        machine->call.payload = machine->given;
        machine->call.payload_bytes = sizeof machine->given;
    }
    begin_call(machine, kinds[meeting]);
}

static void call_bye(struct machine *machine)
{
    machine->call = (struct op){0};
    begin_call(machine, FRAME_BYE);
}

/* ---- Their answers ---------------------------------------------------------------------------- */

static void joined(struct machine *machine)
{
    struct run *run = machine->run;
    bool all = true;
    for (uint32_t i = 0; i < run->n_nodes; i++)
        all &= run->joining[i];
    check_that(&run->check, all, "node %" PRIu32 " has joined before all were there",
               machine->core.node);
    check_that(&run->check, !machine->again,
               "node %" PRIu32 " has joined a second time, as another process", machine->core.node);
}

static void met(struct machine *machine)
{
    struct run *run = machine->run;
    struct check *check = &run->check;
    const enum meeting meeting = meeting_after(run, machine->phase);
    const uint32_t node = machine->core.node, n = run->n_nodes;
    const uint32_t root = root_of(run, machine->phase);
    const int64_t phase = machine->phase;
    int64_t got[2] = {0, 0},
            expected[2] = {(int64_t)n * (n + 1) / 2, (int64_t)n * (n + 1) / 2 * phase};
    if (meeting == AT_BROADCAST) {
        expected[0] = root + 1;
        expected[1] = phase * (root + 1);
    }
    for (uint32_t i = 0; meeting != AT_BROADCAST && i < n; i++)
        check_that(check, run->phase[i] >= machine->phase,
                   "node %" PRIu32 " has passed the end of phase %" PRIu32 " before node %" PRIu32
                   " came to it",
                   node, machine->phase, i);
    if (meeting == AT_BARRIER)
        return;
    const struct buffer *body = &machine->call.answer_body;
    if (buffer_size(body) == sizeof got)
        memcpy(got, buffer_head(body), sizeof got);
    check_that(check, got[0] == expected[0] && got[1] == expected[1],
               "node %" PRIu32 " got %" PRId64 " and %" PRId64 " of a %s, not %" PRId64
               " and %" PRId64,
               node, got[0], got[1], meeting == AT_BROADCAST ? "broadcast" : "reduction",
               expected[0], expected[1]);
}

static void begin_phase(struct machine *machine)
{
    machine->phase++;
    for (int i = 0; machine->phase == CLOSED_PHASE && i < N_SIM_TABLES; i++)
        if (machine->tables[i].bounded)
            bounded_settle(machine->tables[i].bounded);
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
        break;
    case OPENING:
        open_store(machine, next_table(machine), machine->call.answer.table);
        if (++machine->n_opened == N_SIM_TABLES)
            begin_phase(machine);
        break;
    case MEETING:
        met(machine);
        if (machine->phase == QUIET_PHASE)
            owners_check_quiet(machine);
        if (machine->phase < PHASES)
            begin_phase(machine);
        else
            machine->state = LEAVING;
        break;
    case WORKING:
    case LEAVING:
    case ENDED:
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
        site_ended(&machine->site, status, what);
    if (!status)
        take_answer(machine);
    else
        machine->state = machine->state == JOINING || machine->state == LEAVING ? ENDED : LEAVING;
    buffer_free(&machine->call.answer_body);
}

/* ---- The pulse -------------------------------------------------------------------------------- */

static void begin_ping(struct machine *machine)
{
    if (machine->pinging || machine->state < OPENING || machine->state == ENDED)
        return;
    machine->ping = (struct op){0};
    machine->pinging = !client_call(&machine->pulse.client, 0, &machine->ping, FRAME_PING);
    caller_pump(&machine->pulse);
}

static void end_ping(struct machine *machine)
{
    machine->pinging = false;
    enum tern_status status = op_end(&machine->ping);
    uint32_t dead = status ? 1 : (uint32_t)machine->ping.answer.a;
    if (machine->state != ENDED)
        site_ended(&machine->site, status, "a PING");
    check_that(&machine->run->check, !dead || machine->run->check.lenient,
               "node %" PRIu32 " was told that node %" PRIu32 " is dead", machine->core.node,
               dead - 1);
    if (dead)
        machine->dead = dead;
    buffer_free(&machine->ping.answer_body);
}

/* ---- Events ----------------------------------------------------------------------------------- */

/* When the workers are done, waits for two further clean rounds, and until all that owners had to tell has
 * come: then meets the others, or leaves if these do not come. */
static void work(struct machine *machine)
{
    struct site *site = &machine->site;
    const uint64_t now_ns = sim_now_ns(site->sim);
    bool done = true;
    for (int i = 0; i < WORKERS; i++)
        done &= worker_run(&machine->workers[i]);
    if (done && !machine->waits) {
        machine->waits = true;
        for (uint32_t i = 0; i < machine->core.n_shards; i++)
            machine->enough_rounds[i] = site->progress[i].n_clean + 2;
        machine->enough_sweeps = site_next_sweeps(site);
        machine->since_ns = now_ns;
    }
    bool late = now_ns > machine->since_ns + SIM_DEADLINE_NS;
    bool flushed = done;
    for (uint32_t i = 0; i < machine->core.n_shards; i++)
        flushed &= site->progress[i].n_clean >= machine->enough_rounds[i];
    if (flushed && !machine->flushed && machine->phase <= WORK_PHASES)
        owners_check_flushed(machine);
    machine->flushed = flushed;
    if (flushed && site_is_swept(site, &machine->enough_sweeps)) {
        machine->state = MEETING;
    } else if (done && (site->rounds_over || late)) {
        site_ended(site, fail(TERN_PEER, "rounds do not end"), "waiting for rounds");
        machine->state = LEAVING;
    }
}

static void run_rounds(struct machine *machine)
{
    for (uint32_t shard = 0; shard < machine->core.n_shards; shard++)
        if (rounds_run(&machine->rounds[shard]))
            for (int i = 0; i < WORKERS; i++)
                plans_looked(&machine->workers[i].plans, shard);
}

/* Goes on as far as it can now. */
static void advance(struct machine *machine)
{
    if (machine->pinging && op_is_done(&machine->ping))
        end_ping(machine);
    if (machine->calling && op_is_done(&machine->call))
        end_call(machine);
    if (machine->state > JOINING && machine->state < ENDED)
        run_rounds(machine);
    if (machine->state == WORKING)
        work(machine);
    if (!machine->calling && machine->state == JOINING)
        call_join(machine);
    if (!machine->calling && machine->state == OPENING)
        call_table(machine);
    if (!machine->calling && machine->state == MEETING)
        call_meeting(machine);
    if (!machine->calling && machine->state == LEAVING)
        call_bye(machine);
    caller_pump(&machine->control);
    caller_pump(&machine->pulse);
}

static void take_timer(struct machine *machine, uint64_t tag)
{
    struct sim *sim = machine->run->sim;
    const uint32_t node = machine->core.node;
    if (tag == TAG_CONTROL) {
        caller_tick(&machine->control);
    } else if (tag == TAG_PULSE) {
        caller_tick(&machine->pulse);
    } else if (tag == TAG_PULSE_SLEEP) {
        begin_ping(machine);
        sim_timer(sim, node, SIM_DEADLINE_NS / 4, TAG_PULSE_SLEEP);
    } else if (tag == TAG_GROUP) {
        service_tick(&machine->services[0]);
        sim_timer(sim, node, TICK_MS * MS, TAG_GROUP);
    } else if (tag >= TAG_ROUNDS) {
        caller_tick(&machine->rounds[tag - TAG_ROUNDS].caller);
    } else if (tag >= TAG_CALLERS) {
        caller_tick(&machine->workers[tag - TAG_CALLERS].caller);
    } else if (tag >= TAG_WORKERS) {
        machine->workers[tag - TAG_WORKERS].resting = false;
    }
}

/* Whether it was not let in. */
static bool is_turned_away(const struct machine *machine)
{
    return machine->state == ENDED && !machine->n_opened;
}

void machine_event(struct machine *machine, const struct sim_event *event)
{
    struct holder *holder = event->end ? event->end->owner : NULL;
    if (event->what == SIM_TIMER)
        take_timer(machine, event->tag);
    else if (is_turned_away(machine) && !(holder && holder->caller))
        ; /* its process has ended, and answers nobody */
    else if (event->what == SIM_ACCEPTED)
        service_accepted(&machine->services[0], event->end);
    else if (holder && event->what == SIM_BYTES && holder->caller)
        caller_bytes((struct line *)holder, event->bytes, event->n_bytes);
    else if (holder && event->what == SIM_BYTES)
        service_bytes((struct incoming *)holder, event->bytes, event->n_bytes);
    else if (holder && holder->caller)
        caller_closed((struct line *)holder);
    else if (holder)
        service_closed((struct incoming *)holder);
    advance(machine);
}

const char *machine_doing(const struct machine *machine)
{
    static const char *const names[] = {"joins",        "opens its tables", "lets its workers work",
                                        "meets others", "leaves",           "has ended"};
    return names[machine->state];
}
