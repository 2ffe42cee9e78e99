/* tables - see tables.h. */
#include "sim/tables.h"

#include <string.h>

#include "base/hash.h"
#include "base/rand.h"

/* So many that counts of different keys do not meet: they are exact. */
enum { EXPECTED_KEYS = 1 << 12, SKETCH_WIDTH = 1 << 10, RARE_PARTS = 8 };

const char *table_name(enum sim_table table)
{
    static const char *const names[] = {
        "dense counts",   "sparse counts",  "replica counts", "adaptive counts", "managed counts",
        "updated counts", "bounded counts", "limited counts", "graph counts",    "last values"};
    return names[table];
}

static bool is_dense(enum sim_table table)
{
    return table == DENSE_COUNTS || table == REPLICA_COUNTS || table == ADAPTIVE_COUNTS ||
           table == BOUNDED_COUNTS || table == GRAPH_COUNTS;
}

uint64_t table_key(enum sim_table table, uint32_t index)
{
    return is_dense(table) ? index : hash_u64((uint64_t)table << 32 | (index + 1));
}

/* The name of one of all presets, but the default, whose rows may be so: those that are new are among them. */
static const char *preset_with(enum rows rows, uint64_t seed, char name[POLICY_NAME_BYTES])
{
    struct policy policy;
    uint64_t n = 0;
    for (size_t i = 1; policy_at(i, &policy); i++)
        if (technique_find(&policy, false)->rows == rows &&
            rand_below(rand_at(seed, 16 + i), ++n) == 0)
            strcpy(name, policy.name);
    return name;
}

/* Half of the nodes have replicas of each key under graph:S. */
static void choose_replicas(struct tables *tables, uint32_t n_nodes, uint64_t seed)
{
    struct tern_placement *placement = &tables->placements[GRAPH_COUNTS];
    const uint64_t stream = rand_at(seed, 63);
    size_t n = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        tables->frequencies[i] = rand_below(rand_at(stream, i), 8);
        for (uint32_t node = 0; node < n_nodes; node++) {
            if (rand_at(stream, (uint64_t)(node + 1) << 32 | i) % 2)
                continue;
            tables->replica_keys[n] = table_key(GRAPH_COUNTS, i);
            tables->replica_nodes[n++] = node;
        }
    }
    for (uint32_t i = 0; tables->places_frequencies && i < KEYS; i++) {
        const uint64_t frequency = tables->frequencies[i];
        tables->frequencies[i] = 1;
        for (size_t k = 0; k < placement->n_keys; k++)
            if (placement->keys[k] == table_key(GRAPH_COUNTS, i))
                tables->frequencies[i] = tables->placed_frequencies[k] = frequency;
    }
    if (tables->has_frequencies && tables->places_frequencies)
        placement->frequencies = tables->placed_frequencies;
    placement->replica_keys = tables->replica_keys;
    placement->replica_nodes = tables->replica_nodes;
    placement->n_replicas = n;
}

/* Half of the tables have placements, which name half of their keys; of half of the dense ones, others are scattered. */
static void choose_placements(struct tables *tables, uint32_t n_nodes, uint64_t seed)
{
    for (uint32_t table = 0; table < N_SIM_TABLES; table++) {
        const uint64_t stream = rand_at(seed, 64 + table);
        size_t n = 0;
        for (uint32_t i = 0; (stream % 2 || table == GRAPH_COUNTS) && i < KEYS; i++) {
            const uint64_t drawn = rand_at(stream, i);
            if (drawn % 2)
                continue;
            tables->placed_keys[table][n] = table_key((enum sim_table)table, i);
            tables->placed_homes[table][n++] = (uint32_t)rand_below(drawn, n_nodes);
        }
        tables->scatters[table] = is_dense(table) && stream / 2 % 2;
        tables->placements[table] = (struct tern_placement){
            .keys = tables->placed_keys[table], .homes = tables->placed_homes[table], .n_keys = n};
    }
}

/* The node of a view that has the keys of a node: the last of them that is not after it. */
static uint32_t tables_leader(const struct view *view, uint32_t node)
{
    while (!view_has(view, node))
        node--;
    return node;
}

