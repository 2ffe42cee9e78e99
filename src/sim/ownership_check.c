/* ownership_check - see ownership_check.h. */
#include "sim/ownership_check.h"

#include <inttypes.h>

#include "core/technique.h"
#include "wire/section.h"

static uint64_t look(const struct machine *machine, enum sim_table table, uint32_t index)
{
    struct entry *entry;
    return store_look(&machine->tables[table].store, table_key(table, index), &entry);
}

static bool is_home(const struct machine *machine, enum sim_table table, uint32_t index)
{
    return store_is_home(&machine->tables[table].store, table_key(table, index));
}

/* As whom a node has a table. */
static const struct core *core_as(const struct machine *machine, enum sim_table table)
{
    return core_for(&machine->core, &machine->tables[table]);
}

/* Whether a node counts for all that have the table in the same memory. */
static bool leads(const struct machine *machine, enum sim_table table)
{
    return core_as(machine, table)->node == machine->core.node;
}

/* Whether a node has the main copy; that of a key which was never used is at home. */
static bool is_main(const struct machine *machine, enum sim_table table, uint32_t index)
{
    uint64_t word = look(machine, table, index);
    return entry_is_main(word) ||
           (entry_state(word) == ENTRY_NONE && is_home(machine, table, index));
}

/* Whether a node is no longer one: what it has does not count. */
static bool is_gone(const struct machine *machine)
{
    return machine_is_gone(machine);
}

/* ---- At any time -------------------------------------------------------------------------------- */

/* Whether an answer about a table has the main copy of a key. */
static bool has_main(const struct core_table *table, const struct buffer *answer, uint64_t key)
{
    struct frame frame;
    struct section section;
    size_t at = 0;
    bool wrong, found = false;
    if (buffer_size(answer) < FRAME_HEADER_BYTES || frame_decode(buffer_head(answer), &frame) ||
        frame.kind != FRAME_ROUND_REPLY)
        return false;
    struct buffer plain = {0};
    const struct pack_shape shape = core_pack_shape(table);
    if (unpack_sections(&shape, buffer_head(answer) + FRAME_HEADER_BYTES, frame.body_bytes, &plain))
        return false;
    while (section_next(buffer_head(&plain), buffer_size(&plain), &at, &section, &wrong))
        for (uint32_t i = 0; section.kind == SECTION_MAINS && i < section.count; i++)
            found |= section_get(section.items + i * section.item_bytes) == key;
    buffer_free(&plain);
    return found;
}

/* Whether the main copy is on its way from one node to another: in an answer that was given to the
 * question that is under way. */
static bool is_on_its_way(const struct machine *from, const struct machine *to,
                          enum sim_table table, uint32_t index)
{
    const uint32_t node = from->core.node;
    const uint32_t shard = store_shard(&to->tables[table].store, table_key(table, index));
    const struct sim_rounds *rounds = &to->rounds[shard];
    const uint16_t number = to->tables[table].number;
    const struct exchange *exchange = rounds->rounds.round.exchanges[number];
    const struct question *question = exchange ? &exchange->questions[node] : NULL;
    if (!question || !question->asked)
        return false;
    const struct server_lane *lane =
        service_lane(&from->callees[shard].service, to->core.node, rounds->caller.id);
    const struct kept_answer *kept = lane ? server_lane_kept(lane, number) : NULL;
    return kept && kept->number == question->op.number &&
           has_main(&from->tables[table], &kept->bytes, table_key(table, index));
}

void ownership_check(struct machine *const *machines, enum sim_table table, uint32_t index)
{
    struct check *check = &machines[0]->run->check;
    const uint32_t n_machines = machines[0]->run->n_machines;
    uint32_t n_mains = 0, n_on_way = 0, n_gone = 0;
    for (uint32_t i = 0; i < n_machines; i++) {
        n_gone += is_gone(machines[i]);
        if (is_gone(machines[i]))
            continue;
        if (!machines[i]->opened[table])
            return;
        n_mains += leads(machines[i], table) && is_main(machines[i], table, index);
    }
    for (uint32_t i = 0; i < n_machines; i++)
        for (uint32_t k = 0; k < n_machines; k++)
            n_on_way += i != k && !is_gone(machines[i]) && !is_gone(machines[k]) &&
                        is_on_its_way(machines[i], machines[k], table, index);
    uint32_t n = n_mains + n_on_way;
    /* Between a death and the next node's taking over there is none. */
    check_that(check, n == 1 || (n == 0 && (check->lenient || n_gone)),
               "key %" PRIu32 " of table '%s' has %" PRIu32 " main copies and %" PRIu32
               " on their way",
               index, table_name(table), n_mains, n_on_way);
}

