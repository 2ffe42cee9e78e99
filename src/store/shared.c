/* shared - see shared.h. */
#include "store/shared.h"

#include "base/pages.h"
#include "store/evict.h"
#include "store/undo.h"

enum {
    PART_BYTES = 4096, /* each part begins at a multiple of it */
    KEY_BYTES = 16,    /* of a sparse index, at the least */
};

/* What is needed to know of a table. */
struct extent {
    uint64_t n_slots, index_bytes, counter_bytes;
    unsigned index_bits;
    size_t row_stride, state_stride;
    bool is_tracked; /* copies of its rows are elsewhere */
    bool moves;      /* and its rows come and go */
    uint32_t n_shards;
    size_t pin_stride, written_stride; /* of tables whose rows can leave */
    struct gates_layout gates;
};

/* Where its parts begin. */
struct layout {
    uint64_t index, rows, states, bases, facts, marks, pins, written, counters, gates, end;
};

static uint64_t behind(uint64_t begin, uint64_t bytes)
{
    return (begin + bytes + PART_BYTES - 1) / PART_BYTES * PART_BYTES;
}

static uint64_t marks_part_bytes(const struct extent *extent)
{
    return behind(0, marks_bytes(extent->n_slots));
}

static struct layout lay_out(const struct extent *extent)
{
    const uint64_t n = extent->n_slots;
    const size_t base_stride = extent->is_tracked ? extent->row_stride : 0;
    const size_t facts_stride = extent->is_tracked ? sizeof(struct slot_facts) : 0;
    struct layout layout = {.index = behind(0, sizeof(struct shared_table))};
    layout.rows = behind(layout.index, extent->index_bytes);
    layout.states = behind(layout.rows, slabs_bytes(extent->row_stride, n));
    layout.bases = behind(layout.states, slabs_bytes(extent->state_stride, n));
    layout.facts = behind(layout.bases, slabs_bytes(base_stride, n));
    layout.marks = behind(layout.facts, slabs_bytes(facts_stride, n));
    layout.pins =
        behind(layout.marks, extent->is_tracked ? extent->n_shards * marks_part_bytes(extent) : 0);
    layout.written = behind(layout.pins, slabs_bytes(extent->pin_stride, n));
    layout.counters = behind(layout.written, slabs_bytes(extent->written_stride, n));
    layout.gates = behind(layout.counters, extent->counter_bytes);
    layout.end = behind(layout.gates, extent->gates.n * extent->gates.stride);
    return layout;
}

/* Slots that a dense table has: a key has one, or none; where rows come and go some are at hand for those to come. */
static uint64_t dense_slots(const struct extent *extent, uint64_t n_keys)
{
    return extent->moves && n_keys < TERN_MAX_ROWS / 2 ? 2 * n_keys : n_keys;
}

static struct extent measure(const struct tern_table_options *options,
                             const struct store_home *home)
{
    const size_t element = type_bytes(options->type);
    struct extent extent = {.row_stride = slabs_stride(options->length * element, element),
                            .state_stride = slabs_stride(store_state_bytes(options), element),
                            .is_tracked = home->rows_move || home->rows_everywhere,
                            .moves = home->rows_move,
                            .n_shards = home->n_shards ? home->n_shards : 1,
                            .pin_stride = home->rows_move ? sizeof(uint32_t) : 0,
                            .counter_bytes = admission_bytes(options) + sketch_bytes(options)};
    extent.gates = undo_layout(options, extent.row_stride, extent.state_stride);
    extent.index_bytes = options->n_keys * sizeof(struct entry);
    extent.n_slots = dense_slots(&extent, options->n_keys);
    if (options->index == TERN_DENSE)
        return extent;
    if (options->index == TERN_SKETCH) {
        extent.n_slots = 1;
        extent.index_bits = sparse_bits_for(1);
        extent.index_bytes = sparse_room_bytes(extent.index_bits, false);
        return extent;
    }
    uint64_t machine = pages_machine_bytes(), limit = options->memory_limit_bytes;
    uint64_t most = (limit && limit < machine ? limit : machine) /
                    (extent.row_stride + extent.state_stride + KEY_BYTES);
    extent.n_slots = most < 1 ? 1 : most < TERN_MAX_ROWS ? most : TERN_MAX_ROWS;
    extent.index_bits = sparse_bits_for(extent.n_slots);
    extent.index_bytes = sparse_room_bytes(extent.index_bits, evict_has_rule(options));
    extent.pin_stride = sizeof(uint32_t);
    extent.written_stride = evict_has_rule(options) ? sizeof(uint64_t) : 0;
    return extent;
}