uint32_t tables_home(const struct tables *tables, const struct core *core, enum sim_table table,
                     uint32_t index)
{
    const struct view *view = core->view;
    const struct tern_placement *placement = &tables->placements[table];
    const uint64_t key = table_key(table, index);
    for (size_t i = 0; i < placement->n_keys; i++)
        if (placement->keys[i] == key)
            return tables_leader(view, placement->homes[i]);
    if (tables->scatters[table])
        return scattered_home(view, key);
    return is_dense(table) ? range_home(view, key, KEYS) : ring_home(view, key);
}

/* What SPARSE_COUNTS is: a third of the time as plain as ever. Where it admits keys they move half of the time, and where rows
 * leave they have replicas half of the time. */
static void choose_sparse(struct tables *tables, uint64_t seed)
{
    char managed[POLICY_NAME_BYTES];
    enum { PLAIN, PLAIN_TOO, ADMITS, LEAVES, ADMITS_AND_LEAVES, SKETCH, KINDS };
    const uint64_t drawn = rand_at(seed, 13), kind = drawn % KINDS;
    tables->is_sketch = kind == SKETCH;
    if (kind == ADMITS || kind == ADMITS_AND_LEAVES)
        tables->admit = 1 + (uint32_t)(drawn >> 8) % 3;
    tables->has_sweeps = kind == LEAVES || kind == ADMITS_AND_LEAVES;
    tables->evict_floor = tables->has_sweeps ? drawn >> 16 & 1 : 0;
    if (!tables->is_sketch && kind >= ADMITS && drawn >> 17 & 1)
        policy_find(preset_with(ROWS_MOVE, drawn, managed), &tables->policies[SPARSE_COUNTS]);
    if (tables->has_sweeps && drawn >> 17 & 1) {
        policy_keep_home(&tables->policies[SPARSE_COUNTS]);
        tables->evict_floor = 1;
    }
}

/* Those of tables of whole numbers, and those that round the numbers of others. */
static void choose_filters(struct tables *tables, bool are_backed, uint64_t seed)
{
    static const char *const filters[] = {NULL,
                                          "zeros",
                                          "keys",
                                          "keys,zeros",
                                          "lz4",
                                          "keys,zeros,lz4",
                                          "significant:2,zeros",
                                          "significant:3/t"};
    static const size_t n_filters = sizeof filters / sizeof *filters;
    static const char *const roundings[] = {NULL, "fixed:8", "zeros,fixed:16",
                                            "keys,fixed:8,significant:2/t,lz4"};
    static const size_t n_roundings = sizeof roundings / sizeof *roundings;
    tables->filters = filters[rand_at(seed, 8) % n_filters];
    tables->roundings = are_backed ? NULL : roundings[rand_at(seed, 14) % n_roundings];
}

/* Those of other policies, in half of these runs. */
static void choose_more_copies(struct tables *tables, uint64_t drawn)
{
    if (drawn % 2)
        return;
    policy_find("replicate", &tables->policies[REPLICA_COUNTS]);
    tables->replicas_updated = drawn >> 1 & 1;
    if (drawn >> 2 & 1)
        policy_find(drawn >> 3 & 1 ? "cached" : "adaptive-relocate",
                    &tables->policies[MANAGED_COUNTS]);
    if (drawn >> 4 & 1)
        policy_find("replicate", &tables->policies[LAST_VALUES]);
}

/* Some of the tables with backups have replicas, in one run of two. */
static void choose_backed(struct tables *tables, uint64_t seed)
{
    static const char *const policies[] = {
        "adaptive", "adaptive-at-once", "multi", "adaptive-replicate", "multi", "adaptive"};
    const uint64_t drawn = rand_at(seed, 18);
    tables->have_copies = tables->have_rounds = drawn % 2;
    if (!tables->have_copies)
        return;
    tables->recovers = false;
    policy_find("adaptive", &tables->policies[ADAPTIVE_COUNTS]);
    policy_find(policies[(drawn >> 8) % (sizeof policies / sizeof *policies)],
                &tables->policies[MANAGED_COUNTS]);
    policy_find("adaptive", &tables->policies[UPDATED_COUNTS]);
    policy_find((drawn >> 16) % 2 ? "adaptive" : "static", &tables->policies[LAST_VALUES]);
    /* With this number most runs that tests/sim/test_defects.c tries first still find their defects. */
    choose_more_copies(tables, rand_at(seed, 79));
}