/* ---- When workers have flushed ------------------------------------------------------------------ */

/* The node with the main copy of a key; NULL if it is on its way. */
static const struct machine *find_main(const struct run *run, const struct view *view,
                                       enum sim_table table, uint32_t index)
{
    const bool managed = tables_managed(&run->check.tables, table);
    for (uint32_t i = 0; i < run->n_machines; i++) {
        const struct machine *machine = run->machines[i];
        const struct store *store = &machine->tables[table].store;
        if (machine->opened[table] && !(managed && is_gone(machine)) &&
            (managed ? is_main(machine, table, index)
                     : view_home(view, core_home(core_as(machine, table), store,
                                                 table_key(table, index))) == i))
            return view_epoch(machine->core.view) >= view_epoch(view) ? machine : NULL;
    }
    return NULL;
}

static void check_key_flushed(const struct machine *machine, enum sim_table table, uint32_t index)
{
    const struct machine *owner = find_main(machine->run, machine->core.view, table, index);
    int64_t row[LAST_LENGTH];
    if (!owner)
        return;
    bool has_row = store_pull_one(&owner->tables[table].store, table_key(table, index), row);
    for (int i = 0; i < WORKERS; i++)
        check_flushed(&machine->run->check, machine->workers[i].index, table, index,
                      has_row ? row : NULL);
}

void ownership_check_flushed(const struct machine *machine)
{
    for (int table = 0; !machine->run->check.lenient && table < N_SIM_TABLES; table++)
        for (uint32_t k = machine->phase % WORK_PHASES; k < KEYS; k += WORK_PHASES)
            check_key_flushed(machine, (enum sim_table)table, k);
}

/* ---- When all is quiet -------------------------------------------------------------------------- */

/* What a node has under a key is all that was done to it. */
static void check_row(const struct machine *machine, enum sim_table table, uint32_t index)
{
    const struct store *store = &machine->tables[table].store;
    int64_t row[LAST_LENGTH];
    uint64_t word = look(machine, table, index);
    if (!store_pull_one(store, table_key(table, index), row))
        return;
    check_stored(&machine->run->check,
                 &(struct stored){
                     .node = machine->core.node,
                     .table = table,
                     .index = index,
                     .is_main = entry_is_main(word),
                     .row = row,
                     .state = entry_is_main(word) ? store_state(store, entry_slot(word)) : NULL});
}

static void check_intended(const struct machine *machine, enum sim_table table, uint32_t index)
{
    struct check *check = &machine->run->check;
    const struct tables *tables = &check->tables;
    const bool listed = tables_listed(tables, table, index);
    bool open = listed || tables_kept(tables, table), begun = listed, is_replica;
    for (uint32_t node = 0; node < machine->run->n_machines; node++) {
        const struct machine *other = machine->run->machines[node];
        bool has_begun;
        if (core_as(other, table)->node != core_as(machine, table)->node)
            continue;
        open |= other->phase > machine->phase; /* what it wanted until just now may still be here */
        for (int i = 0; i < WORKERS; i++) {
            open |= plans_has(&other->workers[i].plans, table, index, &has_begun);
            begun |= has_begun && other == machine;
        }
    }
    bool here = sim_node_has(&machine->sim_node, table, index, &is_replica);
    check_that(check, open || !is_replica,
               "in the end node %" PRIu32 " has a replica of key %" PRIu32
               " of table '%s' without intent",
               machine->core.node, index, table_name(table));
    /* Intent for a key that had no row when it was asked for has no effect. */
    const bool may_lack_row = tables_dropped(tables, table);
    if ((listed || tables_copied(tables, table)) && !may_lack_row)
        check_that(check, here || !begun,
                   "in the end node %" PRIu32 " has no row of key %" PRIu32
                   " of table '%s', which is intended there",
                   machine->core.node, index, table_name(table));
}

void ownership_check_quiet(const struct machine *machine)
{
    const struct check *check = &machine->run->check;
    for (int i = 0; !is_gone(machine) && i < N_SIM_TABLES; i++) {
        const enum sim_table table = (enum sim_table)i;
        for (uint32_t k = 0; tables_managed(&check->tables, table) && k < KEYS; k++) {
            check_row(machine, table, k);
            if (!check->lenient)
                check_intended(machine, table, k);
        }
    }
}

