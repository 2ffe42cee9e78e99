/* graph - the technique of graph:S, and its side that has replicas. See graph.h. */
#include "core/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/backup.h"
#include "core/defect.h"
#include "wire/number.h"

/* ---- A table ------------------------------------------------------------------------------------ */

static enum tern_status check(const struct policy *policy, const char *name,
                              const struct tern_table_options *options)
{
    if (options->index == TERN_SKETCH || options->admit)
        return fail(TERN_INVALID, "table '%s': %s cannot count updates, as policy '%s' does", name,
                    options->admit ? "a table that admits keys" : "a sketch", policy->name);
    return TERN_OK;
}

static void close_table(struct core_table *table)
{
    struct graph *graph = table->state;
    graph_free_stripes(graph);
    keymap_free(&graph->numbers);
    keymap_free(&graph->placed_frequencies);
    free(graph->eras);
    free(graph->frequencies);
    free(graph->replicas);
    free(graph->values);
    free(graph);
}

/* Numbers the keys of which this node is to have replicas; false when memory runs out. */
static bool add_replicas(const struct core *core, struct graph *graph,
                         const struct tern_placement *placement)
{
    size_t most = 0;
    for (size_t i = 0; i < placement->n_replicas; i++)
        most += placement->replica_nodes[i] == core->node;
    if (!keymap_reserve(&graph->numbers, most))
        return false;
    for (size_t i = 0; i < placement->n_replicas; i++) {
        const uint64_t key = placement->replica_keys[i];
        if (placement->replica_nodes[i] == core->node && !store_is_home(graph->store, key) &&
            !keymap_get(&graph->numbers, key))
            keymap_set(&graph->numbers, key, (uint32_t)++graph->n_replicas);
    }
    graph->replicas = calloc(graph->n_replicas + 1, sizeof *graph->replicas);
    graph->values = malloc((graph->n_replicas + 1) * graph->store->value_bytes);
    return graph->replicas && graph->values;
}

/* Copies frequencies; false when memory runs out. */
static bool add_frequencies(struct graph *graph, const struct tern_table_options *options)
{
    const struct tern_placement *placement = options->placement;
    const size_t bytes = options->n_keys * sizeof *graph->frequencies;
    if (placement->frequencies) {
        if (!keymap_reserve(&graph->placed_frequencies, placement->n_keys))
            return false;
        for (size_t i = 0; i < placement->n_keys; i++) {
            const uint64_t frequency = placement->frequencies[i];
            keymap_set(&graph->placed_frequencies, placement->keys[i],
                       frequency < UINT32_MAX ? (uint32_t)frequency : UINT32_MAX);
        }
        return true;
    }
    if (!options->frequencies)
        return true;
    graph->frequencies = malloc(bytes);
    if (graph->frequencies)
        memcpy(graph->frequencies, options->frequencies, bytes);
    return graph->frequencies;
}

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    const struct tern_table_options *options = setup->options;
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return false;
    table->state = graph;
    graph->store = &table->store;
    graph->bound = table->policy->updates;
    if (table->backup)
        graph->eras = calloc(view_capacity(core->view), sizeof *graph->eras);
    return (!table->backup || graph->eras) && add_replicas(core, graph, options->placement) &&
           add_frequencies(graph, options);
}

static uint32_t replica_of(const struct core_table *table, uint64_t key)
{
    return keymap_get(&((const struct graph *)table->state)->numbers, key);
}

static bool has_replica(const struct core_table *table, uint64_t key)
{
    return replica_of(table, key);
}

/* A replica by its number, latched. */
static struct graph_replica *latch(const struct graph *graph, uint32_t number)
{
    struct graph_replica *replica = &graph->replicas[number - 1];
    (void)latch_take(&replica->latch, RANK_COUNTING, NULL);
    return replica;
}

static char *value_of(const struct graph *graph, uint32_t number)
{
    return graph->values + (number - 1) * graph->store->value_bytes;
}

