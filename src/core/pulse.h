/*
 * pulse - a node's sign of life, by which it also learns which nodes are dead.
 *
 *  1. Every quarter of the deadline (pulse_pause_ns) a node sends PING to the coordinator, on lanes of its own, so that
 *     nothing else it waits for can delay it.
 *  2. The answer names a dead node, or none. A coordinator that does not answer is dead itself.
 *  3. The answer also has the present view, if that is later than the node's: the others go on without nodes that it does not
 *     have. The driver replaces the node's view (backup_change_view).
 *     PING names a node at whose address nobody listens. If that has no connection to the coordinator either, its process has
 *     ended, and nobody waits for its deadline.
 *  4. A node that was named is given up (peers.h): whatever needs all nodes fails from then on.
 *
 * The driver waits for the answer and for the pause. A pulse belongs to one thread.
 */
#ifndef CORE_PULSE_H
#define CORE_PULSE_H

#include "core/lanes.h"

struct pulse {
    struct lanes *lanes;
    struct op op; /* the PING under way */
    bool is_asking;
};

/* The lanes are the pulse's alone. */
void pulse_init(struct pulse *pulse, struct lanes *lanes);

/* Asks; false when memory runs out or a PING is under way. The op is done when it is answered or has failed. `formed` is the epoch
 * of the view if all backups of the node's rows are complete under it (backup_is_flushed), else 0. */
bool pulse_ask(struct pulse *pulse, uint32_t formed);

/* Ends a PING that is done. Returns its status; *dead is the number of a node that was given up, plus 1, or 0. The bytes of a
 * view that is later than this node's are appended to `view`, for view_read. */
enum tern_status pulse_hear(struct pulse *pulse, uint32_t *dead, struct buffer *view);

/* From one PING to the next. */
uint64_t pulse_pause_ns(const struct peers *peers);

#endif
