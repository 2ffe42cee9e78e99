/*
 * exclusive - a worker that has the rows of its node for itself, and latches none.
 *
 * On a node in no cluster only workers read and change rows. A worker that is the only open one is exclusive: its pushes and
 * sets need no locked instruction, which costs more than all the rest of a push of a single number (figures in
 * docs/decisions/005-batched-writes.md).
 *
 *  1. A worker becomes exclusive, and ceases to be, under the node's lock. exclusive_begin tells the worker which it is;
 *     exclusive_begin and exclusive_end enclose what it changes without latches: one block of keys, so never for long.
 *  2. A thread that opens a second worker first makes the first one not exclusive, then has all threads of the process pass a
 *     memory barrier (base/barrier.h), then waits while the first is between begin and end. If the first began before the
 *     barrier, the opener sees that it is changing rows, and waits; if it begins later, it sees that it is not exclusive.
 *  3. Between begin and end a worker takes no lock that the waiting thread may hold, and of the program calls only a table's
 *     updater, which must not call Tern.
 *  4. A worker leaves what it changed as if it had latched it: whoever comes later needs to know nothing of this.
 */
#ifndef NODE_EXCLUSIVE_H
#define NODE_EXCLUSIVE_H

#include "node/node.h"

/* Whether the worker may change rows without latches until exclusive_end. Acquire: partner of the release in
 * exclusive_close; what workers that are closed have changed is visible. */
static inline bool exclusive_begin(struct tern_worker *worker)
{
    atomic_store_explicit(&worker->space->is_changing, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the processor's part: barrier_everywhere */
    return atomic_load_explicit(&worker->is_exclusive, memory_order_acquire);
}

/* Release: partner of the acquire in exclusive_open. */
static inline void exclusive_end(struct tern_worker *worker)
{
    atomic_store_explicit(&worker->space->is_changing, false, memory_order_release);
}

/* Decides for a worker that was just put in front of the node's list, and for the one behind it. The caller
 * holds the node's lock, as for the next. */
enum tern_status exclusive_open(struct tern_worker *worker);

/* Lets no worker be exclusive until exclusive_close: somebody else looks at the rows. */
enum tern_status exclusive_suspend(struct tern_node *node);

/* Decides again, after a worker was taken out of the list or after exclusive_suspend. */
void exclusive_close(struct tern_node *node);

#endif
