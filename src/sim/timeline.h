/*
 * timeline - virtual time of a predicted cluster: events in their order, links with a rate and a delay, cores that nodes share.
 *
 * A message leaves its node when those before it have left, at the rate of the node's link, takes the delay, and enters the other
 * node at the same rate behind those that came before. Each packet carries HEADER_BYTES beside its part of the message. Nodes that
 * share a core run in turns of one slice each, whether they have something to do or not; the turns of the cores are not in step.
 */
#ifndef SIM_TIMELINE_H
#define SIM_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/sim.h"

/* What one node has written to another. */
struct letter {
    struct letter *next;
    uint32_t from, to;
    uint32_t caller; /* whose lane it is of, at the node that asks */
    bool is_reply;
    size_t n;
    uint8_t bytes[];
};

enum { TIMELINE_HELP = 0 };

struct timeline_event {
    uint64_t at_ns, order;
    struct letter *letter; /* that arrives; NULL: the node goes on */
    uint32_t node;
    uint32_t
        generation; /* of a node that goes on: how often it was planned; TIMELINE_HELP: its threads do */
};

struct timeline_link {
    uint64_t sent_ns, received_ns; /* when it is free again */
    uint64_t busy_ns[2];           /* that it was in use so far: out, in */
};

struct timeline {
    const struct tern_sim_workload *workload;
    uint64_t now_ns, n_planned, n_events;
    struct timeline_event *heap;
    size_t n, max;
    struct timeline_link *links; /* by node */
    bool no_memory;
};

/* False when memory runs out. */
bool timeline_init(struct timeline *timeline, const struct tern_sim_workload *workload);
void timeline_fini(struct timeline *timeline);

/* The node goes on at a time. */
void timeline_plan(struct timeline *timeline, uint32_t node, uint32_t generation, uint64_t at_ns);

/* Sends bytes at a time. */
void timeline_send(struct timeline *timeline, const struct letter *head, const uint8_t *bytes,
                   uint64_t at_ns);

/* The next event; its letter is the caller's to free. False when there is none, or memory has run out. */
bool timeline_next(struct timeline *timeline, struct timeline_event *event);

/* Whether a node has its core; and else, since when it does not. */
bool timeline_has_core(const struct timeline *timeline, uint32_t node, uint64_t at_ns,
                       uint64_t *since_ns);

/* When work of a node that begins at a time is done, with work_ns of its core. */
uint64_t timeline_done_ns(const struct timeline *timeline, uint32_t node, uint64_t at_ns,
                          uint64_t work_ns);

#endif