static void settle(struct core_table *table)
{
    const struct graph *graph = table->state;
    for (uint32_t i = 1; i <= graph->n_replicas; i++) {
        struct graph_replica *replica = latch(graph, i);
        replica->is_valid = false;
        latch_release(&replica->latch, RANK_COUNTING);
    }
}

/* Keys have another home, which knows nothing of updates that died. */
static void change_view(struct core_table *table, uint32_t shard, const struct view *before)
{
    const struct graph *graph = table->state;
    const struct view *view = table->backup->core->view;
    const struct keymap *numbers = &graph->numbers;
    for (size_t i = 0; !shard && numbers->cells && i <= numbers->mask; i++) {
        if (!numbers->cells[i].value)
            continue;
        const uint32_t arc = backup_arc(table->backup, numbers->cells[i].key);
        if (view_home(view, arc) == view_home(before, arc))
            continue;
        struct graph_replica *replica = latch(graph, numbers->cells[i].value);
        replica->is_valid = false;
        latch_release(&replica->latch, RANK_COUNTING);
    }
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- Between keys ------------------------------------------------------------------------------- */

static bool has_frequencies(const struct graph *graph)
{
    return graph->frequencies || graph->placed_frequencies.cells;
}

static double frequency_of(const struct graph *graph, uint64_t key)
{
    const uint64_t frequency =
        graph->frequencies ? graph->frequencies[key] : keymap_get(&graph->placed_frequencies, key);
    return frequency ? (double)frequency : 1;
}

/* How many updates a key is behind another one; of the rarer one's. */
static double behind(const struct counted *key, const struct counted *other)
{
    const double ours = (double)graph_updates(key->count);
    const double theirs = (double)graph_updates(other->count);
    return other->frequency >= key->frequency ? theirs * key->frequency / other->frequency - ours
                                              : theirs - ours * other->frequency / key->frequency;
}

/* Whether a key is too far behind one of the others; `first` has come furthest for its frequency. Where all have the same one,
 * no other needs to be looked at. Nobody is further ahead than `most`. */
static bool is_behind(const struct graph *graph, const struct op *op, const struct counted *key,
                      const struct counted *first)
{
    const double bound = (double)graph->bound;
    const double most = key->frequency * ((double)graph_updates(first->count) / first->frequency) -
                        (double)graph_updates(key->count);
    bool found = behind(key, first) > bound;
    const bool looks = has_frequencies(graph) && most > bound - 0.5; /* numbers are rounded */
    for (size_t k = 0; looks && !found && k < op->n_counted; k++)
        found = op->counted[k].is_known && behind(key, &op->counted[k]) > bound;
    return found;
}

/* Demands that replicas which are too far behind another key lack nothing. */
static void mark_behind(const struct graph *graph, struct op *op)
{
    struct counted *all = op->counted;
    const struct counted *first = NULL;
    if (graph->bound == UINT64_MAX || defect(DEFECT_GRAPH_BETWEEN_SKIPPED))
        return;
    for (size_t k = 0; k < op->n_counted; k++)
        if (all[k].is_known &&
            (!first || (double)graph_updates(all[k].count) * first->frequency >
                           (double)graph_updates(first->count) * all[k].frequency))
            first = &all[k];
    for (size_t i = 0; first && i < op->n; i++)
        if (all[i].replica && all[i].is_known && !all[i].is_current)
            all[i].is_strict = is_behind(graph, op, &all[i], first);
}

/* ---- Reads -------------------------------------------------------------------------------------- */

static size_t read_unchecked(const struct core_table *table, const uint64_t *keys, uint32_t *away,
                             size_t n, char *values)
{
    const struct graph *graph = table->state;
    const size_t size = table->store.value_bytes;
    size_t n_left = 0;
    if (graph->bound != UINT64_MAX)
        return n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t number = replica_of(table, keys[away[i]]);
        struct graph_replica *replica = number ? latch(graph, number) : NULL;
        const bool reads = replica && replica->is_valid;
        if (reads)
            memcpy(values + away[i] * size, value_of(graph, number), size);
        else
            away[n_left++] = away[i];
        if (replica)
            latch_release(&replica->latch, RANK_COUNTING);
    }
    return n_left;
}

