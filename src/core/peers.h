/*
 * peers - what a node knows of the others: where they are, which process joined as which node, and which are dead.
 *
 * Addresses, incarnations and hosts are written once, by the answer to JOIN. The rest is written by any thread and read by all:
 * relaxed atomics, because each says all there is to know.
 */
#ifndef CORE_PEERS_H
#define CORE_PEERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/view.h"

struct peers {
    const struct view *view;
    uint64_t deadline_ns;
    char (*addresses)[256]; /* by node */
    uint64_t *incarnations; /* by node; 0: not known yet */
    uint64_t *hosts;       /* by node; those with the same one can share memory, 0: with no other */
    _Atomic uint32_t dead; /* 1 + the number of a node that was given up; 0: none */
    _Atomic uint32_t
        unserved; /* 1 + the number of a node at whose address nobody listens, until it is told; 0: none */
    _Atomic uint64_t
        held; /* the last HOLD that counts: its time in ns, times HOLD_HOPS, plus its hops */
    atomic_bool stop; /* this node ends: whoever waits gives up */
};

enum tern_status peers_init(struct peers *peers, const struct view *view, uint64_t deadline_ns);
void peers_fini(struct peers *peers);

/* Reads the answer to JOIN: the addresses, incarnations and hosts of all nodes. */
enum tern_status peers_read_roster(struct peers *peers, const uint8_t *bytes, size_t size);

/* Whether a process is the one that joined as this node, as far as is known. */
bool peers_is_member(const struct peers *peers, uint32_t node, uint64_t incarnation);

/* A node was given up, by the coordinator or because it is the coordinator and does not answer. */
void peers_give_up(struct peers *peers, uint32_t node);

/* The node that was given up: 1 + its number, or 0. */
static inline uint32_t peers_dead(const struct peers *peers)
{
    return atomic_load_explicit(&peers->dead, memory_order_relaxed);
}

/*
 * Another node has said that a request of this one waits for a good reason. The node that waits for the program, as for a table to
 * be opened, says so with no hops; a node that waits for such a one tells those that wait for it, with one hop more. So
 * nodes that wait for each other stop saying so soon after the reason is gone: a HOLD with HOLD_HOPS hops counts no more.
 */
enum { HOLD_HOPS = 4 };
void peers_take_hold(struct peers *peers, uint64_t hops, uint64_t now_ns);

/* When that was last so. */
static inline uint64_t peers_held_ns(const struct peers *peers)
{
    return atomic_load_explicit(&peers->held, memory_order_relaxed) / HOLD_HOPS;
}

/* The hops with which this node tells that it waits for a good reason itself; HOLD_HOPS: it does not. */
uint64_t peers_hold_hops(const struct peers *peers, uint64_t now_ns);

/* The failure of whatever needs all nodes once one is known to be dead; TERN_OK while none is. */
enum tern_status peers_check_dead(const struct peers *peers);

#endif
