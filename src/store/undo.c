/* undo - see undo.h. */
#include "store/undo.h"

#include <string.h>

enum {
    MOST_GATES = 1024,    /* of a dense table, */
    LEAST_GATES = 64,     /* and if its rows are long */
    ALL_BYTES = 16 << 20, /* that they take unless there are only so few */
    KEYS_OF_A_LINE = 8,   /* whose entries share a cache line, and so a gate */
};

_Static_assert((int)LEAST_GATES == (int)SPARSE_STRIPES, "a gate for each stripe");

struct gates_layout undo_layout(const struct tern_table_options *options, size_t row_stride,
                                size_t state_stride)
{
    if (!options->backups)
        return (struct gates_layout){0};
    const size_t bytes = sizeof(struct gate) + row_stride + state_stride;
    const size_t stride = (bytes + 63) / 64 * 64;
    uint32_t n = LEAST_GATES;
    while (options->index == TERN_DENSE && n < MOST_GATES && 2 * n * stride <= ALL_BYTES)
        n *= 2;
    return (struct gates_layout){n, stride};
}

static uint32_t number_of(const struct store *store, uint64_t key)
{
    return store->index == TERN_SPARSE ? sparse_stripe(store->sparse, key)
                                       : (uint32_t)(key / KEYS_OF_A_LINE) & (store->n_gates - 1);
}

static struct gate *gate_at(const struct store *store, uint32_t number)
{
    return (struct gate *)(store->gates + number * store->gate_stride);
}

static struct gate *gate_of(const struct store *store, uint64_t key)
{
    return gate_at(store, number_of(store, key));
}

/* Release: what was written before is there before the stage. The fence, which is no instruction, keeps what follows behind
 * it: a process that dies has executed its instructions in their order. */
static void set_stage(struct gate *gate, enum gate_stage stage)
{
    fault_point();
    atomic_store_explicit(&gate->stage, stage, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    fault_point();
}

/* ---- The holder of a gate ------------------------------------------------------------------------ */

/* Acquire: partner of the release in release_gate. */
static bool take(const struct store *store, struct gate *gate)
{
    rank_waits(RANK_GATE, 0);
    for (struct spin spin = {0};;) {
        uint32_t nobody = 0;
        if (!atomic_load_explicit(&gate->holder, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&gate->holder, &nobody, store->process + 1,
                                                    memory_order_acquire, memory_order_relaxed)) {
            rank_took(RANK_GATE, 0);
            fault_point();
            return true;
        }
        if (!spin_again(&spin, store->watch))
            return false;
    }
}

static void release_gate(struct gate *gate)
{
    if (!fault(FAULT_UNDO_LEFT))
        set_stage(gate, GATE_REST);
    atomic_store_explicit(&gate->holder, 0, memory_order_release);
    fault_point();
}

bool undo_enter(const struct store *store, uint64_t key)
{
    struct gate *gate = gate_of(store, key);
    if (!take(store, gate))
        return false;
    gate->key = key;
    if (!fault(FAULT_UNDO_LEFT) || !gate->stage)
        set_stage(gate, GATE_KEY);
    return true;
}

void undo_leave(const struct store *store, uint64_t key)
{
    rank_released(RANK_GATE, 0);
    release_gate(gate_of(store, key));
}

void undo_make(const struct store *store, uint64_t key)
{
    struct gate *gate = gate_of(store, key);
    gate->n_rows_before = atomic_load_explicit(&gate->n_rows, memory_order_relaxed);
    set_stage(gate, GATE_MAKES);
}

static void count_made(struct gate *gate)
{
    atomic_store_explicit(&gate->n_rows, gate->n_rows_before + 1, memory_order_relaxed);
}

void undo_made(const struct store *store, uint64_t key)
{
    struct gate *gate = gate_of(store, key);
    fault_point();
    count_made(gate);
    set_stage(gate, GATE_KEY);
}

/* Copies a row and its state between a slot and the gate, part by part, so that a simulated process may die in between. */
static void copy_bytes(char *to, const char *from, size_t bytes)
{
    if (!fault_is_simulated) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0, n; i < bytes; i += n) {
        n = bytes - i < sizeof(uint64_t) ? bytes - i : sizeof(uint64_t);
        memcpy(to + i, from + i, n);
        fault_point();
    }
}