uint64_t shared_bytes(const struct tern_table_options *options, const struct store_home *home)
{
    if (options->n_keys > TERN_MAX_ROWS)
        return 0;
    struct extent extent = measure(options, home);
    return lay_out(&extent).end;
}

void shared_format(struct shared_table *shared, const struct tern_table_options *options,
                   const struct store_home *home, uint64_t patience_ns)
{
    struct extent extent = measure(options, home);
    shared->n_slots = extent.n_slots;
    shared->index_bits = extent.index_bits;
    shared->watch.patience_ns = patience_ns;
    const struct layout layout = lay_out(&extent);
    char *memory = (char *)shared;
    if (options->index != TERN_DENSE)
        sparse_init_shared(&shared->sparse, (struct index_line *)(memory + layout.index),
                           extent.index_bits, home->hash_seed, evict_has_rule(options),
                           extent.gates.n);
    if (options->admit)
        admission_init((struct admission *)(memory + layout.counters), options, home->hash_seed);
    if (options->index == TERN_SKETCH)
        sketch_init((struct sketch *)(memory + layout.counters), options, home->hash_seed);
}

/* What is kept of rows that have copies elsewhere. */
static bool lay_out_tracking(struct store *store, const struct extent *extent,
                             const struct layout *layout)
{
    char *memory = (char *)store->home.shared;
    for (uint32_t i = 0; extent->is_tracked && i < store->n_shards; i++)
        marks_adopt(&store->changed[i], extent->n_slots,
                    memory + layout->marks + i * marks_part_bytes(extent));
    return !extent->is_tracked ||
           (slabs_adopt(&store->bases, extent->n_slots, memory + layout->bases) &&
            slabs_adopt(&store->facts, extent->n_slots, memory + layout->facts));
}

bool shared_lay_out(struct store *store)
{
    struct shared_table *shared = store->home.shared;
    char *memory = (char *)shared;
    const bool is_dense = store->index == TERN_DENSE;
    const bool can_leave = store->index == TERN_SPARSE || store->home.rows_move;
    const struct extent extent = {
        .n_slots = shared->n_slots,
        .index_bytes = is_dense ? store->n_keys * sizeof(struct entry)
                                : sparse_room_bytes(shared->index_bits, store->evicts),
        .row_stride = store->rows.stride,
        .state_stride = store->states.stride,
        .is_tracked = !store_is_homebound(store),
        .moves = store->home.rows_move,
        .n_shards = store->n_shards,
        .pin_stride = can_leave ? sizeof(uint32_t) : 0,
        .counter_bytes = store->counter_bytes,
        .written_stride = store->written.stride,
    };
    const struct layout layout = lay_out(&extent);
    store->gates = store->n_gates ? memory + layout.gates : NULL;
    if (is_dense)
        store->dense = (struct entry *)(memory + layout.index);
    else
        store->sparse = &shared->sparse;
    store->latch_stripes = shared->sparse.latch_stripes;
    if (store->index == TERN_SKETCH)
        store->sketch = (struct sketch *)(memory + layout.counters);
    else if (store->counter_bytes)
        store->admission = (struct admission *)(memory + layout.counters);
    store->counts = &shared->counts;
    store->watch = &shared->watch;
    return slabs_adopt(&store->rows, shared->n_slots, memory + layout.rows) &&
           slabs_adopt(&store->states, shared->n_slots, memory + layout.states) &&
           (!can_leave || slabs_adopt(&store->pins, shared->n_slots, memory + layout.pins)) &&
           slabs_adopt(&store->written, shared->n_slots, memory + layout.written) &&
           lay_out_tracking(store, &extent, &layout);
}

bool shared_new_slot(struct store *store, uint32_t *slot)
{
    _Atomic uint64_t *n_slots = &store->counts->n_slots;
    if (!store_take_bytes(store))
        return false;
    uint64_t n = atomic_load_explicit(n_slots, memory_order_relaxed);
    do {
        if (n >= store->home.shared->n_slots)
            return false; /* and there is none later on: what was counted need not be given back */
    } while (!atomic_compare_exchange_weak_explicit(n_slots, &n, n + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    *slot = (uint32_t)n;
    return true;
}
