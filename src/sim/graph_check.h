/*
 * graph_check - what pulls under the policy graph:S must show, exactly as it promises (core/graph.h). Every push adds 1 to one
 * element of a row, so the sum of a row is the number of updates that it has; that of the main copy is looked up where it is.
 *
 * Within: what a pull returns lacks at most S of the updates that the main copy had when the pull began. Between: a value of a
 * replica that lacks any of these is at most S updates behind every other key of the pull, counted by frequency. A pull in which
 * a process dies is not checked: what is lost with that may be among the updates that the main copy had.
 */
#ifndef SIM_GRAPH_CHECK_H
#define SIM_GRAPH_CHECK_H

#include "sim/check.h"

/* A pull begins: notes how many updates the main copies have. */
void graph_check_begin(struct check *check, struct operation *operation);

/* It has ended well. */
void graph_check_end(struct check *check, const struct operation *operation);

#endif