/* The count of a replica; false if it is not valid. */
static bool look(const struct graph *graph, uint32_t number, uint64_t *count)
{
    struct graph_replica *replica = latch(graph, number);
    const bool is_valid = replica->is_valid;
    *count = replica->main + replica->own;
    latch_release(&replica->latch, RANK_COUNTING);
    return is_valid;
}

static struct counted make_counted(const struct core_table *table, uint64_t key, bool is_strict)
{
    return (struct counted){.frequency = frequency_of(table->state, key),
                            .replica = replica_of(table, key),
                            .is_strict = is_strict};
}

/* Without memory the pull is one without counts: it gets all values. */
static void begin(const struct core_table *table, struct op *op, size_t n_call)
{
    struct graph *graph = table->state;
    bool has_any = false;
    for (size_t i = 0; !has_any && i < op->n; i++)
        has_any = replica_of(table, op->sorted[i]);
    op->counted = has_any ? calloc(n_call, sizeof *op->counted) : NULL;
    if (!op->counted)
        return;
    for (size_t i = 0; i < op->n; i++) {
        struct counted *counted = &op->counted[i];
        *counted = make_counted(table, op->sorted[i], false);
        counted->is_known = counted->replica && look(graph, counted->replica, &counted->count);
    }
    op->n_counted = op->n;
    for (size_t i = 0; graph->bound != UINT64_MAX && i < n_call && op->n_counted < n_call; i++)
        if (store_is_home(&table->store, op->keys[i]))
            op->counted[op->n_counted++] =
                (struct counted){.count = graph_count(table, op->keys[i]),
                                 .frequency = frequency_of(graph, op->keys[i]),
                                 .is_known = true,
                                 .is_current = true};
    for (size_t i = 1; defect(DEFECT_GRAPH_OLD_FREQUENCY) && i < op->n_counted; i++)
        op->counted[i].frequency = op->counted[i - 1].frequency;
    mark_behind(graph, op);
}

static uint8_t *ask(const struct core_table *table, struct op *op, size_t first, size_t n,
                    uint8_t *out)
{
    struct graph *graph = table->state;
    uint8_t *at = out;
    size_t n_checks = 0;
    for (size_t i = first; i < first + n; i++) {
        struct counted *counted = &op->counted[i];
        counted->is_known = counted->replica && look(graph, counted->replica, &counted->count);
        n_checks += counted->is_known;
        at = number_put_slowly(counted->is_known ? 1 + 2 * counted->count + counted->is_strict : 0,
                               at);
    }
    add(&graph->counts.checks, n_checks);
    add(&graph->counts.bytes, (uint64_t)(at - out) + n * sizeof(uint64_t));
    return at;
}

/* The home has sent the value of a replica with its count. */
static void install(const struct graph *graph, uint32_t number, uint64_t count, const void *value)
{
    struct graph_replica *replica = latch(graph, number);
    const bool is_stale =
        count < replica->top || (replica->is_valid && count < replica->main + replica->own);
    if (!is_stale) {
        replica->main = count;
        replica->own = defect(DEFECT_GRAPH_OWN_TWICE) ? replica->own : 0;
        replica->is_valid = true;
        memcpy(value_of(graph, number), value, graph->store->value_bytes);
    }
    latch_release(&replica->latch, RANK_COUNTING);
}

static void note_behind(struct graph *graph, uint64_t updates)
{
    const unsigned step = updates ? number_width(updates) : 0;
    add(&graph->counts.behind[step < TERN_CLOCK_STEPS ? step : TERN_CLOCK_STEPS - 1], 1);
}

