/*
 * ownership_check - what must hold of the keys of managed tables, over all nodes of a simulated cluster.
 *
 *  1. At any time the main copy of a key is in exactly one place: the store of one node, or one answer to
 *     a round, which its server keeps and the node that asked has not taken yet.
 *  2. When a node's workers have waited for two rounds that left nothing over, main copies have all that they
 *     wrote, in tables of all policies, whatever others do meanwhile.
 *  3. When all is quiet, whoever has a row of a key has everything that was done to it; a key whose
 *     intent has begun is where it is intended, and there is no replica without intent.
 *  4. When all workers are closed, there are no replicas but of listed keys, the home of every key knows
 *     where it is, and whoever follows what any node believes arrives there. No slot of a table is lost.
 *
 * Once something has failed for good a main copy may be gone with the process that had it, or with an
 * answer that never came. There are never two.
 */
#ifndef SIM_OWNERSHIP_CHECK_H
#define SIM_OWNERSHIP_CHECK_H

#include "sim/machine.h"

/* One key, at any time. */
void ownership_check(struct machine *const *machines, enum sim_table table, uint32_t index);

/* The workers of a node have flushed: the main copies have what they wrote, of some keys in each phase. */
void ownership_check_flushed(const struct machine *machine);

/* What one node has, after QUIET_PHASE. */
void ownership_check_quiet(const struct machine *machine);

/* All, when the run is over. */
void ownership_check_end(struct machine *const *machines);

#endif
