/*
 * traffic - the bytes that each node has sent and received for its accesses to keys of each other node, in the epochs of a
 * training. See train.h.
 *
 * A node counts what it serves to others (tern_table_get_served), which has requests and replies. What happens between epochs,
 * such as evaluation, is left out. The main thread of each node calls these functions; traffic_report() all nodes together.
 */
#ifndef TASKS_TRAFFIC_H
#define TASKS_TRAFFIC_H

#include "common/train.h"

enum { TRAFFIC_MAX_NODES = 64 }; /* with more of them nothing is counted */

struct traffic {
    double before[TRAFFIC_MAX_NODES]; /* served by this node to each when the epoch began */
    double served[TRAFFIC_MAX_NODES]; /* and in all epochs */
};

/* Before an epoch and after it. All nodes have called one of them before any goes on to what must not, or must, be counted: between
 * them and that is something that all do together. */
void traffic_begin(const struct train *train, struct traffic *traffic);
void traffic_end(const struct train *train, struct traffic *traffic);

/* With --json node 0 prints a line {"traffic":[[...],...]}: rows are nodes that use keys, columns those that have them. Nothing
 * if nobody has sent any. */
bool traffic_report(struct train *train, const struct traffic *traffic);

#endif
