/* common - see common.h. */
#include "store/common.h"

#include "base/pages.h"

enum {
    PART_BYTES = 4096, /* each part begins at a multiple of it */
    KEY_BYTES = 16,    /* of a sparse index, at the least */
};

/* Where the parts of a table begin. */
struct layout {
    uint64_t index, rows, states, end;
};

static uint64_t behind(uint64_t begin, uint64_t bytes)
{
    return (begin + bytes + PART_BYTES - 1) / PART_BYTES * PART_BYTES;
}

static struct layout lay_out(uint64_t index_bytes, uint64_t n_slots, size_t row_stride,
                             size_t state_stride)
{
    struct layout layout = {.index = behind(0, sizeof(struct common))};
    layout.rows = behind(layout.index, index_bytes);
    layout.states = behind(layout.rows, slabs_bytes(row_stride, n_slots));
    layout.end = behind(layout.states, slabs_bytes(state_stride, n_slots));
    return layout;
}

/* What is needed to know of a table. */
struct extent {
    uint64_t n_slots, index_bytes;
    unsigned index_bits;
    size_t row_stride, state_stride;
};

static struct extent measure(const struct tern_table_options *options)
{
    const size_t element = type_bytes(options->type);
    struct extent extent = {.row_stride = slabs_stride(options->length * element, element),
                            .state_stride = slabs_stride(store_state_bytes(options), element),
                            .n_slots = options->n_keys};
    extent.index_bytes = options->n_keys * sizeof(struct entry);
    if (options->index == TERN_DENSE)
        return extent;
    uint64_t machine = pages_machine_bytes(), limit = options->memory_limit_bytes;
    uint64_t most = (limit && limit < machine ? limit : machine) /
                    (extent.row_stride + extent.state_stride + KEY_BYTES);
    extent.n_slots = most < 1 ? 1 : most < TERN_MAX_ROWS ? most : TERN_MAX_ROWS;
    extent.index_bits = sparse_bits_for(extent.n_slots);
    extent.index_bytes = sparse_room_bytes(extent.index_bits);
    return extent;
}

uint64_t common_bytes(const struct tern_table_options *options)
{
    if (options->n_keys > TERN_MAX_ROWS)
        return 0;
    struct extent extent = measure(options);
    return lay_out(extent.index_bytes, extent.n_slots, extent.row_stride, extent.state_stride).end;
}

void common_format(struct common *common, const struct tern_table_options *options)
{
    struct extent extent = measure(options);
    common->n_slots = extent.n_slots;
    common->index_bits = extent.index_bits;
    char *room = (char *)common + lay_out(0, 1, 0, 0).index;
    if (options->index == TERN_SPARSE)
        sparse_init_common(&common->sparse, (struct index_line *)room, extent.index_bits);
}

bool common_lay_out(struct store *store)
{
    struct common *common = store->home.common;
    char *memory = (char *)common;
    uint64_t index_bytes = store->index == TERN_DENSE ? store->n_keys * sizeof(struct entry)
                                                      : sparse_room_bytes(common->index_bits);
    struct layout layout =
        lay_out(index_bytes, common->n_slots, store->rows.stride, store->states.stride);
    if (store->index == TERN_DENSE)
        store->dense = (struct entry *)(memory + layout.index);
    else
        store->sparse = &common->sparse;
    store->areas = common->sparse.areas;
    store->counts = &common->counts;
    return slabs_adopt(&store->rows, common->n_slots, memory + layout.rows) &&
           slabs_adopt(&store->states, common->n_slots, memory + layout.states);
}

bool common_take_slot(struct store *store, uint64_t key, uint32_t *slot)
{
    _Atomic uint64_t *n_slots = &store->counts->n_slots;
    uint64_t n = atomic_load_explicit(n_slots, memory_order_relaxed);
    size_t bytes = store->rows.stride + store->states.stride;
    do {
        if (n >= store->home.common->n_slots || bytes > store->limit_bytes ||
            store_memory_bytes(store) > store->limit_bytes - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(n_slots, &n, n + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    *slot = (uint32_t)(store->index == TERN_DENSE ? key : n);
    return true;
}

/* What common_find_stuck fills. */
struct found {
    struct stuck *stuck;
    size_t n, most;
};

/* Notes a word if it is latched by `latch`; who frees it adds `turn`. */
static void note(struct found *found, _Atomic uint64_t *word, uint64_t latch, uint64_t turn)
{
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    if (seen & latch && found->n < found->most)
        found->stuck[found->n++] =
            (struct stuck){.word = word, .seen = seen, .freed = (seen & ~latch) + turn};
}

static void note_entry(void *context, struct entry *entry)
{
    note(context, &entry->word, ENTRY_LATCHED, ENTRY_SEQUENCE);
}

size_t common_find_stuck(const struct store *store, struct stuck *stuck, size_t most)
{
    struct found found = {.stuck = stuck, .most = most};
    for (size_t i = 0; i < AREAS; i++)
        note(&found, &store->areas[i].turn, 1, 2);
    if (store->index == TERN_SPARSE)
        sparse_visit_entries(store->sparse, note_entry, &found);
    for (uint64_t key = 0; store->index == TERN_DENSE && key < store->n_keys; key++)
        note_entry(&found, &store->dense[key]);
    return found.n;
}

void common_free_stuck(const struct stuck *stuck, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t seen = stuck[i].seen;
        atomic_compare_exchange_strong(stuck[i].word, &seen, stuck[i].freed);
    }
}
