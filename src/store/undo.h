/*
 * undo - what a process that dies in the middle of a write has begun in a shared-memory table with backups, others take back.
 *
 * In such a table the rows and the sparse index are written behind *gates* alone. The keys are cut into parts, and each part
 * has one gate; in a sparse table it is that of the stripe of the index. A gate says in one word which process has it, and
 * keeps what is needed to undo the write that is under way behind it.
 *
 *  1. Whoever latches an entry, makes a row, or visits, changes or grows a stripe of a sparse index holds the gate. So behind a
 *     gate that was taken no latch is waited for.
 *  2. Before a row or its updater's state is written, both are copied to the gate, and only then the gate's stage says that
 *     they are there. The write is over when the entry's latch is released.
 *  3. When a process is known to be gone, another one takes its gates over (undo_mend): it finishes a growth of the index,
 *     restores the row if its entry is still latched, and releases both. Each step can be done again, by a third process, if
 *     the one that mends dies as well.
 *  4. No gate of a process is taken over before that process is gone, so that it cannot go on and write (node/watcher.h).
 *
 * Readers know nothing of gates: they wait while an entry is latched, and see by its sequence that a row was restored.
 *
 * A process that dies may leave a slot that no row uses, and memory of the index that was counted and not used; nothing else.
 *
 * Any thread may call anything here.
 */
#ifndef STORE_UNDO_H
#define STORE_UNDO_H

#include "store/store.h"

/* What the holder of a gate is doing. */
enum gate_stage {
    GATE_REST,  /* nothing that others must take back */
    GATE_KEY,   /* the entry of `key` may be latched or half inserted; its row is whole */
    GATE_MAKES, /* a row of `key` is being made */
    GATE_WRITES /* the row of `key` is being written, and was as the copy is */
};

struct gate {
    _Atomic uint32_t holder; /* 1 + the process; 0: nobody */
    _Atomic uint32_t stage;
    uint64_t key;
    _Atomic uint64_t n_rows;                 /* of the part, */
    uint64_t n_rows_before;                  /* and before the one that is being made */
    char row[] __attribute__((aligned(64))); /* the copy; behind it that of the updater's state */
};

/* The gates of a table, and the memory of each; 0 gates if it has no backups. */
struct gates_layout {
    uint32_t n;
    size_t stride;
};
struct gates_layout undo_layout(const struct tern_table_options *options, size_t row_stride,
                                size_t state_stride);

/* Takes the gate of a key; false if the wait was given up. */
bool undo_enter(const struct store *store, uint64_t key);
void undo_leave(const struct store *store, uint64_t key);

/* The same in a table that may have none. */
static inline bool store_enter_gate(const struct store *store, uint64_t key)
{
    return !store->gates || undo_enter(store, key);
}

static inline void store_leave_gate(const struct store *store, uint64_t key)
{
    if (store->gates)
        undo_leave(store, key);
}

/* The row of a key, whose gate the caller holds, is about to be made; and was. */
void undo_make(const struct store *store, uint64_t key);
void undo_made(const struct store *store, uint64_t key);

/* A latched row of a key, whose gate the caller holds, is about to be written. */
void undo_keep(const struct store *store, uint64_t key, uint32_t slot);

/* As sparse_visit. */
void undo_visit(struct store *store, void (*visit)(void *, uint64_t key, uint64_t word),
                void *context);

/* Takes back, or finishes, what a process that is gone has begun; the number of its gates. */
size_t undo_mend(struct store *store, uint32_t process);

#endif