/* In half of the runs with backups rows are counted. */
static void choose_backed_graph(struct tables *tables, const char *policy, uint32_t n_nodes,
                                uint64_t seed)
{
    const uint64_t drawn = rand_at(seed, 20);
    if (drawn % 2)
        return;
    policy_find(policy, &tables->policies[GRAPH_COUNTS]);
    tables->graph_updated = drawn >> 1 & 1;
    tables->has_frequencies = drawn >> 2 & 1;
    choose_replicas(tables, n_nodes, seed);
}

/* In half of them reads are bounded. */
static void choose_backed_bounded(struct tables *tables, const char *const *policies, uint64_t seed)
{
    if (rand_at(seed, 22) % 2)
        return;
    tables->have_rounds = true;
    tables->recovers = false;
    policy_find(policies[BOUNDED_COUNTS], &tables->policies[BOUNDED_COUNTS]);
    policy_find(policies[LIMITED_COUNTS], &tables->policies[LIMITED_COUNTS]);
}

/* Of tables with backups, after the others are chosen. */
static void choose_kept(struct tables *tables, const char *const *policies, uint32_t n_nodes,
                        uint64_t seed)
{
    choose_backed_graph(tables, policies[GRAPH_COUNTS], n_nodes, seed);
    choose_backed_bounded(tables, policies, seed);
    for (int i = 0; i < N_SIM_TABLES; i++)
        policy_keep_home(&tables->policies[i]);
}

/* Keys that are listed, and keys that are used often. */
static void choose_keys(struct tables *tables, uint64_t drawn)
{
    for (uint32_t i = 0; i < LISTED_KEYS; i++) {
        tables->listed[i] = table_key(MANAGED_COUNTS, i);
        tables->listed_sparse[i] = table_key(SPARSE_COUNTS, i);
    }
    for (uint32_t i = 0; i < KEYS; i++)
        tables->uses[i] = drawn % 4 + i % 3;
    tables->has_rare = drawn / 4 % 2;
}

void tables_choose(struct tables *tables, uint32_t n_nodes, uint32_t n_workers, bool are_backed,
                   uint64_t seed)
{
    static const char *const bounded[] = {"bsp",    "ssp:1",  "ssp:3",     "ssp:10",
                                          "essp:0", "essp:1", "essp:3",    "essp:10",
                                          "vap:1",  "vap:2",  "vap:3/sqrt"};
    static const size_t n_bounded = sizeof bounded / sizeof *bounded, n_clocked = 8;
    /* Soon to be half of all numbers away from the first, to be so no longer, and to begin anew. */
    static const uint32_t n_moves[] = {0, 0, 0x7ffa, 0xfbfa, 0xfff0, 0xfffc};
    static const size_t n_n_moves = sizeof n_moves / sizeof *n_moves;
    static const char *const last[] = {"static", "adaptive", "adaptive", "replicate"};
    static const char *const graphs[] = {"graph:0",  "graph:1",   "graph:1",  "graph:3",
                                         "graph:10", "graph:100", "graph:inf"};
    static const size_t n_graphs = sizeof graphs / sizeof *graphs;
    char managed[POLICY_NAME_BYTES];
    const char *policies[N_SIM_TABLES] = {
        [DENSE_COUNTS] = "static",
        [SPARSE_COUNTS] = "static",
        [REPLICA_COUNTS] = rand_at(seed, 7) % 2 ? "replicate" : "replicate-doubling",
        [ADAPTIVE_COUNTS] = "adaptive",
        [MANAGED_COUNTS] = preset_with(ROWS_MOVE, seed, managed),
        [UPDATED_COUNTS] = "adaptive",
        [BOUNDED_COUNTS] = bounded[rand_below(rand_at(seed, 4), n_clocked)],
        [LIMITED_COUNTS] = bounded[rand_below(rand_at(seed, 5), n_bounded)],
        [GRAPH_COUNTS] = graphs[rand_below(rand_at(seed, 12), n_graphs)],
        [LAST_VALUES] = last[rand_at(seed, 1) % 4],
    };
    *tables = (struct tables){
        .length = n_workers * WINDOW,
        .last_length = rand_at(seed, 2) % 2 ? LAST_LENGTH : LAST_SHORT,
        .are_backed = are_backed,
        .n_backups = are_backed ? 1 + (uint32_t)rand_at(seed, 16) % TERN_MAX_BACKUPS : 0,
        .recovers = are_backed && rand_at(seed, 17) % 2,
        .piece_bytes = (size_t)1024 << rand_below(rand_at(seed, 15), 10),
        .replicas_updated = rand_at(seed, 4) % 2 && !are_backed,
        .lists_most = (uint32_t)rand_at(seed, 9) % 4,
        .graph_updated = rand_at(seed, 10) % 3 == 0 && !are_backed,
        .has_frequencies = rand_at(seed, 11) % 2 && !are_backed,
        .places_frequencies = rand_at(seed, 11) / 2 % 2,
        .sets_mirrored = rand_at(seed, 1) % 4 == 3 && !are_backed,
        .round_bytes = (size_t)64 << rand_below(rand_at(seed, 3), 15),
        .staleness_ms = 1u << rand_below(rand_at(seed, 7), 8),
        .n_moves = are_backed ? 0 : n_moves[rand_below(rand_at(seed, 6), n_n_moves)]};
    for (int i = 0; i < N_SIM_TABLES; i++)
        policy_find(are_backed ? "static" : policies[i], &tables->policies[i]);
    if (are_backed)
        choose_backed(tables, seed);
    choose_keys(tables, rand_at(seed, 80));
    choose_filters(tables, are_backed, seed);
    choose_placements(tables, n_nodes, seed);
    if (are_backed) {
        choose_kept(tables, policies, n_nodes, seed);
        return;
    }
    choose_sparse(tables, seed);
    choose_replicas(tables, n_nodes, seed);
}

