/*
 * order - the order of one worker's operations on a key, where keys come and go.
 *
 *  1. Keys that are at another node when an operation starts may be here when the next one does, which would then overtake
 *     it. So the keys under way are counted, and an operation on one of them waits until those before it are done. (Where
 *     every node has replicas, this concerns sets, which are made at the main copy.) Tables are not told apart: an
 *     operation may wait for an equal key of another table.
 *  2. Of several sets of a key in one operation the last one stays. If the key comes or goes meanwhile, some of them are
 *     made here and others would be made at another node later: of those that are left for others, only a key's last one
 *     counts, and only if no later one was made here.
 *  3. After a write at another node, a worker continues only when it will see what it wrote: when everything that owners
 *     had pending for replicas, of which they knew all the time, has arrived. An owner may not know of a replica as long as
 *     it is pinned, so the wait ends after MOST_SWEEPS sweeps.
 *
 * node/ticket.c and node/away.c wait by these rules with a thread, sim/worker.c with events. Pure; an order belongs to one
 * worker's thread.
 */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include "base/keymap.h"
#include "core/client.h"
#include "core/io.h"

/* Zeroed, nothing is under way. */
struct order {
    struct keymap under_way; /* in how many operations a key is */
    struct keymap last;      /* the last position of keys in a call; empty between calls */
};

void order_fini(struct order *order);

/* Whether an operation on these keys must wait for earlier ones. */
bool order_must_wait(const struct order *order, const struct core_table *table,
                     const uint64_t *keys, size_t n);

/* Makes room for an operation of which n keys are at other nodes; false when memory runs out. */
bool order_reserve(struct order *order, const struct core_table *table, size_t n);

/* An operation has been started (client_start), after order_reserve; and is done, before op_end. */
void order_began(struct order *order, const struct op *op);
void order_ended(struct order *order, const struct op *op);

/* Of a set of n keys, made here except at the positions in `away`: leaves there what rule 2 leaves for other nodes. */
enum tern_status order_leave_last(struct order *order, const struct core_table *table,
                                  const uint64_t *keys, size_t n, uint32_t *away, size_t *n_away);

/* How far a worker has come with rule 3; zeroed at first. */
struct catch_up {
    unsigned n_sweeps;        /* that it has waited for */
    bool outran_unregistered; /* one more is to follow (client.h) */
};

/* An operation is done, and the sweeps that its worker waited for are over. True if the worker waits for the next sweep of
 * every shard. */
bool order_catches_up(struct catch_up *catch_up, const struct op *op, const struct io *io,
                      void *driver);

#endif