/* The home has sent a key's value. */
static void take_value(struct graph *graph, struct counted *counted, uint64_t count,
                       const void *value)
{
    if (counted->is_known) {
        const bool is_within = count - counted->count > graph->bound;
        add(is_within ? &graph->counts.within : &graph->counts.between, 1);
    }
    if (counted->replica) {
        install(graph, counted->replica, count, value);
        note_behind(graph, 0);
    }
    counted->count = count;
    counted->is_known = counted->is_current = true;
}

/* The home has said that a replica which had counted->count lacks `lag` updates, and is to be read. It may have come further
 * meanwhile; if it was made invalid, the key is asked for again. */
static void take_replica(struct graph *graph, struct counted *counted, uint64_t lag, char *value)
{
    const uint64_t count = counted->count + lag;
    struct graph_replica *replica = latch(graph, counted->replica);
    const uint64_t now = replica->main + replica->own;
    counted->is_known = replica->is_valid && now >= counted->count;
    if (counted->is_known)
        memcpy(value, value_of(graph, counted->replica), graph->store->value_bytes);
    latch_release(&replica->latch, RANK_COUNTING);
    counted->count = now;
    counted->is_current = now >= count;
    if (counted->is_known)
        note_behind(graph, now < count ? count - now : 0);
}

static bool has_bit(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

static bool take(const struct core_table *table, struct op *op, size_t first, size_t n,
                 struct slice answer, size_t *head, size_t *n_rows, const uint8_t *rows)
{
    struct graph *graph = table->state;
    const uint8_t *bits = answer.bytes, *end = answer.bytes + answer.n;
    const size_t size = table->store.value_bytes;
    const uint8_t *at = answer.n < frame_bits_bytes(n) ? NULL : bits + frame_bits_bytes(n);
    *n_rows = 0;
    for (size_t i = 0; at && i < n; i++) {
        struct counted *counted = &op->counted[first + i];
        char *value = op->values + op->order[first + i] * size;
        uint64_t number;
        at = number_get(at, end, &number);
        if (!at || (!has_bit(bits, i) && !counted->is_known))
            return false;
        if (rows && has_bit(bits, i)) {
            memcpy(value, rows + *n_rows * size, size);
            take_value(graph, counted, number, value);
        } else if (rows) {
            take_replica(graph, counted, number, value);
        }
        *n_rows += has_bit(bits, i);
    }
    *head = at ? (size_t)(at - bits) : 0;
    if (at && rows) {
        add(&graph->counts.fetched, *n_rows);
        add(&graph->counts.bytes, *head + *n_rows * size);
    }
    return at;
}

static void swap(struct op *op, size_t i, size_t k)
{
    const uint64_t key = op->sorted[i];
    const uint32_t position = op->order[i];
    const struct counted counted = op->counted[i];
    op->sorted[i] = op->sorted[k];
    op->order[i] = op->order[k];
    op->counted[i] = op->counted[k];
    op->sorted[k] = key;
    op->order[k] = position;
    op->counted[k] = counted;
}

static size_t finish(const struct core_table *table, struct op *op)
{
    size_t n_left = op->n;
    mark_behind(table->state, op);
    for (size_t i = 0; i < n_left;) {
        const struct counted *counted = &op->counted[i];
        if (counted->is_known && (counted->is_current || !counted->is_strict))
            i++;
        else
            swap(op, i, --n_left);
    }
    return n_left;
}

static void again(const struct core_table *table, struct op *op, size_t first)
{
    for (size_t i = first; i < op->n; i++)
        op->counted[i] = make_counted(table, op->sorted[i], true);
}

/* ---- Writes ------------------------------------------------------------------------------------- */

/* Adds a push that the home has made its update number `count`, unless it is known not to be needed or to do. */
static void add_own(const struct graph *graph, struct graph_replica *replica, uint32_t number,
                    uint64_t count, const char *update)
{
    const struct store *store = graph->store;
    if (store->updater.apply)
        return;
    if (replica->is_valid && (count > replica->main || defect(DEFECT_GRAPH_ADDED_TWICE))) {
        store->kernel->add[store->type](value_of(graph, number), update, store->length);
        replica->own++;
    }
    if (count > replica->top)
        replica->top = count;
}

static bool confirm(const struct core_table *table, const struct op *op, size_t first, size_t n,
                    struct slice answer)
{
    struct graph *graph = table->state;
    const uint8_t *at = answer.bytes, *end = answer.bytes + answer.n;
    for (size_t i = first; at && i < first + n; i++) {
        const uint32_t number = replica_of(table, op->sorted[i]);
        uint64_t told;
        at = number_get(at, end, &told);
        if (!at || !number)
            continue;
        struct graph_replica *replica = latch(graph, number);
        if (op->kind == FRAME_PUSH && told % 2 == 0) {
            add_own(graph, replica, number, told / 2,
                    op->values + op->order[i] * table->store.value_bytes);
        } else {
            replica->is_valid = false;
            if (told / 2 > replica->top)
                replica->top = told / 2;
        }
        latch_release(&replica->latch, RANK_COUNTING);
    }
    add(&graph->counts.bytes, answer.n);
    return at == end;
}

/* ---- What is told ------------------------------------------------------------------------------- */

static void stats(const struct core_table *table, uint32_t shard, struct tern_table_stats *stats)
{
    const struct graph *graph = table->state;
    const struct graph_counts *counts = &graph->counts;
    if (shard)
        return;
    stats->remote_keys += atomic_load_explicit(&counts->fetched, memory_order_relaxed);
    stats->remote_bytes += atomic_load_explicit(&counts->bytes, memory_order_relaxed);
    stats->memory_bytes +=
        graph->n_replicas * (sizeof *graph->replicas + graph->store->value_bytes);
    stats->checked_keys = atomic_load_explicit(&counts->checks, memory_order_relaxed);
    stats->fetched_within = atomic_load_explicit(&counts->within, memory_order_relaxed);
    stats->fetched_between = atomic_load_explicit(&counts->between, memory_order_relaxed);
    for (int i = 0; i < TERN_CLOCK_STEPS; i++)
        stats->updates_behind[i] = atomic_load_explicit(&counts->behind[i], memory_order_relaxed);
}

static void explain(const struct core *core, const struct core_table *table, uint64_t key,
                    struct text *text)
{
    text_add(text, "is at its home, node %" PRIu32 ", for good, by policy %s.\n",
             core_home(core, &table->store, key), table->policy->name);
    if (has_replica(table, key))
        text_add(text, "This node has a replica of it, by the table's placement.\n");
}

static enum copy copy(const struct core *core, const struct core_table *table, uint64_t key,
                      bool *is_wanted)
{
    *is_wanted = false;
    if (core_home(core, &table->store, key) == core->node)
        return COPY_MAIN;
    return has_replica(table, key) ? COPY_REPLICA : COPY_NONE;
}

static const struct counting counting = {
    .reserve = graph_reserve,
    .write = graph_write,
    .written = graph_written,
    .serve = graph_serve,
    .copy = graph_copy,
    .adopt = graph_adopt,
    .take_over = graph_take_over,
    .has_replica = has_replica,
    .read_unchecked = read_unchecked,
    .begin = begin,
    .ask = ask,
    .take = take,
    .finish = finish,
    .again = again,
    .confirm = confirm,
};

const struct technique technique_graph = {
    .rows = ROWS_AT_HOME,
    .counting = &counting,
    .check = check,
    .open = open_table,
    .close = close_table,
    .where = technique_where_home,
    .settle = settle,
    .change_view = change_view,
    .stats = stats,
    .explain = explain,
    .copy = copy,
};
