/* shared - see shared.h. */
#include "store/shared.h"

#include "base/pages.h"
#include "store/evict.h"

enum {
    PART_BYTES = 4096, /* each part begins at a multiple of it */
    KEY_BYTES = 16,    /* of a sparse index, at the least */
};

/* Where the parts of a table begin. */
struct layout {
    uint64_t index, rows, states, pins, written, counters, end;
};

static uint64_t behind(uint64_t begin, uint64_t bytes)
{
    return (begin + bytes + PART_BYTES - 1) / PART_BYTES * PART_BYTES;
}

/* What is needed to know of a table. */
struct extent {
    uint64_t n_slots, index_bytes;
    unsigned index_bits;
    size_t row_stride, state_stride;
    size_t pin_stride, written_stride; /* of tables whose rows can leave */
};

static struct layout lay_out(const struct extent *extent, uint64_t counter_bytes)
{
    const uint64_t n_slots = extent->n_slots;
    struct layout layout = {.index = behind(0, sizeof(struct shared_table))};
    layout.rows = behind(layout.index, extent->index_bytes);
    layout.states = behind(layout.rows, slabs_bytes(extent->row_stride, n_slots));
    layout.pins = behind(layout.states, slabs_bytes(extent->state_stride, n_slots));
    layout.written = behind(layout.pins, slabs_bytes(extent->pin_stride, n_slots));
    layout.counters = behind(layout.written, slabs_bytes(extent->written_stride, n_slots));
    layout.end = behind(layout.counters, counter_bytes);
    return layout;
}

static struct extent measure(const struct tern_table_options *options)
{
    const size_t element = type_bytes(options->type);
    struct extent extent = {.row_stride = slabs_stride(options->length * element, element),
                            .state_stride = slabs_stride(store_state_bytes(options), element),
                            .n_slots = options->n_keys};
    extent.index_bytes = options->n_keys * sizeof(struct entry);
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

uint64_t shared_bytes(const struct tern_table_options *options)
{
    if (options->n_keys > TERN_MAX_ROWS)
        return 0;
    struct extent extent = measure(options);
    return lay_out(&extent, admission_bytes(options) + sketch_bytes(options)).end;
}

void shared_format(struct shared_table *shared, const struct tern_table_options *options,
                   uint64_t patience_ns, uint64_t hash_seed)
{
    struct extent extent = measure(options);
    shared->n_slots = extent.n_slots;
    shared->index_bits = extent.index_bits;
    shared->watch.patience_ns = patience_ns;
    const struct layout layout = lay_out(&extent, 0);
    char *memory = (char *)shared;
    if (options->index != TERN_DENSE)
        sparse_init_shared(&shared->sparse, (struct index_line *)(memory + layout.index),
                           extent.index_bits, hash_seed, evict_has_rule(options));
    if (options->admit)
        admission_init((struct admission *)(memory + layout.counters), options, hash_seed);
    if (options->index == TERN_SKETCH)
        sketch_init((struct sketch *)(memory + layout.counters), options, hash_seed);
}

bool shared_lay_out(struct store *store)
{
    struct shared_table *shared = store->home.shared;
    char *memory = (char *)shared;
    const bool is_sparse = store->index == TERN_SPARSE;
    const struct extent extent = {
        .n_slots = shared->n_slots,
        .index_bytes = store->index == TERN_DENSE
                           ? store->n_keys * sizeof(struct entry)
                           : sparse_room_bytes(shared->index_bits, store->evicts),
        .row_stride = store->rows.stride,
        .state_stride = store->states.stride,
        .pin_stride = is_sparse ? sizeof(uint32_t) : 0,
        .written_stride = store->written.stride,
    };
    const struct layout layout = lay_out(&extent, 0);
    if (store->index == TERN_DENSE)
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
           (!is_sparse || slabs_adopt(&store->pins, shared->n_slots, memory + layout.pins)) &&
           slabs_adopt(&store->written, shared->n_slots, memory + layout.written);
}

bool shared_take_slot(struct store *store, uint64_t key, uint32_t *slot)
{
    _Atomic uint64_t *n_slots = &store->counts->n_slots;
    if (store->index == TERN_SPARSE && store_take_free(store, slot))
        return true;
    if (!store_take_bytes(store))
        return false;
    uint64_t n = atomic_load_explicit(n_slots, memory_order_relaxed);
    do {
        if (n >= store->home.shared->n_slots)
            return false; /* and there is none later on: what was counted need not be given back */
    } while (!atomic_compare_exchange_weak_explicit(n_slots, &n, n + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    *slot = (uint32_t)(store->index == TERN_DENSE ? key : n);
    return true;
}