void undo_keep(const struct store *store, uint64_t key, uint32_t slot)
{
    struct gate *gate = gate_of(store, key);
    if (fault(FAULT_UNDO_EARLY))
        set_stage(gate, GATE_WRITES);
    copy_bytes(gate->row, slabs_at(&store->rows, slot), store->value_bytes);
    if (store->states.stride)
        copy_bytes(gate->row + store->rows.stride, store_state(store, slot), store->states.stride);
    set_stage(gate, GATE_WRITES);
}

void undo_visit(struct store *store, void (*visit)(void *, uint64_t key, uint64_t word),
                void *context)
{
    for (uint32_t stripe = 0; stripe < SPARSE_STRIPES; stripe++) {
        struct gate *gate = gate_at(store, stripe);
        if (!take(store, gate))
            return;
        (void)sparse_visit_lines(store->sparse, stripe, 0, UINT64_MAX, visit, context, NULL);
        rank_released(RANK_GATE, 0);
        release_gate(gate);
    }
}

uint64_t undo_rows(const struct store *store)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < store->n_gates; i++)
        n += atomic_load_explicit(&gate_at(store, i)->n_rows, memory_order_relaxed);
    return n;
}

/* ---- The gates of a process that is gone ----------------------------------------------------------- */

static void restore(const struct store *store, const struct gate *gate, uint32_t slot)
{
    copy_bytes(slabs_at(&store->rows, slot), gate->row, store->value_bytes);
    if (store->states.stride && !fault(FAULT_UNDO_NO_STATE))
        copy_bytes(store_state(store, slot), gate->row + store->rows.stride, store->states.stride);
}

/* The entry of the key of a gate that was taken over. Nobody else has latched it. */
static void mend_entry(struct store *store, struct gate *gate, enum gate_stage stage)
{
    struct entry *entry = store_find(store, gate->key);
    const uint64_t word = entry ? entry_read(entry) : 0;
    const bool is_latched = word & ENTRY_LATCHED;
    if (stage == GATE_MAKES && entry_has_row(word) && !fault(FAULT_ROW_UNCOUNTED))
        count_made(gate);
    if (stage == GATE_WRITES && (is_latched || fault(FAULT_UNDO_LATE)) &&
        !fault(FAULT_UNDO_SKIPPED))
        restore(store, gate, entry_slot(word));
    fault_point();
    if (is_latched)
        entry_release_same(entry, word & ~ENTRY_LATCHED);
}

static void mend_gate(struct store *store, uint32_t number)
{
    struct gate *gate = gate_at(store, number);
    const enum gate_stage stage = atomic_load_explicit(&gate->stage, memory_order_acquire);
    if (store->index == TERN_SPARSE)
        sparse_mend(store->sparse, number);
    if (stage != GATE_REST)
        mend_entry(store, gate, stage);
    set_stage(gate, GATE_REST);
    atomic_store_explicit(&gate->holder, 0, memory_order_release);
}

/* The gate of a process that is gone is this one's from the exchange on, with all that is to be mended behind it. */
size_t undo_mend(struct store *store, uint32_t process)
{
    size_t n = 0;
    for (uint32_t i = 0; i < store->n_gates; i++) {
        uint32_t gone = process + 1;
        const uint32_t own = fault(FAULT_GATE_LEFT) ? UINT32_MAX : store->process + 1;
        if (!atomic_compare_exchange_strong_explicit(&gate_at(store, i)->holder, &gone, own,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        fault_point();
        mend_gate(store, i);
        n++;
    }
    return n;
}