/* The updater: adds, and keeps the sum of all it has added to a row as its state. So
 * what it did without its state, and what was lost of either, is seen. */
static void add_and_sum(const struct tern_updater *updater, enum tern_type type, size_t length,
                        void *value, void *state, const void *update)
{
    (void)updater;
    (void)type;
    uint64_t *row = value, *sum = state;
    const uint64_t *added = update;
    for (size_t i = 0; i < length; i++) {
        row[i] += added[i];
        *sum += added[i];
    }
}

struct tern_table_options tables_options(const struct tables *tables, enum sim_table table)
{
    struct tern_table_options options = {
        .struct_size = sizeof options,
        .index = is_dense(table) ? TERN_DENSE : TERN_SPARSE,
        .type = TERN_I64,
        .n_keys = is_dense(table) ? KEYS : 0,
        .length = tables_length(tables, table),
        .policy = tables->policies[table].name,
        .backups = tables->n_backups,
    };
    if (tables->placements[table].n_keys)
        options.placement = &tables->placements[table];
    options.scatter = tables->scatters[table];
    options.filters = tables->filters;
    if (tables_real(tables, table)) {
        options.type = TERN_F64;
        options.filters = tables->roundings;
    }
    if (table == SPARSE_COUNTS) {
        options.admit = tables->admit;
        options.expected_keys = tables->admit ? EXPECTED_KEYS : 0;
        options.evict_floor = tables->evict_floor;
    }
    if (table == SPARSE_COUNTS && tables->is_sketch) {
        options.index = TERN_SKETCH;
        options.sketch = (struct tern_sketch){.width = SKETCH_WIDTH, .depth = 4, .seed = 1};
        options.filters = NULL;
    }
    if (technique_find(&tables->policies[table], false)->collect)
        options.staleness_ms = tables->staleness_ms;
    if (table == ADAPTIVE_COUNTS && tables->has_rare &&
        tables->policies[table].replica == REPLICA_ON_INTENT) {
        options.rare_staleness_ms = RARE_PARTS * tables->staleness_ms;
        options.frequencies = tables->uses;
        options.hot_factor = 1;
    }
    if (table == DENSE_COUNTS || table == BOUNDED_COUNTS ||
        (table == ADAPTIVE_COUNTS && !tables_real(tables, table)))
        options.init = (struct tern_init){.kind = TERN_INIT_UNIFORM, .seed = 7, .b = 1e9};
    if (tables_updated(tables, table))
        options.updater =
            (struct tern_updater){.name = "add and sum", .state_per_row = 1, .apply = add_and_sum};
    if (table == GRAPH_COUNTS && tables->has_frequencies && !tables->places_frequencies)
        options.frequencies = tables->frequencies;
    if (tables->policies[table].replica == REPLICA_OF_LISTED) {
        options.replicated = table == SPARSE_COUNTS ? tables->listed_sparse : tables->listed;
        options.n_replicated = LISTED_KEYS;
    }
    return options;
}