/* ---- When all is over --------------------------------------------------------------------------- */

/* Where a node that does not have the main copy believes it to be. */
static uint32_t believes(const struct machine *machine, enum sim_table table, uint32_t index)
{
    const struct core *core = core_as(machine, table);
    return view_home(core->view,
                     technique_where(core, &machine->tables[table], table_key(table, index)));
}

/* Whether whoever begins at a node and follows what each believes comes to the owner. */
static bool leads_to(struct machine *const *machines, uint32_t from, uint32_t owner,
                     enum sim_table table, uint32_t index)
{
    for (uint32_t steps = 0; from != owner && steps < machines[0]->run->n_machines; steps++)
        from = believes(machines[from], table, index);
    return from == owner;
}

static void check_directory(struct machine *const *machines, uint32_t owner, enum sim_table table,
                            uint32_t index)
{
    struct check *check = &machines[0]->run->check;
    for (uint32_t i = 0; i < machines[0]->run->n_machines; i++) {
        if (is_gone(machines[i]))
            continue;
        check_that(check, leads_to(machines, i, owner, table, index),
                   "in the end node %" PRIu32 " does not find key %" PRIu32
                   " of table '%s', which is at node %" PRIu32,
                   i, index, table_name(table), owner);
        check_that(check,
                   i == owner || !is_home(machines[i], table, index) ||
                       believes(machines[i], table, index) == owner,
                   "in the end node %" PRIu32 ", its home, does not know that key %" PRIu32
                   " of table '%s' is at node %" PRIu32,
                   i, index, table_name(table), owner);
    }
}

static void check_key(struct machine *const *machines, enum sim_table table, uint32_t index)
{
    struct check *check = &machines[0]->run->check;
    uint32_t owner = machines[0]->run->n_machines;
    ownership_check(machines, table, index);
    for (uint32_t i = 0; i < machines[0]->run->n_machines; i++) {
        if (!machines[i]->opened[table] || is_gone(machines[i]))
            continue;
        if (leads(machines[i], table) && is_main(machines[i], table, index))
            owner = i;
        check_row(machines[i], table, index);
        if (!check->lenient)
            check_intended(machines[i], table, index);
    }
    /* A node that dies while the others leave is not given up by all of them. */
    const uint32_t home =
        view_home(machines[0]->core.view,
                  tables_home(&check->tables, core_as(machines[0], table), table, index));
    check_that(check,
               check->lenient || owner < machines[0]->run->n_machines || is_gone(machines[home]),
               "in the end nobody has the main copy of key %" PRIu32 " of table '%s'", index,
               table_name(table));
    if (!check->lenient && owner < machines[0]->run->n_machines)
        check_directory(machines, owner, table, index);
}

/* Nobody wants anything of anybody any more, and every slot has a row or is free. */
static void check_idle(const struct machine *machine, enum sim_table table)
{
    struct check *check = &machine->run->check;
    const struct core_table *of = &machine->tables[table];
    const struct store *store = &of->store;
    bool shares = false;
    uint64_t n_used = store_slots(store) - store->counts->n_free;
    for (uint32_t i = 0; i < store->n_shards; i++) {
        size_t n_spare = 0;
        shares |= !of->technique->is_idle(of, i, &n_spare);
        n_used -= n_spare;
    }
    check_that(check, n_used == store_rows(store) || !leads(machine, table),
               "in the end node %" PRIu32 " has %" PRIu64 " rows of table '%s' in %" PRIu64
               " slots",
               machine->core.node, store_rows(store), table_name(table), n_used);
    check_that(check, !shares, "in the end node %" PRIu32 " still shares keys of table '%s'",
               machine->core.node, table_name(table));
}

void ownership_check_end(struct machine *const *machines)
{
    const struct check *check = &machines[0]->run->check;
    for (int i = 0; i < N_SIM_TABLES; i++) {
        const enum sim_table table = (enum sim_table)i;
        if (!tables_managed(&check->tables, table))
            continue;
        for (uint32_t k = 0; k < KEYS; k++)
            check_key(machines, table, k);
        bool idle = !check->lenient && !tables_listed(&check->tables, table, 0) &&
                    !tables_kept(&check->tables, table);
        for (uint32_t k = 0; idle && k < machines[0]->run->n_machines; k++)
            if (!is_gone(machines[k]))
                check_idle(machines[k], table);
    }
}
